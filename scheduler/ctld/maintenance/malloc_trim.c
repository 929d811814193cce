/* malloc_trim.c - give free heap memory back to the system: at the start, after
 * the daemon has read its state, then each minute, and when many jobs have left
 * memory.
 *
 * Each thread has an arena. Memory that a long list or a database scan took is
 * free afterwards, but lies below a few bytes that are in use. The allocator
 * keeps it, and with months and many threads it adds up.
 *
 * The thread of the logs trims, because it has least to do. The loop may wait
 * for it, because its arena is locked meanwhile: 80 ms after a gigabyte was
 * freed in pieces, and nothing for memory that is in use or was given back
 * before. So after a change of limits.max_ended_jobs that evicts almost all
 * jobs, memory is not given back at once but while they leave.
 */
#include "scheduler/ctld/maintenance/malloc_trim.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"

struct malloc_trim {
    struct task task; /* the first */
    struct loop_source *timer;
    bool is_trimming;
    size_t n_left; /* jobs archived since the last trim */
};

static const double EVERY_S = 60;
enum { MANY_JOBS = 4096 }; /* of 2 to 4 kB: a millisecond */

static void trim_run(struct task *t)
{
    (void)t;
    (void)malloc_trim(0);
}

static void trim_done(struct task *t)
{
    struct malloc_trim *m = (struct malloc_trim *)t;
    m->is_trimming = false;
    loop_timer_set(m->timer, m->n_left >= MANY_JOBS ? 0 : EVERY_S);
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    struct malloc_trim *m = c->malloc_trim;
    if (c->stopping)
        return;
    m->task = (struct task){.run = trim_run, .done = trim_done};
    if (work_queue_post(c->logs, &m->task, NULL) < 0) {
        loop_timer_set(m->timer, EVERY_S);
        return;
    }
    m->is_trimming = true;
    m->n_left = 0;
}

void malloc_trim_archived(struct ctld *c, size_t n)
{
    struct malloc_trim *m = c->malloc_trim;
    if (!m)
        return;
    m->n_left += n;
    if (m->n_left >= MANY_JOBS && !m->is_trimming)
        loop_timer_soon(m->timer);
}

int malloc_trim_init(struct ctld *c, struct error *err)
{
    struct malloc_trim *m = c->malloc_trim = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, ERR_NOMEM, "memory timer");
    if (loop_timer_create(c->loop, on_timer, c, &m->timer, err) < 0)
        return -1;
    loop_timer_set(m->timer, 0);
    return 0;
}

void malloc_trim_clear(struct ctld *c)
{
    if (!c->malloc_trim)
        return;
    loop_source_destroy(c->malloc_trim->timer);
    free(c->malloc_trim);
    c->malloc_trim = NULL;
}
