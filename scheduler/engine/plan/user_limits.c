/* user_limits.c - limits of GPUs, running jobs and GPU-hours per user and
 * account.
 *
 * A policy knows devices, not people. So the engine removes the jobs from the
 * view that a limit of their user keeps from starting even alone, and cuts the
 * upper ends of the others to what is left. If the plan starts several jobs of
 * one user that exceed a limit together, the engine removes the later ones and
 * plans again, so that other jobs can use the devices. A job with a preemption
 * reservation counts as a start: no job is preempted for one that may not
 * start.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/account.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/teach.h"

/* Usage of one user or one account. */
struct use {
    int64_t uid;
    const char *account; /* NULL: this is a user */
    int32_t gpus, running;
};

struct uses {
    struct use *u; /* owned */
    size_t n;
};

bool eng_has_limits(const struct engine *e)
{
    const struct engine_limits *l = &e->parts.conf->limits;
    return l->gpus_per_user > 0 || l->running_per_user > 0 ||
           l->gpus_per_account > 0 || l->running_per_account > 0 ||
           e->n_spent > 0;
}

int engine_teach_spent(struct engine *e, const struct engine_spent *v, size_t n,
                       struct error *err)
{
    struct engine_spent *copy = calloc(n + 1, sizeof(*copy));

    if (!copy)
        return error_set(err, ERR_NOMEM, "spent GPU-hours");
    if (n > 0)
        memcpy(copy, v, n * sizeof(*copy));
    e->wants_plan = e->wants_plan || n != e->n_spent ||
                    memcmp(copy, e->spent, n * sizeof(*copy)) != 0;
    free(e->spent);
    e->spent = copy;
    e->n_spent = n;
    return 0;
}

/* It was told to resize while it ran, and goes on with no more GPUs. Its next
 * attempt may be pending in the cluster's queue. */
static bool goes_on(const struct job *job)
{
    const struct job_resize *r = &job->resize;
    bool is_queued = job->state == JOB_QUEUED;
    int32_t gpus = is_queued ? r->gpus : r->planned_gpus;

    return (is_queued || job->state == JOB_DISPATCHING) &&
           !isnan(r->end_asked_s) && gpus > 0 && gpus <= r->from;
}

bool eng_is_spent(const struct engine *e, const struct job *job, int32_t gpus,
                  char why[JOB_REASON_CAP])
{
    const char *account = engine_account(e, job);
    bool counts = gpus > 0 && !goes_on(job);

    for (size_t i = 0; counts && i < e->n_spent; i++) {
        const char *name = e->spent[i].name;
        if (strcmp(name, job->user) != 0 &&
            (!account || strcmp(name, account) != 0))
            continue;
        text_copy(why, JOB_REASON_CAP, e->spent[i].why);
        return true;
    }
    return false;
}

/* There is always room: uses_of() has counted. */
static struct use *find(struct uses *t, int64_t uid, const char *account)
{
    for (size_t i = 0; i < t->n; i++) {
        struct use *u = &t->u[i];
        if (account ? u->account && strcmp(u->account, account) == 0
                    : !u->account && u->uid == uid)
            return u;
    }
    t->u[t->n] = (struct use){.uid = uid, .account = account};
    return &t->u[t->n++];
}

static void add(const struct engine *e, struct uses *t, const struct job *job,
                int32_t gpus)
{
    const char *account = engine_account(e, job);
    struct use *u = find(t, job->uid, NULL);
    u->gpus += gpus;
    u->running++;
    if (account) {
        u = find(t, 0, account);
        u->gpus += gpus;
        u->running++;
    }
}

/* The limit that another job with `gpus` GPUs would exceed, as a reason; false:
 * none. */
static bool is_over(const struct use *u, int32_t gpus, int32_t max_gpus,
                    int32_t max_running, char why[JOB_REASON_CAP])
{
    const char *who = u->account ? "Account" : "User";
    const char *to = u->account ? " to account " : "";
    const char *name = u->account ? u->account : "";
    char text[JOB_REASON_CAP + 256]; /* the name of an account may be long */

    if (max_running > 0 && u->running + 1 > max_running)
        (void)snprintf(text, sizeof(text),
                       "Limit%sJobs: %" PRId32 " run, of %" PRId32
                       " allowed%s%s",
                       who, u->running, max_running, to, name);
    else if (max_gpus > 0 && gpus > 0 && u->gpus + gpus > max_gpus)
        (void)snprintf(text, sizeof(text),
                       "Limit%sGpus: %" PRId32 " in use, needs %" PRId32
                       ", of %" PRId32 " allowed%s%s",
                       who, u->gpus, gpus, max_gpus, to, name);
    else
        return false;
    text_copy(why, JOB_REASON_CAP, text);
    return true;
}

static bool is_limited(const struct engine *e, struct uses *t,
                       const struct job *job, int32_t gpus,
                       char why[JOB_REASON_CAP])
{
    const struct engine_limits *l = &e->parts.conf->limits;
    const char *account = engine_account(e, job);
    return eng_is_spent(e, job, gpus, why) ||
           is_over(find(t, job->uid, NULL), gpus, l->gpus_per_user,
                   l->running_per_user, why) ||
           (account && is_over(find(t, 0, account), gpus, l->gpus_per_account,
                               l->running_per_account, why));
}

/* What is left of a limit; INT32_MAX without one. */
static int32_t left(const struct use *u, int32_t max)
{
    return max > 0 ? max - u->gpus : INT32_MAX;
}

static int32_t most_gpus(const struct engine *e, struct uses *t,
                         const struct job *job)
{
    const struct engine_limits *l = &e->parts.conf->limits;
    const char *account = engine_account(e, job);
    char why[JOB_REASON_CAP];
    if (eng_is_spent(e, job, 1, why))
        return 0;
    int32_t n = left(find(t, job->uid, NULL), l->gpus_per_user);
    int32_t m =
        account ? left(find(t, 0, account), l->gpus_per_account) : INT32_MAX;
    return n < m ? n : m;
}

static int uses_of(const struct engine *e, struct uses *t, struct error *err)
{
    /* Each job may add a user and an account. */
    t->n = 0;
    t->u = calloc(2 * e->n_active + 2, sizeof(*t->u));
    if (!t->u)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < e->lists.moving.n; i++) {
        const struct job *job = &e->lists.moving.at[i]->job;
        if (job_state_is_live(job->state))
            add(e, t, job, job->gpus);
    }
    return 0;
}

int eng_limit_view(struct engine *e, struct policy_view *v,
                   struct policy_job *jobs, uint64_t tells, struct error *err)
{
    struct uses t;
    char why[JOB_REASON_CAP];
    size_t n = 0;

    if (uses_of(e, &t, err) < 0)
        return -1;
    for (size_t i = 0; i < v->n_jobs; i++) {
        struct job_record *rec = eng_find(e, jobs[i].id);
        /* An attempt that is pending in the cluster's queue is shown as queued
         * as well. */
        bool is_new = rec->job.state == JOB_QUEUED;
        if (is_new && is_limited(e, &t, &rec->job, jobs[i].gpus_min, why)) {
            if (rec->job.id >= tells) {
                rec->job.start_estimate_s = (double)__builtin_nan("");
                (void)eng_set_reason(e, rec, why);
            }
            continue;
        }
        bool may_grow = is_new || jobs[i].may_resize;
        if (may_grow && jobs[i].gpus_max > 0) {
            int32_t most = most_gpus(e, &t, &rec->job);
            if (!is_new && most < INT32_MAX - jobs[i].gpus)
                most = jobs[i].gpus + (most > 0 ? most : 0);
            if (jobs[i].gpus_max > most)
                jobs[i].gpus_max = most;
        }
        jobs[n++] = jobs[i];
    }
    v->n_jobs = n;
    free(t.u);
    return 0;
}

/* Removes the jobs that the starts leave no room for, so that they need not be
 * planned again one by one. */
static void drop_limited(struct engine *e, struct uses *t,
                         struct policy_view *v, struct policy_job *jobs,
                         uint64_t tells)
{
    char why[JOB_REASON_CAP];
    size_t n = 0;

    for (size_t i = 0; i < v->n_jobs; i++) {
        struct job_record *rec = eng_find(e, jobs[i].id);
        if (rec->job.state == JOB_QUEUED && !rec->is_planned &&
            is_limited(e, t, &rec->job, jobs[i].gpus_min, why)) {
            if (rec->job.id >= tells)
                (void)eng_set_reason(e, rec, why);
        } else {
            jobs[n++] = jobs[i];
        }
        rec->is_planned = false;
    }
    v->n_jobs = n;
}

/* Several jobs of a user may grow in one plan, each within what is left of the
 * limit. One that exceeds it with the others keeps its size. */
static void limit_growth(const struct engine *e, struct uses *t,
                         struct policy_decision *w, const struct job *job)
{
    const char *account = engine_account(e, job);
    int32_t more = w->nodes * w->gpus_per_node - job->gpus;

    if (more <= 0)
        return;
    if (more > most_gpus(e, t, job)) {
        w->nodes = job->nodes;
        w->gpus_per_node = job->gpus / job->nodes;
        return;
    }
    find(t, job->uid, NULL)->gpus += more;
    if (account)
        find(t, 0, account)->gpus += more;
}

int eng_limit_decisions(struct engine *e, struct policy_view *v,
                        struct policy_job *jobs,
                        struct policy_decision *decisions, size_t n,
                        uint64_t tells, bool *ret_again, struct error *err)
{
    struct uses t;

    *ret_again = false;
    if (uses_of(e, &t, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct policy_decision *w = &decisions[i];
        struct job_record *rec = eng_find(e, w->id);
        int32_t gpus = w->nodes * w->gpus_per_node;
        char why[JOB_REASON_CAP];
        rec->is_planned = false;
        if (w->act == POLICY_RESIZE)
            limit_growth(e, &t, w, &rec->job);
        if ((w->act != POLICY_START && !w->has_reservation) ||
            rec->job.state != JOB_QUEUED)
            continue;
        if (is_limited(e, &t, &rec->job, gpus, why)) {
            w->act = POLICY_WAIT;
            w->has_reservation = 0;
            text_copy(w->reason, sizeof(w->reason), why);
            *ret_again = true;
        } else {
            add(e, &t, &rec->job, gpus);
            rec->is_planned = true;
        }
    }
    if (*ret_again)
        drop_limited(e, &t, v, jobs, tells);
    free(t.u);
    return 0;
}

/* ---- one job --------------------------------------------------------------
 */
bool eng_is_limited(const struct engine *e, const struct job *job, int32_t gpus)
{
    struct uses t;
    char why[JOB_REASON_CAP];

    if (!eng_has_limits(e))
        return false;
    if (uses_of(e, &t, NULL) < 0)
        return true; /* the next plan will find out */
    bool is = is_limited(e, &t, job, gpus, why);
    free(t.u);
    return is;
}

static int check_gpus(const struct job *job, int32_t max, const char *key,
                      struct error *err)
{
    return max <= 0 || job->gpus_min <= max
               ? 0
               : error_set(err, ERR_INVAL,
                           "can never start: needs %" PRId32
                           " GPUs, of %" PRId32 " allowed (limits.%s) [E201]",
                           job->gpus_min, max, key);
}

int eng_check_limits(const struct engine *e, const struct job *job,
                     struct error *err)
{
    const struct engine_limits *l = &e->parts.conf->limits;
    if (check_gpus(job, l->gpus_per_user, "max_gpus_per_user", err) < 0)
        return -1;
    return engine_account(e, job) ? check_gpus(job, l->gpus_per_account,
                                               "max_gpus_per_account", err)
                                  : 0;
}

int engine_use(const struct engine *e, const struct job *job,
               struct engine_use *ret, struct error *err)
{
    struct uses t;
    const char *account = engine_account(e, job);

    if (uses_of(e, &t, err) < 0)
        return -1;
    const struct use *u = find(&t, job->uid, NULL);
    *ret = (struct engine_use){
        .account = account, .user_gpus = u->gpus, .user_running = u->running};
    if (account) {
        u = find(&t, 0, account);
        ret->account_gpus = u->gpus;
        ret->account_running = u->running;
    }
    free(t.u);
    return 0;
}
