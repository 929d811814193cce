/* from_db_sqlite.c - read the past of a daemon; see from_db.h. */
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/spec/spec.h"
#include "scheduler/sim/past/from_db.h"

enum { PATH_CAP = 4096, BUSY_MS = 5000 };

static int failed(sqlite3 *db, const char *path, struct error *err)
{
    return error_set(err, ERR_INVAL, "'%s': %s", path, sqlite3_errmsg(db));
}

static int open_file(const char *dir, const char *file, char path[PATH_CAP],
                     sqlite3 **ret, struct error *err)
{
    (void)snprintf(path, PATH_CAP, "%s/%s", dir, file);
    if (access(path, R_OK) != 0)
        return error_set(err, ERR_NOTFOUND,
                         "'%s' is not there or not readable; is '%s' the state "
                         "directory of a daemon?",
                         path, dir);
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        int rc = failed(db, path, err);
        (void)sqlite3_close(db);
        return rc;
    }
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    *ret = db;
    return 0;
}

/* Calls row() for each row. */
static int each_row(sqlite3 *db, const char *path, const char *sql,
                    double since_s, double until_s,
                    int (*row)(void *arg, sqlite3_stmt *s, struct error *err),
                    void *arg, struct error *err)
{
    sqlite3_stmt *s = NULL;
    int rc = 0, got = SQLITE_DONE;

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        return failed(db, path, err);
    if (sqlite3_bind_parameter_count(s) == 2) {
        (void)sqlite3_bind_double(s, 1, isnan(since_s) ? -1e18 : since_s);
        (void)sqlite3_bind_double(s, 2, isnan(until_s) ? 1e18 : until_s);
    }
    while (rc == 0 && (got = sqlite3_step(s)) == SQLITE_ROW)
        rc = row(arg, s, err);
    if (rc == 0 && got != SQLITE_DONE)
        rc = failed(db, path, err);
    (void)sqlite3_finalize(s);
    return rc;
}

static const char *text(sqlite3_stmt *s, int i)
{
    const char *t = (const char *)sqlite3_column_text(s, i);
    return t ? t : "";
}

static double real(sqlite3_stmt *s, int i)
{
    return sqlite3_column_type(s, i) == SQLITE_NULL
               ? (double)NAN
               : sqlite3_column_double(s, i);
}

/* ---- speeds ---------------------------------------------------------------
 */
struct reading {
    struct past *p;
    struct past_nodes nodes;
    double first_s, last_s;
    sqlite3 *state;
};

static int scaling_row(void *arg, sqlite3_stmt *s, struct error *err)
{
    struct past *p = ((struct reading *)arg)->p;
    int32_t nodes = sqlite3_column_int(s, 2), gpus = sqlite3_column_int(s, 1);
    char class[SIM_CLASS_CAP];

    if (nodes < 1 || gpus < nodes || !(real(s, 3) > 0))
        return 0;
    (void)snprintf(class, sizeof(class), "%s", text(s, 0));
    return size_table_add(p->speed, class, "", nodes, gpus / nodes, real(s, 3),
                          NAN, err);
}

/* ---- what was never granted ------------------------------------------------
 */
static int stranded_row(void *arg, sqlite3_stmt *s, struct error *err)
{
    struct reading *r = arg;
    struct past_stranded one = {.job = (uint64_t)sqlite3_column_int64(s, 0),
                                .gpus = sqlite3_column_int(s, 2),
                                .from_s = real(s, 3),
                                .until_s = real(s, 4),
                                .left_s = real(s, 6),
                                .is_last = sqlite3_column_int(s, 5) != 0};

    (void)snprintf(one.name, sizeof(one.name), "%s", text(s, 1));
    return past_stranded_add(r->p, &one, err);
}

/* Requested, with no grant and no claim. An attempt that was taken back for
 * another job or size has followers, and the barred size is not its own; or
 * the job went back to the queue and was cancelled there. */
static const char stranded_sql[] =
    "SELECT a.job, j.name, a.gpus, a.intent_at, a.ended_at,"
    " a.attempt = j.attempt,"
    " coalesce((SELECT max(e.at) FROM event AS e WHERE e.job = a.job"
    "   AND e.attempt = a.attempt - 1 AND e.event = 'preempt'"
    "   AND json_extract(e.detail, '$.to_gpus') = a.gpus), a.intent_at)"
    " FROM attempt AS a JOIN job AS j ON j.job = a.job"
    " WHERE j.submitted_at >= ?1 AND j.submitted_at < ?2 AND j.spec IS NOT NULL"
    "  AND a.native_id IS NULL AND a.claimed_at IS NULL"
    "  AND a.running_at IS NULL AND a.intent_at IS NOT NULL"
    "  AND ((a.attempt = j.attempt"
    "    AND (j.state IN ('DISPATCHING', 'UNKNOWN')"
    "     OR (j.state = 'CANCELLED' AND NOT EXISTS"
    "      (SELECT 1 FROM event AS q WHERE q.job = a.job"
    "       AND q.attempt = a.attempt AND q.event = 'requeue'))))"
    "   OR EXISTS (SELECT 1 FROM event AS b"
    "    WHERE b.job = a.job AND b.attempt = a.attempt"
    "     AND json_extract(b.detail, '$.barred_gpus') = a.gpus))"
    " ORDER BY a.intent_at";

/* ---- jobs -----------------------------------------------------------------
 */
/* A job that took a time and no iterations. Of one that saves its work all
 * attempts count, and scale perfectly. */
static int add_timed(struct past *p, struct sim_job *job, sqlite3_stmt *s,
                     struct error *err)
{
    double run_s = real(s, 22) > 0 ? real(s, 22) : real(s, 9) - real(s, 8);
    int32_t gpus = sqlite3_column_int(s, 5), nodes = sqlite3_column_int(s, 10);

    (void)snprintf(job->class, sizeof(job->class), "job-%" PRIu64, job->id);
    job->work = isfinite(run_s) && run_s > 0 ? run_s : 1;
    nodes = nodes > 0 ? nodes : 1;
    gpus = gpus >= nodes ? gpus : nodes;
    return size_table_add(p->speed, job->class, "", nodes, gpus / nodes, 1,
                          real(s, 11), err);
}

static int add_measured(struct past *p, struct sim_job *job, sqlite3_stmt *s,
                        struct error *err)
{
    double restart_s = real(s, 11);
    (void)snprintf(job->class, sizeof(job->class), "%s", text(s, 7));
    job->work = fmax(1, real(s, 12));
    return restart_s >= 0
               ? size_table_restart(p->speed, job->class, restart_s, err)
               : 0;
}

/* Its place in a sweep, as the submit event has it. */
static int add_task(struct sim_job *job, sqlite3_stmt *s, struct error *err)
{
    int32_t n = sqlite3_column_int(s, 18);

    if (n < 1 || n > SPEC_TASKS_MAX)
        return 0;
    job->vary = strdup(text(s, 21));
    if (!job->vary)
        return error_set(err, ERR_NOMEM, "sweep");
    job->task = sqlite3_column_int(s, 17);
    job->n_tasks = n;
    job->max_parallel = sqlite3_column_int(s, 19);
    job->stop_on_fail = sqlite3_column_int(s, 20) != 0;
    return 0;
}

static int job_row(void *arg, sqlite3_stmt *s, struct error *err)
{
    struct reading *r = arg;
    struct sim_job job = {.id = (uint64_t)sqlite3_column_int64(s, 0),
                          .uid = sqlite3_column_int64(s, 3),
                          .gpus_min = sqlite3_column_int(s, 13),
                          .gpus_max = sqlite3_column_int(s, 14)};

    if (isnan(r->first_s))
        r->first_s = real(s, 4);
    if (real(s, 9) > r->last_s)
        r->last_s = real(s, 9);
    past_stranded_end(r->p, job.id, real(s, 9));
    (void)snprintf(job.name, sizeof(job.name), "%s", text(s, 1));
    (void)snprintf(job.user, sizeof(job.user), "%s", text(s, 2));
    job.submit_s = real(s, 4) - r->first_s;
    job.is_recorded = real(s, 23) > 0;
    job.recorded_start_s = real(s, 23) - r->first_s;
    job.recorded_end_s = real(s, 9) - r->first_s;
    job.recorded_gpu_s = real(s, 24);
    job.spec = strdup(text(s, 6));
    if (!job.spec)
        return error_set(err, ERR_NOMEM, "specification");
    if (add_task(&job, s, err) < 0) {
        free(job.spec);
        return -1;
    }
    past_nodes_add(&r->nodes, text(s, 15));
    int rc = real(s, 12) > 0 && sqlite3_column_int(s, 16)
                 ? add_measured(r->p, &job, s, err)
                 : add_timed(r->p, &job, s, err);
    if (rc == 0)
        rc = sim_trace_add(&r->p->trace, &job, err);
    if (rc < 0) {
        free(job.spec);
        free(job.vary);
    } else if (job.id > r->p->trace.last_id) {
        r->p->trace.last_id = job.id;
    }
    return rc;
}

/* The iterations are those of the last event that has them. */
static const char jobs_sql[] =
    "SELECT j.job, j.name, j.user, j.uid, j.submitted_at, a.gpus, j.spec,"
    " a.class, a.running_at, j.ended_at, a.nodes,"
    " (SELECT avg(b.running_at - b.intent_at) FROM attempt AS b"
    "   WHERE b.class = a.class AND b.running_at >= b.intent_at),"
    " coalesce("
    "  (SELECT max(json_extract(e.detail, '$.iterations_total')) FROM event AS "
    "e"
    "    WHERE e.job = j.job AND j.state <> 'FAILED'"
    "      AND json_extract(e.detail, '$.iterations_total') > 0),"
    "  (SELECT max(json_extract(e.detail, '$.iteration')) FROM event AS e"
    "    WHERE e.job = j.job)),"
    " j.gpus_min, j.gpus_max,"
    " (SELECT group_concat(b.place, ' ') FROM attempt AS b"
    "   WHERE b.job = j.job AND b.place IS NOT NULL),"
    " EXISTS (SELECT 1 FROM measured AS m WHERE m.class = a.class),"
    " json_extract(u.detail, '$.sweep.task'),"
    " json_extract(u.detail, '$.sweep.tasks'),"
    " json_extract(u.detail, '$.sweep.max_parallel'),"
    " json_extract(u.detail, '$.sweep.stop_on_fail'),"
    " json_extract(u.detail, '$.sweep.vary'),"
    " CASE WHEN json_extract(j.spec, '$.saves') THEN"
    "  (SELECT sum((b.ended_at - b.running_at) * b.gpus) / a.gpus"
    "    FROM attempt AS b WHERE b.job = j.job) END,"
    " CASE WHEN j.state = 'COMPLETED' THEN"
    "  (SELECT min(b.running_at) FROM attempt AS b WHERE b.job = j.job) END,"
    " (SELECT sum((b.ended_at - b.running_at) * b.gpus) FROM attempt AS b"
    "   WHERE b.job = j.job)"
    " FROM job AS j"
    " LEFT JOIN attempt AS a ON a.job = j.job AND a.attempt = j.attempt"
    " LEFT JOIN event AS u ON u.job = j.job AND u.event = 'submit'"
    " WHERE j.submitted_at >= ?1 AND j.submitted_at < ?2"
    "  AND j.spec IS NOT NULL AND j.kind IS NOT 'run'"
    " ORDER BY j.submitted_at, j.job";

/* ---- people ---------------------------------------------------------------
 */
static int add_action(struct past *p, const struct past_action *a,
                      struct error *err)
{
    if (p->n_actions == p->cap_actions) {
        size_t cap = p->cap_actions ? 2 * p->cap_actions : 64;
        struct past_action *more = calloc(cap, sizeof(*more));
        if (!more)
            return error_set(err, ERR_NOMEM, "%zu actions", cap);
        if (p->n_actions > 0)
            memcpy(more, p->actions, p->n_actions * sizeof(*more));
        free(p->actions);
        p->actions = more;
        p->cap_actions = cap;
    }
    p->actions[p->n_actions++] = *a;
    return 0;
}

static int action_row(void *arg, sqlite3_stmt *s, struct error *err)
{
    static const struct {
        const char *event;
        enum sim_act act;
    } acts[] = {{"cancel", ACT_CANCEL},   {"hold", ACT_HOLD},
                {"release", ACT_RELEASE}, {"priority", ACT_PRIORITY},
                {"update", ACT_UPDATE},   {"preempt", ACT_REQUEUE}};
    struct reading *r = arg;
    struct past_action a = {.t_s = real(s, 1) - r->first_s,
                            .job = (uint64_t)sqlite3_column_int64(s, 0),
                            .priority = sqlite3_column_int(s, 3),
                            .gpus = sqlite3_column_int(s, 4),
                            .nodes = sqlite3_column_int(s, 5),
                            .has_priority = sqlite3_column_int(s, 7) != 0,
                            .limit_ms = sqlite3_column_int64(s, 8),
                            .max_parallel = sqlite3_column_int(s, 9)};

    if (sqlite3_column_type(s, 4) != SQLITE_NULL) {
        bool is_barred = sqlite3_column_int(s, 6) != 0;
        a.act = is_barred ? ACT_REQUEUE : ACT_RESIZE;
        return add_action(r->p, &a, err);
    }
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
        if (strcmp(acts[i].event, text(s, 2)) == 0) {
            a.act = acts[i].act;
            return add_action(r->p, &a, err);
        }
    return 0;
}

/* A preemption for no job is a requeue that a person asked for, or, with a
 * size, a resize; if the size was not granted, the next event says so. A
 * cluster changes jobs, too; the limit of its partition, which comes with the
 * submit, is there before the job can start. */
static const char actions_sql[] =
    "SELECT e.job,"
    " CASE WHEN e.event = 'update' AND e.uid < 0 AND NOT EXISTS"
    "  (SELECT 1 FROM event AS b WHERE b.job = e.job AND b.seq < e.seq"
    "   AND b.event <> 'submit') THEN j.submitted_at ELSE e.at END AS acts_at,"
    " e.event,"
    " coalesce(json_extract(e.detail, '$.priority'), 0),"
    " json_extract(e.detail, '$.to_gpus'),"
    " json_extract(e.detail, '$.to_nodes'),"
    " EXISTS (SELECT 1 FROM event AS b WHERE b.job = e.job AND b.seq > e.seq"
    "   AND json_extract(b.detail, '$.barred_gpus') ="
    "    json_extract(e.detail, '$.to_gpus')"
    "   AND NOT EXISTS (SELECT 1 FROM event AS c WHERE c.job = e.job"
    "    AND c.event = 'preempt' AND c.seq > e.seq AND c.seq < b.seq)),"
    " json_extract(e.detail, '$.priority') IS NOT NULL,"
    " coalesce(json_extract(e.detail, '$.limit_ms'), -1),"
    " coalesce(json_extract(e.detail, '$.max_parallel'), -1)"
    " FROM event AS e JOIN job AS j ON j.job = e.job"
    " WHERE j.submitted_at >= ?1 AND j.submitted_at < ?2"
    "  AND j.kind IS NOT 'run'"
    "  AND (e.uid >= 0 OR e.event = 'update')"
    "  AND (e.event IN ('cancel', 'hold', 'release', 'priority')"
    "   OR (e.event = 'update' AND coalesce("
    "    json_extract(e.detail, '$.limit_ms'),"
    "    json_extract(e.detail, '$.priority'),"
    "    json_extract(e.detail, '$.max_parallel')) IS NOT NULL)"
    "   OR (e.event = 'preempt'"
    "    AND coalesce(json_extract(e.detail, '$.for_job'), 0) = 0))"
    " ORDER BY acts_at, e.seq";

/* ---- together -------------------------------------------------------------
 */
static bool has_job(void *arg, uint64_t id)
{
    const struct sim_trace *t = arg;

    for (size_t i = 0; i < t->n; i++)
        if (t->jobs[i].id == id)
            return true;
    return false;
}

static int adapt_specs(struct past *p, struct error *err)
{
    struct sim_trace *t = &p->trace;

    for (size_t i = 0; i < t->n; i++) {
        int32_t gpus = past_attempts_size(p, t->jobs[i].id);
        char *spec;
        if (past_spec(t->jobs[i].spec, has_job, t, &spec, err) < 0)
            return error_wrap(err, "job %" PRIu64, t->jobs[i].id);
        free(t->jobs[i].spec);
        t->jobs[i].spec = spec;
        if (gpus > 0 &&
            past_spec_sized(spec, gpus, &t->jobs[i].sized_spec, err) < 0)
            return error_wrap(err, "job %" PRIu64, t->jobs[i].id);
    }
    return 0;
}

static int measured_row(void *arg, sqlite3_stmt *s, struct error *err)
{
    struct reading *r = arg;
    sqlite3_stmt *insert = NULL;
    int rc = sqlite3_prepare_v2(r->state, "INSERT INTO measured VALUES (?1)",
                                -1, &insert, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(insert, 1, text(s, 0), -1, SQLITE_TRANSIENT);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(insert);
    (void)sqlite3_finalize(insert);
    if (rc != SQLITE_DONE)
        return failed(r->state, "measured classes", err);
    return scaling_row(arg, s, err);
}

static int read_speeds(struct reading *r, const char *dir, struct error *err)
{
    char path[PATH_CAP];
    sqlite3 *db;

    if (sqlite3_exec(r->state, "CREATE TEMP TABLE measured (class TEXT)", NULL,
                     NULL, NULL) != SQLITE_OK)
        return failed(r->state, dir, err);
    if (open_file(dir, "metrics.db", path, &db, err) < 0)
        return -1;
    int rc = each_row(db, path,
                      "SELECT class, gpus, nodes, t_iter FROM v_scaling"
                      " WHERE basis = 'measured'"
                      "  AND class NOT GLOB 'program/*'",
                      NAN, NAN, measured_row, r, err);
    (void)sqlite3_close(db);
    return rc;
}

static int read_past(struct reading *r, const char *dir, double since_s,
                     double until_s, struct error *err)
{
    char path[PATH_CAP];

    if (size_table_create(&r->p->speed, err) < 0 ||
        open_file(dir, "state.db", path, &r->state, err) < 0)
        return -1;
    int rc = read_speeds(r, dir, err);
    if (rc == 0)
        rc = each_row(r->state, path, stranded_sql, since_s, until_s,
                      stranded_row, r, err);
    if (rc == 0)
        rc = each_row(r->state, path, jobs_sql, since_s, until_s, job_row, r,
                      err);
    if (rc == 0 && r->p->trace.n == 0)
        rc = error_set(err, ERR_INVAL, "'%s' has no job in this time", path);
    past_find_sweeps(r->p);
    if (rc == 0)
        rc = each_row(r->state, path, actions_sql, since_s, until_s, action_row,
                      r, err);
    if (rc == 0)
        rc = past_attempts_read(r->state, since_s, until_s, r->first_s, r->p,
                                err);
    if (rc == 0)
        rc = past_stranded_apply(r->p, r->first_s, err);
    (void)sqlite3_close(r->state);
    return rc == 0 ? adapt_specs(r->p, err) : rc;
}

/* A state directory without admin.log has never had an administrator. */
static int read_settings(struct reading *r, const char *dir, struct error *err)
{
    char path[PATH_CAP];
    struct lines l;

    (void)snprintf(path, sizeof(path), "%s/admin.log", dir);
    int rc = access(path, F_OK) == 0 ? lines_open(&l, path, err)
                                     : lines_text(&l, path, "", 0, err);
    if (rc < 0)
        return -1;
    rc = past_settings_read(&l, r->first_s, r->last_s, r->p, err);
    lines_clear(&l);
    return rc;
}

int from_db_open(const char *state_dir, double since_s, double until_s,
                 struct past *ret, struct error *err)
{
    struct past p = {.n_actions = 0};
    struct reading *r = calloc(1, sizeof(*r));

    if (!r)
        return error_set(err, ERR_NOMEM, "past");
    r->p = &p;
    r->first_s = NAN;
    r->last_s = -INFINITY;
    int rc = read_past(r, state_dir, since_s, until_s, err);
    if (rc == 0)
        rc = read_settings(r, state_dir, err);
    if (rc == 0) {
        (void)snprintf(p.trace.name, sizeof(p.trace.name), "%.120s", state_dir);
        p.trace.epoch_s = r->first_s;
        p.trace.recorded_s = fmax(0, r->last_s - r->first_s);
        past_nodes_text(&r->nodes, p.cluster, sizeof(p.cluster));
    }
    free(r);
    if (rc < 0)
        from_db_clear(&p);
    else
        *ret = p;
    return rc;
}

void from_db_clear(struct past *p)
{
    sim_trace_clear(&p->trace);
    if (p->speed)
        p->speed->ops->destroy(p->speed);
    free(p->actions);
    free(p->settings);
    free(p->stranded);
    free(p->attempts);
    *p = (struct past){.n_actions = 0};
}
