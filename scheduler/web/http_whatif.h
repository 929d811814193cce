/* http_whatif.h - what two settings of scheduling would have done with the past
 * of the cluster, as mgpu-sim says it.
 *
 * mgpu-sim runs with the rights of this user, from arguments and without a
 * shell, and reads every setting itself. There is one run at a time. It ends
 * when its client leaves, and is killed past a time and a length of output.
 */
#ifndef MGPU_SCHEDULER_WEB_HTTP_WHATIF_H
#define MGPU_SCHEDULER_WEB_HTTP_WHATIF_H

#include <stddef.h>

#include "jobs/base/error.h"

struct event_base; /* libevent */
struct http_exchange;
struct web_whatif;

struct web_whatif_conf {
    const char *program; /* mgpu-sim; NULL: the one beside this program */
    double limit_s;      /* of a run */
    size_t max_bytes;    /* of its standard output */
};

/* Takes SIGCHLD of this loop.
 *
 * err  ERR_NOMEM */
int web_whatif_create(struct event_base *base,
                      const struct web_whatif_conf *conf,
                      struct web_whatif **ret, struct error *err) MUST_CHECK;
void web_whatif_destroy(struct web_whatif *w); /* NULL is fine; stops it */

/* Whether there is a mgpu-sim, and a history that this user may read.
 *
 * in   state_dir  of the daemon, an absolute path; "": not known
 * err  ERR_STATE why not */
int web_whatif_check(const struct web_whatif *w, const char *state_dir,
                     struct error *err) MUST_CHECK;

/* Answers {"policies":[A,B],"since":TIME}: mgpu-sim gets A, B and TIME as the
 * values of its options. The reply is {"status":its exit status, "said":its
 * standard error, "figures":the document mgpu.sim/1, or null}.
 *
 * in  state_dir  as above */
void web_whatif_run(struct web_whatif *w, const char *state_dir,
                    struct http_exchange *x);

/* Ends what runs; its client gets an error. */
void web_whatif_stop(struct web_whatif *w);

#endif
