/* advice.h - how efficiently a job used its resources, and what its user may
 * change: for the tools, and for the daemon's API.
 *
 * Figures are shares of the step time, over all ranks, without the first three
 * iterations of each attempt, which warm up. `reply` is mgpu.job/1; its
 * "events" (of mgpu.events/1), its "profile" as mgpu.profile/1 and its "values"
 * and "first_values" as mgpu.values/1 are used if present.
 */
#ifndef MGPU_JOBS_ADVICE_ADVICE_H
#define MGPU_JOBS_ADVICE_ADVICE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "jobs/advice/gpu_figures.h"
#include "jobs/base/error.h"

enum { ADVICE_RANKS_MAX = 1024 };

/* About 8 KiB. */
struct advice_figures {
    double iter, data, copy, compute, comm; /* seconds */
    double warm_up; /* of the iterations that are excluded */
    size_t n;
    int ranks;
    /* Of the last attempt with several ranks: a rank's own work. Those of
     * another attempt had other nodes, and ran for another time. */
    double rank_s[ADVICE_RANKS_MAX]; /* NAN: it has reported none yet */
    int late_ranks;
    struct gpu_figures gpus;
};

/* in   iterations  mgpu.iterations/1
 * out  f           zeroed by the caller; NAN: not known */
void advice_gather(const json_t *reply, const json_t *iterations,
                   struct advice_figures *f);
/* CPU usage as a share of the cores' time, from the final report of the last
 * attempt's worker; if there is none, from the event of its end; NAN: unknown.
 */
double advice_cpu(const json_t *reply);
/* The efficiency measured at the size of this job, of mgpu.scaling/1; NAN
 * without a smaller size to compare with. */
double advice_scaling(const json_t *scaling, int64_t gpus);
/* Prints "  * NOTE\n    CONTINUED\n" for each note. Returns how many. */
int advice_notes(FILE *out, const json_t *reply, const struct advice_figures *f,
                 double efficiency);
/* All of it as a row of mgpu.eff/1, its notes without line breaks.
 * own  *ret: json_decref()
 * err  ERR_NOMEM */
int advice_row(const json_t *reply, const json_t *iterations,
               const json_t *scaling, json_t **ret,
               struct error *err) MUST_CHECK;

#endif
