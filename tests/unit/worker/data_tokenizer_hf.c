/* data_tokenizer_hf.c - tokenizer.json in the layouts of published models: the
 * ids and texts of HF tokenizers, and what is refused with its path. */
#include <unistd.h>

#include "tests/unit/worker/text_golden.h"

static const char folder[] = "tests/golden/hf_tokenizers";
static const char *const layouts[] = {"llama3", "qwen2",   "smollm2",
                                      "llama2", "mistral", "words"};
enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static struct tokenizer *opened(const char *layout)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    char name[128], path[4096];
    (void)snprintf(name, sizeof(name), "%s/%s/tokenizer.json", folder, layout);
    text_must(tokenizer_open(golden_path(name, path), &t, &err), &err);
    return t;
}

static const int32_t *ids_of(const struct buf *b)
{
    return (const int32_t *)(const void *)b->data;
}

/* ---- golden ids --------------------------------------------------------- */

static void hash_of(const struct buf *ids, char ret[9])
{
    uint64_t h = 0xcbf29ce484222325U;
    for (size_t i = 0; i < ids->len / 4; i++)
        h = (h ^ (uint64_t)ids_of(ids)[i]) * 0x100000001b3U;
    (void)snprintf(ret, 9, "%08x", (unsigned)(h >> 32));
}

struct layouts_golden {
    struct tokenizer *t[LAYOUTS];
    int wrong[LAYOUTS], wrong_text[LAYOUTS];
};

static void one_string(const json_t *line, void *arg)
{
    struct layouts_golden *g = arg;
    struct error err = ERROR_INIT;
    const json_t *text = json_object_get(line, "text");
    const json_t *want = json_object_get(line, "ids");
    const json_t *backs = json_object_get(line, "back");
    struct buf ids = BUF_INIT, back = BUF_INIT;
    char hash[9];
    for (int i = 0; i < LAYOUTS; i++) {
        const json_t *other = json_object_get(backs, layouts[i]);
        const json_t *as = other != NULL ? other : text;
        buf_reset(&ids);
        buf_reset(&back);
        text_must(tokenizer_encode(g->t[i], json_string_value(text),
                                   json_string_length(text), 0, &ids, &err),
                  &err);
        hash_of(&ids, hash);
        const char *is = json_string_value(json_array_get(want, (size_t)i));
        if (is == NULL || strcmp(hash, is) != 0) {
            tap_diag("%s: %s", layouts[i], json_string_value(text));
            g->wrong[i]++;
        }
        text_must(
            tokenizer_decode(g->t[i], ids_of(&ids), ids.len / 4, &back, &err),
            &err);
        if (back.len != json_string_length(as) ||
            memcmp(buf_str(&back), json_string_value(as), back.len) != 0) {
            tap_diag("%s: %s -> %s", layouts[i], json_string_value(text),
                     buf_str(&back));
            g->wrong_text[i]++;
        }
    }
    buf_clear(&ids);
    buf_clear(&back);
}

static void test_golden(void)
{
    struct layouts_golden g = {.wrong = {0}};
    char file[128];
    for (int i = 0; i < LAYOUTS; i++)
        g.t[i] = opened(layouts[i]);
    (void)snprintf(file, sizeof(file), "%s/ids.jsonl", folder);
    const int n = text_each_of(file, "string", one_string, &g);
    ok(n >= 400, "%d strings", n);
    for (int i = 0; i < LAYOUTS; i++) {
        ok(g.wrong[i] == 0, "%s: the ids of HF tokenizers", layouts[i]);
        ok(g.wrong_text[i] == 0, "%s: and its texts", layouts[i]);
        tokenizer_close(g.t[i]);
    }
}

/* ---- where a text stands --------------------------------------------------
 */

/* The ids of a text as text, each with a bar before it. */
static void has_pieces(const char *layout, const char *text, size_t len,
                       uint32_t flags, const char *want)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = opened(layout);
    struct buf ids = BUF_INIT, all = BUF_INIT;
    text_must(tokenizer_encode(t, text, len, flags, &ids, &err), &err);
    for (size_t i = 0; i < ids.len / 4; i++) {
        /* The first of the text alone loses a space. */
        const int32_t two[2] = {ids_of(&ids)[i], ids_of(&ids)[i]};
        struct buf one = BUF_INIT;
        text_must(tokenizer_decode(t, two, 2, &one, &err), &err);
        const size_t n = (one.len + 1) / 2;
        text_must(buf_addstr(&all, "|", &err), &err);
        text_must(buf_add(&all, buf_str(&one) + one.len - n, n, &err), &err);
        buf_clear(&one);
    }
    ok(strcmp(buf_str(&all), want) == 0, "%s, flags %u: %s", layout,
       (unsigned)flags, buf_str(&all));
    buf_clear(&ids);
    buf_clear(&all);
    tokenizer_close(t);
}

static void test_place(void)
{
    static const char broken[] = "a\xff"
                                 "b";
    has_pieces("llama2", "a b", 3, 0, "| |a |b");
    has_pieces("llama2", "a b", 3, TOKENIZER_GOES_ON, "|a |b");
    has_pieces("llama2", "a b", 3, TOKENIZER_BEHIND, "| |a |b");
    has_pieces("mistral", "a b", 3, 0, "| |a |b");
    has_pieces("mistral", "a b", 3, TOKENIZER_BEHIND, "|a |b");
    has_pieces("words", "a b", 3, TOKENIZER_BEHIND, "| |a| |b");
    has_pieces("llama2", broken, 3, 0, "| |a|\xff|b");
    has_pieces("qwen2", "x <left> y", 10, 0, "|x|<left>| |y");
}

static void test_long(void)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = opened("llama2");
    struct buf text = BUF_INIT, ids = BUF_INIT, back = BUF_INIT;
    while (text.len <= TOKENIZER_SPM_BYTES)
        text_must(buf_addstr(&text,
                             "a job that trains on the GPUs of two "
                             "nodes; \xe4\xb8\xad\n",
                             &err),
                  &err);
    ok(tokenizer_encode(t, text.data, text.len, 0, &ids, &err) < 0 &&
           err.code == ERR_INVAL,
       "too long to merge as a whole: %s", err.msg);
    text_must(tokenizer_encode(t, text.data, 100000, 0, &ids, &err), &err);
    text_must(tokenizer_decode(t, ids_of(&ids), ids.len / 4, &back, &err),
              &err);
    ok(back.len == 100000 && memcmp(back.data, text.data, back.len) == 0,
       "a long text comes back");
    is_int(tokenizer_ids(t)->bos, 1, "<s>");
    is_int(tokenizer_ids(t)->eos, 2, "</s>");
    buf_clear(&text);
    buf_clear(&ids);
    buf_clear(&back);
    tokenizer_close(t);
}

/* ---- refusals ----------------------------------------------------------- */

static char path[4096] = "/tmp/tokenizer-hf-XXXXXX";

/* Opens a layout's file with the first `from` replaced by `to`. */
static int open_changed(const char *layout, const char *from, const char *to,
                        struct tokenizer **ret, struct error *err)
{
    struct buf file = BUF_INIT;
    char name[128], source[4096];
    (void)snprintf(name, sizeof(name), "%s/%s/tokenizer.json", folder, layout);
    text_must(buf_read_file(&file, golden_path(name, source), 1 << 20, err),
              err);
    const char *at = strstr(buf_str(&file), from);
    FILE *f = fopen(path, "w");
    if (at == NULL || f == NULL) {
        tap_diag("%s has no %s", layout, from);
        exit(1);
    }
    (void)fwrite(file.data, 1, (size_t)(at - file.data), f);
    (void)fputs(to, f);
    (void)fputs(at + strlen(from), f);
    (void)fclose(f);
    buf_clear(&file);
    return tokenizer_open(path, ret, err);
}

static void refused(const char *layout, const char *from, const char *to,
                    const char *part)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    ok(open_changed(layout, from, to, &t, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, part) != NULL,
       "%s", err.msg);
    tokenizer_close(t);
}

static void test_refusals(void)
{
    refused("llama2", "\"type\":\"Prepend\"", "\"type\":\"Lowercase\"",
            "normalizer.normalizers[0].type is 'Lowercase'");
    refused("llama2", "\"String\":\" \"", "\"Regex\":\" +\"",
            "normalizer.normalizers[1].pattern.Regex is not understood");
    refused("llama2", "\"prepend\":\"", "\"prepend\":\"0123456789abcdef",
            "normalizer.normalizers[0].prepend is ");
    refused("llama2", "\"normalizers\":[", "\"normalizers\":[{\"type\":7},",
            "normalizer.normalizers[0].type is 7");
    refused("llama2", "\"byte_fallback\":true", "\"byte_fallback\":false",
            "model.byte_fallback is off");
    refused("llama2",
            "\"<0x0A>\":", "\"<0x0a>\":", "model.vocab: <0x0A> is not there");
    refused("llama2", "\"start\":1", "\"start\":2",
            "decoder.decoders[3].start is 2, read is 1");
    refused("llama2", "{\"type\":\"Fuse\"}", "{\"type\":\"CTC\"}",
            "decoder.decoders[2].type is 'CTC'");
    refused("llama2", "\"decoder\":{\"type\":\"Sequence\"",
            "\"decoder\":{\"type\":\"ByteLevel\"", "decoder.type");
    refused("qwen2", "\"type\":\"NFC\"", "\"type\":\"NFC\",\"\":1",
            "normalizer. is not understood");
    refused("smollm2", "\"use_regex\":true",
            "\"add_prefix_space trim_offsets\":1",
            "add_prefix_space trim_offsets is not understood");
    refused("mistral", "\"prepend_scheme\":\"first\"",
            "\"prepend_scheme\":\"last\"", "pre_tokenizer.prepend_scheme is");
    refused("mistral", "\"replacement\":\"\\u2581\"", "\"replacement\":\"_\"",
            "pre_tokenizer is read with the replacement U+2581");
    refused("mistral", "\"split\":false", "\"split\":1",
            "pre_tokenizer.split is 1, read is true or false");
    refused("smollm2", "\"individual_digits\"", "\"digits\"",
            "pre_tokenizer.pretokenizers[0].digits is not understood");
    refused("smollm2", "\"type\":\"Digits\",\"individual_digits\":true",
            "\"type\":\"ByteLevel\",\"add_prefix_space\":false",
            "pre_tokenizer.pretokenizers[1] is behind ByteLevel");
    refused("qwen2", "\"invert\":false", "\"invert\":true",
            "pre_tokenizer.pretokenizers[0].invert is true");
    refused("qwen2", "\"pattern\":{\"Regex\"", "\"pattern\":{\"Glob\"",
            "pre_tokenizer.pretokenizers[0].pattern.Glob is not understood");
    refused("qwen2", "\"byte_fallback\":false", "\"byte_fallback\":true",
            "model.byte_fallback is set beside ByteLevel");
    refused("qwen2", "\"content\":\"<think>\"", "\"content\":\"\"",
            "added_tokens: number 3 needs a content");
}

/* ---- steps that make a text longer ----------------------------------------
 */

#define TIMES_16(c)                                             \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" c "\"}," \
    "\"content\":\"" c c c c c c c c c c c c c c c c "\"}"
#define SEQUENCE(list) \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" list "]}"

static void test_growth(void)
{
    static const char nfc[] = "\"normalizer\":{\"type\":\"NFC\"}";
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    struct buf text = BUF_INIT, ids = BUF_INIT, back = BUF_INIT;
    for (int i = 0; i < 100; i++)
        text_must(buf_addstr(&text, "b", &err), &err);
    text_must(open_changed("qwen2", nfc, SEQUENCE(TIMES_16("b")), &t, &err),
              &err);
    text_must(tokenizer_encode(t, text.data, text.len, 0, &ids, &err), &err);
    text_must(tokenizer_decode(t, ids_of(&ids), ids.len / 4, &back, &err),
              &err);
    is_int((int)back.len, 16 * (int)text.len, "one step takes 16 times");
    tokenizer_close(t);
    text_must(open_changed("qwen2", nfc,
                           SEQUENCE(TIMES_16("b") "," TIMES_16("b")), &t, &err),
              &err);
    buf_reset(&ids);
    ok(tokenizer_encode(t, text.data, text.len, 0, &ids, &err) < 0 &&
           err.code == ERR_INVAL && ids.len == 0 &&
           strstr(err.msg, "more than 1728 bytes of a text of 100,") != NULL,
       "%s", err.msg);
    tokenizer_close(t);
    refused("qwen2", nfc,
            SEQUENCE(TIMES_16("<") "," TIMES_16("<") "," TIMES_16("<")),
            "added_tokens[7]: normalizer makes more than 304 bytes");
    buf_clear(&text);
    buf_clear(&ids);
    buf_clear(&back);
}

/* ---- added tokens in the vocabulary ---------------------------------------
 */

/* Its text is no bytes in ByteLevel's alphabet, in which the others are. */
static void test_listed(void)
{
    static const char text[] = "<\xed\x95\x9c>";
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    struct buf ids = BUF_INIT, back = BUF_INIT;
    text_must(open_changed("qwen2", "\"vocab\":{",
                           "\"vocab\":{\"<\\u1112\\u1161\\u11ab>\":607,", &t,
                           &err),
              &err);
    text_must(tokenizer_encode(t, text, strlen(text), 0, &ids, &err), &err);
    ok(ids.len == 4 && ids_of(&ids)[0] == 607, "an added token of model.vocab");
    text_must(tokenizer_decode(t, ids_of(&ids), ids.len / 4, &back, &err),
              &err);
    ok(strcmp(buf_str(&back), text) == 0, "and its text");
    tokenizer_close(t);
    refused("qwen2", "\"vocab\":{", "\"vocab\":{\"\\uff5c\":640,",
            "model.vocab: a token with U+FF5C");
    buf_clear(&ids);
    buf_clear(&back);
}

/* ---- what files may have as well ------------------------------------------
 */

static void opens(const char *layout, const char *from, const char *to)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    ok(open_changed(layout, from, to, &t, &err) == 0, "%s %s", to, err.msg);
    tokenizer_close(t);
}

static void test_also(void)
{
    static const char nfc[] = "\"normalizer\":{\"type\":\"NFC\"}";
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    struct buf ids = BUF_INIT, back = BUF_INIT;
    opens("qwen2", "\"dropout\":null", "\"dropout\":0.0");
    opens("qwen2", "\"dropout\":null", "\"dropout\":0");
    refused("qwen2", "\"dropout\":null", "\"dropout\":0.1", "model.dropout is");
    refused("qwen2", "\"added_tokens\":[", "\"added_tokens\":{\"a\":1},\"x\":[",
            "added_tokens is not a list");
    opens("qwen2", "\"added_tokens\":[", "\"added_tokens\":null,\"x\":[");
    text_must(open_changed(
                  "qwen2", nfc,
                  SEQUENCE("{\"type\":\"Sequence\",\"normalizers\":[" TIMES_16(
                      "b") "]}"),
                  &t, &err),
              &err);
    text_must(tokenizer_encode(t, "abc", 3, 0, &ids, &err), &err);
    text_must(tokenizer_decode(t, ids_of(&ids), ids.len / 4, &back, &err),
              &err);
    ok(strcmp(buf_str(&back), "abbbbbbbbbbbbbbbbc") == 0,
       "a Sequence in a Sequence: %s", buf_str(&back));
    tokenizer_close(t);
    refused("qwen2", nfc,
            SEQUENCE("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":7}]}"),
            "normalizer.normalizers[0].normalizers[0].type is 7");
    buf_clear(&ids);
    buf_clear(&back);
}

int main(void)
{
    const int fd = mkstemp(path);
    if (fd < 0)
        exit(1);
    (void)close(fd);
    test_golden();
    test_place();
    test_long();
    test_refusals();
    test_growth();
    test_listed();
    test_also();
    (void)unlink(path);
    return tap_done();
}
