/* step.c - the calls of a training step, in worker/train's order for one rank:
 * trainer_graph.c's pass with the update in the same graph. */
#include "tests/step/step.h"

#include "worker/cv/image_batches.h"
#include "worker/cv/mobilenet.h"
#include "worker/train/mixed_precision.h"
#include "worker/train/optimizer.h"

struct parts {
    struct device *d;
    struct model *m;
    struct mixed mixed;
    struct optimizer optimizer;
    struct batch batch;
    enum dtype dt;
};

static int open_all(struct parts *p, const struct mobilenet_conf *conf,
                    const struct job_spec *spec, struct error *err)
{
    void *x = NULL, *label = NULL;
    const size_t n = (size_t)conf->batch;
    const size_t image = (size_t)conf->image_size * (size_t)conf->image_size *
                         3 * dtype_bytes(conf->dt);

    if (p->d->ops->alloc(p->d, n * image, &x, err) < 0 ||
        p->d->ops->alloc(p->d, n * sizeof(int32_t), &label, err) < 0 ||
        mobilenet_create(p->d, conf, &p->m, err) < 0)
        return -1;
    p->batch = image_batch(x, image, label, conf->batch);
    const bool is_mixed = conf->dt == DT_F16 || conf->dt == DT_BF16;
    const int64_t params = model_planned(p->m)->params;
    const struct optimizer_range all = {.count = params};
    if (is_mixed && mixed_init(&p->mixed, p->d, p->m, conf->dt, err) < 0)
        return -1;
    return optimizer_init(&p->optimizer, p->d, spec,
                          is_mixed ? DT_F32 : conf->dt, params, &all, 1, err);
}

static int calls(struct parts *p, struct error *err)
{
    const bool is_mixed = p->mixed.dev != NULL;

    if (model_put(p->m, 1, 1, err) < 0 ||
        optimizer_put(&p->optimizer, 1, 0.01, 1, err) < 0 ||
        model_forward(p->m, &p->batch, true, err) < 0 ||
        model_backward(p->m, &p->batch, NULL, NULL, err) < 0 ||
        (is_mixed && mixed_take_grads(&p->mixed, err) < 0) ||
        optimizer_step_only(
            &p->optimizer, is_mixed ? p->mixed.weights : model_params(p->m),
            is_mixed ? p->mixed.grads : model_grads(p->m), err) < 0)
        return -1;
    return is_mixed ? mixed_give_weights(&p->mixed, err) : 0;
}

int step_record(struct device *d, int32_t size, int32_t batch, enum dtype dt,
                struct step *ret, struct error *err)
{
    const struct mobilenet_conf conf = {.dt = dt,
                                        .width_mult = 1,
                                        .dropout = 0.2,
                                        .num_classes = 10,
                                        .image_size = size,
                                        .batch = batch};
    struct job_spec spec = {.kind = SPEC_CV};
    struct parts p = {.d = d, .dt = dt};

    spec.train.optimizer.name = OPTIM_SGD;
    spec.train.optimizer.lr = 0.01;
    spec.train.optimizer.momentum = 0.9;
    spec.train.optimizer.weight_decay = 4e-5;
    spec.train.optimizer.nesterov = true;
    ret->n = 0;
    int rc = open_all(&p, &conf, &spec, err);
    if (rc == 0) {
        device_record_to(d, ret);
        rc = calls(&p, err);
        device_record_to(d, NULL);
    }
    optimizer_clear(&p.optimizer);
    mixed_clear(&p.mixed);
    model_destroy(p.m);
    return rc;
}
