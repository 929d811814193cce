/* llama_load.c - load or draw the initial values of a training.
 *
 * The weights come from a directory of Hugging Face, tensor by tensor and
 * piece by piece: no more than a piece is held beside the device's copy. An
 * adapter's A is drawn as PEFT draws it, kaiming_uniform(sqrt 5), its B is
 * zero; or both come from an adapter's directory.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "worker/llm/files/hf_dir.h"
#include "worker/llm/llama_check.h"
#include "worker/llm/llama_internal.h"

enum { PIECE = 4 << 20 }; /* values */

/* ---- pieces to the device ------------------------------------------------
 */

static uint64_t mix(uint64_t h, const void *data, size_t bytes)
{
    const char *p = data;
    uint64_t word = 0;
    for (; bytes >= sizeof(word); p += sizeof(word), bytes -= sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, p, bytes);
    h = (h ^ word ^ bytes) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* A weight that is no number makes every loss one, without a word of where. */
static int check_finite(const struct st_tensor *from, int64_t first,
                        int64_t count, enum dtype dt, const void *piece,
                        struct error *err)
{
    double is;
    const int64_t at = hf_not_finite(dt, piece, count);
    if (at < 0)
        return 0;
    hf_copy(from, first + at, 1, DT_F64, &is);
    if (isfinite(is))
        return error_set(
            err, ERR_INVAL, "%s: value %lld is %g, which %s does not hold%s",
            from->name, (long long)(first + at), is, dtype_name(dt),
            dt == DT_F16 ? ": bf16 and fp32 do" : "");
    return error_set(err, ERR_INVAL, "%s: value %lld is %s", from->name,
                     (long long)(first + at), isnan(is) ? "NaN" : "infinite");
}

/* Loads a tensor of a file, in the model's type.
 * in    at      its place among the weights, if `to` is NULL: of sharded
 *               weights this rank keeps its part
 * inout digest  of all values, as they are on the device */
static int load_tensor(struct llama *m, const struct st_tensor *from, int64_t n,
                       int64_t at, void *to, void *piece, uint64_t *digest,
                       struct error *err)
{
    const enum dtype dt = m->conf.dt;
    for (int64_t first = 0; first < n; first += PIECE) {
        const int64_t count = n - first < PIECE ? n - first : PIECE;
        const size_t bytes = (size_t)count * dtype_bytes(dt);
        const size_t from_bytes = (size_t)st_types[from->type].bytes;
        hf_copy(from, first, count, dt, piece);
        safetensors_forget(from, (size_t)first * from_bytes,
                           (size_t)count * from_bytes);
        if (check_finite(from, first, count, dt, piece, err) < 0)
            return -1;
        *digest = mix(*digest, piece, bytes);
        if (to == NULL) {
            if (llama_put_weights(m, at + first, count, piece, err) < 0)
                return error_wrap(err, "%s", from->name);
        } else if (m->d->ops->to_device(m->d, llama_at(m, to, first), piece,
                                        bytes, err) < 0 ||
                   m->d->ops->sync(m->d, err) < 0) {
            return error_wrap(err, "%s", from->name);
        }
    }
    return 0;
}

/* ---- the weights ---------------------------------------------------------
 */

/* The zeros that fill chunks up. */
static int zero_share(struct llama *m, struct error *err)
{
    if (m->shards.n == 0)
        return 0;
    return m->d->ops->zero(m->d, m->shape.is_full ? m->mem.params : m->mem.base,
                           (size_t)m->shards.elements * m->share_size, err);
}

static int load_weights(struct llama *m, void *piece, struct error *err)
{
    static const struct spec_list all = {.n = 0};
    const struct llama_shape *s = &m->shape;
    const struct spec_list *files = m->conf.files ? m->conf.files : &all;
    struct hf_dir *h = NULL;
    uint64_t digest = 1 + (uint64_t)m->conf.quantizer;
    if (hf_open(m->conf.dir, files, &h, err) < 0)
        return -1;
    int rc = llama_check_weights(h, s, err);
    rc = rc < 0 ? rc : zero_share(m, err);
    for (int32_t i = 0; i < llama_weight_count(s) && rc == 0; i++) {
        struct llama_tensor t;
        void *to = NULL;
        llama_weight(s, i, &t);
        rc = llama_base_room(m, i, &to, err);
        rc = rc < 0 ? rc
                    : load_tensor(m, hf_find(h, t.name), t.n, t.at, to, piece,
                                  &digest, err);
        rc = rc < 0 ? rc : llama_base_keep(m, i, err);
    }
    hf_close(h);
    if (rc == 0 && s->is_full && llama_has_base(&m->conf))
        rc = m->d->ops->copy(m->d, m->mem.base, m->mem.params,
                             (size_t)m->plan.params * dtype_bytes(m->conf.dt),
                             err);
    if (rc < 0)
        return -1;
    m->digest = (int64_t)(digest >> 1) + (digest < 2);
    return 0;
}

/* ---- the adapters --------------------------------------------------------
 */

static int draw(struct llama *m, uint32_t seed, void *piece, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const enum dtype dt = m->conf.dt;
    struct rng rng;
    rng_seed(&rng, seed);
    if (m->d->ops->zero(m->d, m->mem.params,
                        (size_t)s->params * dtype_bytes(dt), err) < 0)
        return -1;
    for (int32_t i = 0; i < llama_adapter_count(s); i++) {
        struct llama_tensor t;
        llama_adapter(s, i, &t);
        if (t.fan_in == 0)
            continue;
        const double bound = 1 / sqrt(t.fan_in);
        for (int64_t first = 0; first < t.n; first += PIECE) {
            const int64_t n = t.n - first < PIECE ? t.n - first : PIECE;
            for (int64_t j = 0; j < n; j++)
                dtype_set(dt, piece, j, bound * (2 * rng_uniform(&rng) - 1));
            if (m->d->ops->to_device(
                    m->d, llama_at(m, m->mem.params, t.at + first), piece,
                    (size_t)n * dtype_bytes(dt), err) < 0 ||
                m->d->ops->sync(m->d, err) < 0)
                return -1;
        }
    }
    return 0;
}

static int load_adapter(struct llama *m, void *piece, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    struct safetensors f;
    struct hf_dir *base = NULL;
    uint64_t unused = 0;
    if (adapter_open(m->conf.adapter, &f, err) < 0)
        return -1;
    int rc = hf_open(m->conf.dir, m->conf.files, &base, err);
    rc = rc < 0 ? rc : llama_check_adapters(&f, base, s, err);
    hf_close(base);
    for (int32_t i = 0; i < llama_adapter_count(s) && rc == 0; i++) {
        struct llama_tensor t;
        llama_adapter(s, i, &t);
        rc = load_tensor(m, safetensors_find(&f, t.name), t.n, t.at,
                         llama_at(m, m->mem.params, t.at), piece, &unused, err);
    }
    safetensors_close(&f);
    return rc;
}

int llama_init(struct model *model, uint32_t seed, struct error *err)
{
    struct llama *m = llama_of(model);
    void *piece = malloc((size_t)PIECE * sizeof(double));
    if (piece == NULL)
        return error_set(err, ERR_NOMEM, "model: initial values");
    int rc = load_weights(m, piece, err);
    if (rc < 0)
        (void)error_wrap(err, "train.checkpointer.checkpoint_dir");
    else if (!m->shape.is_full && m->conf.adapter == NULL)
        rc = draw(m, seed, piece, err);
    else if (!m->shape.is_full && load_adapter(m, piece, err) < 0)
        rc = error_wrap(err, "train.checkpointer.adapter_checkpoint");
    free(piece);
    return rc;
}
