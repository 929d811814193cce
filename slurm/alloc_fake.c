/* alloc_fake.c - an allocator in virtual time; see alloc_fake.h.
 *
 * The world is a first-come, first-served cluster: a request becomes ready
 * grant_delay_s after it was made, and the oldest ready request that fits is
 * granted; a younger one never overtakes an older one that waits for GPUs,
 * unless it needs none.
 * Nothing happens by itself: every call that looks at the world first plays
 * the events that are due, in the order of their time, up to the clock's
 * now. What is asked for beyond the cluster's size, or scripted so, is
 * refused and forgotten; everything else is remembered for ever, so that a
 * key is started at most once.
 *
 * Only an allocator is told anything, and only about attempts that it asked
 * for itself: after a restart, as with a request whose answer was lost
 * (`unknown`), the controller has to ask again.
 *
 * The queue of notes is made large enough when a request is accepted, so
 * that playing events never allocates and never fails.
 */
#include "slurm/alloc_fake.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/notes.h"
#include "slurm/place_text.h"

/* From the signal to the end of the ranks. Not zero: a controller must cope
 * with an attempt that is released and still there. */
static const double MOMENT_S = 0.1;

enum fake_state { FAKE_PENDING, FAKE_RUNNING, FAKE_ENDED };

struct fake_attempt {
    uint64_t job;
    int32_t attempt;
    enum fake_state state;
    int32_t nodes, gpus_per_node;
    double ready_s; /* PENDING: when it may be granted */
    double end_s;   /* RUNNING: when it ends */
    struct alloc_fake_outcome outcome;
    bool is_asked;   /* in this life of the allocator */
    bool is_watched; /* and the answer was not lost */
    int32_t starts;
    char native_id[ALLOC_NATIVE_ID_CAP];
    char place[ALLOC_PLACE_CAP];
    struct fake_attempt *prev, *next; /* live: pending or running, by age */
};

struct alloc_fake {
    struct alloc base;
    struct alloc_fake_world *world;
    struct notes queue;
};

struct alloc_fake_world {
    struct alloc_fake_conf conf;
    double t_s; /* the last event played */
    uint64_t serial;
    struct fake_attempt **all; /* sorted by (job, attempt); owned */
    size_t n_all, cap_all;
    struct fake_attempt *first, *last; /* the live ones */
    size_t n_live;
    struct fake_attempt **owner; /* [nodes * gpus_per_node]; NULL: free */
    struct alloc_fake *attached;
};

/* ---- notes ----------------------------------------------------------------
 */
/* Room for `more` notes and for all that the live attempts can still cause:
 * a grant and an end each. */
static int queue_reserve(struct alloc_fake *a, size_t more, struct error *err)
{
    return notes_reserve(&a->queue, 2 * a->world->n_live + more, err);
}

static void push(struct alloc_fake *a, const struct fake_attempt *f,
                 struct alloc_note note)
{
    if (!a || !f->is_watched)
        return;
    note.job = f->job;
    note.attempt = f->attempt;
    memcpy(note.native_id, f->native_id, sizeof(note.native_id));
    memcpy(note.place, f->place, sizeof(note.place));
    notes_push(&a->queue, &note);
}

static void push_end(struct alloc_fake *a, const struct fake_attempt *f)
{
    struct alloc_note note = {.kind = ALLOC_EXITED,
                              .exit_code = f->outcome.exit_code,
                              .signal = f->outcome.signal};
    if (f->outcome.lose) {
        note = (struct alloc_note){.kind = ALLOC_LOST};
        (void)error_set(&note.why, ERR_EXTERN, "node failure");
    }
    push(a, f, note);
}

/* ---- the attempts ---------------------------------------------------------
 */
/* The index of (job, attempt), or where it would have to be inserted. */
static size_t position(const struct alloc_fake_world *w, uint64_t job,
                       int32_t attempt)
{
    size_t lo = 0;
    size_t hi = w->n_all;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct fake_attempt *f = w->all[mid];
        if (f->job < job || (f->job == job && f->attempt < attempt))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct fake_attempt *find(const struct alloc_fake_world *w, uint64_t job,
                                 int32_t attempt)
{
    size_t i = position(w, job, attempt);
    if (i < w->n_all && w->all[i]->job == job && w->all[i]->attempt == attempt)
        return w->all[i];
    return NULL;
}

static void live_remove(struct alloc_fake_world *w, struct fake_attempt *f)
{
    if (f->prev)
        f->prev->next = f->next;
    else
        w->first = f->next;
    if (f->next)
        f->next->prev = f->prev;
    else
        w->last = f->prev;
    f->prev = f->next = NULL;
    w->n_live--;
}

/* Takes f over on success. */
static int add(struct alloc_fake_world *w, struct fake_attempt *f,
               struct error *err)
{
    if (w->n_all == w->cap_all) {
        size_t cap = w->cap_all ? 2 * w->cap_all : 64;
        struct fake_attempt **p = calloc(cap, sizeof(struct fake_attempt *));
        if (!p)
            return error_set(err, ERR_NOMEM, "table of %zu attempts", cap);
        if (w->n_all > 0)
            memcpy(p, w->all, w->n_all * sizeof(struct fake_attempt *));
        free(w->all);
        w->all = p;
        w->cap_all = cap;
    }
    size_t i = position(w, f->job, f->attempt);
    memmove(w->all + i + 1, w->all + i,
            (w->n_all - i) * sizeof(struct fake_attempt *));
    w->all[i] = f;
    w->n_all++;
    f->prev = w->last;
    if (w->last)
        w->last->next = f;
    else
        w->first = f;
    w->last = f;
    w->n_live++;
    return 0;
}

/* ---- the cluster ----------------------------------------------------------
 */
static int32_t free_on(const struct alloc_fake_world *w, int32_t node)
{
    int32_t n = 0;
    for (int32_t g = 0; g < w->conf.gpus_per_node; g++)
        n += !w->owner[node * w->conf.gpus_per_node + g];
    return n;
}

static bool fits(const struct alloc_fake_world *w, const struct fake_attempt *f)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->conf.nodes; i++)
        n += free_on(w, i) >= f->gpus_per_node;
    return n >= f->nodes;
}

/* Takes the first free GPUs of the first nodes that have enough. */
static void book(struct alloc_fake_world *w, struct fake_attempt *f)
{
    struct place_text text;
    place_text_begin(&text);
    int32_t left = f->nodes;
    for (int32_t i = 0; i < w->conf.nodes && left > 0; i++) {
        if (free_on(w, i) < f->gpus_per_node)
            continue;
        left--;
        char name[32];
        (void)snprintf(name, sizeof(name), "n%d", i + 1);
        place_text_node(&text, name);
        int32_t want = f->gpus_per_node;
        for (int32_t g = 0; g < w->conf.gpus_per_node && want > 0; g++) {
            struct fake_attempt **slot =
                &w->owner[i * w->conf.gpus_per_node + g];
            if (*slot)
                continue;
            *slot = f;
            want--;
            place_text_index(&text, g);
        }
    }
    assert(left == 0);
    place_text_end(&text, f->place, sizeof(f->place));
}

static void start(struct alloc_fake_world *w, struct fake_attempt *f)
{
    book(w, f);
    f->state = FAKE_RUNNING;
    f->end_s = w->t_s + f->outcome.run_s;
    f->starts++;
    push(w->attached, f, (struct alloc_note){.kind = ALLOC_GRANTED});
}

static void end(struct alloc_fake_world *w, struct fake_attempt *f)
{
    for (int32_t i = 0; i < w->conf.nodes * w->conf.gpus_per_node; i++)
        if (w->owner[i] == f)
            w->owner[i] = NULL;
    f->state = FAKE_ENDED;
    live_remove(w, f);
    push_end(w->attached, f);
}

/* The next event: an attempt that ends, or the oldest waiting one if it fits
 * now. NULL and INFINITY for none. */
static struct fake_attempt *next_event(const struct alloc_fake_world *w,
                                       double *ret_s)
{
    struct fake_attempt *best = NULL;
    struct fake_attempt *head = NULL;
    double best_s = INFINITY;
    for (struct fake_attempt *f = w->first; f; f = f->next) {
        if (f->state == FAKE_RUNNING && f->end_s < best_s) {
            best = f;
            best_s = f->end_s;
        } else if (f->state == FAKE_PENDING) {
            double at_s = fmax(f->ready_s, w->t_s);
            bool is_next = f->gpus_per_node == 0 || (!head && fits(w, f));
            if (f->gpus_per_node > 0)
                head = head ? head : f;
            if (is_next && at_s < best_s) {
                best = f;
                best_s = at_s;
            }
        }
    }
    *ret_s = best_s;
    return best;
}

static double now(const struct alloc_fake_world *w)
{
    return w->conf.clock->now_s(w->conf.clock);
}

static void play(struct alloc_fake_world *w)
{
    double at_s;
    struct fake_attempt *f;
    while ((f = next_event(w, &at_s)) && at_s <= now(w)) {
        w->t_s = fmax(w->t_s, at_s);
        if (f->state == FAKE_PENDING)
            start(w, f);
        else
            end(w, f);
    }
}

int alloc_fake_world_create(const struct alloc_fake_conf *conf,
                            struct alloc_fake_world **ret, struct error *err)
{
    assert(conf->clock);
    if (conf->nodes < 1 || conf->nodes > 65536 || conf->gpus_per_node < 0 ||
        conf->gpus_per_node > 1024)
        return error_set(err, ERR_INVAL, "%d nodes with %d GPUs each",
                         conf->nodes, conf->gpus_per_node);
    struct alloc_fake_world *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, ERR_NOMEM, "fake world");
    w->conf = *conf;
    size_t n = (size_t)conf->nodes * (size_t)conf->gpus_per_node;
    w->owner = calloc(n + 1, sizeof(struct fake_attempt *));
    if (!w->owner) {
        free(w);
        return error_set(err, ERR_NOMEM, "fake world of %zu GPUs", n);
    }
    w->t_s = now(w);
    *ret = w;
    return 0;
}

void alloc_fake_world_destroy(struct alloc_fake_world *w)
{
    if (!w)
        return;
    assert(!w->attached);
    for (size_t i = 0; i < w->n_all; i++)
        free(w->all[i]);
    free(w->all);
    free(w->owner);
    free(w);
}

int32_t alloc_fake_starts(const struct alloc_fake_world *w, uint64_t job,
                          int32_t attempt)
{
    const struct fake_attempt *f = find(w, job, attempt);
    return f ? f->starts : 0;
}

double alloc_fake_next_s(const struct alloc_fake_world *w)
{
    if (w->attached && w->attached->queue.at < w->attached->queue.n)
        return now(w);
    double at_s;
    (void)next_event(w, &at_s);
    return at_s;
}

/* ---- the allocator --------------------------------------------------------
 */
static int fake_inventory(struct alloc *base, struct alloc_node *nodes,
                          size_t cap, size_t *ret_n, struct error *err)
{
    struct alloc_fake_world *w = ((struct alloc_fake *)base)->world;
    play(w);
    if ((size_t)w->conf.nodes > cap)
        return error_set(err, ERR_LIMIT, "%d nodes, room for %zu",
                         w->conf.nodes, cap);
    for (int32_t i = 0; i < w->conf.nodes; i++) {
        nodes[i] = (struct alloc_node){.gpu_type = "fake",
                                       .gpus_total = w->conf.gpus_per_node,
                                       .gpus_free = free_on(w, i),
                                       .is_up = 1};
        (void)snprintf(nodes[i].name, sizeof(nodes[i].name), "n%d", i + 1);
    }
    *ret_n = (size_t)w->conf.nodes;
    return 0;
}

/* REFUSED is a note about something that no table holds. */
static int refuse(struct alloc_fake *a, const struct alloc_req *req,
                  const char *why, struct error *err)
{
    struct fake_attempt f = {
        .job = req->job, .attempt = req->attempt, .is_watched = true};
    struct alloc_note note = {.kind = ALLOC_REFUSED};
    if (queue_reserve(a, 1, err) < 0)
        return -1;
    (void)error_set(&note.why, ERR_LIMIT, "%s", why);
    push(a, &f, note);
    return 0;
}

static int again(struct alloc_fake *a, struct fake_attempt *f,
                 struct error *err)
{
    if (queue_reserve(a, 1, err) < 0)
        return -1;
    f->is_asked = f->is_watched = true;
    if (f->state == FAKE_RUNNING)
        push(a, f, (struct alloc_note){.kind = ALLOC_GRANTED});
    else if (f->state == FAKE_ENDED)
        push_end(a, f);
    return 0;
}

/* The attempt ends of signo in a moment, unless it ends by itself before. */
static void hit(struct alloc_fake_world *w, struct fake_attempt *f, int signo)
{
    double end_s = now(w) + MOMENT_S;
    if (f->state == FAKE_PENDING) {
        f->outcome.signal = signo;
        f->outcome.exit_code = 0;
        f->outcome.lose = 0;
        end(w, f);
    } else if (f->state == FAKE_RUNNING && f->end_s > end_s) {
        f->end_s = end_s;
        f->outcome.signal = signo;
        f->outcome.exit_code = 0;
        f->outcome.lose = 0;
    }
}

/* One that was not started before, and is not to start any more. */
static int never(struct alloc_fake *a, const struct alloc_req *req,
                 struct error *err)
{
    struct fake_attempt *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, ERR_NOMEM, "attempt");
    f->job = req->job;
    f->attempt = req->attempt;
    f->is_asked = f->is_watched = true;
    if (queue_reserve(a, 2, err) < 0 || add(a->world, f, err) < 0) {
        free(f);
        return -1;
    }
    hit(a->world, f, SIGTERM);
    return 0;
}

static int fake_request(struct alloc *base, const struct alloc_req *req,
                        struct error *err)
{
    struct alloc_fake *a = (struct alloc_fake *)base;
    struct alloc_fake_world *w = a->world;
    play(w);
    if (req->nodes < 1 || req->gpus_per_node < 0)
        return error_set(err, ERR_INVAL, "%d nodes with %d GPUs each",
                         req->nodes, req->gpus_per_node);
    struct fake_attempt *known = find(w, req->job, req->attempt);
    if (known)
        return again(a, known, err);
    if (req->ask == ALLOC_FIND)
        return never(a, req, err);
    if (req->nodes > w->conf.nodes ||
        req->gpus_per_node > w->conf.gpus_per_node) {
        char why[128];
        (void)snprintf(why, sizeof(why),
                       "%d nodes with %d GPUs each, the cluster has %d with %d",
                       req->nodes, req->gpus_per_node, w->conf.nodes,
                       w->conf.gpus_per_node);
        return refuse(a, req, why, err);
    }
    struct alloc_fake_outcome outcome = {.run_s = 1};
    if (w->conf.outcome)
        w->conf.outcome(w->conf.arg, req->job, req->attempt,
                        req->nodes * req->gpus_per_node, &outcome);
    if (outcome.refuse)
        return refuse(a, req, "refused by the script", err);

    struct fake_attempt *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, ERR_NOMEM, "attempt");
    f->job = req->job;
    f->attempt = req->attempt;
    f->nodes = req->nodes;
    f->gpus_per_node = req->gpus_per_node;
    f->outcome = outcome;
    f->is_asked = true;
    f->is_watched = !outcome.unknown;
    f->ready_s = now(w) + w->conf.grant_delay_s;
    (void)snprintf(f->native_id, sizeof(f->native_id), "fake:%llu",
                   (unsigned long long)++w->serial);
    if (queue_reserve(a, 2, err) < 0 || add(w, f, err) < 0) {
        free(f);
        return -1;
    }
    if (outcome.unknown)
        return error_set(err, ERR_BUSY, "no answer in time");
    return 0;
}

static struct fake_attempt *known(struct alloc *base, uint64_t job,
                                  int32_t attempt, struct error *err)
{
    struct alloc_fake *a = (struct alloc_fake *)base;
    play(a->world);
    struct fake_attempt *f = find(a->world, job, attempt);
    if (f && f->is_asked)
        return f;
    (void)error_set(err, ERR_NOTFOUND, "no attempt %d of job %llu", attempt,
                    (unsigned long long)job);
    return NULL;
}

static int fake_release(struct alloc *base, uint64_t job, int32_t attempt,
                        double grace_s, struct error *err)
{
    (void)grace_s; /* a fake rank always heeds SIGTERM */
    struct fake_attempt *f = known(base, job, attempt, err);
    if (!f)
        return -1;
    f->is_watched = true;
    hit(((struct alloc_fake *)base)->world, f, SIGTERM);
    return 0;
}

static int fake_signal(struct alloc *base, uint64_t job, int32_t attempt,
                       int signo, struct error *err)
{
    struct fake_attempt *f = known(base, job, attempt, err);
    if (!f)
        return -1;
    if (f->state == FAKE_RUNNING &&
        (signo == SIGTERM || signo == SIGKILL || signo == SIGINT ||
         signo == SIGHUP || signo == SIGQUIT))
        hit(((struct alloc_fake *)base)->world, f, signo);
    return 0;
}

static int fake_poll(struct alloc *base, struct alloc_note *notes, size_t cap,
                     size_t *ret_n, struct error *err)
{
    (void)err;
    struct alloc_fake *a = (struct alloc_fake *)base;
    play(a->world);
    *ret_n = notes_take(&a->queue, notes, cap);
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

static const struct alloc_ops fake_ops = {
    .name = "fake",
    .inventory = fake_inventory,
    .request = fake_request,
    .release = fake_release,
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
    if (queue_reserve(a, 1, err) < 0) {
        free(a);
        return -1;
    }
    w->attached = a;
    *ret = &a->base;
    return 0;
}
