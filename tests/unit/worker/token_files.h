/* token_files.h - small data sets for tests, and the tokens of them. For tests
 * only: what is wrong ends the program. */
#ifndef MGPU_TESTS_TOKEN_FILES_H
#define MGPU_TESTS_TOKEN_FILES_H

#include <unistd.h>

#include "tests/unit/worker/text_golden.h"
#include "worker/data/text/token_data.h"

/* The file has this text from now on. */
static inline void token_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0) {
        tap_diag("cannot write %s", path);
        exit(1);
    }
}

/* Rows of template tokens: row i has lengths[i] tokens; all ids count on from
 * `first`. */
static inline void token_file_lengths(const char *path, const int32_t *lengths,
                                      int32_t n, int32_t first)
{
    FILE *f = fopen(path, "w");
    for (int32_t i = 0; i < n && f != NULL; i++) {
        (void)fputs("{\"input_ids\": [", f);
        for (int32_t k = 0; k < lengths[i]; k++)
            (void)fprintf(f, "%s%d", k > 0 ? ", " : "", first++);
        (void)fputs("]}\n", f);
    }
    if (f == NULL || fclose(f) != 0) {
        tap_diag("cannot write %s", path);
        exit(1);
    }
}

static inline uint64_t digest_of(const struct token_data *d)
{
    struct error err = ERROR_INIT;
    uint64_t sum = 0;
    text_must(token_data_digest(d, &sum, &err), &err);
    return sum;
}

/* "1 2 3|4 5": ids, or labels, row by row; -: not labelled. */
static inline void token_text(const struct token_data *d, bool labels,
                              char *ret, size_t cap)
{
    const struct token_row *rows = token_data_rows(d);
    const int32_t *x = labels ? token_data_labels(d) : token_data_ids(d);
    size_t at = 0;
    ret[0] = '\0';
    for (int32_t i = 0; i < d->n; i++)
        for (int32_t k = 0; k < rows[i].n && at < cap; k++) {
            const char *gap = k > 0 ? " " : i > 0 ? "|" : "";
            const int32_t v = x[rows[i].first + (size_t)k];
            if (v < 0)
                at += (size_t)snprintf(ret + at, cap - at, "%s-", gap);
            else
                at += (size_t)snprintf(ret + at, cap - at, "%s%d", gap, v);
        }
}

#endif
