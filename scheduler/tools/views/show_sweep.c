/* show_sweep.c - print a sweep: the number of jobs per state, and one row per
 * task with the values that distinguish it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum { KEYS_MAX = 9, OWN_MAX = 4, FIXED = 7, TITLE_CAP = 64 };

/* The keys that the tasks vary, in the order of their appearance. */
struct keys {
    const char *keys[KEYS_MAX];
    char titles[KEYS_MAX][TITLE_CAP];
    size_t n, n_more;
};

static void add_key(struct keys *k, const char *key)
{
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->keys[i], key) == 0)
            return;
    if (k->n == KEYS_MAX)
        k->n_more++;
    else
        k->keys[k->n++] = key;
}

/* "precision" for "train.precision", unless two keys end so. */
static void make_titles(struct keys *k)
{
    for (size_t i = 0; i < k->n; i++) {
        const char *dot = strrchr(k->keys[i], '.');
        const char *tail = dot ? dot + 1 : k->keys[i];
        for (size_t j = 0; j < k->n; j++) {
            const char *other = strrchr(k->keys[j], '.');
            if (j != i && strcmp(other ? other + 1 : k->keys[j], tail) == 0)
                tail = k->keys[i];
        }
        (void)render_escape(tail, k->titles[i], TITLE_CAP);
        for (char *p = k->titles[i]; *p; p++)
            if (*p >= 'a' && *p <= 'z')
                *p = (char)(*p - 'a' + 'A');
    }
}

static void add_keys(struct keys *k, json_t *vary)
{
    const char *key;
    json_t *value;
    json_object_foreach(vary, key, value)
    {
        add_key(k, key);
    }
}

/* The metrics that the programs named themselves, likewise. */
struct own {
    const char *names[OWN_MAX];
    char titles[OWN_MAX][TITLE_CAP];
    size_t n, n_more;
};

static void find_own(const json_t *jobs, struct own *ret)
{
    const char *name;
    json_t *value;
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        json_t *values = json_object_get(json_array_get(jobs, i), "values");
        json_object_foreach(values, name, value)
        {
            size_t k = 0;
            while (k < ret->n && strcmp(ret->names[k], name) != 0)
                k++;
            if (k == OWN_MAX) {
                ret->n_more = 1;
            } else if (k == ret->n) {
                (void)render_escape(name, ret->titles[k], TITLE_CAP);
                ret->names[ret->n++] = name;
            }
        }
    }
}

static void find_keys(const json_t *jobs, struct keys *ret)
{
    for (size_t i = 0; i < json_array_size(jobs); i++)
        add_keys(ret, json_object_get(json_array_get(jobs, i), "vary"));
    make_titles(ret);
}

static int add_value(struct render_table *t, const json_t *value,
                     struct error *err)
{
    char *text = value && !json_is_string(value)
                     ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY)
                     : NULL;
    const char *s = text ? text : json_string_value(value);
    int rc = render_table_add(t, err, "%s", s ? s : "-");
    free(text);
    return rc;
}

static int add_number(struct render_table *t, double v, const char *fmt,
                      struct error *err)
{
    char text[48] = "-";
    if (strcmp(fmt, "%") == 0)
        (void)render_accuracy(v, text, sizeof(text));
    else if (!isnan(v))
        (void)snprintf(text, sizeof(text), "%.4g", v);
    return render_table_add(t, err, "%s", text);
}

static int add_own(struct render_table *t, const struct own *o,
                   const json_t *job, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < o->n; i++)
        rc = add_number(t,
                        cells_number(json_object_get(
                            json_object_get(job, "values"), o->names[i])),
                        "g", err);
    return rc;
}

static int add_task(struct render_table *t, const struct keys *k,
                    const struct own *o, const json_t *job, struct error *err)
{
    char took[32];
    const char *place = field_str(job, "place");
    const char *reason = field_str(job, "reason");
    if (render_table_add(t, err, "%s", field_str(job, "display_id")) < 0 ||
        render_table_add(t, err, "%s", field_str(job, "state")) < 0)
        return -1;
    render_table_paint(t, show_state_paint(field_str(job, "state")));
    for (size_t i = 0; i < k->n; i++)
        if (add_value(t,
                      json_object_get(json_object_get(job, "vary"), k->keys[i]),
                      err) < 0)
            return -1;
    if (render_table_add(t, err, "%s",
                         render_duration(field_real(job, "elapsed_s"), took,
                                         sizeof(took))) < 0 ||
        add_number(t, field_real(job, "loss"), "g", err) < 0 ||
        add_number(t, field_real(job, "eval_loss"), "g", err) < 0 ||
        add_number(t, field_real(job, "eval_accuracy"), "%", err) < 0 ||
        add_own(t, o, job, err) < 0)
        return -1;
    return render_table_add(t, err, "%s", *reason ? reason : place);
}

static void print_head(const struct show_conf *s, const json_t *sweep,
                       const json_t *first)
{
    char name[200], user[200], kind[64];
    const char *state;
    json_t *count;
    const char *sep = ": ";
    int64_t cap = field_int(sweep, "max_parallel", 0);
    (void)fprintf(s->out, "Sweep %" PRId64 "  %s  %s/%s  %" PRId64 " jobs",
                  field_int(sweep, "id", 0),
                  render_escape(field_str(first, "name"), name, sizeof(name)),
                  render_escape(field_str(first, "user"), user, sizeof(user)),
                  render_escape(field_str(first, "kind"), kind, sizeof(kind)),
                  field_int(sweep, "n_tasks", 0));
    json_object_foreach(json_object_get(sweep, "states"), state, count)
    {
        char word[64];
        (void)fprintf(s->out, "%s%" JSON_INTEGER_FORMAT " %s", sep,
                      json_integer_value(count),
                      render_escape(state, word, sizeof(word)));
        sep = ", ";
    }
    if (cap > 0)
        (void)fprintf(s->out, "; %" PRId64 " at a time", cap);
    if (field_yes(sweep, "stop_on_fail"))
        (void)fprintf(s->out, "; stops when one fails");
    (void)fprintf(s->out, "\n\n");
}

int show_sweep(const struct show_conf *s, const json_t *sweep,
               const json_t *tasks, struct error *err)
{
    const json_t *jobs = json_object_get(tasks, "jobs");
    struct render_column columns[KEYS_MAX + OWN_MAX + FIXED] = {
        {"JOBID", RENDER_RIGHT}, {"STATE", RENDER_LEFT}};
    static const struct render_column last[] = {{"TIME", RENDER_RIGHT},
                                                {"LOSS", RENDER_RIGHT},
                                                {"TEST LOSS", RENDER_RIGHT},
                                                {"TEST ACC", RENDER_RIGHT}};
    struct keys keys = {.n = 0};
    struct own own = {.n = 0};
    struct render_table *t = NULL;
    size_t i, n = 2;
    json_t *job;

    find_keys(jobs, &keys);
    find_own(jobs, &own);
    for (size_t k = 0; k < keys.n; k++)
        columns[n++] = (struct render_column){keys.titles[k], RENDER_RIGHT};
    for (size_t k = 0; k < sizeof(last) / sizeof(*last); k++)
        columns[n++] = last[k];
    for (size_t k = 0; k < own.n; k++)
        columns[n++] = (struct render_column){own.titles[k], RENDER_RIGHT};
    columns[n++] = (struct render_column){"PLACE OR REASON", RENDER_LEFT};
    int rc = render_table_create(columns, n, &t, err);
    json_array_foreach(jobs, i, job)
    {
        if (rc == 0)
            rc = add_task(t, &keys, &own, job, err);
    }
    if (rc == 0) {
        if (s->header)
            print_head(s, sweep, json_array_get(jobs, 0));
        render_table_print(t, &s->style, s->header, s->out);
        if (keys.n_more > 0)
            (void)fprintf(s->out, "and %zu keys more, see --json\n",
                          keys.n_more);
        if (own.n > 0 && json_array_size(jobs) > SHOW_VALUES_JOBS)
            (void)fprintf(s->out, "metrics of the last %d tasks\n",
                          (int)SHOW_VALUES_JOBS);
        if (own.n_more > 0)
            (void)fprintf(s->out, "and more metrics, see --json\n");
    }
    render_table_destroy(t);
    return rc;
}
