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

int thread_create(struct loop *l, const char *name, size_t max_queued,
                  struct thread **ret, struct error *err) MUST_CHECK;
/* err  ERR_BUSY max_queued tasks wait already; t is still the caller's */
int thread_post(struct thread *th, struct task *t,
                struct error *err) MUST_CHECK;
size_t thread_queued(struct thread *th);
/* Runs what is queued, calls done() for all of it, ends. NULL is fine. */
void thread_destroy(struct thread *th);
/* The same, but one that is still at a task after s is left to it, with what is
 * queued: for calls of libraries that nothing interrupts, in a process that is
 * about to end. False: it was left. */
bool thread_destroy_within(struct thread *th, double s);

#endif
