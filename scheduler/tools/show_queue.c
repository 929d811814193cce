/* show_queue.c - the queue. */
#include <inttypes.h>
#include <string.h>

#include "scheduler/tools/client.h"
#include "scheduler/tools/columns.h"
#include "scheduler/tools/show.h"

static int add_job(struct render_table *t, const struct columns *c,
                   const json_t *job, struct error *err)
{
    char text[COLUMN_TEXT_CAP];
    for (size_t i = 0; i < c->n; i++) {
        c->at[i]->text(job, text, sizeof(text));
        if (render_table_put(t, text, err) < 0)
            return -1;
        if (c->at[i]->is_state)
            render_table_paint(t, show_state_paint(field_str(job, "state")));
    }
    return 0;
}

/* Of a cluster's scheduler that it is there, of any that it is not. */
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
    char name[200];
    (void)fprintf(
        s->out,
        "%s  %" PRId64 " GPUs or slots: %" PRId64 " busy, %" PRId64
        " free | %" PRId64 " running, %" PRId64 " queued | policy %s",
        render_escape(field_str(reply, "cluster"), name, sizeof(name)), total,
        total - free_slots, free_slots, field_int(reply, "running", 0),
        field_int(reply, "queued", 0), field_str(reply, "policy"));
    print_allocator(s, json_object_get(reply, "allocator_state"));
    (void)fputc('\n', s->out);
}

static int make_table(const struct columns *c, struct render_table **ret,
                      struct error *err)
{
    struct render_column titles[COLUMNS_MAX];
    for (size_t i = 0; i < c->n; i++)
        titles[i] = (struct render_column){c->at[i]->title, c->at[i]->align};
    return render_table_create(titles, c->n, ret, err);
}

int show_jobs(const struct show_conf *s, json_t *jobs, struct error *err)
{
    struct render_table *t = NULL;
    struct columns columns;
    json_t *job;
    size_t i;
    if (columns_parse(s->format, &columns, err) < 0 ||
        make_table(&columns, &t, err) < 0)
        return -1;
    int rc = 0;
    json_array_foreach(jobs, i, job)
    {
        if (rc == 0)
            rc = add_job(t, &columns, job, err);
    }
    if (rc == 0)
        render_table_print(t, &s->style, s->header, s->out);
    render_table_destroy(t);
    return rc;
}

int show_queue(const struct show_conf *s, const json_t *reply,
               struct error *err)
{
    struct columns columns; /* a mistake in them is found before the rest */
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
