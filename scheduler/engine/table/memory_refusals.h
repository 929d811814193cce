/* memory_refusals.h - sizes that workers refused because their plan does not
 * fit the memory of a GPU, by workload class and type of GPU.
 *
 * A refusal rules out every size of the class with as many GPUs or fewer: the
 * bytes on each GPU do not fall when a job has fewer of them. More GPUs may
 * divide what a job holds, so a larger size may be tried. A job of the class
 * that runs on a size ends the refusals of that size and of the larger ones.
 *
 * All of it comes from events, so a replay gives the same. The events of
 * archived jobs are not replayed: their refusals are over after a restart.
 */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_MEMORY_REFUSALS_H
#define MGPU_SCHEDULER_ENGINE_TABLE_MEMORY_REFUSALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct job_record;
struct policy_job;
struct policy_view;
struct store_event;

/* The smallest number of bytes that was refused, and the largest size. A new
 * class takes the place of the oldest once there are REFUSALS_N. */
enum { REFUSALS_N = 256 };
struct eng_refusal {
    uint64_t class_hash;
    char gpu_type[32];
    int32_t gpus; /* 0: over */
    int64_t needed_bytes, available_bytes;
};
struct eng_refusals {
    size_t n; /* so far; the newest is [(n - 1) % REFUSALS_N] */
    struct eng_refusal at[REFUSALS_N];
};

/* Notes what the event, which is folded and durable, says. */
void eng_refusals_note(struct engine *e, const struct job_record *rec,
                       const struct store_event *ev);
/* NULL: the class has none on GPUs of this type. */
const struct eng_refusal *eng_refusal_of(const struct engine *e,
                                         const struct job_record *rec,
                                         const char *gpu_type);

/* plan/refused_sizes.c: takes the refused sizes and types of GPUs from each
 * job's bounds. A queued job without another leaves the view, with the reason.
 * Returns the number of jobs that stay. */
size_t eng_refused_drop(struct engine *e, const struct policy_view *v,
                        struct policy_job *jobs);
/* Whether the cluster could hold a size of the job above what was refused to
 * its attempt. */
bool eng_refused_has_larger(const struct engine *e,
                            const struct job_record *rec);

#endif
