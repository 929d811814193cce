/* fake_world.c - the simulated cluster behind the fake allocator; see
 * alloc_fake.h.
 *
 * The cluster is first come, first served: a request becomes ready
 * grant_delay_s after it was made, and the oldest ready request that fits is
 * granted. A younger request overtakes an older one that is pending for GPUs
 * only if it needs no GPU. A held request (wait_s) is overtaken.
 *
 * Time only advances in calls: every call that reads the world first plays the
 * events that are due, in the order of their time, up to the clock's now. The
 * world never forgets an attempt, so that a key is started at most once; a
 * simulation of many jobs has it forget (conf.forgets). */
#include "slurm/fake/fake.h"

#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/place_text.h"

/* From the signal to the end of the ranks. Not zero: a controller must handle
 * an attempt that is released and still running. */
static const double MOMENT_S = 0.1;

/* ---- notes ----------------------------------------------------------------
 */
int fake_reserve(struct alloc_fake *a, size_t more, struct error *err)
{
    return notes_reserve(&a->queue, 2 * a->world->n_live + more, err);
}

void fake_push(struct alloc_fake *a, const struct fake_attempt *f,
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

static void because(struct alloc_note *note, const char *why,
                    const char *otherwise)
{
    (void)error_set(&note->why, ERR_EXTERN, "%s", why ? why : otherwise);
}

/* The note may be taken long after the end. */
static int64_t ended_ms(const struct alloc_fake_world *w,
                        const struct fake_attempt *f)
{
    const struct clock *c = w->conf.clock;
    return (int64_t)(1000 * (c->wall_s(c) - (c->now_s(c) - f->end_s)));
}

static void push_end(struct alloc_fake *a, const struct fake_attempt *f)
{
    struct alloc_note note = {.kind = ALLOC_EXITED,
                              .exit_code = f->outcome.exit_code,
                              .signal = f->outcome.signal,
                              .ended_by = f->outcome.ended_by};
    if (f->outcome.lose) {
        note = (struct alloc_note){.kind = ALLOC_LOST,
                                   .is_forgotten = f->outcome.lose == 2,
                                   .ended_by = f->outcome.lose == 3
                                                   ? ALLOC_BY_PREEMPTION
                                                   : ALLOC_BY_ITSELF};
        because(&note, f->outcome.why, "node failure");
    } else if (f->outcome.ended_by == ALLOC_BY_OTHER ||
               f->outcome.ended_by == ALLOC_BY_FAULT) {
        because(&note, f->outcome.why, "cancelled by somebody");
    }
    note.ended_ms = ended_ms(a->world, f);
    fake_push(a, f, note);
}

void fake_push_state(struct alloc_fake *a, const struct fake_attempt *f)
{
    struct alloc_note note = {.kind = ALLOC_WAITING};

    if (f->state == FAKE_RUNNING) {
        fake_push(a, f, (struct alloc_note){.kind = ALLOC_GRANTED});
    } else if (f->state == FAKE_ENDED) {
        push_end(a, f);
    } else if (f->outcome.wait_s > 0) {
        because(&note, f->outcome.wait_why, "Fake(Held)");
        if (f->outcome.over_size) {
            note.why.code = ERR_LIMIT;
            note.is_of_size = true;
        }
        fake_push(a, f, note);
    }
}

/* ---- the cluster ----------------------------------------------------------
 */
static int32_t free_on(const struct alloc_fake_world *w, int32_t node)
{
    return w->n_free[node];
}

static int32_t gpus_of(const struct alloc_fake_world *w, int32_t node)
{
    return w->conf.gpus ? w->conf.gpus[node] : w->conf.gpus_per_node;
}

/* An attempt that is alone on its machine has all of its GPUs. */
static int32_t shared_free(const struct alloc_fake_world *w, int32_t node)
{
    int32_t parts = fake_parts(w), n = w->conf.shared;
    for (int32_t i = node - node % parts, k = 0; k < parts; k++)
        n -= gpus_of(w, i + k) - free_on(w, i + k);
    return n > 0 ? n : 0;
}

void fake_node(const struct alloc_fake_world *w, int32_t i,
               struct alloc_node *ret)
{
    int32_t parts = fake_parts(w);
    *ret = (struct alloc_node){.gpu_type = "fake",
                               .gpus_total = gpus_of(w, i),
                               .gpus_free = free_on(w, i),
                               .is_up = 1};
    (void)snprintf(ret->name, sizeof(ret->name), "n%d", i / parts + 1);
    if (parts > 1) {
        (void)snprintf(ret->gpu_type, sizeof(ret->gpu_type), "fake%d",
                       i % parts);
        ret->shared_total = w->conf.shared;
        ret->shared_free = shared_free(w, i);
        if (ret->gpus_free > ret->shared_free)
            ret->gpus_free = ret->shared_free;
    }
    if (w->conf.node)
        w->conf.node(w->conf.arg, i, ret);
}

static bool has_room(const struct alloc_fake_world *w, int32_t i,
                     const struct fake_attempt *f)
{
    int32_t parts = fake_parts(w);
    struct alloc_node node;

    if (f->may_use && !f->may_use[i])
        return false;
    for (int32_t k = 0; f->is_exclusive && k < parts; k++)
        if (free_on(w, i - i % parts + k) < gpus_of(w, i - i % parts + k))
            return false;
    int32_t want =
        f->is_exclusive && parts == 1 ? gpus_of(w, i) : f->gpus_per_node;
    if (free_on(w, i) < want)
        return false;
    fake_node(w, i, &node);
    return node.is_up && node.gpus_free >= want;
}

static bool fits(const struct alloc_fake_world *w, const struct fake_attempt *f)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->conf.nodes; i++)
        n += has_room(w, i, f);
    return n >= f->nodes;
}

/* Books `want` GPUs of a machine from its node i on. */
static void book_on(struct alloc_fake_world *w, struct fake_attempt *f,
                    int32_t i, int32_t want, struct place_text *text)
{
    int32_t per_node = w->conf.gpus_per_node, parts = fake_parts(w);
    for (int32_t g = i % parts * per_node; g < parts * per_node && want > 0;
         g++) {
        struct fake_attempt **slot = &w->owner[(i - i % parts) * per_node + g];
        if (*slot)
            continue;
        *slot = f;
        w->n_free[(i - i % parts) + g / per_node]--;
        want--;
        place_text_index(text, g);
    }
    assert(want == 0);
}

static bool has_taken(const struct alloc_fake_world *w, int32_t i,
                      const struct fake_attempt *f)
{
    for (int32_t g = 0; g < w->conf.gpus_per_node; g++)
        if (w->owner[i * w->conf.gpus_per_node + g] == f)
            return true;
    return false;
}

/* The fullest node with space, as policies expect (policy/placement.h); for a
 * request without GPUs the next one after `last`. There is always one. */
static int32_t next_node(const struct alloc_fake_world *w,
                         const struct fake_attempt *f, int32_t last)
{
    bool takes = f->gpus_per_node > 0 || f->is_exclusive;
    int32_t best = -1;

    for (int32_t i = takes ? 0 : last + 1; i < w->conf.nodes; i++) {
        if (!has_room(w, i, f) || has_taken(w, i, f))
            continue;
        if (best < 0 || (takes && free_on(w, i) < free_on(w, best)))
            best = i;
    }
    assert(best >= 0);
    return best;
}

/* Books the first free GPUs of each of its nodes; all of them for an exclusive
 * request. */
static void book(struct alloc_fake_world *w, struct fake_attempt *f)
{
    int32_t parts = fake_parts(w), i = -1;
    struct place_text text;

    place_text_begin(&text);
    for (int32_t k = 0; k < f->nodes; k++) {
        char name[32];
        i = next_node(w, f, i);
        (void)snprintf(name, sizeof(name), "n%d", i / parts + 1);
        place_text_node(&text, name);
        f->at[k] = i;
        if (f->is_exclusive)
            book_on(w, f, i - i % parts,
                    parts > 1 ? parts * w->conf.gpus_per_node : gpus_of(w, i),
                    &text);
        else
            book_on(w, f, i, f->gpus_per_node, &text);
    }
    place_text_end(&text, f->place, sizeof(f->place));
}

static void start(struct alloc_fake_world *w, struct fake_attempt *f)
{
    book(w, f);
    f->state = FAKE_RUNNING;
    f->end_s = w->t_s + f->outcome.run_s;
    f->starts++;
    fake_push_state(w->attached, f);
}

/* Frees its GPUs of the machine of node i. */
static void leave(struct alloc_fake_world *w, const struct fake_attempt *f,
                  int32_t i)
{
    int32_t per_node = w->conf.gpus_per_node, parts = fake_parts(w);
    int32_t first = (i - i % parts) * per_node;

    for (int32_t g = first; g < first + parts * per_node; g++) {
        if (w->owner[g] != f)
            continue;
        w->owner[g] = NULL;
        w->n_free[g / per_node]++;
    }
}

static void end(struct alloc_fake_world *w, struct fake_attempt *f)
{
    for (int32_t k = 0; f->state == FAKE_RUNNING && k < f->nodes; k++)
        leave(w, f, f->at[k]);
    f->state = FAKE_ENDED;
    w->n_ended++;
    fake_live_remove(w, f);
    fake_push_state(w->attached, f);
}

/* The next event: an attempt that ends, or the oldest pending one if it fits
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
            bool is_held = f->outcome.wait_s > 0 && f->ready_s > w->t_s;
            bool is_next =
                f->gpus_per_node == 0 || is_held || (!head && fits(w, f));
            if (f->gpus_per_node > 0 && !is_held)
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

void fake_play(struct alloc_fake_world *w)
{
    double at_s;
    struct fake_attempt *f;
    while ((f = next_event(w, &at_s)) && at_s <= fake_now(w)) {
        w->t_s = fmax(w->t_s, at_s);
        if (f->state == FAKE_RUNNING)
            end(w, f);
        else if (f->outcome.wait_s > 0)
            f->outcome.wait_s = 0; /* no longer held: it is as the others */
        else
            start(w, f);
    }
}

void fake_hit(struct alloc_fake_world *w, struct fake_attempt *f, int signo)
{
    double stop_s = f->outcome.stop_s > 0 ? f->outcome.stop_s : MOMENT_S;
    double end_s = fake_now(w) + stop_s;
    if (f->state == FAKE_PENDING) {
        f->outcome.signal = signo;
        f->outcome.exit_code = 0;
        f->outcome.lose = 0;
        f->outcome.ended_by = ALLOC_BY_ITSELF;
        end(w, f);
    } else if (f->state == FAKE_RUNNING && f->end_s > end_s) {
        f->end_s = end_s;
        f->outcome.signal = signo;
        f->outcome.exit_code = 0;
        f->outcome.lose = 0;
        f->outcome.ended_by = ALLOC_BY_ITSELF;
    }
}

int alloc_fake_end(struct alloc_fake_world *w, uint64_t job, int32_t attempt,
                   const struct alloc_fake_outcome *how, struct error *err)
{
    struct fake_attempt *f = fake_find(w, job, attempt);

    if (!f || f->state != FAKE_RUNNING)
        return error_set(err, ERR_NOTFOUND, "attempt %d of job %llu", attempt,
                         (unsigned long long)job);
    f->outcome = *how;
    f->end_s = fake_now(w);
    return 0;
}

int alloc_fake_changed(struct alloc_fake_world *w, struct error *err)
{
    static const struct fake_attempt nobody = {.is_watched = true};

    if (!w->attached)
        return 0;
    if (fake_reserve(w->attached, 1, err) < 0)
        return -1;
    fake_push(w->attached, &nobody,
              (struct alloc_note){.kind = ALLOC_INVENTORY});
    return 0;
}

int alloc_fake_world_create(const struct alloc_fake_conf *conf,
                            struct alloc_fake_world **ret, struct error *err)
{
    assert(conf->clock);
    if ((conf->parts > 1 && conf->nodes % conf->parts != 0) ||
        conf->parts < 0 || conf->shared < 0 || conf->nodes < 1 ||
        conf->nodes > 65536 || conf->gpus_per_node < 0 ||
        conf->gpus_per_node > 1024)
        return error_set(err, ERR_INVAL, "%d nodes with %d GPUs each",
                         conf->nodes, conf->gpus_per_node);
    struct alloc_fake_world *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, ERR_NOMEM, "fake world");
    w->conf = *conf;
    size_t n = (size_t)conf->nodes * (size_t)conf->gpus_per_node;
    w->owner = calloc(n + 1, sizeof(struct fake_attempt *));
    w->n_free = calloc((size_t)conf->nodes, sizeof(*w->n_free));
    if (!w->owner || !w->n_free) {
        free(w->owner);
        free(w->n_free);
        free(w);
        return error_set(err, ERR_NOMEM, "fake world of %zu GPUs", n);
    }
    for (int32_t i = 0; i < conf->nodes; i++)
        w->n_free[i] = gpus_of(w, i);
    w->t_s = fake_now(w);
    *ret = w;
    return 0;
}

void alloc_fake_world_destroy(struct alloc_fake_world *w)
{
    if (!w)
        return;
    assert(!w->attached);
    for (size_t i = 0; i < w->n_all; i++)
        fake_free(w->all[i]);
    free(w->all);
    free(w->owner);
    free(w->n_free);
    free(w);
}

int32_t alloc_fake_starts(const struct alloc_fake_world *w, uint64_t job,
                          int32_t attempt)
{
    const struct fake_attempt *f = fake_find(w, job, attempt);
    return f ? f->starts : 0;
}

int32_t alloc_fake_claims(const struct alloc_fake_world *w, uint64_t job,
                          int32_t attempt)
{
    const struct fake_attempt *f = fake_find(w, job, attempt);
    return f ? f->claims : 0;
}

int32_t alloc_fake_signals(const struct alloc_fake_world *w, uint64_t job,
                           int32_t attempt, int32_t *ret_last)
{
    const struct fake_attempt *f = fake_find(w, job, attempt);
    *ret_last = f ? f->last_signal : 0;
    return f ? f->signals : 0;
}

const char *alloc_fake_native_id(const struct alloc_fake_world *w, uint64_t job,
                                 int32_t attempt)
{
    const struct fake_attempt *f = fake_find(w, job, attempt);
    return f && f->starts > 0 ? f->real_id : NULL;
}

double alloc_fake_next_s(const struct alloc_fake_world *w)
{
    if (w->attached && w->attached->queue.at < w->attached->queue.n)
        return fake_now(w);
    double at_s;
    (void)next_event(w, &at_s);
    return at_s;
}
