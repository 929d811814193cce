/* dependency.h - what a job waits for: the beginnings and ends of other jobs.
 *
 * Written as sbatch(1) writes it: "afterok:12" or, for several jobs at once,
 * "afterok:12:13"; "12" is "afterok:12". The number of a sweep stands for all
 * of its tasks, "12_3" for one. A job may only name jobs that were there before
 * it, so nothing can wait for itself in a circle.
 */
#ifndef MGPU_JOBS_SPEC_DEPENDENCY_H
#define MGPU_JOBS_SPEC_DEPENDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/state.h"

enum depend_kind {
    DEPEND_OK,     /* afterok: it has COMPLETED */
    DEPEND_NOT_OK, /* afternotok: it has ended in any other way */
    DEPEND_ANY,    /* afterany: it has ended */
    DEPEND_BEGUN,  /* after: its ranks have begun, or it ended without */
    DEPEND_N
};

struct depend {
    uint64_t job; /* or a sweep */
    int32_t task; /* of the sweep; -1: what the number stands for */
    enum depend_kind kind;
};

enum {
    DEPEND_MAX = 64, /* of one job */
    DEPEND_TEXT_CAP = 40
};

/* Appends what text names to io[*io_n]; at most DEPEND_MAX in all.
 * err  ERR_INVAL with what is allowed; io[*io_n] are then as before */
int depend_parse(const char *text, struct depend io[DEPEND_MAX], size_t *io_n,
                 struct error *err) MUST_CHECK;
/* "afterok:12", "afterok:12_3" */
const char *depend_show(const struct depend *d, char ret[DEPEND_TEXT_CAP]);

enum depend_fate { DEPEND_WAITS, DEPEND_MET, DEPEND_NEVER };
/* Of a job that is in this state; has_begun: an attempt of it was claimed, this
 * one or one before. */
enum depend_fate depend_fate(enum depend_kind kind, enum job_state state,
                             bool has_begun);

#endif
