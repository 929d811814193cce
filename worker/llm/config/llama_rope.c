/* llama_rope.c - see llama_rope.h.
 *
 * src  transformers 5.24, modeling_rope_utils.py; Llama 3.1's reference
 *      implementation, apply_scaling(); Peng et al. 2023, arXiv:2309.00071
 *      (yarn)
 */
#include "worker/llm/config/llama_rope.h"

#include <math.h>
#include <string.h>

#include "worker/llm/config/config_value.h"

static const double pi = 3.14159265358979323846;
static const char original_key[] = "original_max_position_embeddings";

/* ---- reading ------------------------------------------------------------- */

static int read_factor(const json_t *o, struct llama_config *c,
                       struct error *err)
{
    return config_real(o, "factor", 1, 1e6, -1, &c->scaling.factor, err);
}

/* in  root    of the file: a value there goes before that of the rotation
 *     absent  as in config_int() */
static int read_original(const json_t *root, const json_t *o, int32_t absent,
                         struct llama_config *c, struct error *err)
{
    const json_t *from = config_value(root, original_key) != NULL ? root : o;
    return config_int(from, original_key, 1, INT32_MAX, absent,
                      &c->scaling.original_max_positions, err);
}

static int read_llama3(const json_t *root, const json_t *o,
                       struct llama_config *c, struct error *err)
{
    if (read_factor(o, c, err) < 0 ||
        config_real(o, "low_freq_factor", 1e-6, 1e6, -1,
                    &c->scaling.low_freq_factor, err) < 0 ||
        config_real(o, "high_freq_factor", 1e-6, 1e6, -1,
                    &c->scaling.high_freq_factor, err) < 0 ||
        read_original(root, o, -1, c, err) < 0)
        return -1;
    if (c->scaling.high_freq_factor <= c->scaling.low_freq_factor)
        return error_set(err, ERR_INVAL,
                         "high_freq_factor %g must be above low_freq_factor %g",
                         c->scaling.high_freq_factor,
                         c->scaling.low_freq_factor);
    return 0;
}

/* For longer rows the scores are sharpened. */
static double sharpened(double factor, double by)
{
    return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

/* Rows may be as long as yarn stretches the first positions to: who adds it to
 * a config.json as Qwen2.5 says leaves max_position_embeddings as it was. */
static void stretch(struct llama_config *c)
{
    const double reach = c->scaling.factor * c->scaling.original_max_positions;
    if (reach >= INT32_MAX)
        c->max_positions = INT32_MAX;
    else if (reach > c->max_positions)
        c->max_positions = (int32_t)reach;
}

static int read_yarn(const json_t *root, const json_t *o,
                     struct llama_config *c, struct error *err)
{
    struct llama_scaling *s = &c->scaling;
    double scale = 0, scale_all = 0;
    if (read_factor(o, c, err) < 0 ||
        read_original(root, o, c->max_positions, c, err) < 0 ||
        config_real(o, "beta_fast", 0, 1e6, 32, &s->beta_fast, err) < 0 ||
        config_real(o, "beta_slow", 0, 1e6, 1, &s->beta_slow, err) < 0 ||
        config_real(o, "mscale", 0, 1e6, 0, &scale, err) < 0 ||
        config_real(o, "mscale_all_dim", 0, 1e6, 0, &scale_all, err) < 0 ||
        config_bool(o, "truncate", true, &s->truncates, err) < 0)
        return -1;
    if (s->beta_fast == 0) /* as transformers reads it */
        s->beta_fast = 32;
    if (s->beta_slow == 0)
        s->beta_slow = 1;
    stretch(c);
    const double by =
        scale > 0 && scale_all > 0
            ? sharpened(s->factor, scale) / sharpened(s->factor, scale_all)
            : sharpened(s->factor, 1);
    return config_real(o, "attention_factor", 1e-6, 1e6, by, &s->attention,
                       err);
}

static int find_type(const json_t *type, enum llama_scaling_type *ret,
                     struct error *err)
{
    static const char *const words[ROPE_TYPES] = {[ROPE_PLAIN] = "default",
                                                  [ROPE_LINEAR] = "linear",
                                                  [ROPE_DYNAMIC] = "dynamic",
                                                  [ROPE_YARN] = "yarn",
                                                  [ROPE_LLAMA3] = "llama3"};
    const char *word = json_string_value(type);
    for (int i = 0; i < ROPE_TYPES && word != NULL; i++)
        if (strcmp(word, words[i]) == 0) {
            *ret = (enum llama_scaling_type)i;
            return 0;
        }
    return error_set(err, ERR_INVAL,
                     "rope_type must be \"default\", \"linear\", \"dynamic\", "
                     "\"yarn\" or \"llama3\", not %s",
                     config_show(type).text);
}

/* o: the value of rope_scaling or rope_parameters. */
static int read_scaling(const json_t *root, const json_t *o,
                        struct llama_config *c, struct error *err)
{
    const json_t *type = config_value(o, "rope_type");
    double part = 1;
    if (!json_is_object(o))
        return error_set(err, ERR_INVAL, "must be an object or null");
    if (type == NULL)
        type = config_value(o, "type"); /* older files */
    if (type == NULL && config_value(o, "factor") != NULL)
        return error_set(err, ERR_INVAL, "rope_type is missing");
    if (config_real(o, "partial_rotary_factor", 0, 1, 1, &part, err) < 0 ||
        (type != NULL && find_type(type, &c->scaling.type, err) < 0))
        return -1;
    if (part != 1)
        return error_set(err, ERR_INVAL,
                         "partial_rotary_factor must be 1, not %g", part);
    switch (c->scaling.type) {
    case ROPE_LINEAR:
    case ROPE_DYNAMIC:
        return read_factor(o, c, err);
    case ROPE_YARN:
        return read_yarn(root, o, c, err);
    case ROPE_LLAMA3:
        return read_llama3(root, o, c, err);
    default:
        return 0;
    }
}

/* Kinds of layers with rotations of their own are objects among the values. */
static int check_flat(const json_t *o, const char *key, struct error *err)
{
    for (void *at = json_object_iter((json_t *)o); at != NULL;
         at = json_object_iter_next((json_t *)o, at))
        if (json_is_object(json_object_iter_value(at)))
            return error_set(err, ERR_INVAL,
                             "%s.%.60s is an object: this version has one "
                             "rotation for all layers",
                             key, json_object_iter_key(at));
    return 0;
}

/* Files of transformers 5 have all of it in rope_parameters, older ones
 * rope_theta beside rope_scaling. */
int llama_rope_read(const json_t *o, struct llama_config *c, struct error *err)
{
    const json_t *scaling = config_value(o, "rope_scaling");
    const json_t *all = config_value(o, "rope_parameters");
    const char *key = all != NULL ? "rope_parameters" : "rope_scaling";
    if (scaling != NULL && all != NULL)
        return error_set(err, ERR_INVAL,
                         "rope_scaling and rope_parameters are both there: "
                         "remove one");
    if (all != NULL)
        scaling = all;
    if (check_flat(scaling, key, err) < 0)
        return -1;
    if (scaling != NULL && read_scaling(o, scaling, c, err) < 0)
        return error_wrap(err, "%s", key);
    const json_t *base = config_value(all, "rope_theta") != NULL       ? all
                         : config_value(scaling, "rope_theta") != NULL ? scaling
                                                                       : o;
    if (config_real(base, "rope_theta", 1, 1e15, 10000, &c->rope_theta, err) <
        0)
        return -1;
    if (c->scaling.type == ROPE_YARN && c->rope_theta <= 1)
        return error_set(err, ERR_INVAL,
                         "rope_theta must be above 1 with rope_type \"yarn\"");
    return 0;
}

/* ---- frequencies --------------------------------------------------------- */

/* Long waves are slowed by `factor`, short ones not, those between in part. */
static double llama3(const struct llama_scaling *s, double f)
{
    double turns = s->original_max_positions * f / (2 * pi);
    double low = s->low_freq_factor, high = s->high_freq_factor;
    if (turns > high)
        return f;
    if (turns < low)
        return f / s->factor;
    double share = (turns - low) / (high - low);
    return (1 - share) * (f / s->factor) + share * f;
}

/* The pair, in parts of one, that turns so often in the first positions. */
static double pair_of(const struct llama_config *c, double turns)
{
    return c->head_dim *
           log(c->scaling.original_max_positions / (turns * 2 * pi)) /
           (2 * log(c->rope_theta));
}

/* The same by pairs: those before `low` stay, those from `high` on are slowed.
 */
static double yarn(const struct llama_config *c, int32_t i, double f)
{
    const struct llama_scaling *s = &c->scaling;
    double low = pair_of(c, s->beta_fast), high = pair_of(c, s->beta_slow);
    if (s->truncates) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, c->head_dim - 1);
    if (low == high)
        high += 0.001;
    const double slow = fmin(1, fmax(0, (i - low) / (high - low)));
    return f / s->factor * slow + f * (1 - slow);
}

static double scaled(const struct llama_config *c, int32_t i, double f)
{
    switch (c->scaling.type) {
    case ROPE_LINEAR:
        return f / c->scaling.factor;
    case ROPE_YARN:
        return yarn(c, i, f);
    case ROPE_LLAMA3:
        return llama3(&c->scaling, f);
    default:
        return f;
    }
}

void llama_frequencies(const struct llama_config *c, double *ret)
{
    for (int32_t i = 0; i < c->head_dim / 2; i++)
        ret[i] = scaled(c, i, pow(c->rope_theta, -2.0 * i / c->head_dim));
}

double llama_rope_factor(const struct llama_config *c)
{
    return c->scaling.type == ROPE_YARN ? c->scaling.attention : 1;
}
