/* llm_archs.c - other architectures with sharded weights, and resumed: as
 * llm_shared.c, for what a layer of theirs has beside a Llama's.
 *
 * All weights of each architecture; the other methods at night. On three ranks,
 * the parts are three.
 */
#include <stdlib.h>

#include "tests/mpi/llm_equal.h"
#include "tests/unit/worker/llm_drawn.h"

static const struct {
    const char *name;
    struct llm_material rows, pairs;
} archs[] = {
    {"qwen2",
     {"tests/data/llama-qwen2", "tests/data/llama-untied/rows.jsonl"},
     {"tests/data/llama-qwen2", "tests/data/pairs.jsonl"}},
    {"biases",
     {"tests/data/llama-biases", "tests/data/llama-untied/rows.jsonl"},
     {"tests/data/llama-biases", "tests/data/pairs.jsonl"}},
    {"mistral",
     {"tests/data/llama-mistral", "tests/data/llama-untied/rows.jsonl"},
     {"tests/data/llama-mistral", "tests/data/pairs.jsonl"}},
    {"qwen3",
     {"tests/data/llama-qwen3", "tests/data/llama-untied/rows.jsonl"},
     {"tests/data/llama-qwen3", "tests/data/pairs.jsonl"}},
};

/* Linears of many ranks. */
static void test_ranks(void)
{
    struct job_spec spec = {.version = 0};
    char here[PATH_MAX], model[2 * PATH_MAX];
    const char *src = getenv("MGPU_SRC");
    if (realpath(src != NULL ? src : ".", here) == NULL)
        abort();
    (void)snprintf(model, sizeof(model),
                   "tests/data/llama-mistral, adapter_checkpoint: "
                   "%s/tests/data/llama-mistral/adapter-patterns",
                   here);
    const struct llm_material m = {model, "tests/data/llama-untied/rows.jsonl"};
    if (!llm_small(&spec, "lora", &m, "clip_grad_norm: 1"))
        return;
    test_equal(&spec, 1e-12, 1e-10, "mistral, lora of many ranks");
    spec_clear(&spec);
}

static double drawn(const struct llama_tensor *t, int32_t k, int64_t i)
{
    const double v = sin(1.7 * (double)i + 0.3 * k);
    return t->is_norm ? 1 + 0.1 * v : 0.1 * v;
}

/* A model of 90 layers of Qwen3, whose tensors are more than MODEL_RANGES, as
 * are neighbours of a kind; the norms have no weight decay. */
static void test_deep(void)
{
    static const struct llama_config c = {.arch = ARCH_QWEN3,
                                          .vocab = 80,
                                          .hidden = 8,
                                          .ffn = 12,
                                          .layers = 90,
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .head_dim = 4,
                                          .max_positions = 128,
                                          .head_norms = true};
    struct job_spec spec = {.version = 0};
    char dir[] = "/tmp/mgpu-deep.XXXXXX";
    if (mpi_rank == 0 && mkdtemp(dir) == NULL)
        abort();
    if (mpi_rank == 0)
        llm_write_model(dir, &c, drawn);
    MPI_Bcast(dir, sizeof(dir), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (!llm_small(&spec, "full", &llm_untied, "clip_grad_norm: 1"))
        return;
    free(spec.train.checkpointer.dir);
    spec.train.checkpointer.dir = strdup(dir);
    spec.train.optimizer.no_decay = NO_DECAY_NORM_BIAS;
    test_equal(&spec, 1e-12, 1e-10, "qwen3 of 90 layers, full");
    spec_clear(&spec);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mpi_rank == 0)
        llm_remove_model(dir);
}

static const struct {
    const char *method, *more;
} cases[] = {
    {"full", "enable_activation_checkpointing: false"},
    {"full", "enable_activation_checkpointing: true"},
    {"lora", "model: {lora_rank: 2, apply_lora_to_mlp: true}"},
    {"qlora", "model: {lora_rank: 2}"},
    {"dpo", "model: {lora_rank: 2}"},
    {"dpo", "model: {lora_rank: 0}"},
    {"qat", "quantizer: {groupsize: 8}"},
    {"qat", "quantizer: {groupsize: 8}\n  model: {lora_rank: 2}"},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    const bool all = getenv("MGPU_TEST_ALL") != NULL;
    (void)setenv("XDG_CACHE_HOME", "/proc/none", 1);
    n_parts = mpi_size == 3 ? 3 : 4;
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        if (all)
            test_in_bwd(&archs[i].rows, PRECISION_FP64);
        for (int k = 0; k < (all ? CASES : 1); k++) {
            struct job_spec spec = {.version = 0};
            char what[80];
            const bool is_dpo = strcmp(cases[k].method, "dpo") == 0;
            (void)snprintf(what, sizeof(what), "%s, %s", archs[i].name,
                           cases[k].method);
            if (!llm_small(&spec, cases[k].method,
                           is_dpo ? &archs[i].pairs : &archs[i].rows,
                           cases[k].more))
                continue;
            test_equal(&spec, 1e-12, 1e-10, what);
            if (all)
                test_moved(&spec, most_ranks(), DIST_FSDP, 1, DIST_DDP_DS);
            spec_clear(&spec);
        }
    }
    test_ranks();
    test_deep();
    (void)mpi_ok(comm_mpi_use(0, &err) == 0, &err, "all again");
    return mpi_tap_done();
}
