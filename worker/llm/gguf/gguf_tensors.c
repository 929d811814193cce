/* gguf_tensors.c - see gguf_tensors.h. */
#include "worker/llm/gguf/gguf_tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/llm/config/llama_rope.h"
#include "worker/llm/gguf/gguf_meta.h"

/* Values that are converted at once, where a row has not more. */
enum { BLOCK = 1 << 16 };

static const char *const names[LLAMA_INNERS] = {
    [INNER_NORM1] = "attn_norm.weight",
    [INNER_Q] = "attn_q.weight",
    [INNER_K] = "attn_k.weight",
    [INNER_V] = "attn_v.weight",
    [INNER_Q_BIAS] = "attn_q.bias",
    [INNER_K_BIAS] = "attn_k.bias",
    [INNER_V_BIAS] = "attn_v.bias",
    [INNER_Q_NORM] = "attn_q_norm.weight",
    [INNER_K_NORM] = "attn_k_norm.weight",
    [INNER_O] = "attn_output.weight",
    [INNER_O_BIAS] = "attn_output.bias",
    [INNER_NORM2] = "ffn_norm.weight",
    [INNER_GATE] = "ffn_gate.weight",
    [INNER_UP] = "ffn_up.weight",
    [INNER_GATE_BIAS] = "ffn_gate.bias",
    [INNER_UP_BIAS] = "ffn_up.bias",
    [INNER_DOWN] = "ffn_down.weight",
    [INNER_DOWN_BIAS] = "ffn_down.bias",
};

/* ---- the list ------------------------------------------------------------ */

void gguf_tensors_clear(struct gguf_tensors *t)
{
    free(t->list);
    free(t->factors);
    *t = (struct gguf_tensors){.n = 0};
}

/* Appends a tensor: a matrix, or with cols 0 a vector. */
static struct gguf_tensor *add(struct gguf_tensors *t, enum gguf_type type,
                               int64_t rows, int64_t cols)
{
    struct gguf_tensor *g = &t->list[t->n++];
    *g = (struct gguf_tensor){.rows = rows,
                              .cols = cols > 0 ? cols : 1,
                              .is_vector = cols == 0,
                              .type = cols == 0 ? GGUF_F32 : type};
    if (g->type == GGUF_Q8_0 && cols % GGUF_Q8_BLOCK != 0)
        g->type = GGUF_F16;
    g->bytes = gguf_values_bytes(g->type, g->rows * g->cols);
    t->values += g->rows * g->cols;
    return g;
}

static void add_end(struct gguf_tensors *t, enum gguf_type type,
                    const struct hf_dir *h, const char *from, const char *name,
                    int64_t rows, int64_t cols)
{
    struct gguf_tensor *g = add(t, type, rows, cols);
    g->from = hf_find(h, from);
    (void)snprintf(g->name, sizeof(g->name), "%s", name);
}

static int32_t heads_of(const struct llama_config *c, enum llama_inner which)
{
    switch (which) {
    case INNER_Q:
    case INNER_Q_BIAS:
        return c->heads;
    case INNER_K:
    case INNER_K_BIAS:
        return c->kv_heads;
    default:
        return 0;
    }
}

static void add_layer(struct gguf_tensors *t, const struct llama_shape *s,
                      int32_t layer, const struct hf_dir *h,
                      enum gguf_type type, bool pairs)
{
    const struct llama_arch *arch = llama_arch(s->c.arch);
    char from[LLAMA_NAME_CAP];
    for (int32_t i = 0; i < s->inners; i++) {
        const struct llama_layer_tensor *in = &s->inner[i];
        struct gguf_tensor *g = add(t, type, in->rows, in->cols);
        (void)snprintf(from, sizeof(from), "model.layers.%d.%s", layer,
                       arch->inner[in->which]);
        (void)snprintf(g->name, sizeof(g->name), "blk.%d.%s", layer,
                       names[in->which]);
        g->from = hf_find(h, from);
        g->heads = pairs ? heads_of(&s->c, in->which) : 0;
    }
}

/* By how much llama3's scaling slows each pair. */
static int add_factors(struct gguf_tensors *t, const struct llama_config *c,
                       struct error *err)
{
    const int32_t n = c->head_dim / 2;
    struct llama_config plain = *c;
    double *freq = calloc(2 * (size_t)n + 1, sizeof(*freq));
    t->factors = calloc((size_t)n + 1, sizeof(*t->factors));
    if (freq == NULL || t->factors == NULL) {
        free(freq);
        return error_set(err, ERR_NOMEM, "frequencies");
    }
    plain.scaling.type = ROPE_PLAIN;
    llama_frequencies(&plain, freq);
    llama_frequencies(c, freq + n);
    for (int32_t i = 0; i < n; i++)
        t->factors[i] = (float)(freq[i] / freq[n + i]);
    free(freq);
    struct gguf_tensor *g = add(t, GGUF_F32, n, 0);
    (void)snprintf(g->name, sizeof(g->name), "rope_freqs.weight");
    return 0;
}

int gguf_tensors_list(const struct llama_shape *s, const struct hf_dir *h,
                      enum gguf_type type, bool pairs, struct gguf_tensors *ret,
                      struct error *err)
{
    const struct llama_config *c = &s->c;
    struct gguf_tensors t = {.n = 0};
    int64_t at = 0;
    t.list = calloc((size_t)s->inners * (size_t)c->layers + 4, sizeof(*t.list));
    if (t.list == NULL)
        return error_set(err, ERR_NOMEM, "tensors");
    if (c->scaling.type == ROPE_LLAMA3 && add_factors(&t, c, err) < 0) {
        gguf_tensors_clear(&t);
        return -1;
    }
    add_end(&t, type, h, "model.embed_tokens.weight", "token_embd.weight",
            c->vocab, c->hidden);
    for (int32_t l = 0; l < c->layers; l++)
        add_layer(&t, s, l, h, type, pairs);
    add_end(&t, type, h, "model.norm.weight", "output_norm.weight", c->hidden,
            0);
    if (!c->tied)
        add_end(&t, type, h, "lm_head.weight", "output.weight", c->vocab,
                c->hidden);
    for (int32_t i = 0; i < t.n; i++) {
        t.list[i].at = at;
        at += (t.list[i].bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT *
              GGUF_ALIGNMENT;
    }
    *ret = t;
    return 0;
}

/* The shape begins with the dimension whose values are neighbours. */
int gguf_tensors_encode(const struct gguf_tensors *t, struct buf *to,
                        struct error *err)
{
    for (int32_t i = 0; i < t->n; i++) {
        const struct gguf_tensor *g = &t->list[i];
        if (gguf_put_text(to, g->name, strlen(g->name), err) < 0 ||
            gguf_put_u32(to, g->is_vector ? 1 : 2, err) < 0 ||
            (!g->is_vector && gguf_put_u64(to, (uint64_t)g->cols, err) < 0) ||
            gguf_put_u64(to, (uint64_t)g->rows, err) < 0 ||
            gguf_put_u32(to, (uint32_t)g->type, err) < 0 ||
            gguf_put_u64(to, (uint64_t)g->at, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- values -------------------------------------------------------------- */

struct blocks {
    float *in; /* of some rows */
    char *out; /* the same, converted */
};

/* The row that stands at row r of a file. Hugging Face rotates value i of a
 * head with value i + head_dim / 2, the architecture llama with its neighbour.
 */
static int64_t row_from(const struct gguf_tensor *g, int64_t r)
{
    if (g->heads == 0)
        return r;
    const int64_t head = g->rows / g->heads, in = r % head;
    return r - in + in / 2 + in % 2 * (head / 2);
}

static void read_rows(const struct gguf_tensors *t, const struct gguf_tensor *g,
                      int64_t first, int64_t n, float *to)
{
    if (g->from == NULL) {
        memcpy(to, t->factors + first, (size_t)n * sizeof(*to));
        return;
    }
    if (g->heads == 0) {
        hf_copy(g->from, first * g->cols, n * g->cols, DT_F32, to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        hf_copy(g->from, row_from(g, first + i) * g->cols, g->cols, DT_F32,
                to + i * g->cols);
}

/* Rows [first, first + n) were used, and none of them is used again. */
static void forget_rows(const struct gguf_tensor *g, int64_t first, int64_t n)
{
    if (g->from == NULL)
        return;
    const size_t row = (size_t)g->cols * (size_t)st_types[g->from->type].bytes;
    safetensors_forget(g->from, (size_t)first * row, (size_t)n * row);
}

static int encode_rows(const struct gguf_tensor *g, const float *in, int64_t n,
                       char *out, struct error *err)
{
    static const char *const words[] = {[GGUF_F32] = "f32",
                                        [GGUF_F16] = "f16",
                                        [GGUF_Q8_0] = "q8_0",
                                        [GGUF_BF16] = "bf16"};
    const int64_t bad = hf_not_finite(DT_F32, in, n);
    if (bad >= 0)
        return error_set(err, ERR_INVAL, "a value of '%s' is %s in float",
                         g->name, isnan(in[bad]) ? "NaN" : "infinite");
    if (!gguf_values_encode(g->type, in, n, out))
        return error_set(
            err, ERR_INVAL, "a value of '%s' is too large for %s%s", g->name,
            words[g->type], g->type == GGUF_BF16 ? "" : ": export it as bf16");
    return 0;
}

static int write_tensor(const struct gguf_tensors *t,
                        const struct gguf_tensor *g, struct blocks *b,
                        struct file_atomic *to, struct error *err)
{
    static const char zeros[GGUF_ALIGNMENT];
    const int64_t group = g->heads > 0 ? g->rows / g->heads : g->rows;
    const int64_t most = BLOCK / g->cols > 0 ? BLOCK / g->cols : 1;
    int64_t n;
    for (int64_t r = 0; r < g->rows; r += n) {
        const int64_t left = group - r % group;
        n = left < most ? left : most;
        read_rows(t, g, r, n, b->in);
        if (encode_rows(g, b->in, n * g->cols, b->out, err) < 0 ||
            file_atomic_write(to, b->out,
                              (size_t)gguf_values_bytes(g->type, n * g->cols),
                              err) < 0)
            return -1;
        if (g->heads == 0)
            forget_rows(g, r, n);
        else if (n == left)
            forget_rows(g, r + n - group, group);
    }
    const int64_t over = g->bytes % GGUF_ALIGNMENT;
    return over == 0 ? 0
                     : file_atomic_write(to, zeros,
                                         (size_t)(GGUF_ALIGNMENT - over), err);
}

int gguf_tensors_write(const struct gguf_tensors *t, struct file_atomic *to,
                       struct error *err)
{
    struct blocks b = {.in = NULL};
    int64_t most = BLOCK;
    int rc = 0;
    for (int32_t i = 0; i < t->n; i++)
        most = t->list[i].cols > most ? t->list[i].cols : most;
    b.in = calloc((size_t)most, sizeof(*b.in));
    b.out = malloc((size_t)gguf_values_bytes(GGUF_F32, most));
    if (b.in == NULL || b.out == NULL)
        rc = error_set(err, ERR_NOMEM, "rows of a tensor");
    for (int32_t i = 0; i < t->n && rc == 0; i++)
        rc = write_tensor(t, &t->list[i], &b, to, err);
    free(b.in);
    free(b.out);
    return rc;
}
