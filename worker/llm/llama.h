/* llama.h - a Llama as a model of the trainer: kind llm, methods lora, qlora,
 * full, dpo and qat.
 *
 * Three arrays hold it: the frozen base (where adapters are trained, or where
 * it is the reference of dpo), in the run's type; what is trained, with its
 * gradients; activations and work. A pass keeps per layer what the backward
 * pass needs, or with activation checkpointing the layer's input alone, and
 * makes the rest again. Logits exist of labelled tokens alone, some rows at a
 * time.
 *
 *   llama.c           memory: the plan and the arena
 *   llama_shape.c     where tensors lie, and their names
 *   llama_base.c      the weights of a layer, as they are, from four bits, or
 *                     rounded to them
 *   llama_linear.c    a product with its adapters, and its gradients
 *   llama_forward.c   embedding and layers
 *   llama_head.c      output layer and loss, in chunks
 *   llama_pairs.c     the loss of preference pairs
 *   llama_backward.c  the gradients
 *   llama_shard.c     sharded weights and gradients
 *   llama_state.c     ranges, export and import
 *   llama_load.c      from a model directory
 *   llama_save.c      to an adapter's, or a model's, directory
 *   llama_sample.c    answers
 *   pair_reference.c  the reference's log p of all pairs, once
 *   llama_kind.c      from a job's specification
 */
#ifndef MGPU_WORKER_LLM_LLAMA_H
#define MGPU_WORKER_LLM_LLAMA_H

#include "jobs/base/buf.h"
#include "worker/comm/comm.h"
#include "worker/llm/batches/token_batches.h"
#include "worker/llm/config/llama_config.h"
#include "worker/llm/files/adapter_ranks.h"
#include "worker/model.h"
#include "worker/model_kind.h"

struct llama_conf {
    struct llama_config shape;
    enum dtype dt;
    bool is_full; /* all weights; else adapters with the four below */
    int32_t rank;
    double alpha, dropout;
    uint32_t targets;              /* bits of enum lora_target */
    enum spec_quantizer quantizer; /* of the frozen base; 8da4w: of passes */
    int32_t groupsize, fake_quant_after; /* 8da4w: see struct spec_quantizing */
    int32_t batch, batch_eval;           /* rows of a pass, at most */
    int32_t row_tokens;                  /* tokens of a row, at most */
    bool recomputes;                     /* activation checkpointing */
    bool in_bwd; /* full: gradients are handed over layer by layer */
    /* Method dpo: samples are pairs, with the three below. */
    bool pairs;
    double beta, label_smoothing;
    bool is_precomputed; /* batches have log p of the reference */
    bool generates;      /* only llama_generate(): no gradients */
    int32_t shared_by;   /* ranks of the sharded weights; 0, 1: none */
    struct comm *comm;   /* of these, over the device's memory; borrowed */
    int32_t head_rows;   /* rows of logits at a time; 0: chosen */
    int32_t unit_rows;   /* as in struct llama_shape; 0: chosen */
    /* Sources of the base, for init(). Borrowed; outlive the model. */
    const char *dir;
    const struct spec_list *files; /* NULL: all */
    const char *adapter;           /* NULL: a new one */
    /* Of its linears; rank is then that without a pattern. The model has a copy
     * of its own. */
    struct adapter_ranks ranks;
    const char *tokenizer;   /* NULL: in dir */
    enum spec_prompt prompt; /* its format, which says what ends an answer;
                              * not PROMPT_AUTO */
};

/* The model that a job trains on such data. Rank, alpha and linears of an
 * adapter that it begins with are those of its files.
 * in   shape  NULL: that of config.json in checkpoint_dir
 * out  ret    the caller clears it
 * err  ERR_INVAL rows longer than the model's positions, another model_type,
 *      another rank, alpha or linears than the adapter has; those of
 *      llama_config_read() and adapter_read() */
int llama_conf_of_job(const struct job_spec *spec, enum dtype dt,
                      const struct batch_info *data,
                      const struct llama_config *shape, struct llama_conf *ret,
                      struct error *err) MUST_CHECK;

void llama_conf_clear(struct llama_conf *c);
/* Sets rank, alpha, targets and ranks to those of the files in c->adapter, for
 * a model of c->shape.
 * err  those of adapter_read() */
int llama_conf_adapter(struct llama_conf *c, struct error *err) MUST_CHECK;

/* err  ERR_INVAL a value is out of range; it is named */
int llama_plan(const struct llama_conf *conf, struct model_plan *ret,
               struct error *err) MUST_CHECK;
/* Which linears a pass rounds, and which not and why: "6 linears to 8da4w in
 * groups of 32, but not down_proj (172 inputs)"; "" where it rounds none. */
void llama_rounded_words(const struct llama_conf *conf, char *ret, size_t cap);
/* The device is borrowed and outlives the model. With shared_by every rank
 * calls it.
 * err  as llama_plan(); ERR_NOMEM */
int llama_create(struct device *d, const struct llama_conf *conf,
                 struct model **ret, struct error *err) MUST_CHECK;

/* For pairs: log p [2 b->n] of each answer by the reference, with the weights
 * as they are now. Discards the result of the last pass. */
int llama_reference(struct model *m, const struct batch *b, double *ret,
                    struct error *err) MUST_CHECK;
/* Digest of the base's values, in the run's type; 0: not loaded. */
int64_t llama_digest(const struct model *m);
const struct llama_config *llama_config_of(const struct model *m);

/* For tests and samples: logits [vocab] of the token at `row` of the list of
 * n tokens, which are one document. */
int llama_logits(struct model *m, const int32_t *ids, int32_t n, int32_t row,
                 double *ret, struct error *err) MUST_CHECK;

/* How an answer is made. Zeroed: greedy. */
struct llama_choice {
    double temperature; /* 0: the likeliest token */
    int32_t top_k;      /* of so many; 0: of all */
    double top_p;       /* of the likeliest with this probability; 0: all */
    uint32_t seed;
    const int32_t *ends; /* tokens that end it, and are not in it */
    int32_t n_ends;
    bool no_cache; /* compute all tokens again for each */
    /* So many of the first ids are as in the model's last llama_generate(),
     * which left keys and values of them: they are not computed again. It is
     * set to how many have these now, also when the call fails. NULL: none. */
    int32_t *kept;
    /* Each token, as soon as it is known; may be NULL. A failure ends it. */
    int (*each)(void *arg, int32_t id, struct error *err);
    void *arg;
};

/* Tokens behind the n in ids, up to `most` in all. Keys and values are kept,
 * unless activation checkpointing leaves no room for them.
 * inout ids  room for `most` */
int llama_generate(struct model *m, const struct llama_choice *c, int32_t *ids,
                   int32_t n, int32_t most, int32_t *ret_n,
                   struct error *err) MUST_CHECK;

extern const struct model_kind llama_kind;

#endif
