/* table_rows.c - see table_rows.h. */
#include "worker/data/rows/table_rows.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"

enum { COLUMNS_MAX = 1024 };

struct reader {
    struct gz_stream *s;
    struct row_sink *to;
    char separator;
    struct buf text; /* of the fields of a row, one behind the other */
    struct buf ends; /* size_t: where each of them ends */
    json_t *names;   /* of the columns; NULL: not read yet */
    int64_t line;    /* where the row begins */
};

enum state { PLAIN, QUOTED, QUOTE_IN_QUOTED };

static size_t fields(const struct reader *r)
{
    return r->ends.len / sizeof(size_t);
}

static const char *field(const struct reader *r, size_t i, size_t *ret_len)
{
    const size_t *ends = (const size_t *)(const void *)r->ends.data;
    const size_t first = i > 0 ? ends[i - 1] : 0;
    *ret_len = ends[i] - first;
    return buf_str(&r->text) + first;
}

static size_t field_start(const struct reader *r)
{
    const size_t n = fields(r);
    const size_t *ends = (const size_t *)(const void *)r->ends.data;
    return n > 0 ? ends[n - 1] : 0;
}

static int end_field(struct reader *r, struct error *err)
{
    return buf_add(&r->ends, &r->text.len, sizeof(r->text.len), err);
}

static int too_long(const struct reader *r, struct error *err)
{
    return error_set(err, ERR_LIMIT,
                     "%s: row %d: line %lld: longer than %d MiB, or %d columns",
                     r->s->path, r->to->place.number, (long long)r->line,
                     ROW_BYTES_MAX >> 20, COLUMNS_MAX);
}

/* Takes a character that is not within quotes. *ret_over: the row ends. */
static int plain(struct reader *r, char c, enum state *io, bool *ret_over,
                 struct error *err)
{
    if (c == '"' && *io == PLAIN && r->text.len == field_start(r)) {
        *io = QUOTED;
        return 0;
    }
    *io = PLAIN;
    *ret_over = c == '\n';
    if (c != '\n' && c != r->separator)
        return buf_add(&r->text, &c, 1, err);
    const size_t n = r->text.len;
    if (c == '\n' && n > field_start(r) && r->text.data[n - 1] == '\r')
        r->text.len--;
    return end_field(r, err);
}

static int take(struct reader *r, char c, enum state *io, bool *ret_over,
                struct error *err)
{
    if (*io == QUOTED && c == '"')
        *io = QUOTE_IN_QUOTED;
    else if (*io == QUOTED || (*io == QUOTE_IN_QUOTED && c == '"')) {
        *io = QUOTED;
        return buf_add(&r->text, &c, 1, err);
    } else
        return plain(r, c, io, ret_over, err);
    return 0;
}

/* The file ended within a row. */
static int end_row(struct reader *r, enum state state, struct error *err)
{
    bool over;
    if (state == QUOTED)
        return error_set(err, ERR_INVAL,
                         "%s: row %d: line %lld: the quotes of a field do not "
                         "end",
                         r->s->path, r->to->place.number, (long long)r->line);
    return plain(r, '\n', &state, &over, err);
}

/* 1: the fields of a row; 0: there is none. */
static int read_fields(struct reader *r, struct error *err)
{
    struct gz_stream *s = r->s;
    enum state state = PLAIN;
    bool over = false, any = false;
    int rc = 0;
    buf_reset(&r->text);
    buf_reset(&r->ends);
    while (!over && (rc = gz_stream_fill(s, err)) > 0) {
        size_t to = s->at;
        for (; to < s->len && !over; to++) {
            const char c = s->data[to];
            if (!any && (c == '\n' || c == '\r'))
                continue;
            if (!any) {
                gz_stream_take(s, to);
                r->line = s->line;
                any = true;
            }
            if (take(r, c, &state, &over, err) < 0)
                return -1;
        }
        gz_stream_take(s, to);
        if (r->text.len > ROW_BYTES_MAX || fields(r) > COLUMNS_MAX)
            return too_long(r, err);
    }
    if (over)
        return 1;
    if (rc < 0 || (any && end_row(r, state, err) < 0))
        return -1;
    return any ? 1 : 0;
}

/* ---- a row as an object -------------------------------------------------- */

static json_t *text_of(const struct reader *r, size_t i, const char *column,
                       struct error *err)
{
    size_t len;
    const char *text = field(r, i, &len);
    json_t *v = NULL;
    if (memchr(text, '\0', len) == NULL)
        v = json_stringn(text, len);
    if (v == NULL)
        (void)error_set(
            err, ERR_INVAL, "%s: row %d: line %lld: column '%.80s': not UTF-8",
            r->s->path, r->to->place.number, (long long)r->line, column);
    return v;
}

static int read_names(struct reader *r, struct error *err)
{
    json_t *seen = json_object();
    int rc = read_fields(r, err);
    r->names = json_array();
    for (size_t i = 0; rc > 0 && i < fields(r); i++) {
        json_t *name = text_of(r, i, "names of columns", err);
        const char *text = json_string_value(name);
        if (name == NULL)
            rc = -1;
        else if (json_object_get(seen, text) != NULL)
            rc = error_set(err, ERR_INVAL,
                           "%s: line %lld: two columns are named '%.80s'",
                           r->s->path, (long long)r->line, text);
        else if (json_object_set(seen, text, name) < 0 ||
                 json_array_append(r->names, name) < 0)
            rc = error_set(err, ERR_NOMEM, "%s", r->s->path);
        json_decref(name);
    }
    json_decref(seen);
    return rc;
}

static json_t *row_of(const struct reader *r, struct error *err)
{
    const size_t n = json_array_size(r->names);
    if (fields(r) != n) {
        (void)error_set(err, ERR_INVAL,
                        "%s: row %d: line %lld: %zu columns, the first line "
                        "names %zu",
                        r->s->path, r->to->place.number, (long long)r->line,
                        fields(r), n);
        return NULL;
    }
    json_t *row = json_object();
    for (size_t i = 0; row != NULL && i < n; i++) {
        const char *name = json_string_value(json_array_get(r->names, i));
        json_t *v = text_of(r, i, name, err);
        if (v != NULL && json_object_set_new(row, name, v) == 0)
            continue;
        if (v != NULL)
            (void)error_set(err, ERR_NOMEM, "%s", r->s->path);
        json_decref(row);
        return NULL;
    }
    if (row == NULL)
        (void)error_set(err, ERR_NOMEM, "%s", r->s->path);
    return row;
}

static int read_rows(struct reader *r, struct error *err)
{
    int rc = read_names(r, err);
    while (rc > 0 && !row_sink_is_full(r->to) &&
           (rc = read_fields(r, err)) > 0) {
        json_t *row = row_of(r, err);
        if (row != NULL
                ? row_sink_give(r->to, row, r->line, r->text.len, err) < 0
                : row_sink_leave_out(r->to, err) < 0)
            return -1;
    }
    return rc < 0 ? -1 : 0;
}

int table_rows_read(struct gz_stream *s, char separator, struct row_sink *to,
                    struct error *err)
{
    struct reader r = {.s = s, .to = to, .separator = separator, .line = 1};
    int rc = read_rows(&r, err);
    buf_clear(&r.text);
    buf_clear(&r.ends);
    json_decref(r.names);
    return rc;
}
