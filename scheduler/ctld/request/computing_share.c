/* computing_share.c - see computing_share.h. The last 64 rows are enough,
 * however many there are. */
#include "scheduler/ctld/request/computing_share.h"

#include <math.h>
#include <string.h>

enum { RECENT = 64 };

struct share { /* of the rows seen */
    double computed_s, all_s;
};

static int add_share(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    static const char *const phases[] = {"t_forward", "t_backward",
                                         "t_optimizer"};
    struct share *s = arg;
    double computed_s = 0, all_s = NAN;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        double v = cells[i].kind == CELL_REAL ? cells[i].r : NAN;
        if (strcmp(cells[i].name, "t_iter") == 0)
            all_s = v;
        for (size_t k = 0; k < sizeof(phases) / sizeof(phases[0]); k++)
            if (strcmp(cells[i].name, phases[k]) == 0)
                computed_s += v;
    }
    if (isfinite(computed_s) && all_s > 0) { /* a command may report less */
        s->computed_s += computed_s;
        s->all_s += all_s;
    }
    return 0;
}

int computing_share(struct store *s, uint64_t job, int32_t attempt, double *ret,
                    struct error *err)
{
    struct share sum = {0};
    const struct store_query q = {.view = VIEW_ITERATION,
                                  .job = job,
                                  .attempt = attempt,
                                  .rank = -1,
                                  .limit = RECENT,
                                  .last = 1};
    *ret = (double)NAN;
    if (s->metrics->query(s, &q, add_share, &sum, err) < 0)
        return -1;
    if (sum.all_s > 0)
        *ret = fmin(sum.computed_s / sum.all_s, 1);
    return 0;
}
