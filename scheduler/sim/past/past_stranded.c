/* past_stranded.c - attempts of a past that never got their GPUs.
 *
 * A cluster may keep a request pending without end, for a quota that nobody
 * told. A simulation has no such quota: it would grant the request at once, and
 * nothing is known of how the job would have gone on. So a job whose last
 * attempt stranded leaves the simulation when the attempt before gave its GPUs
 * back, as if it had been cancelled; until then its attempts are repeated. A
 * job that got its old size back is requeued instead of resized. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/past/from_db.h"

/* More than a job does until it strands. */
static const double WORK_LEFT = 1e9;

int past_stranded_add(struct past *p, const struct past_stranded *one,
                      struct error *err)
{
    struct past_stranded *more =
        realloc(p->stranded, (p->n_stranded + 1) * sizeof(*more));

    if (!more)
        return error_set(err, ERR_NOMEM, "%zu stranded attempts",
                         p->n_stranded + 1);
    p->stranded = more;
    p->stranded[p->n_stranded++] = *one;
    return 0;
}

void past_stranded_end(struct past *p, uint64_t job, double end_s)
{
    for (size_t i = 0; i < p->n_stranded; i++)
        if (p->stranded[i].job == job && p->stranded[i].is_last)
            end_s = p->stranded[i].left_s;
    p->granted_s = end_s > p->granted_s ? end_s : p->granted_s;
}

/* The job leaves: what people did to it later is dropped. */
static void leave(struct past *p, const struct past_stranded *one)
{
    struct past_action last = {
        .t_s = one->left_s, .act = ACT_CANCEL, .job = one->job};
    size_t n = 0, at;

    for (size_t i = 0; i < p->n_actions; i++)
        if (p->actions[i].job != one->job || p->actions[i].t_s < one->left_s)
            p->actions[n++] = p->actions[i];
    for (at = n; at > 0 && p->actions[at - 1].t_s > last.t_s; at--)
        p->actions[at] = p->actions[at - 1];
    p->actions[at] = last;
    p->n_actions = n + 1;
}

/* A job that ran for a time has more of it: else it would end by itself. */
static void work_on(struct sim_trace *t, const struct past_stranded *one)
{
    char timed[SIM_CLASS_CAP];

    (void)snprintf(timed, sizeof(timed), "job-%" PRIu64, one->job);
    for (size_t i = 0; i < t->n; i++)
        if (t->jobs[i].id == one->job && strcmp(t->jobs[i].class, timed) == 0)
            t->jobs[i].work = WORK_LEFT;
}

int past_stranded_apply(struct past *p, double first_s, struct error *err)
{
    p->granted_s = fmax(0, p->granted_s - first_s);
    for (size_t i = 0; i < p->n_stranded; i++) {
        struct past_stranded *one = &p->stranded[i];
        struct past_action *more;
        one->from_s -= first_s;
        one->until_s -= first_s;
        one->left_s -= first_s;
        if (!one->is_last)
            continue;
        more = realloc(p->actions, (p->n_actions + 1) * sizeof(*more));
        if (!more)
            return error_set(err, ERR_NOMEM, "actions");
        p->actions = more;
        p->cap_actions = p->n_actions + 1;
        leave(p, one);
        work_on(&p->trace, one);
    }
    return 0;
}

int past_stranded_say(const struct past *p, struct buf *out, struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < p->n_stranded && rc == 0; i++) {
        const struct past_stranded *one = &p->stranded[i];
        char until[40] = "the end";
        if (isfinite(one->until_s))
            (void)snprintf(until, sizeof(until), "%.1f s", one->until_s);
        rc = buf_addf(out, err,
                      "stranded: job %" PRIu64 " (%s), pending for %" PRId32
                      " GPU%s from %.1f s to %s, which it never got; %s\n",
                      one->job, one->name, one->gpus, one->gpus == 1 ? "" : "s",
                      one->from_s, until,
                      one->is_last ? "left out from there"
                                   : "repeated as a requeue");
    }
    return rc;
}
