/* speed.c - integrate the speed of a job over its work, and the model of a job
 * of known length. */
#include "scheduler/sim/trace/speed.h"

#include <math.h>
#include <stdlib.h>

double speed_time(const struct speed *s, const struct sim_job *job,
                  const struct speed_place *p, double from, double to)
{
    double t_s = 0;

    while (from < to) {
        double until = INFINITY;
        double unit_s = s->ops->unit_s(s, job, p, from, &until);
        if (!(unit_s > 0))
            return NAN;
        until = fmin(until, to);
        t_s += (until - from) * unit_s;
        from = until;
    }
    return t_s;
}

double speed_after(const struct speed *s, const struct sim_job *job,
                   const struct speed_place *p, double from, double t_s)
{
    while (t_s > 0 && from < job->work) {
        double until = INFINITY;
        double unit_s = s->ops->unit_s(s, job, p, from, &until);
        if (!(unit_s > 0))
            return from;
        until = fmin(until, job->work);
        if ((until - from) * unit_s >= t_s)
            return from + t_s / unit_s;
        t_s -= (until - from) * unit_s;
        from = until;
    }
    return fmin(from, job->work);
}

/* ---- a job of known length ------------------------------------------------
 */
static int constant_prepare(struct speed *s, struct sim_job *job,
                            struct error *err)
{
    (void)s;
    (void)job;
    (void)err;
    return 0;
}

/* On fewer GPUs than the trace asks for it is slower in proportion, which only
 * the figures of fairness and slowdown ask about. */
static double constant_unit_s(const struct speed *s, const struct sim_job *job,
                              const struct speed_place *p, double done,
                              double *ret_until)
{
    double gpus = (double)p->nodes * p->per_node;
    (void)s;
    (void)done;
    *ret_until = INFINITY;
    return gpus > 0 && gpus < job->gpus_min ? job->gpus_min / gpus : 1;
}

/* The length of a job has its first start in it. */
static double constant_restart_s(const struct speed *s,
                                 const struct sim_job *job, int32_t attempt)
{
    (void)s;
    (void)job;
    return attempt <= 1 ? 0 : (double)NAN;
}

static void constant_destroy(struct speed *s)
{
    free(s);
}

static const struct speed_ops constant_ops = {
    .name = "csv",
    .prepare = constant_prepare,
    .unit_s = constant_unit_s,
    .restart_s = constant_restart_s,
    .destroy = constant_destroy,
};

int speed_constant(struct speed **ret, struct error *err)
{
    struct speed *s = calloc(1, sizeof(*s));

    if (!s)
        return error_set(err, ERR_NOMEM, "speed");
    s->ops = &constant_ops;
    *ret = s;
    return 0;
}
