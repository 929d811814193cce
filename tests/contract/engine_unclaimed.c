/* engine_unclaimed.c - attempts that are granted and not claimed while the
 * daemon is away: no rank begins without a daemon, so that no limit counts. */
#include "tests/contract/engine_cluster.h"

static struct error err;

static bool was_claimed(void)
{
    const struct job *job = engine_job(w.engine, 1);
    return job && engine_claim(w.engine, 1, 1, world_token(job), "n1 w",
                               job->native_id, &err) == 0;
}

static void restart_at(double t_s)
{
    world_stop(&w);
    w.clock.t_s = 1000 + t_s;
    ok(world_start(&w), "a daemon starts at %g s", t_s);
}

static void is_near(double got, double want, const char *what)
{
    if (!ok(fabs(got - want) < 2, "%s", what))
        tap_diag("got %g, want %g", got, want);
}

enum how { KILLED, STOPPED };

/* Granted at 1 s with a limit of 60 s, and claimed at 210 s. */
static void claim_late(enum how how, double run_s, bool again)
{
    struct world_script s =
        one((struct world_attempt){.run_s = run_s, .no_claim = 1});

    s.node_lost_s = 30;
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}";
    begin(&s, how == KILLED ? "the daemon is killed before the claim"
                            : "the daemon stands still before the claim");
    play(3);
    is_str(engine_job(w.engine, 1)->place, "n1:0", "granted");
    if (how == KILLED) {
        restart_at(200);
    } else {
        w.clock.t_s = 1200;
        engine_was_away(w.engine);
    }
    play(210);
    ok(!engine_job(w.engine, 1)->limit_hit, "its limit does not strike");
    ok(was_claimed(), "its worker claims it");
    if (again) {
        play(220);
        restart_at(230);
    }
}

static void test_in_time(enum how how)
{
    claim_late(how, 240, false);
    finish("k0:COMPLETED/0/1[1]", "");
}

static void test_too_long(enum how how, bool again)
{
    claim_late(how, INFINITY, again);
    play(INFINITY);
    const struct job *job = engine_job(w.engine, 1);
    is_near(job->end_s - job->claim_s, 60, "its limit counts from its claim");
    finish("k0:TIMEOUT/124/1[1]", "time limit of 60 s reached");
}

int main(void)
{
    test_in_time(KILLED);
    test_in_time(STOPPED);
    test_too_long(KILLED, false);
    test_too_long(KILLED, true);
    test_too_long(STOPPED, true);
    return tap_done();
}
