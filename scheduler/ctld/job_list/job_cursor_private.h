/* job_cursor_private.h - a cursor, shared by its two sides: job_cursor.c, on
 * the loop, and job_cursor_read.c, on the reader's thread. */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_CURSOR_PRIVATE_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_CURSOR_PRIVATE_H

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_cursor.h"

enum {
    CURSOR_CHUNK = 512, /* at 4 us each no longer than anybody else may wait */
    CURSOR_ROWS = 4096, /* of the archive, at a time */
};

struct job_cursor_id {
    uint64_t id;
    struct job *read; /* owned; NULL: not yet */
};
struct job_cursor_ids { /* ascending */
    struct job_cursor_id *v;
    size_t n, cap;
};

enum job_cursor_phase { IN_MEMORY, SHOWING, ENDING };
enum job_cursor_task { FIND, READ }; /* on the reader's thread */

struct job_cursor_chunk {
    uint64_t id[CURSOR_CHUNK]; /* descending */
    struct job *read[CURSOR_CHUNK];
    bool was_read[CURSOR_CHUNK];
    bool skip[CURSOR_CHUNK]; /* READ: it was read, or is in memory */
    size_t n, at;            /* shown as far as at */
};

/* While the thread has a task, the loop leaves alone what it works on. */
struct job_cursor {
    struct task task;
    struct job_cursor *next;
    struct job_cursor_conf conf;
    enum job_cursor_phase phase;
    struct error why; /* ENDING; ERR_NONE: there are no more */
    int64_t n_shown;

    uint64_t after,
        last;       /* IN_MEMORY: between these numbers they are to come */
    double since_s; /* jobs that ended before do not match */
    struct job_cursor_ids mine, past; /* in memory, archived; not shown yet */
    uint64_t floor; /* beyond its limit: those up to this one are not shown */

    /* The rest of the archive: between first and before. */
    bool has_more;
    uint64_t first, before;
    bool is_by_end;
    double end_s; /* by their end: after this end and number */
    uint64_t end_id;
    int64_t n_looked, n_stale; /* n_stale: in a row that ended before since_s */
    int32_t rows;              /* to be looked at next */

    struct job_cursor_chunk chunks[2];
    struct job_cursor_chunk *now,
        *ahead; /* shown; looked for and read meanwhile */

    /* Of jobs that were shown: memory for the next lines. */
    struct job *spare[CURSOR_CHUNK];
    size_t n_spare;

    bool is_out; /* the thread has a task */
    bool is_queued;
    enum job_cursor_task work;
    struct job_cursor_chunk *reading; /* READ */
    const char *jobs_dir;
    int rc;
    struct error err, damage;
};

int job_cursor_keep(struct job_cursor_ids *ids, uint64_t id,
                    struct error *err) MUST_CHECK;
/* Does cur->work.  struct task: run() */
void job_cursor_run(struct task *t);
/* Whether the lines of its jobs are enough. */
bool job_cursor_is_brief(const struct job_cursor_conf *conf);

#endif
