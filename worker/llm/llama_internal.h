/* llama_internal.h - the shared declarations of llama*.c. */
#ifndef MGPU_WORKER_LLM_LLAMA_INTERNAL_H
#define MGPU_WORKER_LLM_LLAMA_INTERNAL_H

#include "kernels/device.h"
#include "worker/comm/wait_times.h"
#include "worker/llm/llama.h"
#include "worker/llm/llama_base.h"
#include "worker/llm/llama_ends.h"
#include "worker/llm/llama_head.h"
#include "worker/llm/llama_shape.h"
#include "worker/llm/llama_shard.h"

/* Activations of a layer that the backward pass needs. All T but where it says
 * A. */
struct llama_acts {
    void *x;             /* [M, hidden]: its input */
    void *rstd1, *rstd2; /* [M] A */
    void *qkv;           /* [M, (heads + 2 kv_heads) * head_dim], rotated */
    /* q, then k, before the norms of their heads: [M, heads, head_dim] and
     * [M, kv_heads, head_dim], and what these divide by: [M, heads] and
     * [M, kv_heads] A. With such norms alone. */
    void *heads, *heads_rstd;
    void *attended;      /* [M, heads * head_dim] */
    void *lse;           /* [M, heads] A */
    void *mid;           /* [M, hidden]: between attention and MLP */
    void *gate_up;       /* [M, 2 ffn] */
    void *low[PRODUCTS]; /* [M, lows]: of adapters, x A^T */
};

/* Addresses in the arena; llama.c sets all of them twice, first from address 0
 * to learn the sizes. M is the tokens of the largest batch. */
struct llama_arena {
    void *base; /* [shape.weights] T, or a share; see llama_has_base(). In
                 * four bits, what stays: llama_base.h */
    struct nf4 packed;    /* of the layers' other tensors */
    void *params, *grads; /* [plan.params] T; grads as plan.parts says */
    void *gathered;       /* [2, llama_slot_elements()]; with shards alone */

    struct llama_acts *acts; /* [layers] host */
    void *last;              /* [M, hidden]: what the last norm reads */
    void *last_rstd;         /* [M] A */
    void *labelled;          /* [M, hidden]: gradient of labelled tokens */
    void *loss;              /* [M] A */
    int32_t *hit;            /* [M]; behind loss, to be fetched with it */
    void *sums;     /* [M, 2] A: llm_ops.xent_sums(); sharded gradients alone */
    void *head_low; /* [chunk, rank]: low of the output layer */
    uint64_t *seed; /* [1] of dropout */
    double *scale;  /* [2] of the gradient; 1 */
    /* For pairs: each answer's log p by the model and by the reference, and its
     * mean logit [2 pairs] A, one behind the other; each labelled token's mean
     * logit, and its factor in the gradient [M] A. */
    void *log_p, *logit, *reference, *logits_mean, *factor;
    void *rotation;     /* [row_tokens, head_dim / 2, 2] A */
    int32_t *ids, *pos; /* [row_tokens]: of a sample */

    void *normed;       /* [M, hidden] */
    void *delta;        /* [M, hidden] */
    void *wide;         /* [M, llama_widest()]: the MLP's product */
    void *wide_grad;    /* its gradient; then that of `attended` */
    void *qkv_grad;     /* as qkv */
    void *dres, *dnorm; /* [M, hidden] */
    void *dlow;         /* [M, 3 rank]; lora alone */
    void *dropped;      /* [M, llama_widest()]; lora_dropout alone */
    void *norm_grad;    /* [llama_norm_widest()]: sharded gradients alone */
    void *opened;       /* [shape.layer_weights]: written out, or rounded */
    void *opened_head;  /* [shape.unit_rows, hidden]: rounded */
    void *rounded;      /* [M, llama_base_widest()]: what a product reads */
    void *chunk;        /* [head_rows, hidden] */
    void *logits;       /* [head_rows, vocab] */
};

struct llama {
    struct model model;
    struct device *d;
    struct llama_conf conf;
    struct llama_shape shape;
    struct model_plan plan;
    struct llama_arena mem;
    struct llama_base base;
    const void *layer; /* the weights of the open layer; NULL: none is */
    int32_t open;
    int32_t open_piece; /* of the output layer, rounded; -1: none is */
    bool rounds;        /* 8da4w, in the passes from now on */
    double attention_scale;
    int64_t most;   /* M */
    void *memory;   /* of the arena; owned */
    void *host;     /* staging for results; owned */
    int64_t digest; /* of the frozen base's values; 0: not loaded */
    struct tokenizer *tokenizer; /* of samples; opened when needed; owned */
    struct llama_ends ends;      /* read with it */

    struct shards shards; /* of the weights; n 0: they are whole */
    size_t share_size;    /* bytes of one of their elements */
    struct shard_exchange exchange;
    struct llama_slot slots[2];
    int32_t slot; /* whose weights are computed with */
    struct wait_times waits;
    /* State of the current backward pass. */
    int (*on_ready)(void *arg, int64_t first, int64_t count, struct error *err);
    void *arg;
    int32_t handed; /* unit whose sum is on its way to on_ready(); -1: none */

    /* State of the last forward(). */
    int32_t n;      /* 0: there was none */
    int64_t tokens; /* rows of the list */
    int64_t first;  /* of a sample: tokens before them whose qkv is kept */
    int32_t n_labelled;
    int32_t chunks; /* of labelled tokens, of the rank that has most */
    bool train;
    bool trained;      /* train, as it was */
    bool is_reference; /* pairs: the pass is the reference's */
    bool is_fresh;     /* nothing has been learned: pairs have loss log 2 */
};

static inline struct llama *llama_of(struct model *m)
{
    return (struct llama *)m; /* its first member */
}

/* The most values per token that a product reads. */
static inline int32_t llama_widest(const struct llama_shape *s)
{
    int32_t most = s->c.hidden > s->c.ffn ? s->c.hidden : s->c.ffn;
    int32_t heads = s->c.heads * s->c.head_dim;
    return most > heads ? most : heads;
}

/* The element at an offset of an array of T. */
static inline void *llama_at(const struct llama *m, void *p, int64_t offset)
{
    return (char *)p + (size_t)offset * dtype_bytes(m->conf.dt);
}
/* Weights that are not trained: the base of adapters, or the reference of pairs
 * beside weights that are. */
static inline bool llama_has_base(const struct llama_conf *c)
{
    return !c->is_full || (c->pairs && !c->is_precomputed);
}

/* ---- llama_forward.c -----------------------------------------------------
 */

int llama_put(struct model *model, uint64_t seed, double scale,
              struct error *err) MUST_CHECK;
int llama_forward(struct model *model, const struct batch *b, bool train,
                  struct error *err) MUST_CHECK;
void llama_repeat(struct model *model, const struct batch *b, bool train);
void llama_floor(const struct model *model, const struct batch *b,
                 struct card_floor *io);
/* Layer l; leaves its output as the sum of acts[l].mid and mem.delta.
 * in   again  from acts[l].x, for the backward pass, without the output; else
 *             from what the layer before left */
int llama_layer(struct llama *m, int32_t l, const int32_t *pos, bool train,
                bool again, struct error *err) MUST_CHECK;
/* All layers over m->tokens tokens, and the last norm: leaves normed. */
int llama_layers(struct llama *m, const int32_t *ids, const int32_t *pos,
                 bool train, struct error *err) MUST_CHECK;
/* normed = the norm of acts[l].x, again. */
int llama_norm_again(struct llama *m, int32_t l, struct error *err) MUST_CHECK;

/* ---- llama_backward.c ----------------------------------------------------
 */

int llama_backward(struct model *model, const struct batch *b,
                   int (*on_ready)(void *arg, int64_t first, int64_t count,
                                   struct error *err),
                   void *arg, struct error *err) MUST_CHECK;

/* ---- llama_load.c, llama_state.c, llama_save.c, llama_sample.c ------------
 */

int llama_init(struct model *model, uint32_t seed,
               struct error *err) MUST_CHECK;
/* How many ranges llama_ranges() has of whole parameters. */
int32_t llama_range_count(const struct llama_shape *s);
int32_t llama_ranges(const struct model *model, struct model_range *ret,
                     int32_t cap);
int llama_export(struct model *model,
                 int (*each)(void *arg, const struct model_tensor *t,
                             struct error *err),
                 void *arg, struct error *err) MUST_CHECK;
int llama_import(struct model *model, const struct model_tensor *t,
                 struct error *err) MUST_CHECK;
int llama_export_marks(struct model *model,
                       int (*each)(void *arg, const struct model_tensor *t,
                                   struct error *err),
                       void *arg, struct error *err) MUST_CHECK;
bool llama_is_adapter(const struct model *model);
int llama_save_card(struct model *model, const char *dir,
                    const struct model_facts *f, struct error *err) MUST_CHECK;
int llama_save_config(struct model *model, const char *dir,
                      struct error *err) MUST_CHECK;
int llama_save(struct model *model, const char *dir, const void *weights,
               enum dtype dt, struct error *err) MUST_CHECK;
int llama_sample(struct model *model, const char *prompt,
                 const struct model_choice *c, struct buf *out,
                 struct error *err) MUST_CHECK;

#endif
