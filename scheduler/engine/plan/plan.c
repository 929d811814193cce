/* plan.c - fetch the inventory, ask the policy for a plan, and stage its
 * decisions.
 *
 * policy_view.c builds what the policy sees; plan_check.c and user_limits.c
 * check the plan.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/account.h"
#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/explain_sizes.h"
#include "scheduler/engine/plan/job_curves.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/plan/take_back.h"
#include "scheduler/engine/rules/rules.h"

enum { NODES_MAX = 65536 };

static void note_unavailable(struct engine *e, const struct error *why)
{
    if (e->unavailable.code == ERR_NONE)
        e->unavailable_since_s = eng_wall(e);
    e->unavailable = *why;
}

/* The engine treats drained nodes as down; `why` says who drained them. */
static void take_drained_out(struct engine *e)
{
    const struct engine_conf *conf = e->parts.conf;

    for (size_t k = 0; k < conf->n_drained; k++) {
        const struct engine_drained *d = &conf->drained[k];
        for (size_t i = 0; i < e->n_nodes; i++) {
            struct alloc_node *node = &e->nodes[i];
            if (!node->is_up || strcmp(node->name, d->node) != 0)
                continue;
            node->is_up = 0;
            node->is_drained = 1;
            text_copy(node->why, sizeof(node->why), d->why);
        }
    }
}

/* Fills in the GPU memory by type from mgpu.yaml. */
static void tell_memory(struct engine *e)
{
    const struct spec_map *m = e->parts.conf->gpu_memory;

    for (size_t i = 0; m && i < e->n_nodes; i++) {
        struct alloc_node *node = &e->nodes[i];
        for (size_t k = 0; k < m->n && node->gpu_bytes == 0; k++)
            if (node->gpus_total > 0 &&
                strcasecmp(m->pairs[k].key, node->gpu_type) == 0 &&
                parse_size(m->pairs[k].value, &node->gpu_bytes, NULL) < 0)
                node->gpu_bytes = 0; /* cannot happen: conf_check.c has
                                        checked it */
    }
}

int eng_inventory(struct engine *e, struct error *err)
{
    struct alloc *a = e->parts.alloc;
    struct error why = ERROR_INIT;
    size_t n;

    for (;;) {
        if (e->cap_nodes > 0 &&
            a->ops->inventory(a, e->nodes, e->cap_nodes, &n, &why) == 0)
            break;
        if (e->cap_nodes > 0 && why.code == ERR_UNAVAIL)
            note_unavailable(e, &why);
        bool is_small = e->cap_nodes == 0 || why.code == ERR_LIMIT;
        if (!is_small || e->cap_nodes >= NODES_MAX)
            return error_set(err, why.code, "%s", why.msg);
        size_t cap = e->cap_nodes > 0 ? 4 * e->cap_nodes : 16;
        struct alloc_node *p = realloc(e->nodes, cap * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "out of memory");
        e->nodes = p;
        e->cap_nodes = cap;
    }
    e->n_nodes = n;
    tell_memory(e);
    take_drained_out(e);
    if (e->unavailable.code != ERR_NONE)
        e->back_s = eng_wall(e);
    e->unavailable = (struct error)ERROR_INIT;
    return eng_classify(e, err);
}

/* ---- the decisions ----------------------------------------------------------
 */
int eng_ahead_save(const struct engine *e, bool **ret, struct error *err)
{
    const struct record_list *live = &e->lists.moving;
    bool *saved = calloc(live->n + 1, sizeof(*saved));

    if (!saved)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < live->n; i++)
        saved[i] = live->at[i]->is_ahead;
    *ret = saved;
    return 0;
}

void eng_ahead_restore(struct engine *e, bool *saved)
{
    const struct record_list *live = &e->lists.moving;

    for (size_t i = 0; saved && i < live->n; i++)
        live->at[i]->is_ahead = saved[i];
    free(saved);
}

static void set_reason(struct engine *e, struct job_record *rec,
                       const char *reason, double start_s)
{
    rec->job.start_estimate_s = start_s;
    (void)eng_set_reason(e, rec, reason);
}

/* A job with a begin time or a backoff keeps that reason: no plan looks at the
 * job before that time, so no plan would remove the reason given here. */
static void pause_all(struct engine *e, const char *why)
{
    char reason[JOB_REASON_CAP];

    text_copy(reason, sizeof(reason), why);
    for (size_t i = 0; i < e->n_active; i++) {
        struct job_record *rec = e->active[i];
        if (rec->job.state == JOB_QUEUED && !eng_waits(rec) &&
            rec->not_before_s <= eng_now(e))
            set_reason(e, rec, reason, NAN);
    }
}

/* For a job with a range: goodput chooses the size by its value, the other
 * policies start with the smallest number that fits, see placement.c. */
static void say_chosen(const struct engine *e, const struct job *job,
                       struct detail *d)
{
    struct gpu_sizes asked;

    if (eng_target(job, &asked))
        text_copy(d->why, sizeof(d->why), "size that was asked for");
    else if (e->policy == &policy_goodput && d->gpus > job->gpus_min &&
             job->gpus_min < job->gpus_max)
        (void)snprintf(d->why, sizeof(d->why),
                       "number of its range that is worth most, chosen by "
                       "policy goodput");
    else if (job->gpus_min < job->gpus_max)
        (void)snprintf(d->why, sizeof(d->why),
                       "smallest number of its range%s, chosen by policy %s",
                       d->gpus > job->gpus_min ? " that fit its nodes" : "",
                       e->policy->name);
}

int eng_intend(struct engine *e, struct job_record *rec, int32_t nodes,
               int32_t gpus, uint64_t classes, struct error *err)
{
    struct detail d = DETAIL_INIT;

    d.nodes = nodes;
    d.gpus = gpus;
    if (gpus > 0 &&
        (eng_wants_type(e, &rec->job) || eng_curves_prefer_type(e, rec)))
        text_copy(d.gpu_type, sizeof(d.gpu_type), eng_type_of(e, classes));
    say_chosen(e, &rec->job, &d);
    const char *account =
        rec->job.where.account ? NULL : eng_default_account(e, rec->job.uid);
    text_copy(d.account, sizeof(d.account), account ? account : "");
    rec->job.start_estimate_s = NAN;
    rec->is_ahead = false;
    return eng_stage(e, rec, EV_INTENT, -1, &d, err);
}

const char *eng_wait_reason(const struct engine *e,
                            const struct job_record *rec,
                            const struct policy_decision *w,
                            char room[JOB_REASON_CAP])
{
    if (!e->classes.has_next || w->lacks ||
        strncmp(w->reason, "WaitingForGpus", 14) != 0)
        return w->reason;
    struct mask_memo memo = {.next = 0};
    return eng_say_closed(e, rec, eng_masks(e, &rec->job, &memo).now, room)
               ? room
               : w->reason;
}

/* In a long queue each entry is a cache miss: prefetch it. */
static void fetch(const struct engine *e, uint64_t id)
{
    const struct job_record *rec = eng_find(e, id);

    __builtin_prefetch(rec);
    __builtin_prefetch(rec->job.reason + 64);
}

/* A start, or a resize, of the same plan has taken what a quota of the cluster
 * left. The next plan sees that. */
static bool is_over_quota(struct engine *e, const struct job_record *rec,
                          const struct policy_decision *w)
{
    const struct job *job = &rec->job;
    int32_t gpus = w->nodes * w->gpus_per_node;
    bool is_live = job_state_is_live(job->state);
    bool is_larger = w->act == POLICY_RESIZE
                         ? gpus > job->gpus
                         : w->act == POLICY_START && !is_live &&
                               job->resize.gpus == 0 && gpus > job->gpus_min;
    struct gpu_sizes sizes = eng_sizes(job);
    char why[JOB_REASON_CAP];

    if (!is_larger)
        return false;
    int32_t most = eng_quota_most(e, job, is_live ? job->gpus : 0,
                                  job->attempt_limit_s, why);
    if (gpus <= most)
        return false;
    /* Only if the next view has another size, or the job keeps its own. */
    sizes.gpus.max = most;
    bool is = is_live || (most >= sizes.gpus.min && gpu_sizes_any(&sizes));
    e->wants_plan = e->wants_plan || (is && !is_live);
    return is;
}

enum { FETCH_AHEAD = 8 };
static int carry_over(struct engine *e, const struct eng_view *t, size_t n,
                      struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct policy_decision *w = &t->decisions[i];
        struct job_record *rec = eng_find(e, w->id);
        char why[JOB_REASON_CAP];
        assert(rec);
        int rc = 0;
        if (i + FETCH_AHEAD < n)
            fetch(e, t->decisions[i + FETCH_AHEAD].id);
        if (is_over_quota(e, rec, w))
            continue;
        if (w->act == POLICY_PREEMPT)
            rc = eng_preempt(e, t->decisions, n, w, err);
        else if (w->act == POLICY_RESIZE)
            rc = eng_resize(e, rec, w, err);
        else if (job_state_is_live(rec->job.state))
            rc = eng_ahead_decision(e, rec, w, err);
        else if (w->act == POLICY_WAIT)
            set_reason(e, rec, eng_wait_reason(e, rec, w, why), w->start_s);
        else
            rc = eng_intend(e, rec, w->nodes, w->nodes * w->gpus_per_node,
                            w->classes, err);
        if (rc < 0)
            return -1;
    }
    return eng_ahead(e, &t->v, t->decisions, n, err);
}

/* A cluster that does not answer makes jobs pending. It is not an error to
 * report every second. */
static int without_inventory(struct engine *e, const struct error *why,
                             struct error *err)
{
    struct detail d = DETAIL_INIT;

    if (why->code != ERR_UNAVAIL) {
        pause_all(e, "WaitingForGpus: the inventory is unknown");
        return error_set(err, why->code, "inventory: %s", why->msg);
    }
    detail_because(&d, "SlurmUnavailable: ", why->msg);
    pause_all(e, d.why);
    return 0;
}

/* Plans per step: the plan is repeated while it exceeds a limit. */
enum { PLANS_MAX = 16 };
int eng_make_plan(struct engine *e, struct eng_view *t, uint64_t tells,
                  size_t *ret_n, struct error *err)
{
    bool has_limits = eng_has_limits(e), again = true;
    int rc = has_limits ? eng_limit_view(e, &t->v, t->jobs, tells, err) : 0;

    *ret_n = 0;
    for (int i = 0; rc == 0 && again && i < PLANS_MAX && t->v.n_jobs > 0; i++) {
        rc = e->policy->plan(&t->v, t->decisions, e->n_active, ret_n, err);
        if (rc == 0)
            rc = eng_check_plan(&t->v, t->decisions, *ret_n, err);
        if (rc < 0)
            return error_wrap(err, "policy %s", e->policy->name);
        again = false;
        if (has_limits)
            rc = eng_limit_decisions(e, &t->v, t->jobs, t->decisions, *ret_n,
                                     tells, &again, err);
    }
    return rc;
}

int eng_plan(struct engine *e, struct error *err)
{
    struct error why = ERROR_INIT;
    struct eng_view t;
    bool waits;
    size_t n = 0;

    e->wants_plan = false;
    e->n_plans++;
    e->look_at_s = INFINITY;
    if (e->is_draining) { /* the inventory is still updated for the listings */
        pause_all(e, e->pause_reason);
        if (eng_inventory(e, &why) < 0)
            e->retry_at_s = eng_now(e) + 1;
        return 0;
    }
    if (eng_inventory(e, &why) < 0) {
        e->retry_at_s = eng_now(e) + 1;
        return without_inventory(e, &why, err);
    }
    if (e->takes_back) {
        if (eng_take_all_back(e, "a node is drained", err) < 0) {
            e->retry_at_s = eng_now(e) + 1;
            return -1;
        }
        e->takes_back = false;
    }
    if (eng_take_spent_back(e, err) < 0) {
        e->retry_at_s = eng_now(e) + 1;
        return -1;
    }
    if (eng_give_up_sizes(e, &waits, err) < 0) {
        e->retry_at_s = eng_now(e) + 1;
        return -1;
    }
    if (waits) { /* the plan follows the release (dispatch.c) */
        e->look_at_s = eng_now(e) + 1;
        return 0;
    }
    int rc = eng_view_build(e, &t, err);
    if (rc == 0 && t.v.n_jobs > 0)
        rc = eng_make_plan(e, &t, TELLS_ALL, &n, err);
    if (rc == 0)
        e->look_at_s =
            fmin(eng_patience_next(e),
                 fmin(eng_preempt_next(e, &t.v), eng_curves_next(e)));
    if (rc == 0 && (rc = carry_over(e, &t, n, err)) < 0)
        e->retry_at_s = eng_now(e) + 1;
    eng_view_clear(&t);
    return rc;
}

/* ---- what it would do ------------------------------------------------------
 */
struct explaining {
    struct engine *e;
    void (*each)(void *arg, const struct engine_decision *w);
    void *arg;
    const struct policy_decision *decisions; /* [n], from the plan */
    size_t n;
};

static void explain_decision(const struct explaining *x,
                             const struct policy_decision *w)
{
    struct job_record *rec = eng_find(x->e, w->id);
    bool starts = w->act == POLICY_START;
    const struct engine_decision one = {
        .job = &rec->job,
        .nodes = starts ? w->nodes : 0,
        .gpus = starts ? w->nodes * w->gpus_per_node : 0,
        .start_s = starts ? eng_now(x->e) : w->start_s,
        .is_shown = true,
        .reason = starts ? "" : w->reason,
    };
    rec->is_planned = true;
    if (rec->job.state == JOB_QUEUED)
        x->each(x->arg, &one);
}

/* "Preempted: ..." for a victim of the plan; else the job's reason. */
static const char *reason_of(const struct explaining *x,
                             const struct job_record *rec)
{
    for (size_t i = 0; i < x->n; i++)
        if (x->decisions[i].act == POLICY_PREEMPT &&
            x->decisions[i].id == rec->job.id)
            return x->decisions[i].reason;
    return rec->job.reason;
}

static void explain_others(const struct explaining *x, bool is_live)
{
    for (size_t i = 0; i < x->e->n_active; i++) {
        struct job_record *rec = x->e->active[i];
        if (rec->job.is_run)
            continue;
        bool is_other = is_live ? job_state_is_live(rec->job.state)
                                : !job_state_is_live(rec->job.state) &&
                                      !job_state_is_final(rec->job.state) &&
                                      !rec->is_planned;
        if (!is_other)
            continue;
        /* Only live jobs are preempted, and few are: a linear search will
         * do. */
        const struct engine_decision one = {
            .job = &rec->job,
            .start_s = NAN,
            .is_shown = is_live,
            .reason = is_live ? reason_of(x, rec) : rec->job.reason};
        x->each(x->arg, &one);
    }
}

int engine_explain(struct engine *e,
                   void (*each)(void *arg, const struct engine_decision *w),
                   void *arg, struct error *err)
{
    struct explaining x = {.e = e, .each = each, .arg = arg};
    struct eng_view t;
    size_t n = 0;

    if (eng_inventory(e, err) < 0)
        return -1;
    int rc = eng_view_build(e, &t, err);
    if (rc == 0 && t.v.n_jobs > 0)
        rc = eng_make_plan(e, &t, TELLS_ALL, &n, err);
    for (size_t i = 0; i < e->n_active; i++)
        e->active[i]->is_planned = false;
    if (rc == 0) {
        x.decisions = t.decisions;
        x.n = n;
        explain_others(&x, true);
        for (size_t i = 0; i < n; i++)
            if (t.decisions[i].act == POLICY_START ||
                t.decisions[i].act == POLICY_WAIT)
                explain_decision(&x, &t.decisions[i]);
        explain_others(&x, false);
    }
    for (size_t i = 0; i < e->n_active; i++)
        e->active[i]->is_planned = false;
    eng_view_clear(&t);
    return rc;
}

/* Whether a job has a range. */
static bool any_sizes(const struct engine *e)
{
    bool is = e->lists.queue.n_sized > 0;

    for (size_t i = 0; !is && i < e->lists.moving.n; i++) {
        const struct gpu_sizes sizes = eng_sizes(&e->lists.moving.at[i]->job);
        is = sizes.gpus.min < sizes.gpus.max ||
             sizes.nodes.min < sizes.nodes.max;
    }
    return is;
}

int engine_explain_sizes(struct engine *e,
                         void (*each)(void *arg, const struct goodput_row *row),
                         void *arg, double *ret_price, struct error *err)
{
    struct eng_view t;
    bool *ahead = NULL;

    if (e->policy != &policy_goodput || !any_sizes(e)) {
        *ret_price = NAN;
        return 0;
    }
    if (eng_ahead_save(e, &ahead, err) < 0)
        return -1;
    int rc = eng_view_build(e, &t, err);
    if (rc == 0 && eng_has_limits(e))
        rc = eng_limit_view(e, &t.v, t.jobs, TELLS_NONE, err);
    if (rc == 0)
        rc = goodput_explain(&t.v, each, arg, ret_price, err);
    eng_view_clear(&t);
    eng_ahead_restore(e, ahead);
    return rc;
}
