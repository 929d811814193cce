/* store_faulty.h - a store that fails, or kills the process, at a chosen call.
 */
#ifndef MGPU_DB_STORE_FAULTY_H
#define MGPU_DB_STORE_FAULTY_H

#include "db/event_store.h"

/* Wraps `inner` (owned). Counts calls of append, load, rows, sync_rows,
 * guesses, purge_rows, remove_jobs.
 * The n-th call (from 1) fails with ERR_IO: before the inner call, or after
 * it when `after` is set - done, but not acknowledged. n 0: never. With
 * `kill`, the process kills itself with SIGKILL instead. The call takes
 * slow_s longer before any of that. */
struct store_fault {
    int64_t n;
    int32_t after, kill;
    double slow_s;
};
int store_faulty_create(struct store *inner, const struct store_fault *fault,
                        struct store **ret, struct error *err) MUST_CHECK;
int64_t store_faulty_calls(const struct store *s);

#endif
