/* random_world.c - random clusters, jobs, failures and policies, for
 * mgpu-sim --check; and a synthetic queue, for --bench. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "jobs/conf/conf_goodput.h"
#include "scheduler/sim/run/sim_run.h"

enum { CLASSES = 3, JOBS_MAX = 40, ACTIONS_MAX = 8 };

struct random_world {
    struct rng rng;
    struct sim_cluster cluster;
    struct sim_trace trace;
    struct speed *speed;
    struct sim_action actions[ACTIONS_MAX + 1];
    struct sim_conf conf;
    struct sim_policy policy, later; /* an administrator sets the second one */
};

static int32_t draw(struct rng *r, int32_t from, int32_t to)
{
    assert(from <= to);
    return from + (int32_t)(rng_u32(r) % (uint32_t)(to - from + 1));
}

static int make_cluster(struct random_world *w, struct error *err)
{
    static const int32_t sizes[] = {1, 2, 4, 8};
    char text[CLUSTER_TEXT_CAP] = "";
    int32_t n = draw(&w->rng, 1, 3);
    size_t len = 0;

    for (int32_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "%s%" PRId32 "x%" PRId32 ":t%" PRId32,
                                i ? "," : "", draw(&w->rng, 1, 5),
                                sizes[draw(&w->rng, 0, 3)], i);
    return sim_cluster_parse(text, &w->cluster, err);
}

static int make_speeds(struct random_world *w, struct error *err)
{
    if (size_table_create(&w->speed, err) < 0)
        return -1;
    for (int32_t c = 0; c < CLASSES; c++) {
        char class[16];
        double t_s = draw(&w->rng, 1, 100) / 10.0;
        (void)snprintf(class, sizeof(class), "c%" PRId32, c);
        for (int32_t gpus = 1; gpus <= 4; gpus *= 2)
            if (size_table_add(w->speed, class, "", 1, gpus,
                               t_s * (0.2 + 0.8 / gpus), draw(&w->rng, 0, 60),
                               err) < 0)
                return -1;
    }
    return 0;
}

static int make_jobs(struct random_world *w, struct error *err)
{
    int32_t n = draw(&w->rng, 1, JOBS_MAX);

    (void)snprintf(w->trace.name, sizeof(w->trace.name), "random");
    for (int32_t i = 0; i < n; i++) {
        struct sim_job job = {
            .submit_s = draw(&w->rng, 0, 2000),
            .work = draw(&w->rng, 1, 300),
            .gpus_min = draw(&w->rng, 1, w->cluster.gpus_max),
            .priority = draw(&w->rng, -2, 2),
        };
        job.gpus_max = draw(&w->rng, job.gpus_min, 2 * job.gpus_min);
        job.limit_s = draw(&w->rng, 0, 9) ? 0 : draw(&w->rng, 1, 200);
        (void)snprintf(job.name, sizeof(job.name), "j%" PRId32, i);
        (void)snprintf(job.user, sizeof(job.user), "u%" PRId32,
                       draw(&w->rng, 0, 3));
        (void)snprintf(job.class, sizeof(job.class), "c%" PRId32,
                       draw(&w->rng, 0, CLASSES - 1));
        if (sim_trace_add(&w->trace, &job, err) < 0)
            return -1;
    }
    return sim_trace_sort(&w->trace, err);
}

/* A hold is followed by a release, so that every job can end. */
static void make_actions(struct random_world *w)
{
    size_t n = (size_t)draw(&w->rng, 0, ACTIONS_MAX / 2);
    double t_s = 0;

    for (size_t i = 0; i < n; i++) {
        enum sim_act act = (enum sim_act)draw(&w->rng, 0, ACT_REQUEUE);
        struct sim_action *a = &w->actions[w->conf.n_actions++];
        t_s += draw(&w->rng, 1, 900);
        *a = (struct sim_action){
            .t_s = t_s,
            .act = act,
            .job = (size_t)draw(&w->rng, 0, (int32_t)w->trace.n - 1),
            .priority = draw(&w->rng, -50, 50)};
        if (act != ACT_HOLD)
            continue;
        t_s += draw(&w->rng, 1, 300);
        w->actions[w->conf.n_actions++] =
            (struct sim_action){.t_s = t_s, .act = ACT_RELEASE, .job = a->job};
    }
}

static struct sim_policy make_policy(struct random_world *w)
{
    static const struct conf_fair_share day = {.half_life_s = 86400};
    int32_t n = 0;

    while (policy_at((size_t)n))
        n++;
    struct sim_policy p = {.policy = policy_at((size_t)draw(&w->rng, 0, n - 1)),
                           .preempt = {.is_on = draw(&w->rng, 0, 1),
                                       .grace_s = draw(&w->rng, 1, 60),
                                       .min_runtime_s = draw(&w->rng, 0, 120)}};
    p.goodput = policy_goodput_default;
    p.goodput.min_runtime_s = draw(&w->rng, 0, 2) * 40;
    p.goodput.max_resizes_per_hour = draw(&w->rng, 0, 6);
    p.goodput.hysteresis_s = draw(&w->rng, 0, 1) * 60;
    p.goodput.aging = draw(&w->rng, 0, 1);
    p.fair_share = p.preempt.grace_s > 30 ? &day : NULL;
    if (draw(&w->rng, 0, 3) == 0)
        p.limits.gpus_per_user = draw(&w->rng, 1, 16);
    return p;
}

/* After all other actions. */
static void make_change(struct random_world *w)
{
    size_t n = w->conf.n_actions;
    double after_s = n > 0 ? w->actions[n - 1].t_s : 0;

    if (draw(&w->rng, 0, 1))
        return;
    w->later = make_policy(w);
    /* Below a lower limit, jobs that were accepted would wait for ever. */
    w->later.limits = w->policy.limits;
    w->actions[w->conf.n_actions++] =
        (struct sim_action){.t_s = after_s + draw(&w->rng, 1, 500),
                            .act = ACT_POLICY,
                            .policy = &w->later};
}

static int make(struct random_world *w, uint32_t seed, struct error *err)
{
    static const double failures[] = {0, 0, 1, 20};

    *w = (struct random_world){.conf = {.seed = seed}};
    rng_seed(&w->rng, seed);
    if (make_cluster(w, err) < 0 || make_speeds(w, err) < 0 ||
        make_jobs(w, err) < 0)
        return -1;
    make_actions(w);
    w->policy = make_policy(w);
    make_change(w);
    w->conf.cluster = &w->cluster;
    w->conf.trace = &w->trace;
    w->conf.speed = w->speed;
    w->conf.request = REQUEST_TRACE;
    w->conf.round_s = draw(&w->rng, 10, 120);
    w->conf.grant_delay_s = draw(&w->rng, 0, 1) * 3;
    w->conf.restart_s = 30;
    w->conf.limit_factor = draw(&w->rng, 1, 3);
    w->conf.length_error = draw(&w->rng, 0, 1) * 0.5;
    w->conf.speed_noise = draw(&w->rng, 0, 1) * 0.2;
    w->conf.failures_per_node_day = failures[draw(&w->rng, 0, 3)];
    w->conf.actions = w->actions;
    return 0;
}

static void clear(struct random_world *w)
{
    sim_trace_clear(&w->trace);
    if (w->speed)
        w->speed->ops->destroy(w->speed);
}

/* Each job has ended, or was refused with a reason. */
static int all_ended(const struct random_world *w, const struct sim_output *o,
                     struct error *err)
{
    for (size_t i = 0; i < o->n; i++)
        if (!job_state_is_final(o->results[i].state) &&
            o->results[i].reason[0] == '\0')
            return error_set(err, ERR_INTERNAL,
                             "invariant: job '%s' never ends",
                             w->trace.jobs[i].name);
    return 0;
}

static int are_alike(const struct sim_output *a, const struct sim_output *b,
                     struct error *err)
{
    bool is_alike = a->n_events == b->n_events && a->n_log == b->n_log;

    for (size_t i = 0; is_alike && i < a->n_events; i++) {
        const struct sim_event *x = &a->events[i], *y = &b->events[i];
        is_alike = x->t_s == y->t_s && x->job == y->job &&
                   x->is_start == y->is_start &&
                   strcmp(x->place, y->place) == 0;
    }
    return is_alike ? 0
                    : error_set(err, ERR_INTERNAL,
                                "invariant: two runs of one seed differ");
}

int random_world_check(uint32_t seed, struct error *err)
{
    struct random_world w;
    struct sim_output a = {.n = 0}, b = {.n = 0};
    int rc = make(&w, seed, err);

    if (rc == 0)
        rc = sim_run(&w.conf, &w.policy, &a, err);
    if (rc == 0)
        rc = all_ended(&w, &a, err);
    if (rc == 0)
        rc = sim_run(&w.conf, &w.policy, &b, err);
    if (rc == 0)
        rc = are_alike(&a, &b, err);
    if (rc < 0)
        (void)error_wrap(err, "seed %" PRIu32 ", cluster %s, policy %s", seed,
                         w.cluster.text,
                         w.policy.policy ? w.policy.policy->name : "-");
    sim_output_clear(&a);
    sim_output_clear(&b);
    clear(&w);
    return rc;
}

int random_queue(uint32_t seed, int32_t jobs, struct sim_trace *ret,
                 struct error *err)
{
    static const int32_t sizes[] = {1, 1, 1, 2, 2, 4, 8, 8, 16, 32, 64};
    struct sim_trace t = {.n = 0};
    struct rng rng;

    rng_seed(&rng, seed);
    (void)snprintf(t.name, sizeof(t.name), "synthetic");
    for (int32_t i = 0; i < jobs; i++) {
        struct sim_job job = {.user = "bench", .work = draw(&rng, 20, 620)};
        (void)snprintf(job.name, sizeof(job.name), "j%" PRId32, i);
        (void)snprintf(job.class, sizeof(job.class), "bench");
        job.gpus_min = job.gpus_max = sizes[draw(&rng, 0, 10)];
        if (sim_trace_add(&t, &job, err) < 0) {
            sim_trace_clear(&t);
            return -1;
        }
    }
    *ret = t;
    return 0;
}
