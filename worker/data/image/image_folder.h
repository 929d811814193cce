/* image_folder.h - the image files below a directory, by class.
 *
 *     DIR/train/<class>/...   DIR/val/<class>/...
 *     DIR/train/<class>/...   or DIR/<class>/... , and a split
 *
 * As torchvision's ImageFolder: classes are numbered in the order of their
 * names, samples are in the order of class, directory and name, and
 * directories below a class belong to it. Nothing but names is read. A link
 * is not followed below DIR: what is trained on is what is there.
 */
#ifndef MGPU_WORKER_DATA_IMAGE_IMAGE_FOLDER_H
#define MGPU_WORKER_DATA_IMAGE_IMAGE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct folder_file {
    size_t name; /* where it begins in names */
    int32_t label;
};

struct folder {
    char *dir;        /* owned; names are relative to it */
    struct buf names; /* each with its NUL */
    struct buf list;  /* of struct folder_file */
    int32_t n;
    int32_t num_classes;
    /* Files that were passed over, for a log line. */
    int32_t strays;
    char first_strays[160]; /* "a, b, c"; "" for none */
};

struct folder_conf {
    const char *dir;
    bool is_train;
    double split;  /* share of the images for evaluation; 0: there is val */
    int64_t seed;  /* of the split */
    bool skip_bad; /* pass over what would be an error */
};

/* out  ret  end it with folder_clear()
 * err  ERR_NOTFOUND DIR is not there, or nothing is in it; ERR_INVAL "path:
 *      what is wrong"; ERR_LIMIT more than 2^31 - 1 files; ERR_IO, ERR_NOMEM
 */
int folder_open(const struct folder_conf *conf, struct folder *ret,
                struct error *err) MUST_CHECK;
void folder_clear(struct folder *f); /* NULL and zeroed are fine */

/* Keeps n files, evenly spread over the list. n <= f->n */
void folder_thin(struct folder *f, int32_t n);

struct folder_file *folder_files(const struct folder *f); /* [n] */

/* Relative to dir; valid until folder_clear(). */
const char *folder_name(const struct folder *f, int32_t i);

/* A number that is the same where the same files were found. */
uint64_t folder_digest(const struct folder *f);

#endif
