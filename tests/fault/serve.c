/* serve.c - calls fail while mgpu-ctld serves, see rig.h. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "jobs/http/http_client.h"
#include "tests/fault/rig.h"
#include "tests/tap.h"

static const struct fault faults[] = {
    {FAULT_OPEN, EMFILE, "open: EMFILE", 0, IS_SHORT},
    {FAULT_OPEN, EIO, "open: EIO", 0, 0},
    {FAULT_FD, EMFILE, "pipe, socket...: EMFILE", 0, 0},
    {FAULT_READ, EIO, "read: EIO", 0, 0},
    {FAULT_READ, EINTR, "read: EINTR", 0, IS_SHORT},
    {FAULT_READ, FAULT_SHORT, "read: a part", 0, 0},
    {FAULT_WRITE, ENOSPC, "write: ENOSPC", 0, IS_SHORT},
    {FAULT_WRITE, EIO, "write: EIO", 0, 0},
    {FAULT_WRITE, EINTR, "write: EINTR", 0, 0},
    {FAULT_WRITE, FAULT_SHORT, "write: a part", 0, 0},
    {FAULT_WRITE, ENOSPC, "write: ENOSPC a hundred times", 100, 0},
    {FAULT_SYNC, EIO, "fsync: EIO", 0, IS_SHORT},
    {FAULT_NAME, EIO, "rename, mkdir...: EIO", 0, 0},
    {FAULT_NAME, ENOSPC, "rename, mkdir...: ENOSPC", 0, IS_SHORT},
    {FAULT_SIZE, ENOSPC, "ftruncate: ENOSPC", 0, 0},
    {FAULT_STAT, EIO, "stat, access...: EIO", 0, 0},
    {FAULT_FCNTL, ENOLCK, "fcntl: ENOLCK", 0, 0},
    {FAULT_CLOSE, EIO, "close: EIO", 0, 0},
    {FAULT_ACCEPT, EMFILE, "accept: EMFILE", 0, IS_SHORT},
    {FAULT_ACCEPT, ECONNABORTED, "accept: ECONNABORTED", 0, 0},
    {FAULT_ACCEPT, EINTR, "accept: EINTR", 0, 0},
    {FAULT_SOCKET, ENOBUFS, "options of sockets: ENOBUFS", 0, 0},
    {FAULT_TALK, ECONNRESET, "send, recv: ECONNRESET", 0, 0},
    {FAULT_TALK, EINTR, "send, recv: EINTR", 0, 0},
    {FAULT_TALK, FAULT_SHORT, "send, recv: a part", 0, 0},
    {FAULT_POLL, EINTR, "epoll_wait: EINTR", 0, 0},
    {FAULT_POLL, EINTR, "epoll_wait: EINTR a hundred times", 100, 0},
    {FAULT_EPOLL, ENOMEM, "epoll_ctl: ENOMEM", 0, 0},
    {FAULT_SPAWN, EAGAIN, "posix_spawn: EAGAIN", 0, IS_SHORT},
    {FAULT_WAIT, EINTR, "waitpid: EINTR", 0, 0},
    {FAULT_SIGNAL, EPERM, "kill: EPERM", 0, IS_RARE},
    {FAULT_MAP, ENOMEM, "mmap: ENOMEM", 0, IS_RARE},
    {FAULT_RANDOM, EINTR, "getrandom: EINTR", 0, IS_RARE},
    {FAULT_MEMORY, ENOMEM, "malloc: ENOMEM once", 0, BY_PLACE},
    {FAULT_MEMORY, ENOMEM, "malloc: ENOMEM a hundred times", 100, BY_PLACE},
};

/* Jobs of so many faults end together. To look is to make calls, of which each
 * would have its turn. */
enum { CALLS_MAX = 5000, WARM_UPS = 3, TOGETHER = 8, LOOK_MS = 40 };

struct play {
    struct rig r;
    int fds;        /* when nothing is going on; 0: not known yet */
    size_t n_ended; /* of r.jobs */
    int n_bad, n_otherwise;
    char where[TOGETHER][sizeof(((struct fault_control *)0)->where)];
};

/* One line is enough of a stream; this one has no end. */
static int see_line(void *arg, const char *text, size_t len, struct error *err)
{
    (void)arg, (void)text, (void)len;
    return error_set(err, ERR_STATE, "seen");
}

static void look_at_stream(const struct rig *r)
{
    struct http_client_conf conf = {.url = r->url, .timeout_s = 5};
    struct http_client *http = NULL;
    struct buf body = BUF_INIT;
    struct error err = ERROR_INIT;
    int status = 0;
    if (http_client_create(&conf, &http, &err) < 0 ||
        http_client_stream(http, "/v1/watch", see_line, NULL, &status, &body,
                           &err) < 0)
        status = 0;
    http_client_destroy(http);
    buf_clear(&body);
}

static int get_job(struct rig *r, uint64_t id)
{
    return rig_call(r, "GET", NULL, NULL, "/v1/jobs/%" PRIu64, id);
}

static bool is_now(const struct rig *r, const char *state)
{
    char want[48];
    (void)snprintf(want, sizeof(want), "\"state\":\"%s\"", state);
    return strstr(buf_str(&r->reply), want) != NULL;
}

static bool has_ended(const struct rig *r)
{
    return is_now(r, "COMPLETED") || is_now(r, "FAILED") ||
           is_now(r, "CANCELLED") || is_now(r, "NODE_FAIL");
}

/* Whatever comes of it: with a fault armed anything may be refused. */
static void ask_all(struct rig *r, uint32_t key)
{
    static const char *const asked[] = {"/v1/jobs?limit=20", "/metrics",
                                        "/v1/status", "/v1/nodes", "/v1/gpus"};
    uint64_t runs = rig_submit(r, key, false);
    uint64_t held = rig_submit(r, key + 1, true);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        (void)rig_call(r, "GET", NULL, NULL, "%s", asked[i]);
    look_at_stream(r);
    if (held)
        (void)rig_call(r, "POST", NULL, NULL, "/v1/jobs/%" PRIu64 "/cancel",
                       held);
    double until_s = 0;
    /* The first such call may be one of a job's start. */
    bool waits = rig_is_whole() || atomic_load(&r->f->first) <= 1;
    while (runs && waits && atomic_load(&r->f->struck) == 0 &&
           !rig_has_died(r) && !(get_job(r, runs) == 200 && has_ended(r)) &&
           rig_waits(&until_s))
        (void)poll(NULL, 0, LOOK_MS);
    if (runs)
        (void)rig_call(r, "GET", NULL, NULL, "/v1/jobs/%" PRIu64 "/iterations",
                       runs);
}

/* The fault is over: by the same keys both jobs are there. */
static void ask_again(struct play *p, uint32_t key)
{
    struct rig *r = &p->r;
    uint64_t runs = rig_submit(r, key, false);
    uint64_t held = rig_submit(r, key + 1, true);
    if (runs == 0 || held == 0) {
        rig_bad(r, &p->n_bad, "it takes no job once the fault is over");
        return;
    }
    (void)rig_call(r, "POST", NULL, NULL, "/v1/jobs/%" PRIu64 "/cancel", held);
    if (get_job(r, held) != 200 || !is_now(r, "CANCELLED"))
        rig_bad(r, &p->n_bad, "a cancelled job is not");
}

static void wait_for(struct play *p, uint64_t id)
{
    struct rig *r = &p->r;
    double until_s = 0;
    bool was_held = false;
    while (!(get_job(r, id) == 200 && has_ended(r))) {
        if (is_now(r, "HELD") && !was_held) { /* for its start was refused */
            was_held = true;
            const char *why = strstr(buf_str(&r->reply), "\"reason\"");
            tap_diag("job %" PRIu64 " is held: %.160s", id, why ? why : "");
            (void)rig_call(r, "POST", NULL, NULL,
                           "/v1/jobs/%" PRIu64 "/release", id);
        }
        if (rig_has_died(r) || !rig_waits(&until_s)) {
            rig_bad(r, &p->n_bad, "a job does not end");
            return;
        }
    }
    if (!was_held && !is_now(r, "FAILED") && !is_now(r, "NODE_FAIL"))
        return;
    if (p->n_otherwise++ > 0)
        return;
    const char *why = strstr(buf_str(&r->reply), "\"reason\"");
    tap_diag("job %" PRIu64 " ended otherwise: %.160s; what failed was one of",
             id, why ? why : "");
    for (int i = 0; i < TOGETHER; i++)
        tap_diag("  %s", p->where[i]);
}

/* Connections end when both sides have noticed, so it is waited for. */
static void settle(struct play *p)
{
    struct rig *r = &p->r;
    double until_s = 0;
    for (; p->n_ended < r->n_jobs && p->n_bad == 0; p->n_ended++)
        wait_for(p, r->jobs[p->n_ended]);
    if (p->n_bad > 0)
        return;
    do
        if (rig_call(r, "GET", NULL, NULL, "/readyz") == 200 &&
            (p->fds == 0 || rig_count_fds(r) <= p->fds))
            return;
    while (!rig_has_died(r) && rig_waits(&until_s));
    rig_bad(r, &p->n_bad,
            rig_has_died(r) ? "it has died" : "a descriptor is left behind");
}

static void begin(struct play *p)
{
    static const struct fault none = {.name = "none"};
    struct rig *r = &p->r;
    *p = (struct play){.n_bad = 0};
    rig_begin(r);
    rig_start(r);
    if (!rig_is_ready(r))
        rig_bad(r, &p->n_bad, "the daemon does not start");
    /* What is opened once, at the first use. */
    rig_arm(r, &none, 1);
    for (int i = 0; i < WARM_UPS && p->n_bad == 0; i++) {
        ask_all(r, r->n_keys);
        ask_again(p, r->n_keys);
        r->n_keys += 2;
        settle(p);
    }
    if (p->n_bad == 0 && p->n_otherwise > 0)
        rig_bad(r, &p->n_bad, "a job fails without a fault");
    p->fds = rig_count_fds(r);
}

/* False: no call was the n-th. */
static bool one_fault(struct play *p, const struct fault *f, int64_t n)
{
    struct rig *r = &p->r;
    rig_arm(r, f, n);
    ask_all(r, r->n_keys);
    bool has_struck = rig_disarm(r);
    ask_again(p, r->n_keys);
    r->n_keys += 2;
    if (rig_has_died(r))
        rig_bad(r, &p->n_bad, "it has died");
    return has_struck;
}

static void sweep(struct play *p, const struct fault *f)
{
    int n_struck = 0;
    p->n_otherwise = 0;
    for (int64_t n = 1; n <= CALLS_MAX && p->n_bad == 0; n = rig_after(n)) {
        if (!one_fault(p, f, n))
            break;
        (void)snprintf(p->where[n_struck % TOGETHER], sizeof(p->where[0]), "%s",
                       p->r.f->where);
        if (++n_struck % TOGETHER == 0)
            settle(p);
    }
    settle(p);
    if (n_struck == CALLS_MAX)
        rig_bad(&p->r, &p->n_bad, "there are more calls than it goes through");
    /* What passes costs nobody anything. */
    bool passes = f->code == EMFILE || f->code == ENOLCK || f->code == EAGAIN ||
                  f->code == ENOMEM || f->code == EINTR ||
                  f->code == FAULT_SHORT;
    if (p->n_otherwise > 0 && passes)
        rig_bad(&p->r, &p->n_bad, "a job was held, or failed");
    if (p->n_bad == 0 && n_struck == 0 && (f->how & IS_RARE))
        ok(true, "%s: is not called while it serves", f->name);
    else
        ok(p->n_bad == 0 && n_struck > 0,
           "%s: %d times, %d jobs ended otherwise", f->name, n_struck,
           p->n_otherwise);
}

static void end(struct play *p)
{
    struct rig *r = &p->r;
    if (p->n_bad == 0 && !rig_stop(r))
        rig_bad(r, &p->n_bad, "its status for SIGTERM is not 0");
    rig_start(r);
    if (!rig_is_ready(r) || !rig_has_all(r))
        rig_bad(r, &p->n_bad, "after a restart a job is gone");
    if (!rig_ran_once(r))
        rig_bad(r, &p->n_bad, "an attempt ran twice");
    ok(p->n_bad == 0, "all %zu jobs are there, and ran once", r->n_jobs);
    rig_end(r);
}

/* argv[1]: only those with it in their names. */
int main(int argc, char **argv)
{
    static struct play p;
    size_t n = sizeof(faults) / sizeof(faults[0]), done = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_asked = argc > 1 ? strstr(faults[i].name, argv[1]) != NULL
                                 : rig_is_whole() || (faults[i].how & IS_SHORT);
        if (!is_asked)
            continue;
        if (done++ == 0)
            begin(&p);
        sweep(&p, &faults[i]);
        if (p.n_bad > 0 || rig_is_whole()) {
            end(&p);
            done = 0;
        }
    }
    if (done > 0)
        end(&p);
    return tap_done();
}
