/* engine_cluster.c - an allocator with a scheduler of its own behind it: it
 * lets attempts wait, ends them for reasons of its own, is not sure what it
 * started, and is away at times.
 */
#include <signal.h>

#include "tests/contract/engine_world.h"

static struct world w;
static struct error err;

static struct world_script one(struct world_attempt first)
{
    struct world_script s = {.nodes = 1, .gpus_per_node = 4, .n_acts = 1};
    s.jobs[0] = (struct world_job){.gpus = 1, .attempts = {first}};
    return s;
}

static void begin(const struct world_script *s, const char *what)
{
    world_init(&w, s);
    ok(world_start(&w), "---- %s", what);
}

/* Until `until` (since the start), or the end of all jobs. */
static void play(double until)
{
    for (int i = 0; i < 2000 && !world_is_over(&w); i++) {
        (void)world_step(&w);
        world_advance(&w);
        if (w.clock.t_s > 1000 + until) {
            w.clock.t_s = 1000 + until;
            return;
        }
    }
}

static void finish(const char *want, const char *reason)
{
    play(INFINITY);
    char *got = world_result(&w);
    is_str(got, want, "  its end");
    const struct job *job = engine_job(w.engine, 1);
    is_str(job ? job->reason : "none", reason, "  and says why");
    world_check_log(&w);
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

/* ---- an allocator that is away at times
 * --------------------------------------
 */
static bool is_away, is_deaf; /* for inventories; for claims */
static const struct alloc_ops *there;

static int no_inventory(struct alloc *a, struct alloc_node *nodes, size_t cap,
                        size_t *ret_n, struct error *e)
{
    if (is_away)
        return error_set(e, ERR_UNAVAIL, "no answer since 10:00");
    return there->inventory(a, nodes, cap, ret_n, e);
}

static int not_told(struct alloc *a, uint64_t job, int32_t attempt,
                    const char *native_id, struct error *e)
{
    if (is_deaf)
        return error_set(e, ERR_BUSY, "no answer in time");
    return there->claimed(a, job, attempt, native_id, e);
}

static struct alloc *sometimes_away(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.inventory = no_inventory;
    ops.claimed = not_told;
    a->ops = &ops;
    return a;
}

/* ---- waiting ---------------------------------------------------------------
 */
static int row_reason(void *arg, const struct store_cell *cells, size_t n,
                      struct error *e)
{
    const struct store_cell *c = world_cell(cells, n, "reason");
    (void)e;
    (void)snprintf(arg, JOB_REASON_CAP, "%s", c->kind == CELL_TEXT ? c->s : "");
    return 0;
}

static void stored_reason(char ret[JOB_REASON_CAP])
{
    struct store_query q = {.view = VIEW_JOB, .job = 1, .rank = -1};
    if (w.store->ops->query(w.store, &q, row_reason, ret, &err) < 0)
        tap_diag("%s", err.msg);
}

static void count_waits(void *arg, const struct job *job)
{
    int *n = arg;
    *n += job->id == 1;
}

static void test_waiting(void)
{
    int n_told = 0;
    struct world_script s = one((struct world_attempt){
        .run_s = 5, .wait_s = 20, .wait_why = "Slurm(Priority)"});
    char stored[JOB_REASON_CAP] = "";

    s.n_acts = 2;
    s.jobs[1].gpus = 1;
    s.acts[1] = (struct world_act){.at_s = 4, .job = 1};
    begin(&s, "accepted, but not granted");
    engine_on_wait(w.engine, count_waits, &n_told);
    play(2);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, JOB_DISPATCHING, "it is being started");
    is_str(job->reason, "Slurm(Priority)", "  and says what it waits for");
    is_str(job->pending_id, "fake:1", "  and as what");
    is_int(n_told, 1, "  who wants to know is told once");
    is_str(job->native_id, "", "  which is no grant");
    ok(isnan(job->start_s), "  its time does not count");
    play(6);
    stored_reason(stored);
    is_str(stored, "Slurm(Priority)", "  stored with the next batch");
    is_int(engine_job(w.engine, 2)->state, JOB_RUNNING,
           "another overtakes it where there is room");
    world_die(&w);
    play(8);
    job = engine_job(w.engine, 1);
    is_str(job->reason, "Slurm(Priority)", "a new daemon hears it again");
    play(22);
    is_str(job->reason, "", "granted, it waits no more");
    is_str(job->native_id, "fake:1", "  and has its id");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]", "");

    s.n_acts = 2;
    s.acts[1] = (struct world_act){.at_s = 5, .verb = W_CANCEL};
    begin(&s, "cancelled while it waits there");
    finish("k0:CANCELLED/130/1[0]", "cancelled by its user");
}

/* ---- ended there -----------------------------------------------------------
 */
static void test_ended(void)
{
    struct world_script s = one((struct world_attempt){
        .signal = 15, .ended_by = ALLOC_BY_LIMIT, .why = "unused"});

    s.jobs[0].spec_more = ",\"time_limit\":\"1m\"},\"retry\":{\"max\":3}}";
    begin(&s, "ended for its limit");
    finish("k0:TIMEOUT/124/1[1]", "time limit of 60 s reached");
    s.jobs[0].spec_more = "},\"retry\":{\"max\":3}}";
    begin(&s, "ended for a limit that is not ours");
    finish("k0:TIMEOUT/124/1[1]", "time limit of its partition reached");
    s.jobs[0].attempts[0].ended_by = ALLOC_BY_OTHER;
    s.jobs[0].attempts[0].why = "cancelled in Slurm by uid 0";
    begin(&s, "cancelled there");
    finish("k0:CANCELLED/143/1[1]", "cancelled in Slurm by uid 0");
    s.jobs[0].attempts[0].no_claim = 1;
    s.jobs[0].attempts[0].why = "";
    begin(&s, "cancelled there before its worker claimed");
    finish("k0:CANCELLED/143/1[1]", "cancelled in Slurm");
    s.jobs[0].attempts[0].ended_by = ALLOC_BY_ITSELF;
    s.jobs[0].attempts[0].no_claim = 0;
    begin(&s, "a signal of unknown origin");
    finish("k0:COMPLETED/0/2[11]", "");
}

/* The daemon is away from 2 s to 100 s; its job's limit is 30 s. */
static void away(struct world_attempt a, const char *want, const char *reason,
                 const char *what)
{
    struct world_script s = one(a);
    s.jobs[0].spec_more = ",\"time_limit\":\"30s\"},\"retry\":{\"max\":0}}";
    begin(&s, what);
    play(2);
    world_stop(&w);
    w.clock.t_s = 1100;
    ok(world_start(&w), "a new daemon");
    finish(want, reason);
}

static void test_away(void)
{
    away((struct world_attempt){.run_s = 40, .signal = 15, .no_report = 1},
         "k0:TIMEOUT/124/1[1]", "time limit of 30 s reached",
         "warned while nobody was there");
    away((struct world_attempt){.run_s = 40, .exit_code = 143},
         "k0:TIMEOUT/124/1[1]", "time limit of 30 s reached",
         "warned, and its worker said so");
    away((struct world_attempt){.run_s = 20}, "k0:COMPLETED/0/1[1]", "",
         "done in time while nobody was there");
    away((struct world_attempt){.run_s = 20, .exit_code = 3},
         "k0:FAILED/3/1[1]", "as scripted", "failed in time");
    away((struct world_attempt){.run_s = INFINITY}, "k0:TIMEOUT/124/1[1]",
         "time limit of 30 s reached", "still running after its limit");
    away((struct world_attempt){.run_s = 20, .lose = 1},
         "k0:NODE_FAIL/125/1[1]", "lost: node failure", "lost in the meantime");
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
    is_int(engine_report(w.engine, 1, 1, code, why, &err), 0, "it reports");
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

/* ---- not now ----------------------------------------------------------------
 */
static int limited(struct alloc *a, struct alloc_note *notes, size_t cap,
                   size_t *ret_n, struct error *e)
{
    if (there->poll(a, notes, cap, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; i < *ret_n; i++) {
        if (notes[i].kind == ALLOC_REFUSED)
            (void)error_set(&notes[i].why, ERR_BUSY, "Slurm: (2050)");
    }
    return 0;
}

static struct alloc *with_limits(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.poll = limited;
    a->ops = &ops;
    return a;
}

static void test_not_now(void)
{
    struct world_script s = one((struct world_attempt){.refuse = 1});

    s.n_acts = 2;
    s.jobs[1].gpus = 4;
    s.acts[1] = (struct world_act){.at_s = 1, .job = 1};
    world_init(&w, &s);
    w.wrap = with_limits;
    ok(world_start(&w), "---- its user has too many jobs in Slurm");
    play(5);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, JOB_QUEUED, "it waits");
    is_str(job->reason, "could not be started: Slurm: (2050)", "  and why");
    is_int(engine_job(w.engine, 2)->state, JOB_RUNNING, "and keeps nothing");
    finish("k0:COMPLETED/0/2[01] k1:COMPLETED/0/1[1]", "");

    s = one(
        (struct world_attempt){.run_s = 600, .exit_code = 75, .no_claim = 1});
    s.jobs[0].spec_more = "},\"retry\":{\"max\":1}}";
    begin(&s, "its worker found no daemon");
    finish("k0:COMPLETED/0/2[11]", "");
    s.jobs[0].attempts[1] = s.jobs[0].attempts[0];
    begin(&s, "and never does");
    finish("k0:FAILED/125/2[11]",
           "its worker could not reach the daemon to claim its lease");
}

/* ---- granted, and not any more ----------------------------------------------
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

static struct alloc *that_forgets(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.poll = forgets;
    a->ops = &ops;
    return a;
}

static void taken_back(bool meanwhile_dead)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 130, .no_claim = 1});

    s.node_lost_s = 10;
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}";
    world_init(&w, &s);
    w.wrap = that_forgets;
    was_taken_back = false;
    ok(world_start(&w), "---- granted, and then it waits again");
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

/* ---- a clock that was set
 * ----------------------------------------------------
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

/* ---- suspended ----------------------------------------------------------
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

static struct alloc *that_suspends(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.poll = suspends;
    a->ops = &ops;
    return a;
}

static void play_to(double t_s) /* however little happens until then */
{
    while (w.clock.t_s < 1000 + t_s) {
        play(t_s);
        (void)world_step(&w);
        w.clock.t_s = fmin(w.clock.t_s + 1, 1000 + t_s);
    }
    (void)world_step(&w);
}

static void test_suspended(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 140, .silent = 1});

    s.node_lost_s = 30;
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}";
    world_init(&w, &s);
    w.wrap = that_suspends;
    is_stopped = false;
    ok(world_start(&w), "---- suspended by an administrator");
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

/* ---- claims ----------------------------------------------------------------
 */
static void test_claimed(void)
{
    struct world_script s = one((struct world_attempt){.run_s = 30});

    begin(&s, "a claim");
    while (alloc_fake_starts(w.cluster, 1, 1) == 0) {
        (void)world_step(&w);
        world_advance(&w);
    }
    while (engine_job(w.engine, 1)->holder[0] == '\0')
        (void)world_step(&w);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 0, "staged, it is not told");
    (void)world_step(&w);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 1, "durable, it is");
    play(10);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 1, "  once");
    world_die(&w);
    play(12);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 2, "a new daemon tells it anew");
    finish("k0:COMPLETED/0/1[1]", "");

    s.jobs[0].attempts[0].twice = 1;
    begin(&s, "started twice");
    play(5);
    const struct job *job = engine_job(w.engine, 1);
    is_str(job->native_id, alloc_fake_native_id(w.cluster, 1, 1),
           "the claim decides which is real");
    is_str(job->place, "n1:0", "  and its place is known");
    is_int(engine_claim(w.engine, 1, 1, world_token(job), "n1 twin", "fake:2",
                        &err),
           -1, "the other's worker");
    is_int(err.code, ERR_FENCED, "  is fenced");
    finish("k0:COMPLETED/0/1[1]", "");
}

/* ---- away ------------------------------------------------------------------
 */
static void test_unavailable(void)
{
    struct world_script s = one((struct world_attempt){.run_s = 5});
    double since_s = 0;

    world_init(&w, &s);
    w.wrap = sometimes_away;
    is_away = true;
    double began_s = w.clock.base.wall_s(&w.clock.base);
    ok(world_start(&w), "---- nobody answers");
    play(3.5);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, JOB_QUEUED, "nothing starts");
    is_str(job->reason, "SlurmUnavailable: no answer since 10:00",
           "  and the job says why");
    is_int(w.n_failed_steps, 0, "  but no step fails");
    is_str(engine_unavailable(w.engine, &since_s), "no answer since 10:00",
           "  and it can be asked");
    ok(fabs(since_s - began_s) < 1e-3, "  since when");
    is_away = false;
    play(6);
    ok(!engine_unavailable(w.engine, &since_s), "it answers again");
    finish("k0:COMPLETED/0/1[1]", "");
}

/* As long as the allocator has not heard of the claim, it speaks of the
 * allocation that it takes for the attempt's: that is not believed. */
static void test_of_another(void)
{
    struct world_script s =
        one((struct world_attempt){.run_s = 30, .twice = 1});

    world_init(&w, &s);
    w.wrap = sometimes_away;
    is_away = false;
    is_deaf = true;
    ok(world_start(&w), "---- started twice, and not told");
    play(5);
    const char *real = alloc_fake_native_id(w.cluster, 1, 1);
    is_int(alloc_fake_claims(w.cluster, 1, 1), 0, "it was not told");
    is_str(engine_job(w.engine, 1)->native_id, real, "the claim counts");
    world_die(&w);
    play(8);
    is_str(engine_job(w.engine, 1)->native_id, real,
           "a new daemon does not believe it, either");
    is_deaf = false;
    play(20);
    ok(alloc_fake_claims(w.cluster, 1, 1) > 0, "it is told until it hears");
    is_str(engine_job(w.engine, 1)->place, "n1:0", "  and then says where");
    finish("k0:COMPLETED/0/1[1]", "");
}

/* ---- kinds of nodes --------------------------------------------------------
 */
/* n1 is of partition a, n2 of b; n2 is reserved until 1030 s. */
static void kind(void *arg, int32_t i, struct alloc_node *io)
{
    struct world *world = arg;
    (void)snprintf(io->partitions, sizeof(io->partitions), i ? "b" : "a*");
    if (i == 1 && world->clock.t_s < 1030)
        (void)snprintf(io->reservation, sizeof(io->reservation), "maint");
}

static bool its_kind(void *arg, int32_t i, const struct alloc_where *where)
{
    (void)arg;
    return !where->partition || where->partition[0] == (i ? 'b' : 'a');
}

static const char in_b[] = ",\"partition\":\"b\"},\"retry\":{\"max\":0}}";
static const char alone[] = ",\"exclusive\":true},\"retry\":{\"max\":0}}";

static struct world_script kinds(int n)
{
    struct world_script s = {.nodes = 2,
                             .gpus_per_node = 4,
                             .policy = &policy_backfill,
                             .node = kind,
                             .may_use = its_kind};
    for (int i = 0; i < n; i++) {
        s.jobs[i].gpus = 4;
        s.acts[s.n_acts++] = (struct world_act){.at_s = i, .job = i};
    }
    return s;
}

static void test_kinds(void)
{
    struct world_script s = kinds(4);

    s.jobs[1].spec_more = in_b;
    s.acts[3].at_s = 31; /* the fake does not say when nodes change */
    world_init(&w, &s);
    w.conf.where.partition = NULL;
    ok(world_start(&w), "---- two partitions");
    play(4);
    is_str(engine_job(w.engine, 1)->place, "n1:0-3", "in the default one");
    is_str(engine_job(w.engine, 2)->reason,
           "WaitingForGpus: needs 4, 0 free, too few without the 1 nodes that "
           "are down or closed",
           "in one that is reserved");
    is_str(engine_job(w.engine, 3)->reason, "WaitingForGpus: needs 4, 0 free",
           "who waits for the first sees no GPUs of the other");
    play(12);
    is_str(engine_job(w.engine, 3)->place, "n1:0-3", "nor waits behind that");
    play(35);
    is_str(engine_job(w.engine, 2)->place, "n2:0-3", "until it opens");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1] "
           "k3:COMPLETED/0/1[1]",
           "");
}

static void test_alone(void)
{
    struct world_script s = kinds(3);

    s.node = NULL;
    s.may_use = NULL;
    s.nodes = 1;
    for (int i = 0; i < 3; i++)
        s.jobs[i].gpus = 1;
    s.jobs[1].spec_more = alone;
    s.jobs[0].attempts[0].run_s = s.jobs[2].attempts[0].run_s = 20;
    begin(&s, "one that shares with nobody");
    play(5);
    is_int(engine_job(w.engine, 1)->state, JOB_RUNNING, "one runs");
    is_int(engine_job(w.engine, 2)->state, JOB_QUEUED, "it waits for that");
    play(25);
    is_int(engine_job(w.engine, 2)->state, JOB_RUNNING, "now it is alone");
    is_int(engine_job(w.engine, 3)->state, JOB_QUEUED, "and stays it");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");
}

/* Slurm holds a wide job for ever; the rest of the cluster is used. */
static void test_set_aside(void)
{
    struct world_script s = kinds(4);

    s.node = NULL;
    s.may_use = NULL;
    s.nodes = 3;
    s.jobs[0].attempts[0].wait_s = 500;
    s.jobs[2].attempts[0].run_s = s.jobs[1].attempts[0].run_s = 20;
    begin(&s, "held there for reasons of its own");
    play(10);
    is_int(engine_job(w.engine, 1)->state, JOB_DISPATCHING, "it waits");
    is_int(engine_job(w.engine, 2)->state, JOB_RUNNING, "others run");
    is_int(engine_job(w.engine, 3)->state, JOB_RUNNING, "on all but its share");
    is_int(engine_job(w.engine, 4)->state, JOB_QUEUED, "which is kept");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1] "
           "k3:COMPLETED/0/1[1]",
           "");
}

/* It asks for all there is, and its user may not have that much. */
static int held(struct alloc *a, struct alloc_note *notes, size_t cap,
                size_t *ret_n, struct error *e)
{
    if (there->poll(a, notes, cap, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; i < *ret_n; i++) {
        if (notes[i].kind == ALLOC_WAITING)
            notes[i].why.code = ERR_LIMIT;
    }
    return 0;
}

static struct alloc *that_holds(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.poll = held;
    a->ops = &ops;
    return a;
}

static void test_held(void)
{
    struct world_script s = one((struct world_attempt){
        .is_held = 1, .wait_s = 500, .wait_why = "Slurm(QOSMaxGRESPerUser)"});

    s.jobs[0].gpus = s.jobs[1].gpus = 4;
    s.n_acts = 2;
    s.acts[1] = (struct world_act){.at_s = 1, .job = 1};
    world_init(&w, &s);
    w.wrap = that_holds;
    ok(world_start(&w), "---- held there, but not for devices");
    play(5);
    is_int(engine_job(w.engine, 1)->state, JOB_DISPATCHING, "it waits");
    is_int(engine_job(w.engine, 2)->state, JOB_RUNNING,
           "and others have the whole cluster");
    world_die(&w);
    play(8);
    is_int(engine_job(w.engine, 1)->state, JOB_DISPATCHING,
           "a new daemon learns it, too");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]", "");
}

int main(void)
{
    test_waiting();
    test_ended();
    test_away();
    test_reported();
    test_not_now();
    test_taken_back();
    test_suspended();
    test_clock();
    test_claimed();
    test_of_another();
    test_unavailable();
    test_kinds();
    test_alone();
    test_set_aside();
    test_held();
    return tap_done();
}
