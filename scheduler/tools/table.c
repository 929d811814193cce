/* table.c - the tables of render.h.
 *
 * Widths are in terminal columns (wcwidth), so that a name in any script
 * keeps the columns straight.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "scheduler/tools/render.h"

enum { MAX_COLUMNS = 32, CELL_CAP = 512, GAP = 2, NARROWEST = 6 };

struct render_table {
    struct render_column columns[MAX_COLUMNS];
    size_t n_columns, n_cells;
    struct buf text;    /* the cells, each ended by NUL */
    struct buf offsets; /* size_t per cell */
};

int render_table_create(const struct render_column *columns, size_t n,
                        struct render_table **ret, struct error *err)
{
    if (n == 0 || n > MAX_COLUMNS)
        return error_set(err, ERR_INTERNAL, "a table of %zu columns", n);
    struct render_table *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, ERR_NOMEM, "table");
    memcpy(t->columns, columns, n * sizeof(*columns));
    t->n_columns = n;
    *ret = t;
    return 0;
}

void render_table_destroy(struct render_table *t)
{
    if (!t)
        return;
    buf_clear(&t->text);
    buf_clear(&t->offsets);
    free(t);
}

int render_table_add(struct render_table *t, struct error *err, const char *fmt,
                     ...)
{
    char raw[CELL_CAP];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(raw, sizeof(raw), fmt, ap);
    va_end(ap);
    return render_table_put(t, raw, err);
}

int render_table_put(struct render_table *t, const char *text,
                     struct error *err)
{
    char safe[2 * CELL_CAP];
    render_escape(text, safe, sizeof(safe));
    size_t at = t->text.len;
    if (buf_add(&t->offsets, &at, sizeof(at), err) < 0 ||
        buf_add(&t->text, safe, strlen(safe) + 1, err) < 0)
        return -1;
    t->n_cells++;
    return 0;
}

static const char *cell(const struct render_table *t, size_t i)
{
    size_t at;
    memcpy(&at, t->offsets.data + i * sizeof(at), sizeof(at));
    return t->text.data + at;
}

/* The columns that the first `bytes` of s take, at most `limit`; *ret_bytes
 * says how many bytes fit. */
static int width_of(const char *s, int limit, size_t *ret_bytes)
{
    mbstate_t state = {0};
    int width = 0;
    const char *p = s;
    while (*p) {
        wchar_t wc;
        if ((unsigned char)*p < 0x80) { /* the most, and printable */
            if (width >= limit)
                break;
            width++;
            p++;
            continue;
        }
        size_t n = mbrtowc(&wc, p, strlen(p), &state);
        int w = 1;
        if (n == (size_t)-1 || n == (size_t)-2) {
            n = 1; /* a C locale: count bytes */
            memset(&state, 0, sizeof(state));
        } else {
            w = wcwidth(wc);
            w = w < 0 ? 1 : w;
        }
        if (width + w > limit)
            break;
        width += w;
        p += n;
    }
    if (ret_bytes)
        *ret_bytes = (size_t)(p - s);
    return width;
}

static void put_blanks(int n, FILE *out)
{
    static const char blanks[] = "                                ";
    for (; n > 0; n -= (int)sizeof(blanks) - 1)
        (void)fwrite(blanks, 1,
                     n < (int)sizeof(blanks) ? (size_t)n : sizeof(blanks) - 1,
                     out);
}

static void put_cell(const char *text, int width, enum render_align align,
                     int gap, FILE *out)
{
    size_t bytes = 0;
    int w = width_of(text, width, &bytes);
    bool cut = text[bytes] != '\0';
    if (cut)
        w = width_of(text, width - 1, &bytes);
    int pad = width - w - (cut ? 1 : 0);
    if (align == RENDER_RIGHT)
        put_blanks(pad, out);
    (void)fwrite(text, 1, bytes, out);
    if (cut)
        (void)fputc('+', out);
    if (gap > 0)
        put_blanks((align == RENDER_LEFT ? pad : 0) + gap, out);
}

static int total_of(const int *widths, size_t n, int gap)
{
    int total = -gap;
    for (size_t i = 0; i < n; i++)
        total += widths[i] + gap;
    return total;
}

/* How many columns there is room for: the widest give way first, then the
 * blanks between them, then the last. */
static size_t fit(int *widths, size_t n, int columns, int *io_gap)
{
    while (total_of(widths, n, *io_gap) > columns) {
        size_t widest = 0;
        for (size_t i = 0; i < n; i++)
            if (widths[i] > widths[widest])
                widest = i;
        if (widths[widest] > NARROWEST)
            widths[widest]--;
        else if (*io_gap > 1)
            (*io_gap)--;
        else if (n > 1)
            n--;
        else
            break;
    }
    return n;
}

static void measure(const struct render_table *t, bool header, int *widths)
{
    for (size_t c = 0; c < t->n_columns; c++)
        widths[c] = header ? width_of(t->columns[c].title, INT32_MAX, NULL) : 0;
    for (size_t i = 0; i < t->n_cells; i++) {
        int w = width_of(cell(t, i), INT32_MAX, NULL);
        size_t c = i % t->n_columns;
        widths[c] = w > widths[c] ? w : widths[c];
    }
}

static void name_hidden(const struct render_table *t, size_t n, FILE *out)
{
    (void)fputs("no room for: ", out);
    for (size_t c = n; c < t->n_columns; c++)
        (void)fprintf(out, "%s%s", c > n ? ", " : "", t->columns[c].title);
    (void)fputc('\n', out);
}

void render_table_print(const struct render_table *t,
                        const struct render_style *s, bool header, FILE *out)
{
    int widths[MAX_COLUMNS] = {0}, gap = GAP;
    size_t n = t->n_columns;
    assert(t->n_columns > 0); /* checked when it was created */
    measure(t, header, widths);
    if (s->columns)
        n = fit(widths, n, s->columns, &gap);
    if (header) {
        (void)fputs(s->colour ? "\033[1m" : "", out);
        for (size_t c = 0; c < n; c++)
            put_cell(t->columns[c].title, widths[c], t->columns[c].align,
                     c + 1 < n ? gap : 0, out);
        (void)fputs(s->colour ? "\033[0m\n" : "\n", out);
    }
    for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns) {
        for (size_t c = 0; c < n; c++)
            put_cell(cell(t, i + c), widths[c], t->columns[c].align,
                     c + 1 < n ? gap : 0, out);
        (void)fputc('\n', out);
    }
    if (header && n < t->n_columns)
        name_hidden(t, n, out);
}
