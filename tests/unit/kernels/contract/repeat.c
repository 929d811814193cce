/* repeat.c - what takes the same call many times: gradients by differences,
 * and bits that do not depend on the number of blocks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/exec/exec_device.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

/* With a step of 1e-5 the truncation is about 1e-10 and the rounding 1e-10:
 * 1e-7 of the largest gradient leaves room, and a wrong term is off by far
 * more. */
static const double step = 1e-5, tolerance = 1e-7;

static double loss_of(const struct call *c, struct tensor *y, const double *r)
{
    double sum = 0;

    c->run(c->arg);
    tensor_pull(y);
    for (int64_t i = 0; i < y->n; i++)
        sum += y->v[i] * (r ? r[i] : 1);
    return sum;
}

void differences(const struct call *c, struct tensor *in, struct tensor *grad,
                 struct tensor *y, const double *r, const char *what)
{
    double worst = 0, scale = 0;

    tensor_pull(grad);
    for (int64_t i = 0; i < in->n; i++) {
        double keep = in->v[i];
        in->v[i] = keep + step;
        tensor_push(in);
        double up = loss_of(c, y, r);
        in->v[i] = keep - step;
        tensor_push(in);
        double down = loss_of(c, y, r);
        in->v[i] = keep;
        double e = fabs((up - down) / (2 * step) - grad->v[i]);
        worst = e > worst || isnan(e) ? e : worst;
        scale = fmax(scale, fabs(grad->v[i]));
    }
    tensor_push(in);
    ok(worst <= tolerance * scale && scale > 0,
       "%s gradient of %s: off by %.1e of %.1e", c->b->name, what, worst,
       scale);
}

void same_bits(const struct call *c, struct tensor *out, const char *what)
{
    static const int64_t blocks[] = {1, 2, 3, 7};
    struct exec_device *exec = (struct exec_device *)c->b->d;
    const int64_t max_blocks = exec->max_blocks, work = exec->block_work;
    const size_t size = (size_t)out->n * sizeof(*out->v);
    double *was = zeros(out->n), *first = zeros(out->n);
    bool same = true;

    tensor_pull(out);
    memcpy(was, out->v, size);
    exec->block_work = 1;
    for (size_t k = 0; k < sizeof(blocks) / sizeof(blocks[0]); k++) {
        memcpy(out->v, was, size);
        tensor_push(out);
        exec->max_blocks = blocks[k];
        c->run(c->arg);
        tensor_pull(out);
        if (k == 0)
            memcpy(first, out->v, size);
        same = same && memcmp(first, out->v, size) == 0;
    }
    exec->max_blocks = max_blocks;
    exec->block_work = work;
    ok(same && memcmp(first, was, size) != 0,
       "%s %s: %s, the same bits for each number of blocks", c->b->name,
       dtype_name(c->b->dt), what);
    free(was);
    free(first);
}
