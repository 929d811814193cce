/* efficiency.c - the advice to a job over HTTP: its figures, its sentences,
 * which rows count, and who may read it. */
#include "tests/unit/ctld/rig.h"

static void says(struct rig *r, const char *what, const char *text)
{
    ok(has(r, text), "  %s: %s", what, buf_str(&r->body));
}

/* Iterations FROM to TO of one second each, of which it waits for data. */
static size_t report(struct rig *r, const char *path, int from, int to,
                     double data_s)
{
    static char text[64 * 1024];
    size_t at = 0;
    for (int i = from; i <= to; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "{\"iteration\":%d,\"t_iter\":1,\"t_data\":%g,"
                               "\"t_forward\":0.25}\n",
                               i, data_s);
    is_int(call(r, "POST", path, text, NULL), 200, path);
    return at;
}

static void test_none(struct rig *r)
{
    is_int(call(r, "POST", "/v1/runs", "{\"name\":\"r1\"}", NULL), 201,
           "a run");
    is_int(get(r, "/v1/jobs/1/efficiency"), 200, "without iterations");
    says(r, "the document of mgpu-stat --eff --json",
         "{\"schema\":\"mgpu.eff/1\",\"jobs\":[{\"id\":1,");
    says(r, "what is not known is null", "\"computing\":null,");
    says(r, "no advice", "\"notes\":[]}]}");
    is_int(get(r, "/v1/jobs/9/efficiency"), 404, "no such job");
}

static void test_advice(struct rig *r)
{
    char path[64];
    size_t n = report(r, "/v1/jobs/1/values", 1, 3, 0.75);
    (void)snprintf(path, sizeof(path), "/v1/jobs/1/values?offset=%zu", n);
    n += report(r, path, 4, 11, 0.125);
    is_int(get(r, "/v1/jobs/1/efficiency"), 200, "its first three warm up");
    says(r, "the share of the others",
         "\"computing\":0.25,\"waiting_for_data\":0.125,");
    says(r, "no advice", "\"notes\":[]}]}");
    (void)snprintf(path, sizeof(path), "/v1/jobs/1/values?offset=%zu", n);
    (void)report(r, path, 12, 19, 0.5);
    is_int(get(r, "/v1/jobs/1/efficiency"), 200, "it waits longer");
    says(r, "the mean", "\"waiting_for_data\":0.3125,");
    says(r, "a sentence without line breaks",
         "\"notes\":[\"It waited for data for 31 % of the time: raise "
         "dataset.workers (as many as its cores allow) or "
         "resources.cpus_per_gpu.\"]}]}");
}

/* A long job is judged by its last iterations. */
static void test_long(struct rig *r)
{
    char path[64];
    size_t n = 0;
    is_int(call(r, "POST", "/v1/runs", "{\"name\":\"r2\"}", NULL), 201,
           "a long run");
    for (int i = 0; i < 5; i++) {
        (void)snprintf(path, sizeof(path), "/v1/jobs/2/values?offset=%zu", n);
        n += report(r, path, 1 + 500 * i, 500 + 500 * i, i == 0 ? 1 : 0.25);
    }
    is_int(get(r, "/v1/jobs/2/efficiency"), 200, "of its last 2,000");
    says(r, "what was before does not count", "\"waiting_for_data\":0.25,");
}

static void test_ended(struct rig *r)
{
    is_int(call(r, "POST", "/v1/jobs/1/finish", "{}", NULL), 200, "it ends");
    rig_down(r);
    rig_up(r, NULL);
    is_int(get(r, "/v1/jobs/1/efficiency"), 200, "after a restart");
    says(r, "the same", "\"waiting_for_data\":0.3125,");
    says(r, "of an ended job", "\"state\":\"COMPLETED\"");
    rig_down(r);
}

int main(void)
{
    struct rig r;
    (void)signal(SIGPIPE, SIG_IGN);
    rig_init(&r);
    rig_up(&r, NULL);
    test_none(&r);
    test_advice(&r);
    test_long(&r);
    test_ended(&r);
    rig_clear(&r);
    return tap_done();
}
