/* job_watch.c - who begins to watch is shown all jobs although changes never
 * cease.
 *
 * The daemon's clock goes on by a tenth of a slice whenever it is read, so that
 * a turn of the loop has time for a few jobs, however fast the machine is. In
 * each turn more jobs change than that: there is always more to be pushed. The
 * half of a turn is for beginnings all the same.
 */
#include <stdatomic.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_watch.h"
#include "tests/unit/ctld/rig.h"

enum { JOBS = 1000, A_TURN = 50, WAIT_MS = 60000 };

static struct rig r;
static struct loop_source *changes; /* of the daemon's loop; its thread's */
static _Atomic int n_reads, n_turns;
static _Atomic bool begins, ends, has_ended; /* the changes */
static _Atomic bool is_shown;                /* the last job was */

static void change(void *arg)
{
    static uint64_t job;
    (void)arg;
    n_turns++;
    for (int i = 0; i < A_TURN; i++)
        job_watch_changed(r.ctld, job = job % JOBS + 1);
    if (!ends) {
        loop_timer_set(changes, 0);
        return;
    }
    loop_source_destroy(changes);
    has_ended = true;
}

/* What the loop's own thread does is done here: it often asks for the time. */
static double ticking_s(const struct clock *c)
{
    (void)c;
    if (begins && pthread_equal(pthread_self(), r.thread)) {
        begins = false;
        if (loop_timer_create(r.ctld->loop, change, NULL, &changes, NULL) < 0)
            exit(1);
        loop_timer_set(changes, 0);
    }
    return clock_real.now_s(&clock_real) + CTLD_SLICE_S / 10 * n_reads++;
}

static double wall_s(const struct clock *c)
{
    (void)c;
    return clock_real.wall_s(&clock_real);
}

static const struct clock ticking = {.now_s = ticking_s, .wall_s = wall_s};

static void allow_much(struct ctld_conf *conf)
{
    conf->max_spec_bytes = 1 << 20;
}

static void submit(void)
{
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    int rc = buf_addstr(&text,
                        "{\"hold\":true,\"spec\":{\"version\":1,"
                        "\"kind\":\"command\",\"name\":\"many\","
                        "\"command\":[\"true\"],"
                        "\"sweep\":{\"grid\":{\"env.I\":[0",
                        &err);
    for (int i = 1; rc == 0 && i < JOBS; i++)
        rc = buf_addf(&text, &err, ",%d", i);
    rc = rc == 0 ? buf_addstr(&text, "]}}}}", &err) : rc;
    ok(rc == 0, "a body");
    is_int(call(&r, "POST", "/v1/jobs", buf_str(&text), NULL), 201,
           "a sweep of jobs that are held");
    buf_clear(&text);
}

static int on_line(void *arg, const char *text, size_t len, struct error *err)
{
    static const char last[] = "\"job\":{\"id\":1000,";
    (void)arg;
    if (!memmem(text, len, last, sizeof(last) - 1))
        return 0;
    is_shown = true;
    return error_set(err, ERR_STATE, "seen");
}

/* As a tool does: who was too slow for all that changes, and was dropped for
 * it, comes again. */
static void *watch(void *arg)
{
    (void)arg;
    struct http_client_conf conf = {.url = r.url, .connect_timeout_s = 60};
    struct http_client *mine = NULL;
    struct buf body = BUF_INIT;
    int status = 0;
    if (http_client_create(&conf, &mine, NULL) < 0)
        exit(1);
    do
        (void)!http_client_stream(mine, "/v1/watch", on_line, NULL, &status,
                                  &body, NULL);
    while (!is_shown && !ends);
    http_client_destroy(mine);
    buf_clear(&body);
    return NULL;
}

static bool waits_for(const _Atomic bool *what)
{
    for (int ms = 0; !*what && ms < WAIT_MS; ms += 10)
        (void)poll(NULL, 0, 10);
    return *what;
}

int main(void)
{
    pthread_t watcher;

    (void)signal(SIGPIPE, SIG_IGN); /* of a stream that is left */
    rig_init(&r);
    r.clock = &ticking;
    r.tweak = allow_much;
    rig_up(&r, NULL);
    submit();
    (void)pthread_create(&watcher, NULL, watch, NULL);
    ok(waits_for(&is_shown), "a watcher is shown all, when nothing changes");
    (void)pthread_join(watcher, NULL);
    is_shown = false;
    begins = true;
    (void)pthread_create(&watcher, NULL, watch, NULL);
    ok(waits_for(&is_shown), "and when all changes all the time");
    ok(n_turns > 1, "in %d turns", (int)n_turns);
    ends = true;
    ok(waits_for(&has_ended), "the changes end");
    (void)pthread_join(watcher, NULL);
    is_int(get(&r, "/v1/jobs/1"), 200, "the daemon is well");
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
