/* model_kind.c - find the model kind of a job.
 *
 * This is the only file that names the networks: the trainer, checkpoints
 * and optimizers see model.h and batch.h. A new network adds a row here, and
 * is then found by the kind of its jobs.
 */
#include "worker/model_kind.h"

#include <stdio.h>

#include "worker/cv/mobilenet.h"
#include "worker/llm/llama.h"

static const struct {
    enum spec_kind kind;
    const struct model_kind *model;
} kinds[] = {
    {SPEC_CV, &mobilenet_kind}, {SPEC_LLM, &llama_kind},
    /* kind: command runs a program of the user, which trains by itself */
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

int model_kind_find(const struct job_spec *spec, const struct model_kind **ret,
                    struct error *err)
{
    char names[80] = ""; /* of all kinds that train */
    size_t at = 0;
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i].kind == spec->kind) {
            *ret = kinds[i].model;
            return 0;
        }
        int n = snprintf(names + at, sizeof(names) - at, "%s%s",
                         i > 0 ? ", " : "", kinds[i].model->name);
        at += n > 0 && at + (size_t)n < sizeof(names) ? (size_t)n : 0;
    }
    return error_set(err, ERR_INVAL,
                     "jobs of this kind train no model; those that do: %s",
                     names);
}
