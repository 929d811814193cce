/* log_times.h - when the bytes of an attempt's log were written.
 *
 * The log (bounded_log.h) stays the plain text that it is; beside it lies the
 * file `times`. Its first line is "mgpu-times 1 RANKS": so many ranks have
 * their label at the beginning of each line (rank_lines.h), or 0: none has.
 * Then a line for each stretch of the log, in order:
 *
 *   END FIRST LAST
 *
 * END is the offset in the stream behind the stretch, which begins where the
 * one before it ended; the two others are milliseconds since 1970 of its first
 * and its last write. A stretch is of one second at most. When there are
 * LOGTIMES_MAX of them, each two become one and stretches are of twice that
 * time from then on: the file is bounded, and what it tells is as good as
 * a few thousandths of the time that was logged. Behind the last line is what
 * was written just now.
 *
 * One process writes; the file is only appended to, or exchanged as a whole.
 */
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

struct logtimes; /* the writer */

/* Takes the place of an older one.
 * in  dir    copied
 *     ranks  that are labelled; 0: none */
int logtimes_create(const char *dir, int32_t ranks, struct logtimes **ret,
                    struct error *err) MUST_CHECK;
/* The bytes at..end of the stream were written at now_s, seconds since 1970.
 * A file that cannot be written is less to be told, and no error. */
void logtimes_note(struct logtimes *t, uint64_t end, double now_s);
/* To be called now and then: a stretch ends when nothing has come for its
 * time. Returns after how many seconds again, or INFINITY. */
double logtimes_rest(struct logtimes *t, double now_s);
/* Writes down the last stretch. NULL is fine. */
void logtimes_destroy(struct logtimes *t);

/* What the file says, of which the first n bytes were read.
 *
 * out  ret_ranks   how many are labelled
 *      ret_offset  where the log has to be read from, to see all that was
 *                  written at since_s or later
 * err  ERR_INVAL   it is no such file
 */
int logtimes_find(const char *text, size_t n, double since_s,
                  int32_t *ret_ranks, uint64_t *ret_offset,
                  struct error *err) MUST_CHECK;

#endif
