/* rights.c - one daemon, many users: what each may do and see (S01). Only root
 * can be somebody else, so all but the first part needs root. */
#include <sys/syscall.h>

#include "tests/unit/ctld/rig.h"

enum { OWNER = 1000, OTHER = 1001, ADMIN = 1002 };
static const int64_t admins[] = {ADMIN};

#define LABELLED                                                             \
    "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"hush\","       \
    "\"labels\""                                                             \
    ":{\"team\":\"a\",\"run\":\"1\"},\"command\":[\"true\"],\"resources\":{" \
    "\"gpus\":1}}}"

static struct rig r;

static void for_all(struct ctld_conf *conf)
{
    conf->serves_all = true;
    conf->admins = admins;
    conf->n_admins = 1;
}

/* This thread alone becomes uid, so that the kernel says so to the daemon's
 * thread, which stays as it is. glibc's call would take all threads along. */
static void be(uid_t uid)
{
    if (syscall(SYS_setresuid, (uid_t)-1, uid, (uid_t)-1) < 0)
        exit(1);
}

static int as(uid_t uid, const char *method, const char *path, const char *body)
{
    struct http_client_conf conf = {
        .url = r.url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
    struct http_client *mine = r.http;
    if (http_client_create(&conf, &r.http, NULL) < 0)
        exit(1);
    be(uid);
    int status = call(&r, method, path, body, NULL);
    be(0);
    http_client_destroy(r.http);
    r.http = mine;
    return status;
}

static int no_line(void *arg, const char *text, size_t len, struct error *err)
{
    struct buf *b = arg;
    int rc = buf_add(b, text, len, err);
    if (rc == 0 && strstr(buf_str(b), "\"id\":1,"))
        rc = error_set(err, ERR_STATE, "enough");
    return rc;
}

/* The first lines of /v1/watch, up to job 1, in r.body. */
static void watch_as(uid_t uid)
{
    struct http_client_conf conf = {
        .url = r.url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
    struct http_client *http = NULL;
    struct buf refusal = BUF_INIT;
    struct error err = ERROR_INIT;
    int status = 0;
    if (http_client_create(&conf, &http, NULL) < 0)
        exit(1);
    buf_reset(&r.body);
    be(uid);
    if (http_client_stream(http, "/v1/watch", no_line, &r.body, &status,
                           &refusal, &err) < 0 &&
        err.code != ERR_STATE)
        tap_diag("%s", err.msg);
    be(0);
    buf_clear(&refusal);
    http_client_destroy(http);
}

static void denied(int status, const char *what)
{
    ok(status == 403 && has(&r, "\"DENIED\"") &&
           has(&r, "job 1 belongs to another user") && !has(&r, "hush"),
       "S01: %s", what);
    if (status != 403)
        tap_diag("%d %s", status, buf_str(&r.body));
}

static void test_own(void)
{
    char want[64];
    (void)snprintf(want, sizeof(want), "\"uid\":%ld", (long)getuid());
    is_int(call(&r, "POST", "/v1/jobs",
                "{\"uid\":7,\"user\":\"eve\",\"spec\":{\"version\":1,"
                "\"kind\":\"command\",\"name\":\"mine\",\"command\":[\"true\"],"
                "\"resources\":{\"gpus\":1}}}",
                NULL),
           201, "a submit that names somebody else");
    ok(has(&r, want) && !has(&r, "\"user\":\"eve\""),
       "is that of the caller whom the kernel names");
}

static void test_strangers(void)
{
    static const struct {
        const char *method, *path, *body;
    } closed[] = {
        {"POST", "/v1/jobs/1/cancel", "{}"},
        {"POST", "/v1/jobs/1/cancel", "{\"signal\":\"USR1\"}"},
        {"POST", "/v1/jobs/1/hold", NULL},
        {"POST", "/v1/jobs/1/release", NULL},
        {"POST", "/v1/jobs/1/requeue", NULL},
        {"POST", "/v1/jobs/1/priority", "{\"priority\":1}"},
        {"GET", "/v1/jobs/1", NULL},
        {"GET", "/v1/jobs/1/events", NULL},
        {"GET", "/v1/jobs/1/iterations", NULL},
        {"GET", "/v1/jobs/1/epochs", NULL},
        {"GET", "/v1/jobs/1/values", NULL},
        {"GET", "/v1/jobs/1/curve?of=loss", NULL},
        {"GET", "/v1/jobs/1/profile", NULL},
        {"GET", "/v1/jobs/1/scaling", NULL},
        {"GET", "/v1/jobs/1/logs", NULL},
        {"GET", "/v1/jobs/1/logs?follow=1", NULL},
        {"GET", "/v1/watch?job=1", NULL},
    };
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
        denied(as(OTHER, closed[i].method, closed[i].path, closed[i].body),
               closed[i].path);
    is_int(as(OTHER, "GET", "/v1/jobs/9", NULL), 404,
           "S01: no job is no secret");
    is_int(as(OTHER, "GET", "/v1/nodes", NULL), 200, "nodes are everybody's");
    is_int(as(OWNER, "GET", "/v1/jobs/1", NULL), 200, "its owner sees it");
    ok(has(&r, "\"state\":\"RUNNING\""), "and nothing was done to it");
}

/* As squeue: who, what, where, since when; not how well it learns. */
static void test_queue(void)
{
    is_int(as(OTHER, "GET", "/v1/jobs", NULL), 200, "the queue is everybody's");
    ok(has(&r, "\"name\":\"hush\"") && has(&r, "\"place\":\"n1:0\"") &&
           has(&r, "\"uid\":1000"),
       "with the jobs of others");
    ok(!has(&r, "0.125") && has(&r, "\"loss\":null") &&
           has(&r, "\"iteration\":null"),
       "but not their progress");
    ok(has(&r, "\"labels\":null"), "nor their labels");
    is_int(as(OTHER, "GET", "/v1/jobs?label=team", NULL), 200, "by which");
    ok(has(&r, "\"jobs\":[]"), "they are not found, either");
    is_int(as(OWNER, "GET", "/v1/jobs?label=team%3Da%0Arun", NULL), 200,
           "the owner's");
    ok(has(&r, "\"labels\":{\"team\":\"a\",\"run\":\"1\"}"), "are found");
    is_int(as(OTHER, "GET", "/v1/gpus", NULL), 200, "who has which GPU");
    ok(has(&r, "\"name\":\"hush\"") && has(&r, "\"computing\":null"),
       "is everybody's, how busy it is not");
    is_int(as(OTHER, "GET", "/v1/usage?by=node", NULL), 200, "who used what");
    ok(has(&r, "\"name\":\"n1\",\"jobs\":1,") &&
           has(&r, "\"busy_gpu_hours\":null"),
       "likewise");
    is_int(as(OTHER, "GET", "/v1/usage?by=x", NULL), 400, "by what?");
    is_int(as(OTHER, "GET", "/v1/jobs?user=me", NULL), 200, "one's own");
    ok(has(&r, "\"jobs\":[]"), "are none of them");
    is_int(as(OWNER, "GET", "/v1/jobs?user=me", NULL), 200, "the owner's");
    ok(has(&r, "\"loss\":0.125"), "have it all");
    is_int(as(ADMIN, "GET", "/v1/jobs", NULL), 200, "an administrator");
    ok(has(&r, "\"loss\":0.125"), "sees it, too");
    watch_as(OTHER);
    ok(has(&r, "\"name\":\"hush\"") && !has(&r, "0.125"),
       "a watching stranger sees as little");
    watch_as(OWNER);
    ok(has(&r, "\"loss\":0.125"), "and the owner all");
}

/* Values of metrics in a list: those that /v1/jobs/1/values would give. */
static void test_values(void)
{
    is_int(as_worker(&r, "1/1/rows?rank=0&offset=0",
                     "{\"iteration\":1,\"acc\":0.75,\"own\":0.625}\n"),
           200, "rows");
    ok(becomes(&r, "/v1/jobs?values=acc",
               "],\"values\":{\"1\":{\"acc\":0.75}}}") &&
           !has(&r, "0.625"),
       "a list has the values that it asks for");
    is_int(as(OTHER, "GET", "/v1/jobs?values=acc,own", NULL), 200,
           "another user asks");
    ok(has(&r, "\"name\":\"hush\"") && has(&r, "\"values\":{}}") &&
           !has(&r, "0.75") && !has(&r, "\"acc\""),
       "and gets none");
    is_int(as(OTHER, "GET", "/v1/jobs?fields=id&values=*", NULL), 200,
           "nor of all metrics");
    is_str(buf_str(&r.body) + strcspn(buf_str(&r.body), "["),
           "[{\"id\":1}],\"values\":{}}", "not even their names");
    is_int(as(OWNER, "GET", "/v1/jobs?fields=id&values=*", NULL), 200,
           "the owner");
    ok(has(&r, "\"values\":{\"1\":{") && has(&r, "\"acc\":0.75") &&
           has(&r, "\"own\":0.625"),
       "has them all");
    is_int(as(ADMIN, "GET", "/v1/jobs?fields=id&values=own", NULL), 200,
           "an administrator");
    ok(has(&r, "\"values\":{\"1\":{\"own\":0.625}}"), "has them, too");
}

static void test_words(void)
{
    is_int(as_worker(&r, "1/1/report",
                     "{\"exit_code\":3,\"why\":\"no /home/anna/x.csv\"}"),
           200, "a worker's last words");
    is_int(as(OTHER, "GET", "/v1/jobs", NULL), 200, "the queue");
    ok(!has(&r, "x.csv"), "does not repeat them to strangers");
    is_int(as(OWNER, "GET", "/v1/jobs", NULL), 200, "but it does");
    ok(has(&r, "x.csv"), "to the owner");
}

static void test_admins(void)
{
    is_int(as(ADMIN, "GET", "/v1/jobs/1/events", NULL), 200, "events");
    is_int(as(ADMIN, "POST", "/v1/jobs/1/cancel", "{\"signal\":\"USR1\"}"), 200,
           "an administrator may signal");
    static const char *const closed[] = {"pause",  "resume", "log",
                                         "reload", "backup", "fsck",
                                         "policy", "plan",   "drain"};
    for (int i = 0; i < 9; i++) {
        char path[40];
        (void)snprintf(path, sizeof(path), "/v1/admin/%s", closed[i]);
        const char *method = i == 2 || i == 7 ? "GET" : "POST";
        is_int(as(OWNER, method, path, NULL), 403, path);
        ok(has(&r, "only administrators"), "  is not for users");
    }
    is_int(as(OWNER, "POST", "/v1/jobs/1/priority", "{\"top\":true}"), 403,
           "nor is the top");
    is_int(as(ADMIN, "POST", "/v1/admin/pause", "{\"why\":\"x\"}"), 200,
           "an administrator pauses");
    ok(has(&r, "\"uid\":1002") && has(&r, "\"why\":\"x\""), "  by name");
    is_int(get(&r, "/v1/status"), 200, "and the status");
    ok(has(&r, "\"paused\":{\"uid\":1002"), "  says so");
    is_int(as(ADMIN, "POST", "/v1/admin/resume", "{}"), 200, "and resumes");
    is_int(as(ADMIN, "GET", "/v1/admin/log", NULL), 200, "the log");
    ok(has(&r, "\"do\":\"pause\"") && has(&r, "\"do\":\"resume\""),
       "  has both");
    is_int(as(ADMIN, "POST", "/v1/admin/pause", "{\"why\":7}"), 400,
           "a reason is a text");
    is_int(as(ADMIN, "POST", "/v1/jobs/1/priority", "{}"), 400, "a priority");
    is_int(as(ADMIN, "POST", "/v1/jobs/1/cancel", "{}"), 200, "and cancel");
    ok(becomes(&r, "/v1/jobs/1", "\"state\":\"CANCELLED\"") &&
           has(&r, "\"exit_code\":143") && has(&r, "an administrator"),
       "and it is said who did it");
    is_int(get(&r, "/v1/jobs/1/events"), 200, "also");
    ok(has(&r, "\"event\":\"cancel\"") && has(&r, "\"uid\":1002"),
       "in the events");
}

static void test_personal(void)
{
    rig_init(&r);
    (void)chmod(r.dir, 0755);
    rig_up(&r, NULL);
    struct stat st;
    ok(stat(r.socket, &st) == 0 && (st.st_mode & 0777) == 0600,
       "a personal daemon's socket is its user's");
    (void)chmod(r.socket, 0666);
    is_int(as(OTHER, "GET", "/v1/jobs", NULL), 403,
           "who gets there all the same");
    ok(has(&r, "serves uid 0 only"), "is told why not");
    is_int(get(&r, "/metrics"), 200, "metrics");
    ok(has(&r, "mgpu_refused_total 1\n"), "count it");
    rig_down(&r);
    rig_clear(&r);
}

static void for_other(struct ctld_conf *conf)
{
    conf->uid = OTHER;
}

/* Root may administer somebody's own daemon, which can run no job of his. */
static void test_root_at_personal(void)
{
    rig_init(&r);
    r.tweak = for_other;
    rig_up(&r, NULL);
    is_int(call(&r, "POST", "/v1/jobs", SPEC("mine"), NULL), 403,
           "root's submit to somebody's own daemon");
    ok(has(&r, "\"DENIED\"") && has(&r, "runs jobs of uid 1001 only") &&
           has(&r, "submit as that user"),
       "is told whose jobs it runs");
    is_int(get(&r, "/v1/jobs"), 200, "its queue");
    ok(has(&r, "\"jobs\":[]"), "has no job that would fail");
    rig_down(&r);
    rig_clear(&r);
}

int main(void)
{
    bool is_root = getuid() == 0;
    rig_init(&r);
    (void)chmod(r.dir, 0755);
    r.tweak = for_all;
    rig_up(&r, NULL);
    struct stat st;
    ok(stat(r.socket, &st) == 0 && (st.st_mode & 0777) == 0666,
       "everybody may connect");
    if (!is_root) {
        test_own();
        tap_diag("the rest needs root");
    } else {
        is_int(as(OWNER, "POST", "/v1/jobs", LABELLED), 201, "a job");
        ok(becomes(&r, "/v1/jobs/1", "\"place\":\"n1:0\""), "is placed");
        is_int(as_worker(&r, "1/1/claim", "{\"holder\":\"h 1 1\"}"), 200,
               "claimed");
        is_int(
            as_worker(&r, "1/1/heartbeat", "{\"iteration\":3,\"loss\":0.125}"),
            200, "and runs");
        ok(becomes(&r, "/v1/jobs/1", "\"state\":\"RUNNING\""), "so it is seen");
        test_strangers();
        test_queue();
        test_values();
        test_words();
        test_admins();
        test_own();
    }
    rig_down(&r);
    rig_clear(&r);
    if (is_root) {
        test_personal();
        test_root_at_personal();
    }
    return tap_done();
}
