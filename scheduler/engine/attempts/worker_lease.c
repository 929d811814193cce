/* worker_lease.c - requests of workers: claim an attempt, send a heartbeat,
 * report its end.
 *
 * The lease is (job, attempt, token), held by the process that claimed it. The
 * engine derives the token anew for each request and stores it nowhere. A
 * worker of an attempt that is over, or that another process holds, is fenced:
 * it must stop. The lease, and not the bookkeeping of the allocator, is what
 * keeps one job from training twice.
 *
 * A worker that is fenced stops for good, so the engine fences none because of
 * a change that may still be undone: while the change is on its way to the
 * disk, the worker is told to ask again. If the attempt is unknown, the engine
 * fences only a worker with a valid token: the daemon issued the token and has
 * forgotten the attempt, so a backup was restored. Any other worker may belong
 * to another daemon.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"

/* Takes the same time whichever digit is wrong. */
static bool same_token(const char *want, const char *got)
{
    char buf[ENGINE_SECRET_CAP] = "";
    unsigned char diff = 0;

    size_t len = strnlen(got, sizeof(buf));
    memcpy(buf, got, len < sizeof(buf) ? len : sizeof(buf) - 1);
    diff |= len >= sizeof(buf);
    diff |= want[0] == '\0';
    for (size_t i = 0; i < sizeof(buf); i++)
        diff |= (unsigned char)(buf[i] ^ want[i]);
    return diff == 0;
}

static int fenced(const struct engine *e, const struct job_record *rec,
                  struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int fenced(const struct engine *e, const struct job_record *rec,
                  struct error *err, const char *fmt, ...)
{
    char why[200];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    if (rec->changed > e->durable)
        return error_set(err, ERR_UNAVAIL, "not stored yet, try again: %s",
                         why);
    return error_set(err, ERR_FENCED, "%s", why);
}

static struct job_record *attempt_of(const struct engine *e, uint64_t id,
                                     int32_t attempt, struct error *err)
{
    struct job_record *rec = eng_find(e, id);

    if (!rec || attempt < 1 || attempt > rec->job.attempt) {
        (void)error_set(err, ERR_NOTFOUND,
                        "no attempt %" PRId32 " of job %" PRIu64, attempt, id);
        return NULL;
    }
    if (attempt < rec->job.attempt || !job_state_is_live(rec->job.state)) {
        (void)fenced(e, rec, err,
                     "attempt %" PRId32 " of job %" PRIu64 " is over", attempt,
                     id);
        return NULL;
    }
    return rec;
}

/* -1: it cannot be checked. */
static int is_token(const struct engine *e, uint64_t id, int32_t attempt,
                    const char *token, struct error *err)
{
    char want[ENGINE_SECRET_CAP] = "";
    if (e->parts.secret_of(e->parts.secret_arg, SECRET_TOKEN, id, attempt, want,
                           err) < 0)
        return -1;
    bool is_same = same_token(want, token);
    explicit_bzero(want, sizeof(want));
    return is_same;
}

static struct job_record *with_token(const struct engine *e, uint64_t id,
                                     int32_t attempt, const char *token,
                                     struct error *err)
{
    struct error why = ERROR_INIT;
    struct job_record *rec = attempt_of(e, id, attempt, &why);
    int is_ours = is_token(e, id, attempt, token, err);
    if (is_ours < 0)
        return NULL;
    if (rec && is_ours)
        return rec;
    if (rec)
        (void)error_set(err, ERR_DENIED, "wrong token for job %" PRIu64, id);
    else if (is_ours && why.code == ERR_NOTFOUND)
        (void)error_set(err, ERR_FENCED,
                        "attempt %" PRId32 " of job %" PRIu64
                        " is unknown: it is over, or it was started after the "
                        "backup that was restored",
                        attempt, id);
    else
        (void)error_set(err, why.code, "%s", why.msg);
    return NULL;
}

int engine_claim(struct engine *e, uint64_t id, int32_t attempt,
                 const char *token, const char *holder, const char *native_id,
                 struct error *err)
{
    struct detail d = DETAIL_INIT;
    struct job_record *rec = with_token(e, id, attempt, token, err);

    if (!rec)
        return -1;
    if (holder[0] == '\0')
        return error_set(err, ERR_INVAL, "a claim names its holder");
    text_copy(d.holder, sizeof(d.holder), holder);
    text_copy(d.native_id, sizeof(d.native_id), native_id);
    if (rec->job.holder[0] != '\0') {
        if (strcmp(rec->job.holder, d.holder) == 0)
            return 0;
        return fenced(e, rec, err, "held by '%s'", rec->job.holder);
    }
    if (rec->job.cancel_asked || rec->job.requeue_asked || rec->give_up)
        return fenced(e, rec, err,
                      "attempt %" PRId32 " of job %" PRIu64 " is being ended",
                      attempt, id);
    d.stopped = rec->is_from_claim ? 1 : -1;
    return eng_stage(e, rec, EV_CLAIM, -1, &d, err);
}

int engine_check_token(const struct engine *e, uint64_t id, int32_t attempt,
                       const char *token, struct error *err)
{
    return with_token(e, id, attempt, token, err) ? 0 : -1;
}

int engine_check_lease(const struct engine *e, uint64_t id, int32_t attempt,
                       const char *token, struct error *err)
{
    const struct job_record *rec = with_token(e, id, attempt, token, err);
    if (!rec)
        return -1;
    if (rec->job.holder[0] == '\0')
        return fenced(e, rec, err,
                      "attempt %" PRId32 " of job %" PRIu64 " was not claimed",
                      attempt, id);
    return 0;
}

/* A command need not report iterations; its first heartbeat counts as the start
 * of its work. */
static bool runs_now(const struct job_record *rec,
                     const struct engine_beat *beat, bool moves)
{
    const struct job *job = &rec->job;
    if (job->state == JOB_STALLED)
        return moves || !rec->is_stuck;
    return job->state == JOB_STARTING &&
           (beat->iteration > 0 || strcmp(job->kind, "command") == 0);
}

/* The wall clock may have been set while the daemon was down: the run time that
 * the worker reports is more reliable. */
static void set_start(struct engine *e, struct job_record *rec, double lease_s)
{
    const struct job *job = &rec->job;
    double before_s = fmax(0, job->claim_s - job->start_s); /* not NAN */

    if (rec->is_by_wall && lease_s > 0)
        rec->start_now_s = eng_now(e) - lease_s - before_s + job->stopped_for_s;
    rec->is_by_wall = false;
}

static void note_pace(struct engine *e, struct job_record *rec,
                      const struct engine_beat *beat)
{
    bool is_known = rec->pace_of == rec->job.attempt &&
                    beat->iteration >= rec->pace_iteration;
    if (beat->iteration <= 0 || is_known)
        return;
    rec->pace_of = rec->job.attempt;
    rec->pace_iteration = beat->iteration;
    rec->pace_s = eng_now(e);
}

/* A value that was not reported is 0, as in the job's events and summaries. */
static struct engine_beat without_negatives(const struct engine_beat *beat)
{
    struct engine_beat b = *beat;

    b.iteration = b.iteration > 0 ? b.iteration : 0;
    b.iterations_total = b.iterations_total > 0 ? b.iterations_total : 0;
    b.epoch = b.epoch > 0 ? b.epoch : 0;
    b.epochs_total = b.epochs_total > 0 ? b.epochs_total : 0;
    return b;
}

/* Say what a resize cost, for people who read the events; fold.c computes the
 * same. */
static void say_cost(const struct engine *e, const struct job_record *rec,
                     struct detail *d)
{
    const struct job *job = &rec->job;
    const struct job_resize *r = &job->resize;

    if (isnan(r->end_asked_s) || isnan(r->ended_s) || !isnan(job->run_s))
        return;
    (void)snprintf(d->why, sizeof(d->why),
                   "resized from %" PRId32 " to %" PRId32
                   " GPUs in %.1f s: checkpoint %.1f, allocator %.1f, start "
                   "%.1f",
                   r->from, job->gpus, eng_wall(e) - r->end_asked_s,
                   r->ended_s - r->end_asked_s, job->start_s - r->ended_s,
                   eng_wall(e) - job->start_s);
}

static int note_failures(struct engine *e, struct job_record *rec,
                         const struct engine_failures *f, struct error *err)
{
    for (int32_t i = rec->job.saves_failed; i < f->n; i++) {
        struct detail d = DETAIL_INIT;
        d.saves_failed = i + 1;
        text_fit(d.why, sizeof(d.why), f->why[i]);
        if (eng_stage(e, rec, EV_SAVE_FAILED, -1, &d, err) < 0)
            return -1;
    }
    return 0;
}

int engine_beat(struct engine *e, uint64_t id, int32_t attempt,
                const struct engine_beat *told, struct error *err)
{
    struct job_record *rec = attempt_of(e, id, attempt, err);
    const struct engine_beat known = without_negatives(told), *beat = &known;
    struct detail d = DETAIL_INIT;

    if (!rec)
        return -1;
    struct job *job = &rec->job;
    rec->is_heard = true;
    rec->spoke_s = eng_wall(e);
    set_start(e, rec, beat->lease_s);
    note_pace(e, rec, beat);
    bool moves = eng_stall_note_progress(rec, beat, eng_now(e));
    job->beat_s = eng_now(e);
    job->iteration = beat->iteration;
    job->iterations_total = beat->iterations_total;
    job->epoch = beat->epoch;
    job->epochs_total = beat->epochs_total;
    job->loss = beat->loss;
    job->t_iter = beat->t_iter;
    job->eval_loss = beat->eval_loss;
    job->eval_accuracy = beat->eval_accuracy;
    job->tokenised = beat->tokenised;
    if (note_failures(e, rec, &beat->failures, err) < 0)
        return -1;
    if (rec->give_up || !runs_now(rec, beat, moves))
        return 0;
    say_cost(e, rec, &d);
    if (eng_refusal_of(e, rec, eng_model_type(e, rec)))
        text_copy(d.gpu_type, sizeof(d.gpu_type), eng_model_type(e, rec));
    if (eng_stage(e, rec, EV_RUN, -1, &d, err) < 0)
        return -1;
    rec->is_stuck = false;
    return 0;
}

void engine_last_figures(struct engine *e, uint64_t id, int32_t attempt,
                         const struct engine_beat *last)
{
    struct job_record *rec = attempt_of(e, id, attempt, NULL);

    if (!rec || last->iteration < rec->job.iteration)
        return;
    struct job *job = &rec->job;
    job->iteration = last->iteration;
    if (last->iterations_total > 0)
        job->iterations_total = last->iterations_total;
    if (last->epoch > 0)
        job->epoch = last->epoch;
    if (last->epochs_total > 0)
        job->epochs_total = last->epochs_total;
    if (isfinite(last->loss))
        job->loss = last->loss;
    if (isfinite(last->t_iter))
        job->t_iter = last->t_iter;
    if (isfinite(last->eval_loss))
        job->eval_loss = last->eval_loss;
    if (isfinite(last->eval_accuracy))
        job->eval_accuracy = last->eval_accuracy;
}

int engine_report(struct engine *e, uint64_t id, int32_t attempt,
                  int32_t exit_code, const char *why, const char *fault_node,
                  const struct engine_report_extra *extra, struct error *err)
{
    struct detail d = DETAIL_INIT;
    struct job_record *rec = attempt_of(e, id, attempt, err);

    if (!rec)
        return -1;
    if (exit_code < 0 || exit_code > 255)
        return error_set(err, ERR_INVAL, "exit code %" PRId32 " is not 0..255",
                         exit_code);
    if (rec->job.reported)
        return 0;
    if (extra && note_failures(e, rec, &extra->failures, err) < 0)
        return -1;
    d.exit_code = exit_code;
    d.cpu_ms = extra ? extra->cpu_ms : -1;
    d.cores_ms = extra ? extra->cores_ms : -1;
    if (extra && extra->gpus_ms > 0) {
        d.gpu_busy_ms = extra->gpu_busy_ms;
        d.gpus_ms = extra->gpus_ms;
    }
    d.stopped = extra ? extra->stopped : -1;
    text_fit(d.why, sizeof(d.why), why ? why : "");
    if (exit_code != 0 && extra && extra->cause && extra->cause[0]) {
        text_copy(d.cause, sizeof(d.cause), extra->cause);
        d.needed_bytes = extra->needed_bytes;
        d.available_bytes = extra->available_bytes;
        text_copy(d.gpu_type, sizeof(d.gpu_type), eng_model_type(e, rec));
    }
    if (exit_code != 0)
        text_copy(d.fault_node, sizeof(d.fault_node),
                  fault_node ? fault_node : "");
    return eng_stage(e, rec, EV_REPORT, -1, &d, err);
}
