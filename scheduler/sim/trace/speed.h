/* speed.h - the true speed of a job on an allocation.
 *
 * The work of a job has a unit that its model chooses: an iteration, a step, a
 * second. The model tells what one unit takes on an allocation; the simulator
 * alone asks it. A policy sees the speed of a job only through the heartbeats
 * of a worker that has run. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_SPEED_H
#define MGPU_SCHEDULER_SIM_TRACE_SPEED_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "scheduler/sim/trace/sim_trace.h"

struct speed_place {
    const char *gpu_type; /* "": the cluster names none */
    int32_t nodes, per_node;
};

struct speed;
struct speed_ops {
    const char *name; /* of the table's format */
    /* Sets the kind, the work and the largest number of GPUs of a job of the
     * trace.
     * err  ERR_INVAL the tables do not have its class */
    int (*prepare)(struct speed *s, struct sim_job *job, struct error *err);
    /* Seconds for a unit of work at `done` units, > 0; NAN: the job cannot run
     * there.
     * out  ret_until  the work up to which this holds, > done */
    double (*unit_s)(const struct speed *s, const struct sim_job *job,
                     const struct speed_place *p, double done,
                     double *ret_until);
    /* Cost of a start; NAN: the table has none. NULL: no table has. */
    double (*restart_s)(const struct speed *s, const struct sim_job *job,
                        int32_t attempt);
    /* Its workers report iterations, once a round. */
    bool beats;
    /* The speed of a job changes while it trains, and it tells so. NULL: it
     * does not. */
    bool (*adapts)(const struct speed *s);
    /* The job has run there; NULL: of no interest. */
    void (*ran)(struct speed *s, const struct sim_job *job,
                const struct speed_place *p);
    /* Appends "class 1x4, ..." for each size that ran without a measurement.
     * NULL: there is no such size. */
    int (*guessed)(const struct speed *s, struct buf *out, struct error *err);
    void (*destroy)(struct speed *s); /* NULL is fine */
};
struct speed {
    const struct speed_ops *ops;
};

/* Seconds for the work from `from` to `to`; NAN: it cannot run there. */
double speed_time(const struct speed *s, const struct sim_job *job,
                  const struct speed_place *p, double from, double to);
/* The work that is done after t_s seconds from `from`, at most job->work. */
double speed_after(const struct speed *s, const struct sim_job *job,
                   const struct speed_place *p, double from, double t_s);

/* ---- models; own *ret: ops->destroy() ------------------------------------ */
/* A unit is a second on the request of the trace. */
int speed_constant(struct speed **ret, struct error *err) MUST_CHECK;
/* A table of measured iterations: class,gpu_type,nodes,gpus_per_node,t_iter_s,
 * restart_s. A size that was not measured scales perfectly from the largest
 * measured one below it. */
int size_table_read(struct lines *l, struct speed **ret,
                    struct error *err) MUST_CHECK;
/* An empty table, and a row of it. nodes and per_node as in struct speed_place;
 * restart_s may be NAN. */
int size_table_create(struct speed **ret, struct error *err) MUST_CHECK;
int size_table_add(struct speed *s, const char *class, const char *gpu_type,
                   int32_t nodes, int32_t per_node, double t_iter_s,
                   double restart_s, struct error *err) MUST_CHECK;
/* The cost of a start of all sizes of a class that has rows. */
int size_table_restart(struct speed *s, const char *class, double restart_s,
                       struct error *err) MUST_CHECK;
/* The throughputs of Gavel, JSON. in  text[len] */
int gavel_table_read(const char *file, const char *text, size_t len,
                     struct speed **ret, struct error *err) MUST_CHECK;
/* The measurements of Pollux: <dir>/<application>/{placements,scalability,
 * validation-BATCH}.csv, for the applications of the trace only.
 * in  is_adaptive  the job takes the best batch at each allocation */
int pollux_table_open(const char *dir, bool is_adaptive, struct speed **ret,
                      struct error *err) MUST_CHECK;

#endif
