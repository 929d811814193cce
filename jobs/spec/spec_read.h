/* spec_read.h - the steps from text to struct job_spec; for jobs/ alone.
 *
 * spec_parse(), spec_show() and spec_expand() differ in what they do with the
 * result, and an expansion in how often it reads.
 */
#ifndef MGPU_JOBS_SPEC_SPEC_READ_H
#define MGPU_JOBS_SPEC_SPEC_READ_H

#include "jobs/spec/spec_table.h"

struct reading {
    struct job_spec spec;
    struct node *root; /* NULL when the text was no tree */
    struct schema_from from[SPEC_KEYS_CAP];
    char *dir; /* of the file, absolute; NULL without a file */
};

/* The tree with --set in it, and the defaults. r is zeroed, and cleared by
 * the caller whatever comes. -1 without memory; bad input is in the report. */
int reading_open(struct reading *r, const char *text, size_t len,
                 const struct spec_options *opt, struct spec_report *report,
                 struct error *err) MUST_CHECK;
/* Of a struct spec_base. */
bool mark_is_base(struct mark at);
/* The tree that was read, over that of base.  err  ERR_NOMEM */
int reading_lay(struct reading *r, const struct spec_base *base,
                struct error *err) MUST_CHECK;
/* Puts the name and the user into the texts that are read where the job is
 * queued, and looks whether this user can be put into the others. */
int reading_fill(struct node *root, const struct spec_options *opt,
                 struct spec_report *report, struct error *err) MUST_CHECK;
/* What the tree names, each value for itself; the job's name. */
int reading_values(struct reading *r, const struct spec_options *opt,
                   struct spec_report *report, struct error *err) MUST_CHECK;
/* env_passthrough: adds to spec.env. secrets: looks whether they are there,
 * below home unless it is NULL. */
int reading_take_env(struct reading *r, const char *home,
                     struct spec_report *report, struct error *err) MUST_CHECK;
/* Warnings of what is well said and will not be as meant, here and now. */
void reading_look_around(const struct reading *r,
                         const struct spec_options *opt,
                         struct spec_report *report);
void reading_clear(struct reading *r);

/* The file's stem in the letters of a name; "job" without one. */
void spec_name_of_file(const char *file, char out[SPEC_NAME_CAP]);

int spec_draw_seed(int64_t *ret, struct error *err) MUST_CHECK;

#endif
