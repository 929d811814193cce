/* alloc_slurm.c - the Slurm allocator with a helper that behaves.
 *
 * What happens when helper, Slurm and daemon do not: alloc_slurm_faults.c.
 */
#include "tests/unit/slurm/fake_helper.h"

static void test_runs(void)
{
    begin();
    ok(ask(ALLOC_NEW, 1), "ask");
    ok(waits(1, "SlurmUnavailable: waiting for mgpu-slurm-helper since "
                "11:23:20"),
       "it waits for the helper");
    ok(!next_command(), "which is told nothing before it is there");
    hello(1);
    ok(!next_note() && hears(HELPER_SUBMIT), "then it is submitted");
    ok(h.cmd.req.job == 1 && h.cmd.req.attempt == 1 && h.cmd.req.nodes == 2 &&
           h.cmd.req.gpus_per_node == 2 && h.cmd.req.uid == 1000,
       "with its size and owner");
    is_str(h.cmd.req.tag, TAG1, "its tag");
    is_str(h.cmd.req.name, "mnist", "its name");
    is_str(h.cmd.req.dir, "/jobs/1/1", "its directory");
    is_str(h.cmd.req.launch, "{\"a\":1}", "and what to launch");
    answers(20);
    ok(waits(1, "Slurm(Submitted)"), "Slurm has it");
    is_str(h.note.native_id, "20", "as job 20");
    SHOWS(.state = "PENDING", .reason = "None");
    ok(waits(1, "Slurm(Pending)"), "it waits");
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)"), "with a reason");
    SHOWS(.state = "PENDING", .reason = "Priority", .submitted = 5);
    ok(is_quiet(), "told once");
    SHOWS(.state = "PENDING", .reason = "Priority", .expected = SINCE + 60);
    ok(gets(ALLOC_WAITING, 1) && (int64_t)h.note.expected_s == SINCE + 60,
       "and when Slurm expects to start it");
    SHOWS(.state = "PENDING", .reason = "Priority", .expected = SINCE + 63);
    ok(is_quiet(), "  not again for some seconds");
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(gets(ALLOC_WAITING, 1) && h.note.expected_s < 1,
       "  or it does not know");
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    ok(gets(ALLOC_GRANTED, 1), "it is granted");
    is_str(h.note.native_id, "20", "as job 20");
    is_str(h.note.place, "n1:0,1 n2:0,1", "with its place");
    ok(ask(ALLOC_AGAIN, 1) && gets(ALLOC_GRANTED, 1), "asked again: granted");
    SHOWS(.state = "SUSPENDED", .place = "n1:0,1 n2:0,1");
    ok(gets(ALLOC_GRANTED, 1) && h.note.is_suspended, "suspended");
    SHOWS(.state = "SUSPENDED", .place = "n1:0,1 n2:0,1", .reason = "x");
    ok(is_quiet(), "still");
    ok(ask(ALLOC_AGAIN, 1) && gets(ALLOC_GRANTED, 1) && h.note.is_suspended,
       "asked again: suspended");
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    ok(gets(ALLOC_GRANTED, 1) && !h.note.is_suspended, "it goes on");
    SHOWS(.state = "COMPLETING");
    ok(passes(10), "it is not over before its devices are free");
    SHOWS(.state = "COMPLETED");
    ok(!next_note() && hears(HELPER_READ_EXIT), "the exit file is read");
    ok(strcmp(h.cmd.req.dir, "/jobs/1/1") == 0 && h.cmd.req.uid == 1000,
       "where and as whom it should be");
    answers_exit(0, 0, 20);
    ok(exits(1, 0, 0, ALLOC_BY_ITSELF), "it exits with 0");
    is_str(h.note.native_id, "20", "as job 20");
    gone(TAG1, 20);
    ok(is_quiet(), "once");
    ok(ask(ALLOC_AGAIN, 1) && exits(1, 0, 0, ALLOC_BY_ITSELF),
       "asked again: it has exited");
    ok(release(1, 5) == 0 && is_quiet(), "releasing it is fine");
    end();
}

/* It was over before anybody looked. */
static void test_short(void)
{
    begin();
    hello(1);
    ok(is_quiet() && ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT), "submitted");
    answers(20);
    SHOWS(.state = "COMPLETED", .place = "n1 n2");
    ok(gets(ALLOC_WAITING, 1) && gets(ALLOC_GRANTED, 1), "granted, late");
    is_str(h.note.place, "n1 n2", "where it was");
    ok(hears(HELPER_READ_EXIT), "and over");
    answers_exit(0, 0, 20);
    ok(exits(1, 0, 0, ALLOC_BY_ITSELF), "with 0");
    end();
}

struct ending {
    const char *state, *reason;
    int code, signal;           /* Slurm's */
    int file_code, file_signal; /* -1: no file */
    int want_code, want_signal;
    enum alloc_ended_by by;
    const char *lost;
};

static const struct ending endings[] = {
    {"COMPLETED", "None", 0, 0, -1, 0, 0, 0, ALLOC_BY_ITSELF, NULL},
    {"FAILED", "NonZeroExitCode", 7, 0, 7, 0, 7, 0, ALLOC_BY_ITSELF, NULL},
    {"FAILED", "NonZeroExitCode", 9, 0, 0, 11, 0, 11, ALLOC_BY_ITSELF, NULL},
    {"FAILED", "NonZeroExitCode", 9, 0, -1, 0, 9, 0, ALLOC_BY_ITSELF, NULL},
    {"FAILED", "JobLaunchFailure", 0, 11, -1, 0, 0, 11, ALLOC_BY_ITSELF, NULL},
    {"FAILED", "JobLaunchFailure", 15, 53, -1, 0, 0, 0, ALLOC_BY_ITSELF,
     "Slurm job 20 could not be launched on n1:0,1 n2:0,1 (JobLaunchFailure)"},
    {"TIMEOUT", "TimeLimit", 0, 0, 0, 0, 0, 0, ALLOC_BY_LIMIT, NULL},
    {"TIMEOUT", "TimeLimit", 0, 0, -1, 0, 0, 15, ALLOC_BY_LIMIT, NULL},
    {"DEADLINE", "DeadLine", 0, 0, 0, 9, 0, 9, ALLOC_BY_LIMIT, NULL},
    {"CANCELLED", "None", 0, 15, -1, 0, 0, 0, ALLOC_BY_ITSELF,
     "Slurm job 20 could not be launched on n1:0,1 n2:0,1"},
    {"CANCELLED", "None", 0, 15, 3, 0, 3, 0, ALLOC_BY_OTHER, NULL},
    {"OUT_OF_MEMORY", "OutOfMemory", 0, 62, -1, 0, 0, 9, ALLOC_BY_ITSELF, NULL},
    {"OUT_OF_MEMORY", "OutOfMemory", 0, 62, 0, 7, 0, 7, ALLOC_BY_ITSELF, NULL},
    {"NODE_FAIL", "None", 0, 15, 0, 15, 0, 0, ALLOC_BY_ITSELF,
     "Slurm job 20 lost a node on n1:0,1 n2:0,1"},
    {"NODE_FAIL", "NodeDown", 0, 15, -1, 0, 0, 0, ALLOC_BY_ITSELF,
     "Slurm job 20 lost a node on n1:0,1 n2:0,1 (NodeDown)"},
    {"NODE_FAIL", "NodeDown", 0, 0, 0, 0, 0, 0, ALLOC_BY_ITSELF,
     "Slurm job 20 lost a node on n1:0,1 n2:0,1 (NodeDown)"}, /* srun's 0 */
    {"BOOT_FAIL", "None", 0, 0, -1, 0, 0, 0, ALLOC_BY_ITSELF,
     "Slurm job 20 got a node that did not boot on n1:0,1 n2:0,1"},
    {"PREEMPTED", "None", 0, 15, 0, 0, 0, 0, ALLOC_BY_PREEMPTION,
     "Slurm job 20 was preempted on n1:0,1 n2:0,1"},
};

static void test_endings(void)
{
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        const struct ending *e = &endings[i];
        run_one();
        SHOWS(.state = e->state, .reason = e->reason, .code = e->code,
              .signal = e->signal);
        bool is = !next_note() && hears(HELPER_READ_EXIT);
        if (e->file_code < 0)
            fails("NOTFOUND", "no file", true);
        else
            answers_exit(e->file_code, e->file_signal, 20);
        if (e->lost)
            ok(is && is_lost_by(e->by, 1, e->lost), "%s %s: %s", e->state,
               e->reason, e->lost);
        else
            ok(is && exits(1, e->want_code, e->want_signal, e->by),
               "%s %d:%d with a file of %d:%d", e->state, e->code, e->signal,
               e->file_code, e->file_signal);
        if (!e->lost && e->by == ALLOC_BY_OTHER)
            is_str(h.note.why.msg, "cancelled in Slurm", "says why");
        end();
    }
}

/* Whoever was there when it ended says when that was, the file first. */
static void test_when(void)
{
    run_one();
    SHOWS(.state = "FAILED", .code = 3, .ended = 1795000000);
    ok(!next_note() && hears(HELPER_READ_EXIT), "ended");
    answers_ended(3, 0, 20, 1794999999500);
    ok(exits(1, 3, 0, ALLOC_BY_ITSELF) && h.note.ended_ms == 1794999999500,
       "when its batch step says");
    end();

    run_one();
    SHOWS(.state = "FAILED", .code = 3, .ended = 1795000000);
    ok(!next_note() && has_no_exit() && exits(1, 3, 0, ALLOC_BY_ITSELF) &&
           h.note.ended_ms == 1795000000000,
       "or else when Slurm does");
    end();

    run_one();
    SHOWS(.state = "NODE_FAIL", .ended = 1795000000);
    ok(!next_note() && has_no_exit() && gets(ALLOC_LOST, 1) &&
           h.note.ended_ms == 1795000000000,
       "also when it was lost");
    end();

    run_one();
    SHOWS(.state = "FAILED", .code = 3);
    ok(!next_note() && has_no_exit() && exits(1, 3, 0, ALLOC_BY_ITSELF) &&
           h.note.ended_ms == 0,
       "and nobody may know");
    end();
}

static void test_cancelled(void)
{
    run_one();
    ok(claim(1, "20"), "one that was claimed");
    SHOWS(.state = "CANCELLED", .signal = 15);
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_OTHER),
       "and cancelled");
    end();

    begin();
    hello(1);
    ok(is_quiet() && ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT), "submitted");
    answers(20);
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)"), "one that is pending");
    SHOWS(.state = "CANCELLED");
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_OTHER),
       "and cancelled");
    end();
}

static void test_release(void)
{
    run_one();
    is_int(release(2, 5), ERR_NOTFOUND, "release what nobody asked for");
    is_int(release(1, 60), 0, "release");
    ok(!next_note() && hears_signal(20, SIGTERM), "SIGTERM to the ranks");
    answers(0);
    ok(passes(4), "for a while that is all");
    h.clk.t_s += 1;
    ok(!next_note() && hears_signal(20, SIGTERM),
       "then again: perhaps there were no ranks yet");
    fails("UNAVAIL", "no answer", false);
    ok(is_quiet(), "one that does not get through");
    h.clk.t_s += 1;
    ok(!next_note() && hears_signal(20, SIGTERM), "is repeated");
    answers(0);
    ok(claim(1, "20") && passes(20) && passes(30),
       "once a worker is known to have heard it, no more");
    is_int(release(1, 1000), 0, "released again, with more grace");
    h.clk.t_s += 5;
    ok(!next_note() && hears_signal(20, SIGKILL),
       "SIGKILL when the first grace is over");
    answers(0);
    h.clk.t_s += 5;
    ok(!next_note() && hears_kill(TAG1, 20), "the end of the job a bit later");
    answers(0);
    ok(passes(9), "a while for Slurm");
    h.clk.t_s += 1;
    ok(!next_note() && hears_kill(TAG1, 20), "once more");
    SHOWS(.state = "COMPLETING");
    fails("NOTFOUND", "has ended", true);
    ok(passes(20), "what is ending is let alone");
    SHOWS(.state = "CANCELLED", .signal = 9);
    ok(!next_note() && has_no_exit() && exits(1, 0, 9, ALLOC_BY_ITSELF),
       "it was we who ended it");
    end();

    run_one();
    is_int(release(1, 0), 0, "release without grace");
    ok(!next_note() && hears_signal(20, SIGTERM), "SIGTERM");
    answers(0);
    ok(!next_note() && hears_signal(20, SIGKILL), "and at once SIGKILL");
    end();
}

/* The grace period is the ranks', not slurmctld's. */
static void test_release_away(void)
{
    run_one();
    ok(claim(1, "20"), "claimed");
    is_int(release(1, 60), 0, "release");
    ok(!next_note() && hears_signal(20, SIGTERM), "SIGTERM");
    fails("UNAVAIL", "no answer", false);
    says("{'ev':'down','why':'x','since':1795000000}");
    ok(is_quiet() && passes(100), "no rank may have heard it");
    says("{'ev':'up'}");
    ok(!next_note() || !next_note(), "slurmctld is up");
    ok(hears_signal(20, SIGTERM), "SIGTERM again, though the grace is over");
    answers(0);
    ok(passes(59), "the ranks have all of their grace");
    h.clk.t_s += 1;
    ok(!next_note() && hears_signal(20, SIGKILL), "then SIGKILL");
    end();
}

/* The worker's claim overtook Slurm's news: its ranks have their grace. */
static void test_release_claimed(void)
{
    begin();
    hello(1);
    ok(is_quiet() && ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT), "submitted");
    answers(20);
    ok(waits(1, "Slurm(Submitted)") && claim(1, "20"),
       "claimed before a scan shows it");
    is_int(release(1, 60), 0, "and released");
    ok(passes(1), "it is not killed unseen");
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)") && hears_signal(20, SIGTERM),
       "shown pending, it gets SIGTERM, and no kill");
    answers(0);
    ok(passes(58), "and its grace");
    end();
}

static void test_release_pending(void)
{
    begin();
    hello(1);
    ok(is_quiet() && ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT), "submitted");
    is_int(release(1, 60), 0, "released before the answer");
    ok(is_quiet(), "which is waited for");
    answers(20);
    ok(waits(1, "Slurm(Submitted)") && hears_kill(TAG1, 20), "and killed");
    fails("UNAVAIL", "no answer", false);
    ok(is_quiet(), "Slurm does not answer");
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)") && !next_command(), "it is pending");
    h.clk.t_s += 1;
    ok(!next_note() && hears_kill(TAG1, 20), "killed again");
    answers(0);
    SHOWS(.state = "CANCELLED");
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_ITSELF),
       "it ends without having been granted");
    end();

    begin();
    ok(ask(ALLOC_NEW, 1) && gets(ALLOC_WAITING, 1),
       "one that is not submitted");
    is_int(release(1, 60), 0, "is released");
    ok(exits(1, 0, SIGTERM, ALLOC_BY_ITSELF), "and ends at once");
    hello(1);
    ok(is_quiet(), "it is never submitted");
    end();
}

static void test_signal(void)
{
    run_one();
    struct error err = ERROR_INIT;
    ok(h.a->ops->signal(h.a, 2, 1, SIGUSR1, &err) < 0 &&
           err.code == ERR_NOTFOUND,
       "signal what nobody asked for");
    ok(h.a->ops->signal(h.a, 1, 1, 65, &err) < 0 && err.code == ERR_INVAL,
       "a signal that is none");
    ok(h.a->ops->signal(h.a, 1, 1, 64, &err) == 0 &&
           h.a->ops->signal(h.a, 1, 1, SIGKILL, &err) == 0,
       "two signals");
    ok(!next_note() && hears_signal(20, 64), "one");
    ok(is_quiet(), "after");
    answers(0);
    ok(!next_note() && hears_signal(20, SIGKILL), "the other");
    answers(0);
    ok(is_quiet(), "and no more");
    SHOWS(.state = "COMPLETING");
    ok(is_quiet() && h.a->ops->signal(h.a, 1, 1, SIGUSR1, &err) == 0,
       "signal one without ranks");
    ok(is_quiet(), "nothing is sent");
    end();
}

static void test_refused(void)
{
    begin();
    hello(1);
    ok(is_quiet() && ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT), "submitted");
    fails("INVAL", "invalid partition name specified", true);
    ok(gets(ALLOC_REFUSED, 1), "refused");
    is_str(h.note.why.msg, "invalid partition name specified", "because");
    is_int(release(1, 5), ERR_NOTFOUND, "and forgotten");
    ok(ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT), "asked again: submitted");
    fails("LIMIT", "too many jobs of this user", true);
    ok(gets(ALLOC_REFUSED, 1) && h.note.why.code == ERR_BUSY,
       "a limit refuses, too, and says so");
    ok(ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT), "asked again: submitted");
    fails("BUSY", "too many jobs", true);
    ok(waits(1, "SlurmBusy: too many jobs"), "what may pass is kept");
    ok(passes(4), "for a while");
    h.clk.t_s += 1;
    ok(!next_note() && hears(HELPER_SUBMIT), "and tried again");
    fails("BUSY", "too many jobs", true);
    ok(is_quiet() && release(1, 5) == 0 &&
           exits(1, 0, SIGTERM, ALLOC_BY_ITSELF),
       "released meanwhile, it ends");
    ok(passes(10), "and is not tried again");

    end();
    submit_one();
    fails("UNAVAIL", "nobody there", true);
    ok(waits(1, "SlurmUnavailable: nobody there"), "nobody was there");
    h.clk.t_s += 5;
    ok(!next_note() && hears(HELPER_SUBMIT), "and perhaps is now");
    fails("IO", "directory 1: No space left on device", true);
    ok(waits(1, "JobDirectory: directory 1: No space left on device"),
       "the user's disk is full");
    is_int(h.note.why.code, ERR_LIMIT, "which no GPU ends");
    ok(passes(29), "it takes a while");
    h.clk.t_s += 1;
    ok(!next_note() && hears(HELPER_SUBMIT), "until it is tried again");
    answers(20);
    ok(waits(1, "Slurm(Submitted)"), "with success");

    struct error err = ERROR_INIT;
    struct alloc_req req = {.job = 1, .ask = ALLOC_NEW, .launch = "no object"};
    end();
    begin();
    hello(1);
    ok(is_quiet() && ask_for(&req, &err) == 0 && gets(ALLOC_REFUSED, 1),
       "what cannot be said is refused: %s", h.note.why.msg);
    ok(is_quiet(), "and not said");
    end();
}

static void test_held(void)
{
    submit_one();
    answers(20);
    ok(waits(1, "Slurm(Submitted)"), "submitted");
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)") && h.note.why.code == ERR_BUSY,
       "it waits for devices");
    SHOWS(.state = "PENDING", .reason = "QOSMaxGRESPerUser");
    ok(waits(1, "Slurm(QOSMaxGRESPerUser)") && h.note.why.code == ERR_LIMIT,
       "for a limit");
    SHOWS(.state = "PENDING", .reason = "JobHeldAdmin");
    ok(waits(1, "Slurm(JobHeldAdmin)") && h.note.why.code == ERR_LIMIT,
       "for a person");
    SHOWS(.state = "PENDING", .reason = "Resources");
    ok(waits(1, "Slurm(Resources)") && h.note.why.code == ERR_BUSY,
       "and for devices again");
    SHOWS(.state = "RUNNING", .place = "n1:0");
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)") && !next_note(),
       "started and forgotten at once: it waits");
    end();
}

static void test_bad_requests(void)
{
    struct alloc_req good = {.job = 1,
                             .attempt = 1,
                             .tag = TAG1,
                             .name = "n",
                             .nodes = 1,
                             .dir = "/d",
                             .worker = "/w",
                             .launch = "{}"};
    struct error err = ERROR_INIT;
    static const char *const tags[] = {"",
                                       "mgpu:c:1:1",
                                       "mgpu:c:1:1:",
                                       "mgpu:d:1:1:aa",
                                       "mgpu:c:2:1:aa",
                                       "mgpu:c:1:2:aa",
                                       "mgpu:c:01:1:aa",
                                       "mgpu:c:1:1:a:b",
                                       "mgpu:c:18446744073709551617:1:aa"};
    begin();
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        struct alloc_req bad = good;
        bad.tag = tags[i];
        ok(h.a->ops->request(h.a, &bad, &err) < 0 && err.code == ERR_INVAL,
           "%s", err.msg);
    }
    struct alloc_req bad = good;
    bad.dir = "d";
    ok(h.a->ops->request(h.a, &bad, &err) < 0 && err.code == ERR_INVAL, "%s",
       err.msg);
    ok(is_quiet(), "nothing comes of these");
    end();
}

static void test_inventory(void)
{
    struct alloc_node nodes[2];
    struct error err = ERROR_INIT;
    size_t n = 9;
    begin();
    ok(h.a->ops->inventory(h.a, nodes, 2, &n, &err) < 0 &&
           err.code == ERR_UNAVAIL,
       "no helper: %s", err.msg);
    hello(1);
    ok(is_quiet(), "a helper");
    ok(h.a->ops->inventory(h.a, nodes, 2, &n, &err) < 0 &&
           err.code == ERR_UNAVAIL,
       "no nodes: %s", err.msg);
    says("{'ev':'nodes','nodes':[{'name':'n1','gpu_type':'h100',"
         "'gpus_total':4,'gpus_free':3,'is_up':1,'is_drained':0,'why':'',"
         "'used':'2 anna 4711','partitions':'batch*','features':'',"
         "'reservation':'','address':''},"
         "{'name':'n2','gpu_type':'h100','gpus_total':4,'gpus_free':0,"
         "'is_up':0,'is_drained':1,'is_busy':1,'why':'drained: fan','used':'',"
         "'partitions':'batch*','features':'','reservation':'',"
         "'address':''}]}");
    ok(gets(ALLOC_INVENTORY, 0) && is_quiet(), "nodes are news, once");
    ok(h.a->ops->inventory(h.a, nodes, 2, &n, &err) == 0 && n == 2, "two");
    is_str(nodes[0].used, "2 anna 4711", "the first");
    is_str(nodes[1].why, "drained: fan", "the second");
    ok(nodes[1].is_drained && !nodes[0].is_drained, "which is drained");
    ok(nodes[1].is_busy, "and that somebody is on it");
    ok(!nodes[0].is_busy, "which an older helper does not say");
    ok(h.a->ops->inventory(h.a, nodes, 1, &n, &err) < 0 &&
           err.code == ERR_LIMIT,
       "more than there is room for");
    says("{'ev':'down','why':'slurmctld does not answer','since':1795000000}");
    ok(gets(ALLOC_INVENTORY, 0), "Slurm is down");
    ok(h.a->ops->inventory(h.a, nodes, 2, &n, &err) < 0 &&
           err.code == ERR_UNAVAIL,
       "nothing is known");
    is_str(err.msg, "slurmctld does not answer since 11:06:40", "and why");
    says("{'ev':'up'}");
    ok(gets(ALLOC_INVENTORY, 0) &&
           h.a->ops->inventory(h.a, nodes, 2, &n, &err) == 0,
       "it is up again");
    h.clk.t_s += 61;
    ok(gets(ALLOC_INVENTORY, 0) && is_quiet(), "no word for a minute");
    ok(h.a->ops->inventory(h.a, nodes, 2, &n, &err) < 0 &&
           err.code == ERR_UNAVAIL,
       "nothing is known");
    is_str(err.msg, "no message from mgpu-slurm-helper since 11:23:20",
           "and why");
    scan();
    ok(gets(ALLOC_INVENTORY, 0) &&
           h.a->ops->inventory(h.a, nodes, 2, &n, &err) == 0,
       "it speaks again");
    end();
}

/* Slurm is away while others ask; nothing is sent, nothing is lost. */
static void test_down(void)
{
    begin();
    hello(1);
    says("{'ev':'down','why':'slurmctld does not answer','since':1795000000}");
    ok(is_quiet() && ask(ALLOC_NEW, 1), "ask while Slurm is down");
    ok(waits(1, "SlurmUnavailable: slurmctld does not answer since 11:06:40"),
       "it waits");
    ok(passes(1000), "for as long as it takes");
    says("{'ev':'up'}");
    ok(!next_note() || !next_note(), "it is up");
    ok(hears(HELPER_SUBMIT), "and submitted");
    end();

    run_one();
    says("{'ev':'down','why':'x','since':1795000000}");
    ok(is_quiet() && release(1, 10) == 0 && passes(5), "released while down");
    says("{'ev':'up'}");
    ok(!next_note() || !next_note(), "it is up");
    ok(hears_signal(20, SIGTERM), "and told");
    end();
}

static void test_wake(void)
{
    begin();
    struct pollfd fd = {.fd = h.a->ops->wake_fd(h.a), .events = POLLIN};
    ok(is_quiet() && poll(&fd, 1, 0) == 0, "asleep");
    hello(1);
    is_int(poll(&fd, 1, 60000), 1, "news wake it");
    ok(is_quiet() && poll(&fd, 1, 0) == 0, "asleep again");
    ok(ask(ALLOC_NEW, 1) && poll(&fd, 1, 0) == 1, "a request wakes it");
    ok(hears(HELPER_SUBMIT) && is_quiet() && poll(&fd, 1, 0) == 0, "asleep");
    answers(20);
    ok(gets(ALLOC_WAITING, 1) && is_quiet() && poll(&fd, 1, 0) == 0, "asleep");
    (void)close(h.fd);
    h.fd = -1;
    is_int(poll(&fd, 1, 60000), 1, "the end of the helper wakes it");
    for (int i = 0; i < 2; i++) {
        struct error err = ERROR_INIT;
        size_t n;
        ok(h.a->ops->poll(h.a, &h.note, 1, &n, &err) < 0 &&
               err.code == ERR_EXTERN,
           "and is for good: %s", err.msg);
    }
    is_int(poll(&fd, 1, 0), 0, "but does not keep it awake");
    struct error err = ERROR_INIT;
    struct alloc_req req = {.job = 2};
    ok(ask_for(&req, &err) < 0 && err.code == ERR_UNAVAIL,
       "nobody can be asked any more");
    end();
}

int main(void)
{
    (void)setenv("TZ", "UTC", 1);
    test_runs();
    test_short();
    test_endings();
    test_when();
    test_cancelled();
    test_release();
    test_release_away();
    test_release_claimed();
    test_release_pending();
    test_signal();
    test_refused();
    test_held();
    test_bad_requests();
    test_inventory();
    test_down();
    test_wake();
    return tap_done();
}
