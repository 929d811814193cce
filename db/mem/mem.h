/* mem.h - internals shared by the files of the in-memory store.
 *
 * Every row is an item: a key, by which its table is sorted, and the caller's
 * struct with its texts copied into the same allocation. */
#ifndef MGPU_DB_MEM_MEM_H
#define MGPU_DB_MEM_MEM_H

#include "db/event_store.h"

enum mem_kind { MEM_EVENT, MEM_JOB, MEM_ATTEMPT, MEM_KIND_N };

struct mem_key {
    uint64_t job;
    int32_t attempt; /* 0: of an event, or of the job's own row */
    uint64_t seq;    /* of an event; else 0 */
};

struct mem_item {
    struct mem_key key;
    union {
        struct store_event event;
        struct store_job job;
        struct store_attempt attempt;
    };
};

struct mem_table { /* sorted by key; events by seq */
    struct mem_item **items;
    size_t n, cap;
};

/* ---- mem_table.c -------------------------------------------------------- */
/* The index of `key` in the table, and whether it is there. */
bool mem_table_find(const struct mem_table *t, const struct mem_key *key,
                    size_t *ret_at);
/* Reserves space for `more` items. err ERR_NOMEM */
int mem_table_reserve(struct mem_table *t, size_t more,
                      struct error *err) MUST_CHECK;
/* Inserts `it` at an index from mem_table_find(), and owns it; the space is
 * reserved. */
void mem_table_insert(struct mem_table *t, size_t at, struct mem_item *it);
/* Inserts it where its key belongs, or replaces the item with that key. */
void mem_table_put(struct mem_table *t, struct mem_item *it);
void mem_table_clear(struct mem_table *t);

/* ---- mem_archive.c ------------------------------------------------------ */
struct mem_archive {
    struct store_archived *jobs; /* owned, with keys and lines; by id */
    size_t n, cap;
    struct store_removed *removed; /* owned */
    size_t n_removed;
    uint64_t last_removed;
};
/* Implement remove_jobs() and removed(); tables[MEM_KIND_N]. */
int mem_remove(struct mem_archive *a, struct mem_table *tables,
               const uint64_t *jobs, size_t n, double at_s,
               struct error *err) MUST_CHECK;
int mem_removed(const struct mem_archive *a, uint64_t job,
                struct store_removed *ret, struct error *err) MUST_CHECK;
bool mem_archive_has(const struct mem_archive *a, uint64_t job);
/* Copies the jobs that the batch archives, and reserves space for them.
 * own  *ret: mem_archive_free()
 * err  ERR_NOMEM; ERR_IO one of them is archived already */
int mem_archive_stage(struct mem_archive *a, const struct store_batch *b,
                      struct store_archived **ret,
                      struct error *err) MUST_CHECK;
/* Moves the texts out of copies[n]; the space is reserved. */
void mem_archive_put(struct mem_archive *a, struct store_archived *copies,
                     size_t n);
void mem_archive_free(struct store_archived *jobs, size_t n); /* NULL is fine */
/* Sets all of *ret but last_seq. */
void mem_archive_count(const struct mem_archive *a, struct store_past *ret);
int mem_archive_lines(const struct mem_archive *a, uint64_t first,
                      uint64_t last,
                      int (*each)(void *arg, uint64_t job, const char *line,
                                  struct error *err),
                      void *arg, struct error *err) MUST_CHECK;
/* in  jobs  the table with the names */
int mem_archive_find(const struct mem_archive *a, const struct mem_table *jobs,
                     const struct store_archive_query *q,
                     int (*each)(void *arg, const struct store_archived *job,
                                 struct error *err),
                     void *arg, struct error *err) MUST_CHECK;

#endif
