/* spec_check.h - internals shared by the checks of a specification; for jobs/
 * alone. */
#ifndef MGPU_JOBS_SPEC_SPEC_CHECK_H
#define MGPU_JOBS_SPEC_SPEC_CHECK_H

#include <string.h>

#include "jobs/spec/spec_table.h"

struct check {
    const struct job_spec *s;
    const struct node *root;
    const struct schema_from *from;
    struct spec_report *report;
    bool is_stored; /* spec_options */
};

static inline const struct schema_from *from_of(const struct check *c,
                                                const char *path)
{
    for (size_t i = 0; i < spec_schema.n; i++)
        if (strcmp(spec_schema.keys[i].path, path) == 0)
            return &c->from[i];
    return NULL;
}

/* Whether the key was given and is valid. */
static inline bool is_set(const struct check *c, const char *path)
{
    const struct schema_from *f = from_of(c, path);
    return f && f->node && !f->bad;
}

static inline bool is_bad(const struct check *c, const char *path)
{
    const struct schema_from *f = from_of(c, path);
    return f && f->bad;
}

/* The position of a value; the key must have been given. */
static inline struct mark place_of(const struct check *c, const char *path)
{
    return from_of(c, path)->node->at;
}

/* Keys of kind llm that go together. */
void spec_check_llm(const struct check *c);

/* train.global_batch_size, and the numbers of GPUs that go with it. */
void spec_check_elastic(const struct check *c);

/* train.early_stopping and train.eval_only. */
void spec_check_stopping(const struct check *c);

/* Labels, and the names of variables in env, env_passthrough and secrets. */
void spec_check_env(const struct check *c);
/* Variables that name the directory of a cache, such as HF_HOME: a job gets
 * them without naming them. Returns the value in our environment of the i-th
 * if it is a directory of ours and the job's kind reads it, else NULL.
 * in   i  below SPEC_CACHES */
enum { SPEC_CACHES = 15 };
const char *spec_check_cache_dir(const struct job_spec *s, int i,
                                 const char **ret_name);
/* Warns if the working directory or the program of a command, or a model or
 * data that training reads (W104), or the file of a secret (W103), is not on
 * this machine. in   from  where the keys are, by row of spec_schema home where
 * secrets are; NULL: nobody looks for them */
void spec_look_for_files(const struct job_spec *s,
                         const struct schema_from *from, const char *home,
                         struct spec_report *report);
/* Reports (E015) a directory on this machine that is another job's.
 * in   out, ckpt  where the keys are; NULL: not given */
void spec_look_for_owner(const struct job_spec *s, const struct node *out,
                         const struct node *ckpt, struct spec_report *report);
/* Reports what opt->look says of a job that train.resume_from names:
 * E022, or W104 for a checkpoint that is not on this machine.
 * in   named, at  the value, and where it is */
void spec_look_for_parent(const struct job_spec *s, const char *named,
                          struct mark at, const struct spec_options *opt,
                          struct spec_report *report);

#endif
