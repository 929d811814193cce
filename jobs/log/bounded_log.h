/* bounded_log.h - the output of an attempt, bounded in size: its head and its
 * tail.
 *
 * The output is a stream of bytes, numbered from 0. With a limit of M bytes the
 * first M/2 are kept in the file `log`; the rest goes to pieces of M/4 bytes
 * named `log.<offset>`, where the offset of the piece's first byte in the
 * stream has 12 digits, so that `cat log*` shows the parts in order. Only the
 * last two pieces are kept. A gap between two parts means that bytes were
 * dropped; a reader prints one marker line for it.
 *
 * One process writes, any number read at the same time, without locks: parts
 * only grow, and a part is deleted whole. */
#ifndef MGPU_JOBS_LOG_BOUNDED_LOG_H
#define MGPU_JOBS_LOG_BOUNDED_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum { JOBLOG_MIN_BYTES = 4096 }; /* smaller limits are raised to this */

struct bounded_log; /* the writer */

/* Removes the parts of an older log in the directory. dir is copied. */
int bounded_log_create(const char *dir, int64_t max_bytes,
                       struct bounded_log **ret, struct error *err) MUST_CHECK;
/* Bytes that cannot be written (a full disk) are counted as dropped, and the
 * next call tries again: a job does not stop because of its log.
 * err  the first failure; all other bytes were written */
int bounded_log_write(struct bounded_log *l, const void *p, size_t n,
                      struct error *err);
void bounded_log_destroy(struct bounded_log *l); /* NULL is fine */

/* Reads up to cap bytes of one part, from *io_offset on.
 *
 * inout io_offset   the position in the stream; moves past a gap and past the
 *                   bytes that were read
 * out   ret_n       0: no more bytes so far
 *       ret_dropped how many bytes are missing before the first one read
 * err   ERR_NOTFOUND there is no log (yet) */
int bounded_log_read(const char *dir, uint64_t *io_offset, void *p, size_t cap,
                     size_t *ret_n, uint64_t *ret_dropped,
                     struct error *err) MUST_CHECK;

/* The line that represents dropped bytes; it begins with a newline, because the
 * bytes before it may end in the middle of a line. Returns its length. */
enum { JOBLOG_MARKER_CAP = 64 };
size_t bounded_log_marker(uint64_t dropped, char ret[JOBLOG_MARKER_CAP]);

#endif
