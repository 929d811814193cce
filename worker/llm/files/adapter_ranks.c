/* adapter_ranks.c - see adapter_ranks.h.
 *
 * Each linear of the model is looked up by its name, as PEFT does when it
 * makes the adapters: the first key of a pattern that matches counts. */
#include "worker/llm/files/adapter_ranks.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "worker/llm/files/name_pattern.h"

enum { RANK_MAX = 65536, KEYS_MAX = 65536 };

void adapter_module(enum lora_target t, int32_t layer,
                    char ret[ADAPTER_MODULE_CAP])
{
    const char *word = adapter_target_word(t);
    if (t == LORA_OUTPUT)
        (void)snprintf(ret, ADAPTER_MODULE_CAP, "%s", word);
    else
        (void)snprintf(ret, ADAPTER_MODULE_CAP, "model.layers.%d.%s.%s", layer,
                       t < LORA_GATE ? "self_attn" : "mlp", word);
}

/* ---- patterns ------------------------------------------------------------ */

/* rank_pattern or alpha_pattern, in the order of the file. */
struct patterns {
    const char *name;
    size_t n;
    struct name_pattern *key;
    double *value;
};

static void clear_patterns(struct patterns *p)
{
    for (size_t i = 0; i < p->n; i++)
        name_pattern_close(&p->key[i]);
    free(p->key);
    free(p->value);
}

static int read_patterns(const json_t *o, const char *name, bool of_ranks,
                         struct patterns *ret, struct error *err)
{
    json_t *all = json_object_get(o, name), *v;
    const char *key;
    struct patterns p = {.name = name};
    const size_t n = json_object_size(all);
    *ret = p;
    if (all == NULL || json_is_null(all))
        return 0;
    if (!json_is_object(all) || n > KEYS_MAX)
        return error_set(err, ERR_INVAL,
                         "%s must be an object of at most %d keys", name,
                         KEYS_MAX);
    p.key = calloc(n + 1, sizeof(*p.key));
    p.value = calloc(n + 1, sizeof(*p.value));
    int rc = p.key == NULL || p.value == NULL
                 ? error_set(err, ERR_NOMEM, "%s", name)
                 : 0;
    json_object_foreach(all, key, v)
    {
        const double value = json_number_value(v);
        if (rc < 0)
            break;
        if (of_ranks ? !json_is_integer(v) || value < 1 || value > RANK_MAX
                     : !json_is_number(v))
            rc =
                error_set(err, ERR_INVAL, "%s: '%.60s' must be %s", name, key,
                          of_ranks ? "an integer from 1 to 65536" : "a number");
        else if (name_pattern_open(key, &p.key[p.n], err) < 0)
            rc = error_wrap(err, "%s", name);
        else
            p.value[p.n++] = value;
    }
    if (rc < 0)
        clear_patterns(&p);
    else
        *ret = p;
    return rc;
}

static double value_of(const struct patterns *p, const char *name, double other)
{
    for (size_t i = 0; i < p->n; i++)
        if (name_pattern_matches(&p->key[i], name))
            return p->value[i];
    return other;
}

/* ---- which linears ------------------------------------------------------- */

/* What an adapter_config.json says of a linear. */
struct rules {
    const struct adapter_config *c;
    const struct safetensors *tensors;
    const json_t *targets;   /* target_modules */
    json_t *layers, *within; /* layers_to_transform, layers_pattern */
    bool is_rs;              /* use_rslora */
    struct patterns ranks, alphas;
};

static bool is_empty(const json_t *v)
{
    return v == NULL || json_is_null(v) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

static int check_layers(const struct rules *r, struct error *err)
{
    const bool is_list = json_is_array(r->layers);
    const size_t n = is_list ? json_array_size(r->layers) : 1;
    for (size_t i = 0; i < n && !is_empty(r->layers); i++) {
        const json_t *v = is_list ? json_array_get(r->layers, i) : r->layers;
        /* One that the model lacks matches no linear, as in PEFT. */
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return error_set(err, ERR_INVAL,
                             "layers_to_transform must be an integer from 0 "
                             "on, or a list of them");
    }
    if (!is_empty(r->within) && (r->layers == NULL || json_is_null(r->layers)))
        return error_set(err, ERR_INVAL,
                         "layers_pattern is set, and layers_to_transform is "
                         "not: PEFT has both or none");
    return 0;
}

/* Whether layers_pattern is for the layers of these models: "layers". */
static int fits_layers(const struct rules *r, bool *ret, struct error *err)
{
    const bool is_list = json_is_array(r->within);
    const size_t n = is_list ? json_array_size(r->within) : 1;
    *ret = is_empty(r->within);
    for (size_t i = 0; i < n && !is_empty(r->within); i++) {
        const json_t *v = is_list ? json_array_get(r->within, i) : r->within;
        struct name_pattern p;
        if (!json_is_string(v) || strchr(json_string_value(v), '|') != NULL)
            return error_set(err, ERR_INVAL,
                             "layers_pattern must be a name, or a list of "
                             "them, without |");
        if (name_pattern_open(json_string_value(v), &p, err) < 0)
            return error_wrap(err, "layers_pattern");
        *ret = *ret || name_pattern_matches(&p, "model.layers");
        name_pattern_close(&p);
    }
    return 0;
}

static bool has_layer(const struct rules *r, int32_t layer, bool fits)
{
    if (is_empty(r->layers))
        return true;
    if (!fits)
        return false;
    if (json_is_integer(r->layers))
        return json_integer_value(r->layers) == layer;
    for (size_t i = 0; i < json_array_size(r->layers); i++)
        if (json_integer_value(json_array_get(r->layers, i)) == layer)
            return true;
    return false;
}

static bool has_tensor(const struct safetensors *s, const char *module)
{
    char name[2 * ADAPTER_MODULE_CAP];
    (void)snprintf(name, sizeof(name), "base_model.model.%s.lora_A.weight",
                   module);
    return safetensors_find(s, name) != NULL;
}

/* A name of target_modules is the module's, or its end behind a dot. Layers
 * are chosen among those alone that are named by their end. */
static bool is_target(const struct rules *r, const char *module, int32_t layer,
                      bool fits, bool is_head)
{
    bool is_found = false;
    const size_t n = strlen(module);
    if (json_is_string(r->targets))
        return has_tensor(r->tensors, module);
    for (size_t i = 0; i < json_array_size(r->targets); i++) {
        const char *word = json_string_value(json_array_get(r->targets, i));
        const size_t k = word != NULL ? strlen(word) : 0;
        if (word != NULL && strcmp(word, module) == 0)
            return true;
        is_found |= k > 0 && k < n && module[n - k - 1] == '.' &&
                    strcmp(module + n - k, word) == 0;
    }
    return is_found && !is_head && has_layer(r, layer, fits);
}

static int fill_linear(const struct rules *r, int32_t layer, int t, bool fits,
                       struct adapter_layer *to, struct error *err)
{
    const enum lora_target target = (enum lora_target)(1 << t);
    char module[ADAPTER_MODULE_CAP];
    adapter_module(target, layer, module);
    if (!is_target(r, module, layer, fits, target == LORA_OUTPUT))
        return 0;
    const double rs = r->is_rs ? sqrt(r->c->rank) : 1;
    const double rank = value_of(&r->ranks, module, r->c->rank);
    double alpha = value_of(&r->alphas, module, NAN);
    /* The file's own is that of struct adapter_config, where no pattern gives
     * another: so equal ones are equal to the last bit. */
    if (!isnan(alpha))
        alpha *= r->is_rs ? sqrt(rank) : 1;
    else
        alpha = rank == r->c->rank
                    ? r->c->alpha
                    : r->c->alpha / rs * (r->is_rs ? sqrt(rank) : 1);
    if (!isfinite(alpha))
        return error_set(err, ERR_INVAL, "alpha_pattern: %s's is too large",
                         module);
    to->rank[t] = (int32_t)rank;
    to->alpha[t] = alpha;
    return 0;
}

/* ---- all of them --------------------------------------------------------- */

/* The output layer's is behind those of the layers. */
static int fill(const struct rules *r, struct adapter_ranks *to,
                struct error *err)
{
    bool fits;
    if (check_layers(r, err) < 0 || fits_layers(r, &fits, err) < 0)
        return -1;
    for (int32_t l = 0; l <= to->layers; l++) {
        struct adapter_layer *at = &to->layer[l];
        for (int t = 0; t < LORA_TARGETS; t++) {
            const bool is_head = 1 << t == LORA_OUTPUT;
            if (is_head == (l == to->layers) &&
                fill_linear(r, l, t, fits, at, err) < 0)
                return -1;
            if (l < to->layers) {
                at[1].before[t] = at->before[t] + at->rank[t];
                at[1].linears += at->rank[t] > 0;
            }
            if (at->rank[t] > 0 && (to->most == 0 || at->rank[t] < to->least))
                to->least = at->rank[t];
            if (at->rank[t] > to->most)
                to->most = at->rank[t];
        }
        if (l < to->layers)
            at[1].linears += at->linears;
    }
    return to->most > 0
               ? 0
               : error_set(err, ERR_INVAL,
                           "target_modules and layers_to_transform name no "
                           "linear of a model of %d layers",
                           to->layers);
}

/* Whether all is as the configuration says without a pattern. */
static bool is_uniform(const struct adapter_ranks *r,
                       const struct adapter_config *c)
{
    for (int32_t l = 0; l <= r->layers; l++)
        for (int t = 0; t < LORA_TARGETS; t++) {
            const struct adapter_layer *at = &r->layer[l];
            const bool is_head = 1 << t == LORA_OUTPUT;
            const bool wants =
                c->targets >> t & 1 && is_head == (l == r->layers);
            if (at->rank[t] != (wants ? c->rank : 0) ||
                (wants && at->alpha[t] != c->alpha))
                return false;
        }
    return true;
}

/* The keys that a copy of the adapter needs, as they are. */
static int keep_keys(const json_t *o, char **ret, struct error *err)
{
    static const char *const names[] = {"r",
                                        "lora_alpha",
                                        "use_rslora",
                                        "target_modules",
                                        "rank_pattern",
                                        "alpha_pattern",
                                        "layers_to_transform",
                                        "layers_pattern"};
    json_t *keys = json_object();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *v = json_object_get(o, names[i]);
        if (v != NULL && json_object_set(keys, names[i], v) < 0) {
            json_decref(keys);
            return error_set(err, ERR_NOMEM, "keys of the adapter");
        }
    }
    *ret = json_dumps(keys, JSON_REAL_PRECISION(17));
    json_decref(keys);
    return *ret != NULL ? 0 : error_set(err, ERR_NOMEM, "keys of the adapter");
}

static int read_ranks(const json_t *o, struct rules *r,
                      struct adapter_ranks *to, struct error *err)
{
    r->targets = json_object_get(o, "target_modules");
    r->layers = json_object_get(o, "layers_to_transform");
    r->within = json_object_get(o, "layers_pattern");
    r->is_rs = json_is_true(json_object_get(o, "use_rslora"));
    if (read_patterns(o, "rank_pattern", true, &r->ranks, err) < 0 ||
        read_patterns(o, "alpha_pattern", false, &r->alphas, err) < 0 ||
        fill(r, to, err) < 0)
        return -1;
    return is_uniform(to, r->c) ? 0 : keep_keys(o, &to->keys, err);
}

/* Each kind of linear that the configuration names has to be one of a layer, or
 * the output layer: those that use the ranks count on it. */
static int check_named(const struct adapter_config *c,
                       const struct adapter_ranks *r, struct error *err)
{
    for (int t = 0; t < LORA_TARGETS; t++) {
        bool has = !(c->targets & 1u << t);
        for (int32_t i = 0; i <= r->layers && !has; i++)
            has = r->layer[i].rank[t] > 0;
        if (!has)
            return error_set(err, ERR_INVAL,
                             "target_modules names no linear of the model that "
                             "ends in '%s'",
                             adapter_target_word((enum lora_target)(1u << t)));
    }
    return 0;
}

int adapter_ranks_parse(const char *text, size_t len,
                        const struct adapter_config *c, int32_t layers,
                        const struct safetensors *tensors,
                        struct adapter_ranks *ret, struct error *err)
{
    struct rules r = {.c = c, .tensors = tensors};
    struct adapter_ranks to = {.layers = layers};
    json_error_t why;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    to.layer = calloc((size_t)layers + 1, sizeof(*to.layer));
    int rc = o == NULL ? error_set(err, ERR_INVAL, "line %d: %.100s", why.line,
                                   why.text)
             : to.layer == NULL
                 ? error_set(err, ERR_NOMEM, "ranks of %d layers", layers)
                 : read_ranks(o, &r, &to, err);
    if (rc == 0 && to.keys != NULL)
        rc = check_named(c, &to, err);
    clear_patterns(&r.ranks);
    clear_patterns(&r.alphas);
    json_decref(o);
    if (rc < 0 || to.keys == NULL)
        adapter_ranks_clear(&to);
    if (rc == 0)
        *ret = to;
    return rc;
}

int adapter_read(const char *dir, int32_t layers, struct adapter_config *ret,
                 struct adapter_ranks *ret_ranks, struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    struct safetensors s = {.n = 0};
    struct adapter_config c;
    struct adapter_ranks ranks = {.layers = 0};
    if (adapter_config_read(dir, &c, err) < 0 || adapter_open(dir, &s, err) < 0)
        return -1;
    int rc = buf_addf(&path, err, "%s/%s", dir, adapter_config_name);
    rc = rc < 0 ? rc
                : buf_read_file(&text, buf_str(&path), ADAPTER_CONFIG_MAX, err);
    if (rc == 0 && adapter_ranks_parse(buf_str(&text), text.len, &c, layers, &s,
                                       &ranks, err) < 0)
        rc = error_wrap(err, "%s", buf_str(&path));
    safetensors_close(&s);
    buf_clear(&path);
    buf_clear(&text);
    if (rc < 0)
        return -1;
    *ret = c;
    *ret_ranks = ranks;
    return 0;
}

int adapter_ranks_copy(const struct adapter_ranks *from,
                       struct adapter_ranks *ret, struct error *err)
{
    struct adapter_ranks r = *from;
    if (from->layer == NULL) {
        *ret = r;
        return 0;
    }
    const size_t n = (size_t)from->layers + 1;
    r.layer = calloc(n, sizeof(*r.layer));
    r.keys = strdup(from->keys);
    if (r.layer == NULL || r.keys == NULL) {
        adapter_ranks_clear(&r);
        return error_set(err, ERR_NOMEM, "ranks of the adapter");
    }
    memcpy(r.layer, from->layer, n * sizeof(*r.layer));
    *ret = r;
    return 0;
}

void adapter_ranks_clear(struct adapter_ranks *r)
{
    free(r->layer);
    free(r->keys);
    *r = (struct adapter_ranks){.layers = 0};
}
