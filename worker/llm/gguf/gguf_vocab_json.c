/* gguf_vocab_json.c - the tokens of a tokenizer.json; see gguf_vocab.h.
 *
 * tokenizer_json_read() says what the file is, and refuses what we do not
 * read. llama.cpp's converter gives every token of a file with tokens for bytes
 * the score -1000; here a token has that of the first merge that makes it, so
 * that llama.cpp merges in the order of the file. */
#include <string.h>

#include "worker/data/tokenizer/pretokenize.h"
#include "worker/data/tokenizer/tokenizer_bpe.h"
#include "worker/llm/gguf/gguf_vocab.h"

/* How llama.cpp cuts a text, by the expressions of the file.
 * src  llama.cpp, src/llama-vocab.cpp: llm_tokenizer_bpe; conversion/base.py:
 *      get_vocab_base_pre(), read on 2026-11-30 */
struct cut {
    const char *name;
    bool whole; /* a piece that is a token is not merged */
    int patterns;
    const char *pattern[2];
};

static const char qwen2[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const struct cut cuts[] = {
    {"llama-bpe", true, 1, {pretokenize_llama3}},
    {"qwen2", false, 1, {qwen2}},
    {"smollm", false, 2, {"\\p{N}", pretokenize_gpt2}},
    {"gpt-2", false, 1, {pretokenize_gpt2}},
};

static bool is_cut(const struct cut *c, const struct bpe_parts *p)
{
    bool is = c->whole == p->whole && c->patterns == p->patterns;
    for (int i = 0; is && i < c->patterns; i++)
        is = strcmp(c->pattern[i], p->pattern[i]) == 0;
    return is;
}

static int find_cut(const struct bpe_parts *p, const char **ret,
                    struct error *err)
{
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
        if (is_cut(&cuts[i], p)) {
            *ret = cuts[i].name;
            return 0;
        }
    return error_set(err, ERR_INVAL,
                     "pre_tokenizer: llama.cpp has a name for those of Llama "
                     "3, Qwen2, SmolLM and GPT-2, for this one none is known");
}

/* ---- tokens -------------------------------------------------------------- */

/* "<0x0A>" */
static bool is_byte(const char *text)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 &&
           strspn(text + 3, digits) == 2 && text[5] == '>';
}

/* in  last  the score of a token that no merge makes */
static int take_vocab(const json_t *model, float last, struct gguf_vocab *v,
                      struct error *err)
{
    json_t *vocab = json_object_get(model, "vocab"), *id;
    const char *unk = json_string_value(json_object_get(model, "unk_token"));
    const char *text;
    json_object_foreach(vocab, text, id)
    {
        enum gguf_token_type type = GGUF_TOKEN_NORMAL;
        if (v->has_scores && unk != NULL && strcmp(text, unk) == 0)
            type = GGUF_TOKEN_UNKNOWN;
        else if (v->has_scores && is_byte(text))
            type = GGUF_TOKEN_BYTE;
        if (gguf_vocab_set(v, json_integer_value(id), text, type, last, err) <
            0)
            return -1;
    }
    return 0;
}

static int take_added(struct gguf_vocab *v, struct error *err)
{
    const json_t *list = json_object_get(v->json, "added_tokens"), *t;
    size_t i;
    json_array_foreach(list, i, t)
    {
        const json_int_t id = json_integer_value(json_object_get(t, "id"));
        const char *text = json_string_value(json_object_get(t, "content"));
        const bool is_unknown =
            id >= 0 && id < v->size && v->token[id].type == GGUF_TOKEN_UNKNOWN;
        if (text == NULL)
            return error_set(err, ERR_INVAL, "added_tokens[%zu]: no content",
                             i);
        if (!is_unknown &&
            gguf_vocab_set(v, id, text, gguf_vocab_added(t), -1000, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- merges -------------------------------------------------------------- */

/* Appends one side. The list separates two sides by a space, so that a space
 * within one is written as ByteLevel's alphabet has it. */
static int add_side(const char *text, struct buf *to, struct error *err)
{
    for (; *text != '\0'; text++)
        if (buf_addstr(to, *text == ' ' ? "\xc4\xa0" : (char[]){*text, '\0'},
                       err) < 0)
            return -1;
    return 0;
}

/* A merge as "LEFT RIGHT". */
static int read_merge(const json_t *m, struct buf *ret, struct error *err)
{
    const char *left = json_string_value(json_array_get(m, 0));
    const char *right = json_string_value(json_array_get(m, 1));
    buf_reset(ret);
    if (json_is_string(m))
        return buf_add(ret, json_string_value(m), json_string_length(m), err);
    if (left == NULL || right == NULL)
        return error_set(err, ERR_INVAL, "a merge is not two tokens");
    if (add_side(left, ret, err) < 0 || buf_add(ret, " ", 1, err) < 0)
        return -1;
    return add_side(right, ret, err);
}

/* The token that a merge makes gets its score, unless an earlier merge made it.
 */
static int score_merge(const json_t *vocab, struct buf *merge, int64_t rank,
                       float last, struct gguf_vocab *v, struct error *err)
{
    char *gap = strchr(merge->data, ' ');
    if (gap == NULL)
        return error_set(err, ERR_INVAL, "a merge is not two tokens");
    memmove(gap, gap + 1, strlen(gap));
    const json_t *id = json_object_get(vocab, merge->data);
    const json_int_t i = id != NULL ? json_integer_value(id) : -1;
    if (i >= 0 && i < v->size && v->token[i].score == last)
        v->token[i].score = -(float)rank;
    return 0;
}

static int take_merges(const json_t *model, float last, struct gguf_vocab *v,
                       struct error *err)
{
    const json_t *list = json_object_get(model, "merges"), *m;
    const json_t *vocab = json_object_get(model, "vocab");
    struct buf merge = BUF_INIT;
    size_t i;
    int rc = 0;
    json_array_foreach(list, i, m)
    {
        rc = read_merge(m, &merge, err);
        if (rc == 0 && v->has_scores)
            rc = score_merge(vocab, &merge, (int64_t)i, last, v, err);
        else if (rc == 0)
            rc = gguf_put_text(&v->merges, buf_str(&merge), merge.len, err);
        if (rc < 0)
            break;
    }
    buf_clear(&merge);
    v->n_merges = v->has_scores ? 0 : i;
    return rc;
}

/* ---- the file ------------------------------------------------------------ */

static bool is_prefixed(const struct text_steps *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->step[i].kind == TEXT_PREPEND)
            return true;
    return false;
}

int gguf_vocab_json(const struct buf *file, struct gguf_vocab *v,
                    struct error *err)
{
    struct bpe_parts p = {.whole = false};
    const json_t *model = json_object_get(v->json, "model");
    const float last =
        -(float)json_array_size(json_object_get(model, "merges"));
    if (tokenizer_json_read(file, &p, err) < 0)
        return -1;
    int rc = 0;
    if (p.chars && (p.whole || p.patterns > 0))
        rc = error_set(err, ERR_INVAL,
                       "%s: llama.cpp merges a text with tokens for bytes as "
                       "a whole, and would have other tokens",
                       p.whole ? "model.ignore_merges is set"
                               : "pre_tokenizer cuts the text");
    v->has_scores = p.chars;
    v->model = p.chars ? "llama" : "gpt2";
    v->pre = "default";
    v->is_bare = p.chars && !is_prefixed(&p.normal) && !is_prefixed(&p.marks);
    if (!p.chars)
        rc = find_cut(&p, &v->pre, err);
    bpe_parts_clear(&p);
    if (rc < 0 || take_vocab(model, last, v, err) < 0 ||
        take_merges(model, last, v, err) < 0)
        return -1;
    return take_added(v, err);
}
