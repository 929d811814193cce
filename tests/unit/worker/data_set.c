/* data_set.c - IDX files, good and bad, the shipped part of MNIST, and the
 * synthetic images. */
#include "worker/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "worker/data/image/idx.h"

static char dir[] = "/tmp/mgpu-data-XXXXXX";

static void in_dir(const char *name, char out[256])
{
    (void)snprintf(out, 256, "%s/%s", dir, name);
}

static void put(const char *name, const void *p, size_t n)
{
    char path[256];
    in_dir(name, path);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0)
        exit(1);
}

static void put_gz(const char *name, const void *p, unsigned n)
{
    char path[256];
    in_dir(name, path);
    gzFile f = gzopen(path, "wb9");
    if (!f || gzwrite(f, p, n) != (int)n || gzclose(f) != Z_OK)
        exit(1);
}

static void drop(const char *name)
{
    char path[256];
    in_dir(name, path);
    (void)unlink(path);
}

/* Two images of 2x3 and their labels. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0,   2, 0, 0, 0, 2, 0, 0,
                                 0, 3, 1, 2, 3, 4, 255, 0, 7, 8, 9, 0, 1, 2};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 5, 9};
static const char images_name[] = "train-images-idx3-ubyte";
static const char labels_name[] = "train-labels-idx1-ubyte";

static int open_dir(int32_t samples, struct dataset *ret, struct error *err)
{
    const struct dataset_conf conf = {
        .source = SOURCE_MNIST, .path = dir, .samples = samples};
    return dataset_open(&conf, DATASET_TRAIN, ret, err);
}

static void test_good(void)
{
    struct dataset d;
    struct error err = ERROR_INIT;
    for (int gz = 0; gz < 2; gz++) {
        if (gz) {
            drop(images_name);
            drop(labels_name);
            put_gz("train-images-idx3-ubyte.gz", images, sizeof(images));
            put_gz("train-labels-idx1-ubyte.gz", labels, sizeof(labels));
        } else {
            put(images_name, images, sizeof(images));
            put(labels_name, labels, sizeof(labels));
        }
        if (!ok(open_dir(0, &d, &err) == 0, "%s files", gz ? "gzip" : "plain"))
            tap_diag("%s", err.msg);
        ok(d.n == 2 && d.H == 2 && d.W == 3, "the shape is the header's");
        is_int(d.num_classes, 10, "the largest label is 9");
        ok(memcmp(d.images, images + 16, 12) == 0, "every byte");
        ok(d.labels[0] == 5 && d.labels[1] == 9, "every label");
        dataset_clear(&d);
        ok(open_dir(1, &d, &err) == 0, "a part of them");
        ok(d.n == 1 && d.num_classes == 10 && d.labels[0] == 5,
           "keeps the number of classes");
        dataset_clear(&d);
    }
    drop("train-images-idx3-ubyte.gz");
    drop("train-labels-idx1-ubyte.gz");
    put_gz(images_name, images, sizeof(images));
    put_gz(labels_name, labels, sizeof(labels));
    ok(open_dir(0, &d, &err) == 0, "gzip without the name is seen as well");
    dataset_clear(&d);
    dataset_clear(NULL);
}

/* The image file is replaced by n bytes of p. */
static void refused(const uint8_t *p, size_t n, int32_t samples,
                    enum err_code code, const char *want)
{
    struct dataset d = {.n = -7};
    struct error err = ERROR_INIT;
    char message[400];
    put(images_name, p, n);
    int rc = open_dir(samples, &d, &err);
    (void)snprintf(message, sizeof(message), "%s/%s: %s", dir, images_name,
                   want);
    is_int(rc, -1, want);
    is_int(err.code, code, "with its code");
    is_str(err.msg, message, "and its place");
    ok(d.n == -7, "and nothing set");
}

/* As `images` with one byte changed. */
static void refused_byte(size_t at, uint8_t value, enum err_code code,
                         const char *want)
{
    uint8_t p[sizeof(images)];
    memcpy(p, images, sizeof(p));
    p[at] = value;
    refused(p, sizeof(p), 0, code, want);
}

static void test_bad_images(void)
{
    uint8_t longer[sizeof(images) + 1] = {0}, huge[sizeof(images)];
    put(labels_name, labels, sizeof(labels));
    refused_byte(0, 1, ERR_INVAL, "offset 0: not an IDX file");
    refused_byte(1, 'x', ERR_INVAL, "offset 0: not an IDX file");
    refused_byte(2, 9, ERR_INVAL, "offset 2: the type is not unsigned bytes");
    refused_byte(3, 1, ERR_INVAL,
                 "offset 3: not images: the dimensions are not 3");
    refused_byte(7, 0, ERR_INVAL, "offset 4: a dimension is out of range");
    refused_byte(8, 0x80, ERR_INVAL, "offset 8: a dimension is out of range");
    refused_byte(15, 0, ERR_INVAL, "offset 12: a dimension is out of range");
    refused_byte(7, 3, ERR_INVAL, "offset 28: the file ends too early");
    refused_byte(5, 1, ERR_INVAL,
                 "offset 4: the file ends too early: its header says 393228 "
                 "bytes, and it has 28");
    refused_byte(7, 1, ERR_INVAL, "offset 22: bytes follow the last item");
    refused(images, 0, 0, ERR_INVAL, "offset 0: the file ends too early");
    refused(images, 3, 0, ERR_INVAL, "offset 3: the file ends too early");
    refused(images, 10, 0, ERR_INVAL, "offset 10: the file ends too early");
    refused(images, 27, 0, ERR_INVAL, "offset 27: the file ends too early");
    refused(images, 27, 2, ERR_INVAL, "offset 27: the file ends too early");
    refused(images, sizeof(images), 3, ERR_INVAL,
            "offset 4: 2 items, 3 are asked for");
    memcpy(longer, images, sizeof(images));
    refused(longer, sizeof(longer), 0, ERR_INVAL,
            "offset 28: bytes follow the last item");
    /* 2^31 bytes and one image more; then sides whose product overflows. */
    memcpy(huge, images, sizeof(huge));
    memcpy(huge + 4, "\x00\x02\x00\x01\x00\x00\x00\x80\x00\x00\x00\x80", 12);
    refused(huge, sizeof(huge), 0, ERR_LIMIT, "more than 2^31 bytes");
    memcpy(huge + 4, "\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff", 12);
    refused(huge, sizeof(huge), 0, ERR_LIMIT, "more than 2^31 bytes");
}

static void test_bad_labels(void)
{
    static const uint8_t three[] = {0, 0, 8, 1, 0, 0, 0, 3, 5, 9, 1};
    struct dataset d;
    struct error err = ERROR_INIT;
    char message[400];
    put(images_name, images, sizeof(images));
    put(labels_name, three, sizeof(three));
    is_int(open_dir(0, &d, &err), -1, "three labels for two images");
    (void)snprintf(message, sizeof(message),
                   "%s/%s: offset 4: 3 labels for 2 images", dir, labels_name);
    is_str(err.msg, message, "are counted");
    put(labels_name, images, sizeof(images));
    is_int(open_dir(0, &d, &err), -1, "images for labels");
    (void)snprintf(message, sizeof(message),
                   "%s/%s: offset 3: not a list: the dimensions are not 1", dir,
                   labels_name);
    is_str(err.msg, message, "are told apart");
    drop(labels_name);
    is_int(open_dir(0, &d, &err), -1, "no labels");
    is_int(err.code, ERR_NOTFOUND, "are not found");
    ok(strstr(err.msg, "no train-labels-idx1-ubyte or "
                       "train-labels-idx1-ubyte.gz"),
       "under both names: %s", err.msg);
    put(labels_name, labels, sizeof(labels));
    drop(images_name);
    is_int(open_dir(0, &d, &err), -1, "no images");
    is_int(err.code, ERR_NOTFOUND, "are not found");
}

/* A gzip file cut anywhere, or with any byte of its tail wrong, is refused. */
static void test_bad_gzip(void)
{
    char path[256];
    uint8_t raw[256];
    struct dataset d;
    struct error err = ERROR_INIT;
    put_gz(images_name, images, sizeof(images));
    in_dir(images_name, path);
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(raw, 1, sizeof(raw), f) : 0;
    if (!f || fclose(f) != 0 || n < 20)
        exit(1);
    size_t cut = 0, wrong = 0;
    for (size_t len = 0; len < n; len++) {
        put(images_name, raw, len);
        cut += open_dir(0, &d, &err) == -1 && err.code == ERR_INVAL;
    }
    is_int((long long)cut, (long long)n, "cut at any byte");
    for (size_t at = n - 8; at < n; at++) { /* checksum and length */
        raw[at] ^= 1;
        put(images_name, raw, n);
        wrong += open_dir(0, &d, &err) == -1 && err.code == ERR_INVAL;
        raw[at] ^= 1;
    }
    is_int((long long)wrong, 8, "with a wrong checksum or length");
    ok(strstr(err.msg, "bad gzip data"), "and says so: %s", err.msg);
}

/* [2, 1, 2, 3]: two colour images, and what may be wrong with them. */
static void test_colour(void)
{
    static const uint8_t rgb[] = {0, 0, 8, 4, 0, 0, 0, 2,  0,  0, 0,
                                  1, 0, 0, 0, 2, 0, 0, 0,  3,  1, 2,
                                  3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const char name[] = "train-images-idx4-ubyte";
    uint8_t bad[sizeof(rgb)];
    struct dataset d;
    struct error err = ERROR_INIT;
    char path[256];
    put(labels_name, labels, sizeof(labels));
    put(name, rgb, sizeof(rgb));
    is_int(open_dir(0, &d, &err), 0, "colour images");
    ok(d.n == 2 && d.H == 1 && d.W == 2 && d.C == 3 && d.images[11] == 12,
       "of two pixels each");
    dataset_clear(&d);
    const struct dataset_conf gray = {
        .source = SOURCE_MNIST, .path = dir, .gray = true};
    is_int(dataset_open(&gray, DATASET_TRAIN, &d, &err), 0, "as gray ones");
    ok(d.C == 1 && d.images[0] == image_gray(rgb + 20) &&
           d.images[3] == image_gray(rgb + 29),
       "every pixel by itself");
    dataset_clear(&d);
    memcpy(bad, rgb, sizeof(bad));
    bad[19] = 2;
    put(name, bad, sizeof(bad) - 4);
    is_int(open_dir(0, &d, &err), -1, "two channels");
    ok(strstr(err.msg, "idx4-ubyte: offset 16: 2 channels, not 1 or 3"), "%s",
       err.msg);
    drop(name);
    in_dir(images_name, path);
    (void)unlink(path);
    if (mkfifo(path, 0600) < 0)
        exit(1);
    is_int(open_dir(0, &d, &err), -1, "a pipe that nobody writes");
    ok(strstr(err.msg, "not a regular file"), "is refused: %s", err.msg);
    drop(images_name);
    put(images_name, images, sizeof(images));
    const struct dataset_conf conf = {
        .source = SOURCE_MNIST, .path = dir, .num_classes = 9};
    is_int(dataset_open(&conf, DATASET_TRAIN, &d, &err), -1,
           "a label beyond model.num_classes");
    ok(strstr(err.msg, "train-labels-idx1-ubyte: offset 9: label 9, but "
                       "model.num_classes is 9"),
       "has a place: %s", err.msg);
}

static void test_mnist(void)
{
    struct dataset d;
    struct error err = ERROR_INIT;
    char path[4096];
    struct dataset_conf conf = {.source = SOURCE_MNIST,
                                .path = golden_path("tests/data/mnist", path)};
    int64_t sum = 0, counts[10] = {0};
    if (!ok(dataset_open(&conf, DATASET_TRAIN, &d, &err) == 0, "MNIST"))
        tap_diag("%s", err.msg);
    ok(d.n == 10000 && d.H == 28 && d.W == 28 && d.num_classes == 10,
       "10,000 images of 28x28");
    for (int32_t i = 0; i < 10000; i++)
        counts[d.labels[i]]++;
    ok(d.labels[0] == 5 && d.labels[1] == 0 && d.labels[2] == 4,
       "5, 0, 4, as everybody knows");
    ok(counts[0] == 1001 && counts[1] == 1127 && counts[9] == 978,
       "classes are as often as they should be");
    for (int32_t i = 0; i < 10000 * 784; i++)
        sum += d.images[i];
    double mean = (double)sum / 7840000 / 255;
    ok(mean > 0.13 && mean < 0.132, "the mean is %.4f", mean);
    dataset_clear(&d);
    conf.samples = 100;
    ok(dataset_open(&conf, DATASET_EVAL, &d, &err) == 0 && d.n == 100 &&
           d.labels[0] == 7,
       "the test part begins with a 7");
    dataset_clear(&d);
}

static void test_synthetic(void)
{
    struct dataset a, b;
    struct error err = ERROR_INIT;
    struct dataset_conf conf = {.source = SOURCE_SYNTHETIC};
    if (dataset_open(&conf, DATASET_TRAIN, &a, &err) < 0 ||
        dataset_open(&conf, DATASET_TRAIN, &b, &err) < 0)
        exit(1);
    size_t bytes = (size_t)a.n * 28 * 28;
    ok(a.n == 1024 && a.H == 28 && a.W == 28 && a.num_classes == 10,
       "1024 synthetic images in 10 classes");
    ok(memcmp(a.images, b.images, bytes) == 0, "the same ones twice");
    ok(a.labels[0] == 0 && a.labels[13] == 3, "classes in turn");
    dataset_clear(&b);
    if (dataset_open(&conf, DATASET_EVAL, &b, &err) < 0)
        exit(1);
    ok(memcmp(a.images, b.images, 28 * 28) != 0, "others for evaluation");
    dataset_clear(&b);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < bytes; i++) {
        double v = a.images[i] / 255.0;
        sum += v;
        squares += v * v;
    }
    double mean = sum / (double)bytes;
    double std = sqrt(squares / (double)bytes - mean * mean);
    ok(fabs(mean - a.norm.mean[1]) < 0.03 && fabs(std - a.norm.std[1]) < 0.03,
       "normalised by what they have: %.3f, %.3f", mean, std);
    dataset_clear(&a);
    conf.samples = 3;
    conf.num_classes = 300;
    ok(dataset_open(&conf, DATASET_TRAIN, &a, &err) == 0 && a.n == 3 &&
           a.num_classes == 300,
       "as many classes as asked for");
    dataset_clear(&a);
    conf.samples = INT32_MAX;
    is_int(dataset_open(&conf, DATASET_TRAIN, &a, &err), -1, "not any number");
    is_int(err.code, ERR_LIMIT, "but 2^31 bytes");
    conf.samples = -1;
    is_int(dataset_open(&conf, DATASET_TRAIN, &a, &err), -1,
           "nor fewer than 0");
    is_int(err.code, ERR_INVAL, "which is invalid");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_good();
    test_bad_images();
    test_bad_labels();
    test_bad_gzip();
    test_colour();
    test_mnist();
    test_synthetic();
    drop(images_name);
    drop(labels_name);
    (void)rmdir(dir);
    return tap_done();
}
