/* buckets.c - gradients go out while backward() still computes: the order of
 * events, on a real model, with a communicator that writes them down. */
#include "worker/comm/buckets.h"

#include "jobs/base/clock.h"
#include "tests/unit/worker/cv_rig.h"

static const struct mobilenet_conf conf = {.dt = DT_F32,
                                           .width_mult = 1,
                                           .num_classes = 10,
                                           .image_size = 28,
                                           .batch = 2};

/* What happened, in order. */
enum kind { READY, START, WAIT, POLL };
struct event {
    enum kind kind;
    int64_t first, count; /* gradients; WAIT: the ticket */
};

static struct {
    struct event e[512];
    int n, flying, most; /* under way: now, and at most */
    int next, oldest;    /* tickets */
    int fail_at;         /* the start that fails; -1: none */
    const char *grads;
} seen;

static void note(enum kind kind, int64_t first, int64_t count)
{
    if (seen.n < 512)
        seen.e[seen.n++] = (struct event){kind, first, count};
}

static int fake_all_reduce(struct comm *c, void *x, size_t n,
                           enum comm_type type, enum comm_op op,
                           int *ret_ticket, struct error *err)
{
    (void)c;
    if (seen.next == seen.fail_at)
        return error_set(err, ERR_EXTERN, "the network is gone");
    if (type != COMM_F32 || op != COMM_SUM)
        abort();
    note(START, ((const char *)x - seen.grads) / (int64_t)sizeof(float),
         (int64_t)n);
    *ret_ticket = seen.next++;
    seen.flying++;
    seen.most = seen.flying > seen.most ? seen.flying : seen.most;
    return 0;
}

static int fake_wait(struct comm *c, int ticket, double deadline_s,
                     struct error *err)
{
    (void)c;
    note(WAIT, ticket, 0);
    if (ticket != seen.oldest++ || deadline_s != 9)
        return error_set(err, ERR_INTERNAL, "ticket %d", ticket);
    seen.flying--;
    return 0;
}

static void fake_poll(struct comm *c)
{
    (void)c;
    note(POLL, 0, 0);
}

static const struct comm_ops ops = {
    .all_reduce = fake_all_reduce, .wait = fake_wait, .poll = fake_poll};
static struct comm two = {.ops = &ops, .size = 2};

static int ready(void *arg, int64_t first, int64_t count, struct error *err)
{
    note(READY, first, count);
    return buckets_on_ready(arg, first, count, err);
}

/* One pass; first and elems 0: as they are cut. */
static int pass(struct rig *r, int64_t first, int64_t elems, int fail_at,
                struct error *err)
{
    struct buckets b;
    memset(&seen, 0, sizeof(seen));
    seen.fail_at = fail_at;
    seen.grads = model_grads(r->m);
    buckets_init(&b, &two, &clock_real, model_grads(r->m),
                 model_planned(r->m)->params, DT_F32, 9);
    if (first > 0) {
        b.first_elems = first;
        b.elems = elems;
    }
    buckets_begin(&b);
    (void)rig_loss(r, 1);
    const struct batch x = {.n = conf.batch};
    must(model_put(r->m, 1, 0.5, err), err);
    if (model_backward(r->m, &x, ready, &b, err) < 0)
        return -1;
    return buckets_finish(&b, err);
}

static int count(enum kind kind, int from, int to)
{
    int n = 0;
    for (int i = from; i < to; i++)
        n += seen.e[i].kind == kind;
    return n;
}

static int find(enum kind kind)
{
    int i = 0;
    while (i < seen.n && seen.e[i].kind != kind)
        i++;
    return i;
}

/* Each gradient is in one piece, which starts when its last one is final,
 * from the end to the beginning. */
static bool is_tiled(int64_t params)
{
    int64_t high = params, low = params;
    for (int i = 0; i < seen.n; i++) {
        const struct event *e = &seen.e[i];
        if (e->kind == READY && e->first + e->count != low)
            return false;
        if (e->kind == READY)
            low = e->first;
        if (e->kind == START &&
            (e->first + e->count != high || e->first != low))
            return false;
        if (e->kind == START)
            high = e->first;
    }
    return high == 0 && low == 0;
}

static void test_sizes(struct rig *r)
{
    struct error err = ERROR_INIT;
    const int64_t params = model_planned(r->m)->params;
    is_int(pass(r, 0, 0, -1, &err), 0, "a pass");
    int at = find(START);
    int64_t bytes = seen.e[at].count * (int64_t)sizeof(float);
    int64_t last = seen.e[at - 1].count * (int64_t)sizeof(float);
    ok(seen.e[at - 1].kind == READY && bytes >= 1 << 20 &&
           bytes - last < 1 << 20,
       "the first piece starts with the layer that makes it 1 MiB");
    is_int(count(START, 0, seen.n), 2,
           "8.5 MiB are two pieces: 25 MiB hold "
           "the rest");
    ok(is_tiled(params), "from the last layer to the first");
    ok(count(READY, at, seen.n) == 51 && count(READY, 0, at) == 2,
       "under way while 51 of 53 layers are still computed");
    is_int(count(POLL, at, seen.n), 51, "and moved on behind each of them");
    ok(find(WAIT) > at && count(READY, find(WAIT), seen.n) == 0,
       "nobody waits before the backward pass has ended");
    is_int(seen.flying, 0, "all is waited for");
}

static void test_many(struct rig *r)
{
    struct error err = ERROR_INIT;
    is_int(pass(r, 1000, 10000, -1, &err), 0, "a pass in many pieces");
    ok(is_tiled(model_planned(r->m)->params) && seen.next > 30,
       "%d of them, in order", seen.next);
    is_int(seen.most, COMM_INFLIGHT, "no more under way than can be");
    ok(seen.oldest == seen.next && seen.flying == 0, "the oldest first");
}

static void test_failure(struct rig *r)
{
    struct error err = ERROR_INIT;
    is_int(pass(r, 0, 0, 0, &err), -1, "a transfer that cannot start");
    ok(err.code == ERR_EXTERN && strstr(err.msg, "the network is gone"),
       "ends the backward pass: %s", err.msg);
    is_int(pass(r, 0, 0, 1, &err), -1, "nor the last");
}

/* The bits do not depend on who listens. */
static void test_alone(struct rig *r)
{
    struct error err = ERROR_INIT;
    size_t bytes = (size_t)model_planned(r->m)->params * sizeof(float);
    float *was = malloc(bytes);
    must(pass(r, 0, 0, -1, &err), &err);
    memcpy(was, model_grads(r->m), bytes);
    must(pass(r, 1000, 10000, -1, &err), &err);
    ok(memcmp(was, model_grads(r->m), bytes) == 0, "cut in any way, the same");
    two.size = 1;
    must(pass(r, 0, 0, -1, &err), &err);
    two.size = 2;
    ok(memcmp(was, model_grads(r->m), bytes) == 0 && seen.next == 0,
       "and on one rank, which sends nothing");
    free(was);
}

int main(void)
{
    struct rig r;
    rig_init(&r, &conf, 1, 1);
    test_sizes(&r);
    test_many(&r);
    test_failure(&r);
    test_alone(&r);
    rig_clear(&r);
    return tap_done();
}
