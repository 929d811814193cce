/* chat_tokenizer.c - see chat_tokenizer.h.
 * src  transformers: AutoTokenizer reads tokenizer.json, where a directory has
 *      both files. torchtune 0.6.1: its tokenizers read tokenizer.model */
#include "worker/data/chat/chat_tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

#include "worker/data/chat/chat_table.h"
#include "worker/data/chat/chat_template.h"

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
