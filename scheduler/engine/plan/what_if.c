/* what_if.c - find a smaller request with which a pending job would start now.
 *
 * The search asks the policy on copies of its view in which the job has another
 * request, so an answer is what the next plan would do. A pending job cannot be
 * changed: its user has to cancel it and submit it again, so the copy places it
 * behind all others of its priority.
 *
 * The engine does not change, and the allocator is not asked: the nodes are
 * those of the last plan. A request that does not fit on the free GPUs is not
 * planned, so there are few plans.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/what_if.h"
#include "scheduler/policy/placement.h"
#include "scheduler/policy/planner.h"

/* Plans for one kind of change. A plan of a long queue takes long, and the
 * daemon serves no client meanwhile. */
enum { TRIES_MAX = 8, LONG_QUEUE = 1000 };

struct suppose {
    struct engine *e;
    const struct job *job;
    struct eng_view base;
    struct policy_job *jobs; /* owned; the jobs of the plan; NULL: no plan was
                                needed so far */
    size_t at;               /* index of the job in base.jobs */
    size_t tries_max;
};

static const struct policy_job *self(const struct suppose *s)
{
    return &s->base.jobs[s->at];
}

/* The jobs of a long queue take tens of megabytes: room for them is there when
 * a plan is made. False: out of memory */
static bool has_room(struct suppose *s)
{
    if (!s->jobs)
        s->jobs = malloc((s->base.v.n_jobs + 1) * sizeof(*s->jobs));
    return s->jobs != NULL;
}

/* out  ret_n  of s->base.decisions */
static int plan(struct suppose *s, size_t *ret_n, struct error *err)
{
    struct eng_view t = s->base;
    t.jobs = s->jobs;
    t.v.jobs = s->jobs;
    return eng_make_plan(s->e, &t, TELLS_NONE, ret_n, err);
}

static const struct policy_decision *decision_of(const struct suppose *s,
                                                 size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        if (s->base.decisions[i].id == id)
            return &s->base.decisions[i];
    return NULL; /* a limit keeps it from starting */
}

static bool goes_first(const struct policy_job *job)
{
    return job->has_reservation || job->is_back;
}

/* Puts the changed job behind all others of its priority. */
static void put_last(struct suppose *s, struct policy_job changed)
{
    size_t n = s->base.v.n_jobs, k = 0;

    changed.has_reservation = changed.is_back =
        0; /* a new job has no reservation */
    for (size_t i = 0; i < n; i++) {
        const struct policy_job *j = &s->base.jobs[i];
        if (i == s->at || (j->priority < changed.priority && !goes_first(j)))
            continue;
        s->jobs[k++] = *j;
        if (j->priority == changed.priority && j->submit_s >= changed.submit_s)
            changed.submit_s = j->submit_s + 1;
        if (j->priority == changed.priority && j->user_rank > changed.user_rank)
            changed.user_rank = j->user_rank;
    }
    s->jobs[k++] = changed;
    for (size_t i = 0; i < n; i++)
        if (s->base.jobs[i].priority < changed.priority &&
            !goes_first(&s->base.jobs[i]))
            s->jobs[k++] = s->base.jobs[i];
}

/* Whether it would start with this request. out ret the allocation, if it
 * would */
static bool would_start(struct suppose *s, struct policy_job changed,
                        struct engine_change *ret)
{
    struct error ignored = ERROR_INIT; /* the next plan reports what is wrong */
    struct place place;
    size_t n = 0;

    if (!place_find(s->base.nodes, s->base.v.n_nodes, &changed, &place) ||
        !has_room(s))
        return false;
    changed.submit_s = changed.eligible_s = s->base.v.now_s;
    put_last(s, changed);
    if (plan(s, &n, &ignored) < 0)
        return false;
    const struct policy_decision *w = decision_of(s, n, changed.id);
    if (!w || w->act != POLICY_START)
        return false;
    ret->nodes = w->nodes;
    ret->gpus = w->nodes * w->gpus_per_node;
    return true;
}

/* The largest number of GPUs below its minimum with which it would start. */
static void suppose_gpus(struct suppose *s, struct engine_change *ret)
{
    struct policy_job changed = *self(s);
    int32_t n = changed.gpus_min - 1;
    size_t tries = 0;

    while (n >= 1 && n >= changed.nodes_min && tries < s->tries_max) {
        struct place place;
        changed.gpus_min = changed.gpus_max = n;
        if (!place_find(s->base.nodes, s->base.v.n_nodes, &changed, &place)) {
            n--;
            continue;
        }
        if (would_start(s, changed, ret))
            return;
        tries++;
        n = tries < TRIES_MAX / 2 ? n - 1 : n / 2;
    }
}

/* The longest limit below t_s with which the job ends before a job with a
 * reservation starts; in whole minutes. */
static double hole_s(const struct suppose *s, size_t n, double t_s)
{
    double longest_s = 0;

    for (size_t i = 0; i < n; i++) {
        const struct policy_decision *w = &s->base.decisions[i];
        double hole = w->act == POLICY_WAIT && w->id != s->job->id
                          ? floor((w->start_s - s->base.v.now_s) / 60) * 60
                          : 0;
        if (isfinite(hole) && hole < t_s && hole > longest_s)
            longest_s = hole;
    }
    return longest_s;
}

static void suppose_limit(struct suppose *s, struct engine_change *ret)
{
    struct policy_job changed = *self(s);
    double holes_s[TRIES_MAX];
    size_t n = 0, n_holes = 0;
    struct error ignored = ERROR_INIT;
    struct place place;

    if (!place_find(s->base.nodes, s->base.v.n_nodes, &changed, &place) ||
        !has_room(s))
        return;
    memcpy(s->jobs, s->base.jobs, s->base.v.n_jobs * sizeof(*s->jobs));
    if (plan(s, &n, &ignored) < 0)
        return;
    for (double t_s = changed.limit_s; n_holes < s->tries_max;) {
        t_s = hole_s(s, n, t_s);
        if (t_s <= 0)
            break;
        holes_s[n_holes++] = t_s;
    }
    for (size_t i = 0; i < n_holes; i++) {
        changed.limit_s = holes_s[i];
        if (would_start(s, changed, ret)) {
            ret->limit_s = holes_s[i];
            return;
        }
    }
}

static bool in_partition(const struct job *job, const char *name)
{
    const char *p = job->where.partition;
    size_t len = strlen(name);

    while (p && *p) {
        size_t n = strcspn(p, ",");
        if (n == len && strncmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* out  name  of the partition at *p, without its star; false at the end */
static bool next_partition(const char **p, char *name, size_t cap)
{
    size_t n = strcspn(*p, ",");

    if (n == 0 || n >= cap)
        return false;
    memcpy(name, *p, n);
    name[n] = '\0';
    if (name[n - 1] == '*')
        name[n - 1] = '\0';
    *p += n + ((*p)[n] == ',');
    return true;
}

/* A partition in which it would start; the first node of each class knows its
 * partitions. */
static void suppose_partition(struct suppose *s, struct engine_change *ret)
{
    const struct node_classes *c = &s->e->classes;
    size_t tries = 0;

    for (int32_t k = 0; c->has_partitions && k < c->n; k++) {
        const char *p = s->e->nodes[c->first[k]].partitions;
        char name[sizeof(ret->partition)];
        while (tries < s->tries_max && next_partition(&p, name, sizeof(name))) {
            struct mask_memo memo = {.next = 0};
            struct job elsewhere = *s->job;
            struct policy_job changed = *self(s);
            elsewhere.where.partition = name;
            struct class_masks masks = eng_masks(s->e, &elsewhere, &memo);
            changed.classes = masks.now;
            changed.classes_ever = masks.ever;
            if (in_partition(s->job, name) || masks.now == self(s)->classes)
                continue;
            tries++;
            if (would_start(s, changed, ret)) {
                text_copy(ret->partition, sizeof(ret->partition), name);
                return;
            }
        }
    }
}

/* How long a live job takes in all. */
static double expected_s(const struct suppose *s, const struct policy_job *pj,
                         bool is_slow)
{
    return eng_runtime_expect_s(
        s->e, eng_find(s->e, pj->id), pj->nodes, pj->gpus,
        fmax(0, s->base.v.now_s - pj->start_s), is_slow ? 1 : 0);
}

/* When it would start if the running jobs end as estimated, and never after
 * their limits. */
static double planned_s(struct suppose *s, bool is_slow,
                        struct engine_what_if *ret)
{
    const struct eng_view *t = &s->base;
    struct error ignored = ERROR_INIT;
    size_t n = 0;

    ret->n_running = ret->n_measured = 0;
    for (size_t k = 0; k < t->n_live; k++) {
        const struct policy_job *pj = &t->jobs[t->live[k]];
        ret->n_running += job_state_is_live(pj->state);
        ret->n_measured += job_state_is_live(pj->state) &&
                           expected_s(s, pj, is_slow) < pj->limit_s;
    }
    if (ret->n_measured == 0 || !has_room(s))
        return NAN;
    memcpy(s->jobs, t->jobs, t->v.n_jobs * sizeof(*s->jobs));
    for (size_t k = 0; k < t->n_live; k++) {
        struct policy_job *pj = &s->jobs[t->live[k]];
        if (job_state_is_live(pj->state))
            pj->limit_s = fmin(pj->limit_s, expected_s(s, pj, is_slow));
    }
    if (plan(s, &n, &ignored) < 0)
        return NAN;
    const struct policy_decision *w = decision_of(s, n, s->job->id);
    bool is_sooner = w && w->act == POLICY_WAIT && isfinite(w->start_s) &&
                     !(w->start_s >= s->job->start_estimate_s);
    return is_sooner ? w->start_s : (double)NAN;
}

/* Whether fastest and slowest run times are known. */
static bool has_spread(const struct suppose *s)
{
    for (size_t k = 0; k < s->base.n_live; k++) {
        const struct policy_job *pj = &s->base.jobs[s->base.live[k]];
        const struct job_record *rec = eng_find(s->e, pj->id);
        double for_s = fmax(0, s->base.v.now_s - pj->start_s);
        if (!job_state_is_live(pj->state))
            continue;
        if (eng_runtime_average_s(rec) > 0 ||
            eng_runtime_expect_s(s->e, rec, pj->nodes, pj->gpus, for_s, 1) >
                eng_runtime_expect_s(s->e, rec, pj->nodes, pj->gpus, for_s, 0))
            return true;
    }
    return false;
}

static void expect(struct suppose *s, struct engine_what_if *ret)
{
    struct engine_what_if slow;
    double early = planned_s(s, false, ret), late;

    ret->expected_s = early;
    if (isnan(early) || s->base.v.n_jobs > LONG_QUEUE || !has_spread(s))
        return;
    late = planned_s(s, true, &slow);
    if (isnan(late)) /* use the limits, if there are any */
        late = s->job->start_estimate_s;
    if (!(late >= early) || !isfinite(late))
        return;
    ret->expected_s = (early + late) / 2;
    ret->within_s = (late - early) / 2;
}

/* Here, or in the allocator. */
static bool is_pending(const struct job *job)
{
    return job->state == JOB_QUEUED ||
           (job->state == JOB_DISPATCHING && job->pending_id[0] != '\0' &&
            job->native_id[0] == '\0');
}

/* False: it is in no plan, or the GPUs that it asked for are free. */
static bool find_self(struct suppose *s)
{
    while (s->at < s->base.v.n_jobs && self(s)->id != s->job->id)
        s->at++;
    return s->at < s->base.v.n_jobs && self(s)->state == JOB_QUEUED;
}

/* A job that is pending in the allocator has asked for one size. */
static void say_fragmented(const struct suppose *s, struct engine_what_if *ret)
{
    struct policy_job as = *self(s);

    if (job_state_is_live(s->job->state)) {
        as.gpus_min = as.gpus_max = s->job->gpus;
        as.nodes_min = as.nodes_max = s->job->nodes;
    }
    (void)plan_say_fragmented(s->base.nodes, s->base.v.n_nodes, &as,
                              ret->fragmented);
}

static void ask(struct suppose *s, struct engine_what_if *ret)
{
    say_fragmented(s, ret);
    if (s->job->state != JOB_QUEUED)
        return;
    s->tries_max = s->base.v.n_jobs > LONG_QUEUE ? 1 : TRIES_MAX;
    suppose_gpus(s, &ret->gpus);
    suppose_limit(s, &ret->limit);
    suppose_partition(s, &ret->partition);
    expect(s, ret);
}

int engine_what_if(struct engine *e, const struct job *job,
                   struct engine_what_if *ret, struct error *err)
{
    struct suppose s = {.e = e, .job = job};
    bool *was_ahead = NULL;
    int rc;

    *ret = (struct engine_what_if){
        .limit.limit_s = NAN, .expected_s = NAN, .within_s = NAN};
    if (!is_pending(job) || e->is_draining || e->n_nodes == 0 ||
        e->unavailable.code != ERR_NONE)
        return 0;
    if (eng_ahead_save(e, &was_ahead, err) < 0)
        return -1;
    rc = eng_view_build(e, &s.base, err);
    if (rc == 0 && find_self(&s))
        ask(&s, ret);
    eng_ahead_restore(e, was_ahead);
    eng_view_clear(&s.base);
    free(s.jobs);
    return rc;
}
