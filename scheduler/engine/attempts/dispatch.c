/* dispatch.c - request attempts from the allocator, and end them.
 *
 * The engine acts only on durable state. A job with a change that is not
 * durable yet waits: a cancel that is undone must have ended nothing.
 *
 * Every call here may be repeated any number of times (alloc.h): (job, attempt)
 * is the key. So a crash before, during or after a call is repaired by
 * repeating the call. An unknown answer makes a job UNKNOWN, never a second
 * attempt: the engine repeats the request under the same key until it knows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/wire/wire.h"
#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"

/* A request for an attempt that is being ended must not start it. */
static enum alloc_ask way_to_ask(const struct job_record *rec)
{
    if (!rec->asked_before)
        return ALLOC_NEW;
    return eng_is_ending(rec) ? ALLOC_FIND : ALLOC_AGAIN;
}

/* ---- ask -------------------------------------------------------------------
 */
/* 64 bits: enough that no user can guess the mark of a job that does not exist
 * yet, and short enough for a comment that people read. */
enum { MARK_DIGITS = 16 };

enum { EXCLUDE_CAP = 1024 };

struct asking {
    char tag[160], dir[512], exclude[EXCLUDE_CAP];
    struct buf launch;
    struct alloc_req req;
};

#define FITS(dst, ...) \
    ((size_t)snprintf((dst), sizeof(dst), __VA_ARGS__) < sizeof(dst))

static int launch_text(const struct engine *e, const struct job_record *rec,
                       struct asking *a, struct error *err)
{
    const struct engine_conf *conf = e->parts.conf;
    const struct job *job = &rec->job;
    struct wire_launch *l = calloc(1, sizeof(*l));

    if (!l)
        return error_set(err, ERR_NOMEM, "out of memory");
    l->job = job->id;
    l->attempt = job->attempt;
    l->nodes = job->nodes;
    l->gpus_per_node = job->gpus / job->nodes;
    l->sweep = job->sweep;
    l->task = job->number;
    l->n_tasks = job->n_tasks;
    l->heartbeat_s = conf->heartbeat_s;
    memcpy(l->owner, job->owner, sizeof(job->owner));
    if (eng_secret(e, SECRET_TOKEN, job, l->token, err) < 0) {
        free(l);
        return -1;
    }
    bool fits = FITS(l->cluster, "%s", conf->cluster) &&
                FITS(l->url, "%s", conf->url) && FITS(l->dir, "%s", a->dir) &&
                FITS(l->job_dir, "%s", job->dir) &&
                FITS(l->user, "%s", job->user) &&
                FITS(l->parent, "%s", job->parent_name);
    /* A longer path is one that the specification has, too. */
    if (job->parent > 0 && !FITS(l->from, "%s", job->from))
        l->from[0] = '\0';
    int rc = fits ? wire_launch_encode(l, rec->own.spec, &a->launch, err)
                  : error_set(err, ERR_CONFIG,
                              "the jobs directory, url or cluster is too long");
    free(l);
    return rc;
}

/* All nodes that the job must avoid: its own list, and the drained nodes. */
static int exclude(const struct engine *e, const struct job *job,
                   struct asking *a, struct error *err)
{
    const struct engine_conf *conf = e->parts.conf;
    size_t len =
        (size_t)snprintf(a->exclude, sizeof(a->exclude), "%s", job->exclude);

    for (size_t i = 0; i < conf->n_drained; i++) {
        const char *node = conf->drained[i].node;
        if (len + strlen(node) + 2 > sizeof(a->exclude))
            return error_set(err, ERR_UNAVAIL,
                             "too many drained nodes for one request");
        len += (size_t)snprintf(a->exclude + len, sizeof(a->exclude) - len,
                                "%s%s", len > 0 ? "," : "", node);
    }
    return 0;
}

static int prepare(const struct engine *e, const struct job_record *rec,
                   struct asking *a, struct error *err)
{
    const struct engine_conf *conf = e->parts.conf;
    const struct job *job = &rec->job;
    char mark[ENGINE_SECRET_CAP];

    if (eng_secret(e, SECRET_MARK, job, mark, err) < 0)
        return -1;
    if (!FITS(a->tag, "mgpu:%s:%" PRIu64 ":%" PRId32 ":%.*s", conf->cluster,
              job->id, job->attempt, MARK_DIGITS, mark) ||
        !FITS(a->dir, "%s/%" PRId32, job->dir, job->attempt))
        return error_set(err, ERR_CONFIG, "the jobs directory is too long");
    if (exclude(e, job, a, err) < 0 || launch_text(e, rec, a, err) < 0)
        return -1;
    a->req = (struct alloc_req){
        .job = job->id,
        .attempt = job->attempt,
        .ask = way_to_ask(rec),
        .is_claimed = job->holder[0] != '\0',
        .native_id = job->native_id,
        .tag = a->tag,
        .name = job->name,
        .where = eng_where(conf, job, job->gpus / job->nodes),
        .nodes = job->nodes,
        .gpus_per_node = job->gpus / job->nodes,
        .limit_s = eng_names_limit(job, job->attempt_limit_s)
                       ? job->attempt_limit_s
                       : 0,
        .grace_s = job->grace_s,
        .uid = (uid_t)job->uid,
        .since = isfinite(job->intent_s) ? (int64_t)job->intent_s : 0,
        .dir = a->dir,
        .worker = conf->worker,
        .launch = buf_str(&a->launch),
    };
    a->req.where.exclude = a->exclude[0] ? a->exclude : NULL;
    if (job->gpu_type[0])
        a->req.where.gpu_type = job->gpu_type;
    return 0;
}

/* The answer is unknown or unusable: ask again later. */
static void ask_later(struct engine *e, struct job_record *rec,
                      const struct error *why)
{
    struct detail d = DETAIL_INIT;
    double at_s = eng_reconcile_at(e);

    if (rec->job.state == JOB_DISPATCHING && rec->job.native_id[0] == '\0') {
        detail_because(&d, "unknown whether it started: ", why->msg);
        if (eng_stage(e, rec, EV_UNKNOWN, -1, &d, NULL) < 0)
            at_s = eng_now(e) + 1;
    }
    rec->ask_at_s = at_s;
}

static bool may_pass(const struct error *why)
{
    return why->code == ERR_UNAVAIL || why->code == ERR_NOMEM ||
           why->code == ERR_TIMEOUT || why->code == ERR_BUSY;
}

/* Nothing was started. After a temporary failure the job is queued for another
 * attempt without counting a retry; other failures would repeat. An attempt
 * that is being ended, perhaps since a moment ago, is over. */
static void not_started(struct engine *e, struct job_record *rec,
                        const struct error *why)
{
    struct ending end = {.kind = ALLOC_REFUSED, .why = why->msg};
    struct detail d = DETAIL_INIT;
    int rc;

    if (!eng_is_ending(rec) && (may_pass(why) || why->code == ERR_LIMIT)) {
        d.exit_code = EXIT_NEVER_RAN;
        detail_because(&d, "could not be started: ", why->msg);
        rc = eng_stage(e, rec, EV_REQUEUE, -1, &d, NULL);
        rec->not_before_s = eng_reconcile_at(e);
        eng_lists_update(e, rec);
    } else {
        rc = eng_end(e, rec, &end, NULL);
    }
    if (rc < 0)
        rec->ask_at_s = eng_now(e) + 1;
}

static void ask(struct engine *e, struct job_record *rec)
{
    struct asking a = {.launch = BUF_INIT};
    struct error err = ERROR_INIT;

    int rc = prepare(e, rec, &a, &err);
    if (rc == 0)
        rc = e->parts.alloc->ops->request(e->parts.alloc, &a.req, &err);
    bool is_first = rec->job.state == JOB_DISPATCHING && !rec->asked_before;
    rec->is_unasked = false;
    /* Only now does the allocator know that its devices are allocated. */
    e->wants_plan = e->wants_plan || (rc == 0 && rec->is_resumed);
    /* An attempt that can never be requested can still be cancelled. */
    if (rc == 0 || !may_pass(&err))
        rec->is_resumed = false;
    if (rc == 0)
        rec->ask_at_s = INFINITY;
    else if (err.code == ERR_BUSY || !is_first)
        ask_later(e, rec, &err);
    else
        not_started(e, rec, &err);
    rec->asked_before = true;
    buf_clear(&a.launch);
}

/* ---- release -------------------------------------------------------------
 */
/* False: the allocator knows no such attempt, so the attempt is over. */
static bool release(struct engine *e, struct job_record *rec)
{
    struct alloc *a = e->parts.alloc;
    struct ending gone = {.kind = ALLOC_LOST,
                          .why = "the allocator knows no such attempt"};
    struct error err = ERROR_INIT;

    /* An unknown attempt is release()'s to tell. */
    if (rec->job.cancel_asked && a->ops->cancelled)
        (void)a->ops->cancelled(a, rec->job.id, rec->job.attempt, NULL);
    if (a->ops->release(a, rec->job.id, rec->job.attempt, eng_grace(rec),
                        &err) == 0) {
        rec->job.release_asked = true;
        return true;
    }
    if (err.code != ERR_NOTFOUND) {
        rec->release_at_s = eng_reconcile_at(e);
        return true;
    }
    if (eng_end(e, rec, &gone, NULL) < 0)
        rec->release_at_s = eng_now(e) + 1;
    return false;
}

/* ---- claims ---------------------------------------------------------------
 */
/* The claim is durable: any other holder is fenced permanently, and the
 * allocator may end everything else that it started for the attempt. */
static void tell_claim(struct engine *e, struct job_record *rec)
{
    struct alloc *a = e->parts.alloc;
    const struct job *job = &rec->job;
    struct error err = ERROR_INIT;

    rec->tell_at_s = INFINITY;
    if (!a->ops->claimed)
        return;
    const char *id = job->claim_names_id ? job->native_id : "";
    if (a->ops->claimed(a, job->id, job->attempt, id, &err) < 0 &&
        err.code != ERR_NOTFOUND)
        rec->tell_at_s = eng_reconcile_at(e);
}

/* An attempt that is being ended gets no warning: it has received a stronger
 * signal. */
static void warn(struct engine *e, struct job_record *rec)
{
    struct alloc *a = e->parts.alloc;
    const struct job *job = &rec->job;
    struct error err = ERROR_INIT;

    rec->warn_at_s = INFINITY;
    if (eng_is_ending(rec) || job->reported)
        return;
    if (a->ops->signal(a, job->id, job->attempt, job->warn_signal, &err) < 0 &&
        err.code != ERR_NOTFOUND)
        rec->warn_at_s = eng_reconcile_at(e);
}

static void tell_limit(struct engine *e, struct job_record *rec)
{
    struct alloc *a = e->parts.alloc;
    const struct job *job = &rec->job;
    double limit_s = isfinite(job->attempt_limit_s) ? job->attempt_limit_s : 0;
    struct error err = ERROR_INIT;

    rec->limit_at_s = INFINITY;
    /* A default is the scheduler's own. */
    bool is_its = limit_s > 0 && !eng_names_limit(job, limit_s);
    if (!a->ops->limit || eng_is_ending(rec) || job->reported || is_its)
        return;
    if (a->ops->limit(a, job->id, job->attempt, limit_s, &err) < 0 &&
        err.code != ERR_NOTFOUND)
        rec->limit_at_s = eng_reconcile_at(e);
}

static void one(struct engine *e, struct job_record *rec, double now_s)
{
    /* An attempt that was started before a restart of the daemon must be found
     * before it can be ended, with a request that starts nothing. */
    bool is_ending = eng_wants_release(rec);
    if (is_ending && rec->is_resumed && rec->ask_at_s <= now_s)
        ask(e, rec);
    if (is_ending && !rec->is_resumed) {
        if (rec->release_at_s > now_s || !release(e, rec) ||
            !rec->job.release_asked)
            return;
    }
    if (rec->ask_at_s <= now_s)
        ask(e, rec);
    if (!job_state_is_live(rec->job.state) || rec->is_resumed)
        return;
    if (rec->tell_at_s <= now_s)
        tell_claim(e, rec);
    if (rec->warn_at_s <= now_s)
        warn(e, rec);
    if (rec->limit_at_s <= now_s)
        tell_limit(e, rec);
}

/* ---- what was taken back --------------------------------------------------
 */
/* For an attempt from before a restart, the allocator first has to look for
 * it. */
static void drop(struct engine *e, struct job_record *rec)
{
    struct alloc *a = e->parts.alloc;
    struct asking q = {.launch = BUF_INIT};
    struct error err = ERROR_INIT;
    /* A pending attempt has nothing to save; one that may be running has. */
    double grace_s = rec->is_corrupt ? e->parts.conf->kill_grace_s : 0;
    int rc = 0;

    rec->is_unasked = false;
    if (rec->is_resumed) {
        rc = prepare(e, rec, &q, &err);
        q.req.ask = ALLOC_FIND;
        if (rc == 0)
            rc = a->ops->request(a, &q.req, &err);
        buf_clear(&q.launch);
    }
    if (rc == 0)
        rc = a->ops->release(a, rec->job.id, rec->dropped, grace_s, &err);
    if (rc < 0 && err.code != ERR_NOTFOUND) {
        e->retry_at_s = fmin(e->retry_at_s, eng_reconcile_at(e));
        return;
    }
    rec->dropped = 0;
    eng_lists_update(e, rec);
    rec->is_resumed = false;
    e->wants_plan = true;
}

/* An allocator with its own bookkeeping learns from the requests which devices
 * are allocated. If the engine skipped an attempt because a change of it is not
 * durable yet, the allocator would give its devices to others. */
static bool may_ask(const struct engine *e)
{
    for (size_t i = 0; i < e->lists.moving.n; i++) {
        const struct job_record *rec = e->lists.moving.at[i];
        if (rec->is_unasked && rec->is_saved &&
            (job_state_is_live(rec->job.state) || rec->dropped > 0))
            return false;
    }
    return true;
}

/* The first request for an attempt that this daemon has planned. */
static bool is_start(const struct job_record *rec, double now_s)
{
    return rec->job.state == JOB_DISPATCHING && !rec->asked_before &&
           !rec->is_saved && rec->ask_at_s <= now_s && !eng_is_ending(rec);
}

/* Requests the attempts in the order of their plan: they fit in that order, and
 * in a cluster's queue the first request goes first. */
static void ask_starts(struct engine *e, double now_s)
{
    struct job_record *next;
    uint64_t last = 0;

    do {
        next = NULL;
        for (size_t i = 0; i < e->lists.moving.n; i++) {
            struct job_record *rec = e->lists.moving.at[i];
            if (is_start(rec, now_s) && rec->changed > last &&
                (!next || rec->changed < next->changed))
                next = rec;
        }
        if (next) {
            last = next->changed;
            one(e, next, now_s);
        }
    } while (next);
}

void eng_dispatch(struct engine *e)
{
    double now_s = eng_now(e);
    struct job_record *rec = eng_next_moving(e, 0);

    if (!may_ask(e))
        return; /* the staged events are stored next, then this function is
                   called again */
    for (; rec; rec = eng_next_moving(e, rec->job.id)) {
        if (rec->dropped > 0 && !rec->is_saved)
            drop(e, rec);
        if (job_state_is_live(rec->job.state) && !rec->is_saved &&
            !is_start(rec, now_s))
            one(e, rec, now_s);
    }
    ask_starts(e, now_s);
}
