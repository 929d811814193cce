/* ends.c - how an attempt ended, and what becomes of its job.
 *
 * The first line that fits decides (docs/engine.md has it as a table):
 *
 *   cancelled by somebody      CANCELLED, 130 its user, 143 another
 *   its time limit passed, or  TIMEOUT, 124
 *   the cluster's scheduler
 *   ended it for its limit
 *   ended by somebody there    CANCELLED, 143
 *   refused, or not started    FAILED, 125
 *   lost, but reported 0       COMPLETED, 0
 *   given up after its report  as it reported
 *   lost, or given up by us    again while retries are left, else
 *                              NODE_FAIL or FAILED, 125
 *   died of a signal           again while retries are left, else
 *                              FAILED, 128 + the signal (125 if unclaimed)
 *   never claimed its lease    FAILED, 125; again if nobody was there to
 *                              claim it from
 *   exited with 0              COMPLETED, 0, if its worker reported 0;
 *                              FAILED with the code that was reported;
 *                              FAILED, 125, without a report
 *   exited with a code         FAILED with the code reported, else its own
 *
 * A plain exit code is the program's own verdict: it is never retried.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/engine/core.h"

struct verdict {
    enum job_event ev;
    struct detail d;
};

static bool is_claimed(const struct job *job)
{
    return job->holder[0] != '\0';
}

static void describe_signal(int32_t signo, char *ret, size_t cap)
{
    const char *name = sigabbrev_np(signo);
    (void)snprintf(ret, cap, "killed by signal %" PRId32 "%s%s%s", signo,
                   name ? " (SIG" : "", name ? name : "", name ? ")" : "");
}

/* Once more if the job has retries left, else the given end. */
static struct verdict or_again(const struct job *job, struct verdict v)
{
    char why[2 * JOB_REASON_CAP];

    if (job->retries >= job->retry_max)
        return v;
    (void)snprintf(why, sizeof(why), "retry %" PRId32 " of %" PRId32 ": %s",
                   job->retries + 1, job->retry_max, v.d.why);
    v.ev = EV_REQUEUE;
    v.d.retry = 1;
    text_copy(v.d.why, sizeof(v.d.why), why);
    return v;
}

static struct verdict make(enum job_event ev, int32_t exit_code, int32_t signo,
                           const char *why)
{
    struct verdict v = {.ev = ev, .d = DETAIL_INIT};
    v.d.exit_code = exit_code;
    v.d.signal = signo > 0 ? signo : -1;
    text_copy(v.d.why, sizeof(v.d.why), why);
    return v;
}

/* It waited for as long as a worker waits, and did nothing. */
static const char nobody_there[] =
    "its worker could not reach the daemon to claim its lease";

static struct verdict exited(const struct job *job, const struct ending *end)
{
    const char *said = job->reported && job->reason[0] ? job->reason : NULL;
    char why[JOB_REASON_CAP];

    if (!is_claimed(job)) {
        (void)snprintf(why, sizeof(why),
                       "exited with %" PRId32
                       " before its worker claimed its lease",
                       end->exit_code);
        if (end->exit_code == EXIT_NOT_NOW)
            text_copy(why, sizeof(why), nobody_there);
        struct verdict v = make(EV_FAIL, EXIT_NEVER_RAN, 0, why);
        return end->exit_code == EXIT_NOT_NOW ? or_again(job, v) : v;
    }
    if (job->reported && job->report_code != 0)
        return make(EV_FAIL, job->report_code, 0,
                    said ? said : "its worker reported a failure");
    if (end->exit_code != 0) {
        (void)snprintf(why, sizeof(why), "exited with %" PRId32,
                       end->exit_code);
        return make(EV_FAIL, end->exit_code, 0, why);
    }
    if (!job->reported)
        return make(EV_FAIL, EXIT_NEVER_RAN, 0,
                    "the worker ended without its final report");
    return make(EV_FINISH, 0, 0, said ? said : "");
}

/* Ended by the warning that the cluster's scheduler sends when the daemon,
 * which sends its own earlier, was away. When exactly it ended is not known. */
static bool was_warned(const struct engine *e, const struct entry *en,
                       const struct ending *end)
{
    bool is_term =
        end->signal == SIGTERM ||
        (end->signal == 0 && end->exit_code == EXIT_SIGNAL + SIGTERM);
    return end->kind == ALLOC_EXITED && is_term && !isnan(en->start_now_s) &&
           en->start_now_s + en->job.limit_s <= eng_now(e);
}

static struct verdict expired(const struct job *job, const struct ending *end)
{
    char why[JOB_REASON_CAP] = "time limit of its partition reached";

    if (isfinite(job->limit_s))
        (void)snprintf(why, sizeof(why), "time limit of %.0f s reached",
                       job->limit_s);
    return make(EV_EXPIRE, EXIT_TIME_LIMIT, end->signal, why);
}

static struct verdict decide(const struct engine *e, const struct entry *en,
                             const struct ending *end)
{
    const struct job *job = &en->job;
    struct verdict v;
    char why[JOB_REASON_CAP];

    if (job->cancel_asked) {
        bool own = job->cancel_uid == job->uid;
        return make(EV_KILLED, own ? EXIT_CANCELLED : EXIT_CANCELLED_BY_ADMIN,
                    end->signal,
                    own ? "cancelled by its user"
                        : "cancelled by an administrator");
    }
    if (job->limit_hit ||
        (end->kind == ALLOC_EXITED && end->by == ALLOC_BY_LIMIT))
        return expired(job, end);
    if (end->kind == ALLOC_EXITED && end->by == ALLOC_BY_OTHER)
        return make(EV_KILLED, EXIT_CANCELLED_BY_ADMIN, end->signal,
                    end->why && end->why[0] ? end->why : "cancelled in Slurm");
    /* It was done: what ended it afterwards was our own kill, if anything. */
    if (end->kind == ALLOC_EXITED && en->give_up == eng_was_done) {
        const struct ending by_itself = {.kind = ALLOC_EXITED};
        return exited(job, &by_itself);
    }
    if (was_warned(e, en, end))
        return expired(job, end);
    if (end->kind == ALLOC_REFUSED) {
        v = make(EV_FAIL, EXIT_NEVER_RAN, 0, "");
        detail_because(&v.d, "could not be started: ", end->why);
        return v;
    }
    if (end->kind == ALLOC_LOST && job->reported && job->report_code == 0)
        return exited(job, end);
    if (end->kind == ALLOC_LOST) {
        v = make(EV_LOST, EXIT_NEVER_RAN, 0, "");
        detail_because(&v.d, "lost: ", end->why);
    } else if (en->give_up) {
        v = make(EV_FAIL, EXIT_NEVER_RAN, end->signal, en->give_up);
    } else if (end->signal > 0) {
        describe_signal(end->signal, why, sizeof(why));
        v = make(EV_FAIL,
                 is_claimed(job) ? EXIT_SIGNAL + end->signal : EXIT_NEVER_RAN,
                 end->signal, why);
    } else {
        return exited(job, end);
    }
    return or_again(job, v);
}

int eng_end(struct engine *e, struct entry *en, const struct ending *end,
            struct error *err)
{
    /* The hook may stage the worker's report, so it comes first. What was
     * refused left nothing to read, and must not wait: by the time the hook
     * is ready nobody knows any more that nothing was started. */
    if (end->kind != ALLOC_REFUSED && e->on_exit &&
        e->on_exit(e->exit_arg, &en->job, err) < 0)
        return -1;
    struct verdict v = decide(e, en, end);
    return eng_stage(e, en, v.ev, -1, &v.d, err);
}
