/* data_tokenizer.c - sentencepiece: the ids and texts that its Python package
 * has for 300 strings, and files that are no models. */
#include "worker/data/tokenizer/tokenizer.h"

#include <unistd.h>

#include "tests/unit/worker/text_golden.h"

static const int32_t *ids_of(const struct buf *b)
{
    return (const int32_t *)(const void *)b->data;
}

struct strings {
    const char *model;
    struct tokenizer *t;
    int wrong_ids, wrong_texts, decoded_differs;
};

static void one_string(const json_t *line, void *arg)
{
    struct strings *s = arg;
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, text = BUF_INIT;
    const json_t *in = json_object_get(line, "text");
    const json_t *want =
        json_object_get(json_object_get(line, "ids"), s->model);
    const json_t *other =
        json_object_get(json_object_get(line, "decoded"), s->model);
    const json_t *back = other != NULL ? other : in;
    text_must(tokenizer_encode(s->t, json_string_value(in),
                               json_string_length(in), 0, &ids, &err),
              &err);
    if (text_differ(ids_of(&ids), ids.len / 4, want) && s->wrong_ids++ == 0)
        tap_diag("%s", json_string_value(in));
    text_must(tokenizer_decode(s->t, ids_of(&ids), ids.len / 4, &text, &err),
              &err);
    s->wrong_texts +=
        text.len != json_string_length(back) ||
        memcmp(buf_str(&text), json_string_value(back), text.len) != 0;
    s->decoded_differs += other != NULL;
    buf_clear(&ids);
    buf_clear(&text);
}

static void test_strings(const char *model)
{
    struct strings s = {.model = model, .t = text_tokenizer(model)};
    int n = text_each("string", one_string, &s);
    ok(n >= 300, "%s: %d strings", model, n);
    is_int(s.wrong_ids, 0, "have the ids of the Python package");
    is_int(s.wrong_texts, 0, "and their ids its text");
    tap_diag("%d texts do not come back as they were", s.decoded_differs);
    tokenizer_close(s.t);
}

static void test_ids(void)
{
    struct tokenizer *t = text_tokenizer("stories260K");
    const struct tokenizer_ids *a = tokenizer_ids(t);
    is_int(a->size, 512, "stories260K has 512 ids");
    is_int(a->bos, 1, "bos");
    is_int(a->eos, 2, "eos");
    is_int(a->unk, 0, "unk");
    tokenizer_close(t);
    t = text_tokenizer("torchtune");
    is_int(tokenizer_ids(t)->size, 2000, "m.model has 2000");
    tokenizer_close(t);
}

/* "hello" is 281 306 414 with its prefix. */
static void is_encoded(const struct tokenizer *t, uint32_t flags,
                       const char *want, const char *what)
{
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, got = BUF_INIT;
    text_must(tokenizer_encode(t, "hello", 5, flags, &ids, &err), &err);
    for (size_t i = 0; i < ids.len / 4; i++)
        text_must(buf_addf(&got, &err, "%d ", ids_of(&ids)[i]), &err);
    is_str(buf_str(&got), want, what);
    buf_clear(&ids);
    buf_clear(&got);
}

static void test_flags(void)
{
    struct tokenizer *t = text_tokenizer("stories260K");
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT;
    is_encoded(t, 0, "281 306 414 ", "a text");
    is_encoded(t, TOKENIZER_BOS, "1 281 306 414 ", "with bos");
    is_encoded(t, TOKENIZER_BOS | TOKENIZER_EOS, "1 281 306 414 2 ",
               "with both");
    is_encoded(t, TOKENIZER_GOES_ON, "260 306 414 ", "without the prefix");
    const int32_t ids[] = {1, 281, 306, 414, 2};
    text_must(tokenizer_decode(t, ids, 5, &text, &err), &err);
    is_str(buf_str(&text), "hello", "bos and eos have no text");
    const int32_t high = 512, low = -1;
    ok(tokenizer_decode(t, &high, 1, &text, &err) < 0 &&
           err.code == ERR_INVAL && strstr(err.msg, "512") != NULL,
       "id 512: %s", err.msg);
    ok(tokenizer_decode(t, &low, 1, &text, &err) < 0 && err.code == ERR_INVAL,
       "id -1: %s", err.msg);
    is_str(buf_str(&text), "hello", "the text is as it was");
    buf_clear(&text);
    tokenizer_close(t);
    tokenizer_close(NULL);
}

static char dir[] = "/tmp/tokenizerXXXXXX";

static void refused(const char *path, enum err_code code, const char *part)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    ok(tokenizer_open(path, &t, &err) < 0 && err.code == code &&
           strstr(err.msg, part) != NULL && t == NULL,
       "%s", err.msg);
}

static void refused_text(const char *text, size_t len, const char *part)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/tokenizer.model", dir);
    FILE *f = fopen(path, "w");
    if (f == NULL || fwrite(text, 1, len, f) != len || fclose(f) != 0)
        exit(1);
    refused(dir, ERR_INVAL, part);
    (void)unlink(path);
}

static void test_files(void)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    char path[4096];
    text_must(
        tokenizer_open(golden_path("tests/data/stories260K", path), &t, &err),
        &err);
    is_int(tokenizer_ids(t)->size, 512, "a directory has its tokenizer.model");
    tokenizer_close(t);
    if (mkdtemp(dir) == NULL)
        exit(1);
    refused("/nowhere/tokenizer.model", ERR_NOTFOUND, "/nowhere");
    refused(dir, ERR_NOTFOUND,
            "has no tokenizer.model, tokenizer.json or original/");
    refused_text("", 0, "neither a sentencepiece model, nor ranks");
    refused_text("[\"model\", 1]\n", 13, "neither a sentencepiece model");
    refused_text("\xff\xfe\0\0\0", 5, "neither a sentencepiece model");
    (void)rmdir(dir);
}

/* Sentencepiece reads a text to its end, whatever is wanted of it. */
static void test_long(void)
{
    struct tokenizer *t = text_tokenizer("stories260K");
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT;
    char *text = calloc(1, TOKENIZER_SPM_BYTES + 1);
    if (text == NULL)
        exit(1);
    memset(text, 'a', TOKENIZER_SPM_BYTES + 1);
    ok(tokenizer_encode_some(t, text, TOKENIZER_SPM_BYTES + 1, 0, 8, &ids,
                             &err) < 0 &&
           err.code == ERR_INVAL && strstr(err.msg, "4194305 bytes") != NULL,
       "a text that is too long: %s", err.msg);
    free(text);
    buf_clear(&ids);
    tokenizer_close(t);
}

int main(void)
{
    for (int i = 0; i < TEXT_MODELS; i++)
        test_strings(text_models[i]);
    test_ids();
    test_flags();
    test_files();
    test_long();
    return tap_done();
}
