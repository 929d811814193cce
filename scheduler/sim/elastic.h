/* elastic.h - make jobs elastic that were recorded with one size. */
#ifndef MGPU_SCHEDULER_SIM_ELASTIC_H
#define MGPU_SCHEDULER_SIM_ELASTIC_H

#include "scheduler/sim/trace/sim_trace.h"

struct elastic {
    enum { ELASTIC_SHARE, ELASTIC_USER, ELASTIC_NAME } by;
    double share;     /* of the jobs, 0..1, drawn with the seed */
    const char *text; /* borrowed: the user, or the pattern of names */
};

/* "20%"; "user=NAME"; "name=PATTERN", as a shell has them.
 * out  ret  borrows of text
 * err  ERR_USAGE */
int elastic_parse(const char *text, struct elastic *ret,
                  struct error *err) MUST_CHECK;

/* Lets the chosen jobs have a quarter to four times their GPUs, at most
 * gpus_max unless they had more. Returns how many. The choice of a job depends
 * on the seed and on its name alone. */
enum { ELASTIC_FACTOR = 4 };
size_t elastic_apply(const struct elastic *e, uint32_t seed, int32_t gpus_max,
                     struct sim_trace *t);

#endif
