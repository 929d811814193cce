/* model_card.h - README.md of a result, as the model cards of Hugging Face: a
 * head in YAML, then what was trained, on what, and with which result.
 *
 * No personal data: of the base its name alone, of the data how much there was,
 * no path, no user, no digest of the data.
 */
#ifndef MGPU_WORKER_LLM_FILES_MODEL_CARD_H
#define MGPU_WORKER_LLM_FILES_MODEL_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/model_values.h"

struct model_card {
    const char *base;      /* its directory */
    int64_t digest;        /* of its values */
    const char *type;      /* the run's: "bf16" */
    int32_t rank;          /* the highest of the adapters; 0: all weights */
    int32_t least_rank;    /* the lowest; 0: all have the same */
    bool pairs;            /* trained on preference pairs */
    const char *quantizer; /* "nf4", "8da4w"; "": none */
};

/* Writes it to dir/README.md. A file of this name that is no card of ours
 * stays.
 * err  ERR_IO, ERR_NOMEM */
int model_card_write(const char *dir, const struct model_card *c,
                     const struct model_facts *f, struct error *err) MUST_CHECK;

#endif
