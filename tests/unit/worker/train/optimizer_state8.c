/* optimizer_state8.c - the maps of eight bits and the codes of 10,000 values
 * against bitsandbytes (tests/golden/state8.py says how), and values that go to
 * a checkpoint and come back with the same codes. */
#include "kernels/ops/state8.h"

#include <math.h>
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "kernels/device.h"
#include "tests/golden/golden.h"
#include "worker/train/optimizer_state8.h"

enum { N = 10000, SEED = 8, PARTS = 4 };
static const char *const names[STATE8_MAPS] = {"signed", "unsigned"};

static void draw(int which, float ret[N])
{
    struct rng r;
    rng_seed(&r, SEED);
    for (int i = 0; i < N; i++) {
        const double u = 2 * rng_uniform(&r) - 1, v = u * u * u;
        ret[i] = (float)(which == STATE8_SIGNED ? v : v * v);
    }
}

static void test_map(const struct golden *g, int which, const float *map)
{
    char name[40];
    size_t n = 0;
    int wrong = 0;
    (void)snprintf(name, sizeof(name), "map %s", names[which]);
    double *want = golden_get(g, name, &n);
    for (size_t i = 0; i < n && i < STATE8_CODES; i++)
        wrong += map[i] != (float)want[i];
    ok(n == STATE8_CODES && wrong == 0, "%s: %d of %zu differ", name, wrong, n);
    free(want);
}

static void test_codes(const struct golden *g, int which, const float *map)
{
    static float x[N];
    int at = 0, wrong = 0;
    draw(which, x);
    for (int part = 0; part < PARTS; part++) {
        char name[40];
        size_t n = 0;
        (void)snprintf(name, sizeof(name), "codes %s %d", names[which], part);
        double *want = golden_get(g, name, &n);
        for (size_t i = 0; i < n && at < N; i++, at++) {
            const int first = at / STATE8_BLOCK * STATE8_BLOCK;
            float most = 0;
            for (int k = first; k < first + STATE8_BLOCK && k < N; k++)
                most = fmaxf(most, fabsf(x[k]));
            wrong += state8_code(map, x[at] * state8_scale(most)) != want[i];
        }
        free(want);
    }
    ok(at == N && wrong == 0, "%d codes of the %s map: %d differ", at,
       names[which], wrong);
}

/* What kernels do is what the host does: at the middles, at their neighbours,
 * between them, and beyond the map. */
static void test_find(int which, const float *map)
{
    float tree[STATE8_CODES] = {0};
    int wrong = 0;
    for (int i = 1; i < STATE8_CODES; i++)
        tree[i] = state8_node(map, i);
    for (int i = 0; i < STATE8_CODES - 1; i++) {
        const float middle = state8_middle(map, i);
        const float x[] = {middle,
                           nextafterf(middle, -2),
                           nextafterf(middle, 2),
                           map[i],
                           map[i + 1],
                           -2,
                           2,
                           NAN};
        for (size_t k = 0; k < sizeof(x) / sizeof(x[0]); k++)
            wrong += state8_find(tree, x[k]) != state8_code(map, x[k]);
    }
    ok(wrong == 0, "codes of the %s map, found in a tree: %d differ",
       names[which], wrong);
}

/* Two ranges, whose blocks are their own. */
static void test_values(enum dtype dt)
{
    static const struct optimizer_range ranges[] = {{0, 700, false},
                                                    {700, 300, false}};
    enum { ALL = 1000 };
    struct job_spec spec = {.train.optimizer.name = OPTIM_ADAMW8};
    struct error err = ERROR_INIT;
    struct device *d = NULL;
    struct optimizer o = {.dev = NULL};
    uint8_t was[ALL], is[ALL];
    double x[ALL], y[ALL]; /* of either type */
    const enum dtype acc = dtype_acc(dt);
    int rc = device_host_create(1, &d, &err);
    rc = rc < 0 ? rc : optimizer_init(&o, d, &spec, dt, ALL, ranges, 2, &err);
    for (int i = 0; i < ALL; i++)
        dtype_set(acc, x, i, sin(i) * (i < 700 ? 1 : 1e-3));
    /* The first range has 3 blocks, the second 2. */
    for (int64_t i = 0; rc == 0 && i < o.blocks; i++)
        dtype_set(acc, y, i, i < 3 ? 1 : 1e-3);
    rc = rc < 0 ? rc : state8_store(&o, o.n_state, y, &err);
    rc = rc < 0 ? rc : state8_store(&o, 0, x, &err);
    rc = rc < 0 ? rc : d->ops->to_host(d, was, o.state[0].data, ALL, &err);
    rc = rc < 0 ? rc : state8_fetch(&o, 0, y, &err);
    rc = rc < 0 ? rc : state8_store(&o, 0, y, &err);
    rc = rc < 0 ? rc : d->ops->to_host(d, is, o.state[0].data, ALL, &err);
    ok(rc == 0 && memcmp(was, is, ALL) == 0, "the same codes again: %s",
       err.msg);
    double most = 0;
    for (int i = 0; i < ALL; i++)
        most = fmax(most, fabs(dtype_get(acc, x, i) - dtype_get(acc, y, i)) /
                              (i < 700 ? 1 : 1e-3));
    ok(most > 0 && most < 0.01, "%.3g of the largest of a range is lost", most);
    optimizer_clear(&o);
    d->ops->destroy(d);
}

int main(void)
{
    struct golden g;
    float maps[STATE8_MAPS][STATE8_CODES];
    golden_open(&g, "tests/golden/state8.txt");
    state8_maps(maps);
    for (int i = 0; i < STATE8_MAPS; i++) {
        test_map(&g, i, maps[i]);
        test_codes(&g, i, maps[i]);
        test_find(i, maps[i]);
    }
    golden_close(&g);
    test_values(DT_F32);
    test_values(DT_F64);
    return tap_done();
}
