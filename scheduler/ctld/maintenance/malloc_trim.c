/* malloc_trim.c - free memory goes back to the system: when the daemon begins,
 * which has read all there is, each minute, and when many jobs have left.
 *
 * Each thread has an arena, and in it what a long list or a database that was
 * looked through took is free afterwards, below a few bytes that are not. The
 * allocator keeps it, and with months and many threads it adds up.
 *
 * On the thread of the logs, which has least to do. The loop may wait for it,
 * for its arena is locked meanwhile: 80 ms after a gigabyte was freed in
 * pieces, and nothing for what is in use or has gone back before. So a change
 * of limits.max_ended_jobs after which all but a few leave is not given back at
 * once, but as they go.
 */
#include <malloc.h>

#include "scheduler/ctld/ctld_internal.h"

static const double EVERY_S = 60;
enum { MANY_JOBS = 4096 }; /* of 2 to 4 kB: a millisecond */

static void trim_run(struct task *t)
{
    (void)t;
    (void)malloc_trim(0);
}

static void trim_done(struct task *t)
{
    struct ctld_memory *m = (struct ctld_memory *)t;
    m->is_trimming = false;
    loop_timer_set(m->timer, m->n_left >= MANY_JOBS ? 0 : EVERY_S);
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    struct ctld_memory *m = &c->memory;
    if (c->stopping)
        return;
    m->task = (struct task){.run = trim_run, .done = trim_done};
    if (thread_post(c->logs, &m->task, NULL) < 0) {
        loop_timer_set(m->timer, EVERY_S);
        return;
    }
    m->is_trimming = true;
    m->n_left = 0;
}

void ctld_jobs_left(struct ctld *c, size_t n)
{
    struct ctld_memory *m = &c->memory;
    m->n_left += n;
    if (m->n_left >= MANY_JOBS && !m->is_trimming)
        loop_timer_soon(m->timer);
}

int ctld_memory_init(struct ctld *c, struct error *err)
{
    if (loop_timer_create(c->loop, on_timer, c, &c->memory.timer, err) < 0)
        return -1;
    loop_timer_set(c->memory.timer, 0);
    return 0;
}

void ctld_memory_clear(struct ctld *c)
{
    loop_source_destroy(c->memory.timer);
}
