/* memory.c - memory is planned before the start: a step allocates nothing, and
 * the device's never exceeds the plan.
 *
 * Counted are the calls of our own code; libraries have allocators of their
 * own. The first epoch may let buffers grow to what they need; from then on,
 * every strategy, precision and optimizer takes what it has.
 *
 * The most device memory that a rank held at a time is the planned number of
 * bytes, for each method: in a run that is stopped and saves, and in the one
 * that resumes it, evaluates, makes samples and saves the result. */
#include <stdio.h>

#include "tests/mpi/llm_small.h"
#include "tests/mpi/trace.h"
#include "worker/train/memory_plan.h"

/* The linker puts these before the real ones (--wrap). */
static volatile int64_t n_allocs;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **ret, size_t align, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **ret, size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t n)
{
    n_allocs++;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    n_allocs++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    n_allocs++;
    return __real_realloc(p, n);
}

int __wrap_posix_memalign(void **ret, size_t align, size_t n)
{
    n_allocs++;
    return __real_posix_memalign(ret, align, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    n_allocs++;
    return __real_aligned_alloc(align, n);
}

char *__wrap_strdup(const char *s)
{
    n_allocs++;
    return __real_strdup(s);
}

/* ---- an epoch ------------------------------------------------------------ */

static volatile sig_atomic_t none;

static int one_epoch(struct trainer *t, struct error *err)
{
    struct agreed a;
    if (trainer_share_epoch(t, err) < 0)
        return -1;
    for (t->at.batch = 0; t->at.batch < t->batches;)
        if (trainer_step(t, &a, err) < 0)
            return -1;
    t->at.epoch++;
    return 0;
}

static void test(struct comm *c, const struct job_spec *spec, const char *what)
{
    struct error err = ERROR_INIT;
    struct train_rig rig;
    struct trainer t;
    struct evaluation v;
    struct agreed a;
    char line[120];
    int rc = train_rig_open(&rig, c, spec, &none, &none, &err);
    rc = rc < 0 ? rc : trainer_open(&t, &rig.env, &err);
    rc = rc < 0 ? rc : one_epoch(&t, &err);
    rc = rc < 0 ? rc : trainer_evaluate(&t, &v, &a, &err);
    int64_t before = n_allocs;
    rc = rc < 0 ? rc : one_epoch(&t, &err);
    rc = rc < 0 ? rc : trainer_evaluate(&t, &v, &a, &err);
    int64_t taken = n_allocs - before;
    (void)snprintf(line, sizeof(line), "%s: %lld allocations in an epoch", what,
                   (long long)taken);
    (void)mpi_ok(rc == 0 && before > 0 && taken == 0, &err, line);
    trainer_close(&t);
    train_rig_close(&rig);
}

/* ---- the device's memory ------------------------------------------------- */

int __real_device_host_create(int32_t threads, struct device **ret,
                              struct error *err);
int __wrap_device_host_create(int32_t threads, struct device **ret,
                              struct error *err);
void __real_memory_plan_make(const struct memory_ask *a,
                             struct memory_plan *ret);
void __wrap_memory_plan_make(const struct memory_ask *a,
                             struct memory_plan *ret);

/* Of one run. */
static struct {
    int64_t planned, now, highest;
    int allocs, plans;
    int fails_at; /* the alloc that fails, from 1 on; 0: none */
    struct block {
        void *p;
        int64_t bytes;
    } blocks[64];
} held;
static const struct device_ops *plain;
static struct device_ops counted;

static struct block *block_of(const void *p)
{
    for (size_t i = 0; i < sizeof(held.blocks) / sizeof(held.blocks[0]); i++)
        if (held.blocks[i].p == p)
            return &held.blocks[i];
    abort();
}

static int counted_alloc(struct device *d, size_t bytes, void **ret,
                         struct error *err)
{
    if (held.allocs + 1 == held.fails_at)
        return error_set(err, ERR_NOMEM, "alloc: none left");
    if (plain->alloc(d, bytes, ret, err) < 0)
        return -1;
    *block_of(NULL) = (struct block){*ret, (int64_t)bytes};
    held.allocs++;
    held.now += (int64_t)bytes;
    held.highest = held.now > held.highest ? held.now : held.highest;
    return 0;
}

static void counted_release(struct device *d, void *p)
{
    if (p != NULL) {
        struct block *b = block_of(p);
        held.now -= b->bytes;
        *b = (struct block){.p = NULL};
    }
    plain->release(d, p);
}

int __wrap_device_host_create(int32_t threads, struct device **ret,
                              struct error *err)
{
    if (__real_device_host_create(threads, ret, err) < 0)
        return -1;
    plain = (*ret)->ops;
    counted = *plain;
    counted.alloc = counted_alloc;
    counted.release = counted_release;
    (*ret)->ops = &counted;
    return 0;
}

void __wrap_memory_plan_make(const struct memory_ask *a,
                             struct memory_plan *ret)
{
    __real_memory_plan_make(a, ret);
    held.planned = ret->total;
    held.plans++;
}

/* Samples take the stories, and one rank. */
static const struct method_case {
    const char *what, *method;
    const struct llm_material *of;
    const char *more;
    bool is_shared_too; /* with fsdp as well */
} methods[] = {
    {"lora", "lora", &llm_tied, "model: {lora_rank: 2}", false},
    {"full, batches added up", "full", &llm_untied,
     "gradient_accumulation_steps: 2", true},
    {"qlora", "qlora", &llm_untied, "model: {lora_rank: 2}", true},
    {"qlora, quantised once, recomputed", "qlora", &llm_tied,
     "enable_activation_checkpointing: true\n"
     "  quantizer: {name: nf4_single}",
     false},
    {"qlora with samples", "qlora", &llm_stories,
     "sample: {prompts: [One day], max_new_tokens: 4}", false},
    {"dpo", "dpo", &llm_pairs, "model: {lora_rank: 2}", true},
    {"dpo of all weights", "dpo", &llm_pairs, "model: {lora_rank: 0}", false},
    {"dpo, the reference computed once", "dpo", &llm_pairs,
     "loss: {precompute_reference: true}", false},
    {"qat", "qat", &llm_untied, "quantizer: {groupsize: 8}", true},
    {"qat of adapters", "qat", &llm_untied,
     "quantizer: {groupsize: 8}\n"
     "  model: {lora_rank: 2}",
     false},
    {"qat with samples", "qat", &llm_stories,
     "quantizer: {groupsize: 32}\n"
     "  sample: {prompts: [One day], max_new_tokens: 4}",
     false},
};

/* in   at  the iteration in which the run is stopped; 0: none */
static bool is_as_planned(struct comm *c, const struct job_spec *spec,
                          const char *dir, int at, struct train_result *ret,
                          const char *what)
{
    struct trace t = {.n = 0};
    char line[160];
    memset(&held, 0, sizeof(held));
    int rc = run(c, spec, dir, at, ret, &t);
    (void)snprintf(line, sizeof(line),
                   "%s, %s: at most %lld bytes in %d pieces, planned %lld",
                   what, at > 0 ? "saved" : "resumed", (long long)held.highest,
                   held.allocs, (long long)held.planned);
    return mpi_ok(rc == 0 && held.plans == 1 && held.allocs > 1 &&
                      held.planned > 0 && held.highest == held.planned &&
                      held.now == 0 && (mpi_rank > 0 || t.saves > 0),
                  NULL, line);
}

static void test_highest(struct comm *c, const struct method_case *m,
                         enum spec_distribution how)
{
    enum { STOP_AT = 3 };
    struct job_spec spec = {.version = 0};
    struct train_result r = {.iteration = -1};
    char dir[64], what[80];
    if (!llm_small(&spec, m->method, m->of, m->more))
        return;
    spec.train.distribution = how;
    (void)snprintf(what, sizeof(what), "%s%s", m->what,
                   how == DIST_FSDP ? ", sharded" : "");
    train_dir(dir);
    (void)is_as_planned(c, &spec, dir, STOP_AT, &r, what);
    const int64_t stopped = r.iteration;
    (void)mpi_ok(r.end == TRAIN_STOPPED && stopped == n_steps, NULL, what);
    (void)is_as_planned(c, &spec, dir, 0, &r, what);
    (void)mpi_ok(r.end == TRAIN_DONE && r.iteration == stopped + n_steps, NULL,
                 what);
    train_remove(dir);
    spec_clear(&spec);
}

/* ---- memory that is gone after the check --------------------------------- */

/* The lines of the plan, in the order in which their memory is taken. */
static const char *const lines[] = {
    "parameters, gradients, activations and work of the memory plan",
    "batches of the memory plan", "optimizer of the memory plan"};
enum { LINES = sizeof(lines) / sizeof(lines[0]) };

static int open_once(struct comm *c, const struct job_spec *spec, int fails_at,
                     struct error *err)
{
    struct train_rig rig;
    struct trainer t = {.env = NULL};
    memset(&held, 0, sizeof(held));
    held.fails_at = fails_at;
    int rc = train_rig_open(&rig, c, spec, &none, &none, err);
    rc = rc < 0 ? rc : trainer_open(&t, &rig.env, err);
    trainer_close(&t);
    train_rig_close(&rig);
    return rc;
}

/* The n-th alloc fails, for every n: the message has the line that it belongs
 * to and what to lower, and nothing is kept. */
static void test_late(struct comm *c, const struct job_spec *spec,
                      const char *lower)
{
    struct error err = ERROR_INIT;
    int seen[LINES] = {0}, n = 1, at = 0;
    for (; open_once(c, spec, n, &err) < 0 && n < 64; n++) {
        while (at < LINES && strstr(err.msg, lines[at]) == NULL)
            at++;
        const bool is_named = at < LINES && err.code == ERR_NOMEM &&
                              strstr(err.msg, lower) != NULL &&
                              strstr(err.msg, "none left") != NULL;
        (void)mpi_ok(is_named && held.now == 0, &err, err.msg);
        if (!is_named)
            return;
        seen[at]++;
        err = (struct error)ERROR_INIT;
    }
    (void)mpi_ok(seen[0] == 1 && seen[1] > 0 && seen[2] > 0 &&
                     n == held.allocs + 1,
                 NULL, "each piece of memory, once");
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    struct job_spec spec = {.version = 0};
    if (mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "comm") &&
        train_spec(&spec)) {
        test(c, &spec, "ddp-ds in fp64");
        spec.train.distribution = DIST_DDP_RR;
        spec.train.gradient_accumulation_steps = 2;
        test(c, &spec, "ddp-rr, batches added up");
        spec.train.distribution = DIST_DP;
        spec.train.precision = PRECISION_BF16;
        spec.train.mixed = true;
        spec.train.ema.decay = 0.9;
        spec.train.clip_grad_norm = 1;
        spec.train.on_nan = ON_NAN_SKIP;
        test(c, &spec, "dp in bf16, fp32 weights, their mean, clipped");
        spec.train.distribution = DIST_DDP;
        spec.train.precision = PRECISION_FP32;
        spec.train.mixed = false;
        spec.train.optimizer.name = OPTIM_RMSPROP;
        spec.train.optimizer.eps = 1e-3;
        spec.train.optimizer.alpha = 0.9;
        test(c, &spec, "ddp in fp32, rmsprop");
    }
    spec_clear(&spec);
    /* What is computed once is not kept for the next run. */
    (void)setenv("XDG_CACHE_HOME", "/proc/none", 1);
    if (c != NULL && train_spec(&spec)) {
        spec.train.precision = PRECISION_BF16;
        spec.train.mixed = true;
        spec.train.ema.decay = 0.9;
        test_late(c, &spec, "lower train.batch_size or dataset.image_size");
        spec_clear(&spec);
    }
    if (c != NULL &&
        llm_small(&spec, "lora", &llm_tied, "model: {lora_rank: 2}")) {
        test_late(c, &spec, "train.tokenizer.max_seq_len");
        spec_clear(&spec);
    }
    for (size_t i = 0; c != NULL && i < sizeof(methods) / sizeof(methods[0]);
         i++) {
        if (methods[i].of == &llm_stories && mpi_size > 1)
            continue;
        test_highest(c, &methods[i], DIST_DDP_DS);
        if (methods[i].is_shared_too && mpi_size > 1)
            test_highest(c, &methods[i], DIST_FSDP);
    }
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_tap_done();
}
