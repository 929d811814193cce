/* spec_table.h - the table of keys of the job specification; for jobs/
 * alone. */
#ifndef MGPU_JOBS_SPEC_SPEC_TABLE_H
#define MGPU_JOBS_SPEC_SPEC_TABLE_H

#include "jobs/schema/schema.h"
#include "jobs/spec/spec.h"

enum spec_when {
    WHEN_ALWAYS,
    WHEN_CV,
    WHEN_COMMAND,
    WHEN_FILES,  /* a cv job whose dataset has a path */
    WHEN_FOLDER, /* one whose images are separate files */
    WHEN_SGD,
    WHEN_ADAMW,
    WHEN_RMSPROP,
    WHEN_MOMENTUM, /* sgd, rmsprop */
    WHEN_EPS,      /* adamw, rmsprop */
    WHEN_STEP,     /* lr_scheduler.name: step */
    WHEN_MULTISTEP,
    WHEN_GAMMA,  /* step and multistep */
    WHEN_BEST,   /* checkpoint.keep_best: true */
    WHEN_NOTIFY, /* notify.email or notify.webhook */
    WHEN_SWEEP,  /* keys that make several jobs of a text; not keys of a
                  * single one */
};

enum { SPEC_KEYS_CAP = 128 }; /* maximum number of rows; a test counts them */

extern const struct schema spec_schema;

/* Whether the key applies to this job; otherwise it is omitted from the dump
 * and refused in a file. */
bool spec_applies(const struct schema_key *k, const void *spec);

/* Derives values from other keys: the number of nodes or GPUs from
 * resources.gpus_per_node. Call it once, before spec_check(). */
void spec_settle(struct job_spec *s, const struct schema_from *from);
/* Whether they could be derived. */
bool spec_is_settled(const struct job_spec *s);

/* Checks what the table cannot express: required keys, keys that go together,
 * names of labels and variables. Adds findings. */
void spec_check(const struct job_spec *s, const struct node *root,
                const struct schema_from *from, bool is_stored,
                struct spec_report *report);

#endif
