/* llama_shard.h - sharded weights and their gradients. Where the weights are
 * whole, the functions about units do nothing. A base in four bits travels as
 * it is, and each rank expands it (llama_base.h).
 */
#ifndef MGPU_WORKER_LLM_LLAMA_SHARD_H
#define MGPU_WORKER_LLM_LLAMA_SHARD_H

#include "worker/comm/shard_exchange.h"
#include "worker/llm/llama.h"
#include "worker/llm/llama_shape.h"

struct llama;
struct llama_base;

/* Room for a unit that is whole: its weights, its gradient, or both: while the
 * one takes the place of the other, or of a piece of the output layer one
 * behind the other. */
struct llama_slot {
    void *data;
    int32_t unit, grads; /* -1: none */
    int64_t grads_at;    /* where the gradient begins, elements */
    /* Transfers in flight, -1: none: the one that hands out the sum of the
     * gradient that was here, and then the one that gathers weights. */
    int reduce, gather;
};

/* A tensor of the weights: the base's, or what is trained. Its unit was
 * needed. */
void *llama_weight_at(const struct llama *m, int64_t offset);
/* The same of its gradient; with method full, where the unit was begun. */
void *llama_grad_at(const struct llama *m, int64_t offset);

/* A unit that is whole. */
void *llama_unit_whole(const struct llama *m, int32_t unit);
/* Loading: begin() gives the unit a slot full of zeros, keep() takes this
 * rank's chunk of it. */
int llama_unit_begin(struct llama *m, int32_t unit,
                     struct error *err) MUST_CHECK;
int llama_unit_keep(struct llama *m, int32_t unit,
                    struct error *err) MUST_CHECK;

/* Makes a unit whole; it stays so until another unit but the next one is
 * needed. */
int llama_need(struct llama *m, int32_t unit, struct error *err) MUST_CHECK;
/* The most of all ranks, which all call it before a pass. */
int llama_most_of(struct llama *m, int64_t *x, struct error *err) MUST_CHECK;
/* Begins to: the unit is the next that is needed. Where its slot is still
 * handed out and collectives are not in order (comm.h), soon() leaves it to a
 * later call; ahead() waits. */
int llama_ahead(struct llama *m, int32_t unit, struct error *err) MUST_CHECK;
int llama_soon(struct llama *m, int32_t unit, struct error *err) MUST_CHECK;
/* The weights have changed. */
void llama_forget(struct llama *m);
/* The weights of the unit that was needed last are not needed any more. */
void llama_drop(struct llama *m);
/* Whether the gradient is sharded, too. */
bool llama_shares_grads(const struct llama *m);
/* All of the unit's gradient is written behind one of three. begin() takes the
 * slot that was not used last. With the others the unit is what was needed
 * last. beside() is for a piece of the output layer: weights and gradient share
 * its slot. With replace() each tensor of the gradient takes the place of its
 * weights, and is written when the pass has read these for the last time.
 * end() begins to hand out the gradient's sum over the ranks, add() adds it to
 * what was handed out. */
int llama_grads_begin(struct llama *m, int32_t unit,
                      struct error *err) MUST_CHECK;
void llama_grads_beside(struct llama *m, int32_t unit);
void llama_grads_replace(struct llama *m, int32_t unit);
int llama_grads_end(struct llama *m, int32_t unit,
                    struct error *err) MUST_CHECK;
int llama_grads_add(struct llama *m, int32_t unit,
                    struct error *err) MUST_CHECK;
/* All sums are there when it returns. */
int llama_grads_finish(struct llama *m, struct error *err) MUST_CHECK;

/* Values of the weights; a rank keeps its share. */
int llama_put_weights(struct llama *m, int64_t first, int64_t count,
                      const void *host, struct error *err) MUST_CHECK;
/* Writes values of the parameters. If they are sharded, rank 0 alone calls it
 * (shard_exchange.h). */
int llama_fetch_params(struct llama *m, int64_t first, int64_t count,
                       void *host, struct error *err) MUST_CHECK;

/* out  ret  n 0: the weights are whole; the caller clears it. Its elements are
 *           the weights, or bytes of a base in four bits */
int llama_shards_of(const struct llama_conf *conf, const struct llama_shape *s,
                    const struct llama_base *b, int32_t rank,
                    struct shards *ret, struct error *err) MUST_CHECK;
size_t llama_share_size(const struct llama_base *b, enum dtype dt);
/* Elements of a slot: the largest unit, or a trained piece and its gradient. */
int64_t llama_slot_elements(const struct llama_shape *s,
                            const struct shards *shards);
/* Behind the arena. */
void llama_shard_open(struct llama *m);
/* Gradients that are there at a time where they are handed over in parts. */
int64_t llama_parts_of(const struct llama_conf *conf,
                       const struct llama_shape *s,
                       const struct shards *shards);
void *llama_part(struct model *model, int64_t first);
struct shard_exchange *llama_exchange(struct model *model);
/* A pass begins; a forward pass forgets the times of those before. */
void llama_waits_begin(struct llama *m, bool is_backward);
void llama_waited(struct model *model, double *ret_forward_s,
                  double *ret_backward_s);

#endif
