/* spec_text.h - the part of a specification that says what rows of text are,
 * with the lists that it is made of: train.dataset of kind llm. */
#ifndef MGPU_JOBS_SPEC_SPEC_TEXT_H
#define MGPU_JOBS_SPEC_SPEC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spec_pair { /* labels, env */
    char *key, *value;
};
struct spec_map {
    struct spec_pair *pairs;
    size_t n;
};
struct spec_list {
    char **items;
    size_t n;
};
enum spec_template { TEMPLATE_ALPACA, TEMPLATE_TOKENS };
enum spec_bad_row { BAD_ROW_FAIL, BAD_ROW_SKIP };

/* train.dataset, train.dataset_val */
struct spec_text {
    enum spec_template template;
    char *path; /* absolute; NULL: none, of dataset_val alone */
    struct spec_list data_files; /* below path; none: path is the file */
    struct spec_map column_map;  /* of dataset, for dataset_val as well */
    bool packed;
    bool train_on_input;
    int32_t samples; /* 0: all; the first n rows */
    enum spec_bad_row on_bad_row;
};

#endif
