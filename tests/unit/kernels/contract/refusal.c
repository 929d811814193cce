/* refusal.c - shapes that the contract forbids: ERR_INVAL, nothing written.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static void refuse_conv(struct bed *b, struct tensor *t, const double *was)
{
    const struct device_ops *ops = b->d->ops;
    static const struct conv3 bad[] = {
        {1, 4, 4, 2, 4, 4, 0},  {1, 4, 4, 2, 2, 2, 3}, {1, 4, 4, 2, 3, 4, 1},
        {1, 4, 4, 2, 2, 1, 2},  {0, 4, 4, 2, 4, 4, 1}, {1, 0, 4, 2, 0, 4, 1},
        {1, 4, -1, 2, 4, 0, 1}, {1, 4, 4, 0, 4, 4, 1},
    };

    const struct norm n = {t->p, t->p, t->p, t->p, 6};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct conv3 *s = &bad[i];
        refused(ops->dw_fwd(b->d, b->dt, t->p, NULL, t->p, NULL, t->p, s, ERR));
        refused(ops->dw_bwd(b->d, b->dt, t->p, t->p, NULL, t->p, t->p, &n, t->p,
                            t->p, NULL, t->p, s, ERR));
        refused(ops->im2col3(b->d, b->dt, t->p, 18, t->p, s, ERR));
    }
    static const struct conv3 good = {1, 4, 4, 2, 4, 4, 1};
    refused(ops->im2col3(b->d, b->dt, t->p, 17, t->p, &good, ERR));
    refused(ops->pad_rows(b->d, b->dt, t->p, 4, t->p, 2, 0, ERR));
    refused(ops->pad_rows(b->d, b->dt, t->p, 0, t->p, 2, 2, ERR));
    same(t, was, "refused convolutions write nothing");
}

static void refuse_gemm(struct bed *b, void *p)
{
    const struct device_ops *ops = b->d->ops;
    enum dtype dt = b->dt;

    refused(ops->gemm(b->d, dt, 0, 0, -1, 2, 2, 1, p, 2, p, 2, 0, p, 2, ERR));
    refused(ops->gemm(b->d, dt, 0, 0, 2, 2, 3, 1, p, 2, p, 2, 0, p, 2, ERR));
    refused(ops->gemm(b->d, dt, 1, 0, 3, 2, 2, 1, p, 2, p, 2, 0, p, 2, ERR));
    refused(ops->gemm(b->d, dt, 0, 1, 2, 2, 3, 1, p, 3, p, 2, 0, p, 2, ERR));
    refused(ops->gemm(b->d, dt, 0, 0, 2, 3, 2, 1, p, 2, p, 3, 0, p, 2, ERR));
    refused(ops->gemm(b->d, DT_N, 0, 0, 2, 2, 2, 1, p, 2, p, 2, 0, p, 2, ERR));
}

static void refuse_norm(struct bed *b, void *p)
{
    const struct device_ops *ops = b->d->ops;
    enum dtype dt = b->dt;

    const struct norm n = {p, p, p, p, 6}, below = {p, p, p, p, -1};
    const struct norm_stats stats = {p, p, p, p, 1e-5, 0.1};
    const struct norm_grad out = {p, p, p};
    const struct conv3 one = {1, 1, 1, 4, 1, 1, 1};
    refused(ops->norm_apply(b->d, dt, p, p, &n, NULL, 0, 4, ERR));
    refused(ops->norm_apply(b->d, dt, p, p, &n, NULL, 4, 0, ERR));
    refused(ops->norm_apply(b->d, dt, p, p, &below, NULL, 4, 4, ERR));
    refused(ops->norm_grads(b->d, dt, p, &out, p, &n, 0, 4, ERR));
    refused(ops->norm_rstd(b->d, dt, p, p, 0, 1e-5, ERR));
    refused(
        ops->pw_fwd(b->d, dt, p, &stats, NULL, p, NULL, NULL, p, 1, 4, 4, ERR));
    refused(
        ops->pw_fwd(b->d, dt, p, NULL, NULL, p, NULL, NULL, p, 4, 0, 4, ERR));
    refused(ops->pw_bwd(b->d, dt, NULL, p, NULL, p, p, &n, p, p, NULL, NULL,
                        NULL, p, 0, 4, 4, ERR));
    refused(ops->dw_fwd(b->d, dt, p, &stats, p, NULL, p, &one, ERR));

    struct error err = ERROR_INIT; /* what a user may read */
    int rc =
        ops->pw_fwd(b->d, dt, p, &stats, NULL, p, NULL, NULL, p, 1, 4, 4, &err);
    ok(rc < 0 && strstr(err.msg, "1x1 convolution: 1 pixels of 4 channels") &&
           strstr(err.msg, "change train.batch_size"),
       "what, and what to change: %s", err.msg);
}

static void refuse_rest(struct bed *b, void *p)
{
    const struct device_ops *ops = b->d->ops;
    enum dtype dt = b->dt;
    struct sgd_args sgd = {.lr = 1};
    struct rmsprop_args rmsprop = {.lr = 1};
    struct adamw_args adamw = {.lr = 1, .step = 0};
    struct image_norm norm = {.std = {1, 1, 1}};

    refused(ops->cast(b->d, DT_N, p, dt, p, 4, ERR));
    refused(ops->cast(b->d, dt, p, DT_N, p, 4, ERR));
    refused(ops->cast(b->d, dt, p, dt, p, -1, ERR));
    refused(ops->add(b->d, dt, p, p, -1, ERR));
    refused(ops->add(b->d, DT_N, p, p, 4, ERR));
    refused(ops->bias_fwd(b->d, dt, p, p, 4, 0, ERR));
    refused(ops->bias_bwd(b->d, dt, p, p, 0, 4, ERR));
    refused(ops->avgpool_fwd(b->d, dt, p, p, 0, 1, 1, ERR));
    refused(ops->avgpool_bwd(b->d, dt, p, p, 1, 0, 1, ERR));
    refused(ops->dropout(b->d, dt, p, p, 4, 1, p, 0, ERR));
    refused(ops->dropout(b->d, dt, p, p, 4, -0.1, p, 0, ERR));
    refused(ops->dropout(b->d, dt, p, p, -4, 0.5, p, 0, ERR));
    refused(ops->xent(b->d, dt, p, p, p, p, 2, 0, p, 0, true, ERR));
    refused(ops->xent(b->d, dt, p, p, p, p, -1, 2, p, 0, true, ERR));
    refused(ops->xent(b->d, dt, p, p, p, p, 2, 2, p, 1, true, ERR));
    refused(ops->xent(b->d, dt, p, p, p, p, 2, 2, p, -0.1, true, ERR));
    refused(ops->xent(b->d, dt, p, p, p, p, 2, 2, NULL, 0, true, ERR));
    refused(ops->put(b->d, p, p, PUT_BYTES + 1, ERR));
    refused(ops->images_u8(b->d, dt, p, p, p, 0, 1, 1, &norm, ERR));
    refused(ops->images_u8(b->d, dt, p, p, p, 1, 0, 1, &norm, ERR));
    refused(ops->images_u8(b->d, dt, p, p, p, 1, 1, 2, &norm, ERR));
    norm.std[2] = 0;
    refused(ops->images_u8(b->d, dt, p, p, p, 1, 1, 3, &norm, ERR));
    refused(ops->nchw_to_nhwc(b->d, 4, p, p, NULL, 0, 1, 1, ERR));
    refused(ops->nchw_to_nhwc(b->d, 4, p, p, NULL, 1, 0, 1, ERR));
    refused(ops->nchw_to_nhwc(b->d, 4, p, p, NULL, 1, 1, 2, ERR));
    refused(ops->nchw_to_nhwc(b->d, 3, p, p, NULL, 1, 1, 3, ERR));
    refused(ops->nchw_to_nhwc(b->d, 2, p, p, p, 1, 1, 3, ERR));
    refused(ops->sgd(b->d, dt, p, p, p, -1, &sgd, ERR));
    refused(ops->adamw(b->d, dt, p, p, p, p, 4, &adamw, ERR));
    refused(ops->adamw8(b->d, dt, p, p, p, p, p, p, p, 4, &adamw, ERR));
    refused(ops->rmsprop(b->d, dt, p, p, p, p, p, -1, &rmsprop, ERR));
    refused(ops->sum_squares(b->d, dt, p, p, -1, ERR));
    refused(ops->ema(b->d, dt, p, p, -1, 0.9, ERR));
}

void contract_refusals(struct bed *b)
{
    struct tensor t = tensor_make(b, 400, 1, 2);
    double *was = zeros(400);

    for (int i = 0; i < 400; i++)
        was[i] = t.v[i];
    refuse_conv(b, &t, was);
    refuse_gemm(b, t.p);
    refuse_norm(b, t.p);
    refuse_rest(b, t.p);
    same(&t, was, "refused calls write nothing");
    free(was);
    tensor_drop(&t);
}
