/* archive_load.c - jobs that have left memory are read while the loop turns on:
 * what reads their events is never the thread of the loop, whoever asks. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/ctld/rig.h"

enum { TASKS = 300, SINGLES = 90, MANY = 70 };

static struct rig r;
static _Atomic int n_on_loop, n_elsewhere;

static const struct event_store_ops *inner;

static int load_jobs(struct store *s, uint64_t first, uint64_t last,
                     int (*each)(void *arg, const struct store_event *event,
                                 struct error *err),
                     void *arg, struct error *err)
{
    if (pthread_equal(pthread_self(), r.thread))
        n_on_loop++;
    else
        n_elsewhere++;
    return inner->load_jobs(s, first, last, each, arg, err);
}

static const struct event_store_ops *watched(const struct event_store_ops *ops)
{
    static struct event_store_ops mine;
    inner = ops;
    mine = *ops;
    mine.load_jobs = load_jobs;
    return &mine;
}

static void keep_one(struct ctld_conf *conf)
{
    conf->max_ended = 1;
}

static void swept(struct buf *ret)
{
    sweep_text(ret, "swept", TASKS);
}

/* It has left, and somebody asks: until that was read from the archive. */
static bool is_read_for(const char *method, const char *path, const char *body,
                        const char *key, int want, const char *text)
{
    int before = n_elsewhere + n_on_loop;
    for (int i = 0; i < 300; i++) {
        int status = call(&r, method, path, body, key);
        if (status != want || !has(&r, text)) {
            tap_diag("%s %s: %d %.200s", method, path, status,
                     buf_str(&r.body));
            return false;
        }
        if (n_elsewhere + n_on_loop > before)
            return true;
        /* Who submits again and again has it waited for all the time. */
        (void)poll(NULL, 0, i < 25 ? 20 * (i + 1) : 500);
    }
    tap_diag("%s %s: it does not leave", method, path);
    return false;
}

static bool is_read(const char *method, const char *path, int want,
                    const char *text)
{
    return is_read_for(method, path, NULL, NULL, want, text);
}

static uint64_t id_told(void)
{
    const char *at = strstr(buf_str(&r.body), "\"id\":");
    return at ? strtoull(at + 5, NULL, 10) : 0;
}

/* A submit whose user does not wait for the answer. */
static void goes_away(const char *body, const char *key)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char text[600];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int n = snprintf(text, sizeof(text),
                     "POST /v1/jobs HTTP/1.1\r\nHost: x\r\n"
                     "Content-Length: %zu\r\nIdempotency-Key: %s\r\n\r\n%s",
                     strlen(body), key, body);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", r.socket);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        write(fd, text, (size_t)n) != n)
        tap_diag("no request of %d bytes", n);
    if (fd >= 0)
        (void)close(fd);
}

/* What a submit names: by what it waits for, and by its key. Of the sweep
 * under "sweep", whose text this is. */
static void submits(const char *sweep)
{
    char all[64];
#define AFTER(what)                                                    \
    "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"next\"," \
    "\"command\":[\"true\"],\"depends_on\":[" what "]}}"
    ok(is_read_for("POST", "/v1/jobs", AFTER("\"afterany:1\""), NULL, 201,
                   "\"id\":"),
       "a job may wait for it");
    ok(is_read_for("POST", "/v1/jobs",
                   AFTER("\"afterany:1_7\",\"afterany:1_8\""), NULL, 201,
                   "\"id\":"),
       "or for two of its tasks");
    ok(is_read_for("POST", "/v1/jobs", sweep, "sweep", 200, "\"id\":1"),
       "its key brings it again");
    ok(is_read_for("POST", "/v1/jobs", AFTER(""), "sweep", 409,
                   "which has another specification"),
       "and nothing else");
    ok(is_read_for("POST", "/v1/dry-run", AFTER("\"afterany:1\""), NULL, 200,
                   "\"n_tasks\":1"),
       "what would come of one");
    for (int i = 0; i < 3; i++)
        goes_away(AFTER("\"afterany:1\""), "gone");
    int status = call(&r, "POST", "/v1/jobs", AFTER("\"afterany:1\""), "gone");
    uint64_t id = id_told();
    ok(status == 201 || status == 200, "whose user has gone and comes again");
    is_int(call(&r, "POST", "/v1/jobs", AFTER(""), NULL), 201, "another");
    is_int((long)id_told(), (long)id + 1, "is the next: that was one job");
    is_int(call(&r, "POST", "/v1/jobs", AFTER("\"afterany:9999\""), NULL), 400,
           "a job that never was");
    ok(has(&r, "E022"), "with the same words");
    (void)snprintf(all, sizeof(all), "mgpu_jobs{state=\"FAILED\"} %d\n",
                   (int)id + 1);
    ok(becomes(&r, "/metrics", all), "all have ended");
}

/* A sweep whose tasks wait for one job each, from `first` on. */
static void each_after(uint64_t first, struct buf *ret)
{
    int rc = buf_addstr(ret,
                        "{\"spec\":{\"version\":1,\"kind\":\"command\","
                        "\"command\":[\"true\"],\"sweep\":{\"list\":[",
                        NULL);
    for (int i = 0; rc == 0 && i < SINGLES; i++)
        rc = buf_addf(ret, NULL, "%s{\"depends_on\":[\"afterany:%llu\"]}",
                      i > 0 ? "," : "",
                      (unsigned long long)(first + (uint64_t)i));
    if (rc < 0 || buf_addstr(ret, "]}}}", NULL) < 0)
        exit(1);
}

/* More of them than one job can name. */
static void waits_for_many(void)
{
    struct buf body = BUF_INIT;
    char all[64], path[64];
    uint64_t first = 0;
    int status = 201;
    for (int i = 0; i < SINGLES; i++) {
        status = call(&r, "POST", "/v1/jobs",
                      "{\"spec\":{\"version\":1,\"kind\":\"command\","
                      "\"command\":[\"true\"]}}",
                      NULL);
        first = i == 0 ? id_told() : first;
    }
    is_int(status, 201, "jobs by themselves");
    is_int((long)id_told(), (long)first + SINGLES - 1, "  in a row");
    each_after(first, &body);
    /* Who ended first leaves first. */
    (void)snprintf(path, sizeof(path), "/v1/jobs/%llu",
                   (unsigned long long)first + SINGLES - 10);
    ok(is_read("GET", path, 200, "\"id\":"), "most of them leave");
    int before = n_elsewhere;
    is_int(call(&r, "POST", "/v1/jobs", buf_str(&body), NULL), 201,
           "a sweep waits for all of them");
    ok(n_elsewhere - before >= MANY, "  and has %d read", n_elsewhere - before);
    (void)snprintf(all, sizeof(all), "mgpu_jobs{state=\"FAILED\"} %d\n",
                   (int)id_told() + SINGLES - 1);
    ok(becomes(&r, "/metrics", all), "and all have ended");
    buf_clear(&body);
}

static void take_less(struct ctld_conf *conf)
{
    conf->max_ended = 1;
    conf->max_sweep = TASKS - 1;
}

/* The limit is of new ones; what was taken before is answered for. */
static void lowered(const char *sweep)
{
    r.tweak = take_less;
    rig_up(&r, NULL);
    is_int(call(&r, "POST", "/v1/jobs", sweep, "sweep"), 200,
           "a key from before limits.max_sweep was lowered");
    ok(has(&r, "\"id\":1,"), "brings the sweep that it brought");
    is_int(call(&r, "POST", "/v1/jobs", sweep, "new"), 400, "a new one is not");
    ok(has(&r, "a sweep of 300 jobs, of 299 allowed"), "taken");
    is_int(call(&r, "POST", "/v1/dry-run", sweep, NULL), 400, "nor tried");
    is_int(n_on_loop, 0, "nothing of that was read by the loop");
    rig_down(&r);
}

int main(void)
{
    char states[64];
    struct buf text = BUF_INIT;
    (void)signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    rig_init(&r);
    swept(&text);
    r.tweak = keep_one;
    r.wrap_store = watched;
    rig_up(&r, NULL);
    r.alloc.ends_at_once = true;
    is_int(call(&r, "POST", "/v1/jobs", buf_str(&text), "sweep"), 201,
           "a sweep");
    (void)snprintf(states, sizeof(states), "\"states\":{\"FAILED\":%d}", TASKS);
    /* Not before that is durable: what is counted is not yet. */
    ok(becomes(&r, "/v1/jobs/1", states), "all of it has ended");
    ok(is_read("GET", "/v1/jobs/1", 200, states), "it is shown as a whole");
    ok(is_read("GET", "/v1/jobs/1_299", 200, "\"id\":300"), "so is a task");
    ok(is_read("POST", "/v1/jobs/1/cancel", 409, "could be cancelled"),
       "it cannot be cancelled any more");
    ok(is_read("POST", "/v1/attempts/7/1/heartbeat", 403, "over"),
       "a worker hears that its attempt is over");
    is_int(get(&r, "/v1/jobs/301"), 404, "a job that never was");
    submits(buf_str(&text));
    waits_for_many();
    is_int(n_on_loop, 0, "nothing of that was read by the loop");
    rig_down(&r);
    lowered(buf_str(&text));
    buf_clear(&text);
    rig_clear(&r);
    return tap_done();
}
