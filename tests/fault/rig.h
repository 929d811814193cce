/* rig.h - a daemon, or a tool, of which calls fail; and what must still hold.
 *
 *   start.c   while the daemon starts: it refuses, with a line and a status,
 *             or is ready; what was acknowledged before is there
 *   serve.c   while it serves: it goes on, each job runs once, ends and is
 *             there, and no descriptor is left behind
 *   tools.c   in mgpu-submit, mgpu-stat, mgpu-cancel: they say what failed, or
 *             did what they say
 *
 * Each goes through a table of faults (fault.h), and fails the first call, the
 * second... until the last one that is made: with MGPU_FAULT=all, which is
 * `make fault`. Without it most faults, and most calls, are left out, the same
 * ones each time.
 */
#ifndef MGPU_TESTS_FAULT_RIG_H
#define MGPU_TESTS_FAULT_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/buf.h"
#include "tests/fault/fault.h"

enum { RIG_PATH_CAP = 160, RIG_JOBS_MAX = 8192, RIG_DEADLINE_S = 120 };
/* Of struct fault: as long as it is armed. */
enum { FAULT_LASTS = 1 << 30 };
enum fault_how {
    IS_SHORT = 1, /* part of the short run */
    IS_RARE = 2,  /* may well not be called at all */
    BY_PLACE = 4  /* `make fault` fails each place once, not each call */
};

struct fault {
    enum fault_class cls;
    int code; /* errno or FAULT_SHORT */
    const char *name;
    int64_t times; /* 0: once */
    unsigned how;  /* of the bits above */
};

struct rig {
    char dir[64], state[RIG_PATH_CAP], sock[RIG_PATH_CAP], url[RIG_PATH_CAP],
        ran[RIG_PATH_CAP], log[RIG_PATH_CAP], control[RIG_PATH_CAP],
        inject[2 * RIG_PATH_CAP];
    const char *bin; /* borrowed: MGPU_BIN */
    struct fault_control *f;
    struct http_client *http;    /* owned */
    struct buf reply;            /* of the last call */
    pid_t daemon;                /* 0: none */
    int status;                  /* of the one that has ended */
    uint64_t jobs[RIG_JOBS_MAX]; /* acknowledged */
    size_t n_jobs;
    uint32_t n_keys;
};

/* A directory of its own, no daemon yet. Ends the program when that fails. */
void rig_begin(struct rig *r);
/* Stops what runs, and removes the directory. */
void rig_end(struct rig *r);

/* From the n-th call on, or for the n-th time with BY_PLACE: from the first
 * one of another place. n is 1 before it is more. */
void rig_arm(struct rig *r, const struct fault *f, int64_t n);
/* Whether a call failed. */
bool rig_disarm(struct rig *r);
/* The daemon that runs now takes no more faults: what is armed from here on is
 * for programs that are started later. */
void rig_spare_daemon(struct rig *r);
/* After n: the next call to fail. */
int64_t rig_after(int64_t n);
bool rig_is_whole(void);

/* Started, with calls that may fail. */
void rig_start(struct rig *r);
/* True: it is ready. False: it has ended, with r->status. A daemon that does
 * neither within RIG_DEADLINE_S is killed, and has ended by SIGABRT. */
bool rig_is_ready(struct rig *r);
bool rig_has_died(struct rig *r);
/* By SIGTERM; whether its status is 0. */
bool rig_stop(struct rig *r);
/* What it wrote since it was started; valid until the next call. */
const char *rig_said(struct rig *r);
int rig_count_fds(const struct rig *r);

/* The status, or 0 without an answer; the body is r->reply. With nothing armed
 * it asks until there is one, or the daemon has died. */
int rig_call(struct rig *r, const char *method, const char *key,
             const char *body, const char *where, ...)
    __attribute__((format(printf, 5, 6)));
/* A job that leaves a line in r->ran, or is held. 0: it was not acknowledged.
 */
uint64_t rig_submit(struct rig *r, uint32_t key, bool is_held);
/* All that were acknowledged are there; or the oldest and newest of them. */
bool rig_has_all(struct rig *r);
bool rig_has_some(struct rig *r);
/* No attempt has left two lines. */
bool rig_ran_once(struct rig *r);

/* The exit status of a program, as waitpid(2) has it; its output, of both
 * kinds, in r->reply. */
int rig_run(struct rig *r, const char *const *argv);

/* Says where, and what was said; counts. */
void rig_bad(struct rig *r, int *io_n_bad, const char *what);

/* Sleeps a little. False: RIG_DEADLINE_S have passed since *io_until_s, which
 * is 0 at first. */
bool rig_waits(double *io_until_s);

#endif
