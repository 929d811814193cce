/* policy_view.c - build the view that the policy sees.
 *
 * The free GPUs of a node are those of the allocator's inventory, but never
 * more than the engine's own live attempts leave: an attempt may have ended
 * without the engine knowing it yet. The view subtracts what was requested and
 * is not granted, because an inventory counts an attempt only when it has its
 * devices. If such an attempt does not fit now, it is pending inside the
 * allocator, and the view sets aside as much as it asked for among the nodes
 * that it may use. Not more: a cluster may hold it back without end, for
 * reasons other than size. If the allocator reports such a hold, nothing is set
 * aside: otherwise one job of the cluster's size that its user may not run
 * would block the whole queue.
 *
 * Failed GPUs are not shown once they are idle. A job that needs them is
 * pending as if the node were down, and gets no reservation.
 *
 * With submit_ahead, the policy sees an attempt that does not fit now as a
 * queued job, and plans around it as around any other (submit_ahead.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/job_curves.h"
#include "scheduler/engine/plan/pending_order.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/plan/take_back.h"
#include "scheduler/engine/rules/rules.h"
#include "scheduler/policy/placement.h"

void eng_buffers_clear(struct eng_buffers *r)
{
    free(r->jobs);
    free(r->decisions);
    *r = (struct eng_buffers){.cap = 0};
}

/* An eighth more than needed, so that a growing queue seldom reallocates. */
static int buffers_create(struct eng_buffers *ret, size_t n, struct error *err)
{
    struct eng_buffers r = {.cap = n + n / 8 + 64};

    r.jobs = malloc(r.cap * sizeof(*r.jobs));
    r.decisions = malloc(r.cap * sizeof(*r.decisions));
    if (!r.jobs || !r.decisions) {
        eng_buffers_clear(&r);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    *ret = r;
    return 0;
}

void eng_buffers_reserve(struct engine *e)
{
    if (buffers_create(&e->buffers, e->n_active, NULL) < 0)
        return;
    /* Causes the page faults now. */
    memset(e->buffers.jobs, 0, e->buffers.cap * sizeof(*e->buffers.jobs));
    memset(e->buffers.decisions, 0,
           e->buffers.cap * sizeof(*e->buffers.decisions));
}

static int buffers_take(struct engine *e, struct eng_buffers *ret,
                        struct error *err)
{
    if (e->buffers.cap < e->n_active)
        return buffers_create(ret, e->n_active, err);
    *ret = e->buffers;
    e->buffers = (struct eng_buffers){.cap = 0};
    return 0;
}

/* The engine keeps the buffers, unless the queue became much shorter. */
static void buffers_return(struct engine *e, struct eng_buffers *r)
{
    if (r->cap <= e->buffers.cap || r->cap / 4 > e->n_active + 64) {
        eng_buffers_clear(r);
        return;
    }
    eng_buffers_clear(&e->buffers);
    e->buffers = *r;
}

void eng_view_clear(struct eng_view *t)
{
    free(t->nodes);
    free(t->ats);
    free(t->live);
    if (t->buffers.cap > 0)
        buffers_return(t->of, &t->buffers);
}

/* The indexes of the nodes that "n1:0,1 n2:0" names; false if some are unknown,
 * or if their number differs from the job's. */
static bool parse_place(const struct engine *e, const struct job *job,
                        int32_t *at)
{
    const char *type = engine_where(e, job).gpu_type;
    int32_t n = 0;

    for (const char *p = job->place; *p;) {
        size_t word = strcspn(p, " "), len = strcspn(p, ": ");
        size_t i = eng_part_at(e, p, len, type);
        if (i == e->n_nodes || n == job->nodes)
            return false;
        at[n++] = (int32_t)i;
        p += word;
        p += strspn(p, " ");
    }
    return n == job->nodes;
}

/* NULL: no GPU is free. */
static struct policy_node *freest(const struct eng_view *t, uint64_t classes)
{
    struct policy_node *best = NULL;

    for (size_t i = 0; i < t->v.n_nodes; i++) {
        struct policy_node *node = &t->nodes[i];
        if (place_may_use(classes, node) && node->is_up &&
            place_free(node) > (best ? place_free(best) : 0))
            best = node;
    }
    return best;
}

static void take_some(struct policy_node *node, int32_t n)
{
    node->gpus_free -= n;
    if (node->n_parts > 1)
        (node - node->part)->shared_free -= n;
}

static void close_machine(struct policy_node *node)
{
    struct policy_node *first = node - node->part;

    node->gpus_free = 0;
    for (int32_t i = 0; i < node->n_parts; i++)
        first[i].gpus_free = 0;
}

/* Takes as many GPUs as it asked for, where most are free. */
static void set_aside(struct eng_view *t, struct place p)
{
    int32_t left = p.nodes * (p.is_whole ? 1 : p.per_node);

    while (left > 0) {
        struct policy_node *node = freest(t, p.classes);
        if (!node)
            return;
        int32_t free = place_free(node), taken = free < left ? free : left;
        if (p.is_whole)
            close_machine(node);
        else
            take_some(node, taken);
        left -= p.is_whole ? 1 : taken;
    }
}

static void show_as_queued(struct policy_job *job)
{
    job->state = JOB_QUEUED;
    job->gpus = job->nodes = 0;
    job->start_s = NAN;
}

/* A job that was requested but is not in the inventory: takes its GPUs where it
 * would go. False: it fits nowhere, so its placement is unknown. */
static bool promise(const struct engine *e, struct eng_view *t,
                    struct policy_job *job, int32_t *at)
{
    struct job_record *rec = eng_find(e, job->id);
    struct place p = place_of(job, job->nodes, job->gpus / job->nodes);

    p.classes &= eng_type_classes(e, rec->job.gpu_type);
    rec->is_ahead = false;
    if (place_fits(t->nodes, t->v.n_nodes, p)) {
        place_take(t->nodes, t->v.n_nodes, p, at);
        return true;
    }
    rec->is_ahead = e->parts.conf->submit_ahead > 0 &&
                    rec->job.state == JOB_DISPATCHING && !eng_is_ending(rec);
    if (rec->is_ahead)
        show_as_queued(job);
    else
        set_aside(t, p);
    return false;
}

/* A job without GPUs occupies no node, unless it is exclusive. */
static bool holds(const struct policy_job *pj)
{
    return pj->nodes > 0 && (pj->gpus > 0 || pj->is_exclusive);
}

static int32_t not_more(int32_t ours, int32_t free)
{
    int32_t left = free < ours ? free : ours;
    return left > 0 ? left : 0;
}

/* Sets `at` of each live job: first of those with a known placement, then, on
 * what they leave, of those not granted yet. */
static void view_places(const struct engine *e, struct eng_view *t)
{
    int32_t *at = t->ats;

    for (size_t i = 0; i < t->v.n_nodes; i++)
        t->nodes[i].gpus_free = t->nodes[i].gpus_total;
    eng_part_nodes(e, t->nodes);
    for (size_t k = 0; k < t->n_live; k++) {
        struct policy_job *pj = &t->jobs[t->live[k]];
        const struct job *job = holds(pj) ? &eng_find(e, pj->id)->job : NULL;
        if (!job || job->place[0] == '\0' || !parse_place(e, job, at))
            continue;
        place_add(t->nodes, at, place_of(pj, pj->nodes, pj->gpus / pj->nodes),
                  -1);
        pj->at = at;
        at += pj->nodes;
    }
    for (size_t i = 0; i < t->v.n_nodes; i++) {
        struct policy_node *node = &t->nodes[i];
        node->gpus_free = not_more(node->gpus_free, e->nodes[i].gpus_free);
        node->shared_free =
            not_more(node->shared_free, e->nodes[i].shared_free);
    }
    for (size_t k = 0; k < t->n_live; k++) {
        struct policy_job *pj = &t->jobs[t->live[k]];
        const struct job_record *rec = holds(pj) ? eng_find(e, pj->id) : NULL;
        bool is_promised = rec && rec->job.place[0] == '\0' && !rec->is_held;
        if (!is_promised || !promise(e, t, pj, at))
            continue;
        pj->at = at;
        pj->is_promised = 1;
        at += pj->nodes;
    }
}

/* For one view: each kind of job is judged once. */
struct kinds_memo {
    uint64_t known;
    struct class_masks of[QUEUE_KINDS];
    struct mask_memo others;
};

static struct class_masks masks_of(const struct engine *e,
                                   const struct waiting *w,
                                   struct kinds_memo *memo)
{
    if (w->kind < 0)
        return eng_masks(e, &w->record->job, &memo->others);
    if ((memo->known >> (unsigned)w->kind & 1) == 0) {
        memo->of[w->kind] = eng_masks(e, &w->record->job, &memo->others);
        memo->known |= UINT64_C(1) << (unsigned)w->kind;
    }
    return memo->of[w->kind];
}

static void view_waiting(const struct engine *e, struct eng_view *t,
                         const struct eng_order *o, struct kinds_memo *memo)
{
    const struct waiting *w = o->waits;
    struct class_masks masks = masks_of(e, w, memo);

    masks.now &= ~eng_closed_classes(e, w->record);
    t->jobs[t->v.n_jobs++] = (struct policy_job){
        .id = w->id,
        .state = JOB_QUEUED,
        .priority = w->priority,
        .user = w->user ? w->user->number : 0,
        .user_rank = o->rank,
        .gpus_min = w->gpus_min,
        .gpus_max = w->gpus_max,
        .nodes_min = w->nodes_min,
        .nodes_max = w->nodes_max,
        .per_node = w->per_node,
        .parts = w->parts,
        .to_gpus = w->to_gpus,
        .to_nodes = w->to_nodes,
        .cost_s = NAN,
        .classes = masks.now,
        .classes_ever = masks.ever,
        .is_exclusive = w->is_exclusive || e->parts.conf->where.exclusive,
        .submit_s = o->submit_s,
        .eligible_s = t->v.now_s - (t->v.wall_s - w->eligible_s),
        .start_s = NAN,
        .limit_s = w->limit_s,
        .left_s = NAN,
        .has_reservation = o->has_reservation,
        .is_back = o->is_back,
    };
    eng_leave_out_barred(
        &(struct job_resize){.barred_gpus = w->barred_gpus,
                             .barred_below = w->barred_below,
                             .barred_until_s = w->barred_until_s},
        t->v.wall_s, &t->jobs[t->v.n_jobs - 1]);
    eng_leave_out_quota(e, w->record, &t->jobs[t->v.n_jobs - 1]);
}

static void view_live(const struct engine *e, struct eng_view *t,
                      const struct eng_order *o, struct mask_memo *memo)
{
    const struct job_record *rec = o->record;
    const struct job *job = &rec->job;
    const struct gpu_sizes sizes = eng_sizes(job);
    struct class_masks masks = eng_masks(e, job, memo);
    struct policy_job *pj = &t->jobs[t->v.n_jobs++];

    *pj = (struct policy_job){
        .id = job->id,
        .state = job->state,
        .priority = job->priority,
        .user = rec->charge.user ? rec->charge.user->number : 0,
        .user_rank = o->rank,
        .gpus_min = sizes.gpus.min,
        .gpus_max = sizes.gpus.max,
        .nodes_min = sizes.nodes.min,
        .nodes_max = sizes.nodes.max,
        .per_node = job->per_node,
        .parts = job->parts,
        .classes = masks.now,
        .classes_ever = masks.ever,
        .is_exclusive = eng_is_exclusive(e->parts.conf, job),
        .gpus = job->gpus,
        .nodes = job->nodes,
        .submit_s = o->submit_s,
        .eligible_s = t->v.now_s - (t->v.wall_s - job_record_eligible_s(rec)),
        .start_s = eng_start_of(rec, t->v.now_s),
        .limit_s = job->attempt_limit_s,
        .left_s = NAN,
        .has_reservation = o->has_reservation,
        .is_back = o->is_back,
    };
    eng_view_resize(e, rec, pj);
    eng_leave_out_barred(&job->resize, t->v.wall_s, pj);
    if (pj->may_resize)
        eng_leave_out_quota(e, rec, pj);
    /* A request that cannot start before a reservation takes no GPUs. */
    if (pj->may_resize ||
        (job->state == JOB_DISPATCHING && job->native_id[0] == '\0'))
        pj->classes &= ~eng_closed_classes(e, rec);
    eng_view_preempt(e, rec, t->v.now_s, pj);
}

static void view_nodes(const struct engine *e, struct policy_node *ret)
{
    for (size_t i = 0; i < e->n_nodes; i++) {
        const struct alloc_node *node = &e->nodes[i];
        int32_t total = node->gpus_total - node->gpus_out;
        int32_t free = node->gpus_free;
        ret[i] = (struct policy_node){
            .gpus_total = total,
            .gpus_free = free < 0       ? 0
                         : free > total ? total
                                        : free,
            .is_up = e->nodes[i].is_up,
            .is_wanted = e->nodes[i].is_wanted,
            .class_id = e->classes.of[i],
        };
    }
}

static bool has_sizes(const struct policy_job *job)
{
    return job->gpus_min < job->gpus_max || job->nodes_min < job->nodes_max ||
           job->to_gpus > 0;
}

/* What is seen of a view's jobs while they are filled in, which are too many to
 * go through them again. */
struct filling {
    struct kinds_memo memo;
    bool has_caps;  /* a task of a sweep with max_parallel */
    bool has_sizes; /* goodput has a size to choose. If not it plans as backfill
                       does, and the speeds are not needed. */
};

/* out  t->jobs, t->live */
static void fill(const struct engine *e, struct eng_view *t,
                 struct eng_ordering *o, struct filling *f)
{
    struct eng_order one;

    while (eng_order_next(o, &one)) {
        if (one.waits) {
            view_waiting(e, t, &one, &f->memo);
            f->has_caps = f->has_caps || one.waits->has_cap;
        } else {
            t->live[t->n_live++] = t->v.n_jobs;
            view_live(e, t, &one, &f->memo.others);
            f->has_caps = f->has_caps || one.record->job.max_parallel > 0;
        }
        f->has_sizes = f->has_sizes || has_sizes(&t->jobs[t->v.n_jobs - 1]);
    }
}

/* Drops the jobs that may not start, and looks at the others anew. */
static void drop(struct engine *e, struct eng_view *t, struct filling *f)
{
    /* First: what is refused takes no place of its sweep. */
    if (e->refusals.n > 0)
        t->v.n_jobs = eng_refused_drop(e, &t->v, t->jobs);
    if (f->has_caps)
        t->v.n_jobs = eng_cap_sweeps(e, &t->v, t->jobs);
    t->n_live = 0;
    f->has_sizes = false;
    for (size_t i = 0; i < t->v.n_jobs; i++) {
        if (job_state_is_live(t->jobs[i].state))
            t->live[t->n_live++] = i;
        f->has_sizes = f->has_sizes || has_sizes(&t->jobs[i]);
    }
}

/* The most nodes that live jobs may hold together. */
static size_t count_ats(const struct engine *e)
{
    const struct record_list *live = &e->lists.moving;
    size_t n = 1;

    for (size_t i = 0; i < live->n; i++)
        n += live->at[i]->job.nodes > 0 ? (size_t)live->at[i]->job.nodes : 0;
    return n;
}

int eng_view_build(struct engine *e, struct eng_view *t, struct error *err)
{
    struct filling f = {.has_caps = false};
    double now_s = eng_now(e), wall_s = eng_wall(e);
    struct eng_ordering o;

    memset(t, 0, sizeof(*t));
    if (eng_order_begin(e, now_s, wall_s, &o, err) < 0)
        return -1;
    t->nodes = calloc(e->n_nodes + 1, sizeof(*t->nodes));
    t->ats = calloc(count_ats(e), sizeof(*t->ats));
    t->live = calloc(o.n_few + 1, sizeof(*t->live));
    t->of = e;
    if (!t->nodes || !t->ats || !t->live ||
        buffers_take(e, &t->buffers, err) < 0) {
        eng_order_end(&o);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    t->jobs = t->buffers.jobs;
    t->decisions = t->buffers.decisions;
    t->v = (struct policy_view){.now_s = now_s,
                                .wall_s = wall_s,
                                .nodes = t->nodes,
                                .n_nodes = e->n_nodes,
                                .jobs = t->jobs,
                                .is_shared = e->parts.alloc->ops->is_shared,
                                .is_fair = eng_fair_is_on(e),
                                .preempt = e->parts.conf->preempt,
                                .goodput = e->parts.conf->goodput};
    e->models.n_views++;
    view_nodes(e, t->nodes);
    fill(e, t, &o, &f);
    eng_order_end(&o);
    if (e->refusals.n > 0 || f.has_caps)
        drop(e, t, &f);
    view_places(e, t);
    eng_part_jobs(e, t);
    bool has_speeds = e->policy == &policy_goodput && f.has_sizes;
    for (size_t i = 0; i < t->v.n_jobs && has_speeds; i++)
        eng_curves_view(e, t, eng_find(e, t->jobs[i].id), &t->jobs[i]);
    return 0;
}
