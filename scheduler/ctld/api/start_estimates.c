/* start_estimates.c - when those that wait may start, as a list and --why say
 * it.
 *
 * One forecast is for all that wait, and for all that ask: it is made when the
 * first of them is written and holds until the engine has made another plan,
 * or for FRESH_S, as what runs may take longer than was foreseen. Making one
 * stops the loop. After one that took t the next is made SHARE t later, no
 * sooner, so that lists of a busy queue take a twentieth of the loop's time at
 * most; who asks for one job alone has it as it is now, and so says the list
 * after that.
 *
 * Who watches is told of a start when its job changes, and counts down from
 * there by himself. What others do may bring it nearer, or put it off, and the
 * job is the same: so what was told is kept, and a start that is now another
 * by more than anybody would mind is told anew, job_watch.c says how often.
 */
#include "scheduler/ctld/api/start_estimates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "scheduler/ctld/api/job_watch.h"
#include "scheduler/ctld/ctld_internal.h"

static const double FRESH_S = 5, SHARE = 20;
/* Another start: by this, and by this part of the time until then. */
static const double OTHER_S = 5, OTHER_SHARE = 0.1;

struct start_estimates {
    struct engine_start starts[ENGINE_FORECASTS]; /* by number */
    size_t n;
    bool is_made;
    uint64_t plans;        /* that the engine had made then */
    double made_s, rest_s; /* by the real clock; no other before that long */
    struct told {
        uint64_t id;
        double at_s;          /* NAN: that it is not known */
    } told[ENGINE_FORECASTS]; /* by number */
    size_t n_told;
};

int start_estimates_init(struct ctld *c, struct error *err)
{
    c->start_estimates = calloc(1, sizeof(*c->start_estimates));
    return c->start_estimates ? 0 : error_set(err, ERR_NOMEM, "forecast");
}

void start_estimates_clear(struct ctld *c)
{
    free(c->start_estimates);
    c->start_estimates = NULL;
}

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

int start_estimates_make(const struct ctld *c, struct error *err)
{
    struct start_estimates *f = c->start_estimates;
    double from_s = now_s();
    uint64_t plans = engine_plans(c->engine);
    if (f->is_made && f->plans == plans && from_s - f->made_s < FRESH_S)
        return 0;
    f->is_made = false;
    if (engine_forecast(c->engine, f->starts, &f->n, err) < 0)
        return -1;
    f->is_made = true;
    f->plans = plans;
    f->made_s = now_s();
    f->rest_s = SHARE * (f->made_s - from_s);
    return 0;
}

void start_estimates_drop(struct ctld *c)
{
    c->start_estimates->is_made = false;
}

static int by_id(const void *a, const void *b)
{
    const struct engine_start *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* NULL: nothing is known of it. */
static const struct engine_start *find(const struct ctld *c,
                                       const struct job *j)
{
    struct start_estimates *f = c->start_estimates;
    const struct engine_start key = {.id = j->id};
    if (j->state != JOB_QUEUED)
        return NULL;
    /* Without memory for a forecast nothing is known. */
    if ((!f->is_made || now_s() - f->made_s >= f->rest_s) &&
        start_estimates_make(c, NULL) < 0)
        return NULL;
    return bsearch(&key, f->starts, f->n, sizeof(key), by_id);
}

double start_estimates_forecast_s(const struct ctld *c, const struct job *j)
{
    if (j->state == JOB_QUEUED && isfinite(j->start_estimate_s))
        return j->start_estimate_s;
    const struct engine_start *found = find(c, j);
    return found ? found->start_s : (double)NAN;
}

double start_estimates_expected_s(const struct ctld *c, const struct job *j)
{
    const struct engine_start *found = find(c, j);
    return found ? found->expected_s : (double)NAN;
}

double start_estimates_best_s(const struct ctld *c, const struct job *j)
{
    double at_s = start_estimates_expected_s(c, j);
    return isfinite(at_s) ? at_s : start_estimates_forecast_s(c, j);
}

/* ---- what those who watch were told ---------------------------------------
 */

static double told_of(const struct start_estimates *f, uint64_t id)
{
    for (size_t i = 0; i < f->n_told; i++)
        if (f->told[i].id == id)
            return f->told[i].at_s;
    return NAN;
}

static bool is_other(double at_s, double told_s, double now_s)
{
    if (!isfinite(at_s) || !isfinite(told_s))
        return isfinite(at_s) != isfinite(told_s);
    return fabs(at_s - told_s) > fmax(OTHER_S, OTHER_SHARE * (at_s - now_s));
}

/* Of the first in the queue alone there is a start to be told; one that is
 * none of them any more has none. */
void start_estimates_push(struct ctld *c)
{
    struct start_estimates *f = c->start_estimates;
    struct told told[ENGINE_FORECASTS];
    double clock_s = c->parts.clock->now_s(c->parts.clock);
    size_t n = 0;
    if (now_s() - f->made_s < f->rest_s || start_estimates_make(c, NULL) < 0)
        return; /* the next time */
    for (size_t i = 0; i < f->n_told; i++) {
        const struct job *j = engine_job(c->engine, f->told[i].id);
        const struct engine_start key = {.id = f->told[i].id};
        if (j && j->state == JOB_QUEUED && isfinite(f->told[i].at_s) &&
            !bsearch(&key, f->starts, f->n, sizeof(key), by_id))
            job_watch_changed(c, key.id);
    }
    for (size_t i = 0; i < f->n; i++) {
        const struct job *j = engine_job(c->engine, f->starts[i].id);
        if (!j || j->state != JOB_QUEUED)
            continue;
        struct told t = {.id = j->id, .at_s = told_of(f, j->id)};
        double at_s = start_estimates_best_s(c, j);
        if (is_other(at_s, t.at_s, clock_s)) {
            t.at_s = at_s;
            job_watch_changed(c, j->id);
        }
        told[n++] = t;
    }
    memcpy(f->told, told, n * sizeof(told[0]));
    f->n_told = n;
}
