/* pending_queue.c - the queue: jobs that wait for devices, in the policy's
 * order.
 *
 * A plan goes through all of them, and for a long queue memory latency
 * dominates: a record has 2 kB, on a page of its own, and the plan needs 100
 * bytes of it. So eng_lists_update() copies these bytes here, close together,
 * whenever it indexes a record (job_lists.c).
 *
 * Where a job may run follows from a few strings, and most jobs of a queue have
 * the same ones: they are of one kind, and each plan judges a kind once. There
 * are QUEUE_KINDS kinds; further jobs, and jobs for which memory runs out, have
 * no kind and are judged one by one.
 */
#include "scheduler/engine/table/pending_queue.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/engine_internal.h"

enum { ROOM_PLACES = 256 };
struct waiting_room {
    struct waiting_room *next;
    struct waiting places[ROOM_PLACES];
};

static int add_room(struct queue *q, struct error *err)
{
    size_t n = q->n_places + ROOM_PLACES;
    struct waiting **unused = realloc(q->unused, n * sizeof(struct waiting *));
    if (unused)
        q->unused = unused;
    struct waiting_room *room = unused ? malloc(sizeof(*room)) : NULL;
    if (!room)
        return error_set(err, ERR_NOMEM, "out of memory");
    room->next = q->rooms;
    q->rooms = room;
    q->n_places = n;
    for (size_t i = ROOM_PLACES; i-- > 0;)
        q->unused[q->n_unused++] = &room->places[i];
    return 0;
}

int eng_queue_reserve(struct queue *q, size_t n, struct error *err)
{
    if (n > q->cap) {
        size_t cap = 2 * q->cap > n ? 2 * q->cap : n + 64;
        struct waiting **p = realloc(q->at, cap * sizeof(struct waiting *));
        if (!p)
            return error_set(err, ERR_NOMEM, "out of memory");
        q->at = p;
        q->cap = cap;
    }
    while (q->n_places < n)
        if (add_room(q, err) < 0)
            return -1;
    return 0;
}

/* ---- kinds ----------------------------------------------------------------
 */
static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static const char *exclude_of(const struct job *job)
{
    return job->exclude[0] ? job->exclude : NULL;
}

static bool is_kind(const struct queue_kind *k, const struct job *job)
{
    const struct alloc_where *a = &k->where, *b = &job->where;
    return k->n > 0 && k->has_gpus == (job->gpus_max > 0) &&
           is_same_text(a->partition, b->partition) &&
           is_same_text(a->constraint, b->constraint) &&
           is_same_text(a->reservation, b->reservation) &&
           is_same_text(a->gpu_type, b->gpu_type) &&
           a->gpu_min_bytes == b->gpu_min_bytes &&
           a->gpu_max_bytes == b->gpu_max_bytes &&
           is_same_text(a->exclude, exclude_of(job));
}

static void kind_clear(struct queue_kind *k)
{
    free((char *)k->where.partition);
    free((char *)k->where.constraint);
    free((char *)k->where.reservation);
    free((char *)k->where.gpu_type);
    free((char *)k->where.exclude);
    *k = (struct queue_kind){.n = 0};
}

static bool copy(const char *from, const char **ret)
{
    *ret = from ? strdup(from) : NULL;
    return !from || *ret;
}

static bool kind_init(struct queue_kind *k, const struct job *job)
{
    *k = (struct queue_kind){.has_gpus = job->gpus_max > 0};
    k->where.gpu_min_bytes = job->where.gpu_min_bytes;
    k->where.gpu_max_bytes = job->where.gpu_max_bytes;
    bool has = copy(job->where.partition, &k->where.partition) &&
               copy(job->where.constraint, &k->where.constraint) &&
               copy(job->where.reservation, &k->where.reservation) &&
               copy(job->where.gpu_type, &k->where.gpu_type) &&
               copy(exclude_of(job), &k->where.exclude);
    if (!has)
        kind_clear(k);
    return has;
}

static int32_t kind_of(struct queue *q, const struct job *job)
{
    int32_t unused = -1;

    for (int32_t i = 0; i < QUEUE_KINDS; i++) {
        if (is_kind(&q->kinds[i], job)) {
            q->kinds[i].n++;
            return i;
        }
        if (q->kinds[i].n == 0 && unused < 0)
            unused = i;
    }
    if (unused < 0 || !kind_init(&q->kinds[unused], job))
        return -1;
    q->kinds[unused].n = 1;
    return unused;
}

static void leave_kind(struct queue *q, int32_t kind)
{
    if (kind >= 0 && --q->kinds[kind].n == 0)
        kind_clear(&q->kinds[kind]);
}

/* ---- order ----------------------------------------------------------------
 */
static int32_t rank_of(const struct waiting *w)
{
    return w->user ? w->user->rank : 0;
}

static bool is_before(const struct waiting *a, const struct waiting *b)
{
    if (a->is_back != b->is_back)
        return a->is_back;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (rank_of(a) != rank_of(b))
        return rank_of(a) < rank_of(b);
    if (a->submit_s < b->submit_s || a->submit_s > b->submit_s)
        return a->submit_s < b->submit_s;
    return a->id < b->id;
}

static int by_order(const void *x, const void *y)
{
    const struct waiting *a = *(struct waiting *const *)x;
    const struct waiting *b = *(struct waiting *const *)y;
    return is_before(a, b) ? -1 : is_before(b, a);
}

/* How many jobs are before it. */
static size_t place_of_one(const struct queue *q, const struct waiting *w)
{
    size_t from = 0, to = q->n;

    if (to > 0 && is_before(q->at[to - 1], w)) /* a new job is mostly the
                                                  last */
        return to;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (is_before(q->at[mid], w))
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static struct waiting waiting_of(const struct job_record *rec)
{
    const struct job *job = &rec->job;

    return (struct waiting){.id = job->id,
                            .user = rec->charge.user,
                            .priority = job->priority,
                            .submit_s = job->submit_s,
                            .is_back = job->resize.is_back};
}

/* How many jobs that are pending in the allocator are before it. */
static size_t n_in_line(const struct engine *e, const struct waiting *w)
{
    size_t n = 0;

    for (size_t i = 0; i < e->lists.line.n; i++) {
        const struct waiting other = waiting_of(e->lists.line.at[i]);
        n += is_before(&other, w);
    }
    return n;
}

int32_t engine_queue_position(struct engine *e, uint64_t id)
{
    const struct job_record *rec = eng_find(e, id);

    if (!rec || (!rec->places.waits && !rec->places.is_in_line))
        return 0;
    const struct waiting as = waiting_of(rec);
    return (int32_t)(n_in_line(e, &as) + place_of_one(&e->lists.queue, &as)) +
           1;
}

/* ---- in and out -----------------------------------------------------------
 */
static void count(struct queue *q, const struct waiting *w, size_t by)
{
    q->n_sized += w->has_sizes ? by : 0;
    q->n_resized += w->to_gpus > 0 ? by : 0;
}

static void copy_in(struct queue *q, struct waiting *w,
                    const struct job_record *rec)
{
    const struct job *job = &rec->job;
    const struct gpu_sizes sizes = eng_sizes(job);

    count(q, w, (size_t)-1);
    w->id = job->id;
    w->user = rec->charge.user;
    w->submit_s = job->submit_s;
    w->eligible_s = job_record_eligible_s(rec);
    w->limit_s = job->attempt_limit_s;
    w->not_before_s = rec->not_before_s;
    w->priority = job->priority;
    w->gpus_min = sizes.gpus.min;
    w->gpus_max = sizes.gpus.max;
    w->nodes_min = sizes.nodes.min;
    w->nodes_max = sizes.nodes.max;
    w->per_node = job->per_node;
    w->parts = job->parts;
    w->to_gpus = job->resize.gpus;
    w->to_nodes = job->resize.nodes;
    w->is_exclusive = job->where.exclusive;
    w->is_dropping = rec->dropped > 0;
    w->has_cap = job->max_parallel > 0;
    w->has_reservation = rec->places.has_reservation;
    w->is_back = job->resize.is_back;
    w->barred_gpus = job->resize.barred_gpus;
    w->barred_below = job->resize.barred_below;
    w->barred_until_s = job->resize.barred_until_s;
    w->has_sizes = sizes.gpus.min < sizes.gpus.max ||
                   sizes.nodes.min < sizes.nodes.max || w->to_gpus > 0;
    count(q, w, 1);
}

static struct waiting *begin(struct queue *q, struct job_record *rec)
{
    struct waiting *w = q->unused[--q->n_unused];

    *w = (struct waiting){.record = rec, .kind = kind_of(q, &rec->job)};
    copy_in(q, w, rec);
    return w;
}

/* Its partition may be another one, too. */
static void change(struct queue *q, struct waiting *w,
                   const struct job_record *rec)
{
    if (w->kind >= 0 && !is_kind(&q->kinds[w->kind], &rec->job)) {
        leave_kind(q, w->kind);
        w->kind = kind_of(q, &rec->job);
    }
    copy_in(q, w, rec);
}

static void take_out(struct queue *q, size_t i)
{
    q->n--;
    memmove(&q->at[i], &q->at[i + 1], (q->n - i) * sizeof(struct waiting *));
}

static void insert(struct queue *q, struct waiting *w)
{
    size_t i = place_of_one(q, w);

    memmove(&q->at[i + 1], &q->at[i], (q->n - i) * sizeof(struct waiting *));
    q->at[i] = w;
    q->n++;
}

void eng_queue_set(struct queue *q, struct job_record *rec, bool wanted)
{
    struct waiting *w = rec->places.waits;

    if (!w && !wanted)
        return;
    if (!w) {
        w = rec->places.waits = begin(q, rec);
        insert(q, w);
    } else if (!wanted) {
        take_out(q, place_of_one(q, w));
        leave_kind(q, w->kind);
        count(q, w, (size_t)-1);
        q->unused[q->n_unused++] = w;
        rec->places.waits = NULL;
    } else if (w->priority != rec->job.priority ||
               w->user != rec->charge.user ||
               w->is_back != rec->job.resize.is_back) {
        take_out(q, place_of_one(q, w));
        change(q, w, rec);
        insert(q, w);
    } else {
        change(q, w, rec);
    }
}

/* Sorts at the end: inserting one by one would move the others each time. */
void eng_queue_fill(struct engine *e)
{
    struct queue *q = &e->lists.queue;

    for (size_t i = 0; i < e->n_active; i++) {
        struct job_record *rec = e->active[i];
        if (rec->job.state == JOB_QUEUED && !eng_waits(rec))
            q->at[q->n++] = rec->places.waits = begin(q, rec);
    }
    if (q->n > 0)
        qsort(q->at, q->n, sizeof(struct waiting *), by_order);
}

/* Merges two runs that follow one another. in scratch  room for the first */
static void merge(struct waiting **at, size_t n_first, size_t n,
                  struct waiting **scratch)
{
    size_t i = 0, j = n_first, k = 0;

    memcpy(scratch, at, n_first * sizeof(struct waiting *));
    while (i < n_first)
        at[k++] =
            j < n && is_before(at[j], scratch[i]) ? at[j++] : scratch[i++];
}

/* How many jobs from the first on are in order. */
static size_t run_of(struct waiting *const *at, size_t n)
{
    size_t i = n > 0 ? 1 : 0;

    while (i < n && !is_before(at[i], at[i - 1]))
        i++;
    return i;
}

/* The jobs of one user and priority are in order already, so there are few
 * runs: each pass merges every two. */
void eng_queue_sort(struct queue *q)
{
    struct waiting **scratch = malloc((q->n + 1) * sizeof(struct waiting *));

    for (size_t from = 0; scratch && run_of(q->at, q->n) < q->n; from = 0)
        while (from < q->n) {
            size_t first = run_of(&q->at[from], q->n - from);
            size_t next = run_of(&q->at[from + first], q->n - from - first);
            merge(&q->at[from], first, first + next, scratch);
            from += first + next;
        }
    if (!scratch && q->n > 0)
        qsort(q->at, q->n, sizeof(struct waiting *), by_order);
    free(scratch);
}

void eng_queue_clear(struct queue *q)
{
    for (size_t i = 0; i < QUEUE_KINDS; i++)
        kind_clear(&q->kinds[i]);
    while (q->rooms) {
        struct waiting_room *next = q->rooms->next;
        free(q->rooms);
        q->rooms = next;
    }
    free(q->unused);
    free(q->at);
}
