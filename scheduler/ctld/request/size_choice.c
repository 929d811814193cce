/* size_choice.c - see size_choice.h. */
#include "scheduler/ctld/request/size_choice.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"

static void add(void *arg, const struct goodput_row *row)
{
    struct size_table *t = arg;

    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        struct goodput_row *p = realloc(t->rows, cap * sizeof(*p));
        if (!p) {
            t->is_short = true;
            return;
        }
        t->rows = p;
        t->cap = cap;
    }
    t->rows[t->n++] = *row;
}

int size_table_read(const struct ctld *c, struct size_table *ret,
                    struct error *err)
{
    struct size_table t = {.rows = NULL};

    int rc = engine_explain_sizes(c->engine, add, &t, &t.price, err);
    if (rc == 0 && t.is_short)
        rc = error_set(err, ERR_NOMEM, "table of sizes");
    if (rc < 0)
        size_table_clear(&t);
    else
        *ret = t;
    return rc;
}

void size_table_clear(struct size_table *t)
{
    free(t->rows);
    *t = (struct size_table){.rows = NULL};
}

json_t *size_table_json(const struct size_table *t, uint64_t job)
{
    json_t *list = json_array();

    for (size_t i = 0; i < t->n; i++) {
        const struct goodput_row *r = &t->rows[i];
        bool is_known = isfinite(r->rate.per_s);
        if (job != 0 && r->job != job)
            continue;
        (void)json_array_append_new(
            list,
            json_pack(
                "{s:I, s:i, s:i, s:o, s:o, s:o, s:I, s:o, s:o, s:b, s:b, "
                "s:b, s:b, s:o, s:o}",
                "id", (json_int_t)r->job, "gpus", r->nodes * r->per_node,
                "nodes", r->nodes, "rate", ctld_num(r->rate.per_s),
                "efficiency", ctld_num(r->efficiency), "basis",
                is_known ? json_string(throughput_basis_name(r->rate.basis))
                         : json_null(),
                "iterations", (json_int_t)r->rate.n, "value",
                ctld_num(r->value), "gain", ctld_num(r->gain), "is_now",
                r->is_now, "is_chosen", r->is_chosen, "is_next", r->is_next,
                "is_late", r->is_late, "turn",
                ctld_time(r->is_refused ? r->turn_s : (double)NAN), "idle_turn",
                ctld_time(r->is_refused ? r->idle_turn_s : (double)NAN)));
    }
    return list;
}

/* ---- in words --------------------------------------------------------------
 */
static int32_t gpus_of(const struct goodput_row *r)
{
    return r->nodes * r->per_node;
}

/* Too small for the job's time limit, and left out by that. */
static bool is_out(const struct goodput_row *r)
{
    return r->is_late && !r->is_now;
}

/* Of the sizes of a job: the chosen one, the next best, the first, the one that
 * its resizes of the hour keep it from, and the first that its time limit is
 * long enough for, if that leaves sizes out. */
struct picked {
    const struct goodput_row *first, *chosen, *next, *refused, *in_time;
};
static struct picked pick(const struct size_table *t, uint64_t job)
{
    struct picked p = {.first = NULL};
    bool any_late = false;

    for (size_t i = 0; i < t->n; i++) {
        const struct goodput_row *r = &t->rows[i];
        if (r->job != job)
            continue;
        any_late = any_late || r->is_late;
        p.in_time = any_late && !r->is_late && !p.in_time ? r : p.in_time;
        if (is_out(r))
            continue;
        p.first = p.first ? p.first : r;
        p.chosen = r->is_chosen ? r : p.chosen;
        p.next = r->is_next ? r : p.next;
        p.refused = r->is_refused ? r : p.refused;
    }
    return p;
}

/* The other job to which its last GPUs add most: how much of its speed; the
 * start of a job adds all of it. */
static const struct goodput_row *rival(const struct size_table *t, uint64_t job,
                                       double *ret_share)
{
    const struct goodput_row *best = NULL, *last = NULL;

    for (size_t i = 0; i < t->n; i++) {
        const struct goodput_row *r = &t->rows[i];
        if (is_out(r))
            continue;
        bool is_first = !last || last->job != r->job;
        double share = is_first ? 1 : r->rate.per_s / last->rate.per_s - 1;
        last = r;
        if (r->job == job || !r->is_chosen || !isfinite(share) ||
            (best && share <= *ret_share))
            continue;
        best = r;
        *ret_share = share;
    }
    return best;
}

static int say_basis(const struct goodput_row *r, const char *before,
                     struct buf *out, struct error *err)
{
    if (!isfinite(r->efficiency))
        return 0;
    if (buf_addf(out, err, "%s%.2f %s%s at %" PRId32, before, r->efficiency,
                 throughput_basis_name(r->rate.basis),
                 before[0] == ';' ? " efficiency" : "", gpus_of(r)) < 0)
        return -1;
    return r->rate.n > 0
               ? buf_addf(out, err, " (%" PRId64 " iterations)", r->rate.n)
               : 0;
}

static int say_chosen(const struct size_table *t, const struct picked *p,
                      struct buf *out, struct error *err)
{
    double share = 0, gain = p->next->rate.per_s / p->chosen->rate.per_s - 1;
    const struct goodput_row *other = rival(t, p->chosen->job, &share);
    int32_t more = gpus_of(p->next) - gpus_of(p->chosen);

    if (buf_addf(out, err, "%" PRId32 " GPU%s, not %" PRId32,
                 gpus_of(p->chosen), gpus_of(p->chosen) == 1 ? "" : "s",
                 gpus_of(p->next)) < 0)
        return -1;
    if (isfinite(gain) &&
        buf_addf(out, err,
                 ": the last %" PRId32 " would add %.0f %% to this job", more,
                 100 * gain) < 0)
        return -1;
    if (isfinite(gain) && other &&
        buf_addf(out, err, " and add%s %.0f %% to job %" PRIu64,
                 share >= 1 ? ", as its start," : "", 100 * share,
                 other->job) < 0)
        return -1;
    return say_basis(p->chosen, "; ", out, err) < 0
               ? -1
               : say_basis(p->next, ", ", out, err);
}

static int say_refused(const struct picked *p, struct buf *out,
                       struct error *err)
{
    char turn[WIRE_TIME_CAP], idle[WIRE_TIME_CAP];

    wire_time(p->refused->turn_s, turn);
    wire_time(p->refused->idle_turn_s, idle);
    if (buf_addf(out, err,
                 "%" PRId32 " GPU%s, not %" PRId32
                 ": it was resized as often as it may be within an hour "
                 "(scheduler.goodput.max_resizes_per_hour); it may grow onto "
                 "GPUs that no job waits for at %s, onto others at %s",
                 gpus_of(p->chosen), gpus_of(p->chosen) == 1 ? "" : "s",
                 gpus_of(p->refused), idle, turn) < 0)
        return -1;
    return say_basis(p->chosen, "; ", out, err) < 0
               ? -1
               : say_basis(p->refused, ", ", out, err);
}

static int say_all(const struct size_table *t, const struct picked *p,
                   struct buf *out, struct error *err)
{
    if (p->chosen && p->refused)
        return say_refused(p, out, err);
    if (p->chosen && p->next)
        return say_chosen(t, p, out, err);
    if (p->chosen) {
        if (buf_addf(out, err, "%" PRId32 " GPU%s, the most that pays for it",
                     gpus_of(p->chosen),
                     gpus_of(p->chosen) == 1 ? "" : "s") < 0)
            return -1;
        return say_basis(p->chosen, "; ", out, err);
    }
    const struct goodput_row *best = p->next ? p->next : p->first;
    return buf_addf(out, err,
                    "a GPU would be worth %.3g to it, on %" PRId32
                    "; it starts when GPUs are free that are worth less to "
                    "others",
                    best->gain, gpus_of(best));
}

int size_table_say(const struct size_table *t, uint64_t job, struct buf *out,
                   struct error *err)
{
    struct picked p = pick(t, job);

    if (!p.first)
        return 0;
    if (say_all(t, &p, out, err) < 0)
        return -1;
    return p.in_time ? buf_addf(out, err,
                                "; on fewer than %" PRId32 " it would not end "
                                "within its time limit",
                                gpus_of(p.in_time))
                     : 0;
}
