/* engine_internal.h - struct engine, for the files below this folder only.
 *
 * Every change of a job is an event, and every event takes the same path:
 * eng_stage() writes its detail, saves a copy of the job if this is the first
 * change since the last batch, and folds the text that will be stored.
 * eng_commit_send() passes the staged events to the store. When the store has
 * appended them, eng_commit_land() makes them count; otherwise
 * eng_commit_roll_back() restores the copies. A replay folds the same texts, so
 * the state that was decided once and the state that is read back cannot
 * differ.
 */
#ifndef MGPU_SCHEDULER_ENGINE_ENGINE_INTERNAL_H
#define MGPU_SCHEDULER_ENGINE_ENGINE_INTERNAL_H

#include "scheduler/engine/attempts/inbox.h"
#include "scheduler/engine/plan/inventory.h"
#include "scheduler/engine/store/stage.h"
#include "scheduler/engine/table/class_models.h"
#include "scheduler/engine/table/fair_shares.h"
#include "scheduler/engine/table/job_table.h"
#include "scheduler/engine/table/length_guess.h"
#include "scheduler/engine/table/memory_refusals.h"
#include "scheduler/engine/table/resize_costs.h"
#include "scheduler/engine/table/runtime_history.h"

enum { DEFAULTS_N = 64 };
struct engine {
    struct engine_parts parts;
    const struct policy *policy;
    bool is_draining;
    char pause_reason[JOB_REASON_CAP]; /* reason of all pending jobs while
                                          paused */

    struct page **pages; /* owned; [n_pages], by (id - 1) / PAGE_IDS, or NULL */
    size_t n_pages;
    uint64_t n_ended[JOB_STATE_N]; /* jobs that left `active`, by state,
                                      archived or not */
    uint64_t last_id;
    struct job_record **by_key; /* owned; [n_buckets], a power of two */
    size_t n_buckets, n_keys;
    struct job_record **active; /* owned; not final, by id; final ones stay
                                   until eng_compact() */
    size_t n_active, cap_active;
    /* Ended jobs that may leave memory, in the order of their ends. See
     * archive.c. */
    struct job_record *ended_first, *ended_last;
    size_t n_listed, n_listed_archived;
    bool has_archive;       /* the store has archived jobs */
    const uint64_t *barred; /* [n_barred], borrowed; see engine_bar() */
    size_t n_barred;
    uint32_t awaited_round; /* see archive.c */
    double leave_at_s;      /* next try: the jobs that should leave cannot
                               yet */
    struct store_archived *leaving; /* owned, with their summaries: archived
                                       with the next batch */
    size_t n_leaving;
    struct job_lists lists; /* indexes of `active`, see job_lists.h */

    struct store_event *events; /* owned, with their details; staged */
    size_t n_events, cap_events;
    struct saved *saved; /* owned */
    size_t n_saved, cap_saved;
    struct engine_batch batch;
    enum eng_phase phase;
    struct error later; /* of the allocator or the policy: returned when the
                           rest of the step was done */
    uint64_t staged, durable, rolled_back;
    uint64_t last_seq; /* that was replayed */
    size_t n_corrupt;  /* jobs that were set apart */
    size_t n_stray;    /* events that belong to no possible job */

    struct inbox inbox;
    struct alloc_node *nodes; /* owned; the last inventory */
    size_t n_nodes, cap_nodes;
    struct node_classes classes;
    struct error unavailable;   /* ERR_UNAVAIL: why there is no newer one */
    double unavailable_since_s; /* seconds since 1970 */
    double back_s;              /* since when it answers again; likewise */
    double listens_s;           /* since when no event was missed; likewise */
    bool wants_plan;            /* something changed since the last one */
    uint64_t n_plans;
    struct eng_buffers buffers;      /* of the last view */
    struct eng_runs runs[RUNS_N];    /* see runtime_history.h */
    struct eng_costs costs[COSTS_N]; /* see resize_costs.h */
    struct eng_refusals refusals;    /* see memory_refusals.h */
    struct eng_models models;        /* see class_models.h */
    struct eng_lengths lengths;      /* see length_guess.h */
    struct fair_shares fair;         /* see fair_shares.h */
    struct engine_spent *spent;      /* owned; see teach.h */
    size_t n_spent;
    struct default_seen {
        size_t at; /* the row; or, of none_uid, there is none among none_n */
        int64_t none_uid;
        size_t none_n;
        uint64_t none_news; /* n_news then */
    } defaults[DEFAULTS_N]; /* see default_account.c */
    uint64_t n_news;        /* how often the allocator's inventory changed */

    bool takes_back;      /* with the next plan: attempts pending in the
                             allocator */
    bool wants_depends;   /* a dependency may have been satisfied */
    uint64_t fates_round; /* see dependencies.c */
    bool wants_stop;      /* a task whose failure ends its sweep may have
                             failed */
    double begin_at_s;    /* when to check the begin times; INFINITY: none */
    double retry_at_s;    /* after a failure: step again at this time */
    double look_at_s;     /* plan at this time: a preemption may become
                             possible */
    double plan_from_s;   /* no plan before this time */

    void (*on_event)(void *arg, const struct store_event *event,
                     const struct job *job);
    void *event_arg;
    void (*on_wait)(void *arg, const struct job *job);
    void *wait_arg;
    int (*on_exit)(void *arg, const struct job *job, struct error *err);
    void *exit_arg;
};

/* ---- small things ------------------------------------------------------ */
/* When to retry after a temporary failure. */
double eng_reconcile_at(const struct engine *e);
static inline double eng_now(const struct engine *e)
{
    return e->parts.clock->now_s(e->parts.clock);
}

static inline double eng_wall(const struct engine *e)
{
    return e->parts.clock->wall_s(e->parts.clock);
}

static inline int eng_secret(const struct engine *e, enum engine_secret what,
                             const struct job *job, char ret[ENGINE_SECRET_CAP],
                             struct error *err)
{
    return e->parts.secret_of(e->parts.secret_arg, what, job->id, job->attempt,
                              ret, err);
}

/* A configured time, where 0 means never. */
static inline double eng_or_never(double s)
{
    return s > 0 ? s : (double)__builtin_inff();
}

#endif
