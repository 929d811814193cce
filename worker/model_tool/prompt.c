/* prompt.c - see prompt.h. */
#include "worker/model_tool/prompt.h"

#include <string.h>

#include "worker/data/chat/chat_template.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/data/text/token_data.h"
#include "worker/model_tool/args.h"

int prompt_of_text(const char *dir, const char *text, struct prompt *ret,
                   struct error *err)
{
    enum spec_prompt own = PROMPT_NONE; /* also where it is not known */
    ret->format = PROMPT_AUTO;
    (void)!chat_template_find(dir, &own, NULL);
    if (chat_tokenizer_open(own, dir, &ret->tokenizer, err) < 0 ||
        tokenizer_encode(ret->tokenizer, text, strlen(text), TOKENIZER_BOS,
                         &ret->ids, err) < 0)
        return -1;
    ret->n = (int32_t)(ret->ids.len / sizeof(int32_t));
    if (ret->n == 0)
        return error_set(err, ERR_INVAL, "--prompt: the text has no token");
    return 0;
}

/* Finds where the answer begins whose first labelled token is token n: with
 * Llama 3 the message's header, and "\n\n" behind it, have labels as well. */
static int skip_header(const struct tokenizer *t, const int32_t *ids,
                       int32_t most, int32_t *io, struct error *err)
{
    const int32_t end = tokenizer_special(t, "<|end_header_id|>");
    struct buf gap = BUF_INIT;
    int32_t n = *io;
    if (end < 0 || ids[n] != tokenizer_special(t, "<|start_header_id|>"))
        return 0;
    while (n < most && ids[n] != end)
        n++;
    if (tokenizer_encode(t, "\n\n", 2, 0, &gap, err) < 0)
        return -1;
    n += 1 + (int32_t)(gap.len / sizeof(int32_t));
    buf_clear(&gap);
    if (n < most)
        *io = n;
    return 0;
}

/* The row's tokens up to the first that has a label, and the text of the rest.
 * `each` rows of tokens are made of a row. */
static int take_row(const struct token_data *d, int32_t each, int64_t row,
                    struct prompt *ret, struct error *err)
{
    if (row > d->n / each)
        return error_set(err, ERR_INVAL, "--row: the data has %d rows",
                         d->n / each);
    const struct token_row *r = &token_data_rows(d)[(row - 1) * each];
    const int32_t *ids = token_data_ids(d) + r->first;
    const int32_t *labels = token_data_labels(d) + r->first;
    int32_t n = 0;
    while (n < r->n && labels[n] < 0)
        n++;
    if (n <= 1 && r->n > 1)
        return error_set(
            err, ERR_INVAL,
            "--row: row %lld has no prompt: all of its tokens have "
            "labels",
            (long long)row);
    if (n < r->n && skip_header(ret->tokenizer, ids, r->n, &n, err) < 0)
        return -1;
    ret->n = n;
    if (buf_add(&ret->ids, ids, (size_t)n * sizeof(*ids), err) < 0)
        return -1;
    return tokenizer_decode(ret->tokenizer, ids + n, (size_t)(r->n - n),
                            &ret->expected, err);
}

static int read_rows(const char *dir, struct job_spec *s, int64_t row,
                     int32_t eos, struct prompt *ret, struct error *err)
{
    struct token_data d = {.n = 0};
    if (chat_tokenizer_of_job(s, dir, &ret->tokenizer, err) < 0)
        return -1;
    s->train.dataset.train_on_input = false;
    ret->format = chat_template_learned(s);
    if (ret->format == PROMPT_NONE &&
        s->train.tokenizer.prompt_template == PROMPT_AUTO)
        ret->format = PROMPT_AUTO;
    struct token_conf conf;
    if (token_conf_of(s, &s->train.dataset, ret->tokenizer, eos, &conf, err) <
        0)
        return -1;
    if (token_data_open(&conf, &d, err) < 0)
        return error_wrap(err, "train.dataset");
    int rc = take_row(&d, conf.pairs ? 2 : 1, row, ret, err);
    token_data_clear(&d);
    return rc;
}

int prompt_of_row(const char *dir, const char *file, int64_t row, int32_t eos,
                  struct prompt *ret, struct error *err)
{
    struct job_spec s;
    if (model_args_job(file, &s, err) < 0)
        return -1;
    int rc = read_rows(dir, &s, row, eos, ret, err);
    spec_clear(&s);
    return rc;
}

void prompt_clear(struct prompt *p)
{
    tokenizer_close(p->tokenizer);
    buf_clear(&p->ids);
    buf_clear(&p->expected);
}
