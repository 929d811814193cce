/* job_seqs.h - the last event of each job since the daemon's start. */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_SEQS_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_SEQS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The newest jobs have a number each, by id from `from` on; older ones share
 * the last one of all of them. */
struct job_seqs {
    uint64_t *v; /* owned */
    size_t n;
    uint64_t from, old;
    uint64_t last; /* of all; 0: none */
    bool is_lost;  /* one is missing for want of memory */
};

void job_seqs_saw(struct job_seqs *s, uint64_t job, uint64_t seq);
uint64_t job_seqs_of(const struct job_seqs *s, uint64_t job); /* 0: none */
void job_seqs_clear(struct job_seqs *s); /* zeroed is fine */

#endif
