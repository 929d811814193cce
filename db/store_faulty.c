/* store_faulty.c - a store that fails at a chosen call.
 *
 * A decorator: it is independent of the inner store. A fault before the inner
 * call simulates a full disk, or a crash before the write; one after it
 * simulates a lost acknowledgement, the hard case of recovery. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "db/metric_store.h"
#include "db/store_faulty.h"

struct store_faulty {
    struct store base;
    struct store *inner;
    struct store_fault fault;
    _Atomic int64_t calls; /* another thread counts rows() */
};

static struct store_faulty *faulty(struct store *s)
{
    return (struct store_faulty *)s;
}

/* Fails, or kills the process, if this is the chosen side of the chosen
 * call. */
static int strike(const struct store_faulty *f, int64_t call, bool after,
                  const char *what, struct error *err)
{
    if (call != f->fault.n || after != (f->fault.after != 0))
        return 0;
    if (f->fault.slow_s > 0)
        (void)poll(NULL, 0, (int)(f->fault.slow_s * 1e3));
    if (f->fault.kill)
        (void)kill(getpid(), SIGKILL);
    return error_set(err, ERR_IO, "%s: injected fault at call %lld", what,
                     (long long)call);
}

static int faulty_append(struct store *s, const struct store_batch *batch,
                         struct error *err)
{
    struct store_faulty *f = faulty(s);
    int64_t call = ++f->calls;

    if (strike(f, call, false, "append", err) < 0 ||
        f->inner->ops->append(f->inner, batch, err) < 0)
        return -1;
    return strike(f, call, true, "append", err);
}

static int faulty_load(struct store *s,
                       int (*each)(void *arg, const struct store_event *event,
                                   struct error *err),
                       void *arg, struct error *err)
{
    struct store_faulty *f = faulty(s);
    int64_t call = ++f->calls;

    if (strike(f, call, false, "load", err) < 0 ||
        f->inner->ops->load(f->inner, each, arg, err) < 0)
        return -1;
    return strike(f, call, true, "load", err);
}

static int faulty_rows(struct store *s, uint64_t job, int32_t attempt,
                       const struct metric_row *rows, size_t n, size_t *ret_new,
                       struct error *err)
{
    struct store_faulty *f = faulty(s);
    int64_t call = ++f->calls;
    size_t added;

    if (strike(f, call, false, "rows", err) < 0 ||
        f->inner->metrics->rows(f->inner, job, attempt, rows, n, &added, err) <
            0 ||
        strike(f, call, true, "rows", err) < 0)
        return -1;
    if (ret_new)
        *ret_new = added;
    return 0;
}

static int faulty_sync_rows(struct store *s, struct error *err)
{
    struct store_faulty *f = faulty(s);
    int64_t call = ++f->calls;

    if (strike(f, call, false, "sync_rows", err) < 0 ||
        f->inner->metrics->sync_rows(f->inner, err) < 0)
        return -1;
    return strike(f, call, true, "sync_rows", err);
}

static int faulty_guesses(struct store *s, const char *class,
                          const char *gpu_type,
                          const struct store_guess *guesses, size_t n,
                          struct error *err)
{
    struct store_faulty *f = faulty(s);
    int64_t call = ++f->calls;

    if (strike(f, call, false, "guesses", err) < 0 ||
        f->inner->metrics->guesses(f->inner, class, gpu_type, guesses, n, err) <
            0)
        return -1;
    return strike(f, call, true, "guesses", err);
}

static int faulty_purge_rows(struct store *s, struct store_purge *io,
                             struct error *err)
{
    struct store_faulty *f = faulty(s);
    int64_t call = ++f->calls;
    struct store_purge to = *io;

    if (strike(f, call, false, "purge_rows", err) < 0 ||
        f->inner->metrics->purge_rows(f->inner, &to, err) < 0 ||
        strike(f, call, true, "purge_rows", err) < 0)
        return -1;
    *io = to;
    return 0;
}

static int faulty_remove_jobs(struct store *s, const uint64_t *jobs, size_t n,
                              double at_s, struct error *err)
{
    struct store_faulty *f = faulty(s);
    int64_t call = ++f->calls;

    if (strike(f, call, false, "remove_jobs", err) < 0 ||
        f->inner->ops->remove_jobs(f->inner, jobs, n, at_s, err) < 0)
        return -1;
    return strike(f, call, true, "remove_jobs", err);
}

static int faulty_removed(struct store *s, uint64_t job,
                          struct store_removed *ret, struct error *err)
{
    struct store *in = faulty(s)->inner;

    return in->ops->removed(in, job, ret, err);
}

static int faulty_query(struct store *s, const struct store_query *q,
                        int (*row)(void *arg, const struct store_cell *cells,
                                   size_t n, struct error *err),
                        void *arg, struct error *err)
{
    struct store *in = faulty(s)->inner;

    return in->metrics->query(in, q, row, arg, err);
}

static int faulty_load_jobs(struct store *s, uint64_t first, uint64_t last,
                            int (*each)(void *arg,
                                        const struct store_event *event,
                                        struct error *err),
                            void *arg, struct error *err)
{
    struct store *in = faulty(s)->inner;

    return in->ops->load_jobs(in, first, last, each, arg, err);
}

static int faulty_past(struct store *s, struct store_past *ret,
                       struct error *err)
{
    struct store *in = faulty(s)->inner;

    return in->ops->past(in, ret, err);
}

static int faulty_archived(struct store *s, const struct store_archive_query *q,
                           int (*each)(void *arg,
                                       const struct store_archived *job,
                                       struct error *err),
                           void *arg, struct error *err)
{
    struct store *in = faulty(s)->inner;

    return in->ops->archived(in, q, each, arg, err);
}

static int faulty_lines(struct store *s, uint64_t first, uint64_t last,
                        int (*each)(void *arg, uint64_t job, const char *line,
                                    struct error *err),
                        void *arg, struct error *err)
{
    struct store *in = faulty(s)->inner;

    return in->ops->lines(in, first, last, each, arg, err);
}

static int faulty_intact(struct store *s, enum store_file which,
                         struct error *err)
{
    struct store *in = faulty(s)->inner;

    return in->metrics->intact(in, which, err);
}

static int faulty_rescue(struct store *s, enum store_file which,
                         const _Atomic bool *stop, char ret[STORE_FILE_CAP],
                         struct error *err)
{
    struct store *in = faulty(s)->inner;

    return in->metrics->rescue(in, which, stop, ret, err);
}

static void faulty_destroy(struct store *s)
{
    if (!s)
        return;
    struct store *in = faulty(s)->inner;
    in->ops->destroy(in);
    free(s);
}

static const struct event_store_ops faulty_ops = {
    .name = "faulty",
    .append = faulty_append,
    .load = faulty_load,
    .load_jobs = faulty_load_jobs,
    .past = faulty_past,
    .archived = faulty_archived,
    .lines = faulty_lines,
    .remove_jobs = faulty_remove_jobs,
    .removed = faulty_removed,
    .destroy = faulty_destroy,
};

static const struct metric_store_ops faulty_metric_ops = {
    .rows = faulty_rows,
    .sync_rows = faulty_sync_rows,
    .guesses = faulty_guesses,
    .purge_rows = faulty_purge_rows,
    .query = faulty_query,
    .intact = faulty_intact,
    .rescue = faulty_rescue,
};

int store_faulty_create(struct store *inner, const struct store_fault *fault,
                        struct store **ret, struct error *err)
{
    struct store_faulty *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, ERR_NOMEM, "a faulty store");
    f->base.ops = &faulty_ops;
    f->base.metrics = inner->metrics ? &faulty_metric_ops : NULL;
    f->inner = inner;
    f->fault = *fault;
    *ret = &f->base;
    return 0;
}

int64_t store_faulty_calls(const struct store *s)
{
    return ((const struct store_faulty *)s)->calls;
}
