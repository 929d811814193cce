/* cluster_priority_slurm.c - a priority that somebody changed in Slurm.
 *
 * Slurm computes the priority of a pending job from age, fair share and more;
 * what a person says of one job is its nice value, which Slurm subtracts. The
 * helper submits all jobs with the same one, so another value than the first
 * that Slurm showed is somebody's change, and the job gets as much less
 * priority in our queue. A priority that is set to a number looks like any that
 * Slurm computes, and is Slurm's alone.
 */
#include "slurm/cluster/cluster.h"

/* Our priorities have this range. A larger value means no more, and raises none
 * by more when it is taken back. */
enum { NICE_MOST = 1000 };

void cluster_nice_seen(struct cluster *c, struct cluster_attempt *a,
                       int32_t nice)
{
    nice = nice > NICE_MOST ? NICE_MOST : nice < -NICE_MOST ? -NICE_MOST : nice;
    if (!a->has_nice)
        a->nice_was = nice;
    a->has_nice = true;
    a->nice = nice;
    if (nice != a->nice_was && !a->is_released)
        cluster_say(c, a, CLUSTER_SAY_PRIORITY);
}

/* Several changes before the engine asks are one. The difference counts from
 * the value that the last note told, so a change that was taken back in time is
 * a difference of 0, which changes nothing. What it was before this daemon saw
 * the job first is not known, as with a time limit. */
struct alloc_note cluster_priority_note(struct cluster_attempt *a)
{
    struct alloc_note note = {.kind = ALLOC_PRIORITY,
                              .priority_by = a->nice_was - a->nice};

    (void)error_set(&note.why, ERR_NONE, "nice %d in Slurm", (int)a->nice);
    a->nice_was = a->nice;
    return note;
}
