/* mobilenet_init.c - torchvision's initialisation, from our own stream.
 *
 * Values are drawn on the host in double precision, in the order of the
 * state_dict and within a tensor in torchvision's layout: the numbers depend
 * neither on how a device wants its weights nor on the data type, except for
 * the final rounding.
 */
#include <math.h>
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "worker/cv/tensors.h"

/* Initial values of a slot: normal with this std, or the constant if 0. */
static double start_of(const struct mobilenet *m, const struct slot *s,
                       double *ret_constant)
{
    *ret_constant = 0;
    if (s->row < 0)
        return s->part == 0 ? 0.01 : 0;
    if (s->part == 0) { /* kaiming_normal_, mode fan_out, gain sqrt(2) */
        double window = (double)s->shape[2] * s->shape[3];
        return sqrt(2 / (window * m->arch.layers[s->row].cout));
    }
    if (s->part == 1 || s->part == 4) /* gamma, running variance */
        *ret_constant = 1;
    return 0;
}

int mobilenet_init(struct model *model, uint32_t seed, struct error *err)
{
    struct mobilenet *m = mobilenet_of(model);
    const size_t most = (size_t)tensor_slot_largest(m);
    double *v = calloc(2 * most, sizeof(*v));
    if (!v)
        return error_set(err, ERR_NOMEM, "model: initial values");
    struct rng rng;
    int rc = 0;
    rng_seed(&rng, seed);
    for (int32_t i = 0; i < SLOTS && rc == 0; i++) {
        struct slot s;
        double constant;
        tensor_slot_get(m, i, &s);
        if (s.kind == SLOT_TRACKED) {
            m->tracked[s.row] = 0;
            continue;
        }
        double std = start_of(m, &s, &constant);
        for (int64_t j = 0; j < s.n; j++)
            v[j] = std > 0 ? std * rng_normal(&rng) : constant;
        rc = tensor_slot_write(m, &s, v, v + most, err);
    }
    free(v);
    return rc;
}
