/* tools.c - calls fail in the tools, see rig.h. The daemon's never do. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/fault/rig.h"
#include "tests/tap.h"

static const struct fault faults[] = {
    {FAULT_OPEN, EMFILE, "open: EMFILE", 0, 0},
    {FAULT_FD, EMFILE, "pipe, socket...: EMFILE", 0, IS_SHORT},
    {FAULT_READ, EIO, "read: EIO", 0, 0},
    {FAULT_READ, EINTR, "read: EINTR", 0, IS_SHORT},
    {FAULT_READ, FAULT_SHORT, "read: a part", 0, 0},
    {FAULT_WRITE, ENOSPC, "write: ENOSPC", 0, 0},
    {FAULT_STAT, EIO, "stat, access...: EIO", 0, 0},
    {FAULT_FCNTL, EBADF, "fcntl: EBADF", 0, 0},
    {FAULT_CLOSE, EIO, "close: EIO", 0, 0},
    {FAULT_SOCKET, ENOBUFS, "connect...: ENOBUFS", 0, 0},
    {FAULT_TALK, ECONNRESET, "send, recv: ECONNRESET", 0, IS_SHORT},
    {FAULT_TALK, FAULT_SHORT, "send, recv: a part", 0, IS_SHORT},
    {FAULT_POLL, EINTR, "poll: EINTR", 0, IS_SHORT},
    {FAULT_SPAWN, EAGAIN, "pthread_create: EAGAIN", 0, 0},
    {FAULT_RANDOM, EIO, "getrandom: EIO", 0, 0},
    {FAULT_MEMORY, ENOMEM, "malloc: ENOMEM once", 0, IS_SHORT | BY_PLACE},
    {FAULT_MEMORY, ENOMEM, "malloc: ENOMEM from there on", FAULT_LASTS,
     BY_PLACE},
};

enum { CALLS_MAX = 5000, COMMANDS = 5 };

static const char spec[] = "version: 1\nkind: command\nname: faulty\n"
                           "resources: {gpus: 1}\ncommand: [sh, -c, 'true']\n"
                           "labels: {a: b}\n";

struct play {
    struct rig r;
    char spec[RIG_PATH_CAP], job[24];
    uint64_t last; /* the highest id so far */
    int n_bad, n_refused;
};

static void begin(struct play *p)
{
    struct rig *r = &p->r;
    *p = (struct play){.n_bad = 0};
    rig_begin(r);
    (void)snprintf(p->spec, sizeof(p->spec), "%s/job.yaml", r->dir);
    FILE *f = fopen(p->spec, "w");
    if (!f || fputs(spec, f) < 0 || fclose(f) != 0)
        rig_bad(r, &p->n_bad, "a specification cannot be written");
    rig_start(r);
    if (!rig_is_ready(r) || (p->last = rig_submit(r, 1, true)) == 0)
        rig_bad(r, &p->n_bad, "the daemon does not start");
    rig_spare_daemon(r);
    (void)snprintf(p->job, sizeof(p->job), "%" PRIu64, p->last);
}

/* Ids are given in turn: those after the last one. */
static int count_new(struct play *p)
{
    int n = 0;
    while (n < 3 && rig_call(&p->r, "GET", NULL, NULL, "/v1/jobs/%" PRIu64,
                             p->last + 1) == 200) {
        p->last++;
        n++;
        /* A user may have a thousand that have not ended. */
        if (rig_call(&p->r, "POST", NULL, NULL, "/v1/jobs/%" PRIu64 "/cancel",
                     p->last) != 200)
            rig_bad(&p->r, &p->n_bad, "a job cannot be cancelled");
    }
    return n;
}

/* One that succeeds has done it, and has said so; one that fails says why,
 * and has done it once at the most. */
static bool one_run(struct play *p, const struct fault *f, int64_t n,
                    const char *const *argv)
{
    struct rig *r = &p->r;
    bool submits = strcmp(argv[0], "mgpu-submit") == 0;
    rig_arm(r, f, n);
    int status = rig_run(r, argv);
    bool has_struck = rig_disarm(r);
    bool is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) >= 126)
        rig_bad(r, &p->n_bad, "it died of a signal, or hung");
    if (r->reply.len == 0)
        rig_bad(r, &p->n_bad,
                is_well ? "it said nothing" : "it gave no reason");
    if (p->n_bad > 0)
        tap_diag("%s: status %d: %.500s", argv[0], status, buf_str(&r->reply));
    p->n_refused += !is_well;
    int new = submits ? count_new(p) : 0;
    if (new > 1 || (submits && is_well && new != 1))
        rig_bad(r, &p->n_bad,
                is_well ? "it succeeded without a job, or with "
                          "two"
                        : "it made two jobs");
    if (rig_has_died(r))
        rig_bad(r, &p->n_bad, "the daemon has died");
    return has_struck;
}

static void sweep(struct play *p, const struct fault *f)
{
    const char *commands[COMMANDS][6] = {
        {"mgpu-submit", "--hold", p->spec, NULL},
        {"mgpu-stat", NULL},
        {"mgpu-stat", "--json", NULL},
        {"mgpu-stat", p->job, NULL},
        {"mgpu-cancel", p->job, NULL},
    };
    int n_struck = 0;
    p->n_refused = 0;
    for (int i = 0; i < COMMANDS && p->n_bad == 0; i++)
        for (int64_t n = 1; n <= CALLS_MAX && p->n_bad == 0; n = rig_after(n)) {
            if (!one_run(p, f, n, commands[i]))
                break;
            n_struck++;
            if (n == CALLS_MAX)
                rig_bad(&p->r, &p->n_bad,
                        "there are more calls than it goes through");
        }
    ok(p->n_bad == 0, "%s: %d times, %d said that they failed", f->name,
       n_struck, p->n_refused);
}

/* argv[1]: only those with it in their names. */
int main(int argc, char **argv)
{
    static struct play p;
    begin(&p);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        if (argc > 1 ? strstr(faults[i].name, argv[1]) != NULL
                     : rig_is_whole() || (faults[i].how & IS_SHORT))
            sweep(&p, &faults[i]);
    ok(rig_stop(&p.r), "the daemon has seen nothing of it");
    rig_end(&p.r);
    return tap_done();
}
