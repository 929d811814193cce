/* archived_lists.c - lists of jobs that are in memory, have left it, leave or
 * come back meanwhile: each is there once and in its place, whatever the limit,
 * and what is read for a list that nobody waits for does no harm. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/ctld/rig.h"

/* More than are read at a time, and in parts that leave each as a whole. */
enum { SWEEPS = 4, TASKS = 300, ALL = SWEEPS * TASKS };

static struct rig r;
static _Atomic int n_on_loop, n_read, n_lines;

static const struct event_store_ops *inner;

static int load_jobs(struct store *s, uint64_t first, uint64_t last,
                     int (*each)(void *arg, const struct store_event *event,
                                 struct error *err),
                     void *arg, struct error *err)
{
    n_on_loop += pthread_equal(pthread_self(), r.thread) != 0;
    n_read += (int)(last - first + 1);
    return inner->load_jobs(s, first, last, each, arg, err);
}

static int lines(struct store *s, uint64_t first, uint64_t last,
                 int (*each)(void *arg, uint64_t job, const char *line,
                             struct error *err),
                 void *arg, struct error *err)
{
    n_on_loop += pthread_equal(pthread_self(), r.thread) != 0;
    n_lines += (int)(last - first + 1);
    return inner->lines(s, first, last, each, arg, err);
}

static const struct event_store_ops *watched(const struct event_store_ops *ops)
{
    static struct event_store_ops mine;
    inner = ops;
    mine = *ops;
    mine.load_jobs = load_jobs;
    mine.lines = lines;
    return &mine;
}

static void keep_one(struct ctld_conf *conf)
{
    conf->max_ended = 1;
}

static bool submit_sweep(int name)
{
    struct buf text = BUF_INIT;
    char path[48], called[16];
    (void)snprintf(called, sizeof(called), "s%d", name);
    sweep_text(&text, called, TASKS);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%d/cancel", name * TASKS + 1);
    bool is = call(&r, "POST", "/v1/jobs", buf_str(&text), NULL) == 201 &&
              call(&r, "POST", path, "{}", NULL) == 200;
    buf_clear(&text);
    return is;
}

/* What lines cannot tell: the events are read for it. */
static bool of_events;

/* Whether the list has the last `limit` of the ids from first to last. */
static bool lists(const char *query, int limit, int first, int last)
{
    char path[120];
    (void)snprintf(path, sizeof(path), "/v1/jobs?fields=id%s&limit=%d%s",
                   of_events ? ",labels" : "", limit, query);
    int status = get(&r, path), n = last - first + 1;
    first = n > limit ? last - limit + 1 : first;
    json_t *o = json_loads(buf_str(&r.body), 0, NULL);
    const json_t *jobs = json_object_get(o, "jobs"), *job;
    size_t i;
    bool is = status == 200 && (int)json_array_size(jobs) == last - first + 1;
    json_array_foreach(jobs, i, job)
    {
        is = is &&
             json_integer_value(json_object_get(job, "id")) == first + (int)i;
    }
    json_decref(o);
    if (!is)
        tap_diag("%s: %d, %.200s", path, status, buf_str(&r.body));
    return is;
}

/* Who asks, and goes before there is an answer, unless `fd` is wanted. */
static void ask(const char *path, int *ret_fd)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char text[200];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", r.socket);
    int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: m\r\n\r\n",
                     path);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
        write(fd, text, (size_t)n) != n)
        tap_diag("ask: %s", strerror(errno));
    if (ret_fd)
        *ret_fd = fd;
    else if (fd >= 0)
        (void)close(fd);
}

static bool round_of_lists(int round)
{
    static const int limits[] = {ALL + 1, ALL, ALL - 1, 1025, 1024, 1023, 513,
                                 512,     511, 100,     65,   64,   63,   1};
    bool is = true;
    char path[48];
    of_events = round % 2;
    for (size_t i = 0; is && i < sizeof(limits) / sizeof(limits[0]); i++) {
        /* One of them comes back, and leaves again. */
        (void)snprintf(path, sizeof(path), "/v1/jobs/%d",
                       ((round + (int)i) % SWEEPS) * TASKS + 1);
        is = get(&r, path) == 200 && lists("", limits[i], 1, ALL);
        ask("/v1/jobs", NULL);
    }
    return is && lists("&state=CANCELLED,FAILED", 700, 1, ALL) &&
           lists("&name=s1", 70, TASKS + 1, 2 * TASKS) &&
           lists("&name=s0", 1000, 1, TASKS) &&
           lists("&id_min=250&id_max=1100", 800, 250, 1100) &&
           lists("&sweep=301", 1000, TASKS + 1, 2 * TASKS) &&
           lists("&since=2020-01-01T00:00:00Z", ALL, 1, ALL) &&
           lists("&since=2999-01-01T00:00:00Z", ALL, 1, 0);
}

/* The members that a line has, as it tells them and as events do. */
static void test_same(void)
{
    static const char fields[] =
        "id,name,user,uid,kind,state,reason,priority,gpus_min,gpus_max,gpus,"
        "attempt,exit_code,place,position,display_id,sweep,task,submitted,"
        "started,ended,elapsed_s,limit_s,left_s,iteration,iterations_total,"
        "epoch,epochs_total,loss,t_iter_s,eta_s,eval_loss,eval_accuracy";
    char path[500];
    int before = n_read;
    (void)snprintf(path, sizeof(path), "/v1/jobs?state=CANCELLED&fields=%s",
                   fields);
    int status = get(&r, path);
    json_t *a = json_loads(buf_str(&r.body), 0, NULL);
    ok(status == 200 && n_read == before, "a list without an event");
    (void)snprintf(path, sizeof(path),
                   "/v1/jobs?state=CANCELLED&fields=%s,begin", fields);
    status = get(&r, path);
    json_t *b = json_loads(buf_str(&r.body), 0, NULL);
    const json_t *jobs = json_object_get(a, "jobs");
    ok(status == 200 && n_read > before && json_array_size(jobs) > ALL / 2 &&
           json_equal(jobs, json_object_get(b, "jobs")),
       "  says the same as one of events");
    json_decref(a);
    json_decref(b);
}

int main(void)
{
    bool is = true;
    int fd = -1, n_rounds = 0;
    (void)signal(SIGPIPE, SIG_IGN); /* as main.c does */
    rig_init(&r);
    r.tweak = keep_one;
    r.wrap_store = watched;
    rig_up(&r, NULL);
    for (int i = 0; is && i < SWEEPS; i++)
        is = submit_sweep(i);
    ok(is, "%d jobs of %d sweeps end", ALL, SWEEPS);
    is = becomes(&r, "/metrics", "mgpu_jobs{state=\"QUEUED\"} 0\n") && is;
    is = becomes(&r, "/metrics", "mgpu_jobs{state=\"RUNNING\"} 0\n") && is;
    /* Until each was read several times. */
    while (is && (n_read < 4 * ALL || n_lines < 4 * ALL || n_rounds < 2) &&
           n_rounds < 200)
        is = round_of_lists(n_rounds++);
    ok(is, "each list has each job in its place");
    ok(n_read >= 4 * ALL, "  most were read from the archive");
    ok(n_lines >= 4 * ALL, "  or told by their lines");
    test_same();
    is_int(n_on_loop, 0, "  and none by the loop");
    for (int i = 0; i < 20; i++)
        ask(i % 2 ? "/v1/jobs" : "/v1/jobs?name=none", NULL);
    ok(lists("", ALL, 1, ALL), "who goes does no harm");
    ask("/v1/jobs", &fd);
    rig_down(&r);
    ok(fd >= 0, "nor does an end in the midst of one");
    (void)close(fd);
    rig_clear(&r);
    return tap_done();
}
