/* chat_tokenizer.c - see chat_tokenizer.h.
 * src  transformers: AutoTokenizer reads tokenizer.json, where a directory has
 *      both files. torchtune 0.6.1: its tokenizers read tokenizer.model */
#include "worker/data/chat/chat_tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "worker/data/chat/chat_table.h"
#include "worker/data/chat/chat_template.h"

enum { CONFIG_MAX_BYTES = 16 << 20 };

int chat_tokenizer_open(enum spec_prompt prompt, const char *path,
                        struct tokenizer **ret, struct error *err)
{
    return chat_table_of(prompt) != NULL ? tokenizer_open_chat(path, ret, err)
                                         : tokenizer_open(path, ret, err);
}

/* Whether these rows are messages in the format of a model; *ret: in which. */
static bool has_format(const struct job_spec *s, const struct spec_text *rows,
                       enum spec_prompt *ret)
{
    if (rows->path == NULL)
        return false;
    if (chat_template_choose(s, rows->template, ret, NULL) < 0)
        return false;
    return chat_table_of(*ret) != NULL;
}

int chat_tokenizer_of_job(const struct job_spec *s, const char *dir,
                          struct tokenizer **ret, struct error *err)
{
    const char *own = s->train.tokenizer.path;
    const char *path = own != NULL ? own : dir;
    enum spec_prompt prompt;
    if (!has_format(s, &s->train.dataset, &prompt) &&
        !has_format(s, &s->train.dataset_val, &prompt))
        prompt = PROMPT_NONE;
    return chat_tokenizer_open(prompt, path, ret, err);
}

/* A name, or an object that has it as its content; NULL: neither. */
static const char *eos_token(const json_t *config)
{
    const json_t *eos = json_object_get(config, "eos_token");
    return json_string_value(
        json_is_object(eos) ? json_object_get(eos, "content") : eos);
}

void chat_tokenizer_end(const char *dir, const struct tokenizer *t,
                        struct chat_text_end *ret)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    json_t *config = NULL;
    *ret = (struct chat_text_end){.id = -1};
    if (dir != NULL &&
        buf_addf(&path, NULL, "%s/tokenizer_config.json", dir) == 0 &&
        buf_read_file(&text, buf_str(&path), CONFIG_MAX_BYTES, NULL) == 0)
        config = json_loadb(buf_str(&text), text.len, 0, NULL);
    const char *name = eos_token(config);
    if (name != NULL && strlen(name) < sizeof(ret->name))
        ret->id = tokenizer_special(t, name);
    if (name != NULL && ret->id >= 0)
        memcpy(ret->name, name, strlen(name) + 1);
    json_decref(config);
    buf_clear(&text);
    buf_clear(&path);
}
