/* engine_cluster_time.c - time that passes in a cluster while the daemon, the
 * worker or the clock is somewhere else: what counts, and what does not. */
#include "tests/contract/engine_cluster.h"

static struct error err;

/* ---- the daemon is away ----------------------------------------------------
 */
static void play_to(double t_s) /* however little happens until then */
{
    while (w.clock.t_s < 1000 + t_s) {
        play(t_s);
        (void)world_step(&w);
        w.clock.t_s = fmin(w.clock.t_s + 1, 1000 + t_s);
    }
    (void)world_step(&w);
}

static void is_near(double got, double want, const char *what)
{
    bool good = fabs(got - want) < 1;
    ok(good, "%s", what);
    if (!good)
        tap_diag("got %g, want %g", got, want);
}

/* The daemon is away from 2 s to 200 s; its job's limit is 30 s, and begins
 * with it.
 * in  took_s  how long its job worked, whoever was there */
static void away_with(struct world_attempt a, const char *more,
                      const char *want, const char *reason, double took_s,
                      const char *what)
{
    a.silent = isfinite(a.run_s); /* the dead do not beat */
    struct world_script s = one(a);
    s.node_lost_s = 1000;
    s.jobs[0].spec_more = more;
    begin(&s, what);
    play(2);
    world_stop(&w);
    w.clock.t_s = 1200;
    ok(world_start(&w), "a new daemon");
    play(INFINITY);
    const struct job *job = engine_job(w.engine, 1);
    is_near(job->end_s - job->start_s, took_s, "  it took so long");
    finish(want, reason);
}

static void away(struct world_attempt a, const char *want, const char *reason,
                 double took_s, const char *what)
{
    away_with(a, ",\"time_limit\":\"30s\"},\"retry\":{\"max\":0}}", want,
              reason, took_s, what);
}

static void test_away(void)
{
    away((struct world_attempt){.run_s = 40, .signal = 15, .no_report = 1},
         "k0:TIMEOUT/124/1[1]", "time limit of 30 s reached", 40,
         "warned while nobody was there");
    away((struct world_attempt){.run_s = 40, .exit_code = 143},
         "k0:TIMEOUT/124/1[1]", "time limit of 30 s reached", 40,
         "warned, and its worker said so");
    away((struct world_attempt){.run_s = 20}, "k0:COMPLETED/0/1[1]", "", 20,
         "done in time while nobody was there");
    away((struct world_attempt){.run_s = 20, .exit_code = 3},
         "k0:FAILED/3/1[1]", "as scripted", 20, "failed in time");
    away((struct world_attempt){.run_s = INFINITY}, "k0:TIMEOUT/124/1[1]",
         "time limit of 30 s reached", 200, "still running after its limit");
    away((struct world_attempt){.run_s = 20, .lose = 1},
         "k0:NODE_FAIL/125/1[1]", "lost: node failure", 20,
         "lost in the meantime");
    away((struct world_attempt){.run_s = 195}, "k0:COMPLETED/0/1[1]", "", 200,
         "done just before somebody was there");
    away_with((struct world_attempt){.run_s = 20, .signal = 15, .no_report = 1},
              ",\"time_limit\":\"150s\"},\"retry\":{\"max\":0}}",
              "k0:FAILED/143/1[1]", "killed by signal 15 (SIGTERM)", 20,
              "terminated by somebody, long before its limit");
}

/* ---- when it ended, by somebody else's clock --------------------------------
 *
 * Its end is told from told_at_s on, with a time that is off. */
static double told_at_s, off_s;
static struct alloc_note its_end;

static int dates_back(struct alloc *a, struct alloc_note *notes, size_t cap,
                      size_t *ret_n, struct error *e)
{
    size_t n = 0;
    if (there->poll(a, notes, cap - 1, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; i < *ret_n; i++) {
        if (notes[i].kind == ALLOC_EXITED)
            its_end = notes[i];
        else
            notes[n++] = notes[i];
    }
    if (its_end.kind == ALLOC_EXITED && w.clock.t_s >= 1000 + told_at_s) {
        notes[n] = its_end;
        notes[n++].ended_ms += (int64_t)(1000 * off_s);
        its_end.kind = ALLOC_WAITING;
    }
    *ret_n = n;
    return 0;
}

/* Away from 2 s to back_s, if that is not 0. */
static void dated(double run_s, double back_s, double took_s, const char *what)
{
    struct world_script s = one((struct world_attempt){
        .run_s = run_s, .silent = back_s > run_s}); /* the dead do not beat */
    s.node_lost_s = 1000;
    its_end = (struct alloc_note){.kind = ALLOC_WAITING};
    begin_polled(&s, dates_back, what);
    play(2);
    if (back_s > 0) {
        world_stop(&w);
        w.clock.t_s = 1000 + back_s;
        ok(world_start(&w), "a new daemon");
    }
    play_to(run_s + 5);
    play(INFINITY);
    const struct job *job = engine_job(w.engine, 1);
    is_near(job->end_s - job->start_s, took_s, "  it took so long");
    finish("k0:COMPLETED/0/1[1]", "");
}

static void test_dated(void)
{
    told_at_s = 0;
    off_s = -100;
    dated(150, 0, 150, "a clock that is slow, and the daemon is there");
    dated(150, 120, 150, "or was back before it ended");
    dated(150, 300, 50, "or was not: that is all that is known");
    off_s = -300;
    dated(150, 300, 300, "before it began: no time at all");
    off_s = -150;
    dated(140, 300, 0, "just before it began: then it did");
    off_s = 1000;
    dated(150, 300, 300, "in the future: now");
}

/* It had ended, but neither the user nor we knew. */
static void test_cancelled_later(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 20, .silent = 1});
    s.node_lost_s = 1000;
    its_end = (struct alloc_note){.kind = ALLOC_WAITING};
    told_at_s = 210;
    off_s = 0;
    begin_polled(&s, dates_back, "cancelled before its end is told");
    play(2);
    world_stop(&w);
    w.clock.t_s = 1200;
    ok(world_start(&w), "a new daemon");
    play(205);
    is_int(engine_cancel(w.engine, 1, 1000, &err), 0, "it is cancelled");
    play_to(211);
    play(INFINITY);
    const struct job *job = engine_job(w.engine, 1);
    ok(job->end_s - job->start_s > 204, "its end is not before that");
    told_at_s = 0;
    finish("k0:CANCELLED/130/1[1]", "cancelled by its user");
}

/* The end of the first attempt is long ago, and its wait begins now. */
static void test_retried(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 20, .exit_code = 3, .silent = 1});
    s.node_lost_s = 1000;
    s.jobs[0].attempts[1] = (struct world_attempt){.run_s = 5};
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1,\"on\":[\"exit\"],"
                          "\"backoff\":\"10s\"}}";
    begin(&s, "tried again after an end that nobody saw");
    play(2);
    world_stop(&w);
    w.clock.t_s = 1200;
    ok(world_start(&w), "a new daemon");
    play_to(203);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, JOB_QUEUED, "it waits");
    is_near(job->requeue_s, w.clock.epoch_s + 1200, "  from now on");
    const struct store_attempt *row = store_mem_attempt(w.db, 1, 1);
    ok(row, "its attempt");
    is_near(row ? row->end_s : NAN, w.clock.epoch_s + 1020,
            "  ended when it did");
    finish("k0:COMPLETED/0/2[11]", "");
}

/* Its worker has reported and is gone, and for a long time nobody says that
 * the attempt has ended: Slurm is away, or its epilog takes that long. */
static void reported(int32_t code, const char *why, const char *more,
                     const char *want, const char *reason, const char *what)
{
    struct world_script s = one((struct world_attempt){
        .run_s = 100, .exit_code = code, .silent = 1, .no_report = 1});
    s.node_lost_s = 10;
    s.jobs[0].spec_more = more;
    begin(&s, what);
    play(5);
    is_int(engine_report(w.engine, 1, 1, code, why, NULL, NULL, &err), 0,
           "it reports");
    finish(want, reason);
}

static void test_reported(void)
{
    static const char twice[] = "},\"retry\":{\"max\":1}}";
    static const char brief[] =
        ",\"time_limit\":\"8s\"},\"retry\":{\"max\":1}}";

    reported(0, "", twice, "k0:COMPLETED/0/1[1]", "",
             "done, and its end is not seen");
    reported(3, "loss is NaN", twice, "k0:FAILED/3/1[1]", "loss is NaN",
             "failed, and its end is not seen");
    reported(0, "", brief, "k0:COMPLETED/0/1[1]", "",
             "done in time, and its end is seen after its limit");
}

/* The limit of 30 s passes while the daemon is away. It strikes at the first
 * beat, and then the worker reports 0. */
static void limit_first(int32_t stopped, const char *want, const char *reason,
                        const char *what)
{
    const struct engine_report_extra extra = {
        .cpu_ms = -1, .cores_ms = -1, .stopped = stopped};
    const struct engine_beat beat = {.iteration = 1};
    struct world_script s =
        one((struct world_attempt){.run_s = 205, .silent = 1, .no_report = 1});
    s.node_lost_s = 1000;
    s.jobs[0].spec_more = ",\"time_limit\":\"30s\"},\"retry\":{\"max\":1}}";
    begin(&s, what);
    play(2);
    world_stop(&w);
    w.clock.t_s = 1200;
    ok(world_start(&w), "a new daemon");
    play(200);
    is_int(engine_beat(w.engine, 1, 1, &beat, &err), 0, "a beat");
    (void)world_step(&w);
    ok(engine_job(w.engine, 1)->limit_hit, "the limit strikes");
    is_int(engine_report(w.engine, 1, 1, 0, "", NULL, &extra, &err), 0,
           "the worker reports 0");
    finish(want, reason);
}

static void test_limit_first(void)
{
    limit_first(0, "k0:COMPLETED/0/1[1]", "",
                "its work had ended before anybody told it to stop");
    limit_first(1, "k0:TIMEOUT/124/1[1]", "time limit of 30 s reached",
                "it was told to stop, and exited with 0");
    limit_first(-1, "k0:TIMEOUT/124/1[1]", "time limit of 30 s reached",
                "a worker that does not say");
}

/* MPI may crash when it is shut down. */
static void done_and_died(struct world_attempt how, const char *note,
                          const char *want, const char *why, const char *what)
{
    how.run_s = 10;
    how.no_report = 1;
    struct world_script s = one(how);
    s.jobs[0].spec_more =
        "},\"retry\":{\"max\":1,\"on\":[\"signal\",\"exit\"]}}";
    begin(&s, what);
    play(5);
    is_int(engine_report(w.engine, 1, 1, 0, note, NULL, NULL, &err), 0,
           "it reports that it is done");
    finish(want, why);
}

static void test_done_and_died(void)
{
    static const char segv[] = "completed, then killed by signal 11 (SIGSEGV)";
    static const char done[] = "k0:COMPLETED/0/1[1]";
    done_and_died((struct world_attempt){.signal = 11}, "", done, segv,
                  "died of a signal when it was done");
    done_and_died((struct world_attempt){.signal = 11}, "2 images left out",
                  done,
                  "2 images left out; completed, then killed by signal 11 "
                  "(SIGSEGV)",
                  "what it said of its work stays");
    done_and_died((struct world_attempt){.exit_code = 139}, "", done, segv,
                  "the same, by the launcher's exit code");
    done_and_died((struct world_attempt){.exit_code = 255}, "",
                  "k0:COMPLETED/0/2[11]", "",
                  "no signal: the launcher has failed, and says so");
}

/* ---- granted, and not any more ---------------------------------------------
 *
 * Slurm's controller died and has forgotten that it started the job: it waits
 * there again, from 5 s to 100 s, and no worker has claimed it. */
static bool was_taken_back, was_away;
static struct alloc_note its_grant;

static int forgets(struct alloc *a, struct alloc_note *notes, size_t cap,
                   size_t *ret_n, struct error *e)
{
    double t_s = w.clock.t_s - 1000;
    if (there->poll(a, notes, cap - 1, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; i < *ret_n; i++) {
        if (notes[i].kind == ALLOC_GRANTED)
            its_grant = notes[i];
    }
    if (was_away && t_s < 100)
        *ret_n = 0; /* of the grant this life of the daemon hears nothing */
    struct alloc_note *more = &notes[*ret_n];
    *more = its_grant;
    double from_s = was_away ? 7 : 5;
    if (!was_taken_back && t_s >= from_s) {
        more->kind = ALLOC_WAITING;
        more->place[0] = '\0';
        more->is_in_line = true;
        (void)error_set(&more->why, ERR_BUSY, "Slurm(Priority)");
    }
    if (was_taken_back ? t_s >= 100 : t_s >= from_s) {
        was_taken_back = true;
        ++*ret_n;
    }
    return 0;
}

static void taken_back(bool meanwhile_dead)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 130, .no_claim = 1});

    s.node_lost_s = 10;
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}";
    was_taken_back = false;
    begin_polled(&s, forgets, "granted, and then it waits again");
    play(4);
    is_str(engine_job(w.engine, 1)->place, "n1:0", "granted");
    if (meanwhile_dead) {
        world_stop(&w);
        w.clock.t_s = 1000 + 5;
        was_away = true;
        ok(world_start(&w), "a daemon that was away");
        play(6); /* asks, before it is told */
        play(8);
    }
    play(50);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, JOB_DISPATCHING, "it is not given up");
    is_str(job->reason, "Slurm(Priority)", "  and says what it waits for");
    is_str(job->place, "", "  on no node");
    play(110);
    job = engine_job(w.engine, 1);
    is_str(job->place, "n1:0", "granted again, its time begins");
    is_int(engine_claim(w.engine, 1, 1, world_token(job), "n1 w",
                        job->native_id, &err),
           0, "and its worker comes");
    finish("k0:COMPLETED/0/1[1]", "");
}

static void test_taken_back(void)
{
    taken_back(false);
    taken_back(true);
    was_away = false;
}

/* ---- a clock that was set --------------------------------------------------
 *
 * Ten seconds of its 60 have passed; then the daemon is away for a moment, and
 * the wall clock an hour ahead. */
static void clock_ahead(double lease_s, const char *want, const char *reason)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 45, .silent = 1});
    struct engine_beat beat = {.iteration = 1, .lease_s = lease_s};

    s.node_lost_s = 20;
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}";
    begin(&s, "the wall clock is set ahead while the daemon is away");
    play(10);
    world_stop(&w);
    w.clock.epoch_s += 3600;
    ok(world_start(&w), "it comes back");
    play(12);
    ok(!engine_job(w.engine, 1)->limit_hit, "its worker may speak first");
    is_int(engine_beat(w.engine, 1, 1, &beat, &err), 0, "and does");
    finish(want, reason);
}

static void test_clock(void)
{
    clock_ahead(12, "k0:COMPLETED/0/1[1]", "");
    clock_ahead(0, "k0:TIMEOUT/124/1[1]", "time limit of 60 s reached");
}

/* ---- suspended -------------------------------------------------------------
 *
 * From 5 s to 105 s. */
static bool is_stopped;

static int suspends(struct alloc *a, struct alloc_note *notes, size_t cap,
                    size_t *ret_n, struct error *e)
{
    double t_s = w.clock.t_s - 1000;
    if (there->poll(a, notes, cap - 1, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; i < *ret_n; i++) {
        if (notes[i].kind == ALLOC_GRANTED)
            its_grant = notes[i];
    }
    if (is_stopped != (t_s >= 5 && t_s < 105)) {
        is_stopped = !is_stopped;
        notes[*ret_n] = its_grant;
        notes[(*ret_n)++].is_suspended = is_stopped;
    }
    return 0;
}

static void test_suspended(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 140, .silent = 1});

    s.node_lost_s = 30;
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}";
    is_stopped = false;
    begin_polled(&s, suspends, "suspended by an administrator");
    play_to(10);
    is_str(engine_job(w.engine, 1)->reason, "Slurm(Suspended)", "it says so");
    play_to(100);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, JOB_STARTING, "its silence is no stall");
    ok(!job->limit_hit, "  nor does its limit come nearer");
    play_to(130);
    job = engine_job(w.engine, 1);
    is_str(job->reason, "", "it goes on");
    is_int(job->state, JOB_STARTING, "  with all its time to be heard");
    play_to(138);
    is_int(engine_job(w.engine, 1)->state, JOB_STALLED, "and is silent still");
    finish("k0:COMPLETED/0/1[1]", "");
}

/* The daemon is started again while it is suspended, or after that. */
static void suspended_over(double from_s, const char *what)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 140, .silent = 1});

    s.node_lost_s = 300;
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}";
    is_stopped = false;
    begin_polled(&s, suspends, what);
    play_to(from_s);
    world_stop(&w);
    w.clock.t_s = 1000 + from_s + 5;
    ok(world_start(&w), "a new daemon");
    play_to(from_s + 6);
    is_int(engine_job(w.engine, 1)->state, JOB_STARTING, "it lives");
    finish("k0:COMPLETED/0/1[1]", "");
}

static void test_suspended_over(void)
{
    suspended_over(50, "suspended, and the daemon is started again");
    suspended_over(110, "suspended, then the daemon is started again");
    suspended_over(95, "suspended, and it is away until it goes on");
}

/* Nobody has said anything for longer than they may, for the daemon could not
 * hear it: it was stopped. */
static void test_stood_still(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 525, .silent = 1});

    s.node_lost_s = 30;
    begin(&s, "it stood still");
    play_to(10);
    w.clock.t_s = 1200;
    engine_was_away(w.engine);
    play_to(229);
    is_int(engine_job(w.engine, 1)->state, JOB_STARTING,
           "its own silence is nobody's");
    play_to(231);
    is_int(engine_job(w.engine, 1)->state, JOB_STALLED, "and that one is");
    w.clock.t_s = 1500;
    engine_was_away(w.engine);
    play_to(520);
    is_int(engine_job(w.engine, 1)->state, JOB_STALLED,
           "who is silent has all its time to come back");
    is_int(engine_job(w.engine, 1)->attempt, 1, "  as the same attempt");
    finish("k0:COMPLETED/0/1[1]", "");
}

/* The same before its worker has claimed it. */
static void test_stood_unclaimed(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 400, .no_claim = 1});

    s.node_lost_s = 30;
    s.jobs[0].spec_more = "},\"retry\":{\"max\":0}}";
    begin(&s, "it stood still, and nobody had claimed yet");
    play_to(10);
    w.clock.t_s = 1200;
    engine_was_away(w.engine);
    play_to(259);
    is_int(engine_job(w.engine, 1)->state, JOB_DISPATCHING,
           "there is time yet");
    finish("k0:FAILED/125/1[1]", "its worker did not claim its lease");
}

int main(void)
{
    test_stood_still();
    test_stood_unclaimed();
    test_suspended_over();
    test_away();
    test_dated();
    test_cancelled_later();
    test_retried();
    test_reported();
    test_limit_first();
    test_done_and_died();
    test_taken_back();
    test_suspended();
    test_clock();
    return tap_done();
}
