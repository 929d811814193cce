/* curve_cache.h - curves that were asked for, thinned, so that another request
 * reads only the rows that are new since.
 *
 * Threads: one, the reader's, calls curve_cache_read(); any may call the
 * others. The cache holds a bounded number of bytes and of curves; those that
 * were not asked for the longest go first, and are read again when they are
 * asked for.
 */
#ifndef MGPU_SCHEDULER_CTLD_CURVE_DATA_CURVE_CACHE_H
#define MGPU_SCHEDULER_CTLD_CURVE_DATA_CURVE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/ctld/curve_data/curve_read.h"

struct curve_cache;
struct metric_row;

enum {
    CURVE_CACHE_POINTS = 1024,    /* of a curve: about 120 KiB */
    CURVE_CACHE_BYTES = 64 << 20, /* of a daemon: 500 such curves and more */
    /* However short they are: each batch of rows looks at all of them, and
     * anybody may ask for names that there are not. */
    CURVE_CACHE_CURVES = 4096,
};

int curve_cache_create(size_t max_bytes, struct curve_cache **ret,
                       struct error *err) MUST_CHECK;
void curve_cache_destroy(struct curve_cache *cache); /* NULL is fine */

/* Reads a portion of what is new of a curve: of all attempts, from the first
 * iteration on.
 * in   like   as for curve_read_init()
 * out  io_n   as for curve_read_portion()
 *      *ret   the curve, until the next call
 * err  as for curve_read_portion(); the curve is not kept then */
int curve_cache_read(struct curve_cache *cache, struct store *s,
                     const struct curve_read *like, int64_t *io_n,
                     const struct curve_read **ret,
                     struct error *err) MUST_CHECK;

/* These rows are stored. Those that come late, behind what was read, are read
 * with what follows them. A NULL cache is fine. */
void curve_cache_note(struct curve_cache *cache, uint64_t job, int32_t attempt,
                      const struct metric_row *rows, size_t n);
/* Rows of the jobs from `first` to `last` were removed. */
void curve_cache_forget(struct curve_cache *cache, uint64_t first,
                        uint64_t last);

#endif
