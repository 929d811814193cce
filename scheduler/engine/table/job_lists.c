/* job_lists.c - secondary indexes of active jobs: live, ended, dependent,
 * delayed, pending.
 *
 * In a long queue few jobs need work: those that have devices, that have just
 * ended, that may start at a certain time. A step that searched all jobs for
 * them would take time in proportion to their number, several times for each
 * submit. So each active record is indexed by what a step asks for.
 * eng_lists_update() is called after any of its inputs has changed - the state,
 * the priority, `not_before_s`, `dropped`, `is_waiting`, `is_early`, `exclude`,
 * `pending_id`, `is_held`, the job that it was preempted for - and puts the
 * record into its lists. Extra calls are harmless, and a call cannot fail:
 * eng_add() reserves the room in the lists together with the record.
 *
 * An undo restores a record and calls eng_lists_update() again, so the lists
 * always follow from the records; tests/contract/engine_lists.h compares the
 * two after each step of the engine's tests.
 */
#include "scheduler/engine/table/job_lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/in_line.h"
#include "scheduler/engine/plan/plan.h"

/* ---- lists ----------------------------------------------------------------
 */
static int reserve(struct record_list *l, size_t n, struct error *err)
{
    if (n <= l->cap)
        return 0;
    size_t cap = 2 * l->cap > n ? 2 * l->cap : n + 64;
    struct job_record **p = realloc(l->at, cap * sizeof(struct job_record *));
    if (!p)
        return error_set(err, ERR_NOMEM, "out of memory");
    l->at = p;
    l->cap = cap;
    return 0;
}

/* There may be as many users as jobs. */
static int reserve_users(struct job_lists *f, size_t n, struct error *err)
{
    if (n <= f->cap_users)
        return 0;
    size_t cap = 2 * f->cap_users > n ? 2 * f->cap_users : n + 64;
    struct jobs_of_user *p = realloc(f->users, cap * sizeof(*p));
    if (!p)
        return error_set(err, ERR_NOMEM, "out of memory");
    f->users = p;
    f->cap_users = cap;
    return 0;
}

int eng_lists_reserve(struct engine *e, size_t more, struct error *err)
{
    struct job_lists *f = &e->lists;
    size_t n = e->n_active + more;

    return reserve(&f->moving, n, err) < 0 || reserve(&f->over, n, err) < 0 ||
                   reserve(&f->line, n, err) < 0 ||
                   reserve(&f->runs, n, err) < 0 ||
                   reserve(&f->depends, n, err) < 0 ||
                   reserve(&f->early, n, err) < 0 ||
                   reserve(&f->avoiding, n, err) < 0 ||
                   reserve(&f->went, n, err) < 0 ||
                   reserve(&f->reserved, n, err) < 0 ||
                   eng_queue_reserve(&f->queue, n, err) < 0 ||
                   reserve(&f->later, n, err) < 0 ||
                   reserve_users(f, n, err) < 0
               ? -1
               : 0;
}

static void insert(struct record_list *l, size_t i, struct job_record *rec)
{
    memmove(&l->at[i + 1], &l->at[i], (l->n - i) * sizeof(struct job_record *));
    l->at[i] = rec;
    l->n++;
}

static void take_out(struct record_list *l, size_t i)
{
    l->n--;
    memmove(&l->at[i], &l->at[i + 1], (l->n - i) * sizeof(struct job_record *));
}

/* ---- by id ----------------------------------------------------------------
 */
static void set_in(struct record_list *l, struct job_record *rec, bool *io_is,
                   bool wanted)
{
    if (*io_is == wanted)
        return;
    size_t i = eng_at_id(l->at, l->n, rec->job.id);
    if (wanted)
        insert(l, i, rec);
    else
        take_out(l, i);
    *io_is = wanted;
}

struct job_record *eng_next_moving(const struct engine *e, uint64_t after)
{
    const struct record_list *l = &e->lists.moving;
    size_t i = eng_at_id(l->at, l->n, after + 1);
    return i < l->n ? l->at[i] : NULL;
}

/* ---- later ----------------------------------------------------------------
 * A heap: nobody's time is before that of the one at half his place.
 */
static void place(struct record_list *l, size_t k, struct job_record *rec)
{
    l->at[k - 1] = rec;
    rec->places.later_at = k;
}

static void sift(struct record_list *l, size_t k, struct job_record *rec)
{
    double t = rec->places.later_s;

    for (; k > 1 && l->at[k / 2 - 1]->places.later_s > t; k /= 2)
        place(l, k, l->at[k / 2 - 1]);
    for (size_t c = 2 * k; c <= l->n; c = 2 * k) {
        if (c < l->n && l->at[c]->places.later_s < l->at[c - 1]->places.later_s)
            c++;
        if (l->at[c - 1]->places.later_s >= t)
            break;
        place(l, k, l->at[c - 1]);
        k = c;
    }
    place(l, k, rec);
}

static void set_later(struct job_lists *f, struct job_record *rec, double at_s)
{
    struct record_list *l = &f->later;
    struct list_places *at = &rec->places;
    bool wanted = at_s > -(double)INFINITY;

    if (wanted && at->later_at == 0) {
        at->later_s = at_s;
        sift(l, ++l->n, rec);
    } else if (wanted && (at_s < at->later_s || at_s > at->later_s)) {
        at->later_s = at_s;
        sift(l, at->later_at, rec);
    } else if (!wanted && at->later_at > 0) {
        struct job_record *last = l->at[--l->n];
        if (last != rec)
            sift(l, at->later_at, last);
        at->later_at = 0;
    }
}

double eng_later_s(const struct engine *e)
{
    const struct record_list *l = &e->lists.later;
    return l->n > 0 ? l->at[0]->places.later_s : (double)INFINITY;
}

/* ---- reserved
 * -----------------------------------------------------------------
 */
void eng_set_reserved(struct engine *e, struct job_record *rec,
                      bool has_reservation)
{
    set_in(&e->lists.reserved, rec, &rec->places.has_reservation,
           has_reservation);
    if (rec->places.waits)
        rec->places.waits->has_reservation = has_reservation;
}

/* ---- counts ---------------------------------------------------------------
 */
static size_t user_at(const struct job_lists *f, int64_t uid)
{
    size_t from = 0, to = f->n_users;

    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (f->users[mid].uid < uid)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static void count_user(struct job_lists *f, int64_t uid, int32_t n)
{
    size_t i = user_at(f, uid);
    struct jobs_of_user *u = &f->users[i];

    if (i == f->n_users || u->uid != uid) {
        memmove(u + 1, u, (f->n_users - i) * sizeof(*u));
        *u = (struct jobs_of_user){.uid = uid};
        f->n_users++;
    }
    u->n += n;
    if (u->n > 0)
        return;
    f->n_users--;
    memmove(u, u + 1, (f->n_users - i) * sizeof(*u));
}

int32_t eng_jobs_of(const struct engine *e, int64_t uid)
{
    const struct job_lists *f = &e->lists;
    size_t i = user_at(f, uid);
    return i < f->n_users && f->users[i].uid == uid ? f->users[i].n : 0;
}

static bool counts(enum job_state s)
{
    return s != JOB_NEW && !job_state_is_final(s);
}

static void set_state(struct job_lists *f, struct job_record *rec,
                      enum job_state to)
{
    enum job_state from = rec->places.state;

    if (from == to)
        return;
    if (counts(from) != counts(to))
        count_user(f, rec->job.uid, counts(to) ? 1 : -1);
    if (from != JOB_NEW)
        f->n_state[from]--;
    if (to != JOB_NEW)
        f->n_state[to]++;
    rec->places.state = to;
}

/* ---- rows -----------------------------------------------------------------
 */
void eng_mark_dirty(struct engine *e, struct job_record *rec)
{
    struct job_lists *f = &e->lists;

    if (rec->places.is_dirty)
        return;
    rec->places.is_dirty = true;
    rec->places.dirty_prev = f->dirty_last;
    rec->places.dirty_next = NULL;
    if (f->dirty_last)
        f->dirty_last->places.dirty_next = rec;
    else
        f->dirty_first = rec;
    f->dirty_last = rec;
}

void eng_clear_dirty(struct engine *e, struct job_record *rec)
{
    struct job_lists *f = &e->lists;
    struct list_places *at = &rec->places;

    if (!at->is_dirty)
        return;
    at->is_dirty = false;
    if (at->dirty_prev)
        at->dirty_prev->places.dirty_next = at->dirty_next;
    else
        f->dirty_first = at->dirty_next;
    if (at->dirty_next)
        at->dirty_next->places.dirty_prev = at->dirty_prev;
    else
        f->dirty_last = at->dirty_prev;
}

bool eng_set_reason(struct engine *e, struct job_record *rec,
                    const char *reason)
{
    char clean[JOB_REASON_CAP];

    /* The common case: the stored reason was cleaned before. */
    if (strcmp(rec->job.reason, reason) == 0)
        return false;
    text_fit(clean, sizeof(clean), reason);
    if (strcmp(rec->job.reason, clean) == 0)
        return false;
    memcpy(rec->job.reason, clean, sizeof(clean));
    eng_mark_dirty(e, rec);
    return true;
}

/* ---- all of it ------------------------------------------------------------
 */
void eng_lists_update(struct engine *e, struct job_record *rec)
{
    struct job_lists *f = &e->lists;
    enum job_state s = rec->job.state;
    bool is_there = s != JOB_NEW, is_queued = s == JOB_QUEUED;

    set_state(f, rec, s);
    set_in(&f->moving, rec, &rec->places.is_moving,
           (job_state_is_live(s) && !rec->job.is_run) || rec->dropped > 0);
    set_in(&f->runs, rec, &rec->places.is_open,
           job_state_is_live(s) && rec->job.is_run);
    set_in(&f->line, rec, &rec->places.is_in_line,
           job_is_in_line(&rec->job) && !rec->is_held);
    set_in(&f->over, rec, &rec->places.is_over, job_state_is_final(s));
    set_in(&f->depends, rec, &rec->places.has_depends,
           is_there && rec->job.n_depends > 0);
    set_in(&f->early, rec, &rec->places.is_early, rec->is_early);
    if (is_there && !job_state_is_final(s) && !rec->job.is_run)
        eng_fair_name(e, rec);
    eng_queue_set(&f->queue, rec,
                  is_queued && !eng_waits(rec) && !rec->job.is_run);
    set_later(f, rec, is_queued ? rec->not_before_s : -(double)INFINITY);
    set_in(&f->avoiding, rec, &rec->places.avoids,
           is_there && rec->job.exclude[0] != '\0');
    set_in(&f->went, rec, &rec->places.went,
           is_there && rec->job.preempted_for > 0 &&
               eng_reserved_until(rec) > eng_now(e));
}

int eng_lists_build(struct engine *e, struct error *err)
{
    if (eng_lists_reserve(e, 0, err) < 0)
        return -1;
    e->lists.are_kept = true;
    eng_queue_fill(e);
    for (size_t i = 0; i < e->n_active; i++)
        eng_lists_update(e, e->active[i]);
    return 0;
}

void eng_lists_remove(struct engine *e, struct job_record *rec)
{
    struct job_lists *f = &e->lists;

    set_state(f, rec, JOB_NEW);
    set_in(&f->moving, rec, &rec->places.is_moving, false);
    set_in(&f->line, rec, &rec->places.is_in_line, false);
    set_in(&f->over, rec, &rec->places.is_over, false);
    set_in(&f->runs, rec, &rec->places.is_open, false);
    set_in(&f->depends, rec, &rec->places.has_depends, false);
    set_in(&f->early, rec, &rec->places.is_early, false);
    eng_queue_set(&f->queue, rec, false);
    set_later(f, rec, -(double)INFINITY);
    set_in(&f->avoiding, rec, &rec->places.avoids, false);
    set_in(&f->went, rec, &rec->places.went, false);
    eng_set_reserved(e, rec, false);
    eng_clear_dirty(e, rec);
}

void eng_lists_clear(struct engine *e)
{
    struct job_lists *f = &e->lists;

    free(f->moving.at);
    free(f->line.at);
    free(f->over.at);
    free(f->runs.at);
    free(f->depends.at);
    free(f->early.at);
    free(f->avoiding.at);
    free(f->went.at);
    free(f->reserved.at);
    eng_queue_clear(&f->queue);
    free(f->later.at);
    free(f->users);
}
