/* trainer_internal.h - shared declarations of trainer*.c. */
#ifndef MGPU_WORKER_TRAIN_TRAINER_INTERNAL_H
#define MGPU_WORKER_TRAIN_TRAINER_INTERNAL_H

#include <stdbool.h>

#include "worker/batch.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/comm/buckets.h"
#include "worker/model_call.h"
#include "worker/profile/profile.h"
#include "worker/train/device_graph.h"
#include "worker/train/ema.h"
#include "worker/train/optimizer.h"
#include "worker/train/sample_times.h"
#include "worker/train/sol.h"
#include "worker/train/trainer.h"

/* A rank that is alive answers within this: others wait for rank 0 while it
 * writes a checkpoint, for which the daemon gives it an hour, too (12 times
 * watchdog.stall_min). The daemon ends one that hangs otherwise much sooner;
 * one that died makes mpirun end the job at once. */
#define TRAIN_DEADLINE_S 3600.0

/* Moments of an iteration. */
enum phase {
    PHASE_LOAD,     /* before the batch is on its way to the device */
    PHASE_FORWARD,  /* it is there */
    PHASE_BACKWARD, /* the forward pass is over */
    PHASE_DONE,     /* the backward pass is over */
    PHASE_UPDATE,   /* before the change of the weights */
    PHASE_END,
    PHASES
};

/* Both passes of one batch. The first, the last and the other batches of an
 * iteration differ in what they do with the gradients. */
enum { PASS_KINDS = 3 };
struct pass {
    struct replay replay;
    struct batch_array arrays[BATCH_ARRAYS]; /* of what was captured */
};

struct trainer {
    const struct train_env *env;
    const struct job_spec *spec;
    enum dtype dt;
    struct device *dev;
    struct comm *comm; /* over the device's memory */
    struct batch_source *source;
    struct batch_info data; /* what it says of itself */
    /* Streams of samples: this rank's are `first` to first + parts - 1, one
     * for each batch of an iteration. */
    int32_t first, parts, streams;
    int64_t bad; /* samples left out since the last evaluation */
    int32_t bad_named, bad_epoch;
    struct model *model;
    struct shard_exchange *exchange; /* NULL: each rank has all parameters */
    struct optimizer optimizer;
    struct ema ema;
    struct mixed mixed;
    struct buckets buckets;
    void *own[BATCH_ARRAYS]; /* dp: [batch] of each array, this rank's */
    void *partial; /* [params] T: gradients so far; NULL: parts is 1 */
    void *state;   /* [state] A before an iteration; NULL: not needed */
    int64_t bytes; /* of the device's memory, as planned */

    struct pass pass[PASS_KINDS], eval_pass;
    struct replay update;
    bool can_fuse;          /* the update is part of the pass, where captured */
    bool has_updated;       /* in this iteration, with the pass */
    bool has_graphs;        /* an iteration was captured */
    bool overlaps;          /* collectives run beside the device's work */
    double phase_s[PHASES]; /* by the clock; see trainer_mark() */
    double replicate_s;     /* dp: of the update under way */

    int32_t batches;      /* iterations of an epoch */
    int32_t eval_batches; /* of an evaluation, on each rank */
    /* Of an iteration. asked: the weight of all ranks' samples as if all were
     * real, which backward() divides by; the others: of this rank's samples. */
    double asked, weight, valid;
    double values[MODEL_VALUES]; /* sums over this rank's weight */
    double grad_norm;            /* before clipping */
    int32_t skips, warnings;     /* iterations left out in a row; log lines */
    int64_t total;               /* iterations of the job */
    bool is_cut;                 /* by train.max_iterations */
    bool has_ended; /* inside an epoch, and the evaluation is done */
    struct checkpoint_state at;
    double eval_loss, eval_accuracy;
    struct spec_every every; /* checkpoints */
    double saved_s, said_s;  /* when rank 0 wrote one, printed a line */
    int64_t saved_at;        /* iteration of the newest whole one; 0: none */
    bool needs_last;         /* the last iteration of the job was this run's */
    char save_failed[80];    /* why the last one failed; "": it did not */
    int64_t bad_said;        /* samples left out of the last whole epoch */
    struct report_progress progress; /* as last reported */
    struct sample_times samples;     /* rank 0 */
    struct sol sol;
    struct profile *profile;       /* NULL: no profile */
    double profile_s;              /* when its time began; NAN: not yet */
    struct comm *counted;          /* around the one of env; NULL */
    struct train_env own_env;      /* env, with that one */
    struct gpu_memory *gpu_memory; /* NULL: not known */
};

/* ---- trainer_setup.c: before the first step ----------------------------- */

int trainer_open(struct trainer *t, const struct train_env *env,
                 struct error *err) MUST_CHECK;
void trainer_close(struct trainer *t);

/* ---- trainer_shared.c, which prints rank 0's lines ----------------------- */

/* The parts of a checkpoint beside the position. */
struct checkpoint_parts trainer_parts(struct trainer *t);
int trainer_open_optimizer(struct trainer *t, struct error *err) MUST_CHECK;
void trainer_say(const struct trainer *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- trainer_share.c ---------------------------------------------------- */

/* dp, on more than one rank: rank 0 has data, sums and optimizer. */
bool trainer_is_dp(const struct trainer *t);
bool trainer_by_batch(const struct trainer *t); /* a mean of means */
/* How many ranks have the same samples. */
int32_t trainer_copies(const struct trainer *t);
/* Opens the data and finds out what each rank has of it. */
int trainer_share_data(struct trainer *t, struct error *err) MUST_CHECK;
int trainer_share_prepare(struct trainer *t, struct error *err) MUST_CHECK;
int trainer_share_count(struct trainer *t, struct error *err) MUST_CHECK;
/* Bytes of device memory that trainer_share_open() will take. */
int64_t trainer_share_bytes(const struct trainer *t);
int trainer_share_open(struct trainer *t, struct error *err) MUST_CHECK;
void trainer_share_close(struct trainer *t);
/* The samples of the epoch that t->at is in. */
int trainer_share_epoch(struct trainer *t, struct error *err) MUST_CHECK;
/* Batch i of the part's epoch; counts and names the samples left out. */
int trainer_share_take(struct trainer *t, enum batch_part part, int32_t i,
                       struct batch *ret, struct error *err) MUST_CHECK;
/* Rank 0's state of the model becomes that of all ranks. */
int trainer_share_state(struct trainer *t, struct error *err) MUST_CHECK;
/* Batch `part` of the iteration under way: this rank's samples. */
int trainer_share_batch(struct trainer *t, int32_t part, struct batch *ret,
                        struct error *err) MUST_CHECK;

/* ---- trainer_graph.c ---------------------------------------------------- */

void trainer_open_replays(struct trainer *t);
void trainer_close_replays(struct trainer *t);
int trainer_mark(struct trainer *t, enum phase p, struct error *err) MUST_CHECK;
/* Call it after a synchronisation. */
int trainer_between(struct trainer *t, enum phase from, enum phase to,
                    double *ret_s, struct error *err) MUST_CHECK;
/* Both passes over batch `part` of an iteration; enqueued, not done. lr is
 * for an update that is part of it. */
int trainer_run_batch(struct trainer *t, int32_t part, const struct batch *b,
                      uint64_t seed, double scale, double lr,
                      struct error *err) MUST_CHECK;
/* The change of the weights. `between` is called, if it is not NULL, when the
 * optimizer's calls are enqueued. */
int trainer_update(struct trainer *t, double lr, double grad_scale,
                   int (*between)(struct trainer *t, struct error *err),
                   struct error *err) MUST_CHECK;
int trainer_run_eval(struct trainer *t, const struct batch *b,
                     struct error *err) MUST_CHECK;

/* ---- trainer_pass.c ----------------------------------------------------- */

/* Leaves the gradient of an iteration, summed over the ranks, and fills in
 * the phases up to there and t->asked. */
int trainer_pass(struct trainer *t, struct metric_iteration *m,
                 double *ret_loss_sum, struct error *err) MUST_CHECK;

/* ---- trainer_step.c ----------------------------------------------------- */

/* What the ranks agreed on after a step, or a batch of an evaluation. */
struct agreed {
    double loss; /* mean over the weight of all samples; of a step */
    double loss_sum, weight, samples, tokens;
    double values[MODEL_VALUES];       /* as loss */
    bool stop, fenced, save, profiled; /* profiled: for long enough */
};
/* A value of an iteration, from rank 0. */
void trainer_report_value(struct trainer *t, const char *name,
                          int64_t iteration, double value);
/* The learning rate of the iteration under way. */
double trainer_lr(const struct trainer *t);
int trainer_step(struct trainer *t, struct agreed *ret,
                 struct error *err) MUST_CHECK;

struct evaluation {
    double loss, accuracy;
    int64_t bad; /* samples left out since the evaluation before, all ranks */
};
/* Exact over all ranks: each sample counts once. Given up, with nothing
 * returned, when *ret_agreed comes back with stop or fenced. */
int trainer_evaluate(struct trainer *t, struct evaluation *ret,
                     struct agreed *ret_agreed, struct error *err) MUST_CHECK;

#endif
