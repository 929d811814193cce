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

#include "scheduler/tools/render.h"

/* A figure that is cut is another figure: columns of them keep their width, as
 * long as it is one that a figure has. */
enum { MAX_COLUMNS = RENDER_COLUMNS_MAX, GAP = 2, FIGURE = 20 };
/* Sixteen show the whole word that a reason begins with: rather less blanks
 * than less of it. */
enum { COMFORT = 16, NARROWEST = 6 };

struct render_table {
    struct render_column columns[MAX_COLUMNS];
    size_t n_columns, n_cells;
    struct buf text;    /* the cells, each ended by NUL */
    struct buf offsets; /* size_t per cell */
    struct buf paints;  /* a byte for each */
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
    buf_clear(&t->paints);
    free(t);
}

int render_table_add(struct render_table *t, struct error *err, const char *fmt,
                     ...)
{
    char raw[512], *more = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(raw, sizeof(raw), fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof(raw)) {
        va_start(ap, fmt);
        n = vasprintf(&more, fmt, ap);
        va_end(ap);
        if (n < 0)
            return error_set(err, ERR_NOMEM, "table");
    }
    int rc = render_table_put(t, more ? more : raw, err);
    free(more);
    return rc;
}

int render_table_put(struct render_table *t, const char *text,
                     struct error *err)
{
    /* A byte is \xNN at most. */
    size_t at = t->text.len, cap = 4 * strlen(text) + 1;
    if (buf_reserve(&t->text, cap, err) < 0 ||
        buf_add(&t->paints, "", 1, err) < 0 ||
        buf_add(&t->offsets, &at, sizeof(at), err) < 0)
        return -1;
    render_escape(text, t->text.data + at, cap);
    t->text.len += strlen(t->text.data + at) + 1;
    t->n_cells++;
    return 0;
}

void render_table_paint(struct render_table *t, enum render_paint paint)
{
    t->paints.data[t->n_cells - 1] = (char)paint;
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
    int width = 0;
    const char *p = s;
    while (*p) {
        size_t n = 1;
        int w = (unsigned char)*p < 0x80 ? 1 : render_char(p, &n);
        if (width + w > limit)
            break;
        width += w;
        p += n;
    }
    if (ret_bytes)
        *ret_bytes = (size_t)(p - s);
    return width;
}

/* A row has fifty parts, and who prints it is the only one that does. */
static void put_bytes(const char *bytes, size_t n, FILE *out)
{
    if (n > 0)
        (void)fwrite_unlocked(bytes, 1, n, out);
}

static void put_blanks(int n, FILE *out)
{
    static const char blanks[] = "                                ";
    for (; n > 0; n -= (int)sizeof(blanks) - 1)
        put_bytes(blanks,
                  n < (int)sizeof(blanks) ? (size_t)n : sizeof(blanks) - 1,
                  out);
}

/* *io_owed blanks are written before what comes next: no line ends in them. */
static void put_cell(const char *text, int width, enum render_align align,
                     const char *before, const char *after, int *io_owed,
                     FILE *out)
{
    size_t bytes = 0;
    int w = width_of(text, width, &bytes);
    bool cut = text[bytes] != '\0';
    if (cut)
        w = width_of(text, width - 1, &bytes);
    int pad = width - w - (cut ? 1 : 0);
    if (*text) {
        put_blanks(*io_owed + (align == RENDER_RIGHT ? pad : 0), out);
        *io_owed = align == RENDER_RIGHT ? 0 : pad;
    } else {
        *io_owed += pad;
    }
    if (*text)
        put_bytes(before, strlen(before), out);
    put_bytes(text, bytes, out);
    if (cut)
        put_bytes("+", 1, out);
    if (*text)
        put_bytes(after, strlen(after), out);
}

static int total_of(const int *widths, size_t n, int gap)
{
    int total = -gap;
    for (size_t i = 0; i < n; i++)
        total += widths[i] + gap;
    return total;
}

/* The widest column that is wider than it has to be; n: none. */
static size_t widest_of(const struct render_table *t, const int *widths,
                        size_t n, int least)
{
    size_t widest = n;
    for (size_t i = 0; i < n; i++) {
        bool is_text = t->columns[i].align == RENDER_LEFT;
        if (t->columns[i].align == RENDER_KEY)
            continue;
        if (widths[i] > (is_text ? least : FIGURE) &&
            (widest == n || widths[i] > widths[widest]))
            widest = i;
    }
    return widest;
}

/* The widest give way, then the blanks between them, then the widest again. */
static bool shrink(const struct render_table *t, int *widths, size_t n,
                   int columns, int *io_gap)
{
    while (total_of(widths, n, *io_gap) > columns) {
        size_t widest =
            widest_of(t, widths, n, *io_gap > 1 ? COMFORT : NARROWEST);
        if (widest < n)
            widths[widest]--;
        else if (*io_gap > 1)
            (*io_gap)--;
        else
            return false;
    }
    return true;
}

/* How many columns there is room for: the last are left out. */
static size_t fit(const struct render_table *t, int *widths, int columns,
                  int *io_gap)
{
    int whole[MAX_COLUMNS];
    size_t n = t->n_columns;
    memcpy(whole, widths, sizeof(whole));
    while (!shrink(t, widths, n, columns, io_gap) && n > 1) {
        memcpy(widths, whole, sizeof(whole));
        *io_gap = GAP;
        n--;
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

static void put_row(const struct render_table *t, const struct render_style *s,
                    size_t at, const int *widths, size_t n, int gap, FILE *out)
{
    int owed = 0;
    for (size_t c = 0; c < n; c++, owed += gap) {
        enum render_paint paint = (enum render_paint)t->paints.data[at + c];
        put_cell(cell(t, at + c), widths[c], t->columns[c].align,
                 render_paint(s, paint), render_unpaint(s, paint), &owed, out);
    }
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
        n = fit(t, widths, s->columns, &gap);
    if (header) {
        int owed = 0;
        (void)fputs(s->colour ? "\033[1m" : "", out);
        for (size_t c = 0; c < n; c++, owed += gap)
            put_cell(t->columns[c].title, widths[c], t->columns[c].align, "",
                     "", &owed, out);
        (void)fputs(s->colour ? "\033[0m\n" : "\n", out);
    }
    for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns)
        put_row(t, s, i, widths, n, gap, out);
    if (header && n < t->n_columns)
        name_hidden(t, n, out);
}
