/* rank_lines.h - the lines of one rank, of a log in which each begins with its
 * rank's label: "[3] ". What has no label is the launcher's. */
#ifndef MGPU_JOBS_LOG_RANK_LINES_H
#define MGPU_JOBS_LOG_RANK_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOGLINES_LABEL_CAP = 16 };

/* "[3] "; returns its length. */
size_t loglines_label(int32_t rank, char ret[LOGLINES_LABEL_CAP]);

/* What has been seen of a log that comes in pieces. */
struct loglines {
    int32_t rank;
    enum { LINE_BEGINS, LINE_SHOWN, LINE_LEFT_OUT } state;
    size_t n; /* bytes of its label that have come */
};

/* Bytes are missing before those that come next: to whom the rest of the line
 * belongs is not known, and nobody has it. */
void loglines_gap(struct loglines *l);
/* Leaves of the n bytes those of the rank, without its labels, and returns how
 * many these are. */
size_t loglines_take(struct loglines *l, char *p, size_t n);

#endif
