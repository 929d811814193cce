/* submit_prepare.c - from a specification to the submit event of a job.
 *
 * There are three steps: read the specification; write a draft, which is the
 * text of the submit event and the record that this text describes; enter the
 * job under an id. The first two do not need the state of the engine and cost
 * 0.1 ms, so any thread may do them in advance, and the event loop enters a
 * sweep of thousands with some microseconds per job. What was not done in
 * advance is done here.
 *
 * A job is what is stored of it: the engine fills the record by parsing the
 * text that it wrote, as a replay does, and not from what the text was written
 * from. Only the engine knows the id of a sweep, the directory and the time. It
 * inserts the first two into the text and into the record when it enters the
 * job; the time is part of the event itself.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/text/text.h"
#include "scheduler/engine/account.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/rules/rules.h"
#include "scheduler/engine/table/program_class.h"

/* Limit of a job's directory: workers get it, followed by the attempt, in 512
 * bytes (wire.h). */
enum { DIR_MAX = 480 };

/* ---- reading --------------------------------------------------------------
 */
int engine_read(const char *spec, const char *owner, struct engine_read **ret,
                struct error *err)
{
    static const struct engine_conf later = {.kill_grace_s = 0};
    struct engine_read *r = calloc(1, sizeof(*r));

    if (!r || !(r->rec = malloc(sizeof(*r->rec)))) {
        free(r);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    job_record_init(r->rec, 1);
    if (eng_from_spec(spec, &later, &r->rec->job, &r->rec->own, err) < 0) {
        engine_read_destroy(r);
        return -1;
    }
    text_copy(r->rec->job.owner, sizeof(r->rec->job.owner), owner ? owner : "");
    r->from = r->rec->own.from; /* its directory is not known yet */
    r->rec->own.from = NULL;
    r->rec->job.from = NULL;
    *ret = r;
    return 0;
}

void engine_read_destroy(struct engine_read *r)
{
    if (!r)
        return;
    job_record_free(r->rec);
    free(r->text);
    free(r->from);
    free(r);
}

/* ---- drafts --------------------------------------------------------------
 */
/* For a spec without a draft: sets the user, and the values that the spec
 * leaves to the configuration. */
static void say_whose(struct engine_read *r, const struct engine_submit *req,
                      double kill_grace_s, double wall_s)
{
    struct job *job = &r->rec->job;

    if (job->grace_s <= 0)
        job->grace_s = kill_grace_s;
    if (job->begin_s < 0)
        job->begin_s = wall_s - job->begin_s;
    job->uid = req->uid;
    text_copy(job->user, sizeof(job->user), req->user);
    if (r->rec->own.program)
        program_class_set_user(r->rec->own.program, req->user);
}

static int say_task(struct engine_read *r, const struct engine_sweep *sweep,
                    size_t i, struct error *err)
{
    struct job_record *rec = r->rec;
    char *vary = strdup(sweep->tasks[i].vary);

    if (!vary)
        return error_set(err, ERR_NOMEM, "out of memory");
    free(rec->own.vary);
    rec->job.vary = rec->own.vary = vary;
    rec->job.task = (int32_t)i;
    rec->job.number = eng_task_number(vary, rec->job.task);
    rec->job.n_tasks = (int32_t)sweep->n;
    rec->job.max_parallel = sweep->max_parallel;
    rec->job.stop_on_fail = sweep->stop_on_fail;
    return 0;
}

/* Offset of the sweep's id in the text, which is 1 so far; 0: no sweep. A
 * string in the text has no unescaped quote, and only the spec, which comes
 * first, has other keys. */
static size_t find_sweep(const char *text, size_t spec_len)
{
    static const char before[] = "\"sweep\":{\"id\":";
    const char *at = strstr(text + spec_len, before);
    return at ? (size_t)(at - text) + sizeof(before) - 1 : 0;
}

/* Replaces the record by one that is parsed from the text. */
static int draft(struct engine_read *r, const struct engine_submit *req,
                 struct error *err)
{
    struct job job = r->rec->job;
    const struct texts own = r->rec->own;
    struct job_record *rec;
    char *text;

    job.id = 1 + (uint64_t)job.task;
    job.sweep = job.n_tasks > 0;
    job.spec = own.spec;
    job.key = req->key;
    job.dir = NULL;
    text_copy(job.digest, sizeof(job.digest),
              job.task == 0 && req->digest ? req->digest : "");
    if (submit_encode(&job, own.class, own.program, &text, err) < 0)
        return -1;
    rec = malloc(sizeof(*rec));
    if (!rec) {
        free(text);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    job_record_init(rec, job.id);
    rec->own.spec = own.spec; /* lets eng_take_submit() find the end of the
                                 spec */
    size_t sweep_at = job.sweep > 0 ? find_sweep(text, strlen(own.spec)) : 0;
    if (eng_take_submit(rec, text, err) < 0) {
        rec->own.spec = NULL;
        job_record_free(rec);
        free(text);
        return -1;
    }
    rec->job.uid = req->uid;
    r->rec->own.spec = NULL;
    job_record_free(r->rec);
    r->rec = rec;
    r->text = text;
    r->sweep_at = sweep_at;
    return 0;
}

int engine_draft(const struct engine_submit *req,
                 const struct engine_sweep *sweep, double kill_grace_s,
                 double wall_s, struct error *err)
{
    size_t n = sweep ? sweep->n : 1;

    for (size_t i = 0; i < n; i++) {
        struct engine_read *r = sweep ? sweep->tasks[i].read : req->read;
        if (r->is_used || r->text)
            return error_set(err, ERR_INVAL,
                             "a parsed spec can be used for one draft only");
        say_whose(r, req, kill_grace_s, wall_s);
        if ((sweep && say_task(r, sweep, i, err) < 0) || draft(r, req, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- checks --------------------------------------------------------------
 */
static int check_fits(const struct engine *e, const struct job *job,
                      struct fit_memo *memo, struct error *err)
{
    struct error why = ERROR_INIT;

    if (eng_feasibility_check_as(e, job, memo, &why) == 0 ||
        (job->force_queue && why.code == ERR_INVAL))
        return 0;
    return error_set(err, why.code, "%s", why.msg);
}

/* The configuration may have changed since the spec was read, so its values are
 * filled in here. A draft keeps the values from when it was made. */
static int take_read(const struct engine *e, const struct engine_submit *req,
                     struct engine_read *r, struct error *err)
{
    if (r->is_used)
        return error_set(err, ERR_INVAL,
                         "a parsed spec can be used for one submit only");
    r->is_used = true;
    if (!r->text)
        say_whose(r, req, e->parts.conf->kill_grace_s, eng_wall(e));
    else if (r->rec->job.uid != req->uid ||
             strcmp(r->rec->own.key, req->key) != 0)
        return error_set(err, ERR_INVAL,
                         "a draft can be used for its own submit only");
    return 0;
}

int eng_prepare(struct engine *e, const struct engine_submit *req,
                struct engine_read *io, struct prepare_memo *memo,
                struct error *err)
{
    if (take_read(e, req, io, err) < 0)
        return -1;
    const struct job *job = &io->rec->job;
    return check_fits(e, job, memo ? memo->fit : NULL, err) < 0 ||
                   eng_check_depends(e, job, err) < 0 ||
                   parent_find(e, req->uid, io, memo, err) < 0 ||
                   eng_check_limits(e, job, err) < 0
               ? -1
               : 0;
}

int eng_prepare_task(struct engine *e, const struct engine_submit *req,
                     const struct engine_sweep *sweep, size_t i,
                     struct engine_read *io, struct prepare_memo *memo,
                     struct error *err)
{
    if (eng_prepare(e, req, io, memo, err) < 0)
        return -1;
    if (!io->text)
        return say_task(io, sweep, i, err);
    const struct job *job = &io->rec->job;
    return job->task == (int32_t)i && job->n_tasks == (int32_t)sweep->n
               ? 0
               : error_set(err, ERR_INVAL,
                           "a draft can be used for its own sweep only");
}

/* ---- entering --------------------------------------------------------------
 */
/* The source of user names is not the author of this configuration: a user name
 * must be exactly one component of a path. */
static bool is_path_part(const char *name)
{
    return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strchr(name, '/');
}

static bool is_utf8(const char *s)
{
    const char *end = s + strlen(s);
    while (s < end)
        if (text_next(&s, end) < 0)
            return false;
    return true;
}

/* The directory of the new job, for all its time. *ret stays NULL if it is the
 * common one. */
static int choose_dir(const struct engine *e, const struct engine_submit *req,
                      uint64_t id, char **ret, struct error *err)
{
    const char *from = e->parts.conf->user_jobs_dir;
    struct buf b = BUF_INIT;
    int rc = 0;

    if (!from)
        return 0;
    if (strstr(from, "%u") && !is_path_part(req->user))
        return error_set(err, ERR_INVAL,
                         "a user named '%.40s' can have no directory",
                         req->user);
    for (const char *p = from; rc == 0 && *p; p++) {
        bool is_user = strncmp(p, "%u", 2) == 0;
        rc = is_user ? buf_addstr(&b, req->user, err) : buf_add(&b, p, 1, err);
        p += is_user;
    }
    if (rc == 0)
        rc = buf_addf(&b, err, "/%" PRIu64, id);
    if (rc == 0 && b.len > DIR_MAX)
        rc = error_set(err, ERR_INVAL, "'%.80s...' is too long for a job",
                       b.data);
    if (rc == 0 && !is_utf8(b.data))
        rc = error_set(err, ERR_INVAL, "the directory is not valid UTF-8");
    char *dir = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (!dir)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    *ret = dir;
    return 0;
}

/* Adds a last member to the text: a string, or, for NULL, a number. */
static int put_value(struct engine_read *r, const char *name, const char *value,
                     uint64_t number, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = buf_add(&b, r->text, strlen(r->text) - 1, err);

    if (rc == 0)
        rc = buf_addf(&b, err, ",\"%s\":", name);
    if (rc == 0)
        rc = value ? text_add_json(&b, value, err)
                   : buf_addf(&b, err, "%" PRIu64, number);
    if (rc == 0)
        rc = buf_addstr(&b, "}", err);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (!text)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    free(r->text);
    r->text = text;
    return 0;
}

static int put_member(struct engine_read *r, const char *name,
                      const char *value, struct error *err)
{
    return put_value(r, name, value, 0, err);
}

/* Sets the job that it goes on from, and the directory, in the record and in
 * the text. */
static int put_parent(struct engine_read *r, struct error *err)
{
    struct job *job = &r->rec->job;

    if (!r->from)
        return 0;
    if (put_member(r, "from", r->from, err) < 0)
        return -1;
    free(r->rec->own.from);
    job->from = r->rec->own.from = r->from;
    r->from = NULL;
    if (r->parent == 0)
        return 0;
    job->parent = r->parent;
    memcpy(job->parent_name, r->parent_name, sizeof(job->parent_name));
    return put_value(r, "parent", NULL, r->parent, err) < 0 ||
                   put_member(r, "parent_name", r->parent_name, err) < 0
               ? -1
               : 0;
}

/* Sets the directory in the record and in the text. */
static int put_dir(const struct engine *e, const struct engine_submit *req,
                   struct engine_read *r, struct error *err)
{
    struct job_record *rec = r->rec;

    if (eng_set_dir(rec, e->parts.conf->jobs_dir, err) < 0 ||
        choose_dir(e, req, rec->job.id, &rec->own.dir, err) < 0)
        return -1;
    if (!rec->own.dir)
        return 0;
    rec->job.dir = rec->own.dir;
    return put_member(r, "dir", rec->own.dir, err);
}

/* Sets the cluster's default account, if it counts for the job. */
static int put_account(const struct engine *e, struct engine_read *r,
                       struct error *err)
{
    struct job *job = &r->rec->job;
    const char *name =
        job->where.account ? NULL : eng_default_account(e, job->uid);

    if (!name)
        return 0;
    text_copy(job->account, sizeof(job->account), name);
    return put_member(r, "account", job->account, err);
}

int eng_default_limit(struct engine *e, struct job_record *rec,
                      struct error *err)
{
    const struct job *job = &rec->job;
    const char *partition = "";
    struct detail d = DETAIL_INIT;

    if (job->is_run || (isfinite(job->limit_s) && !job->limit_is_default))
        return 0;
    double limit_s = eng_partition_limit_s(e, job, &partition);
    if (limit_s <= job->limit_s && limit_s >= job->limit_s)
        return 0;
    d.limit_ms = isfinite(limit_s) ? (int64_t)(1000 * limit_s) : 0;
    d.limit_default = isfinite(limit_s);
    (void)snprintf(d.why, sizeof(d.why), "the default of %s %.60s",
                   isfinite(limit_s) ? "partition" : "its partition: none",
                   partition);
    return eng_stage(e, rec, EV_UPDATE, -1, &d, err);
}

/* Sets the id of the sweep, in place of the "1" in the text. */
static int put_sweep(struct engine_read *r, uint64_t sweep, struct error *err)
{
    char id[24];
    size_t n = (size_t)snprintf(id, sizeof(id), "%" PRIu64, sweep);
    size_t rest = strlen(r->text + r->sweep_at + 1) + 1;
    char *text = realloc(r->text, r->sweep_at + n + rest);

    if (!text)
        return error_set(err, ERR_NOMEM, "out of memory");
    r->text = text;
    memmove(text + r->sweep_at + n, text + r->sweep_at + 1, rest);
    memcpy(text + r->sweep_at, id, n);
    r->rec->job.sweep = sweep;
    return 0;
}

int eng_enter(struct engine *e, const struct engine_submit *req,
              struct engine_read *io, uint64_t sweep, struct job_record **ret,
              struct error *err)
{
    if (!io->text && draft(io, req, err) < 0)
        return -1;
    struct job_record *rec = io->rec;
    size_t n = e->n_events;
    rec->job.id = e->last_id + 1;
    if ((sweep > 0 && put_sweep(io, sweep, err) < 0) ||
        put_dir(e, req, io, err) < 0 || put_account(e, io, err) < 0 ||
        put_parent(io, err) < 0 || eng_add(e, rec, err) < 0)
        return -1;
    char *text = io->text;
    io->rec = NULL;
    io->text = NULL;
    if (rec->job.task == 0 && eng_add_key(e, rec, err) < 0) {
        free(text);
        eng_remove(e, rec);
        return -1;
    }
    if (eng_stage_submit(e, rec, text, err) < 0) {
        eng_remove(e, rec);
        return -1;
    }
    eng_begin_one(e, rec);
    if (eng_default_limit(e, rec, err) < 0) {
        eng_stage_undo(e, n);
        return -1;
    }
    *ret = rec;
    return 0;
}
