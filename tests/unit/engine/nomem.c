/* nomem.c - every allocation of the codec fails once, those that the JSON
 * library makes for it among them: that is no damaged event.
 *
 * The program is linked with --wrap, see unit/jobs/nomem.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/events/event_codec.h"
#include "scheduler/engine/events/json_nomem.h"
#include "tests/tap.h"

enum { CALLS_MAX = 5000 };

void *__real_malloc(size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
char *__wrap_strdup(const char *s);

static int left = -1; /* allocations that still succeed; -1: all */
static bool hit;

static bool fails(void)
{
    if (left < 0 || left-- > 0)
        return false;
    left = -1;
    hit = true;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

/* ---- what is tried --------------------------------------------------------
 * Texts and numbers that are longer than the library's first buffer.
 */
static const char detail[] =
    "{\"native_id\":\"1234567890123456789012345678901234567890\","
    "\"place\":\"n1:0,1,2,3 n2:0,1,2,3\",\"why\":\"a reason of some length, so "
    "that it needs room\",\"exit_code\":17,\"iteration\":1234567890123456789,"
    "\"loss\":0.12345678901234567}";
static const char submit[] =
    "{\"spec\":{\"version\":1,\"name\":\"a\"},\"user\":\"anna\",\"key\":"
    "\"0123456789012345678901234567890123456789\",\"name\":\"a\",\"kind\":"
    "\"command\",\"priority\":0,\"gpus_min\":1,\"gpus_max\":12,\"nodes_min\":1,"
    "\"nodes_max\":1,\"limit_s\":null,\"grace_s\":120.0,\"retry_max\":2,"
    "\"depends\":[\"afterok:3\"],\"where\":"
    "{\"partition\":\"gpu\"},\"dir\":\"/d\",\"rules\":\"exit:75 retry\","
    "\"sweep\":{\"id\":7,\"task\":0,\"tasks\":2,\"max_parallel\":0,"
    "\"stop_on_fail\":false,\"vary\":{\"train.lr\":0.125}}}";

/* 0: as it has to be; else the error's code, or ERR_INTERNAL for another
 * content. */
static enum err_code decode_detail(void)
{
    struct detail d;
    struct error err = ERROR_INIT;
    if (detail_decode(detail, &d, &err) < 0)
        return err.code;
    return d.exit_code == 17 && d.iteration == 1234567890123456789 &&
                   d.loss == 0.12345678901234567 && strlen(d.native_id) == 40 &&
                   strcmp(d.place, "n1:0,1,2,3 n2:0,1,2,3") == 0
               ? ERR_NONE
               : ERR_INTERNAL;
}

static enum err_code decode_submit(void)
{
    struct job j = {.id = 7};
    struct texts own;
    struct error err = ERROR_INIT;
    if (submit_decode(submit, NULL, &j, &own, &err) < 0)
        return err.code;
    bool is_same = strlen(own.key) == 40 && strcmp(own.dir, "/d") == 0 &&
                   j.gpus_max == 12 && j.n_depends == 1 &&
                   strcmp(j.where.partition, "gpu") == 0 &&
                   strcmp(own.vary, "{\"train.lr\":0.125}") == 0 &&
                   strcmp(own.spec, "{\"version\":1,\"name\":\"a\"}") == 0;
    texts_clear(&own);
    return is_same ? ERR_NONE : ERR_INTERNAL;
}

/* What is written has all that was said, or is not written. */
static enum err_code encode_detail(void)
{
    struct detail d = DETAIL_INIT;
    struct error err = ERROR_INIT;
    char *text = NULL;
    (void)strcpy(d.holder, "n1 4711 1795356927");
    (void)strcpy(d.why, "a reason of some length, so that it needs room");
    d.exit_code = 17;
    if (detail_encode(&d, &text, &err) < 0)
        return err.code;
    bool is_same = text && strstr(text, "\"holder\":\"n1 4711 1795356927\"") &&
                   strstr(text, "\"exit_code\":17") &&
                   strstr(text, "so that it needs room");
    free(text);
    return is_same ? ERR_NONE : ERR_INTERNAL;
}

static enum err_code encode_submit(void)
{
    struct depend after = {.job = 3, .kind = DEPEND_OK, .task = -1};
    const struct job j = {.id = 7,
                          .user = "anna",
                          .key = "k",
                          .name = "a",
                          .kind = "command",
                          .spec = "{\"version\":1}",
                          .dir = "/d",
                          .rules = "exit:75 retry",
                          .limit_s = 600,
                          .grace_s = 120,
                          .gpus_min = 1,
                          .gpus_max = 12,
                          .per_node = 4,
                          .begin_s = 1795356927,
                          .depends = &after,
                          .n_depends = 1,
                          .where = {.partition = "gpu",
                                    .account = "lab",
                                    .memory_bytes = 1 << 30}};
    struct error err = ERROR_INIT;
    char *text = NULL;
    static char whole[2000];
    if (submit_encode(&j, "c", "program/p", &text, &err) < 0)
        return err.code;
    if (!whole[0])
        (void)snprintf(whole, sizeof(whole), "%s", text);
    bool is_same = strcmp(text, whole) == 0;
    free(text);
    return is_same ? ERR_NONE : ERR_INTERNAL;
}

static void each_fails(enum err_code (*decode)(void), const char *what)
{
    int n = 0, n_bad = 0;
    is_int(decode(), ERR_NONE, what);
    for (hit = true; hit && n < CALLS_MAX; n++) {
        hit = false;
        left = n;
        enum err_code code = decode();
        left = -1;
        if (code != (hit ? ERR_NOMEM : ERR_NONE) && n_bad++ == 0)
            tap_diag("%s: allocation %d fails: code %d", what, n, (int)code);
    }
    ok(n_bad == 0 && n > 10 && n < CALLS_MAX,
       "%s: each of %d allocations fails as one", what, n - 1);
}

int main(void)
{
    nomem_watch();
    each_fails(decode_detail, "an event's detail");
    each_fails(decode_submit, "a submit's");
    each_fails(encode_detail, "a detail that is written");
    each_fails(encode_submit, "a submit that is written");
    return tap_done();
}
