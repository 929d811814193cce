/* memory.c - a step allocates nothing: memory is planned before the start.
 *
 * Counted are the calls of our own code; libraries have allocators of their
 * own. The first epoch may let buffers grow to what they need; from then on,
 * every strategy, precision and optimizer takes what it has. */
#include <stdio.h>

#include "tests/mpi/train.h"

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
    if (c != NULL)
        c->ops->destroy(c);
    return mpi_tap_done();
}
