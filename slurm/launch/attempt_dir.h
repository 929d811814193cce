/* attempt_dir.h - what the local allocator and a shepherd tell each other.
 *
 * An attempt's directory is their only channel that outlives either:
 *
 *   launch.json  what the ranks are to do; written before anything starts
 *   place        where they run, "host:0,1"; so that a restarted daemon
 *                books the same slots again
 *   lock         flock(2)ed by the shepherd for as long as it lives; holds
 *                its pid and that process's start time
 *   started      exists once the shepherd was told to go; before that,
 *                nothing has run and the attempt may be started again
 *   exit         how it ended; the shepherd's last act before it lets the
 *                lock go
 *   out.<rank>   of several ranks, while they run: the pipe of each to the
 *                log (rank_output.h)
 *   told         under Slurm: that Slurm told it to end, and why (end_cause.h)
 *   submission   under Slurm: the mark of the attempt's last submission
 *
 * From these a daemon that knows nothing finds out how things stand:
 *
 *   lock held, started              it runs
 *   lock held, not started          a shepherd waits for its go, or is just
 *                                   leaving because its daemon died: look
 *                                   again in a moment
 *   lock free, exit                 it has ended
 *   lock free, started, no exit     the shepherd died: the attempt is lost
 *   lock free, nothing else         nothing was ever started
 *
 * The lock is taken by the daemon and inherited by the shepherd, so there is
 * no moment between fork and lock in which a second daemon could be fooled.
 * flock(2) is needed for that; over NFS it is emulated with locks that are
 * not inherited, so the directory has to be on a local file system.
 *
 * Under Slurm an attempt is submitted again when slurmctld has lost it, and
 * the second submission may get the first one's job id, while the first
 * one's batch step still runs. So each submission has a random mark: the
 * helper writes it to `submission` and sets it in the batch step's
 * environment, and the batch step repeats it in `started`, `told` and `exit`.
 * Files of earlier releases have no mark; they count for any submission.
 */
#ifndef MGPU_SLURM_LAUNCH_ATTEMPT_DIR_H
#define MGPU_SLURM_LAUNCH_ATTEMPT_DIR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"

/* The variable that marks every process of an attempt; its value is the
 * directory. It survives setsid(2), double forks and the shepherd. */
#define ATTEMPT_MARK "MGPU_ATTEMPT_DIR"

/* How daemon and shepherd speak: real-time signals, which carry a number and
 * are queued. In both programs these are the first two of the C library's. */
#define SHEPHERD_SIGNAL SIGRTMIN        /* value: the signal for the ranks */
#define SHEPHERD_RELEASE (SIGRTMIN + 1) /* value: grace in milliseconds */

/* The descriptors that a shepherd is born with, besides 0, 1 and 2. */
enum { SHEPHERD_LOCK_FD = 3, SHEPHERD_GO_FD = 4 };

enum { ATTEMPT_TOLD_CAP = 16 };

/* The mark of a submission: 64 random bits, in hexadecimal digits. */
#define ATTEMPT_SUBMISSION "MGPU_SUBMISSION" /* the batch step's variable */
enum { ATTEMPT_SUBMISSION_CAP = 17 };

struct attempt_exit {
    int32_t code, signal;
    double when_s; /* seconds since 1970, as somebody wrote it */
    /* What all its processes on this machine used, and what they might have;
     * cores_ms 0: not known. */
    int64_t cpu_ms, cores_ms;
    uint32_t slurm_id; /* of the Slurm job that wrote it; 0: no such job */
    char submission[ATTEMPT_SUBMISSION_CAP]; /* that wrote it; "": not known */
    /* a word of end_cause.h; "": it was not told */
    char told[ATTEMPT_TOLD_CAP];
    bool is_ending; /* it was told, and there is no exit: it is ending, or was
                       killed before it could write one */
    bool is_other;  /* `submission` is not the attempt's last one. With
                       is_ending and without `told`: it began, no more */
};

struct attempt_pid {
    pid_t pid;
    uint64_t start_ticks; /* field 22 of /proc/<pid>/stat */
};

/* Replaces dir/name as a whole, mode 0600, on disk when it returns. */
int attempt_write(const char *dir, const char *name, const char *text,
                  struct error *err) MUST_CHECK;
/* The same, but on disk some time later: for what processes tell each other,
 * none of which outlives a reboot, by who has no time to wait for a disk. */
int attempt_put(const char *dir, const char *name, const char *text,
                struct error *err) MUST_CHECK;
/* err ERR_NOTFOUND there is none; ERR_DENIED it is another user's, or others
 * may write to it: a directory may have been exchanged for another */
int attempt_read(const char *dir, const char *name, char *ret, size_t cap,
                 struct error *err) MUST_CHECK;
/* 1 there is such a file, 0 there is none, -1 it cannot be told. */
int attempt_has(const char *dir, const char *name, struct error *err);

/* err ERR_BUSY somebody holds it. The caller closes *ret_fd (O_CLOEXEC). */
int attempt_lock(const char *dir, int *ret_fd, struct error *err) MUST_CHECK;
int attempt_pid_write(int lock_fd, const struct attempt_pid *pid,
                      struct error *err) MUST_CHECK;
int attempt_pid_read(const char *dir, struct attempt_pid *ret,
                     struct error *err) MUST_CHECK;

/* As of an alloc_note; 0 where it is no time at all. */
int64_t attempt_ended_ms(const struct attempt_exit *x);

/* Takes the room that attempt_exit_write() needs, before anything runs: an
 * end that a full disk swallows would be a run for nothing. */
int attempt_exit_reserve(const char *dir, struct error *err) MUST_CHECK;
int attempt_exit_write(const char *dir, const struct attempt_exit *x,
                       struct error *err) MUST_CHECK;
/* With what `told` says of the same submission.
 * err ERR_NOTFOUND there is neither, and none but the last submission began */
int attempt_exit_read(const char *dir, struct attempt_exit *ret,
                      struct error *err) MUST_CHECK;
/* in  submission  its mark; "": not known */
int attempt_told_write(const char *dir, const char *word, uint32_t slurm_id,
                       const char *submission, struct error *err) MUST_CHECK;
int attempt_started_write(const char *dir, uint32_t slurm_id,
                          const char *submission, struct error *err) MUST_CHECK;
/* The mark of a new submission, kept as the attempt's last one. */
int attempt_submission_write(const char *dir, const char *submission,
                             struct error *err) MUST_CHECK;
/* 1..16 hexadecimal digits, as a mark is. */
bool attempt_is_submission(const char *text);

#endif
