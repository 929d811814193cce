/* view.h - small views for the tests of the policies. */
#ifndef MGPU_TESTS_POLICY_VIEW_H
#define MGPU_TESTS_POLICY_VIEW_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/policy/policy.h"
#include "tests/tap.h"

enum { VIEW_NODES = 16, VIEW_JOBS = 64 };

struct view {
    struct policy_view v;
    struct policy_node nodes[VIEW_NODES];
    struct policy_job jobs[VIEW_JOBS];
    int32_t at[VIEW_JOBS][VIEW_NODES];
    struct policy_decision decisions[VIEW_JOBS];
    size_t n;
};

static inline void view_init(struct view *t, int n_nodes, int gpus)
{
    memset(t, 0, sizeof(*t));
    t->v.now_s = 1000;
    t->v.nodes = t->nodes;
    t->v.jobs = t->jobs;
    t->v.n_nodes = (size_t)n_nodes;
    for (int i = 0; i < n_nodes; i++)
        t->nodes[i] = (struct policy_node){
            .gpus_total = gpus, .gpus_free = gpus, .is_up = 1};
}

/* The next job, which waits for min..max GPUs on 1 node. */
static inline struct policy_job *view_job(struct view *t, int32_t min,
                                          int32_t max, double limit_s)
{
    size_t i = t->v.n_jobs++;
    t->jobs[i] = (struct policy_job){
        .id = i + 1,
        .state = JOB_QUEUED,
        .gpus_min = min,
        .gpus_max = max,
        .nodes_min = 1,
        .nodes_max = 1,
        .classes = POLICY_ANY_CLASS,
        .classes_ever = POLICY_ANY_CLASS,
        .submit_s = (double)i,
        .eligible_s = -INFINITY,
        .start_s = NAN,
        .limit_s = limit_s,
        .left_s = NAN,
    };
    return &t->jobs[i];
}

/* The next job, which runs with `gpus` on `node` since 1000 - ran_s. */
static inline struct policy_job *view_run(struct view *t, int32_t node,
                                          int32_t gpus, double ran_s,
                                          double limit_s)
{
    struct policy_job *job = view_job(t, gpus, gpus, limit_s);
    size_t i = (size_t)(job - t->jobs);
    job->state = JOB_RUNNING;
    job->gpus = gpus;
    job->nodes = 1;
    job->start_s = t->v.now_s - ran_s;
    t->at[i][0] = node;
    job->at = t->at[i];
    t->nodes[node].gpus_free -= gpus;
    return job;
}

static inline int view_plan(struct view *t, const struct policy *p,
                            struct error *err)
{
    return p->plan(&t->v, t->decisions, VIEW_JOBS, &t->n, err);
}

/* The plan as one line: "+3:1x2" starts job 3 on one node with two GPUs,
 * "4:Reserved" is a wait with its token, "-5>4" tells job 5 to go for job 4. */
static inline void is_plan(struct view *t, const struct policy *p,
                           const char *want, const char *what)
{
    struct error err = ERROR_INIT;
    char got[2048] = "";
    size_t len = 0;

    if (view_plan(t, p, &err) < 0) {
        ok(false, "%s: %s", what, err.msg);
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        const struct policy_decision *w = &t->decisions[i];
        const char *sep = i > 0 ? " " : "";
        int token = (int)strcspn(w->reason, ":");
        if (w->act == POLICY_START)
            len +=
                (size_t)snprintf(got + len, sizeof(got) - len, "%s+%d:%dx%d",
                                 sep, (int)w->id, w->nodes, w->gpus_per_node);
        else if (w->act == POLICY_PREEMPT)
            len += (size_t)snprintf(got + len, sizeof(got) - len, "%s-%d>%d",
                                    sep, (int)w->id, (int)w->for_id);
        else
            len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%d:%.*s",
                                    sep, (int)w->id, token, w->reason);
    }
    is_str(got, want, what);
}

#endif
