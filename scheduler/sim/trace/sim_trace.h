/* sim_trace.h - the jobs of a simulation, whatever file they come from. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_SIM_TRACE_H
#define MGPU_SCHEDULER_SIM_TRACE_SIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "scheduler/sim/trace/lines.h"

enum { SIM_NAME_CAP = 64, SIM_USER_CAP = 32, SIM_CLASS_CAP = 128 };

struct sim_job {
    char name[SIM_NAME_CAP], user[SIM_USER_CAP], class[SIM_CLASS_CAP];
    double submit_s; /* since the first second of the trace */
    double work;     /* in units of the speed model: iterations, or seconds */
    double limit_s;  /* 0: as --limits says */
    int32_t gpus_min, gpus_max; /* the trace's own request */
    int32_t priority;
    int32_t batch;     /* global batch of the trace; 0: it has none */
    int32_t kind;      /* index in the tables, set by the speed model */
    int32_t of_batch;  /* likewise: jobs of the class differ in speed by this
                          batch; 0: they do not */
    int32_t most_gpus; /* that its tables allow; 0: any number */
    char *spec; /* resolved JSON; NULL: one is made. Owned by the trace */
    /* A task of a sweep; all tasks of one follow each other in the trace. */
    int32_t task, n_tasks; /* n_tasks 0: no task */
    int32_t max_parallel;  /* 0: unlimited */
    bool stop_on_fail;
    char *vary;  /* a JSON object; owned by the trace */
    int64_t uid; /* with a spec */
    uint64_t id; /* number of the job; 0: any */
};

/* Something that a person or Slurm did, replayed at its time. */
enum sim_act {
    ACT_CANCEL,
    ACT_HOLD,
    ACT_RELEASE,
    ACT_PRIORITY,
    ACT_REQUEUE,
    ACT_RESIZE,
    ACT_UPDATE,
    ACT_POLICY, /* on no job */
};

struct sim_trace {
    char name[128];       /* the file's name without its folders */
    struct sim_job *jobs; /* owned; in the order of submit_s */
    size_t n, cap;
    double epoch_s;    /* seconds since 1970 of its first second; 0: unknown */
    double recorded_s; /* makespan of the past; 0: a trace has none */
    uint64_t last_id;
};

void sim_trace_clear(struct sim_trace *t); /* a zeroed one is fine */
/* Appends a copy, which owns job->spec and job->vary. */
int sim_trace_add(struct sim_trace *t, const struct sim_job *job,
                  struct error *err) MUST_CHECK;
/* Sorts by time; jobs of one moment keep their order. */
int sim_trace_sort(struct sim_trace *t, struct error *err) MUST_CHECK;

/* ---- readers; each appends all jobs, or fails with the place of the first
 * finding. They read l to its end. --------------------------------------- */
enum trace_format { TRACE_CSV, TRACE_MGPU, TRACE_POLLUX, TRACE_GAVEL };
/* NULL past the last one. */
const char *trace_format_name(enum trace_format f);

/* t_s,duration_s,gpus: a rigid job of this length. */
int csv_trace_read(struct lines *l, struct sim_trace *t,
                   struct error *err) MUST_CHECK;
/* One JSON object a line. */
int mgpu_trace_read(struct lines *l, struct sim_trace *t,
                    struct error *err) MUST_CHECK;
/* name,time,application,num_replicas,batch_size with a header; the class is the
 * application. The tables set the work. */
int pollux_trace_read(struct lines *l, struct sim_trace *t,
                      struct error *err) MUST_CHECK;
/* Tab separated; the class is the job type. */
int gavel_trace_read(struct lines *l, struct sim_trace *t,
                     struct error *err) MUST_CHECK;

/* Opens the file, reads it, sorts the jobs.
 * err  ERR_INVAL a finding, or no job */
int sim_trace_load(enum trace_format f, const char *file, struct sim_trace *ret,
                   struct error *err) MUST_CHECK;

#endif
