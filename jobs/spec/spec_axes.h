/* spec_axes.h - the axes of a sweep; for spec_sweep.c and spec_axes.c. */
#ifndef MGPU_JOBS_SPEC_SPEC_AXES_H
#define MGPU_JOBS_SPEC_SPEC_AXES_H

#include "jobs/spec/spec_read.h"
#include "jobs/text/array.h"

enum { AXES_MAX = 16, VARIED_MAX = 32 };

/* One key with its values: nodes of the sweep's tree. */
struct varied {
    const char *key;
    struct mark at;
    const struct node *values; /* the first one; NULL for a list */
};

struct axis {
    size_t first, n_varied; /* in expansion.varied; none: the list */
    const struct node *list;
    bool is_array; /* the axis of expansion.array */
    size_t n;      /* number of positions on it */
};

struct expansion {
    struct reading base;
    struct schema_base paths;
    const struct spec_options *opt;
    struct spec_report *report;
    struct error *err;
    struct job_spec scratch; /* each value is parsed into it as a test */

    struct node *sweep; /* in base.root; removed from it after parsing */
    struct varied varied[VARIED_MAX];
    struct axis axes[AXES_MAX];
    size_t n_varied, n_axes, n_tasks;
    struct array *array; /* owned; NULL: none */

    struct spec_report found; /* of one task */
    struct schema_from from[SPEC_KEYS_CAP];
};

/* Reports keys that are directly in the sweep, not in its grid, and removes
 * them. Called before the values are parsed. */
void axes_check_parts(struct expansion *x);
/* Parses x->sweep: the axes and the number of tasks. Adds all findings to
 * x->report, after parsing each value by itself; makes its paths absolute.
 * base.root and base.from are those of the parse. -1 if memory is short. */
int axes_read(struct expansion *x) MUST_CHECK;
/* Whether the key differs between tasks, "env.LR". */
bool axes_vary(const struct expansion *x, const char *key);
/* Whether all tasks of a text of this length may be in memory at once; else
 * adds a finding. */
bool axes_check_size(struct expansion *x, size_t len);
/* Adds a finding if its tasks depend on too many jobs. -1 if memory is
 * short. */
int spec_axes_check_awaited(struct expansion *x,
                            const struct spec_jobs *jobs) MUST_CHECK;

/* Adds a finding if two tasks would write into one directory. -1 if memory is
 * short. */
int spec_axes_check_dirs(struct expansion *x,
                         const struct spec_jobs *jobs) MUST_CHECK;

/* Makes a path in the node absolute, relative to the file that contains it,
 * because the text that goes to the daemon has no file. */
int axes_resolve(struct expansion *x, const struct schema_key *k,
                 struct node *value, const struct job_spec *from) MUST_CHECK;

#endif
