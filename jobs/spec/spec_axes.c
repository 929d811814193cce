/* spec_axes.c - parse and check the keys and values of a sweep.
 *
 * Each value is parsed by itself before the expansion: a bad one is one finding
 * at its position, not one per task. Findings that remain for a task concern
 * combinations of values, and name the task (spec_sweep.c). */
#include "jobs/spec/spec_axes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

static void refuse(struct expansion *x, struct mark at, const char *key,
                   const char *hint, const char *what)
{
    char q[TEXT_QUOTE_CAP];
    diagnostics_add(x->report, "E020", at, key, hint, "'%s' %s",
                    text_quote(q, sizeof(q), key), what);
}

/* ---- keys and values ------------------------------------------------------
 */

/* The row of a key, or of the map that contains it: "env.LR". */
static const struct schema_key *row_of(const char *key)
{
    const struct schema_key *k = schema_find(&spec_schema, key);
    char head[PATH_CAP];
    if (k)
        return k->type == KEY_MAP ? NULL : k;
    (void)snprintf(head, sizeof(head), "%.*s", (int)strcspn(key, "."), key);
    k = key[strlen(head)] ? schema_find(&spec_schema, head) : NULL;
    return k && k->type == KEY_MAP ? k : NULL;
}

static bool may_vary(const struct schema_key *k)
{
    static const char *const fixed[] = {"version", "kind", "env_passthrough",
                                        "secrets"};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (strcmp(k->path, fixed[i]) == 0)
            return false;
    return k->when != WHEN_SWEEP;
}

/* The intended key of an unknown one: "train.epochs", also for a section that
 * contains "epochs". */
static bool is_meant(const struct node *n, char *ret, size_t cap)
{
    const struct schema_key *k = NULL;
    if (n->kind == NODE_MAP && n->first) {
        (void)snprintf(ret, cap, "%s.%s", n->key, n->first->key);
        k = row_of(ret);
    }
    return (k && may_vary(k)) ||
           schema_suggest(&spec_schema, n->key, may_vary, ret, cap);
}

/* Suggests only keys that can be varied. */
static void refuse_unknown(struct expansion *x, const struct node *n)
{
    char word[2 * TREE_MAX_KEY], hint[sizeof(word) + 32];
    char q[TEXT_QUOTE_CAP];
    const char *key = text_quote(q, sizeof(q), n->key);

    for (const char *const *p = spec_foreign_keys; *p; p++)
        if (strcmp(*p, n->key) == 0) {
            refuse(x, n->key_at, n->key, "vary the key that it stands for",
                   "cannot be varied");
            return;
        }
    if (schema_is_later(&spec_schema, n->key)) {
        schema_unknown(&spec_schema, n->key, n->key_at, x->report);
        return;
    }
    hint[0] = '\0';
    if (is_meant(n, word, sizeof(word)))
        (void)snprintf(hint, sizeof(hint), "did you mean '%s'?", word);
    diagnostics_add(x->report, "E010", n->key_at, key, hint, "unknown key '%s'",
                    key);
}

static bool check_key(struct expansion *x, const struct node *n)
{
    const struct schema_key *k = row_of(n->key);
    if (k && may_vary(k))
        return true;
    if (k || schema_find(&spec_schema, n->key))
        refuse(x, n->key_at, n->key, NULL, "cannot be varied");
    else
        refuse_unknown(x, n);
    return false;
}

int axes_resolve(struct expansion *x, const struct schema_key *k,
                 struct node *value, const struct job_spec *from)
{
    const char *path = *(char *const *)((const char *)from + k->at);
    char *copy = path ? strdup(path) : NULL;
    if (path && !copy)
        return error_set(x->err, ERR_NOMEM, "path '%s'", k->path);
    if (!copy)
        return 0;
    free(value->text);
    value->text = copy;
    return 0;
}

static int check_value(struct expansion *x, const char *key, struct node *value)
{
    const struct schema_key *k = schema_find(&spec_schema, key);
    bool bad = false;
    if (value->kind == NODE_BAD)
        return 0;
    if (!k) { /* an item of a map */
        if (value->kind != NODE_SCALAR)
            diagnostics_add(x->report, "E011", value->at, key, NULL,
                            "each value of '%s' must be a text", key);
        return 0;
    }
    if (schema_set(k, value, &x->paths, &x->scratch, x->report, &bad, x->err) <
        0)
        return -1;
    if (k->type == KEY_PATH && !bad && value->kind == NODE_SCALAR)
        return axes_resolve(x, k, value, &x->scratch);
    return 0;
}

/* ---- grid, zip, list ------------------------------------------------------
 */

/* A key with a list of values; *ret_n is 0 if it was refused. */
static int take_values(struct expansion *x, struct node *list, size_t *ret_n)
{
    *ret_n = 0;
    if (!check_key(x, list))
        return 0;
    if (list->kind != NODE_LIST || !list->first) {
        if (list->kind != NODE_BAD)
            refuse(x, list->at, list->key, "as in [1, 2, 4]",
                   "needs a list of values");
        return 0;
    }
    if (x->n_varied == VARIED_MAX) {
        refuse(x, list->key_at, list->key, NULL, "is one key too many: 32");
        return 0;
    }
    for (struct node *v = list->first; v; v = v->next)
        if (check_value(x, list->key, v) < 0)
            return -1;
    x->varied[x->n_varied++] =
        (struct varied){list->key, list->key_at, list->first};
    *ret_n = tree_count(list);
    return 0;
}

static void add_axis(struct expansion *x, struct axis a, struct mark at,
                     const char *key)
{
    if (x->n_axes == AXES_MAX)
        refuse(x, at, key, "vary them together: sweep.zip",
               "is one axis too many: 16");
    else
        x->axes[x->n_axes++] = a;
}

static int read_grid(struct expansion *x, struct node *grid)
{
    for (struct node *c = grid->first; c; c = c->next) {
        struct axis a = {.first = x->n_varied, .n_varied = 1};
        if (take_values(x, c, &a.n) < 0)
            return -1;
        if (a.n > 0)
            add_axis(x, a, c->key_at, c->key);
    }
    return 0;
}

static int read_zip(struct expansion *x, struct node *zip)
{
    struct axis a = {.first = x->n_varied};
    for (struct node *c = zip->first; c; c = c->next) {
        size_t n = 0;
        char what[80];
        if (take_values(x, c, &n) < 0)
            return -1;
        if (n > 0 && a.n > 0 && n != a.n) {
            (void)snprintf(what, sizeof(what),
                           "has %zu values, and the keys before it %zu", n,
                           a.n);
            refuse(x, c->key_at, c->key, "a zip takes one of each together",
                   what);
        } else if (n > 0)
            a.n = n;
    }
    a.n_varied = x->n_varied - a.first;
    if (a.n > 0)
        add_axis(x, a, zip->key_at, "sweep.zip");
    return 0;
}

static int read_item(struct expansion *x, struct node *item)
{
    if (item->kind != NODE_MAP || !item->first) {
        if (item->kind != NODE_BAD)
            refuse(x, item->at, "sweep.list", "as in {train.epochs: 3}",
                   "is of maps of keys and values");
        return 0;
    }
    for (struct node *v = item->first; v; v = v->next)
        if (check_key(x, v) && check_value(x, v->key, v) < 0)
            return -1;
    return 0;
}

static int read_list(struct expansion *x, struct node *list)
{
    struct axis a = {.list = list->first, .n = tree_count(list)};
    for (struct node *c = list->first; c; c = c->next)
        if (read_item(x, c) < 0)
            return -1;
    if (a.n > 0)
        add_axis(x, a, list->key_at, "sweep.list");
    return 0;
}

/* ---- array ----------------------------------------------------------------
 */

/* The position of the byte at `off` of the node's text; in quotes, one
 * further. */
static struct mark place_in(const struct node *n, size_t off)
{
    struct mark at = n->at;
    bool is_quoted = at.line > 0 && (size_t)at.width > strlen(n->text);
    at.column = at.line > 0 ? at.column : 1;
    at.column += (int32_t)off + is_quoted;
    at.width = 1;
    return at;
}

/* The numbers are those of the jobs: with other axes, several jobs would have
 * one number. */
static int read_array(struct expansion *x, const struct node *n)
{
    static const char key[] = "sweep.array";
    static const char *const others[] = {"grid", "zip", "list"};
    struct axis a = {.is_array = true};
    struct error why = ERROR_INIT;
    size_t off = 0;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (tree_child(x->sweep, others[i])) {
            refuse(x, n->at, key, "a sweep of numbers is a sweep of its own",
                   "cannot stand beside grid, zip or list");
            return 0;
        }
    x->array = calloc(1, sizeof(*x->array));
    if (!x->array)
        return error_set(x->err, ERR_NOMEM, "array");
    if (array_parse(n->text, x->array, &off, &why) < 0)
        diagnostics_add(x->report, "E020", place_in(n, off), key,
                        "as in 0-15, 0-30:10, 1,3,7-9; 0-15%4: four at a time",
                        "'%s': %s", key, why.msg);
    else if (x->array->max_parallel > 0 && tree_child(x->sweep, "max_parallel"))
        refuse(x, n->at, key, "leave one of them out",
               "has a % and sweep.max_parallel is there, too");
    else {
        a.n = x->array->n;
        add_axis(x, a, n->key_at, key);
    }
    return 0;
}

/* ---- conflicting keys -----------------------------------------------------
 */

static const struct node *node_at(const struct node *root, const char *path)
{
    const struct node *n = root;
    for (const char *p = path; n && n->kind == NODE_MAP;) {
        char name[PATH_CAP];
        const struct node *whole = tree_child(n, p); /* labels: {a.b: c} */
        size_t len = strcspn(p, ".");
        if (whole)
            return whole;
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, p);
        n = p[len] ? tree_child(n, name) : NULL;
        p += len + 1;
    }
    return NULL;
}

static bool in_list(const struct axis *a, const char *key, bool in_all)
{
    for (const struct node *c = a->list; c; c = c->next) {
        bool is_there = c->kind == NODE_MAP && tree_child(c, key);
        if (is_there != in_all)
            return is_there;
    }
    return in_all;
}

bool axes_vary(const struct expansion *x, const char *key)
{
    bool found = false;
    for (size_t i = 0; i < x->n_varied; i++)
        found = found || strcmp(x->varied[i].key, key) == 0;
    for (size_t i = 0; i < x->n_axes; i++)
        found = found || (x->axes[i].list && in_list(&x->axes[i], key, true));
    return found;
}

/* A key that is varied twice would be ambiguous. */
static void check_twice(struct expansion *x)
{
    for (size_t i = 0; i < x->n_varied; i++) {
        const struct varied *v = &x->varied[i];
        bool twice = false;
        for (size_t j = 0; j < i; j++)
            twice = twice || strcmp(v->key, x->varied[j].key) == 0;
        for (size_t j = 0; j < x->n_axes; j++)
            twice = twice ||
                    (x->axes[j].list && in_list(&x->axes[j], v->key, false));
        if (twice)
            refuse(x, v->at, v->key, NULL, "is varied twice");
        else if (node_at(x->base.root, v->key))
            refuse(x, v->at, v->key, "leave it out of the rest",
                   "is varied, and set as well");
    }
}

static void check_list_twice(struct expansion *x)
{
    for (size_t j = 0; j < x->n_axes; j++) {
        const struct node *item = x->axes[j].list;
        for (const struct node *v = item ? item->first : NULL; v; v = v->next)
            if (in_list(&x->axes[j], v->key, true) &&
                node_at(x->base.root, v->key))
                refuse(x, v->key_at, v->key, "leave it out of the rest",
                       "is varied in each item, and set as well");
    }
}

static void count_tasks(struct expansion *x)
{
    double n = 1;
    char what[100];
    for (size_t i = 0; i < x->n_axes; i++)
        n *= (double)x->axes[i].n;
    if (x->n_axes == 0)
        refuse(x, x->sweep->key_at, "sweep",
               "name keys under grid, zip or list, or numbers under array",
               "varies nothing");
    else if (n > (double)SPEC_TASKS_MAX) {
        (void)snprintf(what, sizeof(what), "makes %.15g jobs; at most %d", n,
                       SPEC_TASKS_MAX);
        refuse(x, x->sweep->key_at, "sweep", NULL, what);
    }
    x->n_tasks = n > (double)SPEC_TASKS_MAX ? 0 : (size_t)n;
}

bool axes_check_size(struct expansion *x, size_t len)
{
    char what[120];
    if (x->n_tasks <= SPEC_TASKS_BYTES / (len + 1))
        return true;
    (void)snprintf(what, sizeof(what),
                   "makes %zu jobs of up to %zu bytes; at most %d MiB in all",
                   x->n_tasks, len, SPEC_TASKS_BYTES >> 20);
    refuse(x, x->sweep->key_at, "sweep", "leave long texts to a file", what);
    return false;
}

/* Whether it is a key of the sweep itself, or a misspelt one. */
static bool is_part(const char *key)
{
    static const char head[] = "sweep.";
    size_t len = strlen(head);
    for (size_t i = 0; i < spec_schema.n; i++) {
        const char *path = spec_schema.keys[i].path;
        if (strncmp(path, head, len) == 0 && text_distance(key, path + len) < 3)
            return true;
    }
    return false;
}

void axes_check_parts(struct expansion *x)
{
    char word[2 * TREE_MAX_KEY], hint[sizeof(word) + 40];
    char q[TEXT_QUOTE_CAP], path[PATH_CAP];

    for (struct node *c = x->sweep->kind == NODE_MAP ? x->sweep->first : NULL,
                     *next;
         c; c = next) {
        const struct schema_key *k = row_of(c->key);
        next = c->next;
        (void)snprintf(word, sizeof(word), "%s", c->key);
        if (is_part(c->key) ||
            (!(k && may_vary(k)) && !is_meant(c, word, sizeof(word))))
            continue;
        (void)snprintf(path, sizeof(path), "sweep.%s",
                       text_quote(q, sizeof(q), c->key));
        (void)snprintf(hint, sizeof(hint), "did you mean 'grid: {%s: ...}'?",
                       word);
        diagnostics_add(x->report, "E010", c->key_at, path, hint,
                        "unknown key '%s'", path);
        tree_remove(x->sweep, c->key);
    }
}

int axes_read(struct expansion *x)
{
    static const struct {
        const char *key;
        enum node_kind kind;
        int (*read)(struct expansion *x, struct node *n);
    } parts[] = {{"grid", NODE_MAP, read_grid},
                 {"zip", NODE_MAP, read_zip},
                 {"list", NODE_LIST, read_list}};
    if (x->sweep->kind != NODE_MAP)
        return 0; /* reported */
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct node *n = tree_child(x->sweep, parts[i].key);
        if (n && n->kind == parts[i].kind && parts[i].read(x, n) < 0)
            return -1;
    }
    const struct node *array = tree_child(x->sweep, "array");
    if (array && array->kind == NODE_SCALAR && read_array(x, array) < 0)
        return -1;
    check_twice(x);
    check_list_twice(x);
    if (x->report->n_errors == 0)
        count_tasks(x);
    return 0;
}
