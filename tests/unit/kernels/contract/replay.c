/* replay.c - scalars put into device memory; and, where a device has them,
 * captured calls, marks and copies beside the work. */
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static void put_one(struct bed *b, size_t bytes)
{
    unsigned char v[PUT_BYTES], want[PUT_BYTES], got[PUT_BYTES];

    memset(want, 0xee, sizeof(want));
    must(b->d->ops->to_device(b->d, b->scalars, want, sizeof(want), ERR));
    for (size_t i = 0; i < bytes; i++)
        want[i] = v[i] = (unsigned char)(i + 1);
    must(b->d->ops->put(b->d, b->scalars, v, bytes, ERR));
    memset(v, 0, sizeof(v)); /* ours again */
    must(b->d->ops->to_host(b->d, got, b->scalars, sizeof(got), ERR));
    ok(memcmp(got, want, sizeof(got)) == 0, "put %zu bytes", bytes);
}

/* y += x and dropout by a seed: captured once, run with other values. */
static void capture_one(struct bed *b, int64_t n)
{
    const struct device_ops *ops = b->d->ops;
    struct tensor x = tensor_ints(b, n, -3, 3), y = tensor_ints(b, n, -3, 3);
    struct tensor a = tensor_make(b, n, 0, 0), c = tensor_make(b, n, 0, 0);
    double *want = zeros(n);
    struct graph *g = NULL;
    uint64_t seed = 1;
    void *key = bed_put(b, &seed, sizeof(seed));

    for (int64_t i = 0; i < n; i++)
        want[i] = y.v[i];
    must(ops->capture_begin(b->d, ERR));
    must(ops->add(b->d, b->dt, y.p, x.p, n, ERR));
    must(ops->dropout(b->d, b->dt, a.p, y.p, n, 0.5, key, 0, ERR));
    must(ops->capture_end(b->d, &g, ERR));
    same(&y, want, "captured: nothing has run");
    for (seed = 2; seed < 5; seed++) {
        for (int64_t i = 0; i < n; i++) {
            want[i] += x.v[i];
            x.v[i] = -x.v[i] + (double)(i % 2);
        }
        key = bed_put(b, &seed, sizeof(seed));
        must(ops->launch(b->d, g, ERR));
        same(&y, want, "launched, on what is in memory now");
        must(ops->dropout(b->d, b->dt, c.p, y.p, n, 0.5, key, 0, ERR));
        tensor_pull(&c);
        same(&a, c.v, "with the seed that is there now");
        tensor_push(&x);
    }
    ops->graph_free(b->d, g);
    ops->graph_free(b->d, NULL);
    free(want);
    tensor_drop(&x);
    tensor_drop(&y);
    tensor_drop(&a);
    tensor_drop(&c);
}

static void marks(struct bed *b)
{
    const struct device_ops *ops = b->d->ops;
    double s = -1;

    must(ops->mark(b->d, 0, ERR));
    must(ops->mark(b->d, DEVICE_MARKS - 1, ERR));
    must(ops->sync(b->d, ERR));
    must(ops->elapsed(b->d, 0, DEVICE_MARKS - 1, &s, ERR));
    ok(s >= 0 && s < 1000, "%g s between two marks", s);
    refused(ops->mark(b->d, DEVICE_MARKS, ERR));
    refused(ops->elapsed(b->d, -1, 0, &s, ERR));
}

/* Each slot is filled twice; the second time its contents are still needed
 * when the copy is asked for. */
static void slots(struct bed *b)
{
    const struct device_ops *ops = b->d->ops;
    enum { N = 1000 };
    struct tensor in = tensor_make(b, N, 0, 0);
    size_t bytes = N * dtype_bytes(b->dt);
    void *host = malloc(bytes);
    double want[N];

    for (int32_t slot = 0; slot < DEVICE_SLOTS; slot++) {
        struct tensor out = tensor_make(b, N, 0, 0);
        memset(want, 0, sizeof(want));
        for (int round = 1; round <= 2; round++) {
            for (int64_t i = 0; i < N; i++) {
                double v = (double)(i % 7 + round * slot);
                dtype_set(b->dt, host, i, v);
                want[i] += v;
            }
            must(ops->send(b->d, slot, in.p, host, bytes, ERR));
            must(ops->receive(b->d, slot, ERR));
            must(ops->add(b->d, b->dt, out.p, in.p, N, ERR));
            must(ops->reuse(b->d, slot, ERR));
            must(ops->sent(b->d, slot, ERR));
        }
        same(&out, want, "slot %d", slot);
        tensor_drop(&out);
    }
    refused(ops->send(b->d, DEVICE_SLOTS, in.p, host, bytes, ERR));
    refused(ops->receive(b->d, -1, ERR));
    free(host);
    tensor_drop(&in);
}

void contract_replay(struct bed *b)
{
    const struct device_ops *ops = b->d->ops;
    bool has_all = ops->capture_end && ops->launch && ops->graph_free;

    put_one(b, 0);
    put_one(b, 1);
    put_one(b, 40);
    put_one(b, PUT_BYTES);
    ok(!ops->capture_begin || has_all, "capture: all or nothing");
    ok(!ops->mark == !ops->elapsed, "marks: both or neither");
    ok(!ops->send == !ops->receive && !ops->send == !ops->reuse &&
           !ops->send == !ops->sent,
       "slots: all or nothing");
    if (ops->capture_begin)
        capture_one(b, 1030);
    if (ops->mark)
        marks(b);
    if (ops->send)
        slots(b);
}
