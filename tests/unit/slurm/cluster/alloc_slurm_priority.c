/* alloc_slurm_priority.c - the nice value of a pending attempt, changed in
 * Slurm.
 */
#include "tests/unit/slurm/fake_helper.h"

static void shows_nice(const char *state, int id, int nice)
{
    says("{'ev':'job','tag':'" TAG1 "','uid':1000,'slurm_id':%d,"
         "'state':'%s','reason':'Priority','place':'%s','exit_code':0,"
         "'signal':0,'restarts':0,'nice':%d,'submitted':5,'ended':0}",
         id, state, strcmp(state, "RUNNING") == 0 ? "n1:0,1" : "", nice);
}

static bool is_by(int by, const char *why)
{
    if (!gets(ALLOC_PRIORITY, 1))
        return false;
    if (h.note.priority_by == by && strcmp(h.note.why.msg, why) == 0)
        return true;
    tap_diag("by %d: %s", h.note.priority_by, h.note.why.msg);
    return false;
}

/* Pending as job 20 with this nice value. */
static void pending(int nice)
{
    submit_one();
    answers(20);
    ok(waits(1, "Slurm(Submitted)"), "Slurm has it");
    shows_nice("PENDING", 20, nice);
    ok(waits(1, "Slurm(Priority)") && is_quiet(),
       "it waits, and its first nice value is nobody's change");
}

static void test_changed(void)
{
    pending(0);
    shows_nice("PENDING", 20, 100);
    ok(is_by(-100, "nice 100 in Slurm"), "nice 100: so much less");
    shows_nice("PENDING", 20, 100);
    ok(is_quiet(), "told once");
    shows_nice("PENDING", 20, -20);
    ok(is_by(120, "nice -20 in Slurm"), "a negative one: more");
    shows_nice("PENDING", 20, 2000000000);
    ok(is_by(-1020, "nice 1000 in Slurm"), "no more than there is");
    shows_nice("PENDING", 20, 0);
    ok(is_by(1000, "nice 0 in Slurm"), "and as much back");
    shows_nice("RUNNING", 20, 50);
    ok(gets(ALLOC_GRANTED, 1) && is_quiet(), "it runs: no matter");
    end();
}

/* A plugin, or the environment, gives all jobs one. */
static void test_first(void)
{
    pending(300);
    shows_nice("PENDING", 20, 310);
    ok(is_by(-10, "nice 310 in Slurm"), "a change is a difference");
    end();
}

/* Two changes before the engine asks are one. */
static void test_together(void)
{
    pending(0);
    shows_nice("PENDING", 20, 5);
    shows_nice("PENDING", 20, 7);
    ok(is_by(-7, "nice 7 in Slurm") && is_quiet(), "one note of both");
    end();
}

int main(void)
{
    test_changed();
    test_first();
    test_together();
    return tap_done();
}
