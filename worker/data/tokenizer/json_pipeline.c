/* json_pipeline.c - see json_pipeline.h.
 *
 * HF tokenizers can do more than is read here, and what is left out would give
 * other ids. So each object has a row with its keys and what they may be, and
 * all else is refused with its path.
 * src  huggingface/tokenizers, tokenizers/src/{normalizers,pre_tokenizers,
 *      decoders} */
#include "worker/data/tokenizer/json_pipeline.h"

#include <stdio.h>
#include <string.h>

#include "worker/data/tokenizer/pretokenize.h"

static const char space_mark[] = "\xe2\x96\x81"; /* U+2581 */

/* A value, and where it is. */
struct at {
    const json_t *v;
    char path[160];
};

/* ---- values ---------------------------------------------------------------
 */

static struct at at_key(const struct at *o, const char *key)
{
    struct at a = {.v = json_object_get(o->v, key)};
    if (json_is_null(a.v))
        a.v = NULL;
    (void)snprintf(a.path, sizeof(a.path), "%.80s%s%.36s", o->path,
                   o->path[0] != '\0' ? "." : "", key);
    return a;
}

static struct at at_index(const struct at *list, size_t i)
{
    struct at a = {.v = json_array_get(list->v, i)};
    (void)snprintf(a.path, sizeof(a.path), "%.100s[%zu]", list->path, i);
    return a;
}

static const char *text_at(const struct at *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o->v, key));
    return s == NULL ? "" : s;
}

/* A value for a message. */
static const char *shown(const struct at *a, char ret[64])
{
    if (json_is_string(a->v))
        (void)snprintf(ret, 64, "'%.40s'", json_string_value(a->v));
    else if (json_is_integer(a->v))
        (void)snprintf(ret, 64, "%lld", (long long)json_integer_value(a->v));
    else
        (void)snprintf(ret, 64, "%s",
                       a->v == NULL           ? "null"
                       : json_is_true(a->v)   ? "true"
                       : json_is_false(a->v)  ? "false"
                       : json_is_object(a->v) ? "an object"
                       : json_is_array(a->v)  ? "a list"
                                              : "a number");
    return ret;
}

static int refuse(const struct at *a, const char *read, struct error *err)
{
    char value[64];
    return error_set(err, ERR_INVAL, "%s is %s, read is %s", a->path,
                     shown(a, value), read);
}

/* in   words  a space between them */
static bool is_one_of(const char *key, const char *words)
{
    const size_t n = strlen(key);
    while (*words != '\0') {
        const size_t len = strcspn(words, " ");
        if (len == n && memcmp(words, key, n) == 0)
            return true;
        words += len + (words[len] == ' ');
    }
    return false;
}

/* in   keys  those that are understood, a space between them */
static int only_keys(const struct at *o, const char *keys, struct error *err)
{
    const char *key;
    json_t *v;
    if (!json_is_object(o->v))
        return refuse(o, "an object", err);
    json_object_foreach((json_t *)o->v, key, v)
    {
        if (strcmp(key, "type") != 0 && !is_one_of(key, keys))
            return error_set(err, ERR_INVAL, "%s.%.40s is not understood%s%s",
                             o->path, key,
                             keys[0] != '\0' ? ", read are: " : "", keys);
    }
    return 0;
}

/* A boolean, or the default of one that is absent. */
static int read_bool(const struct at *o, const char *key, bool absent,
                     bool *ret, struct error *err)
{
    const struct at a = at_key(o, key);
    if (a.v != NULL && !json_is_boolean(a.v))
        return refuse(&a, "true or false", err);
    *ret = a.v == NULL ? absent : json_is_true(a.v);
    return 0;
}

static int need_false(const struct at *o, const char *key, bool absent,
                      struct error *err)
{
    bool is;
    if (read_bool(o, key, absent, &is, err) < 0)
        return -1;
    return is ? error_set(err, ERR_INVAL, "%s.%s is true, read is false",
                          o->path, key)
              : 0;
}

/* A short text that is not empty. */
static int read_short(const struct at *o, const char *key,
                      char ret[TEXT_STEP_BYTES + 1], struct error *err)
{
    const struct at a = at_key(o, key);
    const size_t n = json_string_length(a.v);
    if (!json_is_string(a.v) || n == 0 || n > TEXT_STEP_BYTES)
        return refuse(&a, "a text of 1 to 16 bytes", err);
    memcpy(ret, json_string_value(a.v), n + 1);
    return 0;
}

typedef int read_one(const struct at *o, struct bpe_parts *p,
                     struct error *err);

/* The elements of a Sequence, which may be such themselves, or the object. The
 * JSON parser limits their depth. */
static int each_of(const struct at *o, // NOLINT(misc-no-recursion)
                   const char *list_key, read_one *read, struct bpe_parts *p,
                   struct error *err)
{
    if (strcmp(text_at(o, "type"), "Sequence") != 0)
        return read(o, p, err);
    const struct at list = at_key(o, list_key);
    if (only_keys(o, list_key, err) < 0)
        return -1;
    if (!json_is_array(list.v))
        return refuse(&list, "a list", err);
    for (size_t i = 0; i < json_array_size(list.v); i++) {
        const struct at one = at_index(&list, i);
        if (each_of(&one, list_key, read, p, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- normalizer ------------------------------------------------------------
 */

static int add_step(struct text_steps *s, struct text_step step,
                    struct error *err)
{
    if (s->n == TEXT_STEPS)
        return error_set(err, ERR_INVAL, "more than %d normalizers",
                         TEXT_STEPS);
    s->step[s->n++] = step;
    return 0;
}

/* pattern: {"String": TEXT} and content. */
static int read_replace(const struct at *o, struct text_step *ret,
                        struct error *err)
{
    const struct at pattern = at_key(o, "pattern");
    if (only_keys(o, "pattern content", err) < 0 ||
        only_keys(&pattern, "String", err) < 0 ||
        read_short(&pattern, "String", ret->from, err) < 0)
        return -1;
    return read_short(o, "content", ret->to, err);
}

static int read_normalizer(const struct at *o, struct bpe_parts *p,
                           struct error *err)
{
    struct text_step s = {.kind = TEXT_NFC};
    const struct at type = at_key(o, "type");
    const char *is = text_at(o, "type");
    int rc = 0;
    if (strcmp(is, "NFC") == 0) {
        rc = only_keys(o, "", err);
    } else if (strcmp(is, "Prepend") == 0) {
        s.kind = TEXT_PREPEND;
        rc = only_keys(o, "prepend", err) < 0
                 ? -1
                 : read_short(o, "prepend", s.to, err);
    } else if (strcmp(is, "Replace") == 0) {
        s.kind = TEXT_REPLACE;
        rc = read_replace(o, &s, err);
    } else {
        return refuse(&type, "NFC, Prepend, Replace and Sequence", err);
    }
    return rc < 0 ? -1 : add_step(&p->normal, s, err);
}

/* ---- pre_tokenizer ----------------------------------------------------------
 */

/* A text as an expression that matches it. */
static int quoted(const char *text, struct buf *ret, struct error *err)
{
    for (; *text != '\0'; text++)
        if ((strchr("^$\\.*+?()[]{}|", *text) != NULL &&
             buf_add(ret, "\\", 1, err) < 0) ||
            buf_add(ret, text, 1, err) < 0)
            return -1;
    return 0;
}

static int read_split(const struct at *o, struct bpe_parts *p,
                      struct error *err)
{
    const struct at pattern = at_key(o, "pattern");
    const struct at behavior = at_key(o, "behavior");
    const char *regex = text_at(&pattern, "Regex");
    const char *text = text_at(&pattern, "String");
    struct buf form = BUF_INIT;
    if (only_keys(o, "pattern behavior invert", err) < 0 ||
        only_keys(&pattern, "Regex String", err) < 0 ||
        need_false(o, "invert", false, err) < 0)
        return -1;
    if (strcmp(text_at(o, "behavior"), "Isolated") != 0)
        return refuse(&behavior, "'Isolated'", err);
    if ((regex[0] == '\0') == (text[0] == '\0'))
        return refuse(&pattern, "either Regex or String", err);
    int rc = regex[0] != '\0' ? buf_addstr(&form, regex, err)
                              : quoted(text, &form, err);
    rc = rc < 0 ? rc : bpe_parts_add_pattern(p, buf_str(&form), err);
    buf_clear(&form);
    return rc < 0 ? error_wrap(err, "%s", o->path) : 0;
}

static int read_digits(const struct at *o, struct bpe_parts *p,
                       struct error *err)
{
    bool each;
    if (only_keys(o, "individual_digits", err) < 0 ||
        read_bool(o, "individual_digits", false, &each, err) < 0)
        return -1;
    return bpe_parts_add_pattern(p, each ? "\\p{N}" : "\\p{N}+", err);
}

/* How Metaspace puts its mark before a text: newer files have a word for it,
 * older ones a boolean. */
static int read_scheme(const struct at *o, struct text_step *ret, bool *ret_has,
                       struct error *err)
{
    const struct at scheme = at_key(o, "prepend_scheme");
    const char *is = text_at(o, "prepend_scheme");
    bool old;
    if (read_bool(o, "add_prefix_space", true, &old, err) < 0)
        return -1;
    *ret_has = scheme.v == NULL ? old : strcmp(is, "never") != 0;
    ret->first = strcmp(is, "first") == 0;
    if (scheme.v != NULL && *ret_has && !ret->first &&
        strcmp(is, "always") != 0)
        return refuse(&scheme, "'always', 'first' or 'never'", err);
    if (*ret_has && !old)
        return refuse(&scheme, "'never' with add_prefix_space: false", err);
    return 0;
}

static int read_metaspace(const struct at *o, struct bpe_parts *p,
                          struct error *err)
{
    struct text_step gap = {.kind = TEXT_REPLACE, .from = " "};
    struct text_step before = {.kind = TEXT_PREPEND, .unless_there = true};
    struct buf pattern = BUF_INIT;
    bool has, splits;
    if (only_keys(o,
                  "replacement prepend_scheme add_prefix_space split str_rep",
                  err) < 0 ||
        read_short(o, "replacement", gap.to, err) < 0 ||
        read_scheme(o, &before, &has, err) < 0 ||
        read_bool(o, "split", true, &splits, err) < 0)
        return -1;
    if (strcmp(gap.to, space_mark) != 0 || p->patterns > 0 || p->marks.n > 0)
        return error_set(err, ERR_INVAL,
                         "%s is read with the replacement U+2581 and before "
                         "other pre_tokenizers",
                         o->path);
    memcpy(before.to, gap.to, sizeof(before.to));
    if (add_step(&p->marks, gap, err) < 0 ||
        (has && add_step(&p->marks, before, err) < 0))
        return -1;
    if (!splits)
        return 0;
    int rc = buf_addf(&pattern, err, "%s[^%s]*", gap.to, gap.to);
    rc = rc < 0 ? rc : bpe_parts_add_pattern(p, buf_str(&pattern), err);
    buf_clear(&pattern);
    return rc;
}

static int read_byte_level(const struct at *o, struct bpe_parts *p,
                           struct error *err)
{
    bool regex;
    if (only_keys(o, "add_prefix_space trim_offsets use_regex", err) < 0 ||
        need_false(o, "add_prefix_space", true, err) < 0 ||
        read_bool(o, "use_regex", true, &regex, err) < 0)
        return -1;
    p->chars = false;
    return regex ? bpe_parts_add_pattern(p, pretokenize_gpt2, err) : 0;
}

static int read_pre_tokenizer(const struct at *o, struct bpe_parts *p,
                              struct error *err)
{
    static const struct {
        const char *type;
        read_one *read;
    } kinds[] = {{"Split", read_split},
                 {"Digits", read_digits},
                 {"Metaspace", read_metaspace},
                 {"ByteLevel", read_byte_level}};
    const struct at type = at_key(o, "type");
    if (!p->chars)
        return error_set(err, ERR_INVAL,
                         "%s is behind ByteLevel, which has to be the last",
                         o->path);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(text_at(o, "type"), kinds[i].type) == 0)
            return kinds[i].read(o, p, err);
    return refuse(&type, "Split, Digits, Metaspace, ByteLevel and Sequence",
                  err);
}

/* ---- decoder ----------------------------------------------------------------
 */

/* One space at the beginning of the text. */
static int read_strip(const struct at *o, struct bpe_parts *p,
                      struct error *err)
{
    const struct at start = at_key(o, "start"), stop = at_key(o, "stop");
    const struct at content = at_key(o, "content");
    if (only_keys(o, "content start stop", err) < 0)
        return -1;
    if (strcmp(text_at(o, "content"), " ") != 0)
        return refuse(&content, "' '", err);
    if (!json_is_integer(start.v) || json_integer_value(start.v) != 1)
        return refuse(&start, "1", err);
    if (!json_is_integer(stop.v) || json_integer_value(stop.v) != 0)
        return refuse(&stop, "0", err);
    p->strips = true;
    return 0;
}

static int read_gap(const struct at *o, struct bpe_parts *p, struct error *err)
{
    struct text_step s = {.kind = TEXT_REPLACE};
    const struct at content = at_key(o, "content");
    if (read_replace(o, &s, err) < 0)
        return -1;
    if (strcmp(s.to, " ") != 0)
        return refuse(&content, "' '", err);
    memcpy(p->gap, s.from, sizeof(p->gap));
    return 0;
}

static int read_decoder(const struct at *o, struct bpe_parts *p,
                        struct error *err)
{
    const struct at type = at_key(o, "type");
    const char *is = text_at(o, "type");
    struct text_step scheme = {.kind = TEXT_PREPEND};
    if (strcmp(is, "ByteFallback") == 0 || strcmp(is, "Fuse") == 0)
        return only_keys(o, "", err);
    if (strcmp(is, "Replace") == 0)
        return read_gap(o, p, err);
    if (strcmp(is, "Strip") == 0)
        return read_strip(o, p, err);
    if (strcmp(is, "Metaspace") != 0)
        return refuse(&type,
                      "Replace, ByteFallback, Fuse, Strip, Metaspace and "
                      "Sequence, or ByteLevel alone",
                      err);
    if (only_keys(o,
                  "replacement prepend_scheme add_prefix_space split str_rep",
                  err) < 0 ||
        read_short(o, "replacement", p->gap, err) < 0)
        return -1;
    return read_scheme(o, &scheme, &p->strips, err);
}

/* ---- all
 * --------------------------------------------------------------------- */

/* Without ByteLevel tokens are text, and the decoder says which part of it. */
static int read_decoders(const struct at *o, struct bpe_parts *p,
                         struct error *err)
{
    const struct at type = at_key(o, "type");
    if (p->chars)
        return each_of(o, "decoders", read_decoder, p, err);
    if (o->v == NULL)
        return 0;
    if (strcmp(text_at(o, "type"), "ByteLevel") != 0)
        return refuse(&type, "ByteLevel, as the pre_tokenizer", err);
    return only_keys(o, "add_prefix_space trim_offsets use_regex", err);
}

int json_pipeline_read(const json_t *root, struct bpe_parts *p, bool *ret_bytes,
                       struct error *err)
{
    const struct at top = {.v = root};
    const struct at normal = at_key(&top, "normalizer");
    const struct at pre = at_key(&top, "pre_tokenizer");
    const struct at decoder = at_key(&top, "decoder");
    p->chars = true;
    if ((normal.v != NULL &&
         each_of(&normal, "normalizers", read_normalizer, p, err) < 0) ||
        (pre.v != NULL &&
         each_of(&pre, "pretokenizers", read_pre_tokenizer, p, err) < 0) ||
        read_decoders(&decoder, p, err) < 0)
        return -1;
    *ret_bytes = !p->chars;
    return 0;
}
