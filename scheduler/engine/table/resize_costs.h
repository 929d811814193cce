/* resize_costs.h - what resizes have cost lately, by workload class. */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_RESIZE_COSTS_H
#define MGPU_SCHEDULER_ENGINE_TABLE_RESIZE_COSTS_H

#include <stdint.h>

struct engine;
struct job_record;

/* The last costs of a class, from the word to stop to the next iteration. A
 * class with the same slot in the table replaces another. */
enum { COSTS_N = 256, COSTS_LAST = 10 };
struct eng_costs {
    uint64_t class_hash; /* 0: unused */
    uint32_t n;          /* so far; the newest is [(n - 1) % COSTS_LAST] */
    float last_s[COSTS_LAST];
};

/* Notes the cost of a resize if the event, which is folded, says that the
 * attempt with the new size has begun to run. */
struct store_event;
void eng_costs_note(struct engine *e, const struct job_record *rec,
                    const struct store_event *ev);
/* The mean of the last costs of the job's class; NAN: none is known. */
double eng_costs_mean_s(const struct engine *e, const struct job_record *rec);

#endif
