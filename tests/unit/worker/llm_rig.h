/* llm_rig.h - a Llama on a device (tests/device.h) with batches that a test
 * writes down token by token.
 *
 * For tests only: whatever a test does not expect to fail ends it with the
 * message.
 */
#ifndef MGPU_TESTS_LLM_RIG_H
#define MGPU_TESTS_LLM_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "tests/device.h"
#include "tests/tap.h"
#include "worker/llm/files/adapter_file.h"
#include "worker/llm/llama.h"
#include "worker/model_call.h"

enum { LLM_TOKENS = 4096, LLM_PAIRS = 16 }; /* of a batch, at most */

static inline void must(int rc, const struct error *err)
{
    if (rc < 0) {
        tap_diag("%s", err->msg);
        exit(1);
    }
}

/* A path of the tree, which $MGPU_SRC names; "." without it. */
static inline const char *llm_path(const char *path, char out[4096])
{
    const char *src = getenv("MGPU_SRC");
    (void)snprintf(out, 4096, "%s/%s", src != NULL ? src : ".", path);
    return out;
}

/* The batch that is being written down. */
struct llm_rows {
    int32_t n, S, at; /* rows, their tokens, the next one's place */
    int32_t n_labelled;
    int32_t id[LLM_TOKENS], pos[LLM_TOKENS], order[LLM_TOKENS];
    int32_t labelled[LLM_TOKENS], label[LLM_TOKENS];
    /* Of pairs, which have n of them: S is found out. */
    struct pair_answer answer[2 * LLM_PAIRS];
    int32_t answers;
};

static inline void llm_begin(struct llm_rows *r, int32_t n, int32_t S)
{
    memset(r, 0, sizeof(*r));
    r->n = n;
    r->S = S;
}

/* A document at the next place; tokens from `labelled` on are answers. */
static inline void llm_add(struct llm_rows *r, const int32_t *ids, int32_t n,
                           int32_t labelled)
{
    for (int32_t i = 0; i < n; i++, r->at++) {
        r->id[r->at] = ids[i];
        r->pos[r->at] = i;
        if (i + 1 < n && i + 1 >= labelled) {
            r->labelled[r->n_labelled] = r->at;
            r->label[r->n_labelled++] = ids[i + 1];
        }
    }
}

/* Padding up to the next row. */
static inline void llm_fill(struct llm_rows *r)
{
    while (r->at % r->S != 0)
        r->at++;
}

struct llm_rig {
    struct device *d;
    struct model *m;
    struct llama_conf conf;
    int32_t *arrays[BATCH_ARRAYS]; /* device */
    struct batch b;
};

/* Sorted by id, stable. */
static inline void llm_order(struct llm_rows *r, int32_t vocab)
{
    int32_t k = 0;
    for (int32_t id = 0; id < vocab; id++)
        for (int32_t i = 0; i < r->n * r->S; i++)
            if (r->id[i] == id)
                r->order[k++] = i;
}

static inline void llm_rig_rows(struct llm_rig *g, struct llm_rows *r)
{
    struct error err = ERROR_INIT;
    const size_t bytes = (size_t)(r->n * r->S) * sizeof(int32_t);
    const int32_t *from[TOKENS_LISTS] = {[TOKENS_ID] = r->id,
                                         [TOKENS_POS] = r->pos,
                                         [TOKENS_ORDER] = r->order,
                                         [TOKENS_LABELLED] = r->labelled,
                                         [TOKENS_LABEL] = r->label};
    llm_order(r, g->conf.shape.vocab);
    g->b = (struct batch){.n = r->n,
                          .valid = r->n,
                          .weight = r->answers > 0 ? r->n : r->n_labelled,
                          .tokens = r->at,
                          .labelled = r->n_labelled};
    g->b.arrays[TOKENS_PAIR] = (struct batch_array){
        g->arrays[TOKENS_PAIR], 2 * sizeof(struct pair_answer)};
    must(g->d->ops->to_device(g->d, g->arrays[TOKENS_PAIR], r->answer,
                              sizeof(r->answer), &err),
         &err);
    for (int k = 0; k < TOKENS_LISTS; k++) {
        must(g->d->ops->to_device(g->d, g->arrays[k], from[k], bytes, &err),
             &err);
        g->b.arrays[k] =
            (struct batch_array){g->arrays[k], (size_t)r->S * sizeof(int32_t)};
    }
    must(g->d->ops->sync(g->d, &err), &err);
}

/* conf.shape is read from conf.dir. */
static inline void llm_rig_open(struct llm_rig *g,
                                const struct llama_conf *conf, uint32_t seed)
{
    struct error err = ERROR_INIT;
    memset(g, 0, sizeof(*g));
    g->conf = *conf;
    must(llama_config_read(conf->dir, &g->conf.shape, &err), &err);
    must(test_device(1, &g->d, &err), &err);
    for (int k = 0; k < BATCH_ARRAYS; k++) {
        void *p = NULL;
        must(g->d->ops->alloc(g->d, LLM_TOKENS * sizeof(int32_t), &p, &err),
             &err);
        g->arrays[k] = p;
    }
    must(llama_create(g->d, &g->conf, &g->m, &err), &err);
    must(model_init(g->m, seed, &err), &err);
}

static inline void llm_rig_close(struct llm_rig *g)
{
    model_destroy(g->m);
    for (int k = 0; k < BATCH_ARRAYS; k++)
        g->d->ops->release(g->d, g->arrays[k]);
    g->d->ops->destroy(g->d);
}

/* Both passes; the sum of the losses. */
static inline double llm_pass(struct llm_rig *g, double scale)
{
    struct error err = ERROR_INIT;
    struct model_result x;
    must(model_put(g->m, 11, scale, &err), &err);
    must(model_forward(g->m, &g->b, true, &err), &err);
    must(model_backward(g->m, &g->b, NULL, NULL, &err), &err);
    must(model_result(g->m, &g->b, &x, &err), &err);
    return x.loss_sum;
}

/* The gradients, as doubles, from malloc. */
static inline double *llm_grads(struct llm_rig *g)
{
    struct error err = ERROR_INIT;
    const int64_t n = model_planned(g->m)->params;
    double *v = malloc((size_t)n * sizeof(*v));
    must(g->d->ops->to_host(g->d, v, model_grads(g->m),
                            (size_t)n * dtype_bytes(g->conf.dt), &err),
         &err);
    for (int64_t i = n - 1; i >= 0; i--)
        v[i] = dtype_get(g->conf.dt, v, i);
    return v;
}

/* Moves every parameter away from its start: a B of zero hides mistakes. */
static inline void llm_shake(struct llm_rig *g, uint32_t seed)
{
    struct error err = ERROR_INIT;
    const int64_t n = model_planned(g->m)->params;
    void *v = malloc((size_t)n * sizeof(double));
    struct rng rng;
    rng_seed(&rng, seed);
    must(g->d->ops->to_host(g->d, v, model_params(g->m),
                            (size_t)n * dtype_bytes(g->conf.dt), &err),
         &err);
    for (int64_t i = 0; i < n; i++)
        dtype_set(g->conf.dt, v, i,
                  dtype_get(g->conf.dt, v, i) +
                      0.05 * (2 * rng_uniform(&rng) - 1));
    must(g->d->ops->to_device(g->d, model_params(g->m), v,
                              (size_t)n * dtype_bytes(g->conf.dt), &err),
         &err);
    must(g->d->ops->sync(g->d, &err), &err);
    free(v);
}

#endif
