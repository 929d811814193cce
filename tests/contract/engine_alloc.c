/* engine_alloc.c - an allocator that refuses, forgets and cannot be reached.
 *
 * It stands before the fake one and fails as often as it is told to.
 */
#include "tests/contract/engine_world.h"

struct balky {
    struct alloc base;
    struct alloc *inner;
};

static struct {
    enum err_code request, release, inventory, poll; /* how they fail */
    int n_request, n_release, n_inventory, n_poll;   /* how often still */
    bool takes_release;          /* also of what it was never asked for */
    int requests, releases;      /* calls so far */
    char tag[160], launch[4096]; /* of the last request */
    char words[200];
} balk;

static struct alloc *inner(struct alloc *a)
{
    return ((struct balky *)a)->inner;
}

static int balks(int *n, enum err_code code, struct error *err)
{
    if (*n <= 0)
        return 0;
    (*n)--;
    return error_set(err, code, "balking");
}

static int balky_inventory(struct alloc *a, struct alloc_node *nodes,
                           size_t cap, size_t *ret_n, struct error *err)
{
    if (balks(&balk.n_inventory, balk.inventory, err) < 0)
        return -1;
    return inner(a)->ops->inventory(inner(a), nodes, cap, ret_n, err);
}

static int balky_request(struct alloc *a, const struct alloc_req *req,
                         struct error *err)
{
    balk.requests++;
    (void)snprintf(balk.tag, sizeof(balk.tag), "%s", req->tag);
    (void)snprintf(balk.launch, sizeof(balk.launch), "%s", req->launch);
    (void)snprintf(balk.words, sizeof(balk.words), "%s %s %s %d %.0f",
                   req->name, req->where.partition, req->where.account,
                   req->where.cpus_per_gpu, req->grace_s);
    if (balks(&balk.n_request, balk.request, err) < 0)
        return -1;
    return inner(a)->ops->request(inner(a), req, err);
}

static int balky_release(struct alloc *a, uint64_t job, int32_t attempt,
                         double grace_s, struct error *err)
{
    balk.releases++;
    if (balk.takes_release && balk.requests == 0)
        return 0;
    if (balks(&balk.n_release, balk.release, err) < 0)
        return -1;
    return inner(a)->ops->release(inner(a), job, attempt, grace_s, err);
}

static int balky_signal(struct alloc *a, uint64_t job, int32_t attempt,
                        int signo, struct error *err)
{
    return inner(a)->ops->signal(inner(a), job, attempt, signo, err);
}

static int balky_poll(struct alloc *a, struct alloc_note *notes, size_t cap,
                      size_t *ret_n, struct error *err)
{
    if (balks(&balk.n_poll, balk.poll, err) < 0)
        return -1;
    return inner(a)->ops->poll(inner(a), notes, cap, ret_n, err);
}

static int balky_wake_fd(struct alloc *a)
{
    return inner(a)->ops->wake_fd(inner(a));
}

static void balky_destroy(struct alloc *a)
{
    if (!a)
        return;
    inner(a)->ops->destroy(inner(a));
    free(a);
}

static const struct alloc_ops balky_ops = {
    .name = "balky",
    .inventory = balky_inventory,
    .request = balky_request,
    .release = balky_release,
    .signal = balky_signal,
    .poll = balky_poll,
    .wake_fd = balky_wake_fd,
    .destroy = balky_destroy,
};

static struct alloc *wrap(struct alloc *fake)
{
    struct balky *b = calloc(1, sizeof(*b));
    if (!b)
        abort();
    b->base.ops = &balky_ops;
    b->inner = fake;
    return &b->base;
}

static void (*on_event)(void *arg, const struct store_event *ev,
                        const struct job *job) = world_event;

/* Plays one job of 10 s, cancelled at `cancel_s`; NAN: not. */
static void ends(double cancel_s, const char *want, const char *reason,
                 const char *what)
{
    struct world_script s = {.nodes = 1, .gpus_per_node = 1, .n_acts = 1};
    struct world w;

    s.jobs[0].gpus = 1;
    s.jobs[0].spec_more = "},\"policy\":{\"account\":\"lab\"},"
                          "\"retry\":{\"max\":0}}";
    if (!isnan(cancel_s))
        s.acts[s.n_acts++] =
            (struct world_act){.at_s = cancel_s, .verb = W_CANCEL};
    world_init(&w, &s);
    w.wrap = wrap;
    balk.requests = balk.releases = 0;
    ok(world_start(&w), "---- %s", what);
    engine_on_event(w.engine, on_event, &w);
    for (int i = 0; i < 1000 && !world_is_over(&w); i++) {
        (void)world_step(&w);
        world_advance(&w);
    }
    char *got = world_result(&w);
    is_str(got, want, what);
    const struct job *job = engine_job(w.engine, w.ids[0]);
    is_str(job ? job->reason : "none", reason, "  and says why");
    world_check_log(&w);
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
    balk.n_request = balk.n_release = balk.n_inventory = balk.n_poll = 0;
}

static void test_request(void)
{
    balk.request = ERR_UNAVAIL;
    balk.n_request = 3;
    ends(NAN, "k0:COMPLETED/0/4[0001]", "",
         "no service: requeued until there is, at no cost to the retries");
    is_int(balk.requests, 4, "  and not in a hurry");
    is_str(balk.tag, "mgpu:test:1:4:mark-of-the-tag-",
           "  the tag ends with 16 digits of the attempt's mark");
    ok(strstr(balk.launch, "\"token\":\"token-of-the-worker-0001-0004\""),
       "  and the worker is told the attempt's token");
    is_str(balk.words, "j0 batch lab 4 120",
           "  by name, with its own words and the configuration's");

    balk.request = ERR_CONFIG;
    balk.n_request = 1;
    ends(NAN, "k0:CANCELLED/130/1[0]", "cancelled by its user",
         "what was refused for good waits for somebody to give it up");

    balk.request = ERR_BUSY;
    balk.n_request = 3;
    ends(NAN, "k0:COMPLETED/0/1[1]", "", "no answer: asked until there is one");
    is_int(balk.requests, 4, "  under the same key, not in a hurry");

    balk.request = ERR_BUSY;
    balk.n_request = 1000;
    ends(20, "k0:CANCELLED/130/1[0]", "cancelled by its user",
         "cancelled while nobody knows, and nobody has it");
    is_int(balk.releases, 1, "  which the release found out");
}

static void test_release(void)
{
    balk.release = ERR_BUSY;
    balk.n_release = 1;
    ends(2, "k0:CANCELLED/130/1[1]", "cancelled by its user",
         "a release is tried again");
    is_int(balk.releases, 2, "  once more");
    balk.release = ERR_NOTFOUND;
    balk.n_release = 1;
    ends(2, "k0:CANCELLED/130/1[1]", "cancelled by its user",
         "an attempt that the allocator has forgotten is over");
}

/* Cancelled when the attempt is durable, and before it was asked for. */
static void cancel_at_intent(void *arg, const struct store_event *ev,
                             const struct job *job)
{
    struct world *w = arg;
    struct error err;
    world_event(w, ev, job);
    if (ev->ev == EV_INTENT &&
        engine_cancel(w->engine, ev->job, 1000, &err) < 0)
        tap_diag("%s", err.msg);
}

static void test_cancel_at_once(void)
{
    static const enum err_code codes[] = {ERR_UNAVAIL, ERR_LIMIT, ERR_CONFIG};

    on_event = cancel_at_intent;
    ends(NAN, "k0:CANCELLED/130/1[0]", "cancelled by its user",
         "cancelled before it was asked for");
    is_int(balk.requests, 0, "  which it then never is");
    balk.takes_release = true;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        balk.request = codes[i];
        balk.n_request = 1000;
        ends(NAN, "k0:CANCELLED/130/1[0]", "cancelled by its user",
             "cancelled while it could not be started");
        is_int(balk.requests, 1, "  for whatever reason");
    }
    balk.takes_release = false;
    on_event = world_event;
}

static void test_other(void)
{
    balk.inventory = ERR_EXTERN;
    balk.n_inventory = 5;
    ends(NAN, "k0:COMPLETED/0/1[1]", "", "no inventory: nothing starts until");
    balk.poll = ERR_EXTERN;
    balk.n_poll = 5;
    ends(NAN, "k0:COMPLETED/0/1[1]", "", "no notes: nothing is lost");
}

/* An allocator that keeps its own books learns from the questions which
 * devices are taken: none is passed over while others are asked for. */
static void test_all_at_once(void)
{
    struct world w;
    struct error err = ERROR_INIT;
    struct world_script s = {.nodes = 1,
                             .gpus_per_node = 4,
                             .jobs = {{.gpus = 1, .attempts = {{.run_s = 99}}},
                                      {.gpus = 1, .attempts = {{.run_s = 99}}}},
                             .acts = {{.job = 0}, {.job = 1}},
                             .n_acts = 2};
    world_init(&w, &s);
    w.wrap = wrap;
    ok(world_start(&w), "two that run, and another daemon");
    for (int i = 0; i < 4; i++)
        (void)world_step(&w);
    world_die(&w);
    balk.requests = 0;
    struct store_batch *batch;
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "its first step");
    ok(!batch && balk.requests == 2, "asks for both");
    world_die(&w);
    balk.requests = 0;
    is_int(engine_prioritise(w.engine, 1, 1000, 7, &err), 0,
           "something about the first is staged");
    is_int(engine_step_begin(w.engine, &batch, &err), 0, "the first step");
    ok(batch && w.store->ops->append(w.store, batch, &err) == 0, "stores it");
    is_int(engine_prioritise(w.engine, 1, 1000, 8, &err), 0, "and more");
    is_int(engine_step_end(w.engine, NULL, &batch, &err), 0, "it goes on");
    ok(batch && w.store->ops->append(w.store, batch, &err) == 0, "stores that");
    is_int(engine_prioritise(w.engine, 1, 1000, 9, &err), 0, "and more");
    is_int(engine_step_end(w.engine, NULL, &batch, &err), 0, "it is over");
    is_int(balk.requests, 0, "none is asked for without the first");
    is_int(engine_step(w.engine, &err), 0, "the next step");
    is_int(balk.requests, 2, "asks for both");
    world_clear(&w);
}

int main(void)
{
    test_request();
    test_release();
    test_cancel_at_once();
    test_other();
    test_all_at_once();
    return tap_done();
}
