/* dataset.c - see dataset.h. The sources and what is checked of them. */
#include "worker/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/image/idx.h"
#include "worker/data/synthetic.h"

enum { PATH_CAP = 4096, SYNTHETIC_TRAIN = 1024, SYNTHETIC_EVAL = 256 };

/* dir/name, or dir/name.gz when only that exists. */
static int find_file(const char *dir, const char *name, char ret[PATH_CAP],
                     struct error *err)
{
    static const char *const suffix[] = {"", ".gz"};
    for (size_t i = 0; i < 2; i++) {
        int len = snprintf(ret, PATH_CAP, "%s/%s%s", dir, name, suffix[i]);
        if (len < 0 || len >= PATH_CAP)
            return error_set(err, ERR_INVAL, "%s: the path is too long", dir);
        if (access(ret, F_OK) == 0)
            return 0;
    }
    return error_set(err, ERR_NOTFOUND, "%s: no %s or %s.gz", dir, name, name);
}

/* The same values for every channel. */
static struct image_norm same_norm(double mean, double std)
{
    struct image_norm n;
    for (int c = 0; c < IMAGE_CHANNELS; c++) {
        n.mean[c] = mean;
        n.std[c] = std;
    }
    return n;
}

/* Gray images, or of three channels where there is only an "idx4" file. */
static int read_images(const struct dataset_conf *conf, const char *prefix,
                       struct dataset *d, int32_t *ret_items, struct error *err)
{
    char name[64], path[PATH_CAP];
    int32_t dim[IDX_DIMS] = {0}, dims = 3;
    (void)snprintf(name, sizeof(name), "%s-images-idx4-ubyte", prefix);
    if (find_file(conf->path, name, path, NULL) == 0) {
        dims = 4;
    } else {
        (void)snprintf(name, sizeof(name), "%s-images-idx3-ubyte", prefix);
        if (find_file(conf->path, name, path, err) < 0)
            return -1;
    }
    if (idx_read(path, dims, conf->samples, dim, &d->images, err) < 0)
        return -1;
    d->n = conf->samples ? conf->samples : dim[0];
    d->H = dim[1];
    d->W = dim[2];
    d->C = dims == 4 ? dim[3] : 1;
    *ret_items = dim[0];
    if (d->C != 1 && d->C != IMAGE_CHANNELS)
        return error_set(err, ERR_INVAL,
                         "%s: offset 16: %d channels, not 1 or %d", path, d->C,
                         IMAGE_CHANNELS);
    if (d->H > IMAGE_SIDE_MAX || d->W > IMAGE_SIDE_MAX)
        return error_set(err, ERR_LIMIT,
                         "%s: offset 8: images of %d x %d, at most %d on a "
                         "side",
                         path, d->H, d->W, IMAGE_SIDE_MAX);
    return 0;
}

/* Labels are read whole, so that the number of classes does not depend on
 * how many samples a job uses. */
static int read_labels(const struct dataset_conf *conf, const char *prefix,
                       int32_t items, struct dataset *d, struct error *err)
{
    char name[64], path[PATH_CAP];
    int32_t dim[IDX_DIMS];
    uint8_t *raw = NULL;
    (void)snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", prefix);
    if (find_file(conf->path, name, path, err) < 0 ||
        idx_read(path, 1, 0, dim, &raw, err) < 0)
        return -1;
    if (dim[0] != items) {
        free(raw);
        return error_set(err, ERR_INVAL,
                         "%s: offset 4: %d labels for %d images", path, dim[0],
                         items);
    }
    d->labels = malloc((size_t)d->n * sizeof(*d->labels));
    if (!d->labels) {
        free(raw);
        return error_set(err, ERR_NOMEM, "%d labels", d->n);
    }
    int32_t most = 0;
    for (int32_t i = 0; i < items; i++) {
        most = raw[i] > most ? raw[i] : most;
        if (conf->num_classes > 0 && raw[i] >= conf->num_classes) {
            (void)error_set(err, ERR_INVAL,
                            "%s: offset %d: label %d, but model.num_classes "
                            "is %d",
                            path, 8 + i, raw[i], conf->num_classes);
            free(raw);
            return -1;
        }
    }
    for (int32_t i = 0; i < d->n; i++)
        d->labels[i] = raw[i];
    d->num_classes = most + 1;
    free(raw);
    return 0;
}

static int open_mnist(const struct dataset_conf *conf, enum dataset_part part,
                      struct dataset *d, struct error *err)
{
    const char *prefix = part == DATASET_TRAIN ? "train" : "t10k";
    int32_t items = 0;
    if (!conf->path)
        return error_set(err, ERR_INVAL, "mnist: no path");
    if (read_images(conf, prefix, d, &items, err) < 0 ||
        read_labels(conf, prefix, items, d, err) < 0)
        return -1;
    d->norm = same_norm(0.1307, 0.3081); /* of the 60,000 training images */
    return 0;
}

static int open_folder(const struct dataset_conf *conf, enum dataset_part part,
                       struct dataset *d, struct error *err)
{
    const struct folder_conf fc = {.dir = conf->path,
                                   .is_train = part == DATASET_TRAIN,
                                   .split = conf->split,
                                   .seed = conf->seed,
                                   .skip_bad = conf->skip_bad};
    if (!conf->path)
        return error_set(err, ERR_INVAL, "image_folder: no path");
    if (folder_open(&fc, &d->folder, err) < 0)
        return -1;
    if (conf->samples > d->folder.n)
        return error_set(err, ERR_INVAL, "%s: %d images, %d are asked for",
                         conf->path, d->folder.n, conf->samples);
    if (conf->num_classes > 0 && d->folder.num_classes > conf->num_classes)
        return error_set(err, ERR_INVAL,
                         "%s: %d classes, but model.num_classes is %d",
                         conf->path, d->folder.num_classes, conf->num_classes);
    if (conf->samples)
        folder_thin(&d->folder, conf->samples);
    d->n = d->folder.n;
    d->num_classes = d->folder.num_classes;
    d->labels = malloc((size_t)d->n * sizeof(*d->labels));
    if (!d->labels)
        return error_set(err, ERR_NOMEM, "%d labels", d->n);
    for (int32_t i = 0; i < d->n; i++)
        d->labels[i] = folder_files(&d->folder)[i].label;
    d->norm = (struct image_norm){.mean = {0.485, 0.456, 0.406}, /* ImageNet */
                                  .std = {0.229, 0.224, 0.225}};
    return 0;
}

static void make_gray(struct dataset *d)
{
    int64_t pixels = (int64_t)d->n * d->H * d->W;
    for (int64_t i = 0; i < pixels; i++)
        d->images[i] = image_gray(d->images + i * IMAGE_CHANNELS);
    d->C = 1;
}

int dataset_open(const struct dataset_conf *conf, enum dataset_part part,
                 struct dataset *ret, struct error *err)
{
    struct dataset d = {0};
    int rc = -1;
    if (conf->samples < 0)
        return error_set(err, ERR_INVAL, "%d samples", conf->samples);
    switch (conf->source) {
    case SOURCE_MNIST:
        rc = open_mnist(conf, part, &d, err);
        break;
    case SOURCE_IMAGE_FOLDER:
        rc = open_folder(conf, part, &d, err);
        break;
    case SOURCE_SYNTHETIC:
        rc = synthetic_make(conf->samples           ? conf->samples
                            : part == DATASET_TRAIN ? SYNTHETIC_TRAIN
                                                    : SYNTHETIC_EVAL,
                            conf->num_classes ? conf->num_classes : 10,
                            part == DATASET_TRAIN ? 1 : 2, &d, err);
        d.norm = same_norm(0.43, 0.29); /* measured; a test does it again */
        break;
    }
    if (rc < 0) {
        dataset_clear(&d);
        return -1;
    }
    if (conf->gray && d.images && d.C != 1)
        make_gray(&d);
    if (conf->gray && conf->source == SOURCE_IMAGE_FOLDER)
        d.norm = same_norm(0.449, 0.226); /* the mean of the three */
    *ret = d;
    return 0;
}

void dataset_clear(struct dataset *d)
{
    if (!d)
        return;
    free(d->images);
    free(d->labels);
    folder_clear(&d->folder);
    memset(d, 0, sizeof(*d));
}
