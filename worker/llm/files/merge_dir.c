/* merge_dir.c - see merge_dir.h. */
#include "worker/llm/files/merge_dir.h"
#include "jobs/base/file_atomic.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char config_name[] = "config.json";
enum { CONFIG_MAX_BYTES = 1 << 20 };

/* ---- creating and renaming ----------------------------------------------- */

/* Refuses `out` unless it is absent, or an empty directory, which a rename
 * replaces. */
static int check_free(const char *out, struct error *err)
{
    const struct dirent *e;
    bool is_empty = true;
    DIR *d = opendir(out);
    if (d == NULL && errno == ENOENT)
        return 0;
    if (d == NULL && errno == ENOTDIR)
        return error_set(err, ERR_STATE, "'%s' exists, and is not a directory",
                         out);
    if (d == NULL)
        return error_sys(err, errno, "'%s'", out);
    while ((e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            is_empty = false;
    (void)closedir(d);
    if (is_empty)
        return 0;
    return error_set(err, ERR_STATE,
                     "'%s' has files: name a new directory, or an empty one",
                     out);
}

int merge_dir_create(struct merge_dir *d, const char *out, struct error *err)
{
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/')
        n--;
    if (buf_add(&d->out, out, n, err) < 0 ||
        buf_addf(&d->partial, err, "%s.partial", buf_str(&d->out)) < 0 ||
        check_free(buf_str(&d->out), err) < 0)
        return -1;
    if (mkdir(buf_str(&d->partial), 0777) == 0) {
        d->is_made = true;
        return 0;
    }
    if (errno != EEXIST)
        return error_sys(err, errno, "create '%s'", buf_str(&d->partial));
    return error_set(err, ERR_STATE,
                     "'%s' exists: another merge is writing it, or one was "
                     "killed; then remove it",
                     buf_str(&d->partial));
}

int merge_dir_finish(struct merge_dir *d, struct error *err)
{
    if (rename(buf_str(&d->partial), buf_str(&d->out)) < 0)
        return error_sys(err, errno, "rename '%s' to '%s'",
                         buf_str(&d->partial), buf_str(&d->out));
    d->is_made = false;
    return file_atomic_sync_parent(buf_str(&d->out), err);
}

/* All files in a directory that we made, and it. */
static void remove_dir(const char *path)
{
    struct buf name = BUF_INIT;
    const struct dirent *e;
    DIR *d = opendir(path);
    while (d != NULL && (e = readdir(d)) != NULL) {
        buf_reset(&name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            buf_addf(&name, NULL, "%s/%s", path, e->d_name) < 0)
            continue;
        if (unlink(buf_str(&name)) < 0)
            (void)rmdir(buf_str(&name));
    }
    if (d != NULL)
        (void)closedir(d);
    (void)rmdir(path);
    buf_clear(&name);
}

void merge_dir_clear(struct merge_dir *d)
{
    struct buf inner = BUF_INIT;
    if (d->is_made &&
        buf_addf(&inner, NULL, "%s/original", buf_str(&d->partial)) == 0) {
        remove_dir(buf_str(&inner));
        remove_dir(buf_str(&d->partial));
    }
    buf_clear(&inner);
    buf_clear(&d->out);
    buf_clear(&d->partial);
}

/* ---- config.json --------------------------------------------------------- */

/* The text of a config.json with the one key changed, from malloc. */
static char *untied_text(const struct buf *text, struct error *err)
{
    json_error_t why;
    json_t *o = json_loadb(buf_str(text), text->len, 0, &why);
    char *ret = NULL;
    if (o == NULL) {
        (void)error_set(err, ERR_INVAL, "%s: line %d: %.100s", config_name,
                        why.line, why.text);
        return NULL;
    }
    if (json_object_set_new(o, "tie_word_embeddings", json_false()) == 0)
        ret = json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    json_decref(o);
    if (ret == NULL)
        (void)error_set(err, ERR_NOMEM, "%s", config_name);
    return ret;
}

int merge_dir_untie(const char *dir, struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, config_name);
    rc = rc < 0 ? rc
                : buf_read_file(&text, buf_str(&path), CONFIG_MAX_BYTES, err);
    char *changed = rc < 0 ? NULL : untied_text(&text, err);
    buf_reset(&text);
    if (changed == NULL || buf_addf(&text, err, "%s\n", changed) < 0)
        rc = -1;
    rc = rc < 0 ? rc
                : file_atomic_put(dir, config_name, buf_str(&text), text.len,
                                  FILE_PUBLIC, err);
    free(changed);
    buf_clear(&path);
    buf_clear(&text);
    return rc;
}
