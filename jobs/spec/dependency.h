/* dependency.h - the dependencies of a job: other jobs that must begin or end
 * first.
 *
 * The syntax is that of sbatch(1): "afterok:12" or, for several jobs at once,
 * "afterok:12:13"; "12" is "afterok:12". The number of a sweep means all of its
 * tasks, "12_3" one of them. A job may only name earlier jobs, so there can be
 * no cycle. */
#ifndef MGPU_JOBS_SPEC_DEPENDENCY_H
#define MGPU_JOBS_SPEC_DEPENDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/state.h"

enum depend_kind {
    DEPEND_OK,     /* afterok: it is COMPLETED */
    DEPEND_NOT_OK, /* afternotok: it ended in any other state */
    DEPEND_ANY,    /* afterany: it ended */
    DEPEND_BEGUN,  /* after: its ranks have begun, or it ended without */
    DEPEND_N
};

struct depend {
    uint64_t job; /* or a sweep */
    int32_t task; /* of the sweep; -1: the whole job or sweep */
    enum depend_kind kind;
};

enum {
    DEPEND_MAX = 64, /* per job */
    DEPEND_TEXT_CAP = 40
};

/* Appends the jobs in text to io[*io_n]; at most DEPEND_MAX in total.
 * err  ERR_INVAL with the allowed syntax; io[*io_n] are then unchanged */
int depend_parse(const char *text, struct depend io[DEPEND_MAX], size_t *io_n,
                 struct error *err) MUST_CHECK;
/* "afterok:12", "afterok:12_3" */
const char *depend_show(const struct depend *d, char ret[DEPEND_TEXT_CAP]);

/* A job from whose checkpoint another one goes on. */
struct depend_parent {
    uint64_t id, sweep;      /* sweep 0: none */
    int32_t number, n_tasks; /* of a task: its display number */
    enum job_state state;
    const char *kind; /* spec_kind_word() */
};
/* Whether a job of `kind` that waits for depends[n] may go on from p, a job of
 * the same user. A job that has not ended may be named if the other one waits
 * for its end.
 * in   named  as the specification has it; for a task "12_3", and "12" is its
 *             whole sweep
 *      p      NULL: the user has no such job
 * err  ERR_INVAL it may not, and why */
int depend_check_parent(const char *named, const struct depend_parent *p,
                        const char *kind, const struct depend *depends,
                        size_t n, struct error *err) MUST_CHECK;

enum depend_fate { DEPEND_WAITS, DEPEND_MET, DEPEND_NEVER };
/* The fate of a dependency on a job in this state; has_begun: one of its
 * attempts was claimed. */
enum depend_fate depend_fate(enum depend_kind kind, enum job_state state,
                             bool has_begun);

#endif
