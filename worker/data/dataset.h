/* dataset.h - labelled 8-bit images, in host memory or in files.
 *
 * "mnist" is a directory with IDX files under their usual names
 * (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-...), plain or with
 * ".gz"; any set in that format works, whatever its image size and number of
 * classes, and with "idx4" one of [n, H, W, C]. "image_folder" is
 * image_folder.h. "synthetic" draws images whose class can be learnt, the same
 * ones everywhere, so that a job can be tried without any data.
 *
 * The images stay as small as they were stored; the device resizes them
 * (loader.h). Every rank holds the whole part, or all names of it.
 */
#ifndef MGPU_WORKER_DATA_DATASET_H
#define MGPU_WORKER_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"
#include "kernels/cv/image_u8.h"
#include "worker/data/image/image_folder.h"

enum dataset_part { DATASET_TRAIN, DATASET_EVAL };

struct dataset {
    int32_t n;
    int32_t num_classes; /* of the whole file, also when n is a part of it */
    int32_t *labels;     /* [n], 0..num_classes-1 */
    struct image_norm norm;
    /* In memory: */
    int32_t H, W, C; /* C 1 or IMAGE_CHANNELS */
    uint8_t *images; /* [n, H, W, C]; NULL: in files */
    /* In files: */
    struct folder folder;
};

struct dataset_conf {
    enum spec_source source;
    const char *path;    /* directory; NULL for synthetic */
    int32_t samples;     /* so many; 0: all (synthetic: 1024) */
    int32_t num_classes; /* a label must be below it; 0: any, synthetic 10 */
    double split;        /* of image_folder; see image_folder.h */
    int64_t seed;
    bool skip_bad;
    bool gray; /* what is held in memory becomes one channel */
};

/* out  ret  end it with dataset_clear()
 * err  ERR_NOTFOUND no such file; ERR_INVAL "file: offset: what is wrong";
 *      ERR_LIMIT more than 2^31 bytes of images; ERR_NOMEM
 */
int dataset_open(const struct dataset_conf *conf, enum dataset_part part,
                 struct dataset *ret, struct error *err) MUST_CHECK;
void dataset_clear(struct dataset *d); /* NULL and zeroed are fine */

#endif
