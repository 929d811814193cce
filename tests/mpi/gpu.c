/* gpu.c - training on a GPU is training on the host, with other calls.
 *
 * On a fake GPU (fake_gpu.h), whose kernels are the host's: what differs is
 * all that the worker does for a GPU - captured and launched iterations,
 * batches copied ahead, marks, NCCL beside the backward pass - and the losses
 * have to be the same, bit by bit.
 */
#include <math.h>

#include "tests/mpi/fake_gpu.h"
#include "tests/mpi/llm_small.h"
#include "tests/mpi/trace.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/cv/mobilenet_internal.h"

/* num_batches_tracked in the last checkpoint; -1: the model has none. */
static int64_t batches_tracked(const char *dir, int step)
{
    struct safetensors st = {.n = 0};
    struct error err = ERROR_INIT;
    char path[120];
    int64_t n = -1;
    (void)snprintf(path, sizeof(path), "%s/ckpt/step-%d/model.safetensors", dir,
                   step);
    if (safetensors_open(path, SIZE_MAX, &st, &err) < 0)
        return -1;
    const struct st_tensor *t =
        safetensors_find(&st, "features.0.1.num_batches_tracked");
    if (t != NULL && t->bytes == sizeof(n))
        memcpy(&n, t->data, sizeof(n));
    safetensors_close(&st);
    return n;
}

/* Returns what batches_tracked() does. */
static int64_t train(struct comm *c, const struct job_spec *spec,
                     enum spec_device device, struct trace *t)
{
    struct job_spec s = *spec;
    struct error err = ERROR_INIT;
    struct train_result r = {.end = TRAIN_DONE};
    char dir[64];
    s.train.device = device;
    memset(t, 0, sizeof(*t));
    train_dir(dir);
    (void)mpi_ok(run(c, &s, dir, 0, &r, t) == 0 && r.end == TRAIN_DONE, &err,
                 device == DEVICE_CUDA ? "on the GPU" : "on the host");
    const int64_t batches = mpi_rank == 0 ? batches_tracked(dir, t->n) : -1;
    train_remove(dir);
    return batches;
}

/* Three addends can be added in two orders. */
static bool same(double a, double b)
{
    return mpi_size < 3 ? a == b : fabs(a - b) <= 1e-9 * fabs(b);
}

static void compare(struct comm *c, const struct job_spec *spec,
                    const char *what)
{
    static struct trace host, gpu;
    char line[100];
    const int64_t batches = train(c, spec, DEVICE_HOST, &host);
    for (int early = 0; early < 2; early++) {
        memset(&fake, 0, sizeof(fake));
        fake_is_early = early != 0;
        bool all = train(c, spec, DEVICE_CUDA, &gpu) == batches &&
                   gpu.n == host.n && host.n > 0;
        for (int i = 1; i <= host.n; i++)
            all = all && same(gpu.loss[i], host.loss[i]);
        for (int e = 1; e <= spec->train.epochs; e++)
            all = all && same(gpu.epoch_loss[e], host.epoch_loss[e]) &&
                  same(gpu.eval_loss[e], host.eval_loss[e]);
        (void)snprintf(line, sizeof(line), "%s: the same losses%s", what,
                       early ? ", with early copies" : "");
        (void)mpi_ok(mpi_rank > 0 || all, NULL, line);
        /* The change of the weights is a graph, unless a pass has it. */
        (void)mpi_ok((fake.launches > 0 || spec->train.optimizer_in_bwd) &&
                         fake.graphs == 0,
                     NULL, "iterations were launched, and every graph is gone");
    }
}

/* One rank: 13 batches in each of two epochs, the last of two images; 23
 * images are evaluated in six, the last of three. */
static void count_alone(struct comm *c, const struct job_spec *spec)
{
    static struct trace t;
    memset(&fake, 0, sizeof(fake));
    (void)train(c, spec, DEVICE_CUDA, &t);
    /* A whole iteration, an evaluation, the update behind an odd batch. */
    is_int(fake.captures, 3, "three graphs");
    /* All but the first of 24 iterations, of 10 batches of an evaluation,
     * and of 3 updates that are not part of an iteration. */
    is_int(fake.launches, 23 + 9 + 2, "a launch for each after the first");
    is_int(fake.sends, 2 * (13 + 6), "every batch was copied beside the work");
    ok(fake.calls < 1500, "%lld calls one by one", (long long)fake.calls);
    setenv("MGPU_CUDA_GRAPHS", "0", 1);
    memset(&fake, 0, sizeof(fake));
    (void)train(c, spec, DEVICE_CUDA, &t);
    unsetenv("MGPU_CUDA_GRAPHS");
    ok(fake.captures == 0 && fake.calls > 26 * 150,
       "$MGPU_CUDA_GRAPHS=0: %lld calls one by one", (long long)fake.calls);
}

/* A capture that fails costs speed: the losses stay, no graph is left, and
 * nothing is captured again. The first, the second (with two ranks a later
 * piece of the same pass; else that of the evaluation) and the third. */
static void survive(struct comm *c, const struct job_spec *spec)
{
    static const char *const how[] = {"begin", "end", "call"};
    static struct trace host, gpu;
    char line[100];
    const int64_t batches = train(c, spec, DEVICE_HOST, &host);
    (void)mpi_ok(mpi_rank > 0 || batches > 0, NULL, "batches are counted");
    for (int i = 0; i < 9; i++) {
        memset(&fake, 0, sizeof(fake));
        fake_surprise = (enum fake_surprise)(i / 3);
        fake_surprise_at = fake_begun() + 1 + i % 3;
        bool all = train(c, spec, DEVICE_CUDA, &gpu) == batches &&
                   gpu.n == host.n && host.n > 0;
        int32_t more = fake_begun() - fake_surprise_at;
        fake_surprise_at = 0;
        for (int k = 1; k <= host.n; k++)
            all = all && same(gpu.loss[k], host.loss[k]);
        for (int e = 1; e <= spec->train.epochs; e++)
            all = all && same(gpu.eval_loss[e], host.eval_loss[e]);
        (void)snprintf(line, sizeof(line), "the %s of capture %d fails: %s",
                       how[i / 3], i % 3 + 1, "the same losses");
        (void)mpi_ok(mpi_rank > 0 || all, NULL, line);
        (void)mpi_ok(fake.graphs == 0 && more == 0, NULL,
                     "no graph is left, and none is tried again");
    }
}

/* Gradients go out in pieces; all but the last while the device still has
 * the rest of the backward pass before it. */
static void count_together(struct comm *c, const struct job_spec *spec)
{
    static struct trace t;
    memset(&fake, 0, sizeof(fake));
    (void)train(c, spec, DEVICE_CUDA, &t);
    (void)mpi_ok(fake.collectives >= 2 * t.n && fake.hidden >= t.n, NULL,
                 "NCCL overlaps the backward pass");
}

static void variants(struct comm *c, const struct job_spec *spec)
{
    struct job_spec s = *spec;
    compare(c, &s, "sgd");
    s.train.gradient_accumulation_steps = 3;
    compare(c, &s, "three batches an iteration");
    s = *spec;
    s.train.optimizer.name = OPTIM_ADAMW;
    s.train.optimizer.betas = (struct spec_numbers){2, {0.9, 0.95}};
    s.train.optimizer.eps = 1e-8;
    s.train.optimizer.weight_decay = 0.1;
    s.train.optimizer.no_decay = NO_DECAY_NORM_BIAS;
    s.train.ema.decay = 0.9;
    compare(c, &s, "adamw, a mean of the weights");
    s = *spec;
    s.train.clip_grad_norm = 0.5;
    s.train.on_nan = ON_NAN_SKIP;
    compare(c, &s, "clipped");
    s = *spec;
    s.train.profile = PROFILE_EPOCH; /* neither CUPTI nor NVML is there */
    (void)setenv("MGPU_CUPTI", "/nonexistent/libcupti.so.13", 1);
    (void)setenv("MGPU_NVML", "/nonexistent/libnvidia-ml.so.1", 1);
    compare(c, &s, "profiled with what is not there");
    s = *spec;
    s.dataset.data_path = DATA_PATH_PAPER;
    s.train.pin_memory = TRI_FALSE;
    compare(c, &s, "images at full size");
    s.train.channels_last = false;
    compare(c, &s, "images at full size, as planes");
    (void)mpi_ok(fake.planes > 0, NULL, "numbers were transposed");
    s.dataset.data_path = DATA_PATH_FAST;
    compare(c, &s, "bytes as planes");
    (void)mpi_ok(fake.planes > 0, NULL, "bytes were transposed");
    if (mpi_size > 1) { /* the fake NCCL adds no 16 bits */
        s = *spec;
        s.train.distribution = DIST_DDP_RR;
        compare(c, &s, "ddp-rr");
        s.train.distribution = DIST_DDP;
        compare(c, &s, "ddp");
        s.train.distribution = DIST_DP; /* scatter, reduce, broadcast */
        compare(c, &s, "dp");
        return;
    }
    s = *spec;
    s.train.precision = PRECISION_FP16;
    s.train.mixed = true;
    compare(c, &s, "fp16 with fp32 weights");
    s.train.precision = PRECISION_BF16;
    compare(c, &s, "bf16 with fp32 weights");
}

/* What is copied, and from what memory: bytes from page-locked memory, unless
 * the job wants what the papers' program does. */
static void test_copies(struct comm *c, const struct job_spec *spec)
{
    static struct trace t;
    struct job_spec s = *spec;
    int64_t images = (int64_t)s.train.epochs *
                     (s.dataset.train_samples + s.dataset.eval_samples),
            full = images * s.dataset.image_size * s.dataset.image_size * 3 * 8;
    memset(&fake, 0, sizeof(fake));
    (void)train(c, &s, DEVICE_CUDA, &t);
    ok(fake.pins > 0 && fake.sent_bytes < full / 6,
       "%lld bytes copied, %lld pieces of memory page-locked",
       (long long)fake.sent_bytes, (long long)fake.pins);
    s.train.pin_memory = TRI_FALSE;
    memset(&fake, 0, sizeof(fake));
    (void)train(c, &s, DEVICE_CUDA, &t);
    ok(fake.pins == 0 && fake.sent_bytes < full / 6,
       "pin_memory: false: from ordinary memory");
    s.dataset.data_path = DATA_PATH_PAPER;
    s.train.pin_memory = TRI_TRUE;
    memset(&fake, 0, sizeof(fake));
    (void)train(c, &s, DEVICE_CUDA, &t);
    ok(fake.pins > 0 && fake.sent_bytes >= full && fake.sent_bytes < full * 2,
       "data_path: paper: %lld bytes copied, of %lld for the images alone",
       (long long)fake.sent_bytes, (long long)full);
}

/* Opens a trainer on a GPU with so much memory. */
static int open_on(struct comm *c, const struct job_spec *s, int64_t all,
                   int64_t left, struct train_refusal *why, struct error *err)
{
    static volatile sig_atomic_t none;
    struct train_rig rig;
    struct trainer t;
    fake_all = (size_t)all;
    fake_left = (size_t)left;
    *why = (struct train_refusal){.needed_bytes = 0};
    int rc = train_rig_open(&rig, c, s, &none, &none, err);
    if (rc == 0) {
        rig.env.refusal = why;
        rc = trainer_open(&t, &rig.env, err);
        trainer_close(&t);
    }
    train_rig_close(&rig);
    return rc;
}

/* ---- the share of the card's limit ----------------------------------------
 */

static int n_sol(const struct trace *t)
{
    int n = 0;
    for (int i = 1; i <= t->n; i++)
        n += t->sol[i] != 0;
    return n;
}

/* The floor of an iteration over so many images on this rank, in fp64, with
 * the update of sgd: weights and momentum both ways, and the gradient. */
static double floor_of(const struct job_spec *s, const char *card,
                       int32_t images, int32_t batches)
{
    struct mobilenet m = {.conf = {.dt = DT_F64,
                                   .width_mult = s->model.width_mult,
                                   .num_classes = 10,
                                   .image_size = s->dataset.image_size,
                                   .batch = s->train.batch_size}};
    struct card_floor f = {.s = 0};
    struct error err = ERROR_INIT;
    const struct batch b = {.n = images, .valid = images};
    if (arch_build(&m.conf, &m.arch, &err) < 0 ||
        !card_limits_find(card, DT_F64, false, &f.card))
        return NAN;
    for (int32_t i = 0; i < batches; i++)
        mobilenet_floor(&m.model, &b, &f);
    card_floor_add(&f, 0, (double)m.arch.params * 8 * (2 + 2 + 1));
    return f.s;
}

/* Iterations from first to last, but for `without` of them, have the floor. */
static bool has_floor(const struct trace *t, int first, int last, int without,
                      double floor_s)
{
    bool all = true;
    for (int i = first; i <= last; i++) {
        const double is = t->sol[i] * t->t_iter[i];
        all = all && (i == without ? t->sol[i] == 0
                                   : fabs(is - floor_s) <= 1e-12 * floor_s);
    }
    return all;
}

/* To the byte what a job with twice the batch takes. */
static void test_fits(struct comm *c, const struct job_spec *spec)
{
    static struct trace t;
    struct job_spec s = *spec;
    struct train_refusal why;
    struct error err = ERROR_INIT;
    const size_t all = fake_all, left = fake_left;
    s.train.device = DEVICE_CUDA;
    s.train.batch_size = 8;
    int rc = open_on(c, &s, 1, 1, &why, &err);
    ok(rc < 0 && why.needed_bytes > 0, "a batch of 8 needs %lld bytes",
       (long long)why.needed_bytes);
    for (int less = 0; less < 2; less++) {
        fake_all = fake_left = (size_t)(why.needed_bytes - less);
        (void)train(c, spec, DEVICE_CUDA, &t);
        ok(t.fits == (less ? 4 : 8), "with %d bytes less %g fit", less, t.fits);
    }
    fake_all = all;
    fake_left = left;
}

/* The passes of a Llama are not captured, and its second update is. Its rows
 * are of other lengths each time, and so is the floor. */
static void test_sol_of_text(struct comm *c)
{
    static struct trace t;
    struct job_spec s = {.version = 0};
    double least = INFINITY, most = 0;
    if (!llm_small(&s, "lora", &llm_untied, "pin_memory: false"))
        return;
    (void)train(c, &s, DEVICE_CUDA, &t);
    for (int i = 1; i <= t.n; i++) {
        const double floor_s = t.sol[i] * t.t_iter[i];
        least = i != 2 && floor_s < least ? floor_s : least;
        most = floor_s > most ? floor_s : most;
    }
    ok(t.n > 2 && t.sol[2] == 0 && n_sol(&t) == t.n - 1 && least > 0 &&
           most > least,
       "text: a floor of %g to %g s in %d iterations", least, most, t.n);
    ok(t.fits >= s.train.batch_size, "text: %g rows fit", t.fits);
    spec_clear(&s);
}

/* One rank: of 13 batches in each of two epochs the last has two images. The
 * second iteration captures the pass with its update, and iteration 13, the
 * second with an update beside the pass, captures that. */
static void test_sol(struct comm *c, const struct job_spec *spec)
{
    static const char card[] = "NVIDIA H200";
    static struct trace t;
    struct job_spec s = *spec;
    const double whole = floor_of(spec, card, 4, 1);
    const double odd = floor_of(spec, card, 2, 1);

    (void)train(c, &s, DEVICE_CUDA, &t);
    ok(t.n == 26 && n_sol(&t) == 0, "no sol on a card that is not known");
    (void)setenv("MGPU_TEST_CARD", card, 1);
    (void)train(c, &s, DEVICE_HOST, &t);
    ok(t.n == 26 && n_sol(&t) == 0, "no sol on the host");
    (void)train(c, &s, DEVICE_CUDA, &t);
    ok(has_floor(&t, 1, 12, 2, whole) && has_floor(&t, 14, 25, 0, whole) &&
           has_floor(&t, 26, 26, 0, odd) && n_sol(&t) == 24,
       "sol is the floor over t_iter, but of captures");
    /* 4 GiB fit more; of 13 batches eight become one. */
    ok(t.fits == 32, "a batch of %g fits", t.fits);

    test_fits(c, spec);

    /* No larger than what its batches can be dealt in. */
    for (int32_t parts = 3; parts <= 12; parts *= 2) {
        s.train.global_batch_size = parts * 4;
        (void)train(c, &s, DEVICE_CUDA, &t);
        ok(t.fits == 4.0 * parts / 3, "%d batches: %g", parts, t.fits);
    }
    s = *spec;
    s.train.gradient_accumulation_steps = 3;
    (void)train(c, &s, DEVICE_CUDA, &t);
    ok(has_floor(&t, 4, 4, 0, floor_of(spec, card, 4, 3)),
       "three batches an iteration: of all three");
    s = *spec;
    s.train.profile = PROFILE_EPOCH;
    (void)train(c, &s, DEVICE_CUDA, &t);
    ok(t.n == 26 && n_sol(&t) == 0, "no sol where a profile slows it down");
    s = *spec;
    s.train.on_nan = ON_NAN_SKIP;
    s.train.optimizer.lr = 1e300;
    (void)train(c, &s, DEVICE_CUDA, &t);
    ok(t.sol[1] > 0 && t.sol[25] == 0,
       "no sol of an iteration that is left out");
    test_sol_of_text(c);
    (void)unsetenv("MGPU_TEST_CARD");
}

static void test_none(struct comm *c, const struct job_spec *spec)
{
    struct job_spec s = *spec;
    struct error err = ERROR_INIT;
    struct trainer t;
    const volatile sig_atomic_t no = 0;
    struct train_env env = {
        .spec = &s, .comm = c, .clock = &clock_real, .stop = &no};
    fake_gpus = 0;
    s.train.device = DEVICE_CUDA;
    int rc = trainer_open(&t, &env, &err);
    trainer_close(&t);
    fake_gpus = mpi_size;
    (void)mpi_ok(rc < 0 && err.code == ERR_UNAVAIL &&
                     strncmp(err.msg, "device cuda: ", 13) == 0,
                 &err, "no GPU: it says so");
}

/* The worker asks what is left when it has its context: the plan, which has a
 * context of 100 MiB at least, counts that once. */
static void test_context(struct comm *c, const struct job_spec *spec)
{
    static const int64_t context = (int64_t)100 << 20;
    struct job_spec s = *spec;
    struct train_refusal why;
    struct error err = ERROR_INIT;
    const size_t all = fake_all, left = fake_left;
    s.train.device = DEVICE_CUDA;
    int rc = open_on(c, &s, 1, 1, &why, &err);
    const int64_t needed = why.needed_bytes;
    (void)mpi_ok(rc < 0 && err.code == ERR_NOMEM && needed > context, &err,
                 "it does not fit a GPU of a byte");
    rc = open_on(c, &s, needed, needed - context, &why, &err);
    (void)mpi_ok(rc == 0, &err, "it fits beside its context to the byte");
    rc = open_on(c, &s, needed, needed - context - 1, &why, &err);
    (void)mpi_ok(rc < 0 && err.code == ERR_NOMEM && why.needed_bytes == 0, &err,
                 "a byte less: not now");
    fake_all = all;
    fake_left = left;
}

/* What loading the kernels takes counts once, too, up to what they can take. */
static void test_kernels(struct comm *c, const struct job_spec *spec)
{
    static const int64_t mib = 1 << 20, context = 100 * mib;
    struct job_spec s = *spec;
    struct train_refusal why;
    struct error err = ERROR_INIT;
    const size_t all = fake_all, left = fake_left;
    s.train.device = DEVICE_CUDA;
    (void)open_on(c, &s, 1, 1, &why, &err);
    const int64_t needed = why.needed_bytes;
    fake_kernels = 20 * (size_t)mib;
    int rc = open_on(c, &s, needed, needed - context, &why, &err);
    (void)mpi_ok(rc == 0, &err, "it fits beside its kernels to the byte");
    rc = open_on(c, &s, needed, needed - context - 1, &why, &err);
    (void)mpi_ok(rc < 0 && strstr(err.msg, "CUDA's context and kernels"), &err,
                 "a byte less: not now");
    fake_kernels = 60 * (size_t)mib;
    rc = open_on(c, &s, needed, needed - context + 12 * mib, &why, &err);
    (void)mpi_ok(rc == 0, &err, "48 MiB of what loading took are kernels");
    rc = open_on(c, &s, needed, needed - context + 12 * mib - 1, &why, &err);
    (void)mpi_ok(rc < 0 && err.code == ERR_NOMEM, &err,
                 "the rest is another program's");
    fake_kernels = 0;
    fake_all = all;
    fake_left = left;
}

/* Gathered ahead, and summed behind the backward pass, by NCCL. */
static void test_sharded(struct comm *c)
{
    struct job_spec spec = {.version = 0};
    if (mpi_size > 1 && llm_small(&spec, "full", &llm_tied,
                                  "distribution: fsdp\n  pin_memory: false"))
        compare(c, &spec, "fsdp, tied");
    spec_clear(&spec);
    if (mpi_size > 1 && llm_small(&spec, "full", &llm_untied,
                                  "distribution: fsdp\n  pin_memory: false"))
        compare(c, &spec, "fsdp, untied");
    /* Of 2 layers. A forward pass gathers all units but the first beside the
     * work, a backward pass all but the first two; of 6 iterations, and of 3
     * evaluations of 5 rows. */
    const int evals = 3 * ((5 + mpi_size - 1) / mpi_size);
    if (mpi_size > 1 && HAVE_NCCL)
        (void)mpi_ok(fake.hidden >= 6 * (3 + 1) + evals * 3, NULL,
                     "the next unit is gathered beside the work");
    spec_clear(&spec);
    if (mpi_size > 1 && llm_small(&spec, "full", &llm_tied,
                                  "distribution: fsdp\n  pin_memory: false\n"
                                  "  optimizer_in_bwd: true"))
        compare(c, &spec, "fsdp, changed in the backward pass");
    spec_clear(&spec);
    if (mpi_size > 1 && llm_small(&spec, "lora", &llm_untied,
                                  "distribution: fsdp\n  pin_memory: false"))
        compare(c, &spec, "fsdp, lora");
    spec_clear(&spec);
    if (mpi_size > 1 && llm_small(&spec, "qlora", &llm_untied,
                                  "distribution: fsdp\n  pin_memory: false"))
        compare(c, &spec, "fsdp, qlora");
    spec_clear(&spec);
    if (mpi_size > 1 && llm_small(&spec, "dpo", &llm_pairs,
                                  "distribution: fsdp\n  pin_memory: false\n"
                                  "  model: {lora_rank: 0}"))
        compare(c, &spec, "fsdp, dpo");
    spec_clear(&spec);
    if (mpi_size > 1 && llm_small(&spec, "qat", &llm_untied,
                                  "distribution: fsdp\n  pin_memory: false\n"
                                  "  quantizer: {groupsize: 8}"))
        compare(c, &spec, "fsdp, qat");
    spec_clear(&spec);
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct job_spec spec;
    struct comm *c = NULL;
    mpi_tap_start(&argc, &argv);
    fake_gpus = mpi_size;
    if (train_spec(&spec) &&
        mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "ranks")) {
        variants(c, &spec);
        survive(c, &spec);
        test_sharded(c);
        if (mpi_size == 1) {
            count_alone(c, &spec);
            test_copies(c, &spec);
            test_sol(c, &spec);
        } else if (HAVE_NCCL) {
            count_together(c, &spec);
        }
        test_context(c, &spec);
        test_kernels(c, &spec);
        test_none(c, &spec);
        c->ops->destroy(c);
        spec_clear(&spec);
    }
    return mpi_tap_done();
}
