/* show_queue.c - print the queue: the summary line and the table of jobs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/columns.h"
#include "scheduler/tools/views/show.h"

static int add_job(struct render_table *t, const struct columns *c,
                   const struct members *job, struct error *err)
{
    char text[COLUMN_TEXT_CAP];
    for (size_t i = 0; i < c->n; i++) {
        columns_text(c, i, job, text, sizeof(text));
        if (render_table_put(t, text, err) < 0)
            return -1;
        if (c->at[i]->is_state) {
            const struct member m = members_get(job, "state");
            (void)snprintf(text, sizeof(text), "%.*s",
                           m.kind == MEMBER_TEXT ? (int)m.len : 0, m.text);
            render_table_paint(t, show_state_paint(text));
        }
    }
    return 0;
}

static int add_jobs(struct render_table *t, const struct columns *c,
                    json_t *jobs, struct error *err)
{
    struct members m;
    json_t *job;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        json_members_of_json(job, &m);
        if (add_job(t, c, &m, err) < 0)
            return -1;
    }
    return 0;
}

/* Says that a cluster's scheduler is used, and that any allocator is
 * unavailable. */
static void print_allocator(const struct show_conf *s, const json_t *state)
{
    char name[100], since[64];
    (void)render_escape(field_str(state, "name"), name, sizeof(name));
    if (state && !field_yes(state, "is_ok"))
        (void)fprintf(
            s->out, " | %s unavailable since %s", name,
            render_escape(field_str(state, "since"), since, sizeof(since)));
    else if (state && strcmp(name, "slurm") == 0)
        (void)fprintf(s->out, " | slurm ok");
}

void show_summary(const struct show_conf *s, const json_t *reply)
{
    int64_t total = field_int(reply, "slots_total", 0);
    int64_t free_slots = field_int(reply, "slots_free", 0);
    int64_t held = field_int(reply, "held", 0);
    char name[200], policy[100];
    (void)fprintf(
        s->out,
        "%s  %" PRId64 " GPUs or slots: %" PRId64 " allocated, %" PRId64
        " idle | %" PRId64 " running, %" PRId64 " queued",
        render_escape(field_str(reply, "cluster"), name, sizeof(name)), total,
        total - free_slots, free_slots, field_int(reply, "running", 0),
        field_int(reply, "queued", 0));
    if (held > 0)
        (void)fprintf(s->out, ", %" PRId64 " held", held);
    (void)fprintf(
        s->out, " | policy %s",
        render_escape(field_str(reply, "policy"), policy, sizeof(policy)));
    print_allocator(s, json_object_get(reply, "allocator_state"));
    (void)fputc('\n', s->out);
}

static int make_table(const struct columns *c, struct render_table **ret,
                      struct error *err)
{
    struct render_column titles[COLUMNS_MAX];
    for (size_t i = 0; i < c->n; i++)
        titles[i] =
            (struct render_column){columns_title(c, i), c->at[i]->align};
    return render_table_create(titles, c->n, ret, err);
}

int show_jobs(const struct show_conf *s, json_t *jobs, struct error *err)
{
    struct render_table *t = NULL;
    struct columns columns;
    if (columns_parse(s->format, &columns, err) < 0 ||
        make_table(&columns, &t, err) < 0)
        return -1;
    int rc = add_jobs(t, &columns, jobs, err);
    if (rc == 0)
        render_table_print(t, &s->style, s->header, s->out);
    render_table_destroy(t);
    return rc;
}

int show_queue(const struct show_conf *s, const json_t *reply,
               struct error *err)
{
    struct columns columns; /* report a mistake in them first */
    json_t *jobs = NULL, *sorted = NULL;
    if (columns_parse(s->format, &columns, err) < 0 ||
        sweep_rows(json_object_get(reply, "jobs"), s->expand, &jobs, err) < 0)
        return -1;
    int rc = s->sort ? columns_sort(jobs, s->sort, &sorted, err) : 0;
    if (rc == 0 && s->header)
        show_summary(s, reply);
    if (rc == 0)
        rc = show_jobs(s, sorted ? sorted : jobs, err);
    json_decref(sorted);
    json_decref(jobs);
    return rc;
}

/* ---- of its text ----------------------------------------------------------
 */
struct queue_rows {
    const struct show_conf *s;
    struct render_table *t;
    struct columns columns;
    json_t *head;               /* of the first page; NULL: none yet */
    struct sweep_rows *waiting; /* NULL: one row per task */
    bool is_strange;            /* the list is not in the daemon's format */
};

/* Parses the head as a reply without jobs. */
static json_t *head_of(const char *text, size_t len)
{
    char *copy = malloc(len + 3);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    memcpy(copy + len, "]}", 3);
    json_t *o = json_loads(copy, JSON_REJECT_DUPLICATES, NULL);
    free(copy);
    if (json_is_array(json_object_get(o, "jobs")))
        return o;
    json_decref(o);
    return NULL;
}

static bool is_word(const struct member *m, const char *word)
{
    return m->kind == MEMBER_TEXT && m->len == strlen(word) &&
           memcmp(m->text, word, m->len) == 0;
}

static bool waits(const struct members *job)
{
    const struct member m = members_get(job, "state");
    return is_word(&m, "QUEUED") || is_word(&m, "HELD");
}

/* A pending task of a sweep, or a row that may still change, is kept until its
 * row is complete. */
static int add_row(struct queue_rows *r, const struct members *job,
                   const char *text, size_t len, struct error *err)
{
    bool may_wait = r->waiting && waits(job);
    if (!r->waiting || (!may_wait && sweep_rows_ready(r->waiting)))
        return add_job(r->t, &r->columns, job, err);
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    r->is_strange = !o;
    int rc = o ? sweep_rows_take(r->waiting, o, err) : 0;
    json_decref(o);
    json_t *ready = rc == 0 ? sweep_rows_ready(r->waiting) : NULL;
    if (ready)
        rc = add_jobs(r->t, &r->columns, ready, err);
    if (ready)
        (void)json_array_clear(ready);
    return rc;
}

static int add_rows(struct queue_rows *r, const char *p, const char *end,
                    struct error *err)
{
    struct members m;
    const char *next;
    int rc = 0;
    while (rc == 0 && !r->is_strange && *p == '{' &&
           json_members_read_next(p, end, &m, &next) == 0) {
        rc = add_row(r, &m, p, (size_t)(next - p), err);
        json_members_clear(&m);
        p = next;
        if (p[0] != ',' || p[1] != '{')
            break;
        p++;
    }
    r->is_strange = r->is_strange || end - p != 2 || memcmp(p, "]}", 2) != 0;
    if (rc == 0 && r->waiting)
        rc = sweep_rows_end(r->waiting, err);
    if (rc == 0 && r->waiting)
        rc = add_jobs(r->t, &r->columns, sweep_rows_ready(r->waiting), err);
    return rc;
}

int show_queue_begin(const struct show_conf *s, struct queue_rows **ret,
                     struct error *err)
{
    struct queue_rows *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "queue");
    r->s = s;
    if (columns_parse(s->format, &r->columns, err) < 0 ||
        make_table(&r->columns, &r->t, err) < 0) {
        show_queue_free(r);
        return -1;
    }
    *ret = r;
    return 0;
}

void show_queue_free(struct queue_rows *r)
{
    if (!r)
        return;
    sweep_rows_destroy(r->waiting);
    render_table_destroy(r->t);
    json_decref(r->head);
    free(r);
}

int show_queue_part(void *arg, const char *head, size_t head_len,
                    const char *jobs, size_t jobs_len, struct error *err)
{
    struct queue_rows *r = arg;
    if (!r->head) {
        r->head = head_of(head, head_len);
        r->is_strange = !r->head;
    } else if (render_table_turn(r->t, err) < 0) {
        return -1;
    }
    if (r->is_strange)
        return 0;
    sweep_rows_destroy(r->waiting);
    r->waiting = r->s->expand ? NULL : sweep_rows_create();
    if (!r->s->expand && !r->waiting)
        return error_set(err, ERR_NOMEM, "queue");
    return add_rows(r, jobs, jobs + jobs_len, err);
}

bool show_queue_end(const struct queue_rows *r)
{
    if (!r->head || r->is_strange)
        return false;
    if (r->s->header)
        show_summary(r->s, r->head);
    render_table_print(r->t, &r->s->style, r->s->header, r->s->out);
    return true;
}

int show_queue_text(const struct show_conf *s, const char *text, size_t len,
                    bool *ret_is_shown, struct error *err)
{
    static const char key[] = "\"jobs\":[";
    const char *at = memmem(text, len, key, sizeof(key) - 1);
    size_t head = at ? (size_t)(at - text) + sizeof(key) - 1 : len;
    struct queue_rows *r = NULL;
    if (show_queue_begin(s, &r, err) < 0)
        return -1;
    int rc = show_queue_part(r, text, head, text + head, len - head, err);
    if (rc == 0)
        *ret_is_shown = show_queue_end(r);
    show_queue_free(r);
    return rc;
}
