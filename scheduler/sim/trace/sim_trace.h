/* sim_trace.h - the jobs of a simulation, whatever file they come from. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_SIM_TRACE_H
#define MGPU_SCHEDULER_SIM_TRACE_SIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "scheduler/sim/trace/lines.h"

enum { SIM_NAME_CAP = 64, SIM_USER_CAP = 64, SIM_CLASS_CAP = 160 };

struct sim_job {
    char name[SIM_NAME_CAP], user[SIM_USER_CAP], class[SIM_CLASS_CAP];
    char program[SIM_CLASS_CAP]; /* whose classes learn from each other; "": the
                                    class is alone */
    double submit_s;             /* since the first second of the trace */
    double work;    /* in units of the speed model: iterations, or seconds */
    double limit_s; /* 0: as --limits says; INFINITY: none */
    int32_t gpus_min, gpus_max; /* the trace's own request */
    int32_t priority;
    int32_t batch;     /* global batch of the trace; 0: it has none */
    int32_t kind;      /* index in the tables, set by the speed model */
    int32_t of_batch;  /* likewise: jobs of the class differ in speed by this
                          batch; 0: they do not */
    int32_t most_gpus; /* that its tables allow; 0: any number */
    char *spec;       /* resolved JSON; NULL: one is made. Owned by the trace */
    char *sized_spec; /* the same with the GPUs that all its attempts had;
                         NULL: they differ, or it never ran. Likewise */
    /* A task of a sweep; all tasks of one follow each other in the trace. */
    int32_t task, n_tasks; /* n_tasks 0: no task */
    int32_t max_parallel;  /* 0: unlimited */
    bool stop_on_fail;
    char *vary;               /* a JSON object; owned by the trace */
    int64_t uid;              /* with a spec */
    uint64_t id;              /* number of the job; 0: any */
    char label[SIM_NAME_CAP]; /* what its user calls it; "": no name */
    int32_t nodes;            /* of a fixed size; 0: the fewest */
    int32_t work_gpus;        /* a unit of work is a second on so many GPUs; 0:
                                 the unit is another one */
    bool is_recorded;         /* the next three are what happened to it in the
                                 past: first start and last end, as submit_s */
    double recorded_start_s, recorded_end_s, recorded_gpu_s;
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
    /* What of the file is no job of the trace. */
    struct {
        size_t bad;           /* lines with a finding */
        size_t without_gpus;  /* jobs */
        size_t never_started; /* jobs */
        size_t parts;         /* lines of steps, and of parts of a job */
        size_t merged;        /* lines of requeued jobs and of components */
        size_t too_large;     /* jobs that fit nowhere */
        size_t rounded; /* jobs of uneven size: not left out, but larger */
    } left_out;
    struct buf findings; /* of the first bad lines, one a line */
};
enum { TRACE_FINDINGS_MAX = 10 };

void sim_trace_clear(struct sim_trace *t); /* a zeroed one is fine */
/* Appends a copy, which owns job->spec and job->vary. */
int sim_trace_add(struct sim_trace *t, const struct sim_job *job,
                  struct error *err) MUST_CHECK;
/* Counts a bad line, which the trace goes on without.
 * in   finding  what is wrong, with its place */
int sim_trace_bad_line(struct sim_trace *t, const struct error *finding,
                       struct error *err) MUST_CHECK;
/* Appends "3 lines that are wrong, 1 job without GPUs, ..."; nothing if all is
 * in the trace. */
int sim_trace_say_left_out(const struct sim_trace *t, struct buf *out,
                           struct error *err) MUST_CHECK;
/* Sorts by time; jobs of one moment keep their order. */
int sim_trace_sort(struct sim_trace *t, struct error *err) MUST_CHECK;

/* Draws the submits of ret[n], a copy of jobs[n] in the order of time: which
 * jobs come, and in which order, stays, as do the first and the last submit. */
void sim_trace_draw(const struct sim_job *jobs, size_t n, uint32_t seed,
                    struct sim_job *ret);

/* ---- readers; each appends all jobs, or fails with the place of the first
 * finding. They read l to its end. --------------------------------------- */
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

/* What sacct(1) prints with --parsable2: a header, then a job a line. Jobs are
 * fixed and last as long as they did. A bad line is counted and left out.
 * err  ERR_INVAL the header lacks a column */
int sacct_trace_read(struct lines *l, struct sim_trace *t,
                     struct error *err) MUST_CHECK;
/* The Standard Workload Format, 18 numbers a line. Likewise.
 * in   procs_per_gpu  that many processors of the trace are a GPU */
int swf_trace_read(struct lines *l, int32_t procs_per_gpu, struct sim_trace *t,
                   struct error *err) MUST_CHECK;

#endif
