/* runs.c - jobs of kind run, from their opening to their end; see run.h.
 *
 * The submit and the opening are two events of one batch: the first says whose
 * the run is and what it is called, as of any job, and the second makes it
 * RUNNING. Two facts end it without its program: a cancel, and silence. Both
 * are looked at in each step (eng_runs_end), so a cancel that became durable
 * before a crash ends the run after it.
 */
#include "scheduler/engine/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/schema/schema.h"
#include "jobs/text/text.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/requests/requests.h"

enum { EXIT_CODE_MAX = 255 };

/* ---- opening --------------------------------------------------------------
 */
/* The record of the new run, complete but for its id. own engine_read_destroy()
 */
static int make(const struct engine_run *run, struct engine_read **ret,
                struct error *err)
{
    struct engine_read *r = calloc(1, sizeof(*r));

    if (!r || !(r->rec = malloc(sizeof(*r->rec)))) {
        free(r);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    job_record_init(r->rec, 1);
    struct job *job = &r->rec->job;
    job->spec = r->rec->own.spec = strdup(run->spec);
    if (!job->spec) {
        engine_read_destroy(r);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    job->kind = job_kind_run;
    job->is_run = true;
    job->uid = run->uid;
    text_copy(job->user, sizeof(job->user), run->user);
    text_copy(job->name, sizeof(job->name), run->name);
    job->limit_s = job->attempt_limit_s = INFINITY;
    *ret = r;
    return 0;
}

static int enter(struct engine *e, const struct engine_submit *req,
                 const struct engine_run *run, uint64_t *ret_id,
                 struct error *err)
{
    struct detail d = DETAIL_INIT;
    struct engine_read *read = NULL;
    struct job_record *rec = NULL;
    size_t n = e->n_events;

    if (make(run, &read, err) < 0)
        return -1;
    int rc = eng_enter(e, req, read, 0, &rec, err);
    engine_read_destroy(read);
    if (rc < 0)
        return -1;
    text_fit(d.holder, sizeof(d.holder), run->holder);
    if (eng_stage(e, rec, EV_OPEN, run->uid, &d, err) < 0) {
        eng_stage_undo(e, n);
        return -1;
    }
    *ret_id = rec->job.id;
    return 0;
}

int engine_run_open(struct engine *e, const struct engine_run *run,
                    uint64_t *ret_id, bool *ret_again, struct error *err)
{
    const struct engine_submit req = {.uid = run->uid,
                                      .user = run->user,
                                      .key = run->key,
                                      .digest = run->digest,
                                      .closed = run->closed};

    if (eng_check_submit(e, &req, 1, ret_id, ret_again, err) < 0)
        return -1;
    if (*ret_again)
        return 0;
    if (!schema_is_name(run->name))
        return error_set(err, ERR_INVAL,
                         "'%.64s' is no name of a job: expected 1..63 letters, "
                         "digits, '.', '_' and '-'",
                         run->name);
    return enter(e, &req, run, ret_id, err);
}

/* ---- while it runs --------------------------------------------------------
 */
static struct job_record *run_of(const struct engine *e, uint64_t id,
                                 int64_t uid, struct error *err)
{
    struct job_record *rec = eng_find(e, id);

    if (!rec)
        (void)error_set(err, ERR_NOTFOUND, "no job %" PRIu64, id);
    else if (rec->job.uid != uid)
        (void)error_set(err, ERR_DENIED, "job %" PRIu64 " is another user's",
                        id);
    else if (!rec->job.is_run)
        (void)eng_refuse(&rec->job, err, ERR_STATE,
                         "is of kind %s: only a run takes values from outside",
                         rec->job.kind);
    else
        return rec;
    return NULL;
}

static int check_open(const struct job_record *rec, struct error *err)
{
    const struct job *job = &rec->job;
    const char *reason = job->reason;

    if (job->state == JOB_RUNNING && !job->cancel_asked)
        return 0;
    return eng_refuse(
        job, err, ERR_STATE, "has ended: %s%s%s",
        job_state_name(job->cancel_asked ? JOB_CANCELLED : job->state),
        reason[0] ? ", " : "", reason);
}

int engine_run_check(const struct engine *e, uint64_t id, int64_t uid,
                     struct error *err)
{
    const struct job_record *rec = run_of(e, id, uid, err);

    return rec ? check_open(rec, err) : -1;
}

static void take_figures(struct job *job, const struct engine_beat *beat)
{
    if (beat->iteration > job->iteration)
        job->iteration = beat->iteration;
    if (beat->iterations_total > 0)
        job->iterations_total = beat->iterations_total;
    if (beat->epoch > 0)
        job->epoch = beat->epoch;
    if (beat->epochs_total > 0)
        job->epochs_total = beat->epochs_total;
    if (!isnan(beat->loss))
        job->loss = beat->loss;
    if (!isnan(beat->t_iter))
        job->t_iter = beat->t_iter;
    if (!isnan(beat->eval_loss))
        job->eval_loss = beat->eval_loss;
    if (!isnan(beat->eval_accuracy))
        job->eval_accuracy = beat->eval_accuracy;
}

/* A program that reports no step time has the mean of what it has done since
 * the daemon first heard of an iteration. */
static void measure(struct engine *e, struct job_record *rec)
{
    struct job *job = &rec->job;

    if (job->iteration < 1)
        return;
    if (rec->pace_of != job->attempt || job->iteration < rec->pace_iteration) {
        rec->pace_of = job->attempt;
        rec->pace_iteration = job->iteration;
        rec->pace_s = eng_now(e);
    }
    int64_t n = job->iteration - rec->pace_iteration;
    if (n > 0)
        job->t_iter = (eng_now(e) - rec->pace_s) / (double)n;
}

void engine_run_beat(struct engine *e, uint64_t id,
                     const struct engine_beat *beat)
{
    struct job_record *rec = eng_find(e, id);

    if (!rec || !rec->job.is_run || rec->job.state != JOB_RUNNING)
        return;
    rec->job.beat_s = eng_now(e);
    rec->spoke_s = eng_wall(e);
    take_figures(&rec->job, beat);
    if (isnan(beat->t_iter) && beat->iteration > 0)
        measure(e, rec);
}

/* ---- the end --------------------------------------------------------------
 */
int engine_run_finish(struct engine *e, uint64_t id, int64_t uid,
                      int32_t exit_code, const char *why, struct error *err)
{
    struct detail d = DETAIL_INIT;
    struct job_record *rec = run_of(e, id, uid, err);

    if (!rec)
        return -1;
    if (exit_code < 0 || exit_code > EXIT_CODE_MAX)
        return error_set(err, ERR_INVAL, "exit code %" PRId32 " is not 0..%d",
                         exit_code, EXIT_CODE_MAX);
    bool is_same = rec->job.state == (exit_code ? JOB_FAILED : JOB_COMPLETED) &&
                   rec->job.exit_code == exit_code;
    if (is_same)
        return 0;
    if (check_open(rec, err) < 0)
        return -1;
    d.exit_code = exit_code;
    if (exit_code != 0 && !(why && why[0]))
        (void)snprintf(d.why, sizeof(d.why),
                       "its program ended with exit code %" PRId32, exit_code);
    else
        text_fit(d.why, sizeof(d.why), why ? why : "");
    return eng_stage(e, rec, exit_code ? EV_FAIL : EV_FINISH, -1, &d, err);
}

static double silent_at(const struct engine *e, const struct job_record *rec)
{
    return rec->job.beat_s + eng_or_never(e->parts.conf->run_lost_s);
}

double eng_runs_next_s(const struct engine *e)
{
    const struct record_list *l = &e->lists.runs;
    double t = INFINITY;

    for (size_t i = 0; i < l->n; i++)
        t = fmin(t, l->at[i]->job.cancel_asked ? -(double)INFINITY
                                               : silent_at(e, l->at[i]));
    return t;
}

static int end_one(struct engine *e, struct job_record *rec)
{
    const struct job *job = &rec->job;
    struct detail d = DETAIL_INIT;
    bool is_own = job->cancel_uid == job->uid;

    if (job->cancel_asked) {
        d.exit_code = is_own ? EXIT_CANCELLED : EXIT_CANCELLED_BY_ADMIN;
        text_copy(d.why, sizeof(d.why), job->reason);
        return eng_stage(e, rec, EV_KILLED, -1, &d, NULL);
    }
    if (silent_at(e, rec) > eng_now(e))
        return 0;
    d.exit_code = EXIT_NEVER_RAN;
    (void)snprintf(d.why, sizeof(d.why),
                   "nothing was heard of its program for %.0f s "
                   "(watchdog.run_lost_after)",
                   eng_now(e) - job->beat_s);
    return eng_stage(e, rec, EV_FAIL, -1, &d, NULL);
}

/* Out of memory: the next step tries again. */
void eng_runs_end(struct engine *e)
{
    const struct record_list *l = &e->lists.runs;

    /* One that ends leaves the list. */
    for (size_t i = l->n; i-- > 0;)
        if (end_one(e, l->at[i]) < 0)
            e->retry_at_s = eng_now(e) + 1;
}

int eng_run_refuse(const struct job *job, const char *verb, struct error *err)
{
    if (!job->is_run)
        return 0;
    return eng_refuse(job, err, ERR_STATE,
                      "is a run: its program is not started by mgpu and has no "
                      "GPUs, so it cannot be %s. mgpu-cancel ends it",
                      verb);
}
