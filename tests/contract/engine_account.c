/* engine_account.c - a job whose specification names no account is charged to
 * the default account that the cluster tells of its user: in its limits, its
 * rows and its record, which a daemon after it reads without the cluster.
 */
#include "scheduler/engine/account.h"
#include "tests/contract/engine_play.h"

static struct error err;

static const struct job *job_of(int i)
{
    return engine_job(w.engine, w.ids[i]);
}

/* ---- what the cluster tells ------------------------------------------------
 */
static struct alloc_quota rows[3];
static size_t n_rows;

static size_t quotas(void *arg, const struct alloc_quota **ret)
{
    (void)arg;
    *ret = rows;
    return n_rows;
}

static void tells(int64_t uid, const char *name, bool is_default)
{
    struct alloc_quota *q = &rows[n_rows++];

    *q = (struct alloc_quota){.kind = ALLOC_QUOTA_ACCOUNT,
                              .uid = (uint32_t)uid,
                              .is_default = is_default,
                              ALLOC_QUOTA_NO_LIMITS};
    (void)snprintf(q->name, sizeof(q->name), "%s", name);
}

/* Another user's, one that is not the default, and the default. */
static void tells_lab(void)
{
    n_rows = 0;
    tells(1001, "other", true);
    tells(1000, "spare", false);
    tells(1000, "lab", true);
}

static const char *asked; /* the account of the last request; "": none */

static bool may_use(void *arg, int32_t i, const struct alloc_where *where)
{
    (void)arg;
    (void)i;
    asked = where->account ? where->account : "";
    return true;
}

static const char *or_none(const char *s)
{
    return s ? s : "none";
}

static void is_charged(int i, const char *want, const char *what)
{
    is_str(or_none(engine_account(w.engine, job_of(i))), want, what);
}

static void row_says(const char *want, const char *what)
{
    const struct store_attempt *row = store_mem_attempt(w.db, 1, 1);
    is_str(row ? or_none(row->account) : "no row", want, what);
}

/* ---- jobs ------------------------------------------------------------------
 */
static const struct world_script two = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_fifo,
    .quotas = quotas,
    .may_use = may_use,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 50}, {.run_s = 50}}},
             {.gpus = 1, .attempts = {{.run_s = 50}}}},
    .acts = {{.job = 0}, {.job = 1}, {.at_s = 20, .job = 0, .verb = W_REQUEUE}},
    .n_acts = 2,
};

static void begin(const struct world_script *s, const char *conf_account)
{
    world_init(&w, s);
    w.conf.where.account = conf_account;
    w.conf.limits.gpus_per_account = 1;
    if (!world_start(&w))
        abort();
    asked = NULL;
}

static void test_default(bool dies)
{
    tells_lab();
    begin(&two, NULL);
    play(5);
    is_charged(0, "lab",
               dies ? "---- the default account, over a restart"
                    : "---- the default account");
    is_charged(1, "lab", "  also of a job that is pending");
    is_int(job_of(1)->state, JOB_QUEUED, "  which a limit of accounts keeps");
    is_str(job_of(1)->reason,
           "LimitAccountGpus: 1 in use, needs 1, of 1 allowed to account lab",
           "  so that its reason says it");
    is_str(asked, "", "Slurm gets no account: the default is Slurm's to apply");
    ok(!job_of(0)->where.account, "and the job names none");
    if (dies) {
        n_rows = 0; /* hidden from now on */
        world_die(&w);
        play(10);
        is_charged(0, "lab", "a daemon that is told nothing knows it, too");
        is_charged(1, "lab", "  of the one that is pending");
    }
    row_says("lab", "the row of its attempt has it");
    play_out("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]");
}

static void test_without(void)
{
    n_rows = 0;
    tells(1001, "other", true);
    tells(1000, "spare", false);
    begin(&two, NULL);
    play(5);
    is_charged(0, "none", "---- no default is told: no account, as before");
    ok(job_state_is_live(job_of(1)->state), "  and no limit of one");
    row_says("none", "  nor a row");
    play_out("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]");
}

static void test_named(void)
{
    struct world_script s = two;

    tells_lab();
    s.jobs[1].spec_more = "},\"policy\":{\"account\":\"spare\"},"
                          "\"retry\":{\"max\":0}}";
    begin(&s, NULL);
    play(5);
    is_charged(1, "spare", "---- an account that the specification names");
    ok(job_state_is_live(job_of(1)->state), "  has a limit of its own");
    is_str(asked, "spare", "  and Slurm gets it");
    play_out("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]");

    tells_lab();
    begin(&two, "all");
    play(5);
    is_charged(0, "all", "one account for all, of the configuration");
    is_str(job_of(0)->account, "", "  no default is recorded beside it");
    is_str(asked, "all", "  and Slurm gets it");
    play_out("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]");
}

/* A start is charged to what is the default then. */
static void test_later(void)
{
    struct world_script s = two;

    n_rows = 0;
    s.acts[0].hold = true;
    s.acts[1] = (struct world_act){.at_s = 10, .job = 0, .verb = W_RELEASE};
    s.n_acts = 3;
    begin(&s, NULL);
    play(5);
    is_charged(0, "none", "---- submitted before Slurm tells anything");
    tells_lab();
    is_charged(0, "lab", "  then it is told");
    is_str(job_of(0)->account, "", "  and no event has it");
    play(15);
    is_str(job_of(0)->account, "lab", "its start records it");
    rows[2].is_default = false;
    rows[1].is_default = true;
    is_charged(0, "lab", "a new default is not that of the attempt");
    play(40);
    is_int(job_of(0)->attempt, 2, "  but of the next one");
    is_charged(0, "spare", "  which is charged to it");
    play_out("k0:COMPLETED/0/2[11]");
}

/* All tasks, held; a daemon after it reads them from their events. */
static void test_sweep(void)
{
    static const char spec[] =
        "{\"version\":1,\"name\":\"j\",\"kind\":\"command\","
        "\"command\":[\"true\"],\"resources\":{\"gpus\":1}}";
    const struct engine_task tasks[2] = {
        {.spec = spec, .vary = "{\"name\":\"a\"}"},
        {.spec = spec, .vary = "{\"name\":\"b\"}"}};
    const struct engine_sweep sweep = {.tasks = tasks, .n = 2};
    const struct engine_submit req = {
        .uid = 1000, .user = "anna", .key = "k0", .hold = true};
    struct world_script s = two;

    tells_lab();
    s.n_acts = 0;
    begin(&s, NULL);
    is_int(engine_submit_sweep(w.engine, &req, &sweep, &w.ids[0], NULL, &err),
           0, "---- a sweep");
    w.ids[1] = w.ids[0] + 1;
    (void)world_step(&w);
    n_rows = 0;
    world_stop(&w);
    if (!world_start(&w))
        abort();
    is_charged(0, "lab", "  its first task");
    is_charged(1, "lab", "  and the next one");
    world_clear(&w);
}

/* That a user has none is remembered until the cluster tells of a change. */
static void test_none(void)
{
    struct world_script s = two;

    s.n_acts = 1;
    n_rows = 0;
    tells(1001, "other", true);
    tells(1000, "spare", false);
    begin(&s, NULL);
    play(5);
    is_charged(0, "none", "---- a user without a default account");
    is_str(or_none(eng_default_account(w.engine, 1000)), "none", "  has none");
    rows[1].is_default = true;
    is_str(or_none(eng_default_account(w.engine, 1000)), "none",
           "  without another search");
    is_str(or_none(eng_default_account(w.engine, 1001)), "other",
           "  another user has one");
    if (alloc_fake_changed(w.cluster, &err) < 0)
        abort();
    play(10);
    is_str(or_none(eng_default_account(w.engine, 1000)), "spare",
           "  one that the cluster tells of is found");
    play_out("k0:COMPLETED/0/1[1]");
}

int main(void)
{
    test_without();
    test_default(false);
    test_default(true);
    test_none();
    test_named();
    test_later();
    test_sweep();
    return tap_done();
}
