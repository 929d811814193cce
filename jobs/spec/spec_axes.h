/* spec_axes.h - what a sweep varies; for spec_sweep.c and spec_axes.c. */
#ifndef MGPU_JOBS_SPEC_SPEC_AXES_H
#define MGPU_JOBS_SPEC_SPEC_AXES_H

#include "jobs/spec/array.h"
#include "jobs/spec/spec_read.h"

enum { AXES_MAX = 16, VARIED_MAX = 32 };

/* One key with its values: nodes of the sweep's tree. */
struct varied {
    const char *key;
    struct mark at;
    const struct node *values; /* the first; of a list NULL */
};

struct axis {
    size_t first, n_varied; /* of expansion.varied; none: the list */
    const struct node *list;
    bool is_array; /* of expansion.array */
    size_t n;      /* places on it */
};

struct expansion {
    struct reading base;
    struct schema_base paths;
    const struct spec_options *opt;
    struct spec_report *report;
    struct error *err;
    struct job_spec scratch; /* each value is tried on it */

    struct node *sweep; /* of base.root; taken out of it when read */
    struct varied varied[VARIED_MAX];
    struct axis axes[AXES_MAX];
    size_t n_varied, n_axes, n_tasks;
    struct array *array; /* owned; NULL: none */

    struct spec_report found; /* of one task */
    struct schema_from from[SPEC_KEYS_CAP];
};

/* Keys to be varied that stand in the sweep itself, and not in its grid: each
 * is a finding, and taken out. Before the values are read. */
void axes_check_parts(struct expansion *x);
/* Reads x->sweep: the axes and the number of tasks. All that is wrong with it
 * is in x->report, each value tried once for itself; its paths become absolute.
 * base.root and base.from are as read. -1 without memory. */
int axes_read(struct expansion *x) MUST_CHECK;
/* Whether each task gets a value of its own for this key, "env.LR". */
bool axes_vary(const struct expansion *x, const char *key);
/* Whether tasks of a text of so many bytes may all be in memory at once; else
 * that is a finding. */
bool axes_check_size(struct expansion *x, size_t len);
/* Whether its tasks name too many jobs that they wait for is a finding. -1
 * without memory. */
int axes_check_awaited(struct expansion *x,
                       const struct spec_jobs *jobs) MUST_CHECK;

/* A path is relative to the file that it is written in, and the text that
 * goes to the daemon has no file: puts that of `from` into the node. */
int axes_resolve(struct expansion *x, const struct schema_key *k,
                 struct node *value, const struct job_spec *from) MUST_CHECK;

#endif
