/* token_data.c - see token_data.h. */
#include "worker/data/text/token_data.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "jobs/text/row_split.h"
#include "worker/checkpoint/crc64.h"
#include "worker/data/rows/row.h"
#include "worker/data/text/chat_format.h"

enum { ID_MAX = INT32_MAX - 1 }; /* so that a vocabulary has a size */

/* What reading the rows needs. */
struct opening {
    const struct token_conf *conf;
    struct token_data *data;
    struct chat_format format;
    struct messages messages;
    struct row_split split;
    struct row_sink sink;
};

/* ---- one row ------------------------------------------------------------- */

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

/* All tokens that have no label are judged. */
static int label_all(struct token_data *d, struct error *err)
{
    const size_t at = d->labels.len;
    if (at == d->ids.len)
        return 0;
    return buf_add(&d->labels, d->ids.data + at, d->ids.len - at, err);
}

static int add_messages(struct opening *o, const json_t *row,
                        enum messages_side side, struct error *err)
{
    const struct token_conf *c = o->conf;
    const struct messages_conf conf = {.template = c->text->template,
                                       .columns = c->columns,
                                       .system_prompt = c->system_prompt,
                                       .train_on_input =
                                           c->text->train_on_input};
    if (messages_of_row(&conf, row, side, &o->messages, err) < 0)
        return -1;
    return chat_format_encode(&o->format, &o->messages, &o->data->ids,
                              &o->data->labels, err);
}

static int add_text(struct opening *o, const json_t *row, struct error *err)
{
    const char *text;
    if (row_column_text(row, o->conf->columns, "text", true, &text, err) < 0)
        return -1;
    return chat_format_text(&o->format, text, &o->data->ids, &o->data->labels,
                            err);
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

static int add_tokens(struct opening *o, const json_t *row, struct error *err)
{
    struct token_data *d = o->data;
    const size_t first = tokens_of(&d->ids);
    const struct spec_map *map = o->conf->columns;
    const json_t *ids = row_column(row, map, "input_ids");
    const json_t *labels = json_object_get(row, row_column_name(map, "labels"));
    const size_t n = json_array_size(ids);
    const size_t most =
        o->conf->text->packed ? 0 : (size_t)o->conf->max_seq_len;
    if (!json_is_array(ids))
        return error_set(err, ERR_INVAL, "'%s' is %s",
                         row_column_name(map, "input_ids"),
                         ids == NULL ? "missing" : "not an array");
    if (labels != NULL && !json_is_array(labels))
        return error_set(err, ERR_INVAL, "'%s' is not an array",
                         row_column_name(map, "labels"));
    if (labels != NULL && json_array_size(labels) != n)
        return error_set(err, ERR_INVAL, "%zu input_ids and %zu labels", n,
                         json_array_size(labels));
    if (add_numbers(ids, "input_ids", false, &d->ids, err) < 0 ||
        (labels != NULL ? add_numbers(labels, "labels", true, &d->labels, err)
                        : label_all(d, err)) < 0)
        return -1;
    if (most > 0 && n > most) {
        cut(&d->ids, first + most);
        cut(&d->labels, first + most);
    }
    return 0;
}

/* Counts what was appended from `first` on as a row. */
static int finish(struct opening *o, size_t first, struct row_place place,
                  struct error *err)
{
    const struct token_conf *c = o->conf;
    struct token_data *d = o->data;
    const size_t n = tokens_of(&d->ids) - first;
    struct token_row row = {.first = first, .n = (int32_t)n, .place = place};
    int32_t most = d->most;
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
        const int32_t id = ints(&d->ids)[i], label = ints(&d->labels)[i];
        row.judged += i > first && label >= 0;
        most = id > most ? id : most;
        most = label > most ? label : most;
    }
    if (row.judged == 0)
        return error_set(err, ERR_INVAL,
                         "none of its %zu tokens counts in the loss%s", n,
                         hint);
    if (buf_add(&d->list, &row, sizeof(row), err) < 0)
        return -1;
    d->n++;
    d->most = most;
    return 0;
}

static int add_row(struct opening *o, const json_t *row,
                   enum messages_side side, struct row_place place,
                   struct error *err)
{
    const size_t first = tokens_of(&o->data->ids);
    int rc;
    switch (o->conf->text->template) {
    case TEMPLATE_TOKENS:
        rc = add_tokens(o, row, err);
        break;
    case TEMPLATE_COMPLETION:
        rc = add_text(o, row, err);
        break;
    default:
        rc = add_messages(o, row, side, err);
        break;
    }
    if (rc == 0 && tokens_of(&o->data->ids) - first > INT32_MAX / 4)
        rc = error_set(err, ERR_INVAL, "more than %d tokens", INT32_MAX / 4);
    return rc == 0 ? finish(o, first, place, err) : -1;
}

static int take_row(void *arg, const json_t *row, struct row_place place,
                    struct error *err)
{
    struct opening *o = arg;
    struct token_data *d = o->data;
    const size_t tokens = tokens_of(&d->ids), list = d->list.len;
    const int32_t n = d->n, most = d->most;
    if (o->conf->progress != NULL)
        o->conf->progress(o->conf->arg, o->sink.bytes, place.index);
    int rc = json_is_object(row)
                 ? add_row(o, row, SIDE_CHOSEN, place, err)
                 : error_set(err, ERR_INVAL, "not an object of columns");
    if (rc == 0 && o->conf->text->template == TEMPLATE_PREFERENCE)
        rc = add_row(o, row, SIDE_REJECTED, place, err);
    if (rc == 0)
        return 0;
    cut(&d->ids, tokens); /* the row is left out, or all of it ends */
    cut(&d->labels, tokens);
    d->list.len = list;
    d->n = n;
    d->most = most;
    return -1;
}

/* ---- all rows ------------------------------------------------------------ */

static int prepare(struct opening *o, struct error *err)
{
    const struct token_conf *c = o->conf;
    if (row_split_parse(c->text->split, &o->split, err) < 0)
        return error_wrap(err, "split");
    if (c->text->packed && c->max_seq_len == 0)
        return error_set(err, ERR_INVAL,
                         "packed rows need train.tokenizer.max_seq_len, the "
                         "length of a pack");
    if (c->text->template == TEMPLATE_TOKENS)
        return 0;
    return chat_format_init(&o->format, c->tokenizer, c->prompt, c->eos,
                            c->text->packed ? 0 : c->max_seq_len, err);
}

/* Rows that have to be read: those behind a bound that is known are not. */
static int32_t rows_needed(const struct opening *o)
{
    const struct row_bound *from = &o->split.from, *to = &o->split.to;
    const int32_t samples = o->conf->text->samples;
    int64_t most = to->at >= 0 ? to->at : INT32_MAX;
    if (from->percent || to->percent)
        return 0; /* a bound is a share of all */
    if (samples > 0) {
        const int64_t end = (int64_t)samples + (from->at > 0 ? from->at : 0);
        most = end < most ? end : most;
    }
    return most < INT32_MAX ? (int32_t)most : 0;
}

/* Drops the rows outside the split, and counts the tokens of the others.
 * *ret: how many there are within it, bad ones as well. */
static void keep_split(const struct opening *o, int32_t rows, int64_t *ret)
{
    struct token_data *d = o->data;
    struct token_row *list = (struct token_row *)(void *)d->list.data;
    const int32_t samples = o->conf->text->samples, n = d->n;
    int64_t from, to;
    row_split_of(&o->split, rows, &from, &to);
    *ret = to - from;
    to = samples > 0 && to - from > samples ? from + samples : to;
    d->n = 0;
    for (int32_t i = 0; i < n; i++) {
        if (list[i].place.index < from || list[i].place.index >= to)
            continue;
        d->longest = list[i].n > d->longest ? list[i].n : d->longest;
        d->tokens += list[i].n;
        d->judged += list[i].judged;
        list[d->n++] = list[i];
    }
    d->list.len = (size_t)d->n * sizeof(*list);
}

static int check(const struct opening *o, int32_t rows, int64_t within,
                 struct error *err)
{
    const struct spec_text *text = o->conf->text;
    const struct token_data *d = o->data;
    if (within < text->samples)
        return error_set(err, ERR_INVAL, "%s: %lld rows, samples is %d",
                         text->path, (long long)within, text->samples);
    if (d->skipped.n > rows - d->skipped.n)
        return error_set(err, ERR_INVAL,
                         "%d of %d rows are bad, more than half: %s",
                         d->skipped.n, rows, d->skipped.why[0].msg);
    if (d->n > 0)
        return 0;
    return error_set(err, ERR_INVAL, "%s: no rows%s, it needs one", text->path,
                     rows > 0 ? " within the split" : "");
}

static int read_rows(struct opening *o, struct error *err)
{
    const struct spec_text *text = o->conf->text;
    struct token_data *d = o->data;
    o->sink = (struct row_sink){.take = take_row,
                                .arg = o,
                                .skip_bad = text->on_bad_row == BAD_ROW_SKIP,
                                .most = rows_needed(o)};
    int64_t within = 0;
    if (data_files_find(text->path, &text->data_files, &d->files, err) < 0)
        return -1;
    int rc = data_rows_read(&d->files, &o->sink, err);
    d->skipped = o->sink.skipped;
    if (rc < 0)
        return -1;
    keep_split(o, o->sink.rows, &within);
    return check(o, o->sink.rows, within, err);
}

int token_data_open(const struct token_conf *conf, struct token_data *ret,
                    struct error *err)
{
    struct token_data d = {.n = 0};
    struct opening *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return error_set(err, ERR_NOMEM, "%s", conf->text->path);
    o->conf = conf;
    o->data = &d;
    int rc = prepare(o, err);
    if (rc == 0)
        rc = read_rows(o, err);
    messages_clear(&o->messages);
    free(o);
    if (rc == 0)
        *ret = d;
    else
        token_data_clear(&d);
    return rc;
}

void token_data_clear(struct token_data *d)
{
    if (d == NULL)
        return;
    buf_clear(&d->ids);
    buf_clear(&d->labels);
    buf_clear(&d->list);
    data_files_clear(&d->files);
    if (d->map != NULL)
        (void)munmap(d->map, d->map_bytes);
    memset(d, 0, sizeof(*d));
}

struct token_conf token_conf_of(const struct job_spec *s,
                                const struct spec_text *text,
                                const struct tokenizer *tokenizer, int32_t eos)
{
    return (struct token_conf){.text = text,
                               .columns = &s->train.dataset.column_map,
                               .system_prompt =
                                   s->train.dataset.new_system_prompt,
                               .tokenizer = tokenizer,
                               .prompt = s->train.tokenizer.prompt_template,
                               .eos = eos,
                               .max_seq_len = s->train.tokenizer.max_seq_len};
}

const struct token_row *token_data_rows(const struct token_data *d)
{
    return d->map != NULL
               ? d->map_rows
               : (const struct token_row *)(const void *)d->list.data;
}

const int32_t *token_data_ids(const struct token_data *d)
{
    return d->map != NULL ? d->map_ids : ints(&d->ids);
}

const int32_t *token_data_labels(const struct token_data *d)
{
    return d->map != NULL ? d->map_labels : ints(&d->labels);
}

int token_data_check(const struct token_data *d, int32_t vocab,
                     struct error *err)
{
    const struct token_row *rows = token_data_rows(d);
    for (int32_t i = 0; i < d->n && d->most >= vocab; i++)
        for (size_t k = rows[i].first; k < rows[i].first + (size_t)rows[i].n;
             k++) {
            const int32_t id = token_data_ids(d)[k],
                          label = token_data_labels(d)[k];
            if (id >= vocab || label >= vocab)
                return error_set(err, ERR_INVAL,
                                 "%s: row %d: token id %d, the model has 0 to "
                                 "%d: use its own tokenizer",
                                 d->files.path[rows[i].place.file],
                                 rows[i].place.number, id >= vocab ? id : label,
                                 vocab - 1);
        }
    return 0;
}

uint64_t token_data_digest(const struct token_data *d)
{
    const struct token_row *rows = token_data_rows(d);
    uint64_t sum = 0;
    for (int32_t i = 0; i < d->n; i++) {
        const size_t bytes = (size_t)rows[i].n * sizeof(int32_t);
        sum = crc64(sum, token_data_ids(d) + rows[i].first, bytes);
        sum = crc64(sum, token_data_labels(d) + rows[i].first, bytes);
        sum = crc64(sum, &rows[i].n, sizeof(rows[i].n));
    }
    return sum;
}
