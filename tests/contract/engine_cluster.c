/* engine_cluster.c - an allocator with a scheduler of its own behind it: it
 * lets attempts wait, ends them for reasons of its own, and holds them. */
#include "tests/contract/engine_cluster.h"

/* ---- waiting ---------------------------------------------------------------
 */
static void stored_reason(char ret[JOB_REASON_CAP])
{
    const struct store_job *row = store_mem_job(w.db, 1);
    (void)snprintf(ret, JOB_REASON_CAP, "%s",
                   row && row->reason ? row->reason : "");
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
    finish("k0:TIMEOUT/124/1[1]",
           "time limit in Slurm reached, before the job's own of 60 s");
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

/* ---- not now ---------------------------------------------------------------
 */
static int refused_for(enum err_code code, struct alloc *a,
                       struct alloc_note *notes, size_t cap, size_t *ret_n,
                       struct error *e)
{
    if (there->poll(a, notes, cap, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; i < *ret_n; i++) {
        if (notes[i].kind == ALLOC_REFUSED)
            (void)error_set(&notes[i].why, code, "Slurm: (2050)");
    }
    return 0;
}

static int limited(struct alloc *a, struct alloc_note *notes, size_t cap,
                   size_t *ret_n, struct error *e)
{
    return refused_for(ERR_BUSY, a, notes, cap, ret_n, e);
}

static int short_of(struct alloc *a, struct alloc_note *notes, size_t cap,
                    size_t *ret_n, struct error *e)
{
    return refused_for(ERR_NOMEM, a, notes, cap, ret_n, e);
}

static void test_not_now(void)
{
    struct world_script s = one((struct world_attempt){.refuse = 1});

    s.n_acts = 2;
    s.jobs[1].gpus = 4;
    s.acts[1] = (struct world_act){.at_s = 1, .job = 1};
    begin_polled(&s, limited, "its user has too many jobs in Slurm");
    play(5);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->state, JOB_QUEUED, "it waits");
    is_str(job->reason, "could not be started: Slurm: (2050)", "  and why");
    is_int(engine_job(w.engine, 2)->state, JOB_RUNNING, "and keeps nothing");
    finish("k0:COMPLETED/0/2[01] k1:COMPLETED/0/1[1]", "");

    s = one((struct world_attempt){.refuse = 1});
    begin_polled(&s, short_of, "processes or descriptors are short");
    play(60);
    ok(engine_job(w.engine, 1)->attempt == 2, "it is soon tried again");
    finish("k0:COMPLETED/0/2[01]", "");

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

/* ---- held there ------------------------------------------------------------
 */
/* Slurm holds a wide job for ever; the rest of the cluster is used. */
static void test_set_aside(void)
{
    struct world_script s = several(4);

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

static void test_held(void)
{
    struct world_script s = one((struct world_attempt){
        .is_held = 1, .wait_s = 500, .wait_why = "Slurm(QOSMaxGRESPerUser)"});

    s.jobs[0].gpus = s.jobs[1].gpus = 4;
    s.n_acts = 2;
    s.acts[1] = (struct world_act){.at_s = 1, .job = 1};
    begin_polled(&s, held, "held there, but not for devices");
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

/* ---- a priority that is changed there --------------------------------------
 */
static struct alloc_note changes; /* told once; kind of the next one */

static int priority(struct alloc *a, struct alloc_note *notes, size_t cap,
                    size_t *ret_n, struct error *e)
{
    if (there->poll(a, notes, cap, ret_n, e) < 0)
        return -1;
    if (changes.kind == ALLOC_PRIORITY && *ret_n < cap) {
        notes[(*ret_n)++] = changes;
        changes.kind = ALLOC_INVENTORY;
    }
    return 0;
}

/* The priority of job 1 after its attempt's grew by so much in Slurm. */
static int32_t after(int32_t by, double until_s)
{
    changes = (struct alloc_note){
        .kind = ALLOC_PRIORITY, .job = 1, .attempt = 1, .priority_by = by};
    (void)error_set(&changes.why, ERR_NONE, "nice in Slurm");
    if (alloc_fake_changed(w.cluster, NULL) < 0)
        abort();
    play(until_s);
    return engine_job(w.engine, 1)->priority;
}

static void test_priority(void)
{
    struct world_script s = one((struct world_attempt){
        .is_held = 1, .wait_s = 500, .wait_why = "Slurm(Priority)"});

    changes.kind = ALLOC_INVENTORY;
    begin_polled(&s, priority, "its priority is changed there");
    play(5);
    is_int(after(-100, 10), -100, "less, and so it is here");
    is_int(after(120, 15), 20, "and more");
    is_int(after(100, 20), 50, "up to what a user may give");
    const struct job *job = engine_job(w.engine, 1);
    ok(engine_prioritise(w.engine, 1, 0, 200, NULL) == 0 &&
           job->priority == 200,
       "an administrator gives more");
    is_int(after(10, 30), 200, "  which that does not raise");
    is_int(after(-30, 35), 170, "  but lower");
    is_int(after(-2000, 37), -1000, "nor is there less than the least");
    world_die(&w);
    play(40);
    is_int(engine_job(w.engine, 1)->priority, -1000, "a new daemon knows it");
    finish("k0:COMPLETED/0/1[1]", "");
}

int main(void)
{
    test_waiting();
    test_ended();
    test_not_now();
    test_set_aside();
    test_held();
    test_priority();
    return tap_done();
}
