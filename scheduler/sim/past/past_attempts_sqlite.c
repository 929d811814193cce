/* past_attempts_sqlite.c - the attempts of a past, whoever ended them. */
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/past/from_db.h"

/* Those that a worker claimed. The first word to stop ends an attempt; one that
 * stopped without a word did so at its end. A preemption with no GPUs takes a
 * size back that was asked for, and stops nothing. */
static const char attempts_sql[] =
    "SELECT a.job, a.gpus, a.intent_at,"
    " coalesce((SELECT min(e.at) FROM event AS e WHERE e.job = a.job"
    "   AND e.attempt = a.attempt AND e.event = 'preempt'"
    "   AND coalesce(json_extract(e.detail, '$.to_gpus'), 1) <> 0"
    "   AND e.at >= a.claimed_at AND e.at <= coalesce(a.ended_at, e.at)),"
    "  a.ended_at)"
    " FROM attempt AS a JOIN job AS j ON j.job = a.job"
    " WHERE j.submitted_at >= ?1 AND j.submitted_at < ?2"
    "  AND j.spec IS NOT NULL AND a.claimed_at > 0"
    " ORDER BY a.job, a.attempt";

static int add(struct past *p, sqlite3_stmt *s, double first_s,
               struct error *err)
{
    if (p->n_attempts == p->cap_attempts) {
        size_t cap = p->cap_attempts ? 2 * p->cap_attempts : 64;
        struct past_attempt *more = calloc(cap, sizeof(*more));
        if (!more)
            return error_set(err, ERR_NOMEM, "%zu attempts", cap);
        if (p->n_attempts > 0)
            memcpy(more, p->attempts, p->n_attempts * sizeof(*more));
        free(p->attempts);
        p->attempts = more;
        p->cap_attempts = cap;
    }
    p->attempts[p->n_attempts++] = (struct past_attempt){
        .job = (uint64_t)sqlite3_column_int64(s, 0),
        .gpus = sqlite3_column_int(s, 1),
        .intent_s = sqlite3_column_double(s, 2) - first_s,
        .stop_s = sqlite3_column_type(s, 3) == SQLITE_NULL
                      ? (double)INFINITY
                      : sqlite3_column_double(s, 3) - first_s};
    return 0;
}

int past_attempts_read(struct sqlite3 *db, double since_s, double until_s,
                       double first_s, struct past *p, struct error *err)
{
    sqlite3_stmt *s = NULL;
    int rc = 0, got = SQLITE_DONE;

    if (sqlite3_prepare_v2(db, attempts_sql, -1, &s, NULL) == SQLITE_OK) {
        (void)sqlite3_bind_double(s, 1, isnan(since_s) ? -1e18 : since_s);
        (void)sqlite3_bind_double(s, 2, isnan(until_s) ? 1e18 : until_s);
        while (rc == 0 && (got = sqlite3_step(s)) == SQLITE_ROW)
            rc = add(p, s, first_s, err);
    } else {
        got = SQLITE_ERROR;
    }
    if (rc == 0 && got != SQLITE_DONE)
        rc = error_set(err, ERR_INVAL, "attempts: %s", sqlite3_errmsg(db));
    (void)sqlite3_finalize(s);
    return rc;
}

/* From the first of a job to the first of the next one. */
size_t past_attempts_of(const struct past *p, uint64_t job, size_t *ret_n)
{
    size_t lo = 0, hi = p->n_attempts;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (p->attempts[mid].job < job)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (*ret_n = 0;
         lo + *ret_n < p->n_attempts && p->attempts[lo + *ret_n].job == job;)
        ++*ret_n;
    return lo;
}

int32_t past_attempts_size(const struct past *p, uint64_t job)
{
    size_t n, first = past_attempts_of(p, job, &n);

    for (size_t i = 1; i < n; i++)
        if (p->attempts[first + i].gpus != p->attempts[first].gpus)
            return 0;
    return n > 0 ? p->attempts[first].gpus : 0;
}
