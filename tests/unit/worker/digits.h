/* digits.h - a folder of real images: the shipped digits as PNG and JPEG.
 *
 * For tests only: whatever is wrong ends the program.
 */
#ifndef MGPU_TESTS_DIGITS_H
#define MGPU_TESTS_DIGITS_H

#include <sys/stat.h>

#include "tests/golden/golden.h"
#include "tests/unit/worker/pictures.h"
#include "worker/data/dataset.h"

static inline void digits_open(struct dataset *ret, int32_t n)
{
    struct error err = ERROR_INIT;
    char path[4096];
    const struct dataset_conf conf = {.source = SOURCE_MNIST,
                                      .path =
                                          golden_path("tests/data/mnist", path),
                                      .samples = n};
    paint_must(dataset_open(&conf, DATASET_TRAIN, ret, &err) == 0);
}

static inline void digits_directory(const char *dir, const char *part,
                                    int32_t label)
{
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, part);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/%s/%d", dir, part, label);
    (void)mkdir(path, 0700);
}

/* DIR/part/<digit>/<i>.png: digits [first, last) of d. */
static inline void digits_write(const char *dir, const char *part,
                                const struct dataset *d, int32_t from,
                                int32_t to)
{
    struct buf b = BUF_INIT;
    for (int32_t i = from; i < to; i++) {
        const struct paint p = {.W = d->W,
                                .H = d->H,
                                .C = 1,
                                .v = d->images +
                                     (size_t)i * (size_t)d->H * (size_t)d->W};
        char path[400];
        digits_directory(dir, part, d->labels[i]);
        (void)snprintf(path, sizeof(path), "%s/%s/%d/%05d.png", dir, part,
                       d->labels[i], i);
        paint_png(&p, &b);
        paint_file(path, &b);
    }
    buf_clear(&b);
}

static inline void digits_remove(const char *dir)
{
    char command[400];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    paint_must(system(command) == 0);
}

#endif
