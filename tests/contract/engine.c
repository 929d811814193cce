/* engine.c - the engine on the fake cluster and the store in memory: what
 * becomes of a job in each way in which it can go.
 */
#include <signal.h>

#include "tests/contract/engine_ends.h"

static void test_ends(void)
{
    struct world_script s = one((struct world_attempt){.run_s = 5});
    ends(&s, "k0:COMPLETED/0/1[1]", "exit 0 with its report");
    s = one((struct world_attempt){.exit_code = 3});
    ends(&s, "k0:FAILED/3/1[1]", "its own exit code");
    s = one((struct world_attempt){.exit_code = 3, .no_report = 1});
    ends(&s, "k0:FAILED/3/1[1]", "its own exit code, without a report");
    s = one((struct world_attempt){.no_report = 1});
    ends(&s, "k0:FAILED/125/1[1]", "exit 0 without a report is no success");
    s = one((struct world_attempt){.no_claim = 1});
    ends(&s, "k0:FAILED/125/1[1]", "exit 0 without a claim");
    s = one((struct world_attempt){.signal = 9});
    ends(&s, "k0:FAILED/137/1[1]", "a signal");
    s = one((struct world_attempt){.signal = 9, .no_claim = 1});
    ends(&s, "k0:FAILED/125/1[1]", "a signal before the claim");
    s = one((struct world_attempt){.refuse = 1});
    ends(&s, "k0:CANCELLED/130/1[0]", "refused: held, and given up");
    s = one((struct world_attempt){.lose = 1});
    ends(&s, "k0:NODE_FAIL/125/1[1]", "lost");
    s = one((struct world_attempt){.lose = 2});
    ends(&s, "k0:COMPLETED/0/1[1]", "lost after it reported success");
    s = one((struct world_attempt){.lose = 2, .exit_code = 143});
    ends(&s, "k0:NODE_FAIL/125/1[1]", "lost after it reported its death");
    s = one((struct world_attempt){.unknown = 1});
    ends(&s, "k0:COMPLETED/0/1[1]", "not known, then adopted");
    s = one((struct world_attempt){.run_s = 2, .unknown = 1});
    ends(&s, "k0:FAILED/125/1[1]", "over before it was adopted: no claim");
    s = one((struct world_attempt){.run_s = 100});
    s.jobs[0].spec_more = ",\"time_limit\":\"20s\"}}";
    ends(&s, "k0:TIMEOUT/124/1[1]", "the time limit");
}

static const struct job *until_held(struct world *w)
{
    const struct job *job = NULL;
    for (int i = 0; i < 50 && !(job && job->state == JOB_HELD); i++) {
        is_int(world_step(w), 0, "a step");
        job = engine_job(w->engine, 1);
        if (!job || job->state != JOB_HELD)
            world_advance(w);
    }
    return job;
}

/* It is held, and runs when somebody has released it. */
static void test_refused(void)
{
    struct world_script s = one((struct world_attempt){.refuse = 1});
    struct world w;
    struct error err = ERROR_INIT;

    s.jobs[0].attempts[1] =
        (struct world_attempt){.exit_code = 127, .no_claim = 1};
    s.jobs[0].attempts[2] =
        (struct world_attempt){.exit_code = 78, .no_claim = 1};
    world_init(&w, &s);
    ok(world_start(&w), "---- refused for good");
    const struct job *job = until_held(&w);
    is_int(job->state, JOB_HELD, "it is held");
    is_int(job->held_by, HELD_REFUSED, "  by nobody");
    ok(strncmp(job->reason, "Refused: could not be started: ", 31) == 0,
       "  and says why: %s", job->reason);
    is_int(job->retries, 0, "  at no cost to its retries");
    is_int(engine_hold(w.engine, 1, 1000, false, &err), 0, "its user lets go");
    job = until_held(&w);
    is_int(job->attempt, 2, "it is tried again");
    is_str(job->reason,
           "Refused: could not be started: mpirun or srun cannot be run (see "
           "mgpu-stat --logs)",
           "  which there is no launcher for");
    is_int(engine_hold(w.engine, 1, 1000, false, &err), 0, "once more");
    job = until_held(&w);
    is_int(job->attempt, 3, "it is tried again");
    is_str(job->reason,
           "Refused: could not be started: secret not readable (see mgpu-stat "
           "--logs)",
           "  S11: which its user has not put there");
    is_int(job->retries, 0, "  at no cost");
    is_int(engine_hold(w.engine, 1, 1000, false, &err), 0, "once more");
    for (int i = 0; i < 50 && !world_is_over(&w); i++) {
        is_int(world_step(&w), 0, "a step");
        world_advance(&w);
    }
    char *got = world_result(&w);
    is_str(got, "k0:COMPLETED/0/4[0111]", "and runs");
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

/* Full in name only: a job that a node could hold goes to another, and one
 * that waits in the cluster is asked for again. */
static void test_drained(void)
{
    static const struct engine_drained first = {"n1", "drained: fan"};
    struct world_script s = {.nodes = 2, .gpus_per_node = 4, .n_acts = 2};
    struct world w;
    char places[2][ALLOC_PLACE_CAP] = {"", ""};

    s.jobs[0] = (struct world_job){.gpus = 4, .attempts = {{.run_s = 20}}};
    s.jobs[1] = (struct world_job){
        .gpus = 2, .attempts = {{.run_s = 5, .wait_s = 300}, {.run_s = 5}}};
    s.acts[1] = (struct world_act){.at_s = 1, .job = 1};
    world_init(&w, &s);
    w.conf.drained = &first;
    w.conf.n_drained = 1;
    ok(world_start(&w), "---- a drained node");
    for (int i = 0; i < 300 && !world_is_over(&w); i++) {
        (void)world_step(&w);
        for (uint64_t id = 1; id <= 2; id++) {
            const struct job *job = engine_job(w.engine, id);
            if (job && job->place[0])
                (void)snprintf(places[id - 1], sizeof(places[0]), "%s",
                               job->place);
        }
        const struct job *waits = engine_job(w.engine, 2);
        if (waits && waits->state == JOB_DISPATCHING && waits->attempt == 1 &&
            waits->pending_id[0])
            engine_drained_changed(w.engine, true);
        world_advance(&w);
    }
    char *got = world_result(&w);
    is_str(got, "k0:COMPLETED/0/1[1] k1:COMPLETED/0/2[01]",
           "what waited there is asked for again");
    ok(strncmp(places[0], "n2:", 3) == 0, "it runs on the other: %s",
       places[0]);
    ok(strncmp(places[1], "n2:", 3) == 0, "and so does the next: %s",
       places[1]);
    size_t n = 0;
    const struct alloc_node *nodes = engine_nodes(w.engine, &n);
    ok(n == 2 && !nodes[0].is_up && nodes[0].is_drained &&
           strcmp(nodes[0].why, "drained: fan") == 0,
       "which is shown as down, with the reason");
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

/* Before its limit an attempt is told, once, and may end by it. */
static void is_warned(const struct world_script *s, const char *want,
                      int32_t n_signals, int32_t signo, const char *what)
{
    struct world w;
    int32_t last = 0;
    char *got = world_run(&w, s, no_fault, 0, false);

    is_str(got, want, what);
    is_int(alloc_fake_signals(w.cluster, w.ids[0], 1, &last), n_signals,
           "  so many signals");
    is_int(last, signo, "  of this kind");
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

static void test_warning(void)
{
    static const char usr1[] =
        ",\"time_limit\":\"60s\",\"warn_signal\":\"USR1\","
        "\"warn_before\":\"20s\"}}";
    struct world_script s = one((struct world_attempt){.run_s = 100});

    s.jobs[0].spec_more = usr1;
    is_warned(&s, "k0:TIMEOUT/124/1[1]", 1, SIGUSR1, "told, and then ended");
    s.jobs[0].attempts[0].run_s = 50;
    is_warned(&s, "k0:COMPLETED/0/1[1]", 1, SIGUSR1, "told, and done in time");
    s.jobs[0].attempts[0].run_s = 30;
    is_warned(&s, "k0:COMPLETED/0/1[1]", 0, 0, "done before it is told");
    s.jobs[0].attempts[0] = (struct world_attempt){.run_s = 50, .exit_code = 3};
    is_warned(&s, "k0:FAILED/3/1[1]", 1, SIGUSR1, "told, and its own failure");
    s.jobs[0].attempts[0] =
        (struct world_attempt){.run_s = 50, .signal = SIGUSR1};
    is_warned(&s, "k0:TIMEOUT/124/1[1]", 1, SIGUSR1, "dead of this one");
    s.jobs[0].attempts[0] =
        (struct world_attempt){.run_s = 50, .exit_code = 128 + SIGUSR1};
    is_warned(&s, "k0:TIMEOUT/124/1[1]", 1, SIGUSR1, "or it exits as if");
    s = one((struct world_attempt){.run_s = 100});
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"}}";
    is_warned(&s, "k0:TIMEOUT/124/1[1]", 0, 0, "a program is told nothing");
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\",\"warn_signal\":\"TERM\"},"
                          "\"retry\":{\"max\":1,\"on\":[\"time_limit\"]}}";
    is_warned(&s, "k0:COMPLETED/0/2[11]", 1, SIGTERM,
              "stopped half-way to its limit, and tried again");
}

/* F36: somebody sets the clock, forth, back, and to 1970. */
static void test_clock(void)
{
    static const double epochs_s[] = {3600, -7200, -1.7e9, 40 * 365 * 86400.0};
    struct world_script s = one((struct world_attempt){.run_s = 90});
    struct world w;

    s.node_lost_s = 30;
    s.jobs[0].spec_more = ",\"time_limit\":\"100s\"},\"retry\":{\"max\":0}}";
    for (size_t i = 0; i < sizeof(epochs_s) / sizeof(epochs_s[0]); i++) {
        world_init(&w, &s);
        ok(world_start(&w), "the clock is set by %.0f s", epochs_s[i]);
        for (int k = 0; k < 400 && !world_is_over(&w); k++) {
            if (k == 80)
                w.clock.epoch_s += epochs_s[i];
            (void)world_step(&w);
            w.clock.t_s += 0.5;
        }
        char *got = world_result(&w);
        is_str(got, "k0:COMPLETED/0/1[1]", "  and nothing comes of it");
        is_int(w.n_bad, 0, "  nothing was odd");
        free(got);
        world_clear(&w);
    }
}

static void test_stall(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = INFINITY, .silent = 1});
    s.node_lost_s = 10;
    ends(&s, "k0:FAILED/125/1[1]", "a worker falls silent");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1}}";
    ends(&s, "k0:COMPLETED/0/2[11]", "and is tried again");
    s = one((struct world_attempt){.run_s = INFINITY, .no_claim = 1});
    s.node_lost_s = 10;
    ends(&s, "k0:FAILED/125/1[1]", "a worker never claims");
    s = one((struct world_attempt){.run_s = 100});
    s.node_lost_s = 10;
    ends(&s, "k0:COMPLETED/0/1[1]", "one that beats is left alone");
}

static void test_cancel(void)
{
    struct world_script s = one((struct world_attempt){.run_s = INFINITY});

    s.n_acts = 2;
    s.acts[1] = (struct world_act){.at_s = 5, .verb = W_CANCEL};
    ends(&s, "k0:CANCELLED/130/1[1]", "cancelled while running");
    s.acts[1].uid = -1;
    ends(&s, "k0:CANCELLED/143/1[1]", "cancelled by an administrator");
    s.acts[1].uid = 0;
    s.acts[1].at_s = 0;
    ends(&s, "k0:CANCELLED/130/1[1]", "cancelled while starting");
    s.grant_delay_s = 3;
    s.acts[1].at_s = 1;
    ends(&s, "k0:CANCELLED/130/1[0]", "cancelled before the grant");
    s.jobs[0].attempts[0].unknown = 1;
    ends(&s, "k0:CANCELLED/130/1[0]", "cancelled while unknown");
    s.acts[0].hold = true;
    ends(&s, "k0:CANCELLED/130/0[]", "cancelled while held");
    s.grant_delay_s = 0;
    s.acts[0].hold = false;
    s.jobs[0].attempts[0] = (struct world_attempt){.run_s = 2};
    s.acts[1].at_s = 5;
    ends(&s, "k0:COMPLETED/0/1[1]", "cancelled too late");

    s.jobs[0].attempts[0].run_s = 20;
    s.jobs[0].gpus = 4;
    s.jobs[1].gpus = 1;
    s.n_acts = 3;
    s.acts[1] = (struct world_act){.at_s = 1, .verb = W_SUBMIT, .job = 1};
    s.acts[2] = (struct world_act){.at_s = 3, .verb = W_CANCEL, .job = 1};
    ends(&s, "k0:COMPLETED/0/1[1] k1:CANCELLED/130/0[]",
         "cancelled while queued");
}

static void test_hold(void)
{
    struct world_script s = one((struct world_attempt){.run_s = 2});

    s.n_acts = 3;
    s.acts[0].hold = true;
    s.acts[1] = (struct world_act){.at_s = 5, .verb = W_RELEASE};
    s.acts[2] = (struct world_act){.at_s = 6, .verb = W_HOLD};
    ends(&s, "k0:COMPLETED/0/1[1]", "held, released, then too late to hold");
}

static void test_many(const struct policy *p)
{
    struct world_script s = {
        .nodes = 1, .gpus_per_node = 4, .policy = p, .n_acts = 20};
    char want[1024] = "";
    size_t len = 0;

    for (int i = 0; i < 20; i++) {
        s.jobs[i].gpus = 1 + i % 4;
        s.jobs[i].attempts[0].run_s = 3 + i;
        s.acts[i] = (struct world_act){.at_s = i / 4, .job = i};
        len += (size_t)snprintf(want + len, sizeof(want) - len,
                                "%sk%d:COMPLETED/0/1[1]", i ? " " : "", i);
    }
    ends(&s, want, p->name);
}

static void test_exit_hook(void)
{
    struct world_script s = one((struct world_attempt){.run_s = 2});
    struct world w;

    world_init(&w, &s);
    w.exit_hook_fails = 3;
    ok(world_start(&w), "start");
    while (!world_is_over(&w)) {
        (void)world_step(&w);
        world_advance(&w);
    }
    char *got = world_result(&w);
    is_str(got, "k0:COMPLETED/0/1[1]", "a failing exit hook postpones the end");
    is_int(w.n_exit_hooks, 4, "  until it does not fail");
    ok(w.clock.t_s >= 1005, "  and is not called in a hurry");
    free(got);
    world_clear(&w);
}

/* The daemon was away for longer than a worker may be silent: what could
 * not be heard is not held against the worker. */
static void test_away(bool claimed)
{
    struct world_script s = one((struct world_attempt){.run_s = 500});
    struct error err = ERROR_INIT;
    struct world w;

    s.node_lost_s = 10;
    s.jobs[0].attempts[0].no_claim = !claimed;
    world_init(&w, &s);
    ok(world_start(&w), "a daemon");
    for (int i = 0; i < 5; i++)
        (void)world_step(&w);
    world_stop(&w);
    w.clock.t_s += 200;
    ok(world_start(&w), "another, long after");
    for (int i = 0; i < 5; i++)
        is_int(engine_step(w.engine, &err), 0, "a step without a beat");
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, claimed ? JOB_RUNNING : JOB_DISPATCHING,
           "the job lives on");
    is_int(engine_claim(w.engine, 1, 1, world_token(job),
                        claimed ? job->holder : "late", "", &err),
           0, "its worker is welcome");
    for (int i = 0; i < 500 && !world_is_over(&w); i++) {
        w.clock.t_s += 1;
        (void)world_step(&w);
    }
    is_int(job->state, JOB_COMPLETED, "and ends well");
    world_clear(&w);
}

int main(void)
{
    test_away(true);
    test_away(false);
    test_ends();
    test_refused();
    test_drained();
    test_warning();
    test_clock();
    test_stall();
    test_cancel();
    test_hold();
    test_many(&policy_fifo);
    test_many(&policy_backfill);
    test_exit_hook();
    return tap_done();
}
