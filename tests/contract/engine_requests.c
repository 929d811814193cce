/* engine_requests.c - requests and their tickets, leases, refusals. */
#include "tests/contract/engine_asked.h"

/* The rest of the resources, and then some. */
#define FORCED(gpus) \
    "\"gpus\":" gpus "},\"policy\":{\"force_queue\":true,\"priority\":50"

/* What can never fit is kept when its user says so, in later lives, too, and
 * nobody waits behind it. */
static void test_forced(void)
{
    uint64_t id = 0, other = 0;

    begin((struct store_fault){0});
    is_int(submit("a", 7, FORCED("5"), &id, NULL), 0, "forced into the queue");
    is_int(submit("b", 7, "\"gpus\":4", &other, NULL), 0, "one that fits");
    settle();
    is_int(engine_job(w.engine, id)->state, JOB_QUEUED, "the first waits");
    is_str(engine_job(w.engine, id)->reason,
           "NeverFits: needs 5 on 1 node, there are 8 on 2, at most 4 on one",
           "  and says for what");
    ok(job_state_is_live(engine_job(w.engine, other)->state),
       "the other does not wait behind it");
    world_die(&w);
    settle();
    ok(engine_job(w.engine, id)->force_queue, "the next life knows of it");
    is_int(engine_job(w.engine, id)->state, JOB_QUEUED, "  and keeps it");
    is_int(engine_cancel(w.engine, id, 7, &err), 0, "it can be cancelled");
    world_clear(&w);
}

static void test_submit(void)
{
    uint64_t id = 0, other = 0;
    bool again = true;

    begin((struct store_fault){0});
    is_int(submit("a", 7, "\"gpus\":1", &id, &again), 0, "submit");
    ok(!again && id == 1, "the first job");
    is_int(submit("a", 7, "\"gpus\":2", &other, &again), 0, "the same key");
    ok(again && other == 1, "  is the same job");
    is_int(submit("a", 8, "\"gpus\":1", &other, &again), 0, "another's key");
    ok(!again && other == 2, "  is another job");

    uint64_t staged = engine_staged(w.engine);
    id = 77;
    refused(submit("", 7, "\"gpus\":1", &id, NULL), ERR_INVAL, "1..64",
            "no key");
    char key[66];
    memset(key, 'k', 65);
    key[65] = '\0';
    refused(submit(key, 7, "\"gpus\":1", &id, NULL), ERR_INVAL, "1..64",
            "a key of 65");
    is_int(submit(key + 1, 7, "\"gpus\":1", &other, NULL), 0, "one of 64");
    staged++;
    refused(submit("a b", 7, "\"gpus\":1", &id, NULL), ERR_INVAL, "ASCII",
            "a key with a space");
    refused(submit("c", 7, "\"gpus\":-1", &id, NULL), ERR_INVAL,
            "resources.gpus", "a spec with an error names its key");
    refused(submit("c", 7, "\"gpus\":5", &id, NULL), ERR_INVAL,
            "can never fit: needs 5 GPUs on 1 node; the largest node has 4, "
            "all 2 together have 8; raise resources.nodes"
            "; --force-queue keeps it pending [E201]",
            "never fits");
    is_int(submit("d", 7, "\"gpus\":8,\"nodes\":2", &other, NULL), 0,
           "spread it fits");
    staged++;
    refused(submit("e", 7, "\"gpus\":9,\"nodes\":\"1..2\"", &id, NULL),
            ERR_INVAL, "needs 9 GPUs on 1 to 2 nodes; ", "nor does this");
    is_int((long long)id, 77, "a refusal returns nothing");
    refused(submit("f", 7, FORCED("2000000"), &id, NULL), ERR_INVAL, "gpus",
            "what is no number of GPUs is not forced");
    ok(engine_staged(w.engine) == staged, "and stages nothing");
    world_clear(&w);
}

/* A key stands for what was asked for under it, in later lives, too. */
static void test_digest(void)
{
    uint64_t id = 0, other = 0;
    bool again;

    begin((struct store_fault){0});
    is_int(submit("old", 7, "\"gpus\":1", &other, NULL), 0,
           "one whose digest is not known");
    digest = "00112233445566778899aabbccddeeff";
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "one of this digest");
    for (int life = 0; life < 2; life++) {
        is_int(submit("a", 7, "\"gpus\":1", &other, &again), 0, "the same");
        ok(again && other == id, "  is the same job");
        digest = "00112233445566778899aabbccddeefe";
        uint64_t staged = engine_staged(w.engine);
        refused(submit("a", 7, "\"gpus\":1", &other, &again), ERR_STATE,
                "the idempotency key 'a' belongs to job 2, which has another",
                "another digest is refused");
        ok(engine_staged(w.engine) == staged, "  and stages nothing");
        is_int(submit("old", 7, "\"gpus\":1", &other, &again), 0, "the old");
        ok(again && other == 1, "  is there for all that come with its key");
        digest = "00112233445566778899aabbccddeeff";
        settle();
        world_die(&w);
    }
    digest = NULL;
    world_clear(&w);
}

static void test_limit(void)
{
    uint64_t id;

    begin((struct store_fault){0});
    w.conf.max_jobs_per_user = 2;
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "one");
    is_int(submit("b", 7, "\"gpus\":1", &id, NULL), 0, "two");
    refused(submit("c", 7, "\"gpus\":1", &id, NULL), ERR_LIMIT,
            "you have 2 jobs, of 2 allowed", "a third is too many");
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "the first again");
    is_int(submit("c", 8, "\"gpus\":1", &id, NULL), 0, "others have their own");
    is_int(engine_cancel(w.engine, 1, 7, &err), 0, "cancel one");
    is_int(submit("c", 7, "\"gpus\":1", &id, NULL), 0, "and there is room");
    world_clear(&w);
}

static void test_tickets(void)
{
    uint64_t id;
    bool again;

    begin((struct store_fault){.n = 2}); /* 1 is the load */
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "submit");
    uint64_t ticket = engine_staged(w.engine);
    ok(engine_durable(w.engine) < ticket, "it is not durable yet");
    is_int(engine_step(w.engine, &err), -1, "the step fails");
    is_int(err.code, ERR_IO, "  with the store's error");
    ok(engine_durable(w.engine) < ticket &&
           engine_rolled_back(w.engine) >= ticket,
       "the ticket is undone");
    ok(!engine_job(w.engine, id) && !engine_next_job(w.engine, 0),
       "the job was never there");
    is_int(submit("a", 7, "\"gpus\":1", &id, &again), 0, "the key is free");
    ok(!again && id == 2, "a new job, under a new id");
    ticket = engine_staged(w.engine);
    is_int(engine_step(w.engine, &err), 0, "now the step is good");
    ok(engine_durable(w.engine) >= ticket &&
           engine_rolled_back(w.engine) < ticket,
       "the ticket is durable");

    w.clock.t_s += 1;
    settle();
    is_int(engine_job(w.engine, id)->state, JOB_DISPATCHING, "it starts");
    world_clear(&w);

    begin((struct store_fault){.n = 3});
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "submit");
    is_int(engine_step(w.engine, &err), -1, "the INTENT cannot be stored");
    ok(engine_durable(w.engine) == 1, "the submit is durable");
    is_int(engine_job(w.engine, id)->state, JOB_QUEUED, "the job waits");
    is_int(alloc_fake_starts(w.cluster, id, 1), 0, "nothing was asked for");
    ok(engine_next_s(w.engine) > w.clock.t_s &&
           engine_next_s(w.engine) <= w.clock.t_s + 1,
       "it is tried again soon, not at once");
    world_clear(&w);
}

static void test_claim(void)
{
    struct engine *e;
    uint64_t id;

    begin((struct store_fault){0});
    e = w.engine;
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "submit");
    refused(engine_claim(e, id, 1, "", "h", "", &err), ERR_NOTFOUND, NULL,
            "no attempt yet");
    settle();
    char token[65];
    (void)snprintf(token, sizeof(token), "%s", world_token(engine_job(e, id)));
    refused(engine_claim(e, 9, 1, token, "h", "", &err), ERR_NOTFOUND, NULL,
            "no such job");
    refused(engine_claim(e, id, 2, token, "h", "", &err), ERR_NOTFOUND, NULL,
            "no such attempt");
    struct job gone = {.id = id, .attempt = 2};
    refused(engine_claim(e, id, 2, world_token(&gone), "h", "", &err),
            ERR_FENCED, "was restored", "one that we gave a token, and forgot");
    gone.id = 9;
    refused(engine_check_lease(e, 9, 2, world_token(&gone), &err), ERR_FENCED,
            "was restored", "one of a job that we forgot");
    refused(
        engine_claim(e, id, 1, "token-of-the-worker-0002-0001", "h", "", &err),
        ERR_DENIED, NULL, "a wrong token");
    refused(engine_claim(e, id, 1, "", "h", "", &err), ERR_DENIED, NULL,
            "none");
    char longer[80];
    (void)snprintf(longer, sizeof(longer), "%s0", token);
    refused(engine_claim(e, id, 1, longer, "h", "", &err), ERR_DENIED, NULL,
            "one with more behind it");
    refused(engine_claim(e, id, 1, token, "", "", &err), ERR_INVAL, NULL,
            "by nobody");
    refused(engine_check_lease(e, id, 1, token, &err), ERR_FENCED, NULL,
            "no lease before the claim");
    is_int(engine_claim(e, id, 1, token, "h", "", &err), 0, "claimed");
    is_int(engine_job(e, id)->state, JOB_STARTING, "it starts");
    uint64_t staged = engine_staged(e);
    is_int(engine_claim(e, id, 1, token, "h", "", &err), 0,
           "again by the same");
    ok(engine_staged(e) == staged, "  changes nothing");
    refused(engine_claim(e, id, 1, token, "h2", "", &err), ERR_UNAVAIL,
            "held by 'h'", "a second holder waits for what may be undone");
    is_int(engine_step(e, &err), 0, "the first claim is stored");
    refused(engine_claim(e, id, 1, token, "h2", "", &err), ERR_FENCED,
            "held by 'h'", "now the second is fenced");
    is_int(engine_check_lease(e, id, 1, token, &err), 0, "the lease");
    refused(engine_check_lease(e, id, 1, "x", &err), ERR_DENIED, NULL,
            "not with another token");

    struct engine_beat beat = {.iteration = 1, .loss = 0.5};
    is_int(engine_beat(e, id, 1, &beat, &err), 0, "a beat");
    is_int(engine_job(e, id)->state, JOB_RUNNING, "it runs");
    ok(fabs(engine_job(e, id)->loss - 0.5) < 1e-12, "and says how");
    refused(engine_report(e, id, 1, 256, "", NULL, NULL, &err), ERR_INVAL, NULL,
            "no exit code");
    is_int(engine_report(e, id, 1, 5, "no data", NULL, NULL, &err), 0,
           "a report");
    is_int(engine_report(e, id, 1, 0, "", NULL, NULL, &err), 0, "a second one");
    is_int(engine_job(e, id)->report_code, 5, "  does not count");
    world_clear(&w);
}

static void test_rights(void)
{
    struct engine *e;
    uint64_t id;

    begin((struct store_fault){0});
    e = w.engine;
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "submit");
    refused(engine_cancel(e, id, 8, &err), ERR_DENIED,
            "job 1 belongs to another user", "another's job");
    refused(engine_hold(e, id, 8, true, &err), ERR_DENIED, NULL, "hold");
    refused(engine_signal(e, id, 8, 10, &err), ERR_DENIED, NULL, "signal");
    refused(engine_signal(e, id, -1, 10, &err), ERR_DENIED, NULL, "nobody");
    static const int64_t admins[] = {9, 10};
    w.conf.admins = admins;
    w.conf.n_admins = 2;
    refused(engine_hold(e, id, 8, true, &err), ERR_DENIED, NULL, "no admin");
    is_int(engine_hold(e, id, 10, true, &err), 0, "an administrator may");
    is_int(engine_hold(e, id, 9, false, &err), 0, "and another");
    refused(engine_signal(e, id, 7, 10, &err), ERR_STATE, "not running",
            "a queued job takes no signal");
    is_int(engine_hold(e, id, 0, true, &err), 0, "root may");
    is_str(engine_job(e, id)->reason, "Held: by an administrator", "and says");
    is_int(engine_hold(e, id, 7, true, &err), 0, "held twice is fine");
    is_int(engine_queue_position(e, id), 0, "a held job has no place");
    refused(engine_hold(e, id, 7, false, &err), ERR_DENIED,
            "job 1 is held by an administrator",
            "its user does not release it");
    is_int(engine_hold(e, id, 9, false, &err), 0, "an administrator does");
    is_int(engine_queue_position(e, id), 1, "it is the first");
    is_int(engine_hold(e, id, 7, true, &err), 0, "its user's own hold");
    is_int(engine_hold(e, id, 7, false, &err), 0, "he releases");
    is_int(engine_hold(e, id, 7, true, &err), 0, "held by its user");
    is_int(engine_hold(e, id, 10, true, &err), 0, "and then by another");
    refused(engine_hold(e, id, 7, false, &err), ERR_DENIED, NULL,
            "is not for him to release");
    is_int(engine_hold(e, id, 9, false, &err), 0, "release");
    is_int(engine_cancel(e, id, 7, &err), 0, "cancel");
    is_int(engine_cancel(e, id, 7, &err), 0, "twice is fine");
    refused(engine_hold(e, id, 7, true, &err), ERR_STATE, "has ended",
            "too late to hold");

    is_int(submit("b", 7, "\"gpus\":1", &id, NULL), 0, "another");
    settle();
    is_int(engine_signal(e, id, 7, 10, &err), 0, "a signal for a live one");
    refused(engine_hold(e, id, 7, true, &err), ERR_STATE,
            "cannot be held: only pending jobs", "a live job is not held");
    is_int(engine_hold(e, id, 7, false, &err), 0,
           "to release what was started since is fine");
    is_int(engine_cancel(e, id, 7, &err), 0, "cancel it");
    refused(
        engine_claim(e, id, 1, world_token(engine_job(e, id)), "h", "", &err),
        ERR_UNAVAIL, "being ended", "its worker may not start now");
    is_int(engine_step(e, &err), 0, "the cancel is stored");
    refused(
        engine_claim(e, id, 1, world_token(engine_job(e, id)), "h", "", &err),
        ERR_FENCED, "being ended", "its worker may not start any more");
    settle();
    w.clock.t_s += 1;
    settle();
    is_int(engine_job(e, id)->state, JOB_CANCELLED, "it is gone");
    refused(engine_cancel(e, 99, 7, &err), ERR_NOTFOUND, NULL, "no such job");
    world_clear(&w);
}

static void test_drain(void)
{
    uint64_t id;

    begin((struct store_fault){0});
    engine_drain(w.engine, "new disks");
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "submit");
    settle();
    is_int(engine_job(w.engine, id)->state, JOB_QUEUED, "nothing starts");
    is_str(engine_job(w.engine, id)->reason,
           "Paused: nothing new is started: new disks", "and the job says why");
    engine_drain(w.engine, NULL);
    settle();
    is_int(engine_job(w.engine, id)->state, JOB_DISPATCHING, "until it may");
    is_int(engine_set_policy(w.engine, NULL, &err), -1, "no policy");
    is_int(engine_set_policy(w.engine, &policy_backfill, &err), 0, "another");
    is_str(engine_policy_name(w.engine), "backfill", "is in force");
    size_t n_nodes = 0;
    const struct alloc_node *nodes = engine_nodes(w.engine, &n_nodes);
    is_int((long long)n_nodes, 2, "two nodes");
    is_str(nodes[0].name, "n1", "the first of them");
    world_clear(&w);
}

static int wrong_plan(const struct policy_view *v,
                      struct policy_decision *decisions, size_t cap,
                      size_t *ret_n, struct error *e)
{
    (void)v;
    (void)cap;
    (void)e;
    decisions[0] = (struct policy_decision){
        .act = POLICY_START, .id = 1, .nodes = 1, .gpus_per_node = 99};
    *ret_n = 1;
    return 0;
}

static void test_bad_policy(void)
{
    static const struct policy wrong = {.name = "wrong", .plan = wrong_plan};
    uint64_t id;

    begin((struct store_fault){0});
    is_int(engine_set_policy(w.engine, &wrong, &err), 0, "a wrong policy");
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "submit");
    refused(engine_step(w.engine, &err), ERR_INTERNAL, "policy wrong: job 1",
            "its plan is refused");
    is_int(engine_job(w.engine, id)->state, JOB_QUEUED, "nothing starts");
    ok(engine_durable(w.engine) == engine_staged(w.engine),
       "what was asked for is durable all the same");
    ok(isinf(engine_next_s(w.engine)), "and there is no hurry to try again");
    world_clear(&w);
}

/* The allocator is not even asked, and the hook is not ready: what is known
 * at that moment must not be forgotten until it is. */
static void test_not_started(void)
{
    static char url[300];
    uint64_t id = 0;

    begin((struct store_fault){0});
    memset(url, 'u', sizeof(url) - 1);
    w.conf.url = url;
    w.exit_hook_fails = 1;
    is_int(submit("a", 7, "\"gpus\":1", &id, NULL), 0, "submit");
    settle();
    const struct job *job = engine_job(w.engine, id);
    is_int(job->state, JOB_HELD, "what cannot be started is held");
    is_int(job->held_by, HELD_REFUSED, "  as refused");
    ok(strstr(job->reason, "is too long"), "  and says why: %s", job->reason);
    world_clear(&w);
}

static int submit_as(const char *user, const char *key, uint64_t *ret_id)
{
    struct engine_submit req = {
        .uid = 7,
        .user = user,
        .key = key,
        .spec = "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"]}"};
    return engine_submit(w.engine, &req, ret_id, NULL, &err);
}

static void restart(const char *jobs_dir, const char *user_jobs_dir)
{
    world_stop(&w);
    w.conf.jobs_dir = jobs_dir;
    w.conf.user_jobs_dir = user_jobs_dir;
    ok(world_start(&w), "a daemon with another configuration");
}

/* A job stays where it was when the administrator thinks again. */
static void test_dirs(void)
{
    static const char *const wrong[] = {"", ".", "..", "a/b", "../root"};
    char deep[600];
    uint64_t ids[3] = {0};

    begin((struct store_fault){0});
    is_int(submit_as("anna", "a", &ids[0]), 0, "a job in the common place");
    is_str(engine_job(w.engine, ids[0])->dir, "/jobs/1", "  is there");
    settle();
    restart("/moved", "/home/%u/.mgpu-%u");
    is_str(engine_job(w.engine, ids[0])->dir, "/moved/1",
           "what has no place of its own moves along");
    is_int(submit_as("anna", "b", &ids[1]), 0, "a job in its user's");
    is_str(engine_job(w.engine, ids[1])->dir, "/home/anna/.mgpu-anna/2",
           "  is there");
    settle();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        refused(submit_as(wrong[i], "c", &ids[2]), ERR_INVAL,
                "can have no directory", wrong[i]);
    restart("/moved", "/scratch");
    is_str(engine_job(w.engine, ids[1])->dir, "/home/anna/.mgpu-anna/2",
           "and stays there");
    is_int(submit_as("../root", "d", &ids[2]), 0, "a name that stands nowhere");
    ok(strncmp(engine_job(w.engine, ids[2])->dir, "/scratch/", 9) == 0,
       "  does no harm");
    memset(deep, 'x', sizeof(deep) - 1);
    deep[0] = '/';
    deep[479] = '\0';
    restart("/moved", deep);
    refused(submit_as("anna", "e", &ids[2]), ERR_INVAL, "too long for a job",
            "a path that no worker could be told");
    settle();
    world_clear(&w);
}

int main(void)
{
    test_submit();
    test_forced();
    test_digest();
    test_dirs();
    test_limit();
    test_tickets();
    test_claim();
    test_rights();
    test_drain();
    test_bad_policy();
    test_not_started();
    return tap_done();
}
