/* shapes.c - what a plan keeps for all jobs of a shape is what looking again
 * would have said.
 *
 * Random jobs, some of few shapes and some of many more than are kept, are
 * started and taken back on random nodes, and each answer is held against
 * placement.h, which keeps nothing. Then whole plans: of jobs that each are of
 * a shape of their own, so that nothing is kept, the plan is the same.
 */
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "scheduler/policy/planner.h"
#include "tests/unit/policy/view.h"

enum {
    NODES = 12,
    JOBS = 3000,
    ROUNDS = 40,
    SMALL_ROUNDS = 4000,
    PLANS = 600,
    PLANNED = 400
};

static struct rng rng;
static struct policy_node nodes[NODES];
static struct policy_job jobs[JOBS];
static struct policy_decision decisions[JOBS];

static int32_t draw(int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(&rng) % (uint32_t)(to - from + 1));
}

static struct policy_job job_of(int i, int32_t variety)
{
    int32_t min = draw(0, variety), few = draw(1, 3);
    uint64_t classes = (uint64_t)draw(1, 3);
    return (struct policy_job){.id = (uint64_t)i + 1,
                               .state = JOB_QUEUED,
                               .gpus_min = min,
                               .gpus_max = min + draw(0, variety),
                               .nodes_min = few,
                               .nodes_max = few + draw(0, 2),
                               .per_node = draw(0, 2) == 0 ? draw(1, 3) : 0,
                               .classes = classes,
                               .classes_ever = classes | (uint64_t)draw(0, 3),
                               .is_exclusive = draw(0, 3) == 0,
                               .submit_s = i,
                               .start_s = NAN,
                               .limit_s = 60,
                               .left_s = NAN};
}

static bool same_answers(struct plan *p, const struct policy_job *job,
                         struct place *ret, bool *ret_fits)
{
    struct place want;
    bool fits = place_find(p->nodes, NODES, job, &want);

    *ret_fits = plan_find(p, job, ret);
    return *ret_fits == fits &&
           (!fits ||
            (ret->nodes == want.nodes && ret->per_node == want.per_node &&
             ret->classes == want.classes && ret->is_whole == want.is_whole)) &&
           plan_ever(p, job, false) ==
               place_ever(p->nodes, NODES, job, false) &&
           plan_ever(p, job, true) == place_ever(p->nodes, NODES, job, true);
}

/* The reason as a plan that has seen no other job words it. */
static bool same_reason(const struct plan *p, const struct policy_job *job,
                        const char *reason)
{
    struct policy_view v = *p->view;
    struct policy_decision one = {.id = 0};
    struct plan fresh;
    struct error err = ERROR_INIT;

    v.nodes = p->nodes;
    v.n_jobs = 1;
    v.jobs = job;
    if (plan_begin(&fresh, &v, &one, 1, &err) < 0) {
        tap_diag("%s", err.msg);
        return false;
    }
    plan_lacks_gpus(&fresh, job, NAN);
    plan_end(&fresh);
    if (strcmp(reason, one.reason) != 0)
        tap_diag("'%s' is not '%s'", reason, one.reason);
    return strcmp(reason, one.reason) == 0;
}

static int round_of(int32_t variety, int n_jobs)
{
    struct policy_view v = {.nodes = nodes,
                            .n_nodes = NODES,
                            .jobs = jobs,
                            .n_jobs = (size_t)n_jobs};
    struct error err = ERROR_INIT;
    struct plan p;
    int n_bad = 0;

    for (int i = 0; i < NODES; i++)
        nodes[i] = (struct policy_node){.gpus_total = 8,
                                        .gpus_free = draw(0, 8),
                                        .is_up = draw(0, 5) > 0,
                                        .class_id = i % 2};
    for (int i = 0; i < n_jobs; i++)
        jobs[i] = job_of(i, variety);
    if (plan_begin(&p, &v, decisions, JOBS, &err) < 0) {
        tap_diag("%s", err.msg);
        return 1;
    }
    for (int i = 0; i < n_jobs; i++) {
        const struct policy_job *job = &jobs[i];
        struct place place;
        bool fits;
        n_bad += !same_answers(&p, job, &place, &fits);
        if (!fits) {
            plan_lacks_gpus(&p, job, NAN);
            n_bad += !same_reason(&p, job, decisions[p.n - 1].reason);
            continue;
        }
        n_bad += plan_start(&p, job, place) != NULL;
        n_bad += !same_answers(&p, &jobs[draw(0, n_jobs - 1)], &place, &fits);
        if (draw(0, 9) > 0)
            plan_unstart(&p, place_of(job, decisions[p.n - 1].nodes,
                                      decisions[p.n - 1].gpus_per_node));
    }
    plan_end(&p);
    return n_bad;
}

/* ---- whole plans ----------------------------------------------------------
 */
/* On one node, as far as that has room. */
static void run_one(struct policy_job *job, int32_t *at)
{
    int32_t i = draw(0, NODES - 1), n = draw(1, 4);

    if (nodes[i].gpus_free < n)
        return;
    *at = i;
    nodes[i].gpus_free -= n;
    job->state = JOB_RUNNING;
    job->gpus_min = job->gpus_max = job->gpus = n;
    job->nodes_min = job->nodes_max = job->nodes = 1;
    job->is_exclusive = 0;
    job->at = at;
    job->start_s = -draw(0, 500);
    job->may_go = draw(0, 1);
    job->grace_s = 30;
    job->preempted_s = -INFINITY;
    job->lost_s = draw(0, 2) * 50;
    job->is_leaving = draw(0, 5) == 0;
    job->leaves_s = draw(-80, 40); /* it may be overdue */
    job->leaves_for = (uint64_t)draw(0, JOBS);
}

/* Many in a row want the same, as the tasks of a sweep do. */
static void alike(struct policy_job *to, const struct policy_job *from)
{
    struct policy_job was = *to;

    if (to->state != JOB_QUEUED || from->state != JOB_QUEUED)
        return;
    *to = *from;
    to->id = was.id;
    to->priority = was.priority;
    to->submit_s = was.submit_s;
    to->limit_s = was.limit_s;
    to->has_reservation = was.has_reservation;
}

static int by_order(const void *a, const void *b)
{
    return policy_view_in_order(a, b) ? -1 : 1;
}

static struct policy_view view_of(int n_jobs, int32_t *ats)
{
    for (int i = 0; i < NODES; i++)
        nodes[i] = (struct policy_node){.gpus_total = 8,
                                        .gpus_free = 8,
                                        .is_up = draw(0, 9) > 0,
                                        .class_id = i % 2};
    int32_t variety = draw(1, 3);
    bool preempts = draw(0, 1) == 0;
    int32_t odds = draw(5, 40); /* few leave room to start beside */
    for (int i = 0; i < n_jobs; i++) {
        jobs[i] = job_of(i, variety);
        jobs[i].is_exclusive = draw(0, 9) == 0;
        jobs[i].limit_s = draw(0, 9) ? 100 * draw(1, 8) : (double)INFINITY;
        jobs[i].priority = draw(0, 2);
        jobs[i].submit_s = -i;
        if (draw(0, odds) == 0)
            run_one(&jobs[i], &ats[i]);
        else
            jobs[i].has_reservation = preempts && draw(0, 15) == 0;
    }
    qsort(jobs, (size_t)n_jobs, sizeof(*jobs), by_order);
    for (int i = 1; i < n_jobs; i++)
        if (draw(0, 2) > 0)
            alike(&jobs[i], &jobs[i - 1]);
    return (struct policy_view){
        .nodes = nodes,
        .n_nodes = NODES,
        .jobs = jobs,
        .n_jobs = (size_t)n_jobs,
        .preempt = {.is_on = preempts, .grace_s = 30},
    };
}

static bool same_decision(const struct policy_decision *a,
                          const struct policy_decision *b)
{
    bool is_same = a->act == b->act && a->id == b->id && a->nodes == b->nodes &&
                   a->gpus_per_node == b->gpus_per_node &&
                   a->classes == b->classes && a->lacks == b->lacks &&
                   a->has_reservation == b->has_reservation &&
                   a->for_id == b->for_id &&
                   memcmp(&a->start_s, &b->start_s, sizeof(a->start_s)) == 0 &&
                   strcmp(a->reason, b->reason) == 0;
    if (!is_same)
        tap_diag("job %d: '%s' is not '%s'", (int)a->id, a->reason, b->reason);
    return is_same;
}

/* Any class, for each job in a place of its own: a shape goes by that. */
static void tell_apart(struct policy_job *job, uint64_t *set)
{
    *set = POLICY_ANY_CLASS;
    job->sets = set;
    job->n_sets = 1;
}

static int plan_of(const struct policy *policy, int n_jobs)
{
    static struct policy_decision apart[PLANNED];
    static uint64_t sets[PLANNED];
    static int32_t ats[PLANNED];
    struct policy_view v = view_of(n_jobs, ats);
    struct error err = ERROR_INIT;
    size_t n = 0, n_apart = 0;
    int n_bad = 0;

    int rc = policy->plan(&v, decisions, PLANNED, &n, &err);
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].state == JOB_QUEUED)
            tell_apart(&jobs[i], &sets[i]);
    if (rc == 0)
        rc = policy->plan(&v, apart, PLANNED, &n_apart, &err);
    if (rc < 0 || n != n_apart) {
        tap_diag("%zu decisions, and %zu: %s", n, n_apart, err.msg);
        return 1;
    }
    for (size_t i = 0; i < n; i++)
        n_bad += !same_decision(&decisions[i], &apart[i]);
    return n_bad;
}

int main(void)
{
    int n_few = 0, n_many = 0, n_small = 0, n_fifo = 0, n_backfill = 0;

    rng_seed(&rng, 1);
    for (int i = 0; i < ROUNDS; i++) {
        n_few += round_of(2, JOBS);
        n_many += round_of(24, JOBS);
    }
    for (int i = 0; i < SMALL_ROUNDS; i++)
        n_small += round_of(1, draw(1, 30));
    is_int(n_few, 0, "a queue of few shapes");
    is_int(n_many, 0, "a queue of more shapes than are kept");
    is_int(n_small, 0, "short queues, for which less is kept");
    for (int i = 0; i < PLANS; i++) {
        n_fifo += plan_of(&policy_fifo, draw(1, PLANNED));
        n_backfill += plan_of(&policy_backfill, draw(1, PLANNED));
    }
    is_int(n_fifo, 0, "plans of fifo");
    is_int(n_backfill, 0, "plans of backfill");
    return tap_done();
}
