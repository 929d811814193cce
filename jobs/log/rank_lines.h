/* rank_lines.h - extract one rank's lines from a log whose lines begin with a
 * rank's label: "[3] ". A line without a label comes from the launcher. */
#ifndef MGPU_JOBS_LOG_RANK_LINES_H
#define MGPU_JOBS_LOG_RANK_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOGLINES_LABEL_CAP = 16 };

/* Writes "[3] "; returns its length. */
size_t rank_lines_label(int32_t rank, char ret[LOGLINES_LABEL_CAP]);

/* The state of a log that is read in pieces. */
struct rank_lines {
    int32_t rank;
    enum { LINE_BEGINS, LINE_SHOWN, LINE_LEFT_OUT } state;
    size_t n; /* bytes of the label read so far */
};

/* Bytes are missing before the next ones: the rest of the current line belongs
 * to an unknown rank, and is skipped. */
void rank_lines_gap(struct rank_lines *l);
/* Keeps of the n bytes those of the rank, without its labels, and returns their
 * number. */
size_t rank_lines_take(struct rank_lines *l, char *p, size_t n);

#endif
