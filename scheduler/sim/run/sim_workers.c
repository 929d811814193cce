/* sim_workers.c - the workers of a simulation.
 *
 * A worker claims its lease when its attempt has its GPUs, begins to work after
 * the cost of a start, sends a heartbeat in each round, reports, and exits. A
 * worker that is told to stop has saved its work when it exits. A worker whose
 * node fails loses its work since the last round. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/engine/teach.h"
#include "scheduler/sim/run/sim_world.h"

static const double WORST_NOISE = 8; /* standard deviations */

double sim_restart_s(const struct sim_conf *conf, const struct sim_job *job,
                     int32_t attempt)
{
    const struct speed *s = conf->speed;
    double own_s =
        s->ops->restart_s ? s->ops->restart_s(s, job, attempt) : (double)NAN;

    if (own_s <= 0)
        return 0;
    return sim_class_value(&conf->restarts, job->class,
                           isnan(own_s) ? conf->restart_s : own_s);
}

/* The attempt's place in the terms of the speed model. */
static struct speed_place place_of(const struct sim_state *s)
{
    return (struct speed_place){s->gpu_type, s->nodes, s->per_node};
}

static const struct sim_job *job_of(const struct sim_world *w, int32_t i)
{
    return &w->conf->trace->jobs[i];
}

/* The work done by now. */
static double progress(const struct sim_world *w, int32_t i)
{
    const struct sim_state *s = &w->jobs[i];
    struct speed_place p = place_of(s);
    double t_s = (sim_now(w) - s->from_s) / s->factor;

    return t_s > 0 ? speed_after(w->conf->speed, job_of(w, i), &p, s->done, t_s)
                   : s->done;
}

/* ---- events ---------------------------------------------------------------
 */
static void granted(struct sim_world *w, int32_t i, const struct job *job)
{
    struct sim_state *s = &w->jobs[i];
    const struct sim_conf *c = w->conf;
    double z = sim_normal(c->seed, (uint64_t)i + 1, (uint64_t)job->attempt);

    if (s->runs) { /* granted once more, or a second attempt */
        if (s->attempt != job->attempt)
            sim_account_broken(w, "two attempts at a time", i);
        return;
    }
    s->runs = true;
    s->is_claimed = s->is_stopping = false;
    s->attempt = job->attempt;
    sim_check_restart(w, i, job);
    w->n_grants++;
    s->grant_s = sim_now(w);
    s->began_s = s->from_s = INFINITY;
    s->saved = s->done;
    w->out->results[i].restarts += job->attempt > 1;
    w->out->results[i].resizes +=
        job->attempt > 1 && job->gpus != s->nodes * s->per_node;
    s->nodes = job->nodes;
    s->per_node = job->nodes > 0 ? job->gpus / job->nodes : 0;
    z = fmin(fmax(z, -WORST_NOISE), WORST_NOISE);
    s->factor = sim_class_value(&c->slowdowns, job_of(w, i)->class, 1) *
                exp(c->speed_noise * z);
    s->live = (int32_t)w->n_live;
    w->live[w->n_live++] = i;
    w->granted[w->n_granted++] = i;
    sim_book(w, i, job);
}

/* Its ranks were told to stop: it works no more. */
static void stopping(struct sim_world *w, int32_t i)
{
    struct sim_state *s = &w->jobs[i];

    if (!s->runs || s->is_stopping)
        return;
    s->done = progress(w, i);
    s->from_s = INFINITY;
    s->is_stopping = true;
}

static void stopped(struct sim_world *w, int32_t i, const struct job *job)
{
    struct sim_state *s = &w->jobs[i];

    if (!s->runs)
        return;
    stopping(w, i);
    sim_unbook(w, i, job);
    s->runs = false;
    if (job_of(w, i)->spec && !job->saves)
        s->done = s->saved = 0;
    w->live[s->live] = w->live[--w->n_live];
    w->jobs[w->live[s->live]].live = s->live;
}

static void over(struct sim_world *w, int32_t i, const struct job *job)
{
    struct sim_state *s = &w->jobs[i];
    struct sim_result *r = &w->out->results[i];

    if (s->is_over)
        return;
    stopped(w, i, job);
    s->is_over = true;
    w->n_over++;
    r->state = job->state;
    r->is_completed = job->state == JOB_COMPLETED;
    (void)snprintf(r->reason, sizeof(r->reason), "%s", job->reason);
    sim_account_end(w, i, job);
}

void sim_on_event(void *arg, const struct store_event *event,
                  const struct job *job)
{
    struct sim_world *w = arg;
    int32_t i = w->of_id[event->job];

    w->out->n_log++;
    sim_account(w);
    switch (event->ev) {
    case EV_GRANT: /* it may have ended in the same batch, with no time between
                    */
        if (event->attempt == job->attempt && job->place[0])
            granted(w, i, job);
        break;
    case EV_PREEMPT:
        if (event->detail && strstr(event->detail, "chosen by policy")) {
            sim_check_resize(w, i, job);
            sim_check_paid(w, i, job);
        }
        stopping(w, i);
        break;
    case EV_LIMIT:
        stopping(w, i);
        break;
    case EV_REQUEUE:
        stopped(w, i, job);
        break;
    case EV_CANCEL:
        if (job_state_is_final(job->state))
            over(w, i, job);
        else
            stopping(w, i);
        break;
    case EV_FINISH:
    case EV_FAIL:
    case EV_KILLED:
    case EV_EXPIRE:
    case EV_LOST:
        over(w, i, job);
        break;
    default:
        break;
    }
}

/* ---- the worker -----------------------------------------------------------
 */
/* The engine learns the time of the iterations since it was last told, as the
 * daemon does from the metrics of a worker. A wrong length is no wrong time. */
static int teach(struct sim_world *w, int32_t i, double done, struct error *err)
{
    struct sim_state *s = &w->jobs[i];
    const struct sim_job *job = job_of(w, i);
    struct speed_place p = place_of(s);
    double from = s->told, until;
    double unit_s =
        w->conf->speed->ops->unit_s(w->conf->speed, job, &p, from, &until);
    int64_t n = (int64_t)done - (int64_t)from;

    if (n < 1 || isnan(unit_s))
        return 0;
    s->told = done;
    return engine_teach_iterations(w->engine, s->id, s->attempt, (int64_t)from,
                                   n, unit_s * s->factor, err);
}

static int beat(struct sim_world *w, int32_t i, struct error *err)
{
    struct sim_state *s = &w->jobs[i];
    const struct sim_job *job = job_of(w, i);
    struct speed_place p = place_of(s);
    double until, done = progress(w, i);
    double unit_s =
        w->conf->speed->ops->unit_s(w->conf->speed, job, &p, done, &until);
    double part = job->work > 0 ? done / job->work : 1;
    /* A wrong length is reported from the beginning on. */
    struct engine_beat b = {.iteration = 1 + (int64_t)(part * s->reported),
                            .iterations_total = 1 + (int64_t)s->reported,
                            .loss = NAN,
                            .eval_loss = NAN,
                            .eval_accuracy = NAN,
                            .t_iter = unit_s * s->factor * job->work /
                                      fmax(s->reported, 1),
                            .work = 1 + (int64_t)(part * s->reported)};

    if (w->conf->speed->ops->beats && teach(w, i, done, err) < 0)
        return -1;
    if (!w->conf->speed->ops->beats)
        b = (struct engine_beat){.iteration = 1, .loss = NAN, .work = 1};
    s->saved = s->done = done;
    s->from_s = sim_now(w);
    return engine_beat(w->engine, s->id, s->attempt, &b, err);
}

/* An attempt that is being ended is fenced: nobody has to know. */
static int claim(struct sim_world *w, int32_t i, struct error *err)
{
    struct sim_state *s = &w->jobs[i];
    const struct job *job = engine_job(w->engine, s->id);
    char token[ENGINE_SECRET_CAP];
    struct error why = ERROR_INIT;

    if (!s->runs || s->is_stopping || !job)
        return 0;
    if (sim_secret(NULL, SECRET_TOKEN, s->id, s->attempt, token, err) < 0)
        return -1;
    if (engine_claim(w->engine, s->id, s->attempt, token, "sim 1 1",
                     job->native_id, &why) < 0)
        return why.code == ERR_FENCED || why.code == ERR_UNAVAIL
                   ? 0
                   : error_set(err, why.code, "claim of job %" PRIu64 ": %s",
                               s->id, why.msg);
    double cost_s = sim_restart_s(w->conf, job_of(w, i), s->attempt);
    return cost_s > 0 ? sim_timer_add(w, sim_now(w) + cost_s, DUE_FIRST_BEAT, i,
                                      s->attempt, err)
                      : sim_first_beat(w, i, err);
}

int sim_claim(struct sim_world *w, struct error *err)
{
    size_t n = w->n_granted;

    w->n_granted = 0;
    for (size_t k = 0; k < n; k++)
        if (claim(w, w->granted[k], err) < 0)
            return -1;
    return 0;
}

/* A program that cannot run on what it got. */
static int refuse_size(struct sim_world *w, int32_t i, struct error *err)
{
    struct sim_state *s = &w->jobs[i];
    const struct alloc_fake_outcome how = {.exit_code = 1};
    char why[96];

    (void)snprintf(why, sizeof(why),
                   "the tables have no speed on %" PRId32 "x%" PRId32 " GPUs",
                   s->nodes, s->per_node);
    s->is_stopping = true;
    if (engine_report(w->engine, s->id, s->attempt, 1, why, NULL, NULL, err) <
        0)
        return -1;
    return alloc_fake_end(w->cluster, s->id, s->attempt, &how, err);
}

int sim_first_beat(struct sim_world *w, int32_t i, struct error *err)
{
    struct sim_state *s = &w->jobs[i];
    const struct sim_job *job = job_of(w, i);
    struct speed_place p = place_of(s);
    struct sim_result *r = &w->out->results[i];
    struct error why = ERROR_INIT;

    if (!s->runs || s->is_stopping)
        return 0;
    double run_s = speed_time(w->conf->speed, job, &p, s->done, job->work);
    s->began_s = s->from_s = sim_now(w);
    s->told = s->done;
    s->is_claimed = true;
    double start_gpu_s =
        (s->from_s - s->grant_s) * (double)s->nodes * s->per_node;
    r->restarting_gpu_s += start_gpu_s;
    w->out->restarting_gpu_s += start_gpu_s;
    if (w->conf->speed->ops->ran)
        w->conf->speed->ops->ran(w->conf->speed, job, &p);
    if (isnan(run_s))
        return refuse_size(w, i, err);
    if (beat(w, i, &why) < 0 && why.code != ERR_FENCED)
        return error_set(err, why.code, "heartbeat of job %" PRIu64 ": %s",
                         s->id, why.msg);
    if (w->conf->speed->ops->beats && isinf(w->round_at_s))
        w->round_at_s = sim_now(w) + w->conf->round_s;
    return sim_timer_add(w, s->from_s + run_s * s->factor, DUE_END, i,
                         s->attempt, err);
}

int sim_end(struct sim_world *w, int32_t i, struct error *err)
{
    struct sim_state *s = &w->jobs[i];
    const struct alloc_fake_outcome how = {.exit_code = 0};
    struct error why = ERROR_INIT;

    if (!s->runs || s->is_stopping)
        return 0;
    s->done = job_of(w, i)->work;
    s->from_s = INFINITY;
    s->is_stopping = true;
    if (w->conf->speed->ops->beats && teach(w, i, s->done, err) < 0)
        return -1;
    if (engine_report(w->engine, s->id, s->attempt, 0, "", NULL, NULL, &why) <
            0 &&
        why.code != ERR_FENCED)
        return error_set(err, why.code, "report of job %" PRIu64 ": %s", s->id,
                         why.msg);
    return alloc_fake_end(w->cluster, s->id, s->attempt, &how, err);
}

int sim_adapt(struct sim_world *w, int32_t i, struct error *err)
{
    const struct speed *speed = w->conf->speed;
    const struct sim_state *s = &w->jobs[i];
    struct throughput_row rows[THROUGHPUT_SIZES];
    size_t n = 0;

    if (!speed->ops->adapts || !speed->ops->adapts(speed) || s->id == 0 ||
        s->is_over)
        return 0;
    const struct throughput *m =
        engine_throughput(w->engine, engine_job(w->engine, s->id));
    for (int32_t k = 0; m && k < m->n; k++) {
        double until;
        struct speed_place p = {"", m->rows[k].nodes, m->rows[k].per_node};
        struct throughput_row row = m->rows[k];
        row.mean_s =
            speed->ops->unit_s(speed, job_of(w, i), &p, s->done, &until);
        if (row.mean_s > 0)
            rows[n++] = row;
    }
    return n > 0 ? engine_teach_job(w->engine, s->id, rows, n, err) : 0;
}

int sim_round(struct sim_world *w, struct error *err)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_submitted; i++)
        if (sim_adapt(w, (int32_t)i, err) < 0)
            return -1;

    for (size_t k = 0; k < w->n_live; k++) {
        struct sim_state *s = &w->jobs[w->live[k]];
        struct error why = ERROR_INIT;
        if (!s->is_claimed || s->is_stopping)
            continue;
        n++;
        if (beat(w, w->live[k], &why) < 0 && why.code != ERR_FENCED)
            return error_set(err, why.code, "heartbeat of job %" PRIu64 ": %s",
                             s->id, why.msg);
    }
    w->round_at_s = n > 0 ? sim_now(w) + w->conf->round_s : (double)INFINITY;
    return 0;
}
