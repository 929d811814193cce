/* ctld.c - the daemon as tools and workers see it: requests, their replies
 * and when they come, rows and what is left of them, streams, stopping. */
#include <fcntl.h>

#include "tests/unit/ctld/rig.h"

static int count(const struct rig *r, const char *text)
{
    int n = 0;
    for (const char *p = buf_str(&r->body); (p = strstr(p, text)); p++)
        n++;
    return n;
}

static void test_submit(struct rig *r)
{
    static const char wide[] =
        "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"one\","
        "\"command\":[\"true\"],\"resources\":{\"gpus\":4}}}";
    is_int(get(r, "/readyz"), 200, "ready");
    is_int(call(r, "POST", "/v1/jobs", wide, "key-1"), 201, "submitted");
    ok(has(r, "\"schema\":\"mgpu.job/1\"") && has(r, "\"id\":1"), "as job 1");
    is_int(call(r, "POST", "/v1/jobs", wide, "key-1"), 200,
           "the same key again: 200");
    ok(has(r, "\"id\":1,"), "and the same job");
    is_int(call(r, "POST", "/v1/jobs", SPEC("other"), "key-1"), 409,
           "another specification under it: 409");
    ok(has(r, "the idempotency key 'key-1' belongs to job 1, which has another "
              "specification"),
       "which says so");
    is_int(call(r, "POST", "/v1/jobs", "{\"spec\":{\"kind\":\"cv\"}}", NULL),
           400, "a bad spec");
    ok(has(r, "\"INVAL\"") && has(r, "[E0"), "with its finding: %s",
       buf_str(&r->body));
    is_int(call(r, "POST", "/v1/jobs", "{\"spec\":", NULL), 400, "no JSON");
    is_int(call(r, "POST", "/v1/jobs", "[]", NULL), 400, "no object");
    is_int(call(r, "POST", "/v1/jobs", "{}", NULL), 400, "no spec");
    static char big[70000];
    memset(big, 'x', sizeof(big) - 1);
    memcpy(big, "{\"spec\":{\"name\":\"", 17);
    memcpy(big + sizeof(big) - 5, "\"}}", 4);
    is_int(call(r, "POST", "/v1/jobs", big, NULL), 429, "max_spec_bytes");
    is_int(get(r, "/v1/jobs/2"), 404, "nothing of that became a job");
    is_int(get(r, "/v1/jobs/x"), 404, "an id is a number");
    is_int(get(r, "/v1/jobs/1/iterations?limit=x"), 400, "so is a limit");
    is_int(get(r, "/v2/jobs"), 404, "another version");
}

static void test_worker(struct rig *r)
{
    ok(becomes(r, "/v1/jobs/1", "\"place\":\"n1:0\""), "the job was placed");
    struct puppet *p = &r->alloc;
    char right = p->token[0];
    p->token[0] = right == '0' ? '1' : '0';
    is_int(as_worker(r, "1/1/claim", "{\"holder\":\"h 1 1\"}"), 403,
           "a wrong token is refused");
    ok(has(r, "DENIED"), "by that name");
    p->token[0] = right;
    is_int(as_worker(r, "1/1/claim", "{}"), 400, "a claim needs a holder");
    is_int(as_worker(r, "1/1/claim", "{\"holder\":\"h 1 1\"}"), 200, "claimed");
    is_int(as_worker(r, "1/1/claim", "{\"holder\":\"h 2 2\"}"), 403,
           "a second holder is refused");
    ok(has(r, "FENCED"), "as fenced");
    is_int(as_worker(r, "1/1/heartbeat",
                     "{\"iteration\":3,\"iterations_total\":9,\"loss\":0.5}"),
           200, "a heartbeat");
    ok(becomes(r, "/v1/jobs/1", "\"state\":\"RUNNING\""), "makes it RUNNING");
    ok(has(r, "\"iteration\":3") && has(r, "\"loss\":0.5"), "and is shown");
    is_int(get(r, "/v1/jobs/1/events"), 200, "events");
    ok(has(r, "\"claim\"") && !has(r, p->token), "do not show the token");
}

static void test_rows(struct rig *r)
{
    static const char one[] = "{\"iteration\":1,\"loss\":1}\n"
                              "{\"iteration\":2,\"loss\":0.5}\n";
    is_int(as_worker(r, "1/1/rows?rank=0&offset=0", one), 200, "rows");
    char want[32];
    (void)snprintf(want, sizeof(want), "\"acked\":%zu", sizeof(one) - 1);
    ok(has(r, want), "are acknowledged to their end");
    is_int(as_worker(r, "1/1/rows?rank=0&offset=0", one), 200, "once more");
    is_int(as_worker(r, "1/1/rows?rank=0&offset=900", one), 200, "with a gap");
    ok(has(r, want), "the rank is sent back to the known end");
    is_int(as_worker(r, "1/1/rows?rank=1&offset=500", one), 200,
           "a first offset is believed");
    ok(has(r, "\"acked\":552"), "and counted from: %s", buf_str(&r->body));
    is_int(
        as_worker(r, "1/1/rows?rank=2&offset=0", "junk\n{\"iteration\":1}\n"),
        200, "a line that is no row");
    ok(has(r, "\"dropped\":1") && has(r, "\"acked\":21"),
       "is dropped, counted");
    is_int(get(r, "/v1/jobs/1/iterations"), 200, "iterations");
    is_int(count(r, "[1,"), 5, "each row is there once");
    is_int(get(r, "/v1/jobs/1/iterations?rank=0&last=1&limit=1"), 200, "last");
    ok(has(r, "\"columns\":[\"attempt\",\"rank\",\"iteration\"") &&
           has(r, "\"rows\":[[1,0,2,") && count(r, "[1,") == 1,
       "the last row of one rank, with its columns");
}

/* The daemon did not get: rank 0's third row, all of rank 3, the report. */
static void test_exit(struct rig *r)
{
    static const char rank0[] = "{\"iteration\":1,\"loss\":1}\n"
                                "{\"iteration\":2,\"loss\":0.5}\n"
                                "{\"iteration\":3,\"loss\":0.25}\n"
                                "{\"iteration\":4,\"lo"; /* cut by death */
    static const char report[] = "{\"exit_code\":0,\"why\":\"all is well\"}";
    char rank3[9000] = {0}; /* a hole */
    memcpy(rank3 + 8192, "s\":7}\n{\"iteration\":5,\"loss\":9}\n", 32);
    put_file(r, "spool.0", rank0, sizeof(rank0) - 1);
    put_file(r, "spool.3", rank3, 8192 + 32);
    put_file(r, "spool.x", "{\"iteration\":77}\n", 17);
    put_file(r, "spool.4", "{\"iteration\":77}\n", 17); /* of no rank */
    put_file(r, "report.json", report, sizeof(report) - 1);
    exits(r, 1, 0);
    ok(becomes(r, "/v1/jobs/1", "\"state\":\"COMPLETED\""),
       "the report in the directory counts");
    ok(has(r, "all is well") && has(r, "\"exit_code\":0"), "with its words");
    is_int(get(r, "/v1/jobs/1/iterations"), 200, "iterations");
    is_int(count(r, "[1,"), 7, "what was not sent was read from the spools");
    ok(has(r, "[1,0,3,") && has(r, "[1,3,5,") && !has(r, ",77,"),
       "whole lines of the ranks' files only");
    is_int(as_worker(r, "1/1/heartbeat", "{\"iteration\":4}"), 403,
           "a late heartbeat is refused");
    ok(has(r, "FENCED"), "as fenced");
    is_int(get(r, "/metrics"), 200, "metrics");
    ok(has(r, "mgpu_jobs{state=\"COMPLETED\"} 1\n") &&
           has(r, "mgpu_lines_dropped_total 1\n") &&
           has(r, "mgpu_rows_ingested_total 7\n"),
       "have the counts");
    const char *end = buf_str(&r->body) + r->body.len - 6;
    is_str(end, "# EOF\n", "and end as OpenMetrics does");
}

struct watching {
    int n;
    char states[200];
    struct rig *r;
};

static int on_watch(void *arg, const char *text, size_t len, struct error *err)
{
    struct watching *w = arg;
    json_t *o = json_loadb(text, len, 0, NULL);
    const char *s =
        json_string_value(json_object_get(json_object_get(o, "job"), "state"));
    size_t have = strlen(w->states);
    (void)err;
    (void)snprintf(w->states + have, sizeof(w->states) - have, " %s",
                   s ? s : "?");
    json_decref(o);
    if (w->n++ == 0) { /* from here on it must come by itself */
        struct rig other = *w->r;
        struct http_client_conf conf = {
            .url = other.url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
        other.body = (struct buf)BUF_INIT;
        if (http_client_create(&conf, &other.http, NULL) < 0)
            exit(1);
        is_int(call(&other, "POST", "/v1/jobs/2/cancel", "{}", NULL), 200,
               "cancelled meanwhile");
        http_client_destroy(other.http);
        buf_clear(&other.body);
    }
    return 0;
}

static void test_watch(struct rig *r)
{
    struct watching w = {.r = r};
    struct error err = ERROR_INIT;
    struct buf bad = BUF_INIT;
    int status = 0;
    is_int(call(r, "POST", "/v1/jobs",
                "{\"hold\":true,\"spec\":{\"version\":1,\"kind\":\"command\","
                "\"name\":\"held\",\"command\":[\"true\"]}}",
                NULL),
           201, "a held job");
    ok(has(r, "\"HELD\""), "is HELD");
    ok(http_client_stream(r->http, "/v1/watch?job=2", on_watch, &w, &status,
                          &bad, &err) == 0,
       "the stream ends with the job: %s", err.msg);
    is_str(w.states, " HELD CANCELLED", "as it is, and each change");
    is_int(get(r, "/v1/watch?job=99"), 404, "no such job");
    is_int(call(r, "POST", "/v1/jobs/2/cancel", "{}", NULL), 200,
           "to cancel twice is fine");
    is_int(call(r, "POST", "/v1/jobs/1/cancel", "{}", NULL), 409,
           "a completed job cannot be cancelled");
    buf_clear(&bad);
}

static void test_lists(struct rig *r)
{
    static const struct {
        const char *query;
        int n;
    } cases[] = {
        {"", 2},
        {"?name=he*", 1},
        {"?name=x*", 0},
        {"?state=COMPLETED,CANCELLED", 2},
        {"?state=RUNNING", 0},
        {"?limit=1", 1},
        {"?fields=held_by", 0},
        {"?user=nobody-here", 0},
        {"?since=2000-01-01T00:00:00Z", 2},
        {"?since=2100-01-01T00:00:00.5Z", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[80];
        (void)snprintf(path, sizeof(path), "/v1/jobs%s", cases[i].query);
        ok(get(r, path) == 200 && count(r, "\"kind\"") == cases[i].n, "%s: %d",
           path, cases[i].n);
    }
    is_int(get(r, "/v1/jobs?limit=1&fields=id,held_by,attempt,name"), 200,
           "of a few fields");
    ok(has(r, "\"jobs\":[{\"id\":2,\"name\":\"held\",\"attempt\":0}]}"),
       "there is no other, and none that is null");
    is_int(get(r, "/v1/jobs?fields=id,nmae"), 400, "no such field");
    is_int(get(r, "/v1/jobs?state=DONE"), 400, "no such state");
    /* A bracket of 10,000 characters kept the loop for 3 ms a job. */
    char glob[160];
    (void)snprintf(glob, sizeof(glob), "/v1/jobs?name=*%0130d", 0);
    is_int(get(r, glob), 400, "no such long name");
    is_int(get(r, "/v1/jobs?since=monday"), 400, "no such time");
    is_int(get(r, "/v1/status"), 200, "status");
    ok(has(r, "\"COMPLETED\":1") && has(r, "\"slots_total\":4"), "has counts");
}

static void test_logs(struct rig *r)
{
    is_int(call(r, "POST", "/v1/jobs", SPEC("talks"), NULL), 201, "job 3");
    ok(becomes(r, "/v1/jobs/3", "\"place\":\"n1:0\""), "runs");
    put_file(r, "log", "hello\n", 6);
    is_int(get(r, "/v1/jobs/3/logs"), 200, "its log");
    is_str(buf_str(&r->body), "hello\n", "so far");
    exits(r, 3, 4);
    is_int(get(r, "/v1/jobs/3/logs?follow=1"), 200, "following");
    is_str(buf_str(&r->body), "hello\n", "ends with the job");
    is_int(get(r, "/v1/jobs/3"), 200, "it");
    ok(has(r, "\"FAILED\""), "failed");
}

struct slow {
    size_t bytes;
    bool rested;
};

static int on_slow_line(void *arg, const char *text, size_t len,
                        struct error *err)
{
    struct slow *s = arg;
    (void)text;
    (void)err;
    s->bytes += len + 1;
    if (!s->rested) /* `less`, before its first key */
        (void)poll(NULL, 0, 300);
    s->rested = true;
    return 0;
}

/* Far more than a stream may be behind. */
static void test_long_log(struct rig *r)
{
    enum { BYTES = 6 << 20 };
    char *log = malloc(BYTES);
    struct slow s = {0};
    struct error err = ERROR_INIT;
    struct buf bad = BUF_INIT;
    int status = 0;
    if (!log)
        exit(1);
    memset(log, 'x', BYTES);
    for (size_t i = 99; i < BYTES; i += 100)
        log[i] = '\n';
    log[BYTES - 1] = '\n';
    put_file(r, "log", log, BYTES);
    ok(http_client_stream(r->http, "/v1/jobs/3/logs", on_slow_line, &s, &status,
                          &bad, &err) == 0,
       "a long log to a slow reader: %s", err.msg);
    is_int((long long)s.bytes, BYTES, "arrives whole");
    buf_clear(&bad);
    free(log);
}

static void test_signals(struct rig *r)
{
    is_int(call(r, "POST", "/v1/jobs", SPEC("stays"), NULL), 201, "job 4");
    ok(becomes(r, "/v1/jobs/4", "\"place\":\"n1:0\""), "runs");
    is_int(call(r, "POST", "/v1/jobs/4/cancel", "{\"signal\":\"USR1\"}", NULL),
           200, "a signal");
    is_int(call(r, "POST", "/v1/jobs/4/cancel", "{\"signal\":\"BAD\"}", NULL),
           400, "an unknown one");
    is_int(get(r, "/v1/jobs/4"), 200, "the job");
    ok(!has(r, "\"cancel_asked\":true"), "is not cancelled by it");
    is_int(call(r, "POST", "/v1/jobs/4/cancel", NULL, NULL), 200, "cancel");
    ok(becomes(r, "/v1/jobs/4", "\"CANCELLED\""), "ends it");
}

/* A reply must not come before its event is stored, nor when it is not. */
static void test_faults(struct rig *r)
{
    struct store_fault fault = {.n = 2}; /* load, then the submit */
    rig_up(r, &fault);
    is_int(get(r, "/v1/jobs/3"), 200, "a new life knows the jobs");
    is_int(call(r, "POST", "/v1/jobs", SPEC("other"), "key-1"), 409,
           "and what was asked for under a key");
    int failed = 0, status = 0;
    for (int i = 0; i < 4; i++) {
        status = call(r, "POST", "/v1/jobs", SPEC("again"), "key-9");
        failed += status >= 500;
        if (failed && status < 300)
            break;
    }
    is_int(failed, 1, "a submit whose event is not stored fails");
    ok(status == 201, "and succeeds as if never asked before: %s",
       buf_str(&r->body));
    is_int(get(r, "/v1/jobs?name=again"), 200, "list");
    is_int(count(r, "\"kind\""), 1, "it is there once");
    ok(becomes(r, "/readyz", "ok"), "ready again");
    rig_down(r);
}

/* The n-th call of the store fails, whatever it is for: the daemon goes on,
 * and a job's end waits until its rows are stored, and its report with it. */
static void test_failing_store(struct rig *r)
{
    static const char report[] = "{\"exit_code\":0,\"why\":\"\"}";
    for (int n = 3; n <= 10; n++) {
        struct store_fault fault = {.n = n};
        char name[80], path[64], claim[64];
        rig_up(r, &fault);
        (void)snprintf(name, sizeof(name), "try-%d", n);
        int status = 0;
        for (int i = 0; i < 2 && status != 201; i++)
            status = call(r, "POST", "/v1/jobs", SPEC("failing"), name);
        json_t *o = json_loads(buf_str(&r->body), 0, NULL);
        long long id = json_integer_value(json_object_get(o, "id"));
        json_decref(o);
        (void)snprintf(path, sizeof(path), "/v1/jobs/%lld", id);
        bool placed = becomes(r, path, "\"place\":\"n1:0\"");
        (void)snprintf(claim, sizeof(claim), "%lld/1/claim", id);
        for (int i = 0, rc = 0; i < 2 && rc != 200; i++)
            rc = as_worker(r, claim, "{\"holder\":\"h 1 1\"}");
        put_file(r, "spool.0", "{\"iteration\":1}\n", 16);
        put_file(r, "report.json", report, sizeof(report) - 1);
        exits(r, (uint64_t)id, 0);
        bool ended = becomes(r, path, "\"state\":\"COMPLETED\"");
        (void)snprintf(path, sizeof(path), "/v1/jobs/%lld/iterations", id);
        ok(get(r, path) == 200 && placed && ended && count(r, "[1,") == 1,
           "call %d fails: the job ends, with its row: %s", n,
           buf_str(&r->body));
        rig_down(r);
    }
}

/* The real clock, moved on by as much as the test says. */
static _Atomic double moved_s;

static double moved_now(const struct clock *c)
{
    return clock_real.now_s(c) + moved_s;
}

static double moved_wall(const struct clock *c)
{
    return clock_real.wall_s(c) + moved_s;
}

/* Until n more rows() were refused; ten seconds at most. */
static bool refuses(const struct rig *r, int n)
{
    int want = r->n_refused + n;
    for (int i = 0; i < 3000 && r->n_refused < want; i++)
        (void)poll(NULL, 0, 20);
    return r->n_refused >= want;
}

/* A metrics.db that takes no rows holds up the end of an attempt for a while,
 * but not for ever. */
static void test_no_rows(struct rig *r)
{
    static const struct clock own = {.now_s = moved_now, .wall_s = moved_wall};
    static const char report[] = "{\"exit_code\":0,\"why\":\"said so\"}";
    char path[64], claim[64], spool[640];
    struct stat st;
    r->clock = &own;
    r->refuses_rows = true;
    rig_up(r, NULL);
    is_int(call(r, "POST", "/v1/jobs", SPEC("rowless"), "rowless"), 201, "job");
    json_t *o = json_loads(buf_str(&r->body), 0, NULL);
    long long id = json_integer_value(json_object_get(o, "id"));
    json_decref(o);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%lld", id);
    (void)snprintf(claim, sizeof(claim), "%lld/1/claim", id);
    ok(becomes(r, path, "\"place\":\"n1:0\""), "it runs");
    is_int(as_worker(r, claim, "{\"holder\":\"h 1 1\"}"), 200, "claimed");
    put_file(r, "spool.0", "{\"iteration\":1}\n", 16);
    put_file(r, "report.json", report, sizeof(report) - 1);
    exits(r, (uint64_t)id, 0);
    ok(refuses(r, 2), "its rows are refused, and tried again");
    moved_s = 8.5;
    ok(becomes(r, path, "\"state\":\"COMPLETED\""),
       "its end does not wait for ever");
    const char *elapsed = strstr(buf_str(&r->body), "\"elapsed_s\":");
    ok(elapsed && strtod(elapsed + 12, NULL) >= 10, "but for ten seconds");
    ok(has(r, "said so"), "and its report counts");
    ok(get(r, "/v1/status") == 200 && has(r, "\"spools_undrained\":1"),
       "the status tells");
    ok(get(r, "/metrics") == 200 && has(r, "mgpu_spools_undrained_total 1\n"),
       "so do the counters");
    (void)snprintf(spool, sizeof(spool), "%s/spool.0", r->alloc.dir);
    ok(stat(spool, &st) == 0 && st.st_size == 16, "the spool is still there");
    rig_down(r);
    r->clock = NULL;
    r->refuses_rows = false;
}

/* A job that puts a file where its directory was still ends. */
static void test_no_directory(struct rig *r)
{
    char path[640];
    is_int(call(r, "POST", "/v1/jobs", SPEC("vandal"), "vandal"), 201, "a job");
    json_t *o = json_loads(buf_str(&r->body), 0, NULL);
    long long id = json_integer_value(json_object_get(o, "id"));
    json_decref(o);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%lld", id);
    ok(becomes(r, path, "\"place\":\"n1:0\""), "that runs");
    ok(rmdir(r->alloc.dir) == 0, "and takes its directory away");
    int fd = open(r->alloc.dir, O_CREAT | O_EXCL | O_WRONLY, 0);
    ok(fd >= 0 && close(fd) == 0, "for a file");
    exits(r, (uint64_t)id, 0);
    ok(becomes(r, path, "\"state\":\"FAILED\""), "ends all the same");
}

static int on_many(void *arg, const char *text, size_t len, struct error *err)
{
    int *left = arg;
    (void)text;
    (void)len;
    return --*left > 0 ? 0 : error_set(err, ERR_STATE, "enough");
}

/* More than the server lets a connection lag behind. */
/* Long lists are made in slices. */
static void test_long_list(struct rig *r, int n)
{
    int n_shown = 0, n_wrong = 0;
    json_int_t before = 0;
    size_t i;
    json_t *job;
    is_int(get(r, "/v1/jobs?name=many"), 200, "a long list");
    json_t *o = json_loads(buf_str(&r->body), 0, NULL);
    json_array_foreach(json_object_get(o, "jobs"), i, job)
    {
        json_int_t id = json_integer_value(json_object_get(job, "id"));
        n_wrong += id <= before;
        before = id;
        n_shown++;
    }
    ok(n_shown == n && n_wrong == 0, "has each job once, in order: %d, %d",
       n_shown, n_wrong);
    json_decref(o);
    is_int(get(r, "/v1/jobs?name=many&limit=2"), 200, "its end");
    ok(count(r, "\"kind\"") == 2 && strstr(buf_str(&r->body), "\"jobs\":["),
       "has two");
}

struct seen {
    json_int_t seq, first; /* the last event; the first job */
};

static int on_first(void *arg, const char *text, size_t len, struct error *err)
{
    json_t *o = json_loadb(text, len, 0, NULL);
    ((struct seen *)arg)->first =
        json_integer_value(json_object_get(json_object_get(o, "job"), "id"));
    json_decref(o);
    return error_set(err, ERR_STATE, "enough");
}

static int on_seq(void *arg, const char *text, size_t len, struct error *err)
{
    struct seen *seen = arg;
    json_t *o = json_loadb(text, len, 0, NULL);
    json_int_t seq = json_integer_value(json_object_get(o, "seq"));
    json_decref(o);
    seen->seq = seq > seen->seq ? seq : seen->seq;
    seen->first--;
    return seen->first > 0 ? 0 : error_set(err, ERR_STATE, "enough");
}

/* Who knows the past is not told it again by the next daemon. */
static void test_watch_again(struct rig *r)
{
    struct seen seen = {.seq = 0};
    struct error err = ERROR_INIT;
    struct buf bad = BUF_INIT;
    int status = 0;
    char path[64];
    is_int(get(r, "/v1/jobs"), 200, "all jobs");
    seen.first = count(r, "\"kind\"");
    ok(http_client_stream(r->http, "/v1/watch", on_seq, &seen, &status, &bad,
                          &err) < 0,
       "all are shown");
    ok(seen.seq > 0, "the last event is known");
    rig_down(r);
    rig_up(r, NULL);
    is_int(get(r, "/v1/jobs?name=many&limit=1"), 200, "a new life");
    json_t *o = json_loads(buf_str(&r->body), 0, NULL);
    const json_t *jobs = json_object_get(o, "jobs");
    json_int_t id =
        json_integer_value(json_object_get(json_array_get(jobs, 0), "id"));
    json_decref(o);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%lld/cancel", (long long)id);
    is_int(call(r, "POST", path, "{}", NULL), 200, "one job is cancelled");
    (void)snprintf(path, sizeof(path), "/v1/watch?after=%lld",
                   (long long)seen.seq);
    ok(http_client_stream(r->http, path, on_first, &seen, &status, &bad, &err) <
           0,
       "a watcher comes back");
    is_int((long long)seen.first, (long long)id, "and the first to be shown");
    ok(http_client_stream(r->http, "/v1/watch?after=999999999", on_first, &seen,
                          &status, &bad, &err) < 0,
       "one comes that knows more than there was, from before a restore");
    is_int((long long)seen.first, 1, "and is shown all");
    buf_clear(&bad);
}

static void test_many(struct rig *r)
{
    enum { MANY = 2500 };
    struct error err = ERROR_INIT;
    struct buf bad = BUF_INIT;
    int n = 0, left = MANY, status = 0;
    while (n < MANY &&
           call(r, "POST", "/v1/jobs",
                "{\"hold\":true,\"spec\":{\"version\":1,\"kind\":\"command\","
                "\"name\":\"many\",\"command\":[\"true\"]}}",
                NULL) == 201)
        n++;
    is_int(n, MANY, "many jobs");
    ok(http_client_stream(r->http, "/v1/watch", on_many, &left, &status, &bad,
                          &err) < 0 &&
           err.code == ERR_STATE && left == 0,
       "who watches them all is shown them all: %s, %d left", err.msg, left);
    buf_clear(&bad);
    test_long_list(r, MANY);
    test_watch_again(r);
}

/* Creation fails early and late, and frees what it made until then (the
 * sanitizer looks). */
static void test_no_start(struct rig *r)
{
    struct store_fault fault = {.n = 1}; /* the load */
    struct error err = ERROR_INIT;
    struct ctld_parts parts = {.clock = &clock_real,
                               .policy = policy_find("fifo"),
                               .alloc = &r->alloc.base,
                               .conf = &r->conf};
    r->alloc.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (store_sqlite_open(r->dir, &parts.store, NULL) < 0 ||
        store_faulty_create(parts.store, &fault, &parts.store, NULL) < 0)
        exit(1);
    ok(ctld_create(&parts, &r->ctld, &err) < 0 && err.code == ERR_IO,
       "no start without the jobs: %s", err.msg);
    r->conf.state_dir = "/nowhere/at/all";
    ok(ctld_create(&parts, &r->ctld, &err) < 0 && err.code != ERR_IO,
       "nor without a directory: %s", err.msg);
    parts.store->ops->destroy(parts.store);
    r->alloc.base.ops->destroy(&r->alloc.base);
}

int main(void)
{
    struct rig r;
    (void)signal(SIGPIPE, SIG_IGN);
    rig_init(&r);
    rig_up(&r, NULL);
    test_submit(&r);
    test_worker(&r);
    test_rows(&r);
    test_exit(&r);
    test_watch(&r);
    test_lists(&r);
    test_logs(&r);
    test_long_log(&r);
    test_signals(&r);
    rig_down(&r);
    test_faults(&r);
    test_failing_store(&r);
    test_no_rows(&r);
    rig_up(&r, NULL);
    test_no_directory(&r);
    test_many(&r);
    rig_down(&r);
    test_no_start(&r);
    rig_clear(&r);
    return tap_done();
}
