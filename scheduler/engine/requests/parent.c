/* parent.c - the job from whose checkpoint a new job goes on; see
 * train.resume_from in mgpu-job(5).
 *
 * The engine knows jobs and where they write, and reads no file of a user: it
 * turns the number of a job into the directory of its checkpoints, and checks
 * that the job is of the same user. The ranks, which run as the user, choose
 * the newest checkpoint in it when they start. A job that has ended writes no
 * more, so this is the newest one at the submit, too. Both the number and the
 * directory are in the submit's event: a job that continues one that was
 * removed keeps them.
 *
 * A directory is looked for among the directories of the daemon's jobs, whose
 * names are numbers. One that a user named (train.output_dir) belongs to a job
 * that nobody but the user can tell.
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

/* A directory below those of jobs may be deep; numbers that are looked for. */
enum { NUMBERS_MAX = 4 };

uint64_t parent_id_of(const struct engine_read *r)
{
    struct parent_ref ref;
    return r->from && parent_ref_parse(r->from, &ref) == PARENT_JOB ? ref.job
                                                                    : 0;
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

static int find_place(const struct job *p, struct buf *ret, struct error *err)
{
    const struct spec_options opt = {.is_stored = true};
    struct spec_report report = {.n = 0};
    struct job_spec s;
    char id[JOB_DISPLAY_CAP];

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
                   struct error *err)
{
    struct buf dir = BUF_INIT;
    int rc = find_place(p, &dir, err);
    if (rc == 0 && is_best)
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
    return 0;
}

static int take_number(struct engine *e, int64_t uid, struct engine_read *r,
                       const struct parent_ref *ref, struct error *err)
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
               : resolve(r, p, ref->is_best, err);
}

/* Whether the path is the job's directory, or below it. */
static bool is_below(const char *path, const struct job *p)
{
    const size_t n = p->dir ? strlen(p->dir) : 0;
    return n > 0 && strncmp(path, p->dir, n) == 0 &&
           (path[n] == '\0' || path[n] == '/');
}

/* A name in the path that is a number may be that of a job. What cannot be read
 * is not known: the job continues a directory then. */
static void look_for_dir(struct engine *e, int64_t uid, struct engine_read *r)
{
    int n = 0;
    if (strchr(r->from, '$'))
        return;
    for (const char *at = strchr(r->from, '/'); at && n < NUMBERS_MAX;
         at = strchr(at + 1, '/')) {
        char *end = NULL;
        const uint64_t id = strtoull(at + 1, &end, 10);
        if (end == at + 1 || (*end != '/' && *end != '\0') || id < 1 ||
            id > e->last_id)
            continue;
        n++;
        if (engine_recall(e, id, NULL) < 0)
            continue;
        const struct job *p = engine_job(e, id);
        if (p && p->uid == uid && is_below(r->from, p)) {
            note_parent(r, p);
            return;
        }
    }
}

int parent_find(struct engine *e, int64_t uid, struct engine_read *io,
                struct error *err)
{
    struct parent_ref ref;
    struct error why = ERROR_INIT;
    if (!io->from || io->parent > 0)
        return 0;
    if (parent_ref_parse(io->from, &ref) != PARENT_JOB) {
        look_for_dir(e, uid, io);
        return 0;
    }
    if (take_number(e, uid, io, &ref, &why) == 0)
        return 0;
    return why.code == ERR_INVAL
               ? error_set(err, ERR_INVAL, "train.resume_from: %.190s [E022]",
                           why.msg)
               : error_set(err, why.code, "%s", why.msg);
}
