/* checkpoint_dir.c - names of checkpoints, and state.json. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/checkpoint/checkpoint_internal.h"
#include "worker/checkpoint/crc64.h"

enum { STATE_VERSION = 1 }; /* plus the layout */

const char checkpoint_train[] = "train";
const char *const checkpoint_names[CKPT_LAYOUTS][CKPT_FILES] = {
    [CKPT_FLAT] = {[CKPT_MODEL] = "model.safetensors",
                   [CKPT_ADAPTER] = "adapter_model.safetensors",
                   [CKPT_OPTIM] = "optim.safetensors",
                   [CKPT_EMA] = "ema.safetensors",
                   [CKPT_STATE] = "state.json"},
    [CKPT_TRAIN] = {[CKPT_MODEL] = "model.safetensors",
                    [CKPT_ADAPTER] = "adapter_model.safetensors",
                    [CKPT_OPTIM] = "train/optim.safetensors",
                    [CKPT_EMA] = "ema.safetensors",
                    [CKPT_STATE] = "train/state.json"},
};
const char *const *const checkpoint_files = checkpoint_names[CKPT_TRAIN];

int checkpoint_path(struct buf *out, const char *dir, int64_t iteration,
                    const char *suffix, struct error *err)
{
    buf_reset(out);
    if (iteration == CKPT_BEST)
        return buf_addf(out, err, "%s/best%s", dir, suffix);
    return buf_addf(out, err, "%s/step-%" PRId64 "%s", dir, iteration, suffix);
}

/* "step-12" or "step-12.tmp"; -1 for any other name. */
static int64_t number_of(const char *name, bool tmp)
{
    char *end = NULL;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    errno = 0;
    long long n = strtoll(name + 5, &end, 10);
    return errno == 0 && strcmp(end, tmp ? ".tmp" : "") == 0 ? n : -1;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

int checkpoint_list(const char *dir, bool tmp, int64_t **ret, size_t *ret_n,
                    struct error *err)
{
    struct buf b = BUF_INIT;
    const struct dirent *e;
    DIR *d = opendir(dir);
    if (d == NULL && errno != ENOENT)
        return error_sys(err, errno, "open '%s'", dir);
    while (d != NULL && (e = readdir(d)) != NULL) {
        int64_t n = number_of(e->d_name, tmp);
        if (n >= 0 && buf_add(&b, &n, sizeof(n), err) < 0) {
            (void)closedir(d);
            buf_clear(&b);
            return -1;
        }
    }
    if (d != NULL)
        (void)closedir(d);
    *ret_n = b.len / sizeof(int64_t);
    *ret = (int64_t *)(void *)b.data; /* NULL when there is none */
    if (*ret_n > 0)
        qsort(*ret, *ret_n, sizeof(int64_t), descending);
    return 0;
}

int checkpoint_make_dirs(const char *path, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = buf_addstr(&b, path, err);
    for (size_t i = 1; rc == 0 && i <= b.len; i++) {
        if (b.data[i] != '/' && b.data[i] != '\0')
            continue;
        char was = b.data[i];
        b.data[i] = '\0';
        if (mkdir(b.data, 0700) < 0 && errno != EEXIST)
            rc = error_sys(err, errno, "make directory '%s'", b.data);
        b.data[i] = was;
    }
    buf_clear(&b);
    return rc;
}

/* A file of dir/name and what a kill left of it. */
static int remove_file(const char *dir, const char *name, struct error *err)
{
    struct buf path = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, name);
    if (rc == 0 && unlink(buf_str(&path)) < 0 && errno != ENOENT)
        rc = error_sys(err, errno, "remove '%s'", buf_str(&path));
    rc = rc < 0 ? rc : buf_addstr(&path, ".tmp", err);
    if (rc == 0 && unlink(buf_str(&path)) < 0 && errno != ENOENT)
        rc = error_sys(err, errno, "remove '%s'", buf_str(&path));
    buf_clear(&path);
    return rc;
}

static int remove_dir(const char *dir, const char *name, struct error *err)
{
    struct buf path = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, name);
    if (rc == 0 && rmdir(buf_str(&path)) < 0 && errno != ENOENT)
        rc = error_sys(err, errno, "remove '%s'", buf_str(&path));
    buf_clear(&path);
    return rc;
}

int checkpoint_remove_beside(const char *step, struct error *err)
{
    static const char *const beside[] = {
        "adapter_config.json",     "config.json",
        "generation_config.json",  "tokenizer.model",
        "tokenizer.json",          "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json",
        "chat_template.jinja",     "original/tokenizer.model"};
    int rc = 0;
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]) && rc == 0; i++)
        rc = remove_file(step, beside[i], err);
    return rc < 0 ? rc : remove_dir(step, "original", err);
}

int checkpoint_remove(const char *dir, int64_t iteration, const char *suffix,
                      struct error *err)
{
    struct buf step = BUF_INIT;
    int rc = checkpoint_path(&step, dir, iteration, suffix, err);
    for (int i = 0; i < CKPT_LAYOUTS * CKPT_FILES && rc == 0; i++)
        rc = remove_file(buf_str(&step),
                         checkpoint_names[i / CKPT_FILES][i % CKPT_FILES], err);
    rc = rc < 0 ? rc : checkpoint_remove_beside(buf_str(&step), err);
    rc = rc < 0 ? rc : remove_dir(buf_str(&step), checkpoint_train, err);
    if (rc == 0 && rmdir(buf_str(&step)) < 0 && errno != ENOENT)
        rc = error_sys(err, errno, "remove '%s'", buf_str(&step));
    buf_clear(&step);
    return rc;
}

bool checkpoint_is_one(const char *dir)
{
    struct buf path = BUF_INIT;
    bool is_one = false;
    for (int i = 0; i < CKPT_LAYOUTS && !is_one; i++) {
        buf_reset(&path);
        is_one = buf_addf(&path, NULL, "%s/%s", dir,
                          checkpoint_names[i][CKPT_STATE]) == 0 &&
                 access(buf_str(&path), F_OK) == 0;
    }
    buf_clear(&path);
    return is_one;
}

/* ---- state.json ---------------------------------------------------------- */

static int add_crc(struct buf *out, enum checkpoint_file i, uint64_t crc,
                   const char *before, struct error *err)
{
    return buf_addf(out, err, "%s\"%s\":\"%016" PRIx64 "\"", before,
                    checkpoint_files[i], crc);
}

static int add_files(struct buf *out, const uint64_t crc[CKPT_STATE],
                     struct error *err)
{
    const enum checkpoint_file model =
        crc[CKPT_ADAPTER] != 0 ? CKPT_ADAPTER : CKPT_MODEL;
    int rc = add_crc(out, model, crc[model], ",\"files\":{", err);
    rc = rc < 0 ? rc : add_crc(out, CKPT_OPTIM, crc[CKPT_OPTIM], ",", err);
    if (rc == 0 && crc[CKPT_EMA] != 0)
        rc = add_crc(out, CKPT_EMA, crc[CKPT_EMA], ",", err);
    return rc < 0 ? rc : buf_addstr(out, "}", err);
}

int checkpoint_encode(const struct checkpoint_state *s,
                      const uint64_t crc[CKPT_STATE], struct buf *out,
                      struct error *err)
{
    size_t start = out->len;
    int rc =
        buf_addf(out, err,
                 "{\"version\":%d,\"iteration\":%" PRId64
                 ",\"updates\":%" PRId64 ",\"epoch\":%d,\"batch\":%d,"
                 "\"seed\":%" PRId64 ",\"ranks\":%d,\"global_batch\":%" PRId64
                 ",\"batch_size\":%d"
                 ",\"epoch_s\":%.17g,\"loss_sum\":%.17g,\"samples\":%" PRId64
                 ",\"counted\":%" PRId64,
                 STATE_VERSION + CKPT_TRAIN, s->iteration, s->updates, s->epoch,
                 s->batch, s->seed, s->ranks, s->global_batch, s->batch_size,
                 s->epoch_s, s->loss_sum, s->samples, s->counted);
    rc = rc < 0 ? rc : add_files(out, crc, err);
    if (rc == 0 && s->tokens > 0)
        rc = buf_addf(out, err, ",\"tokens\":%" PRId64, s->tokens);
    if (rc == 0 && isfinite(s->best))
        rc = buf_addf(out, err, ",\"best\":%.17g", s->best);
    if (rc == 0 && s->done != s->iteration)
        rc = buf_addf(out, err, ",\"done\":%" PRId64, s->done);
    if (rc == 0 && isfinite(s->watched))
        rc = buf_addf(out, err, ",\"watched\":%.17g", s->watched);
    if (rc == 0 && s->waited > 0)
        rc = buf_addf(out, err, ",\"waited\":%d", s->waited);
    if (rc == 0 && s->evaluated > 0)
        rc = buf_addf(out, err, ",\"evaluated\":%" PRId64, s->evaluated);
    if (rc == 0 && s->loss_scale.scale > 0 && s->loss_scale.scale != 1)
        rc = buf_addf(out, err, ",\"loss_scale\":%.17g,\"good_steps\":%" PRId64,
                      s->loss_scale.scale, s->loss_scale.good_steps);
    if (rc < 0)
        return -1;
    /* The checksum covers all that is before it. */
    uint64_t own = crc64(0, buf_str(out) + start, out->len - start);
    return buf_addf(out, err, ",\"crc64\":\"%016" PRIx64 "\"}\n", own);
}

static int get_crc(const json_t *o, const char *key, uint64_t *ret,
                   struct error *err)
{
    const char *hex = json_string_value(json_object_get(o, key));
    if (hex == NULL || strlen(hex) != 16 ||
        strspn(hex, "0123456789abcdef") != 16)
        return error_set(err, ERR_INVAL, "no checksum of '%s'", key);
    *ret = strtoull(hex, NULL, 16);
    return 0;
}

static int get_int(const json_t *o, const char *key, int64_t min, int64_t max,
                   int64_t *ret, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < min ||
        json_integer_value(v) > max)
        return error_set(err, ERR_INVAL, "'%s' is missing or not possible",
                         key);
    *ret = json_integer_value(v);
    return 0;
}

static int get_files(const json_t *o, int64_t version, uint64_t crc[CKPT_STATE],
                     struct error *err)
{
    const json_t *files = json_object_get(o, "files");
    const char *const *names = checkpoint_names[version - STATE_VERSION];
    const char *adapter = names[CKPT_ADAPTER], *ema = names[CKPT_EMA];
    if (json_object_get(files, adapter) != NULL &&
        get_crc(files, adapter, &crc[CKPT_ADAPTER], err) < 0)
        return -1;
    if (crc[CKPT_ADAPTER] == 0 &&
        get_crc(files, names[CKPT_MODEL], &crc[CKPT_MODEL], err) < 0)
        return -1;
    if (json_object_get(files, ema) != NULL &&
        get_crc(files, ema, &crc[CKPT_EMA], err) < 0)
        return -1;
    return get_crc(files, names[CKPT_OPTIM], &crc[CKPT_OPTIM], err);
}

static int get_state(const json_t *o, struct checkpoint_state *s,
                     uint64_t crc[CKPT_STATE], struct error *err)
{
    int64_t version = 0, epoch = 0, batch = 0, ranks = 0, batch_size = 0;
    const json_t *best = json_object_get(o, "best");
    const json_t *watched = json_object_get(o, "watched");
    int64_t waited = 0;
    const json_t *scale = json_object_get(o, "loss_scale");
    /* A file without "counted" is older and counted all samples. */
    const char *counted = json_object_get(o, "counted") ? "counted" : "samples";
    if (get_int(o, "version", STATE_VERSION, STATE_VERSION + CKPT_LAYOUTS - 1,
                &version, err) ||
        get_int(o, "iteration", 0, INT64_MAX, &s->iteration, err) ||
        get_int(o, "updates", 0, INT64_MAX, &s->updates, err) ||
        get_int(o, "epoch", 1, INT32_MAX, &epoch, err) ||
        get_int(o, "batch", 0, INT32_MAX, &batch, err) ||
        get_int(o, "seed", INT64_MIN, INT64_MAX, &s->seed, err) ||
        get_int(o, "ranks", 1, INT32_MAX, &ranks, err) ||
        get_int(o, "global_batch", 1, INT64_MAX, &s->global_batch, err) ||
        (json_object_get(o, "batch_size") != NULL &&
         get_int(o, "batch_size", 0, INT32_MAX, &batch_size, err)) ||
        get_int(o, "samples", 0, INT64_MAX, &s->samples, err) ||
        get_int(o, counted, 0, INT64_MAX, &s->counted, err) ||
        (json_object_get(o, "tokens") != NULL &&
         get_int(o, "tokens", 0, INT64_MAX, &s->tokens, err)) ||
        get_files(o, version, crc, err) ||
        (scale != NULL && get_int(o, "good_steps", 0, INT64_MAX,
                                  &s->loss_scale.good_steps, err)))
        return -1;
    s->done = s->iteration;
    if ((json_object_get(o, "done") != NULL &&
         get_int(o, "done", 0, INT64_MAX, &s->done, err)) ||
        (json_object_get(o, "evaluated") != NULL &&
         get_int(o, "evaluated", 0, INT64_MAX, &s->evaluated, err)) ||
        (json_object_get(o, "waited") != NULL &&
         get_int(o, "waited", 0, INT32_MAX, &waited, err)))
        return -1;
    /* A loss is averaged over samples or, of a text, over some of its tokens.
     */
    if (s->counted > (s->tokens > 0 ? s->tokens : s->samples))
        return error_set(err, ERR_INVAL, "'%s' is more than was trained on",
                         counted);
    s->epoch = (int32_t)epoch;
    s->batch = (int32_t)batch;
    s->ranks = (int32_t)ranks;
    s->batch_size = (int32_t)batch_size;
    s->epoch_s = json_number_value(json_object_get(o, "epoch_s"));
    s->loss_sum = json_number_value(json_object_get(o, "loss_sum"));
    s->best = best != NULL ? json_number_value(best) : NAN;
    s->watched = watched != NULL ? json_number_value(watched) : NAN;
    s->waited = (int32_t)waited;
    s->loss_scale.scale = scale != NULL ? json_number_value(scale) : 1;
    if (!(s->loss_scale.scale > 0))
        return error_set(err, ERR_INVAL, "'loss_scale' is not possible");
    return 0;
}

int checkpoint_decode(const char *text, size_t len,
                      struct checkpoint_state *ret,
                      uint64_t ret_crc[CKPT_STATE], struct error *err)
{
    json_error_t why;
    struct checkpoint_state s = {.iteration = 0};
    uint64_t crc[CKPT_STATE] = {0}, own = 0;
    const char *tail = memmem(text, len, ",\"crc64\":", 9);
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (o == NULL)
        return error_set(err, ERR_INVAL, "byte %d: %.100s", why.position,
                         why.text);
    int rc = get_state(o, &s, crc, err);
    rc = rc < 0 ? rc : get_crc(o, "crc64", &own, err);
    json_decref(o);
    if (rc < 0)
        return -1;
    if (tail == NULL || crc64(0, text, (size_t)(tail - text)) != own)
        return error_set(err, ERR_INVAL, "the checksum does not fit");
    *ret = s;
    memcpy(ret_crc, crc, sizeof(crc));
    return 0;
}
