/* data_rows.c - see data_rows.h. */
#include "worker/data/rows/data_rows.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "worker/data/rows/json_rows.h"
#include "worker/data/rows/table_rows.h"

/* ---- which files --------------------------------------------------------- */

static int add(struct data_files *f, const char *path, struct error *err)
{
    char **list = realloc(f->path, ((size_t)f->n + 1) * sizeof(*list));
    if (list != NULL)
        f->path = list;
    if (list == NULL || (list[f->n] = strdup(path)) == NULL)
        return error_set(err, ERR_NOMEM, "%s", path);
    f->n++;
    return 0;
}

/* A file of the very name comes before what the name means as a pattern. */
static int add_matches(struct data_files *f, const char *pattern,
                       struct error *err)
{
    struct stat st;
    glob_t found;
    if (strpbrk(pattern, "*?[") == NULL || stat(pattern, &st) == 0)
        return add(f, pattern, err);
    int rc = glob(pattern, 0, NULL, &found);
    if (rc == GLOB_NOSPACE)
        return error_set(err, ERR_NOMEM, "%s", pattern);
    if (rc != 0)
        return error_set(err, ERR_NOTFOUND, "%s: no file has such a name",
                         pattern);
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
        rc = add(f, found.gl_pathv[i], err);
    globfree(&found);
    return rc;
}

static int add_all(struct data_files *f, const char *path,
                   const struct spec_list *below, struct error *err)
{
    struct stat st;
    if (below == NULL || below->n == 0) {
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            return error_set(err, ERR_INVAL,
                             "%s: a directory: name its files by data_files, "
                             "as in data_files: ['*.jsonl']",
                             path);
        return add_matches(f, path, err);
    }
    for (size_t i = 0; i < below->n; i++) {
        char *name = NULL;
        const size_t cap = strlen(path) + strlen(below->items[i]) + 2;
        name = malloc(cap);
        if (name == NULL)
            return error_set(err, ERR_NOMEM, "%s", path);
        (void)snprintf(name, cap, "%s/%s", path, below->items[i]);
        int rc = add_matches(f, name, err);
        free(name);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int data_files_find(const char *path, const struct spec_list *below,
                    struct data_files *ret, struct error *err)
{
    struct data_files f = {.n = 0};
    if (add_all(&f, path, below, err) < 0) {
        data_files_clear(&f);
        return -1;
    }
    *ret = f;
    return 0;
}

void data_files_clear(struct data_files *f)
{
    for (int32_t i = 0; i < f->n; i++)
        free(f->path[i]);
    free(f->path);
    *f = (struct data_files){.n = 0};
}

/* ---- their rows ---------------------------------------------------------- */

static bool ends_in(const char *path, size_t len, const char *end)
{
    const size_t n = strlen(end);
    return len >= n && memcmp(path + len - n, end, n) == 0;
}

char data_rows_separator(const char *path)
{
    size_t len = strlen(path);
    if (ends_in(path, len, ".gz"))
        len -= strlen(".gz");
    if (ends_in(path, len, ".csv"))
        return ',';
    return ends_in(path, len, ".tsv") ? '\t' : '\0';
}

static int read_file(const char *path, struct row_sink *to, struct error *err)
{
    struct gz_stream s;
    const char separator = data_rows_separator(path);
    if (gz_stream_open(&s, path, err) < 0)
        return -1;
    to->bytes += s.offset;
    s.read = &to->bytes;
    int rc = separator != '\0' ? table_rows_read(&s, separator, to, err)
                               : json_rows_read(&s, to, err);
    gz_stream_close(&s);
    return rc;
}

int data_rows_read(const struct data_files *files, struct row_sink *to,
                   struct error *err)
{
    struct error own = ERROR_INIT; /* a reason is needed to leave a row out */
    err = err != NULL ? err : &own;
    for (int32_t i = 0; i < files->n && !row_sink_is_full(to); i++) {
        to->path = files->path[i];
        to->place =
            (struct row_place){.file = i, .number = 1, .index = to->rows};
        if (read_file(files->path[i], to, err) < 0)
            return -1;
    }
    return 0;
}
