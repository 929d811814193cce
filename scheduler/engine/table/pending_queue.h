/* pending_queue.h - those that wait for devices, in the policy's order; see
 * pending_queue.c. */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_PENDING_QUEUE_H
#define MGPU_SCHEDULER_ENGINE_TABLE_PENDING_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "slurm/alloc.h"

struct engine;
struct entry;

enum { QUEUE_KINDS = 64 };

/* What a plan asks of each. */
struct waiting {
    struct entry *entry;
    uint64_t id;
    double submit_s, limit_s;
    double not_before_s; /* on the engine's clock */
    int32_t priority, gpus_min, gpus_max, nodes_min, nodes_max, per_node;
    int32_t kind;      /* 0..QUEUE_KINDS-1; -1: of none */
    bool is_exclusive; /* by its own word */
    bool is_dropping;  /* an attempt of it has to be dropped before */
    bool has_cap;      /* of a sweep with max_parallel */
    bool is_owed;      /* within one view */
};

struct waiting_room;
struct queue {
    struct waiting **at; /* owned; [n], in their order */
    size_t n, cap;
    struct waiting_room *rooms; /* owned */
    struct waiting **unused;    /* owned; [n_unused], of `rooms` */
    size_t n_unused, n_places;
    struct queue_kind {
        struct alloc_where where; /* texts are owned */
        bool has_gpus;
        size_t n; /* jobs of it; 0: it is free */
    } kinds[QUEUE_KINDS];
};

/* err  ERR_NOMEM */
int eng_queue_reserve(struct queue *q, size_t n, struct error *err) MUST_CHECK;
/* The entry stands in it or does not, under what it says now. */
void eng_queue_set(struct queue *q, struct entry *en, bool wanted);
/* All that are active, of an empty queue. */
void eng_queue_fill(struct engine *e);
void eng_queue_clear(struct queue *q);

#endif
