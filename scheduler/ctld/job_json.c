/* job_json.c - JOB of wire.h, from the engine's fold. */
#include <math.h>
#include <stdio.h>

#include "jobs/wire.h"
#include "scheduler/ctld/filter.h"
#include "scheduler/ctld/private.h"

json_t *ctld_num(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *ctld_text(const char *s)
{
    if (!s || !*s)
        return json_null();
    json_t *o = json_string(s);
    return o ? o : json_string("(not UTF-8)");
}

json_t *ctld_time(double wall_s)
{
    char text[WIRE_TIME_CAP];
    wire_time(wall_s, text);
    return ctld_text(text);
}

/* Negative means unknown. */
static json_t *count(int64_t n)
{
    return n < 0 ? json_null() : json_integer(n);
}

/* Progress counts from 1: 0 means that nothing was reported yet. */
static json_t *progress(int64_t n)
{
    return n > 0 ? json_integer(n) : json_null();
}

static double elapsed(const struct job *j, double wall_s)
{
    if (!isfinite(j->start_s))
        return NAN;
    /* Somebody may have set the clock back meanwhile. */
    return fmax(0, (isfinite(j->end_s) ? j->end_s : wall_s) - j->start_s);
}

static double eta(const struct job *j)
{
    if (!job_state_is_live(j->state) || j->iteration <= 0 ||
        j->iterations_total <= 0 || !(j->t_iter > 0))
        return NAN;
    return (double)(j->iterations_total - j->iteration) * j->t_iter;
}

static int add_progress(json_t *o, const struct job *j)
{
    return json_object_update_missing_new(
        o, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "iteration",
                     progress(j->iteration), "iterations_total",
                     progress(j->iterations_total), "epoch", progress(j->epoch),
                     "epochs_total", progress(j->epochs_total), "loss",
                     ctld_num(j->loss), "t_iter_s", ctld_num(j->t_iter),
                     "eta_s", ctld_num(eta(j)), "eval_accuracy",
                     ctld_num(j->eval_accuracy)));
}

static int add_times(json_t *o, const struct ctld *c, const struct job *j)
{
    const struct clock *clock = c->parts.clock;
    double wall_s = clock->wall_s(clock);
    double ran_s = elapsed(j, wall_s);
    bool live = job_state_is_live(j->state);
    double start_s = j->state == JOB_QUEUED
                         ? wall_s + j->start_estimate_s - clock->now_s(clock)
                         : NAN;
    return json_object_update_missing_new(
        o, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "submitted",
                     ctld_time(j->submit_s), "started", ctld_time(j->start_s),
                     "ended", ctld_time(j->end_s), "elapsed_s", ctld_num(ran_s),
                     "limit_s", ctld_num(j->limit_s), "left_s",
                     ctld_num(live ? j->limit_s - ran_s : NAN),
                     "start_estimate", ctld_time(start_s)));
}

void ctld_display_id(const struct job *j, char *out, size_t cap)
{
    if (j->sweep > 0)
        (void)snprintf(out, cap, "%llu_%d", (unsigned long long)j->sweep,
                       j->task);
    else
        (void)snprintf(out, cap, "%llu", (unsigned long long)j->id);
}

/* How a job of a sweep is called, "123_4", and what makes it differ. */
static int add_sweep(json_t *o, const struct job *j, bool all)
{
    char name[48];
    json_t *vary = all && j->vary ? json_loads(j->vary, 0, NULL) : NULL;
    ctld_display_id(j, name, sizeof(name));
    return json_object_update_missing_new(
        o, json_pack("{s:s, s:o, s:o, s:o}", "display_id", name, "sweep",
                     j->sweep > 0 ? json_integer((json_int_t)j->sweep)
                                  : json_null(),
                     "task", j->sweep > 0 ? json_integer(j->task) : json_null(),
                     "vary", vary ? vary : json_null()));
}

/* What it is charged to and where it goes, be it by default. */
static int add_where(json_t *o, const struct ctld *c, const struct job *j,
                     bool all)
{
    const struct alloc_where w = engine_where(c->engine, j);
    return json_object_update_missing_new(
        o, json_pack("{s:o, s:o, s:o}", "account", ctld_text(w.account),
                     "partition", ctld_text(w.partition), "labels",
                     all ? ctld_labels(j) : json_null()));
}

json_t *ctld_sweep_json(const struct ctld *c, const struct job *job)
{
    int count[JOB_STATE_N] = {0};
    if (job->sweep == 0 || job->sweep != job->id)
        return json_null();
    for (int32_t i = 0; i < job->n_tasks; i++) {
        const struct job *j = engine_job(c->engine, job->sweep + (uint64_t)i);
        if (j)
            j = engine_settled(c->engine, j);
        count[j ? j->state : JOB_NEW]++;
    }
    json_t *states = json_object();
    for (int s = 0; states && s < JOB_STATE_N; s++)
        if (count[s] > 0)
            (void)json_object_set_new(states, job_state_name((enum job_state)s),
                                      json_integer(count[s]));
    return json_pack("{s:I, s:i, s:i, s:b, s:o}", "id", (json_int_t)job->sweep,
                     "n_tasks", job->n_tasks, "max_parallel", job->max_parallel,
                     "stop_on_fail", job->stop_on_fail, "states", states);
}

json_t *ctld_job_json(const struct ctld *c, const struct job *j, bool all)
{
    /* A stranger's view of how far it has come. */
    static const struct job silent = {
        .loss = NAN, .t_iter = NAN, .eval_accuracy = NAN};
    const char *reason = all || !j->reported ? j->reason : "";
    int32_t position = engine_position(c->engine, j->id);
    json_t *o = json_pack(
        "{s:I, s:o, s:o, s:I, s:s, s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:o, "
        "s:o, s:o, s:o, s:b, s:o}",
        "id", (json_int_t)j->id, "name", ctld_text(j->name), "user",
        ctld_text(j->user), "uid", (json_int_t)j->uid, "kind", j->kind, "state",
        job_state_name(j->state), "reason", ctld_text(reason), "priority",
        j->priority, "gpus_min", j->gpus_min, "gpus_max", j->gpus_max, "gpus",
        j->gpus, "attempt", j->attempt, "exit_code", count(j->exit_code),
        "place", ctld_text(j->place), "native_id",
        ctld_text(j->native_id[0] ? j->native_id : j->pending_id), "position",
        position > 0 ? json_integer(position) : json_null(), "cancel_asked",
        j->cancel_asked, "held_by",
        ctld_text(j->state == JOB_HELD ? job_held_name(j->held_by) : NULL));
    if (o && (add_sweep(o, j, all) < 0 || add_times(o, c, j) < 0 ||
              add_where(o, c, j, all) < 0 ||
              add_progress(o, all ? j : &silent) < 0)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

void ctld_slots(const struct ctld *c, int64_t *ret_total, int64_t *ret_free)
{
    size_t n = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    *ret_total = *ret_free = 0;
    for (size_t i = 0; i < n; i++) {
        if (!nodes[i].is_up)
            continue;
        *ret_total += nodes[i].gpus_total;
        *ret_free += nodes[i].gpus_free;
    }
}
