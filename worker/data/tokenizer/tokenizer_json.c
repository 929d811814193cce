/* tokenizer_json.c - read tokenizer.json; see tokenizer_bpe.h.
 *
 * HF tokenizers can do more than what is read here, which is BPE: of bytes, as
 * Llama 3, Qwen and SmolLM have it, or of characters with tokens for bytes, as
 * Llama 2 and Mistral. All else would give other ids, and is refused with its
 * path. Post-processors add ids around the text, which templates do here. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "worker/data/tokenizer/json_pipeline.h"
#include "worker/data/tokenizer/tokenizer_bpe.h"

bool tokenizer_is_json(const struct buf *file)
{
    const char *p = buf_str(file);
    p += strspn(p, " \t\r\n");
    return *p == '{';
}

/* ---- values ------------------------------------------------------------- */

/* NULL: absent, or null. */
static const json_t *value_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_null(v) ? NULL : v;
}

/* "" if there is none. */
static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s == NULL ? "" : s;
}

static bool is_type(const json_t *o, const char *type)
{
    return strcmp(text_of(o, "type"), type) == 0;
}

/* Absent, null, false, 0 or "". */
static bool is_off(const json_t *o, const char *key)
{
    const json_t *v = value_of(o, key);
    return v == NULL || json_is_false(v) ||
           (json_is_number(v) && json_number_value(v) == 0) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

/* A word for a value, for a message. */
static const char *shown(const json_t *o, const char *key)
{
    const json_t *v = value_of(o, key);
    if (json_is_object(v))
        return text_of(v, "type");
    return v == NULL           ? "null"
           : json_is_string(v) ? json_string_value(v)
                               : "set";
}

/* ---- what is refused ---------------------------------------------------- */

static int check_model(const json_t *model, struct error *err)
{
    static const char *const keys[] = {"dropout", "continuing_subword_prefix",
                                       "end_of_word_suffix"};
    if (value_of(model, "type") != NULL && !is_type(model, "BPE"))
        return error_set(err, ERR_INVAL,
                         "model.type is '%.40s', only BPE is read",
                         text_of(model, "type"));
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!is_off(model, keys[i]))
            return error_set(err, ERR_INVAL,
                             "model.%s is '%.40s', only a BPE without it is "
                             "read",
                             keys[i], shown(model, keys[i]));
    if (json_object_size(json_object_get(model, "vocab")) == 0 ||
        !json_is_array(json_object_get(model, "merges")))
        return error_set(err, ERR_INVAL,
                         "model has no vocab (an object) or no merges (a "
                         "list), which BPE needs");
    return 0;
}

/* Without tokens for bytes a character without a token would be lost, or unk.
 */
static int check_fallback(const json_t *model, bool bytes, struct error *err)
{
    if (bytes == is_off(model, "byte_fallback"))
        return 0;
    return error_set(err, ERR_INVAL,
                     bytes ? "model.byte_fallback is set beside ByteLevel, "
                             "only false is read"
                           : "model.byte_fallback is off, without ByteLevel "
                             "in pre_tokenizer only true is read");
}

/* ---- tokens ------------------------------------------------------------- */

/* in   v  an id of a token; what is none gives -1 */
static int32_t id_of(const json_t *v)
{
    const json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    return n >= 0 && n < BPE_IDS_MAX ? (int32_t)n : -1;
}

static int put_added(const json_t *v, const char *text, size_t len, int32_t id,
                     struct added_tokens *ret, struct error *err)
{
    const struct added_token t = {
        .id = id,
        .special = !json_is_false(json_object_get(v, "special")),
        .single_word = json_is_true(json_object_get(v, "single_word")),
        .lstrip = json_is_true(json_object_get(v, "lstrip")),
        .rstrip = json_is_true(json_object_get(v, "rstrip"))};
    return added_tokens_put(ret, t, text, len, err);
}

/* What is found in a changed text has been changed as well, and is so shown. */
static int add_found(const json_t *v, const char *name, int32_t id,
                     struct bpe_parts *p, struct error *err)
{
    const bool formed = json_is_true(json_object_get(v, "normalized"));
    const bool is_text = json_is_false(json_object_get(v, "special"));
    struct buf work[2] = {BUF_INIT, BUF_INIT};
    const char *text = name;
    size_t len = strlen(name);
    int rc = formed ? text_steps_apply(&p->normal, name, len, TEXT_BEGINS, work,
                                       &text, &len, err)
                    : 0;
    if (rc == 0)
        rc = put_added(v, text, len, id, formed ? &p->formed : &p->raw, err);
    if (rc == 0)
        rc = bpe_parts_add_special(p, is_text ? text : name, id, is_text, err);
    buf_clear(&work[0]);
    buf_clear(&work[1]);
    return rc;
}

/* in   finds  they are found in texts, if they are not special */
static int read_special(const json_t *root, bool finds, struct bpe_parts *p,
                        struct error *err)
{
    const json_t *list = value_of(root, "added_tokens"), *v;
    size_t i;
    if (list != NULL && !json_is_array(list))
        return error_set(err, ERR_INVAL, "added_tokens is not a list");
    json_array_foreach(list, i, v)
    {
        const char *name = text_of(v, "content");
        const int32_t id = id_of(json_object_get(v, "id"));
        if (id < 0 || name[0] == '\0')
            return error_set(err, ERR_INVAL,
                             "added_tokens: number %zu needs a content and an "
                             "id from 0 to %d",
                             i + 1, BPE_IDS_MAX - 1);
        const bool is_text = json_is_false(json_object_get(v, "special"));
        if ((finds ? add_found(v, name, id, p, err)
                   : bpe_parts_add_special(p, name, id, is_text, err)) < 0)
            return error_wrap(err, "added_tokens[%zu]", i);
    }
    added_tokens_sort(&p->raw);
    added_tokens_sort(&p->formed);
    return bpe_parts_sort_special(p, err) < 0 ? error_wrap(err, "added_tokens")
                                              : 0;
}

/* GPT-2's alphabet: a byte that is printed is itself, and the others are the
 * characters from U+0100 on, in their order. */
static void make_alphabet(unsigned char ret[512], bool ret_has[512])
{
    int more = 256;
    memset(ret_has, 0, 512 * sizeof(*ret_has));
    for (int b = 0; b < 256; b++) {
        const bool printed = (b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad);
        const int c = printed ? b : more++;
        ret[c] = (unsigned char)b;
        ret_has[c] = true;
    }
}

struct alphabet {
    bool is_text; /* tokens are written as they are */
    unsigned char byte[512];
    bool has[512];
};

/* The byte that a character stands for; -1: none. */
static int byte_of(const struct alphabet *a, int32_t c)
{
    return c >= 0 && c < 512 && a->has[c] ? a->byte[c] : -1;
}

/* Whether bytes_of() can read it. */
static bool is_written(const struct alphabet *a, const char *p)
{
    const char *end = p + strlen(p);
    while (!a->is_text && p < end)
        if (byte_of(a, text_next(&p, end)) < 0)
            return false;
    return true;
}

/* Replaces the content of ret. */
static int bytes_of(const struct alphabet *a, const char *p, size_t len,
                    struct buf *ret, struct error *err)
{
    const char *end = p + len;
    buf_reset(ret);
    if (a->is_text)
        return buf_add(ret, p, len, err);
    while (p < end) {
        const int32_t c = text_next(&p, end);
        if (byte_of(a, c) < 0)
            return error_set(err, ERR_INVAL,
                             "a token with U+%04X, which is no byte of "
                             "ByteLevel's alphabet",
                             c < 0 ? 0xfffdU : (unsigned)c);
        const char byte = (char)byte_of(a, c);
        if (buf_add(ret, &byte, 1, err) < 0)
            return -1;
    }
    return 0;
}

static int32_t highest_id(json_t *vocab)
{
    int32_t most = 0;
    const char *key;
    json_t *v;
    json_object_foreach(vocab, key, v)
    {
        const int32_t id = id_of(v);
        most = id > most ? id : most;
    }
    return most;
}

/* <0x00> to <0xFF>: what a character without a token becomes. */
static int find_bytes(struct bpe_parts *p, struct error *err)
{
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "<0x%02X>", b);
        p->byte_id[b] = bpe_vocab_find(&p->vocab, name, 6);
        if (p->byte_id[b] < 0)
            return error_set(err, ERR_INVAL,
                             "%s is not there, which byte_fallback needs",
                             name);
    }
    return 0;
}

/* No text becomes a special token. The others that were added have their names
 * as texts, and may be what tokens merge to, unless their names are no bytes of
 * the alphabet. */
static int add_token(const struct alphabet *a, const char *key, int32_t id,
                     struct buf *bytes, struct bpe_parts *p, struct error *err)
{
    const struct bpe_special *s = bpe_parts_special(p, id);
    if (s != NULL && (!s->shown || !is_written(a, key)))
        return 0;
    return bytes_of(a, key, strlen(key), bytes, err) < 0
               ? -1
               : bpe_vocab_add(&p->vocab, id, buf_str(bytes), bytes->len, err);
}

static int read_vocab(json_t *vocab, const struct alphabet *a,
                      struct bpe_parts *p, struct error *err)
{
    struct buf bytes = BUF_INIT;
    const char *key;
    json_t *v;
    int rc = bpe_vocab_init(&p->vocab, highest_id(vocab) + 1, err);
    json_object_foreach(vocab, key, v)
    {
        const int32_t id = id_of(v);
        if (rc < 0)
            break;
        if (id < 0)
            rc = error_set(err, ERR_INVAL, "'%.40s' has no id from 0 to %d",
                           key, BPE_IDS_MAX - 1);
        else
            rc = add_token(a, key, id, &bytes, p, err);
    }
    buf_clear(&bytes);
    rc = rc == 0 && p->chars ? find_bytes(p, err) : rc;
    return rc < 0 ? error_wrap(err, "model.vocab") : 0;
}

/* A merge is "left right", or since 2024 ["left", "right"]. */
struct sides {
    const char *at[2];
    size_t len[2];
};

static bool sides_of(const json_t *v, struct sides *ret)
{
    if (json_is_string(v)) {
        const char *gap = strchr(json_string_value(v), ' ');
        if (gap == NULL)
            return false;
        ret->at[0] = json_string_value(v);
        ret->len[0] = (size_t)(gap - ret->at[0]);
        ret->at[1] = gap + 1;
        ret->len[1] = json_string_length(v) - ret->len[0] - 1;
        return true;
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *side = json_array_get(v, i);
        ret->at[i] = json_string_value(side);
        ret->len[i] = json_string_length(side);
    }
    return json_array_size(v) == 2 && ret->at[0] != NULL && ret->at[1] != NULL;
}

static int read_merge(const json_t *v, int32_t rank, const struct alphabet *a,
                      struct bpe_vocab *vocab, struct buf *bytes,
                      struct error *err)
{
    struct sides s;
    int32_t id[2];
    if (!sides_of(v, &s))
        return error_set(err, ERR_INVAL, "not two tokens");
    for (int i = 0; i < 2; i++) {
        if (bytes_of(a, s.at[i], s.len[i], bytes, err) < 0)
            return -1;
        id[i] = bytes->len == 0
                    ? -1
                    : bpe_vocab_find(vocab, bytes->data, bytes->len);
        if (id[i] < 0)
            return error_set(err, ERR_INVAL, "'%.40s' is not in model.vocab",
                             s.at[i]);
    }
    return bpe_vocab_merge(vocab, id[0], id[1], rank, err);
}

static int read_merges(const json_t *merges, const struct alphabet *a,
                       struct bpe_vocab *vocab, struct error *err)
{
    struct buf bytes = BUF_INIT;
    const json_t *v;
    size_t i;
    int rc = 0;
    if (json_array_size(merges) > INT32_MAX / 2)
        return error_set(err, ERR_INVAL, "too many merges");
    json_array_foreach(merges, i, v)
    {
        rc = read_merge(v, (int32_t)i, a, vocab, &bytes, err);
        if (rc < 0) {
            rc = error_wrap(err, "model.merges: number %zu", i + 1);
            break;
        }
    }
    buf_clear(&bytes);
    return rc;
}

/* ---- the file ----------------------------------------------------------- */

static int read_root(const json_t *root, struct bpe_parts *p, struct error *err)
{
    const json_t *model = value_of(root, "model");
    struct alphabet a;
    bool bytes;
    make_alphabet(a.byte, a.has);
    if (check_model(model, err) < 0 ||
        json_pipeline_read(root, p, &bytes, err) < 0 ||
        check_fallback(model, bytes, err) < 0 ||
        read_special(root, true, p, err) < 0)
        return -1;
    a.is_text = !bytes;
    p->whole = json_is_true(json_object_get(model, "ignore_merges"));
    if (read_vocab(json_object_get(model, "vocab"), &a, p, err) < 0)
        return -1;
    return read_merges(json_object_get(model, "merges"), &a, &p->vocab, err);
}

static int load(const struct buf *file, json_t **ret, struct error *err)
{
    json_error_t why;
    json_t *root =
        json_loadb(buf_str(file), file->len, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL)
        return error_set(err, ERR_INVAL, "line %d: %.100s", why.line, why.text);
    *ret = root;
    return 0;
}

int tokenizer_json_read(const struct buf *file, struct bpe_parts *ret,
                        struct error *err)
{
    struct bpe_parts p = {.whole = false};
    json_t *root;
    if (load(file, &root, err) < 0)
        return -1;
    const int rc = read_root(root, &p, err);
    json_decref(root);
    if (rc == 0)
        *ret = p;
    else
        bpe_parts_clear(&p);
    return rc;
}

int tokenizer_json_special(const struct buf *file, struct bpe_parts *ret,
                           struct error *err)
{
    json_t *root;
    if (load(file, &root, err) < 0)
        return -1;
    const int rc = read_special(root, false, ret, err);
    json_decref(root);
    return rc;
}
