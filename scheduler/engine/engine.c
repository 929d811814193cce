/* engine.c - creation by replay, the step, and read access; see engine.h. */
#include "scheduler/engine/engine.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold.h"
#include "scheduler/engine/events/json_nomem.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/rules/rules.h"
#include "scheduler/engine/store/archive_list.h"
#include "scheduler/engine/store/corrupt_jobs.h"

/* ---- replay --------------------------------------------------------------
 */
/* The first event of a new record. err it cannot be read; ERR_NOMEM */
static int fold_submit(struct engine *e, struct job_record *rec,
                       const struct store_event *ev, struct error *err)
{
    rec->job.uid = ev->uid;
    rec->job.submit_s = ev->at_s;
    if (eng_fold(rec, ev, err) < 0)
        return -1;
    /* The key of a sweep leads to its first task. */
    return rec->job.task == 0 ? eng_add_key(e, rec, err) : 0;
}

static int replay_submit(struct engine *e, const struct store_event *ev,
                         struct error *err)
{
    struct job_record *rec;

    if (ev->job < 1 || eng_find(e, ev->job))
        return error_set(err, ERR_IO, "it submits a job that exists already");
    if (ev->job > e->last_id + ENG_ID_STEP_MAX)
        return error_set(err, ERR_IO, "its job id is out of range");
    if (eng_add_new(e, ev->job, &rec, err) < 0)
        return -1;
    return fold_submit(e, rec, ev, err);
}

static int replay(void *arg, const struct store_event *ev, struct error *err)
{
    struct engine *e = arg;
    struct job_record *rec = eng_find(e, ev->job);
    struct error why = ERROR_INIT;
    int rc;

    e->last_seq = ev->seq;
    if (rec && rec->is_corrupt)
        rc = -1;
    else if (ev->ev == EV_N)
        rc = error_set(&why, ERR_IO, "its kind is unknown");
    else if (ev->ev == EV_SUBMIT)
        rc = replay_submit(e, ev, &why);
    else if (!rec)
        rc = error_set(&why, ERR_IO, "its submit is missing");
    else
        rc = eng_fold(rec, ev, &why);
    if (rc == 0 && rec) {
        eng_costs_note(e, rec, ev);
        eng_refusals_note(e, rec, ev);
        eng_models_note(e, rec, ev);
        eng_fair_note(e, rec, ev);
    }
    if (rc == 0 && e->parts.replayed && (rec = eng_find(e, ev->job)))
        e->parts.replayed(e->parts.replayed_arg, ev, &rec->job);
    if (rc == 0)
        return 0;
    if (why.code == ERR_NOMEM)
        return error_set(err, ERR_NOMEM, "%s", why.msg);
    return eng_damaged(e, ev, &why, err);
}

/* A backoff in progress continues, also for a job that is held meanwhile. A
 * clock that jumped does not make it longer. */
static void resume_wait(struct job_record *rec, double now_s, double wall_s)
{
    double wait_s = rec->job.requeue_wait_s;
    double left_s = rec->job.requeue_s + wait_s - wall_s;
    bool waits = rec->job.state == JOB_QUEUED || rec->job.state == JOB_HELD;

    if (waits && wait_s > 0 && left_s > 0)
        rec->not_before_s = now_s + fmin(left_s, wait_s);
}

/* It is unknown whether the allocator ever got the request. The job may be held
 * meanwhile. For a cancelled job the engine looks for the attempt only for one
 * day after its end: a day later, some other start of the daemon has done
 * so. */
static void resume_drop(struct job_record *rec, double wall_s)
{
    static const double day_s = 86400;

    if (!rec->is_taken_back || job_state_is_live(rec->job.state) ||
        (job_state_is_final(rec->job.state) && wall_s - rec->job.end_s > day_s))
        return;
    rec->dropped = rec->job.attempt;
    rec->is_resumed = rec->is_unasked = true;
}

/* The time in which the ranks were suspended does not count as run time. */
static void resume_clocks(struct job_record *rec, double now_s, double wall_s)
{
    const struct job *job = &rec->job;

    rec->stalled_s = rec->job.beat_s = now_s;
    rec->granted_s = job->native_id[0] ? now_s : (double)NAN;
    if (!isnan(job->start_s))
        rec->start_now_s =
            now_s - fmax(0, wall_s - job->start_s - job->stopped_for_s);
    rec->is_suspended = !isnan(job->stopped_s);
    if (rec->is_suspended)
        rec->suspended_s = now_s - fmax(0, wall_s - job->stopped_s);
    rec->is_by_wall = job->holder[0] != '\0';
    rec->is_from_claim = job->native_id[0] != '\0' && !rec->is_by_wall;
}

/* Requests every attempt again that may still run, and sets every clock from
 * the stored times. */
static int resume(struct engine *e, struct error *err)
{
    double now_s = eng_now(e), wall_s = eng_wall(e);

    e->listens_s = wall_s;
    for (size_t i = 0; i < e->n_active; i++) {
        struct job_record *rec = e->active[i];
        eng_resume_damaged(rec);
        resume_drop(rec, wall_s);
        if (rec->job.preempted_for > 0)
            rec->preempted_s = now_s - fmax(0, wall_s - rec->job.preempt_s);
    }
    eng_compact_all(e);
    if (eng_lists_build(e, err) < 0)
        return -1;
    e->wants_depends = e->wants_stop = true;
    for (size_t i = 0; i < e->n_active; i++) {
        struct job_record *rec = e->active[i];
        resume_wait(rec, now_s, wall_s);
        eng_begin_one(e, rec);
        eng_lists_update(e, rec);
        if (!job_state_is_live(rec->job.state))
            continue;
        if (rec->job.is_run) { /* its program gets its time to be heard */
            rec->job.beat_s = now_s;
            continue;
        }
        rec->ask_at_s = rec->release_at_s = now_s;
        rec->end_asked_s = eng_is_ending(rec) ? now_s : (double)NAN;
        rec->asked_before = rec->is_resumed = rec->is_unasked = true;
        rec->tell_at_s = rec->job.holder[0] ? now_s : (double)INFINITY;
        resume_clocks(rec, now_s, wall_s);
    }
    return 0;
}

/* Loads the counts of the archived jobs and replays the events of all
 * others. */
static int load(struct engine *e, struct error *err)
{
    struct store *s = e->parts.store;
    struct store_past past;

    if (s->ops->past(s, &past, err) < 0)
        return -1;
    e->last_id = past.last_job;
    e->has_archive = past.last_job > 0;
    memcpy(e->n_ended, past.n, sizeof(e->n_ended));
    if (s->ops->load(s, replay, e, err) < 0)
        return -1;
    if (past.last_seq > e->last_seq)
        e->last_seq = past.last_seq;
    return 0;
}

int engine_create(const struct engine_parts *parts, struct engine **ret,
                  struct error *err)
{
    struct engine *e = calloc(1, sizeof(*e));
    if (!e)
        return error_set(err, ERR_NOMEM, "out of memory");
    e->parts = *parts;
    e->policy = parts->policy;
    e->retry_at_s = e->look_at_s = e->begin_at_s = INFINITY;
    e->wants_plan = true;
    nomem_watch();
    e->leave_at_s = e->plan_from_s = -INFINITY;
    if (load(e, err) < 0 || resume(e, err) < 0) {
        engine_destroy(e);
        return -1;
    }
    eng_buffers_reserve(e);
    /* A failure is harmless: the first plan asks again. */
    (void)eng_inventory(e, NULL);
    *ret = e;
    return 0;
}

void engine_destroy(struct engine *e)
{
    if (!e)
        return;
    eng_commit_clear(e);
    eng_buffers_clear(&e->buffers);
    free(e->inbox.notes);
    free(e->inbox.handled);
    free(e->nodes);
    free(e->classes.of);
    free(e->classes.by_name);
    eng_models_clear(&e->models);
    fair_shares_clear(&e->fair);
    free(e->spent);
    eng_index_clear(e);
    free(e);
}

/* ---- the step ------------------------------------------------------------
 */
/* A failed commit has undone everything; its notes are still in the inbox. */
static int fail(struct engine *e)
{
    e->phase = PHASE_OVER;
    e->retry_at_s = eng_now(e) + 1;
    e->wants_plan = true;
    return -1;
}

/* A plan of a long queue takes as long as several commits, and each submit
 * requests one. After a plan that took longer than PLAN_SHORT_S, the next one
 * waits three times as long, so that plans take a quarter of the time. That
 * next plan covers all requests made meanwhile. A delay of at most
 * PLAN_REST_MAX_S is too short for a user to notice. */
static const double PLAN_SHORT_S = 0.005, PLAN_REST_MAX_S = 0.25;

static double rest_after(double took_s)
{
    return took_s < PLAN_SHORT_S ? 0 : fmin(3 * took_s, PLAN_REST_MAX_S);
}

/* The first batch is durable. The plan also covers the requests made meanwhile;
 * they go into the same batch. */
static void plan(struct engine *e)
{
    eng_depends(e);
    eng_begins(e);
    double began_s = eng_now(e);
    if (!e->wants_plan || began_s < e->plan_from_s)
        return;
    (void)eng_plan(e, &e->later);
    double ended_s = eng_now(e);
    e->plan_from_s = ended_s + rest_after(ended_s - began_s);
}

/* Called after a commit: the INTENTs are durable before the allocator is
 * asked. */
static void next(struct engine *e)
{
    if (e->phase == PHASE_EVENTS) {
        e->phase = PHASE_INTENTS;
        plan(e);
    } else {
        e->phase = PHASE_OVER;
        eng_dispatch(e);
    }
}

/* Continues with the next batch of the step, or ends the step. */
static int go_on(struct engine *e, struct store_batch **ret, struct error *err)
{
    while (e->phase != PHASE_OVER) {
        eng_leave(e);
        if (e->n_events > 0 || e->n_leaving > 0) {
            if (eng_commit_send(e, err) < 0)
                return fail(e);
            *ret = &e->batch.rows;
            return 0;
        }
        eng_commit_land(e);
        next(e);
    }
    return e->later.code == ERR_NONE
               ? 0
               : error_set(err, e->later.code, "%s", e->later.msg);
}

int engine_step_begin(struct engine *e, struct store_batch **ret,
                      struct error *err)
{
    *ret = NULL;
    e->phase = PHASE_EVENTS;
    e->later = (struct error)ERROR_INIT;
    if (e->retry_at_s <= eng_now(e)) {
        e->retry_at_s = INFINITY;
        e->wants_plan = true;
    }
    if (e->look_at_s <= eng_now(e))
        e->wants_plan = true;
    if (eng_notes_poll(e, &e->later) < 0) {
        (void)error_wrap(&e->later, "allocator");
        e->retry_at_s = eng_now(e) + 1;
    }
    eng_notes_take(e);
    eng_timers(e);
    eng_runs_end(e);
    if (eng_stop_sweeps(e, &e->later) < 0)
        e->retry_at_s = eng_now(e) + 1;
    eng_depends(e);
    eng_begins(e);
    return go_on(e, ret, err);
}

int engine_step_end(struct engine *e, const struct error *why,
                    struct store_batch **ret, struct error *err)
{
    assert(e->batch.is_sent);
    *ret = NULL;
    if (why) {
        eng_commit_roll_back(e);
        (void)fail(e);
        return error_set(err, why->code, "%s", why->msg);
    }
    eng_commit_land(e);
    next(e);
    return go_on(e, ret, err);
}

int engine_step(struct engine *e, struct error *err)
{
    struct store *s = e->parts.store;
    struct store_batch *batch;

    int rc = engine_step_begin(e, &batch, err);
    while (rc == 0 && batch) {
        struct error why = ERROR_INIT;
        bool is_stored = s->ops->append(s, batch, &why) == 0;
        rc = engine_step_end(e, is_stored ? NULL : &why, &batch, err);
    }
    return rc;
}

double engine_next_s(const struct engine *e)
{
    if (e->batch.is_sent)
        return INFINITY; /* the end of the step comes next */
    double now_s = eng_now(e), plan_s = fmax(now_s, e->plan_from_s);
    bool is_wanted = e->wants_plan && isinf(e->retry_at_s);
    if (e->n_events > 0 || (is_wanted && plan_s <= now_s))
        return now_s;
    double t = is_wanted ? plan_s : fmax(e->look_at_s, e->plan_from_s);
    t = fmin(t, fmin(e->retry_at_s, eng_leave_s(e)));
    t = fmin(t, fmin(fmax(e->begin_at_s, now_s), eng_later_s(e)));
    t = fmin(t, fmax(eng_runs_next_s(e), now_s));
    for (size_t i = 0; i < e->lists.moving.n; i++)
        t = fmin(t, eng_timers_next(e, e->lists.moving.at[i]));
    return t;
}

uint64_t engine_staged(const struct engine *e)
{
    return e->staged;
}

uint64_t engine_durable(const struct engine *e)
{
    return e->durable;
}

uint64_t engine_rolled_back(const struct engine *e)
{
    return e->rolled_back;
}

uint64_t engine_last_seq(const struct engine *e)
{
    return e->last_seq;
}

uint64_t engine_last_id(const struct engine *e)
{
    return e->last_id;
}

void engine_skip_to(struct engine *e, uint64_t id)
{
    if (id > e->last_id)
        e->last_id = id - 1;
}

size_t engine_corrupt(const struct engine *e, size_t *ret_stray)
{
    *ret_stray = e->n_stray;
    return e->n_corrupt;
}

bool engine_is_durable(const struct engine *e, const struct job *job)
{
    return ((const struct job_record *)job)->ticket <= e->durable;
}

static const struct saved *saved_of(const struct saved *saved, size_t n,
                                    const struct job_record *rec)
{
    for (size_t i = 0; i < n; i++)
        if (saved[i].record == rec)
            return &saved[i];
    return NULL;
}

const struct job *engine_settled(const struct engine *e, const struct job *job)
{
    const struct job_record *rec = (const struct job_record *)job;
    const struct saved *s;

    if (rec->changed <= e->durable)
        return job;
    if (rec->ticket > e->durable)
        return NULL;
    s = saved_of(e->batch.saved, e->batch.n_saved, rec);
    if (!s)
        s = saved_of(e->saved, e->n_saved, rec);
    assert(s);
    return &s->copy->job;
}

void engine_drain(struct engine *e, const char *why)
{
    e->is_draining = why != NULL;
    int n =
        snprintf(e->pause_reason, sizeof(e->pause_reason),
                 "Paused: nothing new is started%s", why && *why ? ": " : "");
    text_copy(e->pause_reason + n, sizeof(e->pause_reason) - (size_t)n,
              why ? why : "");
    e->wants_plan = true;
}

void engine_drained_changed(struct engine *e, bool is_more)
{
    e->wants_plan = true;
    e->takes_back = e->takes_back || is_more;
}

bool engine_mend(struct engine *e, const char *node)
{
    struct alloc *a = e->parts.alloc;
    bool is_any = a->ops->mend && a->ops->mend(a, node);

    e->wants_plan = e->wants_plan || is_any;
    return is_any;
}

int engine_set_policy(struct engine *e, const struct policy *p,
                      struct error *err)
{
    if (!p)
        return error_set(err, ERR_INVAL, "no such policy");
    e->policy = p;
    e->wants_plan = true;
    return 0;
}

const struct policy *engine_policy(const struct engine *e)
{
    return e->policy;
}

const char *engine_unavailable(const struct engine *e, double *ret_since_s)
{
    if (e->unavailable.code == ERR_NONE)
        return NULL;
    *ret_since_s = e->unavailable_since_s;
    return e->unavailable.msg;
}

uint64_t engine_plans(const struct engine *e)
{
    return e->n_plans;
}

const char *engine_policy_name(const struct engine *e)
{
    return e->policy->name;
}

void engine_on_event(struct engine *e,
                     void (*fn)(void *arg, const struct store_event *event,
                                const struct job *job),
                     void *arg)
{
    e->on_event = fn;
    e->event_arg = arg;
}

void engine_on_wait(struct engine *e,
                    void (*fn)(void *arg, const struct job *job), void *arg)
{
    e->on_wait = fn;
    e->wait_arg = arg;
}

void engine_on_exit(struct engine *e,
                    int (*fn)(void *arg, const struct job *job,
                              struct error *err),
                    void *arg)
{
    e->on_exit = fn;
    e->exit_arg = arg;
}

/* ---- reading -------------------------------------------------------------
 */
const struct job *engine_next_job(const struct engine *e, uint64_t after)
{
    return engine_next_since(e, after, -INFINITY);
}

const struct job *engine_next_since(const struct engine *e, uint64_t after,
                                    double since_s)
{
    const struct job_record *rec = eng_next(e, after, since_s);
    return rec ? &rec->job : NULL;
}

const struct job *engine_next_live(const struct engine *e, uint64_t after)
{
    const struct job_record *rec = eng_next_moving(e, after);

    while (rec && !job_state_is_live(rec->job.state))
        rec = eng_next_moving(e, rec->job.id);
    return rec ? &rec->job : NULL;
}

void engine_count(const struct engine *e, uint64_t ret[JOB_STATE_N])
{
    memcpy(ret, e->n_ended, sizeof(e->n_ended));
    for (size_t s = 0; s < JOB_STATE_N; s++)
        ret[s] += e->lists.n_state[s];
}

const struct alloc_node *engine_node(const struct engine *e, size_t i)
{
    return i < e->n_nodes ? &e->nodes[i] : NULL;
}

const struct alloc_node *engine_nodes(const struct engine *e, size_t *ret_n)
{
    *ret_n = e->n_nodes;
    return e->nodes;
}
