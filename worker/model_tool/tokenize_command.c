/* tokenize_command.c - mgpu-model tokenize JOB.YAML: the first rows as the
 * model gets them, and which tokens have labels.
 *
 * Text with labels is green on a terminal, and in [[ ]] elsewhere. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/text/text.h"
#include "scheduler/tools/common/client.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/data/text/token_data.h"
#include "worker/llm/config/llama_config.h"
#include "worker/model_tool/commands.h"
#include "worker/model_tool/keep_tokens.h"
#include "worker/model_tool/token_text.h"

struct rows {
    const struct model_args *args;
    struct job_spec spec;
    struct tokenizer *tokenizer; /* NULL: there is none, and none is needed */
    struct token_data data;
};

/* ---- reading ------------------------------------------------------------- */

static int open_tokenizer(struct rows *r, struct error *err)
{
    const struct job_spec *s = &r->spec;
    struct error why = ERROR_INIT;
    if (chat_tokenizer_of_job(s, s->train.checkpointer.dir, &r->tokenizer,
                              &why) == 0)
        return 0;
    r->tokenizer = NULL;
    if (s->train.dataset.template == TEMPLATE_TOKENS &&
        why.code == ERR_NOTFOUND)
        return 0;
    if (err != NULL)
        *err = why;
    return error_wrap(err, "train.tokenizer.path");
}

/* Both answers are shown, whatever the method reads; the cache has what it
 * reads. */
static bool is_pairs(const struct rows *r)
{
    return r->spec.method == METHOD_DPO ||
           (r->spec.train.dataset.template == TEMPLATE_PREFERENCE &&
            !r->args->cache);
}

static int read_rows(struct rows *r, struct error *err)
{
    const struct job_spec *s = &r->spec;
    const struct keep_conf keep = {
        .spec = s, .beside = r->args->beside, .quiet = r->args->common.quiet};
    struct llama_config c;
    if (llama_config_read(s->train.checkpointer.dir, &c, err) < 0)
        return error_wrap(err, "train.checkpointer.checkpoint_dir");
    if (open_tokenizer(r, err) < 0)
        return -1;
    struct token_conf conf, val;
    if (token_conf_of(s, &s->train.dataset, r->tokenizer, c.eos_id, &conf,
                      err) < 0)
        return -1;
    conf.pairs = is_pairs(r);
    if ((r->args->cache ? keep_tokens(&keep, &conf, &r->data, err)
                        : token_data_open(&conf, &r->data, err)) < 0 ||
        token_data_check(&r->data, c.vocab, err) < 0)
        return error_wrap(err, "train.dataset");
    if (!r->args->cache || s->train.dataset_val.path == NULL)
        return 0;
    if (token_conf_of(s, &s->train.dataset_val, r->tokenizer, c.eos_id, &val,
                      err) < 0)
        return -1;
    struct token_data d = {.n = 0};
    int rc = keep_tokens(&keep, &val, &d, err);
    token_data_clear(&d);
    return rc < 0 ? error_wrap(err, "train.dataset_val") : 0;
}

/* ---- for people ---------------------------------------------------------- */

/* Control characters would move the cursor. */
static void print_piece(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f))
            (void)putchar(c);
        else
            (void)printf("\\x%02x", c);
    }
}

static const char *mark(bool on)
{
    if (isatty(STDOUT_FILENO))
        return on ? "\033[32m" : "\033[0m";
    return on ? "[[" : "]]";
}

/* Special tokens have no text: <|2|>. */
static int print_token(const struct rows *r, struct token_text *t, int32_t id,
                       struct error *err)
{
    const char *piece;
    size_t n;
    bool is_special = false;
    if (token_text_is_special(r->tokenizer, id, &is_special, err) < 0 ||
        token_text_add(t, id, &piece, &n, err) < 0)
        return -1;
    if (is_special)
        (void)printf("<|%d|>", id);
    print_piece(piece, n);
    return 0;
}

static int print_text(const struct rows *r, const int32_t *ids,
                      const int32_t *labels, int32_t n, struct error *err)
{
    struct token_text t = token_text_of(r->tokenizer);
    bool is_on = false;
    int rc = 0;
    for (int32_t i = 0; i < n && rc == 0; i++) {
        if ((labels[i] >= 0) != is_on)
            (void)fputs(mark(is_on = !is_on), stdout);
        rc = print_token(r, &t, ids[i], err);
    }
    const char *rest = token_text_rest(&t);
    print_piece(rest, strlen(rest));
    (void)printf("%s\n", is_on ? mark(false) : "");
    token_text_clear(&t);
    return rc;
}

static void print_ids(const int32_t *ids, const int32_t *labels, int32_t n)
{
    (void)fputs("ids:", stdout);
    for (int32_t i = 0; i < n; i++) {
        const bool is = labels[i] >= 0;
        (void)printf(" %s%d",
                     is && (i == 0 || labels[i - 1] < 0) ? mark(true) : "",
                     ids[i]);
        if (is && (i + 1 == n || labels[i + 1] < 0))
            (void)fputs(mark(false), stdout);
    }
    (void)fputs("\n\n", stdout);
}

static void print_counts(const struct rows *r)
{
    const struct token_data *d = &r->data;
    char q[TEXT_QUOTE_CAP];
    (void)printf("%d rows, %" PRId64
                 " tokens, %.0f %% of them labelled; the longest "
                 "has %d, %d cut at max_seq_len",
                 d->n, d->tokens, 100 * (double)d->labelled / (double)d->tokens,
                 d->longest, d->cut);
    if (d->cut > 0)
        (void)printf(", which takes %" PRId64 " of %" PRId64 " labelled tokens",
                     d->lost, d->labelled + d->lost);
    (void)putchar('\n');
    for (int32_t i = 0; i < d->unread.n; i++)
        (void)printf(
            "%s:%" PRId64 ": a message has the key '%s', which is not "
            "read (%" PRId64 " row%s)\n",
            d->files.path[d->unread.key[i].file], d->unread.key[i].line,
            text_quote(q, sizeof(q), d->unread.key[i].name),
            d->unread.key[i].rows, d->unread.key[i].rows == 1 ? "" : "s");
    if (d->skipped.n > 0)
        (void)printf("%d row%s left out: %s\n", d->skipped.n,
                     d->skipped.n == 1 ? "" : "s", d->skipped.why[0].msg);
}

static const char *answer_of(const struct rows *r, int32_t i)
{
    if (!is_pairs(r))
        return "";
    return i % 2 == 0 ? ", chosen" : ", rejected";
}

/* Number of rows to show. */
static int32_t shown(const struct rows *r)
{
    const int32_t each = is_pairs(r) ? 2 : 1;
    const int64_t n = r->args->rows;
    return n < r->data.n / each ? (int32_t)n * each : r->data.n;
}

static int print_row(const struct rows *r, int32_t i, struct token_window *w,
                     struct error *err)
{
    const struct token_row *t = &token_data_rows(&r->data)[i];
    const int32_t *ids, *labels;
    if (token_data_row(&r->data, i, w, &ids, &labels, err) < 0)
        return -1;
    (void)printf("row %d%s: %d tokens, %d labelled\n", t->place.number,
                 answer_of(r, i), t->n, t->labelled);
    if (r->tokenizer != NULL && print_text(r, ids, labels, t->n, err) < 0)
        return -1;
    print_ids(ids, labels, t->n);
    return 0;
}

static int print_rows(const struct rows *r, struct error *err)
{
    struct token_window w = {.n = 0};
    int rc = 0;
    for (int32_t i = 0; i < shown(r) && rc == 0; i++)
        rc = print_row(r, i, &w, err);
    token_window_clear(&w);
    if (rc == 0)
        print_counts(r);
    return rc;
}

/* ---- JSON ---------------------------------------------------------------- */

/* NULL: no memory, or why. */
static json_t *json_of_row(const struct rows *r, int32_t at,
                           struct token_window *w, struct error *err)
{
    const struct token_row *row = &token_data_rows(&r->data)[at];
    const int32_t *ids, *labels;
    if (token_data_row(&r->data, at, w, &ids, &labels, err) < 0)
        return NULL;
    struct token_text t = token_text_of(r->tokenizer);
    json_t *list = json_array();
    int rc = 0;
    for (int32_t i = 0; i < row->n && rc == 0; i++) {
        const char *piece = "";
        size_t n = 0;
        if (r->tokenizer != NULL)
            rc = token_text_add(&t, ids[i], &piece, &n, err);
        /* Bytes that are no UTF-8 are no string. */
        json_t *text = json_stringn(piece, n);
        (void)json_array_append_new(
            list, json_pack("{s:i, s:o, s:b}", "id", (int)ids[i], "text",
                            text != NULL ? text : json_null(), "labelled",
                            labels[i] >= 0));
    }
    token_text_clear(&t);
    if (rc == 0)
        return json_pack("{s:i, s:i, s:o}", "row", (int)row->place.number,
                         "labelled", (int)row->labelled, "tokens", list);
    json_decref(list);
    return NULL;
}

static int print_json(const struct rows *r, struct error *err)
{
    const struct token_data *d = &r->data;
    struct token_window w = {.n = 0};
    json_t *rows = json_array(), *row = rows;
    for (int32_t i = 0; i < shown(r) && row != NULL; i++) {
        row = json_of_row(r, i, &w, err);
        (void)json_array_append_new(rows, row);
    }
    token_window_clear(&w);
    if (row == NULL) {
        json_decref(rows);
        return -1;
    }
    json_t *o = json_pack(
        "{s:i, s:I, s:I, s:i, s:i, s:I, s:i, s:o}", "rows", (int)d->n, "tokens",
        (json_int_t)d->tokens, "labelled", (json_int_t)d->labelled, "longest",
        (int)d->longest, "cut", (int)d->cut, "lost", (json_int_t)d->lost,
        "skipped", (int)d->skipped.n, "first", rows);
    int rc = client_print(o, err);
    json_decref(o);
    return rc;
}

int tokenize_command(const struct model_args *a, const char *operand,
                     struct error *err)
{
    struct rows r = {.args = a};

    if (a->beside && !a->cache)
        return error_set(err, ERR_USAGE, "--beside needs --cache");
    if (model_args_job(operand, &r.spec, err) < 0)
        return -1;
    int rc = read_rows(&r, err);
    if (rc == 0)
        rc = a->common.json ? print_json(&r, err) : print_rows(&r, err);
    token_data_clear(&r.data);
    tokenizer_close(r.tokenizer);
    spec_clear(&r.spec);
    return rc;
}
