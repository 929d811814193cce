/* pending_queue.h - the queue in the policy's order; see pending_queue.c. */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_PENDING_QUEUE_H
#define MGPU_SCHEDULER_ENGINE_TABLE_PENDING_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "slurm/alloc.h"

struct engine;
struct fair_user;
struct job_record;

enum { QUEUE_KINDS = 64 };

/* The values that a plan needs of each job. */
struct waiting {
    struct job_record *record;
    const struct fair_user *user; /* whom it is charged to; NULL: not known */
    uint64_t id;
    double submit_s, eligible_s, limit_s;
    double not_before_s; /* on the engine's clock */
    int32_t priority, gpus_min, gpus_max, nodes_min, nodes_max, per_node;
    int32_t parts, to_gpus, to_nodes; /* the last two of a resize */
    int32_t kind;                     /* 0..QUEUE_KINDS-1; -1: none */
    bool is_exclusive;                /* its spec asks for it */
    bool is_dropping;     /* an earlier attempt has to be released first */
    bool has_cap;         /* task of a sweep with max_parallel */
    bool has_reservation; /* within one view */
    bool has_sizes;       /* it accepts more than one, or is resized */
    bool is_back;         /* as job_resize's, and the next three */
    bool barred_below;
    int32_t barred_gpus;
    double barred_until_s;
};

struct waiting_room;
struct queue {
    struct waiting **at; /* owned; [n], in the policy's order */
    size_t n, cap;
    size_t n_sized;             /* of them, with has_sizes */
    size_t n_resized;           /* of them, with to_gpus */
    struct waiting_room *rooms; /* owned */
    struct waiting **unused;    /* owned; [n_unused], of `rooms` */
    size_t n_unused, n_places;
    struct queue_kind {
        struct alloc_where where; /* strings are owned */
        bool has_gpus;
        size_t n; /* jobs of this kind; 0: unused */
    } kinds[QUEUE_KINDS];
};

/* err  ERR_NOMEM */
int eng_queue_reserve(struct queue *q, size_t n, struct error *err) MUST_CHECK;
/* Inserts, moves or removes the record, according to `wanted` and its values.
 */
void eng_queue_set(struct queue *q, struct job_record *rec, bool wanted);
/* Fills an empty queue with all active jobs that belong there. */
void eng_queue_fill(struct engine *e);
/* Puts the jobs into the order of the ranks that their users have now. */
void eng_queue_sort(struct queue *q);
void eng_queue_clear(struct queue *q);

#endif
