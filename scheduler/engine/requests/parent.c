/* parent.c - the job from whose checkpoint a new job goes on; see
 * train.resume_from in mgpu-job(5).
 *
 * The engine knows jobs and where they write, and reads no file of a user: it
 * turns the number of a job into the directory of its checkpoints, and checks
 * that the job is of the same user. The ranks, which run as the user, choose
 * the newest checkpoint in it when they start. A job that has ended writes no
 * more, so this is the newest one at the submit, too. Both the number and the
 * directory are in the submit's event: a job that continues one that was
 * removed keeps them. If a user releases the new job while the other one still
 * runs, the ranks take the newest checkpoint that is complete when they start:
 * one gets its name only then.
 *
 * A directory is looked for among the directories of the daemon's jobs, whose
 * names are numbers. One that a user named (train.output_dir) belongs to a job
 * that nobody but the user can tell. A number in a path may be a year: an
 * archived job, with all of its sweep, is reloaded only if the directory is
 * where the daemon makes those of jobs.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/schema/interpolate.h"
#include "jobs/spec/spec.h"
#include "jobs/text/parent_ref.h"
#include "jobs/wire/wire.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/store/archive.h"

/* The job whose number is the name behind the '/'; 0: it can be none. */
static uint64_t number_at(const struct engine *e, const char *slash)
{
    char *end = NULL;
    if (slash[1] < '1' || slash[1] > '9')
        return 0;
    const uint64_t id = strtoull(slash + 1, &end, 10);
    return (*end == '/' || *end == '\0') && id <= e->last_id ? id : 0;
}

/* Whether path[n] is `dir`, in which %u is the user's name. */
static bool is_dir(const char *path, size_t n, const char *dir,
                   const char *user)
{
    const char *end = path + n;
    while (*dir) {
        const bool is_user = strncmp(dir, "%u", 2) == 0;
        const char *part = is_user ? user : dir;
        const size_t len = is_user ? strlen(user) : 1;
        if ((size_t)(end - path) < len || memcmp(path, part, len) != 0)
            return false;
        path += len;
        dir += is_user ? 2 : 1;
    }
    return path == end;
}

uint64_t parent_id_of(const struct engine *e, const struct engine_read *r)
{
    const struct engine_conf *c = e->parts.conf;
    const char *user = r->rec->job.user;
    struct parent_ref ref;
    if (!r->from)
        return 0;
    if (parent_ref_parse(r->from, &ref) == PARENT_JOB)
        return ref.job;
    for (const char *at = strchr(r->from, '/'); at; at = strchr(at + 1, '/')) {
        const size_t n = (size_t)(at - r->from);
        const uint64_t id = number_at(e, at);
        if (id > 0 &&
            (is_dir(r->from, n, c->jobs_dir, user) ||
             (c->user_jobs_dir && is_dir(r->from, n, c->user_jobs_dir, user))))
            return id;
    }
    return 0;
}

/* Where the last attempt of a job writes its checkpoints, as
 * worker/run_config.c decides. */
static int put_place(const struct job *p, struct job_spec *s, struct buf *ret,
                     struct error *err)
{
    struct buf out = BUF_INIT;
    int rc = buf_addf(&out, err, "%s/out", p->dir);
    const struct fill_vars v = {
        .name = s->name,
        .user = interpolate_is_user(p->user) ? p->user : NULL,
        .output_dir = buf_str(&out),
        .job = p->id,
        .task = p->sweep > 0 ? p->number : 0,
        .attempt = p->attempt,
    };
    rc = rc < 0 ? rc : spec_fill(s, &v, err);
    if (rc == 0)
        rc = s->checkpoint.dir
                 ? buf_addstr(ret, s->checkpoint.dir, err)
                 : buf_addf(ret, err, "%s/ckpt",
                            s->train.output_dir ? s->train.output_dir
                                                : buf_str(&out));
    buf_clear(&out);
    return rc;
}

/* An attempt to come has another number. */
static bool moves(const struct job *p, const struct job_spec *s)
{
    return !job_state_is_final(p->state) &&
           ((s->train.output_dir &&
             interpolate_has(s->train.output_dir, "attempt")) ||
            (s->checkpoint.dir &&
             interpolate_has(s->checkpoint.dir, "attempt")));
}

/* Whether the stored specification names no directory. The tasks of a sweep may
 * have thousands of parents, and the loop has no time to parse each: quotes in
 * strings are escaped, and no other key of these names can be null. */
static bool is_default(const char *spec)
{
    return strstr(spec, "\"output_dir\":null") && strstr(spec, "\"dir\":null");
}

static int find_place(const struct job *p, struct buf *ret, struct error *err)
{
    const struct spec_options opt = {.is_stored = true};
    struct spec_report report = {.n = 0};
    struct job_spec s;
    char id[JOB_DISPLAY_CAP];

    if (p->spec && p->dir && is_default(p->spec))
        return buf_addf(ret, err, "%s/out/ckpt", p->dir);
    int rc = p->spec
                 ? spec_parse(p->spec, strlen(p->spec), &opt, &s, &report, err)
                 : -1;
    diagnostics_clear(&report);
    if (rc < 0)
        return error_set(err, ERR_INVAL,
                         "the specification of job %s is of another version "
                         "of mgpu: name its directory",
                         job_display_id(p, id));
    rc = moves(p, &s) ? error_set(err, ERR_INVAL,
                                  "where job %s writes depends on its "
                                  "${attempt}: let it end first",
                                  job_display_id(p, id))
                      : put_place(p, &s, ret, err);
    spec_clear(&s);
    return rc;
}

static struct depend_parent facts_of(const struct job *p)
{
    return (struct depend_parent){.id = p->id,
                                  .sweep = p->sweep,
                                  .number = p->number,
                                  .n_tasks = p->n_tasks,
                                  .state = p->state,
                                  .kind = p->kind};
}

static void note_parent(struct engine_read *r, const struct job *p)
{
    r->parent = p->id;
    (void)job_display_id(p, r->parent_name);
}

/* Replaces the job's number by the directory. */
static int resolve(struct engine_read *r, const struct job *p, bool is_best,
                   struct prepare_memo *memo, struct error *err)
{
    struct buf dir = BUF_INIT;
    const bool is_known = memo && memo->from && memo->from->parent == p->id &&
                          memo->is_best == is_best;
    int rc = is_known ? buf_addstr(&dir, memo->from->from, err)
                      : find_place(p, &dir, err);
    if (rc == 0 && is_best && !is_known)
        rc = buf_addstr(&dir, "/best", err);
    if (rc == 0 && dir.len >= WIRE_FROM_CAP)
        rc = error_set(err, ERR_INVAL, "'%.80s...' is too long", buf_str(&dir));
    char *text = rc == 0 ? buf_detach(&dir) : NULL;
    buf_clear(&dir);
    if (!text)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    free(r->from);
    r->from = text;
    note_parent(r, p);
    if (memo) {
        memo->from = r;
        memo->is_best = is_best;
    }
    return 0;
}

static int take_number(struct engine *e, int64_t uid, struct engine_read *r,
                       const struct parent_ref *ref, struct prepare_memo *memo,
                       struct error *err)
{
    const struct job *job = &r->rec->job;
    if (engine_recall(e, ref->job, err) < 0)
        return -1;
    const struct job *p = ref->task < 0
                              ? engine_job(e, ref->job)
                              : engine_task(e, ref->job, (uint64_t)ref->task);
    if (!p || p->uid != uid)
        return depend_check_parent(r->from, NULL, job->kind, job->depends,
                                   job->n_depends, err);
    const struct depend_parent facts = facts_of(p);
    return depend_check_parent(r->from, &facts, job->kind, job->depends,
                               job->n_depends, err) < 0
               ? -1
               : resolve(r, p, ref->is_best, memo, err);
}

/* Whether the path is the job's directory, or below it. */
static bool is_below(const char *path, const struct job *p)
{
    const size_t n = p->dir ? strlen(p->dir) : 0;
    return n > 0 && strncmp(path, p->dir, n) == 0 &&
           (path[n] == '\0' || path[n] == '/');
}

/* What is behind ".." is not below what is before it. */
static bool goes_up(const char *path)
{
    for (const char *at = strstr(path, "/.."); at; at = strstr(at + 1, "/.."))
        if (at[3] == '/' || at[3] == '\0')
            return true;
    return false;
}

/* A name in the path that is a number may be that of a job. What cannot be read
 * is not known: the job continues a directory then. */
static void look_for_dir(struct engine *e, int64_t uid, struct engine_read *r)
{
    const uint64_t past = parent_id_of(e, r);
    if (strchr(r->from, '$') || goes_up(r->from) ||
        (past > 0 && engine_recall(e, past, NULL) < 0))
        return;
    for (const char *at = strchr(r->from, '/'); at; at = strchr(at + 1, '/')) {
        const uint64_t id = number_at(e, at);
        const struct job *p = id > 0 ? engine_job(e, id) : NULL;
        if (p && p->uid == uid && is_below(r->from, p)) {
            note_parent(r, p);
            return;
        }
    }
}

int parent_find(struct engine *e, int64_t uid, struct engine_read *io,
                struct prepare_memo *memo, struct error *err)
{
    struct parent_ref ref;
    struct error why = ERROR_INIT;
    if (!io->from || io->parent > 0)
        return 0;
    if (parent_ref_parse(io->from, &ref) != PARENT_JOB) {
        look_for_dir(e, uid, io);
        return 0;
    }
    if (take_number(e, uid, io, &ref, memo, &why) == 0)
        return 0;
    return why.code == ERR_INVAL
               ? error_set(err, ERR_INVAL, "train.resume_from: %.190s [E022]",
                           why.msg)
               : error_set(err, why.code, "%s", why.msg);
}
