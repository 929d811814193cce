/* llm_batches.c - batches of token rows: what their arrays hold, which rows a
 * rank sees and in which order, and what is refused. */
#include "tests/unit/worker/token_rig.h"

static char train_path[] = "/tmp/llm_trainXXXXXX";
static char eval_path[] = "/tmp/llm_evalXXXXXX";

enum { ROWS = 11, EVAL_ROWS = 7, FIRST = 100 };
static const int32_t lengths[ROWS] = {3, 2, 5, 4, 2, 3, 6, 2, 2, 3, 4};

/* The row that begins with this id; -1: it is padding. */
static int32_t row_of(int32_t id)
{
    int32_t first = FIRST;
    for (int32_t i = 0; i < ROWS; i++) {
        if (id == first)
            return i;
        first += lengths[i];
    }
    return -1;
}

static void with_files(struct rig *r, bool sends)
{
    rig_init(r, sends);
    token_file_lengths(train_path, lengths, ROWS, FIRST);
    token_file_lengths(eval_path, lengths, EVAL_ROWS, FIRST);
    r->spec.train.dataset.path = train_path;
    r->spec.train.dataset_val.path = eval_path;
}

/* ---- arrays -------------------------------------------------------------- */

static void is_list(const struct batch *b, enum token_array which, int32_t n,
                    const char *want, const char *what)
{
    char got[400] = "";
    const int32_t *x = b->arrays[which].data;
    for (int32_t i = 0, at = 0; i < n; i++)
        at += snprintf(got + at, sizeof(got) - (size_t)at, "%s%d",
                       i > 0 ? " " : "", x[i]);
    is_str(got, want, what);
}

static void test_rows(void)
{
    struct rig r;
    rig_init(&r, false);
    r.spec.train.batch_size = 3;
    r.spec.train.dataset.path = train_path;
    token_file(train_path,
               "{\"input_ids\": [5, 3, 5]}\n"
               "{\"input_ids\": [4, 3, 9, 0], \"labels\": [4, -9, 9, 8]}\n");
    rig_open(&r);
    rig_epoch(&r, 1);
    struct batch b = rig_take(&r, BATCH_TRAIN, 0);
    is_int(b.n, 3, "a full batch of rows");
    is_int(b.valid, 2, "two of them are real");
    is_int(b.tokens, 7, "tokens without padding");
    is_int(b.attends, 6 + 10, "each attends to itself and those before it");
    is_int(b.windowed, 6 + 10, "without a window in each layer");
    ok(b.weight == 4, "four are labelled");
    is_int((long long)b.arrays[TOKENS_ID].bytes, 16, "the longest has four");
    is_list(&b, TOKENS_ID, 12, "5 3 5 0 4 3 9 0 0 0 0 0", "ids");
    is_list(&b, TOKENS_POS, 12, "0 1 2 0 0 1 2 3 0 0 0 0", "positions");
    is_list(&b, TOKENS_ORDER, 12, "3 7 8 9 10 11 1 5 4 0 2 6", "by id");
    is_list(&b, TOKENS_LABELLED, 4, "0 1 5 6", "labelled");
    is_list(&b, TOKENS_LABEL, 4, "3 5 9 8", "labels");
    const struct batch_info *info = r.source->ops->info(r.source);
    is_int(info->classes, 10, "one more than the highest id");
    is_int(info->row_tokens, 4, "the longest row");
    is_int((long long)info->sample_bytes[TOKENS_LABEL], 16, "of each array");
    ok(info->sample_weight == 2, "two labelled tokens in a row");
    rig_close(&r);
}

static void test_packed(void)
{
    struct rig r;
    rig_init(&r, false);
    r.spec.train.dataset.packed = true;
    r.spec.train.dataset.path = train_path;
    r.spec.train.tokenizer.max_seq_len = 6;
    r.window = 2;
    token_file(train_path,
               "{\"input_ids\": [5, 3]}\n"
               "{\"input_ids\": [4, 3, 9]}\n"
               "{\"input_ids\": [7, 7, 7], \"labels\": [7, 7, -1]}");
    rig_open(&r);
    rig_epoch(&r, 1);
    struct batch b = rig_take(&r, BATCH_TRAIN, 0);
    is_int(b.n, 2, "two packs");
    is_int(b.valid, 2, "both real");
    is_int(b.tokens, 8, "of eight tokens");
    is_int(b.attends, 3 + 6 + 6, "which attend within their documents");
    is_int(b.windowed, 3 + 5 + 5, "and, where a layer has a window, within it");
    is_int((long long)b.arrays[TOKENS_ID].bytes, 24, "as long as they may be");
    is_list(&b, TOKENS_ID, 12, "5 3 4 3 9 0 7 7 7 0 0 0", "ids");
    is_list(&b, TOKENS_POS, 12, "0 1 0 1 2 0 0 1 2 0 0 0",
            "positions begin anew in each document");
    is_list(&b, TOKENS_ORDER, 12, "5 9 10 11 1 3 2 0 6 7 8 4", "by id");
    is_list(&b, TOKENS_LABELLED, 4, "0 2 3 6",
            "no token predicts another document");
    is_list(&b, TOKENS_LABEL, 4, "3 3 9 7", "labels");
    ok(b.weight == 4, "four");
    ok(r.source->ops->info(r.source)->sample_weight == 2, "two in a pack");
    rig_close(&r);
}

/* ---- which rows ---------------------------------------------------------- */

/* Adds the rows of a batch to how often each was seen, and to a text. */
static void note_rows(const struct batch *b, int32_t *seen, struct buf *list)
{
    struct error err = ERROR_INIT;
    const int32_t *id = b->arrays[TOKENS_ID].data;
    const size_t S = b->arrays[TOKENS_ID].bytes / sizeof(int32_t);
    int32_t valid = 0;
    for (int32_t i = 0; i < b->n; i++) {
        const int32_t row = row_of(id[(size_t)i * S]);
        valid += row >= 0;
        if (row >= 0)
            seen[row]++;
        text_must(buf_addf(list, &err, "%d ", row), &err);
    }
    text_must(buf_addstr(list, "|", &err), &err);
    is_int(b->valid, valid, "real rows");
}

static void test_evaluation(int32_t size)
{
    int32_t seen[ROWS] = {0}, wrong = 0, train, batches = -1;
    double weight = 0;
    int64_t tokens = 0;
    for (int32_t rank = 0; rank < size; rank++) {
        struct rig r;
        struct buf list = BUF_INIT;
        int32_t n;
        with_files(&r, false);
        r.spec.train.batch_size_val = 3;
        rig_rank(&r, rank, size, 1);
        rig_open(&r);
        rig_counts(&r, &train, &n);
        ok(batches < 0 || batches == n, "as many batches on each rank");
        batches = n;
        for (int32_t i = 0; i < n; i++) {
            struct batch b = rig_take(&r, BATCH_EVAL, i);
            is_int(b.n, 3, "of batch_size_val rows");
            note_rows(&b, seen, &list);
            weight += b.weight;
            tokens += b.tokens;
        }
        buf_clear(&list);
        rig_close(&r);
    }
    for (int32_t i = 0; i < ROWS; i++)
        wrong += seen[i] != (i < EVAL_ROWS);
    is_int(wrong, 0, "each row is evaluated once");
    ok(weight == 18, "all that is labelled: %g", weight);
    is_int(tokens, 25, "all tokens");
}

/* Of 11 rows 3 ranks have 4 each: the first one is seen twice. */
static void test_training(int32_t size, bool shuffle)
{
    int32_t seen[ROWS] = {0}, more = 0, none = 0, eval, batches = -1;
    for (int32_t rank = 0; rank < size; rank++) {
        struct rig r;
        struct buf list = BUF_INIT;
        int32_t n;
        with_files(&r, false);
        r.spec.train.shuffle = shuffle;
        rig_rank(&r, rank, size, 1);
        rig_open(&r);
        rig_epoch(&r, 1);
        rig_counts(&r, &n, &eval);
        ok(batches < 0 || batches == n, "as many batches on each rank");
        batches = n;
        for (int32_t i = 0; i < n; i++) {
            struct batch b = rig_take(&r, BATCH_TRAIN, i);
            note_rows(&b, seen, &list);
        }
        if (size == 3 && !shuffle && rank == 1)
            is_str(buf_str(&list), "1 4 |7 10 |", "every third from 1 on");
        if (size == 3 && !shuffle && rank == 2)
            is_str(buf_str(&list), "2 5 |8 0 |", "the first one again");
        if (size == 1 && !shuffle)
            is_str(buf_str(&list), "0 1 |2 3 |4 5 |6 7 |8 9 |10 -1 |",
                   "the last batch is filled up with padding");
        buf_clear(&list);
        rig_close(&r);
    }
    for (int32_t i = 0; i < ROWS; i++) {
        none += seen[i] == 0;
        more += seen[i] - 1;
    }
    is_int(none, 0, "each row is seen");
    is_int(more, (size - ROWS % size) % size, "so many again");
}

/* Of 11 rows 3 ranks have 3 each, and a batch of 2. */
static void test_drop_last(void)
{
    struct rig r;
    struct error err = ERROR_INIT;
    struct buf list = BUF_INIT;
    int32_t seen[ROWS] = {0}, n, eval;
    with_files(&r, false);
    r.spec.train.dataset.drop_last = true;
    rig_rank(&r, 1, 3, 1);
    rig_open(&r);
    rig_epoch(&r, 1);
    rig_counts(&r, &n, &eval);
    is_int(n, 1, "what fills a batch on every rank");
    for (int32_t i = 0; i < n; i++) {
        struct batch b = rig_take(&r, BATCH_TRAIN, i);
        note_rows(&b, seen, &list);
    }
    is_str(buf_str(&list), "1 4 |", "every third from 1 on");
    buf_clear(&list);
    rig_close(&r);
    with_files(&r, false);
    r.spec.train.dataset.drop_last = true;
    r.spec.train.batch_size = 4;
    rig_rank(&r, 1, 3, 1);
    rig_open(&r);
    ok(r.source->ops->count(r.source, &n, &eval, &err) < 0 &&
           err.code == ERR_INVAL &&
           strstr(err.msg, "a rank has 3 rows, train.batch_size is 4") != NULL,
       "no batch at all: %s", err.msg);
    rig_close(&r);
}

static void list_epoch(struct rig *r, int32_t epoch, int32_t from,
                       struct buf *list)
{
    int32_t seen[ROWS] = {0}, n, eval;
    rig_epoch(r, epoch);
    rig_counts(r, &n, &eval);
    for (int32_t i = from; i < n * r->env.parts; i++) {
        struct batch b = rig_take(r, BATCH_TRAIN, i);
        note_rows(&b, seen, list);
        rig_ahead(r, BATCH_TRAIN);
    }
}

/* Two batches an iteration: of streams 2 and 3 of the four of two ranks. */
static void test_parts(void)
{
    struct rig r;
    struct buf list = BUF_INIT;
    with_files(&r, false);
    rig_rank(&r, 1, 2, 2);
    rig_open(&r);
    list_epoch(&r, 1, 0, &list);
    is_str(buf_str(&list), "2 6 |3 7 |10 -1 |0 -1 |", "in turn");
    buf_clear(&list);
    rig_close(&r);
}

/* The same order with a device that copies beside its work, from a middle on,
 * and again; another one in another epoch. */
static void test_order(bool sends)
{
    struct rig r;
    struct buf all = BUF_INIT, rest = BUF_INIT, other = BUF_INIT;
    int32_t seen[ROWS] = {0};
    with_files(&r, sends);
    r.spec.train.shuffle = true;
    rig_open(&r);
    list_epoch(&r, 2, 0, &all);
    list_epoch(&r, 2, 3, &rest);
    const char *at = buf_str(&all);
    for (int i = 0; i < 3; i++)
        at = strchr(at, '|') + 1;
    is_str(buf_str(&rest), at, "from the middle on");
    buf_reset(&rest);
    rig_epoch(&r, 2);
    (void)rig_take(&r, BATCH_TRAIN, 0);
    rig_ahead(&r, BATCH_TRAIN);
    list_epoch(&r, 2, 0, &rest);
    is_str(buf_str(&rest), buf_str(&all), "from the beginning, again");
    buf_reset(&rest);
    rig_epoch(&r, 2);
    (void)rig_take(&r, BATCH_TRAIN, 0);
    rig_ahead(&r, BATCH_TRAIN);
    for (int32_t i = 3; i < 6; i++) {
        struct batch b = rig_take(&r, BATCH_TRAIN, i);
        note_rows(&b, seen, &rest);
    }
    is_str(buf_str(&rest), at, "from another batch than was sent ahead");
    list_epoch(&r, 3, 0, &other);
    ok(strcmp(buf_str(&other), buf_str(&all)) != 0, "another epoch: %s",
       buf_str(&other));
    buf_clear(&all);
    buf_clear(&rest);
    buf_clear(&other);
    rig_close(&r);
}

/* ---- memory and copies --------------------------------------------------- */

static void test_memory(bool sends, bool packed)
{
    struct rig r;
    struct error err = ERROR_INIT;
    int64_t device = 0, host = 0;
    with_files(&r, sends);
    r.spec.train.dataset.packed = packed;
    r.spec.train.tokenizer.max_seq_len = packed ? 8 : 0;
    text_must(token_batches_open(&r.env, -1, 0, &r.source, &err), &err);
    is_int(rig_dev.bytes, 0, "to open takes no memory of the device");
    r.source->ops->plan(r.source, &device, &host);
    text_must(r.source->ops->start(r.source, &err), &err);
    is_int(rig_dev.bytes, device, "takes what is planned");
    ok(host > 0, "%lld bytes of the host", (long long)host);
    is_int(rig_dev.pinned, sends ? 4 : 0, "stages that are page-locked");
    is_int(rig_dev.shared, 0, "which share no page");
    rig_epoch(&r, 1);
    const void *x = rig_take(&r, BATCH_TRAIN, 0).arrays[TOKENS_LABEL].data;
    for (int32_t i = 1; i < 3; i++) {
        rig_ahead(&r, BATCH_TRAIN);
        const struct batch b = rig_take(&r, BATCH_TRAIN, i);
        if (packed)
            ok(b.arrays[TOKENS_LABEL].data == x, "packs keep their place");
    }
    (void)rig_take(&r, BATCH_EVAL, 0);
    is_int(rig_dev.bytes, device, "batches take none");
    rig_ahead(&r, BATCH_TRAIN); /* a copy is under way at the end */
    r.source->ops->destroy(r.source);
    r.source = NULL;
    is_int(rig_dev.held, 0, "all of it is given back");
    is_int(rig_dev.pinned, 0, "and unlocked");
    rig_close(&r);
}

static void test_ahead(void)
{
    struct rig r;
    with_files(&r, true);
    rig_open(&r);
    rig_epoch(&r, 1);
    (void)rig_take(&r, BATCH_TRAIN, 0);
    is_int(rig_dev.sends, 1, "a batch is sent when it is taken");
    rig_ahead(&r, BATCH_TRAIN);
    rig_ahead(&r, BATCH_TRAIN);
    is_int(rig_dev.sends, 2, "the next one ahead, once");
    (void)rig_take(&r, BATCH_TRAIN, 1);
    is_int(rig_dev.sends, 2, "and taken without being sent again");
    for (int32_t i = 2; i < 6; i++)
        (void)rig_take(&r, BATCH_TRAIN, i);
    rig_ahead(&r, BATCH_TRAIN);
    is_int(rig_dev.sends, 6, "nothing follows the last one");
    rig_close(&r);
}

/* ---- words --------------------------------------------------------------- */

static void describes(struct rig *r, int32_t batches, const char *want)
{
    char line[200];
    r->source->ops->describe(r->source, batches, line, sizeof(line));
    is_str(line, want, "describes itself");
}

static void test_words(void)
{
    struct rig r;
    int32_t train, eval;
    with_files(&r, false);
    rig_open(&r);
    describes(&r, 6,
              "11 rows of up to 6 tokens, 7 for evaluation, 6 iterations per "
              "epoch");
    describes(&r, 2,
              "11 rows of up to 6 tokens, 4 rows in each epoch, 7 for "
              "evaluation, 2 iterations per epoch");
    is_str(r.source->ops->noun, "rows", "the noun");
    rig_close(&r);
    with_files(&r, false);
    r.spec.train.dataset.packed = true;
    r.spec.train.tokenizer.max_seq_len = 8;
    r.spec.train.dataset_val.path = NULL;
    rig_open(&r);
    rig_counts(&r, &train, &eval);
    is_int(train, 4, "3 2 | 5 | 4 2 | 3 | 6 2 | 2 3 | 4, two a batch");
    is_int(eval, 0, "no evaluation");
    describes(&r, 4,
              "11 rows (7 packs of 8 tokens, 35.7 % padding; "
              "best_fit: 10.0 %), none for "
              "evaluation, 4 iterations per epoch");
    rig_close(&r);
}

/* ---- what is refused ----------------------------------------------------- */

static void refuses(struct rig *r, enum err_code code, const char *part)
{
    struct error err = ERROR_INIT;
    ok(token_batches_open(&r->env, -1, 0, &r->source, &err) < 0 &&
           err.code == code && strstr(err.msg, part) != NULL,
       "%s", err.msg);
    rig_close(r);
}

static void test_refused(void)
{
    char nowhere[] = "/nowhere/data";
    struct rig r;
    with_files(&r, false);
    r.env.shares = 2;
    refuses(&r, ERR_INVAL, "each rank reads its own rows");
    with_files(&r, false);
    r.comm.differs = true;
    r.comm.base.size = 2;
    refuses(&r, ERR_INVAL, "the ranks do not read the same rows");
    with_files(&r, false);
    r.spec.train.dataset.path = nowhere;
    refuses(&r, ERR_NOTFOUND, "/nowhere");
    with_files(&r, false);
    r.spec.train.dataset_val.path = nowhere;
    refuses(&r, ERR_NOTFOUND, "/nowhere");
    with_files(&r, false);
    r.spec.train.dataset_val.packed = true;
    refuses(&r, ERR_INVAL, "packed rows need train.tokenizer.max_seq_len");
    with_files(&r, false);
    r.spec.train.dataset.packed = true;
    r.spec.train.tokenizer.max_seq_len = 1 << 30;
    refuses(&r, ERR_LIMIT, "a batch of 2 rows of 1073741824 tokens");
    with_files(&r, false);
    r.spec.train.dataset.template = TEMPLATE_ALPACA;
    r.spec.train.checkpointer.dir = nowhere;
    refuses(&r, ERR_NOTFOUND, "/nowhere");
    with_files(&r, false);
    rig_open(&r);
    struct error err = ERROR_INIT;
    struct batch b;
    ok(r.source->ops->take(r.source, BATCH_TRAIN, 6, &b, &err) < 0 &&
           strstr(err.msg, "there is no batch 6") != NULL,
       "%s", err.msg);
    rig_close(&r);
}

static void test_vocabulary(void)
{
    struct rig r;
    struct error err = ERROR_INIT;
    with_files(&r, false);
    token_file(train_path, "{\"input_ids\": [1, 2]}\n");
    token_file(eval_path, "{\"input_ids\": [1, 2]}\n"
                          "{\"input_ids\": [1, 2], \"labels\": [-1, 30]}\n");
    rig_open(&r);
    is_int(r.source->ops->info(r.source)->classes, 31, "ids of both parts");
    is_int(token_batches_check(r.source, 31, &err), 0, "a vocabulary of 31");
    ok(token_batches_check(r.source, 30, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, eval_path) != NULL &&
           strstr(err.msg, ": row 2: token id 30, ") != NULL,
       "not one of 30: %s", err.msg);
    rig_close(&r);
    with_files(&r, false);
    r.spec.train.dataset_val.path = NULL;
    rig_open(&r);
    is_int(token_batches_check(r.source, 512, &err), 0, "without evaluation");
    rig_close(&r);
}

static void test_cut(void)
{
    struct rig r;
    with_files(&r, false);
    r.spec.train.dataset_val.path = NULL;
    r.spec.train.tokenizer.max_seq_len = 4;
    rig_open(&r);
    ok(strstr(r.said, "2 of 11 rows are longer than "
                      "train.tokenizer.max_seq_len 4 and lose their ends: "
                      "3 of 25 labelled tokens") != NULL,
       "%s", r.said);
    rig_close(&r);
    with_files(&r, false);
    r.spec.train.dataset_val.path = NULL;
    r.spec.train.tokenizer.max_seq_len = 6;
    rig_open(&r);
    ok(strstr(r.said, "lose their ends") == NULL, "none is longer: %s", r.said);
    rig_close(&r);
}

static void test_skipped(void)
{
    struct rig r;
    with_files(&r, false);
    token_file(train_path, "{\"input_ids\": [1, 2]}\n{\"input_ids\": [9]}\n");
    r.spec.train.dataset.on_bad_row = BAD_ROW_SKIP;
    rig_open(&r);
    ok(strstr(r.said, ": left out 1 row: ") != NULL &&
           strstr(r.said, ": row 2: line 2: ") != NULL,
       "%s", r.said);
    rig_close(&r);
}

int main(void)
{
    int a = mkstemp(train_path), b = mkstemp(eval_path);
    if (a < 0 || b < 0 || close(a) < 0 || close(b) < 0)
        return 1;
    test_rows();
    test_packed();
    for (int32_t size = 1; size <= 3; size++) {
        test_evaluation(size);
        test_training(size, false);
        test_training(size, true);
    }
    test_drop_last();
    test_evaluation(9); /* two ranks have no row */
    test_parts();
    for (int i = 0; i < 2; i++) {
        test_order(i > 0);
        test_memory(i > 0, false);
        test_memory(i > 0, true);
    }
    test_ahead();
    test_words();
    test_refused();
    test_vocabulary();
    test_cut();
    test_skipped();
    (void)unlink(train_path);
    (void)unlink(eval_path);
    return tap_done();
}
