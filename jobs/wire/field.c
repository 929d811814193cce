/* field.c - see field.h. */
#include "jobs/wire/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/buf.h"

double field_real(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

int64_t field_int(const json_t *o, const char *key, int64_t absent)
{
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? json_integer_value(v) : absent;
}

static int64_t within(int64_t n, int64_t most)
{
    return n < 0 ? 0 : n > most ? most : n;
}

int64_t field_gpus(const json_t *node, int64_t *ret_from)
{
    enum { GPUS_MAX = 4096 };
    *ret_from = within(field_int(node, "gpus_from", 0), INT32_MAX);
    return within(field_int(node, "gpus_total", 0), GPUS_MAX);
}

const char *field_str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

double field_time(const json_t *o, const char *key)
{
    struct tm tm = {.tm_mday = 0};
    const char *text = field_str(o, key);
    char *end = *text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (!end)
        return NAN;
    return (double)timegm(&tm) + (*end == '.' ? strtod(end, NULL) : 0);
}

char *field_pairs(const json_t *o, const char *without)
{
    struct buf b = BUF_INIT;
    const char *key;
    json_t *v;
    int bad = 0;
    json_object_foreach((json_t *)o, key, v)
    {
        char *text = json_is_string(v)
                         ? NULL
                         : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT |
                                             JSON_REAL_PRECISION(9));
        if (!without || strcmp(key, without) != 0)
            bad |= buf_addf(&b, NULL, "%s%s=%s", b.len ? ", " : "", key,
                            text ? text : json_string_value(v));
        free(text);
    }
    char *text = bad ? NULL : buf_detach(&b);
    buf_clear(&b);
    return text;
}

bool field_yes(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}
