/* json_struct.c - read and write structs by tables; see json_struct.h. */
#include "jobs/wire/json_struct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

/* ---- checks of both directions ------------------------------------------- */
bool json_struct_is_printable(const char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        int32_t cp = text_next(&text, end);
        if (cp < 0 || cp == '\n' || cp == '\r' || text_is_control(cp))
            return false;
    }
    return true;
}

static const char *unprintable(const char *text)
{
    return json_struct_is_printable(text) ? NULL : "has an invalid format";
}

static int check_text(const struct json_field *f, const char *text, size_t n,
                      struct error *err)
{
    int64_t most = f->kind == KIND_STRING ? f->max : f->max - 1;
    bool is_short = (int64_t)n < f->min && (n || !(f->flags & IS_EMPTY_OK));
    if (is_short || (int64_t)n > most || strlen(text) != n)
        return error_set(err, ERR_INVAL, "'%s' must have %lld..%lld bytes",
                         f->key, (long long)f->min, (long long)most);
    const char *fault = f->fault              ? f->fault(text)
                        : f->kind == KIND_RAW ? NULL
                                              : unprintable(text);
    if (fault)
        return error_set(err, ERR_INVAL, "'%s' %s", f->key, fault);
    return 0;
}

static int check_int(const struct json_field *f, int64_t v, struct error *err)
{
    if (v < f->min || v > f->max)
        return error_set(err, ERR_INVAL, "'%s' is %lld, must be %lld..%lld",
                         f->key, (long long)v, (long long)f->min,
                         (long long)f->max);
    return 0;
}

static int check_real(const struct json_field *f, double v, struct error *err)
{
    if (!(v >= (double)f->min && v <= (double)f->max))
        return error_set(err, ERR_INVAL, "'%s' is %g, must be %lld..%lld",
                         f->key, v, (long long)f->min, (long long)f->max);
    return 0;
}

/* ---- reading ------------------------------------------------------------- */
static int type_error(const struct json_field *f, const char *what,
                      struct error *err)
{
    return error_set(err, ERR_INVAL, "'%s' is not %s", f->key, what);
}

static int read_text(const struct json_field *f, const struct member *v,
                     void *to, struct error *err)
{
    if (f->kind == KIND_STRING && (f->flags & IS_NULLABLE) &&
        v->kind == MEMBER_NULL) {
        *(const char **)to = NULL;
        return 0;
    }
    if (v->kind != MEMBER_TEXT)
        return type_error(f, "a string", err);
    if (f->kind == KIND_CODE) {
        enum err_code code = error_from_word(v->text);
        if (code == ERR_NONE || strcmp(error_word(code), v->text) != 0)
            return type_error(f, "the word of an error", err);
        *(enum err_code *)to = code;
        return 0;
    }
    if (check_text(f, v->text, v->len, err) < 0)
        return -1;
    if (f->kind == KIND_STRING)
        *(const char **)to = v->text;
    else
        memcpy(to, v->text, v->len + 1);
    return 0;
}

static void store_int(const struct json_field *f, int64_t n, void *to)
{
    if (f->kind == KIND_U8)
        *(uint8_t *)to = (uint8_t)n;
    else if (f->kind == KIND_I32)
        *(int32_t *)to = (int32_t)n;
    else if (f->kind == KIND_U32)
        *(uint32_t *)to = (uint32_t)n;
    else if (f->kind == KIND_I64)
        *(int64_t *)to = n;
    else if (f->kind == KIND_U64)
        *(uint64_t *)to = (uint64_t)n;
}

static int read_int(const struct json_field *f, const struct member *v,
                    void *to, struct error *err)
{
    if (v->kind != MEMBER_INT)
        return type_error(f, "an integer", err);
    if (check_int(f, v->n, err) < 0)
        return -1;
    store_int(f, v->n, to);
    return 0;
}

static int read_field(const struct json_field *f, const struct member *v,
                      void *to, struct error *err)
{
    switch (f->kind) {
    case KIND_TEXT:
    case KIND_RAW:
    case KIND_CLEAN:
    case KIND_STRING:
    case KIND_CODE:
        return read_text(f, v, to, err);
    case KIND_REAL:
        if (v->kind != MEMBER_INT && v->kind != MEMBER_REAL)
            return type_error(f, "a number", err);
        if (check_real(f, v->x, err) < 0)
            return -1;
        *(double *)to = v->x;
        return 0;
    case KIND_POSITIVE: /* 0 for all that is no number */
        if (!(v->x > 0))
            return error_set(err, ERR_INVAL, "'%s' must be above 0", f->key);
        *(double *)to = v->x;
        return 0;
    case KIND_BOOL:
        if (v->kind != MEMBER_TRUE && v->kind != MEMBER_FALSE)
            return type_error(f, "true or false", err);
        *(bool *)to = v->kind == MEMBER_TRUE;
        return 0;
    case KIND_UNLESS:
        if (v->kind != MEMBER_FALSE)
            return error_set(err, ERR_INVAL, "'%s' must be false", f->key);
        *(bool *)to = false;
        return 0;
    case KIND_FLAG:
        if (v->kind != MEMBER_TRUE)
            return error_set(err, ERR_INVAL, "'%s' must be true", f->key);
        *(bool *)to = true;
        return 0;
    case KIND_U8:
    case KIND_I32:
    case KIND_U32:
    case KIND_I64:
    case KIND_U64:
    case KIND_CONST:
        break;
    }
    return read_int(f, v, to, err);
}

static bool is_optional(const struct json_field *f)
{
    return (f->flags & (IS_OPTIONAL | IS_SPARSE)) || f->kind == KIND_FLAG ||
           f->kind == KIND_UNLESS;
}

int json_struct_read(const struct json_struct *t, const struct members *m,
                     int extra, void *base, struct error *err)
{
    size_t seen = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct json_field *f = &t->fields[i];
        const struct member v = members_get(m, f->key);
        if (v.kind == MEMBER_NONE && is_optional(f))
            continue;
        if (v.kind == MEMBER_NONE && t->word)
            return error_set(err, ERR_INVAL, "'%s' is missing", f->key);
        if (read_field(f, &v, (char *)base + f->at, err) < 0)
            return -1;
        seen++;
    }
    if (extra < 0 || json_object_size(m->o) == seen + (size_t)extra)
        return 0;
    if (t->word)
        return error_set(err, ERR_INVAL, "a key that '%s' does not have",
                         t->word);
    return error_set(err, ERR_INVAL, "there is an unknown key");
}

static bool is_text(const struct json_field *f)
{
    return f->kind == KIND_TEXT || f->kind == KIND_RAW || f->kind == KIND_CLEAN;
}

static bool is_real(const struct json_field *f)
{
    return f->kind == KIND_REAL || f->kind == KIND_POSITIVE;
}

static bool has_type(const struct json_field *f, const struct member *v)
{
    bool is_number = v->kind == MEMBER_INT || v->kind == MEMBER_REAL;
    if (is_text(f) || f->kind == KIND_STRING)
        return v->kind == MEMBER_TEXT;
    if (is_real(f))
        return is_number || ((f->flags & IS_NULLABLE) && v->kind);
    if (f->kind < KIND_REAL)
        return v->kind == MEMBER_INT;
    return v->kind == MEMBER_TRUE || v->kind == MEMBER_FALSE;
}

/* v has its type, or is nothing. */
static void take_field(const struct json_field *f, const struct member *v,
                       void *to)
{
    bool is_null = v->kind != MEMBER_INT && v->kind != MEMBER_REAL;
    if (is_text(f))
        text_copy_n(to, (size_t)f->max, v->kind ? v->text : "", v->len);
    else if (f->kind == KIND_STRING)
        *(const char **)to = v->text;
    else if (is_real(f))
        *(double *)to =
            is_null && (f->flags & IS_NULLABLE) ? (double)INFINITY : v->x;
    else if (f->kind < KIND_REAL)
        store_int(f, v->n, to);
    else
        *(bool *)to = f->kind == KIND_UNLESS ? v->kind != MEMBER_FALSE
                                             : v->kind == MEMBER_TRUE;
}

int json_struct_take(const struct json_struct *t, const struct members *m,
                     bool keep, void *ret)
{
    static const struct member nothing = {.kind = MEMBER_NONE};
    for (size_t i = 0; i < t->n; i++) {
        const struct json_field *f = &t->fields[i];
        const struct member v = members_get(m, f->key);
        bool is_there = has_type(f, &v);
        if (!is_there && !is_optional(f))
            return -1;
        if ((is_there || !keep) && !(f->flags & IS_KEPT))
            take_field(f, is_there ? &v : &nothing, (char *)ret + f->at);
    }
    return 0;
}

/* ---- writing ------------------------------------------------------------- */
/* Texts of others may hold any byte, for instance Latin-1 in the reason of one
 * of Slurm's nodes. */
static json_t *plain(const struct json_field *f, const char *text,
                     struct error *err)
{
    struct buf b = BUF_INIT;
    if (json_struct_is_printable(text))
        return json_string(text);
    json_t *v = NULL;
    if (text_add_plain(&b, text, strlen(text), err) == 0) {
        size_t n = b.len < (size_t)f->max ? b.len : (size_t)f->max - 1;
        while (n > 0 && n < b.len && ((unsigned char)b.data[n] & 0xc0) == 0x80)
            n--;
        v = json_stringn(buf_str(&b), n);
    }
    buf_clear(&b);
    return v;
}

static json_t *raw_value(const char *text, struct error *err)
{
    json_t *v = json_string(text);
    const char *p = text, *end = text + strlen(text);
    while (v == NULL && p < end)
        if (text_next(&p, end) < 0) {
            (void)error_set(err, ERR_INVAL, "a field is not UTF-8");
            break;
        }
    return v;
}

static json_t *string_value(const struct json_field *f, const char *text,
                            struct error *err)
{
    if (text == NULL && (f->flags & IS_NULLABLE))
        return json_null();
    if (f->flags & IS_TRUSTED)
        return text ? raw_value(text, err) : NULL;
    text = text ? text : "";
    return check_text(f, text, strlen(text), err) < 0 ? NULL
                                                      : json_string(text);
}

static json_t *text_value(const struct json_field *f, const char *text,
                          struct error *err)
{
    size_t n = strlen(text);
    if ((f->fault || (int64_t)n < f->min) && check_text(f, text, n, err) < 0)
        return NULL;
    return plain(f, text, err);
}

static json_t *clean_value(const struct json_field *f, const char *text)
{
    char *clean = malloc((size_t)f->max);
    if (clean)
        text_copy(clean, (size_t)f->max, text);
    json_t *v = clean ? json_string(clean) : NULL;
    free(clean);
    return v;
}

/* A U64 above INT64_MAX is negative. */
static int64_t int_at(const struct json_field *f, const void *at)
{
    if (f->kind == KIND_U8)
        return *(const uint8_t *)at;
    if (f->kind == KIND_I32)
        return *(const int32_t *)at;
    if (f->kind == KIND_U32)
        return *(const uint32_t *)at;
    if (f->kind == KIND_CONST)
        return f->min;
    return *(const int64_t *)at;
}

/* NULL if a check fails, or memory is short: err is then unchanged. */
static json_t *value_of(const struct json_field *f, const void *at,
                        struct error *err)
{
    switch (f->kind) {
    case KIND_CODE:
        return json_string(error_word(*(const enum err_code *)at));
    case KIND_STRING:
        return string_value(f, *(const char *const *)at, err);
    case KIND_TEXT:
        return text_value(f, at, err);
    case KIND_RAW:
        return raw_value(at, err);
    case KIND_CLEAN:
        return clean_value(f, at);
    case KIND_UNLESS:
    case KIND_FLAG:
    case KIND_BOOL:
        return json_boolean(*(const bool *)at);
    case KIND_REAL:
        if ((f->flags & IS_NULLABLE) && !isfinite(*(const double *)at))
            return json_null();
        if (!(f->flags & IS_TRUSTED) &&
            check_real(f, *(const double *)at, err) < 0)
            return NULL;
        return json_real(*(const double *)at);
    case KIND_POSITIVE:
        return json_real(*(const double *)at);
    case KIND_CONST:
    case KIND_U8:
    case KIND_I32:
    case KIND_U32:
    case KIND_I64:
    case KIND_U64:
        break;
    }
    int64_t n = int_at(f, at);
    bool is_right = (f->flags & IS_TRUSTED) || check_int(f, n, err) == 0;
    return is_right ? json_integer(n) : NULL;
}

/* Whether the key is omitted. */
static bool is_absent(const struct json_field *f, const void *at)
{
    if (f->kind == KIND_FLAG || f->kind == KIND_UNLESS)
        return *(const bool *)at != (f->kind == KIND_FLAG);
    if (!(f->flags & IS_SPARSE))
        return false;
    if (f->kind == KIND_STRING)
        return *(const char *const *)at == NULL;
    if (f->kind == KIND_REAL)
        return !isfinite(*(const double *)at);
    if (f->kind == KIND_POSITIVE)
        return !(*(const double *)at > 0) || !isfinite(*(const double *)at);
    if (!is_text(f))
        return int_at(f, at) < f->min;
    return *(const char *)at == '\0';
}

int json_struct_write(const struct json_struct *t, const void *base, json_t *o,
                      struct error *err)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct json_field *f = &t->fields[i];
        const char *at = (const char *)base + f->at;
        struct error why = {.code = ERR_NOMEM, .msg = "out of memory"};
        if (is_absent(f, at))
            continue;
        json_t *v = value_of(f, at, &why);
        if (v == NULL || json_object_set_new(o, f->key, v) < 0)
            return error_set(err, why.code, "%s%s%s", t->word ? t->word : "",
                             t->word ? ": " : "", why.msg);
    }
    return 0;
}

struct sink {
    struct buf *out;
    bool is_short; /* jansson ignores that a key could not be written */
};

static int to_buf(const char *p, size_t n, void *arg)
{
    struct sink *s = arg;
    s->is_short = s->is_short || buf_add(s->out, p, n, NULL) < 0;
    return s->is_short ? -1 : 0;
}

int json_struct_dump(const json_t *o, struct buf *out, struct error *err)
{
    size_t before = out->len;
    struct sink sink = {.out = out};
    if (json_dump_callback(o, to_buf, &sink, JSON_COMPACT) == 0 &&
        !sink.is_short)
        return 0;
    if (out->data) {
        out->len = before;
        out->data[before] = '\0';
    }
    return error_set(err, ERR_NOMEM, "out of memory");
}
