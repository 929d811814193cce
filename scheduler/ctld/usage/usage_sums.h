/* usage_sums.h - GPU-hours, jobs and waits by user, account, class or node.
 *
 * Attempts are cut to a period. An attempt has its GPUs from its claim to its
 * end. */
#ifndef MGPU_SCHEDULER_CTLD_USAGE_USAGE_SUMS_H
#define MGPU_SCHEDULER_CTLD_USAGE_USAGE_SUMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/metric_store.h"
#include "jobs/base/buf.h"

enum usage_by { USAGE_USER, USAGE_ACCOUNT, USAGE_CLASS, USAGE_NODE };
/* "user", "account", "class", "node"; -1: another word */
int usage_by_of(const char *word, enum usage_by *ret);

/* A row of v_usage; texts are borrowed, and NULL if unknown. Times are seconds
 * since 1970, NAN for not yet. */
struct usage_attempt {
    uint64_t job;
    int32_t attempt, gpus;
    int64_t uid;
    const char *user, *account, *class, *place, *state;
    double submit_s, claim_s, end_s;
    bool is_closed; /* how busy it was is not for the caller */
};
struct usage_attempt usage_attempt_of(const struct store_cell *cells, size_t n);

struct usage_sum {
    char *name;     /* owned; "": none */
    char *job_name; /* owned; of last_job; NULL: unknown */
    uint64_t last_job;
    int64_t jobs, failed, waits;
    double gpu_s, wait_s;
    double busy_s, measured_s; /* of attempts whose share is known */
};

/* What one attempt added to one sum, for its share, which is read later. */
struct usage_part {
    uint64_t job;
    int32_t attempt;
    uint32_t sum;
    double gpu_s;
};

/* A claim that ended a job's wait if nobody had claimed an earlier attempt,
 * which is read later: those that ended before the period are no rows of it. */
struct usage_wait {
    uint64_t job;
    int32_t attempt;
    uint32_t sum;
    double wait_s;
};

struct usage_sums {
    enum usage_by by;
    double since_s, until_s;
    struct usage_sum *v; /* owned; [n] */
    size_t n, cap;
    struct buf parts; /* struct usage_part, in the order of jobs */
    struct buf waits; /* struct usage_wait, in the order of jobs */
    /* Of the job whose attempts come. */
    uint64_t job;
    int32_t n_seen;
    bool was_claimed;
};
void usage_sums_init(struct usage_sums *s, enum usage_by by, double since_s,
                     double until_s);
void usage_sums_clear(struct usage_sums *s);
/* Attempts come in the order of their jobs. err ERR_NOMEM */
int usage_sums_add(struct usage_sums *s, const struct usage_attempt *a,
                   struct error *err) MUST_CHECK;
/* Counts the part as measured; a share of NAN changes nothing. */
void usage_sums_measure(struct usage_sums *s, const struct usage_part *part,
                        double share);
/* Counts the wait, if it was one. */
void usage_sums_wait(struct usage_sums *s, const struct usage_wait *wait);
/* Sets the name of the i-th sum's newest job. err ERR_NOMEM */
int usage_sums_name(struct usage_sums *s, size_t i, const char *job_name,
                    struct error *err) MUST_CHECK;
/* Rows of mgpu.usage/1, those of classes with "job_name"; the largest use
 * first. own json_decref(); NULL: out of memory */
json_t *usage_sums_rows(struct usage_sums *s);

#endif
