/* llm_shared.c - train.distribution: fsdp beside ddp-ds and one rank.
 *
 * In fp64, with as many micro-batches on each rank as make 4 together: the
 * first loss and the step after it agree to 1e-12, six steps to 1e-10, for
 * full, tied and not, and for lora, qlora, dpo and qat. Evaluation,
 * checkpoints, the mean of the weights and samples are those of whole weights;
 * a run that was stopped goes on on other numbers of ranks, sharded or not.
 * A rank keeps its part of the states, and two units; what it waits for them is
 * in t_comm.
 */
#include <math.h>
#include <time.h>

#include "tests/mpi/llm_equal.h"
#include "worker/llm/llama_shape.h"

/* What rank 0 left: the values of the model, and an answer. */
static bool read_results(const char *dir, struct buf *model, struct buf *sample)
{
    char path[128];
    uint64_t header = 0;
    (void)snprintf(path, sizeof(path), "%s/samples.jsonl", dir);
    if (buf_read_file(sample, path, 1 << 20, NULL) < 0)
        return false;
    (void)snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    if (buf_read_file(model, path, 16 << 20, NULL) < 0 ||
        model->len < sizeof(header))
        return false;
    memcpy(&header, buf_str(model), sizeof(header));
    buf_drop(model, sizeof(header) + header);
    return true;
}

static double values_apart(const struct buf *a, const struct buf *b)
{
    double most = a->len == b->len && a->len > 0 ? 0 : INFINITY;
    for (size_t i = 0; i + sizeof(double) <= a->len && isfinite(most);
         i += sizeof(double)) {
        double x, y;
        memcpy(&x, buf_str(a) + i, sizeof(x));
        memcpy(&y, buf_str(b) + i, sizeof(y));
        most = fmax(most, fabs(x - y));
    }
    return most;
}

static void test_results(void)
{
    struct buf model[2] = {BUF_INIT, BUF_INIT};
    struct buf sample[2] = {BUF_INIT, BUF_INIT};
    struct job_spec spec = {.version = 0};
    char line[80];
    if (!llm_small(&spec, "full", &llm_stories,
                   "sample: {prompts: [One day], max_new_tokens: 8}"))
        return;
    for (int i = 0; i < 2; i++) {
        struct trace t = {.n = 0};
        char dir[64];
        train_dir(dir);
        (void)mpi_ok(run_parts(most_ranks(), i ? DIST_FSDP : DIST_DDP_DS, &spec,
                               dir, 0, &t) == 0,
                     NULL, i ? "fsdp" : "ddp-ds");
        (void)mpi_ok(mpi_rank > 0 || read_results(dir, &model[i], &sample[i]),
                     NULL, "a model and a sample");
        train_remove(dir);
    }
    const double apart = mpi_rank > 0 ? 0 : values_apart(&model[0], &model[1]);
    (void)snprintf(line, sizeof(line), "the models are %.2g apart", apart);
    (void)mpi_ok(apart <= 1e-10, NULL, line);
    (void)mpi_ok(mpi_rank > 0 ||
                     (sample[0].len > 10 &&
                      strcmp(buf_str(&sample[0]), buf_str(&sample[1])) == 0),
                 NULL, "the same samples");
    for (int i = 0; i < 2; i++) {
        buf_clear(&model[i]);
        buf_clear(&sample[i]);
    }
    spec_clear(&spec);
}

/* What a rank keeps, in bytes. */
struct kept {
    int64_t states; /* weights, gradients and what the optimizer knows */
    int64_t gathered, work;
};

/* The arena must lie as it was planned: arrays follow each other. */
static bool read_kept(const struct trainer *t, struct kept *ret)
{
    const struct model_plan *p = model_planned(t->model);
    const char *params = model_params(t->model), *grads = model_grads(t->model);
    *ret = (struct kept){.states = p->bytes_params + p->bytes_grads,
                         .gathered = p->bytes_gathered,
                         .work = p->bytes_work};
    for (int i = 0; i < t->optimizer.n_state; i++)
        ret->states +=
            t->optimizer.n * (int64_t)dtype_acc_bytes(t->optimizer.dt);
    return grads - params == p->bytes_params && t->optimizer.n == p->params &&
           p->bytes_total == p->bytes_base + p->bytes_params + p->bytes_grads +
                                 p->bytes_gathered + p->bytes_activations +
                                 p->bytes_work;
}

static bool keep_on(int ranks, struct job_spec *spec, struct kept *ret)
{
    struct error err = ERROR_INIT;
    struct train_rig rig;
    struct comm *c = NULL;
    struct trainer t;
    spec->train.distribution = DIST_FSDP;
    spec->train.gradient_accumulation_steps = 1;
    int rc = comm_mpi_use(ranks, &err);
    if (rc == 0 && mpi_rank < ranks)
        rc = comm_mpi_create(NULL, &c, &err);
    rc = rc < 0 ? rc : train_rig_open(&rig, c, spec, &stop, &save, &err);
    if (rc == 0 && c != NULL) {
        rc = trainer_open(&t, &rig.env, &err);
        rc = rc == 0 && read_kept(&t, ret) ? 0 : -1;
        trainer_close(&t);
    }
    train_rig_close(&rig);
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_ok(rc == 0, &err, "a trainer");
}

/* A layer of the stories: no piece of the embedding or of the output layer is
 * larger with its gradient. */
static int64_t layer_values(void)
{
    char path[PATH_MAX];
    struct llama_config c;
    struct llama_shape s;
    const char *src = getenv("MGPU_SRC");
    (void)snprintf(path, sizeof(path), "%s/%s", src != NULL ? src : ".",
                   llm_stories.model);
    if (llama_config_read(path, &c, NULL) < 0 ||
        llama_shape_init(&s, &c, true, 0, 0, 0, NULL) < 0)
        return -1;
    return s.layer_weights;
}

/* On R ranks: the sum of one rank's / R, and two layers that are whole. */
static void test_kept(const char *method, const char *more)
{
    enum { UNITS = 9, ARRAYS = 4 };
    const int64_t unit = layer_values() * (int64_t)sizeof(double);
    struct job_spec spec = {.version = 0};
    struct kept one = {.states = 0};
    char line[160];
    if (!llm_small(&spec, method, &llm_stories, more))
        return;
    (void)keep_on(1, &spec, &one);
    for (int ranks = more_ranks(1); ranks > 0; ranks = more_ranks(ranks)) {
        struct kept k = {.states = 0};
        /* Each chunk is filled up to a multiple of 128. */
        const int64_t filled = (int64_t)UNITS * SHARD_ALIGN * sizeof(double);
        (void)keep_on(ranks, &spec, &k);
        const int64_t over = k.states - one.states / ranks;
        const int64_t whole = k.gathered - 2 * unit;
        (void)snprintf(line, sizeof(line),
                       "%s, %d ranks: %lld bytes of %lld, and %lld of units of "
                       "%lld",
                       method, ranks, (long long)k.states,
                       (long long)one.states, (long long)k.gathered,
                       (long long)unit);
        (void)mpi_ok(mpi_rank > 0 ||
                         (over >= 0 && over <= ARRAYS * filled && whole >= 0 &&
                          whole <= 2 * ranks * SHARD_ALIGN * 8 &&
                          k.work - one.work <= 1024),
                     NULL, line);
    }
    spec_clear(&spec);
}

/* A communicator that takes 3 ms longer in each wait. */
static const struct comm_ops *quick;
static int n_waits;
static const double each_s = 3e-3;

static int slow_wait(struct comm *c, int ticket, double deadline_s,
                     struct error *err)
{
    const struct timespec nap = {.tv_nsec = (long)(each_s * 1e9)};
    n_waits++;
    (void)nanosleep(&nap, NULL);
    return quick->wait(c, ticket, deadline_s, err);
}

static bool read_row(const char *dir, struct metric_iteration *ret)
{
    char path[128];
    struct buf b = BUF_INIT;
    struct metric_row rows[8];
    size_t n = 0;
    bool has = false;
    (void)snprintf(path, sizeof(path), "%s/spool.%d", dir, mpi_rank);
    if (buf_read_file(&b, path, 1 << 20, NULL) < 0)
        return false;
    for (const char *at = buf_str(&b), *end; (end = strchr(at, '\n')) != NULL;
         at = end + 1)
        if (metric_line_decode(at, (size_t)(end - at), mpi_rank, rows, 8, &n,
                               NULL) == 0 &&
            n > 0 && rows[0].kind == METRIC_ITERATION) {
            *ret = rows[0].iteration;
            has = true;
        }
    buf_clear(&b);
    return has;
}

/* The waits of a pass are t_comm's, and nobody else's: for four units forward,
 * for one of two layers backward, because the other one is still there, and for
 * four sums. */
static void test_waits(void)
{
    struct job_spec spec = {.version = 0};
    struct error err = ERROR_INIT;
    struct train_rig rig;
    struct trainer t;
    struct comm *c = NULL;
    struct agreed a;
    struct metric_iteration m = {.t_comm = 0};
    if (mpi_size < 2 || comm_mpi_use(0, &err) < 0 ||
        !llm_small(&spec, "full", &llm_untied, "distribution: fsdp"))
        return;
    int rc = comm_mpi_create(NULL, &c, &err);
    rc = rc < 0 ? rc : train_rig_open(&rig, c, &spec, &stop, &save, &err);
    rc = rc < 0 ? rc : trainer_open(&t, &rig.env, &err);
    if (!mpi_ok(rc == 0, &err, "a trainer"))
        return;
    struct comm_ops slow = *t.comm->ops;
    quick = t.comm->ops;
    slow.wait = slow_wait;
    t.comm->ops = &slow;
    n_waits = 0;
    rc = trainer_step(&t, &a, &err);
    t.comm->ops = quick;
    (void)reporter_flush(rig.reporter, 0);
    const bool has = read_row(rig.dir, &m);
    const double parts = m.t_data + m.t_h2d + m.t_forward + m.t_backward +
                         m.t_comm + m.t_optimizer;
    char line[160];
    (void)snprintf(line, sizeof(line), "%d waits of 3 ms are in t_comm %.1f ms",
                   n_waits, m.t_comm * 1e3);
    (void)mpi_ok(rc == 0 && has && n_waits >= 9 &&
                     m.t_comm >= n_waits * each_s && m.t_forward >= 0 &&
                     m.t_backward >= 0 && parts <= m.t_iter * 1.001,
                 &err, line);
    trainer_close(&t);
    train_rig_close(&rig);
    c->ops->destroy(c);
    spec_clear(&spec);
}

static void test_full(const struct llm_material *m)
{
    struct job_spec spec = {.version = 0};
    if (!llm_small(&spec, "full", m, "clip_grad_norm: 1"))
        return;
    test_equal(&spec, 1e-12, 1e-10, m->model);
    const int most = most_ranks();
    test_moved(&spec, most, DIST_FSDP, most, DIST_FSDP);
    test_moved(&spec, most, DIST_FSDP, 1, DIST_DDP_DS);
    test_moved(&spec, 1, DIST_DDP_DS, most, DIST_FSDP);
    spec_clear(&spec);
}

/* 204 steps with a state of eight bits beside as many with one of 64, and in
 * the backward pass; and a run that goes on. */
static void test_8bit(void)
{
    struct job_spec spec = {.version = 0};
    struct trace t[4] = {{.n = 0}};
    struct train_result r = {.iteration = -1};
    char line[120], dir[64];
    if (!llm_small(&spec, "full", &llm_untied, "shuffle: true"))
        return;
    const int ranks = mpi_size > 1 ? 2 : 1, steps = 204;
    spec.train.distribution = DIST_DDP_DS;
    spec.train.gradient_accumulation_steps = 1;
    spec.train.max_steps_per_epoch = 0;
    spec.train.epochs = 17 * ranks;
    spec.train.optimizer.lr = 1e-4;
    for (int i = 0; i < 4; i++) {
        train_dir(dir);
        if (i > 0)
            spec.train.optimizer.name = OPTIM_ADAMW8;
        spec.train.optimizer_in_bwd = i == 2;
        int rc = run_on(ranks, &spec, dir, i == 3 ? steps / 2 : 0, &r, &t[i]);
        rc = rc == 0 && i == 3 ? run_on(ranks, &spec, dir, 0, &r, &t[i]) : rc;
        (void)mpi_ok(rc == 0 && (mpi_rank > 0 || t[i].n == steps), NULL,
                     i == 0 ? "adamw" : "adamw8bit");
        train_remove(dir);
    }
    const double apart = fabs(t[1].loss[steps] / t[0].loss[steps] - 1);
    (void)snprintf(line, sizeof(line),
                   "after %d steps the loss is %.4f, with adamw %.4f, at first "
                   "%.4f",
                   steps, t[1].loss[steps], t[0].loss[steps], t[0].loss[1]);
    (void)mpi_ok(mpi_rank > 0 || (apart > 0 && apart < 0.01 &&
                                  t[0].loss[steps] < 0.9 * t[0].loss[1]),
                 NULL, line);
    (void)mpi_ok(mpi_rank > 0 || same_trace(&t[1], &t[2]), NULL,
                 "in the backward pass the same bits");
    (void)mpi_ok(mpi_rank > 0 || same_trace(&t[1], &t[3]), NULL,
                 "resumed the same bits");
    spec_clear(&spec);
}

static void test_more(void)
{
    struct job_spec spec = {.version = 0};
    if (llm_small(&spec, "full", &llm_tied,
                  "enable_activation_checkpointing: true"))
        test_equal(&spec, 1e-12, 1e-10, "recomputed");
    spec_clear(&spec);
    if (llm_small(&spec, "full", &llm_untied, "shuffle: true")) {
        spec.train.precision = PRECISION_BF16;
        spec.train.mixed = true;
        /* Sums in another order may round a weight and an activation to their
         * neighbours, each 2^-8 of itself away. */
        test_equal(&spec, 1e-2, 1e-2, "bf16, weights in fp32");
        test_moved(&spec, most_ranks(), DIST_FSDP, most_ranks(), DIST_FSDP);
    }
    spec_clear(&spec);
    if (llm_small(&spec, "lora", &llm_untied,
                  "model: {lora_rank: 2, apply_lora_to_output: true}"))
        test_equal(&spec, 1e-12, 1e-10, "lora");
    spec_clear(&spec);
    if (llm_small(&spec, "lora", &llm_tied,
                  "model: {lora_rank: 2, lora_dropout: 0.1}"))
        test_equal(&spec, 1e-12, 1e-10, "lora on tied weights");
    spec_clear(&spec);
}

/* A base in four bits, and its values beside what stays. */
static void test_qlora(void)
{
    struct job_spec spec = {.version = 0};
    const int most = most_ranks();
    if (llm_small(&spec, "qlora", &llm_untied, "model: {lora_rank: 2}")) {
        test_equal(&spec, 1e-12, 1e-10, "qlora");
        test_moved(&spec, most, DIST_FSDP, most, DIST_FSDP);
        test_moved(&spec, most, DIST_FSDP, 1, DIST_DDP_DS);
        spec.train.quantizer.name = QUANTIZER_NF4_SINGLE;
        spec.train.activation_checkpointing = true;
        test_equal(&spec, 1e-12, 1e-10, "qlora, quantised once");
    }
    spec_clear(&spec);
    if (llm_small(&spec, "qlora", &llm_tied, "model: {lora_rank: 2}"))
        test_equal(&spec, 1e-12, 1e-10, "qlora on tied weights");
    spec_clear(&spec);
}

/* The reference is the base of adapters, or all weights as they were. */
static void test_dpo(const char *model)
{
    struct job_spec spec = {.version = 0};
    const int most = most_ranks();
    if (llm_small(&spec, "dpo", &llm_pairs, model)) {
        test_equal(&spec, 1e-12, 1e-10, model);
        test_moved(&spec, 1, DIST_DDP_DS, most, DIST_FSDP);
        spec.train.loss.precompute_reference = true;
        test_equal(&spec, 1e-12, 1e-10, "computed once");
        test_moved(&spec, most, DIST_FSDP, 1, DIST_DDP_DS);
    }
    spec_clear(&spec);
}

/* Rounded from the third iteration on: before a run is stopped, and so when it
 * goes on. Groups of 8 divide the inputs of all linears of the untied model,
 * groups of 12 not those of down_proj; on three ranks, the parts are three. */
static void test_qat(const char *what, const char *more)
{
    struct job_spec spec = {.version = 0};
    struct trace plain = {.n = 0}, rounded = {.n = 0};
    n_parts = mpi_size == 3 ? 3 : 4;
    const int most = most_ranks();
    if (llm_small(&spec, "qat", &llm_untied, more)) {
        test_equal(&spec, 1e-12, 1e-10, what);
        test_moved(&spec, most, DIST_FSDP, most, DIST_FSDP);
        test_moved(&spec, most, DIST_FSDP, 1, DIST_DDP_DS);
        test_moved(&spec, 1, DIST_DDP_DS, most, DIST_FSDP);
        (void)mpi_ok(whole(most, DIST_FSDP, &spec, &rounded) == 0, NULL,
                     "rounded from the third iteration on");
        spec.train.quantizer.fake_quant_after = STEPS;
        (void)mpi_ok(whole(most, DIST_FSDP, &spec, &plain) == 0, NULL,
                     "not rounded");
        (void)mpi_ok(mpi_rank > 0 || (trace_apart(&rounded, &plain, 2) <= 0 &&
                                      trace_apart(&rounded, &plain, 3) > 1e-6),
                     NULL, "the third loss is that of rounded weights");
        spec.train.quantizer.fake_quant_after = 0;
        spec.train.quantizer.groupsize = 12;
        spec.train.activation_checkpointing = true;
        test_equal(&spec, 1e-12, 1e-10, "at once, recomputed");
    }
    spec_clear(&spec);
    n_parts = 4;
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    /* What is computed once is not kept for the next run. */
    (void)setenv("XDG_CACHE_HOME", "/proc/none", 1);
    test_full(&llm_untied);
    test_full(&llm_tied);
    test_more();
    test_in_bwd(&llm_tied, PRECISION_FP64);
    test_in_bwd(&llm_untied, PRECISION_BF16);
    test_8bit();
    test_qlora();
    test_dpo("model: {lora_rank: 2}");
    test_dpo("model: {lora_rank: 0}");
    test_qat("qat", "quantizer: {groupsize: 8, fake_quant_after_n_steps: 2}");
    test_qat("qat of adapters",
             "quantizer: {groupsize: 8, fake_quant_after_n_steps: 2}\n"
             "  model: {lora_rank: 4}");
    test_results();
    test_kept("full", "shuffle: true");
    test_kept("qat", "quantizer: {groupsize: 32}");
    test_waits();
    (void)mpi_ok(comm_mpi_use(0, &err) == 0, &err, "all again");
    return mpi_tap_done();
}
