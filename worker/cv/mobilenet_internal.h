/* mobilenet_internal.h - the shared declarations of this folder. */
#ifndef MGPU_WORKER_CV_MOBILENET_INTERNAL_H
#define MGPU_WORKER_CV_MOBILENET_INTERNAL_H

#include "worker/cv/arch.h"
#include "worker/cv/image_batches.h"

/* Activations of a row that the backward pass needs. */
struct acts {
    void *z;           /* [rows, cout] T, the convolution's output */
    void *y;           /* [rows, cout] T, after norm and skip; NULL where the
                          next row's convolution makes it as it reads */
    void *mean, *rstd; /* [cout] A, of the batch */
    void *sums;        /* [2, cout] A, of the norm's gradient */
};

enum { MODEL_DY = 3 }; /* gradients of activations alive at the same time */

/* Addresses in the arena; mobilenet.c sets all of them twice, first from
 * address 0 to learn the sizes. */
struct arena {
    void *params, *grads; /* [arch.params] T */
    void *running;        /* [arch.running] A */
    struct acts acts[ARCH_LAYERS];
    void *col;    /* the stem's patches, [rows, stem_columns] T */
    void *wide;   /* [cout, stem_columns] T, where 9 * channels are padded: the
                     stem's weights; in backward, their gradient */
    void *pooled; /* [batch, features] T, before dropout and after it */
    void *dropped;
    void *logits;   /* [batch, classes] T; in backward, their gradient */
    void *loss;     /* [batch] A */
    int32_t *hit;   /* [batch]; behind loss, to be fetched with it */
    uint64_t *seed; /* [1] of dropout */
    double *scale;  /* [1] of the gradient */
    void *dpooled;
    void *dy[MODEL_DY]; /* [the largest activation] T */
};

struct mobilenet {
    struct model model;
    struct device *d;
    struct mobilenet_conf conf;
    struct arch arch;
    struct model_plan plan;
    struct arena mem;
    int32_t stem_columns;         /* device_columns() of 9 * channels */
    void *memory;                 /* of the arena; owned */
    void *host;                   /* staging for results; owned */
    int64_t tracked[ARCH_LAYERS]; /* num_batches_tracked */

    /* State of the last forward(). */
    const int32_t *label; /* borrowed until backward() */
    int32_t n;            /* 0: there was none */
    bool train;
    bool counts; /* result() has not counted it in `tracked` */
};

static inline struct mobilenet *mobilenet_of(struct model *m)
{
    return (struct mobilenet *)m; /* its first member */
}

/* Members of its model_ops, by file. */
int mobilenet_put(struct model *model, uint64_t seed, double scale,
                  struct error *err) MUST_CHECK;
int mobilenet_forward(struct model *model, const struct batch *b, bool train,
                      struct error *err) MUST_CHECK;
void mobilenet_repeat(struct model *model, const struct batch *b, bool train);

int mobilenet_backward(struct model *model, const struct batch *b,
                       int (*on_ready)(void *arg, int64_t first, int64_t count,
                                       struct error *err),
                       void *arg, struct error *err) MUST_CHECK;

int mobilenet_init(struct model *model, uint32_t seed,
                   struct error *err) MUST_CHECK;

void mobilenet_floor(const struct model *model, const struct batch *b,
                     struct card_floor *io);

int mobilenet_export(struct model *model,
                     int (*each)(void *arg, const struct model_tensor *t,
                                 struct error *err),
                     void *arg, struct error *err) MUST_CHECK;
int mobilenet_import(struct model *model, const struct model_tensor *t,
                     struct error *err) MUST_CHECK;

static inline int64_t layer_rows(const struct layer *l, int32_t n)
{
    return (int64_t)n * l->out_side * l->out_side;
}

/* The output of a block, which is narrow, is read three times: as the next
 * row's input, by a skip, and in the backward pass. The last row's is pooled.
 * A narrow network has a skip from the stem: as many channels as block 1. */
static inline bool row_keeps_y(const struct arch *a, int32_t i)
{
    const struct layer *l = &a->layers[i];
    return l->cap <= 0 || l->is_kept || i == ARCH_LAYERS - 1;
}

/* The element at an offset of an array of T, of A. */
static inline void *at_t(const struct mobilenet *m, void *p, int64_t offset)
{
    return (char *)p + (size_t)offset * dtype_bytes(m->conf.dt);
}
static inline void *at_a(const struct mobilenet *m, void *p, int64_t offset)
{
    return (char *)p + (size_t)offset * dtype_acc_bytes(m->conf.dt);
}

/* The norm of row i, by the batch's statistics or by the running ones. */
static inline struct norm row_norm(const struct mobilenet *m, int32_t i,
                                   bool train)
{
    const struct layer *l = &m->arch.layers[i];
    return (struct norm){
        .mean = train ? m->mem.acts[i].mean : at_a(m, m->mem.running, l->mean),
        .rstd = m->mem.acts[i].rstd,
        .gamma = at_t(m, m->mem.params, l->gamma),
        .beta = at_t(m, m->mem.params, l->beta),
        .cap = l->cap,
    };
}

static inline struct conv3 layer_conv3(const struct layer *l, int32_t n)
{
    return (struct conv3){
        .N = n,
        .H = l->side,
        .W = l->side,
        .C = l->cin,
        .OH = l->out_side,
        .OW = l->out_side,
        .stride = l->stride,
    };
}

#endif
