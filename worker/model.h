/* model.h - the functions of a network that the trainer calls: the seam between
 * the two.
 *
 * Parameters lie in one flat array, as gradients and optimizer state do, so
 * that one all-reduce, one optimizer call or one broadcast covers any
 * contiguous range. Weights that are not trained (the base of an adapter)
 * are not among them: they are the model's own affair.
 *
 * T is the storage type of parameters and gradients, A its accumulator type
 * (kernels/device.h). All device memory is planned before any of it is
 * allocated; a pass allocates nothing.
 *
 * A training pass is model_put(), with what changes between two passes, then
 * model_forward() and model_backward(), which only enqueue, and model_result(),
 * which waits for the device. The two in the middle call nothing that cannot be
 * captured (kernels/device.h). A pass that was captured is repeated with
 * model_put(), a launch of the graph, and model_repeat() in their place.
 *
 * tests/contract/model.c holds every implementation to this text.
 */
#ifndef MGPU_WORKER_MODEL_H
#define MGPU_WORKER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "kernels/device.h"
#include "worker/batch.h"
#include "worker/model_plan.h"
#include "worker/model_values.h"

struct model;
struct card_floor;     /* worker/process/card_limits.h */
struct shard_exchange; /* worker/comm/shard_exchange.h */

struct model_ops {
    /* Extra values of an iteration, names ended by NULL; NULL: none. The
     * trainer reports the mean of each over all that an iteration's loss is
     * averaged over, with the iteration. At most MODEL_VALUES. */
    const char *const *values;

    /* Losses are means over labelled tokens. Training reports grad_norm,
     * label_tokens and val_loss as values, and no accuracy. */
    bool is_language;

    /* A pass over a batch of the planned size enqueues the same calls every
     * time: it can be captured and repeated. */
    bool can_repeat;

    bool is_sharded; /* passes and sample() are collectives of all ranks */
    /* Optional: rank 0's access to sharded parameters, array 0 of it. params()
     * is this rank's shard, and backward() sums that of grads(). */
    struct shard_exchange *(*exchange)(struct model *m);
    /* Optional: how long the device only waited for other ranks in the last
     * forward pass and in its backward pass. After result(). */
    void (*waited)(struct model *m, double *ret_forward_s,
                   double *ret_backward_s);

    void (*destroy)(struct model *m);

    /* Parameters and state to start training from: drawn, or read where the
     * job says. The same bits for a given seed everywhere. */
    int (*init)(struct model *m, uint32_t seed, struct error *err);

    /* Optional: training begins with init()'s values, not with those of a
     * checkpoint: result() of the first pass may fail by what holds then. */
    void (*begin)(struct model *m);

    /* Optional: so many iterations are done; passes may compute otherwise from
     * then on, but those of a model that can_repeat enqueue the same calls. */
    void (*reached)(struct model *m, int64_t iterations);

    /* in  seed   of the next passes' dropout
     *     scale  gradients are scale * d(sum of losses)/dp */
    int (*put)(struct model *m, uint64_t seed, double scale, struct error *err);

    /* Enqueues the forward pass over b, at most as many samples as planned.
     * The arrays of b are borrowed until backward() or the next forward().
     * in   train  with dropout, and with statistics of the batch; it may write
     *             gradients, which stay until backward() has been called
     * err  ERR_INVAL b has too many samples or too few */
    int (*forward)(struct model *m, const struct batch *b, bool train,
                   struct error *err);

    /* Enqueues the backward pass over b, the batch of the last forward(train
     * = true), once; writes every gradient that forward() did not.
     * in   on_ready  NULL, or called whenever the calls that make the
     *                gradients [first, first + count) final are enqueued:
     *                each gradient once, from the last to the first, so that
     *                an all-reduce can overlap the rest; a share at the end,
     *                whole, or with part() in parts. When it fails,
     *                backward() does, with its error.
     * err  ERR_STATE no such forward pass */
    int (*backward)(struct model *m, const struct batch *b,
                    int (*on_ready)(void *arg, int64_t first, int64_t count,
                                    struct error *err),
                    void *arg, struct error *err);

    /* Changes host memory as a forward pass over b does, or with train as both
     * passes do, without running them. */
    void (*repeat)(struct model *m, const struct batch *b, bool train);

    /* Result of the last forward pass, over b. Waits for the device.
     * err  ERR_STATE no such forward pass; *ret is as it was */
    int (*result)(struct model *m, const struct batch *b,
                  struct model_result *ret, struct error *err);

    /* Adds the least time that both passes over b take on a card. */
    void (*floor)(const struct model *m, const struct batch *b,
                  struct card_floor *io);

    /* Device pointers, valid until destroy(): [plan.params] T. */
    void *(*params)(struct model *m);
    void *(*grads)(struct model *m);
    /* With plan.parts: address of the gradients that on_ready() was called
     * with, until it returns. It may change their parameters. */
    void *(*part)(struct model *m, int64_t first);
    /* [plan.state] A: what a forward pass in training changes beside
     * activations (the running statistics of batch norm), so that rank 0's
     * can be given to all ranks, and a bad iteration's taken back. NULL
     * where plan.state is 0. */
    void *(*state)(struct model *m);

    const struct model_plan *(*planned)(const struct model *m);

    /* The parameters in their order, covering all. Returns how many there
     * are, and gives the first `cap` of them; with cap 0, ret may be NULL. */
    int32_t (*ranges)(const struct model *m, struct model_range *ret,
                      int32_t cap);

    /* Calls each() for every tensor of a checkpoint, in the order of the file:
     * name, shape and values. t is valid during the call. With exchange(),
     * rank 0 alone calls it, import() and save(); the others serve it. */
    int (*export)(struct model *m,
                  int (*each)(void *arg, const struct model_tensor *t,
                              struct error *err),
                  void *arg, struct error *err);
    /* Optional: the same for what only a resume looks at, to refuse what does
     * not fit: such tensors are not among those of export(), and import()
     * checks them. Any rank may call it. */
    int (*export_marks)(struct model *m,
                        int (*each)(void *arg, const struct model_tensor *t,
                                    struct error *err),
                        void *arg, struct error *err);
    /* Optional: what export() gives is an adapter. */
    bool (*is_adapter)(const struct model *m);
    /* Optional: writes what lies beside the tensors of a checkpoint, so that
     * other programs load its directory as it is; each file is synced, the
     * directory need not be. It may write the files that checkpoint_remove()
     * names. */
    int (*save_config)(struct model *m, const char *dir, struct error *err);
    /* Imports a tensor by name; the shape must be this model's. Converts
     * between all floating point types.
     * err  ERR_NOTFOUND no such name, ERR_INVAL another shape or type; both
     *      are named */
    int (*import)(struct model *m, const struct model_tensor *t,
                  struct error *err);

    /* Describes the model in a line without newline: "MobileNetV2: 3504872
     * parameters, 1000 classes". */
    void (*describe)(const struct model *m, char *ret, size_t cap);

    /* Optional: writes what the job is for into dir, which exists, for
     * others to use: an adapter, a model. Without it the checkpoint is all
     * that there is.
     * in   weights  [plan.params] of type dt, device: the parameters, or
     *               those in fp32 behind them */
    int (*save)(struct model *m, const char *dir, const void *weights,
                enum dtype dt, struct error *err);

    /* Optional: README.md beside it, a model card without a path or a name of
     * a user. A README.md that is no card of ours stays. */
    int (*save_card)(struct model *m, const char *dir,
                     const struct model_facts *f, struct error *err);

    /* Optional: appends the model's answer to a prompt. Between two passes; the
     * result of the last one is lost.
     * err  ERR_INVAL the prompt is too long, or has no token */
    int (*sample)(struct model *m, const char *prompt,
                  const struct model_choice *c, struct buf *out,
                  struct error *err);
};

/* First member of every implementation's own struct. */
struct model {
    const struct model_ops *ops;
};

#endif
