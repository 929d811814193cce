/* render.c - format times, sizes and bars, escape and wrap text; see
 * render.h. */
#include "scheduler/tools/common/render.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

void render_style_init(struct render_style *s, FILE *out)
{
    int fd = fileno(out);
    struct winsize ws;
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    bool tty = isatty(fd) == 1;

    *s = (struct render_style){.columns = 0};
    if (tty) {
        bool has = ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col;
        s->columns = has ? ws.ws_col : 80;
        s->rows = has && ws.ws_row ? ws.ws_row : 24;
    }
    s->colour = tty && !(no_colour && *no_colour) &&
                !(term && strcmp(term, "dumb") == 0);
    s->ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

int render_colour(const char *when, int *ret, struct error *err)
{
    static const char *const words[] = {"never", "auto", "always"};
    for (int i = 0; i < 3; i++)
        if (strcmp(when, words[i]) == 0) {
            *ret = i - 1;
            return 0;
        }
    return error_set(err, ERR_USAGE,
                     "--color '%.40s': expected auto, always or never", when);
}

/* The length of the UTF-8 sequence at p and its character; 0 if it is invalid:
 * overlong, a surrogate, beyond U+10FFFF. */
static size_t sequence(const unsigned char *p, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] < 0x80             ? 1
               : (p[0] & 0xe0) == 0xc0 ? 2
               : (p[0] & 0xf0) == 0xe0 ? 3
               : (p[0] & 0xf8) == 0xf0 ? 4
                                       : 0;
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (n == 0 || c < least[n] || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
        return 0;
    *ret = c;
    return n;
}

/* Control characters, and characters without a width or with an influence on
 * the text direction: the reader would not see them. */
static bool is_hidden(uint32_t c)
{
    static const struct {
        uint32_t from, to;
    } hidden[] = {{0x00, 0x1f},     {0x7f, 0x9f},      {0xad, 0xad},
                  {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                  {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                  {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        if (c >= hidden[i].from && c <= hidden[i].to)
            return true;
    return false;
}

char *render_escape(const char *text, char *out, size_t cap)
{
    size_t len = 0;
    const unsigned char *p = (const unsigned char *)(text ? text : "");

    while (*p) {
        uint32_t c = 0;
        if (*p >= ' ' && *p < 0x7f && len + 1 < cap) { /* most bytes are
                                                          printable ASCII */
            out[len++] = (char)*p++;
            continue;
        }
        size_t n = sequence(p, &c);
        bool plain = n > 0 && !is_hidden(c);
        if (len + (plain ? n : 4) >= cap)
            break;
        if (plain) {
            memcpy(out + len, p, n);
            len += n;
            p += n;
        } else {
            (void)snprintf(out + len, cap - len, "\\x%02x", *p);
            len += 4;
            p++;
        }
    }
    out[len] = '\0';
    return out;
}

const char *render_paint(const struct render_style *s, enum render_paint paint)
{
    static const char *const codes[] = {"", "\033[32m", "\033[31m", "\033[33m"};
    return s->colour ? codes[paint] : "";
}

const char *render_unpaint(const struct render_style *s,
                           enum render_paint paint)
{
    return s->colour && paint != RENDER_PLAIN ? "\033[0m" : "";
}

int render_char(const char *p, size_t *ret_bytes)
{
    mbstate_t state = {0};
    wchar_t wc;
    *ret_bytes = 1;
    if ((unsigned char)*p < 0x80) /* most characters are ASCII */
        return 1;
    size_t n = mbrtowc(&wc, p, strnlen(p, MB_LEN_MAX), &state);
    if (n == (size_t)-1 || n == (size_t)-2)
        return 1; /* a C locale: count bytes */
    *ret_bytes = n;
    int w = wcwidth(wc);
    return w < 0 ? 1 : w;
}

/* The column at which the value of " gpus 2 on n1" begins; for other lines,
 * their indentation plus two. */
static size_t hang(const char *line, size_t len)
{
    size_t own = 0, at;
    while (own < len && line[own] == ' ')
        own++;
    for (at = own; at + 1 < len && at < 14; at++)
        if (line[at] == ' ' && line[at + 1] == ' ')
            break;
    if (at + 1 >= len || at >= 14)
        return own + 2;
    while (at < len && line[at] == ' ')
        at++;
    return at < 24 ? at : own + 2;
}

/* The bytes of a line that fit: up to the end of a part (two or more blanks
 * follow it), else up to a blank. There is no break before `own`. Colour
 * sequences have no width. */
static size_t fitting(const char *line, size_t len, size_t own, int columns)
{
    size_t part = 0, blank = 0, i = 0;
    int width = 0;
    while (i < len) {
        if (line[i] == '\033') {
            while (i < len && line[i] != 'm')
                i++;
            i += i < len;
            continue;
        }
        size_t n;
        int w = render_char(line + i, &n);
        if (line[i] == ' ' && width > 0) {
            bool ends_word = line[i - 1] != ' ';
            blank = ends_word ? i : blank;
            if (ends_word && i > own && i + 1 < len && line[i + 1] == ' ')
                part = i;
        }
        width += w;
        if (width > columns)
            return part ? part : blank ? blank : i;
        i += n;
    }
    return len;
}

/* The columns of the first `bytes` bytes, which end with a character. */
static size_t columns_of(const char *text, size_t bytes)
{
    size_t width = 0, n;
    for (size_t i = 0; i < bytes; i += n)
        width += (size_t)render_char(text + i, &n);
    return width;
}

void render_wrapped(const char *text, int columns, FILE *out)
{
    static const char command[] = "  mgpu-"; /* a command to copy: do not
                                                wrap it */
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool is_whole = strncmp(text, command, sizeof(command) - 1) == 0;
        size_t own = hang(text, len);
        own = (int)own < columns / 2 ? own : 0;
        size_t indent = own <= len ? columns_of(text, own) : own;
        int room = columns;
        for (;;) {
            size_t n = is_whole ? len : fitting(text, len, own, room);
            /* Do not break in the indentation. */
            if (n < len && strspn(text, " ") >= n)
                n = len;
            (void)fwrite(text, 1, n, out);
            while (n < len && text[n] == ' ')
                n++;
            text += n;
            len -= n;
            if (len == 0)
                break;
            (void)fprintf(out, "\n%*s", (int)indent, "");
            room = columns - (int)indent;
            own = 0;
        }
        if (*text == '\n') {
            (void)fputc('\n', out);
            text++;
        }
    }
}

char *render_bytes(double n, char *out, size_t cap)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; isfinite(n) && n >= 1024 && u < 4; u++)
        n /= 1024;
    if (!isfinite(n))
        (void)snprintf(out, cap, "-");
    else
        (void)snprintf(out, cap, u ? "%.1f %s" : "%.0f %s", n, units[u]);
    return out;
}

char *render_count(long long n, char *out, size_t cap)
{
    char digits[32];
    int len =
        snprintf(digits, sizeof(digits), "%llu",
                 n < 0 ? 0ULL - (unsigned long long)n : (unsigned long long)n);
    size_t at = 0;
    if (n < 0 && cap > 1)
        out[at++] = '-';
    for (int i = 0; i < len && at + 2 < cap; i++) {
        if (i && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

static double bucket_mean(const double *v, size_t lo, size_t hi)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = lo; i < hi; i++) {
        if (isfinite(v[i])) {
            sum += v[i];
            n++;
        }
    }
    return n ? sum / (double)n : NAN;
}

char *render_accuracy(double v, char *out, size_t cap)
{
    if (!isfinite(v))
        (void)snprintf(out, cap, "-");
    else if (v >= 0 && v <= 1)
        (void)snprintf(out, cap, "%.2f %%", 100 * v);
    else
        (void)snprintf(out, cap, "%.4g", v);
    return out;
}

char *render_spark(const double *v, size_t n, size_t width, bool ascii,
                   char *out, size_t cap)
{
    static const char *const utf8[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    const char *const *bars = ascii ? plain : utf8;
    size_t buckets = n < width ? n : width, len = 0;
    double lo = INFINITY, hi = -INFINITY;

    for (size_t b = 0; b < buckets; b++) {
        double m = bucket_mean(v, b * n / buckets, (b + 1) * n / buckets);
        lo = m < lo ? m : lo; /* false for NAN */
        hi = m > hi ? m : hi;
    }
    /* A constant's means differ by rounding. */
    bool is_flat = !(hi - lo > 1e-9 * fmax(fabs(lo), fabs(hi)));
    out[0] = '\0';
    for (size_t b = 0; b < buckets; b++) {
        double m = bucket_mean(v, b * n / buckets, (b + 1) * n / buckets);
        int level = !is_flat ? (int)((m - lo) / (hi - lo) * 7.0 + 0.5) : 0;
        const char *bar = isfinite(m) ? bars[level] : " ";
        size_t k = strlen(bar);
        if (len + k >= cap)
            break;
        memcpy(out + len, bar, k + 1);
        len += k;
    }
    return out;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double render_quantile(double *v, size_t n, double q)
{
    if (n == 0)
        return NAN;
    qsort(v, n, sizeof(*v), by_value);
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    if (i + 1 >= n)
        return v[n - 1];
    return v[i] + (at - (double)i) * (v[i + 1] - v[i]);
}
