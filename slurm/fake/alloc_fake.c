/* alloc_fake.c - an allocator in virtual time; see alloc_fake.h.
 *
 * A request that exceeds the cluster's size, or is scripted to fail, is refused
 * and forgotten; every other request enters the world (fake_world.c).
 *
 * Only allocators receive notes, and only about attempts that they requested
 * themselves: after a restart, as after a request whose answer was lost
 * (`unknown`), the controller has to request again.
 *
 * A request reserves space in the queue of notes when it is accepted, so that
 * playing events never allocates and never fails. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/fake/fake.h"

/* ---- the allocator --------------------------------------------------------
 */
static int fake_inventory(struct alloc *base, struct alloc_node *nodes,
                          size_t cap, size_t *ret_n, struct error *err)
{
    struct alloc_fake_world *w = ((struct alloc_fake *)base)->world;
    fake_play(w);
    if ((size_t)w->conf.nodes > cap)
        return error_set(err, ERR_LIMIT, "%d nodes, room for %zu",
                         w->conf.nodes, cap);
    for (int32_t i = 0; i < w->conf.nodes; i++)
        fake_node(w, i, &nodes[i]);
    *ret_n = (size_t)w->conf.nodes;
    return 0;
}

/* REFUSED is a note about an attempt that no table has. */
static int refuse(struct alloc_fake *a, const struct alloc_req *req,
                  const char *why, struct error *err)
{
    struct fake_attempt f = {
        .job = req->job, .attempt = req->attempt, .is_watched = true};
    struct alloc_note note = {.kind = ALLOC_REFUSED};
    if (fake_reserve(a, 1, err) < 0)
        return -1;
    (void)error_set(&note.why, ERR_LIMIT, "%s", why);
    fake_push(a, &f, note);
    return 0;
}

static int again(struct alloc_fake *a, struct fake_attempt *f,
                 struct error *err)
{
    if (fake_reserve(a, 1, err) < 0)
        return -1;
    f->is_asked = f->is_watched = true;
    fake_push_state(a, f);
    return 0;
}

/* Whether "n1,n3" has the i-th machine, "n<i + 1>". */
static bool is_excluded(const char *list, int32_t i)
{
    char name[16];
    size_t len = (size_t)snprintf(name, sizeof(name), "n%d", i + 1);
    for (const char *p = list; p && *p; p += strspn(p, ",")) {
        size_t n = strcspn(p, ",");
        if (n == len && strncmp(p, name, n) == 0)
            return true;
        p += n;
    }
    return false;
}

/* Handles ALLOC_FIND for an attempt that was not started: it never starts. */
static int never(struct alloc_fake *a, const struct alloc_req *req,
                 struct error *err)
{
    struct fake_attempt *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, ERR_NOMEM, "attempt");
    f->job = req->job;
    f->attempt = req->attempt;
    f->is_asked = f->is_watched = true;
    if (fake_reserve(a, 2, err) < 0 || fake_add(a->world, f, err) < 0) {
        free(f);
        return -1;
    }
    fake_hit(a->world, f, SIGTERM);
    return 0;
}

static void name(struct alloc_fake_world *w, char ret[ALLOC_NATIVE_ID_CAP])
{
    (void)snprintf(ret, ALLOC_NATIVE_ID_CAP, "fake:%llu",
                   (unsigned long long)++w->serial);
}

/* One node of each machine: the one of its type, or the first. */
static bool is_its_part(const struct alloc_fake_world *w,
                        const struct alloc_req *req, int32_t i)
{
    char type[16];
    (void)snprintf(type, sizeof(type), "fake%d", i % fake_parts(w));
    if (fake_parts(w) == 1)
        return true;
    return req->gpus_per_node > 0 ? strcmp(type, req->where.gpu_type) == 0
                                  : i % fake_parts(w) == 0;
}

/* NULL: out of memory. */
static struct fake_attempt *accept(struct alloc_fake_world *w,
                                   const struct alloc_req *req,
                                   const struct alloc_fake_outcome *outcome)
{
    struct fake_attempt *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->job = req->job;
    f->attempt = req->attempt;
    f->nodes = req->nodes;
    f->gpus_per_node = req->gpus_per_node;
    f->is_exclusive = req->where.exclusive;
    f->outcome = *outcome;
    f->is_asked = true;
    f->is_watched = !outcome->unknown;
    f->ready_s = fake_now(w) + w->conf.grant_delay_s + outcome->wait_s;
    f->at = calloc((size_t)req->nodes, sizeof(*f->at));
    if (!f->at) {
        fake_free(f);
        return NULL;
    }
    name(w, f->real_id);
    memcpy(f->native_id, f->real_id, sizeof(f->native_id));
    if (outcome->twice)
        name(w, f->native_id);
    if (!w->conf.may_use && !req->where.exclude && fake_parts(w) == 1)
        return f;
    f->may_use = calloc((size_t)w->conf.nodes, sizeof(*f->may_use));
    if (!f->may_use) {
        fake_free(f);
        return NULL;
    }
    for (int32_t i = 0; i < w->conf.nodes; i++)
        f->may_use[i] =
            !is_excluded(req->where.exclude, i / fake_parts(w)) &&
            is_its_part(w, req, i) &&
            (!w->conf.may_use || w->conf.may_use(w->conf.arg, i, &req->where));
    return f;
}

static int fake_request(struct alloc *base, const struct alloc_req *req,
                        struct error *err)
{
    struct alloc_fake *a = (struct alloc_fake *)base;
    struct alloc_fake_world *w = a->world;
    fake_play(w);
    if (req->nodes < 1 || req->gpus_per_node < 0)
        return error_set(err, ERR_INVAL, "%d nodes with %d GPUs each",
                         req->nodes, req->gpus_per_node);
    struct fake_attempt *known = fake_find(w, req->job, req->attempt);
    if (known)
        return again(a, known, err);
    if (req->ask == ALLOC_FIND)
        return never(a, req, err);
    if (req->nodes > w->conf.nodes / fake_parts(w) ||
        req->gpus_per_node > w->conf.gpus_per_node) {
        char why[128];
        (void)snprintf(why, sizeof(why),
                       "%d nodes with %d GPUs each, the cluster has %d with %d",
                       req->nodes, req->gpus_per_node, w->conf.nodes,
                       w->conf.gpus_per_node);
        return refuse(a, req, why, err);
    }
    if (fake_parts(w) > 1 && req->gpus_per_node > 0 && !req->where.gpu_type)
        return refuse(a, req, "GPUs of any type", err);
    struct alloc_fake_outcome outcome = {.run_s = 1};
    if (w->conf.outcome)
        w->conf.outcome(w->conf.arg, req->job, req->attempt,
                        req->nodes * req->gpus_per_node, &outcome);
    if (outcome.refuse)
        return refuse(a, req, "refused by the script", err);

    struct fake_attempt *f = accept(w, req, &outcome);
    if (!f)
        return error_set(err, ERR_NOMEM, "attempt");
    if (fake_reserve(a, 3, err) < 0 || fake_add(w, f, err) < 0) {
        fake_free(f);
        return -1;
    }
    if (outcome.unknown)
        return error_set(err, ERR_BUSY, "no answer in time");
    fake_push_state(a, f);
    return 0;
}

static struct fake_attempt *known(struct alloc *base, uint64_t job,
                                  int32_t attempt, struct error *err)
{
    struct alloc_fake *a = (struct alloc_fake *)base;
    fake_play(a->world);
    struct fake_attempt *f = fake_find(a->world, job, attempt);
    if (f && f->is_asked)
        return f;
    (void)error_set(err, ERR_NOTFOUND, "no attempt %d of job %llu", attempt,
                    (unsigned long long)job);
    return NULL;
}

static int fake_release(struct alloc *base, uint64_t job, int32_t attempt,
                        double grace_s, struct error *err)
{
    (void)grace_s; /* a fake rank always obeys SIGTERM */
    struct fake_attempt *f = known(base, job, attempt, err);
    if (!f)
        return -1;
    f->is_watched = true;
    fake_hit(((struct alloc_fake *)base)->world, f, SIGTERM);
    return 0;
}

static int fake_claimed(struct alloc *base, uint64_t job, int32_t attempt,
                        const char *native_id, struct error *err)
{
    struct alloc_fake *a = (struct alloc_fake *)base;
    struct fake_attempt *f = known(base, job, attempt, err);
    if (!f || fake_reserve(a, 1, err) < 0)
        return -1;
    f->claims++;
    if (strcmp(native_id, f->real_id) == 0 &&
        strcmp(f->native_id, f->real_id) != 0) {
        memcpy(f->native_id, f->real_id, sizeof(f->native_id));
        fake_push_state(a, f);
    }
    return 0;
}

static int fake_signal(struct alloc *base, uint64_t job, int32_t attempt,
                       int signo, struct error *err)
{
    struct fake_attempt *f = known(base, job, attempt, err);
    if (!f)
        return -1;
    f->signals += f->state == FAKE_RUNNING;
    f->last_signal = signo;
    if (f->state == FAKE_RUNNING &&
        (signo == SIGTERM || signo == SIGKILL || signo == SIGINT ||
         signo == SIGHUP || signo == SIGQUIT))
        fake_hit(((struct alloc_fake *)base)->world, f, signo);
    return 0;
}

static int fake_poll(struct alloc *base, struct alloc_note *notes, size_t cap,
                     size_t *ret_n, struct error *err)
{
    (void)err;
    struct alloc_fake *a = (struct alloc_fake *)base;
    fake_play(a->world);
    *ret_n = notes_take(&a->queue, notes, cap);
    if (a->queue.at == a->queue.n)
        fake_forget(a->world);
    return 0;
}

static int fake_wake_fd(struct alloc *base)
{
    (void)base;
    return -1;
}

static void fake_destroy(struct alloc *base)
{
    if (!base)
        return;
    int saved = errno;
    struct alloc_fake *a = (struct alloc_fake *)base;
    for (size_t i = 0; i < a->world->n_all; i++)
        a->world->all[i]->is_asked = a->world->all[i]->is_watched = false;
    a->world->attached = NULL;
    notes_clear(&a->queue);
    free(a);
    errno = saved;
}

static size_t fake_quotas(struct alloc *base, const struct alloc_quota **ret)
{
    const struct alloc_fake_world *w = ((struct alloc_fake *)base)->world;
    return w->conf.quotas ? w->conf.quotas(w->conf.arg, ret) : 0;
}

static const struct alloc_ops fake_ops = {
    .name = "fake",
    .inventory = fake_inventory,
    .quotas = fake_quotas,
    .request = fake_request,
    .release = fake_release,
    .claimed = fake_claimed,
    .signal = fake_signal,
    .poll = fake_poll,
    .wake_fd = fake_wake_fd,
    .destroy = fake_destroy,
};

int alloc_fake_create(struct alloc_fake_world *w, struct alloc **ret,
                      struct error *err)
{
    if (w->attached)
        return error_set(err, ERR_STATE, "the world has an allocator");
    struct alloc_fake *a = calloc(1, sizeof(*a));
    if (!a)
        return error_set(err, ERR_NOMEM, "allocator");
    a->base.ops = &fake_ops;
    a->world = w;
    if (fake_reserve(a, 1, err) < 0) {
        free(a);
        return -1;
    }
    w->attached = a;
    *ret = &a->base;
    return 0;
}
