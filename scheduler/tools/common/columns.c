/* columns.c - the columns of the queue, and the parser of -o. */
#include "scheduler/tools/common/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/queue_fields.h"
#include "scheduler/tools/views/show.h"

/* ---- words ----------------------------------------------------------------
 */
static const struct {
    const char *name, *fields, *doc;
} formats[] = {
    {"default", "id,name,user,st,gpus,step,rate,loss,elapsed,eta,where",
     "the default"},
    {"short", "id,name,st,gpus,progress,eta", "for a narrow terminal"},
    {"long",
     "id,name,user,kind,state,priority,gpus,attempt,step,rate,loss,eval_loss,"
     "accuracy,elapsed,eta,limit,submitted,started,where",
     "for a wide terminal"},
    {"why", "id,name,user,state,position,gpus,estimate,reason",
     "why jobs are pending"},
    {"times", "id,name,state,submitted,started,ended,elapsed,limit,remaining",
     "times of submit, start and end"},
    {"ended",
     "id,name,user,state,exit,gpus,attempt,eval_loss,accuracy,elapsed,ended",
     "with -t all or --since: how jobs ended"},
};
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

/* The length of the common beginning, ignoring case. Names are ASCII, and in
 * some locales I is not the upper case of i. */
static size_t alike(const char *word, size_t n, const char *name)
{
    size_t k = 0;
    for (; k < n && name[k]; k++) {
        char a = word[k], b = name[k];
        a = (char)(a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a);
        b = (char)(b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
        if (a != b)
            break;
    }
    return k;
}

static bool is_name(const char *word, size_t n, const char *name)
{
    return strlen(name) == n && alike(word, n, name) == n;
}

/* Finds a column by its name or its title, ignoring case. */
static const struct field *find(const char *name, size_t n)
{
    for (size_t i = 0; i < queue_fields_n; i++)
        if (is_name(name, n, queue_fields[i].name) ||
            is_name(name, n, queue_fields[i].title))
            return &queue_fields[i];
    return NULL;
}

/* The columns of a format; NULL: no such format. */
static const char *find_format(const char *name, size_t n)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strlen(formats[i].name) == n &&
            strncmp(formats[i].name, name, n) == 0)
            return formats[i].fields;
    return NULL;
}

/* The name with the longest common beginning: of a column, else of a format,
 * else the title of a column; NULL: none. */
static const char *nearest(const char *word, size_t n, bool is_sort)
{
    const char *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < 2 * queue_fields_n + N_FORMATS; i++) {
        size_t format = i - queue_fields_n, title = format - N_FORMATS;
        if (i >= queue_fields_n && format < N_FORMATS && is_sort)
            continue;
        const char *name = i < queue_fields_n   ? queue_fields[i].name
                           : format < N_FORMATS ? formats[format].name
                                                : queue_fields[title].title;
        size_t k = alike(word, n, name);
        if (k > most) {
            most = k;
            best = name;
        }
    }
    return best;
}

/* in  is_sort  formats do not count */
static int unknown(const char *word, size_t n, bool is_sort, struct error *err)
{
    char text[64], q[TEXT_QUOTE_CAP];
    (void)snprintf(text, sizeof(text), "%.*s", n < 40 ? (int)n : 40, word);
    (void)text_quote(q, sizeof(q), text);
    const char *near = nearest(word, n, is_sort);
    return near ? error_set(err, ERR_USAGE,
                            "no column '%s'; did you mean '%s'?", q, near)
                : error_set(err, ERR_USAGE,
                            "no column '%s'; see mgpu-stat -o help", q);
}

/* ---- metrics of programs --------------------------------------------------
 */
static const char own_head[] = "metric.";

static bool is_own(const char *word)
{
    const size_t head = sizeof(own_head) - 1;
    const size_t n = strcspn(word, ",");
    return strncmp(word, own_head, head) == 0 && n > head && n < COLUMN_OWN_CAP;
}

bool columns_have_own(const struct columns *c, const char *sort)
{
    bool has = sort && is_own(sort + (*sort == '-'));
    for (size_t i = 0; i < c->n; i++)
        has = has || c->own[i][0];
    return has;
}

/* in  word  up to its end or a comma */
static int add_own(struct buf *ret, const char *word, struct error *err)
{
    const char *p = word + sizeof(own_head) - 1;
    if (ret->len > 0 && buf_addstr(ret, ",", err) < 0)
        return -1;
    for (; *p && *p != ','; p++)
        if (buf_addf(ret, err, "%%%02X", (unsigned char)*p) < 0)
            return -1;
    return 0;
}

int columns_own_names(const struct columns *c, const char *sort,
                      struct buf *ret, struct error *err)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->own[i][0] && add_own(ret, c->own[i], err) < 0)
            return -1;
    if (sort && is_own(sort + (*sort == '-')))
        return add_own(ret, sort + (*sort == '-'), err);
    return 0;
}

const json_t *columns_own_value(const char *word, const json_t *values)
{
    return json_object_get(values, word + sizeof(own_head) - 1);
}

const char *columns_title(const struct columns *c, size_t i)
{
    return c->own[i][0] ? c->own[i] + sizeof(own_head) - 1 : c->at[i]->title;
}

void columns_text(const struct columns *c, size_t i, const struct members *job,
                  char *out, size_t cap)
{
    if (!c->own[i][0]) {
        c->at[i]->text(job, out, cap);
        return;
    }
    const struct member m = members_get(job, "values");
    const double v = cells_number(columns_own_value(c->own[i], m.tree));
    (void)snprintf(out, cap, "-");
    if (!isnan(v))
        (void)snprintf(out, cap, "%.4g", v);
}

/* A word that is both names the column in a list, and the format if it is
 * alone. */
static int add_words(const char *text, bool is_format, struct columns *io,
                     struct error *err)
{
    bool is_list = strchr(text, ',') != NULL;
    while (*text) {
        size_t n = strcspn(text, ",");
        const struct field *f = is_own(text) ? &queue_own_field : find(text, n);
        const char *format =
            is_format || (f && is_list) ? NULL : find_format(text, n);
        if (format) {
            if (add_words(format, true, io, err) < 0)
                return -1;
        } else if (!f) {
            return unknown(text, n, false, err);
        } else {
            if (io->n == COLUMNS_MAX)
                return error_set(err, ERR_USAGE, "more than %d columns",
                                 (int)COLUMNS_MAX);
            if (f == &queue_own_field)
                (void)snprintf(io->own[io->n], COLUMN_OWN_CAP, "%.*s", (int)n,
                               text);
            io->at[io->n++] = f;
        }
        text += n + (text[n] == ',');
    }
    return 0;
}

int columns_parse(const char *text, struct columns *ret, struct error *err)
{
    struct columns c = {.n = 0};
    if (add_words(text ? text : "default", false, &c, err) < 0)
        return -1;
    if (c.n == 0)
        return error_set(err, ERR_USAGE, "no columns; see mgpu-stat -o help");
    *ret = c;
    return 0;
}

/* Appends the members in `more` ("a,b") that are not in the list yet. */
static int add_members(struct buf *list, const char *more, struct error *err)
{
    while (*more) {
        size_t n = strcspn(more, ",");
        const char *p = buf_str(list);
        while (*p && !(strncmp(p, more, n) == 0 && strchr(",", p[n])))
            p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',');
        if (!*p && buf_addf(list, err, "%s%.*s", list->len > 0 ? "," : "",
                            (int)n, more) < 0)
            return -1;
        more += n + (more[n] == ',');
    }
    return 0;
}

int columns_members(const struct columns *c, const char *sort, struct buf *ret,
                    struct error *err)
{
    const struct field *by = NULL;
    int rc = 0;
    if (sort)
        by = find(sort + (*sort == '-'), strlen(sort + (*sort == '-')));
    for (size_t i = 0; rc == 0 && i < c->n; i++)
        rc = add_members(ret, c->at[i]->reads, err);
    if (rc == 0 && (by || columns_have_own(c, sort)))
        rc = add_members(ret, by ? by->reads : queue_own_field.reads, err);
    return rc == 0 && by && by->key ? add_members(ret, by->key, err) : rc;
}

void columns_help(FILE *out)
{
    (void)fputs("Columns:\n", out);
    for (size_t i = 0; i < queue_fields_n; i++)
        (void)fprintf(out, "  %-10s  %s\n", queue_fields[i].name,
                      queue_fields[i].doc);
    (void)fputs("\nFormats:\n", out);
    for (size_t i = 0; i < N_FORMATS; i++)
        (void)fprintf(out, "  %-10s  %s:\n              %s\n", formats[i].name,
                      formats[i].doc, formats[i].fields);
    (void)fputs(
        "\nmetric.NAME is the newest value of a metric that the job named "
        "itself.\n",
        out);
}

/* ---- order ---------------------------------------------------------------
 */

struct item {
    json_t *job; /* borrowed */
    double number;
    char text[128];
    bool has;
};

static int compare(const struct item *a, const struct item *b, bool by_number)
{
    if (a->has != b->has)
        return a->has ? -1 : 1;
    if (by_number && a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return by_number ? 0 : strcmp(a->text, b->text);
}

/* Stable merge sort: a screen has some thousand jobs at most. */
static void merge_sort(struct item *v, struct item *room, size_t n,
                       bool by_number, bool back)
{
    if (n < 2)
        return;
    size_t half = n / 2, i = 0, j = half, k = 0;
    merge_sort(v, room, half, by_number, back);
    merge_sort(v + half, room, n - half, by_number, back);
    while (i < half && j < n) {
        int c = compare(&v[j], &v[i], by_number);
        if (back && v[i].has && v[j].has)
            c = -c;
        room[k++] = c < 0 ? v[j++] : v[i++];
    }
    while (i < half)
        room[k++] = v[i++];
    memcpy(v, room, k * sizeof(*v));
}

static void fill_item(struct item *it, json_t *job, const struct field *f)
{
    const json_t *v =
        !f->key ? NULL
        : is_own(f->key)
            ? columns_own_value(f->key, json_object_get(job, "values"))
            : json_object_get(job, f->key);
    struct members m;
    char text[COLUMN_TEXT_CAP];
    it->job = job;
    if (f->key) {
        it->number = cells_number(v);
        it->has = !isnan(it->number);
        return;
    }
    json_members_of_json(job, &m);
    f->text(&m, text, sizeof(text));
    (void)snprintf(it->text, sizeof(it->text), "%.127s", text);
    it->has = it->text[0] && strcmp(it->text, "-") != 0;
}

static int not_sortable(const char *by, struct error *err)
{
    const char *format = find_format(by, strlen(by));
    if (!format)
        return unknown(by, strlen(by), true, err);
    return error_set(err, ERR_USAGE,
                     "rows are sorted by one column, and '%s' is a format of "
                     "several: %s",
                     by, format);
}

int columns_sort(const json_t *jobs, const char *by, json_t **ret,
                 struct error *err)
{
    bool back = *by == '-';
    const struct field own = {.key = by + back};
    const struct field *f =
        is_own(by + back) ? &own : find(by + back, strlen(by + back));
    size_t n = json_array_size(jobs), i;
    json_t *job, *sorted = json_array();
    if (!f) {
        json_decref(sorted);
        return not_sortable(by + back, err);
    }
    struct item *v = calloc(2 * n + 1, sizeof(*v));
    if (!v || !sorted) {
        free(v);
        json_decref(sorted);
        return error_set(err, ERR_NOMEM, "%zu jobs", n);
    }
    json_array_foreach(jobs, i, job)
    {
        fill_item(&v[i], job, f);
    }
    merge_sort(v, v + n, n, f->key != NULL, back);
    for (i = 0; i < n; i++)
        (void)json_array_append(sorted, v[i].job);
    free(v);
    *ret = sorted;
    return 0;
}
