/* cluster_limit_slurm.c - the time limit of an attempt, here and in Slurm.
 *
 * The engine changes it, and Slurm is told; an administrator changes it with
 * scontrol(1), and the engine is told. Slurm's limit is longer than ours by a
 * margin that only the helper knows, so a change there is taken over as a
 * difference. What it was before this daemon saw the job first is not known: a
 * change while no daemon runs is not noticed. A job that asks for no limit has
 * the one that Slurm shows when it runs, unless that is the year that stands
 * for none.
 */
#include <math.h>
#include <string.h>

#include "slurm/cluster/cluster.h"

static const double AGAIN_S = 5;
static const double SAME_S = 0.5;
/* What Slurm gives a job that nothing limits: YEAR_MINUTES of slurmctld. */
enum { UNLIMITED_MIN = 365 * 24 * 60 };

static void say(struct cluster *c, struct cluster_attempt *a, double limit_s)
{
    a->req.limit_s = limit_s;
    a->limit_is_default = false;
    cluster_say(c, a, CLUSTER_SAY_LIMIT);
}

static bool is_in_flight(const struct cluster_attempt *a)
{
    return a->command > 0 && a->op == HELPER_LIMIT;
}

void cluster_limit_seen(struct cluster *c, struct cluster_attempt *a,
                        const struct helper_job *j)
{
    int32_t was = a->limit_min;

    bool has_none = a->req.limit_s <= 0 && !a->has_limit_min;

    /* Slurm shows MaxTime of the partition for a pending job without a limit.
     */
    if (a->wants_limit || is_in_flight(a) ||
        (has_none && strcmp(j->state, "PENDING") == 0))
        return;
    if (has_none && j->limit_min > 0 && j->limit_min < UNLIMITED_MIN) {
        (void)error_set(&a->limit_why, ERR_NONE, "the limit that Slurm gave");
        say(c, a, 60.0 * j->limit_min);
        a->limit_is_default = true;
    }
    if (a->has_limit_min && j->limit_min != was && a->req.limit_s > 0) {
        double more_s = 60.0 * (j->limit_min - was);
        (void)error_set(&a->limit_why, ERR_NONE, "changed in Slurm");
        say(c, a,
            j->limit_min == 0 || was == 0 ? 60.0 * j->limit_min
                                          : fmax(1, a->req.limit_s + more_s));
    }
    a->has_limit_min = true;
    a->limit_min = j->limit_min;
}

void cluster_limit_set(struct cluster *c, struct cluster_attempt *a,
                       const struct helper_news *n)
{
    if (n->is_ok) {
        a->has_limit_min = true;
        a->limit_min = n->job.limit_min;
        a->limit_before_s = a->limit_sent_s;
    } else if (n->why.code == ERR_NOTFOUND || a->wants_limit) {
        return; /* it has ended, or another limit follows */
    } else if (cluster_may_pass(&n->why)) {
        a->wants_limit = true;
        a->limit_again_s = cluster_now(c) + AGAIN_S;
    } else {
        a->limit_why = n->why;
        say(c, a, a->limit_before_s);
    }
}

int cluster_limit(struct alloc *base, uint64_t job, int32_t attempt,
                  double limit_s, struct error *err)
{
    struct cluster *c = (struct cluster *)base;
    struct cluster_attempt *a = cluster_find(c, job, attempt);

    if (!a)
        return error_set(err, ERR_NOTFOUND, "no attempt %d of job %llu",
                         attempt, (unsigned long long)job);
    if (fabs(a->req.limit_s - limit_s) < SAME_S)
        return 0;
    if (!a->wants_limit && !is_in_flight(a))
        a->limit_before_s = a->req.limit_s;
    a->req.limit_s = limit_s;
    a->wants_limit = a->phase != CLUSTER_TO_SUBMIT && a->phase != CLUSTER_ENDED;
    a->limit_again_s = -INFINITY;
    return 0;
}
