/* templates.c - find and list templates; see templates.h. */
#include "scheduler/tools/submit/templates.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"

enum { DIRS_MAX = 16, NAME_MAX_BYTES = 63, LINE_CAP = 160 };
enum { PATH_CAP = PATH_MAX + NAME_MAX_BYTES + 16 };

static const char ending[] = ".yaml";

struct dirs {
    char path[DIRS_MAX][PATH_MAX];
    size_t n;
};

static void add_dir(struct dirs *d, const char *text, size_t len,
                    const char *below)
{
    if (len == 0 || d->n == DIRS_MAX)
        return;
    int n = snprintf(d->path[d->n], PATH_MAX, "%.*s%s", (int)len, text, below);
    d->n += n > 0 && n < PATH_MAX;
}

/* Of several templates with one name, the first counts. */
static void find_dirs(struct dirs *d)
{
    const char *list = getenv("MGPU_TEMPLATES");
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char self[PATH_MAX];
    while (list && *list) {
        size_t len = strcspn(list, ":");
        add_dir(d, list, len, "");
        list += len + (list[len] == ':');
    }
    if (config && *config == '/')
        add_dir(d, config, strlen(config), "/mgpu/templates");
    else if (home && *home)
        add_dir(d, home, strlen(home), "/.config/mgpu/templates");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        return;
    self[n] = '\0';
    char *slash = strrchr(self, '/'); /* bin/mgpu-submit */
    if (!slash)
        return;
    size_t len = (size_t)(slash - self);
    add_dir(d, self, len, "/../share/doc/mgpu/examples");
    add_dir(d, self, len, "/../../../jobs/examples"); /* build/release/bin */
}

/* The name of a file without its extension; false: not a template. */
static bool is_name(const char *name, size_t len)
{
    if (len == 0 || len > NAME_MAX_BYTES || *name == '.')
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] <= ' ' || name[i] == '/' ||
            (unsigned char)name[i] >= 0x7f)
            return false;
    return true;
}

/* The path of a template in a directory. Returns path. */
static const char *path_of(const char *dir, const char *name,
                           char path[PATH_CAP])
{
    (void)snprintf(path, PATH_CAP, "%s/%s%s", dir, name, ending);
    return path;
}

/* ---- all of them -----------------------------------------------------------
 */

struct found {
    char name[NAME_MAX_BYTES + 1];
    size_t dir;
};

struct list {
    struct found *at;
    size_t n, cap;
};

static int keep(struct list *l, const char *name, size_t len, size_t dir,
                struct error *err)
{
    for (size_t i = 0; i < l->n; i++)
        if (strlen(l->at[i].name) == len &&
            memcmp(l->at[i].name, name, len) == 0)
            return 0; /* an earlier directory has it */
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        struct found *more = reallocarray(l->at, cap, sizeof(*more));
        if (!more)
            return error_set(err, ERR_NOMEM, "templates");
        l->at = more;
        l->cap = cap;
    }
    struct found *f = &l->at[l->n++];
    memcpy(f->name, name, len);
    f->name[len] = '\0';
    f->dir = dir;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->name,
                  ((const struct found *)b)->name);
}

/* A missing directory contains no templates.
 * own  l->at: free() */
static int look(const struct dirs *d, struct list *l, struct error *err)
{
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < d->n; k++) {
        DIR *dir = opendir(d->path[k]);
        struct dirent *e;
        while (rc == 0 && dir && (e = readdir(dir))) {
            size_t len = strlen(e->d_name), end = sizeof(ending) - 1;
            if (len > end && strcmp(e->d_name + len - end, ending) == 0 &&
                is_name(e->d_name, len - end))
                rc = keep(l, e->d_name, len - end, k, err);
        }
        if (dir)
            (void)closedir(dir);
    }
    if (l->n > 0)
        qsort(l->at, l->n, sizeof(*l->at), by_name);
    return rc;
}

/* The first sentence of "# What it is. How ...". */
static void first_line(const char *path, char *ret, size_t cap)
{
    char line[LINE_CAP] = "";
    int fd = plain_file_open(path, 0, NULL, NULL);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !f)
        (void)close(fd);
    if (f && !fgets(line, sizeof(line), f))
        line[0] = '\0';
    if (f)
        (void)fclose(f);
    line[strcspn(line, "\n")] = '\0';
    const char *text = line[0] == '#' ? line + strspn(line, "# ") : "";
    char *end = strstr(line, ". ");
    size_t len = strlen(line);
    if (end)
        *end = '\0';
    else if (len > 0 && strchr(".:", line[len - 1]))
        line[len - 1] = '\0';
    render_escape(text, ret, cap);
}

/* The description in the first line of the file; "": none. */
static void describe(const struct dirs *d, const struct found *f, char *ret,
                     size_t cap)
{
    char path[PATH_CAP];
    first_line(path_of(d->path[f->dir], f->name, path), ret, cap);
}

static int add_lines(const struct dirs *d, const struct list *l,
                     struct buf *ret, struct error *err)
{
    int widest = 0, rc = 0;
    for (size_t i = 0; i < l->n; i++) {
        int w = (int)strlen(l->at[i].name);
        widest = w > widest ? w : widest;
    }
    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        const char *name = l->at[i].name;
        char what[4 * LINE_CAP];
        describe(d, &l->at[i], what, sizeof(what));
        rc = *what ? buf_addf(ret, err, "%-*s  %s\n", widest, name, what)
                   : buf_addf(ret, err, "%s\n", name);
    }
    return rc;
}

static int list_text(struct buf *ret, struct error *err)
{
    struct dirs *d = calloc(1, sizeof(*d));
    struct list l = {.n = 0};
    if (!d)
        return error_set(err, ERR_NOMEM, "templates");
    find_dirs(d);
    int rc = look(d, &l, err);
    if (rc == 0)
        rc = add_lines(d, &l, ret, err);
    free(l.at);
    free(d);
    return rc;
}

/* JSON cannot represent a path that is not UTF-8. */
static json_t *template_json(const struct dirs *d, const struct found *f)
{
    char path[PATH_CAP], what[4 * LINE_CAP];
    describe(d, f, what, sizeof(what));
    char *plain = realpath(path_of(d->path[f->dir], f->name, path), NULL);
    json_t *file = plain ? json_string(plain) : NULL;
    json_t *o =
        json_pack("{s:s, s:s?, s:o}", "name", f->name, "description",
                  *what ? what : NULL, "file", file ? file : json_null());
    free(plain);
    return o;
}

static int list_json(json_t **ret, struct error *err)
{
    struct dirs *d = calloc(1, sizeof(*d));
    struct list l = {.n = 0};
    json_t *all = json_array(), *o = NULL;
    bool ok = d && all;
    if (d)
        find_dirs(d);
    int rc = ok ? look(d, &l, err) : 0;
    for (size_t i = 0; rc == 0 && ok && i < l.n; i++)
        ok = json_array_append_new(all, template_json(d, &l.at[i])) == 0;
    if (rc == 0 && ok)
        o = json_pack("{s:s, s:O}", "schema", "mgpu.templates/1", "templates",
                      all);
    if (rc == 0 && !o)
        rc = error_set(err, ERR_NOMEM, "templates");
    if (rc == 0)
        *ret = o;
    json_decref(all);
    free(l.at);
    free(d);
    return rc;
}

int templates_print(bool is_json, struct error *err)
{
    struct buf text = BUF_INIT;
    json_t *o = NULL;
    int rc = is_json ? list_json(&o, err) : list_text(&text, err);
    if (rc == 0 && is_json)
        rc = client_print(o, err);
    json_decref(o);
    if (rc == 0)
        (void)fputs(buf_str(&text), stdout);
    buf_clear(&text);
    return rc;
}

/* ---- one of them -----------------------------------------------------------
 */

/* The name with the longest common beginning; "": none. */
static void nearest(const struct dirs *d, const char *name, char *ret)
{
    struct list l = {.n = 0};
    struct error ignored = ERROR_INIT;
    size_t most = 0;
    ret[0] = '\0';
    if (look(d, &l, &ignored) == 0)
        for (size_t i = 0; i < l.n; i++) {
            size_t k = 0;
            while (name[k] && name[k] == l.at[i].name[k])
                k++;
            if (k > most) {
                most = k;
                memcpy(ret, l.at[i].name, sizeof(l.at[i].name));
            }
        }
    free(l.at);
}

int templates_find(const char *name, struct buf *ret, struct error *err)
{
    char path[PATH_CAP], near[NAME_MAX_BYTES + 1];
    if (!is_name(name, strlen(name)))
        return error_set(err, ERR_USAGE,
                         "--template takes a name, as --list-templates has "
                         "them; a file is named without it");
    struct dirs *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, ERR_NOMEM, "templates");
    find_dirs(d);
    int rc = 1;
    for (size_t k = 0; rc == 1 && k < d->n; k++) {
        (void)path_of(d->path[k], name, path);
        char *plain = access(path, R_OK) == 0 ? realpath(path, NULL) : NULL;
        if (plain) /* without the path from the program to it */
            rc = buf_addstr(ret, plain, err);
        free(plain);
    }
    if (rc == 1) {
        nearest(d, name, near);
        rc = *near
                 ? error_set(err, ERR_NOTFOUND,
                             "no template '%s'; did you mean '%s'?", name, near)
                 : error_set(err, ERR_NOTFOUND,
                             "no template '%s'; see mgpu-submit "
                             "--list-templates",
                             name);
    }
    free(d);
    return rc;
}
