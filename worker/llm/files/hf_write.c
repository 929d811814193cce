/* hf_write.c - see hf_write.h.
 *
 * The first pass over the tensors deals them to shards, in their order: a
 * tensor that does not fit into the last shard begins the next one, as
 * huggingface_hub does it. The second pass writes one shard after the other,
 * so that no tensor is held twice. */
#include "worker/llm/files/hf_write.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/file_atomic.h"
#include "worker/llm/files/base_file.h"
#include "worker/llm/files/hf_index.h"

static const char single[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";
static const char generation_name[] = "generation_config.json";
static const char *const copied[] = {
    "config.json",       "generation_config.json", "tokenizer.model",
    "tokenizer.json",    "tokenizer_config.json",  "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja",    "original/tokenizer.model",
};
enum { COPIED = sizeof(copied) / sizeof(copied[0]) };
static const int64_t default_shard_bytes = 5000000000;
enum { COPIED_MAX_BYTES = 1 << 30 };

struct shard {
    struct file_atomic file;
    struct st_writer writer;
    int64_t bytes; /* of its tensors */
    char name[64];
};

/* State of a directory that is being written. */
struct output {
    const char *dir, *base;
    const struct hf_ends *ends;
    int64_t shard_bytes;
    struct buf shards, entries; /* struct shard, struct hf_index_entry */
    size_t n_shards, n;
    int64_t total;
    size_t at; /* the second pass: how many tensors are written */
    struct file_atomic copies[COPIED], index;
    struct buf original; /* its directory of that name; empty: not made */
};

static struct shard *shard_at(const struct output *o, size_t i)
{
    return (struct shard *)(void *)o->shards.data + i;
}

static struct hf_index_entry *entry_at(const struct output *o, size_t i)
{
    return (struct hf_index_entry *)(void *)o->entries.data + i;
}

/* A single shard of the usual name needs none. */
static bool has_index(const struct output *o)
{
    return o->n_shards > 1 || strcmp(shard_at(o, 0)->name, single) != 0;
}

static void clear(struct output *o)
{
    for (size_t i = 0; i < o->n_shards; i++) {
        file_atomic_clear(&shard_at(o, i)->file);
        safetensors_writer_clear(&shard_at(o, i)->writer);
    }
    for (size_t i = 0; i < o->n; i++)
        free(entry_at(o, i)->name);
    for (int i = 0; i < COPIED; i++)
        file_atomic_clear(&o->copies[i]);
    file_atomic_clear(&o->index);
    if (o->original.len > 0) /* stays when it has a file */
        (void)rmdir(buf_str(&o->original));
    buf_clear(&o->original);
    buf_clear(&o->shards);
    buf_clear(&o->entries);
}

/* ---- the first pass -------------------------------------------------------
 */

static int64_t bytes_of(const struct hf_tensor *t)
{
    int64_t bytes = st_types[t->type].bytes;
    for (int32_t i = 0; i < t->dims; i++)
        bytes *= t->shape[i];
    return bytes;
}

/* in  name  NULL: name_shards() gives it one */
static int add_shard(struct output *o, const char *name, struct error *err)
{
    struct shard s = {.file = FILE_ATOMIC_INIT};
    if (name != NULL && hf_index_check_file(name, err) < 0)
        return -1;
    if (name != NULL && strlen(name) >= sizeof(s.name))
        return error_set(err, ERR_INVAL, "'%.80s' is too long a name", name);
    (void)snprintf(s.name, sizeof(s.name), "%s", name != NULL ? name : "");
    safetensors_writer_init(&s.writer, -1);
    if (buf_reserve(&o->shards, sizeof(s), err) < 0)
        return -1;
    assert(o->shards.data != NULL);
    if (buf_add(&o->shards, &s, sizeof(s), err) < 0)
        return -1;
    o->n_shards++;
    return safetensors_declare_format(&shard_at(o, o->n_shards - 1)->writer,
                                      "pt", err);
}

/* s  NULL: there is none yet */
static bool fits(const struct output *o, const struct shard *s,
                 const struct hf_tensor *t)
{
    if (s == NULL)
        return false;
    if (t->file != NULL)
        return strcmp(s->name, t->file) == 0;
    return s->bytes == 0 || bytes_of(t) <= o->shard_bytes - s->bytes;
}

static int declare_one(void *to, const struct hf_tensor *t, struct error *err)
{
    struct output *o = to;
    const int64_t bytes = bytes_of(t);
    struct shard *s = o->n_shards > 0 ? shard_at(o, o->n_shards - 1) : NULL;
    if (!fits(o, s, t)) {
        if (add_shard(o, t->file, err) < 0)
            return -1;
        s = shard_at(o, o->n_shards - 1);
    }
    if (safetensors_declare(&s->writer, t->name, t->type, t->shape, t->dims,
                            err) < 0)
        return -1;
    s->bytes += bytes;
    o->total += bytes;
    struct hf_index_entry e = {strdup(t->name), o->n_shards - 1};
    if (e.name == NULL || buf_add(&o->entries, &e, sizeof(e), err) < 0) {
        free(e.name);
        return error_set(err, ERR_NOMEM, "'%.80s'", t->name);
    }
    o->n++;
    return 0;
}

static void name_shards(struct output *o)
{
    for (size_t i = 0; i < o->n_shards; i++) {
        struct shard *s = shard_at(o, i);
        if (s->name[0] != '\0')
            continue;
        if (o->n_shards == 1)
            (void)snprintf(s->name, sizeof(s->name), "%s", single);
        else
            (void)snprintf(s->name, sizeof(s->name),
                           "model-%05zu-of-%05zu.safetensors", i + 1,
                           o->n_shards);
    }
}

/* ---- the second pass ------------------------------------------------------
 */

static int begin_shard(const struct output *o, struct shard *s,
                       struct error *err)
{
    if (file_atomic_open(&s->file, o->dir, s->name, err) < 0)
        return -1;
    s->writer.fd = s->file.fd;
    return safetensors_begin(&s->writer, err) < 0
               ? error_wrap(err, "%s", s->name)
               : 0;
}

static int end_shard(struct shard *s, struct error *err)
{
    if (safetensors_end(&s->writer, err) < 0)
        return error_wrap(err, "%s", s->name);
    return file_atomic_close(&s->file, err);
}

static int write_one(void *to, const struct hf_tensor *t, struct error *err)
{
    struct output *o = to;
    if (o->at >= o->n || strcmp(entry_at(o, o->at)->name, t->name) != 0)
        return error_set(err, ERR_INTERNAL,
                         "'%.80s' was not declared in this order", t->name);
    size_t file = entry_at(o, o->at)->file;
    bool is_first = o->at == 0 || entry_at(o, o->at - 1)->file != file;
    struct shard *s = shard_at(o, file);
    if (is_first && o->at > 0 && end_shard(s - 1, err) < 0)
        return -1;
    if (is_first && begin_shard(o, s, err) < 0)
        return -1;
    o->at++;
    if (st_write(&s->writer, t->data, (size_t)bytes_of(t), err) < 0)
        return error_wrap(err, "%s", s->name);
    return 0;
}

/* ---- the other files ------------------------------------------------------
 */

static int stage_text(struct file_atomic *f, const char *dir, const char *name,
                      const struct buf *text, struct error *err)
{
    if (file_atomic_open(f, dir, name, err) < 0 ||
        file_atomic_write(f, buf_str(text), text->len, err) < 0)
        return -1;
    return file_atomic_close(f, err);
}

/* The directory of copied[i] in ours. */
static int make_original(struct output *o, struct error *err)
{
    if (buf_addf(&o->original, err, "%s/original", o->dir) < 0)
        return -1;
    if (mkdir(buf_str(&o->original), 0777) == 0 || errno == EEXIST)
        return 0;
    return error_sys(err, errno, "create '%s'", buf_str(&o->original));
}

/* dir  NULL: it has no files */
static int read_if_there(const char *dir, const char *name, struct buf *text,
                         bool *ret_has, struct error *err)
{
    struct buf path = BUF_INIT;
    *ret_has = false;
    if (dir == NULL)
        return 0;
    int rc = buf_addf(&path, err, "%s/%s", dir, name);
    *ret_has =
        rc == 0 && (access(buf_str(&path), F_OK) == 0 || errno != ENOENT);
    if (*ret_has)
        rc = base_file_read(dir, name, COPIED_MAX_BYTES, text, err);
    buf_clear(&path);
    return rc;
}

/* The base's file as it is, but for what ends an answer. A file that is not
 * there has no text. */
static int read_copy(const struct output *o, int i, struct buf *text,
                     bool *ret_has, struct error *err)
{
    const bool is_ends = strcmp(copied[i], generation_name) == 0;
    int rc = read_if_there(is_ends ? o->ends->first : NULL, copied[i], text,
                           ret_has, err);
    if (rc == 0 && !*ret_has)
        rc = read_if_there(o->base, copied[i], text, ret_has, err);
    if (rc == 0 && is_ends)
        rc = hf_ends_join(o->ends, o->base, text, err);
    *ret_has = *ret_has || text->len > 0;
    return rc;
}

static int stage_copy(struct output *o, int i, struct error *err)
{
    struct buf text = BUF_INIT;
    bool has;
    int rc = read_copy(o, i, &text, &has, err);
    if (rc == 0 && has) {
        if (strchr(copied[i], '/') != NULL)
            rc = make_original(o, err);
        rc = rc < 0 ? rc
                    : stage_text(&o->copies[i], o->dir, copied[i], &text, err);
    }
    buf_clear(&text);
    return rc;
}

static int stage_index(struct output *o, struct error *err)
{
    struct buf text = BUF_INIT;
    struct hf_index x = {.entries = entry_at(o, 0), .n = o->n};
    x.files = calloc(o->n_shards, sizeof(*x.files));
    if (x.files == NULL)
        return error_set(err, ERR_NOMEM, "%s", index_name);
    for (x.n_files = 0; x.n_files < o->n_shards; x.n_files++)
        x.files[x.n_files] = shard_at(o, x.n_files)->name;
    int rc = hf_index_encode(&x, o->total, &text, err);
    rc = rc < 0 ? rc : stage_text(&o->index, o->dir, index_name, &text, err);
    free(x.files);
    buf_clear(&text);
    return rc;
}

/* ---- names ----------------------------------------------------------------
 */

static int remove_old(const struct output *o, const char *name,
                      struct error *err)
{
    struct buf path = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", o->dir, name);
    if (rc == 0 && unlink(buf_str(&path)) < 0 && errno != ENOENT)
        rc = error_sys(err, errno, "remove '%s'", buf_str(&path));
    buf_clear(&path);
    return rc;
}

static int stage_copies(struct output *o, struct error *err)
{
    for (int i = 0; i < COPIED; i++)
        if (stage_copy(o, i, err) < 0)
            return -1;
    return 0;
}

static int rename_copies(struct output *o, struct error *err)
{
    for (int i = 0; i < COPIED; i++)
        if (o->copies[i].tmp.len > 0 &&
            file_atomic_rename(&o->copies[i], err) < 0)
            return -1;
    return o->original.len > 0 ? file_atomic_sync(buf_str(&o->original), err)
                               : 0;
}

/* Files of an earlier write must not be taken for parts of this one: its index
 * goes first, and if this one has an index, its single file too. */
static int rename_all(struct output *o, struct error *err)
{
    if (remove_old(o, index_name, err) < 0 ||
        (has_index(o) && remove_old(o, single, err) < 0) ||
        rename_copies(o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->n_shards; i++)
        if (file_atomic_rename(&shard_at(o, i)->file, err) < 0)
            return -1;
    if (file_atomic_sync(o->dir, err) < 0)
        return -1;
    if (!has_index(o))
        return 0;
    if (file_atomic_rename(&o->index, err) < 0)
        return -1;
    return file_atomic_sync(o->dir, err);
}

static int write_all(struct output *o,
                     int (*each)(void *arg,
                                 int (*take)(void *to,
                                             const struct hf_tensor *t,
                                             struct error *err),
                                 void *to, struct error *err),
                     void *arg, struct error *err)
{
    if (each(arg, declare_one, o, err) < 0)
        return -1;
    if (o->n == 0)
        return error_set(err, ERR_INVAL, "no tensors to write");
    name_shards(o);
    if (each(arg, write_one, o, err) < 0)
        return -1;
    if (o->at != o->n)
        return error_set(err, ERR_INTERNAL, "%zu tensors declared, %zu written",
                         o->n, o->at);
    if (end_shard(shard_at(o, o->n_shards - 1), err) < 0)
        return -1;
    if (stage_copies(o, err) < 0)
        return -1;
    if (has_index(o) && stage_index(o, err) < 0)
        return -1;
    return rename_all(o, err);
}

int hf_write(const char *dir, const char *base, const struct hf_ends *ends,
             int64_t shard_bytes,
             int (*each)(void *arg,
                         int (*take)(void *to, const struct hf_tensor *t,
                                     struct error *err),
                         void *to, struct error *err),
             void *arg, struct error *err)
{
    struct output o = {.dir = dir,
                       .base = base,
                       .ends = ends,
                       .shard_bytes =
                           shard_bytes > 0 ? shard_bytes : default_shard_bytes,
                       .index = FILE_ATOMIC_INIT};
    for (int i = 0; i < COPIED; i++)
        o.copies[i] = (struct file_atomic)FILE_ATOMIC_INIT;
    int rc = write_all(&o, each, arg, err);
    clear(&o);
    return rc < 0 ? error_wrap(err, "%s", dir) : 0;
}

int hf_write_config(const char *dir, const char *base,
                    const struct hf_ends *ends, struct error *err)
{
    struct output o = {
        .dir = dir, .base = base, .ends = ends, .index = FILE_ATOMIC_INIT};
    for (int i = 0; i < COPIED; i++)
        o.copies[i] = (struct file_atomic)FILE_ATOMIC_INIT;
    int rc = stage_copies(&o, err);
    rc = rc < 0 ? rc : rename_copies(&o, err);
    rc = rc < 0 ? rc : file_atomic_sync(dir, err);
    clear(&o);
    return rc < 0 ? error_wrap(err, "%s", dir) : 0;
}

int hf_write_ends(const char *dir, const char *base, const struct hf_ends *ends,
                  struct error *err)
{
    struct file_atomic f = FILE_ATOMIC_INIT;
    struct buf was = BUF_INIT, text = BUF_INIT;
    bool has;
    int rc = read_if_there(base, generation_name, &was, &has, err);
    rc = rc < 0 ? rc : buf_add(&text, buf_str(&was), was.len, err);
    rc = rc < 0 ? rc : hf_ends_join(ends, base, &text, err);
    if (rc == 0 && strcmp(buf_str(&text), buf_str(&was)) != 0) {
        rc = stage_text(&f, dir, generation_name, &text, err);
        rc = rc < 0 ? rc : file_atomic_rename(&f, err);
        rc = rc < 0 ? rc : file_atomic_sync(dir, err);
    }
    file_atomic_clear(&f);
    buf_clear(&was);
    buf_clear(&text);
    return rc < 0 ? error_wrap(err, "%s", dir) : 0;
}
