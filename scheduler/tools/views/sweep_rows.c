/* sweep_rows.c - merge the pending tasks of a sweep into one row of the queue:
 * a hundred equal rows would hide the rest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/reason.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

/* Counts tasks per reason, by its first word. */
enum { TALLIES_MAX = 8 };
struct tally {
    char token[REASON_TOKEN_CAP];
    size_t n;
};

/* Tasks of one sweep in one state. A task in a backoff, or with another
 * priority, differs from the others: it ends the row. */
struct group {
    int64_t sweep, priority;
    bool is_again;      /* they had an attempt */
    json_t *row;        /* a copy of the first job, updated by each further
                           one; owned by the resulting array */
    struct buf tasks;   /* "0-3,5" */
    int64_t from, last; /* the open range */
    int64_t gpus_min, gpus_max;
    size_t n;
    struct tally why[TALLIES_MAX];
    size_t n_why;
    size_t n_others; /* tasks with further reasons */
    bool differ;     /* their reasons differ */
};

static void take_reason(struct group *g, const json_t *job)
{
    const char *reason = field_str(job, "reason");
    char token[REASON_TOKEN_CAP];
    size_t i = 0;
    reason_token(reason, token);
    while (i < g->n_why && strcmp(g->why[i].token, token) != 0)
        i++;
    if (i < TALLIES_MAX) {
        memcpy(g->why[i].token, token, sizeof(token));
        g->why[i].n++;
        g->n_why = i == g->n_why ? i + 1 : g->n_why;
    } else {
        g->n_others++;
    }
    g->differ = g->differ || strcmp(reason, field_str(g->row, "reason")) != 0;
}

static int by_number(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return strcmp(x->token, y->token);
}

/* "5 Priority, 1 WaitingForGpus": the reason of the first task would not be
 * true of all. */
static int put_reasons(struct group *g, struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = 0;
    qsort(g->why, g->n_why, sizeof(g->why[0]), by_number);
    for (size_t i = 0; rc == 0 && i < g->n_why; i++)
        rc = buf_addf(&text, err, "%s%zu %s", i > 0 ? ", " : "", g->why[i].n,
                      g->why[i].token);
    if (rc == 0 && g->n_others > 0)
        rc = buf_addf(&text, err, ", %zu others", g->n_others);
    if (rc == 0 &&
        json_object_set_new(g->row, "reason", json_string(buf_str(&text))) < 0)
        rc = error_set(err, ERR_NOMEM, "queue");
    buf_clear(&text);
    return rc;
}

static int close_range(struct group *g, struct error *err)
{
    const char *sep = g->tasks.len > 0 ? "," : "";
    if (g->from == g->last)
        return buf_addf(&g->tasks, err, "%s%" PRId64, sep, g->from);
    return buf_addf(&g->tasks, err, "%s%" PRId64 "-%" PRId64, sep, g->from,
                    g->last);
}

static int take_task(struct group *g, const json_t *job, struct error *err)
{
    int64_t task = field_int(job, "task", 0);
    int64_t lo = field_int(job, "gpus_min", 0);
    int64_t hi = field_int(job, "gpus_max", lo);
    bool follows = g->n > 0 && task == g->last + 1;
    if (g->n > 0 && !follows && close_range(g, err) < 0)
        return -1;
    g->gpus_min = g->n == 0 || lo < g->gpus_min ? lo : g->gpus_min;
    g->gpus_max = hi > g->gpus_max ? hi : g->gpus_max;
    g->from = follows ? g->from : task;
    g->last = task;
    g->n++;
    take_reason(g, job);
    return 0;
}

/* Completes the row for more than one task. */
static int finish(struct group *g, struct error *err)
{
    struct buf id = BUF_INIT;
    int rc = 0;
    if (g->n > 1) {
        rc = close_range(g, err);
        if (rc == 0)
            rc = buf_addf(&id, err, "%" PRId64 "_[%s]", g->sweep,
                          buf_str(&g->tasks));
        if (rc == 0 &&
            (json_object_set_new(g->row, "display_id",
                                 json_string(buf_str(&id))) < 0 ||
             json_object_set_new(g->row, "gpus", json_integer(0)) < 0 ||
             json_object_set_new(g->row, "gpus_min",
                                 json_integer(g->gpus_min)) < 0 ||
             json_object_set_new(g->row, "gpus_max",
                                 json_integer(g->gpus_max)) < 0))
            rc = error_set(err, ERR_NOMEM, "queue");
    }
    if (rc == 0 && g->n > 1 && g->differ)
        rc = put_reasons(g, err);
    buf_clear(&id);
    buf_clear(&g->tasks);
    *g = (struct group){.n = 0};
    return rc;
}

static int add(json_t *rows, json_t *row, struct error *err)
{
    return json_array_append(rows, row) == 0
               ? 0
               : error_set(err, ERR_NOMEM, "queue");
}

/* groups: [0] QUEUED, [1] HELD, of the current sweep. */
static int take(json_t *rows, struct group *groups, json_t *job,
                struct error *err)
{
    static const char *const states[] = {"QUEUED", "HELD"};
    int64_t sweep = field_int(job, "sweep", 0);
    for (int k = 0; k < 2; k++) {
        struct group *g = &groups[k];
        if (g->n > 0 && g->sweep != sweep && finish(g, err) < 0)
            return -1;
    }
    for (int k = 0; k < 2 && sweep > 0; k++) {
        struct group *g = &groups[k];
        if (strcmp(field_str(job, "state"), states[k]) != 0)
            continue;
        int64_t priority = field_int(job, "priority", 0);
        bool is_again = field_int(job, "attempt", 0) > 0;
        if (g->n > 0 && (g->priority != priority || g->is_again != is_again) &&
            finish(g, err) < 0)
            return -1;
        if (g->n == 0) {
            *g = (struct group){.sweep = sweep,
                                .priority = priority,
                                .is_again = is_again,
                                .row = json_copy(job)};
            int rc = g->row ? add(rows, g->row, err)
                            : error_set(err, ERR_NOMEM, "queue");
            json_decref(g->row); /* the array has its own reference */
            if (rc < 0)
                return -1;
        }
        return take_task(g, job, err);
    }
    return add(rows, job, err);
}

struct sweep_rows {
    struct group groups[2];
    json_t *rows; /* owned */
};

struct sweep_rows *sweep_rows_create(void)
{
    struct sweep_rows *r = calloc(1, sizeof(*r));
    if (r)
        r->rows = json_array();
    if (r && !r->rows) {
        free(r);
        r = NULL;
    }
    return r;
}

void sweep_rows_destroy(struct sweep_rows *r)
{
    if (!r)
        return;
    for (int k = 0; k < 2; k++)
        buf_clear(&r->groups[k].tasks);
    json_decref(r->rows);
    free(r);
}

int sweep_rows_take(struct sweep_rows *r, json_t *job, struct error *err)
{
    return take(r->rows, r->groups, job, err);
}

int sweep_rows_end(struct sweep_rows *r, struct error *err)
{
    return finish(&r->groups[0], err) < 0 || finish(&r->groups[1], err) < 0 ? -1
                                                                            : 0;
}

json_t *sweep_rows_ready(const struct sweep_rows *r)
{
    return r->groups[0].n == 0 && r->groups[1].n == 0 ? r->rows : NULL;
}

int sweep_rows(json_t *jobs, bool expand, json_t **ret, struct error *err)
{
    if (expand) {
        *ret = json_incref(jobs);
        return *ret ? 0 : error_set(err, ERR_NOMEM, "queue");
    }
    struct sweep_rows *r = sweep_rows_create();
    int rc = r ? 0 : error_set(err, ERR_NOMEM, "queue");
    for (size_t i = 0; rc == 0 && i < json_array_size(jobs); i++)
        rc = sweep_rows_take(r, json_array_get(jobs, i), err);
    if (rc == 0)
        rc = sweep_rows_end(r, err);
    if (rc == 0)
        *ret = json_incref(r->rows);
    sweep_rows_destroy(r);
    return rc;
}
