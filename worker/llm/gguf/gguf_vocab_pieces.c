/* gguf_vocab_pieces.c - the tokens of a sentencepiece model; see gguf_vocab.h.
 */
#include <stdlib.h>

#include "worker/data/tokenizer/tokenizer_pieces.h"
#include "worker/llm/gguf/gguf_vocab.h"

/* The score of a token that no merge makes. */
static const float added_score = -1000;
enum { FILE_MAX = 16 << 20 };

static int take_piece(void *arg, const struct tokenizer_piece *p,
                      struct error *err)
{
    const enum gguf_token_type type = p->is_unknown   ? GGUF_TOKEN_UNKNOWN
                                      : p->is_control ? GGUF_TOKEN_CONTROL
                                      : p->is_unused  ? GGUF_TOKEN_UNUSED
                                      : p->is_byte    ? GGUF_TOKEN_BYTE
                                                      : GGUF_TOKEN_NORMAL;
    return gguf_vocab_set(arg, p->id, p->text, type, p->score, err);
}

/* added_tokens.json of older directories: ids by texts. */
static int take_old(const char *dir, struct gguf_vocab *v, struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    struct error why = ERROR_INIT;
    const char *key;
    json_t *id, *o = NULL;
    int rc = buf_addf(&path, err, "%s/added_tokens.json", dir);
    if (rc == 0 && buf_read_file(&text, buf_str(&path), FILE_MAX, &why) == 0)
        o = json_loadb(buf_str(&text), text.len, 0, NULL);
    else if (rc == 0 && why.code != ERR_NOTFOUND)
        rc = error_set(err, why.code, "%s", why.msg);
    if (rc == 0 && text.len > 0 && !json_is_object(o))
        rc = error_set(err, ERR_INVAL, "added_tokens.json is no object");
    json_object_foreach(o, key, id)
    {
        rc = rc < 0 ? rc
                    : gguf_vocab_set(
                          v, json_is_integer(id) ? json_integer_value(id) : -1,
                          key, GGUF_TOKEN_USER, added_score, err);
    }
    json_decref(o);
    buf_clear(&path);
    buf_clear(&text);
    return rc;
}

/* added_tokens_decoder of tokenizer_config.json: tokens by ids. */
static int take_new(struct gguf_vocab *v, struct error *err)
{
    json_t *all = json_object_get(v->config, "added_tokens_decoder"), *t;
    const char *key;
    json_object_foreach(all, key, t)
    {
        const char *text = json_string_value(json_object_get(t, "content"));
        char *end;
        const long id = strtol(key, &end, 10);
        if (text == NULL || *end != '\0' || end == key)
            return error_set(err, ERR_INVAL,
                             "tokenizer_config.json: added_tokens_decoder: "
                             "'%.20s' is no id, or has no content",
                             key);
        if (gguf_vocab_set(v, id, text, gguf_vocab_added(t), added_score, err) <
            0)
            return -1;
    }
    return 0;
}

int gguf_vocab_pieces(const char *dir, const struct buf *file,
                      struct gguf_vocab *v, struct error *err)
{
    v->model = "llama";
    v->pre = "default";
    v->has_scores = true;
    if (tokenizer_pieces_each(file, take_piece, v, err) < 0 ||
        take_old(dir, v, err) < 0)
        return -1;
    return take_new(v, err);
}
