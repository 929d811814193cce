/* prompt_completion.c - see prompt_completion.h. */
#include "worker/data/text/prompt_completion.h"

#include <string.h>

#include "worker/data/rows/row.h"
#include "worker/data/rows/token_cut.h"

/* Bytes of the completion without the name of the end, which rows may have
 * written themselves. */
static size_t without_end(const struct chat_format *f, const char *completion)
{
    static const char *const names[] = {"</s>", "<|endoftext|>", "<|im_end|>",
                                        "<|end_of_text|>", "<|eot_id|>"};
    const size_t len = strlen(completion);
    const size_t own = f->end_name != NULL ? strlen(f->end_name) : 0;
    if (own > 0 && len >= own &&
        strcmp(completion + len - own, f->end_name) == 0)
        return len - own;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const size_t n = strlen(names[i]);
        if (len >= n && strcmp(completion + len - n, names[i]) == 0 &&
            tokenizer_special(f->tokenizer, names[i]) == f->end)
            return len - n;
    }
    return len;
}

/* in  most  ids of it at most, 0: all; bos does not count */
static int encode(const struct chat_format *f, const char *text, size_t len,
                  size_t most, struct buf *ids, struct error *err)
{
    if (f->bos >= 0 && buf_add(ids, &f->bos, sizeof(f->bos), err) < 0)
        return -1;
    return tokenizer_encode_some(f->tokenizer, text, len, 0, most, ids, err);
}

static int encode_texts(const struct chat_format *f, const char *prompt,
                        const char *completion, bool on_input, struct buf *ids,
                        struct buf *labels, int32_t *ret_lost,
                        struct error *err)
{
    const size_t first = ids->len / sizeof(int32_t), n = strlen(prompt);
    const size_t most = (size_t)f->max_seq_len;
    const size_t limit = most > 0 ? most + TOKEN_CUT_COUNTED : 0;
    struct buf whole = BUF_INIT, head = BUF_INIT;
    int rc = buf_add(&whole, prompt, n, err);
    if (rc == 0)
        rc = buf_add(&whole, completion, without_end(f, completion), err);
    if (rc == 0)
        rc = encode(f, buf_str(&whole), n, limit, &head, err);
    if (rc == 0)
        rc = encode(f, buf_str(&whole), whole.len, limit, ids, err);
    if (rc == 0)
        rc = buf_add(ids, &f->end, sizeof(f->end), err);
    if (rc == 0)
        rc = buf_add(labels, ids->data + first * sizeof(int32_t),
                     ids->len - first * sizeof(int32_t), err);
    if (rc == 0) {
        token_cut_label(ids, labels, first,
                        on_input ? 0 : head.len / sizeof(int32_t));
        *ret_lost = token_cut(ids, labels, first, most);
    }
    buf_clear(&whole);
    buf_clear(&head);
    return rc;
}

static int check_texts(const struct messages_conf *c, const char *completion,
                       struct error *err)
{
    if (completion[strspn(completion, " \t\r\n")] == '\0')
        return error_set(err, ERR_INVAL, "the completion is empty");
    if (c->system_prompt != NULL)
        return error_set(err, ERR_INVAL,
                         "its prompt is a text, and "
                         "train.dataset.new_system_prompt is for lists of "
                         "messages");
    return 0;
}

int prompt_completion_encode(const struct chat_format *f,
                             const struct messages_conf *c, const json_t *row,
                             struct messages *work, struct buf *ids,
                             struct buf *labels, int32_t *ret_lost,
                             struct error *err)
{
    const json_t *prompt = row_column(row, c->columns, "prompt");
    const json_t *completion = row_column(row, c->columns, "completion");
    const char *texts[2];
    if (prompt != NULL && completion != NULL &&
        json_is_array(prompt) != json_is_array(completion))
        return error_set(err, ERR_INVAL,
                         "one of its columns '%.40s' and '%.40s' is a list of "
                         "messages: both are lists, or both are texts",
                         row_column_name(c->columns, "prompt"),
                         row_column_name(c->columns, "completion"));
    if (!json_is_array(prompt)) {
        if (row_column_text(row, c->columns, "prompt", true, &texts[0], err) <
                0 ||
            row_column_text(row, c->columns, "completion", true, &texts[1],
                            err) < 0 ||
            check_texts(c, texts[1], err) < 0)
            return -1;
        return encode_texts(f, texts[0], texts[1], c->train_on_input, ids,
                            labels, ret_lost, err);
    }
    if (f->is_unknown)
        return error_set(err, ERR_INVAL,
                         "its messages need a format, and the model's chat "
                         "template is not known: set "
                         "train.tokenizer.prompt_template");
    if (messages_of_row(c, row, SIDE_CHOSEN, work, err) < 0)
        return -1;
    if (f->model.table != NULL)
        return chat_render_completion(&f->model, work, c->train_on_input, ids,
                                      labels, ret_lost, err);
    return chat_format_encode(f, work, ids, labels, ret_lost, err);
}
