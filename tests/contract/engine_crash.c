/* engine_crash.c - the daemon dies at every store call, before it and after
 * it, and after every step; a new one goes on, and the world ends as if
 * nothing had happened: the same states and exit codes, every attempt
 * started once, nothing acknowledged lost, a log that folds.
 *
 * The same with a store that fails and a daemon that lives: the batch is
 * undone, its requests are told so and come again.
 *
 * And all of it once more with a disk that is slow, while users and workers
 * go on asking: then the daemon dies with a batch on its way, too.
 */
#include <math.h>

#include "tests/contract/engine_world.h"
#include "tests/unit/db/tmp.h"

static const struct world_script script = {
    .nodes = 2,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .grant_delay_s = 0.5,
    .jobs =
        {
            {.gpus = 1, .attempts = {{.run_s = 30}}},
            {.gpus = 2, .attempts = {{.run_s = 7, .exit_code = 3}}},
            {.gpus = 4,
             .spec_more = "},\"retry\":{\"max\":2}}",
             .attempts = {{.run_s = 5, .signal = 9}, {.run_s = 6, .lose = 1}}},
            {.gpus = 1, .attempts = {{.run_s = 40, .unknown = 1}}},
            {.gpus = 1,
             .spec_more = ",\"time_limit\":\"15s\",\"warn_signal\":\"TERM\","
                          "\"warn_before\":\"5s\"},\"retry\":{\"max\":0}}",
             .attempts = {{.run_s = 1000}}},
            {.gpus = 2, .attempts = {{.run_s = INFINITY}}},
            {.gpus = 4, .attempts = {{.run_s = 9}}},
            {.gpus = 1, .attempts = {{.refuse = 1}}},
            {.gpus = 3, .attempts = {{.run_s = 11}}},
            {.gpus = 1, .attempts = {{.run_s = INFINITY}}},
            {.gpus = 1, .attempts = {{.run_s = 4, .wait_s = 12}}},
            {.gpus = 1,
             .spec_more = "},\"retry\":{\"max\":2}}",
             .attempts =
                 {{.run_s = 8, .signal = 15, .ended_by = ALLOC_BY_LIMIT}}},
            {.gpus = 1,
             .spec_more = "},\"retry\":{\"max\":2}}",
             .attempts =
                 {{.run_s = 8, .signal = 15, .ended_by = ALLOC_BY_OTHER}}},
            {.gpus = 1, .attempts = {{.run_s = 6, .twice = 1}}},
            {.gpus = 1, .after = "afterok", .after_job = 0},
            {.gpus = 1, .after = "afternotok", .after_job = 1},
            {.gpus = 1, .after = "afterok", .after_job = 1},
            {.gpus = 1, .after = "afterany", .after_job = 16},
            {.gpus = 1, .after = "afterok", .after_job = 1},
            {.gpus = 1, .attempts = {{.run_s = 1000}, {.run_s = 20}}},
        },
    .acts =
        {
            {.at_s = 0, .job = 0},
            {.at_s = 0, .job = 1},
            {.at_s = 1, .job = 2},
            {.at_s = 1, .job = 3},
            {.at_s = 1, .job = 4},
            {.at_s = 2, .job = 5},
            {.at_s = 2, .job = 6, .hold = true},
            {.at_s = 3, .job = 7},
            {.at_s = 3, .job = 8},
            {.at_s = 3, .job = 9, .hold = true},
            {.at_s = 20, .verb = W_RELEASE, .job = 6},
            {.at_s = 25, .verb = W_CANCEL, .job = 5},
            {.at_s = 26, .verb = W_CANCEL, .job = 9},
            {.at_s = 2, .job = 10},
            {.at_s = 2, .job = 11},
            {.at_s = 2, .job = 12},
            {.at_s = 2, .job = 13},
            {.at_s = 4, .job = 14},
            {.at_s = 4, .job = 15},
            {.at_s = 4, .job = 16},
            {.at_s = 4, .job = 17},
            {.at_s = 4, .job = 18},
            {.at_s = 50, .job = 19},
            {.at_s = 52, .verb = W_TOP, .job = 19},
            {.at_s = 70, .verb = W_REQUEUE, .job = 19},
            {.at_s = 60, .verb = W_CANCEL, .job = 16},
            {.at_s = 60, .verb = W_RELEASE, .job = 18},
        },
    .n_acts = 27,
};

static const char want[] =
    "k0:COMPLETED/0/1[1] k1:FAILED/3/1[1] k2:COMPLETED/0/3[111] "
    "k3:COMPLETED/0/1[1] k4:TIMEOUT/124/1[1] k5:CANCELLED/130/1[1] "
    "k6:COMPLETED/0/1[1] k7:CANCELLED/130/1[0] k8:COMPLETED/0/1[1] "
    "k9:CANCELLED/130/0[] k10:COMPLETED/0/1[1] k11:TIMEOUT/124/1[1] "
    "k12:CANCELLED/143/1[1] k13:COMPLETED/0/1[1] k14:COMPLETED/0/1[1] "
    "k15:COMPLETED/0/1[1] k16:CANCELLED/130/0[] k17:COMPLETED/0/1[1] "
    "k18:COMPLETED/0/1[1] k19:COMPLETED/0/2[11]";

struct tally {
    int n_bad, n_struck;
};

/* One run; counts those that end otherwise, and shows the first. */
static void run(struct tally *t, const struct world_script *s,
                struct store_fault fault, int die_after, bool survives)
{
    struct world w;
    char *got = world_run(&w, s, fault, die_after, survives);

    t->n_struck +=
        survives ? w.n_failed_steps == 1 && w.n_crashes == 0 : w.n_crashes == 1;
    if (strcmp(got, want) != 0 || w.n_bad > 0) {
        if (t->n_bad++ < 3)
            tap_diag("call %d%s, step %d:\n got %s\nwant %s", (int)fault.n,
                     fault.after ? " (after)" : "", die_after, got, want);
    }
    free(got);
    world_clear(&w);
}

/* The same on real files, at some of the calls: each costs a sync. */
static void test_sqlite(int n_calls)
{
    struct tally t = {0};
    struct world_script s = script;
    int n_runs = 0;

    for (int n = 1; n <= n_calls; n += 6) {
        struct tmp tmp;
        tmp_begin(&tmp);
        s.db_dir = tmp.dir;
        run(&t, &s, (struct store_fault){.n = n, .after = n_runs % 2}, 0,
            false);
        tmp_end(&tmp);
        n_runs++;
    }
    is_int(t.n_struck, n_runs, "it dies at some store calls of SQLite");
    is_int(t.n_bad, 0, "  and the world is the same");
}

static void sweep(const struct world_script *s, const char *what)
{
    struct world w;
    struct store_fault fault = {.n = 0};
    struct tally t = {0};

    char *got = world_run(&w, s, fault, 0, false);
    int n_calls = (int)w.n_calls, n_steps = w.n_steps, n_flights = w.n_flights;
    is_str(got, want, what);
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    ok(n_calls > 40, "it takes more than 40 store calls");
    tap_diag("%d store calls, %d steps, %d of them slow", n_calls, n_steps,
             n_flights);
    free(got);
    world_clear(&w);

    for (fault.after = 0; fault.after < 2; fault.after++) {
        for (fault.n = 1; fault.n <= n_calls; fault.n++)
            run(&t, s, fault, 0, false);
    }
    is_int(t.n_struck, 2 * n_calls, "it dies at each store call");
    is_int(t.n_bad, 0, "  and the world is the same");

    t = (struct tally){0};
    for (int k = 1; k < n_steps; k++)
        run(&t, s, (struct store_fault){.n = 0}, k, false);
    is_int(t.n_struck, n_steps - 1, "it dies after each step");
    is_int(t.n_bad, 0, "  and the world is the same");

    t = (struct tally){0};
    fault.after = 0;
    for (fault.n = 2; fault.n <= n_calls; fault.n++)
        run(&t, s, fault, 0, true);
    is_int(t.n_struck, n_calls - 1, "it lives on after each failed call");
    is_int(t.n_bad, 0, "  and the world is the same");

    struct world_script dies = *s;
    t = (struct tally){0};
    for (int k = 1; k <= 2 * n_flights; k++) {
        dies.die_in_flight = (k + 1) / 2;
        dies.is_stored = k % 2 == 0;
        run(&t, &dies, (struct store_fault){.n = 0}, 0, false);
    }
    is_int(t.n_struck, 2 * n_flights, "it dies with each batch on its way");
    is_int(t.n_bad, 0, "  and the world is the same");
    if (s->in_flight)
        ok(n_flights > 40, "  of more than 40");
    else
        test_sqlite(n_calls);
}

/* Nobody beats for a job that is over: its end has to say how far it came. */
static void test_progress(void)
{
    struct world_script one = {.nodes = 1, .gpus_per_node = 1, .n_acts = 1};
    struct world w;

    one.jobs[0] = (struct world_job){.gpus = 1, .attempts = {{.run_s = 5}}};
    free(world_run(&w, &one, (struct store_fault){.n = 0}, 0, false));
    is_int(engine_job(w.engine, 1)->iteration, 7, "what a job came to");
    world_die(&w);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->iteration, 7, "the next daemon says, too");
    ok(fabs(job->loss - 0.25) < 1e-12 && isnan(job->eval_accuracy),
       "  and nothing that was never said");
    world_clear(&w);
}

int main(void)
{
    struct world_script slow = script;

    test_progress();

    sweep(&script, "without a fault");
    slow.in_flight = true;
    slow.acts[11].at_s = 60; /* the queue's order is another: k5 starts late */
    sweep(&slow, "a slow disk");
    return tap_done();
}
