/* text.c - libFuzzer: small languages, one by the first byte: the papers' csv,
 * rules, durations and sizes, Slurm's words for GPUs, places.
 *
 * What is read and can be written is read as the same again.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/rule.h"
#include "jobs/scalar.h"
#include "scheduler/tools/paper.h"
#include "slurm/gres.h"
#include "slurm/place_text.h"

enum { SLOTS = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void paper(const char *text)
{
    struct paper p;
    struct error err = ERROR_INIT;
    if (paper_parse("fuzz", text, &p, &err) < 0) {
        if (err.code != ERR_INVAL && err.code != ERR_NOMEM)
            abort();
        return;
    }
    if (p.n_rows > PAPER_ROWS || p.n_keys > PAPER_KEYS || p.n_keys == 0)
        abort();
    for (size_t i = 0; i < p.n_rows; i++)
        for (size_t k = 0; k < p.n_keys; k++)
            if (strlen(p.rows[i].keys[k]) > strlen(text))
                abort();
    paper_clear(&p);
}

static void rule(const char *text)
{
    struct rule r;
    struct rule_end end = {.exit_code = 1, .reason = "out of memory"};
    if (rule_parse(text, &r, NULL) == 0 &&
        (r.lo > r.hi || r.action == RULE_NONE))
        abort();
    if (rule_parse(text, &r, NULL) == 0)
        (void)rule_fits(&r, &end);
    (void)rules_say(text, &end);
}

static void scalar(const char *text)
{
    char hint[SCALAR_HINT_CAP], shown[SCALAR_CAP];
    double s, again_s, v;
    int64_t bytes, again, i;
    bool yes;
    if (scalar_duration(text, &s, hint, NULL) == 0 && isfinite(s) &&
        (scalar_duration(scalar_show_duration(shown, s), &again_s, hint, NULL) <
             0 ||
         again_s != s))
        abort();
    if (scalar_size(text, &bytes, hint, NULL) == 0 &&
        (scalar_size(scalar_show_size(shown, bytes), &again, hint, NULL) < 0 ||
         again != bytes))
        abort();
    if (scalar_float(text, &v) == 0 && isfinite(v) &&
        (scalar_float(scalar_show_float(shown, v), &again_s) < 0 ||
         again_s != v))
        abort();
    (void)scalar_int(text, &i);
    (void)scalar_bool(text, &yes);
}

static void gres(const char *text)
{
    static struct gres_gpu gpu;
    static struct gres_kind kinds[GRES_KINDS_MAX];
    static unsigned char at[GRES_GPUS_MAX];
    size_t n = 0;
    for (const char *p = text; gres_next(&p, &gpu); n++)
        if (gpu.n < 0 || n > strlen(text) || p < text ||
            p > text + strlen(text))
            abort();
    n = gres_kinds(text, text, kinds);
    if (n < 1 || n > GRES_KINDS_MAX || gres_indexes(text, NULL, at) < 0)
        abort();
}

static void place(const char *text)
{
    static struct place_text t;
    static char shown[sizeof(t.text)];
    unsigned char used[SLOTS] = {0}, again[SLOTS] = {0};
    place_text_cut(text, shown, 8);
    if (place_text_parse(text, used, SLOTS, NULL) < 0)
        return;
    place_text_begin(&t);
    place_text_node(&t, "n1");
    for (int32_t i = 0; i < SLOTS; i++)
        if (used[i])
            place_text_index(&t, i);
    place_text_end(&t, shown, sizeof(shown));
    if (place_text_parse(shown, again, SLOTS, NULL) < 0 ||
        memcmp(used, again, sizeof(used)) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const languages[])(const char *) = {paper, rule, scalar, gres,
                                                      place};
    char *text = size > 0 ? malloc(size) : NULL;
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    languages[data[0] % (sizeof(languages) / sizeof(languages[0]))](text);
    free(text);
    return 0;
}
