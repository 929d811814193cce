/* llama_config.c - see llama_config.h. Defaults of keys that are absent are
 * those of transformers. A key that would change the network in
 * a way that it does not have here is refused, whatever its value means to
 * other programs; keys that say nothing about the network are ignored. */
#include "worker/llm/config/llama_config.h"

#include <string.h>

#include "jobs/base/buf.h"
#include "worker/llm/config/config_value.h"
#include "worker/llm/config/llama_rope.h"

/* All heads' columns are at most as many as hidden_size may be: so sums of a
 * layer's columns are an int32_t, those of all values an int64_t. */
enum { CONFIG_MAX_BYTES = 1 << 20, COLUMNS_MOST = 1 << 20 };

/* ---- what is refused ----------------------------------------------------- */

/* An architecture by its name, or in files without one by their model_type. */
static int read_arch(const json_t *o, struct llama_config *c, struct error *err)
{
    const json_t *list = config_value(o, "architectures");
    const char *first = json_string_value(json_array_get(list, 0));
    const char *type = json_string_value(config_value(o, "model_type"));
    if (list == NULL && type != NULL)
        return llama_arch_find(NULL, type, &c->arch)
                   ? 0
                   : error_set(err, ERR_INVAL,
                               "model_type %.60s: this version trains %s", type,
                               llama_arch_list().text);
    if (first == NULL)
        return error_set(err, ERR_INVAL,
                         "architectures must be a list with a name: this "
                         "version trains %s",
                         llama_arch_list().text);
    if (json_array_size(list) != 1 || !llama_arch_find(first, NULL, &c->arch))
        return error_set(err, ERR_INVAL, "%.60s: this version trains %s",
                         json_array_size(list) == 1 ? first
                                                    : "several architectures",
                         llama_arch_list().text);
    return 0;
}

static int read_biases(const json_t *o, struct llama_config *c,
                       struct error *err)
{
    const struct llama_arch *arch = llama_arch(c->arch);
    static const struct {
        const char *key;
        uint32_t products;
    } keys[] = {
        {"attention_bias", 1u << PRODUCT_QKV | 1u << PRODUCT_O},
        {"mlp_bias", 1u << PRODUCT_GATE_UP | 1u << PRODUCT_DOWN},
    };
    c->biases = arch->biases;
    c->head_norms = arch->head_norms;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        bool on = false;
        if ((arch->bias_keys & keys[i].products) &&
            config_bool(o, keys[i].key, false, &on, err) < 0)
            return -1;
        if (on)
            c->biases |= keys[i].products;
    }
    return 0;
}

/* The layers that have a window: those whose type says so, or, without types,
 * all from `whole` on. */
static int read_windowed(const json_t *o, int32_t whole, struct llama_config *c,
                         struct error *err)
{
    const json_t *types = config_value(o, "layer_types");
    if (types != NULL && json_array_size(types) != (size_t)c->layers)
        return error_set(err, ERR_INVAL,
                         "layer_types must be a list of num_hidden_layers %d "
                         "words",
                         c->layers);
    for (int32_t l = 0; l < c->layers; l++) {
        const json_t *v = json_array_get(types, (size_t)l);
        const char *word = json_string_value(v);
        const bool is_full =
            word != NULL && strcmp(word, "full_attention") == 0;
        if (types != NULL && !is_full &&
            (word == NULL || strcmp(word, "sliding_attention") != 0))
            return error_set(err, ERR_INVAL,
                             "layer_types: layer %d must be full_attention or "
                             "sliding_attention, not %s",
                             l, config_show(v).text);
        if (types != NULL ? !is_full : l >= whole)
            c->windowed[l / 64] |= UINT64_C(1) << (l % 64);
    }
    return 0;
}

static int read_window(const json_t *o, struct llama_config *c,
                       struct error *err)
{
    const struct llama_arch *arch = llama_arch(c->arch);
    const json_t *v = json_object_get(o, "sliding_window");
    int32_t window = 0, whole = 0;
    bool is_used = arch->window != WINDOW_NEVER;
    if (arch->window == WINDOW_IF_USED &&
        (config_bool(o, "use_sliding_window", false, &is_used, err) < 0 ||
         config_int(o, "max_window_layers", 0, INT32_MAX, 28, &whole, err) < 0))
        return -1;
    if (!is_used || json_is_null(v))
        return 0;
    if (config_int(o, "sliding_window", 1, INT32_MAX, arch->windowed, &window,
                   err) < 0)
        return -1;
    if (arch->window == WINDOW_ALWAYS)
        memset(c->windowed, 0xff, sizeof(c->windowed));
    else if (read_windowed(o, whole, c, err) < 0)
        return -1;
    for (int32_t l = 0; l < c->layers && c->window == 0; l++)
        c->window = c->windowed[l / 64] >> (l % 64) & 1 ? window : 0;
    return 0;
}

static int check_parts(const json_t *o, struct error *err)
{
    const json_t *act = config_value(o, "hidden_act");
    const char *word = json_string_value(act);
    double part = 1;
    if (act != NULL && (word == NULL || strcmp(word, "silu") != 0))
        return error_set(err, ERR_INVAL, "hidden_act must be \"silu\", not %s",
                         config_show(act).text);
    if (config_value(o, "quantization_config") != NULL)
        return error_set(err, ERR_INVAL,
                         "quantization_config: the weights are quantized; this "
                         "version reads models in float, such as the one that "
                         "they were made from");
    if (config_real(o, "partial_rotary_factor", 0, 1, 1, &part, err) < 0)
        return -1;
    if (part != 1)
        return error_set(err, ERR_INVAL,
                         "partial_rotary_factor must be 1, not %g", part);
    return 0;
}

/* ---- sizes and ids ------------------------------------------------------- */

static int read_sizes(const json_t *o, struct llama_config *c,
                      struct error *err)
{
    const struct llama_arch *arch = llama_arch(c->arch);
    const json_t *kv = json_object_get(o, "num_key_value_heads");
    if (config_int(o, "hidden_size", 1, COLUMNS_MOST, -1, &c->hidden, err) <
            0 ||
        config_int(o, "intermediate_size", 1, 1 << 24, -1, &c->ffn, err) < 0 ||
        config_int(o, "num_hidden_layers", 1, LLAMA_LAYERS_MOST, -1, &c->layers,
                   err) < 0 ||
        config_int(o, "vocab_size", 1, 1 << 24, -1, &c->vocab, err) < 0 ||
        config_int(o, "num_attention_heads", 1, 65536, -1, &c->heads, err) <
            0 ||
        config_int(o, "num_key_value_heads", 1, 65536,
                   kv == NULL && arch->kv_heads > 0 ? arch->kv_heads : c->heads,
                   &c->kv_heads, err) < 0 ||
        config_int(o, "head_dim", 1, 65536, arch->head_dim, &c->head_dim, err) <
            0 ||
        config_int(o, "max_position_embeddings", 1, INT32_MAX, arch->positions,
                   &c->max_positions, err) < 0 ||
        config_real(o, "rms_norm_eps", 1e-30, 1, 1e-6, &c->norm_eps, err) < 0)
        return -1;
    if (c->heads % c->kv_heads != 0)
        return error_set(err, ERR_INVAL,
                         "num_attention_heads %d must be a multiple of "
                         "num_key_value_heads %d",
                         c->heads, c->kv_heads);
    if (c->head_dim == 0 && c->hidden % c->heads != 0)
        return error_set(err, ERR_INVAL,
                         "hidden_size %d must be a multiple of "
                         "num_attention_heads %d, or head_dim be given",
                         c->hidden, c->heads);
    if (c->head_dim == 0)
        c->head_dim = c->hidden / c->heads;
    if (c->head_dim % 2 != 0)
        return error_set(err, ERR_INVAL,
                         "head_dim must be even, not %d: pairs are rotated",
                         c->head_dim);
    if ((int64_t)c->heads * c->head_dim > COLUMNS_MOST)
        return error_set(err, ERR_INVAL,
                         "num_attention_heads %d times head_dim %d must be at "
                         "most %d",
                         c->heads, c->head_dim, COLUMNS_MOST);
    return 0;
}

/* A number, or the first of a list; -1: there is none. */
static int read_id(const json_t *o, const char *key, int32_t vocab,
                   int32_t *ret, struct error *err)
{
    const json_t *v = config_value(o, key);
    if (json_is_array(v))
        v = json_array_get(v, 0);
    if (v == NULL) {
        *ret = -1;
        return 0;
    }
    json_int_t i = json_is_integer(v) ? json_integer_value(v) : -1;
    if (i < 0 || i >= vocab)
        return error_set(err, ERR_INVAL,
                         "%s must be an id from 0 to %d, or a list of them, "
                         "not %s",
                         key, vocab - 1, config_show(v).text);
    *ret = (int32_t)i;
    return 0;
}

static int read_config(const json_t *o, struct llama_config *c,
                       struct error *err)
{
    if (!json_is_object(o))
        return error_set(err, ERR_INVAL, "not an object");
    if (read_arch(o, c, err) < 0 || check_parts(o, err) < 0 ||
        read_sizes(o, c, err) < 0 || read_biases(o, c, err) < 0 ||
        read_window(o, c, err) < 0 || llama_rope_read(o, c, err) < 0 ||
        config_bool(o, "tie_word_embeddings", false, &c->tied, err) < 0 ||
        read_id(o, "bos_token_id", c->vocab, &c->bos_id, err) < 0)
        return -1;
    return read_id(o, "eos_token_id", c->vocab, &c->eos_id, err);
}

int llama_config_parse(const char *text, size_t len, struct llama_config *ret,
                       struct error *err)
{
    struct llama_config c = {.hidden = 0};
    json_error_t why;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (o == NULL)
        return error_set(err, ERR_INVAL, "config.json: line %d: %.100s",
                         why.line, why.text);
    int rc = read_config(o, &c, err);
    json_decref(o);
    if (rc < 0)
        return error_wrap(err, "config.json");
    *ret = c;
    return 0;
}

int llama_config_read(const char *dir, struct llama_config *ret,
                      struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/config.json", dir);
    rc = rc < 0 ? rc
                : buf_read_file(&text, buf_str(&path), CONFIG_MAX_BYTES, err);
    if (rc == 0 && llama_config_parse(buf_str(&text), text.len, ret, err) < 0)
        rc = error_wrap(err, "%s", dir);
    buf_clear(&path);
    buf_clear(&text);
    return rc;
}
