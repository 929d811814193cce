/* mem.h - internals shared by the files of the in-memory store.
 *
 * Every row is an item: a key, by which its table is sorted and filtered, and
 * the caller's struct with its texts copied into the same allocation. */
#ifndef MGPU_DB_MEM_MEM_H
#define MGPU_DB_MEM_MEM_H

#include "db/view.h"

struct mem_key {
    uint64_t job;
    int64_t attempt;
    int64_t at; /* the query's key: seq, iteration, epoch ... */
    int64_t rank;
    const char *name; /* of a metric or a profile, else "" */
};

struct mem_item {
    struct mem_key key;
    union {
        struct store_event event;
        struct store_job job;
        struct store_attempt attempt;
        struct metric_iteration iteration;
        struct metric_epoch epoch;
        struct metric_profile profile;
        struct metric_value value;
    };
};

struct mem_table { /* sorted by key; events by seq */
    struct mem_item **items;
    size_t n, cap;
};

struct mem_cells {
    struct store_cell at[VIEW_COLUMNS_MAX];
    size_t n;
    const struct view *view;
};

/* Appends a cell; a number that is not finite, or no text, is NULL. */
void mem_put_int(struct mem_cells *c, int64_t i);
void mem_put_real(struct mem_cells *c, double r);
void mem_put_text(struct mem_cells *c, const char *s);
/* Fill in one row of `view`, which is neither scaling nor usage. */
void mem_cells_fill(struct mem_cells *c, enum store_view view,
                    const struct mem_item *item);
/* Fill in one row of v_usage. */
void mem_cells_usage(struct mem_cells *c, const struct store_attempt *a,
                     const struct store_job *j);

/* ---- mem_guess.c -------------------------------------------------------- */
struct mem_guess {
    char *class, *gpu_type, *basis; /* owned; gpu_type NULL: unknown */
    struct store_guess g;
};
struct mem_guesses {
    struct mem_guess *at; /* owned */
    size_t n;
};
/* Implements guesses(). err ERR_NOMEM */
int mem_guesses_set(struct mem_guesses *gs, const char *class,
                    const char *gpu_type, const struct store_guess *guesses,
                    size_t n, struct error *err) MUST_CHECK;
void mem_guesses_clear(struct mem_guesses *gs);
/* Compares GPU types as SQL sorts them: NULL is before all. */
int mem_type_cmp(const char *a, const char *b);

/* ---- mem_scaling.c ------------------------------------------------------ */
/* The rows of v_scaling, equal to the SQL in db/schema/001-metrics.sql. */
int mem_scaling(const struct mem_table *attempts,
                const struct mem_table *iterations,
                const struct mem_guesses *guesses, const struct store_query *q,
                int (*row)(void *arg, const struct store_cell *cells, size_t n,
                           struct error *err),
                void *arg, struct error *err) MUST_CHECK;

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

/* ---- mem_purge.c -------------------------------------------------------- */
/* Implements purge_rows(); tables[VIEW_N]. */
void mem_purge(struct mem_table *tables, struct store_purge *io);

/* ---- mem_archive.c ------------------------------------------------------ */
struct mem_archive {
    struct store_archived *jobs; /* owned, with keys and lines; by id */
    size_t n, cap;
    struct store_removed *removed; /* owned */
    size_t n_removed;
    uint64_t last_removed;
    /* Rows of removed jobs, for v_usage; sorted by key. */
    struct mem_table gone_jobs, gone_attempts;
};
/* The rows of v_usage; tables[VIEW_N]. */
int mem_usage(const struct mem_archive *a, const struct mem_table *tables,
              const struct store_query *q,
              int (*row)(void *arg, const struct store_cell *cells, size_t n,
                         struct error *err),
              void *arg, struct error *err) MUST_CHECK;
/* Sets the end that v_usage has of the attempts of a job, whose events go. */
void mem_usage_close(struct mem_table *tables, uint64_t job);
/* Implement remove_jobs() and removed(); tables[VIEW_N]. */
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
