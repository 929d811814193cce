/* token_batches.c - the source of batches of token rows: reads and tokenises
 * the data, deals it to the ranks, and puts rows together in turn.
 *
 * All rows are there as ids when the source is open, on every rank: in memory,
 * or in a file that the kernel holds once for all ranks. To make a batch is
 * then to copy a few thousand numbers, so that no thread reads ahead: ahead()
 * makes the next batch while the device works. */
#include "worker/llm/batches/token_batches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/data/chat/chat_tokenizer.h"
#include "worker/llm/batches/token_feed.h"
#include "worker/llm/batches/token_rows.h"

struct token_batches {
    struct batch_source source;
    struct batch_env env;
    struct batch_info info;
    int32_t eos;    /* ends an answer; -1: the tokenizer's */
    int32_t window; /* that some layers have; 0: none */
    struct token_feed feeds[BATCH_PARTS];
    int32_t pad;     /* the id of padding */
    int32_t *counts; /* [classes]; owned */
    int32_t *index;  /* [batch], the larger of the parts; owned */
};

static struct token_batches *tokens_of(struct batch_source *s)
{
    return (struct token_batches *)s; /* its first member */
}

static const struct token_batches *tokens_at(const struct batch_source *s)
{
    return (const struct token_batches *)s;
}

/* ---- opening ------------------------------------------------------------- */

static const char *key_of(int part)
{
    return part == BATCH_EVAL ? "train.dataset_val.path" : "train.dataset.path";
}

static int open_part(struct token_batches *s, int part,
                     const struct tokenizer *tokenizer, struct error *err)
{
    struct token_feed *f = &s->feeds[part];
    if (token_feed_open(f, &s->env, tokenizer, s->eos, err) < 0)
        return error_wrap(err, "%s", key_of(part));
    if ((int64_t)f->batch * f->longest > INT32_MAX / 2)
        return error_set(err, ERR_LIMIT,
                         "train.batch_size: a batch of %d rows of %d tokens, "
                         "at most %d tokens fit",
                         f->batch, f->longest, INT32_MAX / 2);
    return 0;
}

static bool needs_tokenizer(const struct token_feed *f)
{
    return f->text->path != NULL && f->text->template != TEMPLATE_TOKENS;
}

/* The tokenizer's own id of padding; v0.1.1 of torchtune and Llama 2: 0. */
static int32_t pad_of(const struct token_batches *s,
                      const struct tokenizer *tokenizer)
{
    int32_t pad = s->env.spec->train.tokenizer.pad_id;
    if (pad < 0 && tokenizer != NULL)
        pad = tokenizer_special(tokenizer, "<|finetune_right_pad_id|>");
    return pad > 0 ? pad : 0;
}

static int open_parts(struct token_batches *s, struct error *err)
{
    const struct job_spec *spec = s->env.spec;
    struct token_feed *train = &s->feeds[BATCH_TRAIN];
    struct token_feed *eval = &s->feeds[BATCH_EVAL];
    struct tokenizer *tokenizer = NULL;
    if ((needs_tokenizer(train) || needs_tokenizer(eval)) &&
        chat_tokenizer_of_job(spec, spec->train.checkpointer.dir, &tokenizer,
                              err) < 0)
        return error_wrap(err, "train.tokenizer.path");
    int rc = open_part(s, BATCH_TRAIN, tokenizer, err);
    if (rc == 0 && eval->text->path != NULL)
        rc = open_part(s, BATCH_EVAL, tokenizer, err);
    s->pad = pad_of(s, tokenizer);
    tokenizer_close(tokenizer);
    return rc;
}

/* Ranks number the rows by what each of them read. */
static int agree_on_rows(struct token_batches *s, struct error *err)
{
    const struct token_data *eval = &s->feeds[BATCH_EVAL].data;
    uint64_t sum = 0, of_eval = 0;
    if (token_data_digest(&s->feeds[BATCH_TRAIN].data, &sum, err) < 0 ||
        token_data_digest(eval, &of_eval, err) < 0)
        return -1;
    sum ^= of_eval << 1;
    int64_t v[2] = {(int64_t)(sum >> 1), -(int64_t)(sum >> 1)};
    if (comm_all_reduce_now(s->env.comm, v, 2, COMM_I64, COMM_MAX,
                            s->env.deadline_s, err) < 0)
        return -1;
    if (v[0] != -v[1])
        return error_set(err, ERR_INVAL,
                         "%s: the ranks do not read the same rows in it, or "
                         "in the data of the evaluation",
                         s->feeds[BATCH_TRAIN].text->path);
    return 0;
}

static int open_samplers(struct token_batches *s, struct error *err)
{
    const struct job_spec *spec = s->env.spec;
    const struct comm *c = s->env.comm;
    struct token_feed *train = &s->feeds[BATCH_TRAIN];
    struct token_feed *eval = &s->feeds[BATCH_EVAL];
    const uint32_t flags =
        (spec->train.shuffle ? SAMPLER_SHUFFLE : 0) |
        (spec->train.dataset.drop_last ? SAMPLER_DROP_LAST : 0);
    if (sampler_init(&train->sampler, train->packs.n, s->env.first,
                     s->env.streams, spec->train.seed, flags, err) < 0)
        return -1;
    if (eval->data.n == 0)
        return 0;
    if (sampler_init(&eval->sampler, eval->packs.n, c->rank, c->size,
                     spec->train.seed, SAMPLER_EVAL, err) < 0)
        return -1;
    eval->end = sampler_batches(&eval->sampler, eval->batch);
    return 0;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Bytes of a sample in the array of pairs. */
static size_t pair_bytes(const struct token_feed *f)
{
    return f->pairs ? 2 * sizeof(struct pair_answer) : 0;
}

static void set_info(struct token_batches *s)
{
    const struct token_feed *train = &s->feeds[BATCH_TRAIN];
    const struct token_feed *eval = &s->feeds[BATCH_EVAL];
    s->info = (struct batch_info){
        .classes =
            larger(larger(train->data.most, eval->data.most), s->pad) + 1,
        .left_out = train->data.skipped.n,
        .row_tokens = larger(train->longest, eval->longest),
        .positions = train->pairs
                         ? larger(train->data.longest, eval->data.longest)
                         : larger(train->longest, eval->longest),
        .sample_weight =
            train->pairs ? 1 : (double)train->data.labelled / train->packs.n};
    for (int i = 0; i < TOKENS_LISTS; i++)
        s->info.sample_bytes[i] = (size_t)s->info.row_tokens * sizeof(int32_t);
    s->info.sample_bytes[TOKENS_PAIR] = pair_bytes(train);
}

static int open_all(struct token_batches *s, struct error *err)
{
    const struct job_spec *spec = s->env.spec;
    const int32_t n_eval = spec->train.batch_size_val;
    s->feeds[BATCH_TRAIN].text = &spec->train.dataset;
    s->feeds[BATCH_TRAIN].batch = spec->train.batch_size;
    s->feeds[BATCH_TRAIN].parts = s->env.parts;
    s->feeds[BATCH_EVAL].text = &spec->train.dataset_val;
    s->feeds[BATCH_EVAL].batch = n_eval > 0 ? n_eval : spec->train.batch_size;
    s->feeds[BATCH_EVAL].parts = 1;
    /* Numbers of tokens in a batch belong to that batch: it cannot be cut. */
    if (s->env.shares != 1)
        return error_set(err, ERR_INVAL,
                         "train.distribution: with kind llm each rank reads "
                         "its own rows: 'ddp-ds', or all the same: 'ddp'");
    if (open_parts(s, err) < 0 || agree_on_rows(s, err) < 0)
        return -1;
    set_info(s);
    return open_samplers(s, err);
}

int token_batches_check(const struct batch_source *source, int32_t vocab,
                        struct error *err)
{
    const struct token_batches *s = tokens_at(source);
    for (int i = 0; i < BATCH_PARTS; i++)
        if (token_data_check(&s->feeds[i].data, vocab, err) < 0)
            return error_wrap(err, "%s", key_of(i));
    if (s->pad >= vocab)
        return error_set(err, ERR_INVAL,
                         "train.tokenizer.pad_id: token id %d, the model has "
                         "0 to %d",
                         s->pad, vocab - 1);
    return 0;
}

/* ---- what it says of itself ---------------------------------------------- */

static const struct batch_info *info(const struct batch_source *source)
{
    return &tokens_at(source)->info;
}

static int count(struct batch_source *source, int32_t *ret_train,
                 int32_t *ret_eval, struct error *err)
{
    const struct token_batches *s = tokens_of(source);
    const struct token_feed *train = &s->feeds[BATCH_TRAIN];
    const bool drops = s->env.spec->train.dataset.drop_last;
    const int32_t share = train->sampler.per_rank;
    if (drops && share < train->batch)
        return error_set(err, ERR_INVAL,
                         "train.dataset.drop_last leaves nothing: a rank has "
                         "%d rows, train.batch_size is %d",
                         share, train->batch);
    *ret_train = drops ? share / train->batch
                       : sampler_batches(&train->sampler, train->batch);
    *ret_eval = s->feeds[BATCH_EVAL].end;
    return 0;
}

static void describe(const struct batch_source *source, int32_t batches,
                     char *ret, size_t cap)
{
    const struct token_batches *s = tokens_at(source);
    const struct token_feed *f = &s->feeds[BATCH_TRAIN];
    const int64_t used = (int64_t)batches * f->batch * s->env.streams;
    char train[160], part[80] = "", eval[24] = "none";
    token_feed_describe(f, train, sizeof(train));
    if (used < f->packs.n)
        (void)snprintf(part, sizeof(part), ", %" PRId64 " %s in each epoch",
                       used,
                       f->pairs          ? "pairs"
                       : f->text->packed ? "packs"
                                         : "rows");
    if (s->feeds[BATCH_EVAL].data.n > 0)
        (void)snprintf(eval, sizeof(eval), "%d",
                       f->pairs ? s->feeds[BATCH_EVAL].packs.n
                                : s->feeds[BATCH_EVAL].data.n);
    (void)snprintf(ret, cap, "%s%s, %s for evaluation, %d iterations per epoch",
                   train, part, eval, batches);
}

/* ---- memory -------------------------------------------------------------- */

static struct token_stage stage_of(const struct token_batches *s, int part)
{
    const struct token_feed *f = &s->feeds[part];
    return (struct token_stage){.d = s->env.dev,
                                .tokens = (int64_t)f->batch * f->longest,
                                .pairs = f->pairs ? f->batch : 0,
                                .slot = 2 * part,
                                .pin =
                                    s->env.spec->train.pin_memory != TRI_FALSE};
}

static size_t index_bytes(const struct token_batches *s)
{
    return (size_t)larger(s->feeds[BATCH_TRAIN].batch,
                          s->feeds[BATCH_EVAL].batch) *
           sizeof(int32_t);
}

static size_t counts_bytes(const struct token_batches *s)
{
    return (size_t)s->info.classes * sizeof(int32_t);
}

static void plan(const struct batch_source *source, int64_t *ret_device,
                 int64_t *ret_host)
{
    const struct token_batches *s = tokens_at(source);
    int64_t device = 0, host = (int64_t)(index_bytes(s) + counts_bytes(s));
    for (int i = 0; i < BATCH_PARTS; i++) {
        const struct token_stage stage = stage_of(s, i); /* 0 without data */
        device += token_stage_device_bytes(&stage);
        host += token_stage_host_bytes(&stage);
        if (s->env.spec->train.loss.precompute_reference)
            host += 2 * (int64_t)sizeof(double) *
                    token_batches_pairs(source, (enum batch_part)i);
    }
    *ret_device = device;
    *ret_host = host;
}

static int start(struct batch_source *source, struct error *err)
{
    struct token_batches *s = tokens_of(source);
    s->index = malloc(index_bytes(s));
    s->counts = malloc(counts_bytes(s));
    if (s->index == NULL || s->counts == NULL)
        return error_set(err, ERR_NOMEM, "batch");
    for (int i = 0; i < BATCH_PARTS; i++) {
        if (s->feeds[i].data.n == 0)
            continue;
        s->feeds[i].stage = stage_of(s, i);
        if (token_stage_start(&s->feeds[i].stage, err) < 0)
            return error_wrap(err, "batch");
    }
    return 0;
}

/* ---- batches in turn ----------------------------------------------------- */

static int begin(struct batch_source *source, const struct batch_epoch *e,
                 struct error *err)
{
    struct token_feed *f = &tokens_of(source)->feeds[BATCH_TRAIN];
    (void)err;
    f->end = e->batches * f->parts;
    f->next = 0;
    f->on_way_bytes = 0;
    f->sampler.seed = e->seed;
    sampler_epoch(&f->sampler, e->epoch - 1);
    return 0;
}

/* Makes a batch of the n samples in s->index, and sends it. */
static int make_of(struct token_batches *s, struct token_feed *f, int32_t n,
                   struct error *err)
{
    struct token_rows rows;
    const struct token_pick pick = {.data = &f->data,
                                    .packs = &f->packs,
                                    .index = s->index,
                                    .pad = s->pad,
                                    .reference = f->reference,
                                    .n = n};
    int32_t S = f->text->packed ? f->longest : token_rows_longest(&pick);
    if (f->pairs)
        S = token_rows_dense(&pick, f->batch);
    if (token_stage_open(&f->stage, f->batch, S, &rows, err) < 0)
        return error_wrap(err, "batch");
    rows.window = s->window;
    if (token_rows_fill(&rows, &pick, s->counts, s->info.classes, err) < 0)
        return error_wrap(err, "batch");
    f->on_way = (struct batch){.n = f->batch,
                               .weight = rows.n_labelled,
                               .tokens = rows.tokens,
                               .attends = rows.attends,
                               .windowed = rows.windowed,
                               .labelled = rows.n_labelled};
    for (int32_t k = 0; k < n; k++)
        f->on_way.valid += s->index[k] != SAMPLER_NONE;
    if (f->pairs)
        f->on_way.weight = f->on_way.valid;
    if (token_stage_send(&f->stage, err) < 0)
        return error_wrap(err, "batch");
    f->on_way_bytes = (size_t)S * sizeof(int32_t);
    return 0;
}

/* Makes batch f->next and sends it. */
static int make(struct token_batches *s, struct token_feed *f,
                struct error *err)
{
    struct sampler one = f->sampler;
    const int32_t i = f->next;
    one.rank += i % f->parts;
    const int32_t n = sampler_batch(&one, i / f->parts, f->batch, s->index);
    if (n == 0)
        return error_set(err, ERR_INVAL, "data: there is no batch %d", i);
    return make_of(s, f, n, err);
}

/* The batch on its way is there. */
static int receive(struct token_feed *f, struct batch *ret, struct error *err)
{
    void *arrays[BATCH_ARRAYS];
    if (token_stage_receive(&f->stage, arrays, err) < 0)
        return error_wrap(err, "batch");
    struct batch b = f->on_way;
    for (int k = 0; k < TOKENS_LISTS; k++)
        b.arrays[k] = (struct batch_array){arrays[k], f->on_way_bytes};
    b.arrays[TOKENS_PAIR] =
        (struct batch_array){arrays[TOKENS_PAIR], pair_bytes(f)};
    f->on_way_bytes = 0;
    *ret = b;
    return 0;
}

static int take(struct batch_source *source, enum batch_part part, int32_t i,
                struct batch *ret, struct error *err)
{
    struct token_batches *s = tokens_of(source);
    struct token_feed *f = &s->feeds[part];
    const struct clock *clock = s->env.clock;
    const double t0 = clock->now_s(clock);
    struct batch b;
    if (i != f->next)
        f->on_way_bytes = 0;
    f->next = i;
    if (f->on_way_bytes == 0 && make(s, f, err) < 0)
        return -1;
    const double t1 = clock->now_s(clock);
    if (receive(f, &b, err) < 0)
        return -1;
    f->next++;
    b.data_s = t1 - t0;
    b.h2d_s = clock->now_s(clock) - t1;
    *ret = b;
    return 0;
}

/* Without copies that overlap compute, the next batch has no room until the
 * device is done with this one. */
static int ahead(struct batch_source *source, enum batch_part part,
                 struct error *err)
{
    struct token_batches *s = tokens_of(source);
    struct token_feed *f = &s->feeds[part];
    if (f->on_way_bytes > 0 || f->next >= f->end ||
        !token_stage_is_ahead(&f->stage))
        return 0;
    return make(s, f, err);
}

/* ---- pairs --------------------------------------------------------------- */

int32_t token_batches_pairs(const struct batch_source *source,
                            enum batch_part part)
{
    const struct token_feed *f = &tokens_at(source)->feeds[part];
    return f->pairs ? f->packs.n : 0;
}

int token_batches_take_pairs(struct batch_source *source, enum batch_part part,
                             int32_t first, struct batch *ret,
                             struct error *err)
{
    struct token_batches *s = tokens_of(source);
    struct token_feed *f = &s->feeds[part];
    int32_t n = 0;
    while (n < f->batch && first + n < f->packs.n) {
        s->index[n] = first + n;
        n++;
    }
    return make_of(s, f, n, err) < 0 ? -1 : receive(f, ret, err);
}

int token_batches_pairs_digest(const struct batch_source *source,
                               enum batch_part part, char ret[DIGEST_HEX_CAP],
                               struct error *err)
{
    const struct token_data *d = &tokens_at(source)->feeds[part].data;
    return token_data_sha256(d, ret, err);
}

void token_batches_set_reference(struct batch_source *source,
                                 enum batch_part part, double *reference)
{
    struct token_feed *f = &tokens_of(source)->feeds[part];
    free(f->reference);
    f->reference = reference;
    f->on_way_bytes = 0; /* it was made without */
}

static void destroy(struct batch_source *source)
{
    struct token_batches *s = tokens_of(source);
    for (int i = 0; i < BATCH_PARTS; i++)
        token_feed_close(&s->feeds[i]);
    free(s->counts);
    free(s->index);
    free(s);
}

static const struct batch_source_ops ops = {
    .noun = "rows",
    .destroy = destroy,
    .info = info,
    .plan = plan,
    .start = start,
    .count = count,
    .begin = begin,
    .take = take,
    .ahead = ahead,
    .describe = describe,
};

int token_batches_open(const struct batch_env *env, int32_t eos, int32_t window,
                       struct batch_source **ret, struct error *err)
{
    struct token_batches *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(err, ERR_NOMEM, "data");
    *s = (struct token_batches){
        .source = {.ops = &ops}, .env = *env, .eos = eos, .window = window};
    if (open_all(s, err) < 0) {
        destroy(&s->source);
        return -1;
    }
    *ret = &s->source;
    return 0;
}
