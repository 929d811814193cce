/* data_loader.c - batches on the device: the right samples, resized as
 * torchvision resizes, without an allocation per step; and the optimizers
 * against PyTorch's, which live in the same golden file. */
#include "worker/data/loader.h"

#include <math.h>

#include "tests/golden/golden.h"
#include "tests/unit/worker/cv_rig.h"
#include "tests/unit/worker/digits.h"
#include "worker/data/sampler.h"

/* A clock that moves by one second with every look at it. */
static double tick(const struct clock *c)
{
    static double t;
    (void)c;
    return t += 1;
}
static const struct clock ticking = {.now_s = tick, .wall_s = tick};

/* A dataset of one picture, as tests/golden/images.py draws it. */
static struct dataset picture(int32_t H, int32_t W, int32_t *label)
{
    const struct image_norm imagenet = {.mean = {0.485, 0.456, 0.406},
                                        .std = {0.229, 0.224, 0.225}};
    return (struct dataset){.n = 1,
                            .H = H,
                            .W = W,
                            .C = 3,
                            .images = paint_pattern(H, W),
                            .labels = label,
                            .num_classes = 1,
                            .norm = imagenet};
}

struct fixture {
    struct device_ops ops;
    struct device *d;
    struct dataset ds;
};

static void setup(struct fixture *f)
{
    struct error err = ERROR_INIT;
    char dir[4096];
    const struct dataset_conf conf = {.source = SOURCE_MNIST,
                                      .path =
                                          golden_path("tests/data/mnist", dir),
                                      .samples = 100};
    must(dataset_open(&conf, DATASET_TRAIN, &f->ds, &err), &err);
    must(device_host_create(1, &f->d, &err), &err);
    rig_real = f->d->ops;
    f->ops = *rig_real;
    f->ops.alloc = rig_alloc;
    f->d->ops = &f->ops;
}

static void teardown(struct fixture *f)
{
    f->d->ops->destroy(f->d);
    dataset_clear(&f->ds);
}

static bool on_host; /* dataset.data_path: paper */

static struct loader *make(struct fixture *f, enum dtype dt, int32_t size,
                           int32_t batch)
{
    struct error err = ERROR_INIT;
    struct loader *l = NULL;
    const struct loader_conf conf = {
        .dt = dt, .image_size = size, .batch = batch, .floats = on_host};
    rig_bytes = 0;
    must(loader_create(f->d, &conf, &f->ds, &ticking, &l, &err), &err);
    is_int(rig_bytes, loader_bytes(&conf, &f->ds),
           "takes what loader_bytes() says");
    return l;
}

/* The generator's four sums, and every (size / 28)-th pixel of a row. */
static void test_resize(struct fixture *f, const struct golden *g, int32_t size)
{
    struct error err = ERROR_INIT;
    struct loader *l = make(f, DT_F64, size, 1);
    struct loader_batch b;
    int32_t first = 0;
    double sums[4] = {0}, row[64];
    char line[64];
    size_t n = 0;
    bool grey = true;
    must(loader_next(l, &first, 1, &b, &err), &err);
    const double *x = b.x;
    for (int32_t i = 0; i < size; i++) {
        for (int32_t j = 0; j < size; j++, x += 3) {
            sums[0] += x[0];
            sums[1] += x[0] * x[0];
            sums[2] += x[0] * (i % 13);
            sums[3] += x[0] * (j % 11);
            grey = grey && x[0] == x[1] && x[0] == x[2];
            if (i == size / 2 && j % (size / 28) == 0)
                row[n++] = x[0];
        }
    }
    (void)snprintf(line, sizeof(line), "resize %d", size);
    golden_is(g, line, sums, 4, 1e-12);
    (void)snprintf(line, sizeof(line), "resize %d row", size);
    golden_is(g, line, row, n, 1e-12);
    ok(grey, "three equal channels");
    loader_destroy(l);
}

/* The same pixels without the two that are equal. */
static void test_gray(struct fixture *f)
{
    enum { S = 32 };
    struct error err = ERROR_INIT;
    struct loader_conf conf = {.dt = DT_F32, .image_size = S, .batch = 2};
    struct loader *three = NULL, *one = NULL;
    struct loader_batch a, b;
    int32_t index[2] = {3, 5}, wrong = 0;
    must(loader_create(f->d, &conf, &f->ds, &ticking, &three, &err), &err);
    conf.gray = true;
    rig_bytes = 0;
    must(loader_create(f->d, &conf, &f->ds, &ticking, &one, &err), &err);
    is_int(rig_bytes, loader_bytes(&conf, &f->ds), "gray: as planned");
    must(loader_next(three, index, 2, &a, &err), &err);
    must(loader_next(one, index, 2, &b, &err), &err);
    for (int32_t i = 0; i < 2 * S * S; i++)
        wrong += ((float *)b.x)[i] != ((float *)a.x)[3 * i];
    is_int(wrong, 0, "gray: one channel of the three");
    loader_destroy(three);
    loader_destroy(one);
}

/* The generator's five sums of one view of one picture. */
static void test_view(struct fixture *f, const struct golden *g,
                      const char *line, int32_t H, int32_t W,
                      const struct loader_conf *conf,
                      const struct view_draw *draw)
{
    struct error err = ERROR_INIT;
    int32_t label = 0, index = 0;
    double sums[5] = {0};
    struct dataset ds = picture(H, W, &label);
    struct loader *l = NULL;
    struct loader_batch b;
    /* The sample's number is part of the draw. */
    const struct fetch_ask ask = {
        .index = &index, .n = 1, .seed = draw->seed, .epoch = draw->epoch};
    must(loader_create(f->d, conf, &ds, &ticking, &l, &err), &err);
    must(loader_put(l, &ask, &err), &err);
    must(loader_take(l, &b, &err), &err);
    const double *x = b.x;
    for (int32_t i = 0; i < conf->image_size; i++)
        for (int32_t j = 0; j < conf->image_size; j++)
            for (int32_t c = 0; c < 3; c++, x++) {
                sums[0] += *x;
                sums[1] += *x * *x;
                sums[2] += *x * (i % 13);
                sums[3] += *x * (j % 11);
                sums[4] += *x * (c + 1);
            }
    golden_is(g, line, sums, 5, 1e-12);
    loader_destroy(l);
    free(ds.images);
}

/* Resize with antialias, Resize and CenterCrop, RandomResizedCrop and
 * RandomHorizontalFlip: torchvision's results. */
static void test_views(struct fixture *f)
{
    static const int32_t sizes[][3] = {
        {40, 50, 28},    {28, 28, 28}, {20, 90, 28}, {300, 211, 32}, {9, 5, 40},
        {131, 640, 100}, {50, 40, 28}, {33, 33, 28}, {31, 90, 28}};
    static const struct view_draw draws[] = {{.seed = 0}, {.seed = 1}};
    struct loader_conf conf = {.dt = DT_F64, .batch = 1, .floats = on_host};
    struct golden g;
    char line[96];
    golden_open(&g, "tests/golden/images.txt");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int32_t H = sizes[i][0], W = sizes[i][1];
        conf.image_size = sizes[i][2];
        conf.augment = AUGMENT_NONE;
        (void)snprintf(line, sizeof(line), "whole %d %d %d", H, W,
                       conf.image_size);
        if (i < 6)
            test_view(f, &g, line, H, W, &conf, &draws[0]);
        conf.augment = AUGMENT_CROP;
        (void)snprintf(line, sizeof(line), "centre %d %d %d", H, W,
                       conf.image_size);
        if (i != 1 && i != 2)
            test_view(f, &g, line, H, W, &conf, &draws[0]);
    }
    conf.image_size = 28;
    conf.is_train = true;
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(line, sizeof(line), "crop 40 50 %d 0 0 sums",
                       (int)draws[i].seed);
        test_view(f, &g, line, 40, 50, &conf, &draws[i]);
    }
    golden_close(&g);
}

/* At 28x28 a pixel is (v / 255 - mean) / std of the image itself. */
static bool holds(const struct fixture *f, const struct loader_batch *b,
                  int32_t i, int32_t sample)
{
    const double *x = (const double *)b->x + (size_t)i * 28 * 28 * 3;
    const uint8_t *image = f->ds.images + (size_t)sample * 28 * 28;
    bool same = b->label[i] == f->ds.labels[sample];
    for (int32_t k = 0; same && k < 28 * 28; k++)
        same = fabs(x[3 * k] - (image[k] / 255.0 - 0.1307) / 0.3081) < 1e-12;
    return same;
}

static void test_batches(struct fixture *f)
{
    static const int32_t full[] = {7, 99, 7, 0}, part[] = {3, SAMPLER_NONE};
    struct error err = ERROR_INIT;
    struct loader *l = make(f, DT_F64, 28, 4);
    struct loader_batch b, kept;
    int64_t before = rig_allocs;
    bool good = true;
    must(loader_next(l, full, 4, &b, &err), &err);
    for (int32_t i = 0; i < 4; i++)
        good = good && holds(f, &b, i, full[i]);
    ok(good && b.n == 4 && b.valid == 4, "a batch of four, one of them twice");
    ok(b.data_s == 1 && b.h2d_s == 1, "the phases are timed");
    must(loader_next(l, part, 2, &b, &err), &err);
    ok(holds(f, &b, 0, 3) && b.label[1] == -1, "padding has label -1");
    ok(b.n == 2 && b.valid == 1, "and is not counted");
    for (int32_t k = 0; k < 5; k++) {
        must(loader_next(l, full + k % 4, 1, &b, &err), &err);
        good = good && holds(f, &b, 0, full[k % 4]);
    }
    ok(good, "batches of one, in turn");
    is_int(rig_allocs - before, 0, "and nothing is allocated");

    kept = b;
    const int32_t bad[] = {0, 100}, worse[] = {-2};
    is_int(loader_next(l, bad, 2, &b, &err), -1, "a sample behind the last");
    is_int(err.code, ERR_INVAL, "is invalid");
    is_str(err.msg, "loader: sample 100 of 100", "and named");
    is_int(loader_next(l, worse, 1, &b, &err), -1, "a negative sample");
    is_int(loader_next(l, full, 5, &b, &err), -1, "more than the batch");
    is_int(loader_next(l, full, 0, &b, &err), -1, "less than one");
    ok(memcmp(&kept, &b, sizeof(b)) == 0, "a failure sets nothing");
    loader_destroy(l);
    loader_destroy(NULL);
}

/* The shipped digits as PNG files give the tensors that they give from
 * memory, bit for bit: in evaluation, and in training with cuts. */
static void test_files(struct fixture *f)
{
    enum { N = 40, SIZE = 32 };
    static char dir[] = "/tmp/mgpu-loader-XXXXXX";
    struct error err = ERROR_INIT;
    struct dataset files, digits;
    const struct dataset_conf conf = {
        .source = SOURCE_IMAGE_FOLDER, .path = dir, .split = 0};
    if (!mkdtemp(dir))
        exit(1);
    digits_open(&digits, N);
    digits_write(dir, "train", &digits, 0, N);
    digits_write(dir, "val", &digits, 0, N);
    must(dataset_open(&conf, DATASET_TRAIN, &files, &err), &err);
    files.norm = digits.norm;
    /* The folder's order is by class; the names say which digit it is. */
    uint8_t *sorted = malloc((size_t)N * 28 * 28);
    for (int32_t i = 0; sorted && i < N; i++) {
        const char *name = strrchr(folder_name(&files.folder, i), '/') + 1;
        memcpy(sorted + i * 28 * 28, digits.images + atoi(name) * 28 * 28,
               28 * 28);
    }
    free(digits.images);
    digits.images = sorted;
    for (int k = 0; k < 4; k++) {
        const struct loader_conf lc = {.dt = DT_F32,
                                       .image_size = SIZE,
                                       .batch = N,
                                       .augment = (enum spec_augment)(k % 3),
                                       .is_train = k > 0,
                                       .workers = k};
        int32_t index[N];
        struct loader *a = NULL, *b = NULL;
        struct loader_batch x, y;
        for (int32_t i = 0; i < N; i++)
            index[i] = (i * 7) % N;
        must(loader_create(f->d, &lc, &files, &ticking, &a, &err), &err);
        must(loader_create(f->d, &lc, &digits, &ticking, &b, &err), &err);
        must(loader_next(a, index, N, &x, &err), &err);
        must(loader_next(b, index, N, &y, &err), &err);
        ok(memcmp(x.x, y.x, (size_t)N * SIZE * SIZE * 3 * sizeof(float)) == 0,
           "files give what memory gives: %d", k);
        bool labels = true;
        for (int32_t i = 0; i < N; i++) {
            const char *name = folder_name(&files.folder, index[i]);
            labels = labels && x.label[i] == atoi(name + strlen("train/"));
        }
        ok(labels && x.valid == N, "and their directories are the labels");
        loader_destroy(a);
        loader_destroy(b);
    }
    dataset_clear(&files);
    dataset_clear(&digits);
    digits_remove(dir);
}

/* Planes, of bytes or of numbers, gray or not, give the same bits: of colour
 * pictures of which a part is seen. */
static void test_planar(struct fixture *f)
{
    enum { SIZE = 33, N = 2 };
    struct error err = ERROR_INIT;
    int32_t labels[N] = {0, 0};
    const int32_t index[3] = {1, SAMPLER_NONE, 0};
    struct dataset ds = picture(2 * 40, 50, labels);
    ds.n = N;
    ds.H = 40; /* one above the other */
    for (int k = 0; k < 16; k++) {
        struct loader_conf conf = {.dt = k & 1 ? DT_F32 : DT_BF16,
                                   .image_size = SIZE,
                                   .batch = 3,
                                   .augment = AUGMENT_CROP,
                                   .is_train = true,
                                   .floats = (k & 2) != 0,
                                   .gray = (k & 4) != 0,
                                   .workers = k & 8 ? 2 : 0};
        struct loader *l[2] = {NULL, NULL};
        struct loader_batch b[2];
        if (conf.gray)
            ds.C = 1;
        size_t bytes = (size_t)(3 * SIZE * SIZE * (conf.gray ? 1 : 3)) *
                       dtype_bytes(conf.dt);
        for (int i = 0; i < 2; i++) {
            conf.planar = i > 0;
            rig_bytes = 0;
            must(loader_create(f->d, &conf, &ds, &ticking, &l[i], &err), &err);
            is_int(rig_bytes, loader_bytes(&conf, &ds), "as planned");
            must(loader_next(l[i], index, 3, &b[i], &err), &err);
        }
        ok(memcmp(b[0].x, b[1].x, bytes) == 0, "%s%s%s, %d threads: same bits",
           conf.floats ? "numbers" : "bytes", conf.gray ? ", gray" : "",
           k & 1 ? ", fp32" : ", bf16", conf.workers);
        loader_destroy(l[0]);
        loader_destroy(l[1]);
        ds.C = 3;
    }
    free(ds.images);
}

static void test_refused(struct fixture *f)
{
    struct error err = ERROR_INIT;
    struct loader *l = NULL;
    struct loader_conf conf = {.dt = DT_F32, .image_size = 28};
    is_int(loader_create(f->d, &conf, &f->ds, &ticking, &l, &err), -1,
           "no batch, no loader");
    conf = (struct loader_conf){.dt = DT_F32, .batch = 1};
    is_int(loader_create(f->d, &conf, &f->ds, &ticking, &l, &err), -1,
           "no image size, no loader");
    ok(l == NULL, "a failure sets nothing");
}

static void test_optim(struct fixture *f, const struct golden *g,
                       const char *name)
{
    static const double start[5] = {0.5, -1.25, 3.0, 0.0, -0.001};
    struct error err = ERROR_INIT;
    double p[5], m[5] = {0}, v[5] = {0}, grad[5];
    memcpy(p, start, sizeof(p));
    for (int32_t step = 0; step < 4; step++) {
        char line[64];
        for (int32_t i = 0; i < 5; i++)
            grad[i] = 2 * sin(3.0 * step + i); /* halved by grad_scale */
        const struct sgd_args sgd = {.lr = 0.1,
                                     .momentum = 0.9,
                                     .weight_decay = 0.01,
                                     .grad_scale = 0.5,
                                     .nesterov = name[0] == 'n',
                                     .first = step == 0};
        const struct adamw_args adamw = {.lr = 0.1,
                                         .beta1 = 0.9,
                                         .beta2 = 0.99,
                                         .eps = 1e-6,
                                         .weight_decay = 0.1,
                                         .grad_scale = 0.5,
                                         .step = step + 1};
        if (name[0] == 'a')
            must(f->ops.adamw(f->d, DT_F64, p, m, v, grad, 5, &adamw, &err),
                 &err);
        else
            must(f->ops.sgd(f->d, DT_F64, p, m, grad, 5, &sgd, &err), &err);
        (void)snprintf(line, sizeof(line), "optim %s %d", name, step);
        golden_is(g, line, p, 5, 1e-12);
    }
}

/* Resized on the host or on the device: the same numbers, rounded once, or
 * from sums that were. A gray loader has one of the channels. */
static void test_types(struct fixture *f)
{
    static const double tol[DT_N] = {
        [DT_F64] = 1e-13, [DT_F32] = 1e-6, [DT_F16] = 2e-3, [DT_BF16] = 1.6e-2};
    struct error err = ERROR_INIT;
    const int32_t index[3] = {5, SAMPLER_NONE, 7};
    for (int k = 0; k < 2 * DT_N; k++) {
        enum dtype dt = (enum dtype)(k / 2);
        struct loader_conf conf = {
            .dt = dt, .image_size = 45, .batch = 3, .gray = k % 2 != 0};
        struct loader *l[2];
        struct loader_batch b[2];
        int64_t n = 3 * 45 * 45 * (conf.gray ? 1 : 3);
        double most = 0;
        for (int i = 0; i < 2; i++) {
            conf.floats = i != 0;
            must(loader_create(f->d, &conf, &f->ds, &ticking, &l[i], &err),
                 &err);
            must(loader_next(l[i], index, 3, &b[i], &err), &err);
        }
        for (int64_t i = 0; i < n; i++)
            most = fmax(most, fabs(dtype_get(dt, b[0].x, i) -
                                   dtype_get(dt, b[1].x, i)));
        ok(most <= tol[dt] * 3, "%s%s: host and device are %.2g apart",
           dtype_name(dt), conf.gray ? ", gray" : "", most);
        ok(memcmp(b[0].label, b[1].label, 3 * sizeof(int32_t)) == 0 &&
               b[0].valid == 2 && b[1].valid == 2,
           "the labels");
        loader_destroy(l[0]);
        loader_destroy(l[1]);
    }
}

int main(void)
{
    static const int32_t sizes[] = {28, 32, 100, 224};
    struct fixture f;
    struct golden g;
    setup(&f);
    golden_open(&g, "tests/golden/data.txt");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        test_resize(&f, &g, sizes[i]);
    test_gray(&f);
    test_views(&f);
    test_batches(&f);
    on_host = true;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        test_resize(&f, &g, sizes[i]);
    test_views(&f);
    test_batches(&f);
    test_types(&f);
    on_host = false;
    test_files(&f);
    test_planar(&f);
    test_refused(&f);
    test_optim(&f, &g, "sgd");
    test_optim(&f, &g, "nesterov");
    test_optim(&f, &g, "adamw");
    golden_close(&g);
    teardown(&f);
    return tap_done();
}
