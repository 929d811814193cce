/* ordered_work.h - items that several threads work on, and that come back in
 * the order in which they were given.
 *
 * One thread, the owner, puts items in and takes them out. */
#ifndef MGPU_WORKER_DATA_TEXT_ORDERED_WORK_H
#define MGPU_WORKER_DATA_TEXT_ORDERED_WORK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ordered_work;

enum { ORDERED_WORK_THREADS = 64 };

struct ordered_work_conf {
    int32_t threads; /* 0: the owner works on an item when it puts it in */
    /* Processors of the threads, if the kernel allows it; NULL or empty: those
     * of the owner. */
    const cpu_set_t *cpus;
    /* in   thread  its number, below `threads`; 0 for the owner */
    void (*work)(void *arg, int32_t thread, void *item);
    void (*drop)(void *item); /* an item that is not taken out */
    void *arg;
};

/* Processors of the set, or if it is NULL or empty those that this process may
 * run on; at most ORDERED_WORK_THREADS. */
int32_t ordered_work_cpus(const cpu_set_t *cpus);

/* Starts fewer threads, or none, where the system refuses more.
 * out  ret  end it with ordered_work_end()
 * err  ERR_NOMEM */
int ordered_work_start(const struct ordered_work_conf *conf,
                       struct ordered_work **ret, struct error *err) MUST_CHECK;
/* Ends the threads, and drops what was not taken out. NULL is fine. */
void ordered_work_end(struct ordered_work *w);

bool ordered_work_is_full(const struct ordered_work *w);
/* in   w  not full */
void ordered_work_put(struct ordered_work *w, void *item);
/* The oldest item; NULL: there is none, or it is not done and the caller does
 * not wait. */
void *ordered_work_take(struct ordered_work *w, bool wait);

#endif
