/* token_encode.c - see token_encode.h. */
#include "worker/data/text/token_encode.h"

#include <string.h>

#include "worker/data/rows/row.h"
#include "worker/data/rows/token_cut.h"
#include "worker/data/text/prompt_completion.h"

enum { ID_MAX = INT32_MAX - 1 }; /* so that a vocabulary has a size */

/* A row on its way into the part. */
struct encoding {
    struct token_encoder *e;
    struct token_part *to;
    int32_t lost; /* as token_cut() */
};

static size_t tokens_of(const struct buf *b)
{
    return b->len / sizeof(int32_t);
}

static int32_t *ints(const struct buf *b)
{
    return (int32_t *)(void *)b->data;
}

static void cut(struct buf *b, size_t tokens)
{
    b->len = tokens * sizeof(int32_t);
    if (b->data != NULL)
        b->data[b->len] = '\0';
}

static int add_int(struct buf *b, int32_t v, struct error *err)
{
    return buf_add(b, &v, sizeof(v), err);
}

/* Gives labels to all tokens that have none. */
static int label_all(struct token_part *p, struct error *err)
{
    const size_t at = p->labels.len;
    if (at == p->ids.len)
        return 0;
    return buf_add(&p->labels, p->ids.data + at, p->ids.len - at, err);
}

static int add_messages(struct encoding *o, const json_t *row,
                        enum messages_side side, struct error *err)
{
    const struct token_conf *c = o->e->conf;
    const struct messages_conf conf = {.template = c->text->template,
                                       .columns = c->columns,
                                       .system_prompt = c->system_prompt,
                                       .train_on_input =
                                           c->text->train_on_input};
    struct messages *m = &o->e->messages;
    if (conf.template == TEMPLATE_PROMPT_COMPLETION)
        return prompt_completion_encode(o->e->format, &conf, row, m,
                                        &o->to->ids, &o->to->labels, &o->lost,
                                        err);
    if (messages_of_row(&conf, row, side, m, err) < 0)
        return -1;
    return chat_format_encode(o->e->format, m, &o->to->ids, &o->to->labels,
                              &o->lost, err);
}

static int add_text(struct encoding *o, const json_t *row, struct error *err)
{
    const char *text;
    if (row_column_text(row, o->e->conf->columns, "text", true, &text, err) < 0)
        return -1;
    return chat_format_text(o->e->format, text, &o->to->ids, &o->to->labels,
                            &o->lost, err);
}

/* in   may_be_less  negative numbers become -1; else they are refused */
static int add_numbers(const json_t *list, const char *key, bool may_be_less,
                       struct buf *ret, struct error *err)
{
    size_t i;
    const json_t *v;
    json_array_foreach(list, i, v)
    {
        const json_int_t n = json_integer_value(v);
        if (!json_is_integer(v) || n > ID_MAX || (n < 0 && !may_be_less))
            return error_set(err, ERR_INVAL,
                             "%s[%zu] is not a token id: an integer %s%d", key,
                             i, may_be_less ? "up to " : "from 0 to ", ID_MAX);
        if (add_int(ret, n < 0 ? -1 : (int32_t)n, err) < 0)
            return -1;
    }
    return 0;
}

/* The columns of ids and labels: of a row, or of an answer of a pair. */
static void name_columns(const struct token_conf *c, enum messages_side side,
                         const char **ret_ids, const char **ret_labels)
{
    static const char *const names[3][2] = {
        {"input_ids", "labels"},
        {"chosen_input_ids", "chosen_labels"},
        {"rejected_input_ids", "rejected_labels"}};
    const int k = !c->pairs ? 0 : side == SIDE_CHOSEN ? 1 : 2;
    *ret_ids = row_column_name(c->columns, names[k][0]);
    *ret_labels = row_column_name(c->columns, names[k][1]);
}

static int add_tokens(struct encoding *o, const json_t *row,
                      enum messages_side side, struct error *err)
{
    struct token_part *p = o->to;
    const size_t first = tokens_of(&p->ids);
    const char *ids_name, *labels_name;
    name_columns(o->e->conf, side, &ids_name, &labels_name);
    const json_t *ids = json_object_get(row, ids_name);
    const json_t *labels = json_object_get(row, labels_name);
    const size_t n = json_array_size(ids);
    const size_t most =
        o->e->conf->text->packed ? 0 : (size_t)o->e->conf->max_seq_len;
    if (!json_is_array(ids))
        return error_set(err, ERR_INVAL, "'%s' is %s", ids_name,
                         ids == NULL ? "missing" : "not an array");
    if (labels != NULL && !json_is_array(labels))
        return error_set(err, ERR_INVAL, "'%s' is not an array", labels_name);
    if (labels != NULL && json_array_size(labels) != n)
        return error_set(err, ERR_INVAL, "%zu %s and %zu %s", n, ids_name,
                         json_array_size(labels), labels_name);
    if (add_numbers(ids, ids_name, false, &p->ids, err) < 0 ||
        (labels != NULL
             ? add_numbers(labels, labels_name, true, &p->labels, err)
             : label_all(p, err)) < 0)
        return -1;
    o->lost = token_cut(&p->ids, &p->labels, first, most);
    return 0;
}

/* Counts what was appended from `first` on as a row. */
static int finish(struct encoding *o, size_t first, struct row_place place,
                  struct error *err)
{
    const struct token_conf *c = o->e->conf;
    struct token_part *p = o->to;
    const size_t n = tokens_of(&p->ids) - first;
    struct token_row row = {
        .first = first, .n = (int32_t)n, .place = place, .lost = o->lost};
    int32_t most = p->most;
    const char *hint = c->text->on_bad_row == BAD_ROW_SKIP
                           ? ""
                           : ": change it, or set on_bad_row: skip";
    if (c->text->packed && !c->text->split_across_pack &&
        n > (size_t)c->max_seq_len)
        return error_set(err, ERR_INVAL,
                         "its %zu tokens do not fit into a pack of "
                         "train.tokenizer.max_seq_len %d%s",
                         n, c->max_seq_len, hint);
    for (size_t i = first; i < first + n; i++) {
        const int32_t id = ints(&p->ids)[i], label = ints(&p->labels)[i];
        row.labelled += i > first && label >= 0;
        most = id > most ? id : most;
        most = label > most ? label : most;
    }
    if (row.labelled == 0 && row.lost > 0)
        return error_set(err, ERR_INVAL,
                         "its %d labelled token%s behind "
                         "train.tokenizer.max_seq_len %d, where it is cut%s",
                         row.lost, row.lost > 1 ? "s are all" : " is",
                         c->max_seq_len, hint);
    if (row.labelled == 0)
        return error_set(err, ERR_INVAL,
                         "none of its %zu tokens counts in the loss%s", n,
                         hint);
    if (buf_add(&p->list, &row, sizeof(row), err) < 0)
        return -1;
    p->most = most;
    return 0;
}

static int add_row(struct encoding *o, const json_t *row,
                   enum messages_side side, struct row_place place,
                   struct error *err)
{
    const size_t first = tokens_of(&o->to->ids);
    int rc;
    o->lost = -1;
    switch (o->e->conf->text->template) {
    case TEMPLATE_TOKENS:
        rc = add_tokens(o, row, side, err);
        break;
    case TEMPLATE_COMPLETION:
        rc = add_text(o, row, err);
        break;
    default:
        rc = add_messages(o, row, side, err);
        break;
    }
    if (rc == 0 && tokens_of(&o->to->ids) - first > INT32_MAX / 4)
        rc = error_set(err, ERR_INVAL, "more than %d tokens", INT32_MAX / 4);
    return rc == 0 ? finish(o, first, place, err) : -1;
}

void token_part_clear(struct token_part *p)
{
    buf_clear(&p->ids);
    buf_clear(&p->labels);
    buf_clear(&p->list);
}

int token_encode(struct token_encoder *e, const json_t *row,
                 struct row_place place, struct token_part *io,
                 struct error *err)
{
    struct encoding o = {.e = e, .to = io};
    const size_t tokens = tokens_of(&io->ids), list = io->list.len;
    const int32_t most = io->most;
    messages_forget_keys(&e->messages);
    int rc = json_is_object(row)
                 ? add_row(&o, row, SIDE_CHOSEN, place, err)
                 : error_set(err, ERR_INVAL, "not an object of columns");
    if (rc == 0 && e->conf->pairs)
        rc = add_row(&o, row, SIDE_REJECTED, place, err);
    if (rc == 0)
        return 0;
    cut(&io->ids, tokens); /* the row is left out, or all of it ends */
    cut(&io->labels, tokens);
    io->list.len = list;
    io->most = most;
    return -1;
}
