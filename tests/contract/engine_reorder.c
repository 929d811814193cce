/* engine_reorder.c - requests that change a job's place in the queue. */
#include "tests/contract/engine_asked.h"

static int submit_prior(const char *key, int priority, uint64_t *ret_id)
{
    char spec[256];
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{\"gpus\":4},"
                   "\"policy\":{\"priority\":%d}}",
                   priority);
    struct engine_submit req = {
        .uid = 7, .user = "anna", .key = key, .spec = spec};
    return engine_submit(w.engine, &req, ret_id, NULL, &err);
}

/* In job order, from 1: do they have these places? */
static void places(const char *what, const int32_t *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t got = engine_queue_position(w.engine, i + 1);
        ok(got == want[i], "%s: job %zu is at %d", what, i + 1, got);
    }
}

#define PLACES(what, ...)                        \
    places(what, (const int32_t[]){__VA_ARGS__}, \
           sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Asked for after each change, so that a place that is only kept is seen. */
static void test_position(void)
{
    uint64_t id;
    char key[16];

    begin((struct store_fault){.n = 3}); /* load, submits, the cancel */
    engine_drain(w.engine, "");
    for (int i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof(key), "p%d", i);
        is_int(submit(key, 7, "\"gpus\":4", &id, NULL), 0, "submit");
        is_int(engine_queue_position(w.engine, id), i + 1, "is the last");
    }
    is_int(engine_queue_position(w.engine, 6), 0, "no job, no place");
    is_int(engine_step(w.engine, &err), 0, "they wait");
    is_int(engine_cancel(w.engine, 2, 7, &err), 0, "cancel in the middle");
    PLACES("cancelled", 1, 0, 2, 3, 4);
    is_int(engine_step(w.engine, &err), -1, "the cancel is not stored");
    PLACES("undone", 1, 2, 3, 4, 5);
    engine_drain(w.engine, NULL);
    is_int(engine_step(w.engine, &err), 0, "two start");
    PLACES("started", 0, 0, 1, 2, 3);
    is_int(engine_hold(w.engine, 3, 7, true, &err), 0, "hold the first");
    PLACES("held", 0, 0, 0, 1, 2);
    is_int(engine_hold(w.engine, 3, 7, false, &err), 0, "release it");
    PLACES("released", 0, 0, 1, 2, 3);
    is_int(submit_prior("urgent", 10, &id), 0, "an urgent one");
    PLACES("urgent", 0, 0, 2, 3, 4, 1);
    is_int(engine_cancel(w.engine, 4, 7, &err), 0, "cancel again");
    PLACES("cancelled again", 0, 0, 2, 0, 3, 1);
    world_clear(&w);
}

static void test_requeue(void)
{
    uint64_t id = 0, waits = 0;

    begin((struct store_fault){0});
    is_int(submit("k0", 7, "\"gpus\":4,\"nodes\":2", &id, NULL), 0, "a job");
    refused(engine_requeue(w.engine, 9, 7, &err), ERR_NOTFOUND, NULL, "no job");
    refused(engine_requeue(w.engine, id, 8, &err), ERR_DENIED, NULL,
            "another's");
    is_int(engine_requeue(w.engine, id, 7, &err), 0, "one that waits, waits");
    settle();
    ok(job_state_is_live(engine_job(w.engine, id)->state), "it starts");
    const char *token = world_token(engine_job(w.engine, id));
    is_int(engine_requeue(w.engine, id, 7, &err), 0, "back to the queue");
    refused(engine_claim(w.engine, id, 1, token, "late", "", &err), ERR_UNAVAIL,
            "being ended", "no worker may begin it now");
    is_str(engine_job(w.engine, id)->reason, "requeued by its user", "why");
    uint64_t staged = engine_staged(w.engine);
    is_int(engine_requeue(w.engine, id, 7, &err), 0, "asked twice");
    ok(engine_staged(w.engine) == staged, "  is once");
    settle();
    w.clock.t_s += 200; /* its grace */
    settle();
    const struct job *job = engine_job(w.engine, id);
    ok(job->attempt == 2 && job->retries == 0, "it has another attempt, free");
    is_int(engine_claim(w.engine, id, 2, world_token(job), "h", "", &err), 0,
           "which is claimed");
    is_int(engine_report(w.engine, id, 2, 0, "", NULL, NULL, &err), 0,
           "and done");
    refused(engine_requeue(w.engine, id, 7, &err), ERR_STATE, "has completed",
            "too late");
    is_int(submit("k1", 7, "\"gpus\":8,\"nodes\":2", &waits, NULL), 0, "two");
    is_int(engine_hold(w.engine, waits, 7, true, &err), 0, "held");
    refused(engine_requeue(w.engine, waits, 7, &err), ERR_STATE, "release it",
            "a hold is not a queue");
    is_int(engine_cancel(w.engine, id, 7, &err), 0, "cancel the first");
    refused(engine_requeue(w.engine, id, 7, &err), ERR_STATE, "cancelled",
            "no way back");
    world_clear(&w);
}

/* Its worker's last words are what it died of, and not why. */
static void test_requeue_reason(void)
{
    static const char told[] = "rank 0: ended by signal 15";
    uint64_t id = 0;

    begin((struct store_fault){0});
    is_int(submit("k0", 7, "\"gpus\":1", &id, NULL), 0, "one that runs");
    settle();
    const char *token = world_token(engine_job(w.engine, id));
    is_int(engine_claim(w.engine, id, 1, token, "h", "", &err), 0, "  claimed");
    settle();
    is_int(engine_requeue(w.engine, id, 7, &err), 0, "is requeued");
    is_int(engine_report(w.engine, id, 1, 143, told, NULL, NULL, &err), 0,
           "and says what it died of");
    settle();
    is_str(engine_job(w.engine, id)->reason, "requeued by its user",
           "  which is not why");
    world_clear(&w);
    begin((struct store_fault){0});
    is_int(submit("k0", 7, "\"gpus\":1", &id, NULL), 0, "another");
    settle();
    token = world_token(engine_job(w.engine, id));
    is_int(engine_claim(w.engine, id, 1, token, "h", "", &err), 0, "  claimed");
    is_int(engine_report(w.engine, id, 1, 143, told, NULL, NULL, &err), 0,
           "dies by itself");
    settle();
    is_str(engine_job(w.engine, id)->reason, told, "  of that");
    world_clear(&w);
}

static void test_priority(void)
{
    static const int64_t admins[] = {42};
    uint64_t a = 0, b = 0, c = 0;

    begin((struct store_fault){0});
    w.conf.admins = admins;
    w.conf.n_admins = 1;
    is_int(submit_prior("a", 50, &a), 0, "first");
    is_int(submit_prior("b", 0, &b), 0, "second");
    is_int(submit_prior("c", -50, &c), 0, "third");
    is_int(engine_queue_position(w.engine, c), 3, "the last");
    refused(engine_prioritise(w.engine, c, 7, 51, &err), ERR_INVAL, "-50..50",
            "a user's reach");
    refused(engine_prioritise(w.engine, c, 8, 1, &err), ERR_DENIED, NULL,
            "another's");
    is_int(engine_prioritise(w.engine, c, 7, 1, &err), 0, "before the second");
    is_int(engine_queue_position(w.engine, c), 2, "  it is");
    refused(engine_top(w.engine, b, 7, &err), ERR_DENIED, "administrators",
            "the top is not for users");
    is_int(engine_top(w.engine, b, 42, &err), 0, "an administrator may");
    is_int(engine_queue_position(w.engine, b), 1, "  the first");
    is_int(engine_job(w.engine, b)->priority, 51, "  by one");
    uint64_t staged = engine_staged(w.engine);
    is_int(engine_top(w.engine, b, 0, &err), 0, "again");
    ok(engine_staged(w.engine) == staged, "  changes nothing");
    is_int(engine_prioritise(w.engine, b, 0, -1000, &err), 0, "and down");
    is_int(engine_queue_position(w.engine, b), 3, "  to the end");
    settle();
    world_die(&w);
    is_int(engine_job(w.engine, b)->priority, -1000, "still, in the next life");
    is_int(engine_job(w.engine, c)->priority, 1, "  of the other, too");
    is_int(engine_cancel(w.engine, b, 0, &err), 0, "cancel it");
    refused(engine_prioritise(w.engine, b, 0, 1, &err), ERR_STATE, NULL,
            "too late");
    world_clear(&w);
}

int main(void)
{
    test_requeue();
    test_requeue_reason();
    test_priority();
    test_position();
    return tap_done();
}
