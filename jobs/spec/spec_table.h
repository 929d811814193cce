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
    WHEN_ENV,       /* a command, or kind llm */
    WHEN_FILES,     /* a cv job whose dataset has a path */
    WHEN_FOLDER,    /* one whose images are separate files */
    WHEN_TRAIN,     /* cv and llm; so are those of an optimizer or schedule */
    WHEN_NO_GLOBAL, /* one without train.global_batch_size */
    WHEN_SGD,
    WHEN_ADAMW,
    WHEN_RMSPROP,
    WHEN_MOMENTUM, /* sgd, rmsprop */
    WHEN_EPS,      /* adamw, rmsprop */
    WHEN_STEP,     /* lr_scheduler.name: step */
    WHEN_MULTISTEP,
    WHEN_GAMMA, /* step and multistep */
    WHEN_BEST,  /* checkpoint.keep_best: true */
    WHEN_EARLY, /* train.early_stopping.metric */
    WHEN_LLM,
    WHEN_LORA,         /* spec_has_adapter() */
    WHEN_QUANTIZER,    /* method: qlora, qat */
    WHEN_PROMPTED,     /* a template of messages: all but completion, tokens */
    WHEN_MESSAGES,     /* the same without alpaca */
    WHEN_PACKED,       /* train.dataset.packed */
    WHEN_VAL,          /* train.dataset_val.path */
    WHEN_VAL_PROMPTED, /* and a template of messages */
    WHEN_VAL_PACKED,   /* and train.dataset_val.packed */
    WHEN_SAMPLE,       /* train.sample.prompts */
    WHEN_DPO,          /* method: dpo */
    WHEN_FULL,         /* method: full */
    WHEN_QAT,          /* method: qat */
    WHEN_NOTIFY,       /* notify.to */
    WHEN_SWEEP,        /* keys that make several jobs of a text; not keys of a
                        * single one */
};

/* Jobs with defaults of their own; all are of kind llm. */
enum spec_case {
    CASE_LLM,
    CASE_LORA, /* all that train adapters */
    CASE_FULL, /* and qat of all weights */
    CASE_QAT,
    CASE_ADAPTER,      /* CASE_LORA that begins with an adapter */
    CASE_LORA_COSINE,  /* CASE_LORA, lr_scheduler.name: cosine */
    CASE_PAPER,        /* preset: paper-2503, with method: lora */
    CASE_PAPER_ALONE,  /* on one GPU */
    CASE_PAPER_ALPACA, /* and the data sets of its tables */
    CASE_PAPER_GRAMMAR,
    CASE_PAPER_SAMSUM,
    CASE_PAPER_SLIMORCA,
    CASE_ALPACA,     /* train.dataset.template: alpaca */
    CASE_VAL_OTHER,  /* train.dataset_val has another template */
    CASE_VAL_ALPACA, /* which is alpaca */
    CASE_LLM_16BIT,  /* precision: bf16 or fp16 */
};
extern const char *const spec_case_names[];
bool spec_case_holds(int when, const void *spec);
/* Whether it belongs to a preset, whose name its name begins with. */
bool spec_case_is_preset(int when);

enum { SPEC_KEYS_CAP = 192 }; /* maximum number of rows; a test counts them */

extern const struct schema spec_schema;

/* Whether the key applies to this job; otherwise it is omitted from the dump
 * and refused in a file. */
bool spec_applies(const struct schema_key *k, const void *spec);
/* The condition under which a key applies, within its kinds. */
const char *spec_needs(int when);
/* The kinds that have keys of an enum spec_when: bits, 1 << SPEC_CV. */
unsigned spec_kinds(int when);

/* Keys of torchtune's configurations that are no keys of ours, ended by NULL.
 * spec_torchtune() takes them out of the tree, for kind llm: what has the
 * meaning of a key of ours becomes that key; what has no effect is a warning;
 * the rest is an error. */
extern const char *const spec_foreign_keys[];
int spec_torchtune(struct node *root, struct spec_report *report,
                   struct error *err) MUST_CHECK;

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
