/* hf_ends.c - see hf_ends.h. */
#include "worker/llm/files/hf_ends.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

#include "worker/data/chat/chat_template.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/data/text/chat_format.h"
#include "worker/llm/files/base_file.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

/* A directory without a tokenizer that we read has none: its rows were tokens.
 * out  eot, eos  -1: none */
static int tokens_of(const struct hf_ends *e, const char *base, int32_t *eot,
                     int32_t *eos, struct error *err)
{
    struct tokenizer *t = NULL;
    struct error why = ERROR_INIT;
    enum spec_prompt prompt = e->prompt;
    *eot = *eos = -1;
    if (prompt == PROMPT_AUTO && chat_template_find(base, &prompt, NULL) < 0)
        prompt = PROMPT_NONE;
    if (chat_tokenizer_open(prompt, e->tokenizer != NULL ? e->tokenizer : base,
                            &t, &why) < 0)
        return why.code == ERR_NOMEM ? error_set(err, ERR_NOMEM, "a tokenizer")
                                     : 0;
    *eot = chat_format_answer_end(prompt, base, t);
    *eos = tokenizer_ids(t)->eos;
    tokenizer_close(t);
    return 0;
}

/* config.json; NULL: there is none that can be read. */
static json_t *read_config(const char *base)
{
    struct buf text = BUF_INIT;
    json_t *o = NULL;
    if (base_file_read(base, "config.json", CONFIG_MAX_BYTES, &text, NULL) == 0)
        o = json_loadb(buf_str(&text), text.len, 0, NULL);
    buf_clear(&text);
    return o;
}

/* A file where there was none: beside it, transformers no longer takes these
 * from config.json. NULL: no memory. */
static json_t *new_file(const json_t *config)
{
    static const char *const keys[] = {"bos_token_id", "pad_token_id"};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && o != NULL; i++) {
        json_t *v = json_object_get(config, keys[i]);
        if (v == NULL || json_is_null(v) || json_object_set(o, keys[i], v) == 0)
            continue;
        json_decref(o);
        o = NULL;
    }
    return o;
}

/* The list of ends with eot, or NULL: it has eot already, or memory is short.
 * in  ends  a number, a list or neither */
static json_t *joined(const json_t *ends, int32_t eot, int32_t eos)
{
    json_t *list = json_array();
    bool has = false;
    size_t i;
    const json_t *v;
    if (json_is_integer(ends))
        (void)json_array_append_new(list, json_copy((json_t *)ends));
    json_array_foreach(ends, i, v)
    {
        (void)json_array_append_new(list, json_copy((json_t *)v));
    }
    if (json_array_size(list) == 0 && eos >= 0)
        (void)json_array_append_new(list, json_integer(eos));
    json_array_foreach(list, i, v)
    {
        has = has || (json_is_integer(v) && json_integer_value(v) == eot);
    }
    if (!has && json_array_append_new(list, json_integer(eot)) == 0)
        return list;
    json_decref(list);
    return NULL;
}

static int put(const json_t *o, struct buf *text, struct error *err)
{
    char *dump = json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER |
                                   JSON_REAL_PRECISION(15));
    if (dump == NULL)
        return error_set(err, ERR_NOMEM, "generation_config.json");
    buf_reset(text);
    int rc = buf_addstr(text, dump, err);
    rc = rc < 0 ? rc : buf_addstr(text, "\n", err);
    free(dump);
    return rc;
}

int hf_ends_join(const struct hf_ends *e, const char *base, struct buf *text,
                 struct error *err)
{
    int32_t eot, eos;
    if (tokens_of(e, base, &eot, &eos, err) < 0)
        return -1;
    if (eot < 0)
        return 0;
    json_t *config = read_config(base);
    json_t *o = text->len == 0 ? new_file(config)
                               : json_loadb(buf_str(text), text->len, 0, NULL);
    const json_t *ends = json_object_get(o, "eos_token_id");
    if (ends == NULL || json_is_null(ends))
        ends = json_object_get(config, "eos_token_id");
    json_t *list = json_is_object(o) ? joined(ends, eot, eos) : NULL;
    int rc = 0;
    if (o == NULL && text->len == 0)
        rc = error_set(err, ERR_NOMEM, "generation_config.json");
    else if (list != NULL)
        rc = json_object_set_new(o, "eos_token_id", list) < 0
                 ? error_set(err, ERR_NOMEM, "generation_config.json")
                 : put(o, text, err);
    json_decref(config);
    json_decref(o);
    return rc;
}
