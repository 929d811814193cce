/* job_values.h - the newest values of metrics that jobs named themselves, of
 * many jobs: for lists of jobs, in one request.
 *
 * They are read on the reader's thread. Of each job the last rows are looked at
 * first, and LATEST_ROWS only if a name is missing there. All jobs together
 * have a limit of rows, and the reader has other queries in between, so that a
 * list does not hold them up. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_JOB_VALUES_H
#define MGPU_SCHEDULER_CTLD_REQUEST_JOB_VALUES_H

#include "scheduler/ctld/ctld_internal.h"

enum {
    JOB_VALUES_JOBS = 1000,    /* of a list, the first that are added */
    JOB_VALUES_NAMES = 64,     /* that are asked for */
    JOB_VALUES_FEW = 128,      /* the last rows of a job */
    JOB_VALUES_ROWS = 500000,  /* of all jobs: a second of the reader's time */
    JOB_VALUES_PORTION = 50000 /* of one task of the reader, or a job's more */
};

struct job_values;

/* in   names  "acc,val_acc", or "*" for all
 * err  ERR_INVAL too many names, one without a character, one that is too long;
 *      ERR_NOMEM */
int job_values_create(const char *names, struct job_values **ret,
                      struct error *err) MUST_CHECK;
void job_values_destroy(struct job_values *v); /* NULL is fine */

/* Adds a job that the caller may see; no more than JOB_VALUES_JOBS.
 * err  ERR_NOMEM */
int job_values_add(struct job_values *v, uint64_t job, int32_t attempt,
                   struct error *err) MUST_CHECK;

/* Reads them, and calls done() on the loop, where `v` is still the caller's.
 * in   x     whose reply they are for: when its client has left, or the daemon
 *            stops, done() is called with ERR_UNAVAIL
 *      text  of done(): {"17":{"acc":0.5},..}: jobs with a value; borrowed
 *      why   of done(): NULL: it worked
 * err  as work_queue_post(); done() is not called */
int job_values_read(struct job_values *v, struct ctld *c,
                    struct http_exchange *x,
                    void (*done)(void *arg, const struct buf *text,
                                 const struct error *why),
                    void *arg, struct error *err) MUST_CHECK;

#endif
