/* reservations.c - places reserved for jobs that preempted others.
 *
 * The picture `soon` shows the GPUs that are free once all victims have left:
 * jobs that were told to stop, for any reason, jobs whose time limit comes
 * before a preemption could take effect, and the victims of this plan. Each job
 * with a reservation has its place in that picture, and each start of the plan
 * is checked against it.
 *
 * The allocator places a start when it grants it, a moment after the plan. By
 * then some victims may have left, or jobs may have ended unexpectedly, so best
 * fit may choose another node. Therefore the picture `late` puts each start
 * that is not granted yet, of this plan and of earlier ones, on a node that a
 * reservation would use, if there is room for it. Whichever of these nodes the
 * start takes, all reservations must still have a place. The next start is then
 * checked with this one on the first such node: the check does not try all
 * combinations, but it tries one of the worst. A start that has a reservation
 * itself stays where best fit puts it: its promise is as good as the others'.
 */
#include "scheduler/policy/reservations.h"

#include <stdlib.h>
#include <string.h>

bool reservations_has_devices(const struct policy_job *job)
{
    return job_state_is_live(job->state) && job->at && job->nodes > 0 &&
           (job->gpus > 0 || job->is_exclusive);
}

/* Whether the job ends by itself before a job that is told now is sure to be
 * gone. */
static bool leaves_anyway(const struct policy_view *v,
                          const struct policy_job *job)
{
    double slack_s = POLICY_PREEMPT_SLACK_S;
    double end_s = job->start_s + job->limit_s;

    return (job->is_leaving && job->leaves_s + slack_s > v->now_s) ||
           (end_s <= v->now_s + v->preempt.grace_s &&
            end_s + slack_s > v->now_s);
}

void reservations_add(struct policy_node *nodes, const struct policy_job *job,
                      int32_t sign)
{
    place_add(nodes, job->at, place_of(job, job->nodes, job->gpus / job->nodes),
              sign);
}

/* Places the reservations on p->trial. Returns the first that has no place
 * left, or NULL. */
static struct plan_reservation *place_on_trial(const struct plan *p,
                                               bool is_late)
{
    size_t n = p->view->n_nodes;

    for (size_t i = 0; i < p->n_reservations; i++) {
        struct plan_reservation *o = &p->reservations[i];
        if (o->is_stuck || o->has_them || (is_late && o->is_lost))
            continue;
        if (!place_fits(p->trial, n, o->place))
            return o;
        place_take(p->trial, n, o->place, p->trial_at);
    }
    return NULL;
}

struct plan_reservation *reservations_place(const struct plan *p,
                                            const struct policy_node *from)
{
    memcpy(p->trial, from, p->view->n_nodes * sizeof(*p->trial));
    return place_on_trial(p, from == p->late);
}

/* Places the reservations of earlier plans, one after the other. Returns how
 * many have no place. */
static size_t keep_places(struct plan *p)
{
    size_t n = p->view->n_nodes, n_stuck = 0;

    memcpy(p->trial, p->soon, n * sizeof(*p->trial));
    for (size_t i = 0; i < p->n_reservations; i++) {
        struct plan_reservation *o = &p->reservations[i];
        o->is_stuck = !place_find(p->trial, n, o->job, &o->place);
        n_stuck += o->is_stuck;
        if (!o->is_stuck)
            place_take(p->trial, n, o->place, p->trial_at);
    }
    return n_stuck;
}

/* Both point into one array, which is in order. */
static int by_view(const void *x, const void *y)
{
    const struct policy_job *a = ((const struct plan_reservation *)x)->job;
    const struct policy_job *b = ((const struct plan_reservation *)y)->job;
    return (a > b) - (a < b);
}

/* A job that needs more nodes, or more GPUs, is harder to place. */
static int by_width(const void *x, const void *y)
{
    const struct policy_job *a = ((const struct plan_reservation *)x)->job;
    const struct policy_job *b = ((const struct plan_reservation *)y)->job;
    if (a->nodes_min != b->nodes_min)
        return a->nodes_min > b->nodes_min ? -1 : 1;
    if (a->gpus_min != b->gpus_min)
        return a->gpus_min > b->gpus_min ? -1 : 1;
    return by_view(x, y);
}

/* By best fit, a later job of higher order may take the GPUs that become free
 * for a wide job, although there is room for both. The wide job then waits
 * until the next job ends. So if not all reservations find a place, place the
 * wide jobs first. */
static void keep_all(struct plan *p)
{
    size_t n_stuck = keep_places(p);

    if (n_stuck == 0)
        return;
    qsort(p->reservations, p->n_reservations, sizeof(*p->reservations),
          by_width);
    if (keep_places(p) < n_stuck)
        return;
    qsort(p->reservations, p->n_reservations, sizeof(*p->reservations),
          by_view);
    (void)keep_places(p);
}

/* ---- the starts, wherever they go ---------------------------------------- */
/* Marks the nodes of p->trial on which reservations are placed, starting from
 * `from`. */
static void mark_kept(struct plan *p, const struct policy_node *from)
{
    for (size_t i = 0; i < p->view->n_nodes; i++)
        p->is_kept[i] = p->trial[i].gpus_free != from[i].gpus_free ||
                        p->trial[i].shared_free != from[i].shared_free;
}

/* The start waits in the allocator's queue, where later requests wait behind
 * it. */
static struct plan_reservation *behind(const struct plan *p, struct place start)
{
    for (size_t i = 0; i < p->n_reservations; i++) {
        struct plan_reservation *o = &p->reservations[i];
        if (!o->is_stuck && !o->has_them && !o->is_lost &&
            (plan_reach(p, o->job) & start.classes))
            return o;
    }
    return NULL;
}

/* Places the start on `late`. Returns NULL, or the job whose reservation may be
 * lost, in which case nothing is taken. */
static struct plan_reservation *take_late(struct plan *p, struct plan_start s)
{
    struct place start = s.place;
    size_t n = p->view->n_nodes;
    struct plan_reservation *robbed = reservations_place(p, p->late);
    bool takes = false;

    if (robbed)
        return robbed;
    mark_kept(p, p->late);
    for (size_t i = 0; i < n && !s.has_reservation; i++) {
        if (!p->is_kept[i])
            continue;
        memcpy(p->trial, p->late, n * sizeof(*p->trial));
        if (!place_take_on(p->trial, n, start, i, p->trial_at))
            continue;
        if (!takes)
            memcpy(p->late_at, p->trial_at,
                   (size_t)start.nodes * sizeof(*p->late_at));
        takes = true;
        if ((robbed = place_on_trial(p, true)))
            return robbed;
    }
    p->is_late = takes || place_fits(p->late, n, start);
    if (takes)
        place_add(p->late, p->late_at, start, -1);
    else if (p->is_late)
        place_take(p->late, n, start, p->late_at);
    else
        return behind(p, start);
    if (s.has_reservation && (robbed = reservations_place(p, p->late)))
        place_add(p->late, p->late_at, start, 1);
    return robbed;
}

/* `left`, and the starts in progress, which are not granted yet. */
static void begin_left(struct plan *p)
{
    const struct policy_view *v = p->view;

    memcpy(p->left, p->soon, v->n_nodes * sizeof(*p->left));
    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct policy_job *job = &v->jobs[i];
        if (!job->is_promised || !reservations_has_devices(job) || p->leaves[i])
            continue;
        reservations_add(p->left, job, 1);
        p->starts[p->n_starts++] = (struct plan_start){
            place_of(job, job->nodes, job->gpus / job->nodes),
            job->has_reservation != 0};
    }
}

/* A reservation that a start in progress may take is marked as lost. It then
 * does not keep other jobs from starting. */
static void begin_late(struct plan *p)
{
    struct plan_reservation *o;

    begin_left(p);
    memcpy(p->late, p->left, p->view->n_nodes * sizeof(*p->late));
    while ((o = reservations_place(p, p->late)))
        o->is_lost = true;
    for (size_t i = 0; i < p->n_starts; i++)
        while ((o = take_late(p, p->starts[i])))
            o->is_lost = true;
}

static bool all_fit(struct plan *p)
{
    bool fit = !reservations_place(p, p->soon);

    memcpy(p->late, p->left, p->view->n_nodes * sizeof(*p->late));
    fit = fit && !reservations_place(p, p->late);
    for (size_t i = 0; i < p->n_starts && fit; i++)
        fit = !take_late(p, p->starts[i]);
    return fit;
}

void reservations_leaves(struct plan *p, const struct policy_job *job,
                         int32_t sign)
{
    reservations_add(p->soon, job, sign);
    reservations_add(p->left, job, sign);
}

bool reservations_fit(struct plan *p)
{
    size_t size = p->view->n_nodes * sizeof(*p->late);

    memcpy(p->was, p->late, size);
    if (all_fit(p))
        return true;
    memcpy(p->late, p->was, size);
    return false;
}

void reservations_picture(const struct plan *p, struct policy_node *ret)
{
    size_t n = p->view->n_nodes;

    if (p->soon)
        (void)reservations_place(p, p->soon);
    memcpy(ret, p->soon ? p->trial : p->nodes, n * sizeof(*ret));
}

int reservations_begin(struct plan *p, struct error *err)
{
    const struct policy_view *v = p->view;
    size_t n = v->n_nodes + 1;

    p->soon = malloc(n * sizeof(*p->soon));
    p->left = malloc(n * sizeof(*p->left));
    p->late = malloc(n * sizeof(*p->late));
    p->was = malloc(n * sizeof(*p->was));
    p->starts = malloc((v->n_jobs + 1) * sizeof(*p->starts));
    p->is_kept = malloc(n * sizeof(*p->is_kept));
    p->late_at = malloc(n * sizeof(*p->late_at));
    p->trial = malloc(n * sizeof(*p->trial));
    p->trial_at = malloc(n * sizeof(*p->trial_at));
    p->reservations = malloc((v->n_jobs + 1) * sizeof(*p->reservations));
    p->leaves = calloc(v->n_jobs + 1, sizeof(*p->leaves));
    if (!p->soon || !p->left || !p->late || !p->was || !p->late_at ||
        !p->is_kept || !p->starts || !p->trial || !p->trial_at ||
        !p->reservations || !p->leaves)
        return error_set(err, ERR_NOMEM, "out of memory");
    memcpy(p->soon, p->nodes, v->n_nodes * sizeof(*p->soon));
    for (size_t i = 0; i < v->n_jobs; i++) {
        p->leaves[i] = reservations_has_devices(&v->jobs[i]) &&
                       leaves_anyway(v, &v->jobs[i]);
        if (p->leaves[i])
            reservations_add(p->soon, &v->jobs[i], 1);
        p->n_leaving += p->leaves[i] && v->jobs[i].is_leaving;
    }
    p->n_reservations = 0;
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->jobs[i].state == JOB_QUEUED && v->jobs[i].has_reservation)
            p->reservations[p->n_reservations++] =
                (struct plan_reservation){.job = &v->jobs[i]};
    keep_all(p);
    begin_late(p);
    return 0;
}

void reservations_end(struct plan *p)
{
    free(p->soon);
    free(p->left);
    free(p->late);
    free(p->was);
    free(p->trial);
    free(p->starts);
    free(p->late_at);
    free(p->trial_at);
    free(p->is_kept);
    free(p->reservations);
    free(p->leaves);
    p->soon = p->left = p->late = p->was = p->trial = NULL;
    p->late_at = p->trial_at = NULL;
    p->starts = NULL;
    p->is_kept = p->leaves = NULL;
    p->reservations = NULL;
}

struct plan_reservation *reservations_find(const struct plan *p,
                                           const struct policy_job *job)
{
    for (size_t i = 0; i < p->n_reservations; i++)
        if (p->reservations[i].job->id == job->id)
            return &p->reservations[i];
    return NULL;
}

/* It is unknown where GPUs become free for a stuck reservation. */
struct plan_reservation *reservations_stuck_before(const struct plan *p,
                                                   const struct policy_job *job)
{
    for (size_t i = 0; i < p->n_reservations; i++)
        if (p->reservations[i].is_stuck &&
            p->reservations[i].job->id != job->id &&
            policy_view_in_order(p->reservations[i].job, job) &&
            (plan_reach(p, p->reservations[i].job) & plan_reach(p, job)))
            return &p->reservations[i];
    return NULL;
}

/* `soon` is without the start. If this returns NULL, `late` has it. */
static struct plan_reservation *robbed_by(struct plan *p,
                                          struct plan_start start)
{
    struct plan_reservation *robbed = reservations_place(p, p->soon);
    return robbed ? robbed : take_late(p, start);
}

/* All victims have left, and there is room for all reservations in the order of
 * p->reservations. But if `self`, which is to start at p->at, comes before one
 * of them, it is not its turn: that one can start with this plan, and `self`
 * after that. */
static bool is_before_its_turn(const struct plan *p,
                               const struct plan_reservation *self,
                               struct place place)
{
    const struct plan_reservation *o = p->reservations;

    if (self->is_stuck)
        return false;
    while (o->is_stuck || o->has_them)
        o++;
    if (o == self)
        return false;
    memcpy(p->trial, p->nodes, p->view->n_nodes * sizeof(*p->trial));
    place_add(p->trial, p->at, place, 1);
    return !place_on_trial(p, false);
}

/* Jobs with a reservation start in the order of the view, but none with the
 * GPUs of others while its own are still to come. Once all victims have left,
 * the first takes what there is, unless there is enough for all. */
const struct plan_reservation *reservations_take(struct plan *p,
                                                 const struct policy_job *job,
                                                 struct place place)
{
    struct plan_reservation *self, *robbed;

    if (!p->soon)
        return NULL;
    self = reservations_find(p, job);
    robbed = self ? NULL : reservations_stuck_before(p, job);
    if (robbed)
        return robbed;
    bool takes =
        self && p->n_leaving == 0 && !is_before_its_turn(p, self, place);
    struct plan_start start = {place, self != NULL};
    place_add(p->soon, p->at, place, -1);
    if (self)
        self->has_them = true;
    while ((robbed = robbed_by(p, start)) && takes)
        robbed->is_stuck = true;
    if (!robbed) {
        p->starts[p->n_starts++] = start;
        return NULL;
    }
    if (self)
        self->has_them = false;
    place_add(p->soon, p->at, place, 1);
    return robbed;
}

void reservations_untake(struct plan *p, struct place place)
{
    if (!p->soon)
        return;
    place_add(p->soon, p->at, place, 1);
    if (p->is_late)
        place_add(p->late, p->late_at, place, 1);
    p->n_starts--;
}
