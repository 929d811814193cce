/* goodput_in_time.c - leave out the sizes on which a job would not end within
 * its time limit.
 *
 * A job that reaches its limit has used its GPUs for nothing. So a size on
 * which it would is not chosen if the job would end in time on a larger one,
 * which the nodes have room for. What is left to do has to be known from the
 * job's progress or from its class: a length that is guessed leaves out
 * nothing. If no size is large enough, all stay.
 *
 * A job that goes on after its limit (retry.on) does not lose its work by it,
 * and takes any size.
 *
 * A live job keeps the GPUs that it needs to end in time, which it does before
 * its limit: others have them soon. It is not paused instead, for its next
 * attempt has the whole limit again, and would start at the same size. A job
 * whose present size is too small competes for one that is not as a whole, and
 * keeps its present one only if its GPUs would idle otherwise.
 *
 * The sizes of a job that takes GPUs of any type are those of the type that has
 * room at the moment. So nothing is left out for such a job: it would be paused
 * for what it could not have the moment after.
 */
#include "scheduler/policy/goodput_in_time.h"

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

static bool has_room(struct gp *g, const struct gp_job *j, int32_t size)
{
    struct policy_job as = gp_as(j, size);

    return plan_ever(g->p, &as, false);
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
    return k < j->n && (k == 0 || has_room(g, j, k)) ? k : 0;
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
    j->is_held = j->is_held || (j->now >= 0 && !is_late);
}

void gp_in_time(struct gp *g, struct gp_job *j)
{
    int32_t first = first_in_time(g, j);

    if (first > 0)
        cut(g, j, first);
}
