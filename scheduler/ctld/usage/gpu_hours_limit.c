/* gpu_hours_limit.c - see gpu_hours_limit.h.
 *
 * The use is read from v_usage each time, on the reader's thread, so that it is
 * the same after a restart and after jobs were removed. It is read again when
 * an attempt began or ended, and when the limit will be used up or be free
 * again. In between running jobs may exceed a limit by what they use in a
 * second.
 */
#include "scheduler/ctld/usage/gpu_hours_limit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/log.h"
#include "jobs/text/scalar.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/usage/usage_sums.h"
#include "scheduler/engine/events/event_codec.h"
#include "scheduler/engine/teach.h"

static const double SOON_S = 0.2, LEAST_S = 1, MOST_S = 60;

struct rule {
    char name[ENGINE_SPENT_NAME_CAP];
    struct gpu_hours_limit limit;
    struct buf uses; /* struct hours_interval */
};

struct reading {
    struct task task;
    struct ctld *c;
    double began_s;       /* monotonic */
    double now_s, next_s; /* next_s: when to read again */
    struct rule *rules;   /* owned; [n] */
    size_t n;
    struct engine_spent *spent; /* owned; [n_spent] of n */
    size_t n_spent;
    int rc;
    struct error err;
};

struct gpu_hours {
    struct loop_source *timer;
    struct reading *reading; /* under way, or NULL */
    bool is_due;             /* the timer is set for what happened */
    bool is_stale;           /* something happened since it began */
    bool is_told;            /* the engine may know of limits */
};

static void reading_run(struct task *t);
static void reading_done(struct task *t);

/* ---- a reading ------------------------------------------------------------
 */
static void reading_free(struct reading *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++)
        buf_clear(&r->rules[i].uses);
    free(r->rules);
    free(r->spent);
    free(r);
}

static struct reading *reading_new(struct ctld *c)
{
    const struct spec_map *limits = c->parts.conf->gpu_hours;
    struct reading *r = calloc(1, sizeof(*r));
    size_t n = limits ? limits->n : 0;
    if (!r)
        return NULL;
    r->task = (struct task){.run = reading_run, .done = reading_done};
    r->c = c;
    r->began_s = c->parts.clock->now_s(c->parts.clock);
    r->now_s = c->parts.clock->wall_s(c->parts.clock);
    r->rules = calloc(n + 1, sizeof(*r->rules));
    r->spent = calloc(n + 1, sizeof(*r->spent));
    if (!r->rules || !r->spent) {
        reading_free(r);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        struct rule *rule = &r->rules[r->n];
        if (gpu_hours_parse(limits->pairs[i].value, &rule->limit, NULL) < 0)
            continue; /* conf_check() has refused it */
        (void)snprintf(rule->name, sizeof(rule->name), "%s",
                       limits->pairs[i].key);
        buf_init(&rule->uses);
        r->n++;
    }
    return r;
}

static bool concerns(const struct rule *rule, const struct usage_attempt *a)
{
    return (a->user && strcmp(a->user, rule->name) == 0) ||
           (a->account && strcmp(a->account, rule->name) == 0);
}

static int add_row(void *arg, const struct store_cell *cells, size_t n,
                   struct error *err)
{
    struct reading *r = arg;
    const struct usage_attempt a = usage_attempt_of(cells, n);
    const struct hours_interval use = {
        .gpus = a.gpus, .from_s = a.claim_s, .to_s = a.end_s};
    if (isnan(a.claim_s) || a.gpus < 1)
        return 0;
    for (size_t i = 0; i < r->n; i++)
        if (concerns(&r->rules[i], &a) &&
            buf_add(&r->rules[i].uses, &use, sizeof(use), err) < 0)
            return -1;
    return 0;
}

static void describe(struct engine_spent *s, const struct rule *rule,
                     double used, double free_s)
{
    char window[SCALAR_CAP], at[32] = "?", text[2 * JOB_REASON_CAP];
    time_t t = (time_t)ceil(free_s);
    struct tm tm;
    if (gmtime_r(&t, &tm))
        (void)strftime(at, sizeof(at), "%Y-%m-%d %H:%M:%S", &tm);
    (void)snprintf(s->name, sizeof(s->name), "%s", rule->name);
    (void)snprintf(text, sizeof(text),
                   "LimitGpuHours: %s used %.4g of %.4g GPU-hours per %s, free "
                   "again at %s UTC or later",
                   rule->name, used, rule->limit.hours,
                   scalar_show_duration(window, rule->limit.window_s), at);
    text_copy(s->why, sizeof(s->why), text);
}

static void judge(struct reading *r, const struct rule *rule)
{
    const struct hours_interval *v =
        (const struct hours_interval *)(const void *)rule->uses.data;
    size_t n = rule->uses.len / sizeof(*v);
    const struct gpu_hours_limit *l = &rule->limit;
    double free_s = hours_free_at(v, n, l, r->now_s);
    double spent_s = hours_spent_at(v, n, l, r->now_s);
    if (free_s > r->now_s)
        describe(&r->spent[r->n_spent++], rule,
                 hours_used(v, n, l->window_s, r->now_s, r->now_s), free_s);
    if (free_s > r->now_s)
        r->next_s = fmin(r->next_s, free_s);
    r->next_s = fmin(r->next_s, spent_s);
}

/* On the reader's thread, or before it has begun. */
static void reading_run(struct task *t)
{
    struct reading *r = (struct reading *)t;
    struct store *s = r->c->parts.store;
    struct store_query q = {.view = VIEW_USAGE, .rank = -1};
    double window_s = 0;
    for (size_t i = 0; i < r->n; i++)
        window_s = fmax(window_s, r->rules[i].limit.window_s);
    q.after = (int64_t)fmax(r->now_s - window_s, 2) - 1;
    r->next_s = r->now_s + MOST_S;
    r->rc = r->n > 0 ? s->metrics->query(s, &q, add_row, r, &r->err) : 0;
    for (size_t i = 0; r->rc == 0 && i < r->n; i++)
        judge(r, &r->rules[i]);
}

/* ---- on the loop ----------------------------------------------------------
 */
static int take(struct ctld *c, struct reading *r, struct error *err)
{
    struct gpu_hours *h = c->gpu_hours;
    double took_s = c->parts.clock->now_s(c->parts.clock) - r->began_s;
    int rc = r->rc;
    if (rc < 0)
        *err = r->err;
    else
        rc = engine_teach_spent(c->engine, r->spent, r->n_spent, err);
    h->is_told = r->n_spent > 0;
    /* A long history is read a twentieth of the time. */
    double wait_s = fmax(r->next_s - r->now_s, fmax(LEAST_S, 20 * took_s));
    if (h->is_stale)
        wait_s = fmax(SOON_S, 20 * took_s);
    h->is_due = h->is_stale;
    h->is_stale = false;
    if (r->n > 0 || h->is_due) /* limits may be new */
        loop_timer_set(h->timer, wait_s);
    return rc;
}

static void reading_done(struct task *t)
{
    struct reading *r = (struct reading *)t;
    struct ctld *c = r->c;
    struct error err = ERROR_INIT;
    c->gpu_hours->reading = NULL;
    if (!c->stopping && take(c, r, &err) < 0)
        log_warn("ctld", "GPU-hours stay as they were why=\"%s\"", err.msg);
    else if (!c->stopping)
        ctld_step_want(c);
    reading_free(r);
}

static void look(void *arg)
{
    struct ctld *c = arg;
    struct gpu_hours *h = c->gpu_hours;
    const struct spec_map *limits = c->parts.conf->gpu_hours;
    struct error err = ERROR_INIT;
    h->is_due = false;
    if (c->stopping)
        return;
    if (h->reading) {
        h->is_stale = true;
        return;
    }
    if ((!limits || limits->n == 0) && !h->is_told)
        return;
    struct reading *r = reading_new(c);
    if (!r || work_queue_post(c->reader, &r->task, &err) < 0) {
        reading_free(r);
        loop_timer_set(h->timer, LEAST_S);
        return;
    }
    h->reading = r;
}

void gpu_hours_limit_note(struct ctld *c, const struct store_event *ev,
                          const struct job *job)
{
    const struct spec_map *limits = c->parts.conf->gpu_hours;
    if (!c->gpu_hours || !limits || limits->n == 0 || c->stopping)
        return;
    if (ev->ev != EV_CLAIM && ev->ev != EV_REQUEUE &&
        !job_state_is_final(job->state))
        return;
    struct gpu_hours *h = c->gpu_hours;
    if (h->reading)
        h->is_stale = true;
    else if (!h->is_due) /* what happens next does not postpone it */
        loop_timer_set(h->timer, SOON_S);
    h->is_due = !h->reading;
}

void gpu_hours_limit_restart(struct ctld *c)
{
    if (c->gpu_hours && c->engine && !c->stopping)
        loop_timer_set(c->gpu_hours->timer, 0.01);
}

int gpu_hours_limit_init(struct ctld *c, struct error *err)
{
    struct gpu_hours *h = c->gpu_hours = calloc(1, sizeof(*h));
    struct reading *r = h ? reading_new(c) : NULL;
    if (!r)
        return error_set(err, ERR_NOMEM, "GPU-hours");
    int rc = loop_timer_create(c->loop, look, c, &h->timer, err);
    if (rc == 0) {
        loop_source_name(h->timer, "GPU-hours timer");
        reading_run(&r->task);
        rc = take(c, r, err);
    }
    reading_free(r);
    return rc;
}

void gpu_hours_limit_clear(struct ctld *c)
{
    if (!c->gpu_hours)
        return;
    reading_free(c->gpu_hours->reading);
    loop_source_destroy(c->gpu_hours->timer);
    free(c->gpu_hours);
    c->gpu_hours = NULL;
}
