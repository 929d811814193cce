/* shapes.c - what a plan keeps for all jobs of a shape is what looking again
 * would have said.
 *
 * Random jobs, some of few shapes and some of many more than are kept, are
 * started and taken back on random nodes, and each answer is held against
 * place.h, which keeps nothing.
 */
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "scheduler/policy/plan.h"
#include "tests/unit/policy/view.h"

enum { NODES = 12, JOBS = 3000, ROUNDS = 40, SMALL_ROUNDS = 4000 };

static struct rng rng;
static struct policy_node nodes[NODES];
static struct policy_job jobs[JOBS];
static struct policy_wish wishes[JOBS];

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
    struct policy_wish one = {.id = 0};
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
    if (plan_begin(&p, &v, wishes, JOBS, &err) < 0) {
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
            n_bad += !same_reason(&p, job, wishes[p.n - 1].reason);
            continue;
        }
        n_bad += plan_start(&p, job, place) != NULL;
        n_bad += !same_answers(&p, &jobs[draw(0, n_jobs - 1)], &place, &fits);
        if (draw(0, 9) > 0)
            plan_unstart(&p, place_of(job, wishes[p.n - 1].nodes,
                                      wishes[p.n - 1].gpus_per_node));
    }
    plan_end(&p);
    return n_bad;
}

int main(void)
{
    int n_few = 0, n_many = 0, n_small = 0;

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
    return tap_done();
}
