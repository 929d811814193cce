/* sim_run.c - the loop of a simulation; see sim_run.h.
 *
 * Time jumps from one event to the next: a submit, an action of a person, a
 * timer of a worker or a node, a note of the allocator, or what the engine
 * waits for. At each moment first the users and workers act, then the engine
 * steps until it has nothing to do. */
#include "scheduler/sim/run/sim_run.h"
#include "db/mem/store_mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/run/sim_world.h"

/* A simulation that does nothing for so long, or so many steps, is stuck. */
static const double IDLE_MAX_S = 400.0 * 86400;
enum { STEPS_A_MOMENT = 100000 };

/* ---- the cluster ----------------------------------------------------------
 */
static void outcome(void *arg, uint64_t job, int32_t attempt, int32_t gpus,
                    struct alloc_fake_outcome *ret)
{
    (void)arg;
    (void)job;
    (void)attempt;
    (void)gpus;
    *ret = (struct alloc_fake_outcome){.run_s = INFINITY};
}

static void node(void *arg, int32_t i, struct alloc_node *io)
{
    const struct sim_world *w = arg;
    const struct sim_group *g = sim_cluster_group(w->conf->cluster, i);

    if (g->type[0])
        (void)snprintf(io->gpu_type, sizeof(io->gpu_type), "%s", g->type);
    if (!w->is_down[i])
        return;
    io->is_up = 0;
    (void)snprintf(io->why, sizeof(io->why), "it failed");
}

static bool may_use(void *arg, int32_t i, const struct alloc_where *where)
{
    const struct sim_world *w = arg;
    const struct sim_group *g = sim_cluster_group(w->conf->cluster, i);

    return !where->gpu_type || !where->gpu_type[0] || !g->type[0] ||
           strcmp(where->gpu_type, g->type) == 0;
}

int sim_secret(void *arg, enum engine_secret what, uint64_t job,
               int32_t attempt, char ret[ENGINE_SECRET_CAP], struct error *err)
{
    (void)arg;
    (void)err;
    (void)snprintf(ret, ENGINE_SECRET_CAP, "%d-%016" PRIu64 "-%016" PRId32,
                   (int)what, job, attempt);
    return 0;
}

/* ---- life -----------------------------------------------------------------
 */
static int create_tables(struct sim_world *w, struct error *err)
{
    size_t n = w->conf->trace->n, nodes = (size_t)w->conf->cluster->nodes;
    struct sim_output *o = w->out;

    w->jobs = calloc(n + 1, sizeof(*w->jobs));
    w->last_id = n + w->conf->trace->last_id;
    w->of_id = calloc(w->last_id + 1, sizeof(*w->of_id));
    w->granted = calloc(n + 1, sizeof(*w->granted));
    w->live = calloc(n + 1, sizeof(*w->live));
    w->gpus = calloc(nodes, sizeof(*w->gpus));
    w->used = calloc(nodes, sizeof(*w->used));
    w->is_down = calloc(nodes, sizeof(*w->is_down));
    o->results = calloc(n + 1, sizeof(*o->results));
    if (!w->jobs || !w->of_id || !w->granted || !w->live || !w->gpus ||
        !w->used || !w->is_down || !o->results)
        return error_set(err, ERR_NOMEM, "simulation of %zu jobs", n);
    o->n = n;
    for (size_t i = 0; i < nodes; i++)
        w->gpus[i] = sim_cluster_group(w->conf->cluster, (int32_t)i)->gpus;
    for (size_t i = 0; i < n; i++) {
        double z = sim_normal(w->conf->seed, i + 1, 0);
        w->jobs[i].factor = 1;
        w->jobs[i].from_s = INFINITY;
        w->jobs[i].reported =
            w->conf->trace->jobs[i].work * exp(w->conf->length_error * z);
        o->results[i].start_s = o->results[i].end_s = NAN;
        o->results[i].slowdown = o->results[i].fairness = NAN;
    }
    return 0;
}

static int create(struct sim_world *w, struct error *err)
{
    const struct alloc_fake_conf cluster = {
        .nodes = w->conf->cluster->nodes,
        .gpus_per_node = w->conf->cluster->gpus_max,
        .gpus = w->gpus,
        .forgets = true,
        .grant_delay_s = w->conf->grant_delay_s,
        .clock = &w->clock.base,
        .outcome = outcome,
        .node = node,
        .may_use = w->conf->cluster->n_groups > 1 ? may_use : NULL,
        .arg = w};
    struct engine_parts parts = {.clock = &w->clock.base,
                                 .policy = w->policy->policy,
                                 .conf = &w->engine_conf,
                                 .secret_of = sim_secret};

    if (alloc_fake_world_create(&cluster, &w->cluster, err) < 0 ||
        alloc_fake_create(w->cluster, &w->alloc, err) < 0 ||
        store_mem_world_create(&w->db, err) < 0 ||
        store_mem_create(w->db, &w->store, err) < 0)
        return -1;
    parts.alloc = w->alloc;
    parts.store = w->store;
    if (engine_create(&parts, &w->engine, err) < 0)
        return -1;
    engine_on_event(w->engine, sim_on_event, w);
    return sim_nodes_begin(w, err);
}

static void destroy(struct sim_world *w)
{
    engine_destroy(w->engine);
    if (w->store)
        w->store->ops->destroy(w->store);
    if (w->alloc)
        w->alloc->ops->destroy(w->alloc);
    alloc_fake_world_destroy(w->cluster);
    store_mem_world_destroy(w->db);
    free(w->jobs);
    free(w->of_id);
    free(w->heap);
    free(w->granted);
    free(w->live);
    free(w->gpus);
    free(w->used);
    free(w->is_down);
}

void sim_output_clear(struct sim_output *o)
{
    for (size_t i = 0; i < o->n_events; i++)
        free(o->events[i].place);
    free(o->results);
    free(o->events);
    free(o->spans);
    free(o->decision_s);
    buf_clear(&o->unfinished);
    *o = (struct sim_output){.n = 0};
}

/* ---- the loop -------------------------------------------------------------
 */
static double submit_at(const struct sim_world *w)
{
    return w->n_submitted < w->conf->trace->n
               ? SIM_BEGIN_S + w->conf->trace->jobs[w->n_submitted].submit_s
               : (double)INFINITY;
}

static double act_at(const struct sim_world *w)
{
    return w->n_action < w->conf->n_actions
               ? SIM_BEGIN_S + w->conf->actions[w->n_action].t_s
               : (double)INFINITY;
}

static double next_s(const struct sim_world *w)
{
    const struct sim_timer *first = sim_timer_first(w);
    double t = fmin(submit_at(w), act_at(w));

    t = fmin(t, first ? first->t_s : (double)INFINITY);
    t = fmin(t, w->round_at_s);
    t = fmin(t, fmin(engine_next_s(w->engine), alloc_fake_next_s(w->cluster)));
    return w->n_granted > 0 ? sim_now(w) : t;
}

static int timer(struct sim_world *w, struct error *err)
{
    struct sim_timer t = sim_timer_take(w);
    const struct sim_state *s = &w->jobs[t.i];
    bool is_present = t.due > DUE_END || (s->runs && s->attempt == t.attempt);

    if (!is_present)
        return 0;
    switch (t.due) {
    case DUE_FIRST_BEAT:
        return sim_first_beat(w, t.i, err);
    case DUE_END:
        return sim_end(w, t.i, err);
    case DUE_FAILURE:
        return sim_node_fail(w, t.i, err);
    case DUE_REPAIR:
        return sim_node_repair(w, t.i, err);
    }
    return 0;
}

/* Users, workers and nodes act. */
static int act(struct sim_world *w, struct error *err)
{
    const struct sim_timer *first;
    double now_s = sim_now(w);

    if (sim_claim(w, err) < 0)
        return -1;
    while ((first = sim_timer_first(w)) && first->t_s <= now_s)
        if (timer(w, err) < 0)
            return -1;
    while (submit_at(w) <= now_s)
        if (sim_submit(w, err) < 0)
            return -1;
    while (act_at(w) <= now_s)
        if (sim_act(w, err) < 0)
            return -1;
    return w->round_at_s <= now_s ? sim_round(w, err) : 0;
}

static int add_decision(struct sim_output *o, double took_s, struct error *err)
{
    if (o->n_decisions == o->cap_decisions) {
        size_t cap = o->cap_decisions ? 2 * o->cap_decisions : 1024;
        double *p = calloc(cap, sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "%zu decisions", cap);
        if (o->n_decisions > 0)
            memcpy(p, o->decision_s, o->n_decisions * sizeof(*p));
        free(o->decision_s);
        o->decision_s = p;
        o->cap_decisions = cap;
    }
    o->decision_s[o->n_decisions++] = took_s;
    return 0;
}

static int step(struct sim_world *w, struct error *err)
{
    uint64_t plans = engine_plans(w->engine);
    double began_s = clock_real.now_s(&clock_real);

    if (engine_step(w->engine, err) < 0)
        return -1;
    w->out->n_steps++;
    if (w->broken.code != ERR_NONE)
        return sim_account_check(w, err);
    return engine_plans(w->engine) == plans
               ? 0
               : add_decision(w->out, clock_real.now_s(&clock_real) - began_s,
                              err);
}

/* Whether the jobs that are left can still move. */
static bool is_stuck(const struct sim_world *w, double t, double moved_s)
{
    bool comes = isfinite(submit_at(w)) || isfinite(act_at(w));
    return !isfinite(t) ||
           (w->n_live == 0 && !comes && t - moved_s > IDLE_MAX_S);
}

static int play(struct sim_world *w, struct error *err)
{
    double moved_s = sim_now(w);
    uint64_t n_log = 0;
    int32_t here = 0;

    while (w->n_over < w->conf->trace->n) {
        double t = next_s(w);
        size_t most = w->conf->decisions_max;
        if (is_stuck(w, t, moved_s) ||
            (most > 0 && w->out->n_decisions >= most))
            return 0;
        if (t > sim_now(w)) {
            w->clock.t_s = t;
            sim_account(w);
            here = 0;
        } else if (++here > STEPS_A_MOMENT) {
            return error_set(err, ERR_INTERNAL,
                             "invariant: time stands still at %.3f s",
                             sim_now(w) - SIM_BEGIN_S);
        }
        if (act(w, err) < 0 || step(w, err) < 0)
            return -1;
        if (w->out->n_log != n_log)
            moved_s = sim_now(w);
        n_log = w->out->n_log;
    }
    return 0;
}

/* Actions on jobs after the end of the last one. */
static void count_late_actions(struct sim_world *w)
{
    for (size_t i = w->n_action; i < w->conf->n_actions; i++)
        w->out->n_not_applied += w->conf->actions[i].act != ACT_POLICY;
}

/* A line for each job that did not complete. */
static int name_unfinished(struct sim_world *w, struct error *err)
{
    struct sim_output *o = w->out;

    for (size_t i = 0; i < o->n; i++) {
        const struct sim_result *r = &o->results[i];
        const struct job *job =
            w->jobs[i].id ? engine_job(w->engine, w->jobs[i].id) : NULL;
        if (r->is_completed)
            continue;
        o->n_unfinished++;
        o->n_unended += !job || !job_state_is_final(job->state);
        if (buf_addf(&o->unfinished, err, "job '%s': %s: %s\n",
                     w->conf->trace->jobs[i].name,
                     job ? job_state_name(job->state) : "not accepted",
                     job ? job->reason : r->reason) < 0)
            return -1;
    }
    return 0;
}

int sim_run(const struct sim_conf *conf, const struct sim_policy *policy,
            struct sim_output *ret, struct error *err)
{
    double began_s = clock_real.now_s(&clock_real);
    struct sim_output out = {.n = 0};
    struct sim_world w = {.conf = conf,
                          .policy = policy,
                          .out = &out,
                          .round_at_s = INFINITY,
                          .at_s = SIM_BEGIN_S};

    w.engine_conf = (struct engine_conf){.cluster = "sim",
                                         .jobs_dir = "/jobs",
                                         .worker = "/mgpu-worker",
                                         .url = "unix:/sim",
                                         .reconcile_s = 5,
                                         .kill_grace_s = 30,
                                         .limits = policy->limits,
                                         .preempt = policy->preempt,
                                         .goodput = policy->goodput,
                                         .fair_share = policy->fair_share};
    double epoch_s = conf->trace->epoch_s;
    clock_virtual_init(&w.clock, SIM_BEGIN_S,
                       (epoch_s > 0 ? epoch_s : SIM_EPOCH_S) - SIM_BEGIN_S);
    rng_seed(&w.rng, conf->seed);
    int rc = create_tables(&w, err);
    if (rc == 0)
        rc = create(&w, err);
    if (rc == 0 && (rc = play(&w, err)) == 0)
        rc = sim_account_check(&w, err);
    count_late_actions(&w);
    if (rc == 0 && conf->decisions_max == 0)
        rc = name_unfinished(&w, err);
    out.first_s = conf->trace->n > 0 ? conf->trace->jobs[0].submit_s : 0;
    out.wall_s = clock_real.now_s(&clock_real) - began_s;
    destroy(&w);
    if (rc < 0)
        sim_output_clear(&out);
    else
        *ret = out;
    return rc;
}
