/* json_rows.c - see json_rows.h.
 *
 * Rows are parsed one by one: the trees of all of them need ten times the
 * memory of the file. */
#include "worker/data/text/json_rows.h"

#include <string.h>

#include "jobs/base/buf.h"

enum { FLAGS = JSON_REJECT_DUPLICATES, SHOWN = 16 };

struct reader {
    const struct json_ask *ask;
    struct json_skipped *skipped;
    const char *at, *end;
    int32_t line, row; /* of what is at `at`; from 1 */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void advance(struct reader *r, const char *to)
{
    for (; r->at < to; r->at++)
        r->line += *r->at == '\n';
}

static void skip_blank(struct reader *r)
{
    const char *p = r->at;
    while (p < r->end && is_blank(*p))
        p++;
    advance(r, p);
}

static int wrap(const struct reader *r, struct error *err)
{
    return error_wrap(err, "%s: row %d: line %d", r->ask->path, r->row,
                      r->line);
}

/* What is at the reader's place, for a message. */
static int unexpected(const struct reader *r, const char *want,
                      struct error *err)
{
    if (r->at == r->end)
        return error_set(err, ERR_INVAL,
                         "%s: line %d: the file ends, expected %s",
                         r->ask->path, r->line, want);
    const unsigned char c = (unsigned char)*r->at;
    if (c < ' ' || c >= 0x7f)
        return error_set(err, ERR_INVAL,
                         "%s: line %d: byte 0x%02x, expected %s", r->ask->path,
                         r->line, c, want);
    return error_set(err, ERR_INVAL, "%s: line %d: '%c', expected %s",
                     r->ask->path, r->line, c, want);
}

/* Parses the value at the reader's place; *ret_end is behind it. The library
 * counts lines from the place on. */
static json_t *parse(struct reader *r, const char *end, size_t flags,
                     const char **ret_end, struct error *err)
{
    json_error_t e;
    json_t *v = json_loadb(r->at, (size_t)(end - r->at), flags, &e);
    if (v != NULL) {
        *ret_end = r->at + e.position;
        return v;
    }
    if (json_error_code(&e) == json_error_out_of_memory) {
        (void)error_set(err, ERR_NOMEM, "%s: row %d", r->ask->path, r->row);
        return NULL;
    }
    (void)error_set(err, ERR_INVAL, "%s: row %d: line %d: %s", r->ask->path,
                    r->row, r->line + (e.line > 0 ? e.line - 1 : 0), e.text);
    return NULL;
}

/* Leaves the row out, if it may be. */
static int leave_out(struct reader *r, struct error *err)
{
    struct error why = ERROR_INIT;
    if (err != NULL)
        why = *err;
    if (!r->ask->skip_bad || why.code != ERR_INVAL)
        return -1;
    if (r->skipped->n++ == 0)
        r->skipped->first = why;
    return 0;
}

/* Gives the row away; the reader's line is its first. */
static int give(struct reader *r, json_t *row, struct error *err)
{
    int rc = r->ask->take(r->ask->arg, row, r->row, err);
    json_decref(row);
    if (rc == 0)
        return 0;
    (void)wrap(r, err);
    return leave_out(r, err);
}

static bool wants_more(const struct reader *r)
{
    return r->ask->most == 0 || r->row <= r->ask->most;
}

static int read_lines(struct reader *r, struct error *err)
{
    for (; wants_more(r); r->row++) {
        skip_blank(r);
        if (r->at == r->end)
            return 0;
        const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at)), *to;
        if (end == NULL)
            end = r->end;
        json_t *row = parse(r, end, FLAGS | JSON_DECODE_ANY, &to, err);
        if (row != NULL ? give(r, row, err) < 0 : leave_out(r, err) < 0)
            return -1;
        advance(r, end);
    }
    return 0;
}

static int read_array(struct reader *r, struct error *err)
{
    advance(r, r->at + 1);
    skip_blank(r);
    if (r->at < r->end && *r->at == ']')
        advance(r, r->at + 1);
    else
        for (; wants_more(r); r->row++) {
            const char *to;
            skip_blank(r);
            json_t *row = parse(
                r, r->end, FLAGS | JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK,
                &to, err);
            if (row == NULL || give(r, row, err) < 0)
                return -1;
            advance(r, to);
            skip_blank(r);
            if (r->at == r->end || (*r->at != ',' && *r->at != ']'))
                return unexpected(r, "',' or ']'", err);
            advance(r, r->at + 1);
            if (r->at[-1] == ']')
                break;
        }
    if (!wants_more(r))
        return 0;
    skip_blank(r);
    return r->at == r->end ? 0 : unexpected(r, "the end", err);
}

static int read_all(struct reader *r, struct error *err)
{
    skip_blank(r);
    if (r->at == r->end)
        return 0;
    if (*r->at == '[')
        return read_array(r, err);
    if (*r->at == '{')
        return read_lines(r, err);
    return unexpected(r, "'[' of an array of rows or '{' of a first row", err);
}

int json_rows_read(const struct json_ask *ask, struct json_skipped *ret_skipped,
                   struct error *err)
{
    struct error own = ERROR_INIT; /* a reason is needed to leave a row out */
    struct buf text = BUF_INIT;
    struct reader r = {.ask = ask, .skipped = ret_skipped, .line = 1, .row = 1};
    *ret_skipped = (struct json_skipped){.n = 0};
    err = err != NULL ? err : &own;
    if (buf_read_file(&text, ask->path, INT32_MAX, err) < 0) {
        buf_clear(&text);
        return -1;
    }
    r.at = buf_str(&text);
    r.end = r.at + text.len;
    int rc = read_all(&r, err);
    buf_clear(&text);
    return rc;
}
