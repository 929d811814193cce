/* engine_dry_run.c - what would come of a submit: what is said is submitted
 * then, and comes of it; and saying it leaves no trace. */
#include "scheduler/engine/what_if.h"
#include "tests/contract/engine_queue.h"

static const struct world_script script = {
    .nodes = 2,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 100000}}}},
};

static struct world w;
static struct error err;

static void begin(struct engine_limits limits, const char *what)
{
    world_init(&w, &script);
    w.conf.limits = limits;
    ok(world_start(&w), "---- %s", what);
}

/* ---- asked, and what was said ----------------------------------------------
 */
struct told {
    size_t n, n_tried, n_start, n_never;
    int32_t nodes, gpus_per_node, task, position;
    char on[ALLOC_NODE_NAME_CAP], reason[JOB_REASON_CAP];
    enum job_state state;
    double start_estimate_s;
    uint64_t alike;
    bool has_suppose;
};

static int tell(void *arg, const struct engine_trial *t, struct error *why)
{
    struct told *told = arg;
    const struct job *job = t->waits ? t->waits : t->first;
    struct engine_what_if s;

    *told = (struct told){.n = t->n,
                          .n_tried = t->n_tried,
                          .n_start = t->n_start,
                          .n_never = t->n_never,
                          .nodes = t->nodes,
                          .gpus_per_node = t->gpus_per_node,
                          .task = job->task,
                          .position = engine_queue_position(w.engine, job->id),
                          .state = job->state,
                          .start_estimate_s = job->start_estimate_s,
                          .alike = t->alike};
    if (t->nodes > 0)
        (void)snprintf(told->on, sizeof(told->on), "%s",
                       engine_node(w.engine, (size_t)t->at[0])->name);
    (void)snprintf(told->reason, sizeof(told->reason), "%s", job->reason);
    told->has_suppose = engine_what_if(w.engine, job, &s, why) == 0;
    return 0;
}

/* All that there is to be seen of the engine's jobs. */
static void picture(char *ret, size_t cap)
{
    const struct job *job = engine_next_job(w.engine, 0);
    size_t len = 0;

    for (; job; job = engine_next_job(w.engine, job->id))
        len += (size_t)snprintf(ret + len, cap - len, "%d %s %s %g %d|",
                                (int)job->id, job_state_name(job->state),
                                job->reason, job->start_estimate_s,
                                engine_queue_position(w.engine, job->id));
    (void)snprintf(ret + len, cap - len, "last %d, staged %d, next %g",
                   (int)engine_last_id(w.engine), (int)engine_staged(w.engine),
                   engine_next_s(w.engine));
}

static const char *spec_of(int gpus, double limit_s, const char *more)
{
    static char spec[400];
    char limit[48] = "";

    if (limit_s > 0)
        (void)snprintf(limit, sizeof(limit), ",\"time_limit\":\"%.0fs\"",
                       limit_s);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{\"gpus\":%d,\"nodes\":\"1..2\"%s}%s}",
                   gpus, limit, more);
    return spec;
}

static int ask(const char *spec, const struct engine_sweep *sweep, bool hold,
               struct told *ret)
{
    static char before[4000], after[4000];
    const struct engine_submit req = {
        .uid = 1, .user = "anna", .spec = spec, .hold = hold};

    *ret = (struct told){.n = 0};
    err = (struct error)ERROR_INIT;
    picture(before, sizeof(before));
    int rc = engine_dry_run(w.engine, &req, sweep, tell, ret, &err);
    picture(after, sizeof(after));
    is_str(after, before, "  nothing is left of it");
    return rc;
}

/* As it was asked: an id, or 0. */
static uint64_t submit(const char *spec)
{
    static int n;
    char key[16];
    uint64_t id = 0;
    (void)snprintf(key, sizeof(key), "k0.%d", n++);
    const struct engine_submit req = {
        .uid = 1, .user = "anna", .key = key, .spec = spec};
    int rc = engine_submit(w.engine, &req, &id, NULL, &err);
    world_settle(&w);
    return rc < 0 ? 0 : id;
}

/* What was said of the job, and what it became. */
static void same(uint64_t id, const struct told *t)
{
    const struct job *job = engine_job(w.engine, id);
    if (!job) {
        ok(false, "it is not there");
        return;
    }
    is_str(job->reason, t->reason, "  it waits for that");
    is_int(engine_queue_position(w.engine, id), t->position, "  in that place");
    ok((isnan(job->start_estimate_s) && isnan(t->start_estimate_s)) ||
           fabs(job->start_estimate_s - t->start_estimate_s) < 5,
       "  and may start then: %g, %g", job->start_estimate_s,
       t->start_estimate_s);
}

/* ---- one job ---------------------------------------------------------------
 */
static void test_starts(void)
{
    struct told t;
    begin((struct engine_limits){0}, "one that starts");
    is_int(ask(spec_of(2, 0, ""), NULL, false, &t), 0, "asked");
    ok(t.n == 1 && t.n_start == 1, "it would");
    ok(t.nodes == 1 && t.gpus_per_node == 2, "  with two GPUs of one node");
    ok(t.alike == 0, "  nothing like it ran before");
    uint64_t id = submit(spec_of(2, 0, ""));
    is_int((long long)id, 1, "submitted, it gets the id");
    const struct job *job = engine_job(w.engine, id);
    ok(job && job_state_is_live(job->state) && job->gpus == 2, "  and starts");
    ok(strncmp(job->place, t.on, strlen(t.on)) == 0, "  there: %s, %s", t.on,
       job->place);
    is_int(ask(spec_of(3, 0, ""), NULL, false, &t), 0, "the next");
    ok(t.n_start == 1 && t.alike == id, "  is like that one");
    job = engine_job(w.engine, submit(spec_of(3, 0, "")));
    ok(strncmp(job->place, t.on, strlen(t.on)) == 0,
       "  and goes where the first is not: %s, %s", t.on, job->place);
    world_clear(&w);
}

static void test_waits(void)
{
    struct told t;
    begin((struct engine_limits){0}, "one that waits");
    (void)submit(spec_of(8, 1000, ""));
    is_int(ask(spec_of(2, 0, ""), NULL, false, &t), 0, "asked");
    ok(t.n_start == 0 && t.nodes == 0 && t.has_suppose, "it does not start");
    ok(strncmp(t.reason, "WaitingForGpus", 14) == 0, "  %s", t.reason);
    ok(isfinite(t.start_estimate_s), "  it is known until when");
    same(submit(spec_of(2, 0, "")), &t);
    is_int(ask(spec_of(8, 0, ""), NULL, false, &t), 0, "the next");
    is_int(t.position, 2, "stands behind it");
    same(submit(spec_of(8, 0, "")), &t);
    is_int(ask(spec_of(8, 0, ",\"policy\":{\"priority\":9}"), NULL, false, &t),
           0, "one of more priority");
    is_int(t.position, 1, "  goes before");
    is_int(ask(spec_of(2, 0, ""), NULL, true, &t), 0, "one to be held");
    ok(t.state == JOB_HELD && t.n_start == 0, "  would be");
    world_clear(&w);
}

static void test_refused(void)
{
    struct told t;
    begin((struct engine_limits){.gpus_per_user = 6}, "one that is refused");
    is_int(ask(spec_of(9, 0, ""), NULL, false, &t), -1, "too large");
    ok(err.code == ERR_INVAL && strstr(err.msg, "can never fit"), "  %s",
       err.msg);
    is_int(ask(spec_of(8, 0, ""), NULL, false, &t), -1, "above a limit");
    ok(err.code == ERR_INVAL, "  %s", err.msg);
    is_int(
        ask(spec_of(1, 0, ",\"depends_on\":[\"afterok:7\"]"), NULL, false, &t),
        -1, "behind one that is not there");
    ok(err.code == ERR_INVAL && strstr(err.msg, "E022"), "  %s", err.msg);
    w.conf.max_jobs_per_user = 1;
    (void)submit(spec_of(1, 0, ""));
    is_int(ask(spec_of(1, 0, ""), NULL, false, &t), -1, "one too many");
    ok(err.code == ERR_LIMIT, "  %s", err.msg);
    world_clear(&w);
}

static void test_limited(void)
{
    struct told t;
    begin((struct engine_limits){.gpus_per_user = 4}, "as its user may");
    (void)submit(spec_of(3, 0, ""));
    uint64_t other = submit(spec_of(2, 0, ""));
    is_int(ask(spec_of(2, 0, ",\"policy\":{\"priority\":9}"), NULL, false, &t),
           0, "asked");
    ok(strncmp(t.reason, "LimitUserGpus", 13) == 0, "  %s", t.reason);
    ok(t.n_start == 0 && engine_job(w.engine, other)->state == JOB_QUEUED,
       "  neither starts");
    is_int(ask(spec_of(1, 0, ""), NULL, false, &t), 0, "a smaller one");
    ok(t.n_start == 1, "  would");
    world_clear(&w);
}

static void test_after(void)
{
    struct told t;
    const char *after = ",\"depends_on\":[\"afterok:1\"]";
    begin((struct engine_limits){0}, "one that is to come after another");
    uint64_t first = submit(spec_of(1, 0, ""));
    is_int(ask(spec_of(1, 0, after), NULL, false, &t), 0, "asked");
    ok(t.n_start == 0 && t.state == JOB_QUEUED && t.position == 0,
       "  it would wait for it");
    is_str(t.reason, "Dependency: waits for afterok:1", "  and says so");
    is_int(engine_cancel(w.engine, first, 1, &err), 0, "that one is cancelled");
    for (int i = 0;
         i < 100 && !job_state_is_final(engine_job(w.engine, first)->state);
         i++) {
        world_settle(&w);
        world_advance(&w);
    }
    is_int(ask(spec_of(1, 0, after), NULL, false, &t), 0, "asked");
    ok(t.state == JOB_HELD &&
           strncmp(t.reason, "DependencyNeverSatisfied", 24) == 0,
       "  it would be held: %s", t.reason);
    world_clear(&w);
}

static void test_paused(void)
{
    struct told t;
    begin((struct engine_limits){0}, "while nothing starts");
    engine_drain(w.engine, "Paused: for a while");
    world_settle(&w);
    is_int(ask(spec_of(1, 0, ""), NULL, false, &t), 0, "asked");
    ok(t.n_start == 0, "  nor would it");
    same(submit(spec_of(1, 0, "")), &t);
    ok(strstr(t.reason, "for a while"), "  and it says why: %s", t.reason);
    world_clear(&w);
}

/* ---- a sweep ---------------------------------------------------------------
 */
static void test_sweep(void)
{
    char spec[400];
    struct engine_task tasks[5];
    struct told t;

    begin((struct engine_limits){0}, "a sweep");
    (void)snprintf(spec, sizeof(spec), "%s", spec_of(1, 0, ""));
    for (int i = 0; i < 5; i++)
        tasks[i] = (struct engine_task){.spec = spec, .vary = "{}"};
    struct engine_sweep sweep = {.tasks = tasks, .n = 5, .max_parallel = 2};
    is_int(ask(NULL, &sweep, false, &t), 0, "asked");
    ok(t.n == 5 && t.n_start == 2 && t.task == 2, "two of five start");
    ok(strncmp(t.reason, "SweepLimit: max_parallel 2", 26) == 0, "  %s",
       t.reason);
    sweep.max_parallel = 0;
    ok(submit(spec_of(6, 100, "")) > 0, "six GPUs are taken");
    is_int(ask(NULL, &sweep, false, &t), 0, "asked");
    ok(t.n_start == 2 && t.task == 2 && t.nodes == 1, "two start on the rest");
    ok(strncmp(t.reason, "WaitingForGpus", 14) == 0, "  %s", t.reason);
    tasks[3].spec = "{\"kind\":\"command\",\"command\":[\"a\"],"
                    "\"resources\":{\"gpus\":64}}";
    is_int(ask(NULL, &sweep, false, &t), -1, "with a task that never fits");
    ok(strstr(err.msg, "task 3") && strstr(err.msg, "can never fit"), "  %s",
       err.msg);
    sweep.n = 0;
    is_int(ask(NULL, &sweep, false, &t), -1, "of nothing");
    world_clear(&w);
}

/* No longer than a short one holds up the daemon; what it would refuse it
 * refuses still. */
static void test_long_sweep(void)
{
    enum { MANY = 300 };
    static struct engine_task tasks[MANY];
    char spec[400];
    struct told t;
    struct engine_sweep sweep = {.tasks = tasks, .n = MANY};

    begin((struct engine_limits){0}, "a sweep of very many");
    (void)snprintf(spec, sizeof(spec), "%s", spec_of(1, 0, ""));
    for (int i = 0; i < MANY; i++)
        tasks[i] = (struct engine_task){.spec = spec, .vary = "{}"};
    is_int(ask(NULL, &sweep, false, &t), 0, "asked");
    ok(t.n == MANY && t.n_tried == 256, "of all, some are tried");
    ok(t.n_start == 8 && t.task == 8 && t.position == 9, "  as many start");
    tasks[MANY - 1].spec = "{\"kind\":\"command\",\"command\":[\"a\"],"
                           "\"resources\":{\"gpus\":64}}";
    is_int(ask(NULL, &sweep, false, &t), -1, "with a last one that never fits");
    ok(strstr(err.msg, "task 299") && strstr(err.msg, "can never fit"), "  %s",
       err.msg);
    tasks[MANY - 1].spec =
        "{\"kind\":\"command\",\"command\":[\"a\"],"
        "\"resources\":{\"gpus\":64},\"policy\":{\"force_queue\":true}}";
    is_int(ask(NULL, &sweep, false, &t), 0, "that is to wait all the same");
    is_int((int)t.n_never, 1, "  counts");
    world_clear(&w);
}

static int refuse(void *arg, const struct engine_trial *t, struct error *why)
{
    (void)arg;
    (void)t;
    return error_set(why, ERR_NOMEM, "the one who is told");
}

static void test_told(void)
{
    const struct engine_submit req = {
        .uid = 1, .user = "anna", .spec = spec_of(1, 0, "")};
    begin((struct engine_limits){0}, "who is told has no room for it");
    is_int(engine_dry_run(w.engine, &req, NULL, refuse, NULL, &err), -1,
           "asked");
    ok(err.code == ERR_NOMEM && !engine_next_job(w.engine, 0), "  as he says");
    world_clear(&w);
}

int main(void)
{
    test_starts();
    test_waits();
    test_refused();
    test_limited();
    test_after();
    test_paused();
    test_sweep();
    test_long_sweep();
    test_told();
    return tap_done();
}
