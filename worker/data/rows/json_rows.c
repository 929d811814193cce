/* json_rows.c - see json_rows.h.
 *
 * A row's text is found by its brackets and quotes alone and then parsed as a
 * whole: what is wrong in it is the parser's to say. */
#include "worker/data/rows/json_rows.h"

#include <string.h>

#include "jobs/base/buf.h"

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY };

struct reader {
    struct gz_stream *s;
    struct row_sink *to;
    struct buf text; /* of a row */
    int64_t line;    /* where it begins */
};

/* Reports what is at the reader's place instead of `want`. */
static int unexpected(const struct reader *r, const char *want,
                      struct error *err)
{
    const struct gz_stream *s = r->s;
    const long long line = (long long)s->line;
    if (s->at == s->len)
        return error_set(err, ERR_INVAL,
                         "%s: line %lld: the file ends, expected %s", s->path,
                         line, want);
    const unsigned char c = (unsigned char)s->data[s->at];
    if (c < ' ' || c >= 0x7f)
        return error_set(err, ERR_INVAL,
                         "%s: line %lld: byte 0x%02x, expected %s", s->path,
                         line, c, want);
    return error_set(err, ERR_INVAL, "%s: line %lld: '%c', expected %s",
                     s->path, line, c, want);
}

/* The row's text grows by what is in the window before `to`. */
static int keep(struct reader *r, size_t to, struct error *err)
{
    struct gz_stream *s = r->s;
    if (r->text.len + (to - s->at) > ROW_BYTES_MAX)
        return error_set(err, ERR_LIMIT,
                         "%s: row %d: line %lld: longer than %d MiB", s->path,
                         r->to->place.number, (long long)r->line,
                         ROW_BYTES_MAX >> 20);
    if (buf_add(&r->text, s->data + s->at, to - s->at, err) < 0)
        return -1;
    gz_stream_take(s, to);
    return 0;
}

static json_t *parse(const struct reader *r, struct error *err)
{
    json_error_t e;
    json_t *v = json_loadb(buf_str(&r->text), r->text.len, FLAGS, &e);
    if (v != NULL)
        return v;
    if (json_error_code(&e) == json_error_out_of_memory)
        (void)error_set(err, ERR_NOMEM, "%s: row %d", r->s->path,
                        r->to->place.number);
    else
        (void)error_set(err, ERR_INVAL, "%s: row %d: line %lld: %s", r->s->path,
                        r->to->place.number,
                        (long long)(r->line + (e.line > 0 ? e.line - 1 : 0)),
                        e.text);
    return NULL;
}

/* ---- JSON Lines ---------------------------------------------------------- */

static int read_line(struct reader *r, struct error *err)
{
    struct gz_stream *s = r->s;
    int rc;
    r->line = s->line;
    buf_reset(&r->text);
    while ((rc = gz_stream_fill(s, err)) > 0) {
        const char *end = memchr(s->data + s->at, '\n', s->len - s->at);
        if (keep(r, end != NULL ? (size_t)(end - s->data) : s->len, err) < 0)
            return -1;
        if (end != NULL)
            return 0;
    }
    return rc;
}

static int read_lines(struct reader *r, struct error *err)
{
    while (!row_sink_is_full(r->to)) {
        int rc = gz_stream_skip_blank(r->s, err);
        if (rc <= 0)
            return rc;
        if (read_line(r, err) < 0)
            return -1;
        json_t *row = parse(r, err);
        if (row != NULL
                ? row_sink_give(r->to, row, r->line, r->text.len, err) < 0
                : row_sink_leave_out(r->to, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- an array ------------------------------------------------------------ */

struct nesting {
    int64_t depth;
    bool text, escaped; /* within quotes; behind a backslash */
};

/* Whether c is the last character of a value, or *ret_past: the first behind
 * it. */
static bool ends(struct nesting *n, char c, bool *ret_past)
{
    *ret_past = false;
    if (n->text) {
        const bool quote = c == '"' && !n->escaped;
        n->escaped = c == '\\' && !n->escaped;
        n->text = !quote;
        return quote && n->depth == 0;
    }
    switch (c) {
    case '"':
        n->text = true;
        return false;
    case '[':
    case '{':
        n->depth++;
        return false;
    case ']':
    case '}':
        n->depth--;
        *ret_past = n->depth < 0;
        return n->depth <= 0;
    case ',':
    case ' ':
    case '\t':
    case '\r':
    case '\n':
        *ret_past = true;
        return n->depth == 0;
    default:
        return false;
    }
}

/* The value that begins at the reader's place, which is not white space. */
static int read_value(struct reader *r, struct error *err)
{
    struct gz_stream *s = r->s;
    struct nesting n = {.depth = 0};
    int rc;
    r->line = s->line;
    buf_reset(&r->text);
    while ((rc = gz_stream_fill(s, err)) > 0) {
        bool past = false, over = false;
        size_t to = s->at;
        while (to < s->len && !over)
            over = ends(&n, s->data[to++], &past);
        /* Keep at least a character, so that the parser says what is wrong. */
        to -= over && past && (r->text.len > 0 || to - 1 > s->at);
        if (keep(r, to, err) < 0)
            return -1;
        if (over)
            return 0;
    }
    return rc;
}

/* The character at the reader's place; '\0': the file ends. */
static int look(const struct reader *r, char *ret, struct error *err)
{
    int rc = gz_stream_skip_blank(r->s, err);
    *ret = '\0';
    if (rc > 0)
        *ret = r->s->data[r->s->at];
    return rc < 0 ? -1 : 0;
}

static void step(const struct reader *r)
{
    gz_stream_take(r->s, r->s->at + 1);
}

static int read_elements(struct reader *r, struct error *err)
{
    char c;
    while (!row_sink_is_full(r->to)) {
        if (look(r, &c, err) < 0 || read_value(r, err) < 0)
            return -1;
        json_t *row = parse(r, err);
        if (row != NULL
                ? row_sink_give(r->to, row, r->line, r->text.len, err) < 0
                : row_sink_leave_out(r->to, err) < 0)
            return -1;
        if (look(r, &c, err) < 0)
            return -1;
        if (c != ',' && c != ']')
            return unexpected(r, "',' or ']'", err);
        step(r);
        if (c == ']')
            break;
    }
    return 0;
}

static int read_array(struct reader *r, struct error *err)
{
    char c;
    step(r);
    if (look(r, &c, err) < 0)
        return -1;
    if (c == ']')
        step(r);
    else if (read_elements(r, err) < 0)
        return -1;
    if (row_sink_is_full(r->to))
        return 0;
    int rc = gz_stream_skip_blank(r->s, err);
    return rc > 0 ? unexpected(r, "the end", err) : rc;
}

int json_rows_read(struct gz_stream *s, struct row_sink *to, struct error *err)
{
    struct reader r = {.s = s, .to = to};
    char c;
    int rc = look(&r, &c, err);
    if (rc == 0 && c == '[')
        rc = read_array(&r, err);
    else if (rc == 0 && c == '{')
        rc = read_lines(&r, err);
    else if (rc == 0 && s->at < s->len)
        rc = unexpected(&r, "'[' of an array of rows or '{' of a first row",
                        err);
    buf_clear(&r.text);
    return rc;
}
