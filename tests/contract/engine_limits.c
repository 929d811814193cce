/* engine_limits.c - how much one user, or account, may have at once. */
#include "scheduler/engine/teach.h"
#include "tests/contract/engine_world.h"

static const struct world_script script = {
    .nodes = 4,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 1000}}}},
};

static struct world w;
static struct error err;

static void begin(struct engine_limits limits)
{
    world_init(&w, &script);
    w.conf.limits = limits;
    ok(world_start(&w), "---- a daemon");
}

static uint64_t submit(int64_t uid, const char *gpus, const char *account)
{
    static int n;
    char spec[300], key[16];
    uint64_t id = 0;
    (void)snprintf(key, sizeof(key), "k0.%d", n++);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"policy\":{\"account\":%s},"
                   "\"resources\":{\"gpus\":\"%s\",\"nodes\":\"1..4\"}}",
                   account ? account : "null", gpus);
    struct engine_submit req = {
        .uid = uid, .user = "anna", .key = key, .spec = spec};
    return engine_submit(w.engine, &req, &id, NULL, &err) < 0 ? 0 : id;
}

static void settle(void)
{
    for (int i = 0; i < 5; i++)
        (void)world_step(&w);
}

static bool runs(uint64_t id)
{
    return job_state_is_live(engine_job(w.engine, id)->state);
}

static bool waits_for(uint64_t id, const char *reason)
{
    const struct job *job = engine_job(w.engine, id);
    bool is = job->state == JOB_QUEUED &&
              strncmp(job->reason, reason, strlen(reason)) == 0;
    if (!is)
        tap_diag("job %" PRIu64 " %s %s", id, job_state_name(job->state),
                 job->reason);
    return is;
}

static void test_gpus(void)
{
    begin((struct engine_limits){.gpus_per_user = 6});
    uint64_t a = submit(1, "4", NULL), b = submit(1, "4", NULL);
    uint64_t c = submit(1, "2", NULL), d = submit(1, "1", NULL);
    uint64_t other = submit(2, "6", NULL);
    settle();
    ok(runs(a), "the first");
    ok(waits_for(b, "LimitUserGpus: "), "the second is too much");
    ok(runs(c), "a smaller one is not");
    ok(waits_for(d, "LimitUserGpus: 6 in use, needs 1, of 6 allowed"),
       "then not even the smallest");
    ok(runs(other), "another user has his own");
    ok(submit(1, "8", NULL) == 0 && err.code == ERR_INVAL &&
           strstr(err.msg, "can never start: needs 8 GPUs, of 6 allowed "
                           "(limits.max_gpus_per_user) [E201]"),
       "what can never start is refused: %s", err.msg);
    is_int(engine_cancel(w.engine, a, 1, &err), 0, "cancel the first");
    settle();
    w.clock.t_s += 200;
    settle();
    ok(runs(b), "and the second runs");
    ok(waits_for(d, "LimitUserGpus"), "the smallest does not");
    world_die(&w);
    settle();
    ok(runs(b) && waits_for(d, "LimitUserGpus"), "so in the next life");
    w.conf.limits.gpus_per_user = 0;
    (void)submit(3, "1", NULL); /* an occasion to plan */
    settle();
    ok(runs(d), "without the limit it does");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* Each job on one node, with as many GPUs as it may have. */
static int plan_most(const struct policy_view *view,
                     struct policy_decision *decisions, size_t cap,
                     size_t *ret_n, struct error *perr)
{
    (void)perr;
    *ret_n = 0;
    for (size_t i = 0; i < view->n_jobs && *ret_n < cap; i++) {
        const struct policy_job *job = &view->jobs[i];
        if (job->state == JOB_QUEUED)
            decisions[(*ret_n)++] =
                (struct policy_decision){.act = POLICY_START,
                                         .id = job->id,
                                         .nodes = 1,
                                         .gpus_per_node = job->gpus_max,
                                         .start_s = NAN};
    }
    return 0;
}

static void test_elastic(void)
{
    static const struct policy most = {.name = "most", .plan = plan_most};
    struct world_script s = script;
    s.policy = &most;
    world_init(&w, &s);
    w.conf.limits = (struct engine_limits){.gpus_per_user = 6};
    ok(world_start(&w), "---- a daemon that gives the most");
    uint64_t a = submit(1, "3..4", NULL);
    settle();
    uint64_t b = submit(1, "1..4", NULL), c = submit(2, "1..4", NULL);
    settle();
    is_int(engine_job(w.engine, a)->gpus, 4, "the first has all it may");
    is_int(engine_job(w.engine, b)->gpus, 2, "the second what is left");
    is_int(engine_job(w.engine, c)->gpus, 4, "another user's all");
    world_clear(&w);
}

static void test_jobs(void)
{
    begin((struct engine_limits){.running_per_user = 2});
    uint64_t a = submit(1, "0", NULL), b = submit(1, "1", NULL);
    uint64_t c = submit(1, "0", NULL), d = submit(2, "1", NULL);
    settle();
    ok(runs(a) && runs(b) && runs(d), "two of one user, and another's");
    ok(waits_for(c, "LimitUserJobs: 2 run, of 2 allowed"), "not three");
    world_clear(&w);
}

static void test_accounts(void)
{
    begin((struct engine_limits){.gpus_per_account = 4,
                                 .running_per_account = 2});
    uint64_t a = submit(1, "3", "\"nlp\""), b = submit(2, "2", "\"nlp\"");
    uint64_t c = submit(2, "1", "\"nlp\""), d = submit(3, "0", "\"nlp\"");
    uint64_t e = submit(1, "4", "\"cv\""), f = submit(1, "4", NULL);
    settle();
    ok(runs(a) && runs(c), "two of an account");
    ok(waits_for(b, "LimitAccount"), "what is too much for it waits");
    ok(waits_for(d, "LimitAccountJobs: 2 run, of 2 allowed to account nlp"),
       "as does a third");
    ok(runs(e), "another account has its own");
    ok(runs(f), "and who names none has no limit");
    ok(submit(1, "8", "\"nlp\"") == 0 &&
           strstr(err.msg, "limits.max_gpus_per_account"),
       "never fits the account: %s", err.msg);
    world_clear(&w);
}

/* Many of one user before one of another: the limit must not keep the devices
 * that it frees from those behind. */
static void test_many(void)
{
    uint64_t last;

    begin((struct engine_limits){.gpus_per_user = 2});
    for (int i = 0; i < 300; i++)
        (void)submit(1, "1", NULL);
    last = submit(2, "2", NULL);
    settle();
    int n = 0;
    for (const struct job *j = engine_next_job(w.engine, 0); j;
         j = engine_next_job(w.engine, j->id))
        n += j->uid == 1 && job_state_is_live(j->state);
    is_int(n, 2, "two of three hundred run");
    ok(runs(last), "and the other user's, in the same plan");
    world_clear(&w);
}

/* What is spent is told by the caller; the jobs of the name wait. */
static void test_spent(void)
{
    const struct engine_spent spent[] = {
        {.name = "nlp", .why = "LimitGpuHours: nlp used 7 of 5"}};
    begin((struct engine_limits){.gpus_per_user = 0});
    uint64_t a = submit(1, "1", "\"nlp\"");
    settle();
    is_int(engine_teach_spent(w.engine, spent, 1, &err), 0, "it is spent");
    uint64_t b = submit(1, "1", "\"nlp\""), c = submit(1, "1", NULL);
    uint64_t d = submit(1, "0", "\"nlp\"");
    settle();
    ok(runs(a), "what runs goes on");
    ok(waits_for(b, "LimitGpuHours: nlp used 7 of 5"), "the next one waits");
    ok(runs(c), "one of no account does not");
    ok(runs(d), "nor one that needs no GPU");
    is_int(engine_teach_spent(w.engine, NULL, 0, &err), 0, "it is free again");
    settle();
    ok(runs(b), "and the job starts, without another event");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

int main(void)
{
    test_spent();
    test_gpus();
    test_elastic();
    test_jobs();
    test_accounts();
    test_many();
    return tap_done();
}
