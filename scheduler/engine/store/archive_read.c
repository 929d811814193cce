/* archive_read.c - read archived jobs from their events.
 *
 * An archived job never changes again, so the store is all that is needed to
 * read it: no engine is involved, and any thread may do it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold.h"
#include "scheduler/engine/store/archive.h"
#include "scheduler/engine/store/archive_summary.h"

struct reading {
    const char *jobs_dir;
    uint64_t first;
    struct job **jobs;   /* by id; records, see job_record.h */
    struct error damage; /* of the first job that cannot be read */
};

static struct job_record *record_of(const struct reading *r, uint64_t id)
{
    return (struct job_record *)r->jobs[id - r->first];
}

static int fold(struct reading *r, const struct store_event *ev,
                struct error *why)
{
    struct job_record *rec = record_of(r, ev->job);

    if (ev->ev == EV_N)
        return error_set(why, ERR_IO, "its kind is unknown");
    if (ev->ev != EV_SUBMIT)
        return rec ? eng_fold(rec, ev, why)
                   : error_set(why, ERR_IO, "its submit is missing");
    if (rec)
        return error_set(why, ERR_IO, "it submits a job that exists already");
    rec = job_record_new(r->jobs_dir, ev->job);
    if (!rec)
        return error_set(why, ERR_NOMEM, "out of memory");
    r->jobs[ev->job - r->first] = &rec->job;
    rec->job.uid = ev->uid;
    rec->job.submit_s = ev->at_s;
    return eng_fold(rec, ev, why);
}

static void note_damage(struct reading *r, uint64_t id, const char *why)
{
    if (r->damage.code == ERR_NONE)
        (void)error_set(&r->damage, ERR_IO,
                        "job %" PRIu64 " is damaged: %s; see mgpu-admin fsck",
                        id, why);
}

static int on_event(void *arg, const struct store_event *ev, struct error *err)
{
    struct reading *r = arg;
    struct job_record *rec = record_of(r, ev->job);
    struct error why = ERROR_INIT;
    char text[sizeof(why.msg) + 40];

    if ((rec && rec->is_corrupt) || fold(r, ev, &why) == 0)
        return 0;
    if (why.code == ERR_NOMEM)
        return error_set(err, ERR_NOMEM, "%s", why.msg);
    (void)snprintf(text, sizeof(text), "event %" PRIu64 ": %s", ev->seq,
                   why.msg);
    note_damage(r, ev->job, text);
    rec = record_of(r, ev->job);
    if (rec)
        rec->is_corrupt = true;
    return 0;
}

/* Whether the job was removed after its id was read from the archive. */
static bool was_removed(struct store *s, uint64_t id)
{
    struct store_removed r;

    return s->ops->removed(s, id, &r, NULL) == 0;
}

int engine_archive_read(struct store *s, const char *jobs_dir, uint64_t first,
                        uint64_t last, struct job **ret,
                        struct error *ret_damage, struct error *err)
{
    struct reading r = {.jobs_dir = jobs_dir,
                        .first = first,
                        .jobs = ret,
                        .damage = ERROR_INIT};
    size_t n = (size_t)(last - first + 1);

    for (size_t i = 0; i < n; i++)
        ret[i] = NULL;
    if (s->ops->load_jobs(s, first, last, on_event, &r, err) < 0) {
        engine_archive_free(ret, n);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const struct job_record *rec = (struct job_record *)ret[i];
        bool has_ended =
            rec && !rec->is_corrupt && job_state_is_final(rec->job.state);
        if (has_ended || (!rec && was_removed(s, first + i)))
            continue;
        note_damage(&r, first + i,
                    "it is archived, but its events say otherwise");
        engine_archive_free(&ret[i], 1);
    }
    *ret_damage = r.damage;
    return 0;
}

struct lines {
    uint64_t first, next;
    struct job **jobs;
};

/* Jobs that are skipped have no summary. */
static void go_to(struct lines *l, uint64_t job)
{
    engine_archive_free(l->jobs + (l->next - l->first),
                        (size_t)(job - l->next));
    l->next = job;
}

/* A summary that cannot be read counts as missing. */
static int on_line(void *arg, uint64_t job, const char *text, struct error *err)
{
    struct lines *l = arg;
    struct job **at = &l->jobs[job - l->first];
    struct job_record *rec = (struct job_record *)*at;

    (void)err;
    go_to(l, job);
    *at = summary_decode(job, text, &rec) == 0 ? &rec->job : NULL;
    l->next = job + 1;
    return 0;
}

int engine_archive_lines(struct store *s, uint64_t first, uint64_t last,
                         struct job **io, struct error *err)
{
    struct lines l = {.first = first, .next = first, .jobs = io};
    int rc = s->ops->lines(s, first, last, on_line, &l, err);

    go_to(&l, last + 1);
    if (rc < 0)
        engine_archive_free(io, (size_t)(last - first + 1));
    return rc;
}

void engine_archive_free(struct job **jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        job_record_free((struct job_record *)jobs[i]);
        jobs[i] = NULL;
    }
}

/* Reads all of them, or none. err also if one is damaged */
static int read_all(struct store *s, const char *jobs_dir, uint64_t first,
                    size_t n, struct job ***ret, struct error *err)
{
    struct error damage;
    struct job **jobs = calloc(n, sizeof(struct job *));

    if (!jobs)
        return error_set(err, ERR_NOMEM, "out of memory");
    int rc = engine_archive_read(s, jobs_dir, first, first + n - 1, jobs,
                                 &damage, err);
    if (rc == 0 && damage.code != ERR_NONE)
        rc = error_set(err, ERR_IO, "%s", damage.msg);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!jobs[i])
            rc = error_set(err, ERR_NOTFOUND, "job %" PRIu64 " was removed",
                           first + i);
    if (rc == 0) {
        *ret = jobs;
        return 0;
    }
    engine_archive_free(jobs, n);
    free(jobs);
    return -1;
}

int engine_archive_read_unit(struct store *s, const char *jobs_dir, uint64_t id,
                             struct job ***ret, size_t *ret_n,
                             struct error *err)
{
    struct job **one;

    if (read_all(s, jobs_dir, id, 1, &one, err) < 0)
        return -1;
    int32_t n = one[0]->n_tasks;
    uint64_t sweep = one[0]->sweep;
    if (n <= 1) {
        *ret = one;
        *ret_n = 1;
        return 0;
    }
    engine_archive_free(one, 1);
    free(one);
    if (n > SPEC_TASKS_MAX)
        return error_set(err, ERR_IO,
                         "job %" PRIu64 " is damaged: of a sweep of %" PRId32
                         " jobs; see mgpu-admin fsck",
                         id, n);
    *ret_n = (size_t)n;
    return read_all(s, jobs_dir, sweep, (size_t)n, ret, err);
}
