/* data_tokenizer_bpe.c - lists of ranks and tokenizer.json: the ids that
 * tiktoken and HF tokenizers have, any bytes there and back, the names of
 * special tokens, and files that are refused. */
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/rng.h"
#include "tests/unit/worker/text_golden.h"
#include "worker/data/tokenizer/pretokenize.h"
#include "worker/data/tokenizer/tokenizer_bpe.h"

static const char ranks_file[] = "tests/data/torchtune/small/tokenizer.model";
static const char same_file[] = "tests/data/torchtune/small/tokenizer.json";
static const char tiny_file[] = "tests/data/torchtune/tiny_bpe/tokenizer.json";

static struct tokenizer *opened(const char *file)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    char path[4096];
    text_must(tokenizer_open(golden_path(file, path), &t, &err), &err);
    return t;
}

static const int32_t *ids_of(const struct buf *b)
{
    return (const int32_t *)(const void *)b->data;
}

/* ---- golden ids --------------------------------------------------------- */

struct golden_ids {
    struct tokenizer *ranks, *same, *tiny;
    int wrong, wrong_same, wrong_tiny, refused, wrong_text, wrong_long;
};

/* Whether the text has these ids and comes back. */
static bool has_ids(const struct tokenizer *t, const char *text, size_t len,
                    const json_t *want, int *wrong_text)
{
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, back = BUF_INIT;
    text_must(tokenizer_encode(t, text, len, 0, &ids, &err), &err);
    const bool same = !text_differ(ids_of(&ids), ids.len / 4, want);
    if (!same)
        tap_diag("%s", text);
    text_must(tokenizer_decode(t, ids_of(&ids), ids.len / 4, &back, &err),
              &err);
    *wrong_text += back.len != len || memcmp(buf_str(&back), text, len) != 0;
    buf_clear(&ids);
    buf_clear(&back);
    return same;
}

/* tiny_bpe has no token for many bytes. */
static bool lacks_byte(const struct tokenizer *t, const char *text, size_t len)
{
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT;
    text_must(buf_addstr(&ids, "kept", &err), &err);
    const bool refused = tokenizer_encode(t, text, len, 0, &ids, &err) < 0 &&
                         err.code == ERR_INVAL &&
                         strstr(err.msg, "no token for byte") != NULL &&
                         strcmp(buf_str(&ids), "kept") == 0;
    buf_clear(&ids);
    return refused;
}

static void one_string(const json_t *line, void *arg)
{
    struct golden_ids *g = arg;
    const char *text = json_string_value(json_object_get(line, "text"));
    const size_t len = json_string_length(json_object_get(line, "text"));
    const json_t *ids = json_object_get(line, "ranks");
    const json_t *tiny = json_object_get(line, "json");
    g->wrong += !has_ids(g->ranks, text, len, ids, &g->wrong_text);
    g->wrong_same += !has_ids(g->same, text, len, ids, &g->wrong_text);
    if (json_is_null(tiny)) {
        g->refused++;
        g->wrong_tiny += !lacks_byte(g->tiny, text, len);
    } else {
        g->wrong_tiny += !has_ids(g->tiny, text, len, tiny, &g->wrong_text);
    }
}

static void one_long(const json_t *line, void *arg)
{
    struct golden_ids *g = arg;
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT, ids = BUF_INIT;
    const char *part = json_string_value(json_object_get(line, "text"));
    json_int_t times = json_integer_value(json_object_get(line, "times"));
    uint64_t h = 0xcbf29ce484222325U;
    char hex[32];
    while (times-- > 0)
        text_must(buf_addstr(&text, part, &err), &err);
    text_must(tokenizer_encode(g->ranks, text.data, text.len, 0, &ids, &err),
              &err);
    for (size_t i = 0; i < ids.len / 4; i++)
        h = (h ^ (uint64_t)ids_of(&ids)[i]) * 0x100000001b3U;
    (void)snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)h);
    if (strcmp(hex, json_string_value(json_object_get(line, "fnv"))) != 0) {
        tap_diag("'%s', %zu bytes: %zu ids", part, text.len, ids.len / 4);
        g->wrong_long++;
    }
    buf_clear(&text);
    buf_clear(&ids);
}

static void test_golden(void)
{
    static const char file[] = "tests/golden/token_ids.jsonl";
    struct golden_ids g = {.ranks = opened(ranks_file),
                           .same = opened(same_file),
                           .tiny = opened(tiny_file)};
    const int n = text_each_of(file, "string", one_string, &g);
    ok(n >= 250, "%d strings", n);
    is_int(g.wrong, 0, "ranks: the ids of tiktoken");
    is_int(g.wrong_same, 0, "their tokenizer.json: the same ids");
    is_int(g.wrong_tiny, 0, "tiny_bpe: the ids of HF tokenizers");
    ok(g.refused < n / 2 + 50 && g.refused > 0,
       "%d with bytes that tiny_bpe lacks are refused", g.refused);
    is_int(g.wrong_text, 0, "each text comes back");
    const int m = text_each_of(file, "long", one_long, &g);
    ok(m >= 10, "%d long runs", m);
    is_int(g.wrong_long, 0, "are cut as Meta's tokenizer does");
    tokenizer_close(g.ranks);
    tokenizer_close(g.same);
    tokenizer_close(g.tiny);
}

/* ---- any bytes ---------------------------------------------------------- */

static uint32_t below(struct rng *r, size_t n)
{
    return (uint32_t)(rng_u32(r) % n);
}

/* A third each: bytes, ASCII, and UTF-8 with a byte changed. */
static size_t random_text(struct rng *r, char text[256])
{
    static const char *const parts[] = {"a",        "The ", " ", "\n",
                                        "é",        "中",   "😀", "12",
                                        "\xc2\xa0", "'s",   "!", "\t"};
    enum { PARTS = sizeof(parts) / sizeof(parts[0]) };
    const uint32_t kind = below(r, 3);
    size_t n = 0, most = below(r, 200);
    while (n < most)
        if (kind == 0) {
            text[n++] = (char)below(r, 256);
        } else if (kind == 1) {
            text[n++] = (char)(' ' + below(r, 95));
        } else {
            const char *p = parts[below(r, PARTS)];
            memcpy(text + n, p, strlen(p));
            n += strlen(p);
        }
    if (kind == 2 && n > 0 && below(r, 2) == 0)
        text[below(r, n)] = (char)below(r, 256);
    return n;
}

static void test_bytes(const char *file)
{
    enum { TEXTS = 100000 };
    struct tokenizer *t = opened(file);
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, back = BUF_INIT;
    struct rng r;
    char text[256];
    int wrong = 0;
    rng_seed(&r, 27);
    for (int i = 0; i < TEXTS; i++) {
        const size_t n = random_text(&r, text);
        buf_reset(&ids);
        buf_reset(&back);
        text_must(tokenizer_encode(t, text, n, 0, &ids, &err), &err);
        text_must(tokenizer_decode(t, ids_of(&ids), ids.len / 4, &back, &err),
                  &err);
        wrong += back.len != n || memcmp(buf_str(&back), text, n) != 0;
    }
    ok(wrong == 0, "%d random byte strings come back", TEXTS);
    buf_clear(&ids);
    buf_clear(&back);
    tokenizer_close(t);
}

/* ---- pieces ------------------------------------------------------------- */

static int note_piece(void *arg, const char *piece, size_t n, struct error *err)
{
    (void)piece;
    return buf_addf(arg, err, "%zu ", n);
}

static void test_slow(void)
{
    struct error err = ERROR_INIT;
    struct pretokenizer *fast, *slow;
    struct buf a = BUF_INIT, b = BUF_INIT, text = BUF_INIT;
    text_must(pretokenizer_open(pretokenize_llama3, &fast, &err), &err);
    text_must(pretokenizer_open_slow(pretokenize_llama3, &slow, &err), &err);
    text_must(buf_addstr(&text,
                         "It's \xe1\xa0\x8e"
                         "1 1234 \xc2\xa0x\n\n y ",
                         &err),
              &err);
    for (int i = 0; i < 25000; i++)
        text_must(buf_addstr(&text, i < 12000 ? "z" : " ", &err), &err);
    text_must(pretokenize(fast, text.data, text.len, note_piece, &a, &err),
              &err);
    text_must(pretokenize(slow, text.data, text.len, note_piece, &b, &err),
              &err);
    is_str(buf_str(&a), buf_str(&b), "without compiled code: the same pieces");
    is_str(buf_str(&a), "2 2 4 1 1 3 1 1 3 2 2 12001 13000 ",
           "U+180E is no white space, U+00A0 is");
    pretokenizer_close(fast);
    pretokenizer_close(slow);
    buf_clear(&a);
    buf_clear(&b);
    buf_clear(&text);
}

static void refuses_pattern(const char *pattern, const char *part)
{
    struct error err = ERROR_INIT;
    struct pretokenizer *p = NULL;
    ok(pretokenizer_open(pattern, &p, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, part) != NULL && p == NULL,
       "%s: %s", pattern, err.msg);
}

/* What is between matches is a piece, too; an empty match is none. */
static void test_patterns(void)
{
    struct error err = ERROR_INIT;
    struct pretokenizer *p;
    struct buf a = BUF_INIT;
    text_must(pretokenizer_open("b*|[\\s\\p{N}]+", &p, &err), &err);
    text_must(pretokenize(p, "aabba 1", 7, note_piece, &a, &err), &err);
    is_str(buf_str(&a), "2 2 1 2 ", "gaps are pieces");
    buf_clear(&a);
    pretokenizer_close(p);
    refuses_pattern("(a", "regular expression");
    refuses_pattern("\\w+", "\\w");
    refuses_pattern("[^\\S]", "\\S in brackets");
    refuses_pattern("[a-z&&[^b]]", "brackets");
    refuses_pattern("[]a]", "brackets");
    refuses_pattern("a\\", "ends in a backslash");
}

/* ---- special tokens ----------------------------------------------------- */

static char dir[] = "/tmp/tokenizerXXXXXX";

static void put(const char *name, const char *text, size_t len)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL || fwrite(text, 1, len, f) != len || fclose(f) != 0)
        exit(1);
}

static void removed(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    (void)unlink(path);
}

static struct buf content(const char *file)
{
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    char path[4096];
    text_must(buf_read_file(&b, golden_path(file, path), 1 << 24, &err), &err);
    return b;
}

static void test_special(void)
{
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, text = BUF_INIT;
    struct tokenizer *t = opened(ranks_file);
    is_int(tokenizer_ids(t)->size, 2256, "2000 ranks and 256 special tokens");
    is_int(tokenizer_ids(t)->bos, 2000, "bos");
    is_int(tokenizer_ids(t)->eos, 2001, "eos");
    is_int(tokenizer_ids(t)->unk, -1, "no unk");
    is_int(tokenizer_special(t, "<|finetune_right_pad_id|>"), 2004, "3.1: 4");
    is_int(tokenizer_special(t, "<|step_id|>"), 2005, "3.1: 5");
    is_int(tokenizer_special(t, "<|image|>"), 2011, "3.1: 11");
    is_int(tokenizer_special(t, "<|reserved_special_token_2|>"), 2012, "12");
    is_int(tokenizer_special(t, "<|reserved_special_token_245|>"), 2255, "255");
    is_int(tokenizer_special(t, "<|reserved_special_token_246|>"), -1, "last");
    is_int(tokenizer_special(t, "hello"), -1, "a word is no special token");
    text_must(tokenizer_encode(t, "<|eot_id|>", 10,
                               TOKENIZER_BOS | TOKENIZER_EOS, &ids, &err),
              &err);
    const size_t n = ids.len / 4;
    bool plain =
        n > 3 && ids_of(&ids)[0] == 2000 && ids_of(&ids)[n - 1] == 2001;
    for (size_t i = 1; i + 1 < n; i++)
        plain = plain && ids_of(&ids)[i] < 2000;
    ok(plain, "the text of a name does not become its token");
    text_must(tokenizer_decode(t, ids_of(&ids), n, &text, &err), &err);
    is_str(buf_str(&text), "<|eot_id|>", "special tokens have no text");
    tokenizer_close(t);
    buf_clear(&ids);
    buf_clear(&text);
}

/* tokenizer.json beside the ranks names them; ranks alone do not look. */
static void test_names(void)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = opened("tests/data/torchtune/small");
    is_int(tokenizer_special(t, "<|reserved_special_token_2|>"), 2004,
           "3.0: the names of tokenizer.json beside the ranks");
    is_int(tokenizer_special(t, "<|finetune_right_pad_id|>"), -1, "no others");
    is_int(tokenizer_ids(t)->size, 2010, "up to the last that is named");
    const int32_t gap = 2003;
    struct buf text = BUF_INIT;
    ok(tokenizer_decode(t, &gap, 1, &text, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, "2003") != NULL,
       "an id without a token: %s", err.msg);
    buf_clear(&text);
    tokenizer_close(t);
    t = opened(tiny_file);
    is_int(tokenizer_ids(t)->eos, 2000, "tiny_bpe: eos");
    is_int(tokenizer_ids(t)->bos, -1, "and no bos");
    is_int(tokenizer_special(t, "<|im_end|>"), 2002, "its other names");
    tokenizer_close(t);
    t = opened("tests/data/stories260K/tokenizer.model");
    is_int(tokenizer_special(t, "</s>"), 2, "sentencepiece: </s>");
    is_int(tokenizer_special(t, "<|eot_id|>"), -1, "and no eot");
    tokenizer_close(t);
}

static void test_original(void)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    struct buf ranks = content(ranks_file);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/original", dir);
    if (mkdir(path, 0700) < 0)
        exit(1);
    put("original/tokenizer.model", ranks.data, ranks.len);
    text_must(tokenizer_open(dir, &t, &err), &err);
    is_int(tokenizer_ids(t)->size, 2256, "original/tokenizer.model is found");
    tokenizer_close(t);
    removed("original/tokenizer.model");
    (void)rmdir(path);
    buf_clear(&ranks);
}

/* ---- refusals ----------------------------------------------------------- */

static void refused(const char *name, const char *text, size_t len,
                    const char *part)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    put(name, text, len);
    ok(tokenizer_open(dir, &t, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, part) != NULL && strstr(err.msg, name) != NULL &&
           t == NULL,
       "%s", err.msg);
    removed(name);
}

static void refused_ranks(const char *text, const char *part)
{
    refused("tokenizer.model", text, strlen(text), part);
}

static void test_ranks_files(void)
{
    refused_ranks("IQ== 0\nIg== 0\n", "line 2: two tokens have id 0");
    refused_ranks("IQ== 0\nIQ== 1\n", "line 2: ids 0 and 1 have the same");
    refused_ranks("IQ== 0\nIg== 7\n", "line 2: id 7, allowed are 0 to 1");
    refused_ranks("IQ== 0\nIg=\n", "line 2: not a token in base64");
    refused_ranks("IQ== 0\nI*== 1\n", "line 2: not a token in base64");
    refused_ranks("IQ== 0\n\n", "line 2: not a token in base64");
    refused_ranks("IQ== 0\nIg== 1x\n", "line 2: not a token in base64");
    refused_ranks("IQ== 0\nIg== 99999999999\n", "line 2: not a token");
    refused_ranks("IQ== 0\nIg== 1\n", "no token for byte 0x00");
}

/* The file with the first `from` replaced by `to`. */
static void refused_json(const char *from, const char *to, const char *part)
{
    struct error err = ERROR_INIT;
    struct buf file = content(tiny_file), out = BUF_INIT;
    const char *at = strstr(buf_str(&file), from);
    if (at == NULL) {
        tap_diag("tiny_bpe has no %s", from);
        exit(1);
    }
    text_must(buf_add(&out, file.data, (size_t)(at - file.data), &err), &err);
    text_must(buf_addstr(&out, to, &err), &err);
    text_must(buf_addstr(&out, at + strlen(from), &err), &err);
    refused("tokenizer.json", out.data, out.len, part);
    buf_clear(&file);
    buf_clear(&out);
}

static void test_json_files(void)
{
    static const char split[] = "\"behavior\":\"Isolated\"";
    refused("tokenizer.json", "{", 1, "line 1");
    refused("tokenizer.json", "{}", 2, "model has no vocab");
    refused_json("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}",
                 "normalizer.type is 'NFKC', read is NFC");
    refused_json("\"type\":\"BPE\"", "\"type\":\"Unigram\"",
                 "model.type is 'Unigram', only BPE");
    refused_json("\"type\":\"BPE\"", "\"type\":\"WordPiece\"",
                 "model.type is 'WordPiece', only BPE");
    refused_json("\"byte_fallback\":false", "\"byte_fallback\":true",
                 "model.byte_fallback");
    refused_json("\"dropout\":null", "\"dropout\":0.1", "model.dropout");
    refused_json("\"end_of_word_suffix\":null",
                 "\"end_of_word_suffix\":\"</w>\"",
                 "model.end_of_word_suffix is '</w>'");
    refused_json(split, "\"behavior\":\"Removed\"",
                 "pre_tokenizer.pretokenizers[0].behavior is 'Removed'");
    refused_json("\"add_prefix_space\":false", "\"add_prefix_space\":true",
                 "pre_tokenizer.pretokenizers[1].add_prefix_space is true");
    refused_json("\"type\":\"Sequence\"", "\"type\":\"Whitespace\"",
                 "pre_tokenizer.type is 'Whitespace'");
    refused_json("\"decoder\":{\"type\":\"ByteLevel\"",
                 "\"decoder\":{\"type\":\"Fuse\"", "decoder.type is 'Fuse'");
    refused_json("\"!\":0", "\"!\":1", "model.vocab: two tokens have id 1");
    refused_json("\"!\":0", "\"!\":-1", "model.vocab: '!' has no id");
    refused_json("\"!\":0", "\"\u4e2d\":0", "U+4E2D");
    refused_json("\"id\":2001", "\"id\":2000", "two special tokens");
    refused_json("\"id\":2001", "\"id\":1e9", "added_tokens: number 2");
    refused_json("\"merges\":[", "\"merges\":[7,", "number 1: not two tokens");
    refused_json("\"merges\":[", "\"merges\":[\"! !\",",
                 "number 1: ids 0 and 0 merge to a token that is not there");
    refused_json("\"merges\":[", "\"merges\":[[\"!\",\"zq\"],",
                 "'zq' is not in model.vocab");
    refused_json("(?i:", "(?x", "regular expression");
}

/* The first ids of a text are the same, however many are asked for; what is
 * behind them is not read. */
static void test_some(const char *file)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = opened(file);
    struct buf text = BUF_INIT, all = BUF_INIT, some = BUF_INIT;
    int wrong = 0;
    for (int i = 0; i < 3000; i++)
        text_must(
            buf_addf(&text, &err, "Word %d,\xff 's  %c\n", i * i, 'a' + i % 26),
            &err);
    text_must(
        tokenizer_encode(t, text.data, text.len, TOKENIZER_BOS, &all, &err),
        &err);
    for (size_t most = 1; most < 400; most++) {
        buf_reset(&some);
        text_must(tokenizer_encode_some(t, text.data, text.len, TOKENIZER_BOS,
                                        most, &some, &err),
                  &err);
        wrong += some.len < most * 4 || some.len > (most + 20) * 4 ||
                 memcmp(some.data, all.data, some.len) != 0;
    }
    ok(wrong == 0, "%s: the first ids, and few more", file);
    buf_reset(&some);
    text_must(tokenizer_encode_some(t, text.data, text.len, TOKENIZER_BOS,
                                    SIZE_MAX, &some, &err),
              &err);
    ok(some.len == all.len, "more than there are: all");
    tokenizer_close(t);
    buf_clear(&text);
    buf_clear(&all);
    buf_clear(&some);
}

/* A file of less than 64 MiB that one looks through for each of its names keeps
 * a rank for an hour; by falling ids, so that none is put at the end. The
 * deadline is a hundred times what sorting takes. */
static void test_many_special(void)
{
    enum { MANY = 300000 };
    struct error err = ERROR_INIT;
    struct bpe_parts p = {.whole = false};
    char name[20];
    (void)alarm(120);
    for (int32_t i = MANY; i-- > 0;) {
        (void)snprintf(name, sizeof(name), "<|%d|>", i % 1000 * 1000 + i);
        text_must(bpe_parts_add_special(&p, name, i, false, &err), &err);
    }
    text_must(bpe_parts_sort_special(&p, &err), &err);
    (void)alarm(0);
    ok(bpe_parts_special(&p, 0) != NULL &&
           strcmp(bpe_parts_special(&p, 1234)->name, "<|235234|>") == 0 &&
           bpe_parts_special(&p, MANY) == NULL,
       "many special tokens have their ids");
    text_must(bpe_parts_add_special(&p, "<|235234|>", MANY, false, &err), &err);
    ok(bpe_parts_sort_special(&p, &err) < 0 && err.code == ERR_INVAL,
       "and a name that is there twice is found: %s", err.msg);
    bpe_parts_clear(&p);
}

int main(void)
{
    test_golden();
    test_bytes(ranks_file);
    test_bytes(same_file);
    test_slow();
    test_patterns();
    test_special();
    test_names();
    test_many_special();
    test_some(ranks_file);
    test_some(same_file);
    if (mkdtemp(dir) == NULL)
        exit(1);
    test_original();
    test_ranks_files();
    test_json_files();
    (void)rmdir(dir);
    return tap_done();
}
