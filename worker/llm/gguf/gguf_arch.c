/* gguf_arch.c - see gguf_arch.h. */
#include "worker/llm/gguf/gguf_arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/llm/config/config_value.h"

static const struct gguf_arch archs[LLAMA_ARCHS] = {
    [ARCH_LLAMA] = {"llama", true, true},
    [ARCH_QWEN2] = {"qwen2", false, false},
    [ARCH_QWEN3] = {"qwen3", false, false},
    [ARCH_MISTRAL] = {"llama", true, true},
};

/* ---- what is refused ----------------------------------------------------- */

/* The object of the rotation; NULL: there is none. */
static const json_t *rope_of(const json_t *config)
{
    const json_t *all = config_value(config, "rope_parameters");
    return all != NULL ? all : config_value(config, "rope_scaling");
}

/* llama.cpp scales queries and keys by 0.1 ln(factor) + 1: it has a key for
 * another factor, but computes this one in its place. */
static int check_yarn(const struct llama_config *c, const json_t *rope,
                      struct error *err)
{
    const double usual =
        c->scaling.factor > 1 ? 0.1 * log(c->scaling.factor) + 1 : 1;
    if (!c->scaling.truncates)
        return error_set(err, ERR_INVAL,
                         "truncate: false of yarn has no key in GGUF");
    if (fabs(c->scaling.attention - usual) <= 1e-6 * usual)
        return 0;
    if (config_value(rope, "attention_factor") != NULL)
        return error_set(err, ERR_INVAL,
                         "attention_factor %g of yarn: readers of GGUF compute "
                         "with 0.1 ln(factor) + 1 = %.7g, whatever the key "
                         "rope.scaling.yarn_attn_factor says",
                         c->scaling.attention, usual);
    return error_set(err, ERR_INVAL,
                     "mscale of yarn has no key in GGUF for this "
                     "architecture");
}

int gguf_arch_find(const struct llama_config *c, const json_t *config,
                   struct gguf_arch *ret, struct error *err)
{
    const struct llama_arch *arch = llama_arch(c->arch);
    const struct gguf_arch *a = &archs[c->arch];
    if (a->name == NULL)
        return error_set(err, ERR_INVAL,
                         "a %s is not exported, only Llama, Qwen2, Qwen3 and "
                         "Mistral are",
                         arch->word);
    if (c->arch == ARCH_QWEN3 && c->biases != 0)
        return error_set(err, ERR_INVAL,
                         "attention_bias: llama.cpp has no Qwen3 with biases");
    if (!a->is_llama && c->scaling.type == ROPE_LLAMA3)
        return error_set(err, ERR_INVAL,
                         "rope_type \"llama3\": llama.cpp has it for Llama, "
                         "not for a %s",
                         arch->word);
    if (c->scaling.type == ROPE_YARN && check_yarn(c, rope_of(config), err) < 0)
        return -1;
    *ret = *a;
    return 0;
}

/* ---- keys ---------------------------------------------------------------- */

enum { KEY_CAP = 80 };

static const char *key_of(const struct gguf_arch *a, const char *name,
                          char ret[KEY_CAP])
{
    (void)snprintf(ret, KEY_CAP, "%s.%s", a->name, name);
    return ret;
}

static int put_count(const struct gguf_arch *a, const char *name, int32_t v,
                     struct gguf_meta *m, struct error *err)
{
    char key[KEY_CAP];
    return gguf_meta_u32(m, key_of(a, name, key), (uint32_t)v, err);
}

static int put_real(const struct gguf_arch *a, const char *name, double v,
                    struct gguf_meta *m, struct error *err)
{
    char key[KEY_CAP];
    return gguf_meta_real(m, key_of(a, name, key), v, err);
}

static int put_sizes(const struct gguf_arch *a, const struct llama_config *c,
                     const json_t *config, struct gguf_meta *m,
                     struct error *err)
{
    int32_t positions; /* c has more with yarn */
    if (config_int(config, "max_position_embeddings", 1, INT32_MAX,
                   c->max_positions, &positions, err) < 0)
        return -1;
    const struct {
        const char *name;
        int32_t value;
        bool is_llama;
    } counts[] = {
        {"block_count", c->layers, false},
        {"context_length", positions, false},
        {"embedding_length", c->hidden, false},
        {"feed_forward_length", c->ffn, false},
        {"attention.head_count", c->heads, false},
        {"attention.head_count_kv", c->kv_heads, false},
        {"attention.key_length", c->head_dim, false},
        {"attention.value_length", c->head_dim, false},
        {"vocab_size", c->vocab, true},
        {"rope.dimension_count", c->head_dim, true},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if ((!counts[i].is_llama || a->is_llama) &&
            put_count(a, counts[i].name, counts[i].value, m, err) < 0)
            return -1;
    return put_real(a, "attention.layer_norm_rms_epsilon", c->norm_eps, m, err);
}

/* A number that config.json gives, as it is read there: a beta of 0 is the
 * usual one. One that is absent has no key. */
static int put_given(const struct gguf_arch *a, const json_t *rope,
                     const char *from, double v, const char *name,
                     struct gguf_meta *m, struct error *err)
{
    return config_value(rope, from) == NULL ? 0 : put_real(a, name, v, m, err);
}

/* Dynamic scaling is plain within the positions of the model, and llama3's is a
 * tensor. */
static int put_rotation(const struct gguf_arch *a, const struct llama_config *c,
                        const json_t *config, struct gguf_meta *m,
                        struct error *err)
{
    const struct llama_scaling *s = &c->scaling;
    const json_t *rope = rope_of(config);
    const char *word = s->type == ROPE_YARN ? "yarn" : "linear";
    char key[KEY_CAP];
    if (put_real(a, "rope.freq_base", c->rope_theta, m, err) < 0)
        return -1;
    if (s->type != ROPE_LINEAR && s->type != ROPE_YARN)
        return 0;
    if (gguf_meta_text(m, key_of(a, "rope.scaling.type", key), word,
                       strlen(word), err) < 0 ||
        put_real(a, "rope.scaling.factor", s->factor, m, err) < 0)
        return -1;
    if (s->type == ROPE_LINEAR)
        return 0;
    if (put_count(a, "rope.scaling.original_context_length",
                  s->original_max_positions, m, err) < 0 ||
        put_given(a, rope, "attention_factor", s->attention,
                  "rope.scaling.yarn_attn_factor", m, err) < 0 ||
        put_given(a, rope, "beta_fast", s->beta_fast,
                  "rope.scaling.yarn_beta_fast", m, err) < 0)
        return -1;
    return put_given(a, rope, "beta_slow", s->beta_slow,
                     "rope.scaling.yarn_beta_slow", m, err);
}

/* The window, and, where only some layers have it, which do. */
static int put_window(const struct gguf_arch *a, const struct llama_config *c,
                      struct gguf_meta *m, struct error *err)
{
    char key[KEY_CAP];
    int32_t with = 0;
    if (c->window == 0)
        return 0;
    for (int32_t l = 0; l < c->layers; l++)
        with += llama_config_window(c, l) > 0;
    if (put_count(a, "attention.sliding_window", c->window, m, err) < 0)
        return -1;
    if (with == c->layers)
        return 0;
    if (gguf_meta_list(m, key_of(a, "attention.sliding_window_pattern", key),
                       GGUF_BOOL, (uint64_t)c->layers, err) < 0)
        return -1;
    for (int32_t l = 0; l < c->layers; l++) {
        const char has = llama_config_window(c, l) > 0 ? 1 : 0;
        if (buf_add(&m->bytes, &has, 1, err) < 0)
            return -1;
    }
    return 0;
}

int gguf_arch_encode(const struct gguf_arch *a, const struct llama_config *c,
                     const json_t *config, struct gguf_meta *m,
                     struct error *err)
{
    if (put_sizes(a, c, config, m, err) < 0 ||
        put_rotation(a, c, config, m, err) < 0)
        return -1;
    return put_window(a, c, m, err);
}
