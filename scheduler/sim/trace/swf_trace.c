/* swf_trace.c - read the Standard Workload Format of the Parallel Workloads
 * Archive.
 *
 * A line has 18 numbers, -1 where one is not known: job, submit, wait, run
 * time, processors, CPU time, memory, requested processors, time and memory,
 * status, user, group, program, queue, partition, job before, think time.
 * Comments begin with ';'; UnixStartTime has the first second. A job that was
 * checkpointed has a line for the whole, which counts, and lines for its parts,
 * status 2 to 4, which are left out. Dependencies on a job before are not
 * repeated. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/trace/sim_trace.h"

enum { PROCS_MAX = 1 << 28, GPUS_MAX = 65536, NUMBER_MAX = 1 << 30 };
static const double TIME_MAX_S = 1e10, LENGTH_MAX_S = 10 * 365.0 * 86400;

enum field {
    F_JOB,
    F_SUBMIT,
    F_WAIT,
    F_RUN,
    F_PROCS,
    F_REQ_PROCS = 7,
    F_REQ_TIME,
    F_STATUS = 10,
    F_USER,
    F_PROGRAM = 13,
    FIELDS = 18
};
enum { STATUS_PART_FIRST = 2, STATUS_PART_LAST = 4 };

/* "; UnixStartTime: 1143849600" */
static void read_comment(const struct lines *l, struct sim_trace *t)
{
    static const char key[] = "UnixStartTime:";

    for (size_t i = 0; i + 1 < l->n; i++) {
        const char *word = l->field[i] + (l->field[i][0] == ';');
        double s = strtod(l->field[i + 1], NULL);
        if (strcmp(word, key) == 0 && s > 0 && s <= TIME_MAX_S)
            t->epoch_s = s;
    }
}

static int read_job(const struct lines *l, int32_t procs_per_gpu,
                    struct sim_trace *t, struct error *err)
{
    struct sim_job job = {.work = 0};
    int64_t id, procs, asked, status, user, program;
    double wait_s;

    if (lines_count(l, FIELDS, "the 18 numbers of the format", err) < 0 ||
        lines_int(l, F_JOB, "job", 0, INT64_MAX, &id, err) < 0 ||
        lines_real(l, F_SUBMIT, "submit time", 0, TIME_MAX_S, &job.submit_s,
                   err) < 0 ||
        lines_real(l, F_WAIT, "wait time", -1, TIME_MAX_S, &wait_s, err) < 0 ||
        lines_real(l, F_RUN, "run time", -1, LENGTH_MAX_S, &job.work, err) <
            0 ||
        lines_int(l, F_PROCS, "processors", -1, PROCS_MAX, &procs, err) < 0 ||
        lines_int(l, F_REQ_PROCS, "requested processors", -1, PROCS_MAX, &asked,
                  err) < 0 ||
        lines_real(l, F_REQ_TIME, "requested time", -1, TIME_MAX_S,
                   &job.limit_s, err) < 0 ||
        lines_int(l, F_STATUS, "status", -1, 5, &status, err) < 0 ||
        lines_int(l, F_USER, "user", -1, NUMBER_MAX, &user, err) < 0 ||
        lines_int(l, F_PROGRAM, "program", -1, NUMBER_MAX, &program, err) < 0)
        return -1;
    if (status >= STATUS_PART_FIRST && status <= STATUS_PART_LAST) {
        t->left_out.parts++;
        return 0;
    }
    procs = procs > 0 ? procs : asked;
    if (job.work < 0 || (job.work <= 0 && status == 5)) {
        t->left_out.never_started++;
        return 0;
    }
    if (procs <= 0) {
        t->left_out.without_gpus++;
        return 0;
    }
    int64_t gpus = (procs + procs_per_gpu - 1) / procs_per_gpu;
    if (gpus > GPUS_MAX)
        return lines_error(l, F_PROCS, err,
                           "%" PRId64 " processors are over %d GPUs: raise "
                           "--procs-per-gpu",
                           procs, GPUS_MAX);
    job.limit_s =
        job.limit_s > 0 ? fmax(job.limit_s, job.work + 1) : (double)INFINITY;
    job.gpus_min = job.gpus_max = job.work_gpus = (int32_t)gpus;
    job.is_recorded = wait_s >= 0;
    job.recorded_start_s = job.submit_s + wait_s;
    job.recorded_end_s = job.recorded_start_s + job.work;
    job.recorded_gpu_s = job.work * (double)gpus;
    (void)snprintf(job.name, sizeof(job.name), "%" PRId64, id);
    (void)snprintf(job.user, sizeof(job.user), "user-%" PRId64, user);
    (void)snprintf(job.label, sizeof(job.label), "program-%" PRId64, program);
    (void)snprintf(job.class, sizeof(job.class), "%s/%s/%" PRId64, job.user,
                   job.label, gpus);
    return sim_trace_add(t, &job, err);
}

int swf_trace_read(struct lines *l, int32_t procs_per_gpu, struct sim_trace *t,
                   struct error *err)
{
    while (lines_next(l, ' ')) {
        struct error why = ERROR_INIT;
        int rc = 0;
        if (l->field[0][0] == ';') {
            read_comment(l, t);
        } else if (read_job(l, procs_per_gpu, t, &why) < 0) {
            rc = why.code == ERR_INVAL
                     ? sim_trace_bad_line(t, &why, err)
                     : error_set(err, why.code, "%s", why.msg);
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}
