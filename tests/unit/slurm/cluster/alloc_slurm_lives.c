/* alloc_slurm_lives.c - the Slurm allocator when daemon or helper was started
 * again: nothing is submitted twice, nothing is lost (F04). */
#include "tests/unit/slurm/fake_helper.h"

/* ---- the helper is started again ------------------------------------------
 */
static void test_generation(void)
{
    submit_one();
    says("%s", "");
    hello(2);
    ok(waits(1, "SlurmUnknown: perhaps submitted, looking for it: "
                "mgpu-slurm-helper was restarted"),
       "the helper dies over a submit");
    SHOWS(.state = "PENDING", .reason = "Priority");
    scan();
    ok(waits(1, "Slurm(Priority)") && is_quiet(), "it had been carried out");
    end();

    submit_one();
    uint64_t id = h.cmd.id;
    hello(2);
    ok(gets(ALLOC_WAITING, 1), "the next one finds the command");
    says("{'ev':'reply','id':%" PRIu64 ",'slurm_id':20}", id);
    ok(waits(1, "Slurm(Submitted)"), "and its late answer counts");
    end();

    submit_one();
    id = h.cmd.id;
    hello(2);
    ok(gets(ALLOC_WAITING, 1), "the next one finds the command");
    says("{'ev':'reply','id':%" PRIu64
         ",'code':'INVAL','why':'no such partition','is_sure':true}",
         id);
    ok(gets(ALLOC_REFUSED, 1), "and its late refusal counts, too");
    end();

    submit_one();
    hello(2);
    ok(gets(ALLOC_WAITING, 1), "the helper dies over a submit");
    scan_for_long();
    ok(!next_note() && hears(HELPER_SUBMIT), "that was not carried out");
    end();

    run_one();
    hello(2);
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    scan();
    ok(is_quiet(), "one that runs is not disturbed");
    hello(3);
    ok(is_quiet(), "nor is it gone");
    ok(claim(1, "20"), "(it is claimed)");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT),
       "before the new helper has seen all, and not it");
    answers_exit(0, 9, 20);
    ok(!next_note() && recalls(UP_LONG, ""), "nor anybody why");
    ok(exits(1, 0, 9, ALLOC_BY_ITSELF), "the file knows how");
    end();

    run_one();
    ok(release(1, 60) == 0 && !next_note() && hears_signal(20, SIGTERM),
       "the helper dies over a signal");
    hello(2);
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    ok(passes(4), "it is not known whether it came");
    h.clk.t_s += 1;
    ok(!next_note() && hears_signal(20, SIGTERM), "so it is sent again");
    end();

    run_one();
    SHOWS(.state = "COMPLETED");
    ok(!next_note() && hears(HELPER_READ_EXIT), "it dies over an exit file");
    hello(2);
    ok(!next_note() && hears(HELPER_READ_EXIT), "which is read again");
    fails("TIMEOUT", "the disk does not answer", true);
    ok(passes(4), "it cannot be read");
    h.clk.t_s += 1;
    ok(!next_note() && hears(HELPER_READ_EXIT), "now, but later");
    answers_exit(4, 0, 20);
    ok(exits(1, 4, 0, ALLOC_BY_ITSELF), "it can");
    end();
}

/* ---- the daemon is started again ------------------------------------------
 */
static void test_restart(void)
{
    restart(ALLOC_AGAIN, true, "20");
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    ok(gets(ALLOC_GRANTED, 1), "it runs");
    is_str(h.note.place, "n1:0,1 n2:0,1", "where it was");
    end();

    begin();
    hello(1);
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    scan();
    ok(is_quiet(), "nobody has asked yet");
    ok(passes(100), "it is let alone");
    ok(ask(ALLOC_AGAIN, 1) && gets(ALLOC_WAITING, 1) && gets(ALLOC_GRANTED, 1),
       "now somebody has");
    ok(is_quiet(), "it is not submitted");
    end();

    restart(ALLOC_AGAIN, false, NULL);
    SHOWS(.state = "CANCELLED");
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_OTHER),
       "somebody cancelled it meanwhile");
    end();

    restart(ALLOC_AGAIN, true, "20");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "Slurm has forgotten it");
    answers_exit(7, 0, 20);
    ok(!next_note() && recalls(UP_LONG, ",'has_accounting':true"),
       "so has its accounting");
    ok(exits(1, 7, 0, ALLOC_BY_ITSELF), "the file has not");
    is_str(h.note.native_id, "20", "nor whose it is");
    end();

    restart(ALLOC_AGAIN, true, "20");
    scan();
    ok(!next_note() && has_no_exit(), "nor is there a file");
    h.clk.t_s += RECONCILE_S;
    scan();
    ok(!next_note() && has_no_exit() && !next_note() && recalls(UP_LONG, ""),
       "also later");
    ok(is_lost(1, "Slurm knows no job 20 any more, and it left no exit file"),
       "it ran, and is lost");
    end();

    restart(ALLOC_AGAIN, false, NULL);
    scan();
    ok(!next_note() && has_no_exit(), "one that was not even submitted");
    h.clk.t_s += RECONCILE_S;
    scan();
    ok(!next_note() && has_no_exit() && !next_note() && recalls(UP_LONG, "") &&
           !next_note() && hears(HELPER_SUBMIT),
       "is submitted when that is sure");
    end();

    restart(ALLOC_AGAIN, true, "20");
    SHOWS(.state = "PENDING", .restarts = 1, .submitted = 99);
    ok(is_preempted(1, "Slurm job 20 was requeued"),
       "it was requeued meanwhile");
    ok(hears_kill(TAG1, 20), "and must not run again");
    end();

    restart(ALLOC_AGAIN, true, "20");
    SHOWS(.state = "RUNNING", .restarts = 1, .place = "n1:0", .submitted = 99);
    ok(is_preempted(1, "Slurm job 20 was requeued") && hears_kill(TAG1, 20),
       "even if it does already");
    end();

    restart(ALLOC_AGAIN, true, "21");
    SHOWS(.state = "FAILED", .id = 21, .code = 76, .submitted = 50);
    SHOWS(.state = "RUNNING", .id = 20, .place = "n1:0");
    scan();
    ok(!next_note() || h.note.kind != ALLOC_EXITED, "one of two was fenced");
    ok(h.note.kind == ALLOC_GRANTED || gets(ALLOC_GRANTED, 1),
       "it is the other");
    is_str(h.note.native_id, "20", "which runs");
    ok(is_quiet(), "and that is all");
    end();

    restart(ALLOC_AGAIN, false, NULL);
    says("{'ev':'reply','id':0,'slurm_id':5}");
    ok(is_quiet(), "an answer to nothing says nothing");
    end();

    submit_one();
    says("{'ev':'reply','id':0,'code':'INVAL','why':'x','is_sure':true}");
    ok(waits(1, "SlurmUnknown: perhaps submitted, looking for it: "
                "mgpu-slurm-helper could not parse a command"),
       "what was not understood may have been any command");
    end();
}

static void test_find(void)
{
    restart(ALLOC_FIND, false, NULL);
    ok(release(1, 60) == 0, "that is to end");
    scan();
    ok(!next_note() && has_no_exit(), "and is not in sight");
    ok(passes(RECONCILE_S), "it might come yet");
    scan();
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_ITSELF),
       "it does not, and never starts");
    SHOWS(.state = "PENDING");
    ok(!next_note() && hears_kill(TAG1, 20), "even if it does later");
    end();

    restart(ALLOC_FIND, true, "20");
    ok(release(1, 60) == 0 && is_quiet(), "that is to end, but has its grace");
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    ok(gets(ALLOC_GRANTED, 1) && hears_signal(20, SIGTERM), "when it is found");
    answers(0);
    SHOWS(.state = "FAILED", .code = 143);
    ok(!next_note() && hears(HELPER_READ_EXIT), "it ends");
    answers_exit(0, 15, 20);
    ok(exits(1, 0, SIGTERM, ALLOC_BY_ITSELF), "as it should");
    end();

    restart(ALLOC_FIND, false, NULL);
    SHOWS(.state = "PENDING", .reason = "Priority");
    ok(waits(1, "Slurm(Priority)") && is_quiet(), "one that is pending");
    ok(release(1, 60) == 0 && hears_kill(TAG1, 20), "is killed");
    SHOWS(.state = "CANCELLED");
    answers(0);
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_ITSELF),
       "by us");
    end();
}

/* Slurm has forgotten it, and what its batch step was told is the last word. */
static void tells_told(const char *word, bool is_ending)
{
    says("{'ev':'reply','id':%" PRIu64
         ",'exit_code':0,'signal':%d,'slurm_id':20,'told':'%s',"
         "'is_ending':%s}",
         h.cmd.id, is_ending ? SIGKILL : 0, word, is_ending ? "true" : "false");
}

static void forgotten(const char *word)
{
    restart(ALLOC_AGAIN, true, "20");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "Slurm has forgotten it");
    tells_told(word, false);
}

static void test_told(void)
{
    forgotten("CANCELLED");
    ok(exits(1, 0, SIGTERM, ALLOC_BY_OTHER), "it was cancelled there");
    is_str(
        h.note.why.msg,
        "cancelled in Slurm, its batch step reports; Slurm has forgotten job "
        "20",
        "both witnesses");
    end();

    forgotten("TIMEOUT");
    ok(exits(1, 0, SIGTERM, ALLOC_BY_LIMIT), "its limit had come");
    end();

    forgotten("PREEMPTED");
    ok(is_preempted(1,
                    "Slurm job 20 was preempted, its batch step reports; Slurm "
                    "has forgotten it"),
       "it had to make room");
    end();

    forgotten("REQUEUED");
    ok(is_preempted(1,
                    "Slurm job 20 was requeued, its batch step reports; Slurm "
                    "has forgotten it"),
       "it was requeued");
    end();

    restart(ALLOC_AGAIN, true, "20");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT) && release(1, 60) == 0,
       "one that we end ourselves");
    tells_told("CANCELLED", false);
    ok(exits(1, 0, 0, ALLOC_BY_ITSELF), "is told so by us");
    end();

    restart(ALLOC_AGAIN, true, "20");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT) && release(1, 60) == 0,
       "of such a one");
    answers_exit(0, SIGTERM, 20);
    ok(exits(1, 0, SIGTERM, ALLOC_BY_ITSELF), "the file says enough");
    end();

    forgotten("ENDED");
    ok(exits(1, 0, SIGTERM, ALLOC_BY_OTHER), "somebody ended it: not again");
    is_str(h.note.why.msg,
           "ended in Slurm, its batch step reports without a cause; Slurm has "
           "forgotten job 20",
           "and nobody knows why");
    end();

    restart(ALLOC_AGAIN, true, "20");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "one without an exit file");
    tells_told("CANCELLED", true);
    ok(passes(RECONCILE_S), "may still be ending");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "after a while");
    tells_told("CANCELLED", true);
    ok(exits(1, 0, SIGKILL, ALLOC_BY_OTHER), "it is not");
    end();

    run_one();
    SHOWS(.state = "CANCELLED");
    ok(!next_note() && hears(HELPER_READ_EXIT), "not claimed, and cancelled");
    tells_told("CANCELLED", true);
    ok(exits(1, 0, SIGTERM, ALLOC_BY_OTHER), "but it had begun");
    end();
}

/* Up to the question, from which the test goes on. */
static void recall(bool is_claimed, const char *native_id)
{
    restart(ALLOC_AGAIN, is_claimed, native_id);
    scan();
    ok(!next_note() && has_no_exit() && passes(RECONCILE_S), "out of sight");
    scan();
    ok(!next_note() && has_no_exit() && !next_note(), "for long");
}

/* When it ended: its file says, or else its accounting. */
static void test_when(void)
{
    static const char *const books[] = {
        "", ",'state':'FAILED','exit_code':3,'slurm_id':20,'ended':1795000000"};
    for (int i = 0; i < 2; i++) {
        restart(ALLOC_AGAIN, true, "20");
        scan();
        ok(!next_note() && hears(HELPER_READ_EXIT), "Slurm has forgotten it");
        answers_ended(3, 0, 20, 1794999999500);
        ok(!next_note() && recalls(UP_LONG, books[i]) &&
               exits(1, 3, 0, ALLOC_BY_ITSELF),
           "its file has not%s", i == 0 ? "" : ", nor its accounting");
        is_int(h.note.ended_ms, 1794999999500, "when it ended says the file");
        end();
    }
    recall(true, "20");
    ok(recalls(UP_LONG, books[1]) && exits(1, 3, 0, ALLOC_BY_ITSELF),
       "its accounting alone has not");
    is_int(h.note.ended_ms, 1795000000000, "and says when it ended");
    end();
}

static void test_accounting(void)
{
    recall(false, NULL);
    ok(recalls(UP_LONG,
               ",'has_accounting':true,'state':'CANCELLED','slurm_id':20,"
               "'reason':'by anna'") &&
           exits(1, 0, SIGTERM, ALLOC_BY_OTHER),
       "it was cancelled before it began");
    is_str(h.note.why.msg,
           "cancelled in Slurm by anna, its accounting reports; slurmctld has "
           "forgotten the job",
           "by whom, and who says so");
    is_str(h.note.native_id, "20", "which job it was");
    ok(is_quiet() && passes(1000), "it is not submitted again");
    end();

    recall(true, "20");
    ok(recalls(UP_LONG, ",'has_accounting':true,'state':'NODE_FAIL',"
                        "'slurm_id':20") &&
           is_lost(1, "Slurm job 20 lost a node") && h.cmd.slurm_id == 20 &&
           h.cmd.req.since == SINCE && strcmp(h.cmd.req.name, "mnist") == 0 &&
           strcmp(h.cmd.req.dir, "/jobs/1/1") == 0,
       "it lost a node");
    end();

    recall(true, "20");
    ok(recalls(UP_LONG, ",'has_accounting':true") &&
           is_lost(1, "Slurm knows no job 20 any more, nor does its "
                      "accounting, and it left no exit file"),
       "nobody knows");
    end();

    recall(true, "20");
    ok(recalls(UP_SINCE, "") &&
           is_lost(1, "slurmctld was restarted, and knows no job 20 any more; "
                      "it left no exit file") &&
           h.note.is_forgotten,
       "F21: slurmctld has lost it");
    end();

    recall(true, "20");
    ok(recalls(0, "") && gets(ALLOC_LOST, 1) && !h.note.is_forgotten,
       "one of two may have been up for long");
    end();

    recall(false, "20");
    ok(recalls(UP_LONG, "") && exits(1, 0, SIGTERM, ALLOC_BY_OTHER),
       "slurmctld has lost nothing: somebody ended it before it began");
    end();

    recall(false, "20");
    ok(recalls(UP_SINCE, "") && gets(ALLOC_WAITING, 1) && hears(HELPER_SUBMIT),
       "or slurmctld may have lost it: submitted again");
    end();

    recall(false, NULL);
    ok(hears(HELPER_RECALL), "accounting");
    fails("UNAVAIL", "slurmdbd is away", true);
    ok(waits(1, "SlurmUnknown: slurmdbd is away") && passes(4),
       "does not answer");
    h.clk.t_s += 1;
    ok(!next_note() && recalls(UP_LONG, "") && !next_note() &&
           hears(HELPER_SUBMIT),
       "and is asked again");
    end();

    recall(false, NULL);
    bool asks = true;
    for (int i = 0; i < 10; i++) {
        asks = asks && hears(HELPER_RECALL);
        fails("UNAVAIL", "slurmdbd is away", true);
        (void)next_note();
        h.clk.t_s += 5;
        (void)next_note();
    }
    ok(asks && hears(HELPER_SUBMIT), "ten times, and no more");
    end();

    restart(ALLOC_AGAIN, true, "20");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "Slurm has forgotten it");
    answers_exit(0, SIGTERM, 20);
    ok(!next_note() &&
           recalls(UP_LONG, ",'has_accounting':true,'state':'CANCELLED',"
                            "'slurm_id':20") &&
           exits(1, 0, SIGTERM, ALLOC_BY_OTHER),
       "the file says how, and accounting who");
    end();
}

int main(void)
{
    test_when();
    test_accounting();
    test_told();
    test_generation();
    test_restart();
    test_find();
    return tap_done();
}
