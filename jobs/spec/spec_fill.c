/* spec_fill.c - substitute ${name} in a specification: in the tree, for keys
 * that the daemon reads, and in the struct, for keys that the job itself reads.
 *
 * The ranks substitute the latter, at the start of an attempt: the text that is
 * sent, hashed, stored and shown is the one that the user wrote. */
#include <stdlib.h>
#include <string.h>

#include "jobs/schema/interpolate.h"
#include "jobs/spec/spec_read.h"

/* ---- in the tree --------------------------------------------------------- */

struct filling {
    const struct fill_vars *vars;
    struct spec_report *report;
    struct error *err;
};

static struct node *node_at(struct node *root, const char *path)
{
    struct node *n = root;
    while (n && n->kind == NODE_MAP) {
        char step[PATH_CAP];
        size_t len = strcspn(path, ".");
        memcpy(step, path, len);
        step[len] = '\0';
        n = tree_child(n, step);
        if (path[len] == '\0')
            return n;
        path += len + 1;
    }
    return NULL;
}

static void refuse(const struct filling *f, const struct schema_key *k,
                   const struct node *n, const char *why)
{
    diagnostics_add(f->report, "E016", n->at, k->path, "leave ${user} out",
                    "%s: %.180s", k->path, why);
}

/* schema_apply() reports names that are not allowed. */
static int fill_node(const struct filling *f, const struct schema_key *k,
                     struct node *n)
{
    char hint[FILL_HINT_CAP];
    struct error why = ERROR_INIT;
    struct buf b = BUF_INIT;
    if (n->kind != NODE_SCALAR || !strstr(n->text, "${") ||
        interpolate_check(n->text, k->fill, hint, NULL) < 0)
        return 0;
    if (k->fill != FILL_SUBMIT) {
        if (f->vars->user && !interpolate_is_user(f->vars->user) &&
            interpolate_has(n->text, "user"))
            refuse(f, k, n, "a user of such a name cannot be put into a text");
        return 0;
    }
    int rc = interpolate_text(n->text, k->fill, f->vars, &b, &why);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (text) {
        free(n->text);
        n->text = text;
        return 0;
    }
    if (rc == 0 || why.code == ERR_NOMEM)
        return error_set(f->err, ERR_NOMEM, "value of '%s'", k->path);
    refuse(f, k, n, why.msg);
    return 0;
}

int reading_fill(struct node *root, const struct spec_options *opt,
                 struct spec_report *report, struct error *err)
{
    char name[SPEC_NAME_CAP];
    const struct node *said = tree_child(root, "name");
    const struct fill_vars vars = {
        .name = said && said->kind == NODE_SCALAR ? said->text : name,
        .user = opt->user,
    };
    const struct filling f = {&vars, report, err};

    spec_name_of_file(opt->file, name);
    if (!schema_is_name(vars.name))
        return 0; /* which is another finding */
    for (size_t i = 0; i < spec_schema.n; i++) {
        const struct schema_key *k = &spec_schema.keys[i];
        struct node *n = k->fill == FILL_NONE ? NULL : node_at(root, k->path);
        if (n && fill_node(&f, k, n) < 0)
            return -1;
        for (struct node *c = n ? n->first : NULL; c; c = c->next)
            if (fill_node(&f, k, c) < 0)
                return -1;
    }
    return 0;
}

/* ---- in the struct ------------------------------------------------------- */

static int fill_member(const struct schema_key *k, const struct fill_vars *v,
                       char **text, struct error *err)
{
    struct buf b = BUF_INIT;
    if (!*text || !strstr(*text, "${"))
        return 0;
    int rc = interpolate_text(*text, k->fill, v, &b, err);
    char *filled = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (rc < 0)
        return error_wrap(err, "%s", k->path);
    if (!filled)
        return error_set(err, ERR_NOMEM, "value of '%s'", k->path);
    free(*text);
    *text = filled;
    return 0;
}

static int fill_key(const struct schema_key *k, const struct fill_vars *v,
                    struct job_spec *s, struct error *err)
{
    void *member = (char *)s + k->at;
    const struct spec_list *list = member;
    const struct spec_map *map = member;
    int rc = 0;
    if (k->type == KEY_LIST)
        for (size_t i = 0; rc == 0 && i < list->n; i++)
            rc = fill_member(k, v, &list->items[i], err);
    else if (k->type == KEY_MAP)
        for (size_t i = 0; rc == 0 && i < map->n; i++)
            rc = fill_member(k, v, &map->pairs[i].value, err);
    else
        rc = fill_member(k, v, member, err);
    return rc;
}

static int fill_keys(enum fill_when when, const struct fill_vars *v,
                     struct job_spec *s, struct error *err)
{
    for (size_t i = 0; i < spec_schema.n; i++)
        if (spec_schema.keys[i].fill == when &&
            fill_key(&spec_schema.keys[i], v, s, err) < 0)
            return -1;
    return 0;
}

int spec_fill(struct job_spec *s, const struct fill_vars *v, struct error *err)
{
    struct fill_vars all = *v;
    if (fill_keys(FILL_OUTPUT, &all, s, err) < 0)
        return -1;
    if (s->train.output_dir)
        all.output_dir = s->train.output_dir;
    return fill_keys(FILL_START, &all, s, err);
}
