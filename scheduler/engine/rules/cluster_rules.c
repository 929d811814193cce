/* cluster_rules.c - what the cluster's scheduler would not grant: more GPUs
 * than a quota leaves, and nodes that a reservation needs before the job would
 * end.
 *
 * The allocator tells limits and use of accounts and QOSes (alloc_quota), and
 * the reservations to come on each node. The views leave such sizes and nodes
 * out, so that no attempt is given up for them. The cluster has the last word:
 * what is not told here is learned from its refusals (resize_patience.c).
 *
 * As in Slurm, a limit of a QOS replaces the same limit of the association, and
 * the limits of a user and of an account within a QOS come on top.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "jobs/text/scalar.h"
#include "scheduler/engine/account.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/explain_sizes.h"
#include "scheduler/engine/rules/rules.h"

/* A resize has an end and a start more than the attempt that it continues, and
 * Slurm's limit is rounded up to minutes. */
static const double RESIZE_SLACK_S = 60;

/* ---- rows ------------------------------------------------------------------
 */
size_t eng_quotas_of(const struct engine *e, const struct alloc_quota **ret)
{
    struct alloc *a = e->parts.alloc;

    *ret = NULL;
    return a->ops->quotas ? a->ops->quotas(a, ret) : 0;
}

static bool is_same(const char *a, const char *b)
{
    return strcasecmp(a ? a : "", b ? b : "") == 0;
}

/* Whether "a,b" has the word. */
static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ",");
        if (n == len && strncmp(p, word, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* The association of the job: the one of its partition, else of all. NULL: not
 * told. out ret_any the user has an association at all */
static const struct alloc_quota *assoc_of(const struct alloc_quota *q, size_t n,
                                          const struct job *job,
                                          const struct alloc_where *w,
                                          bool *ret_any)
{
    const struct alloc_quota *best = NULL;

    *ret_any = false;
    for (size_t i = 0; i < n; i++) {
        if (q[i].kind != ALLOC_QUOTA_ACCOUNT || (int64_t)q[i].uid != job->uid)
            continue;
        *ret_any = true;
        bool is_it =
            w->account ? is_same(q[i].name, w->account) : q[i].is_default;
        bool is_of_part =
            q[i].partition[0] && has_word(w->partition, q[i].partition);
        if (is_it && (is_of_part || (!q[i].partition[0] && !best)))
            best = &q[i];
    }
    return best;
}

/* in uid, group  of a QOS_USER or a QOS_ACCOUNT */
static const struct alloc_quota *row_of(const struct alloc_quota *q, size_t n,
                                        enum alloc_quota_kind kind,
                                        const char *name, int64_t uid,
                                        const char *group)
{
    for (size_t i = 0; i < n; i++)
        if ((enum alloc_quota_kind)q[i].kind == kind &&
            is_same(q[i].name, name) &&
            (kind != ALLOC_QUOTA_QOS_USER || (int64_t)q[i].uid == uid) &&
            (kind != ALLOC_QUOTA_QOS_ACCOUNT || is_same(q[i].group, group)))
            return &q[i];
    return NULL;
}

/* ---- quotas ----------------------------------------------------------------
 */
/* The tightest limit so far. */
struct most {
    int64_t gpus;
    char *why; /* [JOB_REASON_CAP] */
};

static void at_most(struct most *io, int64_t gpus, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void at_most(struct most *io, int64_t gpus, const char *fmt, ...)
{
    va_list ap;

    if (gpus >= io->gpus)
        return;
    io->gpus = gpus > 0 ? gpus : 0;
    va_start(ap, fmt);
    (void)vsnprintf(io->why, JOB_REASON_CAP, fmt, ap);
    va_end(ap);
}

/* Jobs that count together: all of an account, or only those of the user's own
 * association, which may be that of a partition. */
struct share {
    const struct engine *e;
    const struct alloc_quota *q, *assoc; /* q: all rows */
    size_t n;
    const struct job *of;
    bool is_user;
};

/* Whether a job of the user and the account has the same association. */
static bool is_of_assoc(const struct share *s, const struct job *job)
{
    struct alloc_where w = eng_where(s->e->parts.conf, job, 1);
    const struct alloc_where own = eng_where(s->e->parts.conf, s->of, 1);
    bool has_any;

    if ((w.partition && own.partition &&
         strcmp(w.partition, own.partition) == 0) ||
        (!w.partition && !own.partition))
        return true; /* without a search */
    w.account = s->assoc->name;
    return assoc_of(s->q, s->n, job, &w, &has_any) == s->assoc;
}

static bool shares(const struct share *s, const struct job *job)
{
    const char *theirs = engine_account(s->e, job);
    bool is_own = job->uid == s->of->uid;

    if (theirs ? !is_same(theirs, s->assoc->name) : !is_own)
        return false;
    return !s->is_user || (is_own && is_of_assoc(s, job));
}

static int32_t at_least(int32_t listed, int32_t known)
{
    return known > listed ? known : listed;
}

/* GPUs that are in use. A list is read at times, and does not show yet what the
 * engine knows to be granted. */
static int32_t in_use(const struct share *s, int32_t listed)
{
    const struct engine *e = s->e;
    int32_t n = 0;

    for (size_t i = 0; i < e->lists.moving.n; i++) {
        const struct job *job = &e->lists.moving.at[i]->job;
        if (job_state_is_live(job->state) && job->native_id[0] &&
            shares(s, job))
            n += job->gpus;
    }
    return at_least(listed, n);
}

/* GPUs that were requested for other jobs, or will be when they have left for a
 * larger size: no list shows them yet. */
static int32_t in_flight(const struct share *s)
{
    const struct engine *e = s->e;
    int32_t n = 0;

    for (size_t i = 0; i < e->lists.moving.n; i++) {
        const struct job_record *rec = e->lists.moving.at[i];
        const struct job *job = &rec->job;
        bool is_asked = job->state == JOB_DISPATCHING && !job->native_id[0];
        int32_t more = is_asked ? job->gpus : job->resize.gpus - job->gpus;
        if (job->id == s->of->id || !job_state_is_live(job->state) ||
            more <= 0 || (is_asked && rec->is_held))
            continue;
        if (shares(s, job))
            n += more;
    }
    return n;
}

/* Minutes that Slurm reserves for an attempt with this limit; 0: it has none.
 */
static int64_t minutes_of(const struct engine *e, const struct job *job,
                          double limit_s)
{
    double margin_s =
        eng_names_limit(job, limit_s) ? e->parts.conf->limit_margin_s : 0;

    return isfinite(limit_s) ? (int64_t)ceil((limit_s + margin_s) / 60) : 0;
}

static void by_minutes(struct most *io, const struct alloc_quota *q,
                       int64_t minutes, int32_t has)
{
    if (minutes > 0 && q->job_minutes >= 0)
        at_most(io, q->job_minutes / minutes,
                "%" PRId64 " GPU-minutes for each job of %s", q->job_minutes,
                q->name);
    if (minutes > 0 && q->minutes_left >= 0)
        at_most(io, q->minutes_left / minutes + has,
                "%" PRId64 " GPU-minutes are left to %s", q->minutes_left,
                q->group[0] ? q->group : q->name);
}

static void by_qos(struct most *io, const struct alloc_quota *q, size_t n,
                   const struct alloc_quota *qos, const struct job *job,
                   const char *account, int32_t has)
{
    const struct alloc_quota *user =
        row_of(q, n, ALLOC_QUOTA_QOS_USER, qos->name, job->uid, NULL);
    const struct alloc_quota *of =
        row_of(q, n, ALLOC_QUOTA_QOS_ACCOUNT, qos->name, 0, account);

    int32_t by_user = at_least(user ? user->group_used : 0, has);
    int32_t by_account = at_least(of ? of->group_used : 0, has);

    if (qos->user_gpus >= 0)
        at_most(io, qos->user_gpus - by_user + has,
                "%" PRId32 " GPUs for each user of QOS %s, %" PRId32 " in use",
                qos->user_gpus, qos->name, by_user);
    if (qos->account_gpus >= 0)
        at_most(io, qos->account_gpus - by_account + has,
                "%" PRId32 " GPUs for each account of QOS %s, %" PRId32
                " in use",
                qos->account_gpus, qos->name, by_account);
}

/* The tightest limit of the associations from the user's to the root. */
static void by_group(struct most *io, struct share s, int32_t has)
{
    const struct alloc_quota *q = s.assoc;

    s.is_user = q->group_is_user;
    int32_t used = in_use(&s, q->group_used);
    at_most(io, q->group_gpus - used + has - in_flight(&s),
            "%" PRId32 " GPUs in all for %saccount %s, %" PRId32 " in use",
            q->group_gpus, s.is_user ? "the user in " : "", q->group, used);
}

int32_t eng_quota_most(const struct engine *e, const struct job *job,
                       int32_t has, double limit_s, char why[JOB_REASON_CAP])
{
    const struct alloc_where w = eng_where(e->parts.conf, job, 1);
    const struct alloc_quota *q;
    size_t n = eng_quotas_of(e, &q);
    struct most most = {.gpus = INT32_MAX, .why = why};
    bool has_any;

    why[0] = '\0';
    const struct alloc_quota *assoc = assoc_of(q, n, job, &w, &has_any);
    if (!assoc)
        return INT32_MAX;
    const struct alloc_quota *qos =
        row_of(q, n, ALLOC_QUOTA_QOS, w.qos ? w.qos : assoc->qos, 0, NULL);
    const struct share all = {
        .e = e, .q = q, .n = n, .assoc = assoc, .of = job};
    int64_t minutes = minutes_of(e, job, limit_s);

    if (qos && qos->group_gpus >= 0)
        at_most(&most,
                qos->group_gpus - at_least(qos->group_used, has) + has -
                    in_flight(&all),
                "%" PRId32 " GPUs in all for QOS %s, %" PRId32 " in use",
                qos->group_gpus, qos->name, at_least(qos->group_used, has));
    else if (assoc->group_gpus >= 0)
        by_group(&most, all, has);
    if (qos && qos->job_gpus >= 0)
        at_most(&most, qos->job_gpus, "%" PRId32 " GPUs for each job of QOS %s",
                qos->job_gpus, qos->name);
    else if (assoc->job_gpus >= 0)
        at_most(&most, assoc->job_gpus,
                "%" PRId32 " GPUs for each job of account %s", assoc->job_gpus,
                assoc->name);
    if (qos)
        by_qos(&most, q, n, qos, job, assoc->name, has);
    by_minutes(&most,
               qos && (qos->minutes_left >= 0 || qos->job_minutes >= 0) ? qos
                                                                        : assoc,
               minutes, has);
    return (int32_t)most.gpus;
}

/* ---- reservations to come --------------------------------------------------
 */
/* When the next attempt of the job would end at the latest, since 1970. */
static double runs_until_s(const struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;
    double left_s = job->attempt_limit_s, slack_s = 0;

    if (job_state_is_live(job->state) && !isnan(rec->start_now_s)) {
        left_s = fmax(1, left_s - (eng_now(e) - rec->start_now_s));
        slack_s = RESIZE_SLACK_S;
    }
    return isfinite(left_s)
               ? eng_wall(e) + 60.0 * (double)minutes_of(e, job, left_s) +
                     slack_s
               : (double)INFINITY;
}

/* Whether a reservation that is not the job's takes the node before until_s. */
static bool is_closed(const struct engine *e, size_t i, const char *own,
                      double until_s)
{
    const struct alloc_node *node = &e->nodes[i];

    return node->next_starts > 0 && (double)node->next_starts < until_s &&
           !has_word(own, node->next_reservation);
}

uint64_t eng_closed_classes(const struct engine *e,
                            const struct job_record *rec)
{
    const struct node_classes *c = &e->classes;
    uint64_t closed = 0;

    if (!c->has_next)
        return 0;
    double until_s = runs_until_s(e, rec);
    const char *own = eng_where(e->parts.conf, &rec->job, 1).reservation;
    for (int32_t k = 0; k < c->n; k++)
        if (is_closed(e, c->first[k], own, until_s))
            closed |= UINT64_C(1) << (unsigned)k;
    for (size_t i = 0; c->n == POLICY_CLASSES && i < e->n_nodes; i++)
        if (c->of[i] == POLICY_CLASSES - 1 && is_closed(e, i, own, until_s))
            closed |= UINT64_C(1) << (POLICY_CLASSES - 1);
    return closed;
}

bool eng_say_closed(const struct engine *e, const struct job_record *rec,
                    uint64_t classes, char why[JOB_REASON_CAP])
{
    uint64_t closed = eng_closed_classes(e, rec) & classes;
    const struct alloc_node *node = NULL;
    char limit[SCALAR_CAP] = "no time limit", at[32] = "";

    for (size_t i = 0; closed != 0 && i < e->n_nodes; i++)
        if ((closed >> (unsigned)e->classes.of[i] & 1) != 0 &&
            e->nodes[i].next_starts > 0 &&
            (!node || e->nodes[i].next_starts < node->next_starts))
            node = &e->nodes[i];
    if (!node)
        return false;
    time_t t = (time_t)node->next_starts;
    struct tm tm;
    if (gmtime_r(&t, &tm))
        (void)strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (isfinite(rec->job.attempt_limit_s))
        (void)scalar_show_duration(limit, rec->job.attempt_limit_s);
    (void)snprintf(why, JOB_REASON_CAP,
                   "Reservation: %.28s begins at %.20s on %.28s, too early for "
                   "%s%.16s",
                   node->next_reservation, at, node->name,
                   isfinite(rec->job.attempt_limit_s) ? "a limit of "
                                                      : "a job with ",
                   limit);
    return true;
}

/* ---- what does not exist ---------------------------------------------------
 */
static bool has_kind(const struct alloc_quota *q, size_t n,
                     enum alloc_quota_kind kind)
{
    for (size_t i = 0; i < n; i++)
        if ((enum alloc_quota_kind)q[i].kind == kind)
            return true;
    return false;
}

static bool has_reservation(const struct alloc_quota *q, size_t n,
                            const char *names)
{
    for (size_t i = 0; i < n; i++)
        if (q[i].kind == ALLOC_QUOTA_RESERVATION && has_word(names, q[i].name))
            return true;
    return false;
}

/* Whether the job names an account, a QOS or a reservation that the cluster
 * does not have. out why */
static bool is_unknown(const struct engine *e, const struct job *job,
                       char why[JOB_REASON_CAP])
{
    const struct alloc_where w = eng_where(e->parts.conf, job, 1);
    const struct alloc_quota *q;
    size_t n = eng_quotas_of(e, &q);
    bool has_any;

    if (n > 0 && w.account && !assoc_of(q, n, job, &w, &has_any) && has_any) {
        (void)snprintf(why, JOB_REASON_CAP,
                       "%.31s has no association with account '%.60s'; see "
                       "sacctmgr show assoc",
                       job->user, w.account);
        return true;
    }
    if (n > 0 && w.qos && has_kind(q, n, ALLOC_QUOTA_QOS) &&
        !row_of(q, n, ALLOC_QUOTA_QOS, w.qos, 0, NULL)) {
        (void)snprintf(why, JOB_REASON_CAP, "Slurm shows no QOS '%.60s'",
                       w.qos);
        return true;
    }
    if (e->classes.has_partitions && w.reservation &&
        !has_reservation(q, n, w.reservation)) {
        (void)snprintf(why, JOB_REASON_CAP,
                       "Slurm shows no reservation '%.60s'", w.reservation);
        return true;
    }
    return false;
}

bool engine_cluster_says(const struct engine *e, const struct job *job,
                         int32_t gpus, char ret[JOB_REASON_CAP])
{
    const struct job_record *rec = eng_find(e, job->id);
    bool is_live = job_state_is_live(job->state);
    char why[JOB_REASON_CAP];

    if (!rec || job_state_is_final(job->state))
        return false;
    if (!is_live && is_unknown(e, job, why)) {
        (void)snprintf(ret, JOB_REASON_CAP, "refuses it: %.140s", why);
        return true;
    }
    int32_t most = eng_quota_most(e, job, is_live ? job->gpus : 0,
                                  job->attempt_limit_s, why);
    if (gpus > most) {
        (void)snprintf(ret, JOB_REASON_CAP,
                       "grants at most %" PRId32 " GPUs now: %.120s", most,
                       why);
        return true;
    }
    return !is_live && job->gpus_max > 0 &&
           eng_say_closed(e, rec, UINT64_MAX, ret);
}
