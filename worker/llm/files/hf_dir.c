/* hf_dir.c - open the shards of a model directory; see hf_dir.h. */
#include "worker/llm/files/hf_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "worker/llm/files/hf_index.h"
#include "worker/llm/files/hf_internal.h"

static const char single[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";
/* Ten times that of the largest model there is, with 60000 tensors. */
enum { INDEX_MAX_BYTES = 64 << 20 };
static const size_t max_bytes = (size_t)1 << 46;

/* ---- which files ----------------------------------------------------------
 */

static int exists(const char *dir, const char *name, bool *ret,
                  struct error *err)
{
    struct buf path = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, name);
    if (rc == 0) {
        *ret = access(buf_str(&path), F_OK) == 0;
        if (!*ret && errno != ENOENT)
            rc = error_sys(err, errno, "'%s'", buf_str(&path));
    }
    buf_clear(&path);
    return rc;
}

static int read_index(const char *dir, struct hf_index *ret, struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, index_name);
    rc = rc < 0 ? rc
                : buf_read_file(&text, buf_str(&path), INDEX_MAX_BYTES, err);
    if (rc == 0 && hf_index_parse(buf_str(&text), text.len, ret, err) < 0)
        rc = error_wrap(err, "%s", buf_str(&path));
    buf_clear(&path);
    buf_clear(&text);
    return rc;
}

static bool has_ending(const char *name, const char *ending)
{
    size_t n = strlen(name), k = strlen(ending);
    return n > k && strcmp(name + n - k, ending) == 0;
}

static int is_weights(const struct dirent *e)
{
    static const char *const endings[] = {".safetensors", ".bin",     ".pth",
                                          ".pt",          ".gguf",    ".h5",
                                          ".ckpt",        ".msgpack", NULL};
    for (int i = 0; endings[i] != NULL; i++)
        if (has_ending(e->d_name, endings[i]))
            return 1;
    return 0;
}

/* Names the weights of another format that are there instead. */
static int no_weights(const char *dir, struct error *err)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, is_weights, alphasort);
    if (n < 0)
        return error_sys(err, errno, "'%s'", dir);
    if (n == 0)
        (void)error_set(err, ERR_NOTFOUND, "no %s and no %s in '%s'", single,
                        index_name, dir);
    else
        (void)error_set(err, ERR_NOTFOUND, "no %s in '%s', but '%.60s': %s",
                        single, dir, list[0]->d_name,
                        has_ending(list[0]->d_name, ".safetensors")
                            ? "name its files in checkpoint_files"
                            : "convert it to safetensors");
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
    return -1;
}

/* ---- open -----------------------------------------------------------------
 */

static int open_one(struct hf_dir *h, const char *dir, const char *name,
                    struct error *err)
{
    struct hf_file *f = &h->files[h->n_files];
    struct buf path = BUF_INIT;
    for (size_t i = 0; i < h->n_files; i++)
        if (strcmp(h->files[i].name, name) == 0)
            return error_set(err, ERR_INVAL, "'%.80s' is named twice", name);
    int rc = buf_addf(&path, err, "%s/%s", dir, name);
    rc = rc < 0 ? rc : safetensors_open(buf_str(&path), max_bytes, &f->st, err);
    buf_clear(&path);
    if (rc < 0)
        return -1;
    h->n_files++;
    h->n += f->st.n;
    f->name = strdup(name);
    return f->name != NULL ? 0 : error_set(err, ERR_NOMEM, "'%.80s'", name);
}

static int open_all(struct hf_dir *h, const char *dir, char *const *names,
                    size_t n, struct error *err)
{
    h->files = calloc(n, sizeof(*h->files));
    if (h->files == NULL)
        return error_set(err, ERR_NOMEM, "files");
    for (size_t i = 0; i < n; i++)
        if (hf_index_check_file(names[i], err) < 0 ||
            open_one(h, dir, names[i], err) < 0)
            return -1;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct hf_slot *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

static int merge(struct hf_dir *h, struct error *err)
{
    size_t at = 0;
    h->slots = calloc(h->n + 1, sizeof(*h->slots));
    if (h->slots == NULL)
        return error_set(err, ERR_NOMEM, "tensors");
    for (size_t i = 0; i < h->n_files; i++)
        for (size_t k = 0; k < h->files[i].st.n; k++)
            h->slots[at++] = (struct hf_slot){&h->files[i].st.tensors[k], i};
    qsort(h->slots, h->n, sizeof(*h->slots), by_name);
    for (size_t i = 1; i < h->n; i++)
        if (by_name(&h->slots[i - 1], &h->slots[i]) == 0)
            return error_set(
                err, ERR_INVAL, "tensor '%.80s' is in '%.50s' and in '%.50s'",
                h->slots[i].tensor->name, h->files[h->slots[i - 1].file].name,
                h->files[h->slots[i].file].name);
    return 0;
}

/* Both are sorted by name. The files of the index are h's, in its order. */
static int check_index(const struct hf_dir *h, const struct hf_index *x,
                       struct error *err)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct hf_index_entry *e = &x->entries[i];
        const struct hf_slot *s = hf_slot_find(h, e->name);
        if (s == NULL || s->file != e->file)
            return error_set(err, ERR_INVAL,
                             "%s: tensor '%.80s' is not in '%.50s'", index_name,
                             e->name, x->files[e->file]);
    }
    for (size_t i = 0, k = 0; i < h->n; i++, k++)
        if (k >= x->n ||
            strcmp(h->slots[i].tensor->name, x->entries[k].name) != 0)
            return error_set(err, ERR_INVAL,
                             "%s: tensor '%.80s' of '%.50s' is not in it",
                             index_name, h->slots[i].tensor->name,
                             h->files[h->slots[i].file].name);
    return 0;
}

static int open_index(struct hf_dir *h, const char *dir, bool has_single,
                      struct error *err)
{
    struct hf_index x = {.n = 0};
    bool is_named = false;
    if (read_index(dir, &x, err) < 0)
        return -1;
    for (size_t i = 0; i < x.n_files; i++)
        is_named = is_named || strcmp(x.files[i], single) == 0;
    int rc = 0;
    if (has_single && !is_named)
        rc = error_set(err, ERR_INVAL,
                       "'%s' has %s and an index of other files: say with "
                       "checkpoint_files which are the model, or remove one",
                       dir, single);
    struct error why = ERROR_INIT;
    if (rc == 0 && open_all(h, dir, x.files, x.n_files, &why) < 0)
        rc = error_set(err, why.code == ERR_NOTFOUND ? ERR_INVAL : why.code,
                       "%s names a file: %s", index_name, why.msg);
    rc = rc < 0 ? rc : merge(h, err);
    rc = rc < 0 ? rc : check_index(h, &x, err);
    hf_index_clear(&x);
    return rc;
}

static int open_dir(struct hf_dir *h, const char *dir,
                    const struct spec_list *files, struct error *err)
{
    bool has_index = false, has_single = false;
    struct stat st;
    char name[sizeof(single)];
    char *const one[] = {memcpy(name, single, sizeof(single))};
    if (stat(dir, &st) < 0)
        return error_sys(err, errno, "'%s'", dir);
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERR_NOTFOUND, "'%s' is not a directory", dir);
    if (files != NULL && files->n > 0)
        return open_all(h, dir, files->items, files->n, err) < 0
                   ? -1
                   : merge(h, err);
    if (exists(dir, index_name, &has_index, err) < 0 ||
        exists(dir, single, &has_single, err) < 0)
        return -1;
    if (has_index)
        return open_index(h, dir, has_single, err);
    if (!has_single)
        return no_weights(dir, err);
    return open_all(h, dir, one, 1, err) < 0 ? -1 : merge(h, err);
}

int hf_open(const char *dir, const struct spec_list *files, struct hf_dir **ret,
            struct error *err)
{
    struct hf_dir *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return error_set(err, ERR_NOMEM, "'%s'", dir);
    if (open_dir(h, dir, files, err) < 0) {
        hf_close(h);
        return -1;
    }
    *ret = h;
    return 0;
}

void hf_close(struct hf_dir *h)
{
    if (h == NULL)
        return;
    for (size_t i = 0; i < h->n_files; i++) {
        free(h->files[i].name);
        safetensors_close(&h->files[i].st);
    }
    free(h->files);
    free(h->slots);
    free(h);
}

const struct hf_slot *hf_slot_find(const struct hf_dir *h, const char *name)
{
    size_t first = 0, end = h->n;
    while (first < end) {
        size_t at = first + (end - first) / 2;
        int c = strcmp(name, h->slots[at].tensor->name);
        if (c == 0)
            return &h->slots[at];
        if (c < 0)
            end = at;
        else
            first = at + 1;
    }
    return NULL;
}

const struct st_tensor *hf_find(const struct hf_dir *h, const char *name)
{
    const struct hf_slot *s = hf_slot_find(h, name);
    return s != NULL ? s->tensor : NULL;
}

size_t hf_file_count(const struct hf_dir *h)
{
    return h->n_files;
}

const char *hf_file_name(const struct hf_dir *h, size_t i)
{
    return h->files[i].name;
}

const struct safetensors *hf_file_tensors(const struct hf_dir *h, size_t i)
{
    return &h->files[i].st;
}
