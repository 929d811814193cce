/* engine_progress.c - F11: an attempt whose worker beats and gets nothing done
 * is STALLED, after many times what an iteration takes; ended, and tried again,
 * where its spec has it so. */
#include "tests/contract/engine_cluster.h"

static struct engine_beat said;
static struct error err;

static void second_lags(void *arg, const struct job *job, char *ret, size_t cap)
{
    (void)arg, (void)job;
    (void)snprintf(ret, cap, "; rank 1 lags");
}

/* in  watchdog  members of the spec's section */
static void start(const char *watchdog, int retries, const char *what)
{
    static char more[160];
    static struct world_script s;

    s = one((struct world_attempt){.run_s = 20000, .silent = 1});
    s.node_lost_s = 30;
    (void)snprintf(more, sizeof(more),
                   "},\"retry\":{\"max\":%d},\"watchdog\":{%s}}", retries,
                   watchdog);
    s.jobs[0].spec_more = more;
    world_init(&w, &s);
    w.conf.stall_factor = 20;
    w.conf.stall_min_s = 60;
    w.lags = second_lags;
    said = (struct engine_beat){.loss = NAN, .t_iter = NAN};
    ok(world_start(&w), "---- %s", what);
    play(1);
}

/* A beat each 5 s, until then, of so many further iterations. */
static void beats(double until_s, int64_t iterations)
{
    while (w.clock.t_s < 1000 + until_s) {
        w.clock.t_s = fmin(w.clock.t_s + 5, 1000 + until_s);
        said.iteration += iterations;
        if (engine_beat(w.engine, 1, 1, &said, &err) < 0)
            return;
        (void)world_step(&w);
    }
}

static const struct job *job(void)
{
    return engine_job(w.engine, 1);
}

static void end(const char *want, const char *reason)
{
    for (int i = 0; i < 10; i++) {
        (void)world_step(&w);
        world_advance(&w);
    }
    ok(strncmp(job()->reason, reason, strlen(reason)) == 0, "  it says why: %s",
       job()->reason);
    play_out(want);
}

static const char ENDS[] = "\"action\":\"end\"";

static void test_stuck(void)
{
    start(ENDS, 0, "an iteration a second, then none");
    said.t_iter = 1;
    beats(101, 5);
    is_int(job()->state, JOB_RUNNING, "it runs");
    beats(160, 0);
    is_int(job()->state, JOB_RUNNING, "59 s without one are nothing yet");
    beats(162, 0);
    is_int(job()->state, JOB_STALLED, "60 s are");
    ok(strncmp(job()->reason,
               "no progress for 61 s after iteration 100, step time "
               "1 s; rank 1 lags",
               68) == 0,
       "  with its numbers and who is behind: %s", job()->reason);
    beats(170, 0);
    is_int(job()->state, JOB_STALLED, "that it beats is no progress");
    beats(175, 1);
    is_int(job()->state, JOB_RUNNING, "another iteration is");
    is_str(job()->reason, "", "  and nothing is wrong any more");
    beats(236, 0);
    is_int(job()->state, JOB_STALLED, "it comes to nothing again");
    beats(260, 0);
    is_int(job()->state, JOB_STALLED, "it has as long as one that is silent");
    beats(268, 0);
    end("k0:FAILED/125/1[1]", "no progress for ");
}

static void test_again(void)
{
    start(ENDS, 1, "again");
    said.t_iter = 1;
    beats(20, 5);
    beats(112, 0);
    play(130);
    is_int(job()->retries, 1, "what was ended for it is tried again: stalled");
    world_clear(&w);
}

/* Of the last nine the middle one counts, 20 times. */
static void test_slow(void)
{
    start(ENDS, 0, "long iterations");
    said.t_iter = 10;
    beats(51, 1);
    said.t_iter = 0.01;
    beats(61, 1);
    said.t_iter = 100;
    beats(71, 1);
    beats(269, 0);
    is_int(job()->state, JOB_RUNNING, "20 of them have time to pass");
    beats(273, 0);
    is_int(job()->state, JOB_STALLED, "and have passed");
    world_clear(&w);

    start(ENDS, 0, "a worker that does not measure");
    beats(401, 0);
    said.iteration = 1;
    beats(411, 0);
    beats(431, 1);
    beats(490, 0);
    is_int(job()->state, JOB_RUNNING, "what it takes on average counts");
    beats(580, 0);
    is_int(job()->state, JOB_STALLED, "  20 times");
    world_clear(&w);
}

/* Stuck is not who works at something else, has done all, or was not heard. */
static void test_not_stuck(void)
{
    start(ENDS, 0, "an evaluation, and no iteration");
    said.t_iter = 1;
    beats(20, 5);
    for (int i = 1; i < 60; i++) {
        said.work++;
        beats(20 + 5 * i, 0);
    }
    is_int(job()->state, JOB_RUNNING, "is work");
    w.clock.t_s = 1800;
    engine_was_away(w.engine);
    beats(855, 0);
    is_int(job()->state, JOB_RUNNING,
           "what the daemon did not hear is nothing");
    beats(865, 0);
    is_int(job()->state, JOB_STALLED, "and from there on it counts");
    world_clear(&w);

    start(ENDS, 0, "all iterations are done");
    said.t_iter = 1;
    said.iterations_total = 20;
    beats(21, 5);
    beats(900, 0);
    is_int(job()->state, JOB_RUNNING, "what comes after is no iteration");
    world_clear(&w);

    start(ENDS, 0, "no iteration is known");
    beats(900, 0);
    is_int(job()->state, JOB_RUNNING, "so none is missed");
    world_clear(&w);

    start(ENDS, 0, "the administrator wants none of it");
    w.conf.stall_factor = 0;
    said.t_iter = 1;
    beats(20, 5);
    beats(900, 0);
    is_int(job()->state, JOB_RUNNING, "as long as he does");
    w.conf.stall_factor = 20;
    beats(910, 0);
    is_int(job()->state, JOB_STALLED, "  in force at once");
    world_clear(&w);
}

/* One piece of work, of which the worker says that it is in it. */
static void test_checkpoint(void)
{
    start(ENDS, 0, "a checkpoint that takes long");
    said.t_iter = 1;
    beats(21, 5);
    said.saves = true;
    said.work++;
    beats(720, 0);
    is_int(job()->state, JOB_RUNNING, "11 minutes are none too long for it");
    said.saves = false;
    said.work++;
    beats(725, 0);
    beats(775, 0);
    is_int(job()->state, JOB_RUNNING, "it ends, and an iteration is awaited");
    beats(790, 0);
    is_int(job()->state, JOB_STALLED, "  as long as ever");
    beats(795, 5);
    is_int(job()->state, JOB_RUNNING, "there it is");
    said.saves = true;
    beats(800, 0);
    beats(1500, 0);
    is_int(job()->state, JOB_RUNNING, "another one");
    beats(1525, 0);
    is_int(job()->state, JOB_STALLED, "that hangs: 12 times stall_min");
    ok(strstr(job()->reason, " in a checkpoint after iteration ") != NULL,
       "  and where it hangs: %s", job()->reason);
    beats(1600, 0);
    end("k0:FAILED/125/1[1]", "no progress for ");

    start("\"action\":\"end\",\"stall_min\":\"10s\"", 0, "a spec of its own");
    said.t_iter = 0.01;
    beats(21, 5);
    said.saves = true;
    beats(140, 0);
    is_int(job()->state, JOB_RUNNING, "its own stall_min counts, 12 times");
    beats(150, 0);
    is_int(job()->state, JOB_STALLED, "  and no more");
    world_clear(&w);
}

static void test_spec(void)
{
    start("\"action\":\"end\",\"stall_factor\":100,\"stall_min\":\"10s\"", 0,
          "a spec of its own");
    said.t_iter = 1;
    beats(21, 5);
    beats(118, 0);
    is_int(job()->state, JOB_RUNNING, "100 iterations, not 20");
    beats(125, 0);
    is_int(job()->state, JOB_STALLED, "  nor 10 s");
    world_clear(&w);

    start("", 0, "of a command somebody is only told");
    said.t_iter = 1;
    beats(20, 5);
    beats(900, 0);
    is_int(job()->state, JOB_STALLED, "it stays so, and runs");
    play(1000);
    end("k0:FAILED/125/1[1]", "its worker sent no heartbeats any more");
}

/* A new daemon knows what the worker says to it. */
static void test_restart(void)
{
    start(ENDS, 0, "a daemon that is started again");
    said.t_iter = 1;
    beats(21, 5);
    beats(85, 0);
    is_int(job()->state, JOB_STALLED, "it is stuck");
    world_stop(&w);
    ok(world_start(&w), "a new daemon");
    beats(95, 0);
    is_int(job()->state, JOB_RUNNING, "that has yet to see it");
    beats(155, 0);
    is_int(job()->state, JOB_STALLED, "  sees it");
    beats(190, 0);
    end("k0:FAILED/125/1[1]", "no progress for ");
}

/* A disk that hangs, and then says no: what beats said meanwhile is kept. */
static void test_undo(void)
{
    const struct error full = {.code = ERR_IO, .msg = "No space left"};
    struct store_batch *batch;

    start(ENDS, 0, "a batch that is undone after long");
    said.t_iter = 1;
    beats(21, 5);
    is_int(engine_prioritise(w.engine, 1, 1000, 5, &err), 0, "a change of it");
    ok(engine_step_begin(w.engine, &batch, &err) == 0 && batch,
       "  is with the store");
    for (int i = 0; i < 30; i++) {
        w.clock.t_s += 5;
        said.iteration += 5;
        if (engine_beat(w.engine, 1, 1, &said, &err) < 0)
            break;
    }
    is_int(engine_step_end(w.engine, &full, &batch, &err), -1, "  in vain");
    (void)world_step(&w);
    is_int(job()->state, JOB_RUNNING, "it worked meanwhile, and is not stuck");
    beats(229, 0);
    is_int(job()->state, JOB_RUNNING, "from there on it counts");
    beats(236, 0);
    is_int(job()->state, JOB_STALLED, "  60 s");
    world_clear(&w);
}

int main(void)
{
    test_stuck();
    test_again();
    test_slow();
    test_not_stuck();
    test_checkpoint();
    test_spec();
    test_restart();
    test_undo();
    return tap_done();
}
