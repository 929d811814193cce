/* trainer_profile.c - the rows of v_profile: what a source counted in each
 * epoch, memory, and what profiling cost.
 *
 * Nothing here ends a job. A figure that cannot be had is left out, with one
 * line in the log. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/base/log.h"
#include "worker/comm/comm_count.h"
#include "worker/process/gpu_memory.h"
#include "worker/train/trainer_profile.h"

/* Both communicators count, for the host waits for others in either. */
static int open_host(struct trainer *t, struct profile_source **ret,
                     struct error *err)
{
    struct comm *inner = t->comm;
    if (comm_count_create(inner, true, &t->comm, err) < 0)
        return -1;
    if (comm_count_create(t->env->comm, false, &t->counted, err) < 0)
        return -1;
    t->own_env = *t->env;
    t->own_env.comm = t->counted;
    t->env = &t->own_env;
    return profile_host_create(t->dev, t->comm, t->counted, ret, err);
}

static void open_memory(struct trainer *t)
{
    struct error why = ERROR_INIT;
    const char *library = getenv("MGPU_NVML");
    if (t->dev->ops->bus != NULL &&
        gpu_memory_open(library, t->dev->ops->bus(t->dev), &t->gpu_memory,
                        &why) < 0)
        log_warn("worker", "the GPU's memory is not recorded why=\"%s\"",
                 why.msg);
}

void trainer_profile_open(struct trainer *t)
{
    struct error why = ERROR_INIT;
    struct profile_source *source = NULL;
    enum spec_profile mode = t->spec->train.profile;
    t->profile_s = (double)NAN;
    if (mode == PROFILE_OFF)
        return;
    bool is_host = t->dev->ops->count != NULL;
    if ((is_host ? open_host(t, &source, &why)
                 : profile_cupti_create(NULL, &source, &why)) < 0 ||
        profile_create(source, mode, &t->profile, &why) < 0)
        log_warn("worker", "profiling is off, training goes on why=\"%s\"",
                 why.msg);
    open_memory(t);
}

/* ---- around an iteration ------------------------------------------------- */

void trainer_profile_begin(struct trainer *t)
{
    if (isnan(t->profile_s))
        t->profile_s = t->env->clock->now_s(t->env->clock);
    profile_begin(t->profile, t->at.batch, t->batches);
}

/* Rank 0's clock alone decides, so that all ranks count as many iterations. */
bool trainer_profile_is_over(const struct trainer *t)
{
    const double first_s = t->spec->train.profile_first_s;
    return first_s > 0 && t->env->comm->rank == 0 &&
           t->env->clock->now_s(t->env->clock) - t->profile_s >= first_s;
}

void trainer_profile_end(struct trainer *t, double t_iter,
                         const struct agreed *a)
{
    profile_end(t->profile, t_iter);
    if (a->profiled)
        profile_finish(t->profile);
}

/* ---- rows ---------------------------------------------------------------- */

static void put(const struct trainer *t, const char *metric, int64_t calls,
                double total_s, int64_t bytes, double sampled)
{
    struct metric_row row = {.kind = METRIC_PROFILE};
    row.profile = (struct metric_profile){.rank = t->env->comm->rank,
                                          .epoch = t->at.epoch,
                                          .calls = calls,
                                          .total_s = total_s,
                                          .bytes = bytes,
                                          .sampled = sampled};
    (void)snprintf(row.profile.metric, sizeof(row.profile.metric), "%s",
                   metric);
    reporter_row(t->env->reporter, &row);
}

/* The most host memory that this process had; -1: not known. */
static int64_t resident_peak(void)
{
    struct buf b = BUF_INIT;
    int64_t kib = -1;
    if (buf_read_file(&b, "/proc/self/status", 65536, NULL) == 0) {
        const char *at = strstr(buf_str(&b), "VmHWM:");
        if (at != NULL)
            kib = strtoll(at + strlen("VmHWM:"), NULL, 10);
    }
    buf_clear(&b);
    return kib > 0 ? kib * 1024 : -1;
}

static void put_memory(struct trainer *t)
{
    struct error why = ERROR_INIT;
    int64_t used = 0, total = 0, peak = resident_peak();
    put(t, "memory planned", -1, NAN, t->bytes, NAN);
    if (peak > 0)
        put(t, "memory of the host, peak", -1, NAN, peak, NAN);
    if (t->gpu_memory == NULL)
        return;
    if (gpu_memory_read(t->gpu_memory, &used, &total, &why) < 0) {
        log_warn("worker", "the GPU's memory is not recorded why=\"%s\"",
                 why.msg);
        gpu_memory_close(t->gpu_memory);
        t->gpu_memory = NULL;
        return;
    }
    put(t, "memory of the GPU, in use", -1, NAN, used, NAN);
    put(t, "memory of the GPU, total", -1, NAN, total, NAN);
}

static void say(const struct trainer *t, const struct profile_epoch *e)
{
    double error, cost = profile_cost(t->profile, &error);
    char text[80] = "not known yet";
    if (isfinite(cost))
        (void)snprintf(text, sizeof(text), "%.2f %% (+- %.2f)", 100 * cost,
                       100 * error);
    trainer_say(t,
                "epoch %d/%d: profiled %d of %d iterations, cost of profiling "
                "%s",
                t->at.epoch, t->spec->train.epochs, e->seen, e->iterations,
                text);
}

int trainer_profile_epoch(struct trainer *t, struct error *err)
{
    struct profile_epoch e;
    if (t->spec->train.profile == PROFILE_OFF)
        return 0;
    if (profile_take(t->profile, &e)) {
        for (int32_t i = 0; i < e.rows.n; i++)
            put(t, e.rows.at[i].metric, e.rows.at[i].calls,
                e.rows.at[i].total_s, e.rows.at[i].bytes, e.sampled);
        put(t, "profiler", e.seen, e.cost_s, -1, NAN);
        if (t->spec->train.profile_first_s > 0)
            put(t, "profiled part", e.iterations, e.iterations_s, -1, NAN);
        say(t, &e);
    }
    put_memory(t);
    /* The rank that pays most decides for all. */
    double one_of = 1 / profile_wish(t->profile);
    if (comm_all_reduce_now(t->env->comm, &one_of, 1, COMM_F64, COMM_MAX,
                            TRAIN_DEADLINE_S, err) < 0)
        return error_wrap(err, "profile");
    profile_agree(t->profile, 1 / one_of);
    return 0;
}

void trainer_profile_close(struct trainer *t)
{
    profile_destroy(t->profile);
    gpu_memory_close(t->gpu_memory);
    if (t->counted != NULL)
        t->counted->ops->destroy(t->counted);
}
