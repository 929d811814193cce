/* attempt_dir.h - the files of an attempt's directory, through which the
 * allocator, the shepherd and the batch step communicate.
 *
 * The directory is their only channel that outlives each of them:
 *
 *   launch.json  input of the ranks and of what starts them; written before
 *                anything starts
 *   place        where they run, "host:0,1"; so that a restarted daemon
 *                books the same slots again
 *   lock         flock(2)ed by the shepherd until it exits; holds its pid
 *                and that process's start time
 *   started      exists once the daemon let the shepherd go; before that,
 *                nothing has run and the attempt may be started again
 *   exit         how it ended; the shepherd writes it last, before it
 *                releases the lock
 *   out.<rank>   with several ranks, while they run: the pipe of each to
 *                the log (rank_output.h)
 *   told         under Slurm: Slurm ended it, and why (end_cause.h)
 *   submission   under Slurm: the mark of the attempt's last submission
 *
 * A restarted daemon derives the state of an attempt from them:
 *
 *   lock held, started              it runs
 *   lock held, not started          a shepherd waits for its go, or is
 *                                   exiting because its daemon died: look
 *                                   again in a moment
 *   lock free, exit                 it has ended
 *   lock free, started, no exit     the shepherd died: the attempt is lost
 *   lock free, nothing else         nothing was ever started
 *
 * The daemon takes the lock and the shepherd inherits it, so there is no moment
 * between fork and lock in which a second daemon could find it free. This needs
 * flock(2); NFS emulates it with locks that are not inherited, so the directory
 * has to be on a local file system.
 *
 * Under Slurm an attempt is submitted again after slurmctld has lost it, and
 * the second submission may get the first one's job id while the first one's
 * batch step still runs. So each submission has a random mark: the helper
 * writes it to `submission` and sets it in the batch step's environment, and
 * the batch step repeats it in `started`, `told` and `exit`. Files of earlier
 * releases have no mark; they count for any submission. */
#ifndef MGPU_SLURM_LAUNCH_ATTEMPT_DIR_H
#define MGPU_SLURM_LAUNCH_ATTEMPT_DIR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"
#include "jobs/wire/wire.h"

/* The variable that marks every process of an attempt; its value is the
 * directory. It survives setsid(2), double forks and the end of the
 * shepherd. */
#define ATTEMPT_MARK "MGPU_ATTEMPT_DIR"

/* The daemon sends the shepherd real-time signals, which carry a number and are
 * queued. In both programs these are the first two of the C library's. */
#define SHEPHERD_SIGNAL SIGRTMIN        /* value: the signal for the ranks */
#define SHEPHERD_RELEASE (SIGRTMIN + 1) /* value: grace in milliseconds */

/* The descriptors that a shepherd inherits, besides 0, 1 and 2. */
enum { SHEPHERD_LOCK_FD = 3, SHEPHERD_GO_FD = 4 };

enum { ATTEMPT_TOLD_CAP = 16 };

/* The mark of a submission: 64 random bits, in hexadecimal digits. */
#define ATTEMPT_SUBMISSION "MGPU_SUBMISSION" /* the batch step's variable */
enum { ATTEMPT_SUBMISSION_CAP = 17 };

struct attempt_exit {
    int32_t code, signal;
    double when_s; /* seconds since 1970, as its writer recorded it */
    /* CPU time of all its processes on this machine, and the time that they
     * could use; cores_ms 0: unknown. */
    int64_t cpu_ms, cores_ms;
    uint32_t slurm_id; /* of the Slurm job that wrote it; 0: no such job */
    char submission[ATTEMPT_SUBMISSION_CAP]; /* of the writer; "": unknown */
    /* a word of end_cause.h; "": Slurm did not end it */
    char told[ATTEMPT_TOLD_CAP];
    bool is_ending; /* Slurm ended it, and there is no exit: it is ending, or
                     * was killed before it could write one */
    bool is_other;  /* `submission` is not the attempt's last one. With
                     * is_ending and without `told`: it began, nothing more */
};

struct attempt_pid {
    pid_t pid;
    uint64_t start_ticks; /* field 22 of /proc/<pid>/stat */
};

/* Replaces dir/name atomically, mode 0600; it is on disk when the call
 * returns. */
int attempt_write(const char *dir, const char *name, const char *text,
                  struct error *err) MUST_CHECK;
/* The same without waiting for the disk: for files that processes exchange and
 * that need not survive a reboot. */
int attempt_put(const char *dir, const char *name, const char *text,
                struct error *err) MUST_CHECK;
/* err ERR_NOTFOUND there is none; ERR_DENIED another user owns it, or others
 *      may write to it: the directory may have been replaced */
int attempt_read(const char *dir, const char *name, char *ret, size_t cap,
                 struct error *err) MUST_CHECK;
/* Reads launch.json; attempt_read() on who may have written it.
 * own  *ret: wire_launch_clear() */
int attempt_launch_read(const char *dir, struct wire_launch *ret,
                        struct error *err) MUST_CHECK;
/* 1: there is such a file, 0: there is none, -1: an error. */
int attempt_has(const char *dir, const char *name, struct error *err);

/* err ERR_BUSY another process holds it. The caller closes *ret_fd
 * (O_CLOEXEC). */
int attempt_lock(const char *dir, int *ret_fd, struct error *err) MUST_CHECK;
int attempt_pid_write(int lock_fd, const struct attempt_pid *pid,
                      struct error *err) MUST_CHECK;
int attempt_pid_read(const char *dir, struct attempt_pid *ret,
                     struct error *err) MUST_CHECK;

/* The time of the end for an alloc_note; 0 if when_s is not a valid time. */
int64_t attempt_ended_ms(const struct attempt_exit *x);

/* Reserves the space that attempt_exit_write() needs, before anything runs: if
 * a full disk prevented it, the run would be lost. */
int attempt_exit_reserve(const char *dir, struct error *err) MUST_CHECK;
int attempt_exit_write(const char *dir, const struct attempt_exit *x,
                       struct error *err) MUST_CHECK;
/* Reads `exit`, and `told` of the same submission.
 * err ERR_NOTFOUND there is neither, and only the last submission began */
int attempt_exit_read(const char *dir, struct attempt_exit *ret,
                      struct error *err) MUST_CHECK;
/* in  submission  its mark; "": unknown */
int attempt_told_write(const char *dir, const char *word, uint32_t slurm_id,
                       const char *submission, struct error *err) MUST_CHECK;
int attempt_started_write(const char *dir, uint32_t slurm_id,
                          const char *submission, struct error *err) MUST_CHECK;
/* Writes the mark of a new submission, which becomes the attempt's last one. */
int attempt_submission_write(const char *dir, const char *submission,
                             struct error *err) MUST_CHECK;
/* Whether it is 1..16 hexadecimal digits, the form of a mark. */
bool attempt_is_submission(const char *text);

#endif
