/* config_value.c - see config_value.h. */
#include "worker/llm/config/config_value.h"

#include <string.h>

const json_t *config_value(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_null(v) ? NULL : v;
}

struct config_shown config_show(const json_t *v)
{
    struct config_shown s = {.text = ""};
    size_t n = json_dumpb(v, s.text, sizeof(s.text) - 1,
                          JSON_ENCODE_ANY | JSON_COMPACT);
    if (n == 0 || n >= sizeof(s.text))
        return (struct config_shown){.text = "a longer value"};
    return s;
}

int config_int(const json_t *o, const char *key, int32_t min, int32_t max,
               int32_t absent, int32_t *ret, struct error *err)
{
    const json_t *v = config_value(o, key);
    if (v == NULL && absent >= 0) {
        *ret = absent;
        return 0;
    }
    if (v == NULL)
        return error_set(err, ERR_INVAL, "%s is missing", key);
    json_int_t i = json_is_integer(v) ? json_integer_value(v) : 0;
    if (!json_is_integer(v) || i < min || i > max)
        return error_set(err, ERR_INVAL,
                         "%s must be an integer from %d to %d, not %s", key,
                         min, max, config_show(v).text);
    *ret = (int32_t)i;
    return 0;
}

int config_real(const json_t *o, const char *key, double min, double max,
                double absent, double *ret, struct error *err)
{
    const json_t *v = config_value(o, key);
    double d = v != NULL ? json_number_value(v) : absent;
    if (v == NULL && absent < 0)
        return error_set(err, ERR_INVAL, "%s is missing", key);
    if (v != NULL && (!json_is_number(v) || !(d >= min && d <= max)))
        return error_set(err, ERR_INVAL,
                         "%s must be a number from %g to %g, not %s", key, min,
                         max, config_show(v).text);
    *ret = d;
    return 0;
}

int config_bool(const json_t *o, const char *key, bool absent, bool *ret,
                struct error *err)
{
    const json_t *v = config_value(o, key);
    if (v != NULL && !json_is_boolean(v))
        return error_set(err, ERR_INVAL, "%s must be true or false, not %s",
                         key, config_show(v).text);
    *ret = v != NULL ? json_is_true(v) : absent;
    return 0;
}
