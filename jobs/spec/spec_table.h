/* spec_table.h - the table of the job specification; for jobs/ alone. */
#ifndef MGPU_JOBS_SPEC_SPEC_TABLE_H
#define MGPU_JOBS_SPEC_SPEC_TABLE_H

#include "jobs/schema/schema.h"
#include "jobs/spec/spec.h"

enum spec_when {
    WHEN_ALWAYS,
    WHEN_CV,
    WHEN_COMMAND,
    WHEN_FILES,  /* a cv job whose data has a path */
    WHEN_FOLDER, /* one whose images are files of their own */
    WHEN_SGD,
    WHEN_ADAMW,
    WHEN_RMSPROP,
    WHEN_MOMENTUM, /* sgd, rmsprop */
    WHEN_EPS,      /* adamw, rmsprop */
    WHEN_STEP,     /* lr_scheduler.name: step */
    WHEN_MULTISTEP,
    WHEN_GAMMA,  /* both of these */
    WHEN_BEST,   /* checkpoint.keep_best: true */
    WHEN_NOTIFY, /* notify.email or notify.webhook */
    WHEN_SWEEP,  /* what makes several jobs of a text; of no one of them */
};

enum { SPEC_KEYS_CAP = 128 }; /* rows at most; a test counts them */

extern const struct schema spec_schema;

/* Whether the key means anything in this job; else it is left out of the
 * dump and refused in a file. */
bool spec_applies(const struct schema_key *k, const void *spec);

/* What follows from other keys: of resources.gpus_per_node the number of nodes,
 * or of GPUs. Once, before spec_check(). */
void spec_settle(struct job_spec *s, const struct schema_from *from);
/* Whether that could be. */
bool spec_is_settled(const struct job_spec *s);

/* What the table cannot say: required keys, keys that go together, names of
 * labels and variables. Adds findings. */
void spec_check(const struct job_spec *s, const struct node *root,
                const struct schema_from *from, bool is_stored,
                struct spec_report *report);

#endif
