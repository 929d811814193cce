/* adapter_file.c - see adapter_file.h. The fields of adapter_config.json are
 * those of peft.LoraConfig, with the values that PEFT itself writes. */
#include "worker/llm/files/adapter_file.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/file_atomic.h"

const char adapter_config_name[] = "adapter_config.json";
static const char tensors_name[] = "adapter_model.safetensors";
static const char quantizer_key[] = "mgpu_base_quantizer";
enum { RANK_MAX = 65536 };
static const size_t max_bytes = (size_t)1 << 46;

static const char *const words[LORA_TARGETS] = {
    "q_proj",    "k_proj",  "v_proj",    "o_proj",
    "gate_proj", "up_proj", "down_proj", "lm_head",
};

int adapter_target_index(enum lora_target t)
{
    int i = 0;
    while (t != (enum lora_target)(1 << i)) {
        i++;
        assert(i < LORA_TARGETS);
    }
    return i;
}

const char *adapter_target_word(enum lora_target t)
{
    return words[adapter_target_index(t)];
}

/* ---- the configuration: reading ------------------------------------------ */

/* NULL: absent, or null. */
static const json_t *value_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_null(v) ? NULL : v;
}

static bool is_word(const json_t *v, const char *word)
{
    return json_is_string(v) && strcmp(json_string_value(v), word) == 0;
}

static bool is_off(const json_t *v)
{
    return v == NULL || json_is_false(v) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

/* Refuses keys that give the same tensors another result, or use other
 * tensors. */
static int check_off(const json_t *o, struct error *err)
{
    static const char *const keys[] = {"use_dora",
                                       "use_qalora",
                                       "use_bdlora",
                                       "lora_bias",
                                       "fan_in_fan_out",
                                       "modules_to_save",
                                       "exclude_modules",
                                       "layer_replication",
                                       "target_parameters",
                                       "trainable_token_indices",
                                       "alora_invocation_tokens",
                                       "arrow_config",
                                       "megatron_config"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!is_off(value_of(o, keys[i])))
            return error_set(err, ERR_INVAL,
                             "%s is set: this version has adapters without it",
                             keys[i]);
    return 0;
}

/* PiSSA, OLoRA and others change the base model, too. */
static int check_init(const json_t *o, struct error *err)
{
    const json_t *v = value_of(o, "init_lora_weights");
    if (v == NULL || json_is_boolean(v) || is_word(v, "gaussian"))
        return 0;
    return error_set(err, ERR_INVAL,
                     "init_lora_weights must be true, false or \"gaussian\", "
                     "not '%.40s': the adapter may be of a base that it "
                     "changed",
                     json_is_string(v) ? json_string_value(v) : "a value");
}

static int check_kind(const json_t *o, struct error *err)
{
    const json_t *type = value_of(o, "peft_type"), *bias = value_of(o, "bias");
    const json_t *task = value_of(o, "task_type");
    if (!is_word(type, "LORA"))
        return error_set(err, ERR_INVAL, "peft_type must be LORA, not '%.40s'",
                         json_is_string(type) ? json_string_value(type) : "");
    if (task != NULL && !is_word(task, "CAUSAL_LM"))
        return error_set(err, ERR_INVAL,
                         "task_type must be CAUSAL_LM, not '%.40s'",
                         json_is_string(task) ? json_string_value(task) : "");
    if (bias != NULL && !is_word(bias, "none"))
        return error_set(err, ERR_INVAL, "bias must be none, not '%.40s'",
                         json_is_string(bias) ? json_string_value(bias) : "");
    return check_off(o, err) < 0 ? -1 : check_init(o, err);
}

static int read_quantizer(const json_t *o, char ret[ADAPTER_QUANTIZER_CAP],
                          struct error *err)
{
    const json_t *v = value_of(o, quantizer_key);
    const char *word = json_is_string(v) ? json_string_value(v) : "";
    const size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (v != NULL &&
        (len == 0 || word[len] != '\0' || len >= ADAPTER_QUANTIZER_CAP))
        return error_set(err, ERR_INVAL,
                         "%s must be a word of at most %d small letters",
                         quantizer_key, ADAPTER_QUANTIZER_CAP - 1);
    (void)snprintf(ret, ADAPTER_QUANTIZER_CAP, "%s", word);
    return 0;
}

static int read_number(const json_t *o, const char *key, double absent,
                       double *ret, struct error *err)
{
    const json_t *v = value_of(o, key);
    if (v == NULL && !isnan(absent)) {
        *ret = absent;
        return 0;
    }
    if (!json_is_number(v))
        return error_set(err, ERR_INVAL, "%s must be a number", key);
    *ret = json_number_value(v);
    return 0;
}

/* A text is an expression, or all-linear: what it meant is in the other file,
 * and *ret is 0. */
static int read_targets(const json_t *o, uint32_t *ret, struct error *err)
{
    const json_t *list = value_of(o, "target_modules");
    const char *name;
    uint32_t targets = 0;
    *ret = 0;
    if (json_is_string(list) && json_string_length(list) > 0)
        return 0;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return error_set(err, ERR_INVAL,
                         "target_modules must be a list of names, or an "
                         "expression");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        int k = 0;
        name = json_is_string(v) ? json_string_value(v) : "";
        /* A longer name is of some layers: "layers.0.mlp.up_proj". */
        const char *dot = strrchr(name, '.');
        while (k < LORA_TARGETS &&
               strcmp(words[k], dot != NULL ? dot + 1 : name) != 0)
            k++;
        if (k == LORA_TARGETS)
            return error_set(err, ERR_INVAL,
                             "target_modules: '%.60s' is none of q_proj, "
                             "k_proj, v_proj, o_proj, gate_proj, up_proj, "
                             "down_proj and lm_head",
                             name);
        targets |= 1U << k;
    }
    *ret = targets;
    return 0;
}

/* Rank-stabilised LoRA multiplies B A by alpha / sqrt(rank), not by
 * alpha / rank.
 * src  Kalajdzievski 2023, arXiv:2312.03732, section 4 */
static int read_rslora(const json_t *o, int32_t rank, double *io_alpha,
                       struct error *err)
{
    const json_t *v = value_of(o, "use_rslora");
    if (v != NULL && !json_is_boolean(v))
        return error_set(err, ERR_INVAL, "use_rslora must be true or false");
    if (json_is_true(v))
        *io_alpha *= sqrt(rank);
    return isfinite(*io_alpha)
               ? 0
               : error_set(err, ERR_INVAL, "lora_alpha is too large");
}

static int read_config(const json_t *o, struct adapter_config *ret,
                       struct error *err)
{
    const json_t *r = value_of(o, "r");
    if (!json_is_object(o))
        return error_set(err, ERR_INVAL, "not an object");
    if (check_kind(o, err) < 0)
        return -1;
    json_int_t rank = json_is_integer(r) ? json_integer_value(r) : 0;
    if (rank < 1 || rank > RANK_MAX)
        return error_set(err, ERR_INVAL, "r must be an integer from 1 to %d",
                         RANK_MAX);
    ret->rank = (int32_t)rank;
    if (read_number(o, "lora_alpha", NAN, &ret->alpha, err) < 0 ||
        read_rslora(o, ret->rank, &ret->alpha, err) < 0 ||
        read_number(o, "lora_dropout", 0, &ret->dropout, err) < 0)
        return -1;
    if (!(ret->dropout >= 0 && ret->dropout < 1))
        return error_set(err, ERR_INVAL,
                         "lora_dropout must be from 0 to below 1, not %g",
                         ret->dropout);
    if (read_quantizer(o, ret->quantizer, err) < 0)
        return -1;
    return read_targets(o, &ret->targets, err);
}

int adapter_config_parse(const char *text, size_t len,
                         struct adapter_config *ret, struct error *err)
{
    struct adapter_config c = {.rank = 0};
    json_error_t why;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (o == NULL)
        return error_set(err, ERR_INVAL, "line %d: %.100s", why.line, why.text);
    int rc = read_config(o, &c, err);
    json_decref(o);
    if (rc == 0)
        *ret = c;
    return rc;
}

int adapter_open(const char *dir, struct safetensors *ret, struct error *err)
{
    struct buf path = BUF_INIT;
    struct error why = ERROR_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, tensors_name);
    if (rc == 0 && safetensors_open(buf_str(&path), max_bytes, ret, &why) < 0) {
        rc = error_set(err, why.code, "%s", why.msg);
        buf_reset(&path);
        if (why.code == ERR_NOTFOUND &&
            buf_addf(&path, NULL, "%s/adapter_model.bin", dir) == 0 &&
            access(buf_str(&path), F_OK) == 0)
            rc = error_set(err, ERR_NOTFOUND,
                           "'%s' is a pickle: save it as %s with PEFT's "
                           "safe_serialization",
                           buf_str(&path), tensors_name);
    }
    buf_clear(&path);
    return rc;
}

/* The linears that have a tensor in any layer. That all layers have it is
 * checked when the tensors are read. */
static int targets_of_tensors(const char *dir, uint32_t *ret, struct error *err)
{
    struct safetensors s = {.n = 0};
    uint32_t targets = 0;
    if (adapter_open(dir, &s, err) < 0)
        return -1;
    for (size_t i = 0; i < s.n; i++)
        for (int k = 0; k < LORA_TARGETS; k++) {
            char part[40];
            (void)snprintf(part, sizeof(part), ".%s.lora_A.", words[k]);
            if (strstr(s.tensors[i].name, part) != NULL)
                targets |= 1U << k;
        }
    safetensors_close(&s);
    if (targets == 0)
        return error_set(err, ERR_INVAL,
                         "%s/%s: target_modules is an expression, and the file "
                         "has no tensor of q_proj, k_proj, v_proj, o_proj, "
                         "gate_proj, up_proj, down_proj or lm_head",
                         dir, tensors_name);
    *ret = targets;
    return 0;
}

int adapter_config_read(const char *dir, struct adapter_config *ret,
                        struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    struct adapter_config c = {.rank = 0};
    int rc = buf_addf(&path, err, "%s/%s", dir, adapter_config_name);
    rc = rc < 0 ? rc
                : buf_read_file(&text, buf_str(&path), ADAPTER_CONFIG_MAX, err);
    if (rc == 0 && adapter_config_parse(buf_str(&text), text.len, &c, err) < 0)
        rc = error_wrap(err, "%s", buf_str(&path));
    if (rc == 0 && c.targets == 0)
        rc = targets_of_tensors(dir, &c.targets, err);
    if (rc == 0)
        *ret = c;
    buf_clear(&path);
    buf_clear(&text);
    return rc;
}

/* ---- writing --------------------------------------------------------------
 */

static json_t *number(double d)
{
    return d == rint(d) && fabs(d) < 1e15 ? json_integer((json_int_t)d)
                                          : json_real(d);
}

/* How many digits of d are read as d again: 0.05, not 0.050000000000000003. */
static size_t digits_of(double d)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%.15g", d);
    return strtod(text, NULL) == d ? 15 : 17;
}

static json_t *targets_of(uint32_t targets)
{
    json_t *list = json_array();
    for (int i = 0; i < LORA_TARGETS; i++)
        if ((targets >> i & 1) &&
            json_array_append_new(list, json_string(words[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* NULL: no memory. */
static char *config_text(const struct adapter_config *c, const json_t *base)
{
    json_t *targets = targets_of(c->targets);
    json_t *o = json_pack(
        "{s:{},s:n,s:O,s:s,s:b,s:b,s:b,s:n,s:n,s:o,s:o,s:n,s:s,s:i,s:{},s:n,"
        "s:o,s:s,s:b,s:b}",
        "alpha_pattern", "auto_mapping", "base_model_name_or_path", base,
        "bias", "none", "fan_in_fan_out", 0, "inference_mode", 1,
        "init_lora_weights", 1, "layers_pattern", "layers_to_transform",
        "lora_alpha", number(c->alpha), "lora_dropout", number(c->dropout),
        "modules_to_save", "peft_type", "LORA", "r", (int)c->rank,
        "rank_pattern", "revision", "target_modules", targets, "task_type",
        "CAUSAL_LM", "use_dora", 0, "use_rslora", 0);
    size_t alpha = digits_of(c->alpha), dropout = digits_of(c->dropout);
    size_t digits = alpha > dropout ? alpha : dropout;
    char *text = NULL;
    json_t *keys = c->keys != NULL
                       ? json_loads(c->keys, JSON_REJECT_DUPLICATES, NULL)
                       : json_object();
    digits = c->keys != NULL ? 17 : digits;
    if (o != NULL && json_object_update(o, keys) == 0 &&
        (c->quantizer[0] == '\0' ||
         json_object_set_new(o, quantizer_key, json_string(c->quantizer)) == 0))
        text = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
    json_decref(keys);
    json_decref(o);
    return text;
}

static int write_config(struct file_atomic *f, const char *dir,
                        const struct adapter_config *c, const char *base,
                        struct error *err)
{
    json_t *name = json_string(base);
    if (name == NULL)
        return error_set(err, ERR_INVAL,
                         "the path of the base model is not UTF-8");
    char *text = config_text(c, name);
    json_decref(name);
    if (text == NULL)
        return error_set(err, ERR_NOMEM, "%s", adapter_config_name);
    int rc = file_atomic_open(f, dir, adapter_config_name, err);
    rc = rc < 0 ? rc : file_atomic_write(f, text, strlen(text), err);
    rc = rc < 0 ? rc : file_atomic_write(f, "\n", 1, err);
    free(text);
    return rc < 0 ? rc : file_atomic_close(f, err);
}

static int declare_one(void *to, const struct adapter_tensor *t,
                       struct error *err)
{
    return safetensors_declare(to, t->name, t->type, t->shape, 2, err);
}

static int write_one(void *to, const struct adapter_tensor *t,
                     struct error *err)
{
    int64_t bytes = t->shape[0] * t->shape[1] * st_types[t->type].bytes;
    return st_write(to, t->data, (size_t)bytes, err);
}

typedef int take_fn(void *to, const struct adapter_tensor *t,
                    struct error *err);

static int write_tensors(struct file_atomic *f, const char *dir,
                         int (*each)(void *arg, take_fn *take, void *to,
                                     struct error *err),
                         void *arg, struct error *err)
{
    struct st_writer w;
    if (file_atomic_open(f, dir, tensors_name, err) < 0)
        return -1;
    safetensors_writer_init(&w, f->fd);
    int rc = safetensors_declare_format(&w, "pt", err);
    rc = rc < 0 ? rc : each(arg, declare_one, &w, err);
    rc = rc < 0 ? rc : safetensors_begin(&w, err);
    rc = rc < 0 ? rc : each(arg, write_one, &w, err);
    rc = rc < 0 ? rc : safetensors_end(&w, err);
    safetensors_writer_clear(&w);
    return rc < 0 ? error_wrap(err, "%s", buf_str(&f->path))
                  : file_atomic_close(f, err);
}

int adapter_write(const char *dir, const struct adapter_config *c,
                  const char *base,
                  int (*each)(void *arg,
                              int (*take)(void *to,
                                          const struct adapter_tensor *t,
                                          struct error *err),
                              void *to, struct error *err),
                  void *arg, struct error *err)
{
    struct file_atomic config = FILE_ATOMIC_INIT, tensors = FILE_ATOMIC_INIT;
    int rc = write_tensors(&tensors, dir, each, arg, err);
    rc = rc < 0 ? rc : write_config(&config, dir, c, base, err);
    rc = rc < 0 ? rc : file_atomic_rename(&tensors, err);
    rc = rc < 0 ? rc : file_atomic_rename(&config, err);
    file_atomic_clear(&tensors);
    file_atomic_clear(&config);
    return rc < 0 ? rc : file_atomic_sync(dir, err);
}

int adapter_write_config(const char *dir, const struct adapter_config *c,
                         const char *base, struct error *err)
{
    struct file_atomic config = FILE_ATOMIC_INIT;
    int rc = write_config(&config, dir, c, base, err);
    rc = rc < 0 ? rc : file_atomic_rename(&config, err);
    file_atomic_clear(&config);
    return rc < 0 ? rc : file_atomic_sync(dir, err);
}
