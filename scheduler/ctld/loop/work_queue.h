/* work_queue.h - a thread that works off a bounded queue, in order, and reports
 * back to the loop. docs/ctld.md says which the daemon has, and why.
 */
#ifndef MGPU_SCHEDULER_CTLD_LOOP_WORK_QUEUE_H
#define MGPU_SCHEDULER_CTLD_LOOP_WORK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "scheduler/ctld/loop/event_loop.h"

/* Embedded first in a larger struct. run() is called on the thread, then
 * done() on the loop, which frees; in between the task belongs to the
 * thread. */
struct task {
    void (*run)(struct task *t);
    void (*done)(struct task *t);
    struct task *next;
};

struct thread;

int work_queue_create(struct loop *l, const char *name, size_t max_queued,
                      struct thread **ret, struct error *err) MUST_CHECK;
/* err  ERR_BUSY max_queued tasks wait already; t is still the caller's */
int work_queue_post(struct thread *th, struct task *t,
                    struct error *err) MUST_CHECK;
size_t work_queue_queued(struct thread *th);
/* Runs what is queued, calls done() for all of it, ends. NULL is fine. */
void work_queue_destroy(struct thread *th);

#endif
