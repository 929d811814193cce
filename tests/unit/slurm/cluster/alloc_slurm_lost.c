/* alloc_slurm_lost.c - slurmctld loses an attempt that no worker has claimed:
 * the attempt is submitted again, and ends at no cost to the job (F21, F23).
 */
#include "tests/unit/slurm/fake_helper.h"

/* The first submission, job 20, is out of sight, of a slurmctld that was
 * started again; the second one gets the same id, and runs. */
static void lose_one(void)
{
    run_one();
    gone(TAG1, 20);
    scan();
    ok(!next_note() && has_no_exit() && passes(RECONCILE_S), "it is lost");
    scan();
    ok(!next_note() && has_no_exit() && !next_note() && recalls(UP_SINCE, "") &&
           waits(1, "Slurm knows no job 20 any more: submitted again") &&
           hears(HELPER_SUBMIT),
       "and submitted again");
    answers(20);
    ok(waits(1, "Slurm(Submitted)"), "with the same id");
}

static void lose_one_running(void)
{
    lose_one();
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1", .submitted = 50);
    ok(gets(ALLOC_GRANTED, 1), "it is granted again");
}

static void answers_told(const char *word)
{
    says("{'ev':'reply','id':%" PRIu64
         ",'exit_code':0,'signal':15,'slurm_id':20,'told':'%s'}",
         h.cmd.id, word);
}

static bool is_forgotten(const char *what)
{
    char why[200];
    (void)snprintf(why, sizeof(why),
                   "slurmctld lost the attempt: Slurm job 20 %s", what);
    return is_lost(1, why) && h.note.is_forgotten;
}

/* What Slurm says of the second one. */
static void test_second(void)
{
    static const struct {
        const char *state, *what;
        int code, file_code; /* -1: no file */
    } all[] = {
        {"FAILED", "found the batch step of an earlier submission", 76, -1},
        {"FAILED", "ended before a worker claimed it", 76, 76},
        {"FAILED", "ended before a worker claimed it", 1, 1},
        {"FAILED", "ended before a worker claimed it", 1, -1},
        {"COMPLETED", "ended before a worker claimed it", 0, 0},
        {"CANCELLED", "could not be launched", 0, -1},
        {"NODE_FAIL", "ended before a worker claimed it", 0, -1},
        {"PREEMPTED", "ended before a worker claimed it", 0, 0},
        {"TIMEOUT", "ended before a worker claimed it", 0, -1},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        lose_one_running();
        SHOWS(.state = all[i].state, .code = all[i].code, .submitted = 50);
        bool is = !next_note() && hears(HELPER_READ_EXIT);
        if (all[i].file_code < 0)
            fails("NOTFOUND", "no file", true);
        else
            answers_exit(all[i].file_code, 0, 20);
        ok(is && is_forgotten(all[i].what), "%s %d, file %d: Slurm's loss",
           all[i].state, all[i].code, all[i].file_code);
        end();
    }
}

static void test_cancelled(void)
{
    lose_one_running();
    SHOWS(.state = "CANCELLED", .submitted = 50);
    ok(!next_note() && hears(HELPER_READ_EXIT), "cancelled in Slurm");
    answers_told("CANCELLED");
    ok(exits(1, 0, SIGTERM, ALLOC_BY_OTHER),
       "its own batch step was told: somebody wanted that");
    end();

    lose_one();
    SHOWS(.state = "PENDING", .reason = "Priority", .submitted = 50);
    ok(waits(1, "Slurm(Priority)"), "pending");
    SHOWS(.state = "CANCELLED", .submitted = 50);
    ok(!next_note() && has_no_exit() && exits(1, 0, SIGTERM, ALLOC_BY_OTHER),
       "cancelled before it began: somebody wanted that, too");
    end();

    lose_one_running();
    ok(release(1, 60) == 0 && hears_signal(20, SIGTERM), "released by us");
    answers(0);
    SHOWS(.state = "CANCELLED", .submitted = 50);
    ok(!next_note() && has_no_exit() &&
           is_forgotten("ended before a worker claimed it"),
       "for want of a claim: Slurm's loss, too");
    end();
}

static void test_claimed(void)
{
    lose_one_running();
    ok(claim(1, "20"), "a worker claims it");
    SHOWS(.state = "FAILED", .code = 3, .submitted = 50);
    ok(!next_note() && hears(HELPER_READ_EXIT), "then it fails");
    answers_exit(3, 0, 20);
    ok(exits(1, 3, 0, ALLOC_BY_ITSELF), "which is the job's own affair");
    end();

    run_one();
    SHOWS(.state = "FAILED", .code = 76);
    ok(!next_note() && hears(HELPER_READ_EXIT), "none was lost");
    answers_exit(76, 0, 20);
    ok(exits(1, 76, 0, ALLOC_BY_ITSELF), "and its worker was fenced");
    end();
}

/* What this life of the daemon has not seen. */
static void test_witnesses(void)
{
    restart(ALLOC_AGAIN, false, "20");
    SHOWS(.state = "FAILED", .code = 76, .place = "n1:0");
    ok(!next_note() && has_no_exit() &&
           is_forgotten("found the batch step of an earlier submission"),
       "a batch step that left no file found another one");
    end();

    run_one();
    SHOWS(.state = "PENDING", .reason = "Resources");
    ok(waits(1, "Slurm(Resources)"), "slurmctld lost its start");
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    ok(gets(ALLOC_GRANTED, 1), "it is started again");
    SHOWS(.state = "CANCELLED");
    ok(!next_note() && has_no_exit() && is_forgotten("could not be launched"),
       "where it runs already");
    end();

    for (int i = 0; i < 2; i++) {
        restart(ALLOC_AGAIN, false, "20");
        scan();
        ok(!next_note() && hears(HELPER_READ_EXIT), "Slurm knows it no more");
        answers_exit(1, 0, 20);
        ok(!next_note() && recalls(i == 0 ? UP_SINCE : UP_LONG, ""),
           "its batch step failed");
        ok(i == 0 ? is_forgotten("ended before a worker claimed it")
                  : exits(1, 1, 0, ALLOC_BY_ITSELF),
           i == 0 ? "for slurmctld had lost it" : "which slurmctld had not");
        end();
    }
}

/* ---- files of another submission than the last one ------------------------
 */
static void answers_other(int code, int signo, const char *rest)
{
    says("{'ev':'reply','id':%" PRIu64 ",'exit_code':%d,'signal':%d,"
         "'slurm_id':20,'is_other':true%s}",
         h.cmd.id, code, signo, rest);
}

/* Both are job 20. slurmd cancels the second one as a copy of the first. */
static void test_other(void)
{
    static const char *const files[] = {
        ",'told':'CANCELLED'",
        ",'told':'CANCELLED','is_ending':true",
        ",'is_ending':true",
        "",
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        restart(ALLOC_AGAIN, false, "20");
        SHOWS(.state = "CANCELLED", .place = "n1:0", .submitted = 50);
        ok(!next_note() && hears(HELPER_READ_EXIT), "cancelled in Slurm");
        answers_other(1, 0, files[i]);
        ok(is_forgotten("could not be launched"),
           "files of the first one do not speak for it%s", files[i]);
        end();
    }

    restart(ALLOC_AGAIN, false, "20");
    SHOWS(.state = "FAILED", .code = 76, .place = "n1:0", .submitted = 50);
    ok(!next_note() && hears(HELPER_READ_EXIT), "refused by its directory");
    answers_other(1, 0, "");
    ok(is_forgotten("found the batch step of an earlier submission"),
       "nor does the exit that refused it");
    end();
}

static void test_other_gone(void)
{
    restart(ALLOC_AGAIN, false, "20");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "Slurm knows it no more");
    answers_other(0, SIGTERM, ",'told':'CANCELLED'");
    ok(passes(RECONCILE_S), "what an earlier one was told says nothing");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "also later");
    answers_other(0, SIGTERM, ",'told':'CANCELLED'");
    ok(!next_note() && recalls(UP_SINCE, "") &&
           waits(1, "Slurm knows no job 20 any more: submitted again") &&
           hears(HELPER_SUBMIT),
       "so it is submitted again");
    end();
}

/* Of two that were carried out the first has claimed it. */
static void test_other_claimed(void)
{
    run_one();
    ok(claim(1, "20"), "claimed");
    SHOWS(.state = "FAILED", .code = 3);
    ok(!next_note() && hears(HELPER_READ_EXIT), "and ended");
    answers_other(3, 0, "");
    ok(exits(1, 3, 0, ALLOC_BY_ITSELF), "the claim says whose the file is");
    end();

    restart(ALLOC_AGAIN, true, "20");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "Slurm knows it no more");
    answers_other(0, SIGKILL, ",'is_ending':true");
    ok(passes(RECONCILE_S), "that it began is no end");
    scan();
    ok(!next_note() && hears(HELPER_READ_EXIT), "for long");
    answers_other(0, SIGKILL, ",'is_ending':true");
    ok(!next_note() && recalls(UP_LONG, "") &&
           is_lost(1, "Slurm knows no job 20 any more, and it left no exit "
                      "file"),
       "it is lost");
    end();
}

int main(void)
{
    test_other();
    test_other_gone();
    test_other_claimed();
    test_second();
    test_cancelled();
    test_claimed();
    test_witnesses();
    return tap_done();
}
