/* text.c - decode UTF-8, escape, and compare words; see text.h. */
#include "jobs/text/text.h"

#include <stdio.h>
#include <string.h>

int32_t text_next(const char **p, const char *end)
{
    /* By lead byte: the number of bytes that follow, and the smallest valid
     * value. */
    static const int32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)*p;
    size_t left = (size_t)(end - *p);

    (*p)++;
    if (s[0] < 0x80)
        return s[0];
    size_t more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : 1;
    if (s[0] < 0xc2 || s[0] > 0xf4 || left <= more)
        return -1;
    int32_t cp = s[0] & (0x3f >> more);
    for (size_t i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return -1;
        cp = cp << 6 | (s[i] & 0x3f);
    }
    if (cp < least[more] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
        return -1;
    *p += more;
    return cp;
}

void text_copy_n(char *dst, size_t cap, const char *src, size_t n)
{
    const char *end = src + n;
    size_t at = 0;
    while (src < end && *src) {
        const char *from = src;
        int32_t cp = text_next(&src, end);
        bool is_bad = cp < 0x20 || cp == 0x7f;
        size_t len = is_bad ? 1 : (size_t)(src - from);
        if (at + len + 1 > cap)
            break;
        memcpy(dst + at, is_bad ? "?" : from, len);
        at += len;
    }
    dst[at] = '\0';
}

void text_copy(char *dst, size_t cap, const char *src)
{
    text_copy_n(dst, cap, src, strlen(src));
}

static bool is_inside(char c) /* of a character, after its first byte */
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

void text_fit(char *dst, size_t cap, const char *src)
{
    static const char gap[] = " ... ";
    const size_t n = strlen(src);
    if (n < cap || cap <= 2 * sizeof(gap)) {
        text_copy(dst, cap, src);
        return;
    }
    /* A word that takes more than its half is cut. */
    const size_t room = cap - sizeof(gap), half = room / 2;
    size_t front = half;
    while (front > 0 && src[front] != ' ')
        front--;
    front = front > 0 ? front : half;
    while (front > 0 && is_inside(src[front]))
        front--;
    const size_t first = n - (room - front);
    size_t back = first;
    while (back < n && src[back - 1] != ' ')
        back++;
    for (back = back < n ? back : first; is_inside(src[back]);)
        back++;
    text_copy_n(dst, cap, src, front);
    const size_t len = strlen(dst);
    memcpy(dst + len, gap, sizeof(gap));
    text_copy(dst + len + sizeof(gap) - 1, cap - len - sizeof(gap) + 1,
              src + back);
}

bool text_is_control(int32_t cp)
{
    return (cp < 0x20 && cp != '\t' && cp != '\n' && cp != '\r') ||
           (cp >= 0x7f && cp <= 0x9f) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0xfeff || cp == 0xfffe || cp == 0xffff;
}

/* Invisible characters, and those that change the direction of the line. */
static bool is_hidden(int32_t cp)
{
    return text_is_control(cp) || cp < 0x20 || cp == 0xad || cp == 0x61c ||
           (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x202a && cp <= 0x202e) ||
           (cp >= 0x2060 && cp <= 0x206f) || (cp >= 0xe0000 && cp <= 0xe0fff);
}

enum { SHOWN_CAP = 16 };

/* A code point in a form that is safe for a terminal; `raw` are its bytes.
 * Returns the number of bytes in out. */
static size_t show(char out[SHOWN_CAP], int32_t cp, const char *raw, size_t n)
{
    int len = 0;
    if (cp < 0)
        len = snprintf(out, SHOWN_CAP, "\\x%02x", (unsigned char)raw[0]);
    else if (cp == '\t')
        len = snprintf(out, SHOWN_CAP, " ");
    else if (cp == '\n')
        len = snprintf(out, SHOWN_CAP, "\\n");
    else if (cp < 0x80 && is_hidden(cp))
        len = snprintf(out, SHOWN_CAP, "\\x%02x", (unsigned)cp);
    else if (is_hidden(cp))
        len = snprintf(out, SHOWN_CAP, "\\u%04x", (unsigned)cp);
    else {
        memcpy(out, raw, n);
        return n;
    }
    return (size_t)len;
}

int text_columns(int32_t cp)
{
    char out[SHOWN_CAP];
    if (cp >= 0x20 && !is_hidden(cp))
        return 1;
    return (int)show(out, cp, "", 0);
}

int text_add_plain(struct buf *out, const char *s, size_t len,
                   struct error *err)
{
    const char *end = s + len;
    while (s < end) {
        char one[SHOWN_CAP];
        const char *from = s;
        int32_t cp = text_next(&s, end);
        size_t n = show(one, cp, from, (size_t)(s - from));
        if (buf_add(out, one, n, err) < 0)
            return -1;
    }
    return 0;
}

const char *text_quote(char *out, size_t cap, const char *s)
{
    const char *end = s + strlen(s);
    size_t len = 0;
    size_t cut = 0; /* where "..." still fits */
    while (s < end) {
        char one[SHOWN_CAP];
        const char *from = s;
        int32_t cp = text_next(&s, end);
        size_t n = show(one, cp, from, (size_t)(s - from));
        if (len + n >= cap) {
            memcpy(out + cut, "...", 4);
            return out;
        }
        memcpy(out + len, one, n);
        len += n;
        if (len + 3 < cap)
            cut = len;
    }
    out[len] = '\0';
    return out;
}

/* ASCII that needs no escape in JSON. */
static bool is_bare(char c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

int text_add_json(struct buf *out, const char *s, struct error *err)
{
    const char *end = s + strlen(s);
    int rc = buf_add(out, "\"", 1, err);
    while (rc == 0 && s < end) {
        const char *from = s;
        while (is_bare(*s)) /* the NUL is not */
            s++;
        if (s > from && buf_add(out, from, (size_t)(s - from), err) < 0)
            return -1;
        if (s == end)
            break;
        from = s;
        int32_t cp = text_next(&s, end);
        if (cp < 0)
            rc = buf_addstr(out, "\xef\xbf\xbd", err); /* U+FFFD */
        else if (cp == '"' || cp == '\\')
            rc = buf_addf(out, err, "\\%c", (char)cp);
        else if (cp == '\n')
            rc = buf_addstr(out, "\\n", err);
        else if (cp == '\t')
            rc = buf_addstr(out, "\\t", err);
        else if (cp < 0x20 || text_is_control(cp))
            rc = buf_addf(out, err, "\\u%04x", (unsigned)cp);
        else
            rc = buf_add(out, from, (size_t)(s - from), err);
    }
    return rc < 0 ? -1 : buf_add(out, "\"", 1, err);
}

/* Digits, a point, an exponent: what spreadsheets compute nothing from. */
static bool is_plain_number(const char *s)
{
    s += *s == '-' || *s == '+';
    size_t whole = strspn(s, "0123456789");
    s += whole;
    size_t part = *s == '.' ? strspn(s + 1, "0123456789") + 1 : 0;
    s += part;
    if (whole + (part > 0 ? part - 1 : 0) == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        s += s[1] == '-' || s[1] == '+' ? 2 : 1;
        size_t digits = strspn(s, "0123456789");
        if (digits == 0)
            return false;
        s += digits;
    }
    return *s == '\0';
}

int text_add_csv(struct buf *out, const char *s, struct error *err)
{
    bool is_formula = *s && strchr("=+-@\t\r\n", *s) && !is_plain_number(s);
    bool is_quoted = strpbrk(s, ",\"\r\n") != NULL;
    int rc = is_quoted ? buf_addstr(out, "\"", err) : 0;
    if (rc == 0 && is_formula)
        rc = buf_addstr(out, "'", err);
    for (; rc == 0 && *s; s++)
        rc = *s == '"' ? buf_addstr(out, "\"\"", err) : buf_add(out, s, 1, err);
    return rc == 0 && is_quoted ? buf_addstr(out, "\"", err) : rc;
}

int text_distance(const char *a, const char *b)
{
    enum { FAR = 3, CAP = 64 }; /* our own words are shorter than 64 */
    size_t la = strlen(a), lb = strlen(b);
    size_t gap = la > lb ? la - lb : lb - la;
    if (gap >= FAR || la >= CAP || lb >= CAP)
        return FAR;

    /* One row of the usual edit-distance table: row[j] is the distance of
     * a[0..i) to b[0..j). */
    int row[CAP];
    for (size_t j = 0; j <= lb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            int keep = diagonal + (a[i - 1] != b[j - 1]);
            int drop = row[j] + 1;
            int add = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = keep < drop ? keep : drop;
            row[j] = row[j] < add ? row[j] : add;
        }
    }
    return row[lb] < FAR ? row[lb] : FAR;
}

bool text_place_has(const char *place, const char *node)
{
    for (const char *p = place; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, ": ");
        if (strlen(node) == len && strncmp(p, node, len) == 0)
            return true;
        p += strcspn(p, " ");
    }
    return false;
}
