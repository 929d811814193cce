/* gguf_vocab.c - see gguf_vocab.h. */
#include "worker/llm/gguf/gguf_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/tokenizer/tokenizer_bpe.h"

enum { FILE_MAX = 64 << 20 };

void gguf_vocab_clear(struct gguf_vocab *v)
{
    json_decref(v->json);
    json_decref(v->config);
    buf_clear(&v->text);
    buf_clear(&v->merges);
    free(v->token);
    *v = (struct gguf_vocab){.size = 0};
}

/* ---- tokens -------------------------------------------------------------- */

/* in  spaces  U+2581 is a space: llama.cpp finds the text as it is written */
static int add_text(struct gguf_vocab *v, const char *text, size_t len,
                    bool spaces, struct error *err)
{
    static const char mark[] = "\xe2\x96\x81";
    const char *end = text + len, *at;
    while (spaces && (at = strstr(text, mark)) != NULL) {
        if (buf_add(&v->text, text, (size_t)(at - text), err) < 0 ||
            buf_add(&v->text, " ", 1, err) < 0)
            return -1;
        text = at + sizeof(mark) - 1;
    }
    return buf_add(&v->text, text, (size_t)(end - text), err);
}

int gguf_vocab_set(struct gguf_vocab *v, int64_t id, const char *text,
                   enum gguf_token_type type, float score, struct error *err)
{
    const size_t len = strlen(text);
    if (id < 0 || id >= v->size)
        return error_set(err, ERR_INVAL,
                         "token '%.40s' has the id %lld: vocab_size of "
                         "config.json is %d",
                         text, (long long)id, v->size);
    struct gguf_token *t = &v->token[id];
    *t = (struct gguf_token){.at = v->text.len, .type = type, .score = score};
    if (add_text(v, text, len, type == GGUF_TOKEN_USER, err) < 0)
        return -1;
    t->len = (uint32_t)(v->text.len - t->at);
    return 0;
}

int32_t gguf_vocab_find(const struct gguf_vocab *v, const char *text)
{
    const size_t len = strlen(text);
    for (int32_t i = 0; i < v->size; i++)
        if (v->token[i].len == len && len > 0 &&
            memcmp(buf_str(&v->text) + v->token[i].at, text, len) == 0)
            return i;
    return -1;
}

static bool has_ends(const char *text, const char *first, const char *last)
{
    const size_t n = strlen(text), a = strlen(first), b = strlen(last);
    return n >= a + b && strncmp(text, first, a) == 0 &&
           strcmp(text + n - b, last) == 0;
}

enum gguf_token_type gguf_vocab_added(const json_t *v)
{
    const char *text = json_string_value(json_object_get(v, "content"));
    const bool looks_special =
        text != NULL &&
        (has_ends(text, "<|", "|>") || has_ends(text, "<unused", ">") ||
         strcmp(text, "<pad>") == 0 || strcmp(text, "<mask>") == 0);
    return looks_special || json_is_true(json_object_get(v, "special"))
               ? GGUF_TOKEN_CONTROL
               : GGUF_TOKEN_USER;
}

/* ---- files --------------------------------------------------------------- */

/* out  ret_has  false: there is no such file */
static int read_file(const char *dir, const char *name, struct buf *ret,
                     bool *ret_has, struct error *err)
{
    struct buf path = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, name);
    *ret_has = rc == 0 && access(buf_str(&path), F_OK) == 0;
    if (*ret_has)
        rc = buf_read_file(ret, buf_str(&path), FILE_MAX, err);
    buf_clear(&path);
    return rc;
}

/* An object; NULL: there is no such file. */
static int read_object(const char *dir, const char *name, struct buf *text,
                       json_t **ret, struct error *err)
{
    json_error_t why;
    bool has;
    if (read_file(dir, name, text, &has, err) < 0)
        return -1;
    if (!has)
        return 0;
    *ret = json_loadb(buf_str(text), text->len, 0, &why);
    if (*ret == NULL)
        return error_set(err, ERR_INVAL, "%s: line %d: %.100s", name, why.line,
                         why.text);
    return 0;
}

static int read_tokens(const char *dir, const struct buf *pieces,
                       bool has_pieces, const struct buf *json,
                       struct gguf_vocab *v, struct error *err)
{
    if (has_pieces && !tokenizer_is_ranks(pieces) && !tokenizer_is_json(pieces))
        return gguf_vocab_pieces(dir, pieces, v, err) < 0
                   ? error_wrap(err, "tokenizer.model")
                   : 0;
    if (v->json != NULL)
        return gguf_vocab_json(json, v, err) < 0
                   ? error_wrap(err, "tokenizer.json")
                   : 0;
    return has_pieces
               ? error_set(err, ERR_INVAL,
                           "tokenizer.model has ranks alone: put the "
                           "tokenizer.json of the model beside it")
               : error_set(err, ERR_NOTFOUND,
                           "there is no tokenizer.model and no tokenizer.json");
}

int gguf_vocab_read(const char *dir, int32_t size, struct gguf_vocab *ret,
                    struct error *err)
{
    struct gguf_vocab v = {.size = size};
    struct buf pieces = BUF_INIT, json = BUF_INIT, config = BUF_INIT;
    bool has_pieces = false;
    int rc = 0;
    v.token = calloc((size_t)size, sizeof(*v.token));
    if (v.token == NULL)
        rc = error_set(err, ERR_NOMEM, "%d tokens", size);
    for (int32_t i = 0; rc == 0 && i < size; i++)
        v.token[i] =
            (struct gguf_token){.type = GGUF_TOKEN_UNUSED, .score = -10000};
    if (rc == 0 &&
        (read_file(dir, "tokenizer.model", &pieces, &has_pieces, err) < 0 ||
         read_object(dir, "tokenizer.json", &json, &v.json, err) < 0 ||
         read_object(dir, "tokenizer_config.json", &config, &v.config, err) <
             0 ||
         read_tokens(dir, &pieces, has_pieces, &json, &v, err) < 0))
        rc = error_wrap(err, "%s", dir);
    buf_clear(&pieces);
    buf_clear(&json);
    buf_clear(&config);
    if (rc == 0)
        *ret = v;
    else
        gguf_vocab_clear(&v);
    return rc;
}

/* ---- the file that is written -------------------------------------------- */

static int put_texts(const struct gguf_vocab *v, struct gguf_meta *m,
                     struct error *err)
{
    char unused[24];
    if (gguf_meta_list(m, "tokenizer.ggml.tokens", GGUF_TEXT, (uint64_t)v->size,
                       err) < 0)
        return -1;
    for (int32_t i = 0; i < v->size; i++) {
        const struct gguf_token *t = &v->token[i];
        const int n = snprintf(unused, sizeof(unused), "[PAD%d]", i);
        if ((t->len > 0 ? gguf_put_text(&m->bytes, buf_str(&v->text) + t->at,
                                        t->len, err)
                        : gguf_put_text(&m->bytes, unused, (size_t)n, err)) < 0)
            return -1;
    }
    return 0;
}

static int put_scores(const struct gguf_vocab *v, struct gguf_meta *m,
                      struct error *err)
{
    if (gguf_meta_list(m, "tokenizer.ggml.scores", GGUF_REAL, (uint64_t)v->size,
                       err) < 0)
        return -1;
    for (int32_t i = 0; i < v->size; i++)
        if (gguf_put_real(&m->bytes, v->token[i].score, err) < 0)
            return -1;
    return 0;
}

static int put_types(const struct gguf_vocab *v, struct gguf_meta *m,
                     struct error *err)
{
    if (gguf_meta_list(m, "tokenizer.ggml.token_type", GGUF_I32,
                       (uint64_t)v->size, err) < 0)
        return -1;
    for (int32_t i = 0; i < v->size; i++)
        if (gguf_put_u32(&m->bytes, (uint32_t)v->token[i].type, err) < 0)
            return -1;
    return 0;
}

int gguf_vocab_encode(const struct gguf_vocab *v, struct gguf_meta *m,
                      struct error *err)
{
    if (gguf_meta_text(m, "tokenizer.ggml.model", v->model, strlen(v->model),
                       err) < 0 ||
        gguf_meta_text(m, "tokenizer.ggml.pre", v->pre, strlen(v->pre), err) <
            0 ||
        put_texts(v, m, err) < 0 ||
        (v->has_scores && put_scores(v, m, err) < 0) ||
        put_types(v, m, err) < 0)
        return -1;
    if (v->n_merges == 0)
        return 0;
    if (gguf_meta_list(m, "tokenizer.ggml.merges", GGUF_TEXT, v->n_merges,
                       err) < 0)
        return -1;
    return buf_add(&m->bytes, buf_str(&v->merges), v->merges.len, err);
}
