/* engine_cluster_claims.c - a cluster that is not sure what it started, and is
 * away at times. */
#include "tests/contract/engine_cluster.h"

static struct error err;

/* ---- a cluster that is away at times ---------------------------------------
 */
static bool is_away, is_deaf; /* for inventories; for claims */

static int no_inventory(struct alloc *a, struct alloc_node *nodes, size_t cap,
                        size_t *ret_n, struct error *e)
{
    if (is_away)
        return error_set(e, ERR_UNAVAIL, "no answer since 10:00");
    return there->inventory(a, nodes, cap, ret_n, e);
}

static int not_told(struct alloc *a, uint64_t job, int32_t attempt,
                    const char *native_id, struct error *e)
{
    if (is_deaf)
        return error_set(e, ERR_BUSY, "no answer in time");
    return there->claimed(a, job, attempt, native_id, e);
}

static struct alloc *sometimes_away(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.inventory = no_inventory;
    ops.claimed = not_told;
    a->ops = &ops;
    return a;
}

/* ---- claims ----------------------------------------------------------------
 */
static void test_claimed(void)
{
    struct world_script s = one((struct world_attempt){.run_s = 30});

    begin(&s, "a claim");
    while (alloc_fake_starts(w.cluster, 1, 1) == 0) {
        (void)world_step(&w);
        world_advance(&w);
    }
    while (engine_job(w.engine, 1)->holder[0] == '\0')
        (void)world_step(&w);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 0, "staged, it is not told");
    (void)world_step(&w);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 1, "durable, it is");
    play(10);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 1, "  once");
    world_die(&w);
    play(12);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 2, "a new daemon tells it anew");
    finish("k0:COMPLETED/0/1[1]", "");

    s.jobs[0].attempts[0].twice = 1;
    begin(&s, "started twice");
    play(5);
    const struct job *job = engine_job(w.engine, 1);
    is_str(job->native_id, alloc_fake_native_id(w.cluster, 1, 1),
           "the claim decides which is real");
    is_str(job->place, "n1:0", "  and its place is known");
    is_int(engine_claim(w.engine, 1, 1, world_token(job), "n1 twin", "fake:2",
                        &err),
           -1, "the other's worker");
    is_int(err.code, ERR_FENCED, "  is fenced");
    finish("k0:COMPLETED/0/1[1]", "");
}

/* As long as the allocator has not heard of the claim, it speaks of the
 * allocation that it takes for the attempt's: that is not believed. */
static void test_of_another(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 30, .twice = 1});

    world_init(&w, &s);
    w.wrap = sometimes_away;
    is_away = false;
    is_deaf = true;
    ok(world_start(&w), "---- started twice, and not told");
    play(5);
    const char *real = alloc_fake_native_id(w.cluster, 1, 1);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 0, "it was not told");
    is_str(engine_job(w.engine, 1)->native_id, real, "the claim counts");
    world_die(&w);
    play(8);
    is_str(engine_job(w.engine, 1)->native_id, real,
           "a new daemon does not believe it, either");
    is_deaf = false;
    play(20);
    ok(alloc_fake_claims(w.cluster, 1, 1) > 0, "it is told until it hears");
    is_str(engine_job(w.engine, 1)->place, "n1:0", "  and then says where");
    finish("k0:COMPLETED/0/1[1]", "");
}

/* ---- away ------------------------------------------------------------------
 */
static void test_unavailable(void)
{
    struct world_script s = one((struct world_attempt){.run_s = 5});
    double since_s = 0;

    world_init(&w, &s);
    w.wrap = sometimes_away;
    is_away = true;
    double began_s = w.clock.base.wall_s(&w.clock.base);
    ok(world_start(&w), "---- nobody answers");
    play(3.5);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, JOB_QUEUED, "nothing starts");
    is_str(job->reason, "SlurmUnavailable: no answer since 10:00",
           "  and the job says why");
    is_int(w.n_failed_steps, 0, "  but no step fails");
    is_str(engine_unavailable(w.engine, &since_s), "no answer since 10:00",
           "  and it can be asked");
    ok(fabs(since_s - began_s) < 1e-3, "  since when");
    is_away = false;
    play(6);
    ok(!engine_unavailable(w.engine, &since_s), "it answers again");
    finish("k0:COMPLETED/0/1[1]", "");
}

int main(void)
{
    test_claimed();
    test_of_another();
    test_unavailable();
    return tap_done();
}
