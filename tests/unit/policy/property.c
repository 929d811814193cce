/* property.c - random clusters and jobs, run to the end in virtual time.
 *
 * Nodes may be parts of machines; then each job's GPUs are of one set.
 *
 * After each plan: every queued job has one decision, nothing is given out
 * twice, nor more of a machine than its parts share, each start respects its
 * job's bounds and stays in its classes, an exclusive job is alone. Over time:
 * fifo starts in order, as far as jobs want the same nodes; under backfill a
 * time that was promised never moves back and is kept, and whoever waits first
 * for its nodes has one, if all that holds them ends; every job that can run
 * does.
 *
 * Jobs end at their limit or earlier; placement is the one of placement.h.
 */
#include <stdbool.h>

#include "jobs/base/rng.h"
#include "scheduler/policy/placement.h"
#include "tests/unit/policy/view.h"

struct world {
    struct view t; /* all jobs; [0, n) by order */
    struct rng rng;
    double end_s[VIEW_JOBS];    /* the real end of a running job */
    double arrive_s[VIEW_JOBS]; /* before: not in the view */
    bool done[VIEW_JOBS];
    double promised_s[VIEW_JOBS];
    bool is_alone[VIEW_NODES]; /* an exclusive job has it */
    uint64_t sets[2];
    int32_t n_parts, shared; /* of each machine; n_parts 0: no parts */
    int n_bad;
};

static int32_t draw(struct world *w, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(&w->rng) % (uint32_t)(to - from + 1));
}

static void bad(struct world *w, const char *what, uint64_t id)
{
    if (w->n_bad++ < 5)
        tap_diag("%s: job %d at %.0f", what, (int)id, w->t.v.now_s);
}

/* Each node becomes two, of class 1 and 2, that share what one and a bit
 * need; or all of it. */
static void setup_parts(struct world *w)
{
    int32_t gpus = w->t.nodes[0].gpus_total;
    w->n_parts = 2;
    w->shared = draw(w, gpus, 2 * gpus);
    w->t.v.n_nodes *= 2;
    for (size_t i = 0; i < w->t.v.n_nodes; i++)
        w->t.nodes[i] =
            (struct policy_node){.gpus_total = gpus,
                                 .gpus_free = gpus,
                                 .is_up = 1,
                                 .class_id = 1 + (int32_t)i % 2,
                                 .part = (int32_t)i % 2,
                                 .n_parts = 2,
                                 .shared_total = i % 2 == 0 ? w->shared : 0,
                                 .shared_free = i % 2 == 0 ? w->shared : 0};
    w->sets[draw(w, 0, 1)] = 2;
    w->sets[w->sets[0] == 2] = 4;
}

/* Of any type, of one; or without GPUs, and so on first parts only. */
static void setup_type(struct world *w, struct policy_job *job)
{
    job->classes = (uint64_t)draw(w, 1, 3) << 1;
    if (job->gpus_max == 0)
        job->classes = 2;
    job->sets = w->sets;
    job->n_sets = job->classes == 6 ? 2 : 0;
}

static void setup(struct world *w, uint32_t seed)
{
    memset(w, 0, sizeof(*w));
    rng_seed(&w->rng, seed);
    view_init(&w->t, draw(w, 1, 5), draw(w, 1, 8));
    bool has_classes = draw(w, 0, 1);
    for (size_t i = 0; has_classes && i < w->t.v.n_nodes; i++)
        w->t.nodes[i].class_id = draw(w, 60, 63);
    if (draw(w, 0, 2) == 0)
        setup_parts(w);
    int n = draw(w, 5, 40);
    for (int i = 0; i < n; i++) {
        int32_t min = draw(w, 0, 9);
        struct policy_job *job = view_job(&w->t, min, draw(w, min, 12), 0);
        job->nodes_min = draw(w, 1, 2);
        job->nodes_max = draw(w, job->nodes_min, 4);
        if (draw(w, 0, 3) == 0)
            job->per_node = draw(w, 1, 4);
        job->limit_s = draw(w, 5, 200);
        if (draw(w, 0, 5) == 0)
            job->limit_s = INFINITY;
        w->arrive_s[i] = w->t.v.now_s + 10 * i * draw(w, 0, 1);
        if (i > 0 && w->arrive_s[i] < w->arrive_s[i - 1])
            w->arrive_s[i] = w->arrive_s[i - 1];
        job->submit_s = w->arrive_s[i];
        w->promised_s[i] = INFINITY;
        if (w->n_parts > 0)
            setup_type(w, job);
        else if (has_classes && draw(w, 0, 3))
            job->classes = (uint64_t)draw(w, 1, 15) << 60;
        job->classes_ever = job->classes;
        job->is_exclusive = draw(w, 0, 6) == 0;
    }
}

/* The view holds the jobs that have arrived and are not done. */
static size_t visible(struct world *w, struct policy_job *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < w->t.v.n_jobs; i++) {
        if (!w->done[i] && w->arrive_s[i] <= w->t.v.now_s)
            ret[n++] = w->t.jobs[i];
    }
    return n;
}

/* Of all parts of its machine. */
static void set_alone(struct world *w, int32_t node, bool is_alone)
{
    w->is_alone[node] = is_alone;
    for (int32_t i = 0; i < w->n_parts; i++)
        w->is_alone[node - w->t.nodes[node].part + i] = is_alone;
}

/* What runs on a machine, counted anew. */
static void check_machine(struct world *w, int32_t node, uint64_t id)
{
    int32_t first = node - w->t.nodes[node].part, n = 0;
    for (size_t i = 0; w->n_parts > 0 && i < w->t.v.n_jobs; i++) {
        const struct policy_job *job = &w->t.jobs[i];
        for (int32_t k = 0;
             job->state == JOB_RUNNING && !w->done[i] && k < job->nodes; k++)
            if (w->t.at[i][k] >= first && w->t.at[i][k] < first + w->n_parts)
                n += job->gpus / job->nodes;
    }
    if (w->n_parts > 0 && n > w->shared)
        bad(w, "more than a machine's parts share", id);
}

static void start(struct world *w, const struct policy_decision *decision)
{
    struct view *t = &w->t;
    size_t i = decision->id - 1;
    struct policy_job *job = &t->jobs[i];
    struct place p = place_of(job, decision->nodes, decision->gpus_per_node);
    int32_t gpus = p.nodes * p.per_node;

    p.classes = decision->classes;
    if (job->n_sets > 0 && decision->classes != 2 && decision->classes != 4)
        bad(w, "not of one set", decision->id);
    if (gpus < job->gpus_min || gpus > job->gpus_max ||
        p.nodes < job->nodes_min || p.nodes > job->nodes_max)
        bad(w, "out of its bounds", decision->id);
    if (job->per_node > 0 && p.per_node != job->per_node)
        bad(w, "other numbers on its nodes", decision->id);
    if (job->state != JOB_QUEUED)
        bad(w, "started twice", decision->id);
    if (!place_fits(t->nodes, t->v.n_nodes, p)) {
        bad(w, "over-committed", decision->id);
        return;
    }
    place_take(t->nodes, t->v.n_nodes, p, t->at[i]);
    for (int32_t k = 0; k < p.nodes; k++) {
        int32_t n = t->at[i][k];
        if (!(job->classes >> t->nodes[n].class_id & 1))
            bad(w, "outside its classes", decision->id);
        /* One without GPUs does not count: it is Slurm's to keep it out. */
        if (w->is_alone[n] && p.per_node > 0)
            bad(w, "beside an exclusive job", decision->id);
        set_alone(w, n, w->is_alone[n] || job->is_exclusive);
    }
    job->state = JOB_RUNNING;
    job->at = t->at[i];
    job->gpus = gpus;
    job->nodes = p.nodes;
    job->start_s = t->v.now_s;
    for (int32_t k = 0; k < p.nodes; k++)
        check_machine(w, t->at[i][k], decision->id);
    double run_s = isfinite(job->limit_s) ? job->limit_s : draw(w, 1, 300);
    w->end_s[i] = t->v.now_s + (draw(w, 0, 1) ? run_s : run_s / 2);
}

/* Everything that runs ends, and is known to. */
static bool all_end(const struct world *w)
{
    for (size_t i = 0; i < w->t.v.n_jobs; i++) {
        const struct policy_job *job = &w->t.jobs[i];
        if (job->state == JOB_RUNNING && !w->done[i] && isinf(job->limit_s))
            return false;
    }
    return true;
}

static void check_promise(struct world *w,
                          const struct policy_decision *decision, bool is_first)
{
    double *promised_s = &w->promised_s[decision->id - 1];
    double at_s = isnan(decision->start_s) ? INFINITY : decision->start_s;

    if (at_s > *promised_s)
        bad(w, "its promise moved back", decision->id);
    if (w->t.v.now_s > *promised_s)
        bad(w, "its promise was broken", decision->id);
    if (is_first && isinf(at_s) && all_end(w))
        bad(w, "the first to wait has no promise", decision->id);
    *promised_s = at_s;
}

/* The classes of which jobs may be in its way when it is to have these. */
static uint64_t reach(const struct world *w, const struct policy_job *job,
                      uint64_t classes)
{
    int32_t gpus = w->t.nodes[0].gpus_total;
    bool is_near = job->is_exclusive || w->shared < w->n_parts * gpus;
    return w->n_parts > 0 && is_near ? 6 : classes;
}

static void plan_once(struct world *w, const struct policy *p)
{
    struct policy_job jobs[VIEW_JOBS];
    struct policy_view v = w->t.v;
    struct policy_decision *decisions = w->t.decisions;
    struct error err = ERROR_INIT;
    size_t n = 0, n_queued = 0;
    uint64_t waited = 0; /* classes */

    v.jobs = jobs;
    v.n_jobs = visible(w, jobs);
    if (p->plan(&v, decisions, VIEW_JOBS, &n, &err) < 0) {
        bad(w, err.msg, 0);
        return;
    }
    for (size_t i = 0; i < v.n_jobs; i++) {
        if (jobs[i].state != JOB_QUEUED)
            continue;
        if (n_queued >= n || decisions[n_queued].id != jobs[i].id)
            bad(w, "not exactly one decision, in order", jobs[i].id);
        n_queued++;
    }
    if (n != n_queued)
        bad(w, "too many decisions", 0);
    for (size_t i = 0; i < n; i++) {
        bool never = strncmp(decisions[i].reason, "NeverFits", 9) == 0;
        const struct policy_job *job = &w->t.jobs[decisions[i].id - 1];
        uint64_t classes = reach(w, job, job->classes);
        bool is_first = (waited & classes) == 0;
        if (decisions[i].act == POLICY_START) {
            uint64_t there = reach(w, job, decisions[i].classes);
            if ((waited & there) != 0 && p == &policy_fifo)
                bad(w, "fifo passed the head", decisions[i].id);
            start(w, &decisions[i]);
        } else if (decisions[i].reason[0] == '\0') {
            bad(w, "no reason", decisions[i].id);
        } else if (!never) {
            if (p == &policy_backfill)
                check_promise(w, &decisions[i], is_first);
            waited |= classes;
        }
    }
}

/* To the next end or arrival; false when there is none. */
static bool advance(struct world *w)
{
    struct view *t = &w->t;
    double next_s = INFINITY;

    for (size_t i = 0; i < t->v.n_jobs; i++) {
        double s = w->arrive_s[i] > t->v.now_s ? w->arrive_s[i]
                   : t->jobs[i].state == JOB_RUNNING && !w->done[i]
                       ? w->end_s[i]
                       : INFINITY;
        next_s = fmin(next_s, s);
    }
    if (isinf(next_s))
        return false;
    t->v.now_s = next_s;
    for (size_t i = 0; i < t->v.n_jobs; i++) {
        const struct policy_job *job = &t->jobs[i];
        if (job->state != JOB_RUNNING || w->done[i] || w->end_s[i] > next_s)
            continue;
        w->done[i] = true;
        place_add(t->nodes, t->at[i],
                  place_of(job, job->nodes, job->gpus / job->nodes), 1);
        for (int32_t k = 0; job->is_exclusive && k < job->nodes; k++)
            set_alone(w, t->at[i][k], false);
    }
    return true;
}

static bool run(const struct policy *p, uint32_t seed)
{
    static struct world w;

    setup(&w, seed);
    do
        plan_once(&w, p);
    while (advance(&w));
    for (size_t i = 0; i < w.t.v.n_jobs; i++) {
        bool can = place_ever(w.t.nodes, w.t.v.n_nodes, &w.t.jobs[i], true);
        if (w.done[i] != can)
            bad(&w, can ? "never ran" : "ran, though it cannot", i + 1);
    }
    return w.n_bad == 0;
}

int main(void)
{
    for (size_t i = 0; policy_at(i); i++) {
        uint32_t n_good = 0, seed = 1;
        for (; seed <= 2000; seed++) {
            if (run(policy_at(i), seed))
                n_good++;
            else
                tap_diag("%s, seed %u", policy_at(i)->name, seed);
        }
        is_int(n_good, 2000, policy_at(i)->name);
    }
    return tap_done();
}
