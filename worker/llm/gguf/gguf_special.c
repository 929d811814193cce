/* gguf_special.c - see gguf_special.h. */
#include "worker/llm/gguf/gguf_special.h"

#include <stdio.h>
#include <string.h>

#include "worker/data/chat/chat_template.h"
#include "worker/llm/config/config_value.h"

enum { KEY_CAP = 64 };

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s == NULL ? "" : s;
}

/* ---- ids ----------------------------------------------------------------- */

/* The name of a special token in tokenizer_config.json; "": it has none. */
static const char *name_of(const struct gguf_vocab *v, const char *word)
{
    char key[KEY_CAP];
    (void)snprintf(key, sizeof(key), "%s_token", word);
    const json_t *t = json_object_get(v->config, key);
    return json_is_object(t) ? text_of(t, "content") : text_of(v->config, key);
}

/* The id in config.json: a number, or the first of a list; -1: there is none.
 */
static int64_t given_id(const json_t *config, const char *word)
{
    char key[KEY_CAP];
    (void)snprintf(key, sizeof(key), "%s_token_id", word);
    const json_t *id = config_value(config, key);
    if (json_is_array(id))
        id = json_array_get(id, 0);
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

static int64_t id_of(const json_t *config, const struct gguf_vocab *v,
                     const char *word)
{
    const char *name = name_of(v, word);
    int64_t id = name[0] != '\0' ? gguf_vocab_find(v, name) : -1;
    if (id < 0)
        id = given_id(config, word);
    for (int32_t i = 0; id < 0 && i < v->size && strcmp(word, "unk") == 0; i++)
        if (v->token[i].type == GGUF_TOKEN_UNKNOWN)
            id = i;
    return id < v->size ? id : -1;
}

static int put_ids(const json_t *config, const struct gguf_vocab *v,
                   struct gguf_meta *m, struct error *err)
{
    static const struct {
        const char *word, *key;
    } ids[] = {{"bos", "tokenizer.ggml.bos_token_id"},
               {"eos", "tokenizer.ggml.eos_token_id"},
               {"unk", "tokenizer.ggml.unknown_token_id"},
               {"pad", "tokenizer.ggml.padding_token_id"}};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        const int64_t id = id_of(config, v, ids[i].word);
        if (id >= 0 && gguf_meta_u32(m, ids[i].key, (uint32_t)id, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- around a text ------------------------------------------------------- */

/* The special token at the beginning of a template of two or more parts, or at
 * its end; NULL: there is no such template.
 * in  post  post_processor of tokenizer.json */
static const char *template_end(const json_t *post, bool is_last)
{
    const json_t *list = json_object_get(post, "processors");
    const size_t n = list != NULL ? json_array_size(list) : 1;
    const char *ret = NULL;
    for (size_t i = 0; i < n; i++) {
        const json_t *p = list != NULL ? json_array_get(list, i) : post;
        const json_t *parts = json_object_get(p, "single");
        const size_t count = json_array_size(parts);
        if (strcmp(text_of(p, "type"), "TemplateProcessing") == 0 && count > 1)
            ret = text_of(
                json_object_get(json_array_get(parts, is_last ? count - 1 : 0),
                                "SpecialToken"),
                "id");
    }
    return ret;
}

/* tokenizer_config.json goes before the template. */
static int put_around(const struct gguf_vocab *v, const char *word,
                      bool is_last, struct gguf_meta *m, struct error *err)
{
    const json_t *post = json_object_get(v->json, "post_processor");
    char from[KEY_CAP], key[KEY_CAP];
    (void)snprintf(from, sizeof(from), "add_%s_token", word);
    (void)snprintf(key, sizeof(key), "tokenizer.ggml.add_%s_token", word);
    const json_t *given = json_object_get(v->config, from);
    const char *end = template_end(post, is_last);
    const char *name = name_of(v, word);
    if (json_is_boolean(given))
        return gguf_meta_bool(m, key, json_is_true(given), err);
    if (end == NULL || end[0] == '\0')
        return 0;
    return gguf_meta_bool(m, key, name[0] == '\0' || strcmp(end, name) == 0,
                          err);
}

/* Whether a space stands before a text, where it does not as usual. */
static int put_prefix(const struct gguf_vocab *v, struct gguf_meta *m,
                      struct error *err)
{
    static const char key[] = "tokenizer.ggml.add_space_prefix";
    const json_t *given = json_object_get(v->config, "add_prefix_space");
    if (json_is_boolean(given))
        return gguf_meta_bool(m, key, json_is_true(given), err);
    return v->is_bare ? gguf_meta_bool(m, key, false, err) : 0;
}

static int put_template(const char *dir, struct gguf_meta *m, struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = 0;
    if (chat_template_read(dir, &text) && text.len > 0)
        rc = gguf_meta_text(m, "tokenizer.chat_template", buf_str(&text),
                            text.len, err);
    buf_clear(&text);
    return rc;
}

int gguf_special_encode(const char *dir, const json_t *config,
                        const struct gguf_vocab *v, struct gguf_meta *m,
                        struct error *err)
{
    if (put_ids(config, v, m, err) < 0 ||
        put_around(v, "bos", false, m, err) < 0 ||
        put_around(v, "eos", true, m, err) < 0 || put_prefix(v, m, err) < 0)
        return -1;
    return put_template(dir, m, err);
}
