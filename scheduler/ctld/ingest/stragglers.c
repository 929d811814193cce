/* stragglers.c - find the slowest or silent rank of an attempt.
 *
 * Ranks train in step, so ranks that wait for another one have reported as many
 * iterations as it has, or one more. A rank without new rows asks in each
 * heartbeat whether it should still run; a rank that does not even do that is
 * stopped, or its node is.
 */
#include "scheduler/ctld/ingest/stragglers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"

/* A rank is silent after so many heartbeats. */
static const double SILENT_BEATS = 3;

void stragglers_describe(void *arg, const struct job *job, char *ret,
                         size_t cap)
{
    struct ctld *c = arg;
    const struct attempt_metrics *i =
        attempt_metrics_of(c, job->id, job->attempt, false);
    double now_s = c->parts.clock->now_s(c->parts.clock), longest_s = 0;
    int64_t least = INT64_MAX, most = 0;
    int32_t behind = -1, silent = -1;

    ret[0] = '\0';
    for (int32_t r = 0; i && r < i->n_ranks; r++) {
        const struct rank_seen *s = &i->seen[r];
        if (s->iteration > 0 && s->iteration < least) {
            least = s->iteration;
            behind = r;
        }
        most = s->iteration > most ? s->iteration : most;
        /* Rank 0 sends heartbeats instead. */
        if (r > 0 && now_s - s->heard_s > longest_s) {
            longest_s = now_s - s->heard_s;
            silent = r;
        }
    }
    if (behind >= 0 && least < most)
        (void)snprintf(ret, cap,
                       "; rank %" PRId32 " lags: at iteration %" PRId64
                       ", others at %" PRId64,
                       behind, least, most);
    else if (longest_s > SILENT_BEATS * c->parts.conf->heartbeat_s)
        (void)snprintf(ret, cap, "; rank %" PRId32 " is silent for %.0f s",
                       silent, longest_s);
}
