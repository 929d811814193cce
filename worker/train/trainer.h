/* trainer.h - a training job on one rank, from the data to the last
 * checkpoint.
 *
 * Every rank holds the whole model. How samples reach the ranks is said in
 * trainer_share.c; gradients are averaged over the ranks in each iteration,
 * or with dp summed on rank 0, which then has the only optimizer. Rank 0's
 * parameters are the start. Batch norm uses each rank's own batch, and rank
 * 0's running statistics (its state of the model) are the model's: torch's
 * DistributedDataParallel broadcasts them before each forward pass, which only
 * evaluation can tell from broadcasting them before each evaluation, as we do.
 *
 * An iteration is one change of the weights. With gradients that are added
 * up over k batches, R ranks do what R * k would: the same gradient, and the
 * same losses to rounding for every R of the same R * k. If R * k is 2,
 * the same bits: a + b is b + a.
 *
 * Everything is deterministic: the same ranks give the same bits, on any
 * number of threads, and so does a run that was resumed. There is no faster
 * mode that is not.
 *
 * A signal is acted on between two iterations, by all ranks at the same one:
 * the wish to stop, or for a checkpoint, travels with the sum of the losses.
 * An evaluation is given up between two batches, and is what a resumed run
 * begins with.
 */
#ifndef MGPU_WORKER_TRAIN_TRAINER_H
#define MGPU_WORKER_TRAIN_TRAINER_H

#include <signal.h>
#include <stdint.h>

#include "jobs/base/clock.h"
#include "jobs/base/error.h"
#include "jobs/spec/spec.h"
#include "worker/comm/comm.h"
#include "worker/model_kind.h"
#include "worker/report/reporter.h"

/* A plan that was refused because it does not fit the memory, of one rank. */
struct train_refusal {
    int64_t needed_bytes, available_bytes; /* needed 0: none was */
    bool is_host; /* memory of the machine, which its ranks share; else the
                     memory of a GPU */
};

struct train_env {
    const struct job_spec *spec;
    const struct model_kind *kind; /* what spec trains */
    const char *ckpt_dir;
    const char *parent;  /* the job that train.resume_from is of; "" or NULL: it
                          * is not known */
    const char *out_dir; /* exists; for what others can use */
    struct comm *comm;   /* host memory */
    struct reporter *reporter;
    const struct clock *clock;
    int32_t gpus_per_node;             /* 0: none are ours */
    const volatile sig_atomic_t *stop; /* not 0: the number of a signal */
    volatile sig_atomic_t *save;       /* not 0: a checkpoint, and go on */
    struct train_refusal *refusal;     /* set with ERR_NOMEM; NULL: not said */
};

enum train_end { TRAIN_DONE, TRAIN_STOPPED, TRAIN_FENCED };

struct train_result {
    enum train_end end;
    int64_t iteration;
    double eval_accuracy; /* of the last epoch; NAN: none was evaluated */
    char why[240];        /* when done: "", or what was left out or failed */
};

/* Opens OpenBLAS where the host will compute, which changes the environment for
 * a moment: call it before the process has threads, for a job of any kind. A
 * failure is met again by trainer_run(). */
void trainer_prepare(const struct job_spec *spec, int32_t gpus_per_node);

/* Every rank calls it; all return the same, or one returns -1 and must end
 * the job (comm's abort), for the others may be waiting for it.
 * err  ERR_INVAL   the data does not fit the specification
 *      ERR_NOMEM   it does not fit the memory
 *      ERR_UNAVAIL train.device is cuda and there is none
 *      ERR_EXTERN  the device or MPI failed, ERR_TIMEOUT a rank is gone
 *      ERR_STATE   the loss is not a number
 *      ERR_IO      the result cannot be written, or a checkpoint, with
 *                  checkpoint.on_error: fail */
int trainer_run(const struct train_env *env, struct train_result *ret,
                struct error *err) MUST_CHECK;

#endif
