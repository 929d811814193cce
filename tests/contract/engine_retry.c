/* engine_retry.c - the engine on the fake cluster: what is tried again, when,
 * and where.
 */
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "tests/contract/engine_ends.h"
#include "tests/contract/engine_queue.h"

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
    ends(&s, "k0:COMPLETED/0/4[1111]", "also where there is none");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1,\"on\":[\"exit\"]}}";
    ends(&s, "k0:COMPLETED/0/4[1111]", "and where no loss is tried again");
    s = one((struct world_attempt){.lose = 4, .exit_code = 3});
    s.jobs[0].spec_more = "},\"retry\":{\"max\":0}}";
    ends(&s, "k0:FAILED/3/1[1]", "not what had failed by itself before");
    s.jobs[0].attempts[0].exit_code = 143;
    ends(&s, "k0:COMPLETED/0/2[11]", "but what was killed");
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
        {"node_fail",
         "",
         {.exit_code = 76, .no_claim = 1},
         0,
         "k0:NODE_FAIL/125/1[1]"},
        {"node_fail",
         "",
         {.exit_code = 76, .no_report = 1},
         0,
         "k0:NODE_FAIL/125/1[1]"},
        {"exit", "", {.exit_code = 76}, 0, "k0:FAILED/76/1[1]"},
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

/* logs.on_limit: fail. */
static void test_log(void)
{
    struct world_script s = one((struct world_attempt){.exit_code = 122});

    ends(&s, "k0:FAILED/122/1[1]", "a code as any");
    s.jobs[0].spec_more = "},\"logs\":{\"on_limit\":\"fail\"}}";
    ends(&s, "k0:FAILED/122/1[1]", "of what printed too much");
    s.jobs[0].attempts[0].no_report = 1;
    ends(&s, "k0:FAILED/122/1[1]", "  whatever its worker says");
    s.jobs[0].spec_more = "},\"logs\":{\"on_limit\":\"fail\"},"
                          "\"retry\":{\"max\":1,\"on\":[\"exit\"]}}";
    ends(&s, "k0:COMPLETED/0/2[11]", "  again, as after any exit");
    s.jobs[0].spec_more = "},\"logs\":{\"on_limit\":\"fail\"},\"retry\":"
                          "{\"max\":1,\"rules\":[\"reason:printed more* "
                          "retry\"]}}";
    ends(&s, "k0:COMPLETED/0/2[11]", "  or by a rule about its reason");
}

/* F38: a device of its own failed, and so did it. */
static void test_fault(void)
{
    struct world_script s = one((struct world_attempt){
        .exit_code = 1, .ended_by = ALLOC_BY_FAULT, .why = "GPU 1: xid 79"});
    struct world w;

    ends(&s, "k0:NODE_FAIL/125/1[1]", "a device failed: not its own exit code");
    s.jobs[0].attempts[0].exit_code = 0;
    s.jobs[0].attempts[0].signal = 6;
    ends(&s, "k0:NODE_FAIL/125/1[1]", "nor what it died of");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1}}";
    ends(&s, "k0:COMPLETED/0/2[11]", "again, as after any node_fail");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1,\"on\":[\"signal\"]}}";
    ends(&s, "k0:NODE_FAIL/125/1[1]", "  and only then");
    s.jobs[0].attempts[0].no_claim = 1;
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1}}";
    ends(&s, "k0:COMPLETED/0/2[11]", "also before it was claimed");
    s.jobs[0].attempts[0].no_claim = s.jobs[0].attempts[0].signal = 0;
    ends(&s, "k0:COMPLETED/0/1[1]", "what was done is done");

    s.jobs[0].attempts[0] =
        (struct world_attempt){.exit_code = 71, .fault_node = "n1"};
    s.jobs[0].spec_more = "},\"retry\":{\"max\":0}}";
    ends(&s, "k0:NODE_FAIL/125/1[1]", "its worker says so: the same");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1}}";
    ends(&s, "k0:COMPLETED/0/2[11]", "  and again");
    s.jobs[0].attempts[0].exit_code = 0;
    ends(&s, "k0:COMPLETED/0/1[1]", "  not of one that did its work");

    s.jobs[0].attempts[0] = (struct world_attempt){
        .exit_code = 1, .ended_by = ALLOC_BY_FAULT, .why = "GPU 1: xid 79"};
    s.jobs[0].spec_more = NULL;
    world_init(&w, &s);
    ok(world_start(&w), "---- and why");
    for (int i = 0; i < 400 && !world_is_over(&w); i++) {
        (void)world_step(&w);
        world_advance(&w);
    }
    is_str(engine_job(w.engine, 1)->reason, "GPU 1: xid 79", "it says which");
    world_clear(&w);
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
    s.jobs[0].attempts[0] = s.jobs[0].attempts[1] = (struct world_attempt){
        .exit_code = 1, .ended_by = ALLOC_BY_FAULT, .why = "GPU 1: xid 79"};
    s.jobs[0].spec_more = "},\"retry\":{\"max\":4}}";
    ran_on(&s, "k0:COMPLETED/0/3[111]", "n1 n2 n3 ",
           "F38: a device has failed: each time another");
    s.jobs[0].attempts[1].exit_code = 0;
    s.jobs[0].attempts[0] =
        (struct world_attempt){.exit_code = 71, .fault_node = "n1"};
    s.jobs[0].gpus = 8;
    s.jobs[0].spec_more = ",\"nodes\":2},\"retry\":{\"max\":4}}";
    ran_on(&s, "k0:COMPLETED/0/2[11]", "n1 n2 ",
           "F38: of two nodes the one that was named");
    s.jobs[0].attempts[0].fault_node = "n9";
    ran_on(&s, "k0:COMPLETED/0/2[11]", "n1 n1 ", "  and no stranger");
    s.jobs[0].gpus = 4;
    s.jobs[0].attempts[0] = s.jobs[0].attempts[1] =
        (struct world_attempt){.signal = 7};
    s.jobs[0].spec_more = "},\"retry\":{\"max\":4}}";
    ran_on(&s, "k0:COMPLETED/0/3[111]", "n1 n1 n1 ",
           "a signal is not the node's fault");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":4,"
                          "\"rules\":[\"signal:BUS exclude_node\"]}}";
    ran_on(&s, "k0:COMPLETED/0/3[111]", "n1 n2 n3 ", "unless a rule says so");
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

static void says_retry(const struct world *w, const char *what)
{
    static const char want[] = "retry 1 of 4, not before 20";
    const char *is = engine_job(w->engine, 1)->reason;
    ok(strncmp(is, want, strlen(want)) == 0, "%s: %s", what, is);
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
    says_retry(&w, "  and says until when");
    engine_drain(w.engine, "Paused: by an administrator");
    world_settle(&w);
    engine_drain(w.engine, NULL);
    world_settle(&w);
    says_retry(&w, "  after a pause, too");
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

/* "QUEUED: retry 1 of 4 after 41 s: signal 9" */
static void attempt_says(const struct world *w, char ret[2 * JOB_REASON_CAP])
{
    for (int32_t k = 1; store_mem_attempt(w->db, 1, k); k++) {
        const struct store_attempt *row = store_mem_attempt(w->db, 1, k);
        (void)snprintf(ret, 2 * JOB_REASON_CAP, "%s: %s", row->state,
                       row->reason ? row->reason : "-");
    }
}

/* What is done to a job after an attempt is no part of that attempt. */
static void test_attempt_keeps(void)
{
    struct world_script s = one((struct world_attempt){.signal = 9});
    char first[2 * JOB_REASON_CAP] = "", now[2 * JOB_REASON_CAP] = "";
    struct error err = ERROR_INIT;
    struct world w;

    s.jobs[0].spec_more = "},\"retry\":{\"max\":4,\"backoff\":\"60s\"}}";
    world_init(&w, &s);
    ok(world_start(&w), "an attempt that is over, and its reason");
    while (engine_job(w.engine, 1) == NULL ||
           engine_job(w.engine, 1)->retries == 0) {
        (void)world_step(&w);
        w.clock.t_s += 0.25;
    }
    world_settle(&w);
    attempt_says(&w, first);
    ok(strstr(first, "retry 1 of 4 after "), "  %s", first);
    is_int(engine_hold(w.engine, 1, 1000, true, &err), 0, "  held");
    world_settle(&w);
    attempt_says(&w, now);
    is_str(now, first, "  stays, though its job is held");
    is_int(engine_hold(w.engine, 1, 1000, false, &err), 0, "  released");
    world_settle(&w);
    is_int(engine_cancel(w.engine, 1, 1000, &err), 0, "  cancelled");
    world_settle(&w);
    attempt_says(&w, now);
    is_str(now, first, "  stays, though its job was cancelled");
    is_str(engine_job(w.engine, 1)->reason, "cancelled by its user",
           "  which the job says");
    world_clear(&w);
}

/* What goodput sees of the only job: whether it goes on after its limit. -1: no
 * view */
static int goes_on(struct world *w)
{
    struct eng_view t;
    int is = -1;

    if (eng_view_build(w->engine, &t, NULL) == 0 && t.v.n_jobs == 1)
        is = t.v.jobs[0].goodput.goes_on;
    eng_view_clear(&t);
    return is;
}

static void has_flag(const char *saves, const char *limit, const char *retry,
                     int want, const char *what)
{
    static struct world w;
    struct world_script s = one((struct world_attempt){.run_s = INFINITY});
    struct error err = ERROR_INIT;
    uint64_t id = 0;
    char spec[400];

    s.policy = &policy_goodput;
    s.n_acts = 0;
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"saves\":%s,\"resources\":{\"gpus\":\"1..2\","
                   "\"time_limit\":%s},\"retry\":{%s}}",
                   saves, limit, retry);
    struct engine_submit req = {
        .uid = 1, .user = "anna", .key = "k0.0", .spec = spec};
    world_init(&w, &s);
    if (!world_start(&w) || engine_submit(w.engine, &req, &id, NULL, &err) < 0)
        tap_diag("%s", err.msg);
    world_settle(&w);
    is_int(goes_on(&w), want, what);
    world_clear(&w);
}

static void test_goes_on(void)
{
    const char *on = "\"max\":1,\"on\":[\"time_limit\"]";

    has_flag("true", "\"60s\"", on, 1, "a job goes on after its limit");
    has_flag("false", "\"60s\"", on, 0, "  not if it does not save its work");
    has_flag("true", "null", on, 0, "  nor without a limit");
    has_flag("true", "\"60s\"", "\"max\":0,\"on\":[\"time_limit\"]", 0,
             "  nor with no attempt left");
    has_flag("true", "\"60s\"", "\"max\":1,\"on\":[\"exit\"]", 0,
             "  nor if its end is not tried again");
    has_flag("true", "\"60s\"",
             "\"max\":1,\"on\":[\"exit\"],"
             "\"rules\":[\"reason:time limit of 60 s* retry\"]",
             1, "a rule that fits its end says so, too");
    has_flag("true", "\"61s\"",
             "\"max\":1,\"on\":[\"exit\"],"
             "\"rules\":[\"reason:time limit of 60 s* retry\"]",
             0, "  not one that does not");
    has_flag("true", "\"60s\"",
             "\"max\":1,\"on\":[\"time_limit\"],"
             "\"rules\":[\"reason:time limit* fail\"]",
             0, "  and it may say the contrary");
}

int main(void)
{
    test_retries();
    test_goes_on();
    test_retry_on();
    test_log();
    test_fault();
    test_rules();
    test_exclude();
    test_backoff();
    test_backoff_held();
    test_attempt_keeps();
    return tap_done();
}
