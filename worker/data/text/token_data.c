/* token_data.c - see token_data.h. */
#include "worker/data/text/token_data.h"

#include <string.h>

#include "worker/checkpoint/crc64.h"
#include "worker/data/rows/row.h"
#include "worker/data/text/alpaca.h"

enum { ID_MAX = INT32_MAX - 1 }; /* so that a vocabulary has a size */

/* What reading the rows needs. */
struct opening {
    const struct token_conf *conf;
    struct token_data *data;
    struct buf prompt;
    int32_t bos, eos;
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

/* The tokens from `from` on are judged. */
static int label_from(struct token_data *d, size_t from, struct error *err)
{
    for (size_t i = tokens_of(&d->labels); i < tokens_of(&d->ids); i++)
        if (add_int(&d->labels, i >= from ? ints(&d->ids)[i] : -1, err) < 0)
            return -1;
    return 0;
}

/* As torchtune's truncate(): also a row that is exactly as long as allowed,
 * but whose answer did not begin, ends in eos. The prompt's last token is not
 * judged where the prompt is not. */
static void end_in_eos(const struct opening *o, size_t first, bool judged)
{
    struct token_data *d = o->data;
    const size_t last = first + (size_t)o->conf->max_seq_len - 1;
    cut(&d->ids, last + 1);
    cut(&d->labels, last + 1);
    ints(&d->ids)[last] = o->eos;
    ints(&d->labels)[last] = judged ? o->eos : -1;
}

static int add_alpaca(struct opening *o, const json_t *row, struct error *err)
{
    const struct token_conf *c = o->conf;
    struct token_data *d = o->data;
    const size_t first = tokens_of(&d->ids);
    struct alpaca_row r;
    if (alpaca_row(row, &c->text->column_map, &r, err) < 0)
        return -1;
    buf_reset(&o->prompt);
    if (alpaca_prompt(&r, &o->prompt, err) < 0 ||
        (o->bos >= 0 && add_int(&d->ids, o->bos, err) < 0) ||
        tokenizer_encode(c->tokenizer, o->prompt.data, o->prompt.len, 0,
                         &d->ids, err) < 0)
        return -1;
    const size_t answer = tokens_of(&d->ids);
    const size_t most = c->text->packed ? 0 : (size_t)c->max_seq_len;
    if (tokenizer_encode(c->tokenizer, r.output, r.output_len,
                         TOKENIZER_GOES_ON, &d->ids, err) < 0 ||
        add_int(&d->ids, o->eos, err) < 0 ||
        label_from(d, c->text->train_on_input ? first : answer, err) < 0)
        return -1;
    if (most > 0 && tokens_of(&d->ids) - first > most)
        end_in_eos(o, first, c->text->train_on_input || answer - first < most);
    return 0;
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
    const struct spec_map *map = &o->conf->text->column_map;
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
                        : label_from(d, first, err)) < 0)
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
    if (c->text->packed && n > (size_t)c->max_seq_len)
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
    d->judged += row.judged;
    d->longest = row.n > d->longest ? row.n : d->longest;
    return 0;
}

static int take_row(void *arg, const json_t *row, struct row_place place,
                    struct error *err)
{
    struct opening *o = arg;
    const size_t first = tokens_of(&o->data->ids);
    int rc;
    if (!json_is_object(row))
        return error_set(err, ERR_INVAL, "not an object, as {%s}",
                         o->conf->text->template == TEMPLATE_ALPACA
                             ? "\"instruction\": ..., \"output\": ..."
                             : "\"input_ids\": [...]");
    if (o->conf->text->template == TEMPLATE_ALPACA)
        rc = add_alpaca(o, row, err);
    else
        rc = add_tokens(o, row, err);
    if (rc == 0 && tokens_of(&o->data->ids) - first > INT32_MAX / 4)
        rc = error_set(err, ERR_INVAL, "more than %d tokens", INT32_MAX / 4);
    if (rc == 0 && finish(o, first, place, err) == 0)
        return 0;
    cut(&o->data->ids, first); /* the row is left out, or all of it ends */
    cut(&o->data->labels, first);
    return -1;
}

/* ---- all rows ------------------------------------------------------------ */

static int prepare(struct opening *o, struct error *err)
{
    const struct token_conf *c = o->conf;
    if (c->text->packed && c->max_seq_len == 0)
        return error_set(err, ERR_INVAL,
                         "packed rows need train.tokenizer.max_seq_len, the "
                         "length of a pack");
    if (c->text->template != TEMPLATE_ALPACA)
        return 0;
    const struct tokenizer_ids *ids = tokenizer_ids(c->tokenizer);
    o->bos = ids->bos;
    o->eos = c->eos >= 0 ? c->eos : ids->eos;
    if (o->eos < 0)
        return error_set(err, ERR_INVAL,
                         "the tokenizer has no end of text, which ends the "
                         "answers of template alpaca");
    return 0;
}

static int check(const struct opening *o, struct error *err)
{
    const struct spec_text *text = o->conf->text;
    const struct token_data *d = o->data;
    const int32_t out = d->skipped.n;
    if (d->n + out < text->samples)
        return error_set(err, ERR_INVAL, "%s: %d rows, samples is %d",
                         text->path, d->n + out, text->samples);
    if (out > d->n)
        return error_set(err, ERR_INVAL,
                         "%d of %d rows are bad, more than half: %s", out,
                         d->n + out, d->skipped.why[0].msg);
    if (d->n > 0)
        return 0;
    return error_set(err, ERR_INVAL, "%s: no rows, it needs one", text->path);
}

static int read_rows(struct opening *o, struct error *err)
{
    const struct spec_text *text = o->conf->text;
    struct token_data *d = o->data;
    struct row_sink to = {.take = take_row,
                          .arg = o,
                          .skip_bad = text->on_bad_row == BAD_ROW_SKIP,
                          .most = text->samples};
    if (data_files_find(text->path, &text->data_files, &d->files, err) < 0)
        return -1;
    int rc = data_rows_read(&d->files, &to, err);
    d->skipped = to.skipped;
    return rc;
}

int token_data_open(const struct token_conf *conf, struct token_data *ret,
                    struct error *err)
{
    struct token_data d = {.n = 0};
    struct opening o = {.conf = conf, .data = &d, .bos = -1, .eos = -1};
    int rc = prepare(&o, err);
    if (rc == 0)
        rc = read_rows(&o, err);
    if (rc == 0)
        rc = check(&o, err);
    buf_clear(&o.prompt);
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
    memset(d, 0, sizeof(*d));
}

const struct token_row *token_data_rows(const struct token_data *d)
{
    return (const struct token_row *)(const void *)d->list.data;
}

const int32_t *token_data_ids(const struct token_data *d)
{
    return ints(&d->ids);
}

const int32_t *token_data_labels(const struct token_data *d)
{
    return ints(&d->labels);
}

int token_data_check(const struct token_data *d, int32_t vocab,
                     struct error *err)
{
    const struct token_row *rows = token_data_rows(d);
    for (int32_t i = 0; i < d->n && d->most >= vocab; i++)
        for (size_t k = rows[i].first; k < rows[i].first + (size_t)rows[i].n;
             k++) {
            const int32_t id = ints(&d->ids)[k], label = ints(&d->labels)[k];
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
    uint64_t sum = crc64(0, d->ids.data, d->ids.len);
    sum = crc64(sum, d->labels.data, d->labels.len);
    for (int32_t i = 0; i < d->n; i++)
        sum = crc64(sum, &rows[i].n, sizeof(rows[i].n));
    return sum;
}
