/* job_filter.h - select jobs: the query of GET /v1/jobs and of GET /v1/watch.
 */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_FILTER_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_FILTER_H

#include "scheduler/ctld/ctld_internal.h"

struct job_filter {      /* its texts are borrowed from the exchange */
    int64_t caller;      /* does not see labels of jobs of other users */
    const char *user;    /* NULL: any, as with all texts */
    const char *name;    /* a glob */
    const char *account; /* that is charged, be it by default */
    const char *partition, *node;
    const char *labels;     /* "key=value" or "key", one a line: all of them */
    int64_t uid;            /* -1: any */
    int64_t user_uid;       /* that user may mean, a number; -1: none */
    int64_t sweep;          /* 0: any */
    int64_t id_min, id_max; /* inclusive */
    uint32_t states;        /* bits; 0: any */
    double since_s;         /* not ended, or since; -INFINITY: any */
    int64_t limit;          /* the newest so many */
};

/* A list takes all keys. A stream takes only those of what never changes about
 * a job: it has to send a job that leaves a state or a node. Replies and
 * returns false when the query is not valid. */
enum job_filter_of { FILTER_OF_LIST, FILTER_OF_STREAM };
bool job_filter_parse(struct http_exchange *x, enum job_filter_of of,
                      struct job_filter *ret);
/* Whether every job fits. */
bool job_filter_is_any(const struct job_filter *f);
/* Whether a job of this user fits; its name NULL: not known. */
bool job_filter_is_of(const struct job_filter *f, int64_t uid,
                      const char *user);
/* Jobs that ended before this, seconds since 1970, do not fit. */
double job_filter_since(const struct job_filter *f);
bool job_filter_fits(const struct ctld *c, const struct job_filter *f,
                     const struct job *j);

/* The labels of a job's specification, {} when it has none.
 * own  the caller ends it with json_decref(); NULL: no memory */
json_t *job_filter_labels(const struct job *j);

#endif
