/* engine_commit.c - what is asked while a batch is on its way to the disk.
 *
 * It sees what that batch says, gathers for the next one, and shares its
 * fate when it fails; nothing is done about it before it is durable.
 */
#include <signal.h>

#include "tests/contract/engine_world.h"

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 50}}}},
};

static struct world w;
static struct error err;
static struct store_batch *batch;
/* engine_on_wait()'s callback was called for */
static uint64_t told; /* of these jobs, a bit each */

static void on_wait(void *arg, const struct job *job)
{
    (void)arg;
    told |= UINT64_C(1) << job->id;
}

static void begin(void)
{
    world_init(&w, &script);
    ok(world_start(&w), "---- a daemon");
    engine_on_wait(w.engine, on_wait, NULL);
    batch = NULL;
}

static uint64_t submit(const char *key, const char *more)
{
    uint64_t id = 0;
    char spec[256];
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{\"gpus\":1}%s}",
                   more);
    struct engine_submit req = {
        .uid = 7, .user = "anna", .key = key, .spec = spec};
    is_int(engine_submit(w.engine, &req, &id, NULL, &err), 0, key);
    return id;
}

/* The batch arrives; true when the step goes on with another. */
static bool arrives(void)
{
    if (w.store->ops->append(w.store, batch, &err) < 0)
        abort();
    is_int(engine_step_end(w.engine, NULL, &batch, &err), 0, "it is durable");
    return batch != NULL;
}

static void is_lost(void)
{
    struct error why;
    (void)error_set(&why, ERR_LIMIT, "the disk is full");
    is_int(engine_step_end(w.engine, &why, &batch, &err), -1, "it is not");
    is_int(err.code, ERR_LIMIT, "  and the step says why");
    ok(!batch && engine_rolled_back(w.engine) == engine_staged(w.engine),
       "  all is undone");
}

static bool has(enum job_event ev, uint64_t job)
{
    for (size_t i = 0; batch && i < batch->n_events; i++) {
        if (batch->events[i].ev == ev && batch->events[i].job == job)
            return true;
    }
    return false;
}

static enum job_state state(uint64_t id)
{
    return engine_job(w.engine, id)->state;
}

/* Whether the allocator has heard of its first attempt. */
static bool is_asked(uint64_t id)
{
    return w.alloc->ops->signal(w.alloc, id, 1, SIGUSR1, &err) == 0;
}

/* Steps that nobody disturbs; workers claim. */
static void settle(int n)
{
    for (int i = 0; i < n; i++) {
        is_int(engine_step(w.engine, &err), 0, "a step");
        for (const struct job *job = engine_next_job(w.engine, 0); job;
             job = engine_next_job(w.engine, job->id)) {
            if (job->native_id[0] && !job->holder[0] &&
                engine_claim(w.engine, job->id, job->attempt, world_token(job),
                             "h", "", &err) < 0)
                tap_diag("%s", err.msg);
        }
    }
}

static const struct job *settled(uint64_t id)
{
    return engine_settled(w.engine, engine_job(w.engine, id));
}

static void test_gather(void)
{
    begin();
    uint64_t a = submit("a", "");
    uint64_t ticket = engine_staged(w.engine);
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "a step begins");
    ok(batch && batch->n_events == 1 && has(EV_SUBMIT, a), "the submit leaves");
    ok(isinf(engine_next_s(w.engine)), "there is nothing else to be done");
    uint64_t b = submit("b", "");
    ok(engine_staged(w.engine) > ticket, "another has its own ticket");
    ok(!engine_is_durable(w.engine, engine_job(w.engine, a)) &&
           engine_durable(w.engine) < ticket,
       "none is durable yet");
    ok(arrives(), "the step goes on");
    ok(engine_durable(w.engine) == ticket, "the first is durable");
    ok(engine_is_durable(w.engine, engine_job(w.engine, a)) &&
           !engine_is_durable(w.engine, engine_job(w.engine, b)),
       "  and only the first");
    ok(has(EV_SUBMIT, b) && has(EV_INTENT, a) && has(EV_INTENT, b),
       "the other leaves with both INTENTs");
    ok(batch->n_jobs == 2 && strcmp(batch->jobs[0].state, "DISPATCHING") == 0,
       "  and their rows");
    ok(!is_asked(a), "nothing was asked for");
    ok(!arrives(), "the step is over");
    ok(is_asked(a) && is_asked(b), "now both were asked for");
    ok(engine_durable(w.engine) == engine_staged(w.engine), "all is durable");
    world_clear(&w);
}

static void test_lost(void)
{
    begin();
    uint64_t a = submit("a", ""), b = submit("b", "");
    is_int(engine_hold(w.engine, b, 7, true, &err), 0, "the second is held");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "a step begins");
    while (batch && arrives())
        ;
    ok(settled(b) == engine_job(w.engine, b), "  for sure");
    is_int(engine_hold(w.engine, b, 7, false, &err), 0, "release it");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "another begins");
    ok(has(EV_RELEASE, b), "the release leaves");
    ok(settled(b) != engine_job(w.engine, b) && settled(b)->state == JOB_HELD,
       "  and is no fact yet");
    uint64_t c = submit("c", "");
    is_int(engine_cancel(w.engine, b, 7, &err), 0, "cancel it as well");
    is_int(state(b), JOB_CANCELLED, "so it will be");
    ok(settled(b)->state == JOB_HELD && !settled(c), "  and is not yet");
    told = 0;
    is_lost();
    is_int(state(b), JOB_HELD, "it is held, as it was before both");
    is_int((long long)(told >> b & 1), 1, "who shows jobs is told");
    is_int((long long)(told >> c & 1), 0, "  but of no job that is not there");
    ok(!engine_job(w.engine, c), "what was submitted meanwhile is not there");
    ok(!engine_job(w.engine, b)->cancel_asked, "nobody cancelled it");
    ok(settled(b) == engine_job(w.engine, b), "  that is sure");
    ok(submit("c", "") > c, "its key is free");
    w.clock.t_s += 2;
    settle(3);
    is_int(state(a), JOB_STARTING, "and all goes on");
    world_clear(&w);
}

/* The end of a job that waits, asked for while another's batch is on its
 * way: it is undone after that one was good. */
static void test_undone_end(void)
{
    begin();
    engine_drain(w.engine, "");
    uint64_t a = submit("a", "");
    settle(1);
    uint64_t b = submit("b", "");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "a step begins");
    is_int(engine_cancel(w.engine, a, 7, &err), 0, "cancel the first");
    ok(arrives() && has(EV_CANCEL, a), "the cancel leaves");
    is_lost();
    is_int(state(a), JOB_QUEUED, "it waits");
    ok(engine_is_durable(w.engine, engine_job(w.engine, b)), "so does b");
    engine_drain(w.engine, NULL);
    w.clock.t_s += 2;
    settle(3);
    is_int(state(a), JOB_STARTING, "and starts");
    is_int(state(b), JOB_STARTING, "  with the other");
    world_clear(&w);
}

/* Nothing is ended for a cancel that is not durable. */
static void test_early_cancel(void)
{
    begin();
    uint64_t a = submit("a", "");
    settle(3);
    is_int(state(a), JOB_STARTING, "it starts");
    uint64_t b = submit("b", "");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "a step begins");
    ok(arrives() && has(EV_INTENT, b), "another's INTENT leaves");
    is_int(engine_cancel(w.engine, a, 7, &err), 0, "cancel the first");
    ok(!arrives(), "the step is over");
    ok(is_asked(b), "the other is asked for");
    ok(!engine_job(w.engine, a)->release_asked, "the first is not ended yet");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "the next step");
    ok(has(EV_CANCEL, a), "has the cancel");
    is_lost();
    w.clock.t_s += 60;
    settle(3);
    ok(state(a) != JOB_CANCELLED && job_state_is_final(state(a)),
       "it was never ended");
    is_int(engine_job(w.engine, a)->release_asked, 0, "  by us");
    world_clear(&w);
}

/* A worker that is fenced stops for good: it is not for what may be undone. */
static void test_no_early_fence(void)
{
    begin();
    uint64_t a = submit("a", "");
    for (int i = 0; i < 3; i++)
        is_int(engine_step(w.engine, &err), 0, "a step");
    const char *token = world_token(engine_job(w.engine, a));
    is_int(engine_cancel(w.engine, a, 7, &err), 0, "cancel it");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "a step begins");
    ok(has(EV_CANCEL, a), "the cancel leaves");
    is_int(engine_claim(w.engine, a, 1, token, "h", "", &err), -1,
           "its worker comes meanwhile");
    is_int(err.code, ERR_UNAVAIL, "  and is to come again");
    is_lost();
    is_int(engine_claim(w.engine, a, 1, token, "h", "", &err), 0,
           "it does, and may work");
    is_int(engine_claim(w.engine, a, 1, token, "h2", "", &err), -1,
           "so may another, perhaps");
    is_int(err.code, ERR_UNAVAIL, "  who is to come again");
    w.clock.t_s += 2;
    is_int(engine_step(w.engine, &err), 0, "the claim is stored");
    is_int(engine_claim(w.engine, a, 1, token, "h2", "", &err), -1,
           "and now the other");
    is_int(err.code, ERR_FENCED, "  is fenced");
    world_clear(&w);
}

/* The end of an attempt that is not stored: its worker beats on. */
static void test_no_early_end(void)
{
    begin();
    uint64_t a = submit("a", "");
    settle(3);
    const char *token = world_token(engine_job(w.engine, a));
    w.clock.t_s += 60;
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "a step begins");
    ok(has(EV_FINISH, a), "the end leaves");
    is_int(engine_check_lease(w.engine, a, 1, token, &err), -1, "a beat");
    is_int(err.code, ERR_UNAVAIL, "  is to come again");
    is_lost();
    is_int(engine_check_lease(w.engine, a, 1, token, &err), 0, "a later one");
    w.clock.t_s += 2;
    is_int(engine_step(w.engine, &err), 0, "the end is stored");
    is_int(engine_check_lease(w.engine, a, 1, token, &err), -1, "the next");
    is_int(err.code, ERR_FENCED, "  is fenced");
    world_clear(&w);
}

/* What a job waits for is looked at before it is planned, however late it
 * came. */
static void test_depends(void)
{
    begin();
    uint64_t a = submit("a", "");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "a step begins");
    uint64_t b = submit("b", ",\"depends_on\":[\"afterok:1\"]");
    ok(arrives(), "the step goes on");
    ok(has(EV_INTENT, a) && has(EV_SUBMIT, b) && !has(EV_INTENT, b),
       "what waits for another is not started");
    ok(!arrives(), "the step is over");
    is_int(state(b), JOB_QUEUED, "it waits");
    world_clear(&w);
}

/* Why a job waits is stored with the next batch, whose loss it survives. */
static void test_reasons(void)
{
    begin();
    engine_drain(w.engine, "");
    (void)submit("k0", "");
    (void)submit("k1", "");
    settle(1); /* now they say that starting is paused */
    (void)submit("k2", "");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "a step begins");
    is_int((long long)batch->n_jobs, 3, "a submit and two reasons leave");
    is_lost();
    (void)submit("k3", "");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "another begins");
    is_int((long long)batch->n_jobs, 3, "the reasons are with it");
    ok(!arrives(), "the step is over");
    (void)submit("k4", "");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "the next begins");
    is_int((long long)batch->n_jobs, 2, "they are stored; that of k3 leaves");
    ok(!arrives(), "the step is over");
    world_clear(&w);
}

int main(void)
{
    test_gather();
    test_lost();
    test_undone_end();
    test_early_cancel();
    test_no_early_fence();
    test_no_early_end();
    test_depends();
    test_reasons();
    return tap_done();
}
