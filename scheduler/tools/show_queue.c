/* show_queue.c - the queue. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "jobs/state.h"
#include "scheduler/tools/client.h"
#include "scheduler/tools/show.h"

/* The letters that squeue(1)'s users know, and ours where it has none. */
static const char *short_state(const char *name)
{
    static const char *const shorts[JOB_STATE_N] = {
        [JOB_NEW] = "N",      [JOB_QUEUED] = "PD",
        [JOB_HELD] = "H",     [JOB_DISPATCHING] = "DS",
        [JOB_UNKNOWN] = "UN", [JOB_STARTING] = "ST",
        [JOB_RUNNING] = "R",  [JOB_CHECKPOINTING] = "CP",
        [JOB_STALLED] = "SL", [JOB_COMPLETED] = "CD",
        [JOB_FAILED] = "F",   [JOB_CANCELLED] = "CA",
        [JOB_TIMEOUT] = "TO", [JOB_NODE_FAIL] = "NF",
    };
    enum job_state s;
    return job_state_from_name(name, &s) == 0 ? shorts[s] : "?";
}

static void gpus_text(const json_t *job, char *out, size_t cap)
{
    int64_t held = field_int(job, "gpus", 0);
    int64_t lo = field_int(job, "gpus_min", 0);
    int64_t hi = field_int(job, "gpus_max", lo);
    if (held > 0)
        (void)snprintf(out, cap, "%" PRId64, held);
    else if (lo == hi)
        (void)snprintf(out, cap, "%" PRId64, lo);
    else
        (void)snprintf(out, cap, "%" PRId64 "..%" PRId64, lo, hi);
}

static void step_text(const json_t *job, char *out, size_t cap)
{
    char it[32], total[32];
    int64_t n = field_int(job, "iteration", 0);
    int64_t of = field_int(job, "iterations_total", 0);
    if (n <= 0)
        (void)snprintf(out, cap, "-");
    else if (of > 0)
        (void)snprintf(out, cap, "%s/%s", render_count(n, it, sizeof(it)),
                       render_count(of, total, sizeof(total)));
    else
        (void)snprintf(out, cap, "%s", render_count(n, it, sizeof(it)));
}

static void number_text(double v, const char *fmt_unit, char *out, size_t cap)
{
    if (!isfinite(v))
        (void)snprintf(out, cap, "-");
    else if (strcmp(fmt_unit, "rate") == 0)
        (void)snprintf(out, cap, v < 10 ? "%.2f" : "%.1f", v);
    else
        (void)snprintf(out, cap, "%.4g", v);
}

/* Where it runs, or why it does not. */
static const char *where_or_why(const json_t *job, bool live)
{
    const char *place = field_str(job, "place");
    return live && *place ? place : field_str(job, "reason");
}

static int add_job(struct render_table *t, const json_t *job, struct error *err)
{
    const char *state = field_str(job, "state");
    enum job_state js = JOB_NEW;
    bool live = job_state_from_name(state, &js) == 0 && job_state_is_live(js);
    char gpus[32], step[80], rate[32], loss[32], elapsed[32], left[32];
    double t_iter = field_real(job, "t_iter_s");

    gpus_text(job, gpus, sizeof(gpus));
    step_text(job, step, sizeof(step));
    number_text(live && t_iter > 0 ? 1 / t_iter : NAN, "rate", rate,
                sizeof(rate));
    number_text(field_real(job, "loss"), "value", loss, sizeof(loss));
    render_duration(field_real(job, "elapsed_s"), elapsed, sizeof(elapsed));
    render_duration(live ? field_real(job, "eta_s") : NAN, left, sizeof(left));
    if (render_table_add(t, err, "%" PRId64, field_int(job, "id", 0)) < 0 ||
        render_table_add(t, err, "%s", field_str(job, "name")) < 0 ||
        render_table_add(t, err, "%s", field_str(job, "user")) < 0 ||
        render_table_add(t, err, "%s", short_state(state)) < 0 ||
        render_table_add(t, err, "%s", gpus) < 0 ||
        render_table_add(t, err, "%s", step) < 0 ||
        render_table_add(t, err, "%s", rate) < 0 ||
        render_table_add(t, err, "%s", loss) < 0 ||
        render_table_add(t, err, "%s", elapsed) < 0 ||
        render_table_add(t, err, "%s", left) < 0 ||
        render_table_add(t, err, "%s", where_or_why(job, live)) < 0)
        return -1;
    return 0;
}

/* Of a cluster's scheduler that it is there, of any that it is not. */
static void print_allocator(const struct show_conf *s, const json_t *state)
{
    char name[100];
    (void)render_escape(field_str(state, "name"), name, sizeof(name));
    if (state && !field_yes(state, "is_ok"))
        (void)fprintf(s->out, " | %s unavailable since %s", name,
                      field_str(state, "since"));
    else if (state && strcmp(name, "slurm") == 0)
        (void)fprintf(s->out, " | slurm ok");
}

static void print_summary(const struct show_conf *s, const json_t *reply)
{
    int64_t total = field_int(reply, "slots_total", 0);
    int64_t free_slots = field_int(reply, "slots_free", 0);
    char name[200];
    (void)fprintf(
        s->out,
        "%s  %" PRId64 " GPUs or slots: %" PRId64 " busy, %" PRId64
        " free | %" PRId64 " running, %" PRId64 " queued | policy %s",
        render_escape(field_str(reply, "cluster"), name, sizeof(name)), total,
        total - free_slots, free_slots, field_int(reply, "running", 0),
        field_int(reply, "queued", 0), field_str(reply, "policy"));
    print_allocator(s, json_object_get(reply, "allocator_state"));
    (void)fputc('\n', s->out);
}

int show_queue(const struct show_conf *s, const json_t *reply,
               struct error *err)
{
    static const struct render_column columns[] = {
        {"JOBID", RENDER_RIGHT},
        {"NAME", RENDER_LEFT},
        {"USER", RENDER_LEFT},
        {"ST", RENDER_LEFT},
        {"GPUS", RENDER_RIGHT},
        {"STEP", RENDER_RIGHT},
        {"IT/S", RENDER_RIGHT},
        {"LOSS", RENDER_RIGHT},
        {"TIME", RENDER_RIGHT},
        {"LEFT", RENDER_RIGHT},
        {"PLACE OR REASON", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    if (render_table_create(columns, sizeof(columns) / sizeof(*columns), &t,
                            err) < 0)
        return -1;
    size_t i;
    json_t *job;
    int rc = 0;
    json_array_foreach(json_object_get(reply, "jobs"), i, job)
    {
        if (rc == 0)
            rc = add_job(t, job, err);
    }
    if (rc == 0) {
        if (s->header)
            print_summary(s, reply);
        render_table_print(t, &s->style, s->header, s->out);
    }
    render_table_destroy(t);
    return rc;
}
