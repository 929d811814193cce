/* llm_step.c - tokens per second of a training step of a Llama.
 *
 *   llm_step cuda|host [SHAPE [ROWS [TOKENS [TYPE [auto|keep|again
 *            [METHOD [DOCUMENTS]]]]]]]
 *                  512,1376,4,8,4,4096 2 128 fp32 auto lora8 4
 *
 * SHAPE is hidden, ffn, layers, heads, kv_heads, vocabulary. METHOD is
 *
 *   lora8  adapters of rank 8 at q, v, o and the MLP; fp16 and bf16 keep what
 *          is trained in fp32, too (mixed)
 *   full   all weights, likewise
 *   lora   adapters of rank 16 at all linears of the layers
 *   qlora  the same on a base in NF4
 *   dpo    the same on pairs of answers: two documents
 *   full8  all weights, AdamW of 8 bits
 *   fsdp   the same, sharded over mpirun's ranks, whose rates are added
 *
 * The last five are those that `make gpu-model` knows. A step is forward and
 * backward pass, the gradient's norm and AdamW. A batch is ROWS packs of
 * TOKENS, DOCUMENTS each; each token but a document's last has a label. The
 * weights are drawn in place, a million values, repeated; sharded ones with
 * their norms.
 *
 * `again` is activation checkpointing, `keep` is without, `auto` is without
 * where the memory of the device allows it. For each line of its input it works
 * for half a second at least, waits for the device and prints tokens/s, GiB
 * planned, keep or again, tokens per second of CPU time, and the MiB that the
 * process had in memory at most. A line `parts` prints instead where the time
 * of a step on the host goes, and an empty line; `code` prints whose products
 * these are. A loss that is no number ends it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "jobs/base/clock.h"
#include "jobs/base/rng.h"
#include "kernels/blas_host.h"
#include "tests/bench/llm_parts.h"
#include "worker/llm/llama_internal.h"
#include "worker/model_call.h"
#include "worker/train/mixed_precision.h"
#include "worker/train/optimizer.h"

enum {
    DRAWN = 1 << 20,
    DOCUMENTS = 4,
    ARRAYS = TOKENS_LISTS + 1,
    LINE = 16,
    PARTS_STEPS = 5,
    ALL_LINEARS = 127
};
static const double turn_s = 0.5, deadline_s = 120;
/* For BLAS, its context and the kernels' scratch. */
static const int64_t spare_bytes = (int64_t)2 << 30;

static const struct method {
    const char *name;
    int32_t rank; /* 0: all weights */
    uint32_t targets;
    enum spec_quantizer quantizer;
    enum spec_optimizer optimizer;
    bool is_mixed, pairs, is_sharded;
} methods[] = {
    {"lora8", 8, LORA_Q | LORA_V | LORA_O | LORA_GATE | LORA_UP | LORA_DOWN,
     QUANTIZER_NONE, OPTIM_ADAMW, true, false, false},
    {"full", 0, 0, QUANTIZER_NONE, OPTIM_ADAMW, true, false, false},
    {"lora", 16, ALL_LINEARS, QUANTIZER_NONE, OPTIM_ADAMW, false, false, false},
    {"qlora", 16, ALL_LINEARS, QUANTIZER_NF4, OPTIM_ADAMW, false, false, false},
    {"dpo", 16, ALL_LINEARS, QUANTIZER_NONE, OPTIM_ADAMW, false, true, false},
    {"full8", 0, 0, QUANTIZER_NONE, OPTIM_ADAMW8, false, false, false},
    {"fsdp", 0, 0, QUANTIZER_NONE, OPTIM_ADAMW8, false, false, true},
};
enum { METHODS = sizeof(methods) / sizeof(methods[0]) };

struct bench {
    struct device *d;
    const struct method *method;
    int32_t documents;         /* of a row */
    struct comm *ranks, *comm; /* of host memory, of the device's; NULL: one */
    struct llama_conf conf;
    struct model *m;
    struct job_spec spec;
    struct optimizer optimizer;
    struct mixed mixed;
    void *arrays[ARRAYS]; /* device */
    struct batch batch;
    int64_t bytes; /* planned: model, optimizer, batch */
    int64_t steps;
};

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "llm_step: %s\n", err->msg);
        exit(error_exit_status(err->code));
    }
}

static bool is_mixed(const struct bench *b)
{
    return b->method->is_mixed &&
           (b->conf.dt == DT_F16 || b->conf.dt == DT_BF16);
}

/* ---- the weights, in place ----------------------------------------------- */

/* A device array of DRAWN values: in -most..most, or `one` where most is 0. */
static void *drawn(struct bench *b, double most, double one)
{
    struct error err = ERROR_INIT;
    const size_t bytes = (size_t)DRAWN * dtype_bytes(b->conf.dt);
    void *host = malloc(bytes), *ret = NULL;
    struct rng rng;
    rng_seed(&rng, 1);
    if (host == NULL)
        exit(1);
    for (int64_t i = 0; i < DRAWN; i++)
        dtype_set(b->conf.dt, host, i,
                  one + most * (2 * rng_uniform(&rng) - 1));
    must(b->d->ops->alloc(b->d, bytes, &ret, &err), &err);
    must(b->d->ops->to_device(b->d, ret, host, bytes, &err), &err);
    must(b->d->ops->sync(b->d, &err), &err);
    free(host);
    return ret;
}

static void repeat(struct bench *b, void *to, const void *from, int64_t n)
{
    struct error err = ERROR_INIT;
    for (int64_t at = 0; at < n; at += DRAWN) {
        const int64_t count = n - at < DRAWN ? n - at : DRAWN;
        must(b->d->ops->copy(b->d, llama_at(llama_of(b->m), to, at), from,
                             (size_t)count * dtype_bytes(b->conf.dt), &err),
             &err);
    }
}

/* The B of an adapter is zero. */
static void fill_adapters(struct bench *b, const void *values)
{
    struct error err = ERROR_INIT;
    struct llama *m = llama_of(b->m);
    const struct llama_shape *s = &m->shape;
    struct llama_tensor t;
    must(b->d->ops->zero(b->d, m->mem.params,
                         (size_t)s->params * dtype_bytes(b->conf.dt), &err),
         &err);
    for (int32_t i = 0; i < llama_adapter_count(s); i++) {
        llama_adapter(s, i, &t);
        if (t.fan_in != 0)
            repeat(b, llama_at(m, m->mem.params, t.at), values, t.n);
    }
}

/* Tensor by tensor, as they are loaded; a share of all at once. */
static void fill_weights(struct bench *b, const void *values, const void *ones)
{
    struct error err = ERROR_INIT;
    struct llama *m = llama_of(b->m);
    struct llama_tensor t;
    if (m->shards.n > 0) {
        repeat(b, m->mem.params, values, m->shards.elements);
        return;
    }
    for (int32_t i = 0; i < llama_weight_count(&m->shape); i++) {
        void *to = NULL;
        llama_weight(&m->shape, i, &t);
        must(llama_base_room(m, i, &to, &err), &err);
        repeat(b, to, t.is_norm ? ones : values, t.n);
        must(llama_base_keep(m, i, &err), &err);
    }
}

static void fill(struct bench *b)
{
    struct error err = ERROR_INIT;
    void *values = drawn(b, 0.035, 0), *ones = drawn(b, 0, 1);
    fill_weights(b, values, ones);
    if (!b->conf.is_full)
        fill_adapters(b, values);
    must(b->d->ops->sync(b->d, &err), &err);
    b->d->ops->release(b->d, values);
    b->d->ops->release(b->d, ones);
}

/* ---- the batch ----------------------------------------------------------- */

/* The host's arrays, [rows * tokens] each: ids by counting in `order`. */
static void write_rows(struct bench *b, int32_t *host[TOKENS_LISTS])
{
    const int32_t n = b->conf.batch * b->conf.row_tokens;
    const int32_t document = b->conf.row_tokens / b->documents;
    const int32_t vocab = b->conf.shape.vocab;
    int32_t *first = calloc((size_t)vocab + 1, sizeof(*first));
    struct rng rng;
    int32_t n_labelled = 0;
    if (first == NULL)
        exit(1);
    rng_seed(&rng, 2);
    for (int32_t i = 0; i < n; i++) {
        host[TOKENS_ID][i] = (int32_t)(rng_uniform(&rng) * vocab);
        host[TOKENS_POS][i] = i % b->conf.row_tokens % document;
        first[host[TOKENS_ID][i] + 1]++;
    }
    for (int32_t i = 0; i < vocab; i++)
        first[i + 1] += first[i];
    for (int32_t i = 0; i < n; i++) {
        host[TOKENS_ORDER][first[host[TOKENS_ID][i]]++] = i;
        if (i + 1 == n || host[TOKENS_POS][i + 1] == 0)
            continue;
        host[TOKENS_LABELLED][n_labelled] = i;
        host[TOKENS_LABEL][n_labelled++] = host[TOKENS_ID][i + 1];
    }
    b->batch.labelled = n_labelled;
    b->batch.weight = b->conf.pairs ? b->conf.batch : n_labelled;
    free(first);
}

/* A row is a pair: the chosen answer, then the rejected one. */
static void write_pairs(const struct bench *b, struct pair_answer *to)
{
    const int32_t labelled = b->conf.row_tokens / 2 - 1;
    for (int32_t i = 0; i < 2 * b->conf.batch; i++)
        to[i] = (struct pair_answer){.first = i * labelled, .n = labelled};
}

static void put_array(struct bench *b, int k, const void *host, size_t bytes)
{
    struct error err = ERROR_INIT;
    must(b->d->ops->alloc(b->d, bytes, &b->arrays[k], &err), &err);
    must(b->d->ops->to_device(b->d, b->arrays[k], host, bytes, &err), &err);
    must(b->d->ops->sync(b->d, &err), &err);
    b->batch.arrays[k] =
        (struct batch_array){b->arrays[k], bytes / (size_t)b->conf.batch};
}

static void make_pairs(struct bench *b)
{
    const size_t bytes = 2 * (size_t)b->conf.batch * sizeof(struct pair_answer);
    struct pair_answer *answers = calloc(1, bytes);
    if (answers == NULL)
        exit(1);
    write_pairs(b, answers);
    put_array(b, TOKENS_PAIR, answers, bytes);
    free(answers);
}

static void make_batch(struct bench *b)
{
    const int32_t n = b->conf.batch * b->conf.row_tokens;
    const size_t bytes = (size_t)n * sizeof(int32_t);
    int32_t *host[TOKENS_LISTS];
    b->batch =
        (struct batch){.n = b->conf.batch, .valid = b->conf.batch, .tokens = n};
    for (int k = 0; k < TOKENS_LISTS; k++)
        if ((host[k] = calloc(1, bytes)) == NULL)
            exit(1);
    write_rows(b, host);
    for (int k = 0; k < TOKENS_LISTS; k++) {
        put_array(b, k, host[k], bytes);
        free(host[k]);
    }
    if (b->conf.pairs)
        make_pairs(b);
}

/* ---- memory -------------------------------------------------------------- */

/* Of the whole step, as the trainer plans it. */
static int64_t planned(const struct bench *b)
{
    struct error err = ERROR_INIT;
    struct model_plan p;
    must(llama_plan(&b->conf, &p, &err), &err);
    const int64_t tokens = (int64_t)b->conf.batch * b->conf.row_tokens;
    return p.bytes_total + (is_mixed(b) ? mixed_bytes(&p) : 0) +
           optimizer_bytes(&b->spec, is_mixed(b) ? DT_F32 : b->conf.dt,
                           p.params, p.ranges) +
           TOKENS_LISTS * tokens * (int64_t)sizeof(int32_t);
}

/* What is kept of the forward pass: as asked, or as the memory allows. */
static void choose(struct bench *b, const char *how)
{
    struct error err = ERROR_INIT;
    size_t left = 0, all = 0;
    b->conf.recomputes = strcmp(how, "again") == 0;
    b->bytes = planned(b);
    if (strcmp(how, "auto") != 0 || b->d->ops->memory == NULL)
        return;
    must(b->d->ops->memory(b->d, &left, &all, &err), &err);
    b->conf.recomputes = b->bytes + spare_bytes > (int64_t)left;
    b->bytes = planned(b);
}

/* ---- steps --------------------------------------------------------------- */

static void step(struct bench *b)
{
    struct error err = ERROR_INIT;
    const bool mixed = is_mixed(b);
    const void *grads = mixed ? b->mixed.grads : model_grads(b->m);
    double norm = 0;
    must(model_put(b->m, (uint64_t)b->steps, 1, &err), &err);
    must(model_forward(b->m, &b->batch, true, &err), &err);
    must(model_backward(b->m, &b->batch, NULL, NULL, &err), &err);
    if (mixed)
        must(mixed_take_grads(&b->mixed, &err), &err);
    must(optimizer_grad_norm(&b->optimizer, grads, &norm, &err), &err);
    must(optimizer_step(&b->optimizer,
                        mixed ? b->mixed.weights : model_params(b->m), grads,
                        ++b->steps, 1e-4, 1 / b->batch.weight, &err),
         &err);
    if (mixed)
        must(mixed_give_weights(&b->mixed, &err), &err);
}

struct took {
    double wall_s, cpu_s;
};

/* User and system, of all threads. */
static double cpu_s(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static struct took run(struct bench *b, int32_t steps)
{
    struct error err = ERROR_INIT;
    struct model_result x;
    const double start_s = clock_real.now_s(&clock_real), start_cpu_s = cpu_s();
    for (int32_t i = 0; i < steps; i++)
        step(b);
    must(model_result(b->m, &b->batch, &x, &err), &err);
    must(b->d->ops->sync(b->d, &err), &err);
    const struct took ret = {clock_real.now_s(&clock_real) - start_s,
                             cpu_s() - start_cpu_s};
    if (!isfinite(x.loss_sum)) {
        (void)fprintf(stderr, "llm_step: a loss of %g after %lld steps\n",
                      x.loss_sum, (long long)b->steps);
        exit(1);
    }
    return ret;
}

static void turn(struct bench *b, int32_t steps)
{
    struct rusage u;
    const struct took t = run(b, steps);
    const int32_t ranks = b->ranks != NULL ? b->ranks->size : 1;
    const double tokens = ranks * (double)b->batch.tokens * steps;
    if (b->ranks != NULL && b->ranks->rank > 0)
        return;
    (void)getrusage(RUSAGE_SELF, &u);
    (void)printf("%.1f %.2f %s %.1f %.0f\n", tokens / t.wall_s,
                 (double)b->bytes / (1 << 30),
                 b->conf.recomputes ? "again" : "keep", tokens / t.cpu_s,
                 (double)u.ru_maxrss / 1024);
}

static void parts(struct bench *b)
{
    llm_parts_begin(b->d, b->conf.shape.vocab, 3 * b->conf.rank);
    for (int i = 0; i < PARTS_STEPS; i++) {
        llm_parts_step_begin();
        step(b);
        llm_parts_step_end();
    }
    llm_parts_end(b->d, b->d->threads);
}

static void code(void)
{
    char text[320];
    blas_describe(text, sizeof(text));
    (void)printf("%s\n", text);
}

/* A line of the input, which rank 0 reads, with the steps that it took a turn
 * to be. Returns false where there is none. */
static bool next_line(const struct bench *b, char line[LINE], int32_t *steps)
{
    struct error err = ERROR_INIT;
    const bool is_first = b->ranks == NULL || b->ranks->rank == 0;
    if (is_first && fgets(line, LINE, stdin) == NULL)
        *steps = 0;
    if (b->ranks != NULL)
        must(comm_broadcast_now(b->ranks, steps, sizeof(*steps), 0, deadline_s,
                                &err),
             &err);
    return *steps > 0;
}

static void take_turns(struct bench *b)
{
    char line[LINE] = "";
    (void)run(b, 2);
    const double once_s = run(b, 1).wall_s;
    int32_t steps = once_s < turn_s ? (int32_t)(turn_s / once_s) + 1 : 1;
    const bool is_alone = b->d->host_memory && b->ranks == NULL;
    while (next_line(b, line, &steps)) {
        if (is_alone && strcmp(line, "parts\n") == 0)
            parts(b);
        else if (is_alone && strcmp(line, "code\n") == 0)
            code();
        else
            turn(b, steps);
        (void)fflush(stdout);
    }
}

/* ---- begin and end ------------------------------------------------------- */

/* NCCL where the device has memory of its own, as the trainer does. */
static void open_ranks(struct bench *b)
{
    struct error err = ERROR_INIT;
    must(b->d->host_memory ? comm_mpi_create(b->d, &b->comm, &err)
                           : comm_nccl_create(b->d, &b->comm, &err),
         &err);
    b->conf.shared_by = b->comm->size;
    b->conf.comm = b->comm;
}

static void open_device(struct bench *b, bool is_cuda)
{
    struct error err = ERROR_INIT;
    int32_t gpu = 0;
    if (b->method->is_sharded) {
        must(comm_mpi_start(&err), &err);
        must(comm_mpi_create(NULL, &b->ranks, &err), &err);
        gpu = b->ranks->local_rank;
    }
    must(is_cuda ? device_cuda_create(gpu, &b->d, &err)
                 : device_host_create(0, &b->d, &err),
         &err);
    if (b->ranks != NULL && b->ranks->size > 1)
        open_ranks(b);
}

static void open_optimizer(struct bench *b)
{
    struct error err = ERROR_INIT;
    struct model_range m[MODEL_RANGES];
    struct optimizer_range r[MODEL_RANGES];
    const int32_t n = model_ranges(b->m, m, MODEL_RANGES);
    must(n > MODEL_RANGES ? error_set(&err, ERR_INVAL, "%d ranges", n) : 0,
         &err);
    for (int32_t i = 0; i < n; i++)
        r[i] =
            (struct optimizer_range){m[i].first, m[i].count, m[i].is_norm_bias};
    must(optimizer_init(&b->optimizer, b->d, &b->spec,
                        is_mixed(b) ? DT_F32 : b->conf.dt,
                        model_planned(b->m)->params, r, n, &err),
         &err);
}

static void open_all(struct bench *b)
{
    struct error err = ERROR_INIT;
    must(llama_create(b->d, &b->conf, &b->m, &err), &err);
    fill(b);
    make_batch(b);
    if (is_mixed(b)) {
        must(mixed_init(&b->mixed, b->d, b->m, b->conf.dt, &err), &err);
        must(mixed_begin(&b->mixed, &err), &err);
    }
    open_optimizer(b);
    if (b->d->ops->tune)
        must(b->d->ops->tune(b->d, true, &err), &err);
}

static void close_all(struct bench *b)
{
    optimizer_clear(&b->optimizer);
    mixed_clear(&b->mixed);
    for (int k = 0; k < ARRAYS; k++)
        b->d->ops->release(b->d, b->arrays[k]);
    model_destroy(b->m);
    if (b->comm != NULL)
        b->comm->ops->destroy(b->comm);
    b->d->ops->destroy(b->d);
    if (b->ranks == NULL)
        return;
    b->ranks->ops->destroy(b->ranks);
    comm_mpi_end(0);
}

static int32_t number(int argc, char **argv, int i, int32_t otherwise)
{
    return argc > i ? (int32_t)strtol(argv[i], NULL, 10) : otherwise;
}

static bool read_shape(const char *text, struct llama_config *ret)
{
    char rest;
    struct llama_config c = {
        .norm_eps = 1e-5, .rope_theta = 500000, .bos_id = -1, .eos_id = -1};
    if (sscanf(text, "%d,%d,%d,%d,%d,%d%c", &c.hidden, &c.ffn, &c.layers,
               &c.heads, &c.kv_heads, &c.vocab, &rest) != 6 ||
        c.hidden < 1 || c.ffn < 1 || c.layers < 1 || c.heads < 1 ||
        c.kv_heads < 1 || c.vocab < 1 || c.hidden % (2 * c.heads) != 0 ||
        c.heads % c.kv_heads != 0)
        return false;
    c.head_dim = c.hidden / c.heads;
    *ret = c;
    return true;
}

static const struct method *method_named(const char *name)
{
    for (int i = 0; i < METHODS; i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

static bool read_args(int argc, char **argv, struct bench *ret)
{
    const char *how = argc > 6 ? argv[6] : "auto";
    const struct method *x = method_named(argc > 7 ? argv[7] : "lora8");
    if (argc < 2 || argc > 9 || x == NULL)
        return false;
    ret->method = x;
    ret->documents = number(argc, argv, 8, x->pairs ? 2 : DOCUMENTS);
    ret->conf =
        (struct llama_conf){.dt = argc > 5 ? dtype_named(argv[5]) : DT_F32,
                            .is_full = x->rank == 0,
                            .rank = x->rank,
                            .alpha = 2 * x->rank,
                            .targets = x->targets,
                            .quantizer = x->quantizer,
                            .pairs = x->pairs,
                            .beta = 0.1,
                            .batch = number(argc, argv, 3, 2),
                            .batch_eval = 1,
                            .row_tokens = number(argc, argv, 4, 128)};
    ret->spec.kind = SPEC_LLM;
    ret->spec.train.optimizer.name = x->optimizer;
    ret->spec.train.optimizer.betas =
        (struct spec_numbers){.n = 2, .v = {0.9, 0.999}};
    ret->spec.train.optimizer.eps = 1e-8;
    return (strcmp(argv[1], "cuda") == 0 || strcmp(argv[1], "host") == 0) &&
           read_shape(argc > 2 ? argv[2] : "512,1376,4,8,4,4096",
                      &ret->conf.shape) &&
           ret->conf.dt != DT_N && ret->conf.batch > 0 && ret->documents > 0 &&
           (!x->pairs || ret->documents == 2) &&
           ret->conf.row_tokens >= 2 * ret->documents &&
           ret->conf.row_tokens % ret->documents == 0 &&
           (strcmp(how, "auto") == 0 || strcmp(how, "keep") == 0 ||
            strcmp(how, "again") == 0);
}

int main(int argc, char **argv)
{
    static struct bench b;
    if (!read_args(argc, argv, &b)) {
        (void)fputs("usage: llm_step cuda|host [SHAPE [ROWS [TOKENS [TYPE [HOW "
                    "[METHOD [DOCUMENTS]]]]]]]: see llm_step.c\n",
                    stderr);
        return 2;
    }
    open_device(&b, strcmp(argv[1], "cuda") == 0);
    choose(&b, argc > 6 ? argv[6] : "auto");
    open_all(&b);
    take_turns(&b);
    close_all(&b);
    return 0;
}
