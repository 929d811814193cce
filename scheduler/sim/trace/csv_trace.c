/* csv_trace.c - read `csv:` traces and traces of Pollux.
 *
 *   csv     t_s,duration_s,gpus         without a header; rigid, this long
 *   pollux  name,time,application,num_replicas,batch_size   with a header
 */
#include <stdio.h>
#include <string.h>

#include "scheduler/sim/trace/sim_trace.h"

static const double TIME_MAX_S = 1e10, LONGEST_S = 1e9;
enum { GPUS_MAX = 65536, BATCH_MAX = 1 << 30 };

int csv_trace_read(struct lines *l, struct sim_trace *t, struct error *err)
{
    while (lines_next(l, ',')) {
        struct sim_job job = {.user = "trace"};
        int64_t gpus;
        if (lines_count(l, 3, "t_s,duration_s,gpus", err) < 0 ||
            lines_real(l, 0, "t_s", 0, TIME_MAX_S, &job.submit_s, err) < 0 ||
            lines_real(l, 1, "duration_s", 0, LONGEST_S, &job.work, err) < 0 ||
            lines_int(l, 2, "gpus", 1, GPUS_MAX, &gpus, err) < 0)
            return -1;
        (void)snprintf(job.name, sizeof(job.name), "job-%zu", t->n + 1);
        (void)snprintf(job.class, sizeof(job.class), "gpus-%d", (int)gpus);
        job.gpus_min = job.gpus_max = job.work_gpus = (int32_t)gpus;
        if (sim_trace_add(t, &job, err) < 0)
            return -1;
    }
    return 0;
}

static const char columns[] = "name,time,application,num_replicas,batch_size";

static int pollux_header(struct lines *l, struct error *err)
{

    if (!lines_next(l, '\0'))
        return 0; /* empty: the caller says that it has no job */

    if (strcmp(l->field[0], columns) == 0)
        return 0;
    return lines_error(l, 0, err, "the header is not '%s'", columns);
}

int pollux_trace_read(struct lines *l, struct sim_trace *t, struct error *err)
{
    if (pollux_header(l, err) < 0)
        return -1;
    while (lines_next(l, ',')) {
        struct sim_job job = {.user = "trace"};
        int64_t gpus, batch;
        if (lines_count(l, 5, columns, err) < 0 ||
            lines_name(l, 0, "name", job.name, sizeof(job.name), err) < 0 ||
            lines_real(l, 1, "time", 0, TIME_MAX_S, &job.submit_s, err) < 0 ||
            lines_name(l, 2, "application", job.class, sizeof(job.class), err) <
                0 ||
            lines_int(l, 3, "num_replicas", 1, GPUS_MAX, &gpus, err) < 0 ||
            lines_int(l, 4, "batch_size", 1, BATCH_MAX, &batch, err) < 0)
            return -1;
        job.gpus_min = job.gpus_max = (int32_t)gpus;
        job.batch = (int32_t)batch;
        if (sim_trace_add(t, &job, err) < 0)
            return -1;
    }
    return 0;
}
