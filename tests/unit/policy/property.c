/* property.c - random clusters and jobs, run to the end in virtual time.
 *
 * After each plan: every queued job has one wish, nothing is given out
 * twice, each start respects its job's bounds and stays in its classes, an
 * exclusive job is alone. Over time: fifo starts in order, as far as jobs
 * want the same nodes; under backfill a time that was promised never moves
 * back and is kept, and whoever waits first for its nodes has one, if all
 * that holds them ends; every job that can run does.
 *
 * Jobs end at their limit or earlier; placement is the one of place.h.
 */
#include <stdbool.h>

#include "jobs/base/rng.h"
#include "scheduler/policy/place.h"
#include "tests/unit/policy/view.h"

struct world {
    struct view t; /* all jobs; [0, n) by order */
    struct rng rng;
    double end_s[VIEW_JOBS];    /* the real end of a running job */
    double arrive_s[VIEW_JOBS]; /* before: not in the view */
    bool done[VIEW_JOBS];
    double promised_s[VIEW_JOBS];
    bool is_alone[VIEW_NODES]; /* an exclusive job has it */
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

static void setup(struct world *w, uint32_t seed)
{
    memset(w, 0, sizeof(*w));
    rng_seed(&w->rng, seed);
    view_init(&w->t, draw(w, 1, 5), draw(w, 1, 8));
    bool has_classes = draw(w, 0, 1);
    for (size_t i = 0; has_classes && i < w->t.v.n_nodes; i++)
        w->t.nodes[i].class_id = draw(w, 60, 63);
    int n = draw(w, 5, 40);
    for (int i = 0; i < n; i++) {
        int32_t min = draw(w, 0, 9);
        struct policy_job *job = view_job(&w->t, min, draw(w, min, 12), 0);
        job->nodes_min = draw(w, 1, 2);
        job->nodes_max = draw(w, job->nodes_min, 4);
        job->limit_s = draw(w, 5, 200);
        if (draw(w, 0, 5) == 0)
            job->limit_s = INFINITY;
        w->arrive_s[i] = w->t.v.now_s + 10 * i * draw(w, 0, 1);
        if (i > 0 && w->arrive_s[i] < w->arrive_s[i - 1])
            w->arrive_s[i] = w->arrive_s[i - 1];
        job->submit_s = w->arrive_s[i];
        w->promised_s[i] = INFINITY;
        if (has_classes && draw(w, 0, 3))
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

static void start(struct world *w, const struct policy_wish *wish)
{
    struct view *t = &w->t;
    size_t i = wish->id - 1;
    struct policy_job *job = &t->jobs[i];
    struct place p = place_of(job, wish->nodes, wish->gpus_per_node);
    int32_t gpus = p.nodes * p.per_node;

    if (gpus < job->gpus_min || gpus > job->gpus_max ||
        p.nodes < job->nodes_min || p.nodes > job->nodes_max)
        bad(w, "out of its bounds", wish->id);
    if (job->state != JOB_QUEUED)
        bad(w, "started twice", wish->id);
    if (!place_fits(t->nodes, t->v.n_nodes, p)) {
        bad(w, "over-committed", wish->id);
        return;
    }
    place_take(t->nodes, t->v.n_nodes, p, t->at[i]);
    for (int32_t k = 0; k < p.nodes; k++) {
        int32_t n = t->at[i][k];
        if (!(job->classes >> t->nodes[n].class_id & 1))
            bad(w, "outside its classes", wish->id);
        /* One without GPUs does not count: it is Slurm's to keep it out. */
        if (w->is_alone[n] && p.per_node > 0)
            bad(w, "beside an exclusive job", wish->id);
        w->is_alone[n] = w->is_alone[n] || job->is_exclusive;
    }
    job->state = JOB_RUNNING;
    job->at = t->at[i];
    job->gpus = gpus;
    job->nodes = p.nodes;
    job->start_s = t->v.now_s;
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

static void check_promise(struct world *w, const struct policy_wish *wish,
                          bool is_first)
{
    double *promised_s = &w->promised_s[wish->id - 1];
    double at_s = isnan(wish->start_s) ? INFINITY : wish->start_s;

    if (at_s > *promised_s)
        bad(w, "its promise moved back", wish->id);
    if (w->t.v.now_s > *promised_s)
        bad(w, "its promise was broken", wish->id);
    if (is_first && isinf(at_s) && all_end(w))
        bad(w, "the first to wait has no promise", wish->id);
    *promised_s = at_s;
}

static void plan_once(struct world *w, const struct policy *p)
{
    struct policy_job jobs[VIEW_JOBS];
    struct policy_view v = w->t.v;
    struct policy_wish *wishes = w->t.wishes;
    struct error err = ERROR_INIT;
    size_t n = 0, n_queued = 0;
    uint64_t waited = 0; /* classes */

    v.jobs = jobs;
    v.n_jobs = visible(w, jobs);
    if (p->plan(&v, wishes, VIEW_JOBS, &n, &err) < 0) {
        bad(w, err.msg, 0);
        return;
    }
    for (size_t i = 0; i < v.n_jobs; i++) {
        if (jobs[i].state != JOB_QUEUED)
            continue;
        if (n_queued >= n || wishes[n_queued].id != jobs[i].id)
            bad(w, "not exactly one wish, in order", jobs[i].id);
        n_queued++;
    }
    if (n != n_queued)
        bad(w, "too many wishes", 0);
    for (size_t i = 0; i < n; i++) {
        bool never = strncmp(wishes[i].reason, "NeverFits", 9) == 0;
        uint64_t classes = w->t.jobs[wishes[i].id - 1].classes;
        bool is_first = (waited & classes) == 0;
        if (wishes[i].act == POLICY_START) {
            if (!is_first && p == &policy_fifo)
                bad(w, "fifo passed the head", wishes[i].id);
            start(w, &wishes[i]);
        } else if (wishes[i].reason[0] == '\0') {
            bad(w, "no reason", wishes[i].id);
        } else if (!never) {
            if (p == &policy_backfill)
                check_promise(w, &wishes[i], is_first);
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
            w->is_alone[t->at[i][k]] = false;
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
