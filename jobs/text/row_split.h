/* row_split.h - a part of the rows of a data set, as Hugging Face writes it:
 * "train", "train[:95%]", "train[1000:2000]". */
#ifndef MGPU_JOBS_TEXT_ROW_SPLIT_H
#define MGPU_JOBS_TEXT_ROW_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct row_bound {
    int32_t at; /* rows, or percent of them; -1: open */
    bool percent;
};

/* Rows [from, to). */
struct row_split {
    struct row_bound from, to;
};

/* in   text  NULL: all rows
 * err  ERR_INVAL what is wrong in it */
int row_split_parse(const char *text, struct row_split *ret,
                    struct error *err) MUST_CHECK;

/* The part of so many rows; 0 <= *ret_from <= *ret_to <= rows. */
void row_split_of(const struct row_split *s, int64_t rows, int64_t *ret_from,
                  int64_t *ret_to);

#endif
