/* alloc_slurm_limit.c - the time limit of a running attempt: changed by the
 * engine, refused by Slurm, changed in Slurm by somebody else.
 */
#include "tests/unit/slurm/fake_helper.h"

/* Job 20 runs with this limit in Slurm. */
static void shows_minutes(int minutes)
{
    says("{'ev':'job','tag':'" TAG1 "','uid':1000,'slurm_id':20,"
         "'state':'RUNNING','reason':'','place':'n1:0,1','exit_code':0,"
         "'signal':0,'restarts':0,'submitted':5,'ended':0,'limit_min':%d}",
         minutes);
}

static void answers_minutes(int minutes)
{
    says("{'ev':'reply','id':%" PRIu64 ",'limit_min':%d}", h.cmd.id, minutes);
}

static int limit(double limit_s)
{
    return h.a->ops->limit(h.a, 1, 1, limit_s, NULL);
}

static bool hears_limit(double limit_s)
{
    return hears(HELPER_LIMIT) && h.cmd.slurm_id == 20 &&
           strcmp(h.cmd.req.tag, TAG1) == 0 && h.cmd.req.uid == 1000 &&
           h.cmd.req.limit_s == limit_s;
}

static bool is_limited(double limit_s, const char *why)
{
    if (!gets(ALLOC_LIMIT, 1))
        return false;
    if (h.note.limit_s == limit_s && strcmp(h.note.why.msg, why) == 0)
        return true;
    tap_diag("%g s: %s", h.note.limit_s, h.note.why.msg);
    return false;
}

/* It has an hour, and Slurm's limit is two minutes longer. */
static void run_an_hour(void)
{
    begin();
    hello(1);
    struct alloc_req req = {.job = 1, .ask = ALLOC_NEW, .limit_s = 3600};
    ok(is_quiet() && ask_for(&req, NULL) == 0 && hears(HELPER_SUBMIT),
       "submitted");
    answers(20);
    ok(gets(ALLOC_WAITING, 1), "Slurm has it");
    shows_minutes(62);
    ok(gets(ALLOC_GRANTED, 1) && is_quiet(), "it runs");
}

static void test_refused(void)
{
    run_an_hour();
    ok(limit(7200) == 0 && !next_note() && hears_limit(7200),
       "two hours are asked for");
    fails("DENIED", "Access/permission denied", true);
    ok(is_limited(3600, "Access/permission denied"),
       "Slurm refuses: the limit is the old one");
    shows_minutes(62);
    ok(passes(60), "which is no change, and is not asked for again");
    ok(limit(1800) == 0 && !next_note() && hears_limit(1800),
       "another one is asked for");
    answers_minutes(32);
    ok(is_quiet(), "and taken");
    end();
}

/* Two changes before Slurm answers: the old limit is the one that it has. */
static void test_refused_twice(void)
{
    run_an_hour();
    ok(limit(7200) == 0 && !next_note() && hears_limit(7200), "one change");
    ok(limit(9000) == 0 && is_quiet(), "and another, before its answer");
    fails("DENIED", "no", true);
    ok(!next_note() && hears_limit(9000), "the other one is asked for, too");
    fails("DENIED", "no", true);
    ok(is_limited(3600, "no"), "both refused: the limit that Slurm has");
    ok(limit(5400) == 0 && !next_note() && hears_limit(5400), "one change");
    ok(limit(9000) == 0, "and another, before its answer");
    answers_minutes(92);
    ok(!next_note() && hears_limit(9000), "which is fine");
    fails("DENIED", "no", true);
    ok(is_limited(5400, "no"), "the other one refused: the limit of the first");
    end();
}

static void test_later(void)
{
    run_an_hour();
    ok(limit(7200) == 0 && !next_note() && hears_limit(7200), "asked for");
    fails("UNAVAIL", "slurmctld does not answer", true);
    shows_minutes(62);
    ok(passes(4), "no answer is no refusal");
    h.clk.t_s += 2;
    ok(!next_note() && hears_limit(7200), "it is asked for again");
    shows_minutes(122);
    ok(is_quiet(), "what Slurm shows meanwhile is ours");
    answers_minutes(122);
    shows_minutes(122);
    ok(is_quiet(), "and what it shows then");
    end();
}

/* It ended before the helper came to it. */
static void test_too_late(void)
{
    run_an_hour();
    ok(limit(7200) == 0 && !next_note() && hears_limit(7200), "asked for");
    fails("NOTFOUND", "Slurm job 20 has ended", true);
    ok(passes(60), "of one that has ended nothing is told");
    struct error err = ERROR_INIT;
    ok(h.a->ops->limit(h.a, 2, 1, 60, &err) < 0 && err.code == ERR_NOTFOUND,
       "of one that nobody asked for there is none");
    end();
}

static void test_by_others(void)
{
    run_an_hour();
    shows_minutes(92);
    ok(is_limited(5400, "changed in Slurm"), "half an hour more");
    shows_minutes(92);
    ok(is_quiet(), "told once");
    shows_minutes(0);
    ok(is_limited(0, "changed in Slurm"), "no limit");
    shows_minutes(30);
    ok(is_quiet(), "nothing is compared with none of ours");
    end();
}

/* It asks for no limit, and Slurm has a default. */
static void test_default(void)
{
    submit_one();
    answers(20);
    ok(gets(ALLOC_WAITING, 1), "Slurm has it, without a limit");
    says("{'ev':'job','tag':'" TAG1 "','uid':1000,'slurm_id':20,"
         "'state':'PENDING','reason':'Priority','place':'','exit_code':0,"
         "'signal':0,'restarts':0,'submitted':5,'ended':0,'limit_min':1440}");
    ok(gets(ALLOC_WAITING, 1) && is_quiet(),
       "what it shows of a pending one is not its limit");
    shows_minutes(60);
    ok(gets(ALLOC_GRANTED, 1) && is_limited(3600, "the limit that Slurm gave"),
       "it runs, and has the limit that Slurm gave it");
    ok(h.note.limit_is_default, "  which is nobody's wish");
    shows_minutes(90);
    ok(is_limited(5400, "changed in Slurm") && !h.note.limit_is_default,
       "which can be changed");
    end();
}

/* It asks for no limit, and its partition has none. */
static void test_unlimited(void)
{
    submit_one();
    answers(20);
    ok(gets(ALLOC_WAITING, 1), "Slurm has it, without a limit");
    shows_minutes(365 * 24 * 60);
    ok(gets(ALLOC_GRANTED, 1) && is_quiet(),
       "it runs, for the year that Slurm calls unlimited");
    shows_minutes(90);
    ok(is_quiet(), "nothing is compared with none of ours");
    end();
}

int main(void)
{
    test_refused();
    test_refused_twice();
    test_later();
    test_too_late();
    test_by_others();
    test_default();
    test_unlimited();
    return tap_done();
}
