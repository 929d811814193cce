/* job_query.h - filters of jobs: options of the command line, and the query
 * that they make.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_JOB_QUERY_H
#define MGPU_SCHEDULER_TOOLS_COMMON_JOB_QUERY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/state.h"

struct client;
enum { FILTER_LABELS_MAX = 16 };
/* All states, as bits. */
static const uint32_t FILTER_ALL = (1u << JOB_STATE_N) - 1;

struct filter { /* borrowed; NULL: any */
    const char *user, *name, *account, *partition, *node;
    uint32_t states;   /* bits, see job_query_states(); 0: those that have not
                          ended */
    const char *since; /* as the user wrote it */
    const char *labels[FILTER_LABELS_MAX]; /* "key=value" or "key" */
    size_t n_labels;
};

/* Ids of the filter options; the other options of a tool have smaller ids. */
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
/* Handles one filter option. err ERR_USAGE unknown state, bad label, too many
 * labels */
int job_query_option(struct filter *f, int id, const char *value,
                     struct error *err) MUST_CHECK;
bool job_query_is_any(const struct filter *f);
/* Checks that the user exists: 'me', 'all', a number, known to this machine, or
 * with jobs at the daemon, however old.
 * err  ERR_USAGE unknown user; ERR_* of the daemon, which is asked about users
 *      that are unknown here */
int job_query_check_user(const struct filter *f, struct client *c,
                         struct error *err) MUST_CHECK;

/* For an empty list: prints on standard error which node, partition or account
 * is unknown, both to the jobs, however old, and to the daemon. It is most
 * often mistyped. Prints nothing if the daemon does not report which ones
 * exist. */
void job_query_tell_unknown(const struct filter *f, const char *tool,
                            struct client *c);

/* Appends "&user=..&name=.." for GET /v1/jobs.
 * err  ERR_USAGE bad value of since or state */
int filter_query(const struct filter *f, struct buf *out,
                 struct error *err) MUST_CHECK;

/* For a stream: it contains every job that may ever match, and job_query_now()
 * says which match at present. The tool needs the update that makes a job leave
 * the list. */
int job_query_stream_query(const struct filter *f, struct buf *out,
                           struct error *err) MUST_CHECK;
bool job_query_now(const struct filter *f, const json_t *job);
/* Whether the filter includes ended jobs. */
bool job_query_wants_ended(const struct filter *f);

/* Parses "RUNNING,held,PD" or "all" into bits, ignoring case; the letters of
 * column ST are allowed. `option` is for the message.
 * err  ERR_USAGE unknown state, or none at all */
int job_query_states(const char *option, const char *text, uint32_t *ret,
                     struct error *err) MUST_CHECK;
const char *job_query_letters(enum job_state s); /* "PD", "R", ... */

/* Parses "6h" ago, "2d", a day or a moment in UTC into seconds since 1970.
 * err  ERR_USAGE */
int job_query_time(const char *option, const char *text, double *ret,
                   struct error *err) MUST_CHECK;

#endif
