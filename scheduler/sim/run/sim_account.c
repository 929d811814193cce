/* sim_account.c - who has which GPUs, and what the figures are made of.
 *
 * Two counts that must agree: the integral of the GPUs in use over time, and
 * the sum over the attempts. A node never has more GPUs in use than it has. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/run/sim_world.h"

static const double SUM_TOLERANCE = 1e-6, TOLERANCE_S = 1e-6;

double sim_class_value(const struct sim_classes *c, const char *class,
                       double absent)
{
    double x = absent;

    for (int32_t i = 0; i < c->n; i++) {
        if (strcmp(c->at[i].class, class) == 0)
            return c->at[i].x;
        if (c->at[i].class[0] == '\0')
            x = c->at[i].x;
    }
    return x;
}

void sim_account(struct sim_world *w)
{
    double dt_s = sim_now(w) - w->at_s;
    size_t present = w->n_submitted - w->n_over;
    int32_t up = w->conf->cluster->gpus_total - w->down_total;

    if (!(dt_s > 0))
        return;
    w->out->used_gpu_s += dt_s * w->used_total;
    if (present > w->n_live && up > w->used_total)
        w->out->idle_queued_gpu_s += dt_s * (up - w->used_total);
    w->crowd += dt_s * (double)present;
    w->at_s = sim_now(w);
}

static void *more(void *old, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return old;
    size_t new_cap = *cap ? 2 * *cap : 256;
    void *p = calloc(new_cap, size);
    if (!p)
        return NULL;
    if (n > 0)
        memcpy(p, old, n * size);
    free(old);
    *cap = new_cap;
    return p;
}

void sim_account_broken(struct sim_world *w, const char *what, int32_t i)
{
    if (w->broken.code != ERR_NONE)
        return;
    (void)error_set(&w->broken, ERR_INTERNAL,
                    "invariant: %s, job '%s' at %.3f s", what,
                    w->conf->trace->jobs[i].name, sim_now(w) - SIM_BEGIN_S);
}

struct booking {
    struct sim_world *w;
    int32_t i;
    int32_t gpus;
    double watts; /* of all of them; NAN: unknown */
    struct buf place;
};

static void book_node(void *arg, int32_t node, int32_t gpus, uint64_t mask)
{
    struct booking *b = arg;
    struct sim_world *w = b->w;
    struct sim_output *o = w->out;

    if (node < 0 || node >= w->conf->cluster->nodes) {
        sim_account_broken(w, "a place names no node", b->i);
        return;
    }
    w->used[node] += gpus;
    if (w->used[node] > w->gpus[node])
        sim_account_broken(w, "a node has more GPUs in use than it has", b->i);
    b->gpus += gpus;
    b->watts +=
        gpus * sim_class_value(&w->conf->watts,
                               sim_cluster_group(w->conf->cluster, node)->type,
                               NAN);
    if (buf_addf(&b->place, NULL, "%sn%" PRId32 ":%" PRId32,
                 b->place.len ? " " : "", node + 1, gpus) < 0)
        sim_account_broken(w, "out of memory", b->i);
    struct sim_span *p =
        more(o->spans, o->n_spans, &o->cap_spans, sizeof(*o->spans));
    if (!p) {
        sim_account_broken(w, "out of memory", b->i);
        return;
    }
    o->spans = p;
    o->spans[o->n_spans++] = (struct sim_span){
        sim_now(w) - SIM_BEGIN_S, NAN, b->i, node, gpus, mask};
    w->jobs[b->i].n_spans++;
}

static void add_event(struct sim_world *w, int32_t i, bool is_start,
                      const char *place)
{
    struct sim_output *o = w->out;
    struct sim_event *p =
        more(o->events, o->n_events, &o->cap_events, sizeof(*o->events));
    char *copy = p ? strdup(place) : NULL;

    if (p)
        o->events = p;
    if (!copy) {
        sim_account_broken(w, "out of memory", i);
        return;
    }
    o->events[o->n_events++] =
        (struct sim_event){sim_now(w) - SIM_BEGIN_S, i, is_start, copy};
}

void sim_book(struct sim_world *w, int32_t i, const struct job *job)
{
    struct booking b = {.w = w, .i = i};
    struct sim_state *s = &w->jobs[i];
    struct sim_result *r = &w->out->results[i];

    s->span = w->out->n_spans;
    s->n_spans = 0;
    int32_t n = sim_place_each(job->place, book_node, &b);
    w->out->n_cut += n < 0;
    if (n >= 0 && b.gpus != job->gpus)
        sim_account_broken(w, "the place of an attempt has not its GPUs", i);
    w->used_total += job->gpus;
    if (w->used_total > w->conf->cluster->gpus_total)
        sim_account_broken(w, "more GPUs are in use than there are", i);
    const struct sim_span *first = &w->out->spans[s->span];
    const struct sim_group *g =
        sim_cluster_group(w->conf->cluster, s->n_spans > 0 ? first->node : 0);
    (void)snprintf(s->gpu_type, sizeof(s->gpu_type), "%s", g->type);
    s->watts = b.gpus > 0 ? b.watts / b.gpus : (double)NAN;
    if (isnan(r->start_s))
        r->start_s = sim_now(w) - SIM_BEGIN_S;
    if (job->gpus > r->gpus_max)
        r->gpus_max = job->gpus;
    add_event(w, i, true, n >= 0 ? buf_str(&b.place) : job->place);
    buf_clear(&b.place);
}

void sim_unbook(struct sim_world *w, int32_t i, const struct job *job)
{
    struct sim_state *s = &w->jobs[i];
    int32_t gpus = s->nodes * s->per_node;
    double held_gpu_s = (sim_now(w) - s->grant_s) * gpus;
    struct buf place = BUF_INIT;

    (void)job;
    for (size_t k = s->span; k < s->span + s->n_spans; k++) {
        struct sim_span *p = &w->out->spans[k];
        p->to_s = sim_now(w) - SIM_BEGIN_S;
        w->used[p->node] -= p->gpus;
        if (buf_addf(&place, NULL, "%sn%" PRId32 ":%" PRId32,
                     place.len ? " " : "", p->node + 1, p->gpus) < 0)
            sim_account_broken(w, "out of memory", i);
    }
    w->used_total -= gpus;
    w->out->results[i].gpu_s += held_gpu_s;
    w->out->energy_ws += held_gpu_s * s->watts;
    if (isinf(s->from_s) && !s->is_claimed) { /* it never came to work */
        w->out->restarting_gpu_s += held_gpu_s;
        w->out->results[i].restarting_gpu_s += held_gpu_s;
    }
    add_event(w, i, false, buf_str(&place));
    buf_clear(&place);
}

static bool is_spent(const struct sim_world *w, const struct sim_state *s,
                     size_t most)
{
    static const double HOUR_S = 3600;

    return s->n_resizes >= most &&
           sim_now(w) - s->resized_s[(s->n_resizes - most) % SIM_RESIZES] <
               HOUR_S - TOLERANCE_S;
}

/* Not those of the beginning: administrators change them. */
static const struct policy_goodput *keys_of(const struct sim_world *w)
{
    return w->engine_conf.goodput.interval_s > 0 ? &w->engine_conf.goodput
                                                 : &policy_goodput_default;
}

void sim_check_resize(struct sim_world *w, int32_t i, const struct job *job)
{
    struct sim_state *s = &w->jobs[i];
    const struct policy_goodput *p = keys_of(w);
    size_t most = (size_t)p->max_resizes_per_hour;
    double turn_s = s->grant_s + p->min_runtime_s;
    bool grows = job->resize.gpus >= job->gpus;
    bool is_beyond = most > 0 && is_spent(w, s, most - (most > 1));

    if (sim_now(w) < turn_s - TOLERANCE_S)
        sim_account_broken(w, "a resize within the minimum run time", i);
    if (most == 0 ||
        (grows ? is_beyond &&
                     sim_now(w) < turn_s + 2 * p->interval_s - TOLERANCE_S
               : is_spent(w, s, most) &&
                     (s->spent_gpus == 0 || job->gpus <= s->spent_gpus)))
        sim_account_broken(w, "more resizes in an hour than a job may have", i);
    if (grows ? !is_beyond : job->resize.gpus <= s->spent_gpus)
        s->spent_gpus = 0;
    else if (grows && s->spent_gpus == 0)
        s->spent_gpus = job->gpus;
    s->resized_s[s->n_resizes++ % SIM_RESIZES] = sim_now(w);
}

static size_t n_changes(const struct sim_world *w)
{
    return w->n_grants + w->n_submitted + w->n_over + w->n_action + w->n_downs;
}

void sim_check_paid(struct sim_world *w, int32_t i, const struct job *job)
{
    struct sim_state *s = &w->jobs[i];
    double cost_s = s->began_s - s->restart_s; /* INFINITY: it has not begun */

    if (isfinite(cost_s))
        cost_s = fmin(cost_s, keys_of(w)->horizon_s);
    if (s->attempt > 1 && !(sim_now(w) - s->began_s >= cost_s - TOLERANCE_S))
        sim_account_broken(w, "a size is left before it has paid its restart",
                           i);
    s->asked_s = job->resize.gpus > 0 ? sim_now(w) : 0;
    s->paused_gpus = job->resize.gpus > 0 ? 0 : job->gpus;
    s->paused_nodes = job->nodes;
    s->paused_at = n_changes(w);
}

void sim_check_restart(struct sim_world *w, int32_t i, const struct job *job)
{
    struct sim_state *s = &w->jobs[i];

    if (s->paused_gpus == job->gpus && s->paused_nodes == job->nodes &&
        s->paused_at == n_changes(w))
        sim_account_broken(w, "a job restarts at its own size for nothing", i);
    s->restart_s = s->asked_s > 0 ? s->asked_s : sim_now(w);
    s->asked_s = 0;
    s->paused_gpus = 0;
}

/* The time alone with `share` GPUs; below the smallest size in proportion. */
static double alone(const struct sim_world *w, const struct sim_job *job,
                    double share)
{
    const struct sim_cluster *c = w->conf->cluster;
    int32_t most = job->most_gpus > 0 ? job->most_gpus : job->gpus_max;
    int32_t n = (int32_t)fmax(1, floor(fmin(share, c->gpus_total)));

    if (most > 0 && n > most)
        n = most;
    for (; n > 0; n--) {
        struct speed_place p = sim_cluster_fit(c, n);
        double t_s = p.nodes > 0
                         ? speed_time(w->conf->speed, job, &p, 0, job->work)
                         : (double)NAN;
        if (!isnan(t_s))
            return t_s * fmax(1, n / share);
    }
    /* A job of one size only: in proportion to that. */
    struct speed_place p = sim_cluster_fit(c, job->gpus_min);
    return speed_time(w->conf->speed, job, &p, 0, job->work) *
           fmax(1, job->gpus_min / share);
}

void sim_account_end(struct sim_world *w, int32_t i, const struct job *job)
{
    const struct sim_job *tj = &w->conf->trace->jobs[i];
    struct sim_result *r = &w->out->results[i];
    double now_s = sim_now(w) - SIM_BEGIN_S, jct_s = now_s - tj->submit_s;
    double crowd = jct_s > 0 ? (w->crowd - w->jobs[i].crowd) / jct_s : 1;

    (void)job;
    r->end_s = now_s;
    w->out->last_s = now_s;
    double one_s = alone(w, tj, 1);
    double share_s =
        alone(w, tj, w->conf->cluster->gpus_total / fmax(crowd, 1));
    r->slowdown = one_s > 0 ? jct_s / one_s : (double)NAN;
    r->fairness = share_s > 0 ? jct_s / share_s : (double)NAN;
}

int sim_account_check(const struct sim_world *w, struct error *err)
{
    double sum = 0;

    if (w->broken.code != ERR_NONE) {
        if (err)
            *err = w->broken;
        return -1;
    }
    for (size_t i = 0; i < w->out->n; i++)
        sum += w->out->results[i].gpu_s;
    if (w->n_live == 0 &&
        fabs(sum - w->out->used_gpu_s) > SUM_TOLERANCE * fmax(1, sum))
        return error_set(err, ERR_INTERNAL,
                         "invariant: the attempts had %.6f GPU-seconds, the "
                         "nodes %.6f",
                         sum, w->out->used_gpu_s);
    if (w->n_live == 0 && w->used_total != 0)
        return error_set(err, ERR_INTERNAL,
                         "invariant: %" PRId32 " GPUs are in use by nobody",
                         w->used_total);
    return 0;
}
