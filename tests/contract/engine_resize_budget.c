/* engine_resize_budget.c - how often the policy resizes a job: what is spent by
 * making room for others does not keep the job from idle GPUs for long, and
 * what it has beyond that may be taken back. What has not begun is left alone.
 */
#include <math.h>

#include "tests/contract/engine_play.h"

static struct error err;

/* A policy that chooses this size for the job whenever it may be resized. */
static int32_t wished; /* -1: none */

static int plan_wished(const struct policy_view *v,
                       struct policy_decision *decisions, size_t cap,
                       size_t *ret_n, struct error *e)
{
    if (policy_backfill.plan(v, decisions, cap, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; wished >= 0 && i < v->n_jobs && *ret_n < cap; i++)
        if (v->jobs[i].may_resize && v->jobs[i].gpus != wished)
            decisions[(*ret_n)++] =
                (struct policy_decision){.act = POLICY_RESIZE,
                                         .id = v->jobs[i].id,
                                         .nodes = wished > 0,
                                         .gpus_per_node = wished};
    return 0;
}

static const struct policy wishing = {
    .name = "wishing", .summary = "for tests", .plan = plan_wished};

static const struct job *job_of(void)
{
    return engine_job(w.engine, w.ids[0]);
}

static double at(void)
{
    return w.clock.t_s - 1000;
}

/* The job gets the size, by resizes of the policy. */
static void become(int32_t gpus)
{
    wished = gpus;
    for (int i = 0; i < 20 && job_of()->gpus != gpus; i++) {
        /* A change, or there is no plan. */
        if (engine_prioritise(w.engine, w.ids[0], 1000, i % 2, &err) < 0)
            tap_diag("%s", err.msg);
        play(at() + 1);
    }
    wished = -1;
    ok(job_of()->gpus == gpus, "%.0f s: it has %d", at(), (int)gpus);
    play(at() + 21); /* beyond the minimum run time */
}

static void nothing(void *arg, const struct engine_decision *decision)
{
    (void)arg;
    (void)decision;
}

/* Whether the engine lets the policy have its decision now. */
static bool may_become(int32_t gpus)
{
    wished = gpus;
    bool is = engine_explain(w.engine, nothing, NULL, &err) == 0;
    wished = -1;
    if (!is && !strstr(err.msg, "resized too often"))
        tap_diag("%s", err.msg);
    return is;
}

/* A job whose worker never says that it has begun. */
static void test_not_begun(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &wishing,
        .goodput = {.interval_s = 60,
                    .min_runtime_s = 20,
                    .max_resizes_per_hour = 3},
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 100, .silent = 1}}}},
        .acts = {{.job = 0}},
        .n_acts = 1,
    };

    world_init(&w, &s);
    if (!world_start(&w))
        abort();
    play(60);
    wished = 4;
    ok(engine_explain(w.engine, nothing, NULL, &err) < 0 &&
           strstr(err.msg, "has not paid for its start"),
       "a job that has not begun is left alone: %s", err.msg);
    wished = -1;
    world_clear(&w);
}

/* A resize that waits for hours in the queue of a cluster. */
static void test_long_start(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &wishing,
        .goodput = {.interval_s = 60,
                    .min_runtime_s = 20,
                    .max_resizes_per_hour = 3,
                    .horizon_s = 1800},
        .resize_patience_s = 1e6,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 1e6},
                               {.run_s = 1e6, .wait_s = 20000},
                               {.run_s = 1e6}}}},
        .acts = {{.job = 0}},
        .n_acts = 1,
    };

    world_init(&w, &s);
    if (!world_start(&w))
        abort();
    play(30);
    wished = 4;
    for (int i = 0; i < 20; i++) {
        (void)!engine_prioritise(w.engine, w.ids[0], 1000, i % 2, &err);
        play(at() + 1);
    }
    wished = -1;
    play(20500);
    ok(job_of()->gpus == 4 && !isnan(job_of()->run_s), "it has run since then");
    double began_s = at();
    play(began_s + 1000);
    wished = 2;
    ok(engine_explain(w.engine, nothing, NULL, &err) < 0 &&
           strstr(err.msg, "has not paid for its start"),
       "it pays for its start: %s", err.msg);
    wished = -1;
    play(began_s + 1801);
    ok(may_become(2), "  for no longer than the horizon");
    world_clear(&w);
}

int main(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &wishing,
        .goodput = {.interval_s = 60,
                    .min_runtime_s = 20,
                    .max_resizes_per_hour = 3},
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 1e5},
                               {.run_s = 1e5},
                               {.run_s = 1e5},
                               {.run_s = 1e5},
                               {.run_s = 1e5},
                               {.run_s = 1e5},
                               {.run_s = 1e5},
                               {.run_s = 100}}}},
        .acts = {{.job = 0}},
        .n_acts = 1,
    };
    wished = -1;
    world_init(&w, &s);
    if (!world_start(&w))
        abort();
    play(30);
    become(4);
    become(2);
    ok(!may_become(3), "the last resize of the hour is for others");
    ok(may_become(1), "  who may have it");
    become(1);
    ok(!may_become(4), "what others have spent: one refusal");
    ok(!may_become(0), "  it makes no more room");
    play(at() + 120); /* two intervals */
    ok(may_become(4), "  and no second one");
    ok(!may_become(0), "  others have still spent theirs");
    become(4);
    ok(may_become(2), "what it has beyond its resizes may be taken back");
    become(2);
    ok(may_become(1), "  step by step");
    become(1);
    ok(!may_become(0), "  and no more than that");
    play(at() + 3600);
    ok(may_become(0) && may_become(4), "after an hour it has them again");
    become(4);
    become(2);
    ok(!may_become(4), "  as many as before");
    play_out("k0:COMPLETED/0/9[111111111]");
    test_not_begun();
    test_long_start();
    return tap_done();
}
