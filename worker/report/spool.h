/* spool.h - a file with the rows of one rank that are on their way to the
 * daemon.
 *
 * Training appends whole lines with one write(2) each and never waits for
 * anybody; a sender reads them from the byte that the daemon acknowledged.
 * What the daemon did not get it reads itself, after the job's end: the
 * file is `<dir>/spool.<rank>`, JSON Lines as in jobs/wire/metric_rows.h, and
 * byte numbers count from its start for ever.
 *
 * The bound is on what is not acknowledged; a row past it is dropped and
 * counted. What was acknowledged long ago is given back to the file system
 * as a hole, so that the numbering stays.
 *
 * One thread appends, another may read; the caller locks nothing.
 */
#ifndef MGPU_WORKER_REPORT_SPOOL_H
#define MGPU_WORKER_REPORT_SPOOL_H

#include <stdatomic.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/wire/metric_rows.h"

/* 300 bytes a row: 220,000 iterations without a daemon. */
enum { SPOOL_MAX_BYTES = 64 << 20 };

struct spool {
    int fd; /* -1: not open */
    int64_t max_bytes;
    _Atomic int64_t end;   /* bytes written */
    _Atomic int64_t acked; /* all before it is stored by the daemon */
    int64_t hole;          /* the reader's: given back before this byte */
    int64_t rows, dropped; /* the writer's */
    struct buf line;
};

/* Creates the file, 0600, or empties it. */
int spool_open(struct spool *ret, const char *dir, int32_t rank,
               int64_t max_bytes, struct error *err) MUST_CHECK;
void spool_close(struct spool *s); /* zeroed: call spool_open() first */

/* Appends; what cannot be written is dropped and counted, for no row is
 * worth a failed job. */
void spool_add(struct spool *s, const struct metric_row *row);

/* The whole lines after the acknowledged byte, at most max bytes of them.
 * out  *ret_offset  where they begin; out is reset first and may stay empty
 * err  ERR_LIMIT a line longer than max; ERR_IO */
int spool_read(struct spool *s, size_t max, struct buf *out,
               int64_t *ret_offset, struct error *err) MUST_CHECK;

/* The daemon has all before `acked`. It may know less than before: then the
 * rows are sent again.
 * err  ERR_INVAL beyond what was written */
int spool_ack(struct spool *s, int64_t acked, struct error *err) MUST_CHECK;

#endif
