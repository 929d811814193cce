/* checkpoint_load.c - load the newest whole checkpoint.
 *
 * Whole means: state.json and both files are there, their checksums hold and
 * they parse. Only then is anything of it given to the model, so that one
 * that is passed over leaves no trace. A whole checkpoint that does not fit
 * the model is an error, not a reason to take an older one: the older ones
 * will not fit either. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"
#include "worker/checkpoint/checkpoint_internal.h"
#include "worker/checkpoint/crc64.h"
#include "worker/checkpoint/safetensors.h"

/* Far above any model of ours; a damaged size is met by the file's end. */
static const size_t max_bytes = (size_t)1 << 40;
enum { STATE_MAX_BYTES = 65536 };

struct whole {
    struct checkpoint_state state;
    struct safetensors files[CKPT_STATE];
};

static void clear(struct whole *w)
{
    for (int i = 0; i < CKPT_STATE; i++)
        safetensors_close(&w->files[i]);
}

/* One without train/ is of an earlier version. */
static int find_names(const char *step, const char *const **ret,
                      struct error *err)
{
    struct buf path = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", step, checkpoint_train);
    if (rc == 0)
        *ret = access(buf_str(&path), F_OK) < 0 && errno == ENOENT
                   ? checkpoint_names[CKPT_FLAT]
                   : checkpoint_names[CKPT_TRAIN];
    buf_clear(&path);
    return rc;
}

static int read_state(const char *step, const char *name,
                      struct checkpoint_state *ret, uint64_t crc[CKPT_STATE],
                      struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    int rc = -1;
    if (buf_addf(&path, err, "%s/%s", step, name) == 0 &&
        buf_read_file(&text, buf_str(&path), STATE_MAX_BYTES, err) == 0 &&
        checkpoint_decode(buf_str(&text), text.len, ret, crc, err) == 0)
        rc = 0;
    buf_clear(&path);
    buf_clear(&text);
    if (rc < 0)
        return error_wrap(err, "%s", name);
    return 0;
}

/* Reads the file instead of its map, so that a disk that fails is an error: in
 * a map it is SIGBUS. What is read stays in the page cache for the map. */
static int sum_file(const char *path, uint64_t *ret, struct error *err)
{
    enum { PIECE = 1 << 20 };
    uint64_t crc = 0;
    ssize_t n = 0;
    int fd = plain_file_open(path, 0, NULL, err);
    if (fd < 0)
        return -1;
    char *piece = malloc(PIECE);
    int rc = piece != NULL ? 0 : error_set(err, ERR_NOMEM, "%s", path);
    do {
        if (rc == 0)
            n = read(fd, piece, PIECE);
        if (n > 0)
            crc = crc64(crc, piece, (size_t)n);
    } while (rc == 0 && (n > 0 || (n < 0 && errno == EINTR)));
    if (rc == 0 && n < 0)
        rc = error_sys(err, errno, "read '%s'", path);
    free(piece);
    (void)close(fd);
    if (rc == 0)
        *ret = crc;
    return rc;
}

static int read_tensors(const char *step, const char *name, uint64_t crc,
                        struct safetensors *ret, struct error *err)
{
    struct buf path = BUF_INIT;
    uint64_t sum = 0;
    int rc = buf_addf(&path, err, "%s/%s", step, name);
    rc = rc < 0 ? rc : sum_file(buf_str(&path), &sum, err);
    rc = rc < 0 ? rc : safetensors_open(buf_str(&path), max_bytes, ret, err);
    if (rc == 0 && sum != crc)
        rc = error_set(err, ERR_INVAL, "%s: the checksum does not fit", name);
    buf_clear(&path);
    return rc;
}

static bool is_in(int i, const uint64_t crc[CKPT_STATE])
{
    return i == CKPT_OPTIM || crc[i] != 0 ||
           (i == CKPT_MODEL && crc[CKPT_ADAPTER] == 0);
}

static int read_step(const char *step, struct whole *ret, struct error *err)
{
    struct whole w = {.state = {.iteration = 0}};
    uint64_t crc[CKPT_STATE] = {0};
    const char *const *names = checkpoint_files;
    int rc = find_names(step, &names, err);
    rc = rc < 0 ? rc : read_state(step, names[CKPT_STATE], &w.state, crc, err);
    for (int i = 0; i < CKPT_STATE && rc == 0; i++)
        if (is_in(i, crc))
            rc = read_tensors(step, names[i], crc[i], &w.files[i], err);
    if (rc < 0) {
        clear(&w);
        return -1;
    }
    *ret = w;
    return 0;
}

static int read_whole(const char *dir, int64_t iteration, struct whole *ret,
                      struct error *err)
{
    struct buf step = BUF_INIT;
    int rc = checkpoint_path(&step, dir, iteration, "", err);
    rc = rc < 0 ? rc : read_step(buf_str(&step), ret, err);
    buf_clear(&step);
    return rc < 0 ? error_wrap(err, "step-%" PRId64, iteration) : 0;
}

/* The model that asks for its marks. */
struct marks {
    struct whole *whole;
    struct model *model;
};

static int give_tensor(const struct st_tensor *from, struct model *m,
                       struct error *err)
{
    struct model_tensor t = {.name = from->name,
                             .dims = from->dims,
                             .data = (void *)from->data, /* only read */
                             .bytes = from->bytes};
    switch (from->type) {
    case ST_F64:
        t.dt = DT_F64;
        break;
    case ST_F32:
        t.dt = DT_F32;
        break;
    case ST_F16:
        t.dt = DT_F16;
        break;
    case ST_BF16:
        t.dt = DT_BF16;
        break;
    case ST_I64:
        t.dt = DT_N;
        break;
    default:
        return error_set(err, ERR_INVAL, "tensor '%.80s': dtype %s", from->name,
                         st_types[from->type].word);
    }
    for (int32_t k = 0; k < from->dims; k++) {
        if (k >= 4 || from->shape[k] > INT32_MAX)
            return error_set(err, ERR_INVAL, "tensor '%.80s': no such shape",
                             from->name);
        t.shape[k] = (int32_t)from->shape[k];
    }
    return model_import(m, &t, err);
}

static struct safetensors *model_of(struct whole *w)
{
    return &w->files[w->files[CKPT_ADAPTER].n > 0 ? CKPT_ADAPTER : CKPT_MODEL];
}

/* What only a resume checks is in the optimizer's file; before there was
 * train/, it was in the model's. */
static int give_mark(void *arg, const struct model_tensor *t, struct error *err)
{
    struct marks *k = arg;
    const struct st_tensor *from =
        safetensors_find(&k->whole->files[CKPT_OPTIM], t->name);
    if (from == NULL)
        from = safetensors_find(model_of(k->whole), t->name);
    if (from == NULL)
        return error_set(err, ERR_INVAL, "no tensor '%s'", t->name);
    return give_tensor(from, k->model, err);
}

static int require_tensor(void *arg, const struct model_tensor *t,
                          struct error *err)
{
    if (safetensors_find(arg, t->name) == NULL)
        return error_set(err, ERR_INVAL, "no tensor '%s'", t->name);
    return 0;
}

static int give_model(struct safetensors *f, struct model *m, struct error *err)
{
    if (model_export(m, require_tensor, f, err) < 0)
        return -1;
    for (size_t i = 0; i < f->n; i++)
        if (give_tensor(&f->tensors[i], m, err) < 0)
            return -1;
    return 0;
}

static int give_array(const struct checkpoint_parts *parts, int32_t i,
                      int64_t n, const struct st_tensor *t, struct error *err)
{
    if (parts->exchange != NULL)
        return shard_store(parts->exchange, i + 1, 0, n, t->data, err);
    if (parts->arrays[i].store != NULL)
        return parts->arrays[i].store(parts->arrays[i].arg, parts->arrays[i].i,
                                      t->data, err);
    if (parts->dev->ops->to_device(parts->dev, parts->arrays[i].data, t->data,
                                   t->bytes, err) < 0)
        return -1;
    return parts->dev->ops->sync(parts->dev, err);
}

struct name {
    const char *text;
    bool is_mark;
};

static int compare_mark(void *arg, const struct model_tensor *t,
                        struct error *err)
{
    struct name *n = arg;
    (void)err;
    n->is_mark = n->is_mark || strcmp(n->text, t->name) == 0;
    return 0;
}

/* Refuses arrays that this run does not have: they would be lost. */
static int refuse_others(const struct safetensors *f,
                         const struct checkpoint_parts *parts,
                         struct error *err)
{
    for (size_t i = 0; i < f->n; i++) {
        struct name n = {.text = f->tensors[i].name};
        int32_t k = 0;
        while (k < parts->n && strcmp(parts->arrays[k].name, n.text) != 0)
            k++;
        if (model_export_marks(parts->model, compare_mark, &n, err) < 0)
            return -1;
        if (k == parts->n && !n.is_mark)
            return error_set(err, ERR_INVAL,
                             "it is of another optimizer, or train.ema: this "
                             "run has no use for its '%.80s'",
                             f->tensors[i].name);
    }
    return 0;
}

static int give_optim(const struct safetensors *f,
                      const struct checkpoint_parts *parts, struct error *err)
{
    size_t size = dtype_acc_bytes(parts->dt);
    enum st_type type = size == sizeof(double) ? ST_F64 : ST_F32;
    for (int32_t i = 0; i < parts->n; i++) {
        const char *name = parts->arrays[i].name;
        const int64_t n = checkpoint_whole(parts, i);
        const struct st_tensor *t = safetensors_find(f, name);
        if (t == NULL)
            return error_set(err, ERR_INVAL,
                             "it is of another optimizer, or train.ema: no "
                             "'%s'",
                             name);
        if (t->type != type || t->bytes != (size_t)n * size)
            return error_set(err, ERR_INVAL,
                             "'%s' has %zu bytes of %s, this run needs %zu of "
                             "%s",
                             name, t->bytes, st_types[t->type].word,
                             (size_t)n * size, st_types[type].word);
        if (give_array(parts, i, n, t, err) < 0)
            return -1;
    }
    return refuse_others(f, parts, err);
}

/* The file is damaged or absent, and will not get better. An I/O error, missing
 * rights or lack of memory may pass: loading an older checkpoint would lose
 * work, and the next save would remove this one. */
static bool is_damage(const struct error *e)
{
    return e->code == ERR_INVAL || e->code == ERR_NOTFOUND ||
           e->code == ERR_LIMIT;
}

/* Newest first; *ret_skipped names those that are damaged. */
static int find_whole(const char *dir, struct whole *ret,
                      struct buf *ret_skipped, struct error *err)
{
    int64_t *list = NULL;
    size_t n = 0;
    int rc = -1;
    if (checkpoint_list(dir, false, &list, &n, err) < 0)
        return -1;
    for (size_t i = 0; i < n && rc < 0; i++) {
        struct error why = ERROR_INIT;
        rc = read_whole(dir, list[i], ret, &why);
        if (rc < 0 && !is_damage(&why)) {
            free(list);
            return error_set(err, why.code,
                             "checkpoint: %.300s; if this error stays, "
                             "remove it to go on from an older one",
                             why.msg);
        }
        if (rc < 0 && buf_addf(ret_skipped, err, "%s\n", why.msg) < 0) {
            free(list);
            return -1;
        }
    }
    free(list);
    if (rc < 0)
        return error_set(err, ERR_NOTFOUND, "no checkpoint in '%s'", dir);
    return 0;
}

static int give_whole(struct whole *w, const struct checkpoint_parts *parts,
                      struct checkpoint_state *ret, struct error *err)
{
    struct marks marks = {w, parts->model};
    int rc = model_export_marks(parts->model, give_mark, &marks, err);
    rc = rc < 0 ? rc : give_model(model_of(w), parts->model, err);
    if (rc == 0 && !parts->weights_only)
        rc = give_optim(&w->files[CKPT_OPTIM], parts, err);
    if (rc == 0)
        *ret = w->state;
    clear(w);
    return rc < 0 ? error_wrap(err, "checkpoint") : 0;
}

int checkpoint_load(const char *dir, const struct checkpoint_parts *parts,
                    struct checkpoint_state *ret, struct buf *ret_skipped,
                    struct error *err)
{
    struct whole w = {.state = {.iteration = 0}};
    if (find_whole(dir, &w, ret_skipped, err) < 0)
        return -1;
    return give_whole(&w, parts, ret, err);
}

int checkpoint_load_one(const char *step, const struct checkpoint_parts *parts,
                        struct checkpoint_state *ret, bool *ret_is_read,
                        struct error *err)
{
    struct whole w = {.state = {.iteration = 0}};
    const bool is_read = read_step(step, &w, err) == 0;
    if (ret_is_read != NULL)
        *ret_is_read = is_read;
    if (!is_read)
        return error_wrap(err, "checkpoint '%.150s'", step);
    return give_whole(&w, parts, ret, err);
}
