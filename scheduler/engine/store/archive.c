/* archive.c - evict inactive jobs from memory and reload them on demand.
 *
 * An ended job never changes again, and its record is a fold of its events: the
 * engine can evict it and read it again at any time. Before it evicts a job, it
 * tells the store that the job is archived, so that the next start does not
 * replay it. That is one row in any batch, and nothing is moved: whenever the
 * daemon dies, the job is either archived or not.
 *
 * The job that ended first leaves first, as soon as there are more than
 * engine_conf.max_ended. A sweep leaves and comes back as a whole, because its
 * rules look at all of its tasks. The dependencies of active jobs stay in
 * memory, and so do jobs that engine_parts.may_leave() keeps; a damaged job is
 * never archived.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/store/archive.h"
#include "scheduler/engine/store/archive_list.h"
#include "scheduler/engine/store/archive_summary.h"

enum {
    SLACK_MAX = 64,   /* leave together once there are this many too many */
    LEAVE_MAX = 1024, /* per batch, plus the rest of a sweep */
    RECALLED_MAX = 2 * SPEC_TASKS_MAX /* reloaded jobs at a time */
};
/* Retry interval while no job can leave. */
static const double LOOK_AGAIN_S = 10;

/* How many jobs leave together with rec: one, or its sweep, which begins with
 * it. */
static size_t unit_of(const struct job_record *rec)
{
    return rec->job.n_tasks > 0 ? (size_t)rec->job.n_tasks : 1;
}

/* ---- leaving -------------------------------------------------------------
 */
static size_t slack_of(size_t max)
{
    return max / 8 < SLACK_MAX ? max / 8 : SLACK_MAX;
}

/* How many jobs should leave. Reloaded jobs always count. */
static size_t n_too_many(const struct engine *e)
{
    size_t max = (size_t)e->parts.conf->max_ended;

    if (max == 0)
        return e->n_listed_archived > RECALLED_MAX
                   ? e->n_listed_archived - RECALLED_MAX / 2
                   : 0;
    return e->n_listed > max + slack_of(max) ? e->n_listed - max : 0;
}

double eng_leave_s(const struct engine *e)
{
    return n_too_many(e) > 0 ? fmax(e->leave_at_s, eng_now(e))
                             : (double)INFINITY;
}

/* Marks the dependencies of active jobs; for a sweep, its first task. */
static void mark_awaited(struct engine *e)
{
    e->awaited_round++;
    for (size_t i = 0; i < e->lists.depends.n; i++) {
        const struct job *job = &e->lists.depends.at[i]->job;
        for (size_t k = 0; k < job->n_depends; k++) {
            struct job_record *to = eng_find(e, job->depends[k].job);
            if (to && to->job.n_tasks > 0)
                to = eng_find(e, to->job.sweep);
            if (to)
                to->awaited = e->awaited_round;
        }
    }
}

static bool may_leave(const struct engine *e, const struct job_record *first)
{
    const struct job_record *rec = first;

    if (first->awaited == e->awaited_round)
        return false;
    for (size_t i = 0; i < unit_of(first); i++, rec = rec->next_ended)
        if (e->parts.may_leave &&
            !e->parts.may_leave(e->parts.leave_arg, &rec->job))
            return false;
    return true;
}

/* Evicts the n archived jobs from *p on. */
static void forget(struct engine *e, struct job_record **p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct job_record *rec = *p;
        *p = rec->next_ended;
        e->n_listed--;
        e->n_listed_archived--;
        eng_forget(e, rec);
    }
}

static void pick(struct engine *e, const struct job_record *rec, size_t n)
{
    for (size_t i = 0; i < n; i++, rec = rec->next_ended)
        e->leaving[e->n_leaving++] = (struct store_archived){
            .job = rec->job.id,
            .uid = rec->job.uid,
            .key = rec->job.task == 0 ? rec->own.key : NULL,
            .state = rec->job.state,
            .end_s = rec->job.end_s,
            .line = summary_encode(rec),
        };
}

static void free_lines(struct store_archived *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)jobs[i].line);
}

/* Goes through the list until n jobs have left or will leave with the next
 * batch, `room` of these at most. Stops where nothing more can be done, because
 * all of the list may be about to leave. Returns how many jobs have left. */
static size_t sweep_out(struct engine *e, size_t n, size_t room)
{
    struct job_record **p = &e->ended_first, *stays = NULL;
    size_t left = 0, going = 0, n_archived = e->n_listed_archived;

    mark_awaited(e);
    while (*p && left + going < n && (n_archived > 0 || e->n_leaving < room)) {
        size_t unit = unit_of(*p);
        bool goes = may_leave(e, *p);
        if ((*p)->is_archived)
            n_archived -= unit;
        if (goes && (*p)->is_archived) {
            forget(e, p, unit);
            left += unit;
            continue;
        }
        if (goes && e->n_leaving < room) {
            pick(e, *p, unit);
            going += unit;
        }
        for (size_t i = 0; i < unit; i++) {
            stays = *p;
            p = &(*p)->next_ended;
        }
    }
    if (!*p)
        e->ended_last = stays;
    return left;
}

/* Out of memory: no job leaves, and the engine tries again LOOK_AGAIN_S
 * later. */
void eng_leave(struct engine *e)
{
    enum { ROOM = LEAVE_MAX + SPEC_TASKS_MAX };
    double now_s = eng_now(e);

    free_lines(e->leaving, e->n_leaving); /* left over from a batch that
                                             failed */
    e->n_leaving = 0;
    if (n_too_many(e) == 0 || e->leave_at_s > now_s)
        return;
    if (!e->leaving)
        e->leaving = malloc(ROOM * sizeof(*e->leaving));
    size_t room = e->leaving && e->parts.conf->max_ended > 0 ? LEAVE_MAX : 0;
    size_t left = sweep_out(e, n_too_many(e), room);
    if (e->n_leaving == 0) {
        free(e->leaving);
        e->leaving = NULL;
    }
    if (left == 0 && e->n_leaving == 0)
        e->leave_at_s = now_s + LOOK_AGAIN_S;
}

void eng_archived(struct engine *e, const struct store_archived *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct job_record *rec = eng_find(e, jobs[i].job);
        rec->is_archived = true;
        e->n_listed_archived++;
    }
    e->has_archive = e->has_archive || n > 0;
}

/* ---- coming back ---------------------------------------------------------
 */
/* Entered by engine_adopt(), and not in the list yet. */
static bool is_new(const struct job_record *rec)
{
    return rec && rec->is_archived && !rec->is_listed;
}

static int enter(struct engine *e, struct job **io, struct error *err)
{
    struct job_record *rec = (struct job_record *)*io;

    if (eng_find(e, rec->job.id))
        return error_set(err, ERR_IO,
                         "job %" PRIu64 " is damaged: it is archived, but "
                         "others of its sweep are not; see mgpu-admin fsck",
                         rec->job.id);
    if (eng_put(e, rec, err) < 0)
        return -1;
    *io = NULL;
    rec->is_archived = true;
    return rec->job.task == 0 ? eng_add_key(e, rec, err) : 0;
}

int engine_adopt(struct engine *e, struct job **io, size_t n, struct error *err)
{
    uint64_t first = io[0]->id;
    bool is_past;
    int rc = 0;

    if (eng_find(e, first))
        return 0; /* another call has reloaded it meanwhile */
    if (engine_is_past(e, first, &is_past, err) < 0)
        return -1;
    if (!is_past)
        return error_set(err, ERR_NOTFOUND, "job %" PRIu64 " was removed",
                         first);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = enter(e, &io[i], err);
    for (size_t i = 0; i < n; i++) {
        struct job_record *rec = eng_find(e, first + i);
        if (!is_new(rec))
            continue;
        if (rc == 0) {
            eng_set_ended(e, rec);
            eng_ended_append(e, rec);
        } else {
            eng_forget(e, rec);
        }
    }
    return rc;
}

void engine_bar(struct engine *e, const uint64_t *ids, size_t n)
{
    e->barred = ids;
    e->n_barred = n;
}

void engine_removed(struct engine *e, const uint64_t n[JOB_STATE_N])
{
    for (int s = 0; s < JOB_STATE_N; s++)
        e->n_ended[s] -= n[s] < e->n_ended[s] ? n[s] : e->n_ended[s];
}

static int recall(struct engine *e, uint64_t id, struct error *err)
{
    struct job **jobs;
    size_t n;

    if (engine_archive_read_unit(e->parts.store, e->parts.conf->jobs_dir, id,
                                 &jobs, &n, err) < 0)
        return -1;
    int rc = engine_adopt(e, jobs, n, err);
    engine_archive_free(jobs, n);
    free(jobs);
    return rc;
}

int engine_recall(struct engine *e, uint64_t id, struct error *err)
{
    bool is_past;

    if (engine_is_past(e, id, &is_past, err) < 0)
        return -1;
    return is_past ? recall(e, id, err) : 0;
}

int eng_recall_depends(struct engine *e, const struct job *job,
                       struct error *err)
{
    for (size_t i = 0; i < job->n_depends; i++)
        if (engine_recall(e, job->depends[i].job, err) < 0)
            return -1;
    return 0;
}

int eng_recall_key(struct engine *e, int64_t uid, const char *key,
                   struct error *err)
{
    uint64_t found = 0;

    if (!e->has_archive || eng_find_key(e, uid, key))
        return 0;
    if (eng_find_past_key(e, uid, key, &found, err) < 0)
        return -1;
    return found > 0 ? engine_recall(e, found, err) : 0;
}
