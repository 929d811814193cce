/* archive_load.c - read archived jobs into memory without blocking the loop.
 *
 * A job is read with all tasks of its sweep, 100 us a task, so the reader's
 * thread does that. The loop adopts all jobs of a request together
 * (engine_adopt()) and calls the handler in the same turn, before a step evicts
 * them again.
 */
#include "scheduler/ctld/request/archive_load.h"

#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/engine/store/archive.h"

/* A request that names many large sweeps must not fill the memory. */
enum { JOBS_MAX = 16 * SPEC_TASKS_MAX };

struct recall {
    struct task task;
    struct ctld *c;
    archive_loaded_f *fn;
    void *arg;
    struct error err; /* of the first that could not be read */
    size_t n_units;
    struct unit {
        uint64_t id;
        struct job **jobs; /* [n], owned; NULL: not read */
        size_t n;
    } units[];
};

/* The ids ascend, so the other tasks of its sweep come right before it. */
static bool is_read(const struct unit *last, uint64_t id)
{
    return last && id - last->jobs[0]->id < last->n;
}

static void drop_all(struct recall *r)
{
    for (size_t i = 0; i < r->n_units; i++) {
        struct unit *u = &r->units[i];
        if (u->n == 0)
            continue;
        engine_archive_free(u->jobs, u->n);
        free(u->jobs);
        u->n = 0;
    }
}

/* A job that was removed meanwhile is no reason to leave the others out. */
static int read_unit(struct recall *r, struct unit *u)
{
    struct error why = ERROR_INIT;
    if (engine_archive_read_unit(r->c->parts.store, r->c->jobs_dir, u->id,
                                 &u->jobs, &u->n, &why) == 0)
        return 0;
    if (r->err.code == ERR_NONE)
        r->err = why;
    return why.code == ERR_NOTFOUND ? 0 : -1;
}

static void recall_run(struct task *t)
{
    struct recall *r = (struct recall *)t;
    const struct unit *last = NULL;
    size_t n_jobs = 0;
    int rc = 0;
    for (size_t i = 0; i < r->n_units && rc == 0; i++) {
        struct unit *u = &r->units[i];
        if (is_read(last, u->id))
            continue;
        rc = read_unit(r, u);
        n_jobs += u->n;
        last = u->n > 0 ? u : last;
        if (n_jobs > JOBS_MAX) {
            drop_all(r);
            rc = error_set(&r->err, ERR_INVAL,
                           "depends_on: jobs that ended long ago, whose sweeps "
                           "have more than %d tasks [E022]",
                           JOBS_MAX);
        }
    }
}

static void recall_done(struct task *t)
{
    struct recall *r = (struct recall *)t;
    for (size_t i = 0; i < r->n_units; i++) {
        struct unit *u = &r->units[i];
        struct error why = ERROR_INIT;
        if (u->n == 0)
            continue;
        if (engine_adopt(r->c->engine, u->jobs, u->n, &why) == 0)
            ctld_step_want(r->c); /* in which those leave that are too many */
        else if (r->err.code == ERR_NONE)
            r->err = why;
        engine_archive_free(u->jobs, u->n);
        free(u->jobs);
    }
    r->fn(r->arg, r->err.code == ERR_NONE ? NULL : &r->err);
    free(r);
}

int archive_load_all(struct ctld *c, const uint64_t *ids, size_t n,
                     archive_loaded_f *fn, void *arg, struct error *err)
{
    struct recall *r = calloc(1, sizeof(*r) + n * sizeof(r->units[0]));
    if (!r)
        return error_set(err, ERR_NOMEM, "an archived job");
    r->task = (struct task){.run = recall_run, .done = recall_done};
    r->c = c;
    r->fn = fn;
    r->arg = arg;
    r->n_units = n;
    for (size_t i = 0; i < n; i++)
        r->units[i].id = ids[i];
    if (work_queue_post(c->reader, &r->task, err) < 0) {
        free(r);
        return -1;
    }
    return 0;
}

int archive_load(struct ctld *c, uint64_t id, archive_loaded_f *fn, void *arg,
                 struct error *err)
{
    bool is_past = false;
    if (engine_is_past(c->engine, id, &is_past, err) < 0)
        return -1;
    if (!is_past)
        return 0;
    return archive_load_all(c, &id, 1, fn, arg, err) < 0 ? -1 : 1;
}

static void go_on(void *arg, const struct error *why)
{
    struct http_exchange *x = arg;
    if (why)
        http_reply_err(x, why);
    else
        http_again(x);
}

bool archive_load_for(struct ctld *c, struct http_exchange *x, uint64_t id)
{
    struct error err = ERROR_INIT;
    int rc = archive_load(c, id, go_on, x, &err);
    if (rc < 0)
        http_reply_err(x, &err);
    return rc == 0;
}
