/* event_store.h - the store seam: job events, job and attempt rows, and the
 * archive of ended jobs.
 *
 * Events are the truth; job and attempt rows are the fold's latest values,
 * written in the same transaction as the events that changed them, so that SQL
 * can query the fold's results.
 *
 * Implementations: sqlite (state.db), mem (for the simulator and tests), faulty
 * (wraps any of them and fails, or kills the process at, the n-th call). A
 * store on disk has metrics as well, see metric_store.h.
 * tests/contract/store*.c are the specification and run against each.
 *
 * Threads: one thread at a time may call append(), load() and remove_jobs();
 * any thread may call the functions that read the archive. */
#ifndef MGPU_DB_EVENT_STORE_H
#define MGPU_DB_EVENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/state.h"

struct store_event {
    uint64_t seq; /* assigned by append: 1, 2, 3 ... without gaps */
    uint64_t job;
    int32_t attempt;    /* 0 before the first */
    enum job_event ev;  /* EV_N: load() found an unknown word */
    double at_s;        /* seconds since 1970 */
    int64_t uid;        /* the user who caused it; -1: the daemon itself */
    const char *detail; /* JSON object text, or NULL; borrowed */
};

/* Times are seconds since 1970, or NAN for "not yet"; text may be NULL. */
struct store_job {
    uint64_t id;
    const char *name, *user, *kind; /* "cv", "command", "llm" */
    int64_t uid;
    const char *state;  /* job_state_name() */
    const char *reason; /* why it is pending, or why it ended */
    int32_t priority, gpus_min, gpus_max, gpus; /* gpus: held or last held */
    int32_t attempt;
    int32_t exit_code; /* as mgpu-submit --wait reports it; -1: not ended */
    double submit_s, start_s, end_s;
    const char *idempotency_key;
    const char *spec; /* resolved, JSON */
    const char *dir;
    uint64_t parent; /* the job that it goes on from; 0: none, or not known */
};

struct store_attempt {
    uint64_t job;
    int32_t attempt;
    const char *state; /* of the job, last in this attempt */
    const char *native_id, *place, *reason;
    const char *class;         /* the workload class, which determines speed;
                                * NULL: unknown */
    const char *program;       /* of a command: those that differ from it in
                                * numbers and paths alone are of it, too; NULL:
                                * unknown, or no command */
    int32_t gpus, nodes;       /* nodes 0: unknown */
    int32_t exit_code, signal; /* exit_code -1: not ended */
    double intent_s, claim_s, run_s, end_s;
    /* What a resize cost; resized_from 0: there was none. */
    int32_t resized_from; /* GPUs that the job had before */
    double checkpoint_s, allocator_s, start_s; /* what it cost */
    /* "memory", "host_memory": a rank refused its plan; NULL: none did */
    const char *cause;
    int64_t needed_bytes, available_bytes;
    const char *gpu_type; /* of its first node; NULL: unknown */
    const char *account;  /* that it was charged to; NULL: none */
};

/* An ended job that the daemon has evicted from memory. Archiving moves no
 * data: its events and rows stay, but load() skips them. A job is never
 * unarchived, so these fields are final. */
struct store_archived {
    uint64_t job;
    int64_t uid;
    const char *key;      /* idempotency key; NULL: none */
    enum job_state state; /* a final one; JOB_STATE_N: unknown name */
    double end_s;
    /* From its row; not archived themselves, and NULL unless requested. */
    const char *name, *user;
    /* A summary for lists, in the format of the caller that archives it, see
     * lines(); NULL: none. archived() does not return it. */
    const char *line;
};

struct store_batch {            /* becomes durable atomically */
    struct store_event *events; /* seq is filled in */
    size_t n_events;
    /* Inserted, or updated by id. NULL in name, user, kind, key, spec and dir
     * keeps the row's value, as does a parent of 0. */
    const struct store_job *jobs;
    size_t n_jobs;
    const struct store_attempt *attempts; /* by (job, attempt) */
    size_t n_attempts;
    const struct store_archived *archived; /* those not archived yet; by id */
    size_t n_archived;
};

/* How many jobs are archived, and the highest numbers in the log. */
struct store_past {
    uint64_t n[JOB_STATE_N]; /* archived jobs by state */
    uint64_t last_job;       /* the highest archived or removed job; 0: there is
                              * none */
    uint64_t last_seq;       /* of all events */
};

/* A job that was archived, and then removed. */
struct store_removed {
    uint64_t job;
    double end_s, removed_s; /* NAN: unknown */
};

enum store_archive_order {
    ARCHIVE_BY_ID,
    ARCHIVE_NEWEST, /* the highest number first */
    /* By time of the end, earliest first; by number if equal. Without jobs
     * whose end is unknown. */
    ARCHIVE_BY_END
};

/* Selects archived jobs with numbers above `after` and below `before` that
 * ended at since_s or later; with a key, those of that uid with the key. In the
 * order of their ends, `after` only applies to jobs that ended at since_s: to
 * continue a list, pass the last job's end and number. */
struct store_archive_query {
    enum store_archive_order order; /* with a key: by id */
    uint64_t after, before;         /* before 0: no bound */
    double since_s;                 /* -INFINITY: any time */
    const char *key;
    int64_t uid;
    bool has_names; /* without a key: return name and user */
    int64_t limit;  /* 0: no limit */
};

struct store; /* opaque; the first member of every implementation's struct */
struct metric_store_ops;

struct event_store_ops {
    const char *name;
    /* Durable when it returns 0: load() returns it after a crash.
     * err  ERR_LIMIT the disk is full, ERR_BUSY another process, for instance a
     *      shell, locks the file, ERR_IO; nothing was stored, and the caller
     *      may retry */
    int (*append)(struct store *s, const struct store_batch *batch,
                  struct error *err);
    /* Calls each() in seq order with the events of all jobs that are not
     * archived; stops and fails when it returns -1. The event and its detail
     * are borrowed for the call. */
    int (*load)(struct store *s,
                int (*each)(void *arg, const struct store_event *event,
                            struct error *err),
                void *arg, struct error *err);
    /* The same with the events of jobs first to last, archived or not. Any
     * thread may call this and the next two functions; they see every append()
     * that has returned. */
    int (*load_jobs)(struct store *s, uint64_t first, uint64_t last,
                     int (*each)(void *arg, const struct store_event *event,
                                 struct error *err),
                     void *arg, struct error *err);
    int (*past)(struct store *s, struct store_past *ret, struct error *err);
    /* Text is borrowed for the call of each(), which must not call the store.
     * Two threads at a time may read the archive without waiting for each
     * other. */
    int (*archived)(struct store *s, const struct store_archive_query *q,
                    int (*each)(void *arg, const struct store_archived *job,
                                struct error *err),
                    void *arg, struct error *err);
    /* The summary lines of archived jobs first to last, by id; skips jobs
     * without one. As archived(). */
    int (*lines)(struct store *s, uint64_t first, uint64_t last,
                 int (*each)(void *arg, uint64_t job, const char *line,
                             struct error *err),
                 void *arg, struct error *err);
    /* Deletes archived jobs, with their events, attempts and job rows, all or
     * none; only from the thread that calls append(). Metric rows stay, and
     * the rows of VIEW_USAGE. The numbers of the jobs and of their events are
     * not reused.
     * err  ERR_STATE one of them is not archived; as append() */
    int (*remove_jobs)(struct store *s, const uint64_t *jobs, size_t n,
                       double at_s, struct error *err);
    /* The record of a removed job; from any thread.
     * err  ERR_NOTFOUND no such job was removed */
    int (*removed)(struct store *s, uint64_t job, struct store_removed *ret,
                   struct error *err);
    void (*destroy)(struct store *s); /* NULL is fine */
};

struct store {
    const struct event_store_ops *ops;
    const struct metric_store_ops *metrics; /* NULL: it has events alone */
};

#endif
