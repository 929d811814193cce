/* jobs_csv.c - the jobs and the starts and stops of a simulation as CSV, and
 * the files that a simulation writes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jobs/text/text.h"
#include "scheduler/sim/output/run_figures.h"
#include "scheduler/sim/trace/gz_text.h"

/* Nothing for a time that is unknown. */
static int add_real(struct buf *out, double x, struct error *err)
{
    return isfinite(x) ? buf_addf(out, err, ",%.3f", x)
                       : buf_addstr(out, ",", err);
}

int jobs_csv(const struct sim_conf *conf, const struct sim_output *o,
             struct buf *out, struct error *err)
{
    if (buf_addstr(out,
                   "name,class,user,submit_s,start_s,end_s,gpus_max,gpu_s,"
                   "restarts,slowdown\n",
                   err) < 0)
        return -1;
    for (size_t i = 0; i < o->n; i++) {
        const struct sim_job *job = &conf->trace->jobs[i];
        const struct sim_result *r = &o->results[i];
        if (text_add_csv(out, job->name, err) < 0 ||
            buf_addstr(out, ",", err) < 0 ||
            text_add_csv(out, job->class, err) < 0 ||
            buf_addstr(out, ",", err) < 0 ||
            text_add_csv(out, job->user, err) < 0 ||
            add_real(out, job->submit_s, err) < 0 ||
            add_real(out, r->start_s, err) < 0 ||
            add_real(out, r->end_s, err) < 0 ||
            buf_addf(out, err, ",%" PRId32, r->gpus_max) < 0 ||
            add_real(out, r->gpu_s, err) < 0 ||
            buf_addf(out, err, ",%" PRId32, r->restarts) < 0 ||
            add_real(out, r->slowdown, err) < 0 ||
            buf_addstr(out, "\n", err) < 0)
            return -1;
    }
    return 0;
}

int events_csv(const struct sim_conf *conf, const struct sim_output *o,
               struct buf *out, struct error *err)
{
    if (buf_addstr(out, "t_s,job,event,place\n", err) < 0)
        return -1;
    for (size_t i = 0; i < o->n_events; i++) {
        const struct sim_event *e = &o->events[i];
        if (buf_addf(out, err, "%.3f,", e->t_s) < 0 ||
            text_add_csv(out, conf->trace->jobs[e->job].name, err) < 0 ||
            buf_addf(out, err, ",%s,", e->is_start ? "start" : "stop") < 0 ||
            text_add_csv(out, e->place, err) < 0 ||
            buf_addstr(out, "\n", err) < 0)
            return -1;
    }
    return 0;
}

static int write_plain(const char *path, const struct buf *text,
                       struct error *err)
{
    FILE *f = fopen(path, "we");

    if (!f)
        return error_sys(err, errno, "create '%s'", path);
    bool is_written = fwrite(buf_str(text), 1, text->len, f) == text->len;
    if (fclose(f) != 0 || !is_written)
        return error_sys(err, errno, "write '%s'", path);
    return 0;
}

int sim_csv_write(const char *path, const struct buf *text, struct error *err)
{
    size_t n = strlen(path);

    if (strcmp(path, "-") == 0)
        return fwrite(buf_str(text), 1, text->len, stdout) == text->len
                   ? 0
                   : error_sys(err, errno, "standard output");
    return n > 3 && strcmp(path + n - 3, ".gz") == 0
               ? gz_text_write(path, text, err)
               : write_plain(path, text, err);
}
