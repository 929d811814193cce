/* show.h - what mgpu-stat prints for people; one function per view.
 *
 * Each takes the daemon's reply, so that a test can feed a fixture, and
 * writes to out. They fail only when memory runs out.
 */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_SHOW_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_SHOW_H

#include <jansson.h>
#include <stdio.h>

#include "scheduler/tools/common/render.h"

struct show_conf {
    struct render_style style;
    bool header;               /* title rows */
    bool expand;               /* each waiting task of a sweep has its row */
    const char *format, *sort; /* of the queue: columns.h; NULL: the usual */
    FILE *out;
};

/* mgpu.queue/1: the summary line and one row per job; the tasks of a sweep
 * that wait share one. */
int show_queue(const struct show_conf *s, const json_t *reply,
               struct error *err) MUST_CHECK;
/* The same of the reply's text, without a tree of it: that of a hundred
 * thousand jobs takes 150 MB. Not for an order of one's own.
 * out  *ret_is_shown  false: it is not as the daemon writes it, and nothing was
 *      shown: let the JSON library look at it */
int show_queue_text(const struct show_conf *s, const char *text, size_t len,
                    bool *ret_is_shown, struct error *err) MUST_CHECK;
/* The same of a list that comes in parts, the newest jobs first, as job_pages.h
 * has them; `s` is borrowed until the end. Nothing is shown before
 * show_queue_end(), which returns whether anything was.
 * own  *ret  show_queue_free() */
struct queue_rows;
int show_queue_begin(const struct show_conf *s, struct queue_rows **ret,
                     struct error *err) MUST_CHECK;
int show_queue_part(void *rows, const char *head, size_t head_len,
                    const char *jobs, size_t jobs_len,
                    struct error *err) MUST_CHECK;
bool show_queue_end(const struct queue_rows *r);
void show_queue_free(struct queue_rows *r); /* NULL is fine */
/* Of it the summary line alone, and a table of jobs as they are. */
void show_summary(const struct show_conf *s, const json_t *reply);
int show_jobs(const struct show_conf *s, json_t *jobs,
              struct error *err) MUST_CHECK;
/* mgpu.job/1 with its mgpu.epochs/1 and mgpu.status/1 (either may be NULL). Of
 * the job also its "events", "checkpoint" and "best", where they are there. */
int show_job(const struct show_conf *s, const json_t *reply,
             const json_t *epochs, const json_t *status,
             struct error *err) MUST_CHECK;
/* SWEEP of wire.h with the mgpu.queue/1 of its tasks: a row for each. */
int show_sweep(const struct show_conf *s, const json_t *sweep,
               const json_t *tasks, struct error *err) MUST_CHECK;
/* Says so where rows of a reply were removed; whether they were. */
bool show_removed(FILE *out, const json_t *reply);
/* mgpu.iterations/1: courses as bars, then iteration time by phase. */
int show_metrics(const struct show_conf *s, const json_t *iterations,
                 const json_t *values, struct error *err) MUST_CHECK;
int show_epochs(const struct show_conf *s, const json_t *epochs,
                struct error *err) MUST_CHECK;
/* mgpu.profile/1 with its mgpu.epochs/1 (may be NULL), a table per epoch. */
int show_profile(const struct show_conf *s, const json_t *reply,
                 const json_t *epochs, struct error *err) MUST_CHECK;
/* mgpu.scaling/1: what further GPUs brought jobs of this class. */
int show_scaling(const struct show_conf *s, const json_t *reply,
                 struct error *err) MUST_CHECK;
/* mgpu.job/1, mgpu.iterations/1 and mgpu.scaling/1: how well it used what it
 * had, and what to change. The job's "events", and its "profile" as
 * mgpu.profile/1, are used where they are there. */
int show_eff(const struct show_conf *s, const json_t *job,
             const json_t *iterations, const json_t *scaling,
             struct error *err) MUST_CHECK;
/* The same as a row of mgpu.eff/1. own  *ret: json_decref() */
int show_eff_row(const json_t *job, const json_t *iterations,
                 const json_t *scaling, json_t **ret,
                 struct error *err) MUST_CHECK;
/* mgpu.eff/1 of several jobs. */
int show_eff_rows(const struct show_conf *s, const json_t *reply,
                  struct error *err) MUST_CHECK;
/* What a requeue that somebody asked for is called in words: it is stored as a
 * preempt, as is the way it ends its attempt. NULL: the event is none. */
const char *show_asked(const json_t *event);
int show_events(const struct show_conf *s, const json_t *reply,
                struct error *err) MUST_CHECK;
/* mgpu.why/1 with its mgpu.job/1 (may be NULL): reasons, what it may use, who
 * has it; of a job that has ended, its attempts. */
int show_why(const struct show_conf *s, const json_t *reply, const json_t *job,
             struct error *err) MUST_CHECK;
/* mgpu.dry_run/1, and what it has in "scaling", of the specification in
 * `file`. */
int show_dry_run(const struct show_conf *s, const json_t *reply,
                 const char *file, struct error *err) MUST_CHECK;
int show_nodes(const struct show_conf *s, const json_t *reply,
               struct error *err) MUST_CHECK;
/* "up", "down", "drained", "draining": of mgpu.nodes/1 and mgpu.gpus/1 */
const char *show_node_state(const json_t *node);
/* "free", "down", "drained": of a GPU there that nobody has */
const char *show_idle(const json_t *node);
/* mgpu.gpus/1: how busy each GPU was, and with whose job. */
int show_gpus(const struct show_conf *s, const json_t *reply,
              struct error *err) MUST_CHECK;
int show_status(const struct show_conf *s, const json_t *reply,
                struct error *err) MUST_CHECK;
/* The "attempts" of mgpu.job/1. */
int show_attempts(const struct show_conf *s, const json_t *attempts,
                  struct error *err) MUST_CHECK;

/* ---- rows of {"columns":[..],"rows":[[..],..]} ------------------------------
 */
/* The rows of a queue: tasks of one sweep that wait in the same state, with the
 * same priority, and had an attempt or had none, are one, with "12_[0-3,7]" as
 * display_id and, if they are not the same, "2 Priority, 1 WaitingForGpus" as
 * reason. Unchanged with expand.
 * own  *ret, for json_decref() */
#define SWEEP_ROWS_READ /* of a job */ \
    "sweep,task,state,priority,attempt,gpus_min,gpus_max"
int sweep_rows(json_t *jobs, bool expand, json_t **ret,
               struct error *err) MUST_CHECK;
/* The same of jobs that come one by one, those of a sweep in a row. */
struct sweep_rows;
struct sweep_rows *sweep_rows_create(void); /* NULL: no memory */
void sweep_rows_destroy(struct sweep_rows *r);
int sweep_rows_take(struct sweep_rows *r, json_t *job,
                    struct error *err) MUST_CHECK;
int sweep_rows_end(struct sweep_rows *r, struct error *err) MUST_CHECK;
/* NULL: the rows so far may change with the next job. Else they are as they
 * stay, for the caller to take out; borrowed. */
json_t *sweep_rows_ready(const struct sweep_rows *r);
/* How a job's or an attempt's state is set off: what runs is well, what was
 * lost is not, and some wait for somebody. */
enum render_paint show_state_paint(const char *state);
/* The index of a column, or -1. */
int show_column(const json_t *reply, const char *name);
/* NAN when absent or null. */
double show_cell(const json_t *row, int column);

#endif
