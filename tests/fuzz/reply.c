/* reply.c - libFuzzer: what mgpu-stat makes of answers. The first byte says
 * which view, the second how it is shown; then up to three JSON texts with a
 * line "%%" between them.
 *
 * Names and reasons in them are other people's: nothing that a terminal obeys
 * comes out, and nothing that is not UTF-8.
 */
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/common/columns.h"
#include "scheduler/tools/views/show.h"

enum { DOCS = 3, DEPTH_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *docs[DOCS];

/* From its text it looks the same, where it is shown from that. */
static void queue_by_text(struct show_conf s)
{
    char *text = json_dumps(docs[0], JSON_COMPACT), *by_text = NULL,
         *by_tree = NULL;
    size_t len = 0;
    bool is_shown = false;
    FILE *one = open_memstream(&by_text, &len), *two;
    if (!text || !one)
        abort();
    s.sort = NULL;
    s.out = one;
    int rc = show_queue_text(&s, text, strlen(text), &is_shown, NULL);
    (void)fclose(one);
    json_decref(docs[0]); /* as it was written, reals as well */
    docs[0] = json_loads(text, 0, NULL);
    s.out = two = open_memstream(&by_tree, &len);
    if (!two || !docs[0])
        abort();
    if (show_queue(&s, docs[0], NULL) < 0 && rc == 0 && is_shown)
        abort();
    (void)fclose(two);
    if (rc == 0 && is_shown && strcmp(by_text, by_tree) != 0)
        abort();
    free(text);
    free(by_text);
    free(by_tree);
}

static int queue(const struct show_conf *s, struct error *err)
{
    queue_by_text(*s);
    return show_queue(s, docs[0], err);
}

static int job(const struct show_conf *s, struct error *err)
{
    return show_job(s, docs[0], docs[1], docs[2], err);
}

static int sweep(const struct show_conf *s, struct error *err)
{
    return show_sweep(s, docs[0], docs[1], err);
}

static int metrics(const struct show_conf *s, struct error *err)
{
    struct metric_set own = {.n = 0};
    int rc = metric_set_take(
        &own, docs[1], json_array_size(json_object_get(docs[1], "rows")), err);
    if (rc == 0)
        rc = show_metrics(s, docs[0], &own, err);
    metric_set_clear(&own);
    return rc;
}

static int epochs(const struct show_conf *s, struct error *err)
{
    return show_epochs(s, docs[0], err);
}

static int profile(const struct show_conf *s, struct error *err)
{
    return show_profile(s, docs[0], docs[1], err);
}

static int scaling(const struct show_conf *s, struct error *err)
{
    return show_scaling(s, docs[0], err);
}

static int eff(const struct show_conf *s, struct error *err)
{
    return show_eff(s, docs[0], docs[1], docs[2], err);
}

static int events(const struct show_conf *s, struct error *err)
{
    return show_events(s, docs[0], err);
}

static int why(const struct show_conf *s, struct error *err)
{
    return show_why(s, docs[0], docs[1], err);
}

static int nodes(const struct show_conf *s, struct error *err)
{
    return show_nodes(s, docs[0], err);
}

static int gpus(const struct show_conf *s, struct error *err)
{
    return show_gpus(s, docs[0], err);
}

static int status(const struct show_conf *s, struct error *err)
{
    return show_status(s, docs[0], err);
}

static int attempts(const struct show_conf *s, struct error *err)
{
    return show_attempts(s, docs[0], err);
}

/* The client hands on objects alone, and events of a stream are such, too. */
static void cut(const char *at, const char *end)
{
    for (int i = 0; i < DOCS; i++) {
        const char *next =
            at < end ? memmem(at, (size_t)(end - at), "\n%%\n", 4) : NULL;
        docs[i] = at < end ? json_loadb(at, (size_t)((next ? next : end) - at),
                                        JSON_REJECT_DUPLICATES, NULL)
                           : NULL;
        at = next ? next + 4 : end;
    }
}

static void check(const char *text, size_t len)
{
    const char *p = text, *end = text + len;
    while (p < end) {
        int32_t cp = text_next(&p, end);
        if (cp < 0 || (cp != '\n' && text_is_control(cp)) || cp == '\t' ||
            cp == '\r' || cp == 0x200b || cp == 0x202e) {
            (void)fprintf(stderr, "U+%04X in: %.*s\n", (unsigned)cp, (int)len,
                          text);
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const views[])(const struct show_conf *, struct error *) = {
        queue, job,    sweep, metrics, epochs, profile, scaling,
        eff,   events, why,   nodes,   gpus,   status,  attempts};
    static const char *const formats[] = {NULL, "long", "why", "times"};
    static const char *const sorts[] = {NULL, "name", "-gpus", "state"};
    struct error err = ERROR_INIT;
    char *shown = NULL;
    size_t len = 0;
    static bool is_set;
    if (!is_set) /* as client.c does; in a C locale a cell is cut by bytes */
        is_set = setlocale(LC_ALL, "C.UTF-8") != NULL;
    if (size < 2 || !is_set)
        return 0;
    unsigned how = data[1];
    cut((const char *)data + 2, (const char *)data + size);
    bool is_attempts = views[data[0] % 14] == attempts;
    if (is_attempts ? json_is_array(docs[0]) : json_is_object(docs[0])) {
        struct show_conf s = {.header = how & 1,
                              .expand = how & 2,
                              .style = {.columns = how & 4 ? 80 : 0,
                                        .rows = 24,
                                        .ascii = how & 8},
                              .format = formats[how >> 4 & 3],
                              .sort = sorts[how >> 6 & 3],
                              .out = open_memstream(&shown, &len)};
        if (!s.out)
            abort();
        (void)views[data[0] % 14](&s, &err);
        (void)fclose(s.out);
        check(shown, len);
        free(shown);
    }
    for (int i = 0; i < DOCS; i++)
        json_decref(docs[i]);
    return 0;
}
