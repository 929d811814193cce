/* spec_read.h - the steps from text to struct job_spec; for jobs/ alone.
 *
 * spec_parse(), spec_show() and spec_expand() use the result differently; an
 * expansion repeats steps for each task. */
#ifndef MGPU_JOBS_SPEC_SPEC_READ_H
#define MGPU_JOBS_SPEC_SPEC_READ_H

#include "jobs/spec/spec_table.h"

struct reading {
    struct job_spec spec;
    struct node *root; /* NULL if the text has no tree */
    struct schema_from from[SPEC_KEYS_CAP];
    char *dir;       /* of the file, absolute; NULL without a file */
    char *typed_dir; /* the working directory; NULL without a file or --set */
};

/* Parses the tree, applies --set, and sets the defaults. r is zeroed; the
 * caller clears it in any case. -1 if memory is short; bad input is in the
 * report. */
int spec_reading_open(struct reading *r, const char *text, size_t len,
                      const struct spec_options *opt,
                      struct spec_report *report, struct error *err) MUST_CHECK;
/* Whether a position is in a struct spec_base. */
bool spec_mark_is_base(struct mark at);
/* Merges the parsed tree over that of base.  err  ERR_NOMEM */
int spec_reading_merge(struct reading *r, const struct spec_base *base,
                       struct error *err) MUST_CHECK;
/* Substitutes the name and the user in the texts that the daemon reads, and
 * checks whether this user can be substituted in the others. */
int reading_fill(struct node *root, const struct spec_options *opt,
                 struct spec_report *report, struct error *err) MUST_CHECK;
/* The bases of its paths, which it owns. */
struct schema_base spec_reading_base(const struct reading *r,
                                     const struct spec_options *opt);
/* Reads each value of the tree by itself, and sets the job's name. */
int spec_reading_values(struct reading *r, const struct spec_options *opt,
                        struct spec_report *report,
                        struct error *err) MUST_CHECK;
/* env_passthrough: adds to spec.env. secrets: checks that the files exist below
 * home, unless it is NULL. */
int spec_reading_take_env(struct reading *r, const char *home,
                          struct spec_report *report,
                          struct error *err) MUST_CHECK;
/* Adds findings about valid values that will not work as intended here and
 * now. */
void spec_reading_look_around(const struct reading *r,
                              const struct spec_options *opt,
                              struct spec_report *report);
void spec_reading_clear(struct reading *r);

/* The file's stem with only the characters of a name; "job" without a file. */
void spec_name_of_file(const char *file, char out[SPEC_NAME_CAP]);

int spec_draw_seed(int64_t *ret, struct error *err) MUST_CHECK;

#endif
