/* job_values.c - the newest values of metrics in a list of jobs: also of names
 * that the last rows of a job lack, and of jobs that have none. */
#include "tests/unit/ctld/rig.h"

static struct rig r;

/* Lines of iterations [from, to) with a metric "acc". */
static void add_lines(struct buf *out, int from, int to)
{
    for (int i = from; i < to; i++)
        if (buf_addf(out, NULL, "{\"iteration\":%d,\"acc\":%d}\n", i, i) < 0)
            exit(1);
}

/* More rows than the reader looks at in one portion: as no job has "absent",
 * all of a job's are looked at. */
static void test_portions(void)
{
    enum { JOBS = 4, ROWS = 20000, AT_ONCE = 4000 };
    static struct metric_row rows[AT_ONCE];
    struct error err = ERROR_INIT;
    int rc = 0;
    for (uint64_t job = 1; job <= JOBS && rc == 0; job++) {
        if (job > 1)
            is_int(call(&r, "POST", "/v1/jobs", SPEC("a"), NULL), 201, "a job");
        char path[32];
        (void)snprintf(path, sizeof(path), "/v1/jobs/%d", (int)job);
        ok(becomes(&r, path, "\"place\":\"n1:0\""), "is placed");
        for (int i = 0; i < ROWS && rc == 0; i++) {
            rows[i % AT_ONCE] =
                (struct metric_row){.kind = METRIC_VALUE,
                                    .value = {.iteration = 1000 + i,
                                              .name = "many",
                                              .value = (double)job}};
            if (i % AT_ONCE == AT_ONCE - 1)
                rc = r.store->metrics->rows(r.store, job, 1, rows, AT_ONCE,
                                            NULL, &err);
        }
    }
    ok(rc == 0, "%d rows", JOBS * ROWS);
    is_int(get(&r, "/v1/jobs?fields=id&values=many,absent"), 200, "all jobs");
    for (int job = 1; job <= JOBS; job++) {
        char value[48];
        (void)snprintf(value, sizeof(value), "\"%d\":{\"many\":%d}", job, job);
        ok(has(&r, value), "%s: %s", value, buf_str(&r.body));
    }
}

int main(void)
{
    static const char *const bad[] = {
        "/v1/jobs?values=", "/v1/jobs?values=a,,b", "/v1/jobs?values=a,",
        "/v1/jobs?values="
        "n123456789n123456789n123456789n123456789n123456789n123456789n1234"};
    struct buf lines = BUF_INIT;
    rig_init(&r);
    rig_up(&r, NULL);
    is_int(call(&r, "POST", "/v1/jobs", SPEC("a"), NULL), 201, "a job");
    ok(becomes(&r, "/v1/jobs/1", "\"place\":\"n1:0\""), "is placed");
    is_int(get(&r, "/v1/jobs?fields=id&values=acc"), 200, "it has no values");
    ok(has(&r, "\"jobs\":[{\"id\":1}],\"values\":{\"1\":{}}}"),
       "and none is there: %s", buf_str(&r.body));
    if (buf_addstr(&lines,
                   "{\"first\":0.25}\n{\"iteration\":1,\"rare\":0.5,"
                   "\"end\":-Infinity}\n",
                   NULL) < 0)
        return 1;
    add_lines(&lines, 2, 302); /* more than are looked at first */
    is_int(as_worker(&r, "1/1/claim", "{\"holder\":\"h 1 1\"}"), 200,
           "claimed");
    is_int(as_worker(&r, "1/1/rows?rank=0&offset=0", buf_str(&lines)), 200,
           "rows");
    ok(becomes(&r, "/v1/jobs?values=acc", "\"values\":{\"1\":{\"acc\":301}}}"),
       "the newest value");
    is_int(get(&r, "/v1/jobs?values=rare,first"), 200, "older ones");
    ok(has(&r, "\"first\":0.25") && has(&r, "\"rare\":0.5") &&
           !has(&r, "\"acc\""),
       "are found");
    is_int(get(&r, "/v1/jobs?values=*"), 200, "all of them");
    ok(has(&r, "\"acc\":301") && has(&r, "\"rare\":0.5") &&
           has(&r, "\"end\":\"-Infinity\"") && has(&r, "\"first\":0.25"),
       "are there");
    is_int(get(&r, "/v1/jobs?state=QUEUED&values=acc"), 200, "no job");
    ok(has(&r, "\"jobs\":[],\"values\":{}}"), "has no values");
    is_int(get(&r, "/v1/jobs"), 200, "who does not ask");
    ok(!has(&r, "\"values\""), "gets none");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        is_int(get(&r, bad[i]), 400, bad[i]);
    test_portions();
    rig_down(&r);
    rig_clear(&r);
    buf_clear(&lines);
    return tap_done();
}
