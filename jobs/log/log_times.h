/* log_times.h - an index from the time of output to its position in an
 * attempt's log.
 *
 * The log (bounded_log.h) remains plain text; next to it is the file `times`.
 * Its first line is "mgpu-times 1 RANKS": the number of ranks whose labels
 * begin the lines (rank_lines.h), or 0: no labels. Then it has a line for each
 * stretch of the log, in order:
 *
 *   END FIRST LAST
 *
 * END is the offset in the stream at the end of the stretch, which begins at
 * the end of the previous one; the two others are milliseconds since 1970 of
 * its first and its last write. A stretch covers one second at most. When there
 * are LOGTIMES_MAX of them, pairs are merged, and later stretches cover twice
 * that time: the file is bounded, and its resolution is a few thousandths of
 * the time that was logged. Bytes after the last line's END were written just
 * now.
 *
 * One process writes; the file is only appended to, or replaced as a whole. */
#ifndef MGPU_JOBS_LOG_LOG_TIMES_H
#define MGPU_JOBS_LOG_LOG_TIMES_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum {
    LOGTIMES_MAX = 8192,
    LOGTIMES_LINE_MAX = 64,
    LOGTIMES_FILE_MAX = (LOGTIMES_MAX + 1) * LOGTIMES_LINE_MAX
};
#define LOGTIMES_NAME "times"

struct log_times; /* the writer */

/* Replaces an older file.
 * in  dir    copied
 *     ranks  with labels; 0: none */
int log_times_create(const char *dir, int32_t ranks, struct log_times **ret,
                     struct error *err) MUST_CHECK;
/* Records that the bytes up to end were written at now_s, seconds since 1970.
 * If the file cannot be written, the index is incomplete; that is no error. */
void log_times_note(struct log_times *t, uint64_t end, double now_s);
/* Call it at intervals: it ends a stretch after a pause in the output. Returns
 * in how many seconds to call it again, or INFINITY. */
double log_times_rest(struct log_times *t, double now_s);
/* Writes the last stretch. NULL is fine. */
void log_times_destroy(struct log_times *t);

/* Searches the file's text; n bytes of it were read.
 *
 * out  ret_ranks   how many have labels
 *      ret_offset  where to start reading the log, to see all that was written
 *                  at since_s or later
 * err  ERR_INVAL   not such a file */
int log_times_find(const char *text, size_t n, double since_s,
                   int32_t *ret_ranks, uint64_t *ret_offset,
                   struct error *err) MUST_CHECK;

#endif
