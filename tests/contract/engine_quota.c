/* engine_quota.c - what the cluster tells of quotas and reservations to come is
 * part of the inventory: sizes above a quota, and nodes that a reservation
 * takes before a job would end, are no candidates.
 */
#include "scheduler/engine/explain_sizes.h"
#include "tests/contract/engine_play.h"

static struct error err;

static const struct job *job_of(int i)
{
    return engine_job(w.engine, w.ids[i]);
}

static const char *conf_account = "lab";

static void begin(const struct world_script *s)
{
    world_init(&w, s);
    w.conf.where.account = conf_account;
    if (!world_start(&w))
        abort();
}

static int resize(int i, int32_t gpus)
{
    const struct engine_size to = {.gpus = gpus};
    return engine_resize(w.engine, w.ids[i], 1000, "anna", &to, &err);
}

/* ---- the rules of a cluster ------------------------------------------------
 */
static struct alloc_quota rows[8];
static size_t n_rows;

static bool counts; /* what runs counts as used by the first row */

static size_t quotas(void *arg, const struct alloc_quota **ret)
{
    const struct job *job = counts ? engine_next_job(w.engine, 0) : NULL;

    (void)arg;
    if (counts)
        rows[0].group_used = 0;
    for (; job; job = engine_next_job(w.engine, job->id))
        if (job_state_is_live(job->state) && job->native_id[0])
            rows[0].group_used += job->gpus;
    *ret = rows;
    return n_rows;
}

static struct alloc_quota *row(enum alloc_quota_kind kind, const char *name)
{
    struct alloc_quota *q = &rows[n_rows++];

    *q = (struct alloc_quota){.kind = kind, .uid = 1000, ALLOC_QUOTA_NO_LIMITS};
    (void)snprintf(q->name, sizeof(q->name), "%s", name);
    (void)snprintf(q->group, sizeof(q->group), "%s", name);
    return q;
}

/* The only account, "lab", with a group limit of so many GPUs. */
static struct alloc_quota *lab(int32_t gpus)
{
    n_rows = 0;
    struct alloc_quota *q = row(ALLOC_QUOTA_ACCOUNT, "lab");
    q->group_gpus = gpus;
    q->is_default = true;
    return q;
}

static double next_s; /* a reservation begins on the first node; 0: none */
static int32_t n_nodes_reserved;

static void node(void *arg, int32_t i, struct alloc_node *io)
{
    (void)arg;
    if (next_s <= 0 || i >= n_nodes_reserved)
        return;
    io->next_starts = (int64_t)(1.7e9 + 1000 + next_s);
    (void)snprintf(io->next_reservation, sizeof(io->next_reservation), "maint");
}

static void changed(void)
{
    if (alloc_fake_changed(w.cluster, &err) < 0)
        abort();
}

/* ---- a policy that wants as much as there is -------------------------------
 */
static int32_t seen_max;   /* of the only job, last seen */
static bool wishes_resize; /* to seen_max */

static int plan_most(const struct policy_view *v,
                     struct policy_decision *decisions, size_t cap,
                     size_t *ret_n, struct error *e)
{
    if (policy_backfill.plan(v, decisions, cap, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; i < v->n_jobs; i++)
        seen_max = v->jobs[i].gpus_max;
    for (size_t i = 0; i < *ret_n; i++)
        if (decisions[i].act == POLICY_START &&
            v->nodes[0].gpus_free >= seen_max)
            decisions[i].gpus_per_node = seen_max;
    for (size_t i = 0; wishes_resize && i < v->n_jobs && *ret_n < cap; i++)
        if (v->jobs[i].may_resize && v->jobs[i].gpus < seen_max)
            decisions[(*ret_n)++] =
                (struct policy_decision){.act = POLICY_RESIZE,
                                         .id = v->jobs[i].id,
                                         .nodes = 1,
                                         .gpus_per_node = seen_max};
    return 0;
}

static const struct policy most = {
    .name = "most", .summary = "for tests", .plan = plan_most};

/* ---- quotas ----------------------------------------------------------------
 */
static const struct world_script one = {
    .nodes = 1,
    .gpus_per_node = 8,
    .policy = &most,
    .quotas = quotas,
    .node = node,
    .resize_patience_s = 60,
    .preempt = {.min_runtime_s = 20},
    .jobs = {{.gpus = 1,
              .gpus_max = 8,
              .attempts = {{.run_s = INFINITY},
                           {.run_s = INFINITY},
                           {.run_s = INFINITY}}}},
    .acts = {{.job = 0}, {.at_s = 300, .job = 0, .verb = W_CANCEL}},
    .n_acts = 2,
};

static void starts_with(const char *what, int32_t want)
{
    wishes_resize = false;
    next_s = 0;
    begin(&one);
    play(10);
    is_int(job_of(0)->gpus, want, what);
    play_out("k0:CANCELLED/130/1[1]");
}

static void test_start(void)
{
    n_rows = 0;
    starts_with("---- no quota: all that there is", 8);
    (void)lab(3);
    starts_with("a group limit of 3", 3);
    lab(3)->group_used = 1;
    starts_with("  of which one is in use", 2);
    (void)lab(12);
    starts_with("one above the cluster", 8);
    lab(-1)->job_gpus = 5;
    starts_with("a limit for each job", 5);
    lab(4);
    (void)snprintf(rows[0].qos, sizeof(rows[0].qos), "big");
    row(ALLOC_QUOTA_QOS, "big")->group_gpus = 6;
    starts_with("a QOS has a limit of its own: it replaces the account's", 6);
    rows[1].user_gpus = 4;
    row(ALLOC_QUOTA_QOS_USER, "big")->group_used = 2;
    starts_with("  and limits each user", 2);
    lab(0);
    starts_with("nothing is left: the smallest size is requested", 1);
    lab(3)->uid = 1001;
    starts_with("another user's", 8);
    (void)snprintf(lab(3)->name, sizeof(rows[0].name), "other");
    starts_with("another account's", 8);
}

/* What it has counts as its own. */
static void test_resize(void)
{
    (void)lab(3);
    wishes_resize = false;
    next_s = 0;
    begin(&one);
    play(10);
    is_int(job_of(0)->gpus, 3, "---- it runs on three of three");
    is_int(resize(0, 4), -1, "four, before the cluster shows its use");
    ok(strstr(err.msg, "for account lab, 3 in use") != NULL, "  %s", err.msg);
    counts = true;
    wishes_resize = true;
    is_int(resize(0, 4), -1, "a person asks for four");
    ok(err.code == ERR_STATE &&
           strstr(err.msg, "cannot have 4 GPUs in Slurm: 3 GPUs in all for "
                           "account lab"),
       "  %s", err.msg);
    play(100);
    changed();
    play(110);
    is_int(job_of(0)->attempt, 1, "the policy sees no larger size");
    is_int(seen_max, 3, "  than it has");
    rows[0].group_gpus = 6;
    changed();
    play(200);
    is_int(job_of(0)->gpus, 6, "with a larger quota it grows to that");
    wishes_resize = false;
    play_out("k0:CANCELLED/130/2[11]");
    counts = false;
}

/* Two jobs start in one plan, each within what is left. by_default: the second
 * names the account that is the default of the first. */
static void test_two(bool by_default, bool is_user)
{
    struct world_script s = one;

    s.jobs[1] = s.jobs[0];
    conf_account = by_default ? NULL : "lab";
    if (by_default)
        s.jobs[1].spec_more = "},\"policy\":{\"account\":\"lab\"},"
                              "\"retry\":{\"max\":0}}";
    s.acts[1] = (struct world_act){.job = 1};
    s.acts[2] = (struct world_act){.at_s = 300, .job = 0, .verb = W_CANCEL};
    s.acts[3] = (struct world_act){.at_s = 300, .job = 1, .verb = W_CANCEL};
    s.n_acts = 4;
    (void)lab(5);
    rows[0].job_gpus = 3;
    rows[0].group_is_user = is_user;
    counts = true;
    wishes_resize = false;
    next_s = 0;
    begin(&s);
    play(10);
    is_int(job_of(0)->gpus, 3,
           by_default ? "---- two jobs of one account, be it by default"
                      : "---- two jobs: the first has three of five");
    is_int(job_of(1)->gpus, 2, "  the second what is left");
    play_out("k0:CANCELLED/130/1[1] k1:CANCELLED/130/1[1]");
    counts = false;
    conf_account = "lab";
}

/* A limit of the user's association, or of one of its partitions, is not shared
 * with others. */
static void test_own(void)
{
    struct world_script s = one;

    s.policy = &policy_backfill;
    s.jobs[1] = s.jobs[2] = s.jobs[0];
    s.jobs[1].gpus = s.jobs[2].gpus = 2;
    s.jobs[1].gpus_max = s.jobs[2].gpus_max = 0;
    s.jobs[2].spec_more = ",\"partition\":\"short\"},\"retry\":{\"max\":0}}";
    s.acts[1] = (struct world_act){.job = 1, .uid = 1001};
    s.acts[2] = (struct world_act){.job = 2};
    for (int i = 0; i < 3; i++)
        s.acts[3 + i] = (struct world_act){
            .at_s = 300, .verb = W_CANCEL, .job = i, .uid = i == 1 ? 1001 : 0};
    s.n_acts = 6;
    lab(4)->group_is_user = true;
    *row(ALLOC_QUOTA_ACCOUNT, "lab") = rows[0];
    (void)snprintf(rows[1].partition, sizeof(rows[1].partition), "short");
    wishes_resize = false;
    next_s = 0;
    begin(&s);
    play(10);
    is_int(job_of(0)->gpus, 1, "---- a user's own limit of four: one GPU");
    is_int(job_of(1)->gpus + job_of(2)->gpus, 4,
           "  four of another user, and of another partition");
    is_int(resize(0, 5), -1, "  five are above it");
    ok(strstr(err.msg, "4 GPUs in all for the user in account lab, 1 in use"),
       "  %s", err.msg);
    is_int(resize(0, 4), 0, "  four are not");
    play(60);
    is_int(job_of(0)->gpus, 4, "  it has four");
    play_out("k0:CANCELLED/130/2[11] k1:CANCELLED/130/1[1] "
             "k2:CANCELLED/130/1[1]");
}

static void test_minutes(void)
{
    struct world_script s = one;

    s.jobs[0].spec_more = ",\"time_limit\":\"10m\"},\"retry\":{\"max\":0}}";
    wishes_resize = false;
    next_s = 0;
    lab(-1)->job_minutes = 45;
    begin(&s);
    play(10);
    is_int(job_of(0)->gpus, 4, "---- 45 GPU-minutes for a limit of 10");
    play_out("k0:CANCELLED/130/1[1]");
}

static void test_says(void)
{
    struct world_script s = one;
    char text[JOB_REASON_CAP];

    wishes_resize = false;
    next_s = 0;
    (void)lab(3);
    s.acts[0].hold = true;
    begin(&s);
    (void)world_step(&w);
    const struct job *job = engine_job(w.engine, 1);
    ok(engine_cluster_says(w.engine, job, 4, text) &&
           strstr(text, "grants at most 3 GPUs now: 3 GPUs in all for account "
                        "lab, 0 in use"),
       "---- a quota is explained: %s", text);
    is_int(engine_cluster_says(w.engine, job, 3, text), false,
           "  only where it matters");
    play_out("k0:CANCELLED/130/0[]");

    s.jobs[0].spec_more = "},\"policy\":{\"account\":\"nowhere\"},"
                          "\"retry\":{\"max\":0}}";
    begin(&s);
    (void)world_step(&w);
    job = engine_job(w.engine, 1);
    ok(engine_cluster_says(w.engine, job, 1, text) &&
           strstr(text, "no association with account 'nowhere'"),
       "an account that does not exist: %s", text);
    play_out("k0:CANCELLED/130/0[]");
}

/* ---- reservations to come --------------------------------------------------
 */
/* Slurm places a job where it fits before the reservation. */
static bool may_use(void *arg, int32_t i, const struct alloc_where *where)
{
    (void)arg;
    return next_s <= 0 || i >= n_nodes_reserved ||
           strcmp(where->partition, "short") == 0;
}

static const struct world_script two_nodes = {
    .nodes = 2,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .quotas = quotas,
    .node = node,
    .may_use = may_use,
    .jobs = {{.gpus = 2,
              .spec_more = ",\"time_limit\":\"10m\"},\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 20}}},
             {.gpus = 4,
              .spec_more = ",\"time_limit\":\"10m\"},\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 20}}},
             {.gpus = 3,
              .spec_more = ",\"time_limit\":\"2m\",\"partition\":\"short\"},"
                           "\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 20}}}},
    .acts = {{.job = 0}, {.job = 1}, {.job = 2}},
    .n_acts = 3,
};

static void test_reserved(void)
{
    char text[JOB_REASON_CAP];

    n_rows = 0;
    next_s = 300;
    n_nodes_reserved = 1;
    begin(&two_nodes);
    play(5);
    ok(strncmp(job_of(0)->place, "n2:", 3) == 0,
       "---- a reservation in 5 min: ten minutes run on the other node, %s",
       job_of(0)->place);
    is_int(job_of(1)->state, JOB_QUEUED, "  four GPUs are not free there");
    ok(strncmp(job_of(2)->place, "n1:", 3) == 0,
       "  two minutes end before it: %s", job_of(2)->place);
    play_out("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");

    n_nodes_reserved = 2;
    struct world_script s = two_nodes;
    s.n_acts = 1;
    begin(&s);
    play(5);
    is_int(job_of(0)->state, JOB_QUEUED, "on both nodes: it waits");
    ok(strncmp(job_of(0)->reason, "Reservation: maint begins at ", 29) == 0,
       "  %s", job_of(0)->reason);
    ok(engine_cluster_says(w.engine, job_of(0), 2, text) &&
           strstr(text, "maint begins at"),
       "  which --why explains");
    next_s = 0;
    changed();
    play_out("k0:COMPLETED/0/1[1]");
}

static void never_four(int32_t gpus, struct alloc_fake_outcome *io)
{
    io->wait_s = gpus >= 4 ? (double)INFINITY : 0;
}

/* A request that cannot start before it takes no GPUs from others. */
static void test_pending_before(void)
{
    struct world_script s = two_nodes;

    s.nodes = 1;
    s.may_use = NULL;
    s.outcome = never_four;
    s.jobs[0] = two_nodes.jobs[1];
    s.jobs[1] = two_nodes.jobs[2];
    s.jobs[0].attempts[0].is_held = 1; /* counts for no GPU */
    s.acts[1].at_s = 20;
    s.acts[2] = (struct world_act){.at_s = 100, .job = 0, .verb = W_CANCEL};
    n_rows = 0;
    n_nodes_reserved = 1;
    next_s = 0;
    begin(&s);
    play(10);
    is_int(job_of(0)->state, JOB_DISPATCHING, "---- one is pending in Slurm");
    next_s = 300;
    changed();
    play(30);
    ok(job_state_is_live(job_of(1)->state) && job_of(1)->native_id[0],
       "  a short one starts before the reservation");
    play_out("k0:CANCELLED/130/1[0] k1:COMPLETED/0/1[1]");
}

/* Two of the ten minutes are left: what fits before it may still be chosen. */
static void test_resize_before(void)
{
    struct world_script s = one;

    s.jobs[0].spec_more = ",\"time_limit\":\"10m\"},\"retry\":{\"max\":0}}";
    s.policy = &policy_backfill;
    s.acts[1].at_s = 650;
    n_rows = 0;
    wishes_resize = false;
    n_nodes_reserved = 1;
    next_s = 0;
    begin(&s);
    play(10);
    is_int(job_of(0)->gpus, 1, "---- a reservation in the way of a resize");
    next_s = 560; /* of a limit that ends at 600 */
    changed();
    play(60);
    is_int(resize(0, 2), -1, "  is refused");
    ok(err.code == ERR_STATE && strstr(err.msg, "maint begins at"), "  %s",
       err.msg);
    next_s = 800;
    changed();
    play(100);
    is_int(resize(0, 2), 0, "one that comes later is not in the way");
    play(130);
    is_int(job_of(0)->gpus, 2, "  it has two, and what was left of its limit");
    play_out("k0:TIMEOUT/124/2[11]");
}

int main(void)
{
    test_start();
    test_resize();
    test_two(false, false);
    test_two(true, false);
    test_two(true, true);
    test_own();
    test_minutes();
    test_says();
    test_reserved();
    test_pending_before();
    test_resize_before();
    return tap_done();
}
