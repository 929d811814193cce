/* sol_counts.c - mgpu_sol_ratio counts each iteration of a training once, by
 * whichever way its row comes: however many rows are in one post, and those
 * that the daemon reads from the spool at the end. */
#include "jobs/wire/wire.h"
#include "tests/unit/ctld/rig.h"

/* The spool has those that were sent, too. */
enum { SENT = 5000, MORE = 3000 };

#define TRAINING                                                    \
    "{\"spec\":{\"version\":1,\"kind\":\"cv\",\"name\":\"trains\"," \
    "\"dataset\":{\"source\":\"synthetic\"},\"train\":{\"epochs\":1}}}"

/* Of iterations 1 to n. own  ret: buf_clear() */
static void rows(struct buf *ret, int n)
{
    for (int i = 1; i <= n; i++)
        if (buf_addf(ret, NULL, "{\"iteration\":%d,\"sol\":0.25}\n", i) < 0)
            exit(1);
    ok(ret->len < WIRE_ROWS_MAX_BYTES, "%d rows are one post", n);
}

static bool counts(struct rig *r, int n)
{
    char want[64];
    (void)snprintf(want, sizeof(want), "mgpu_sol_ratio_count %d\n", n);
    const bool yes = get(r, "/metrics") == 200 && has(r, want);
    const char *is = strstr(buf_str(&r->body), "\nmgpu_sol_ratio_count ");
    if (!yes)
        tap_diag("%.40s", is ? is + 1 : "no histogram");
    return yes;
}

static void test_job(struct rig *r, const char *spec, const char *name, int job,
                     int sent, int all)
{
    static const char report[] = "{\"exit_code\":0,\"why\":\"done\"}";
    struct buf posted = BUF_INIT, spool = BUF_INIT;
    char path[64], claim[64], to[64];
    (void)snprintf(path, sizeof(path), "/v1/jobs/%d", job);
    (void)snprintf(claim, sizeof(claim), "%d/1/claim", job);
    (void)snprintf(to, sizeof(to), "%d/1/rows?rank=0&offset=0", job);
    rows(&posted, SENT);
    rows(&spool, SENT + MORE);
    is_int(call(r, "POST", "/v1/jobs", spec, name), 201, name);
    ok(becomes(r, path, "\"place\":\"n1:0\""), "it runs");
    is_int(as_worker(r, claim, "{\"holder\":\"h 1 1\"}"), 200, "claimed");
    is_int(as_worker(r, to, buf_str(&posted)), 200, "rows");
    ok(counts(r, sent), "all of a post count");
    is_int(as_worker(r, to, buf_str(&posted)), 200, "the same rows");
    ok(counts(r, sent), "count once");
    put_file(r, "spool.0", buf_str(&spool), spool.len);
    put_file(r, "spool.1", buf_str(&spool), spool.len);
    put_file(r, "report.json", report, sizeof(report) - 1);
    exits(r, (uint64_t)job, 0);
    ok(becomes(r, path, "\"state\":\"COMPLETED\""), "it ends");
    ok(counts(r, all), "so do those that are read at the end");
    buf_clear(&posted);
    buf_clear(&spool);
}

int main(void)
{
    struct rig r;
    (void)signal(SIGPIPE, SIG_IGN);
    rig_init(&r);
    rig_up(&r, NULL);
    test_job(&r, TRAINING, "training", 1, SENT, SENT + MORE);
    test_job(&r, SPEC("command"), "command", 2, SENT + MORE, SENT + MORE);
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
