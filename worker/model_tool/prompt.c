/* prompt.c - see prompt.h. */
#include "worker/model_tool/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "worker/data/chat/chat_template.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/data/text/chat_format.h"
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

/* Tokens that stand before an answer, whatever it says: [0, n) of a list. */
struct words {
    struct buf ids;
    int32_t n;
    bool may_merge; /* with the answer's first token */
};

static int32_t same(const int32_t *a, const int32_t *b, int32_t n)
{
    int32_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

/* What a prompt has more than its messages. */
static int take_words(const struct chat_format *f, struct messages *m,
                      struct words *ret, struct error *err)
{
    struct buf ids = BUF_INIT, labels = BUF_INIT;
    int32_t lost;
    m->list[0] = (struct message){.role = ROLE_USER, .text = "?"};
    m->n = 1;
    int rc = chat_format_ask(f, m, &ret->ids, err);
    rc = rc < 0 ? rc : chat_format_encode(f, m, &ids, &labels, &lost, err);
    if (rc == 0) {
        const size_t asks = ret->ids.len / sizeof(int32_t),
                     has = ids.len / sizeof(int32_t);
        const int32_t n =
            same((const void *)ret->ids.data, (const void *)ids.data,
                 (int32_t)(asks < has ? asks : has));
        ret->n = (int32_t)asks - n;
        buf_drop(&ret->ids, (size_t)n * sizeof(int32_t));
    }
    buf_clear(&ids);
    buf_clear(&labels);
    return rc;
}

/* Those of the rows' format; none where rows are no messages. */
static int words_of(const struct token_conf *conf, struct words *ret,
                    struct error *err)
{
    const enum spec_template rows = conf->text->template;
    struct chat_format f;
    if (rows == TEMPLATE_COMPLETION || rows == TEMPLATE_TOKENS)
        return 0;
    /* Its labels begin behind the whole prompt, which may be a text alone. */
    ret->may_merge = rows != TEMPLATE_PROMPT_COMPLETION;
    struct messages *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "messages");
    int rc =
        chat_format_init(&f, conf->tokenizer, conf->prompt, conf->eos, 0, err);
    f.is_whole = conf->is_whole;
    rc = rc < 0 ? rc : take_words(&f, m, ret, err);
    free(m);
    return rc;
}

/* The prompt is ids [0, n), where n is the first with a label. In torchtune's
 * formats words before an answer have labels as well: *io_n is moved behind
 * them. A token may have an end of these words and the answer's beginning:
 * then they replace what is there of them. */
static int put_prompt(const int32_t *ids, int32_t most, const struct words *w,
                      int32_t *io_n, struct buf *ret, struct error *err)
{
    const int32_t *words = (const void *)w->ids.data;
    int32_t n = *io_n, has = w->n;
    if (w->n > 0 && most - n > w->n && same(ids + n, words, w->n) == w->n)
        n += w->n;
    *io_n = n;
    while (has > 0 && (has > n || same(ids + n - has, words, has) < has))
        has--;
    if (has == 0 || has == w->n || !w->may_merge)
        return buf_add(ret, ids, (size_t)n * sizeof(*ids), err);
    if (buf_add(ret, ids, (size_t)(n - has) * sizeof(*ids), err) < 0)
        return -1;
    return buf_add(ret, words, (size_t)w->n * sizeof(*words), err);
}

/* The row's tokens before its first answer, and the text of that one.
 * `each` rows of tokens are made of a row. */
static int take_row(const struct token_data *d, int32_t each, int64_t row,
                    const struct words *w, struct prompt *ret,
                    struct error *err)
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
    if (put_prompt(ids, r->n, w, &n, &ret->ids, err) < 0)
        return -1;
    ret->n = (int32_t)(ret->ids.len / sizeof(int32_t));
    int32_t end = n;
    while (end < r->n && labels[end] >= 0)
        end++;
    return tokenizer_decode(ret->tokenizer, ids + n, (size_t)(end - n),
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
    struct words w = {.n = 0};
    int rc = words_of(&conf, &w, err);
    rc = rc < 0 ? rc : take_row(&d, conf.pairs ? 2 : 1, row, &w, ret, err);
    buf_clear(&w.ids);
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
