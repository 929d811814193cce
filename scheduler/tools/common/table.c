/* table.c - the layout of the tables in render.h.
 *
 * Widths are in terminal columns (wcwidth), so that a name in any script keeps
 * the columns aligned.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/render.h"

/* A figure that is cut is a wrong figure: columns of figures keep their width,
 * up to FIGURE. */
enum { MAX_COLUMNS = RENDER_COLUMNS_MAX, GAP = 2, FIGURE = 20 };
/* COMFORT shows the whole first word of a reason: below it, rather reduce the
 * gaps. */
enum { COMFORT = 16, NARROWEST = 6 };
enum { WIDTH_MAX = (1 << 29) - 1 }; /* of 29 bits */

struct cell {
    uint32_t len;
    uint32_t width : 29, paint : 3; /* in terminal columns; enum render_paint */
};

struct render_table {
    struct render_column columns[MAX_COLUMNS];
    int widths[MAX_COLUMNS]; /* of the widest cell */
    size_t n_columns, n_cells;
    struct buf text;  /* the cells in order, each ended by NUL */
    struct buf cells; /* struct cell */
    struct buf turns; /* struct turn: where parts begin that are printed
                         before the rows so far */
};

struct turn {
    size_t text, cell;
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
    buf_clear(&t->cells);
    buf_clear(&t->turns);
    free(t);
}

/* The width of the first `bytes` of s, at most `limit`; *ret_bytes is how many
 * bytes fit. */
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

/* Escapes the text into out[4 * n + 1]: a byte becomes \xNN at most. Usually
 * the text is plain ASCII, one column per byte. */
static struct cell escape(const char *text, size_t n, char *out)
{
    size_t len = 0;
    while (len < n && text[len] >= ' ' && text[len] < 0x7f) {
        out[len] = text[len];
        len++;
    }
    out[len] = '\0';
    if (len == n)
        return (struct cell){.len = (uint32_t)n, .width = n & WIDTH_MAX};
    (void)render_escape(text, out, 4 * n + 1);
    return (struct cell){.len = (uint32_t)strlen(out),
                         .width = (uint32_t)width_of(out, WIDTH_MAX, NULL) &
                                  WIDTH_MAX};
}

int render_table_put(struct render_table *t, const char *text,
                     struct error *err)
{
    size_t n = strlen(text), column = t->n_cells % t->n_columns;
    if (n > WIDTH_MAX / 4)
        return error_set(err, ERR_NOMEM, "a cell of %zu bytes", n);
    if (buf_reserve(&t->text, 4 * n + 1, err) < 0 ||
        buf_reserve(&t->cells, sizeof(struct cell), err) < 0)
        return -1;
    const struct cell c = escape(text, n, t->text.data + t->text.len);
    t->text.len += c.len + 1;
    if (t->widths[column] < (int)c.width)
        t->widths[column] = (int)c.width;
    t->n_cells++;
    return buf_add(&t->cells, &c, sizeof(c), err);
}

void render_table_paint(struct render_table *t, enum render_paint paint)
{
    struct cell c;
    char *at = t->cells.data + (t->n_cells - 1) * sizeof(c);
    memcpy(&c, at, sizeof(c));
    c.paint = paint & 7u;
    memcpy(at, &c, sizeof(c));
}

int render_table_turn(struct render_table *t, struct error *err)
{
    const struct turn turn = {.text = t->text.len, .cell = t->n_cells};
    return buf_add(&t->turns, &turn, sizeof(turn), err);
}

/* A row has fifty parts: collect them, and write as many bytes at a time as a
 * pipe takes. */
struct sink {
    FILE *out;
    size_t n;
    char at[65536];
};

static void flush(struct sink *s)
{
    (void)fwrite(s->at, 1, s->n, s->out);
    s->n = 0;
}

static void put_bytes(struct sink *s, const char *bytes, size_t n)
{
    if (n > sizeof(s->at) - s->n)
        flush(s);
    if (n > sizeof(s->at)) {
        (void)fwrite(bytes, 1, n, s->out);
        return;
    }
    memcpy(s->at + s->n, bytes, n);
    s->n += n;
}

static void put_blanks(struct sink *s, int n)
{
    static const char blanks[] = "                                ";
    for (; n > 0; n -= (int)sizeof(blanks) - 1)
        put_bytes(s, blanks,
                  n < (int)sizeof(blanks) ? (size_t)n : sizeof(blanks) - 1);
}

/* A cell or a title. */
struct part {
    const char *text;
    size_t len;
    int width;
    const char *before, *after; /* colour sequences; NULL: none */
};

/* *io_owed blanks are written before the next part, so that no line ends in
 * blanks. */
static void put_part(struct sink *s, const struct part *p, int width,
                     enum render_align align, int *io_owed)
{
    size_t bytes = p->len;
    int w = p->width;
    bool cut = w > width;
    if (cut)
        w = width_of(p->text, width - 1, &bytes);
    int pad = width - w - (cut ? 1 : 0);
    if (p->len == 0) {
        *io_owed += pad;
        return;
    }
    put_blanks(s, *io_owed + (align == RENDER_RIGHT ? pad : 0));
    *io_owed = align == RENDER_RIGHT ? 0 : pad;
    if (p->before)
        put_bytes(s, p->before, strlen(p->before));
    put_bytes(s, p->text, bytes);
    if (cut)
        put_bytes(s, "+", 1);
    if (p->after)
        put_bytes(s, p->after, strlen(p->after));
}

static int total_of(const int *widths, size_t n, int gap)
{
    int total = -gap;
    for (size_t i = 0; i < n; i++)
        total += widths[i] + gap;
    return total;
}

/* The widest column that can shrink; n: none. */
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

/* Shrinks the widest columns, then the gaps, then the widest again. */
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

/* How many columns fit: the last ones are left out. */
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
    for (size_t c = 0; c < t->n_columns; c++) {
        int title = header ? width_of(t->columns[c].title, INT32_MAX, NULL) : 0;
        widths[c] = title > t->widths[c] ? title : t->widths[c];
    }
}

static void name_hidden(const struct render_table *t, size_t n, FILE *out)
{
    (void)fputs("no room for: ", out);
    for (size_t c = n; c < t->n_columns; c++)
        (void)fprintf(out, "%s%s", c > n ? ", " : "", t->columns[c].title);
    (void)fputc('\n', out);
}

/* How a table is printed. */
struct print {
    const struct render_style *style;
    int widths[MAX_COLUMNS], gap;
    size_t n; /* columns that fit */
};

static void put_titles(const struct render_table *t, const struct print *p,
                       struct sink *out)
{
    const char *bold = p->style->colour ? "\033[1m" : "";
    const char *end = p->style->colour ? "\033[0m\n" : "\n";
    int owed = 0;
    put_bytes(out, bold, strlen(bold));
    for (size_t c = 0; c < p->n; c++, owed += p->gap) {
        const char *title = t->columns[c].title;
        const struct part part = {.text = title,
                                  .len = strlen(title),
                                  .width = width_of(title, INT32_MAX, NULL)};
        put_part(out, &part, p->widths[c], t->columns[c].align, &owed);
    }
    put_bytes(out, end, strlen(end));
}

/* in  text, cells  those of the row; returns the text of the next row */
static const char *put_row(const struct render_table *t, const struct print *p,
                           const char *text, const char *cells,
                           struct sink *out)
{
    int owed = 0;
    for (size_t i = 0; i < t->n_columns; i++) {
        struct cell c;
        memcpy(&c, cells + i * sizeof(c), sizeof(c));
        const enum render_paint paint = (enum render_paint)c.paint;
        struct part part = {.text = text, .len = c.len, .width = (int)c.width};
        if (paint != RENDER_PLAIN) {
            part.before = render_paint(p->style, paint);
            part.after = render_unpaint(p->style, paint);
        }
        if (i < p->n) {
            put_part(out, &part, p->widths[i], t->columns[i].align, &owed);
            owed += p->gap;
        }
        text += c.len + 1;
    }
    put_bytes(out, "\n", 1);
    return text;
}

static void put_rows(const struct render_table *t, const struct print *p,
                     const struct turn *from, size_t end, struct sink *out)
{
    const char *text = buf_str(&t->text) + from->text;
    for (size_t i = from->cell; i + t->n_columns <= end; i += t->n_columns)
        text =
            put_row(t, p, text, t->cells.data + i * sizeof(struct cell), out);
}

void render_table_print(const struct render_table *t,
                        const struct render_style *s, bool header, FILE *out)
{
    struct print p = {.style = s, .gap = GAP, .n = t->n_columns};
    struct sink sink = {.out = out};
    struct turn turn;
    size_t end = t->n_cells;
    assert(t->n_columns > 0); /* checked in render_table_create() */
    measure(t, header, p.widths);
    if (s->columns)
        p.n = fit(t, p.widths, s->columns, &p.gap);
    if (header)
        put_titles(t, &p, &sink);
    for (size_t i = t->turns.len; i > 0; end = turn.cell) {
        i -= sizeof(turn);
        memcpy(&turn, t->turns.data + i, sizeof(turn));
        put_rows(t, &p, &turn, end, &sink);
    }
    put_rows(t, &p, &(struct turn){.text = 0}, end, &sink);
    flush(&sink);
    if (header && p.n < t->n_columns)
        name_hidden(t, p.n, out);
}
