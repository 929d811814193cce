/* start_estimates.c - when pending jobs may start, as lists and --why show it.
 *
 * One forecast serves all pending jobs and all clients. It is made when the
 * first of them needs it, and holds until the engine has made another plan, or
 * for FRESH_S, because running jobs may take longer than expected. The loop
 * stops while it is made. After a forecast that took t, the next one is made no
 * sooner than SHARE t later, so lists of a busy queue take at most a twentieth
 * of the loop's time. A request for one job always gets a new forecast, and so
 * does the list after it.
 *
 * A client that watches gets the estimated start when its job changes, and
 * counts down from there. Other jobs may bring the start nearer or put it off,
 * while the watched job does not change. So the daemon keeps the starts that it
 * has sent, and sends a start again when it differs by more than a user would
 * tolerate; job_watch.c says how often.
 */
#include "scheduler/ctld/job_list/start_estimates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/engine/in_line.h"

static const double FRESH_S = 5, SHARE = 20;
/* A start has changed: by this, and by this part of the time until then. */
static const double OTHER_S = 5, OTHER_SHARE = 0.1;

struct start_estimates {
    struct engine_start starts[ENGINE_FORECASTS]; /* by number */
    size_t n;
    bool is_made;
    uint64_t plans;        /* that the engine had made by then */
    double made_s, rest_s; /* by the real clock; rest_s: to the next one */
    struct sent {
        uint64_t id;
        double at_s;          /* NAN: not known */
    } sent[ENGINE_FORECASTS]; /* by number */
    size_t n_sent;
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

/* NULL: its start is not known. */
static const struct engine_start *find(const struct ctld *c,
                                       const struct job *j)
{
    struct start_estimates *f = c->start_estimates;
    const struct engine_start key = {.id = j->id};
    if (j->state != JOB_QUEUED)
        return NULL;
    if ((!f->is_made || now_s() - f->made_s >= f->rest_s) &&
        start_estimates_make(c, NULL) < 0)
        return NULL;
    return bsearch(&key, f->starts, f->n, sizeof(key), by_id);
}

/* A plan of ours knows nothing of the queue of the cluster, in which others may
 * be first. */
double start_estimates_plan_s(const struct ctld *c, const struct job *j)
{
    const struct clock *clock = c->parts.clock;

    if (j->state == JOB_QUEUED)
        return j->start_estimate_s;
    return job_is_in_line(j) && j->alloc_start_s > 0
               ? clock->now_s(clock) + j->alloc_start_s - clock->wall_s(clock)
               : (double)NAN;
}

double start_estimates_forecast_s(const struct ctld *c, const struct job *j)
{
    double at_s = start_estimates_plan_s(c, j);
    if (isfinite(at_s))
        return at_s;
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

/* ---- starts that were sent to watchers ------------------------------------
 */

static double sent_of(const struct start_estimates *f, uint64_t id)
{
    for (size_t i = 0; i < f->n_sent; i++)
        if (f->sent[i].id == id)
            return f->sent[i].at_s;
    return NAN;
}

static bool is_other(double at_s, double sent_s, double now_s)
{
    if (!isfinite(at_s) || !isfinite(sent_s))
        return isfinite(at_s) != isfinite(sent_s);
    return fabs(at_s - sent_s) > fmax(OTHER_S, OTHER_SHARE * (at_s - now_s));
}

/* Only the first jobs of the queue have a start; a job that is no longer among
 * them has none. */
void start_estimates_push(struct ctld *c,
                          void (*changed)(struct ctld *c, uint64_t job))
{
    struct start_estimates *f = c->start_estimates;
    struct sent sent[ENGINE_FORECASTS];
    double clock_s = c->parts.clock->now_s(c->parts.clock);
    size_t n = 0;
    if (now_s() - f->made_s < f->rest_s || start_estimates_make(c, NULL) < 0)
        return; /* try again next time */
    for (size_t i = 0; i < f->n_sent; i++) {
        const struct job *j = engine_job(c->engine, f->sent[i].id);
        const struct engine_start key = {.id = f->sent[i].id};
        if (j && j->state == JOB_QUEUED && isfinite(f->sent[i].at_s) &&
            !bsearch(&key, f->starts, f->n, sizeof(key), by_id))
            changed(c, key.id);
    }
    for (size_t i = 0; i < f->n; i++) {
        const struct job *j = engine_job(c->engine, f->starts[i].id);
        if (!j || j->state != JOB_QUEUED)
            continue;
        struct sent t = {.id = j->id, .at_s = sent_of(f, j->id)};
        double at_s = start_estimates_best_s(c, j);
        if (is_other(at_s, t.at_s, clock_s)) {
            t.at_s = at_s;
            changed(c, j->id);
        }
        sent[n++] = t;
    }
    memcpy(f->sent, sent, n * sizeof(sent[0]));
    f->n_sent = n;
}
