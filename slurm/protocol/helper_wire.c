/* helper_wire.c - encode and parse the JSON lines between daemon and helper.
 *
 * helper_messages.h has the tables of keys. A command has exactly its keys: the
 * helper acts for users on its content, and must not ignore an unknown key.
 * News may omit zero values. */
#include "slurm/protocol/helper_wire.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "slurm/protocol/helper_messages.h"

/* ---- reading ------------------------------------------------------------- */
static int type_error(const struct field *f, const char *what,
                      struct error *err)
{
    return error_set(err, ERR_INVAL, "'%s' is not %s", f->key, what);
}

static int get_text(const struct field *f, const json_t *v, void *to,
                    struct error *err)
{
    if (f->kind == KIND_STRING && (f->flags & IS_NULLABLE) && json_is_null(v)) {
        *(const char **)to = NULL;
        return 0;
    }
    if (!json_is_string(v))
        return type_error(f, "a string", err);
    const char *text = json_string_value(v);
    size_t n = json_string_length(v);
    if (f->kind == KIND_CODE) {
        enum err_code code = error_from_word(text);
        if (code == ERR_NONE || strcmp(error_word(code), text) != 0)
            return type_error(f, "the word of an error", err);
        *(enum err_code *)to = code;
        return 0;
    }
    if (helper_check_text(f, text, n, err) < 0)
        return -1;
    if (f->kind == KIND_TEXT)
        memcpy(to, text, n + 1);
    else
        *(const char **)to = text;
    return 0;
}

static int get_int(const struct field *f, const json_t *v, void *to,
                   struct error *err)
{
    if (!json_is_integer(v))
        return type_error(f, "an integer", err);
    int64_t n = json_integer_value(v);
    if (helper_check_int(f, n, err) < 0)
        return -1;
    if (f->kind == KIND_I32)
        *(int32_t *)to = (int32_t)n;
    else if (f->kind == KIND_U32)
        *(uint32_t *)to = (uint32_t)n;
    else if (f->kind == KIND_I64)
        *(int64_t *)to = n;
    else
        *(uint64_t *)to = (uint64_t)n;
    return 0;
}

static int get_field(const struct field *f, const json_t *v, void *to,
                     struct error *err)
{
    switch (f->kind) {
    case KIND_TEXT:
    case KIND_STRING:
    case KIND_CODE:
        return get_text(f, v, to, err);
    case KIND_REAL:
        if (!json_is_number(v))
            return type_error(f, "a number", err);
        if (helper_check_real(f, json_number_value(v), err) < 0)
            return -1;
        *(double *)to = json_number_value(v);
        return 0;
    case KIND_BOOL:
        if (!json_is_boolean(v))
            return type_error(f, "true or false", err);
        *(bool *)to = json_is_true(v);
        return 0;
    case KIND_I32:
    case KIND_U32:
    case KIND_I64:
    case KIND_U64:
        break;
    }
    return get_int(f, v, to, err);
}

/* Reads the message's keys from o; the caller reads the `extra` ones, and o
 * must have no others. */
static int get_fields(const struct message *m, const json_t *o, size_t extra,
                      void *base, struct error *err)
{
    size_t seen = extra;
    for (size_t i = 0; i < m->n; i++) {
        const struct field *f = &m->fields[i];
        const json_t *v = json_object_get(o, f->key);
        if (v == NULL && (f->flags & IS_OPTIONAL))
            continue;
        if (v == NULL)
            return error_set(err, ERR_INVAL, "'%s' is missing", f->key);
        if (get_field(f, v, (char *)base + f->at, err) < 0)
            return -1;
        seen++;
    }
    if (json_object_size(o) != seen)
        return error_set(err, ERR_INVAL, "a key that '%s' does not have",
                         m->word);
    return 0;
}

static json_t *load(const char *line, size_t len, struct error *err)
{
    json_error_t why;
    if (len > HELPER_LINE_MAX) {
        (void)error_set(err, ERR_INVAL, "a line of %zu bytes, at most %d", len,
                        HELPER_LINE_MAX);
        return NULL;
    }
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
    if (o == NULL) {
        (void)error_set(err, ERR_INVAL, "%s at byte %d", why.text,
                        why.position);
        return NULL;
    }
    if (!json_is_object(o)) {
        json_decref(o);
        (void)error_set(err, ERR_INVAL, "not an object");
        return NULL;
    }
    return o;
}

/* The index of the message that o's `key` names; -1: unknown. */
static int which(const json_t *o, const char *key, const struct message *all,
                 int n, struct error *err)
{
    const char *word = json_string_value(json_object_get(o, key));
    for (int i = 0; word != NULL && i < n; i++)
        if (strcmp(word, all[i].word) == 0)
            return i;
    return error_set(err, ERR_INVAL, "'%s' is unknown", key);
}

int helper_cmd_parse(const char *line, size_t len, struct helper_cmd *ret,
                     struct error *err)
{
    struct helper_cmd c = {.hold = NULL};
    json_t *o = load(line, len, err);
    if (o == NULL)
        return -1;
    int op = which(o, "op", helper_commands, HELPER_N_OPS, err);
    if (op < 0 || get_fields(&helper_commands[op], o, 1, &c, err) < 0) {
        json_decref(o);
        return -1;
    }
    c.op = (enum helper_op)op;
    c.hold = o;
    *ret = c;
    return 0;
}

void helper_cmd_clear(struct helper_cmd *c)
{
    json_decref(c->hold);
    *c = (struct helper_cmd){.hold = NULL};
}

static int get_nodes(const json_t *o, struct helper_news *n, struct error *err)
{
    const json_t *all = json_object_get(o, "nodes");
    size_t count = json_array_size(all);
    if (!json_is_array(all) || json_object_size(o) != 2 ||
        count > HELPER_NODES_MAX)
        return error_set(err, ERR_INVAL, "'nodes' is not a list of nodes");
    if (count == 0)
        return 0;
    n->nodes = calloc(count, sizeof(*n->nodes));
    if (n->nodes == NULL)
        return error_set(err, ERR_NOMEM, "%zu nodes", count);
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(all, i);
        if (!json_is_object(v))
            return error_set(err, ERR_INVAL, "node %zu is not an object", i);
        if (get_fields(&helper_node, v, 0, &n->nodes[i], err) < 0)
            return error_wrap(err, "node %zu", i);
    }
    n->n_nodes = count;
    return 0;
}

static int get_news(const json_t *o, struct helper_news *n, struct error *err)
{
    int ev = which(o, "ev", helper_events, HELPER_N_EVS, err);
    if (ev < 0)
        return -1;
    n->ev = (enum helper_ev)ev;
    if (n->ev == HELPER_NODES)
        return get_nodes(o, n, err);
    n->is_ok = n->ev == HELPER_REPLY && !json_object_get(o, "code");
    bool has_failed = n->ev == HELPER_REPLY && !n->is_ok;
    return get_fields(has_failed ? &helper_failed : &helper_events[ev], o, 1, n,
                      err);
}

int helper_news_parse(const char *line, size_t len, struct helper_news *ret,
                      struct error *err)
{
    struct helper_news n = {.nodes = NULL};
    json_t *o = load(line, len, err);
    if (o == NULL)
        return -1;
    int rc = get_news(o, &n, err);
    json_decref(o);
    if (rc < 0) {
        helper_news_clear(&n);
        return -1;
    }
    if (n.ev == HELPER_DOWN)
        n.why.code = ERR_UNAVAIL;
    *ret = n;
    return 0;
}

void helper_news_clear(struct helper_news *n)
{
    free(n->nodes);
    *n = (struct helper_news){.nodes = NULL};
}

/* ---- writing ------------------------------------------------------------- */
/* Texts of Slurm may hold any byte, for instance Latin-1 in a node's reason:
 * unprintable bytes are escaped, and the text is truncated to its space. */
static json_t *plain(const struct field *f, const char *text, struct error *err)
{
    struct buf b = BUF_INIT;
    if (helper_is_printable(text))
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

/* NULL if a check fails, or memory is short: err is then unchanged. */
static json_t *value_of(const struct field *f, const void *at,
                        struct error *err)
{
    int64_t n;
    const char *text;
    switch (f->kind) {
    case KIND_CODE:
        return json_string(error_word(*(const enum err_code *)at));
    case KIND_STRING:
        text = *(const char *const *)at;
        if (text == NULL && (f->flags & IS_NULLABLE))
            return json_null();
        text = text ? text : "";
        return helper_check_text(f, text, strlen(text), err) < 0
                   ? NULL
                   : json_string(text);
    case KIND_TEXT:
        text = at;
        n = (int64_t)strlen(text);
        if ((f->fits || n < f->min) &&
            helper_check_text(f, text, (size_t)n, err) < 0)
            return NULL;
        return plain(f, text, err);
    case KIND_BOOL:
        return json_boolean(*(const bool *)at);
    case KIND_REAL:
        return helper_check_real(f, *(const double *)at, err) < 0
                   ? NULL
                   : json_real(*(const double *)at);
    case KIND_I32:
        n = *(const int32_t *)at;
        break;
    case KIND_U32:
        n = *(const uint32_t *)at;
        break;
    case KIND_I64:
    case KIND_U64: /* a value above INT64_MAX is negative, and refused */
    default:
        n = *(const int64_t *)at;
        break;
    }
    return helper_check_int(f, n, err) < 0 ? NULL : json_integer(n);
}

static int put_fields(const struct message *m, json_t *o, const void *base,
                      struct error *err)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct field *f = &m->fields[i];
        struct error why = {.code = ERR_NOMEM, .msg = "out of memory"};
        json_t *v = value_of(f, (const char *)base + f->at, &why);
        if (v == NULL || json_object_set_new(o, f->key, v) < 0)
            return error_set(err, why.code, "%s: %s", m->word, why.msg);
    }
    return 0;
}

static int to_buf(const char *p, size_t n, void *arg)
{
    return buf_add(arg, p, n, NULL);
}

/* Owns o. On failure out is unchanged. */
static int finish(json_t *o, struct buf *out, struct error *err)
{
    size_t before = out->len;
    int rc = json_dump_callback(o, to_buf, out, JSON_COMPACT);
    json_decref(o);
    if (rc == 0 && out->len - before > HELPER_LINE_MAX) {
        rc = error_set(err, ERR_LIMIT, "a line of %zu bytes, at most %d",
                       out->len - before, HELPER_LINE_MAX);
    } else if (rc < 0 || buf_add(out, "\n", 1, NULL) < 0) {
        rc = error_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc < 0 && out->data) {
        out->len = before;
        out->data[before] = '\0';
    }
    return rc;
}

static json_t *begin(const char *key, const char *word, struct error *err)
{
    json_t *o = json_object();
    if (o == NULL || json_object_set_new(o, key, json_string(word)) < 0) {
        json_decref(o);
        (void)error_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    return o;
}

int helper_cmd_encode(const struct helper_cmd *c, struct buf *out,
                      struct error *err)
{
    const struct message *m = &helper_commands[c->op];
    json_t *o = begin("op", m->word, err);
    if (o == NULL)
        return -1;
    if (put_fields(m, o, c, err) < 0) {
        json_decref(o);
        return -1;
    }
    return finish(o, out, err);
}

static int put_nodes(const struct helper_news *n, json_t *o, struct error *err)
{
    json_t *all = json_array();
    if (all == NULL || json_object_set_new(o, "nodes", all) < 0)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n->n_nodes; i++) {
        json_t *v = json_object();
        if (v == NULL || json_array_append_new(all, v) < 0)
            return error_set(err, ERR_NOMEM, "out of memory");
        if (put_fields(&helper_node, v, &n->nodes[i], err) < 0)
            return -1;
    }
    return 0;
}

int helper_news_encode(const struct helper_news *n, struct buf *out,
                       struct error *err)
{
    bool has_failed = n->ev == HELPER_REPLY && !n->is_ok;
    const struct message *m =
        has_failed ? &helper_failed : &helper_events[n->ev];
    json_t *o = begin("ev", m->word, err);
    if (o == NULL)
        return -1;
    int rc =
        n->ev == HELPER_NODES ? put_nodes(n, o, err) : put_fields(m, o, n, err);
    if (rc < 0) {
        json_decref(o);
        return -1;
    }
    return finish(o, out, err);
}
