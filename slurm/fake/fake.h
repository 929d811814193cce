/* fake.h - internals shared by alloc_fake.c, fake_world.c and fake_attempts.c.
 *
 * The world simulates the cluster: it has the attempts, the GPUs and the time.
 * The allocator is the side that a controller calls; it only receives notes
 * about attempts that it requested itself. */
#ifndef MGPU_SLURM_FAKE_FAKE_H
#define MGPU_SLURM_FAKE_FAKE_H

#include <stdbool.h>

#include "slurm/alloc_notes.h"
#include "slurm/fake/alloc_fake.h"

enum fake_state { FAKE_PENDING, FAKE_RUNNING, FAKE_ENDED };

struct fake_attempt {
    uint64_t job;
    int32_t attempt;
    enum fake_state state;
    int32_t nodes, gpus_per_node;
    bool is_exclusive;
    int32_t *at;    /* owned; [nodes] where it runs; NULL: it never ran */
    bool is_over;   /* ENDED, and a poll has passed */
    bool *may_use;  /* owned; by node, its own part of a machine; NULL: any */
    double ready_s; /* PENDING: earliest time of the grant */
    double end_s;   /* RUNNING: time of the end */
    struct alloc_fake_outcome outcome;
    bool is_asked;   /* requested from this allocator */
    bool is_watched; /* and the answer was not lost */
    int32_t starts, claims, signals, last_signal;
    char native_id[ALLOC_NATIVE_ID_CAP]; /* as reported in notes */
    char real_id[ALLOC_NATIVE_ID_CAP];   /* where its worker really is */
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
    double t_s; /* time of the last event played */
    uint64_t serial;
    struct fake_attempt **all; /* sorted by (job, attempt); owned */
    size_t n_all, cap_all;
    struct fake_attempt *first, *last; /* the live ones */
    size_t n_live;
    size_t n_ended;              /* of all */
    int32_t *n_free;             /* [nodes] GPUs that no attempt has */
    struct fake_attempt **owner; /* [nodes * gpus_per_node]; NULL: free */
    struct alloc_fake *attached;
};

static inline double fake_now(const struct alloc_fake_world *w)
{
    return w->conf.clock->now_s(w->conf.clock);
}

/* Plays all due events in the order of their time. */
void fake_play(struct alloc_fake_world *w);
/* NULL if the world does not know it. */
struct fake_attempt *fake_find(const struct alloc_fake_world *w, uint64_t job,
                               int32_t attempt);
/* Owns f on success; f is the youngest of the live ones. */
int fake_add(struct alloc_fake_world *w, struct fake_attempt *f,
             struct error *err) MUST_CHECK;
void fake_free(struct fake_attempt *f); /* NULL is fine */
/* Removes it from the list of live attempts. */
void fake_live_remove(struct alloc_fake_world *w, struct fake_attempt *f);
/* With conf.forgets: drops the attempts that ended before the last call. */
void fake_forget(struct alloc_fake_world *w);
/* Signo ends the attempt in a moment, unless it ends by itself before. */
void fake_hit(struct alloc_fake_world *w, struct fake_attempt *f, int signo);
/* How many nodes belong to a machine. */
static inline int32_t fake_parts(const struct alloc_fake_world *w)
{
    return w->conf.parts > 1 ? w->conf.parts : 1;
}

/* Fills in the node for an inventory. */
void fake_node(const struct alloc_fake_world *w, int32_t i,
               struct alloc_node *ret);

/* ---- notes ---------------------------------------------------------------
 */
/* Reserves space for `more` notes and for those that live attempts can still
 * cause: a grant and an end each. So playing never allocates. */
int fake_reserve(struct alloc_fake *a, size_t more,
                 struct error *err) MUST_CHECK;
/* Does nothing if a is NULL, or does not watch f. */
void fake_push(struct alloc_fake *a, const struct fake_attempt *f,
               struct alloc_note note);
/* Pushes the attempt's present state: WAITING, GRANTED, EXITED or LOST. */
void fake_push_state(struct alloc_fake *a, const struct fake_attempt *f);

#endif
