/* goodput_in_time.c - leave out the sizes on which a job would not end within
 * its time limit.
 *
 * A job that reaches its limit has used its GPUs for nothing. So a size on
 * which it would is not chosen if the job would end in time on a larger one,
 * which the nodes have room for. What is left to do has to be known from the
 * job's progress or from its class: a length that is guessed leaves out
 * nothing. If no size is large enough, all stay. So they do if the first that
 * is would waste GPUs, which its user or the administrator does not want, and
 * if no room for it can be expected: the GPUs of a live job of one size that
 * has no limit, and nobody knows how long it is, count for none.
 *
 * A job that goes on after its limit (retry.on) does not lose its work by it,
 * and takes any size.
 *
 * A live job keeps the GPUs that it needs to end in time, which it does before
 * its limit: others have them soon. It is not paused instead, for its next
 * attempt has the whole limit again, and would start at the same size. But such
 * jobs could come without end. So one that began after the head of the queue
 * was submitted makes room for it (goodput_rigid.c), and likewise for a late
 * job with a large minimum, with which it then competes (goodput_hull.c).
 *
 * A job whose present size is too small competes for one that is not as a
 * whole, and keeps its present one only if its GPUs would idle otherwise.
 *
 * The sizes of a job that takes GPUs of any type are those of the type that has
 * room at the moment. So nothing is left out for such a job: it would be paused
 * for what it could not have the moment after.
 */
#include "scheduler/policy/goodput_in_time.h"

#include <stdlib.h>
#include <string.h>

static bool has_now(const struct policy_job *job, const struct gp_size *s)
{
    return job->gpus == s->gpus && job->nodes == s->nodes;
}

/* How long the job may still run: of its next attempt, if it waits. */
static double within_s(const struct gp *g, const struct policy_job *job)
{
    return job->gpus > 0 ? job->start_s + job->limit_s - g->p->view->now_s
                         : job->limit_s;
}

/* A size without a rate may be as fast as it needs to be. */
static bool is_in_time(const struct policy_job *job, const struct gp_size *s,
                       double most_s)
{
    double start_s = has_now(job, s) ? 0 : gp_cost_s(job);
    double units = job->goodput.left_one_s * job->goodput.curve->one_per_s;

    return !(units / s->rate->per_s + start_s > most_s);
}

/* Nothing tells when it gives up its GPUs. */
static bool is_endless(const struct gp *g, const struct policy_job *job)
{
    const struct policy_job_goodput *own = &job->goodput;
    bool is_known = isfinite(job->left_s) ||
                    (isfinite(own->left_one_s) && own->left_one_s > 0);
    bool makes_room = own->curve && job->may_resize &&
                      own->goal != POLICY_GOAL_FIT &&
                      g->conf.max_resizes_per_hour > 0;

    return job_state_is_live(job->state) && !job->is_leaving && job->at &&
           job->nodes > 0 && !isfinite(job->limit_s) && !is_known &&
           !makes_room;
}

/* The nodes without all jobs but the endless ones. NULL: out of memory */
static struct policy_node *lasting_nodes(const struct gp *g)
{
    const struct policy_view *v = g->p->view;
    struct policy_node *nodes = malloc((v->n_nodes + 1) * sizeof(*nodes));

    for (size_t i = 0; nodes && i < v->n_nodes; i++) {
        nodes[i] = v->nodes[i];
        nodes[i].gpus_free = nodes[i].gpus_total;
        nodes[i].shared_free = nodes[i].shared_total;
    }
    for (size_t i = 0; nodes && i < v->n_jobs; i++) {
        const struct policy_job *job = &v->jobs[i];
        if (is_endless(g, job))
            place_add(nodes, job->at,
                      place_of(job, job->nodes, job->gpus / job->nodes), -1);
    }
    return nodes;
}

/* Once for a plan, and only if a job asks. */
static void see_lasting(struct gp *g)
{
    struct policy_node *nodes = lasting_nodes(g);

    g->has_lasting = true;
    g->lacks_memory = !nodes || picture_init(&g->lasting, nodes,
                                             g->p->view->n_nodes, NULL) < 0;
    free(nodes);
}

/* Whether the nodes have room once all jobs have ended that do. */
static bool has_room(struct gp *g, const struct gp_job *j, int32_t size)
{
    struct policy_job as = gp_as(j, size);
    struct place place = place_of(&as, as.nodes_min, j->sizes[size].per_node);

    if (!g->has_lasting)
        see_lasting(g);
    if (g->lacks_memory || !plan_ever(g->p, &as, false))
        return false;
    if (as.n_sets > 0)
        return place_find(g->lasting.nodes, g->lasting.n, &as, &place);
    if (!picture_take(&g->lasting, place, g->at))
        return false;
    picture_add(&g->lasting, g->at, place, 1);
    return true;
}

/* The smallest size in time; 0: the first one, or none. */
static int32_t first_in_time(struct gp *g, const struct gp_job *j)
{
    double left_s = j->job->goodput.left_one_s;
    double most_s = within_s(g, j->job);
    int32_t k = 0;

    if (j->job->goodput.has_types || j->job->goodput.goes_on || !(left_s > 0) ||
        !isfinite(left_s) || !isfinite(most_s))
        return 0;
    while (k < j->n && !is_in_time(j->job, &j->sizes[k], most_s))
        k++;
    return k > 0 && k < j->n && j->sizes[k].is_efficient && has_room(g, j, k)
               ? k
               : 0;
}

/* The job chooses among the sizes from `first` on, and its present one. */
static void cut(struct gp *g, struct gp_job *j, int32_t first)
{
    bool is_late = j->now >= 0 && j->now < first;
    int32_t from = first - is_late;
    struct gp_size *own = gp_sizes_new(g, (size_t)(j->n - from));

    memcpy(own, &j->sizes[from], (size_t)(j->n - from) * sizeof(*own));
    if (is_late)
        own[0] = j->sizes[j->now];
    j->late = j->sizes;
    j->n_late = first;
    j->sizes = own;
    j->is_shared = false;
    j->n -= from;
    j->now = j->now < 0 ? -1 : is_late ? 0 : j->now - from;
    /* Before a size that is too small, all that the larger one is worth counts.
     * A job that must not grow would be paused by that. */
    own[0].is_efficient = !is_late || j->is_bound;
    own[0].is_idle_use = true;
    j->is_needed = j->now >= 0 && !is_late;
}

void gp_in_time(struct gp *g, struct gp_job *j)
{
    int32_t first = first_in_time(g, j);

    if (first > 0)
        cut(g, j, first);
}

/* ---- who gives them up after all ------------------------------------------
 */
static double gain_of(const struct gp_job *j)
{
    return j->weight * (j->sizes[0].value - j->sizes[-1].value) /
           j->sizes[0].gpus;
}

/* It keeps GPUs that the other job waits for since before it began. */
static bool owes(const struct gp *g, const struct gp_job *j,
                 const struct gp_job *to, double gain)
{
    bool is_before = g->conf.priority == POLICY_PRIORITY_STRICT &&
                     j->job->priority > to->job->priority;

    return j->is_needed && !j->is_held &&
           !(j->job->start_s < to->job->submit_s) &&
           (!isfinite(gain) || (!is_before && gain_of(j) < gain));
}

int32_t gp_in_time_give(struct gp *g, const struct gp_job *to, int32_t lacks,
                        double gain)
{
    int32_t could = 0, n = 0;

    for (size_t i = 0; lacks > 0 && i < g->n; i++)
        could += owes(g, &g->jobs[i], to, gain) ? g->jobs[i].sizes[0].gpus : 0;
    for (size_t i = g->n; could >= lacks && n < lacks && i-- > 0;) {
        struct gp_job *j = &g->jobs[i];
        if (!owes(g, j, to, gain))
            continue;
        j->is_needed = false;
        j->chosen = -1;
        n += j->sizes[0].gpus;
    }
    return n;
}
