/* dataset.c - see dataset.h. The two sources and what is checked of them. */
#include "worker/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/idx.h"
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

static int read_images(const struct dataset_conf *conf, const char *prefix,
                       struct dataset *d, int32_t *ret_items, struct error *err)
{
    char name[64], path[PATH_CAP];
    int32_t dim[IDX_DIMS];
    (void)snprintf(name, sizeof(name), "%s-images-idx3-ubyte", prefix);
    if (find_file(conf->path, name, path, err) < 0 ||
        idx_read(path, 3, conf->samples, dim, &d->images, err) < 0)
        return -1;
    d->n = conf->samples ? conf->samples : dim[0];
    d->H = dim[1];
    d->W = dim[2];
    *ret_items = dim[0];
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
    for (int32_t i = 0; i < items; i++)
        most = raw[i] > most ? raw[i] : most;
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
    d->mean = 0.1307; /* of the 60,000 training images */
    d->std = 0.3081;
    return 0;
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
    case SOURCE_SYNTHETIC:
        rc = synthetic_make(conf->samples           ? conf->samples
                            : part == DATASET_TRAIN ? SYNTHETIC_TRAIN
                                                    : SYNTHETIC_EVAL,
                            conf->num_classes ? conf->num_classes : 10,
                            part == DATASET_TRAIN ? 1 : 2, &d, err);
        break;
    }
    if (rc < 0) {
        dataset_clear(&d);
        return -1;
    }
    *ret = d;
    return 0;
}

void dataset_clear(struct dataset *d)
{
    if (!d)
        return;
    free(d->images);
    free(d->labels);
    memset(d, 0, sizeof(*d));
}
