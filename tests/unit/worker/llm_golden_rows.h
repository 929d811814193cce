/* llm_golden_rows.h - the batches of a golden file: ids, lengths and labels. */
#ifndef MGPU_TESTS_LLM_GOLDEN_ROWS_H
#define MGPU_TESTS_LLM_GOLDEN_ROWS_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/golden/golden.h"
#include "tests/unit/worker/llm_rig.h"

static inline double *llm_golden_line(const struct golden *g, const char *model,
                                      int b, const char *what, size_t *ret_n)
{
    char line[80];
    (void)snprintf(line, sizeof(line), "%s batch%d %s", model, b, what);
    return golden_get(g, line, ret_n);
}

/* Batch b of a model. A label below 0 is not labelled, and a token behind the
 * length of its row is padding. */
static inline void llm_golden_rows(struct llm_rows *to, const struct golden *g,
                                   const char *model, int b)
{
    size_t n, rows, labels;
    double *ids = llm_golden_line(g, model, b, "ids", &n);
    double *lengths = llm_golden_line(g, model, b, "lengths", &rows);
    double *label = llm_golden_line(g, model, b, "labels", &labels);
    if (labels != n || rows == 0 || n < rows)
        exit(1);
    llm_begin(to, (int32_t)rows, (int32_t)(n / rows));
    to->at = (int32_t)n;
    for (int32_t i = 0; i < (int32_t)n; i++) {
        const int32_t k = i % to->S;
        to->id[i] = (int32_t)ids[i];
        to->pos[i] = k < (int32_t)lengths[i / to->S] ? k : 0;
        if (label[i] < 0)
            continue;
        to->labelled[to->n_labelled] = i;
        to->label[to->n_labelled++] = (int32_t)label[i];
    }
    free(ids);
    free(lengths);
    free(label);
}

#endif
