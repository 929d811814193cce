/* engine_ended_by.c - the engine on the fake cluster: whoever ends an attempt,
 * and whatever its worker then says, what becomes of the job. docs/engine.md
 * has the same table ("Who ended it, and what it said").
 *
 * The notes are those of the allocators: tests/contract/alloc_local.c tests
 * what this machine says of an end, tests/unit/slurm/cluster/alloc_slurm.c what
 * Slurm's words become.
 */
#include <signal.h>

#include "tests/contract/engine_cluster.h"

static struct error err;

/* ---- what its worker says --------------------------------------------------
 */
enum said {
    FINISHED,     /* 0, and no rank was told to stop */
    SAVED,        /* 0, and one was: it trapped SIGTERM, saved and exited */
    UNSAID,       /* 0, of an older worker that does not say which */
    CHECKPOINTED, /* 143: training that was told to stop */
    BROKE_OFF,    /* 3, after it was told to stop */
    FAILED,       /* 3, by itself */
    DIED,         /* no report, signal 11 */
    NOTHING,      /* no report, and the launcher exits with 0 */
    N_SAID
};

static const struct {
    const char *what;
    int32_t code, signal, stopped; /* code -1: it does not report */
} words[N_SAID] = {
    [FINISHED] = {"finished", 0, 0, 0},
    [SAVED] = {"saved, exit 0", 0, 0, 1},
    [UNSAID] = {"exit 0, older worker", 0, 0, -1},
    [CHECKPOINTED] = {"checkpoint, 143", 143, 0, 1},
    [BROKE_OFF] = {"exit 3 when stopped", 3, 0, 1},
    [FAILED] = {"exit 3", 3, 0, -1},
    [DIED] = {"signal 11", -1, 11, -1},
    [NOTHING] = {"nothing", -1, 0, -1},
};

static void say(enum said said)
{
    const struct engine_report_extra extra = {
        .cpu_ms = -1, .cores_ms = -1, .stopped = words[said].stopped};
    if (words[said].code >= 0)
        is_int(engine_report(w.engine, 1, 1, words[said].code, "", NULL, &extra,
                             &err),
               0, "it reports");
}

/* ---- who ends it -----------------------------------------------------------
 */
enum who {
    NOBODY, /* that the engine knows; a stranger may have told it to stop */
    REQUEUE,
    RESIZE,
    CANCEL,
    CANCEL_BY_ADMIN,
    LIMIT,
    WARNING, /* of the limit, by SIGTERM */
    GIVEN_UP,
    FAULT,     /* of a device, and the allocator says so */
    LOST,      /* with its node, or its machine */
    PREEMPTED, /* or requeued, by Slurm or a person there */
    SCANCEL,
    SLURM_LIMIT,
    SLURM_WARNING, /* of the limit, and there is no daemon */
    SLURM_FORGETS,
    N_WHO
};

/* What is asked of the engine, or comes to pass; the allocator is told next. */
static void begin_end(enum who who)
{
    const struct engine_size two = {.gpus = 2};
    switch (who) {
    case REQUEUE:
        is_int(engine_requeue(w.engine, 1, 1000, &err), 0, "requeued");
        break;
    case RESIZE:
        is_int(engine_resize(w.engine, 1, 1000, "anna", &two, &err), 0,
               "resized");
        break;
    case CANCEL:
    case CANCEL_BY_ADMIN:
        is_int(engine_cancel(w.engine, 1, who == CANCEL ? 1000 : 0, &err), 0,
               "cancelled");
        break;
    case SLURM_WARNING:
        world_stop(&w);
        w.clock.t_s = 1200;
        ok(world_start(&w), "the next daemon");
        return;
    case LIMIT:
    case WARNING:
    case GIVEN_UP:
        break; /* it comes with time */
    default:
        return;
    }
    for (int i = 0; i < 500; i++) {
        int32_t last;
        (void)world_step(&w);
        if (engine_job(w.engine, 1)->release_asked ||
            (who == WARNING && alloc_fake_signals(w.cluster, 1, 1, &last) > 0))
            return;
        world_advance(&w);
    }
    ok(false, "it is told to stop");
}

static struct alloc_fake_outcome note_of(enum who who, enum said said)
{
    struct alloc_fake_outcome how = {
        .exit_code = words[said].code > 0 ? words[said].code : 0,
        .signal = words[said].signal};
    switch (who) {
    case FAULT:
        how.ended_by = ALLOC_BY_FAULT;
        how.why = "GPU 1: xid 79";
        break;
    case LOST:
        how.lose = 1;
        break;
    case PREEMPTED:
        how.lose = 3;
        how.why = "Slurm job 20 was preempted";
        break;
    case SCANCEL:
        how.ended_by = ALLOC_BY_OTHER;
        break;
    case SLURM_LIMIT:
        how.ended_by = ALLOC_BY_LIMIT;
        break;
    case SLURM_FORGETS:
        how.lose = 2;
        break;
    default:
        break;
    }
    return how;
}

/* ---- what becomes of the job -----------------------------------------------
 */
#define DONE_ "COMPLETED 0"
#define FREE_ "again, free"
#define RETRY_ "again, a retry"
#define AWAY_ "again, a retry, elsewhere"
#define OWN_ "CANCELLED 130"
#define ADMIN_ "CANCELLED 143"
#define TIME_ "TIMEOUT 124"
#define FAIL_ "FAILED 3"
#define MUTE_ "FAILED 125"

static const struct {
    const char *what;
    const char *want[N_SAID];
} rows[N_WHO] = {
    [NOBODY] = {"nobody that is known",
                {DONE_, RETRY_, DONE_, RETRY_, FAIL_, FAIL_, RETRY_, MUTE_}},
    [REQUEUE] = {"requeued by us",
                 {DONE_, FREE_, FREE_, FREE_, FREE_, FREE_, FREE_, FREE_}},
    [RESIZE] = {"resized by us",
                {DONE_, FREE_, FREE_, FREE_, FREE_, FREE_, FREE_, FREE_}},
    [CANCEL] = {"cancelled by its user",
                {OWN_, OWN_, OWN_, OWN_, OWN_, OWN_, OWN_, OWN_}},
    [CANCEL_BY_ADMIN] = {"cancelled by another",
                         {ADMIN_, ADMIN_, ADMIN_, ADMIN_, ADMIN_, ADMIN_,
                          ADMIN_, ADMIN_}},
    [LIMIT] = {"at its limit",
               {DONE_, TIME_, TIME_, TIME_, TIME_, TIME_, TIME_, TIME_}},
    [WARNING] = {"warned of its limit",
                 {DONE_, TIME_, DONE_, TIME_, TIME_, FAIL_, RETRY_, MUTE_}},
    [GIVEN_UP] = {"given up by us",
                  {DONE_, AWAY_, AWAY_, AWAY_, AWAY_, AWAY_, AWAY_, AWAY_}},
    [FAULT] = {"its device failed",
               {DONE_, AWAY_, DONE_, AWAY_, AWAY_, AWAY_, AWAY_, AWAY_}},
    [LOST] = {"lost with its node",
              {DONE_, AWAY_, AWAY_, AWAY_, AWAY_, AWAY_, AWAY_, AWAY_}},
    [PREEMPTED] = {"preempted in Slurm",
                   {DONE_, FREE_, FREE_, FREE_, FREE_, FREE_, FREE_, FREE_}},
    [SCANCEL] = {"cancelled in Slurm",
                 {ADMIN_, ADMIN_, ADMIN_, ADMIN_, ADMIN_, ADMIN_, ADMIN_,
                  ADMIN_}},
    [SLURM_LIMIT] = {"at Slurm's limit",
                     {DONE_, TIME_, TIME_, TIME_, TIME_, TIME_, TIME_, TIME_}},
    [SLURM_WARNING] = {"warned by Slurm",
                       {DONE_, TIME_, DONE_, TIME_, TIME_, FAIL_, RETRY_,
                        MUTE_}},
    [SLURM_FORGETS] = {"forgotten by Slurm",
                       {DONE_, FREE_, FREE_, FREE_, FREE_, FAIL_, FREE_,
                        FREE_}},
};

static const char *became(void)
{
    static char text[80];
    const struct job *job = engine_job(w.engine, 1);
    if (job->attempt > 1 || job->state == JOB_QUEUED)
        (void)snprintf(text, sizeof(text), "again, %s%s",
                       job->retries > 0 ? "a retry" : "free",
                       job->exclude[0] ? ", elsewhere" : "");
    else
        (void)snprintf(text, sizeof(text), "%s %d", job_state_name(job->state),
                       (int)job->exit_code);
    return text;
}

static void cell(enum who who, enum said said, bool saves, const char *want)
{
    struct world_script s = one((struct world_attempt){
        .run_s = INFINITY, .no_report = 1, .silent = who == GIVEN_UP});
    char more[300], what[120];

    s.nodes = 2;
    s.node_lost_s = who == GIVEN_UP ? 10 : 0;
    s.jobs[0].gpus_max = saves ? 2 : 0; /* a range saves its work */
    s.jobs[0].spec_more = more;
    (void)snprintf(more, sizeof(more),
                   ",\"time_limit\":\"60s\"%s},\"retry\":{\"max\":2,"
                   "\"backoff\":\"60s\"}}",
                   who == WARNING ? ",\"warn_before\":\"10s\","
                                    "\"warn_signal\":\"TERM\""
                                  : "");
    begin(&s, rows[who].what);
    play(5);
    is_int(engine_job(w.engine, 1)->state,
           who == GIVEN_UP ? JOB_STARTING : JOB_RUNNING, "it runs");
    begin_end(who);
    say(said);
    const struct alloc_fake_outcome how = note_of(who, said);
    is_int(alloc_fake_end(w.cluster, 1, 1, &how, &err), 0, "it ends");
    for (int i = 0; i < 3; i++)
        (void)world_step(&w);
    (void)snprintf(what, sizeof(what), "%s, %s%s", rows[who].what,
                   words[said].what, saves ? "" : ", does not save");
    is_str(became(), want, what);
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

struct seen {
    const char *text;
    enum job_event ev;
    int n;
};

static int see(void *arg, const struct store_event *ev, struct error *e)
{
    struct seen *seen = arg;
    (void)e;
    seen->n +=
        ev->ev == seen->ev && ev->detail && strstr(ev->detail, seen->text);
    return 0;
}

static int count_events(enum job_event ev, const char *text)
{
    struct seen seen = {text, ev, 0};
    if (w.store->ops->load(w.store, see, &seen, &err) < 0)
        return -1;
    return seen.n;
}

/* However often Slurm takes it away: no retry, no node, and the reason. */
static void test_preempted(void)
{
    struct world_script s = one((struct world_attempt){
        .run_s = 5, .lose = 5, .why = "Slurm job 20 was preempted"});

    s.nodes = 2;
    for (int i = 1; i < 4; i++)
        s.jobs[0].attempts[i] = s.jobs[0].attempts[0];
    s.jobs[0].spec_more = "},\"retry\":{\"max\":0}}";
    begin(&s, "preempted four times, without a retry");
    play(1);
    for (int i = 0; i < 1000 && engine_job(w.engine, 1)->attempt < 5; i++) {
        (void)world_step(&w);
        world_advance(&w);
    }
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->retries, 0, "no retry is counted");
    is_str(job->exclude, "", "no node is excluded");
    is_int(count_events(EV_REQUEUE, "\"why\":\"Slurm job 20 was preempted\""),
           4, "each requeue says why");
    finish("k0:COMPLETED/0/5[11111]", "");
}

int main(void)
{
    test_preempted();
    for (int who = 0; who < N_WHO; who++)
        for (int said = 0; said < N_SAID; said++)
            cell((enum who)who, (enum said)said, true, rows[who].want[said]);
    /* A command that does not save means its exit code. */
    cell(NOBODY, SAVED, false, DONE_);
    cell(NOBODY, CHECKPOINTED, false, "FAILED 143");
    cell(LOST, SAVED, false, AWAY_);
    cell(REQUEUE, SAVED, false, FREE_);
    cell(LIMIT, SAVED, false, TIME_);
    return tap_done();
}
