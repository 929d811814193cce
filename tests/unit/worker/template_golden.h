/* template_golden.h - rows through the templates, and the sums of
 * tests/golden/datasets.py. For tests only: what is wrong ends the program. */
#ifndef MGPU_TESTS_TEMPLATE_GOLDEN_H
#define MGPU_TESTS_TEMPLATE_GOLDEN_H

#include "tests/unit/worker/text_golden.h"
#include "worker/checkpoint/crc64.h"
#include "worker/data/rows/data_rows.h"
#include "worker/data/text/chat_format.h"

struct template_case {
    const json_t *line;
    struct messages_conf conf;
    struct chat_format format;
    struct spec_pair pairs[3];
    struct spec_map columns;
    struct messages messages;
    struct buf ids, labels;
    size_t rows, wrong;
};

static inline int template_word(const json_t *line, const char *key,
                                const char *const *words)
{
    const char *word = json_string_value(json_object_get(line, key));
    for (int i = 0; words[i] != NULL; i++)
        if (word != NULL && strcmp(words[i], word) == 0)
            return i;
    return 0;
}

static inline void template_compare(struct template_case *c)
{
    const json_t *sums = json_object_get(c->line, "sums");
    const char *want = json_string_value(json_array_get(sums, c->rows++));
    char got[9];
    uint64_t sum = crc64(0, buf_str(&c->ids), c->ids.len);
    sum = crc64(sum, buf_str(&c->labels), c->labels.len);
    (void)snprintf(got, sizeof(got), "%08x", (unsigned)(sum & 0xffffffffU));
    c->wrong +=
        want == NULL || strcmp(got, want) != 0 || c->ids.len != c->labels.len;
    buf_reset(&c->ids);
    buf_reset(&c->labels);
}

static inline int template_take(void *arg, const json_t *row,
                                struct row_place place, struct error *err)
{
    struct template_case *c = arg;
    const bool two = c->conf.template == TEMPLATE_PREFERENCE;
    int32_t lost;
    (void)place;
    if (c->conf.template == TEMPLATE_COMPLETION) {
        const char *text;
        text_must(
            row_column_text(row, c->conf.columns, "text", true, &text, err),
            err);
        text_must(
            chat_format_text(&c->format, text, &c->ids, &c->labels, &lost, err),
            err);
        template_compare(c);
        return 0;
    }
    for (int side = 0; side < (two ? 2 : 1); side++) {
        text_must(messages_of_row(&c->conf, row, (enum messages_side)side,
                                  &c->messages, err),
                  err);
        text_must(chat_format_encode(&c->format, &c->messages, &c->ids,
                                     &c->labels, &lost, err),
                  err);
        template_compare(c);
    }
    return 0;
}

static inline void template_columns(struct template_case *c)
{
    json_t *map = json_object_get(c->line, "columns");
    const char *key;
    json_t *v;
    json_object_foreach(map, key, v)
    {
        c->pairs[c->columns.n++] = (struct spec_pair){
            (char *)(uintptr_t)key, (char *)(uintptr_t)json_string_value(v)};
    }
    c->columns.pairs = c->pairs;
    c->conf.columns = &c->columns;
}

/* The first 200 rows of the case's file in the directory.
 * out  ret_wrong  rows whose ids or labels are others than torchtune's */
static inline size_t template_run(const json_t *line, const char *dir,
                                  const struct tokenizer *t, size_t *ret_wrong)
{
    static const char *const templates[] = {
        "alpaca", "grammar",    "samsum",     "slimorca",
        "chat",   "completion", "preference", NULL};
    static const char *const prompts[] = {
        "",          "llama2_chat",     "chatml", "grammar",
        "summarize", "question_answer", NULL};
    struct template_case *c = calloc(1, sizeof(*c));
    struct error err = ERROR_INIT;
    char path[8192];
    struct row_sink to = {.take = template_take, .arg = c, .most = 200};
    struct data_files files;
    if (c == NULL)
        exit(1);
    c->line = line;
    c->conf.template =
        (enum spec_template)template_word(line, "template", templates);
    c->conf.train_on_input =
        json_is_true(json_object_get(line, "train_on_input"));
    c->conf.system_prompt = json_string_value(json_object_get(line, "system"));
    template_columns(c);
    text_must(
        chat_format_init(
            &c->format, t,
            (enum spec_prompt)template_word(line, "prompt", prompts), -1,
            (int32_t)json_integer_value(json_object_get(line, "max_seq_len")),
            &err),
        &err);
    (void)snprintf(path, sizeof(path), "%s/%s", dir,
                   json_string_value(json_object_get(line, "file")));
    text_must(data_files_find(path, NULL, &files, &err), &err);
    text_must(data_rows_read(&files, &to, &err), &err);
    const size_t rows = c->rows;
    *ret_wrong =
        c->wrong + (json_array_size(json_object_get(line, "sums")) != rows);
    data_files_clear(&files);
    messages_clear(&c->messages);
    buf_clear(&c->ids);
    buf_clear(&c->labels);
    free(c);
    return rows;
}

#endif
