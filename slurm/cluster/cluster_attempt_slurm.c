/* cluster_attempt_slurm.c - the state machine of one attempt; see cluster.h.
 *
 * Three events drive it: a job with its tag has changed in Slurm
 * (cluster_look), its command was answered or the answer is lost
 * (cluster_reply, cluster_lose), a complete scan has ended (cluster_scanned).
 * cluster_advance() then sends the command that the phase requires, now or when
 * the helper and Slurm are available. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/cluster/cluster.h"

static const double RETRY_S = 5; /* after a temporary refusal */
/* A full disk stays full for a while, and may belong to a user with a thousand
 * jobs; each try costs a process. */
static const double DIR_RETRY_S = 30;
static const double AGAIN_S = 1; /* a signal that could not be sent */

/* ---- jobs in Slurm --------------------------------------------------------
 */
static void become_unsure(struct cluster_attempt *a)
{
    a->phase = CLUSTER_UNSURE;
    a->completing_s = NAN;
    a->reads = 0;
    a->retry_s = -INFINITY;
    cluster_unscanned(a);
}

void cluster_unscanned(struct cluster_attempt *a)
{
    a->absent_s = NAN;
    a->is_gone = a->wants_exit = a->wants_recall = a->has_file = false;
}

static void adopt(struct cluster_attempt *a, const struct helper_job *j)
{
    bool is_other = a->slurm_id != j->slurm_id;
    if (is_other || a->phase != CLUSTER_SEEN) {
        /* It may have been requeued without our seeing it. */
        if (is_other || !a->has_run)
            a->seen = *j;
        a->is = CLUSTER_PENDING;
        a->completing_s = NAN;
        a->place[0] = '\0';
    }
    if (is_other)
        a->has_run = a->was_granted = a->has_nice = false;
    a->phase = CLUSTER_SEEN;
    a->slurm_id = j->slurm_id;
    a->may_have_run = true;
    cluster_unscanned(a);
}

static void end_unstarted_again(struct cluster *c, struct cluster_attempt *a)
{
    cluster_end_forgotten(
        c, a, "Slurm has forgotten that it started job %" PRIu32, a->slurm_id);
}

/* A job that ran and is pending again was requeued, or slurmctld has forgotten
 * that it started it. The latter loses nothing before a claim. Slurm also
 * requeues a job that a node could not launch, which may be the job's fault:
 * that costs a retry. Once it was claimed, a person or a job of higher priority
 * wanted its end. */
static bool ends_requeued(struct cluster *c, struct cluster_attempt *a,
                          const struct cluster_job *job)
{
    if (job->j.restarts > a->seen.restarts)
        (a->is_claimed ? cluster_end_preempted : cluster_end_lost)(
            c, a, "Slurm job %" PRIu32 " was requeued", a->slurm_id);
    else if (a->is_claimed && a->has_run && job->is == CLUSTER_PENDING)
        end_unstarted_again(c, a);
    return a->phase == CLUSTER_ENDED;
}

static void grant(struct cluster *c, struct cluster_attempt *a,
                  const struct helper_job *j)
{
    bool has_moved = j->place[0] && strcmp(a->place, j->place) != 0;
    bool is_suspended = strcmp(j->state, "SUSPENDED") == 0;
    if (has_moved)
        memcpy(a->place, j->place, sizeof(a->place));
    if (a->was_granted && !has_moved && a->is_suspended == is_suspended)
        return;
    a->is_suspended = is_suspended;
    a->was_granted = true;
    a->why.code = ERR_NONE; /* report the reason if it is pending again */
    cluster_say(c, a, CLUSTER_SAY_GRANTED);
}

/* It started and ended between two scans: it has nodes, so it did run. */
static void grant_late(struct cluster *c, struct cluster_attempt *a,
                       const struct helper_job *j)
{
    if (a->has_run || !j->place[0])
        return;
    a->has_run = true;
    grant(c, a, j);
}

/* Slurm's reasons that free GPUs would not resolve. */
static bool is_held(const char *reason)
{
    static const char *const begins[] = {
        "QOS",           "Assoc",      "JobHeld",
        "Dependency",    "BeginTime",  "Licenses",
        "Reservation",   "Partition",  "BadConstraints",
        "AccountNot",    "InvalidQOS", "InvalidAccount",
        "MaxMemPerLimit"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (strncmp(reason, begins[i], strlen(begins[i])) == 0)
            return true;
    }
    return false;
}

/* A limit of what the job may have, which fewer GPUs, with their CPUs, memory
 * and nodes, may keep: "AssocGrpGRES", "QOSMaxNodePerUserLimit". Not one of how
 * many jobs there may be, of their time, or the least that one must have. */
static bool is_of_size(const char *reason)
{
    static const char *const of[] = {"GRES", "Node",    "Cpu",    "CPU",
                                     "Mem",  "Billing", "Minutes"};
    bool is_limit =
        strncmp(reason, "Assoc", 5) == 0 ||
        (strncmp(reason, "QOS", 3) == 0 && strncmp(reason, "QOSMin", 6) != 0);

    for (size_t i = 0; is_limit && i < sizeof(of) / sizeof(of[0]); i++)
        if (strstr(reason, of[i]))
            return true;
    return false;
}

/* Slurm computes the start anew every some seconds; it is news if it moves by
 * more than a user would tolerate. */
static const int64_t MOVED_S = 5;

static void expect(struct cluster *c, struct cluster_attempt *a,
                   int64_t expected)
{
    bool is_known = expected > 0 && a->expected > 0;

    if (expected == a->expected ||
        (is_known && llabs(expected - a->expected) <= MOVED_S))
        return;
    a->expected = expected;
    cluster_say(c, a, CLUSTER_SAY_WAITING);
}

void cluster_is_over(struct cluster_attempt *a)
{
    a->phase = CLUSTER_READING;
    a->reads = 0;
    a->retry_s = -INFINITY;
}

void cluster_look(struct cluster *c, struct cluster_attempt *a)
{
    if (a->phase == CLUSTER_ENDED)
        return;
    const struct cluster_job *job = cluster_jobs_pick(c, a);
    if (a->phase == CLUSTER_READING && (!job || job->j.slurm_id == a->slurm_id))
        return;
    if (!job) {
        if (a->phase == CLUSTER_SEEN)
            become_unsure(a);
        return;
    }
    if (a->phase == CLUSTER_SUBMITTING || a->phase == CLUSTER_READING)
        cluster_done(c, a);
    adopt(a, &job->j);
    if (ends_requeued(c, a, job))
        return;
    a->seen = job->j;
    a->is = job->is;
    if (job->is != CLUSTER_COMPLETING)
        a->completing_s = NAN;
    else if (isnan(a->completing_s))
        a->completing_s = cluster_now(c);
    if (job->is == CLUSTER_PENDING || job->is == CLUSTER_RUNNING)
        cluster_limit_seen(c, a, &job->j);
    if (job->is == CLUSTER_PENDING)
        cluster_nice_seen(c, a, job->j.nice);
    switch (job->is) {
    case CLUSTER_PENDING: {
        const char *reason = job->j.reason;
        bool has_one = reason[0] && strcmp(reason, "None") != 0;
        a->was_lost = a->was_lost || a->has_run;
        a->has_run = a->was_granted = false;
        a->is_over_size = is_of_size(reason);
        cluster_wait(c, a, is_held(reason) ? ERR_LIMIT : ERR_BUSY, "Slurm(%s)",
                     has_one ? reason : "Pending");
        expect(c, a, job->j.expected);
        /* Keep the order of events: do not report the grant afterwards. */
        if (a->unsaid & ~(unsigned)CLUSTER_SAY_GRANTED)
            a->unsaid &= ~(unsigned)CLUSTER_SAY_GRANTED;
        break;
    }
    case CLUSTER_RUNNING:
        a->has_run = true;
        grant(c, a, &job->j);
        break;
    case CLUSTER_COMPLETING:
        grant_late(c, a, &job->j);
        break;
    case CLUSTER_OVER:
        grant_late(c, a, &job->j);
        cluster_is_over(a);
        break;
    }
}

/* ---- scans ----------------------------------------------------------------
 */
/* The first scan without the attempt triggers the read of its exit file; the
 * end of a job that ended long ago is then known at once.
 *
 * A claimed attempt did run, even if no scan has shown it running. The first
 * scan after the claim may have begun before it; if the next scan also shows it
 * pending, Slurm has forgotten that it started it, and would start it again. */
void cluster_scanned(struct cluster *c, struct cluster_attempt *a)
{
    double now_s = cluster_now(c);
    if (a->phase == CLUSTER_SEEN && a->is == CLUSTER_PENDING && a->is_claimed &&
        ++a->waits >= 2) {
        end_unstarted_again(c, a);
        return;
    }
    if (a->phase != CLUSTER_UNSURE || c->is_blind)
        return;
    if (isnan(a->absent_s)) {
        a->absent_s = now_s;
        a->wants_exit = a->may_have_run;
    } else if (!a->is_gone && now_s - a->absent_s >= c->reconcile_after_s) {
        a->is_gone = true;
        a->wants_exit = a->may_have_run;
        if (!a->may_have_run)
            cluster_absent(c, a, &(struct helper_news){.booted = 0});
    }
}

/* ---- answers --------------------------------------------------------------
 */
/* A submit failed temporarily. If the cause is the user's file system, free
 * GPUs do not help: say so. */
static void try_later(struct cluster *c, struct cluster_attempt *a,
                      const struct error *why)
{
    bool is_away = why->code == ERR_UNAVAIL || why->code == ERR_TIMEOUT;
    bool is_dir = why->code == ERR_IO;
    a->phase = CLUSTER_TO_SUBMIT;
    a->retry_s = cluster_now(c) + (is_dir ? DIR_RETRY_S : RETRY_S);
    cluster_wait(c, a, is_dir ? ERR_LIMIT : why->code, "%s: %s",
                 is_away  ? "SlurmUnavailable"
                 : is_dir ? "JobDirectory"
                          : "SlurmBusy",
                 why->msg);
}

static void submitted(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *n)
{
    if (a->phase != CLUSTER_SUBMITTING && a->phase != CLUSTER_UNSURE)
        return; /* its job came into sight before the answer */
    if (n->is_ok) {
        become_unsure(a);
        a->slurm_id = n->slurm_id;
        cluster_wait(c, a, ERR_BUSY, "Slurm(Submitted)");
        cluster_look(c, a);
    } else if (!n->is_sure) {
        become_unsure(a);
        cluster_wait(c, a, ERR_BUSY,
                     "SlurmUnknown: perhaps submitted, looking for it: %s",
                     n->why.msg);
    } else if (a->is_released || a->must_not_start) {
        cluster_end_unstarted(c, a);
    } else if (cluster_may_pass(&n->why)) {
        try_later(c, a, &n->why);
    } else {
        struct error why = n->why;
        bool is_of_size = why.code == ERR_LIMIT;
        if (is_of_size)
            why.code = ERR_BUSY; /* the code that alloc.h prescribes */
        cluster_end_refused(c, a, &why, is_of_size);
    }
}

/* A SIGTERM that slurmctld did not answer may have reached no rank. */
static void not_sent(struct cluster *c, struct cluster_attempt *a,
                     const struct error *why)
{
    bool is_away = why->code == ERR_UNAVAIL || why->code == ERR_TIMEOUT;
    a->act_s = a->stray_s = cluster_now(c) + AGAIN_S;
    if (is_away && !a->is_told)
        a->is_told_once = false;
}

void cluster_reply(struct cluster *c, struct cluster_attempt *a,
                   const struct helper_news *n)
{
    bool is_awaited = n->id == a->command;
    enum helper_op op = a->op;
    if (is_awaited)
        cluster_done(c, a);
    if (n->id == a->submit)
        submitted(c, a, n);
    else if (is_awaited && op == HELPER_READ_EXIT)
        cluster_exit_read(c, a, n);
    else if (is_awaited && op == HELPER_RECALL)
        cluster_recalled(c, a, n);
    else if (is_awaited && op == HELPER_LIMIT)
        cluster_limit_set(c, a, n);
    else if (is_awaited && !n->is_ok && cluster_may_pass(&n->why))
        not_sent(c, a, &n->why);
    else if (is_awaited && op == HELPER_SIGNAL && n->is_ok)
        a->is_told = a->is_told || (a->is_released && a->signo == SIGTERM);
}

void cluster_lose(struct cluster *c, struct cluster_attempt *a, const char *why)
{
    if (a->command == 0)
        return;
    a->wants_limit = a->wants_limit || a->op == HELPER_LIMIT;
    cluster_done(c, a);
    if (a->phase != CLUSTER_SUBMITTING)
        return;
    become_unsure(a);
    cluster_wait(c, a, ERR_BUSY,
                 "SlurmUnknown: perhaps submitted, looking for it: "
                 "mgpu-slurm-helper %s",
                 why);
}
