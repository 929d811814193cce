/* token_read.c - see token_read.h. */
#include "worker/data/text/token_read.h"

#include <stdlib.h>

#include "worker/data/text/ordered_work.h"

enum {
    BATCH_ROWS = 256,
    BATCH_BYTES = 64 << 10, /* some milliseconds of work */
    /* Limit of all batches handed out; parsed rows and tokens take a few times
     * as much. */
    ON_WAY_BYTES = 8 << 20
};

/* A row that waits to be tokenised, or why it cannot be read. */
struct item {
    json_t *row; /* owned; NULL: see why */
    struct row_place place;
    int64_t line;
    struct error *why; /* owned */
};

struct batch {
    struct item items[BATCH_ROWS];
    int32_t n;
    size_t bytes;
    struct token_part part;
    struct rows_skipped skipped;
    struct row_keys unread;
    struct error err; /* ERR_NONE, or why all ends */
};

struct reader {
    const struct token_reading *conf;
    struct token_read *ret;
    struct row_sink sink;
    struct chat_format format;
    struct token_encoder *encoders; /* one of each thread */
    int32_t n_encoders;
    struct ordered_work *work; /* NULL: not begun */
    struct batch *batch;       /* not handed out yet */
    size_t on_way;
    struct error err; /* of the first row that ends all */
};

/* ---- a batch, on any thread ---------------------------------------------- */

static void free_batch(void *item)
{
    struct batch *b = item;
    for (int32_t i = 0; b != NULL && i < b->n; i++) {
        json_decref(b->items[i].row);
        free(b->items[i].why);
    }
    if (b != NULL)
        token_part_clear(&b->part);
    free(b);
}

static int encode_item(const struct reader *r, struct token_encoder *e,
                       struct batch *b, const struct item *i, struct error *err)
{
    if (i->row == NULL) {
        *err = *i->why;
        return -1;
    }
    if (token_encode(e, i->row, i->place, &b->part, err) == 0) {
        for (int32_t k = 0; k < e->messages.n_unread; k++)
            row_keys_add(&b->unread, e->messages.unread[k], i->place.file,
                         i->line, 1);
        return 0;
    }
    return error_wrap(err, "%s: row %d: line %lld",
                      r->conf->files->path[i->place.file], i->place.number,
                      (long long)i->line);
}

static void encode_batch(void *arg, int32_t thread, void *item)
{
    const struct reader *r = arg;
    struct batch *b = item;
    for (int32_t i = 0; i < b->n; i++) {
        struct error err = ERROR_INIT;
        const int rc =
            encode_item(r, &r->encoders[thread], b, &b->items[i], &err);
        json_decref(b->items[i].row);
        b->items[i].row = NULL;
        if (rc == 0)
            continue;
        if (!r->sink.skip_bad || err.code != ERR_INVAL) {
            b->err = err;
            return;
        }
        rows_skipped_add(&b->skipped, &err);
    }
}

/* ---- batches, on the caller's thread ------------------------------------- */

static void add_skipped(struct rows_skipped *to, const struct rows_skipped *s)
{
    for (int32_t i = 0; i < s->n && i < ROWS_NAMED; i++)
        rows_skipped_add(to, &s->why[i]);
    to->n += s->n > ROWS_NAMED ? s->n - ROWS_NAMED : 0;
}

static int finish_batch(struct reader *r, struct batch *b, struct error *err)
{
    r->on_way -= b->bytes;
    add_skipped(&r->ret->skipped, &b->skipped);
    for (int32_t i = 0; i < b->unread.n; i++) {
        const struct row_key *k = &b->unread.key[i];
        row_keys_add(&r->ret->unread, k->name, k->file, k->line, k->rows);
    }
    if (b->err.code == ERR_NONE)
        return r->conf->take(r->conf->arg, &b->part, err);
    *err = b->err;
    return -1;
}

/* Batches that are done; with `all` those that are not as well. */
static int collect(struct reader *r, bool all, struct error *err)
{
    struct batch *b;
    int rc = 0;
    while (rc == 0 &&
           (b = ordered_work_take(r->work,
                                  all || r->on_way > ON_WAY_BYTES ||
                                      ordered_work_is_full(r->work))) != NULL) {
        rc = finish_batch(r, b, err);
        free_batch(b);
    }
    return rc;
}

/* in   threads  that tokenise; 1: this one does */
static int start(struct reader *r, int32_t threads, struct error *err)
{
    const struct ordered_work_conf conf = {.threads = threads > 1 ? threads : 0,
                                           .cpus = r->conf->conf->cpus,
                                           .work = encode_batch,
                                           .drop = free_batch,
                                           .arg = r};
    r->encoders = calloc((size_t)threads, sizeof(*r->encoders));
    if (r->encoders == NULL)
        return error_set(err, ERR_NOMEM, "tokenising");
    r->n_encoders = threads;
    for (int32_t i = 0; i < threads; i++) {
        r->encoders[i].conf = r->conf->conf;
        r->encoders[i].format = &r->format;
    }
    return ordered_work_start(&conf, &r->work, err);
}

static int32_t threads_of(const struct reader *r)
{
    const struct token_conf *c = r->conf->conf;
    return c->threads > 0 && c->threads < ORDERED_WORK_THREADS
               ? c->threads
               : ordered_work_cpus(c->cpus);
}

static int hand_out(struct reader *r, int32_t threads, struct error *err)
{
    struct batch *b = r->batch;
    if (b == NULL)
        return 0;
    if (r->work == NULL && start(r, threads, err) < 0)
        return -1;
    r->batch = NULL;
    r->on_way += b->bytes;
    ordered_work_put(r->work, b);
    return collect(r, false, err);
}

static struct batch *batch_of(struct reader *r, struct error *err)
{
    if (r->batch == NULL) {
        r->batch = calloc(1, sizeof(*r->batch));
        if (r->batch == NULL)
            (void)error_set(err, ERR_NOMEM, "tokenising");
    }
    return r->batch;
}

/* A batch is handed out when the next row comes: its last row belongs to it
 * alone only when the reader of the file has let go of it. What goes wrong here
 * is of an earlier row, or of all. */
static int add_item(struct reader *r, json_t *row, const struct error *why)
{
    struct row_sink *s = &r->sink;
    if (r->batch != NULL &&
        (r->batch->n == BATCH_ROWS || r->batch->bytes >= BATCH_BYTES) &&
        hand_out(r, threads_of(r), &r->err) < 0)
        return -1;
    struct batch *b = batch_of(r, &r->err);
    struct item *i = b != NULL ? &b->items[b->n] : NULL;
    if (b == NULL)
        return -1;
    *i = (struct item){.row = json_incref(row), .place = s->place};
    i->line = s->line;
    b->n++;
    b->bytes += row != NULL ? s->row_bytes : 0;
    if (why != NULL) {
        i->why = malloc(sizeof(*i->why));
        if (i->why == NULL)
            return error_set(&r->err, ERR_NOMEM, "tokenising");
        *i->why = *why;
    }
    return 0;
}

/* ---- rows ---------------------------------------------------------------- */

static int take_row(void *arg, const json_t *row, struct row_place place,
                    struct error *err)
{
    struct reader *r = arg;
    const struct token_conf *conf = r->conf->conf;
    if (conf->progress != NULL)
        conf->progress(conf->arg, r->sink.bytes, place.index);
    if (add_item(r, (json_t *)row, NULL) == 0)
        return 0;
    *err = r->err;
    return -1;
}

static int take_left_out(void *arg, const struct error *why, struct error *err)
{
    struct reader *r = arg;
    if (add_item(r, NULL, why) == 0)
        return 0;
    *err = r->err;
    return -1;
}

/* Rows before the one at which reading ended come first. */
static int read_all(struct reader *r, struct error *err)
{
    struct error why = ERROR_INIT;
    int rc = data_rows_read(r->conf->files, &r->sink, &why);
    r->ret->rows = r->sink.rows;
    if (r->err.code == ERR_NONE && hand_out(r, 1, &r->err) == 0 &&
        r->work != NULL)
        (void)collect(r, true, &r->err);
    if (r->err.code == ERR_NONE && rc == 0)
        return 0;
    if (err != NULL)
        *err = r->err.code != ERR_NONE ? r->err : why;
    return -1;
}

int token_read(const struct token_reading *conf, struct token_read *ret,
               struct error *err)
{
    const struct token_conf *c = conf->conf;
    *ret = (struct token_read){.rows = 0};
    struct reader r = {.conf = conf, .ret = ret};
    r.sink = (struct row_sink){.take = take_row,
                               .left_out = take_left_out,
                               .arg = &r,
                               .skip_bad = c->text->on_bad_row == BAD_ROW_SKIP,
                               .most = conf->most};
    if (c->text->template != TEMPLATE_TOKENS &&
        chat_format_init(&r.format, c->tokenizer, c->prompt, c->eos,
                         c->text->packed ? 0 : c->max_seq_len, err) < 0)
        return -1;
    if (c->end.name[0] != '\0') {
        r.format.end = c->end.id;
        r.format.end_name = c->end.name;
    }
    r.format.is_whole = c->is_whole;
    r.format.is_unknown = c->is_unknown;
    int rc = read_all(&r, err);
    ordered_work_end(r.work);
    free_batch(r.batch);
    for (int32_t i = 0; i < r.n_encoders; i++)
        messages_clear(&r.encoders[i].messages);
    free(r.encoders);
    return rc;
}
