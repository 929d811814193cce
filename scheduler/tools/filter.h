/* filter.h - which jobs a command line chooses, as the daemon is asked for
 * them. */
#ifndef MGPU_TOOLS_FILTER_H
#define MGPU_TOOLS_FILTER_H

#include <jansson.h>
#include <stdbool.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum { FILTER_LABELS_MAX = 16 };

struct filter { /* borrowed; NULL: any */
    const char *user, *name, *account, *partition, *node;
    const char *state; /* "RUNNING,QUEUED" or "all"; NULL: none has ended */
    const char *since; /* as a user writes it */
    const char *labels[FILTER_LABELS_MAX]; /* "key=value" or "key" */
    size_t n_labels;
};

/* The options that choose jobs; a tool's others have smaller numbers. */
enum {
    FILTER_USER = 256,
    FILTER_STATE,
    FILTER_NAME,
    FILTER_ACCOUNT,
    FILTER_PARTITION,
    FILTER_LABEL,
    FILTER_NODE,
    FILTER_SINCE
};
/* One of them. err ERR_USAGE a label that is none, or one too many */
int filter_option(struct filter *f, int id, const char *value,
                  struct error *err) MUST_CHECK;
bool filter_is_any(const struct filter *f);

/* Appends "&user=..&name=.." for GET /v1/jobs.
 * err  ERR_USAGE since, or a state, is none */
int filter_query(const struct filter *f, struct buf *out,
                 struct error *err) MUST_CHECK;

/* A stream brings the jobs that may ever fit, and filter_now() says which do
 * at present: a job has to be heard of that leaves. */
int filter_stream_query(const struct filter *f, struct buf *out,
                        struct error *err) MUST_CHECK;
bool filter_now(const struct filter *f, const json_t *job);

/* "6h" ago, "2d", a day or a moment in UTC, as seconds since 1970.
 * err  ERR_USAGE */
int filter_time(const char *option, const char *text, double *ret,
                struct error *err) MUST_CHECK;

#endif
