/* engine_resize_random.c - random jobs with ranges, resized at any moment by
 * users who also cancel, hold and requeue, and a daemon that dies at a random
 * store call or after a random step: many seeds.
 *
 * Whatever happens: every job ends, nothing is promised twice, no attempt is
 * started twice, no job has a number of GPUs outside its range, a resize costs
 * no retry, and the log folds to the same world.
 *
 * usage: engine_resize_random [FIRST [SEEDS]]       1 1000
 */
#include "jobs/base/rng.h"
#include "tests/contract/engine_world.h"

static struct rng rng;

static int32_t draw(int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(&rng) % (uint32_t)(to - from + 1));
}

static bool one_in(int32_t n)
{
    return draw(1, n) == 1;
}

static void add(struct world_script *s, struct world_act act)
{
    if (s->n_acts < WORLD_ACTS)
        s->acts[s->n_acts++] = act;
}

static void draw_job(struct world_script *s, int i)
{
    static const char *const more[] = {
        "},\"retry\":{\"max\":0}}",
        ",\"nodes\":\"1..2\"},\"retry\":{\"max\":0}}",
        ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}",
        ",\"nodes\":\"1..2\"},\"policy\":{\"priority\":\"high\"},"
        "\"retry\":{\"max\":0}}",
    };
    struct world_job *job = &s->jobs[i];
    job->gpus = draw(1, 2);
    job->gpus_max = one_in(4) ? 0 : draw(2, s->gpus_per_node);
    job->spec_more = more[draw(0, 3)];
    for (int k = 0; k < WORLD_ATTEMPTS; k++)
        job->attempts[k] =
            (struct world_attempt){.run_s = draw(20, 200),
                                   .unknown = one_in(6),
                                   .wait_s = one_in(8) ? draw(1, 20) : 0,
                                   .twice = one_in(10)};
    add(s, (struct world_act){.at_s = draw(0, 20), .job = i});
}

static void draw_script(struct world_script *s)
{
    *s = (struct world_script){
        .nodes = draw(1, 3),
        .gpus_per_node = draw(2, 4),
        .policy = one_in(2) ? &policy_fifo : &policy_backfill,
        .grant_delay_s = draw(0, 2),
        .submit_ahead = draw(0, 2),
        .preempt = {.is_on = one_in(3), .grace_s = 5, .min_runtime_s = 4},
        .gives_up = true,
        .in_flight = one_in(2),
    };
    int n = draw(1, 6);
    for (int i = 0; i < n; i++)
        draw_job(s, i);
    for (int i = 0; i < n; i++) {
        for (int k = draw(1, 4); k > 0; k--)
            add(s, (struct world_act){.at_s = draw(0, 90),
                                      .verb = W_RESIZE,
                                      .job = i,
                                      .gpus = draw(0, s->gpus_per_node),
                                      .nodes = one_in(4) ? draw(1, 2) : 0});
        if (one_in(4))
            add(s, (struct world_act){.at_s = draw(20, 100),
                                      .verb = one_in(2) ? W_REQUEUE : W_CANCEL,
                                      .job = i});
    }
}

/* What holds at the end of each world. */
static void check_jobs(struct world *w)
{
    for (const struct job *job = engine_next_job(w->engine, 0); job;
         job = engine_next_job(w->engine, job->id)) {
        for (int32_t k = 1; k <= job->attempt; k++)
            if (alloc_fake_starts(w->cluster, job->id, k) > 1)
                world_bad(w, "started twice", job->id);
        if (job->attempt > 0 &&
            (job->gpus < job->gpus_min || job->gpus > job->gpus_max))
            world_bad(w, "has a size outside its range", job->id);
        if (job->retries > 0)
            world_bad(w, "a resize cost a retry", job->id);
    }
}

static int64_t n_resizes; /* that ran */

static bool run(uint32_t seed)
{
    static struct world_script s;
    struct world w;
    struct store_fault fault = {.n = 0};
    int die_after = 0;
    bool survives = false;

    rng_seed(&rng, seed);
    draw_script(&s);
    s.plans_twice = true;
    switch (draw(0, 4)) {
    case 0:
        fault.n = draw(1, 60);
        fault.after = draw(0, 1);
        break;
    case 1:
        die_after = draw(1, 60);
        break;
    case 2:
        fault.n = draw(2, 60);
        survives = true;
        break;
    case 3:
        s.die_in_flight = s.in_flight ? draw(1, 60) : 0;
        s.is_stored = one_in(2);
        break;
    }
    free(world_run(&w, &s, fault, die_after, survives));
    check_jobs(&w);
    for (const struct job *job = engine_next_job(w.engine, 0); job;
         job = engine_next_job(w.engine, job->id))
        n_resizes += job->resize.cost_from > 0;
    bool is_good = w.n_bad == 0;
    world_clear(&w);
    return is_good;
}

int main(int argc, char **argv)
{
    uint32_t first = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    uint32_t n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000;
    uint32_t n_good = 0;

    for (uint32_t seed = first; seed < first + n; seed++) {
        if (run(seed))
            n_good++;
        else
            tap_diag("seed %u", seed);
    }
    is_int(n_good, n, "random worlds with resizes");
    ok(n_resizes > n / 2, "%lld resizes came to run", (long long)n_resizes);
    return tap_done();
}
