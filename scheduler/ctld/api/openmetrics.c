/* openmetrics.c - /metrics, OpenMetrics 1.0. No label has a job or a user in
 * it: the number of series does not grow with the load. Labels of groups of
 * jobs are a choice of the administrator (group_metrics.c). */
#include "scheduler/ctld/api/openmetrics.h"

#include <math.h>
#include <string.h>

#include "jobs/base/version.h"
#include "scheduler/ctld/api/admin_actions.h"
#include "scheduler/ctld/api/drain_nodes.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/policy_settings.h"
#include "scheduler/ctld/api/reload_config.h"
#include "scheduler/ctld/api/status.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_watch.h"
#include "scheduler/ctld/maintenance/backup_schedule.h"
#include "scheduler/ctld/maintenance/disk_space.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/free_slots.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/usage/event_counts.h"
#include "scheduler/ctld/usage/group_metrics.h"
#include "scheduler/ctld/usage/pending_reasons.h"

struct counts {
    uint64_t jobs[JOB_STATE_N];
    struct pending_reasons reasons;
};

static void count_jobs(struct ctld *c, struct counts *ret)
{
    memset(ret, 0, sizeof(*ret));
    engine_count(c->engine, ret->jobs);
    const struct job *j = engine_next_since(c->engine, 0, INFINITY);
    for (; j; j = engine_next_since(c->engine, j->id, INFINITY))
        pending_reasons_add(&ret->reasons, j);
}

/* A family is named by its unit at the end; info has none. */
static int family(struct buf *b, const char *name, const char *type,
                  const char *help)
{
    static const char unit[] = "_seconds";
    size_t len = strlen(name), n = sizeof(unit) - 1;
    int rc = buf_addf(b, NULL, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
                      type);
    if (len > n && strcmp(name + len - n, unit) == 0)
        rc |= buf_addf(b, NULL, "# UNIT %s %s\n", name, unit + 1);
    return rc;
}

static int one(struct buf *b, const char *name, const char *type,
               const char *help, uint64_t v)
{
    int rc = family(b, name, type, help);
    const char *total = strcmp(type, "counter") == 0 ? "_total" : "";
    return rc |
           buf_addf(b, NULL, "%s%s %llu\n", name, total, (unsigned long long)v);
}

static int add_jobs(struct buf *b, const struct counts *n)
{
    int rc = family(b, "mgpu_jobs", "gauge", "Jobs by state.");
    for (int s = 0; s < JOB_STATE_N; s++)
        rc |= buf_addf(b, NULL, "mgpu_jobs{state=\"%s\"} %llu\n",
                       job_state_name((enum job_state)s),
                       (unsigned long long)n->jobs[s]);
    rc |= family(b, "mgpu_jobs_pending", "gauge",
                 "Jobs that are queued, or pending in Slurm, by the token of "
                 "their reason.");
    for (size_t i = 0; i < n->reasons.n; i++) {
        rc |= buf_addstr(b, "mgpu_jobs_pending{reason=", NULL);
        rc |= group_metrics_add_value(b, n->reasons.at[i].token);
        rc |= buf_addf(b, NULL, "} %llu\n",
                       (unsigned long long)n->reasons.at[i].n);
    }
    return rc;
}

/* A histogram of durations or of shares; the last bucket counts those above all
 * bounds. */
static int histogram(struct buf *b, const char *name, const char *help,
                     const uint64_t *buckets, const double *bounds,
                     int n_buckets, double sum, uint64_t n)
{
    uint64_t below = 0;
    int rc = family(b, name, "histogram", help);
    for (int i = 0; i < n_buckets; i++) {
        below += buckets[i];
        if (i < n_buckets - 1)
            rc |= buf_addf(b, NULL, "%s_bucket{le=\"%g\"} %llu\n", name,
                           bounds[i], (unsigned long long)below);
        else
            rc |= buf_addf(b, NULL, "%s_bucket{le=\"+Inf\"} %llu\n", name,
                           (unsigned long long)below);
    }
    return rc | buf_addf(b, NULL, "%s_sum %.9g\n%s_count %llu\n", name, sum,
                         name, (unsigned long long)n);
}

static int add_queue(struct ctld *c, struct buf *b)
{
    const struct wait_counts *waits = &c->stats.waits;
    struct counts n;
    count_jobs(c, &n);
    int rc = add_jobs(b, &n);
    rc |= group_metrics_add(c, b);
    return rc |
           histogram(b, "mgpu_wait_seconds",
                     "Time from the submit of a job to the first claim of an "
                     "attempt, of jobs that started.",
                     waits->buckets, wait_bounds_s, WAIT_BUCKETS, waits->sum_s,
                     waits->n);
}

static int add_loop(struct buf *b, const struct loop_times *t)
{
    int rc = histogram(b, "mgpu_loop_stall_seconds",
                       "Time for which one callback held up the event loop.",
                       t->buckets, loop_bounds_s, LOOP_BUCKETS, t->sum_s, t->n);
    rc |= family(
        b, "mgpu_loop_stall_longest_seconds", "gauge",
        "The longest time for which one callback held up the event loop, since "
        "the start.");
    rc |= buf_addf(b, NULL, "mgpu_loop_stall_longest_seconds %.9g\n",
                   t->longest_s);
    rc |= family(
        b, "mgpu_loop_stall_own_longest_seconds", "gauge",
        "The longest callback of the event loop since the start, without its "
        "waits for a core.");
    rc |= buf_addf(b, NULL, "mgpu_loop_stall_own_longest_seconds %.9g\n",
                   t->longest_own_s);
    rc |= family(b, "mgpu_loop_waited_seconds", "counter",
                 "Time that callbacks of the event loop waited for a core.");
    rc |=
        buf_addf(b, NULL, "mgpu_loop_waited_seconds_total %.9g\n", t->waited_s);
    rc |= family(
        b, "mgpu_loop_slept_longest_seconds", "gauge",
        "The longest time that one callback of the event loop slept, since the "
        "start.");
    rc |= buf_addf(b, NULL, "mgpu_loop_slept_longest_seconds %.9g\n",
                   t->longest_slept_s);
    rc |= family(
        b, "mgpu_loop_slept_seconds", "counter",
        "Time that callbacks of the event loop slept: for a disk, a lock or a "
        "child.");
    return rc | buf_addf(b, NULL, "mgpu_loop_slept_seconds_total %.9g\n",
                         t->slept_s);
}

static int add_notices(struct buf *b, struct notices_counts n)
{
    int rc = one(b, "mgpu_notices_sent", "counter",
                 "Notifications that notify.program has sent.", n.sent);
    rc |= one(b, "mgpu_notices_failed", "counter",
              "Notifications that notify.program could not send.", n.failed);
    rc |= one(b, "mgpu_notices_dropped", "counter",
              "Notifications dropped: the queue was full.", n.dropped);
    return rc | one(b, "mgpu_notices_waiting", "gauge",
                    "Notifications queued or under way.", n.waiting);
}

static int add_backups(struct buf *b, struct backup_counts k)
{
    int rc = one(b, "mgpu_backups", "gauge",
                 "Backups of store.backup that exist.", (uint64_t)k.n);
    rc |= one(b, "mgpu_backup_failures", "counter",
              "Backups of store.backup that failed.", k.n_failed);
    rc |=
        family(b, "mgpu_backup_last_success_time_seconds", "gauge",
               "When the newest backup of store.backup was taken, since 1970.");
    return isnan(k.last_s)
               ? rc
               : rc | buf_addf(b, NULL,
                               "mgpu_backup_last_success_time_seconds %.3f\n",
                               k.last_s);
}

static int add_disk_space(struct buf *b, struct ctld *c)
{
    int64_t free_bytes = disk_space_free_bytes(c);
    int rc = family(b, "mgpu_state_free_bytes", "gauge",
                    "Free space of the state directory.");
    if (free_bytes >= 0)
        rc |= buf_addf(b, NULL, "mgpu_state_free_bytes %lld\n",
                       (long long)free_bytes);
    return rc | one(b, "mgpu_state_short", "gauge",
                    "1: the free space of the state directory is below "
                    "store.min_free, "
                    "and no job is accepted.",
                    disk_space_is_short(c));
}

/* A node with GPUs of several types has an entry for each, in a row. */
static int add_nodes(struct buf *b, const struct ctld *c)
{
    static const char *const states[] = {"up", "draining", "drained", "down"};
    enum { N_STATES = sizeof(states) / sizeof(states[0]) };
    uint64_t counts[N_STATES] = {0};
    size_t n = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < N_STATES; k++)
            counts[k] +=
                (i == 0 || strcmp(nodes[i - 1].name, nodes[i].name) != 0) &&
                strcmp(status_node_state(nodes, n, i), states[k]) == 0;
    int rc =
        family(b, "mgpu_nodes", "gauge",
               "Nodes by state; one that is drained is draining while jobs "
               "are on it.");
    for (int k = 0; k < N_STATES; k++)
        rc |= buf_addf(b, NULL, "mgpu_nodes{state=\"%s\"} %llu\n", states[k],
                       (unsigned long long)counts[k]);
    return rc;
}

static uint64_t n_failed(const struct ctld *c)
{
    size_t n = 0;
    uint64_t failed = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    for (size_t i = 0; i < n; i++)
        failed += (uint64_t)nodes[i].gpus_drained;
    return failed;
}

/* Gauges of what an administrator has set and may have forgotten. */
static int add_admin(struct buf *b, const struct ctld *c)
{
    size_t n_drained = 0;
    (void)drain_nodes_of_engine(c, &n_drained);
    int rc =
        one(b, "mgpu_paused", "gauge", "1: an administrator has paused starts.",
            admin_actions_is_paused(c));
    rc |= one(b, "mgpu_nodes_drained", "gauge",
              "Nodes that administrators keep jobs away from.", n_drained);
    rc |= one(b, "mgpu_gpus_drained", "gauge",
              "GPUs that failed, and get nothing new.", n_failed(c));
    rc |= one(b, "mgpu_policy_set", "gauge",
              "Keys of scheduling that administrators have set over mgpu.yaml.",
              policy_settings_count(c));
    return rc | one(b, "mgpu_reload_failed", "gauge",
                    "1: mgpu.yaml was refused when it was last read again.",
                    reload_config_has_failed(c));
}

static int add_resizes(struct buf *b, const struct ctld_stats *s)
{
    static const char *const parts[] = {"checkpoint", "allocator", "start"};
    int rc = one(b, "mgpu_resizes", "counter",
                 "Jobs that continued on another number of GPUs.", s->resizes);
    rc |= family(
        b, "mgpu_resize_seconds", "counter",
        "Time that resizes took, from the word to stop to the next iteration.");
    for (int i = 0; i < 3; i++)
        rc |= buf_addf(b, NULL, "mgpu_resize_seconds_total{part=\"%s\"} %.9g\n",
                       parts[i], s->resize_s[i]);
    rc |= one(b, "mgpu_rate_predictions", "counter",
              "Sizes of a class that ran for the first time, and whose speed "
              "had been predicted.",
              s->predictions);
    rc |= family(
        b, "mgpu_rate_prediction_error", "counter",
        "Sum over mgpu_rate_predictions: the share by which each was off.");
    rc |= buf_addf(b, NULL, "mgpu_rate_prediction_error_total %.9g\n",
                   s->prediction_error);
    return rc;
}

static int add_all(struct ctld *c, struct buf *b)
{
    const struct ctld_stats *s = &c->stats;
    int64_t total = 0, n_free = 0;
    double since_s;
    free_slots_count(c, &total, &n_free);
    int rc = family(b, "mgpu_build", "info", "The daemon's version.");
    rc |=
        buf_addf(b, NULL, "mgpu_build_info{version=\"%s\"} 1\n", MGPU_VERSION);
    rc |= add_queue(c, b);
    rc |= add_nodes(b, c);
    rc |= one(b, "mgpu_slots", "gauge",
              "GPUs or slots of nodes that are up, and those in use elsewhere.",
              (uint64_t)total);
    rc |= one(b, "mgpu_slots_free", "gauge",
              "GPUs or slots that nobody uses, of nodes that are up.",
              (uint64_t)n_free);
    rc |=
        one(b, "mgpu_events", "counter", "Job events made durable.", s->events);
    rc |= one(b, "mgpu_rows_ingested", "counter", "Metric rows stored.",
              s->rows_stored);
    rc |= one(b, "mgpu_rows_repeated", "counter",
              "Metric rows that came again and were there already.",
              s->rows_repeated);
    rc |= one(b, "mgpu_lines_dropped", "counter",
              "Lines of workers that could not be read as metric rows.",
              s->lines_dropped);
    rc |=
        one(b, "mgpu_values_dropped", "counter",
            "Metric rows dropped: their attempt has the most names of metrics.",
            s->values_dropped);
    rc |= histogram(b, "mgpu_sol_ratio",
                    "Share of the GPU's limit that iterations of training "
                    "reached.",
                    s->sol.buckets, sol_counts_bounds, SOL_BUCKETS, s->sol.sum,
                    s->sol.n);
    rc |= one(b, "mgpu_spools_undrained", "counter",
              "Attempts that ended before all their rows were stored.",
              s->spools_undrained);
    rc |= one(b, "mgpu_refused", "counter",
              "Requests of callers who could not prove who they are.",
              s->refused);
    rc |= one(b, "mgpu_rate_limited", "counter",
              "Requests of users who had asked too often.", s->limited);
    rc |= one(b, "mgpu_writer_queued", "gauge",
              "Tasks that wait for the thread that writes metric rows.",
              work_queue_queued(c->writer));
    rc |= one(b, "mgpu_watchers", "gauge", "Open /v1/watch streams.",
              job_watch_count(c));
    rc |=
        one(b, "mgpu_steps_failed", "counter",
            "Engine steps whose events could not be stored.", s->steps_failed);
    rc |=
        one(b, "mgpu_rows_removed", "counter",
            "Metric rows removed by store.metrics_retention.", s->rows_removed);
    rc |= one(b, "mgpu_jobs_removed", "counter",
              "Jobs removed by store.jobs_retention.", s->jobs_removed);
    rc |= add_resizes(b, s);
    rc |= add_notices(b, ctld_event_notice_counts(c));
    rc |= add_admin(b, c);
    rc |= add_backups(b, backup_schedule_counts(c));
    rc |= add_disk_space(b, c);
    rc |= histogram(b, "mgpu_step_seconds",
                    "Duration of one engine step, its commits included.",
                    s->steps.buckets, ctld_step_bounds_s, CTLD_STEP_BUCKETS,
                    s->steps.sum_s, s->steps.n);
    rc |= histogram(b, "mgpu_commit_seconds",
                    "Time in which the store made one batch durable.",
                    s->commits.buckets, ctld_step_bounds_s, CTLD_STEP_BUCKETS,
                    s->commits.sum_s, s->commits.n);
    rc |= add_loop(b, loop_times(c->loop));
    rc |= one(b, "mgpu_allocator_up", "gauge",
              "1: the allocator tells what there is; 0: it cannot be reached.",
              engine_unavailable(c->engine, &since_s) == NULL);
    rc |= family(b, "mgpu_start_time_seconds", "gauge",
                 "When the daemon started, since 1970.");
    rc |= buf_addf(b, NULL, "mgpu_start_time_seconds %.3f\n# EOF\n",
                   c->started_wall_s);
    return rc;
}

void serve_metrics(void *arg, struct http_exchange *x)
{
    if (ctld_admit(arg, x))
        openmetrics_reply(arg, x);
}

void openmetrics_reply(struct ctld *c, struct http_exchange *x)
{
    struct buf b = BUF_INIT;
    if (add_all(c, &b) != 0)
        ctld_reply(x, 500, NULL);
    else
        http_reply_text(x, 200,
                        "application/openmetrics-text; version=1.0.0; "
                        "charset=utf-8",
                        buf_str(&b), b.len);
    buf_clear(&b);
}
