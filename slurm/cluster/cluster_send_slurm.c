/* cluster_send_slurm.c - send the command that an attempt's phase requires.
 *
 * A release takes several steps, each repeated until Slurm shows that the job
 * has ended: SIGTERM to the ranks; after the grace period SIGKILL to the ranks,
 * so that the batch step sees and writes how they ended; a little later scancel
 * of the whole job. A pending job is just cancelled. While slurmctld does not
 * answer nothing is sent, and the grace period does not begin. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "slurm/cluster/cluster.h"

/* A SIGTERM that arrives before the ranks have started reaches none of them, so
 * it is repeated until a worker has claimed the lease. */
static const double TERM_AGAIN_S = 5;
/* From SIGKILL to the ranks to scancel of the job: the batch step has to write
 * the exit file. */
static const double KILL_AFTER_HIT_S = 5;
/* Slurm itself takes KillWait, 30 s by default, to end a job. */
static const double KILL_AGAIN_S = 10;
/* A node that does not answer keeps its job completing until Slurm declares
 * it down: SlurmdTimeout, 300 s by default. */
static const double COMPLETING_MAX_S = 300;
static const double RETRY_S = 5; /* no memory for a command */

static bool slurm_answers(const struct cluster *c)
{
    return c->has_hello && !c->is_down && !c->is_dead;
}

/* ---- signals --------------------------------------------------------------
 */
static bool send_signal(struct cluster *c, struct cluster_attempt *a, int signo)
{
    /* Before the claim nothing would take the note of a cancellation. */
    bool is_cancel =
        signo == SIGTERM && a->is_released && a->is_cancelled && a->is_claimed;
    struct helper_cmd cmd = {.op = HELPER_SIGNAL,
                             .slurm_id = a->slurm_id,
                             .signo = signo,
                             .is_cancel = is_cancel};
    if (!cluster_send(c, a, &cmd, NULL))
        return false;
    a->signo = signo;
    return true;
}

static bool send_kill(struct cluster *c, struct cluster_attempt *a,
                      uint32_t slurm_id)
{
    struct helper_cmd cmd = {.op = HELPER_KILL, .slurm_id = slurm_id};
    return cluster_send(c, a, &cmd, NULL);
}

static void end_ranks(struct cluster *c, struct cluster_attempt *a,
                      double now_s)
{
    if (now_s < a->kill_s || !a->is_told_once) {
        if (a->is_told && a->is_claimed) {
            a->act_s = a->kill_s;
        } else if (send_signal(c, a, SIGTERM)) {
            /* slurmctld may have been away since the release. */
            if (!a->is_told_once)
                a->kill_s = fmax(a->kill_s, now_s + a->grace_s);
            a->is_told_once = true;
            a->act_s = fmin(now_s + TERM_AGAIN_S, a->kill_s);
        }
    } else if (!a->is_hit) {
        a->is_hit = send_signal(c, a, SIGKILL);
        a->act_s = a->is_hit ? now_s + KILL_AFTER_HIT_S : a->act_s;
    } else if (send_kill(c, a, a->slurm_id)) {
        a->act_s = now_s + KILL_AGAIN_S;
    }
}

/* A worker's claim is newer than a scan that shows its job pending. */
static bool has_ranks(const struct cluster_attempt *a)
{
    return a->phase == CLUSTER_SEEN &&
           (a->is == CLUSTER_RUNNING ||
            (a->is == CLUSTER_PENDING && a->is_claimed));
}

/* Whether there is a job to end: in sight, or just accepted. A job that may
 * have run is not killed unseen: its ranks have their grace period. */
static bool is_releasing(const struct cluster_attempt *a)
{
    if (!a->is_released || a->slurm_id == 0)
        return false;
    return (a->phase == CLUSTER_UNSURE && !a->may_have_run && !a->is_claimed) ||
           (a->phase == CLUSTER_SEEN &&
            (a->is == CLUSTER_PENDING || a->is == CLUSTER_RUNNING));
}

static void go_on_releasing(struct cluster *c, struct cluster_attempt *a,
                            double now_s)
{
    if (has_ranks(a))
        end_ranks(c, a, now_s);
    else if (send_kill(c, a, a->slurm_id))
        a->act_s = now_s + KILL_AGAIN_S;
}

static void go_on_signalling(struct cluster *c, struct cluster_attempt *a)
{
    int signo = __builtin_ctzll(a->signals) + 1;
    if (a->phase != CLUSTER_SEEN || a->is != CLUSTER_RUNNING)
        a->signals = 0; /* it has no ranks */
    else if (send_signal(c, a, signo))
        a->signals &= a->signals - 1;
}

/* A live job with its tag that is not, or not any more, the attempt. */
static const struct cluster_job *stray(const struct cluster *c,
                                       const struct cluster_attempt *a)
{
    bool is_known = a->phase == CLUSTER_ENDED ||
                    (a->phase == CLUSTER_SEEN && a->claimed_id > 0);
    const struct cluster_job *job =
        is_known ? cluster_jobs_next(c, a, NULL) : NULL;
    while (job &&
           ((job->is != CLUSTER_PENDING && job->is != CLUSTER_RUNNING) ||
            (a->phase == CLUSTER_SEEN && job->j.slurm_id == a->slurm_id)))
        job = cluster_jobs_next(c, a, job);
    return job;
}

/* ---- choose the next command ----------------------------------------------
 */
static bool wants_exit(const struct cluster_attempt *a)
{
    return a->phase == CLUSTER_READING ||
           (a->phase == CLUSTER_UNSURE && a->wants_exit);
}

static bool wants_limit(const struct cluster_attempt *a)
{
    return a->wants_limit && a->phase == CLUSTER_SEEN && a->slurm_id > 0 &&
           (a->is == CLUSTER_PENDING || a->is == CLUSTER_RUNNING);
}

static void send_limit(struct cluster *c, struct cluster_attempt *a)
{
    struct helper_cmd cmd = {
        .op = HELPER_LIMIT, .req = a->req, .slurm_id = a->slurm_id};
    a->wants_limit = !cluster_send(c, a, &cmd, NULL);
    a->limit_sent_s = a->req.limit_s;
}

void cluster_advance(struct cluster *c, struct cluster_attempt *a)
{
    double now_s = cluster_now(c);
    if (a->phase == CLUSTER_SEEN && now_s - a->completing_s >= COMPLETING_MAX_S)
        cluster_is_over(a);
    if (a->phase == CLUSTER_TO_SUBMIT && (a->is_released || a->must_not_start))
        cluster_end_unstarted(c, a);
    if (a->command > 0)
        return;
    if (wants_exit(a)) { /* does not involve Slurm */
        struct helper_cmd cmd = {.op = HELPER_READ_EXIT, .req = a->req};
        if (now_s >= a->retry_s)
            (void)cluster_send(c, a, &cmd, NULL);
        return;
    }
    if (!slurm_answers(c))
        return;
    const struct cluster_job *job;
    if (a->phase == CLUSTER_UNSURE && a->wants_recall) {
        struct helper_cmd cmd = {
            .op = HELPER_RECALL, .req = a->req, .slurm_id = a->slurm_id};
        if (now_s >= a->retry_s)
            (void)cluster_send(c, a, &cmd, NULL);
        return;
    }
    if (is_releasing(a) && now_s >= a->act_s)
        go_on_releasing(c, a, now_s);
    else if (a->signals != 0)
        go_on_signalling(c, a);
    else if (wants_limit(a) && now_s >= a->limit_again_s)
        send_limit(c, a);
    else if (now_s >= a->stray_s && (job = stray(c, a)) &&
             send_kill(c, a, job->j.slurm_id))
        a->stray_s = now_s + KILL_AGAIN_S;
}

void cluster_submit(struct cluster *c, struct cluster_attempt *a)
{
    struct error err = ERROR_INIT;
    struct helper_cmd cmd = {.op = HELPER_SUBMIT, .req = a->req};
    if (a->phase != CLUSTER_TO_SUBMIT || cluster_now(c) < a->retry_s)
        return;
    if (!slurm_answers(c)) {
        cluster_wait(c, a, ERR_UNAVAIL, "SlurmUnavailable: %s",
                     alloc_slurm_why_down(c, &err));
        return;
    }
    if (cluster_send(c, a, &cmd, &err))
        a->phase = CLUSTER_SUBMITTING;
    else if (err.code == ERR_NOMEM)
        a->retry_s = cluster_now(c) + RETRY_S;
    else if (err.code != ERR_NONE)
        cluster_end_refused(c, a, &err, false);
}

double cluster_next_s(const struct cluster *c, const struct cluster_attempt *a)
{
    double t_s = INFINITY;
    if (a->phase == CLUSTER_SEEN && !isnan(a->completing_s))
        t_s = a->completing_s + COMPLETING_MAX_S;
    if (a->command > 0 || !c->has_hello || c->is_dead)
        return t_s;
    if (wants_exit(a))
        return fmin(t_s, a->retry_s);
    if (c->is_down)
        return t_s;
    if (a->phase == CLUSTER_TO_SUBMIT ||
        (a->phase == CLUSTER_UNSURE && a->wants_recall))
        t_s = fmin(t_s, a->retry_s);
    if (is_releasing(a))
        t_s = fmin(t_s, a->act_s);
    if (wants_limit(a))
        t_s = fmin(t_s, a->limit_again_s);
    if (a->stray_s > -INFINITY && stray(c, a))
        t_s = fmin(t_s, a->stray_s);
    return t_s;
}
