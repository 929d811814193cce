/* engine_random.c - random jobs, users, failures and crashes, many seeds.
 *
 * Each seed draws a cluster, jobs that end in every way, users who cancel,
 * hold and release at any moment, and a daemon that dies at a random store
 * call or after a random step, or lives on with the failure. Whatever
 * happens: every job ends, nothing is promised twice, no attempt is started
 * twice, the log folds, and what was acknowledged is there.
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

static struct world_attempt draw_attempt(bool beats)
{
    struct world_attempt a = {.run_s = draw(1, 60)};
    if (one_in(6))
        a.exit_code = draw(1, 100);
    else if (one_in(6))
        a.signal = draw(1, 15);
    else if (one_in(8))
        a.lose = 1;
    a.refuse = one_in(15);
    a.unknown = one_in(6);
    a.no_report = one_in(15);
    a.no_claim = one_in(15);
    a.silent = beats && one_in(10);
    a.wait_s = one_in(8) ? draw(1, 30) : 0;
    a.twice = one_in(10);
    if (one_in(10))
        a.ended_by = one_in(2) ? ALLOC_BY_LIMIT : ALLOC_BY_OTHER;
    return a;
}

/* Machines with GPUs of two types. */
static void draw_parts(struct world_script *s)
{
    static const char *const more[] = {
        ",\"gpu_type\":\"fake0\"},\"retry\":{\"max\":1}}",
        ",\"gpu_type\":\"fake1\"},\"retry\":{\"max\":1}}",
        ",\"exclusive\":true},\"retry\":{\"max\":0}}",
        ",\"exclusive\":true,\"gpu_type\":\"fake1\",\"nodes\":\"1..2\"}}",
    };
    s->parts = 2;
    s->nodes *= 2;
    s->shared = draw(s->gpus_per_node, 2 * s->gpus_per_node);
    for (size_t i = 0; i < WORLD_JOBS; i++)
        if (s->jobs[i].spec_more && s->jobs[i].gpus > 0 && one_in(2))
            s->jobs[i].spec_more = more[draw(0, 3)];
}

static void draw_script(struct world_script *s)
{
    static const char *const more[] = {
        "},\"retry\":{\"max\":0}}",
        "},\"retry\":{\"max\":1}}",
        "},\"retry\":{\"max\":5}}",
        ",\"time_limit\":\"20s\"},\"retry\":{\"max\":1}}",
        (",\"nodes\":\"1..2\",\"time_limit\":\"40s\"},"
         "\"policy\":{\"priority\":\"high\"}}"),
    };
    static const char *const after[] = {"afterok", "afternotok", "afterany",
                                        "after"};
    *s = (struct world_script){
        .nodes = draw(1, 3),
        .gpus_per_node = draw(1, 4),
        .policy = one_in(2) ? &policy_fifo : &policy_backfill,
        .grant_delay_s = draw(0, 2),
        .submit_ahead = draw(0, 2),
        .node_lost_s = one_in(3) ? 10 : 0,
        .preempt = {.is_on = one_in(2), .grace_s = 5, .min_runtime_s = 4},
        .gives_up = true,
    };
    int n = draw(1, 12);
    for (int i = 0; i < n; i++) {
        s->jobs[i].gpus = draw(0, s->gpus_per_node);
        s->jobs[i].spec_more = more[draw(0, 4)];
        if (i > 0 && one_in(4)) {
            s->jobs[i].after = after[draw(0, 3)];
            s->jobs[i].after_job = draw(0, i - 1);
        }
        for (int k = 0; k < WORLD_ATTEMPTS; k++)
            s->jobs[i].attempts[k] = draw_attempt(s->node_lost_s > 0);
        s->acts[s->n_acts++] = (struct world_act){
            .at_s = 3 * i * draw(0, 1), .job = i, .hold = one_in(8)};
        if (s->acts[s->n_acts - 1].hold)
            s->acts[s->n_acts++] = (struct world_act){
                .at_s = draw(0, 100), .verb = W_RELEASE, .job = i};
    }
    for (int i = 0; i < n; i++) {
        if (one_in(4))
            s->acts[s->n_acts++] =
                (struct world_act){.at_s = draw(0, 100),
                                   .verb = one_in(3) ? W_TOP : W_REQUEUE,
                                   .job = i};
        if (one_in(3))
            s->acts[s->n_acts++] =
                (struct world_act){.at_s = draw(0, 100),
                                   .verb = W_CANCEL,
                                   .job = i,
                                   .uid = one_in(3) ? -1 : 0};
    }
    if (one_in(3))
        draw_parts(s);
}

/* No attempt of any job was started more than once. */
static void check_starts(struct world *w)
{
    for (const struct job *job = engine_next_job(w->engine, 0); job;
         job = engine_next_job(w->engine, job->id)) {
        for (int32_t k = 1; k <= job->attempt; k++) {
            if (alloc_fake_starts(w->cluster, job->id, k) > 1)
                world_bad(w, "started twice", job->id);
        }
    }
}

static int64_t n_left_out; /* of walks: jobs that had ended */

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
    s.in_flight = one_in(2);
    switch (draw(0, 4)) {
    case 4:
        s.die_in_flight = s.in_flight ? draw(1, 60) : 0;
        s.is_stored = one_in(2);
        break;
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
    }
    free(world_run(&w, &s, fault, die_after, survives));
    check_starts(&w);
    bool is_good = w.n_bad == 0;
    n_left_out += w.n_left_out;
    world_clear(&w);
    return is_good;
}

int main(int argc, char **argv)
{
    uint32_t n = 500, n_good = 0;
    uint32_t first = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;

    for (uint32_t seed = first; seed < first + n; seed++) {
        if (run(seed))
            n_good++;
        else
            tap_diag("seed %u", seed);
    }
    is_int(n_good, n, "random worlds");
    ok(n_left_out > n, "who has ended is left out where nobody asks for it");
    return tap_done();
}
