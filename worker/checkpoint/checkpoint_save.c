/* checkpoint_save.c - see checkpoint.h. The directory is synced before and
 * after the rename: before, so that the name never stands for less than the
 * files; after, so that the old ones go only when the new one is there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/file_atomic.h"
#include "jobs/base/log.h"
#include "worker/checkpoint/checkpoint_internal.h"
#include "worker/checkpoint/safetensors.h"

/* ---- files of tensors ---------------------------------------------------- */

static enum st_type type_of(enum dtype dt)
{
    static const enum st_type types[] = {
        [DT_F64] = ST_F64,   [DT_F32] = ST_F32, [DT_F16] = ST_F16,
        [DT_BF16] = ST_BF16, [DT_N] = ST_I64,
    };
    return types[dt];
}

static int declare_one(void *arg, const struct model_tensor *t,
                       struct error *err)
{
    int64_t shape[4] = {0};
    for (int32_t i = 0; i < t->dims; i++)
        shape[i] = t->shape[i];
    return safetensors_declare(arg, t->name, type_of(t->dt), shape, t->dims,
                               err);
}

static int write_one(void *arg, const struct model_tensor *t, struct error *err)
{
    return st_write(arg, t->data, t->bytes, err);
}

static int write_model(struct st_writer *w,
                       const struct checkpoint_parts *parts, struct error *err)
{
    if (safetensors_declare_format(w, "pt", err) < 0 ||
        model_export(parts->model, declare_one, w, err) < 0 ||
        safetensors_begin(w, err) < 0)
        return -1;
    return model_export(parts->model, write_one, w, err);
}

/* Writes a sharded array, unit by unit. */
static int write_shared(struct st_writer *w,
                        const struct checkpoint_parts *parts, int32_t i,
                        void *host, struct error *err)
{
    const struct shards *s = parts->exchange->shards;
    const size_t size = dtype_acc_bytes(parts->dt);
    for (int32_t k = 0; k < s->n; k++)
        if (shard_fetch(parts->exchange, i + 1, s->units[k].first,
                        s->units[k].count, host, err) < 0 ||
            st_write(w, host, (size_t)s->units[k].count * size, err) < 0)
            return -1;
    return 0;
}

static int write_array(struct st_writer *w,
                       const struct checkpoint_parts *parts, int32_t i,
                       void *host, struct error *err)
{
    const struct checkpoint_array *a = &parts->arrays[i];
    const size_t bytes = (size_t)a->n * dtype_acc_bytes(parts->dt);
    if (parts->exchange != NULL)
        return write_shared(w, parts, i, host, err);
    const int rc =
        a->fetch != NULL
            ? a->fetch(a->arg, a->i, host, err)
            : parts->dev->ops->to_host(parts->dev, host, a->data, bytes, err);
    return rc < 0 ? -1 : st_write(w, host, bytes, err);
}

static int write_optim(struct st_writer *w,
                       const struct checkpoint_parts *parts, struct error *err)
{
    size_t size = dtype_acc_bytes(parts->dt), most = 1;
    enum st_type type = size == sizeof(double) ? ST_F64 : ST_F32;
    int rc = 0;
    for (int32_t i = 0; i < parts->n && rc == 0; i++) {
        const int64_t n = checkpoint_whole(parts, i);
        const int64_t piece =
            parts->exchange != NULL ? parts->exchange->shards->largest : n;
        most = (size_t)piece * size > most ? (size_t)piece * size : most;
        rc = safetensors_declare(w, parts->arrays[i].name, type, &n, 1, err);
    }
    void *host = malloc(most);
    if (host == NULL)
        return error_set(err, ERR_NOMEM, "%zu bytes", most);
    rc = rc < 0 ? rc : model_export_marks(parts->model, declare_one, w, err);
    rc = rc < 0 ? rc : safetensors_begin(w, err);
    for (int32_t i = 0; i < parts->n && rc == 0; i++)
        rc = write_array(w, parts, i, host, err);
    rc = rc < 0 ? rc : model_export_marks(parts->model, write_one, w, err);
    free(host);
    return rc;
}

/* The file is synced before it is closed. */
static int write_file(const char *step, enum checkpoint_file which,
                      const struct checkpoint_parts *parts, uint64_t *ret_crc,
                      struct error *err)
{
    struct buf path = BUF_INIT;
    struct st_writer w;
    int fd = -1;
    int rc = buf_addf(&path, err, "%s/%s", step, checkpoint_files[which]);
    if (rc == 0) {
        fd =
            open(buf_str(&path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            rc = error_sys(err, errno, "create");
    }
    safetensors_writer_init(&w, fd);
    if (rc == 0)
        rc = which == CKPT_OPTIM ? write_optim(&w, parts, err)
                                 : write_model(&w, parts, err);
    rc = rc < 0 ? rc : safetensors_end(&w, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = error_sys(err, errno, "sync");
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = error_sys(err, errno, "close");
    if (rc < 0)
        (void)error_wrap(err, "%s", buf_str(&path));
    *ret_crc = w.crc;
    safetensors_writer_clear(&w);
    buf_clear(&path);
    return rc;
}

static int write_state(const char *step, const struct checkpoint_state *state,
                       const uint64_t crc[CKPT_STATE], struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = checkpoint_encode(state, crc, &text, err);
    rc = rc < 0 ? rc
                : file_atomic_create(step, checkpoint_files[CKPT_STATE],
                                     buf_str(&text), text.len, err);
    buf_clear(&text);
    return rc;
}

/* The mean in the model's place; what is back there is never in doubt. */
static int write_ema(const char *step, const struct checkpoint_parts *parts,
                     uint64_t *ret_crc, struct error *err)
{
    if (parts->show == NULL)
        return 0;
    if (parts->show(parts->arg, true, err) < 0)
        return -1;
    int rc = write_file(step, CKPT_EMA, parts, ret_crc, err);
    if (parts->show(parts->arg, false, rc < 0 ? NULL : err) < 0)
        return -1;
    return rc;
}

/* ---- the whole ---------------------------------------------------------- */

static int make_dir(const char *path, struct error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_sys(err, errno, "make directory '%s'", path);
    return 0;
}

static enum checkpoint_file model_file(const struct checkpoint_parts *parts)
{
    return model_is_adapter(parts->model) ? CKPT_ADAPTER : CKPT_MODEL;
}

/* A run resumes without these files, so that a failure, as of a base that
 * cannot be read now, costs no checkpoint. A part of them is removed: it might
 * be taken for another model. */
static void write_beside(const char *step, const struct checkpoint_parts *parts)
{
    struct error why = ERROR_INIT;
    if (model_save_config(parts->model, step, &why) == 0)
        return;
    log_warn("worker",
             "the checkpoint has no configuration beside its tensors: a run "
             "resumes from it, other programs cannot load it why=\"%s\"",
             why.msg);
    (void)checkpoint_remove_beside(step, NULL);
}

static int write_files(const char *step, const struct checkpoint_state *state,
                       const struct checkpoint_parts *parts, struct error *err)
{
    const enum checkpoint_file model = model_file(parts);
    uint64_t crc[CKPT_STATE] = {0};
    if (write_file(step, model, parts, &crc[model], err) < 0 ||
        write_file(step, CKPT_OPTIM, parts, &crc[CKPT_OPTIM], err) < 0 ||
        write_ema(step, parts, &crc[CKPT_EMA], err) < 0)
        return -1;
    write_beside(step, parts);
    return write_state(step, state, crc, err);
}

static int write_step(const char *step, const struct checkpoint_state *state,
                      const struct checkpoint_parts *parts, struct error *err)
{
    struct buf train = BUF_INIT;
    int rc = buf_addf(&train, err, "%s/%s", step, checkpoint_train);
    rc = rc < 0 ? rc : make_dir(step, err);
    rc = rc < 0 ? rc : make_dir(buf_str(&train), err);
    rc = rc < 0 ? rc : write_files(step, state, parts, err);
    rc = rc < 0 ? rc : file_atomic_sync(buf_str(&train), err);
    buf_clear(&train);
    return rc < 0 ? rc : file_atomic_sync(step, err);
}

/* A checkpoint of this name is the same position written again, or a damaged
 * one. The new one replaces it, in one step where the file system can exchange
 * names; then the old one is the .tmp, which publish() removes. */
static int replace(const char *dir, int64_t iteration, const char *tmp,
                   const char *to, struct error *err)
{
    if (renameat2(AT_FDCWD, tmp, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return error_sys(err, errno, "exchange '%s'", tmp);
    if (checkpoint_remove(dir, iteration, "", err) < 0)
        return -1;
    return rename(tmp, to) < 0 ? error_sys(err, errno, "rename '%s'", tmp) : 0;
}

static int publish(const char *dir, int64_t iteration, const char *tmp,
                   struct error *err)
{
    struct buf to = BUF_INIT;
    int rc = checkpoint_path(&to, dir, iteration, "", err);
    if (rc == 0 && rename(tmp, buf_str(&to)) < 0) {
        if (errno == ENOTEMPTY || errno == EEXIST)
            rc = replace(dir, iteration, tmp, buf_str(&to), err);
        else
            rc = error_sys(err, errno, "rename '%s'", tmp);
    }
    rc = rc < 0 ? rc : file_atomic_sync(dir, err);
    if (rc == 0) /* what is left of the old one; the next save tries again */
        (void)checkpoint_remove(dir, iteration, ".tmp", NULL);
    buf_clear(&to);
    return rc;
}

/* Checkpoints of a higher number are damaged, or belong to a run that was given
 * up: loading must not find them again. */
static void remove_old(const char *dir, int64_t newest, int32_t keep)
{
    int64_t *list = NULL;
    size_t n = 0;
    int32_t kept = 0;
    if (checkpoint_list(dir, false, &list, &n, NULL) < 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (list[i] > newest || kept++ >= keep)
            (void)checkpoint_remove(dir, list[i], "", NULL);
    free(list);
}

/* A directory with files of others stays, which does not prevent saving: our
 * files in it are gone. */
static void remove_tmp(const char *dir)
{
    int64_t *list = NULL;
    size_t n = 0;
    if (checkpoint_list(dir, true, &list, &n, NULL) < 0)
        return;
    for (size_t i = 0; i < n; i++)
        (void)checkpoint_remove(dir, list[i], ".tmp", NULL);
    free(list);
}

/* Saves as the checkpoint of iteration `name`, or as CKPT_BEST. */
static int save_as(const char *dir, int64_t name,
                   const struct checkpoint_state *state,
                   const struct checkpoint_parts *parts, struct error *err)
{
    struct buf tmp = BUF_INIT;
    int rc = checkpoint_path(&tmp, dir, name, ".tmp", err);
    rc = rc < 0 ? rc : write_step(buf_str(&tmp), state, parts, err);
    rc = rc < 0 ? rc : publish(dir, name, buf_str(&tmp), err);
    if (rc < 0) {
        if (tmp.len > 0)
            (void)checkpoint_remove(dir, name, ".tmp", NULL);
        (void)error_wrap(err, "checkpoint");
    }
    buf_clear(&tmp);
    return rc;
}

int checkpoint_save(const char *dir, const struct checkpoint_state *state,
                    const struct checkpoint_parts *parts, int32_t keep,
                    struct error *err)
{
    if (checkpoint_make_dirs(dir, err) < 0)
        return error_wrap(err, "checkpoint");
    remove_tmp(dir);
    if (save_as(dir, state->iteration, state, parts, err) < 0)
        return -1;
    remove_old(dir, state->iteration, keep > 0 ? keep : 1);
    return 0;
}

int checkpoint_save_best(const char *dir, const struct checkpoint_state *state,
                         const struct checkpoint_parts *parts,
                         struct error *err)
{
    if (checkpoint_make_dirs(dir, err) < 0)
        return error_wrap(err, "checkpoint");
    (void)checkpoint_remove(dir, CKPT_BEST, ".tmp", NULL);
    return save_as(dir, CKPT_BEST, state, parts, err);
}

/* Written in a directory of their own, and moved up. */
static int move_up(const char *dir, const char *tmp, enum checkpoint_file which,
                   struct error *err)
{
    struct buf from = BUF_INIT, to = BUF_INIT;
    const char *name = checkpoint_files[which];
    int rc = buf_addf(&from, err, "%s/%s", tmp, name);
    rc = rc < 0 ? rc : buf_addf(&to, err, "%s/%s", dir, name);
    if (rc == 0 && rename(buf_str(&from), buf_str(&to)) < 0)
        rc = error_sys(err, errno, "rename '%s'", buf_str(&from));
    buf_clear(&from);
    buf_clear(&to);
    return rc;
}

int checkpoint_export(const char *dir, const struct checkpoint_parts *parts,
                      struct error *err)
{
    struct buf tmp = BUF_INIT;
    uint64_t crc = 0;
    const bool has_mean = parts->show != NULL;
    int rc = checkpoint_path(&tmp, dir, 0, ".tmp", err);
    if (rc == 0) {
        (void)checkpoint_remove(dir, 0, ".tmp", NULL);
        if (mkdir(buf_str(&tmp), 0700) < 0 && errno != EEXIST)
            rc = error_sys(err, errno, "make directory '%s'", buf_str(&tmp));
    }
    rc = rc < 0 ? rc : write_file(buf_str(&tmp), CKPT_MODEL, parts, &crc, err);
    rc = rc < 0 ? rc : write_ema(buf_str(&tmp), parts, &crc, err);
    rc = rc < 0 ? rc : move_up(dir, buf_str(&tmp), CKPT_MODEL, err);
    if (rc == 0 && has_mean)
        rc = move_up(dir, buf_str(&tmp), CKPT_EMA, err);
    rc = rc < 0 ? rc : file_atomic_sync(dir, err);
    if (tmp.len > 0)
        (void)checkpoint_remove(dir, 0, ".tmp", NULL);
    buf_clear(&tmp);
    return rc;
}
