/* recall.c - archived jobs come back without the loop waiting for the disk.
 *
 * A job that has left memory is read with all of its sweep, 100 us a task: that
 * is the reader's to do. The loop takes over what was read (engine_adopt()),
 * and goes on with who asked in the same turn, before a step lets it leave
 * again.
 */
#include <stdlib.h>

#include "scheduler/ctld/private.h"
#include "scheduler/engine/past.h"

struct recall {
    struct task task;
    struct ctld *c;
    uint64_t id;
    ctld_recalled_f *fn;
    void *arg;
    struct job **jobs; /* [n], owned */
    size_t n;
    int rc;
    struct error err;
};

static void recall_run(struct task *t)
{
    struct recall *r = (struct recall *)t;
    r->rc = engine_past_read_unit(r->c->parts.store, r->c->jobs_dir, r->id,
                                  &r->jobs, &r->n, &r->err);
}

static void recall_done(struct task *t)
{
    struct recall *r = (struct recall *)t;
    if (r->rc == 0) {
        r->rc = engine_adopt(r->c->engine, r->jobs, r->n, &r->err);
        engine_past_free(r->jobs, r->n);
        free(r->jobs);
    }
    if (r->rc == 0)
        ctld_want_step(r->c); /* in which those leave that are too many */
    r->fn(r->arg, r->rc < 0 ? &r->err : NULL);
    free(r);
}

int ctld_recall(struct ctld *c, uint64_t id, ctld_recalled_f *fn, void *arg,
                struct error *err)
{
    bool is_past = false;
    if (engine_is_past(c->engine, id, &is_past, err) < 0)
        return -1;
    if (!is_past)
        return 0;
    struct recall *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "an archived job");
    *r = (struct recall){.task = {.run = recall_run, .done = recall_done},
                         .c = c,
                         .id = id,
                         .fn = fn,
                         .arg = arg};
    if (thread_post(c->reader, &r->task, err) < 0) {
        free(r);
        return -1;
    }
    return 1;
}

static void go_on(void *arg, const struct error *why)
{
    struct http_exchange *x = arg;
    if (why)
        http_reply_err(x, why);
    else
        http_again(x);
}

bool ctld_recall_for(struct ctld *c, struct http_exchange *x, uint64_t id)
{
    struct error err = ERROR_INIT;
    int rc = ctld_recall(c, id, go_on, x, &err);
    if (rc < 0)
        http_reply_err(x, &err);
    return rc == 0;
}
