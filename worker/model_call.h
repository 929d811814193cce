/* model_call.h - the calls of model.h as plain functions, for users of a model.
 *
 * What each does, and its errors, is written at the member of model_ops.
 */
#ifndef MGPU_WORKER_MODEL_CALL_H
#define MGPU_WORKER_MODEL_CALL_H

#include "worker/model.h"

static inline void model_destroy(struct model *m) /* NULL is fine */
{
    if (m != NULL)
        m->ops->destroy(m);
}

static inline int MUST_CHECK model_init(struct model *m, uint32_t seed,
                                        struct error *err)
{
    return m->ops->init(m, seed, err);
}

static inline void model_begin(struct model *m)
{
    if (m->ops->begin != NULL)
        m->ops->begin(m);
}

static inline void model_reached(struct model *m, int64_t iterations)
{
    if (m->ops->reached != NULL)
        m->ops->reached(m, iterations);
}

static inline int MUST_CHECK model_put(struct model *m, uint64_t seed,
                                       double scale, struct error *err)
{
    return m->ops->put(m, seed, scale, err);
}

static inline int MUST_CHECK model_forward(struct model *m,
                                           const struct batch *b, bool train,
                                           struct error *err)
{
    return m->ops->forward(m, b, train, err);
}

static inline int MUST_CHECK model_backward(
    struct model *m, const struct batch *b,
    int (*on_ready)(void *arg, int64_t first, int64_t count, struct error *err),
    void *arg, struct error *err)
{
    return m->ops->backward(m, b, on_ready, arg, err);
}

static inline void model_repeat(struct model *m, const struct batch *b,
                                bool train)
{
    m->ops->repeat(m, b, train);
}

static inline int MUST_CHECK model_result(struct model *m,
                                          const struct batch *b,
                                          struct model_result *ret,
                                          struct error *err)
{
    return m->ops->result(m, b, ret, err);
}

static inline void model_floor(const struct model *m, const struct batch *b,
                               struct card_floor *io)
{
    m->ops->floor(m, b, io);
}

static inline void *model_params(struct model *m)
{
    return m->ops->params(m);
}

static inline void *model_grads(struct model *m)
{
    return m->ops->grads(m);
}

static inline void *model_state(struct model *m)
{
    return m->ops->state(m);
}

static inline const struct model_plan *model_planned(const struct model *m)
{
    return m->ops->planned(m);
}

static inline int32_t model_ranges(const struct model *m,
                                   struct model_range *ret, int32_t cap)
{
    return m->ops->ranges(m, ret, cap);
}

/* NULL: the parameters are the same on every rank. */
static inline struct shard_exchange *model_exchange(struct model *m)
{
    return m->ops->exchange != NULL ? m->ops->exchange(m) : NULL;
}

static inline void model_waited(struct model *m, double *ret_forward_s,
                                double *ret_backward_s)
{
    *ret_forward_s = *ret_backward_s = 0;
    if (m->ops->waited != NULL)
        m->ops->waited(m, ret_forward_s, ret_backward_s);
}

static inline int MUST_CHECK model_export(
    struct model *m,
    int (*each)(void *arg, const struct model_tensor *t, struct error *err),
    void *arg, struct error *err)
{
    return m->ops->export(m, each, arg, err);
}

static inline int MUST_CHECK model_export_marks(
    struct model *m,
    int (*each)(void *arg, const struct model_tensor *t, struct error *err),
    void *arg, struct error *err)
{
    return m->ops->export_marks != NULL
               ? m->ops->export_marks(m, each, arg, err)
               : 0;
}

static inline bool model_is_adapter(const struct model *m)
{
    return m->ops->is_adapter != NULL && m->ops->is_adapter(m);
}

static inline int MUST_CHECK model_save_config(struct model *m, const char *dir,
                                               struct error *err)
{
    return m->ops->save_config != NULL ? m->ops->save_config(m, dir, err) : 0;
}

static inline int MUST_CHECK model_import(struct model *m,
                                          const struct model_tensor *t,
                                          struct error *err)
{
    return m->ops->import(m, t, err);
}

static inline void model_describe(const struct model *m, char *ret, size_t cap)
{
    m->ops->describe(m, ret, cap);
}

#endif
