/* attempt_end.c - decide how an attempt ended, and what happens to its job.
 *
 * The first row that applies decides (docs/engine.md has it as a table):
 *
 *   cancelled by a person      CANCELLED, 130 by its user, 143 by another
 *   ended by somebody else,    COMPLETED, 0
 *   but had finished
 *   told to leave its devices  another attempt without a retry
 *   its time limit passed, or  TIMEOUT, 124
 *   the cluster's scheduler
 *   ended it for its limit,
 *   or its warning ended it
 *   cancelled in the cluster   CANCELLED, 143
 *   refused, or not started    HELD, until a person releases it
 *   given up after its report  as it reported
 *   a GPU of it has failed,    NODE_FAIL, 125
 *   as the allocator or the
 *   worker reports
 *   preempted in the cluster,  another attempt without a retry
 *   or lost by its scheduler
 *   lost, or given up by us    NODE_FAIL or FAILED, 125
 *   killed by a signal, but    COMPLETED, 0
 *   reported 0
 *   stopped by nobody that     FAILED, 143
 *   is known, and saved
 *   killed by a signal         FAILED, 128 + the signal (125 if unclaimed)
 *   its worker was fenced      NODE_FAIL, 125
 *   never claimed its lease    FAILED, 125
 *   exited with 0              COMPLETED, 0, if its worker reported 0;
 *                              FAILED with the code that was reported;
 *                              FAILED, 125, without a report
 *   its plan does not fit      another attempt on more GPUs, without a retry,
 *   the memory of a GPU        if its range has more
 *   exited with a code         FAILED with the code reported, else its own
 *
 * If retry.on of the job names such an end and the job has retries left, the
 * engine queues the job again, with a backoff, instead of this end: or_again().
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "jobs/spec/retry_rule.h"
#include "scheduler/engine/attempts/end_evidence.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/rules/attempt_retry.h"

struct verdict {
    enum job_event ev;
    struct detail d;
    bool excludes; /* a retry rule says: not on these nodes again */
};

static void describe_signal(int32_t signo, char *ret, size_t cap)
{
    const char *name = sigabbrev_np(signo);
    (void)snprintf(ret, cap, "killed by signal %" PRId32 "%s%s%s", signo,
                   name ? " (SIG" : "", name ? name : "", name ? ")" : "");
}

/* Requeues the job if it is to be retried after such an end and has retries
 * left; otherwise returns the given end. */
static struct verdict or_again(const struct job *job, enum spec_retry after,
                               struct verdict v)
{
    char why[2 * JOB_REASON_CAP], wait[40] = "";
    double wait_s = attempt_retry_wait_s(job);
    const struct rule_end end = {
        .exit_code = after == RETRY_EXIT ? v.d.exit_code : -1,
        .signal = after == RETRY_SIGNAL ? v.d.signal : 0,
        .reason = v.d.why,
    };
    enum rule_action action;

    if (!attempt_retry_is_due(job, after, &end, &action))
        return v;
    v.excludes = action == RULE_EXCLUDE;
    v.d.wait_ms = (int32_t)(1000 * wait_s);
    if (wait_s >= 1)
        (void)snprintf(wait, sizeof(wait), " after %.0f s", wait_s);
    (void)snprintf(why, sizeof(why), "retry %" PRId32 " of %" PRId32 "%s: %s",
                   job->retries + 1, job->retry_max, wait, v.d.why);
    v.ev = EV_REQUEUE;
    v.d.retry = 1;
    text_fit(v.d.why, sizeof(v.d.why), why);
    return v;
}

static struct verdict make(enum job_event ev, int32_t exit_code, int32_t signo,
                           const char *why)
{
    struct verdict v = {.ev = ev, .d = DETAIL_INIT};
    v.d.exit_code = exit_code;
    v.d.signal = signo > 0 ? signo : -1;
    text_fit(v.d.why, sizeof(v.d.why), why);
    return v;
}

/* The worker waited for the daemon until its own deadline, and did nothing. */
static const char nobody_there[] =
    "its worker could not reach the daemon to claim its lease";

/* The daemon knows another attempt than the one that the worker belongs to, or
 * another claim of it. */
static const char not_the_one[] =
    "its worker was fenced: another worker has the attempt, or the daemon does "
    "not know the attempt any more";

/* Somebody on its machine, or the machine when it was shut down. */
static const char stopped_by_nobody[] =
    "was told to stop by SIGTERM, not by mgpu, and saved its work";

static struct verdict exited(const struct engine *e,
                             const struct job_record *rec,
                             const struct ending *end)
{
    const struct job *job = &rec->job;
    const char *said = job->reported && job->reason[0] ? job->reason : NULL;
    char why[JOB_REASON_CAP];

    if (!job->reported && end->exit_code == EXIT_FENCED)
        return or_again(job, RETRY_NODE_FAIL,
                        make(EV_LOST, EXIT_NEVER_RAN, 0, not_the_one));
    if (!end_is_claimed(job)) {
        (void)snprintf(why, sizeof(why),
                       "exited with %" PRId32
                       " before its worker claimed its lease",
                       end->exit_code);
        if (end->exit_code == EXIT_NOT_NOW)
            text_copy(why, sizeof(why), nobody_there);
        struct verdict v = make(EV_FAIL, EXIT_NEVER_RAN, 0, why);
        return end->exit_code == EXIT_NOT_NOW
                   ? or_again(job, RETRY_NODE_FAIL, v)
                   : v;
    }
    if (end_was_saved(job))
        return or_again(job, RETRY_SIGNAL,
                        make(EV_FAIL, EXIT_SIGNAL + SIGTERM, SIGTERM,
                             said ? said : stopped_by_nobody));
    /* The same size would be refused again. */
    if (job->reported && strcmp(job->cause, "memory") == 0)
        return make(eng_refused_has_larger(e, rec) ? EV_REQUEUE : EV_FAIL,
                    job->report_code, 0, said ? said : "memory");
    if (job->reported && job->report_code != 0)
        return or_again(job, RETRY_EXIT,
                        make(EV_FAIL, job->report_code, 0,
                             said ? said : "its worker reported a failure"));
    if (end->exit_code != 0) {
        (void)snprintf(why, sizeof(why), "exited with %" PRId32,
                       end->exit_code);
        return or_again(job, RETRY_EXIT, make(EV_FAIL, end->exit_code, 0, why));
    }
    if (!job->reported)
        return make(EV_FAIL, EXIT_NEVER_RAN, 0,
                    "the worker ended without its final report");
    return make(EV_FINISH, 0, 0, said ? said : "");
}

static struct verdict expired(const struct engine *e,
                              const struct job_record *rec,
                              const struct ending *end)
{
    const struct job *job = &rec->job;
    char why[JOB_REASON_CAP] = "time limit of its partition reached";

    if (!job->limit_hit && end_heeded_warning(job, end))
        (void)snprintf(why, sizeof(why),
                       "ended by the warning before its time limit of %.0f s",
                       job->attempt_limit_s);
    else if (isfinite(job->attempt_limit_s) && end_is_slurms_limit(e, rec, end))
        (void)snprintf(why, sizeof(why),
                       "time limit in Slurm reached, before the job's own of "
                       "%.0f s",
                       job->attempt_limit_s);
    else if (isfinite(job->attempt_limit_s))
        attempt_retry_limit_reason(job->attempt_limit_s, why, sizeof(why));
    return or_again(job, RETRY_TIME_LIMIT,
                    make(EV_EXPIRE, EXIT_TIME_LIMIT, end->signal, why));
}

/* A program may exit with that code by itself. */
static bool is_ended_by_log(const struct job *job)
{
    char on_limit[END_WORD_CAP];
    end_spec_word(job, "logs", "on_limit", on_limit);
    return strcmp(on_limit, "fail") == 0;
}

/* Also for an attempt that had completed: a user who wants this to be a failure
 * wants it in every case. */
static struct verdict printed_too_much(const struct job *job)
{
    char why[JOB_REASON_CAP], max[END_WORD_CAP];
    int64_t bytes;
    end_spec_word(job, "logs", "max_bytes", max);
    if (parse_size(max, &bytes, NULL) < 0)
        bytes = 0; /* of a specification that is damaged */
    (void)snprintf(why, sizeof(why),
                   "printed more than the %" PRId64 " bytes of logs.max_bytes",
                   bytes);
    return or_again(job, RETRY_EXIT, make(EV_FAIL, ALLOC_EXIT_LOG, 0, why));
}

/* All ranks had agreed that they were done, and their rows were stored: only
 * the shutdown of MPI was left to fail. */
static struct verdict done_and_died(const struct job *job, int32_t signo)
{
    char how[80], why[JOB_REASON_CAP + 100];
    describe_signal(signo, how, sizeof(how));
    (void)snprintf(why, sizeof(why), "%s%scompleted, then %s", job->reason,
                   job->reason[0] ? "; " : "", how);
    return make(EV_FINISH, 0, 0, why);
}

static struct verdict decide(const struct engine *e,
                             const struct job_record *rec,
                             const struct ending *from)
{
    static const struct ending by_itself = {.kind = ALLOC_EXITED};
    const struct job *job = &rec->job;
    const struct ending seen = end_without_the_kill(job, from), *end = &seen;
    struct verdict v;
    char why[JOB_REASON_CAP];

    if (job->cancel_asked) {
        bool own = job->cancel_uid == job->uid;
        return make(EV_KILLED, own ? EXIT_CANCELLED : EXIT_CANCELLED_BY_ADMIN,
                    end->signal,
                    own ? "cancelled by its user"
                        : "cancelled by an administrator");
    }
    bool is_limit = job->limit_hit ||
                    (end->kind == ALLOC_EXITED && end->by == ALLOC_BY_LIMIT);
    bool is_taken = job->requeue_asked || is_limit || rec->give_up ||
                    end->kind == ALLOC_LOST;
    if (is_taken && end_has_finished(job))
        return exited(e, rec, &by_itself);
    /* Whatever the exit code is: many programs exit with 0 when they are told
     * to stop. */
    if (job->requeue_asked && !job->limit_hit)
        return make(EV_REQUEUE, EXIT_NEVER_RAN, end->signal, job->reason);
    if (is_limit)
        return expired(e, rec, end);
    if (end->kind == ALLOC_EXITED && end->by == ALLOC_BY_OTHER)
        return make(EV_KILLED, EXIT_CANCELLED_BY_ADMIN, end->signal,
                    end->why && end->why[0] ? end->why : "cancelled in Slurm");
    if (end->kind == ALLOC_EXITED && end->exit_code == ALLOC_EXIT_LOG &&
        is_ended_by_log(job))
        return printed_too_much(job);
    /* It was done: if anything ended it afterwards, it was the engine's own
     * kill. */
    if (end->kind == ALLOC_EXITED && rec->give_up == eng_was_done)
        return exited(e, rec, &by_itself);
    if (end_was_warned(e, rec, end) || end_heeded_warning(job, end))
        return expired(e, rec, end);
    if (end_is_fault(job, end) && !end_is_success(job)) {
        v = make(EV_LOST, EXIT_NEVER_RAN, end->signal,
                 end->by == ALLOC_BY_FAULT ? end->why : job->reason);
        return or_again(job, RETRY_NODE_FAIL, v);
    }
    if (end->kind == ALLOC_REFUSED) {
        v = make(EV_FAIL, EXIT_NEVER_RAN, 0, "");
        detail_because(&v.d, "could not be started: ", end->why);
        return v;
    }
    if (end->kind == ALLOC_LOST && end_failed_before(job, end))
        return exited(e, rec, end);
    if (end->kind == ALLOC_LOST) {
        bool is_preempted = end->by == ALLOC_BY_PREEMPTION;
        bool is_free = is_preempted || end->is_forgotten;
        v = make(is_free ? EV_REQUEUE : EV_LOST, EXIT_NEVER_RAN, 0, "");
        detail_because(&v.d, is_preempted ? "" : "lost: ", end->why);
        return is_free ? v : or_again(job, RETRY_NODE_FAIL, v);
    }
    if (rec->give_up) {
        text_copy(why, sizeof(why), rec->give_up);
        if (rec->give_up == eng_was_stuck)
            eng_stall_why(e, rec, eng_now(e), why, sizeof(why));
        return or_again(job, RETRY_STALLED,
                        make(EV_FAIL, EXIT_NEVER_RAN, end->signal, why));
    }
    if (end_is_success(job) && end_signal(end) > 0)
        return done_and_died(job, end_signal(end));
    if (end->signal > 0) {
        describe_signal(end->signal, why, sizeof(why));
        v = make(EV_FAIL,
                 end_is_claimed(job) ? EXIT_SIGNAL + end->signal
                                     : EXIT_NEVER_RAN,
                 end->signal, why);
        return or_again(job, RETRY_SIGNAL, v);
    }
    return exited(e, rec, end);
}

/* ---- where it is not to run again ------------------------------------------
 */
static bool is_down(const struct engine *e, const char *name, size_t len)
{
    for (size_t i = 0; i < e->n_nodes; i++)
        if (strncmp(e->nodes[i].name, name, len) == 0 &&
            e->nodes[i].name[len] == '\0')
            return e->nodes[i].is_up == 0;
    return false;
}

/* From "n1:0,1 n2:0,1" the nodes that are down now, and the node on which a
 * worker reports a failed device; if the job had only one node, that node in
 * any case. With several nodes and no such sign, the node at fault is
 * unknown. */
static void nodes_at_fault(const struct engine *e, const struct job *job,
                           char *ret, size_t cap)
{
    size_t n = 0;

    ret[0] = '\0';
    for (const char *p = job->place; *p;) {
        size_t word = strcspn(p, " "), len = strcspn(p, ": ");
        bool is_named = strlen(job->fault_node) == len && len > 0 &&
                        strncmp(job->fault_node, p, len) == 0;
        if (len > 0 && (job->nodes == 1 || is_named || is_down(e, p, len)) &&
            n + len + 2 <= cap)
            n += (size_t)snprintf(ret + n, cap - n, "%s%.*s", n > 0 ? "," : "",
                                  (int)len, p);
        p += word;
        p += strspn(p, " ");
    }
}

/* Does nothing if the remaining nodes could never hold the job. */
static void exclude(const struct engine *e, const struct job_record *rec,
                    struct detail *d)
{
    struct job elsewhere = rec->job;
    char nodes[sizeof(d->exclude)];
    size_t len = strlen(elsewhere.exclude);

    nodes_at_fault(e, &rec->job, nodes, sizeof(nodes));
    if (nodes[0] == '\0')
        return;
    if (len + strlen(nodes) + 2 > sizeof(elsewhere.exclude))
        len = 0;
    (void)snprintf(elsewhere.exclude + len, sizeof(elsewhere.exclude) - len,
                   "%s%s", len > 0 ? "," : "", nodes);
    if (eng_feasibility_check(e, &elsewhere, NULL) == 0)
        text_copy(d->exclude, sizeof(d->exclude), nodes);
}

/* Why it could not start, and would not start the next time; NULL: it did
 * start, or that is unknown. */
static const char *refusal(const struct job_record *rec,
                           const struct ending *end)
{
    bool never_ran = end->kind == ALLOC_EXITED && !end_is_claimed(&rec->job) &&
                     end->signal == 0;
    if (eng_is_ending(rec))
        return NULL;
    if (end->kind == ALLOC_REFUSED)
        return end->why ? end->why : "";
    if (never_ran && end->exit_code == ALLOC_EXIT_NO_LAUNCHER)
        return "mpirun or srun cannot be run (see mgpu-stat --logs)";
    if (never_ran && end->exit_code == EXIT_NO_SECRET)
        return "secret not readable (see mgpu-stat --logs)";
    return NULL;
}

/* A permanent refusal repeats, whatever the number of retries. The job does not
 * end: a person removes the cause, and releases the job. */
static int refuse(struct engine *e, struct job_record *rec, const char *why,
                  struct error *err)
{
    struct detail d = DETAIL_INIT, held = DETAIL_INIT;

    d.exit_code = EXIT_NEVER_RAN;
    detail_because(&d, "could not be started: ", why);
    detail_because(&held, "Refused: ", d.why);
    text_copy(held.held, sizeof(held.held), job_held_name(HELD_REFUSED));
    if (eng_stage(e, rec, EV_REQUEUE, -1, &d, err) < 0)
        return -1;
    return eng_stage(e, rec, EV_HOLD, -1, &held, err);
}

int eng_end(struct engine *e, struct job_record *rec, const struct ending *end,
            struct error *err)
{
    /* The hook may stage the worker's report, so it comes first. A refused
     * attempt left nothing to read and must not wait for the hook: by the time
     * that the hook is ready, the fact that nothing was started is lost. */
    if (end->kind != ALLOC_REFUSED && e->on_exit &&
        e->on_exit(e->exit_arg, &rec->job, err) < 0)
        return -1;
    const char *why = refusal(rec, end);
    if (why)
        return refuse(e, rec, why, err);
    struct verdict v = decide(e, rec, end);
    if (end->cores_ms > 0) {
        v.d.cpu_ms = end->cpu_ms;
        v.d.cores_ms = end->cores_ms;
    }
    double ago_s = eng_ended_ago_s(e, rec, end);
    if (ago_s > 0)
        v.d.ended_ms = (int64_t)ceil(1000 * (eng_wall(e) - ago_s));
    bool is_nodes =
        end->kind == ALLOC_LOST || rec->give_up || end_is_fault(&rec->job, end);
    if (v.ev == EV_REQUEUE && rec->job.requeue_asked && !rec->job.limit_hit)
        v.d.left_ms = eng_limit_left_ms(e, rec, end);
    if (v.ev == EV_REQUEUE && v.d.retry == 1 &&
        (v.excludes || (rec->job.exclude_node && is_nodes)))
        exclude(e, rec, &v.d);
    return eng_stage(e, rec, v.ev, -1, &v.d, err);
}
