/* pending_reasons.h - how many jobs wait for which reason, for /metrics. */
#ifndef MGPU_SCHEDULER_CTLD_USAGE_PENDING_REASONS_H
#define MGPU_SCHEDULER_CTLD_USAGE_PENDING_REASONS_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/reason.h"

struct job;

/* Further reasons are counted in the last place, as "other". */
enum { PENDING_REASONS_MAX = 32 };
struct pending_reasons {
    struct {
        char token[REASON_TOKEN_CAP];
        uint64_t n;
    } at[PENDING_REASONS_MAX];
    size_t n;
};

/* Counts the job if it is queued, by the token of its reason, or if its attempt
 * is pending in Slurm, with the first word of Slurm's own reason:
 * Slurm(Priority). */
void pending_reasons_add(struct pending_reasons *r, const struct job *job);

#endif
