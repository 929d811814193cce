/* schema.c - read a tree by a table of keys; see schema.h. */
#include "jobs/schema/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

/* The state of one schema_apply(). */
struct walk {
    const struct schema *s;
    const struct schema_base *base;
    void *obj;
    struct schema_from *from;
    struct spec_report *report;
    struct error *err;
};

const struct schema_key *schema_find(const struct schema *s, const char *path)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->keys[i].path, path) == 0)
            return &s->keys[i];
    return NULL;
}

/* "train" and "train.optimizer" are sections, not keys. */
static bool is_section(const struct schema *s, const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < s->n; i++)
        if (strncmp(s->keys[i].path, path, len) == 0 &&
            s->keys[i].path[len] == '.')
            return true;
    return false;
}

static bool is_later(const struct schema *s, const char *path)
{
    for (size_t i = 0; s->later && s->later[i]; i++)
        if (strcmp(s->later[i], path) == 0)
            return true;
    return false;
}

/* A key without a row, or one below it. */
static bool is_extra(const struct schema *s, const char *path)
{
    for (size_t i = 0; s->extra && s->extra[i]; i++) {
        size_t len = strlen(s->extra[i]);
        if (strncmp(s->extra[i], path, len) == 0 &&
            (path[len] == '\0' || path[len] == '.'))
            return true;
    }
    return false;
}

/* ---- suggestions --------------------------------------------------------- */

/* A distance of more than two letters, or of as many as the word has, is
 * another word. */
static void consider(const char *word, const char *candidate, int *best,
                     char *out, size_t cap)
{
    int d = text_distance(word, candidate);
    if (d < *best && (size_t)d < strlen(candidate) &&
        (size_t)d < strlen(word)) {
        *best = d;
        (void)snprintf(out, cap, "%s", candidate);
    }
}

/* "gpus" within "num_gpus", "cmd" for "command", "lr" for "learning_rate". */
static bool is_akin(const char *a, const char *b)
{
    const char *is_short = strlen(a) < strlen(b) ? a : b;
    const char *is_long = is_short == a ? b : a;
    if (strlen(is_short) >= 4 && strstr(is_long, is_short))
        return true;
    if (strlen(is_short) < 2 || *is_short != *is_long)
        return false;
    for (; *is_long && *is_short; is_long++)
        is_short += *is_short == *is_long;
    return *is_short == '\0';
}

/* The component of p, a whole path, after the section; false if p is in another
 * section. */
static bool part_of(const char *p, const char *section, char part[PATH_CAP])
{
    size_t len = strlen(section);
    if (len > 0 && (strncmp(p, section, len) != 0 || p[len] != '.'))
        return false;
    (void)snprintf(part, PATH_CAP, "%s", p + len + (len > 0));
    part[strcspn(part, ".")] = '\0';
    return true;
}

/* The only name of the section that is_akin() to it. */
static bool suggest_akin(const struct schema *s, const char *section,
                         const char *name, char *out, size_t cap)
{
    bool has_one = false;
    for (size_t i = 0; i < s->n; i++) {
        char part[PATH_CAP];
        if (!part_of(s->keys[i].path, section, part) || !is_akin(name, part) ||
            (has_one && strcmp(out, part) == 0))
            continue;
        if (has_one)
            return false;
        (void)snprintf(out, cap, "%s", part);
        has_one = true;
    }
    return has_one;
}

/* "one of: lr, weight_decay", as many as fit. */
static void list_names(const struct schema *s, const char *section, char *out,
                       size_t cap)
{
    char last[PATH_CAP] = "";
    size_t len = (size_t)snprintf(out, cap, "one of: ");
    for (size_t i = 0; i < s->n; i++) {
        char part[PATH_CAP];
        if (!part_of(s->keys[i].path, section, part) || strcmp(part, last) == 0)
            continue;
        if (len + strlen(part) + sizeof(", ...") > cap) {
            (void)snprintf(out + len, cap - len, ", ...");
            return;
        }
        len += (size_t)snprintf(out + len, cap - len, "%s%s", *last ? ", " : "",
                                part);
        memcpy(last, part, sizeof(last));
    }
}

/* Finds the closest name in the same section; if there is none, a key with this
 * very name elsewhere, or a similar one. */
static bool suggest(const struct schema *s, const char *section,
                    const char *name, char *out, size_t cap)
{
    int best = 3;
    for (size_t i = 0; i < s->n; i++) {
        char part[PATH_CAP];
        if (part_of(s->keys[i].path, section, part))
            consider(name, part, &best, out, cap);
    }
    for (size_t i = 0; best == 3 && i < s->n; i++) {
        const char *dot = strrchr(s->keys[i].path, '.');
        if (dot && strcmp(dot + 1, name) == 0) {
            (void)snprintf(out, cap, "%s", s->keys[i].path);
            best = 0;
        }
    }
    return best < 3 || suggest_akin(s, section, name, out, cap);
}

/* The last components of "train.optimizer.lr", as many as word has. */
static const char *tail_of(const char *path, const char *word)
{
    const char *at = path + strlen(path);
    for (const char *p = word; p && at > path; p = strchr(p, '.')) {
        p += *p == '.';
        at -= at > path && at[-1] == '.';
        while (at > path && at[-1] != '.')
            at--;
    }
    return at;
}

bool schema_suggest(const struct schema *s, const char *word, schema_may *may,
                    char *out, size_t cap)
{
    const char *dot = strchr(word, '.');
    char end[PATH_CAP], path[2 * PATH_CAP];
    int best = 3;

    for (size_t i = 0; i < s->n; i++) {
        const struct schema_key *k = &s->keys[i];
        bool is_map = k->type == KEY_MAP;
        int whole;
        if (!may(k) || (is_map && !dot))
            continue;
        (void)snprintf(path, sizeof(path), "%s%.*s", k->path,
                       is_map ? PATH_CAP : 0, is_map ? dot : "");
        consider(word, path, &best, out, cap);
        whole = best;
        if (!is_map)
            consider(word, tail_of(path, word), &best, end, sizeof(end));
        if (best < whole)
            (void)snprintf(out, cap, "%s", path);
    }
    for (size_t i = 0; best == 3 && i < s->n; i++) {
        const struct schema_key *k = &s->keys[i];
        if (may(k) && k->type != KEY_MAP &&
            strcmp(tail_of(k->path, "x"), tail_of(word, "x")) == 0) {
            (void)snprintf(out, cap, "%s", k->path);
            best = 0;
        }
    }
    return best < 3;
}

static void unknown_key(const struct schema *s, const char *section,
                        const char *name, struct mark at,
                        struct spec_report *report)
{
    char q[TEXT_QUOTE_CAP], path[PATH_CAP], word[PATH_CAP];
    char hint[sizeof(report->findings->hint)];
    (void)snprintf(path, sizeof(path), "%s%s%s", section, *section ? "." : "",
                   text_quote(q, sizeof(q), name));
    list_names(s, section, hint, sizeof(hint));
    if (suggest(s, section, name, word, sizeof(word)))
        (void)snprintf(hint, sizeof(hint), "did you mean '%s'?", word);
    diagnostics_add(report, "E010", at, path, hint, "unknown key '%s'", path);
}

static void later_key(const char *path, struct mark at,
                      struct spec_report *report)
{
    diagnostics_add(report, "E018", at, path, NULL,
                    "'%s' is not supported by this version", path);
}

/* ---- read a tree --------------------------------------------------------- */

static int walk_map(struct walk *w, const struct node *map,
                    const char *section);

static int walk_child(struct walk *w, // NOLINT(misc-no-recursion)
                      const struct node *c, const char *section)
{
    char path[PATH_CAP + TREE_MAX_KEY];
    (void)snprintf(path, sizeof(path), "%s%s%s", section, *section ? "." : "",
                   c->key);
    const struct schema_key *k = schema_find(w->s, path);
    if (k) {
        struct schema_from *from = &w->from[k - w->s->keys];
        from->node = c;
        if (c->kind == NODE_BAD) {
            from->bad = true;
            return 0;
        }
        return schema_set(k, c, w->base, w->obj, w->report, &from->bad, w->err);
    }
    if (is_later(w->s, path)) {
        later_key(path, c->key_at, w->report);
        return 0;
    }
    if (is_section(w->s, path)) {
        if (c->kind == NODE_MAP)
            return walk_map(w, c, path);
        if (c->kind == NODE_SCALAR || c->kind == NODE_LIST)
            diagnostics_add(w->report, "E011", c->at, path, NULL,
                            "'%s' must be a mapping (key: value)", path);
        return 0;
    }
    if (w->s->notes && !*section &&
        strncmp(c->key, w->s->notes, strlen(w->s->notes)) == 0)
        return 0;
    const struct schema_gone *g = w->s->gone;
    while (g && g->path && strcmp(g->path, path) != 0)
        g++;
    if (g && g->path)
        diagnostics_add(w->report, "E018", c->key_at, path, g->instead,
                        "'%s' was removed", path);
    else
        unknown_key(w->s, section, c->key, c->key_at, w->report);
    return 0;
}

/* Recursion depth: the components of the table's longest path. */
static int walk_map(struct walk *w, // NOLINT(misc-no-recursion)
                    const struct node *map, const char *section)
{
    for (const struct node *c = map->first; c; c = c->next)
        if (walk_child(w, c, section) < 0)
            return -1;
    return 0;
}

int schema_apply(const struct schema *s, const struct node *root,
                 const struct schema_base *base, void *obj,
                 struct schema_from *from, struct spec_report *report,
                 struct error *err)
{
    struct walk w = {s, base, obj, from, report, err};
    for (size_t i = 0; i < s->n; i++)
        from[i] = (struct schema_from){.node = NULL};
    return walk_map(&w, root, "");
}

/* ---- --set --------------------------------------------------------------- */

/* The length of the next component of a path; below a map such as `labels`, of
 * the whole rest. */
static size_t step_length(const struct schema *s, const char *path,
                          const char *rest)
{
    char head[PATH_CAP];
    (void)snprintf(head, sizeof(head), "%.*s", (int)(rest - path), path);
    size_t len = strlen(head);
    if (len > 0)
        head[len - 1] = '\0'; /* the dot */
    const struct schema_key *k = schema_find(s, head);
    return k && k->type == KEY_MAP ? strlen(rest) : strcspn(rest, ".");
}

static struct node *new_child(struct node *map, const char *key, struct mark at,
                              struct error *err)
{
    struct node *n = tree_create(NODE_MAP, at, err);
    if (!n)
        return NULL;
    n->key_at = at;
    n->key = strdup(key);
    if (!n->key) {
        tree_destroy(n);
        (void)error_set(err, ERR_NOMEM, "key of a YAML tree");
        return NULL;
    }
    tree_append(map, n);
    return n;
}

/* Sets (NULL: removes) the value of `name` in the map; owns value. */
static int put_value(struct node *map, const char *name, struct node *value,
                     struct error *err)
{
    tree_remove(map, name);
    if (!value)
        return 0;
    free(value->key);
    value->key = strdup(name);
    if (!value->key) {
        tree_destroy(value);
        return error_set(err, ERR_NOMEM, "key of a YAML tree");
    }
    tree_append(map, value);
    return 0;
}

/* The map that holds the path's last component. Creates missing maps if there
 * is a value for it, at the value's position. NULL also with a finding, if a
 * value of another kind is in the way. */
static struct node *descend(const struct schema *s, struct node *root,
                            const char *path, const struct node *value,
                            const char **ret_last, struct spec_report *report,
                            struct error *err)
{
    struct node *map = root;
    const char *rest = path;
    for (;;) {
        size_t len = step_length(s, path, rest);
        *ret_last = rest;
        if (rest[len] == '\0')
            return map;
        char name[PATH_CAP];
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, rest);
        struct node *next = tree_child(map, name);
        if (next && next->kind == NODE_NULL)
            next->kind = NODE_MAP; /* an empty section */
        if (!next && value)
            next = new_child(map, name, value->key_at, err);
        if (!next)
            return NULL;
        if (next->kind != NODE_MAP) {
            struct mark at = {.option = value ? value->at.option : NULL};
            diagnostics_add(report, "E011", at, path, NULL,
                            "'%s' cannot be set: '%.*s' is not a mapping", path,
                            (int)(rest + len - path), path);
            return NULL;
        }
        map = next;
        rest += len + 1;
    }
}

/* The path itself, or a section of it; NULL. */
static const char *later_of(const struct schema *s, const char *path,
                            char head[PATH_CAP])
{
    bool more = strlen(path) < PATH_CAP;
    (void)snprintf(head, PATH_CAP, "%s", path);
    while (more) {
        if (is_later(s, head))
            return head;
        char *end = strrchr(head, '.');
        more = end != NULL;
        if (more)
            *end = '\0';
    }
    return NULL;
}

bool schema_is_later(const struct schema *s, const char *path)
{
    char head[PATH_CAP];
    return later_of(s, path, head) != NULL;
}

void schema_unknown(const struct schema *s, const char *path, struct mark at,
                    struct spec_report *report)
{
    char head[PATH_CAP];
    bool is_cut = strlen(path) >= sizeof(head);
    if (later_of(s, path, head)) {
        later_key(head, at, report);
        return;
    }
    (void)snprintf(head, sizeof(head), "%s", path);
    char *dot = is_cut ? NULL : strrchr(head, '.');
    if (dot && is_section(s, (*dot = '\0', head)))
        unknown_key(s, head, dot + 1, at, report);
    else
        unknown_key(s, "", path, at, report);
}

/* Only keys of the table; a sub-key of a map or a range is validated
 * elsewhere. */
static bool key_exists(const struct schema *s, const char *path)
{
    char head[PATH_CAP];
    if (strlen(path) >= sizeof(head))
        return false;
    if (is_extra(s, path))
        return true;
    (void)snprintf(head, sizeof(head), "%s", path);
    for (bool whole = true;; whole = false) {
        const struct schema_key *k = schema_find(s, head);
        if (k && (whole || k->type == KEY_MAP || k->type == KEY_RANGE ||
                  k->type == KEY_SIZES))
            return true;
        if (whole && is_section(s, head))
            return true;
        char *dot = strrchr(head, '.');
        if (!dot)
            return false;
        *dot = '\0';
    }
}

int schema_put(const struct schema *s, struct node *root, const char *path,
               struct node *value, struct spec_report *report,
               struct error *err)
{
    const char *last = NULL;
    struct error why = ERROR_INIT;
    struct node *map = descend(s, root, path, value, &last, report, &why);
    if (!map) {
        tree_destroy(value);
        return why.code == ERR_NONE ? 0
                                    : error_set(err, why.code, "%s", why.msg);
    }
    return put_value(map, last, value, err);
}

static void said_by(struct node *n, const char *option)
{
    n->at.option = n->key_at.option = option;
    n->is_typed = true;
    for (struct node *c = n->first; c; c = c->next)
        said_by(c, option);
}

int schema_graft(const struct schema *s, struct node *root,
                 const struct spec_set *set, struct spec_report *report,
                 struct error *err)
{
    if (!key_exists(s, set->key)) {
        schema_unknown(s, set->key, (struct mark){.option = set->option},
                       report);
        return 0;
    }
    struct node *value = NULL;
    size_t n_before = report->n;
    if (set->value) {
        if (tree_parse_value(set->key, set->value, report, &value, err) < 0)
            return -1;
        /* Findings about a value have no position: set that of the option. */
        for (size_t i = 0; report->n > n_before && i < report->n; i++)
            if (report->findings[i].line == 0 &&
                strcmp(report->findings[i].path, set->key) == 0)
                report->findings[i].option = set->option;
        if (!value)
            return 0;
        said_by(value, set->option);
    }
    return schema_put(s, root, set->key, value, report, err);
}
