/* optimizer_state8.c - see optimizer_state8.h. */
#include "worker/train/optimizer_state8.h"

#include <math.h>
#include <stdlib.h>

/* ---- the maps -------------------------------------------------------------
 *
 * An exponent of 10^-6 to 1, and the rest of the eight bits for a fraction: the
 * means of neighbours among 2^k + 1 values from 0.1 to 1, and then 0 and 1.
 */

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Computes torch.linspace(0.1, 1, n) in float, which rounds once. */
static float between(int i, int n)
{
    const float first = 0.1f, last = 1, step = (last - first) / (float)(n - 1);
    return i < n / 2 ? fmaf(step, (float)i, first)
                     : fmaf(-step, (float)(n - 1 - i), last);
}

static void make_map(bool is_signed, float ret[STATE8_CODES])
{
    enum { EXPONENTS = 7 };
    int n = 0;
    for (int e = 0; e < EXPONENTS; e++) {
        const int items = 1 << (is_signed ? e : e + 1);
        const float scale = (float)pow(10, e - (EXPONENTS - 1));
        for (int i = 0; i < items; i++) {
            const float mean =
                (between(i, items + 1) + between(i + 1, items + 1)) / 2;
            ret[n++] = scale * mean;
            if (is_signed)
                ret[n++] = -scale * mean;
        }
    }
    ret[n++] = 0;
    ret[n++] = 1;
    qsort(ret, STATE8_CODES, sizeof(*ret), compare);
}

void state8_maps(float ret[STATE8_MAPS][STATE8_CODES])
{
    make_map(true, ret[STATE8_SIGNED]);
    make_map(false, ret[STATE8_UNSIGNED]);
}

/* ---- values ---------------------------------------------------------------
 */

/* An array on the host. */
struct state8 {
    float maps[STATE8_MAPS][STATE8_CODES];
    uint8_t *codes;
    float *most;
};

static int open_state(const struct optimizer *o, int32_t i, struct state8 *ret,
                      struct error *err)
{
    const struct device_ops *ops = o->dev->ops;
    state8_maps(ret->maps);
    ret->codes = malloc((size_t)o->n + 1);
    ret->most = malloc((size_t)o->blocks * sizeof(float));
    if (ret->codes == NULL || ret->most == NULL)
        return error_set(err, ERR_NOMEM, "state of the optimizer on the host");
    if (ops->to_host(o->dev, ret->codes, o->state[i].data, (size_t)o->n, err) <
        0)
        return -1;
    return ops->to_host(o->dev, ret->most, o->state[i].most,
                        (size_t)o->blocks * sizeof(float), err);
}

static void close_state(struct state8 *s)
{
    free(s->codes);
    free(s->most);
}

/* The largest values of the blocks, from or to host [blocks] A. */
static int move_most(const struct optimizer *o, int32_t i, void *to,
                     const void *from, struct error *err)
{
    const enum dtype acc = dtype_acc(o->dt);
    const struct device_ops *ops = o->dev->ops;
    const size_t bytes = (size_t)o->blocks * sizeof(float);
    float *most = malloc(bytes);
    int rc = most == NULL ? error_set(err, ERR_NOMEM, "blocks of the state")
             : to != NULL
                 ? ops->to_host(o->dev, most, o->state[i].most, bytes, err)
                 : 0;
    for (int64_t k = 0; k < o->blocks && rc == 0; k++) {
        if (to != NULL)
            dtype_set(acc, to, k, most[k]);
        else
            most[k] = (float)dtype_get(acc, from, k);
    }
    if (rc == 0 && from != NULL)
        rc = ops->to_device(o->dev, o->state[i].most, most, bytes, err);
    rc = rc < 0 ? rc : ops->sync(o->dev, err);
    free(most);
    return rc;
}

int state8_fetch(void *arg, int32_t i, void *host, struct error *err)
{
    const struct optimizer *o = arg;
    const enum dtype acc = dtype_acc(o->dt);
    struct state8 s;
    if (i >= o->n_state)
        return move_most(o, i - o->n_state, host, NULL, err);
    int rc = open_state(o, i, &s, err);
    for (int32_t k = 0; k < o->n_ranges && rc == 0; k++) {
        const struct optimizer_range *r = &o->ranges[k];
        for (int64_t j = 0; j < r->count; j++) {
            const float most = s.most[o->first_block[k] + j / STATE8_BLOCK];
            dtype_set(acc, host, r->first + j,
                      s.maps[i][s.codes[r->first + j]] * most);
        }
    }
    close_state(&s);
    return rc;
}

int state8_store(void *arg, int32_t i, const void *host, struct error *err)
{
    const struct optimizer *o = arg;
    const enum dtype acc = dtype_acc(o->dt);
    struct state8 s;
    if (i >= o->n_state)
        return move_most(o, i - o->n_state, NULL, host, err);
    int rc = open_state(o, i, &s, err);
    for (int32_t k = 0; k < o->n_ranges && rc == 0; k++) {
        const struct optimizer_range *r = &o->ranges[k];
        for (int64_t j = 0; j < r->count; j++) {
            const float most = s.most[o->first_block[k] + j / STATE8_BLOCK];
            const float x = (float)dtype_get(acc, host, r->first + j);
            s.codes[r->first + j] =
                state8_code(s.maps[i], x * state8_scale(most));
        }
    }
    rc = rc < 0 ? rc
                : o->dev->ops->to_device(o->dev, o->state[i].data, s.codes,
                                         (size_t)o->n, err);
    rc = rc < 0 ? rc : o->dev->ops->sync(o->dev, err);
    close_state(&s);
    return rc;
}
