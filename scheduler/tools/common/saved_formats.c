/* saved_formats.c - read the user's formats from config.yaml; see
 * saved_formats.h.
 */
#include "scheduler/tools/common/saved_formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/schema/tree.h"
#include "jobs/text/text.h"
#include "scheduler/tools/common/columns.h"

enum { FILE_MAX = 1 << 16, PATH_MAX_BYTES = 4096 };

void formats_clear(struct formats *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->list[i].name);
        free(f->list[i].columns);
    }
    free(f->usual);
    *f = (struct formats){.n = 0};
}

static const struct format *find(const struct formats *f, const char *name,
                                 size_t n)
{
    for (size_t i = 0; i < f->n; i++)
        if (strlen(f->list[i].name) == n &&
            strncmp(f->list[i].name, name, n) == 0)
            return &f->list[i];
    return NULL;
}

int formats_expand(const struct formats *f, const char *text, struct buf *out,
                   struct error *err)
{
    while (*text) {
        size_t n = strcspn(text, ",");
        const struct format *own = find(f, text, n);
        if (out->len > 0 && buf_addstr(out, ",", err) < 0)
            return -1;
        if (own ? buf_addstr(out, own->columns, err) < 0
                : buf_add(out, text, n, err) < 0)
            return -1;
        text += n + (text[n] == ',');
    }
    return 0;
}

void formats_help(const struct formats *f, FILE *out)
{
    if (f->n > 0)
        (void)fputs("\nYour own:\n", out);
    for (size_t i = 0; i < f->n; i++)
        (void)fprintf(out, "  %-10s  %s\n", f->list[i].name,
                      f->list[i].columns);
}

/* ---- the file -------------------------------------------------------------
 */

struct reading {
    const char *file;
    struct formats *f;
};

static int fail_at(const struct reading *r, struct mark at, const char *what,
                   struct error *err)
{
    return error_set(err, ERR_CONFIG, "%s:%d:%d: %s", r->file, (int)at.line,
                     (int)at.column, what);
}

/* "id,name" from a scalar or a list of scalars. */
static int text_of(const struct reading *r, const struct node *n,
                   struct buf *out, struct error *err)
{
    if (n->kind == NODE_SCALAR)
        return buf_addstr(out, n->text, err);
    if (n->kind != NODE_LIST)
        return fail_at(r, n->at, "expected columns, as [id, name]", err);
    for (const struct node *one = n->first; one; one = one->next) {
        if (one->kind != NODE_SCALAR)
            return fail_at(r, one->at, "expected the name of a column", err);
        if ((out->len > 0 && buf_addstr(out, ",", err) < 0) ||
            buf_addstr(out, one->text, err) < 0)
            return -1;
    }
    return 0;
}

/* The position of the unknown column in a list, or in "id,nme". */
static struct mark place_of(const struct reading *r, const struct node *n)
{
    struct columns columns;
    struct mark at = n->at;
    for (const struct node *one = n->first; one; one = one->next) {
        struct buf text = BUF_INIT;
        bool is_bad = formats_expand(r->f, one->text, &text, NULL) < 0 ||
                      columns_parse(buf_str(&text), &columns, NULL) < 0;
        buf_clear(&text);
        if (is_bad)
            return one->at;
    }
    for (const char *p = n->kind == NODE_SCALAR ? n->text : ""; *p;) {
        char word[64];
        size_t len = strcspn(p, ",");
        (void)snprintf(word, sizeof(word), "%.*s", len < 63 ? (int)len : 63, p);
        if (!find(r->f, p, len) && columns_parse(word, &columns, NULL) < 0)
            break;
        at.column += (int32_t)len + 1;
        p += len + (p[len] == ',');
    }
    return at;
}

static int check(const struct reading *r, const struct node *n,
                 const char *columns, struct error *err)
{
    struct columns parsed;
    struct error why = ERROR_INIT;
    if (columns_parse(columns, &parsed, &why) == 0)
        return 0;
    return fail_at(r, place_of(r, n), why.msg, err);
}

/* A built-in name cannot be redefined: scripts may depend on it. */
static int add_format(const struct reading *r, const struct node *n,
                      struct error *err)
{
    struct formats *f = r->f;
    struct buf text = BUF_INIT, whole = BUF_INIT;
    struct columns columns;
    size_t len = strlen(n->key);
    if (strcspn(n->key, ", \t") != len || len == 0 || len > 63)
        return fail_at(r, n->key_at, "a format's name is a word", err);
    if (strcmp(n->key, "help") == 0 ||
        columns_parse(n->key, &columns, NULL) == 0)
        return fail_at(r, n->key_at,
                       "there is a column or a format of that "
                       "name already",
                       err);
    if (f->n == FORMATS_MAX)
        return fail_at(r, n->key_at, "more than 64 formats", err);
    int rc = text_of(r, n, &text, err);
    if (rc == 0)
        rc = formats_expand(f, buf_str(&text), &whole, err);
    if (rc == 0)
        rc = check(r, n, buf_str(&whole), err);
    if (rc == 0) {
        struct format *own = &f->list[f->n];
        own->name = strdup(n->key);
        own->columns = buf_detach(&whole);
        f->n++;
        rc = own->name && own->columns ? 0
                                       : error_set(err, ERR_NOMEM, "formats");
    }
    buf_clear(&text);
    buf_clear(&whole);
    return rc;
}

static int take_usual(const struct reading *r, const struct node *n,
                      struct error *err)
{
    struct buf text = BUF_INIT, whole = BUF_INIT;
    int rc = text_of(r, n, &text, err);
    if (rc == 0)
        rc = formats_expand(r->f, buf_str(&text), &whole, err);
    if (rc == 0)
        rc = check(r, n, buf_str(&whole), err);
    if (rc == 0 && !(r->f->usual = buf_detach(&whole)))
        rc = error_set(err, ERR_NOMEM, "formats");
    buf_clear(&text);
    buf_clear(&whole);
    return rc;
}

static int take(const struct reading *r, const struct node *root,
                struct error *err)
{
    const struct node *formats = node_child(root, "formats");
    const struct node *usual = node_child(root, "format");
    char what[200], q[TEXT_QUOTE_CAP];
    int rc = 0;
    for (const struct node *n = root->first; n; n = n->next) {
        if (n == formats || n == usual)
            continue;
        (void)snprintf(what, sizeof(what),
                       "unknown key '%s'; there are format and formats",
                       text_quote(q, sizeof(q), n->key));
        return fail_at(r, n->key_at, what, err);
    }
    if (formats && formats->kind != NODE_MAP)
        return fail_at(r, formats->at, "expected names and their columns", err);
    for (const struct node *n = formats ? formats->first : NULL; rc == 0 && n;
         n = n->next)
        rc = add_format(r, n, err);
    return rc == 0 && usual ? take_usual(r, usual, err) : rc;
}

int formats_parse(const char *text, size_t len, const char *file,
                  struct formats *ret, struct error *err)
{
    struct formats f = {.n = 0};
    const struct reading r = {.file = file, .f = &f};
    struct node *root = NULL;
    int rc = tree_load(text, len, file, &root, err);
    if (rc == 0 && root)
        rc = take(&r, root, err);
    node_destroy(root);
    if (rc == 0)
        *ret = f;
    else
        formats_clear(&f);
    return rc;
}

/* False: neither variable is set. */
static bool path_of(char *ret, size_t cap)
{
    const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = dir && *dir == '/' ? snprintf(ret, cap, "%s/mgpu/config.yaml", dir)
            : home && *home
                ? snprintf(ret, cap, "%s/.config/mgpu/config.yaml", home)
                : -1;
    return n > 0 && (size_t)n < cap;
}

int formats_read(struct formats *ret, struct error *err)
{
    char path[PATH_MAX_BYTES];
    struct error why = ERROR_INIT;
    struct buf text = BUF_INIT;
    *ret = (struct formats){.n = 0};
    if (!path_of(path, sizeof(path)))
        return 0;
    int rc = buf_read_file(&text, path, FILE_MAX, &why);
    if (rc == 0)
        rc = formats_parse(buf_str(&text), text.len, path, ret, err);
    else if (why.code == ERR_LIMIT)
        rc = error_set(err, ERR_CONFIG, "%s: longer than 64 KiB", path);
    else if (why.code == ERR_INVAL || why.code == ERR_IO ||
             why.code == ERR_NOMEM)
        rc = error_set(err, why.code, "%s", why.msg);
    else
        rc = 0; /* no file, or not readable */
    buf_clear(&text);
    return rc;
}
