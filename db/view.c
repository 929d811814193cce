/* view.c - the table of views, and the check of a query; see view.h. */
#include "db/view.h"

const struct view views[VIEW_N] = {
    [VIEW_JOB] = {.name = "v_job",
                  .of_jobs = true,
                  .columns = {"job",
                              "name",
                              "user",
                              "uid",
                              "kind",
                              "state",
                              "reason",
                              "priority",
                              "gpus_min",
                              "gpus_max",
                              "gpus",
                              "attempt",
                              "exit_code",
                              "submitted_at",
                              "started_at",
                              "ended_at",
                              "idempotency_key",
                              "spec",
                              "dir",
                              "parent"}},
    [VIEW_ATTEMPT] =
        {.name = "v_attempt",
         .of_jobs = true,
         .of_attempts = true,
         .columns =
             {"job",          "attempt",         "state",    "reason",
              "native_id",    "place",           "class",    "gpus",
              "nodes",        "exit_code",       "signal",   "intent_at",
              "claimed_at",   "running_at",      "ended_at", "resized_from",
              "checkpoint_s", "allocator_s",     "start_s",  "cause",
              "needed_bytes", "available_bytes", "gpu_type", "account",
              "program"}},
    [VIEW_EVENT] = {.name = "v_event",
                    .of_jobs = true,
                    .of_attempts = true,
                    .columns = {"seq", "job", "attempt", "event", "at", "uid",
                                "detail"}},
    [VIEW_USAGE] = {.name = "v_usage",
                    .of_jobs = true,
                    .of_attempts = true,
                    .columns = {"job", "attempt", "user", "uid", "account",
                                "class", "gpu_type", "place", "gpus", "state",
                                "submitted_at", "claimed_at", "running_at",
                                "ended_at"}},
    [VIEW_ITERATION] = {.name = "v_iteration",
                        .of_jobs = true,
                        .of_attempts = true,
                        .of_ranks = true,
                        .columns = {"job", "attempt", "rank", "iteration",
                                    "epoch", "started_at", "t_iter", "t_data",
                                    "t_h2d", "t_forward", "t_backward",
                                    "t_comm", "t_optimizer", "loss", "lr",
                                    "samples", "tokens", "gpu_mem_bytes"}},
    [VIEW_EPOCH] = {.name = "v_epoch",
                    .of_jobs = true,
                    .of_attempts = true,
                    .columns = {"job", "attempt", "epoch", "seconds",
                                "train_loss", "eval_loss", "eval_accuracy",
                                "samples_per_s", "tokens_per_s"}},
    [VIEW_METRIC] = {.name = "v_metric",
                     .of_jobs = true,
                     .of_attempts = true,
                     .of_ranks = true,
                     .columns = {"job", "attempt", "rank", "iteration", "name",
                                 "value"}},
    [VIEW_PROFILE] = {.name = "v_profile",
                      .of_jobs = true,
                      .of_attempts = true,
                      .of_ranks = true,
                      .columns = {"job", "attempt", "rank", "epoch", "metric",
                                  "calls", "total_s", "bytes", "sampled"}},
    [VIEW_SCALING] = {.name = "v_scaling",
                      .columns = {"class", "gpus", "nodes", "t_iter",
                                  "samples_per_s", "speedup", "efficiency", "n",
                                  "basis", "t_iter_sd", "runs",
                                  "gpu_hours_per_million", "tokens_per_s",
                                  "gpu_type", "classes"}},
};

int view_check_query(const struct store_query *q, struct error *err)
{
    if ((unsigned)q->view >= VIEW_N)
        return error_set(err, ERR_INVAL, "no view %d", (int)q->view);
    if (q->limit < 0)
        return error_set(err, ERR_INVAL, "a limit of %lld rows",
                         (long long)q->limit);
    size_t n = 0;
    while (n < VIEW_COLUMNS_MAX && views[q->view].columns[n])
        n++;
    if (q->columns >> n)
        return error_set(err, ERR_INVAL, "no column %zu of %s", n,
                         views[q->view].name);
    return 0;
}
