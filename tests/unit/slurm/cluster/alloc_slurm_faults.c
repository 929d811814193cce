/* alloc_slurm_faults.c - the Slurm allocator when Slurm fails or somebody lies.
 *
 * F20 to F23 of the fault list, in every order in which the news of them can
 * come; copied tags; bounds.
 */
#include "tests/unit/slurm/fake_helper.h"

/* ---- a submit whose answer is lost ----------------------------------------
 */
static const char perhaps[] =
    "SlurmUnknown: perhaps submitted, looking for it: "
    "timed out";

static void test_answer_lost(void)
{
    submit_one();
    fails("TIMEOUT", "timed out", false);
    ok(waits(1, perhaps), "no answer in time");
    scan();
    ok(passes(20), "it is looked for");
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)"), "and found");
    is_str(h.note.native_id, "20", "as job 20");
    scan_for_long();
    ok(is_quiet(), "not submitted again");
    end();

    submit_one();
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)"), "news before the answer");
    answers(20);
    ok(is_quiet(), "which says nothing new");
    scan_for_long();
    ok(is_quiet(), "and nothing is submitted again");
    end();

    submit_one();
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)"), "news before the answer");
    fails("TIMEOUT", "timed out", false);
    ok(is_quiet(), "that there will be none");
    end();
}

static void test_submit_again(void)
{
    submit_one();
    fails("TIMEOUT", "timed out", false);
    ok(waits(1, perhaps), "no answer in time");
    ok(passes(100), "without a scan nothing is known");
    scan();
    ok(passes(RECONCILE_S - 1), "nor with one");
    scan();
    ok(is_quiet(), "nor soon after");
    says("{'ev':'down','why':'x','since':1}");
    says("{'ev':'up'}");
    ok(passes(1), "an outage");
    scan();
    ok(passes(RECONCILE_S - 1), "counts from its end");
    scan();
    ok(passes(1), "not yet");
    scan();
    ok(!next_note() && hears(HELPER_SUBMIT), "then it is submitted again");
    is_str(h.cmd.req.tag, TAG1, "under the same tag");
    is_str(h.cmd.req.launch, "{\"a\":1}", "with the same token");
    answers(21);
    ok(waits(1, "Slurm(Submitted)"), "this time it is heard");
    end();
}

/* F20: both were carried out. */
static void two_jobs(void)
{
    submit_one();
    fails("TIMEOUT", "timed out", false);
    ok(waits(1, perhaps), "no answer in time");
    scan_for_long();
    ok(!next_note() && hears(HELPER_SUBMIT), "submitted again");
    answers(21);
    ok(waits(1, "Slurm(Submitted)"), "with success");
    SHOWS(.state = "RUNNING", .id = 21, .place = "n1:0,1 n2:0,1",
          .submitted = 50);
    ok(gets(ALLOC_GRANTED, 1), "it runs");
    is_str(h.note.native_id, "21", "as 21");
    SHOWS(.state = "RUNNING", .id = 20, .place = "n3:0,1 n4:0,1");
    ok(is_quiet(), "and so does the first");
}

static void test_duplicate(void)
{
    two_jobs();
    ok(claim(1, "21"), "the second has the lease");
    ok(!next_note() && hears_kill(TAG1, 20), "the first is killed");
    fails("UNAVAIL", "x", false);
    ok(passes(0.5), "if it can be");
    h.clk.t_s += 1;
    ok(!next_note() && hears_kill(TAG1, 20), "killed again");
    answers(0);
    SHOWS(.state = "FAILED", .id = 20, .code = 76);
    gone(TAG1, 20);
    ok(passes(20), "how it ended is of no interest");
    SHOWS(.state = "COMPLETED", .id = 21, .submitted = 50);
    ok(!next_note() && hears(HELPER_READ_EXIT), "the second completes");
    answers_exit(76, 0, 20);
    ok(exits(1, 0, 0, ALLOC_BY_ITSELF), "the file of the first is not its");
    end();

    two_jobs();
    ok(claim(1, "20") && gets(ALLOC_GRANTED, 1), "the first has the lease");
    is_str(h.note.native_id, "20", "it is granted instead");
    is_str(h.note.place, "n3:0,1 n4:0,1", "where it is");
    ok(hears_kill(TAG1, 21), "the second is killed");
    answers(0);
    SHOWS(.state = "FAILED", .id = 21, .code = 76, .submitted = 50);
    ok(is_quiet(), "its end is of no interest");
    SHOWS(.state = "FAILED", .id = 20, .code = 3);
    ok(!next_note() && has_no_exit() && exits(1, 3, 0, ALLOC_BY_ITSELF),
       "that of the first is");
    end();

    two_jobs();
    SHOWS(.state = "FAILED", .id = 21, .code = 76, .submitted = 50);
    ok(gets(ALLOC_GRANTED, 1), "the second was fenced before we heard of it");
    is_str(h.note.native_id, "20", "so it is the first");
    end();

    submit_one();
    answers(21);
    ok(waits(1, "Slurm(Submitted)") && claim(1, "20"),
       "a claim by a job that is not in sight");
    SHOWS(.state = "RUNNING", .id = 21, .submitted = 50);
    ok(is_quiet(), "another one is not it");
    SHOWS(.state = "RUNNING", .id = 20, .place = "n1:0");
    ok(gets(ALLOC_GRANTED, 1), "until it is");
    ok(hears_kill(TAG1, 21), "and the other is killed");
    end();
}

/* The second claims when the first has ended, and was taken for the attempt. */
static void test_late_claim(void)
{
    run_one();
    SHOWS(.state = "FAILED", .code = 1);
    ok(!next_note() && has_no_exit() && exits(1, 1, 0, ALLOC_BY_ITSELF),
       "it has ended");
    ok(claim(1, "20") && is_quiet(), "its own late claim changes nothing");
    ok(claim(1, "33"), "but that of a late one does");
    ok(is_lost(1, "Slurm job 33 claimed it after job 20 had ended"), "lost");
    is_str(h.note.native_id, "33", "as the one that claimed");
    SHOWS(.state = "RUNNING", .id = 33, .submitted = 60);
    ok(!next_note() && hears_kill(TAG1, 33), "which is killed");
    end();
}

/* One that comes to light when all is over must not run. */
static void test_late_duplicate(void)
{
    run_one();
    SHOWS(.state = "COMPLETED");
    ok(!next_note() && has_no_exit() && exits(1, 0, 0, ALLOC_BY_ITSELF),
       "it has ended");
    SHOWS(.state = "PENDING", .id = 33, .submitted = 60);
    ok(!next_note() && hears_kill(TAG1, 33), "a late one is killed");
    answers(0);
    ok(passes(9), "a while");
    h.clk.t_s += 1;
    ok(!next_note() && hears_kill(TAG1, 33), "until");
    answers(0);
    SHOWS(.state = "CANCELLED", .id = 33, .submitted = 60);
    ok(passes(100), "it is dead");
    end();
}

/* ---- Slurm forgets --------------------------------------------------------
 */
static void test_forgotten(void)
{
    submit_one();
    answers(20);
    ok(waits(1, "Slurm(Submitted)"), "acknowledged");
    scan();
    ok(passes(RECONCILE_S), "and never seen");
    scan();
    ok(waits(1, "Slurm knows no job 20 any more: submitted again"), "F21");
    ok(hears(HELPER_SUBMIT), "submitted again");
    answers(20);
    ok(waits(1, "Slurm(Submitted)"), "even with the same id");
    SHOWS(.state = "PENDING", .reason = "Priority", .submitted = 50);
    ok(waits(1, "Slurm(Priority)"), "it waits");
    end();

    run_one();
    gone(TAG1, 20);
    scan();
    ok(!next_note() && has_no_exit(), "gone without a claim or a file");
    h.clk.t_s += RECONCILE_S;
    scan();
    ok(!next_note() && has_no_exit() && !next_note() && recalls(UP_SINCE, ""),
       "for long, of a Slurm that was started again");
    ok(waits(1, "Slurm knows no job 20 any more: submitted again") &&
           hears(HELPER_SUBMIT),
       "is submitted again");
    answers(21);
    SHOWS(.state = "RUNNING", .id = 21, .place = "n1:0,1 n2:0,1",
          .submitted = 50);
    ok(gets(ALLOC_WAITING, 1) && gets(ALLOC_GRANTED, 1), "and granted again");
    is_str(h.note.native_id, "21", "as 21");
    end();

    run_one();
    ok(claim(1, "20"), "claimed");
    gone(TAG1, 20);
    scan();
    ok(!next_note() && has_no_exit() && passes(RECONCILE_S), "and gone");
    scan();
    ok(!next_note() && has_no_exit() && !next_note() && recalls(UP_LONG, "") &&
           is_lost(1, "Slurm knows no job 20 any more, and it left no exit "
                      "file"),
       "is lost: it did run");
    ok(!h.note.is_forgotten, "and Slurm has lost nothing");
    ok(passes(1000), "and is not submitted again");
    end();

    run_one();
    ok(claim(1, "20"), "claimed");
    gone(TAG1, 20);
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "gone when it was over");
    answers_exit(0, 0, 20);
    ok(exits(1, 0, 0, ALLOC_BY_ITSELF), "F22: the file says how");
    end();

    run_one();
    gone(TAG1, 20);
    ok(is_quiet(), "gone");
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    ok(gets(ALLOC_GRANTED, 1), "and there again");
    scan_for_long();
    ok(is_quiet(), "is as if nothing had been");
    end();

    run_one();
    gone(TAG1, 20);
    ok(is_quiet() && release(1, 60) == 0 && is_quiet(),
       "gone when it is released");
    scan();
    ok(!next_note() && has_no_exit() && passes(RECONCILE_S),
       "it is looked for");
    scan();
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_ITSELF),
       "and then over");
    end();
}

/* F23: Slurm lost its state, and gives the id to another job. */
static void test_reused_id(void)
{
    run_one();
    ok(ask(ALLOC_NEW, 2) && hears(HELPER_SUBMIT), "a second attempt");
    answers(20);
    ok(waits(2, "Slurm(Submitted)"), "gets the same id");
    SHOWS(.tag = TAG2, .state = "RUNNING", .place = "n5:0", .submitted = 70);
    ok(gets(ALLOC_GRANTED, 2), "and runs");
    is_int(release(1, 0), 0, "the first is released");
    ok(is_quiet(), "nobody is signalled in its name");
    scan();
    ok(!next_note() && has_no_exit() && passes(RECONCILE_S),
       "it is looked for");
    scan();
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_ITSELF),
       "and over");
    ok(passes(100), "the second is not touched");
    end();

    run_one();
    SHOWS(.tag = "mgpu:other:1:1:ff", .state = "RUNNING", .uid = 7);
    scan();
    ok(!next_note() && has_no_exit(), "a stranger has its id");
    end();

    run_one();
    ok(claim(1, "20"), "claimed");
    gone(TAG1, 20);
    SHOWS(.state = "RUNNING", .id = 20, .uid = 7, .submitted = 80);
    ok(is_quiet(), "a stranger has its id and its tag");
    is_int(release(1, 0), 0, "released");
    ok(is_quiet(), "the stranger is not signalled");
    end();
}

/* ---- others act in Slurm --------------------------------------------------
 */
static void test_requeued(void)
{
    run_one();
    SHOWS(.state = "PENDING", .reason = "BeginTime", .restarts = 1,
          .submitted = 99);
    ok(is_lost(1, "Slurm job 20 was requeued"),
       "requeued, and no worker had claimed it: perhaps it cannot be launched");
    ok(hears_kill(TAG1, 20), "and killed");
    SHOWS(.state = "CANCELLED", .restarts = 1, .submitted = 99);
    answers(0);
    ok(passes(100), "that is all");
    ok(ask(ALLOC_AGAIN, 1) && gets(ALLOC_LOST, 1), "asked again: lost");
    end();

    run_one();
    SHOWS(.state = "RUNNING", .restarts = 1, .place = "n1:0", .submitted = 99);
    ok(is_lost(1, "Slurm job 20 was requeued") && hears_kill(TAG1, 20),
       "requeued, and running already");
    end();

    run_one();
    ok(claim(1, "20"), "claimed");
    SHOWS(.state = "PENDING", .reason = "BeginTime", .restarts = 1,
          .submitted = 99);
    ok(is_preempted(1, "Slurm job 20 was requeued"),
       "then somebody wanted that: no fault of its own");
    end();

    run_one();
    SHOWS(.state = "PENDING", .reason = "Resources");
    ok(waits(1, "Slurm(Resources)"), "Slurm forgot that it had started");
    SHOWS(.state = "RUNNING", .place = "n3:0,1 n4:0,1");
    ok(gets(ALLOC_GRANTED, 1), "without a claim no harm is done");
    is_str(h.note.place, "n3:0,1 n4:0,1", "it is somewhere else");
    end();

    run_one();
    ok(claim(1, "20"), "claimed");
    SHOWS(.state = "PENDING", .reason = "Resources");
    ok(is_lost(1, "Slurm has forgotten that it started job 20") &&
           h.note.is_forgotten && hears_kill(TAG1, 20),
       "with one it must not run twice");
    end();

    submit_one();
    answers(20);
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)"), "it waits");
    ok(claim(1, "20"), "it is claimed before a scan shows that it runs");
    scan();
    ok(is_quiet(), "a scan that began earlier");
    SHOWS(.state = "RUNNING", .place = "n1:0");
    scan();
    ok(gets(ALLOC_GRANTED, 1) && is_quiet(), "and one that did not");
    end();

    submit_one();
    answers(20);
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)"), "it waits");
    ok(claim(1, "20"), "it is claimed, and Slurm forgets that it runs");
    scan();
    ok(is_quiet(), "which one scan does not prove");
    scan();
    ok(is_lost(1, "Slurm has forgotten that it started job 20") &&
           h.note.is_forgotten && hears_kill(TAG1, 20),
       "but the next one does");
    end();
}

static void test_completing(void)
{
    run_one();
    SHOWS(.state = "COMPLETING", .code = 3);
    ok(passes(299), "a node that does not let go");
    h.clk.t_s += 1;
    ok(!next_note() && has_no_exit() && exits(1, 3, 0, ALLOC_BY_ITSELF),
       "is not waited for for ever");
    SHOWS(.state = "NODE_FAIL");
    ok(passes(10), "what comes later is of no interest");
    end();

    run_one();
    SHOWS(.state = "COMPLETING");
    ok(passes(299), "one of which nothing else is known");
    h.clk.t_s += 1;
    ok(!next_note() && has_no_exit() &&
           is_lost(1, "Slurm job 20 does not complete on n1:0,1 n2:0,1"),
       "is lost");
    end();
}

static void test_forged(void)
{
    submit_one();
    uint64_t id = h.cmd.id;
    SHOWS(.state = "RUNNING", .uid = 7, .place = "n1:0");
    SHOWS(.state = "FAILED", .uid = 7, .id = 30, .code = 1);
    ok(is_quiet(), "another user's job with the same tag is not it");
    SHOWS(.tag = "mgpu:c:1:1:00000000000000ab", .state = "RUNNING", .id = 31);
    SHOWS(.tag = "mgpu:d:1:1:00000000000000aa", .state = "RUNNING", .id = 32);
    SHOWS(.tag = "mgpu:c:9:1:00000000000000aa", .state = "RUNNING", .id = 33);
    ok(is_quiet(), "nor are those with another");
    SHOWS(.state = "REVOKED", .id = 34);
    ok(is_quiet(), "a state that means nothing to us");
    gone(TAG1, 99);
    gone(TAG2, 20);
    says("{'ev':'reply','id':%" PRIu64 ",'slurm_id':5}", id + 77);
    ok(is_quiet(), "what nobody has asked for");
    answers(40);
    ok(waits(1, "Slurm(Submitted)"), "the answer");
    is_str(h.note.native_id, "40", "is right");
    SHOWS(.state = "RUNNING", .id = 40, .place = "n1:0");
    ok(gets(ALLOC_GRANTED, 1) && claim(1, "20"), "a claim by a stranger's job");
    ok(is_quiet(), "kills nobody");
    end();

    submit_one();
    says("{'ev':'reply','id':1,'slurm_id':");
    ok(waits(1, "SlurmUnknown: perhaps submitted, looking for it: "
                "mgpu-slurm-helper sent an invalid line"),
       "a line that is none may have been the answer");
    SHOWS(.state = "RUNNING", .place = "n1:0");
    ok(gets(ALLOC_GRANTED, 1), "the truth comes out");
    end();
}

/* ---- bounds ---------------------------------------------------------------
 */
/* All submits that are under way, unanswered; their number. */
static int hear_all(uint64_t *ids, int cap, size_t launch_bytes)
{
    int n = 0;
    for (int idle = 0; idle < 10 && n < cap;) {
        if (!next_command()) {
            (void)next_note();
            idle++;
        } else if (h.cmd.op == HELPER_SUBMIT &&
                   strlen(h.cmd.req.launch) == launch_bytes) {
            ids[n++] = h.cmd.id;
        }
    }
    return n;
}

static void test_many(void)
{
    enum { N = 300, BYTES = 100000 };
    uint64_t ids[N];
    int n = 0;
    int most = 0;
    int size = 1;
    char *launch = malloc(BYTES + 1);
    if (!launch)
        exit(1);
    (void)snprintf(launch, BYTES + 1, "{\"a\":\"%0*d\"}", BYTES - 8, 0);
    begin();
    (void)setsockopt(h.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    hello(1);
    ok(is_quiet(), "a helper with a small ear");
    for (uint64_t i = 1; i <= N; i++) {
        struct alloc_req req = {.job = i, .ask = ALLOC_NEW, .launch = launch};
        n += ask_for(&req, NULL) == 0;
    }
    is_int(n, N, "many long requests");
    for (n = 0; n < N;) {
        int k = hear_all(ids, N, BYTES);
        if (k == 0)
            break;
        most = k > most ? k : most;
        for (int i = 0; i < k; i++)
            says("{'ev':'reply','id':%" PRIu64 ",'slurm_id':%d}", ids[i],
                 100 + n++);
    }
    is_int(n, N, "all of them arrive");
    ok(most >= 8 && most <= 16, "%d at once at most", most);
    free(launch);
    end();
}

static void test_blind(void)
{
    restart(ALLOC_AGAIN, false, NULL);
    ok(is_quiet(), "among very many jobs");
    for (int i = 0; i < 17000; i++) {
        char tag[64];
        (void)snprintf(tag, sizeof(tag), "mgpu:c:%d:1:00000000000000cc",
                       i + 100);
        SHOWS(.tag = tag, .state = "PENDING", .id = i + 1000);
        if (i % 100 == 0)
            (void)next_note();
    }
    scan_for_long();
    scan_for_long();
    ok(is_quiet(), "not all of which can be kept, absence proves nothing");
    SHOWS(.state = "RUNNING", .id = 500, .place = "n1:0");
    ok(gets(ALLOC_GRANTED, 1), "but the one that is asked for is seen");
    for (int i = 0; i < 10000; i++) {
        char tag[64];
        (void)snprintf(tag, sizeof(tag), "mgpu:c:%d:1:00000000000000cc",
                       i + 100);
        gone(tag, i + 1000);
        if (i % 100 == 0)
            (void)next_note();
    }
    ok(is_quiet(), "most of them go");
    scan();
    ok(!next_note() && hears(HELPER_AGAIN), "all that is left is asked for");
    scan();
    ok(is_quiet(), "once");
    hello(2);
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT),
       "told anew, absence proves something");
    end();
}

static void test_forgets(void)
{
    begin();
    bool is = true;
    for (uint64_t i = 1; i <= 1100; i++)
        is = is && ask(ALLOC_NEW, i) && gets(ALLOC_WAITING, i) &&
             release(i, 5) == 0 && exits(i, 0, SIGTERM, ALLOC_BY_ITSELF);
    ok(is, "very many come and go");
    is_int(release(100, 5), ERR_NOTFOUND, "the oldest are forgotten");
    is_int(release(101, 5), 0, "a thousand are remembered");
    end();
}

int main(void)
{
    test_answer_lost();
    test_submit_again();
    test_duplicate();
    test_late_claim();
    test_late_duplicate();
    test_forgotten();
    test_reused_id();
    test_requeued();
    test_completing();
    test_forged();
    test_many();
    test_blind();
    test_forgets();
    return tap_done();
}
