/* token_data.c - see token_data.h. */
#include "worker/data/text/token_data.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/text/row_split.h"
#include "worker/checkpoint/crc64.h"
#include "worker/data/chat/chat_template.h"
#include "worker/data/text/token_read.h"

/* State while the rows are read. */
struct opening {
    const struct token_conf *conf;
    struct token_data *data;
    struct row_split split;
};

/* ---- tokens in memory, or in a file -------------------------------------- */

int token_data_recall(struct token_data *d, struct error *err)
{
    if (token_list_recall(&d->ids, err) < 0)
        return -1;
    return token_list_recall(&d->labels, err);
}

/* The labels' file has no name: a process that ends leaves nothing behind. */
static int open_spills(struct token_data *d, const struct token_spill *spill)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    char *name = NULL;
    (void)unlink(spill->path); /* of a process that was killed */
    int ids = open(spill->path, flags, 0600), labels = -1;
    if (ids >= 0 && asprintf(&name, "%s.labels", spill->path) >= 0) {
        (void)unlink(name);
        labels = open(name, flags, 0600);
        if (labels >= 0)
            (void)unlink(name);
        free(name);
    }
    if (labels >= 0) {
        token_list_use_file(&d->ids, ids, spill->base);
        token_list_use_file(&d->labels, labels, 0);
        return 0;
    }
    if (ids >= 0)
        (void)close(ids);
    return -1;
}

/* Moves tokens to the file; if the disk is full they stay in memory. */
static int spill(struct opening *o, struct error *err)
{
    const struct token_spill *to = o->conf->spill;
    struct token_data *d = o->data;
    struct error why = ERROR_INIT;
    if (to == NULL || d->ids.memory.len < to->bytes || d->no_room)
        return 0;
    if (!d->ids.has_file && open_spills(d, to) < 0)
        (void)error_sys(&why, errno, "open '%s'", to->path);
    else if (token_list_flush(&d->ids, &why) == 0 &&
             token_list_flush(&d->labels, &why) == 0)
        return 0;
    d->no_room = true;
    if (token_data_recall(d, err) < 0)
        return -1;
    to->no_room(to->arg, &why);
    return 0;
}

/* ---- all rows ------------------------------------------------------------ */

static int take_part(void *arg, const struct token_part *part,
                     struct error *err)
{
    struct opening *o = arg;
    struct token_data *d = o->data;
    const size_t rows = part->list.len / sizeof(struct token_row);
    const size_t first = token_list_values(&d->ids), at = d->list.len;
    if (buf_add(&d->ids.memory, part->ids.data, part->ids.len, err) < 0 ||
        buf_add(&d->labels.memory, part->labels.data, part->labels.len, err) <
            0 ||
        buf_add(&d->list, part->list.data, part->list.len, err) < 0)
        return -1;
    struct token_row *list = (struct token_row *)(void *)(d->list.data + at);
    for (size_t i = 0; i < rows; i++)
        list[i].first += first;
    d->n += (int32_t)rows;
    d->most = part->most > d->most ? part->most : d->most;
    return spill(o, err);
}

static int prepare(struct opening *o, struct error *err)
{
    const struct token_conf *c = o->conf;
    if (row_split_parse(c->text->split, &o->split, err) < 0)
        return error_wrap(err, "split");
    if (c->text->packed && c->max_seq_len == 0)
        return error_set(err, ERR_INVAL,
                         "packed rows need train.tokenizer.max_seq_len, the "
                         "length of a pack");
    return 0;
}

/* Rows that must be read: a bound that is known leaves the later ones out. */
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
        d->labelled += list[i].labelled;
        d->cut += list[i].lost >= 0;
        d->lost += list[i].lost > 0 ? list[i].lost : 0;
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
    struct token_read read;
    int64_t within = 0;
    if (data_files_find(text->path, &text->data_files, &d->files, err) < 0)
        return -1;
    const struct token_reading reading = {.conf = o->conf,
                                          .files = &d->files,
                                          .most = rows_needed(o),
                                          .take = take_part,
                                          .arg = o};
    int rc = token_read(&reading, &read, err);
    d->skipped = read.skipped;
    d->unread = read.unread;
    if (rc < 0)
        return -1;
    keep_split(o, read.rows, &within);
    return check(o, read.rows, within, err);
}

int token_data_open(const struct token_conf *conf, struct token_data *ret,
                    struct error *err)
{
    struct token_data d = {.n = 0};
    struct opening o = {.conf = conf, .data = &d};
    if (prepare(&o, err) < 0 || read_rows(&o, err) < 0) {
        token_data_clear(&d);
        return -1;
    }
    *ret = d;
    return 0;
}

void token_data_clear(struct token_data *d)
{
    if (d == NULL)
        return;
    token_list_clear(&d->ids);
    token_list_clear(&d->labels);
    buf_clear(&d->list);
    data_files_clear(&d->files);
    if (d->is_kept)
        (void)close(d->kept.fd);
    free(d->kept.path);
    memset(d, 0, sizeof(*d));
}

int token_conf_of(const struct job_spec *s, const struct spec_text *text,
                  const struct tokenizer *tokenizer, int32_t eos,
                  struct token_conf *ret, struct error *err)
{
    const struct spec_text *d = &s->train.dataset;
    enum spec_prompt prompt = PROMPT_NONE;
    struct error why = ERROR_INIT;
    bool is_unknown = false;
    if (chat_template_choose(s, text->template, &prompt, &why) < 0) {
        /* Rows of texts need none. */
        is_unknown = text->template == TEMPLATE_PROMPT_COMPLETION &&
                     why.code == ERR_INVAL;
        if (!is_unknown && err != NULL)
            *err = why;
        if (!is_unknown)
            return -1;
    }
    *ret = (struct token_conf){.text = text,
                               .columns = &d->column_map,
                               .system_prompt = d->new_system_prompt,
                               .tokenizer = tokenizer,
                               .prompt = prompt,
                               .is_whole = s->preset == PRESET_PAPER_2503,
                               .is_unknown = is_unknown,
                               .eos = eos,
                               .pairs = s->method == METHOD_DPO,
                               .max_seq_len = s->train.tokenizer.max_seq_len};
    if (text->template == TEMPLATE_PROMPT_COMPLETION)
        chat_tokenizer_end(chat_template_dir(s), tokenizer, &ret->end);
    return 0;
}

/* ---- reading tokens ------------------------------------------------------ */

const struct token_row *token_data_rows(const struct token_data *d)
{
    return (const struct token_row *)(const void *)d->list.data;
}

const int32_t *token_data_ids(const struct token_data *d)
{
    assert(!d->is_kept);
    return token_list_data(&d->ids);
}

const int32_t *token_data_labels(const struct token_data *d)
{
    assert(!d->is_kept);
    return token_list_data(&d->labels);
}

static int read_kept(const struct token_kept *k, size_t at, size_t n,
                     int32_t *ret, struct error *err)
{
    char *p = (char *)ret;
    size_t left = n * sizeof(*ret);
    int64_t from = k->base + (int64_t)(at * sizeof(*ret));
    while (left > 0) {
        const ssize_t got = pread(k->fd, p, left, from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_sys(err, errno, "read '%s'", k->path);
        if (got == 0)
            return error_set(err, ERR_IO,
                             "'%s' has become shorter while it was used",
                             k->path);
        p += got;
        from += got;
        left -= (size_t)got;
    }
    return 0;
}

/* Buffers are as long as the rows, and tables as d->most says. */
static int check_kept(const struct token_data *d, const int32_t *ids,
                      const int32_t *labels, size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] > d->most || labels[i] > d->most)
            return error_set(err, ERR_IO,
                             "'%s' has other tokens than when it was opened",
                             d->kept.path);
    return 0;
}

int token_data_read(const struct token_data *d, size_t first, size_t n,
                    int32_t *ids, int32_t *labels, struct error *err)
{
    const struct token_kept *k = &d->kept;
    if (!d->is_kept) {
        memcpy(ids, token_data_ids(d) + first, n * sizeof(*ids));
        memcpy(labels, token_data_labels(d) + first, n * sizeof(*labels));
        return 0;
    }
    assert(first <= k->values && n <= k->values - first);
    if (read_kept(k, first, n, ids, err) < 0 ||
        read_kept(k, k->values + first, n, labels, err) < 0)
        return -1;
    return check_kept(d, ids, labels, n, err);
}

enum { WINDOW_TOKENS = 16384 };

void token_window_clear(struct token_window *w)
{
    buf_clear(&w->ids);
    buf_clear(&w->labels);
    w->n = 0;
}

/* The row is in the window, and what follows as far as there is room. */
static int fill_window(const struct token_data *d, const struct token_row *r,
                       struct token_window *w, struct error *err)
{
    const size_t rest = d->kept.values - r->first;
    size_t n = (size_t)r->n;
    if (w->n > 0 && r->first >= w->first && r->first + n <= w->first + w->n)
        return 0;
    if (n < WINDOW_TOKENS)
        n = rest < WINDOW_TOKENS ? rest : WINDOW_TOKENS;
    w->n = 0;
    buf_reset(&w->ids);
    buf_reset(&w->labels);
    if (buf_reserve(&w->ids, n * sizeof(int32_t), err) < 0 ||
        buf_reserve(&w->labels, n * sizeof(int32_t), err) < 0 ||
        token_data_read(d, r->first, n, (int32_t *)(void *)w->ids.data,
                        (int32_t *)(void *)w->labels.data, err) < 0)
        return -1;
    w->first = r->first;
    w->n = n;
    return 0;
}

int token_data_row(const struct token_data *d, int32_t i,
                   struct token_window *w, const int32_t **ret_ids,
                   const int32_t **ret_labels, struct error *err)
{
    const struct token_row *r = &token_data_rows(d)[i];
    if (!d->is_kept) {
        *ret_ids = token_data_ids(d) + r->first;
        *ret_labels = token_data_labels(d) + r->first;
        return 0;
    }
    if (fill_window(d, r, w, err) < 0)
        return -1;
    const size_t at = r->first - w->first;
    *ret_ids = (const int32_t *)(const void *)w->ids.data + at;
    *ret_labels = (const int32_t *)(const void *)w->labels.data + at;
    return 0;
}

/* ---- of all rows --------------------------------------------------------- */

static int each_row(const struct token_data *d,
                    int (*use)(void *arg, const struct token_row *row,
                               const int32_t *ids, const int32_t *labels,
                               struct error *err),
                    void *arg, struct error *err)
{
    struct token_window w = {.n = 0};
    int rc = 0;
    for (int32_t i = 0; i < d->n && rc == 0; i++) {
        const int32_t *ids = NULL, *labels = NULL;
        rc = token_data_row(d, i, &w, &ids, &labels, err);
        if (rc == 0)
            rc = use(arg, &token_data_rows(d)[i], ids, labels, err);
    }
    token_window_clear(&w);
    return rc;
}

struct vocabulary {
    const struct token_data *data;
    int32_t size;
};

static int check_row(void *arg, const struct token_row *row, const int32_t *ids,
                     const int32_t *labels, struct error *err)
{
    const struct vocabulary *v = arg;
    for (int32_t k = 0; k < row->n; k++)
        if (ids[k] >= v->size || labels[k] >= v->size)
            return error_set(
                err, ERR_INVAL,
                "%s: row %d: token id %d, the model has 0 to "
                "%d: use its own tokenizer",
                v->data->files.path[row->place.file], row->place.number,
                ids[k] >= v->size ? ids[k] : labels[k], v->size - 1);
    return 0;
}

int token_data_check(const struct token_data *d, int32_t vocab,
                     struct error *err)
{
    struct vocabulary v = {d, vocab};
    return d->most < vocab ? 0 : each_row(d, check_row, &v, err);
}

static int add_crc(void *arg, const struct token_row *row, const int32_t *ids,
                   const int32_t *labels, struct error *err)
{
    uint64_t *sum = arg;
    const size_t bytes = (size_t)row->n * sizeof(int32_t);
    (void)err;
    *sum = crc64(*sum, ids, bytes);
    *sum = crc64(*sum, labels, bytes);
    *sum = crc64(*sum, &row->n, sizeof(row->n));
    return 0;
}

int token_data_digest(const struct token_data *d, uint64_t *ret,
                      struct error *err)
{
    uint64_t sum = 0;
    if (each_row(d, add_crc, &sum, err) < 0)
        return -1;
    *ret = sum;
    return 0;
}

static int add_sha256(void *arg, const struct token_row *row,
                      const int32_t *ids, const int32_t *labels,
                      struct error *err)
{
    char *sum = arg;
    const size_t bytes = (size_t)row->n * sizeof(int32_t);
    const struct digest_part parts[] = {{sum, strlen(sum)},
                                        {&row->n, sizeof(row->n)},
                                        {ids, bytes},
                                        {labels, bytes}};
    return digest_parts(parts, sizeof(parts) / sizeof(parts[0]), sum, err);
}

int token_data_sha256(const struct token_data *d, char ret[DIGEST_HEX_CAP],
                      struct error *err)
{
    char sum[DIGEST_HEX_CAP] = "";
    if (each_row(d, add_sha256, sum, err) < 0)
        return -1;
    memcpy(ret, sum, sizeof(sum));
    return 0;
}
