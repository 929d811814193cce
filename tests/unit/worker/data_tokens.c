/* data_tokens.c - rows as tokens: the words of Alpaca, torchtune's tokens and
 * masks of it, rows that are tokenised already, and packs. */
#include "tests/unit/worker/token_files.h"
#include "worker/data/text/packing.h"

static char path[] = "/tmp/data_tokensXXXXXX";

static int open_rows(struct spec_text *text, const struct tokenizer *t,
                     int32_t max_seq_len, struct token_data *ret,
                     struct error *err)
{
    const struct token_conf conf = {
        .text = text, .tokenizer = t, .eos = -1, .max_seq_len = max_seq_len};
    text->path = path;
    memset(ret, 0, sizeof(*ret));
    return token_data_open(&conf, ret, err);
}

/* ---- alpaca -------------------------------------------------------------- */

struct goldens {
    struct tokenizer *t[TEXT_MODELS];
    int wrong_ids, wrong_masks, refused, cut;
};

/* "---++": the first token has a mask of its own, but is never a target. */
static int masks_differ(const struct token_data *d, const char *want)
{
    const int32_t *ids = token_data_ids(d), *labels = token_data_labels(d);
    int wrong = 0;
    for (size_t i = 0; want[i] != '\0'; i++)
        wrong += labels[i] != (want[i] == '+' ? ids[i] : -1);
    return wrong;
}

static void one_alpaca(const json_t *line, void *arg)
{
    struct goldens *g = arg;
    struct error err = ERROR_INIT;
    struct token_data d;
    const char *model = json_string_value(json_object_get(line, "model"));
    const char *labelled = json_string_value(json_object_get(line, "labelled"));
    const json_t *ids = json_object_get(line, "ids");
    const int32_t most =
        (int32_t)json_integer_value(json_object_get(line, "max_seq_len"));
    struct spec_text text = {.template = TEMPLATE_ALPACA,
                             .train_on_input = json_is_true(
                                 json_object_get(line, "train_on_input"))};
    if (json_dump_file(json_object_get(line, "row"), path, 0) < 0)
        exit(1);
    if (open_rows(&text, g->t[strcmp(model, text_models[0]) != 0], most, &d,
                  &err) < 0) {
        /* torchtune trains on a row that has nothing to learn from, and on
         * one without an answer */
        g->wrong_masks += strchr(labelled, '+') != NULL &&
                          strstr(err.msg, "the answer is empty") == NULL;
        g->refused++;
        return;
    }
    if (text_differ(token_data_ids(&d), (size_t)d.longest, ids) &&
        g->wrong_ids++ == 0)
        tap_diag("%s, %d: %s", model, most,
                 json_string_value(json_object_get(json_object_get(line, "row"),
                                                   "instruction")));
    else
        g->wrong_masks += masks_differ(&d, labelled);
    g->cut += most > 0 && d.longest == most;
    token_data_clear(&d);
}

static void test_alpaca(void)
{
    struct goldens g = {.wrong_ids = 0};
    for (int i = 0; i < TEXT_MODELS; i++)
        g.t[i] = text_tokenizer(text_models[i]);
    int n = text_each("alpaca", one_alpaca, &g);
    ok(n >= 200, "%d rows of torchtune's", n);
    is_int(g.wrong_ids, 0, "have its ids");
    is_int(g.wrong_masks, 0, "and its masks");
    ok(g.cut > 50, "%d of them are cut", g.cut);
    ok(g.refused > 10, "%d without a labelled token are refused", g.refused);
    for (int i = 0; i < TEXT_MODELS; i++)
        tokenizer_close(g.t[i]);
}

static void test_eos(void)
{
    struct tokenizer *t = text_tokenizer("stories260K");
    struct error err = ERROR_INIT;
    struct token_data d;
    struct spec_text text = {.template = TEMPLATE_ALPACA, .path = path};
    struct token_conf conf = {.text = &text, .tokenizer = t, .eos = 1};
    token_file(path, "[{\"instruction\": \"a\", \"output\": \"b\"}]");
    text_must(token_data_open(&conf, &d, &err), &err);
    is_int(token_data_ids(&d)[d.longest - 1], 1, "another end of text");
    is_int(token_data_labels(&d)[d.longest - 1], 1, "is labelled");
    token_data_clear(&d);
    tokenizer_close(t);
}

/* ---- rows that are tokens ------------------------------------------------ */

static void gives(struct spec_text *text, int32_t max_seq_len, const char *rows,
                  const char *ids, const char *labels)
{
    struct error err = ERROR_INIT;
    struct token_data d;
    char got[400];
    text->template = TEMPLATE_TOKENS;
    token_file(path, rows);
    int rc = open_rows(text, NULL, max_seq_len, &d, &err);
    ok(rc == 0, "open: %s", err.msg);
    if (rc < 0)
        return;
    token_text(&d, false, got, sizeof(got));
    is_str(got, ids, "ids");
    token_text(&d, true, got, sizeof(got));
    is_str(got, labels, "labels");
    token_data_clear(&d);
}

static void test_tokens(void)
{
    struct spec_text text = {.samples = 0};
    struct spec_text two = {.samples = 2};
    struct spec_text packed = {.packed = true};
    gives(&text, 0, "{\"input_ids\": [5, 6, 7]}\n{\"input_ids\": [8, 9]}",
          "5 6 7|8 9", "5 6 7|8 9");
    gives(&text, 0,
          "[{\"input_ids\": [5, 6, 7], \"labels\": [-100, -1, 7]},\n"
          " {\"input_ids\": [5, 6, 7], \"labels\": [-100, 4, -7]}]",
          "5 6 7|5 6 7", "- - 7|- 4 -");
    gives(&text, 3, "{\"input_ids\": [1, 2, 3, 4, 5]}\n{\"input_ids\": [1, 2]}",
          "1 2 3|1 2", "1 2 3|1 2");
    gives(&text, 3, "{\"input_ids\": [1, 2, 3, 4], \"labels\": [-1, -1, 3, 4]}",
          "1 2 3", "- - 3");
    gives(&two, 0,
          "{\"input_ids\": [1, 2]}\n{\"input_ids\": [3, 4]}\n"
          "{\"input_ids\": [5, 6]}\n",
          "1 2|3 4", "1 2|3 4");
    gives(&packed, 3, "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [1, 2]}",
          "1 2 3|1 2", "1 2 3|1 2");
}

static void test_numbers(void)
{
    struct error err = ERROR_INIT;
    struct spec_text text = {.template = TEMPLATE_TOKENS};
    struct token_data d, e;
    token_file(path, "{\"input_ids\": [5, 6, 7], \"labels\": [-1, 40, 7]}\n"
                     "{\"input_ids\": [30, 1]}\n");
    text_must(open_rows(&text, NULL, 0, &d, &err), &err);
    is_int(d.n, 2, "rows");
    is_int(d.longest, 3, "the longest");
    is_int(d.most, 40, "the highest id is a label");
    is_int(d.labelled, 3, "labelled: no first token is");
    is_int(token_data_rows(&d)[1].labelled, 1, "of the second row");
    text_must(open_rows(&text, NULL, 0, &e, &err), &err);
    ok(digest_of(&d) == digest_of(&e), "the same digest");
    token_data_clear(&e);
    static const char *const others[] = {
        "{\"input_ids\": [5, 6, 7], \"labels\": [-1, 40, 8]}\n"
        "{\"input_ids\": [30, 1]}\n",
        "{\"input_ids\": [5, 6, 8], \"labels\": [-1, 40, 7]}\n"
        "{\"input_ids\": [30, 1]}\n",
        "{\"input_ids\": [5, 6], \"labels\": [-1, 40]}\n"
        "{\"input_ids\": [7, 30, 1]}\n"};
    for (int i = 0; i < 3; i++) {
        token_file(path, others[i]);
        text_must(open_rows(&text, NULL, 0, &e, &err), &err);
        ok(digest_of(&d) != digest_of(&e), "another digest");
        token_data_clear(&e);
    }
    token_data_clear(&d);
    token_data_clear(&d);
    token_data_clear(NULL);
}

/* ---- what is refused ----------------------------------------------------- */

static void refuses(const struct spec_text *text, int32_t max_seq_len,
                    const char *rows, const char *part)
{
    struct tokenizer *t = text_tokenizer("stories260K");
    struct error err = ERROR_INIT;
    struct spec_text own = *text;
    struct token_data d;
    token_file(path, rows);
    ok(open_rows(&own, t, max_seq_len, &d, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, part) != NULL,
       "%s", err.msg);
    tokenizer_close(t);
}

static void test_refused(void)
{
    const struct spec_text tokens = {.template = TEMPLATE_TOKENS};
    const struct spec_text packed = {.template = TEMPLATE_TOKENS,
                                     .packed = true};
    const struct spec_text words = {.template = TEMPLATE_ALPACA};
    const struct spec_text packed_words = {.template = TEMPLATE_ALPACA,
                                           .packed = true};
    const struct spec_text three = {.template = TEMPLATE_TOKENS, .samples = 3};
    static const char good[] = "{\"input_ids\": [1, 2]}\n";
    refuses(&packed, 0, good, "packed rows need train.tokenizer.max_seq_len");
    refuses(
        &packed, 2, "{\"input_ids\": [1, 2]}\n{\"input_ids\": [1, 2, 3]}",
        ": row 2: line 2: its 3 tokens do not fit into a pack of "
        "train.tokenizer.max_seq_len 2: change it, or set on_bad_row: skip");
    refuses(&packed_words, 20, "[{\"instruction\": \"a\", \"output\": \"b\"}]",
            "tokens do not fit into a pack of train.tokenizer.max_seq_len 20");
    refuses(&words, 20, "[{\"instruction\": \"a\", \"output\": \"b\"}]",
            ": row 1: line 1: its 2 labelled tokens are all behind "
            "train.tokenizer.max_seq_len 20, where it is cut: change it, or "
            "set on_bad_row: skip");
    refuses(&tokens, 0, "", ": no rows, it needs one");
    refuses(&tokens, 0, "[]", ": no rows, it needs one");
    refuses(&three, 0, good, ": 1 rows, samples is 3");
    refuses(&tokens, 0, "{\"input_ids\": []}",
            ": row 1: line 1: none of its 0 tokens counts in the loss");
    refuses(&tokens, 0, "{\"input_ids\": [7]}",
            "none of its 1 tokens counts in the loss");
    refuses(&tokens, 0, "{\"input_ids\": [1, 2], \"labels\": [1, -100]}",
            "none of its 2 tokens counts in the loss");
    refuses(&tokens, 2, "{\"input_ids\": [1, 2, 3], \"labels\": [-1, -1, 3]}",
            "its 1 labelled token is behind train.tokenizer.max_seq_len 2,");
    refuses(&tokens, 0, "{\"input_ids\": [1, 2], \"labels\": [1]}",
            "2 input_ids and 1 labels");
    refuses(&tokens, 0, "{\"input_ids\": [1, -2]}",
            "input_ids[1] is not a token id");
    refuses(&tokens, 0, "{\"input_ids\": [1, 2147483647]}",
            "input_ids[1] is not a token id");
    refuses(&tokens, 0, "{\"input_ids\": [1, 2.0]}",
            "input_ids[1] is not a token id");
    refuses(&tokens, 0, "{\"input_ids\": [1, 2], \"labels\": [1, \"2\"]}",
            "labels[1] is not a token id");
    refuses(&tokens, 0, "{\"input_ids\": \"1 2\"}",
            "'input_ids' is not an array");
    refuses(&tokens, 0, "{\"labels\": [1]}", "'input_ids' is missing");
    refuses(&tokens, 0, "{\"input_ids\": [1, 2], \"labels\": null}",
            "'labels' is not an array");
    refuses(&tokens, 0, "[[1, 2]]", ": row 1: line 1: not an object");
    refuses(&words, 0, "[{\"output\": \"b\"}]",
            "column 'instruction' is missing");
    refuses(&words, 0, "[{\"instruction\": \"a\"}]",
            "column 'output' is missing");
    refuses(&words, 0, "[{\"instruction\": \"a\", \"output\": null}]",
            "column 'output' is missing");
    refuses(&words, 0, "[{\"instruction\": \"a\", \"output\": 7}]",
            "column 'output' is no text");
    refuses(&words, 0,
            "[{\"instruction\": \"a\", \"input\": [], \"output\": \"b\"}]",
            "column 'input' is no text");
}

static void test_skipped(void)
{
    struct error err = ERROR_INIT;
    struct spec_text text = {.template = TEMPLATE_TOKENS,
                             .packed = true,
                             .on_bad_row = BAD_ROW_SKIP};
    struct token_data d;
    char got[100];
    token_file(path, "{\"input_ids\": [1, 2]}\n{\"input_ids\": [9]}\n"
                     "{\"input_ids\": [1, 2, 3, 4]}\n{\"input_ids\": [3, -4]}\n"
                     "{\"input_ids\": [5, 6, 7], \"labels\": [-1, 6, -1]}\n"
                     "{\"input_ids\": [1, 3]}\n");
    text_must(open_rows(&text, NULL, 3, &d, &err), &err);
    token_text(&d, false, got, sizeof(got));
    is_str(got, "1 2|5 6 7|1 3", "bad rows are left out");
    token_text(&d, true, got, sizeof(got));
    is_str(got, "1 2|- 6 -|1 3", "and their labels");
    is_int((long long)token_list_values(&d.ids), 7, "nothing of them stays");
    is_int(d.skipped.n, 3, "they are counted");
    ok(strstr(d.skipped.why[0].msg, ": row 2: line 2: none of its 1") != NULL,
       "the first: %s", d.skipped.why[0].msg);
    is_int(d.most, 7, "their ids do not count");
    is_int(token_data_check(&d, 8, &err), 0, "a vocabulary of 8");
    ok(token_data_check(&d, 7, &err) < 0 && err.code == ERR_INVAL,
       "not one of 7");
    ok(strncmp(err.msg, path, strlen(path)) == 0, "the file is named");
    is_str(err.msg + strlen(path),
           ": row 5: token id 7, the model has 0 to 6: use its own tokenizer",
           "the row has the number of its file");
    token_data_clear(&d);
    token_file(path, "{\"input_ids\": [1]}\n");
    ok(open_rows(&text, NULL, 3, &d, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, "1 of 1 rows are bad, more than half: ") != NULL,
       "none is left: %s", err.msg);
    token_file(path, "{\"input_ids\": [1, 2]}\n{}\n{}\n");
    ok(open_rows(&text, NULL, 3, &d, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, "2 of 3 rows are bad, more than half: ") != NULL,
       "nor is half: %s", err.msg);
}

/* ---- packs --------------------------------------------------------------- */

/* A list of lists: of each pack the lengths of its rows, and of the padding. */
static void one_packing(const json_t *line, void *arg)
{
    struct error err = ERROR_INIT;
    const json_t *lengths = json_object_get(line, "lengths");
    const json_t *want = json_object_get(line, "seq_lens");
    const int32_t most =
        (int32_t)json_integer_value(json_object_get(line, "max_seq_len"));
    struct token_data d = {.n = 0};
    struct packing p = {.n = 0};
    (void)arg;
    /* Rows of one token have no label: they are put in by hand. */
    for (size_t i = 0; i < json_array_size(lengths); i++) {
        const struct token_row row = {
            .n = (int32_t)json_integer_value(json_array_get(lengths, i))};
        text_must(buf_add(&d.list, &row, sizeof(row), &err), &err);
        d.n++;
    }
    text_must(
        packing_of(&d, &(struct packing_conf){.max_seq_len = most}, &p, &err),
        &err);
    is_int(p.n, (long long)json_array_size(want), "torchtune's packs");
    int wrong = 0;
    for (int32_t i = 0; i < p.n; i++) {
        const json_t *pack = json_array_get(want, (size_t)i);
        const int32_t n = p.first[i + 1] - p.first[i];
        const int32_t rest = most - packing_tokens(&p, i);
        wrong += n + (rest > 0) != (int32_t)json_array_size(pack);
        for (int32_t k = 0; k < n; k++)
            wrong += p.piece[p.first[i] + k].n !=
                     json_integer_value(json_array_get(pack, (size_t)k));
    }
    is_int(wrong, 0, "with the same rows");
    packing_clear(&p);
    token_data_clear(&d);
}

static void test_packs(void)
{
    static const int32_t lengths[] = {3, 3, 2, 6, 2, 2};
    /* 3 3 2 | 6 2 | 2 */
    static const int32_t first[] = {0, 3, 5, 6};
    struct error err = ERROR_INIT;
    struct spec_text text = {.template = TEMPLATE_TOKENS, .packed = true};
    struct token_data d;
    struct packing p = {.n = 0};
    is_int(text_each("packs", one_packing, NULL), 4, "torchtune's examples");
    token_file_lengths(path, lengths, 6, 0);
    text_must(open_rows(&text, NULL, 8, &d, &err), &err);
    text_must(
        packing_of(&d, &(struct packing_conf){.max_seq_len = 8}, &p, &err),
        &err);
    is_int(p.n, 3, "packs");
    ok(memcmp(p.first, first, sizeof(first)) == 0, "of the rows in order");
    is_int(packing_tokens(&p, 1), 8, "a full one");
    packing_clear(&p);
    text_must(
        packing_of(&d, &(struct packing_conf){.max_seq_len = 0}, &p, &err),
        &err);
    is_int(p.n, 6, "unpacked: a sample is a row");
    is_int(packing_tokens(&p, 3), 6, "of its length");
    packing_clear(&p);
    packing_clear(&p);
    packing_clear(NULL);
    token_data_clear(&d);
}

/* Rows of the lengths, in packs of 8: "0 2|1+3.2": row 1 whole, and of row 3
 * two tokens from the fourth on. */
static void packs_to(const int32_t *lengths, int32_t n, enum spec_packing order,
                     bool split, const char *want)
{
    const struct packing_conf conf = {
        .max_seq_len = 8, .order = order, .split = split};
    struct error err = ERROR_INIT;
    struct token_data d = {.n = n};
    struct packing p = {.n = 0};
    struct buf got = BUF_INIT;
    for (int32_t i = 0; i < n; i++) {
        const struct token_row row = {.n = lengths[i]};
        text_must(buf_add(&d.list, &row, sizeof(row), &err), &err);
    }
    text_must(packing_of(&d, &conf, &p, &err), &err);
    for (int32_t i = 0; i < p.n; i++)
        for (int32_t k = p.first[i]; k < p.first[i + 1]; k++) {
            const struct pack_piece *q = &p.piece[k];
            text_must(buf_addf(&got, &err, "%s%d",
                               k > p.first[i] ? " "
                               : i > 0        ? "|"
                                              : "",
                               q->row),
                      &err);
            if (q->n < lengths[q->row])
                text_must(buf_addf(&got, &err, "+%d.%d", q->at, q->n), &err);
        }
    is_str(buf_str(&got), want, "packs");
    buf_clear(&got);
    packing_clear(&p);
    token_data_clear(&d);
}

static void test_orders(void)
{
    static const int32_t some[] = {3, 7, 2, 6, 5, 1};
    static const int32_t longer[] = {3, 11, 2, 16, 4};
    static const int32_t fitting[] = {4, 4, 8};
    packs_to(some, 6, PACKING_IN_ORDER, false, "0|1|2 3|4 5");
    packs_to(some, 6, PACKING_BEST_FIT, false, "0 4|1 5|2 3");
    packs_to(some, 6, PACKING_IN_ORDER, true,
             "0 1+0.5|1+5.2 2 3+0.4|3+4.2 4 5");
    packs_to(longer, 5, PACKING_IN_ORDER, true,
             "0 1+0.5|1+5.6 2|3+0.8|3+8.8|4");
    packs_to(longer, 5, PACKING_BEST_FIT, true,
             "0 4|1+0.8|1+8.3 2|3+0.8|3+8.8");
    packs_to(fitting, 3, PACKING_IN_ORDER, true, "0 1|2");
}

/* Many rows: each token once, no pack too long, and fewer packs than in
 * order. */
static void test_best_fit(void)
{
    enum { ROWS = 5000, MOST = 100 };
    const struct packing_conf best = {.max_seq_len = MOST,
                                      .order = PACKING_BEST_FIT};
    const struct packing_conf next = {.max_seq_len = MOST};
    struct error err = ERROR_INIT;
    struct token_data d = {.n = ROWS};
    struct packing p, q;
    int seen[ROWS] = {0};
    uint32_t x = 7;
    for (int i = 0; i < ROWS; i++) {
        x = x * 1664525 + 1013904223;
        const struct token_row row = {.n = 1 + (int32_t)(x >> 16) % MOST};
        text_must(buf_add(&d.list, &row, sizeof(row), &err), &err);
    }
    text_must(packing_of(&d, &best, &p, &err), &err);
    text_must(packing_of(&d, &next, &q, &err), &err);
    int wrong = 0, far = 0;
    for (int32_t i = 0; i < p.n; i++) {
        wrong += packing_tokens(&p, i) > MOST;
        for (int32_t k = p.first[i]; k < p.first[i + 1]; k++) {
            seen[p.piece[k].row]++;
            far += p.piece[k].row / PACKING_WINDOW !=
                   p.piece[p.first[i]].row / PACKING_WINDOW;
        }
    }
    for (int i = 0; i < ROWS; i++)
        wrong += seen[i] != 1;
    is_int(wrong, 0, "each row is in one pack");
    is_int(far, 0, "with rows of its window");
    ok(p.n < q.n, "%d packs, %d in order", p.n, q.n);
    packing_clear(&p);
    packing_clear(&q);
    token_data_clear(&d);
}

/* ---- a part of the rows -------------------------------------------------- */

static void test_split(void)
{
    static const struct {
        const char *split;
        int32_t samples;
        const char *want;
    } parts[] = {
        {NULL, 0, "1 2|3 4|5 6|7 8|9 10"},   {"train", 2, "1 2|3 4"},
        {"train[:40%]", 0, "1 2|3 4"},       {"train[40%:]", 0, "5 6|7 8|9 10"},
        {"train[40%:]", 1, "5 6"},           {"train[1:3]", 0, "3 4|5 6"},
        {"train[3:]", 0, "7 8|9 10"},        {"train[20%:4]", 0, "3 4|5 6|7 8"},
        {"train[60%:4]", 0, "7 8"},          {"train[1:80%]", 2, "3 4|5 6"},
        {"train[2:900]", 0, "5 6|7 8|9 10"},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct spec_text text = {.split = (char *)(uintptr_t)parts[i].split,
                                 .samples = parts[i].samples};
        gives(&text, 0,
              "{\"input_ids\": [1, 2]}\n{\"input_ids\": [3, 4]}\n"
              "{\"input_ids\": [5, 6]}\n{\"input_ids\": [7, 8]}\n"
              "{\"input_ids\": [9, 10]}\n",
              parts[i].want, parts[i].want);
    }
    struct spec_text none = {.template = TEMPLATE_TOKENS,
                             .split = (char *)(uintptr_t) "train[5:]"};
    refuses(&none, 0, "{\"input_ids\": [1, 2]}",
            ": no rows within the split, it needs one");
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) < 0)
        return 1;
    test_alpaca();
    test_eos();
    test_tokens();
    test_numbers();
    test_refused();
    test_skipped();
    test_packs();
    test_orders();
    test_best_fit();
    test_split();
    (void)unlink(path);
    return tap_done();
}
