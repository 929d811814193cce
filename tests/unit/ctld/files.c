/* files.c - the daemon when a job's file system does not answer: the end of
 * an attempt waits for what matters, and nothing else waits. */
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/ctld/rig.h"

/* Files that time out as often as the test says, then are as they are. */
struct slow {
    struct files base;
    struct files *real;
    _Atomic int n_timeouts; /* of read() that are to come */
    _Atomic int n_reads;
    _Atomic bool is_endless; /* spools have no end */
    _Atomic bool log_hangs;  /* log() returns no more until this is unset */
    _Atomic bool log_fails;  /* log() times out */
    _Atomic bool log_came;
};

static int slow_read(struct files *f, uid_t uid, const char *dir,
                     const char *name, uint64_t offset, void *p, size_t cap,
                     size_t *ret_n, struct error *err)
{
    struct slow *s = (struct slow *)f;
    s->n_reads++;
    if (s->n_timeouts > 0) {
        s->n_timeouts--;
        return error_set(err, ERR_TIMEOUT, "nobody answers");
    }
    if (s->is_endless && strncmp(name, "spool.", 6) == 0) {
        memset(p, 'x', cap);
        *ret_n = cap;
        return 0;
    }
    return s->real->ops->read(s->real, uid, dir, name, offset, p, cap, ret_n,
                              err);
}

static int slow_log(struct files *f, uid_t uid, const char *dir,
                    uint64_t *io_offset, void *p, size_t cap, size_t *ret_n,
                    uint64_t *ret_dropped, struct error *err)
{
    struct slow *s = (struct slow *)f;
    s->log_came = true;
    while (s->log_hangs)
        (void)poll(NULL, 0, 5);
    if (s->log_fails)
        return error_set(err, ERR_TIMEOUT, "nobody answers");
    return s->real->ops->log(s->real, uid, dir, io_offset, p, cap, ret_n,
                             ret_dropped, err);
}

static const struct files_ops slow_ops = {.read = slow_read, .log = slow_log};

static _Atomic double moved_s;

static double moved_now_s(const struct clock *c)
{
    return clock_real.now_s(c) + moved_s;
}

static double moved_wall_s(const struct clock *c)
{
    return clock_real.wall_s(c) + moved_s;
}

/* A job that runs and is claimed; its path and its number. */
static uint64_t start_job(struct rig *r, const char *key, char path[64])
{
    char claim[64];
    is_int(call(r, "POST", "/v1/jobs", SPEC("slow"), key), 201, "---- a job");
    json_t *o = json_loads(buf_str(&r->body), 0, NULL);
    long long id = json_integer_value(json_object_get(o, "id"));
    json_decref(o);
    (void)snprintf(path, 64, "/v1/jobs/%lld", id);
    (void)snprintf(claim, sizeof(claim), "%lld/1/claim", id);
    ok(becomes(r, path, "\"place\":\"n1:0\""), "it runs");
    is_int(as_worker(r, claim, "{\"holder\":\"h 1 1\"}"), 200, "claimed");
    return (uint64_t)id;
}

static bool reads(const struct slow *s, int n)
{
    int want = s->n_reads + n;
    for (int i = 0; i < 1500 && s->n_reads < want; i++)
        (void)poll(NULL, 0, 20);
    return s->n_reads >= want;
}

/* What its files say is waited for. */
static void test_waits(struct rig *r, struct slow *s)
{
    static const char report[] = "{\"exit_code\":0,\"why\":\"said so\"}";
    char path[64], rows[80];
    uint64_t id = start_job(r, "waits", path);
    put_file(r, "spool.0", "{\"iteration\":1}\n", 16);
    put_file(r, "report.json", report, sizeof(report) - 1);
    s->n_timeouts = 1000000;
    exits(r, id, 0);
    ok(reads(s, 3), "its report is looked for again and again");
    moved_s = 300;
    ok(reads(s, 3) && get(r, path) == 200, "also after minutes");
    ok(!has(r, "COMPLETED") && !has(r, "FAILED"), "it has not ended");
    s->n_timeouts = 0;
    ok(becomes(r, path, "\"state\":\"COMPLETED\"") && has(r, "said so"),
       "it ends as the report says");
    (void)snprintf(rows, sizeof(rows), "%s/iterations", path);
    ok(get(r, rows) == 200 && has(r, "[1,0,1,"), "with its rows");
}

/* F38: a device of its node has failed, by its worker's account: no fault of
 * the job, wherever that stands. */
static void test_fault(struct rig *r)
{
    static const char word[] =
        "{\"exit_code\":71,\"why\":\"GPU of rank 0: ECC\","
        "\"fault_node\":\"n1\"}";
    char path[64], report[80];
    for (int is_posted = 0; is_posted < 2; is_posted++) {
        uint64_t id = start_job(r, is_posted ? "posted" : "written", path);
        (void)snprintf(report, sizeof(report), "%llu/1/report",
                       (unsigned long long)id);
        if (is_posted)
            is_int(as_worker(r, report, word), 200, "F38: report");
        else
            put_file(r, "report.json", word, sizeof(word) - 1);
        exits(r, id, 71);
        ok(becomes(r, path, "retry 1 of 2") && has(r, "GPU of rank 0: ECC"),
           "F38: it is tried again, though it exited, which is not");
        (void)snprintf(report, sizeof(report), "%s/cancel", path);
        is_int(call(r, "POST", report, "", NULL), 200, "cancelled");
    }
}

/* Not for ever, though. */
static void test_gives_up(struct rig *r, struct slow *s)
{
    char path[64];
    uint64_t id = start_job(r, "gives-up", path);
    s->n_timeouts = 1000000;
    exits(r, id, 0);
    ok(reads(s, 2), "its report is looked for");
    moved_s = 1000;
    ok(becomes(r, path, "\"state\":\"FAILED\""), "it ends without");
    s->n_timeouts = 0;
}

/* Its worker's last word has come: ten seconds are enough for the rows. */
static void test_reported(struct rig *r, struct slow *s)
{
    char path[64], report[64];
    uint64_t id = start_job(r, "reported", path);
    (void)snprintf(report, sizeof(report), "%llu/1/report",
                   (unsigned long long)id);
    is_int(as_worker(r, report, "{\"exit_code\":0,\"why\":\"\"}"), 200,
           "report");
    s->n_timeouts = 1000000;
    exits(r, id, 0);
    ok(reads(s, 2), "its rows are looked for");
    moved_s = 1020;
    ok(becomes(r, path, "\"state\":\"COMPLETED\""), "it ends without");
    s->n_timeouts = 0;
}

/* A user made the spool as long as a file can be, or writes to it still: that
 * is nobody else's loss, and the attempt ends all the same. */
static void test_endless(struct rig *r, struct slow *s)
{
    char path[64], other[64], rows[64];
    uint64_t id = start_job(r, "endless", path);
    s->is_endless = true;
    exits(r, id, 7);
    ok(reads(s, 2), "a spool without an end is read");
    uint64_t next = start_job(r, "meanwhile", other);
    (void)snprintf(rows, sizeof(rows), "%llu/1/rows?rank=0&offset=0",
                   (unsigned long long)next);
    is_int(as_worker(r, rows, "{\"iteration\":1}\n"), 200,
           "others' rows are stored meanwhile");
    ok(becomes(r, path, "\"state\":\"FAILED\""), "it ends without the rest");
    ok(get(r, "/metrics") == 200 && has(r, "mgpu_spools_undrained_total 3\n"),
       "which is told");
    s->is_endless = false;
    exits(r, next, 7);
    ok(becomes(r, other, "\"state\":\"FAILED\""), "the other ends as well");
}

static bool comes(const struct slow *s)
{
    for (int i = 0; i < 1500 && !s->log_came; i++)
        (void)poll(NULL, 0, 20);
    return s->log_came;
}

struct logged {
    struct rig *r;
    char path[80];
    int status;
};

static void *get_log(void *arg)
{
    struct logged *l = arg;
    l->status = get(l->r, l->path);
    return NULL;
}

/* One log that hangs: the daemon answers others, and stops. */
static void test_log(struct rig *r, struct slow *s)
{
    char path[64];
    struct rig other = *r; /* another client of the same daemon */
    struct logged l = {.r = &other};
    struct http_client_conf http = {
        .url = r->url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
    pthread_t th;
    uint64_t id = start_job(r, "log", path);
    memset(&other.body, 0, sizeof(other.body));
    if (http_client_create(&http, &other.http, NULL) < 0)
        exit(1);
    put_file(r, "log", "hello\n", 6);
    (void)snprintf(l.path, sizeof(l.path), "%s/logs", path);
    s->log_came = false;
    s->log_hangs = true;
    (void)pthread_create(&th, NULL, get_log, &l);
    ok(comes(s), "a log hangs");
    exits(r, id, 7);
    ok(becomes(r, path, "\"state\":\"FAILED\""), "everything else goes on");
    s->log_hangs = false;
    (void)pthread_join(th, NULL);
    is_int(l.status, 200, "it answers");
    is_str(buf_str(&other.body), "hello\n", "with the log");
    s->log_fails = true;
    (void)get_log(&l);
    is_str(buf_str(&other.body), "\n[mgpu: nobody answers]\n",
           "what cannot be read is told");
    s->log_fails = false;
    http_client_destroy(other.http);
    buf_clear(&other.body);
}

/* A stream that is closed while its piece is under way (the sanitizer
 * looks). */
static void test_closed(struct rig *r, struct slow *s)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char path[64], text[160];
    (void)start_job(r, "closed", path);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", r->socket);
    int n = snprintf(text, sizeof(text),
                     "GET %s/logs?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    s->log_came = false;
    s->log_hangs = true;
    ok(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
           write(fd, text, (size_t)n) == n && comes(s),
       "a log hangs");
    (void)close(fd);
    for (int i = 0; i < 10; i++) /* the loop turns, and sees it leave */
        is_int(get(r, "/livez"), 200, "the daemon answers");
    s->log_hangs = false;
    put_file(r, "log", "hello\n", 6);
    (void)snprintf(text, sizeof(text), "%s/logs", path);
    ok(get(r, text) == 200 && has(r, "hello"), "the next one reads it");
}

static void restarts(struct rig *r)
{
    rig_down(r);
    rig_up(r, NULL);
}

/* It trains and ends while nobody hears its beats. */
static void test_away(struct rig *r)
{
    static const char cv[] =
        "{\"spec\":{\"version\":1,\"kind\":\"cv\",\"name\":\"away\","
        "\"dataset\":{\"source\":\"synthetic\"},\"train\":{\"epochs\":2}}}";
    static const char rows[] =
        "{\"iteration\":1,\"epoch\":1,\"loss\":0.5,\"t_iter\":0.125}\n"
        "{\"epoch\":1,\"eval_accuracy\":0.625}\n"
        "{\"iteration\":2,\"epoch\":2,\"loss\":0.25,\"t_iter\":0.125}\n"
        "{\"epoch\":2,\"eval_loss\":0.125,\"eval_accuracy\":0.75}\n";
    static const char report[] = "{\"exit_code\":0}";
    char path[64], claim[64];
    is_int(call(r, "POST", "/v1/jobs", cv, "away"), 201, "---- away");
    json_t *o = json_loads(buf_str(&r->body), 0, NULL);
    uint64_t id = (uint64_t)json_integer_value(json_object_get(o, "id"));
    json_decref(o);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%llu", (unsigned long long)id);
    (void)snprintf(claim, sizeof(claim), "%llu/1/claim",
                   (unsigned long long)id);
    ok(becomes(r, path, "\"place\":\"n1:0\""), "a job runs");
    is_int(as_worker(r, claim, "{\"holder\":\"h 1 1\"}"), 200, "claimed");
    restarts(r);
    put_file(r, "spool.0", rows, sizeof(rows) - 1);
    put_file(r, "report.json", report, sizeof(report) - 1);
    exits(r, id, 0);
    for (int life = 0; life < 2; life++) {
        ok(becomes(r, path, "\"state\":\"COMPLETED\""), "it has ended");
        ok(has(r, "\"iteration\":2,\"iterations_total\":2,\"epoch\":2,"
                  "\"epochs_total\":2,\"loss\":0.25,\"t_iter_s\":0.125"),
           "with the figures of its last iteration");
        ok(has(r, "\"eval_loss\":0.125,\"eval_accuracy\":0.75"),
           "and evaluation: %s", buf_str(&r->body));
        restarts(r);
    }
}

/* Nothing that a beat said is lost to rows that say less. */
static void test_beats_more(struct rig *r)
{
    char path[64], beat[64];
    uint64_t id = start_job(r, "beats", path);
    (void)snprintf(beat, sizeof(beat), "%llu/1/heartbeat",
                   (unsigned long long)id);
    is_int(as_worker(r, beat, "{\"tokenised\":0.25,\"work\":1}"), 200,
           "a beat before the first iteration");
    is_int(get(r, path), 200, "the job");
    ok(has(r, "\"tokenised\":0.25"), "has the share that is tokenised");
    is_int(as_worker(r, beat,
                     "{\"iteration\":9,\"iterations_total\":10,\"loss\":3}"),
           200, "a beat");
    put_file(r, "spool.0", "{\"iteration\":8,\"loss\":4}\n", 25);
    exits(r, id, 0);
    ok(becomes(r, path, "\"state\":\"FAILED\"") &&
           has(r, "\"iteration\":9,\"iterations_total\":10") &&
           has(r, "\"loss\":3.0"),
       "what a beat said is kept: %s", buf_str(&r->body));
}

static int n_of(const struct rig *r, const char *text)
{
    int n = 0;
    for (const char *p = buf_str(&r->body); (p = strstr(p, text)) != NULL; p++)
        n++;
    return n;
}

/* A worker that is killed leaves lines of its program that are not in its
 * spool. mark: the bytes that it noted; NULL: it wrote no number. */
static void test_killed(struct rig *r, const char *key, const char *mark)
{
    static const char spool[] = "{\"iteration\":1,\"loss\":4}\n"
                                "{\"iteration\":2,\"loss\":3}\n";
    static const char program[] = "{\"iteration\":1,\"loss\":4}\n"
                                  "{\"iteration\":2,\"loss\":3}\n"
                                  "{\"iteration\":3,\"loss\":2,"
                                  "\"iterations_total\":9,\"ok\":true}\n"
                                  "{\"iteration\":4,\"loss\":1}\n"
                                  "{\"iteration\":5,\"lo";
    char path[64], rows[80];
    uint64_t id = start_job(r, key, path);
    put_file(r, "spool.0", spool, sizeof(spool) - 1);
    put_file(r, "metrics.0.jsonl", program, sizeof(program) - 1);
    if (mark)
        put_file(r, "metrics.0.read", mark, strlen(mark));
    exits(r, id, 137);
    ok(becomes(r, path, "\"state\":\"FAILED\"") && has(r, "\"iteration\":4,"),
       "it has ended at its last iteration: %s", buf_str(&r->body));
    (void)snprintf(rows, sizeof(rows), "%s/iterations", path);
    is_int(get(r, rows), 200, "its rows");
    for (int i = 1; i <= 4; i++) {
        char row[24];
        (void)snprintf(row, sizeof(row), "[1,0,%d,", i);
        ok(n_of(r, row) == 1, "iteration %d once", i);
    }
    is_int(n_of(r, "[1,0,"), 4, "half a line is none");
    (void)snprintf(rows, sizeof(rows), "%s/values", path);
    ok(get(r, rows) == 200 && !has(r, "iterations_total"),
       "a total is no metric");
}

int main(void)
{
    static const struct clock clock = {.now_s = moved_now_s,
                                       .wall_s = moved_wall_s};
    static struct slow slow = {.base = {.ops = &slow_ops}};
    struct rig r;
    (void)signal(SIGPIPE, SIG_IGN);
    rig_init(&r);
    r.clock = &clock;
    if (files_direct_create(&slow.real, NULL) < 0)
        exit(1);
    r.slow_files = &slow.base;
    rig_up(&r, NULL);
    test_fault(&r);
    test_waits(&r, &slow);
    test_gives_up(&r, &slow);
    test_reported(&r, &slow);
    test_endless(&r, &slow);
    test_log(&r, &slow);
    test_closed(&r, &slow);
    test_away(&r);
    test_beats_more(&r);
    test_killed(&r, "killed", "                  50\n");
    test_killed(&r, "killed-first", "                   0\n");
    test_killed(&r, "killed-unmarked", NULL);
    test_killed(&r, "killed-odd", "nonsense");
    rig_down(&r);
    slow.real->ops->destroy(slow.real);
    rig_clear(&r);
    return tap_done();
}
