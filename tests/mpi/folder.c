/* folder.c - training on files: the same model whatever the threads do and
 * wherever it was stopped, and the ways in which files are left out. */
#include <inttypes.h>

#include "tests/mpi/train.h"
#include "tests/unit/worker/digits.h"
#include "worker/checkpoint/crc64.h"

enum { TRAIN = 36, EVAL = 12, BATCH = 3 };

static volatile sig_atomic_t stop, save;
static int n_steps, stop_at;

/* The trainer asks for the wall clock once per iteration. */
static double counting_wall(const struct clock *c)
{
    (void)c;
    if (++n_steps == stop_at && mpi_rank == 0)
        stop = SIGTERM;
    return 1e9 + n_steps;
}

static double real_now(const struct clock *c)
{
    (void)c;
    return clock_real.now_s(&clock_real);
}

static const struct clock counting = {.now_s = real_now,
                                      .wall_s = counting_wall};

static int run(struct comm *c, const struct job_spec *spec, const char *dir,
               int at, struct train_result *r, struct error *err)
{
    struct reporter *reporter = NULL;
    char ckpt[80];
    struct report_conf conf = {
        .url = "", .token = "", .dir = dir, .rank = mpi_rank};
    (void)snprintf(ckpt, sizeof(ckpt), "%s/ckpt", dir);
    if (reporter_create(&conf, &reporter, err) < 0)
        return -1;
    struct train_env env = {.spec = spec,
                            .kind = &mobilenet_kind,
                            .ckpt_dir = ckpt,
                            .comm = c,
                            .reporter = reporter,
                            .clock = &counting,
                            .stop = &stop,
                            .save = &save};
    stop = 0;
    n_steps = 0;
    stop_at = at;
    int rc = trainer_run(&env, r, err);
    reporter_destroy(reporter);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    return rc;
}

/* The checksum of the model after the last iteration; 0 without one. */
static uint64_t model_sum(const char *dir, int64_t iteration)
{
    struct buf b = BUF_INIT;
    char path[200];
    uint64_t sum = 0;
    (void)snprintf(path, sizeof(path),
                   "%s/ckpt/step-%" PRId64 "/model.safetensors", dir,
                   iteration);
    if (buf_read_file(&b, path, 1 << 26, NULL) == 0)
        sum = crc64(0, b.data, b.len);
    buf_clear(&b);
    return sum;
}

/* A whole run, or one that is stopped in iteration `at` and resumed. */
static uint64_t train(struct comm *c, const struct job_spec *spec, int at,
                      struct train_result *r, const char *what)
{
    struct error err = ERROR_INIT;
    char dir[64];
    train_dir(dir);
    int rc = at > 0 ? run(c, spec, dir, at, r, &err) : 0;
    rc = rc < 0 ? rc : run(c, spec, dir, 0, r, &err);
    (void)mpi_ok(rc == 0 && r->end == TRAIN_DONE, &err, what);
    uint64_t sum = model_sum(dir, r->iteration);
    train_remove(dir);
    return sum;
}

static void test_same(struct comm *c, struct job_spec *spec)
{
    struct train_result r = {.end = TRAIN_STOPPED}, s = r;
    /* The last norms see three rows: at the others' rate it runs away, and
     * the rounding of the machine decides whether to a NaN. */
    spec->train.optimizer.lr = 1e-3;
    uint64_t want = train(c, spec, 0, &r, "files, read by the rank itself");
    (void)mpi_ok(want != 0 && r.iteration == 2 * (TRAIN / mpi_size / BATCH),
                 NULL, "two epochs, without the rest");
    (void)mpi_ok(r.why[0] == '\0', NULL, "nothing is left out");
    spec->dataset.workers = 3;
    (void)mpi_ok(train(c, spec, 0, &s, "by three threads") == want &&
                     s.eval_accuracy == r.eval_accuracy,
                 NULL, "it is the same model");
    (void)mpi_ok(train(c, spec, 3, &s, "stopped in an epoch and resumed") ==
                     want,
                 NULL, "it is the same model again");
    spec->train.seed = 6;
    (void)mpi_ok(train(c, spec, 0, &s, "with another seed") != want, NULL,
                 "it is another");
    spec->train.seed = 5;
}

/* Rank 0 cuts files off. */
static void damage(const char *dir, const struct dataset *digits, int32_t first,
                   int32_t n, const char *part)
{
    char path[400];
    for (int32_t i = first; mpi_rank == 0 && i < first + n; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s/%d/%05d.png", dir, part,
                       digits->labels[i], i);
        if (truncate(path, 50) < 0)
            abort();
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

static void test_bad(struct comm *c, struct job_spec *spec,
                     const struct dataset *digits)
{
    struct error err = ERROR_INIT;
    struct train_result r = {.end = TRAIN_STOPPED};
    char dir[64];
    damage(spec->dataset.path, digits, 4, 2, "train");
    damage(spec->dataset.path, digits, TRAIN, 1, "val");
    spec->dataset.on_bad_row = BAD_ROW_SKIP;
    (void)train(c, spec, 0, &r, "damaged files are left out");
    (void)mpi_ok(strcmp(r.why, "left out of the last epoch, for they could not "
                               "be read: 3 images") == 0,
                 NULL, r.why);
    (void)mpi_ok(r.eval_accuracy >= 0 && r.eval_accuracy <= 1, NULL,
                 "the accuracy is that of the others");
    damage(spec->dataset.path, digits, TRAIN, EVAL, "val");
    train_dir(dir);
    (void)mpi_ok(run(c, spec, dir, 0, &r, &err) == -1 &&
                     strstr(err.msg, "none of the images can be read"),
                 &err, "none at all is an error");
    train_remove(dir);
    spec->dataset.on_bad_row = BAD_ROW_FAIL;
    if (mpi_size > 1)
        return; /* one rank would fail and the others wait for it */
    train_dir(dir);
    (void)mpi_ok(run(c, spec, dir, 0, &r, &err) == -1 &&
                     strstr(err.msg, ".png: PNG: ") && err.code == ERR_INVAL,
                 &err, "or the first is named");
    train_remove(dir);
}

static void test_refused(struct comm *c, struct job_spec *spec)
{
    struct error err = ERROR_INIT;
    struct train_result r = {.end = TRAIN_STOPPED};
    char dir[64];
    train_dir(dir);
    spec->train.batch_size = TRAIN + 1;
    (void)mpi_ok(run(c, spec, dir, 0, &r, &err) == -1 &&
                     strstr(err.msg, "dataset.drop_last leaves nothing"),
                 &err, "a batch that is never full");
    spec->train.batch_size = BATCH;
    spec->dataset.split = 0.5;
    (void)mpi_ok(run(c, spec, dir, 0, &r, &err) == -1 &&
                     strstr(err.msg, "remove dataset.split"),
                 &err, "val and a split");
    spec->dataset.split = 0;
    train_remove(dir);
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct job_spec spec;
    struct dataset digits;
    struct comm *c = NULL;
    char dir[64];
    mpi_tap_start(&argc, &argv);
    if (!train_spec(&spec))
        return 1;
    (void)mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "comm");
    train_dir(dir);
    digits_open(&digits, TRAIN + EVAL);
    if (mpi_rank == 0) {
        digits_write(dir, "train", &digits, 0, TRAIN);
        digits_write(dir, "val", &digits, TRAIN, TRAIN + EVAL);
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
    spec.dataset.source = SOURCE_IMAGE_FOLDER;
    spec.dataset.path = strdup(dir);
    spec.dataset.augment = AUGMENT_CROP;
    spec.dataset.drop_last = true;
    spec.dataset.workers = 0;
    spec.dataset.train_samples = spec.dataset.eval_samples = 0;
    spec.train.batch_size = BATCH;
    spec.checkpoint.keep_last = 1;
    test_same(c, &spec);
    test_refused(c, &spec);
    test_bad(c, &spec, &digits);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (mpi_rank == 0)
        digits_remove(dir);
    dataset_clear(&digits);
    spec_clear(&spec);
    c->ops->destroy(c);
    return mpi_tap_done();
}
