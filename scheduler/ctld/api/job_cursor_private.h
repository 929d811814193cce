/* job_cursor_private.h - a walk, shared by its two sides: job_cursor.c, on the
 * loop, and job_cursor_read.c, on the reader's thread. */
#ifndef MGPU_SCHEDULER_CTLD_API_JOB_CURSOR_PRIVATE_H
#define MGPU_SCHEDULER_CTLD_API_JOB_CURSOR_PRIVATE_H

#include "scheduler/ctld/api/job_cursor.h"
#include "scheduler/ctld/ctld_internal.h"

enum {
    WALK_CHUNK = 512, /* at 4 us each no longer than anybody else may wait */
    WALK_ROWS = 4096, /* of the archive, at a time */
};

struct walk_id {
    uint64_t id;
    struct job *read; /* owned; NULL: not yet */
};
struct walk_ids { /* ascending */
    struct walk_id *v;
    size_t n, cap;
};

enum walk_phase { IN_MEMORY, SHOWING, ENDING };
enum walk_errand { FIND, READ }; /* on the reader's thread */

struct walk_chunk {
    uint64_t id[WALK_CHUNK]; /* descending */
    struct job *read[WALK_CHUNK];
    bool was_read[WALK_CHUNK];
    bool skip[WALK_CHUNK]; /* READ: it was read, or is in memory */
    size_t n, at;          /* shown as far as at */
};

/* What an errand works on, the loop leaves alone while it is out. */
struct walk {
    struct task task;
    struct walk *next;
    struct walk_conf conf;
    enum walk_phase phase;
    struct error why; /* ENDING; ERR_NONE: there are no more */
    int64_t n_shown;

    uint64_t after,
        last;       /* IN_MEMORY: between these numbers they are to come */
    double since_s; /* nobody asks for those that ended before */
    struct walk_ids mine, past; /* in memory, archived; not shown yet */
    uint64_t floor; /* beyond its limit: those up to this one are not shown */

    /* What of the archive was not looked at: between first and before. */
    bool has_more;
    uint64_t first, before;
    bool is_by_end;
    double end_s; /* by their end: after this end and number */
    uint64_t end_id;
    int64_t n_looked, n_stale; /* n_stale: in a row that ended before since_s */
    int32_t rows;              /* to be looked at next */

    struct walk_chunk chunks[2];
    struct walk_chunk *now, *ahead; /* shown; looked for and read meanwhile */

    /* Of jobs that were shown: memory for the next lines. */
    struct job *spare[WALK_CHUNK];
    size_t n_spare;

    bool is_out; /* the thread has an errand */
    bool is_queued;
    enum walk_errand errand;
    struct walk_chunk *reading; /* READ */
    const char *jobs_dir;
    int rc;
    struct error err, damage;
};

int walk_keep(struct walk_ids *ids, uint64_t id, struct error *err) MUST_CHECK;
/* What its errand is.  struct task: run() */
void walk_run(struct task *t);
/* Whether the lines of its jobs are enough. */
bool walk_is_brief(const struct walk_conf *conf);

#endif
