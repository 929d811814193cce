/* run_json.c - the document mgpu.sim/1. */
#include <math.h>

#include "scheduler/sim/output/run_figures.h"

/* JSON has no NAN. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *spread(const struct spread *s)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "avg", real(s->avg), "p50",
                     real(s->p50), "p90", real(s->p90), "p95", real(s->p95),
                     "p99", real(s->p99), "max", real(s->max));
}

/* Adds the energy, if it is known. Takes o. */
static json_t *with_energy(json_t *o, const struct run_figures *f)
{
    if (o && isfinite(f->energy_kwh) &&
        json_object_set_new(o, "energy_kwh", json_real(f->energy_kwh)) < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *one(const struct sim_named *run)
{
    const struct run_figures *f = &run->figures;
    const struct spread *d = &f->decision_ms;

    json_t *o = json_pack(
        "{s:s,s:O,s:I,s:I,s:o,s:o,s:{s:o,s:o,s:o},s:o,s:{s:o,s:o,s:o,s:o},"
        "s:o,s:o,s:o,s:o,s:{s:o,s:o,s:o},s:{s:I,s:o,s:o,s:o},s:I,s:I,s:o,s:o,"
        "s:O}",
        "policy", run->name, "parameters", run->parameters, "jobs",
        (json_int_t)f->jobs, "completed", (json_int_t)f->completed, "jct_s",
        spread(&f->jct_s), "wait_s", spread(&f->wait_s), "slowdown", "avg",
        real(f->slowdown.avg), "p99", real(f->slowdown.p99), "max",
        real(f->slowdown.max), "makespan_s", real(f->makespan_s), "gpu_s",
        "total", real(f->total_gpu_s), "used", real(f->used_gpu_s),
        "restarting", real(f->restarting_gpu_s), "idle_while_queued",
        real(f->idle_queued_gpu_s), "utilisation", real(f->utilisation),
        "gpu_hours_per_job", real(f->gpu_hours_per_job), "restarts_per_job",
        real(f->restarts_per_job), "resizes_per_job", real(f->resizes_per_job),
        "fairness", "worst", real(f->worst_fairness), "share_above_1",
        real(f->share_above_1), "jain", real(f->groups.jain), "decision_ms",
        "n", (json_int_t)f->n_decisions, "p50", real(d->p50), "p99",
        real(d->p99), "max", real(d->max), "steps", (json_int_t)f->steps,
        "events", (json_int_t)f->events, "wall_s", real(f->wall_s), "by_size",
        run_groups_sizes_json(&f->groups), "by_user", f->groups.users);

    return with_energy(o, f);
}

static json_t *past(const struct run_figures *f)
{
    json_t *o = json_pack(
        "{s:I,s:o,s:o,s:o,s:{s:o,s:o},s:o,s:o,s:o,s:O}", "jobs",
        (json_int_t)f->jobs, "jct_s", spread(&f->jct_s), "wait_s",
        spread(&f->wait_s), "makespan_s", real(f->makespan_s), "gpu_s", "total",
        real(f->total_gpu_s), "used", real(f->used_gpu_s), "utilisation",
        real(f->utilisation), "gpu_hours_per_job", real(f->gpu_hours_per_job),
        "by_size", run_groups_sizes_json(&f->groups), "by_user",
        f->groups.users);

    return with_energy(o, f);
}

json_t *run_json(const struct sim_conf *conf,
                 const struct run_figures *recorded,
                 const struct sim_named *runs, size_t n, const char *note)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, one(&runs[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    json_t *o =
        json_pack("{s:s,s:s,s:s,s:I,s:o}", "schema", "mgpu.sim/1", "trace",
                  conf->trace->name, "cluster", conf->cluster->text, "seed",
                  (json_int_t)conf->seed, "runs", list);
    if (o && conf->trace->recorded_s > 0)
        (void)json_object_set_new(o, "recorded_makespan_s",
                                  real(conf->trace->recorded_s));
    if (o && recorded->jobs > 0)
        (void)json_object_set_new(o, "recorded", past(recorded));
    if (o && note[0])
        (void)json_object_set_new(o, "sizes_without_measurement",
                                  json_string(note));
    return o;
}
