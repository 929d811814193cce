/* show.h - the text output of mgpu-stat, one function per view.
 *
 * Each takes the daemon's reply, so that a test can pass a fixture, and writes
 * to out. They fail only when memory runs out.
 */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_SHOW_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_SHOW_H

#include <jansson.h>
#include <stdio.h>

#include "jobs/wire/cells.h"
#include "scheduler/tools/common/metric_set.h"
#include "scheduler/tools/common/render.h"

struct show_conf {
    struct render_style style;
    bool header;               /* title rows */
    bool expand;               /* print one row per pending task of a sweep */
    const char *format, *sort; /* of the queue: columns.h; NULL: the default */
    FILE *out;
};

/* mgpu.queue/1: the summary line and one row per job; the pending tasks of a
 * sweep share a row. */
int show_queue(const struct show_conf *s, const json_t *reply,
               struct error *err) MUST_CHECK;
/* The same from the text of the reply, without a JSON tree: that of a hundred
 * thousand jobs takes 150 MB. Not with a sort option.
 * out  *ret_is_shown  false: the text is not in the daemon's format, and
 *      nothing was printed: use the JSON library */
int show_queue_text(const struct show_conf *s, const char *text, size_t len,
                    bool *ret_is_shown, struct error *err) MUST_CHECK;
/* The same for a list in pages, newest jobs first, see job_pages.h; `s` is
 * borrowed until the end. Only show_queue_end() prints, and returns whether it
 * did.
 * own  *ret  show_queue_free() */
struct queue_rows;
int show_queue_begin(const struct show_conf *s, struct queue_rows **ret,
                     struct error *err) MUST_CHECK;
int show_queue_part(void *rows, const char *head, size_t head_len,
                    const char *jobs, size_t jobs_len,
                    struct error *err) MUST_CHECK;
bool show_queue_end(const struct queue_rows *r);
void show_queue_free(struct queue_rows *r); /* NULL is fine */
/* Prints only the summary line, and only a table of the jobs. */
void show_summary(const struct show_conf *s, const json_t *reply);
int show_jobs(const struct show_conf *s, json_t *jobs,
              struct error *err) MUST_CHECK;
/* mgpu.job/1 with its mgpu.epochs/1 and mgpu.status/1 (either may be NULL). Of
 * the job it also uses "events", "checkpoint" and "best", if present. */
int show_job(const struct show_conf *s, const json_t *reply,
             const json_t *epochs, const json_t *status,
             struct error *err) MUST_CHECK;
/* SWEEP of wire.h with the mgpu.queue/1 of its tasks: one row per task. */
/* A reply has the newest values of metrics of so many jobs. */
enum { SHOW_VALUES_JOBS = 1000 };
int show_sweep(const struct show_conf *s, const json_t *sweep,
               const json_t *tasks, struct error *err) MUST_CHECK;
/* Prints a remark if rows of a reply were removed; returns whether they
 * were. */
bool cells_removed(FILE *out, const json_t *reply);
/* mgpu.iterations/1: the curves as bars, those of the job's own metrics among
 * them (may be NULL), then the step time by phase. */
int show_metrics(const struct show_conf *s, const json_t *iterations,
                 const struct metric_set *own, struct error *err) MUST_CHECK;
int show_epochs(const struct show_conf *s, const json_t *epochs,
                struct error *err) MUST_CHECK;
/* mgpu.profile/1 with its mgpu.epochs/1 (may be NULL), a table per epoch. */
int show_profile(const struct show_conf *s, const json_t *reply,
                 const json_t *epochs, struct error *err) MUST_CHECK;
/* mgpu.scaling/1: speed-up measured with more GPUs for jobs of this class. */
int show_scaling(const struct show_conf *s, const json_t *reply,
                 struct error *err) MUST_CHECK;
/* mgpu.job/1, mgpu.iterations/1 and mgpu.scaling/1: how well the job used its
 * resources, and what to change, see advice.h. */
int show_eff(const struct show_conf *s, const json_t *job,
             const json_t *iterations, const json_t *scaling,
             struct error *err) MUST_CHECK;
/* mgpu.eff/1 of several jobs. */
int show_eff_rows(const struct show_conf *s, const json_t *reply,
                  struct error *err) MUST_CHECK;
/* The name of a requeue that a person requested: it is stored as a preemption,
 * because it ends its attempt in the same way. NULL: another event. */
const char *cells_asked(const json_t *event);
int show_events(const struct show_conf *s, const json_t *reply,
                struct error *err) MUST_CHECK;
/* mgpu.why/1 with its mgpu.job/1 (may be NULL): reasons, usable nodes and the
 * jobs on them; for an ended job, its attempts. */
int show_why(const struct show_conf *s, const json_t *reply, const json_t *job,
             struct error *err) MUST_CHECK;
/* mgpu.dry_run/1 with its "scaling", for the specification in `file`. */
int show_dry_run(const struct show_conf *s, const json_t *reply,
                 const char *file, struct error *err) MUST_CHECK;
int show_nodes(const struct show_conf *s, const json_t *reply,
               struct error *err) MUST_CHECK;
/* "up", "down", "drained", "draining": of mgpu.nodes/1 and mgpu.gpus/1 */
const char *show_node_state(const json_t *node);
/* "free", "down", "drained": state of an idle GPU of the node */
const char *show_idle(const json_t *node);
/* mgpu.gpus/1: utilisation of each GPU, and its jobs. */
int show_gpus(const struct show_conf *s, const json_t *reply,
              struct error *err) MUST_CHECK;
/* mgpu.usage/1: one row per user, account, class or node. */
int show_usage(const struct show_conf *s, const json_t *reply,
               struct error *err) MUST_CHECK;
int show_status(const struct show_conf *s, const json_t *reply,
                struct error *err) MUST_CHECK;
/* The "attempts" of mgpu.job/1. */
int show_attempts(const struct show_conf *s, const json_t *attempts,
                  struct error *err) MUST_CHECK;

/* ---- rows of {"columns":[..],"rows":[[..],..]} ------------------------------
 */
/* The rows of a queue: pending tasks of one sweep share a row if they have the
 * same state and priority, and all of them or none had an attempt. The row has
 * "12_[0-3,7]" as display_id and, if the reasons differ, "2 Priority, 1
 * WaitingForGpus" as reason. With expand, the rows are unchanged.
 * own  *ret, for json_decref() */
#define SWEEP_ROWS_READ /* of a job */ \
    "sweep,task,state,priority,attempt,gpus_min,gpus_max"
int sweep_rows(json_t *jobs, bool expand, json_t **ret,
               struct error *err) MUST_CHECK;
/* The same for jobs that come one by one, with the tasks of a sweep in a
 * row. */
struct sweep_rows;
struct sweep_rows *sweep_rows_create(void); /* NULL: out of memory */
void sweep_rows_destroy(struct sweep_rows *r);
int sweep_rows_take(struct sweep_rows *r, json_t *job,
                    struct error *err) MUST_CHECK;
int sweep_rows_end(struct sweep_rows *r, struct error *err) MUST_CHECK;
/* NULL: the next job may still change the rows. Else the complete rows, for the
 * caller to remove; borrowed. */
json_t *sweep_rows_ready(const struct sweep_rows *r);
/* Highlighting of the state of a job or an attempt: running is good, lost is
 * bad, and states that need a person are odd. */
enum render_paint show_state_paint(const char *state);
/* The job, or the directory, whose checkpoint a job began with, in a line;
 * nothing if there is none. */
void show_parent(const struct show_conf *s, const json_t *job);

#endif
