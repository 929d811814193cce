/* reporter.h - send a rank's rows and heartbeats to the daemon.
 *
 * Rows go to the spool (spool.h) and are posted by a thread of their own,
 * every period_s, from the acknowledged byte on; training waits for nothing
 * but one write(2). Rank 0 also posts heartbeats: each heartbeat_s, and each
 * second while iterations advance; the others post no rows when they had none
 * for heartbeat_s, and so hear whether they may still run. If the daemon is
 * away, requests are repeated for ever, without a log line. A 403 means that
 * this attempt is fenced: the flag is raised, and nothing more is sent.
 *
 * In an attempt rank 0 claims before anything else; all ranks report; at the
 * end all flush, and then rank 0 writes <dir>/report.json and posts the same.
 * Without an url nothing is sent: the spool stays.
 */
#ifndef MGPU_WORKER_REPORT_REPORTER_H
#define MGPU_WORKER_REPORT_REPORTER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/wire/metric_rows.h"

struct report_conf {
    const char *url; /* "": no daemon */
    const char *token;
    const char *dir; /* of the attempt */
    uint64_t job;
    int32_t attempt, rank;
    double heartbeat_s;
    double period_s;   /* 0: 0.5 */
    int64_t max_bytes; /* of the spool; 0: SPOOL_MAX_BYTES */
};

/* Negative integers and NAN: not known yet. */
struct report_progress {
    int64_t iteration, iterations_total;
    int32_t epoch, epochs_total;
    double loss, t_iter, eval_loss, eval_accuracy;
};

struct report_stats {
    int64_t rows, dropped, bytes, acked;
    int64_t saves; /* checkpoints that have begun and ended */
};

/* Whether a request failed for a reason that may pass: the daemon is away, or
 * cannot answer now (its disk fails, it lacks memory). */
bool report_may_pass(enum err_code code);

/* Proves to the daemon that this process is the attempt; retries while it
 * is away, for patience_s, or until *stop (may be NULL) is not 0.
 * err  ERR_FENCED, ERR_DENIED, ERR_STATE, ... as the daemon says: do not
 *      train; one that report_may_pass(): the daemon gave no answer in all that
 *      time, as ERR_UNAVAIL when it was away */
int report_claim(const struct report_conf *conf, double patience_s,
                 const volatile sig_atomic_t *stop,
                 struct error *err) MUST_CHECK;

struct reporter;

/* The conf's strings are copied. */
int reporter_create(const struct report_conf *conf, struct reporter **ret,
                    struct error *err) MUST_CHECK;
void reporter_row(struct reporter *r, const struct metric_row *row);
/* The next heartbeat reports it. */
void reporter_progress(struct reporter *r, const struct report_progress *p);
/* Share of the data that is tokenised, by this job or by another for whose rows
 * it waits, before the first iteration; NAN: all of it, or unknown. Rank 0's
 * goes into its heartbeats. */
void reporter_tokenised(struct reporter *r, double share);
/* The next heartbeat says that the rank works, though no iteration ends. */
void reporter_alive(struct reporter *r);
/* A checkpoint begins, or has ended: rank 0's heartbeats say so, so that the
 * daemon does not take a long one for a hang. */
void reporter_saving(struct reporter *r, bool is_saving);
/* A checkpoint could not be written, for this reason: heartbeats and the final
 * report say so. After SAVES_FAILED_MAX only the log does. */
enum { SAVES_FAILED_MAX = 16, SAVE_FAILED_CAP = 160 };
struct report_failures {
    int32_t n;
    char why[SAVES_FAILED_MAX][SAVE_FAILED_CAP]; /* printable ASCII */
};
void reporter_save_failed(struct reporter *r, const char *why);
void reporter_saves_failed(struct reporter *r, struct report_failures *ret);
/* True once the daemon refused this attempt; *ret_why says how. */
bool reporter_is_fenced(struct reporter *r, struct error *ret_why);
void reporter_stats(struct reporter *r, struct report_stats *ret);

/* Sends what is left, for at most deadline_s, and ends the thread.
 * Returns whether the daemon has every row. */
bool reporter_flush(struct reporter *r, double deadline_s);
void reporter_destroy(struct reporter *r); /* NULL is fine */

/* Sums over all ranks; -1: not known. */
struct report_extra {
    int64_t cpu_ms;               /* time that cores worked for the job */
    int64_t cores_ms;             /* and that of all cores which it might use */
    int64_t gpu_busy_ms, gpus_ms; /* of a command's GPUs; 0: not sampled */
    int stopped; /* 1: a rank was told to stop before its work ended; 0: none
                  * was
                  */
    /* A plan of a rank that does not fit the memory; needed 0: there is none.
     */
    int64_t needed_bytes, available_bytes;
    int refused_by_host; /* 1: the memory of the machine, 0: of a GPU */
    struct report_failures failures; /* of checkpoints */
};

/* The last word, rank 0's or of one that cannot go on: always
 * <dir>/report.json, and the daemon when it answers within deadline_s.
 * in   fault_node  the node of a device that has failed, which is why; or NULL
 *      extra       NULL: not known
 * err  ERR_IO report.json cannot be written */
int report_final(const struct report_conf *conf, int exit_code, const char *why,
                 const char *fault_node, const struct report_extra *extra,
                 double deadline_s, struct error *err) MUST_CHECK;

#endif
