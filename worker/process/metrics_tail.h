/* metrics_tail.h - follow $MGPU_METRICS, a file to which a child appends JSON
 * Lines.
 *
 * Lines go to the reporter as they are complete. A line that is no row is
 * skipped and counted, and the first is named in the log: a program's own
 * mistake in a metric is no reason to stop it. A key that is no metric is named
 * once, and the line's numbers are taken.
 *
 * Next to the file is metrics.<rank>.read: up to which byte of it the spool has
 * the rows. When this process is killed, the daemon reads on from there.
 *
 * "iterations_total" and "epochs_total" are progress, not metrics. Without
 * "t_iter" the step time of the progress is measured here.
 */
#ifndef MGPU_WORKER_PROCESS_METRICS_TAIL_H
#define MGPU_WORKER_PROCESS_METRICS_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "worker/report/reporter.h"

struct tail {
    int fd, mark_fd; /* mark_fd -1: there is none, and all is read again */
    int64_t at;      /* bytes read */
    int32_t rank;
    struct buf path, rest; /* rest: of a line that is not complete */
    int64_t bad, lines;
    bool is_skipping;            /* in a line that is too long */
    struct metric_ignored named; /* keys that the log has named */
    struct report_progress progress;
    /* The first iteration that was read, and when: since then the step time is
     * measured. */
    int64_t pace_iteration;
    double pace_s;
};

/* Creates <dir>/metrics.<rank>.jsonl, 0600, empty, and its mark. */
int tail_open(struct tail *ret, const char *dir, int32_t rank,
              struct error *err) MUST_CHECK;
void tail_close(struct tail *t); /* {.fd = -1, .mark_fd = -1} is fine */

/* Takes what has come since the last call, 1 MiB of it at most: a program
 * that writes faster than we read must not keep us from a signal. Returns
 * whether there may be more. */
bool tail_read(struct tail *t, struct reporter *r);
/* Size of the file now. */
int64_t tail_size(const struct tail *t);
/* The writer is gone: a last line without its newline counts. */
void tail_end(struct tail *t, struct reporter *r);

#endif
