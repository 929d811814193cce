/* job_query.h - which jobs a command line chooses, as the daemon is asked for
 * them. */
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
    uint32_t states;   /* bits, see filter_states(); 0: none has ended */
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
/* One of them. err ERR_USAGE no such state, a label that is none, one too many
 */
int filter_option(struct filter *f, int id, const char *value,
                  struct error *err) MUST_CHECK;
bool filter_is_any(const struct filter *f);
/* Whether user is somebody: 'me', 'all', a number, known to this machine, or
 * with jobs at the daemon, however long ago.
 * err  ERR_USAGE nobody; ERR_* of the daemon, which is asked for who is not
 *      known here */
int filter_check_user(const struct filter *f, struct client *c,
                      struct error *err) MUST_CHECK;

/* Of a list that came out empty: says on standard error which of node,
 * partition and account neither a job has, however long ago, nor the daemon
 * otherwise; most often it is mistyped. Says nothing when the daemon does not
 * say what there is. */
void filter_tell_unknown(const struct filter *f, const char *tool,
                         struct client *c);

/* Appends "&user=..&name=.." for GET /v1/jobs.
 * err  ERR_USAGE since, or a state, is none */
int filter_query(const struct filter *f, struct buf *out,
                 struct error *err) MUST_CHECK;

/* A stream brings the jobs that may ever fit, and filter_now() says which do
 * at present: a job has to be heard of that leaves. */
int filter_stream_query(const struct filter *f, struct buf *out,
                        struct error *err) MUST_CHECK;
bool filter_now(const struct filter *f, const json_t *job);
/* Jobs that have ended are among those asked for. */
bool filter_wants_ended(const struct filter *f);

/* "RUNNING,held,PD" or "all" as bits; of any case, or by the letters of the
 * column ST. `option` is for the message.
 * err  ERR_USAGE no such state, or none at all */
int filter_states(const char *option, const char *text, uint32_t *ret,
                  struct error *err) MUST_CHECK;
const char *filter_letters(enum job_state s); /* "PD", "R", ... */

/* "6h" ago, "2d", a day or a moment in UTC, as seconds since 1970.
 * err  ERR_USAGE */
int filter_time(const char *option, const char *text, double *ret,
                struct error *err) MUST_CHECK;

#endif
