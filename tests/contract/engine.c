/* engine.c - the engine on the fake cluster and the store in memory: what
 * becomes of a job in each way in which it can go.
 */
#include <signal.h>

#include "tests/contract/engine_world.h"

static const struct store_fault no_fault = {.n = 0};

/* Plays the script and compares the end. */
static void ends(const struct world_script *s, const char *want,
                 const char *what)
{
    struct world w;
    char *got = world_run(&w, s, no_fault, 0, false);

    is_str(got, want, what);
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

static struct world_script one(struct world_attempt first)
{
    struct world_script s = {.nodes = 1, .gpus_per_node = 4, .n_acts = 1};
    s.jobs[0] = (struct world_job){.gpus = 1, .attempts = {first}};
    return s;
}

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
           "Refused: could not be started: what starts the ranks is not there",
           "  which there is no launcher for");
    is_int(engine_hold(w.engine, 1, 1000, false, &err), 0, "once more");
    for (int i = 0; i < 50 && !world_is_over(&w); i++) {
        is_int(world_step(&w), 0, "a step");
        world_advance(&w);
    }
    char *got = world_result(&w);
    is_str(got, "k0:COMPLETED/0/3[011]", "and runs");
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
    ok(n == 2 && !nodes[0].is_up && strcmp(nodes[0].why, "drained: fan") == 0,
       "which is shown as down, with the reason");
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

static void test_retries(void)
{
    struct world_script s = one((struct world_attempt){.signal = 11});
    s.jobs[0].spec_more = "},\"retry\":{\"max\":2}}";
    ends(&s, "k0:COMPLETED/0/2[11]", "again after a signal");
    s.jobs[0].attempts[1].lose = 1;
    ends(&s, "k0:COMPLETED/0/3[111]", "again after a loss");
    s.jobs[0].attempts[2].signal = 6;
    ends(&s, "k0:FAILED/134/3[111]", "until the retries are used up");
    s.jobs[0].attempts[2] = (struct world_attempt){.lose = 1};
    ends(&s, "k0:NODE_FAIL/125/3[111]", "the last one says how");
    s = one((struct world_attempt){.lose = 3});
    s.jobs[0].attempts[1].lose = s.jobs[0].attempts[2].lose = 3;
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1}}";
    ends(&s, "k0:COMPLETED/0/4[1111]", "what Slurm forgets costs no retry");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":0}}";
    ends(&s, "k0:NODE_FAIL/125/1[1]", "unless there is to be no other attempt");
    s = one((struct world_attempt){.exit_code = 1});
    s.jobs[0].spec_more = "},\"retry\":{\"max\":2}}";
    ends(&s, "k0:FAILED/1/1[1]", "an exit code is not tried again");
}

/* Each end is tried again where the job says so, and only there. */
static void test_retry_on(void)
{
    static const struct {
        const char *on, *limit;
        struct world_attempt first;
        double node_lost_s;
        const char *once;
    } rows[] = {
        {"exit", "", {.exit_code = 1}, 0, "k0:FAILED/1/1[1]"},
        {"time_limit",
         ",\"time_limit\":\"20s\"",
         {.run_s = INFINITY},
         0,
         "k0:TIMEOUT/124/1[1]"},
        {"signal", "", {.signal = 11}, 0, "k0:FAILED/139/1[1]"},
        {"node_fail", "", {.lose = 1}, 0, "k0:NODE_FAIL/125/1[1]"},
        {"node_fail",
         "",
         {.exit_code = 75, .no_claim = 1},
         0,
         "k0:FAILED/125/1[1]"},
        {"stalled",
         "",
         {.run_s = INFINITY, .silent = 1},
         10,
         "k0:FAILED/125/1[1]"},
    };
    char more[160], what[80];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world_script s = one(rows[i].first);
        s.node_lost_s = rows[i].node_lost_s;
        s.jobs[0].spec_more = more;
        (void)snprintf(more, sizeof(more),
                       "%s},\"retry\":{\"max\":1,\"on\":[\"%s\"]}}",
                       rows[i].limit, rows[i].on);
        (void)snprintf(what, sizeof(what), "%s is tried again", rows[i].on);
        ends(&s, "k0:COMPLETED/0/2[11]", what);
        (void)snprintf(
            more, sizeof(more), "%s},\"retry\":{\"max\":1,\"on\":[\"%s\"]}}",
            rows[i].limit, strcmp(rows[i].on, "exit") == 0 ? "signal" : "exit");
        (void)snprintf(what, sizeof(what), "  not where %s is not named",
                       rows[i].on);
        ends(&s, rows[i].once, what);
    }
}

/* A rule goes before retry.on. */
static void test_rules(void)
{
    static const struct {
        const char *rules;
        struct world_attempt first;
        const char *want;
    } rows[] = {
        {"exit:75 retry", {.exit_code = 75}, "k0:COMPLETED/0/2[11]"},
        {"exit:70-80 retry", {.exit_code = 75}, "k0:COMPLETED/0/2[11]"},
        {"exit:75 retry", {.exit_code = 76}, "k0:FAILED/76/1[1]"},
        {"signal:SEGV fail", {.signal = 11}, "k0:FAILED/139/1[1]"},
        {"signal:SEGV fail", {.signal = 7}, "k0:COMPLETED/0/2[11]"},
        {"reason:exited with * retry",
         {.exit_code = 3, .no_report = 1},
         "k0:COMPLETED/0/2[11]"},
        {"reason:lost: * fail", {.lose = 1}, "k0:NODE_FAIL/125/1[1]"},
    };
    char more[200];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world_script s = one(rows[i].first);
        (void)snprintf(more, sizeof(more),
                       "},\"retry\":{\"max\":2,\"rules\":[\"%s\"]}}",
                       rows[i].rules);
        s.jobs[0].spec_more = more;
        ends(&s, rows[i].want, rows[i].rules);
    }
}

/* Which node each attempt got, of as many attempts as there are. */
static void ran_on(const struct world_script *s, const char *want,
                   const char *nodes, const char *what)
{
    struct world w;
    char seen[200] = "";
    int32_t last = 0;

    world_init(&w, s);
    ok(world_start(&w), "---- %s", what);
    for (int i = 0; i < 400 && !world_is_over(&w); i++) {
        (void)world_step(&w);
        const struct job *job = engine_job(w.engine, 1);
        if (job && job->place[0] && job->attempt > last) {
            size_t n = strlen(seen);
            (void)snprintf(seen + n, sizeof(seen) - n, "%.2s ", job->place);
            last = job->attempt;
        }
        world_advance(&w);
    }
    char *got = world_result(&w);
    is_str(got, want, what);
    is_str(seen, nodes, "  on these nodes");
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

static void test_exclude(void)
{
    struct world_script s = one((struct world_attempt){.lose = 1});

    s.nodes = 3;
    s.jobs[0].gpus = 4;
    s.jobs[0].attempts[1].lose = 1;
    s.jobs[0].spec_more = "},\"retry\":{\"max\":4}}";
    ran_on(&s, "k0:COMPLETED/0/3[111]", "n1 n2 n3 ", "lost: each time another");
    s.nodes = 1;
    ran_on(&s, "k0:COMPLETED/0/3[111]", "n1 n1 n1 ",
           "there is no other: the same");
    s.nodes = 2;
    s.jobs[0].attempts[2].lose = 1;
    ran_on(&s, "k0:COMPLETED/0/4[1111]", "n1 n2 n2 n2 ",
           "two nodes: the last that is left stays");
    s.nodes = 3;
    s.jobs[0].attempts[2].lose = 0;
    s.jobs[0].spec_more = "},\"retry\":{\"max\":4,\"exclude_node\":false}}";
    ran_on(&s, "k0:COMPLETED/0/3[111]", "n1 n1 n1 ", "or if it may go back");
    s.jobs[0].attempts[0] = s.jobs[0].attempts[1] =
        (struct world_attempt){.signal = 7};
    s.jobs[0].spec_more = "},\"retry\":{\"max\":4}}";
    ran_on(&s, "k0:COMPLETED/0/3[111]", "n1 n1 n1 ",
           "a signal is not the node's fault");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":4,"
                          "\"rules\":[\"signal:BUS exclude_node\"]}}";
    ran_on(&s, "k0:COMPLETED/0/3[111]", "n1 n2 n3 ", "unless a rule says so");
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

/* When the next attempt was asked for, after the one before had ended. */
static double pause_before(struct world *w, int32_t attempt, bool dies)
{
    const struct job *job = engine_job(w->engine, 1);
    double ended_s = NAN;

    for (int i = 0; i < 20000 && job->attempt < attempt; i++) {
        (void)world_step(w);
        job = engine_job(w->engine, 1);
        if (isnan(ended_s) && job->state == JOB_QUEUED &&
            job->attempt == attempt - 1) {
            ended_s = w->clock.t_s;
            if (dies)
                world_die(w);
            job = engine_job(w->engine, 1);
        }
        w->clock.t_s += 0.25;
    }
    return w->clock.t_s - 0.25 - ended_s;
}

static void test_backoff(void)
{
    static const double longest_s[] = {8, 16, 20, 20};
    struct world_script s = one((struct world_attempt){.signal = 9});
    struct world w;

    for (int k = 1; k < 4; k++)
        s.jobs[0].attempts[k].signal = 9;
    s.jobs[0].spec_more = "},\"retry\":{\"max\":4,\"backoff\":\"8s\","
                          "\"backoff_max\":\"20s\"}}";
    for (int dies = 0; dies < 2; dies++) {
        world_init(&w, &s);
        ok(world_start(&w), "waits before retries%s",
           dies ? ", though the daemon dies" : "");
        (void)world_step(&w);
        (void)world_step(&w);
        for (int32_t k = 0; k < 4; k++) {
            double p_s = pause_before(&w, k + 2, dies);
            ok(p_s >= longest_s[k] / 2 && p_s <= longest_s[k] + 1,
               "  %.2f s, of at most %.0f", p_s, longest_s[k]);
        }
        is_int(w.n_bad, 0, "  nothing was odd");
        world_clear(&w);
    }
}

/* The wait counts from the end of the attempt, whatever happens to the job
 * meanwhile. A held job lets nothing start. */
static void test_backoff_held(void)
{
    struct world_script s = one((struct world_attempt){.signal = 9});
    struct error err = ERROR_INIT;
    struct world w;

    s.jobs[0].spec_more = "},\"retry\":{\"max\":4,\"backoff\":\"60s\","
                          "\"backoff_max\":\"60s\"}}";
    world_init(&w, &s);
    ok(world_start(&w), "a wait before a retry, and a hold");
    while (engine_job(w.engine, 1) == NULL ||
           engine_job(w.engine, 1)->retries == 0) {
        (void)world_step(&w);
        w.clock.t_s += 0.25;
    }
    double ended_s = w.clock.t_s;
    is_int(engine_hold(w.engine, 1, 1000, true, &err), 0, "  held");
    (void)world_step(&w);
    world_die(&w); /* held through a restart */
    is_int(engine_hold(w.engine, 1, 1000, false, &err), 0, "  released");
    (void)world_step(&w);
    is_int(engine_job(w.engine, 1)->state, JOB_QUEUED, "  it waits on");
    is_int(engine_hold(w.engine, 1, 1000, true, &err), 0, "  held again");
    (void)world_step(&w);
    w.clock.t_s = ended_s + 70;
    is_int(engine_hold(w.engine, 1, 1000, false, &err), 0, "  until late");
    (void)world_step(&w);
    world_die(&w);
    (void)world_step(&w);
    (void)world_step(&w);
    is_int(engine_job(w.engine, 1)->attempt, 2,
           "  the wait is over, also after a restart");
    world_clear(&w);
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
    test_retries();
    test_retry_on();
    test_warning();
    test_rules();
    test_exclude();
    test_backoff();
    test_backoff_held();
    test_clock();
    test_stall();
    test_cancel();
    test_hold();
    test_many(&policy_fifo);
    test_many(&policy_backfill);
    test_exit_hook();
    return tap_done();
}
