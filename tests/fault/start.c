/* start.c - calls fail while mgpu-ctld starts, see rig.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/fault/rig.h"
#include "tests/tap.h"

static const struct fault faults[] = {
    {FAULT_OPEN, EMFILE, "open: EMFILE", 0, IS_SHORT},
    {FAULT_OPEN, EIO, "open: EIO", 0, 0},
    {FAULT_FD, EMFILE, "pipe, socket...: EMFILE", 0, IS_SHORT},
    {FAULT_READ, EIO, "read: EIO", 0, IS_SHORT},
    {FAULT_READ, EINTR, "read: EINTR", 0, 0},
    {FAULT_READ, FAULT_SHORT, "read: a part", 0, 0},
    {FAULT_WRITE, ENOSPC, "write: ENOSPC", 0, 0},
    {FAULT_WRITE, ENOSPC, "write: ENOSPC from there on", FAULT_LASTS, IS_SHORT},
    {FAULT_WRITE, EINTR, "write: EINTR", 0, 0},
    {FAULT_WRITE, FAULT_SHORT, "write: a part", 0, 0},
    {FAULT_SYNC, EIO, "fsync: EIO", 0, 0},
    {FAULT_NAME, EIO, "rename, mkdir...: EIO", 0, IS_SHORT},
    {FAULT_NAME, ENOSPC, "rename, mkdir...: ENOSPC", 0, 0},
    {FAULT_SIZE, ENOSPC, "ftruncate: ENOSPC", 0, IS_SHORT},
    {FAULT_STAT, EIO, "stat, access...: EIO", 0, IS_SHORT},
    {FAULT_FCNTL, ENOLCK, "fcntl: ENOLCK", 0, 0},
    {FAULT_CLOSE, EIO, "close: EIO", 0, 0},
    {FAULT_ACCEPT, EMFILE, "accept: EMFILE", 0, 0},
    {FAULT_SOCKET, ENOBUFS, "bind, listen...: ENOBUFS", 0, IS_SHORT},
    {FAULT_POLL, EINTR, "epoll_wait: EINTR", 0, 0},
    {FAULT_EPOLL, ENOMEM, "epoll_ctl: ENOMEM", 0, IS_SHORT},
    {FAULT_SPAWN, EAGAIN, "pthread_create: EAGAIN", 0, IS_SHORT},
    {FAULT_MAP, ENOMEM, "mmap: ENOMEM", 0, IS_SHORT},
    {FAULT_RANDOM, EINTR, "getrandom: EINTR", 0, 0},
    {FAULT_RANDOM, EIO, "getrandom: EIO", 0, IS_SHORT},
    {FAULT_MEMORY, ENOMEM, "malloc: ENOMEM once", 0, IS_SHORT},
    {FAULT_MEMORY, ENOMEM, "malloc: ENOMEM from there on", FAULT_LASTS, 0},
};

/* So many jobs stay held. Each job is 280 allocations more for the next start:
 * with one of each life the calls would become more as fast as they fail. */
enum { CALLS_MAX = 40000, HELD = 16, NEW_EVERY = 64 };

/* What it says at its end is for people: after its name, and not a log line
 * alone. */
static bool has_said_why(struct rig *r)
{
    const char *said = rig_said(r);
    return strncmp(said, "mgpu-ctld: ", 11) == 0 ||
           strstr(said, "\nmgpu-ctld: ");
}

/* A life in which the n-th call fails. False: there was none. */
static bool one_life(struct rig *r, const struct fault *f, int64_t n,
                     int *io_refused, int *io_n_bad)
{
    rig_arm(r, f, n);
    rig_start(r);
    bool is_ready = rig_is_ready(r), has_struck = rig_disarm(r);
    if (!is_ready) {
        ++*io_refused;
        if (!WIFEXITED(r->status))
            rig_bad(r, io_n_bad, "it died of a signal, or hung");
        else if (WEXITSTATUS(r->status) == 0)
            rig_bad(r, io_n_bad, "it ended with status 0");
        else if (!has_said_why(r))
            rig_bad(r, io_n_bad, "it ended without a word");
        return has_struck;
    }
    if (!rig_has_some(r))
        rig_bad(r, io_n_bad, "a job is gone");
    bool is_new = r->n_keys < HELD || n % NEW_EVERY == 0;
    r->n_keys += is_new;
    uint64_t id = rig_submit(r, r->n_keys, true);
    if (id == 0)
        rig_bad(r, io_n_bad, "it takes no job once the fault is over");
    /* A user may have a thousand. */
    else if (is_new && r->n_keys > HELD &&
             rig_call(r, "POST", NULL, NULL, "/v1/jobs/%" PRIu64 "/cancel",
                      id) != 200)
        rig_bad(r, io_n_bad, "a job cannot be cancelled");
    if (!rig_stop(r))
        rig_bad(r, io_n_bad, "its status for SIGTERM is not 0");
    return has_struck;
}

static void sweep(const struct fault *f)
{
    struct rig r;
    int n_struck = 0, refused = 0, n_bad = 0;
    rig_begin(&r);
    for (int64_t n = 1; n <= CALLS_MAX && n_bad < 3; n = rig_after(n)) {
        if (!one_life(&r, f, n, &refused, &n_bad))
            break;
        n_struck++;
    }
    if (n_struck == CALLS_MAX)
        rig_bad(&r, &n_bad, "there are more calls than it goes through");
    /* What is left of all those is a state like any other. */
    rig_start(&r);
    ok(rig_is_ready(&r) && rig_has_all(&r) && rig_stop(&r) && n_bad == 0 &&
           n_struck > 0,
       "%s: %d times, %d refused to start", f->name, n_struck, refused);
    rig_end(&r);
}

/* argv[1]: only those with it in their names. */
int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        if (argc > 1 ? strstr(faults[i].name, argv[1]) != NULL
                     : rig_is_whole() || (faults[i].how & IS_SHORT))
            sweep(&faults[i]);
    return tap_done();
}
