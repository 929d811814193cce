/* codec.c - libFuzzer: an event's detail as state.db has it, of a submit or
 * of any other; and admin.log. What is read can be written, and is then read
 * as the same: the second writing equals the first. With a blank before
 * its last brace it is read by the JSON library, and says the same.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/engine/events/event_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NULL: it has no brace. own  the caller frees */
static char *with_blank(const char *text)
{
    const char *last = strrchr(text, '}');
    char *with = NULL;
    if (last && asprintf(&with, "%.*s %s", (int)(last - text), text, last) < 0)
        abort();
    return with;
}

static void detail_by_library(const char *text, const char *wanted)
{
    struct detail d;
    char *with = with_blank(text), *one = NULL;
    if (with && (detail_decode(with, &d, NULL) < 0 ||
                 detail_encode(&d, &one, NULL) < 0 || !one != !wanted ||
                 (one && strcmp(one, wanted) != 0)))
        abort();
    free(with);
    free(one);
}

static void detail(const char *text)
{
    struct detail d, again;
    char *one = NULL, *two = NULL;
    if (detail_decode(text, &d, NULL) < 0)
        return;
    if (detail_encode(&d, &one, NULL) < 0 ||
        detail_decode(one, &again, NULL) < 0 ||
        detail_encode(&again, &two, NULL) < 0 || !one != !two ||
        (one && strcmp(one, two) != 0))
        abort();
    detail_by_library(text, one);
    free(one);
    free(two);
}

static void take(struct job *j, const struct texts *own)
{
    j->spec = own->spec;
    j->key = own->key;
    j->dir = own->dir;
    j->rules = own->rules;
}

static void submit_by_library(const char *text, const char *wanted)
{
    static struct job j;
    struct texts own = {.spec = NULL};
    char *with = with_blank(text), *one = NULL;
    j = (struct job){.id = 7};
    if (!with || submit_decode(with, NULL, &j, &own, NULL) < 0)
        abort();
    take(&j, &own);
    if (submit_encode(&j, own.class, own.program, &one, NULL) < 0 ||
        strcmp(one, wanted) != 0)
        abort();
    texts_clear(&own);
    free(with);
    free(one);
}

static void submit(const char *text)
{
    static struct job j, k;
    struct texts own = {.spec = NULL}, owns = {.spec = NULL};
    char *one = NULL, *two = NULL;
    j = k = (struct job){.id = 7};
    if (submit_decode(text, NULL, &j, &own, NULL) < 0)
        return;
    take(&j, &own);
    if (submit_encode(&j, own.class, own.program, &one, NULL) < 0)
        abort();
    submit_by_library(text, one);
    if (submit_decode(one, own.spec, &k, &owns, NULL) < 0)
        abort();
    take(&k, &owns);
    if (submit_encode(&k, owns.class, owns.program, &two, NULL) < 0 ||
        strcmp(one, two) != 0)
        abort();
    free(one);
    free(two);
    texts_clear(&own);
    texts_clear(&owns);
}

/* ---- admin.log -------------------------------------------------------------
 */
static char dir[64], path[80];

static void leave(void)
{
    (void)unlink(path);
    (void)rmdir(dir);
}

static void count(void *arg, const json_t *action)
{
    *(int *)arg += json_is_object(action);
}

static void audit(const char *text)
{
    struct audit_log *a = NULL;
    int n = 0;
    if (!dir[0]) {
        (void)snprintf(dir, sizeof(dir), "/tmp/mgpu-fuzz.XXXXXX");
        if (!mkdtemp(dir) || atexit(leave) != 0)
            abort();
        (void)snprintf(path, sizeof(path), "%s/admin.log", dir);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) < 0)
        abort();
    if (audit_log_open(dir, count, &n, &a, NULL) < 0)
        return;
    json_t *last = audit_log_last(a, 3, NULL);
    if (!last || json_array_size(last) != (size_t)(n < 3 ? n : 3))
        abort();
    json_decref(last);
    audit_log_close(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const char *) = {detail, submit, audit};
    char *text = size > 0 ? malloc(size) : NULL;
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    kinds[data[0] % 3](text);
    free(text);
    return 0;
}
