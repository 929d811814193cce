/* schema_emit.c - write a struct as JSON and as annotated YAML. See schema.h.
 *
 * Both walk the rows in order and open a section when the path changes, so a
 * table must keep the rows of a section together. Scalars are the same in both:
 * JSON is YAML. */
#include "jobs/schema/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/text/scalar.h"
#include "jobs/text/text.h"

bool schema_is_secret(const char *name)
{
    static const char *const words[] = {"TOKEN", "SECRET", "PASSWORD", "KEY"};
    /* A word only counts at the end of a component: HF_TOKEN,
     * AWS_ACCESS_KEY_ID, but not TOKENIZERS_PARALLELISM. */
    for (const char *p = name; *p; p++) {
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            size_t len = strlen(words[i]);
            if (strncasecmp(p, words[i], len) != 0)
                continue;
            const char *after = p + len;
            after += *after == 's' || *after == 'S';
            if (*after == '\0' || *after == '_')
                return true;
        }
    }
    return false;
}

static int add_list(const struct spec_list *l, struct buf *out,
                    struct error *err)
{
    int rc = buf_add(out, "[", 1, err);
    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        if (i > 0)
            rc = buf_add(out, ",", 1, err);
        if (rc == 0)
            rc = text_add_json(out, l->items[i], err);
    }
    return rc < 0 ? -1 : buf_add(out, "]", 1, err);
}

static int add_map(const struct spec_map *m, bool mask, struct buf *out,
                   struct error *err)
{
    int rc = buf_add(out, "{", 1, err);
    for (size_t i = 0; rc == 0 && i < m->n; i++) {
        const struct spec_pair *p = &m->pairs[i];
        bool secret = mask && schema_is_secret(p->key);
        if (i > 0)
            rc = buf_add(out, ",", 1, err);
        if (rc == 0)
            rc = text_add_json(out, p->key, err);
        if (rc == 0)
            rc = buf_add(out, ":", 1, err);
        if (rc == 0)
            rc = text_add_json(out, secret ? "********" : p->value, err);
    }
    return rc < 0 ? -1 : buf_add(out, "}", 1, err);
}

static const char *word_of(const struct schema_key *k, int64_t v)
{
    for (const struct schema_word *w = k->words; w && w->name; w++)
        if (w->value == v && !w->later)
            return w->name;
    return "?";
}

static int add_int(const struct schema_key *k, const void *member,
                   struct buf *out, struct error *err)
{
    int64_t v = k->size == sizeof(int32_t) ? *(const int32_t *)member
                                           : *(const int64_t *)member;
    bool is_number = (k->min == 0 && k->max == 0) ||
                     ((double)v >= k->min && (double)v <= k->max);
    if (k->null_ok && (double)v == k->none_value)
        return buf_addstr(out, "null", err);
    if (!is_number)
        return text_add_json(out, word_of(k, v), err);
    return buf_addf(out, err, "%lld", (long long)v);
}

static int add_double(const struct schema_key *k, double v, struct buf *out,
                      struct error *err)
{
    char text[SCALAR_CAP];
    if (!isfinite(v) || (k->null_ok && v == k->none_value))
        return buf_addstr(out, "null", err);
    if (k->type == KEY_DURATION)
        return buf_addf(out, err, "\"%s\"", scalar_show_duration(text, v));
    return buf_addstr(out, scalar_show_float(text, v), err);
}

static int add_numbers(const struct spec_numbers *x, struct buf *out,
                       struct error *err)
{
    char text[SCALAR_CAP];
    int rc = buf_addstr(out, "[", err);
    for (int32_t i = 0; i < x->n && rc == 0; i++)
        rc = buf_addf(out, err, "%s%s", i > 0 ? "," : "",
                      scalar_show_float(text, x->v[i]));
    return rc < 0 ? -1 : buf_addstr(out, "]", err);
}

static int add_string(const char *s, struct buf *out, struct error *err)
{
    return s ? text_add_json(out, s, err) : buf_addstr(out, "null", err);
}

static int add_value(const struct schema_key *k, const void *obj, bool mask,
                     struct buf *out, struct error *err)
{
    const void *member = (const char *)obj + k->at;
    const struct spec_range *r = member;
    const struct spec_sizes *sizes = member;
    char text[SCALAR_SIZES_CAP];
    int32_t word = 0;

    switch (k->type) {
    case KEY_INT:
        return add_int(k, member, out, err);
    case KEY_FLOAT:
    case KEY_DURATION:
        return add_double(k, *(const double *)member, out, err);
    case KEY_SIZE:
        if (k->null_ok && *(const int64_t *)member == (int64_t)k->none_value)
            return buf_addstr(out, "null", err);
        return buf_addf(out, err, "\"%s\"",
                        scalar_show_size(text, *(const int64_t *)member));
    case KEY_SIZES:
        if (scalar_show_sizes(text, sizes->min, sizes->max)[0] == '\0')
            return buf_addstr(out, "null", err);
        return buf_addf(out, err, "\"%s\"", text);
    case KEY_BOOL:
        return buf_addstr(out, *(const bool *)member ? "true" : "false", err);
    case KEY_TRISTATE:
        memcpy(&word, member, sizeof(word));
        return buf_addstr(out,
                          word == TRI_AUTO   ? "\"auto\""
                          : word == TRI_TRUE ? "true"
                                             : "false",
                          err);
    case KEY_ENUM:
        memcpy(&word, member, sizeof(word));
        if (k->null_ok && word == (int32_t)k->none_value)
            return buf_addstr(out, "null", err);
        return text_add_json(out, word_of(k, word), err);
    case KEY_NAME:
        return text_add_json(out, member, err);
    case KEY_RANGE:
        return buf_addf(out, err, "{\"min\":%d,\"max\":%d}", r->min, r->max);
    case KEY_NUMBERS:
        return add_numbers(member, out, err);
    case KEY_LIST:
        return add_list(member, out, err);
    case KEY_MAP:
        return add_map(member, mask && k->hidden, out, err);
    case KEY_MAP_TREE:
    case KEY_LIST_TREE: /* handled by the table's owner */
        return buf_addstr(out, "null", err);
    default:
        return add_string(*(char *const *)member, out, err);
    }
}

/* In YAML for display, words and units need no quotes. */
int schema_value(const struct schema_key *k, const void *obj, struct buf *out,
                 struct error *err)
{
    bool is_word = k->type == KEY_ENUM || (k->type == KEY_NAME && k->words) ||
                   k->type == KEY_TRISTATE || k->type == KEY_DURATION ||
                   k->type == KEY_SIZE || k->type == KEY_SIZES;
    struct buf text = BUF_INIT;
    int rc = add_value(k, obj, true, &text, err);
    size_t quote = rc == 0 && is_word && text.data[0] == '"' ? 1 : 0;
    if (rc == 0)
        rc = buf_add(out, text.data + quote, text.len - 2 * quote, err);
    buf_clear(&text);
    return rc;
}

/* ---- sections ------------------------------------------------------------ */

/* The length of the sections that both paths share, including the dot. */
static size_t common_sections(const char *a, const char *b)
{
    size_t same = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '.')
            same = i + 1;
    return same;
}

static int count_dots(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += *s == '.';
    return n;
}

static int add_repeat(struct buf *out, const char *s, int n, struct error *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++)
        rc = buf_addstr(out, s, err);
    return rc;
}

static int json_row(const struct schema_key *k, const char *before,
                    const void *obj, struct buf *out, struct error *err)
{
    size_t same = common_sections(before, k->path);
    int rc = add_repeat(out, "}", count_dots(before + same), err);
    if (rc == 0 && *before)
        rc = buf_add(out, ",", 1, err);
    const char *p = k->path + same;
    for (const char *dot = strchr(p, '.'); rc == 0 && dot;
         p = dot + 1, dot = strchr(p, '.'))
        rc = buf_addf(out, err, "\"%.*s\":{", (int)(dot - p), p);
    if (rc == 0)
        rc = buf_addf(out, err, "\"%s\":", p);
    return rc < 0 ? -1 : add_value(k, obj, false, out, err);
}

int schema_json(const struct schema *s, const void *obj, schema_filter *keep,
                struct buf *out, struct error *err)
{
    struct buf text = BUF_INIT; /* out stays untouched on failure */
    const char *before = "";
    int rc = buf_add(&text, "{", 1, err);
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        if (keep && !keep(&s->keys[i], obj))
            continue;
        rc = json_row(&s->keys[i], before, obj, &text, err);
        before = s->keys[i].path;
    }
    if (rc == 0)
        rc = add_repeat(&text, "}", count_dots(before) + 1, err);
    if (rc == 0)
        rc = buf_add(out, text.data, text.len, err);
    buf_clear(&text);
    return rc;
}

static int yaml_row(const struct schema_key *k, const char *before,
                    const void *obj, struct buf *out, struct error *err)
{
    enum { NOTE_COLUMN = 40 };
    size_t same = common_sections(before, k->path);
    int depth = count_dots(k->path) - count_dots(k->path + same);
    const char *p = k->path + same;
    int rc = 0;
    for (const char *dot = strchr(p, '.'); rc == 0 && dot;
         p = dot + 1, dot = strchr(p, '.')) {
        rc = add_repeat(out, "  ", depth++, err);
        if (rc == 0)
            rc = buf_addf(out, err, "%.*s:\n", (int)(dot - p), p);
    }
    size_t start = out->len;
    if (rc == 0)
        rc = add_repeat(out, "  ", depth, err);
    if (rc == 0)
        rc = buf_addf(out, err, "%s: ", p);
    if (rc == 0)
        rc = schema_value(k, obj, out, err);
    int gap = NOTE_COLUMN - (int)(out->len - start);
    return rc < 0 ? -1 : add_repeat(out, " ", gap > 1 ? gap : 1, err);
}

int schema_yaml(const struct schema *s, const void *obj, schema_filter *keep,
                schema_note *note, void *arg, struct buf *out,
                struct error *err)
{
    struct buf text = BUF_INIT;
    const char *before = "";
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        char words[120];
        if (keep && !keep(&s->keys[i], obj))
            continue;
        rc = yaml_row(&s->keys[i], before, obj, &text, err);
        before = s->keys[i].path;
        if (note)
            note(arg, i, words, sizeof(words));
        while (!note && rc == 0 && text.data[text.len - 1] == ' ')
            text.data[--text.len] = '\0';
        if (rc == 0)
            rc = note ? buf_addf(&text, err, "# %s\n", words)
                      : buf_addstr(&text, "\n", err);
    }
    if (rc == 0)
        rc = buf_add(out, buf_str(&text), text.len, err);
    buf_clear(&text);
    return rc;
}
