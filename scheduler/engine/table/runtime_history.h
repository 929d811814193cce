/* runtime_history.h - how long a job takes: by the speed it tells of, and by
 * those of its name before it.
 *
 * Its limit says how long it may, and most end long before that. Nobody is
 * promised anything by these figures and no plan is made of them: they are
 * for whoever asks when a job may start (what_if.c, start_forecast.c).
 */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_RUNTIME_HISTORY_H
#define MGPU_SCHEDULER_ENGINE_TABLE_RUNTIME_HISTORY_H

#include <stdint.h>

struct engine;
struct entry;

/* What the last two of a kind took: a user's jobs of one name, as wide as each
 * other. Another kind with the same place in the table takes it over. */
enum { RUNS_N = 1024 };
struct eng_runs {
    uint64_t kind; /* 0: nothing is known */
    double fast_s, slow_s, last_s;
};

/* It has ended, for good. What was begun again says nothing. */
void eng_runs_note(struct engine *e, const struct entry *en);

/* Seconds from its start to its end if it goes on as it does, or takes as long
 * as those before it; never more than its limit. NAN: nothing is known.
 *
 * in   gpus    that it has, or would have
 *      for_s   since its start
 *      share   0 the fastest that was seen of it, 1 the slowest */
double eng_expect_s(const struct engine *e, const struct entry *en,
                    int32_t gpus, double for_s, double share);

/* An iteration of it takes so long on average, by its beats; NAN: not known. */
double eng_average_s(const struct entry *en);

#endif
