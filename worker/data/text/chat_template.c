/* chat_template.c - see chat_template.h.
 * src  transformers, tokenization_utils_base.py: chat_template of
 *      tokenizer_config.json is a text, or a list of texts with names;
 *      chat_template.jinja comes before it */
#include "worker/data/text/chat_template.h"

#include <jansson.h>
#include <stddef.h>

#include "jobs/base/buf.h"

/* Llama 3's tokenizer_config.json has 50 KB, most of it names of tokens. */
enum { CONFIG_MAX_BYTES = 16 << 20 };

static bool read_file(const char *dir, const char *name, struct buf *ret)
{
    struct buf path = BUF_INIT;
    const bool has =
        buf_addf(&path, NULL, "%s/%s", dir, name) == 0 &&
        buf_read_file(ret, buf_str(&path), CONFIG_MAX_BYTES, NULL) == 0;
    buf_clear(&path);
    return has;
}

static bool is_in_config(const struct buf *text)
{
    json_t *o = json_loadb(buf_str(text), text->len, 0, NULL);
    const json_t *v = json_object_get(o, "chat_template");
    const bool has = json_string_length(v) > 0 || json_array_size(v) > 0;
    json_decref(o);
    return has;
}

bool chat_template_is_in(const char *dir)
{
    struct buf text = BUF_INIT;
    bool has = read_file(dir, "chat_template.jinja", &text);
    buf_reset(&text);
    has = has || (read_file(dir, "tokenizer_config.json", &text) &&
                  is_in_config(&text));
    buf_clear(&text);
    return has;
}
