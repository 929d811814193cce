/* spec_sweep.c - expand a text into its jobs; see spec_expand() in spec.h.
 *
 * A sweep consists of axes: each key of a grid with its values is one, all keys
 * of a zip together are one, the list is one. A task is a position on each
 * axis; its tree is the file's with the values of that position inserted,
 * parsed by the same code as any job's, so a varied key has the same rules as a
 * written one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec_axes.h"
#include "jobs/spec/spec_check.h"
#include "jobs/text/text.h"

/* ---- the text for the daemon ----------------------------------------------
 */

static int resolve_base(struct expansion *x)
{
    for (size_t i = 0; i < spec_schema.n; i++) {
        const struct schema_key *k = &spec_schema.keys[i];
        const struct node *from = x->base.from[i].node;
        if (k->type == KEY_PATH && from && from->kind == NODE_SCALAR &&
            !x->base.from[i].bad &&
            axes_resolve(x, k, (struct node *)from, &x->base.spec) < 0)
            return -1;
    }
    return 0;
}

static int put_text(struct expansion *x, const char *path, const char *text)
{
    struct node *n = tree_create(NODE_SCALAR, (struct mark){.line = 0}, x->err);
    if (!n)
        return -1;
    n->text = strdup(text);
    if (!n->text) {
        tree_destroy(n);
        return error_set(x->err, ERR_NOMEM, "'%s'", path);
    }
    return schema_put(&spec_schema, x->base.root, path, n, x->report, x->err);
}

/* Resolves what only this machine knows: paths, the file's name and directory,
 * the environment. Keys that differ between tasks stay out of the common
 * part. */
static int settle_base(struct expansion *x, bool takes_env)
{
    const struct job_spec *s = &x->base.spec;
    const struct spec_map *env = &s->env;
    size_t n_own = env->n;
    char path[PATH_CAP];

    if (resolve_base(x) < 0)
        return -1;
    /* First: what is put below takes the place of nodes that it looks at. */
    if (takes_env &&
        spec_reading_take_env(&x->base, x->paths.home, x->report, x->err) < 0)
        return -1;
    if (!tree_child(x->base.root, "name") && !axes_vary(x, "name") &&
        put_text(x, "name", s->name) < 0)
        return -1;
    if (s->workdir && !axes_vary(x, "workdir") &&
        put_text(x, "workdir", s->workdir) < 0)
        return -1;
    for (size_t i = n_own; i < env->n; i++) {
        (void)snprintf(path, sizeof(path), "env.%s", env->pairs[i].key);
        if (!axes_vary(x, path) && put_text(x, path, env->pairs[i].value) < 0)
            return -1;
    }
    return 0;
}

/* Notes are for readers of the file. */
static void drop_notes(struct node *root)
{
    size_t n = strlen(spec_schema.notes);
    for (const struct node *c = root->first, *next; c; c = next) {
        next = c->next;
        if (strncmp(c->key, spec_schema.notes, n) == 0)
            tree_remove(root, c->key);
    }
}

static int write_text(struct expansion *x, char **ret)
{
    struct buf b = BUF_INIT;
    drop_notes(x->base.root);
    int rc = tree_json(x->base.root, &b, x->err);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (!text)
        return rc < 0 ? -1 : error_set(x->err, ERR_NOMEM, "sweep");
    *ret = text;
    return 0;
}

/* ---- tasks ----------------------------------------------------------------
 */

/* Findings show descriptions: they omit the value of a variable whose name
 * sounds like a secret. */
static bool is_hidden(const char *key)
{
    static const char head[] = "env.";
    size_t n = sizeof(head) - 1;
    return strncmp(key, head, n) == 0 && schema_is_secret(key + n);
}

/* Puts one value of one task into its tree and into its description. */
static int assign(struct expansion *x, struct node *root, const char *key,
                  struct mark at, const struct node *value, struct buf *vary)
{
    int rc = buf_addstr(vary, vary->len > 1 ? "," : "", x->err);
    if (rc == 0)
        rc = text_add_json(vary, key, x->err);
    if (rc == 0)
        rc = buf_addstr(vary, ":", x->err);
    if (rc == 0)
        rc = is_hidden(key) ? buf_addstr(vary, "\"********\"", x->err)
                            : tree_json(value, vary, x->err);
    struct node *copy = rc == 0 ? tree_clone(value, x->err) : NULL;
    if (!copy)
        return -1;
    copy->key_at = at;
    return schema_put(&spec_schema, root, key, copy, &x->found, x->err);
}

/* A task's number is not a key: it is in the task's environment and
 * description. */
static int place_number(struct expansion *x, size_t at, struct buf *vary)
{
    return buf_addf(vary, x->err, "\"array\":\"%d\"", x->array->numbers[at]);
}

static int place(struct expansion *x, struct node *root, const struct axis *a,
                 size_t at, struct buf *vary)
{
    const struct node *item = a->list;
    if (a->is_array)
        return place_number(x, at, vary);
    for (size_t i = 0; item && i < at; i++)
        item = item->next;
    for (const struct node *v = item ? item->first : NULL; v; v = v->next)
        if (assign(x, root, v->key, v->key_at, v, vary) < 0)
            return -1;
    for (size_t i = 0; i < a->n_varied; i++) {
        const struct varied *k = &x->varied[a->first + i];
        const struct node *v = k->values;
        for (size_t j = 0; j < at; j++)
            v = v->next;
        if (assign(x, root, k->key, k->at, v, vary) < 0)
            return -1;
    }
    return 0;
}

/* The last axis varies fastest. */
static int assign_all(struct expansion *x, struct node *root, size_t task,
                      struct buf *vary)
{
    size_t below = x->n_tasks;
    int rc = buf_addstr(vary, "{", x->err);
    for (size_t i = 0; rc == 0 && i < x->n_axes; i++) {
        below /= x->axes[i].n;
        rc = place(x, root, &x->axes[i], task / below % x->axes[i].n, vary);
    }
    return rc < 0 ? -1 : buf_addstr(vary, "}", x->err);
}

static bool is_known(const struct spec_report *r, const struct spec_finding *f)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct spec_finding *g = &r->findings[i];
        if (g->line == f->line && g->column == f->column &&
            strcmp(g->code, f->code) == 0 && strcmp(g->path, f->path) == 0)
            return true;
    }
    return false;
}

static int32_t number_of(const struct expansion *x, size_t task)
{
    return x->array ? x->array->numbers[task] : (int32_t)task;
}

static void merge(struct expansion *x, size_t task, const char *vary)
{
    for (size_t i = 0; i < x->found.n; i++) {
        const struct spec_finding *f = &x->found.findings[i];
        struct mark at = {f->line, f->column, f->width, f->option};
        if (is_known(x->report, f))
            continue;
        if (f->is_error)
            diagnostics_add(x->report, f->code, at, f->path, f->hint,
                            "%s (task %d: %s)", f->message, number_of(x, task),
                            vary);
        else
            diagnostics_add(x->report, f->code, at, f->path, f->hint, "%s",
                            f->message);
    }
    x->found.n = x->found.n_errors = x->found.n_warnings = 0;
}

static int read_task(struct expansion *x, struct node *root,
                     struct job_spec *ret)
{
    static const struct schema_base absolute = {.dir = NULL};
    if (schema_defaults(&spec_schema, ret, x->err) < 0 ||
        reading_fill(root, x->opt, &x->found, x->err) < 0 ||
        schema_apply(&spec_schema, root, &absolute, ret, x->from, &x->found,
                     x->err) < 0 ||
        schema_defaults_by_case(&spec_schema, x->from, ret, x->err) < 0)
        return -1;
    spec_settle(ret, x->from);
    spec_check(ret, root, x->from, false, &x->found);
    return 0;
}

static int make_task(struct expansion *x, size_t i, struct spec_task *ret)
{
    struct buf vary = BUF_INIT;
    struct node *root = tree_clone(x->base.root, x->err);
    int rc = root ? assign_all(x, root, i, &vary) : -1;
    if (rc == 0)
        rc = read_task(x, root, &ret->spec);
    if (rc == 0) {
        merge(x, i, buf_str(&vary));
        ret->number = number_of(x, i);
        ret->vary = buf_detach(&vary);
        if (!ret->vary)
            rc = error_set(x->err, ERR_NOMEM, "task");
    }
    buf_clear(&vary);
    tree_destroy(root);
    return rc;
}

/* The sweep is removed while tasks are made of the rest. */
static int make_tasks(struct expansion *x, struct spec_jobs *ret)
{
    if (diagnostics_init(&x->found, x->err) < 0)
        return -1;
    ret->tasks = calloc(x->n_tasks, sizeof(*ret->tasks));
    if (!ret->tasks)
        return error_set(x->err, ERR_NOMEM, "%zu tasks", x->n_tasks);
    ret->n = x->n_tasks;
    for (size_t i = 0; i < ret->n; i++)
        if (make_task(x, i, &ret->tasks[i]) < 0)
            return -1;
    return spec_axes_check_awaited(x, ret) < 0 ? -1
                                               : spec_axes_check_dirs(x, ret);
}

static int draw_seeds(struct spec_jobs *jobs, struct error *err)
{
    int64_t seed = -1;
    for (size_t i = 0; i < jobs->n; i++) {
        struct job_spec *s = &jobs->tasks[i].spec;
        if (s->kind == SPEC_COMMAND || s->train.seed >= 0)
            continue;
        if (seed < 0 && spec_draw_seed(&seed, err) < 0)
            return -1;
        s->train.seed = seed;
    }
    return 0;
}

static struct node *take_out(struct node *root, const char *key)
{
    struct node **p = &root->first, *last = NULL;
    while (*p && strcmp((*p)->key, key) != 0) {
        last = *p;
        p = &(*p)->next;
    }
    struct node *found = *p;
    if (found) {
        *p = found->next;
        if (root->last == found)
            root->last = last;
        found->next = NULL;
    }
    return found;
}

/* Looks for each job of an axis. */
static void look_for_parents(struct expansion *x)
{
    static const char key[] = "train.resume_from";
    const struct job_spec *s = &x->base.spec;
    for (size_t i = 0; i < x->n_varied; i++)
        if (strcmp(x->varied[i].key, key) == 0)
            for (const struct node *v = x->varied[i].values; v; v = v->next)
                if (v->kind == NODE_SCALAR)
                    spec_look_for_parent(s, v->text, v->at, x->opt, x->report);
    for (size_t i = 0; i < x->n_axes; i++)
        for (const struct node *item = x->axes[i].list; item; item = item->next)
            for (const struct node *v = item->first; v; v = v->next)
                if (v->kind == NODE_SCALAR && strcmp(v->key, key) == 0)
                    spec_look_for_parent(s, v->text, v->at, x->opt, x->report);
}

static int expand(struct expansion *x, const struct spec_options *opt,
                  struct spec_jobs *ret)
{
    x->opt = opt;
    x->paths = spec_reading_base(&x->base, opt);
    axes_check_parts(x);
    if (spec_reading_values(&x->base, opt, x->report, x->err) < 0 ||
        axes_read(x) < 0 || settle_base(x, opt->take_env) < 0)
        return -1;
    spec_reading_look_around(&x->base, opt, x->report);
    look_for_parents(x);
    if (x->report->n_errors > 0)
        return 0;
    ret->is_sweep = true;
    ret->max_parallel = x->base.spec.sweep.max_parallel;
    if (x->array && x->array->max_parallel > 0)
        ret->max_parallel = x->array->max_parallel;
    ret->stop_on_fail = x->base.spec.sweep.stop_on_fail;
    if (write_text(x, &ret->text) < 0)
        return -1;
    if (!axes_check_size(x, strlen(ret->text)))
        return 0;
    x->sweep = take_out(x->base.root, "sweep");
    int rc = make_tasks(x, ret);
    tree_append(x->base.root, x->sweep);
    return rc;
}

/* ---- entry points ---------------------------------------------------------
 */

static int expand_one(const char *text, size_t len,
                      const struct spec_options *opt, struct spec_jobs *ret,
                      struct spec_report *report, struct error *err)
{
    ret->tasks = calloc(1, sizeof(*ret->tasks));
    if (!ret->tasks)
        return error_set(err, ERR_NOMEM, "job");
    diagnostics_clear(report);
    if (spec_parse(text, len, opt, &ret->tasks[0].spec, report, err) < 0)
        return -1;
    ret->n = 1;
    return 0;
}

/* Its findings have been reported. */
static int write_one(struct expansion *x, const struct spec_options *opt,
                     struct spec_jobs *ret)
{
    x->report = &x->found;
    x->paths = spec_reading_base(&x->base, opt);
    if (diagnostics_init(&x->found, x->err) < 0 ||
        spec_reading_values(&x->base, opt, x->report, x->err) < 0 ||
        settle_base(x, opt->take_env) < 0)
        return -1;
    return write_text(x, &ret->text);
}

/* An empty sweep counts as none. */
static bool has_sweep(const struct node *root)
{
    const struct node *n = root ? tree_child(root, "sweep") : NULL;
    return n && n->kind != NODE_NULL;
}

int spec_expand(const char *text, size_t len, const struct spec_options *opt,
                struct spec_jobs *ret, struct spec_report *report,
                struct error *err)
{
    static const struct spec_options none = {.file = NULL};
    struct expansion x = {.report = report, .err = err};
    struct spec_jobs jobs = {.n = 0};

    if (!opt)
        opt = &none;
    int rc = diagnostics_init(report, err);
    if (rc == 0)
        rc = spec_reading_open(&x.base, text, len, opt, report, err);
    if (rc == 0 && has_sweep(x.base.root)) {
        x.sweep = tree_child(x.base.root, "sweep");
        rc = expand(&x, opt, &jobs);
        if (rc == 0)
            rc = diagnostics_verdict(report, err);
        if (rc == 0 && opt->draw_seed)
            rc = draw_seeds(&jobs, err);
    } else if (rc == 0) {
        rc = expand_one(text, len, opt, &jobs, report, err);
        if (rc == 0 && opt->wants_text)
            rc = write_one(&x, opt, &jobs);
    }
    if (rc == 0)
        *ret = jobs;
    else
        spec_jobs_clear(&jobs);
    spec_reading_clear(&x.base);
    spec_clear(&x.scratch);
    diagnostics_clear(&x.found);
    free(x.array);
    return rc;
}

void spec_jobs_clear(struct spec_jobs *j)
{
    for (size_t i = 0; i < j->n; i++) {
        spec_clear(&j->tasks[i].spec);
        free(j->tasks[i].vary);
    }
    free(j->tasks);
    free(j->text);
    *j = (struct spec_jobs){.n = 0};
}
