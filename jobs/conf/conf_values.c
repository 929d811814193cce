/* conf_values.c - what the table of mgpu.yaml says in words: values, where they
 * come from, and which of them are policy. */
#include <stdio.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/conf/conf_table.h"
#include "jobs/schema/diagnostics.h"
#include "jobs/schema/schema_doc.h"
#include "jobs/schema/tree.h"

/* ---- words --------------------------------------------------------------- */

static void note_live(void *arg, size_t row, char *out, size_t cap)
{
    (void)arg;
    (void)snprintf(out, cap, "%s",
                   conf_schema.keys[row].live ? "live" : "restart");
}

int conf_print(const struct conf *c, struct buf *out, struct error *err)
{
    return schema_yaml(&conf_schema, c, NULL, note_live, NULL, out, err);
}

void conf_changes(const struct conf *a, const struct conf *b,
                  void (*each)(void *arg, const char *path, bool live),
                  void *arg)
{
    for (size_t i = 0; i < conf_schema.n; i++)
        if (!schema_same(&conf_schema.keys[i], a, b))
            each(arg, conf_schema.keys[i].path, conf_schema.keys[i].live);
}

void conf_each_key(void (*each)(void *arg, const char *path, const char *type,
                                const char *def, const char *range, bool live,
                                const char *doc),
                   void *arg)
{
    for (size_t i = 0; i < conf_schema.n; i++) {
        char range[RANGE_CAP];
        each(arg, conf_schema.keys[i].path,
             schema_type_name(&conf_schema.keys[i]),
             conf_schema.keys[i].def ? conf_schema.keys[i].def : "",
             schema_range(&conf_schema.keys[i], range),
             conf_schema.keys[i].live, conf_schema.keys[i].doc);
    }
}

enum conf_key conf_key_of(const char *path)
{
    static const char *const heads[] = {"scheduler.", "limits.", "watchdog.",
                                        "slurm.submit_ahead"};
    const struct schema_key *k = schema_find(&conf_schema, path);
    size_t len = strlen(path);

    for (size_t i = 0; k && i < sizeof(heads) / sizeof(heads[0]); i++)
        if (strncmp(path, heads[i], strlen(heads[i])) == 0)
            return k->live ? CONF_POLICY : CONF_POLICY_AT_START;
    if (k)
        return CONF_OTHER;
    for (size_t i = 0; i < conf_schema.n; i++)
        if (strncmp(conf_schema.keys[i].path, path, len) == 0 &&
            conf_schema.keys[i].path[len] == '.')
            return CONF_OTHER;
    return CONF_UNKNOWN;
}

int conf_each_value(const struct conf *c,
                    void (*each)(void *arg, const struct conf_value *v),
                    void *arg, struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = 0;

    for (size_t i = 0; i < conf_schema.n; i++) {
        const struct schema_key *k = &conf_schema.keys[i];
        char range[RANGE_CAP];
        buf_reset(&text);
        if ((rc = schema_value(k, c, &text, err)) < 0)
            break;
        const struct conf_value v = {
            .path = k->path,
            .type = schema_type_name(k),
            .def = k->def ? k->def : "",
            .range = schema_range(k, range),
            .doc = k->doc,
            .value = buf_str(&text),
            .line = c->from.lines ? c->from.lines[i] : CONF_BUILT_IN,
            .key = conf_key_of(k->path),
        };
        each(arg, &v);
    }
    buf_clear(&text);
    return rc;
}

/* ---- places -------------------------------------------------------------- */

static const struct mark *mark_in(const struct node *root, const char *path,
                                  const char *item)
{
    char part[PATH_CAP];
    const struct node *n = root;
    for (const char *p = path; *p;) {
        size_t len = strcspn(p, ".");
        (void)snprintf(part, sizeof(part), "%.*s", (int)len, p);
        const struct node *below = tree_child(n, part);
        if (!below)
            return n == root ? NULL : &n->key_at;
        n = below;
        p += len + (p[len] == '.');
    }
    for (const struct node *i = item ? n->first : NULL; i; i = i->next)
        if (i->text && strcmp(i->text, item) == 0)
            return &i->at;
    return &n->at;
}

bool conf_place(const struct conf *c, const char *path, const char *item,
                int32_t *ret_line, int32_t *ret_column)
{
    struct spec_report report;
    struct node *root = NULL;
    bool is_there = false;
    if (!c->from.text || diagnostics_init(&report, NULL) < 0)
        return false;
    if (tree_parse(c->from.text, c->from.len, &report, &root, NULL) == 0 &&
        root) {
        const struct mark *at = mark_in(root, path, item);
        is_there = at && at->line > 0;
        if (is_there) {
            *ret_line = at->line;
            *ret_column = at->column;
        }
    }
    tree_destroy(root);
    diagnostics_clear(&report);
    return is_there;
}
