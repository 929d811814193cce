/* job_lists.c - secondary indexes of active jobs: live, ended, dependent,
 * delayed, pending.
 *
 * In a long queue few jobs need work: those that have devices, that have just
 * ended, that may start at a certain time. A step that searched all jobs for
 * them would take time in proportion to their number, several times for each
 * submit. So each active entry is indexed by what a step asks for. eng_file()
 * is called after any of its inputs has changed - the state, the priority,
 * `not_before_s`, `dropped`, `is_waiting`, `is_early`, `exclude`, `pending_id`,
 * `is_held`, the job that it was preempted for - and puts the entry into its
 * lists. Extra calls are harmless, and a call cannot fail: eng_add() reserves
 * the room in the lists together with the entry.
 *
 * An undo restores an entry and calls eng_file() again, so the lists always
 * follow from the entries; tests/contract/engine_files.h compares the two after
 * each step of the engine's tests.
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
static int reserve(struct entry_list *l, size_t n, struct error *err)
{
    if (n <= l->cap)
        return 0;
    size_t cap = 2 * l->cap > n ? 2 * l->cap : n + 64;
    struct entry **p = realloc(l->at, cap * sizeof(struct entry *));
    if (!p)
        return error_set(err, ERR_NOMEM, "out of memory");
    l->at = p;
    l->cap = cap;
    return 0;
}

/* There may be as many users as jobs. */
static int reserve_users(struct files *f, size_t n, struct error *err)
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

int eng_files_reserve(struct engine *e, size_t more, struct error *err)
{
    struct files *f = &e->files;
    size_t n = e->n_active + more;

    return reserve(&f->moving, n, err) < 0 || reserve(&f->over, n, err) < 0 ||
                   reserve(&f->line, n, err) < 0 ||
                   reserve(&f->depends, n, err) < 0 ||
                   reserve(&f->early, n, err) < 0 ||
                   reserve(&f->avoiding, n, err) < 0 ||
                   reserve(&f->went, n, err) < 0 ||
                   reserve(&f->owed, n, err) < 0 ||
                   eng_queue_reserve(&f->queue, n, err) < 0 ||
                   reserve(&f->later, n, err) < 0 ||
                   reserve_users(f, n, err) < 0
               ? -1
               : 0;
}

static void insert(struct entry_list *l, size_t i, struct entry *en)
{
    memmove(&l->at[i + 1], &l->at[i], (l->n - i) * sizeof(struct entry *));
    l->at[i] = en;
    l->n++;
}

static void take_out(struct entry_list *l, size_t i)
{
    l->n--;
    memmove(&l->at[i], &l->at[i + 1], (l->n - i) * sizeof(struct entry *));
}

/* ---- by id ----------------------------------------------------------------
 */
static void set_in(struct entry_list *l, struct entry *en, bool *io_is,
                   bool wanted)
{
    if (*io_is == wanted)
        return;
    size_t i = eng_at_id(l->at, l->n, en->job.id);
    if (wanted)
        insert(l, i, en);
    else
        take_out(l, i);
    *io_is = wanted;
}

struct entry *eng_next_moving(const struct engine *e, uint64_t after)
{
    const struct entry_list *l = &e->files.moving;
    size_t i = eng_at_id(l->at, l->n, after + 1);
    return i < l->n ? l->at[i] : NULL;
}

/* ---- later ----------------------------------------------------------------
 * A heap: nobody's time is before that of the one at half his place.
 */
static void place(struct entry_list *l, size_t k, struct entry *en)
{
    l->at[k - 1] = en;
    en->filed.later_at = k;
}

static void sift(struct entry_list *l, size_t k, struct entry *en)
{
    double t = en->filed.later_s;

    for (; k > 1 && l->at[k / 2 - 1]->filed.later_s > t; k /= 2)
        place(l, k, l->at[k / 2 - 1]);
    for (size_t c = 2 * k; c <= l->n; c = 2 * k) {
        if (c < l->n && l->at[c]->filed.later_s < l->at[c - 1]->filed.later_s)
            c++;
        if (l->at[c - 1]->filed.later_s >= t)
            break;
        place(l, k, l->at[c - 1]);
        k = c;
    }
    place(l, k, en);
}

static void set_later(struct files *f, struct entry *en, double at_s)
{
    struct entry_list *l = &f->later;
    struct filed *at = &en->filed;
    bool wanted = at_s > -(double)INFINITY;

    if (wanted && at->later_at == 0) {
        at->later_s = at_s;
        sift(l, ++l->n, en);
    } else if (wanted && (at_s < at->later_s || at_s > at->later_s)) {
        at->later_s = at_s;
        sift(l, at->later_at, en);
    } else if (!wanted && at->later_at > 0) {
        struct entry *last = l->at[--l->n];
        if (last != en)
            sift(l, at->later_at, last);
        at->later_at = 0;
    }
}

double eng_later_s(const struct engine *e)
{
    const struct entry_list *l = &e->files.later;
    return l->n > 0 ? l->at[0]->filed.later_s : (double)INFINITY;
}

/* ---- owed -----------------------------------------------------------------
 */
void eng_set_owed(struct engine *e, struct entry *en, bool is_owed)
{
    set_in(&e->files.owed, en, &en->filed.is_owed, is_owed);
    if (en->filed.waits)
        en->filed.waits->is_owed = is_owed;
}

/* ---- counts ---------------------------------------------------------------
 */
static size_t user_at(const struct files *f, int64_t uid)
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

static void count_user(struct files *f, int64_t uid, int32_t n)
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
    const struct files *f = &e->files;
    size_t i = user_at(f, uid);
    return i < f->n_users && f->users[i].uid == uid ? f->users[i].n : 0;
}

static bool counts(enum job_state s)
{
    return s != JOB_NEW && !job_state_is_final(s);
}

static void set_state(struct files *f, struct entry *en, enum job_state to)
{
    enum job_state from = en->filed.state;

    if (from == to)
        return;
    if (counts(from) != counts(to))
        count_user(f, en->job.uid, counts(to) ? 1 : -1);
    if (from != JOB_NEW)
        f->n_state[from]--;
    if (to != JOB_NEW)
        f->n_state[to]++;
    en->filed.state = to;
}

/* ---- rows -----------------------------------------------------------------
 */
void eng_mark_dirty(struct engine *e, struct entry *en)
{
    struct files *f = &e->files;

    if (en->filed.is_dirty)
        return;
    en->filed.is_dirty = true;
    en->filed.dirty_prev = f->dirty_last;
    en->filed.dirty_next = NULL;
    if (f->dirty_last)
        f->dirty_last->filed.dirty_next = en;
    else
        f->dirty_first = en;
    f->dirty_last = en;
}

void eng_clear_dirty(struct engine *e, struct entry *en)
{
    struct files *f = &e->files;
    struct filed *at = &en->filed;

    if (!at->is_dirty)
        return;
    at->is_dirty = false;
    if (at->dirty_prev)
        at->dirty_prev->filed.dirty_next = at->dirty_next;
    else
        f->dirty_first = at->dirty_next;
    if (at->dirty_next)
        at->dirty_next->filed.dirty_prev = at->dirty_prev;
    else
        f->dirty_last = at->dirty_prev;
}

bool eng_set_reason(struct engine *e, struct entry *en, const char *reason)
{
    char clean[JOB_REASON_CAP];

    /* The common case: the stored reason was cleaned before. */
    if (strcmp(en->job.reason, reason) == 0)
        return false;
    text_copy(clean, sizeof(clean), reason);
    if (strcmp(en->job.reason, clean) == 0)
        return false;
    memcpy(en->job.reason, clean, sizeof(clean));
    eng_mark_dirty(e, en);
    return true;
}

/* ---- all of it ------------------------------------------------------------
 */
void eng_file(struct engine *e, struct entry *en)
{
    struct files *f = &e->files;
    enum job_state s = en->job.state;
    bool is_there = s != JOB_NEW, is_queued = s == JOB_QUEUED;

    set_state(f, en, s);
    set_in(&f->moving, en, &en->filed.is_moving,
           job_state_is_live(s) || en->dropped > 0);
    set_in(&f->line, en, &en->filed.is_in_line,
           job_is_in_line(&en->job) && !en->is_held);
    set_in(&f->over, en, &en->filed.is_over, job_state_is_final(s));
    set_in(&f->depends, en, &en->filed.has_depends,
           is_there && en->job.n_depends > 0);
    set_in(&f->early, en, &en->filed.is_early, en->is_early);
    eng_queue_set(&f->queue, en, is_queued && !eng_waits(en));
    set_later(f, en, is_queued ? en->not_before_s : -(double)INFINITY);
    set_in(&f->avoiding, en, &en->filed.avoids,
           is_there && en->job.exclude[0] != '\0');
    set_in(&f->went, en, &en->filed.went,
           is_there && en->job.preempted_for > 0 &&
               eng_owed_until(en) > eng_now(e));
}

int eng_file_all(struct engine *e, struct error *err)
{
    if (eng_files_reserve(e, 0, err) < 0)
        return -1;
    e->files.are_kept = true;
    eng_queue_fill(e);
    for (size_t i = 0; i < e->n_active; i++)
        eng_file(e, e->active[i]);
    return 0;
}

void eng_unfile(struct engine *e, struct entry *en)
{
    struct files *f = &e->files;

    set_state(f, en, JOB_NEW);
    set_in(&f->moving, en, &en->filed.is_moving, false);
    set_in(&f->line, en, &en->filed.is_in_line, false);
    set_in(&f->over, en, &en->filed.is_over, false);
    set_in(&f->depends, en, &en->filed.has_depends, false);
    set_in(&f->early, en, &en->filed.is_early, false);
    eng_queue_set(&f->queue, en, false);
    set_later(f, en, -(double)INFINITY);
    set_in(&f->avoiding, en, &en->filed.avoids, false);
    set_in(&f->went, en, &en->filed.went, false);
    eng_set_owed(e, en, false);
    eng_clear_dirty(e, en);
}

void eng_files_clear(struct engine *e)
{
    struct files *f = &e->files;

    free(f->moving.at);
    free(f->line.at);
    free(f->over.at);
    free(f->depends.at);
    free(f->early.at);
    free(f->avoiding.at);
    free(f->went.at);
    free(f->owed.at);
    eng_queue_clear(&f->queue);
    free(f->later.at);
    free(f->users);
}
