/* meta.c - Meta's tokenizers, by hand: their licence does not let us ship them.
 *
 * usage: meta DIR JSON
 *
 * DIR has llama3-tokenizer and llama2-tokenizer, each with tokenizer.model and
 * lines {"text", "ids"}; the first also has golden_chat.json, the values of
 * Meta's own test. JSON is the tokenizer.json of Llama 3.0. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "worker/data/tokenizer/tokenizer.h"

static void must(int rc, const struct error *err)
{
    if (rc == 0)
        return;
    tap_diag("%s", err->msg);
    exit(1);
}

static struct tokenizer *opened(const char *path)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    must(tokenizer_open(path, &t, &err), &err);
    return t;
}

static void add(const struct tokenizer *t, const char *text, size_t len,
                uint32_t flags, struct buf *ids)
{
    struct error err = ERROR_INIT;
    must(tokenizer_encode(t, text, len, flags, ids, &err), &err);
}

static bool same(const struct buf *ids, const json_t *want)
{
    const int32_t *got = (const int32_t *)(const void *)ids->data;
    const size_t n = ids->len / sizeof(*got);
    bool rc = json_array_size(want) == n;
    for (size_t i = 0; rc && i < n; i++)
        rc = json_integer_value(json_array_get(want, i)) == got[i];
    return rc;
}

static bool line_is(const struct tokenizer *t, const json_t *line, bool comes)
{
    struct error err = ERROR_INIT;
    const json_t *text = json_object_get(line, "text");
    const char *s = json_string_value(text);
    struct buf ids = BUF_INIT, back = BUF_INIT;
    add(t, s, json_string_length(text), 0, &ids);
    bool rc = same(&ids, json_object_get(line, "ids"));
    must(tokenizer_decode(t, (const void *)ids.data, ids.len / sizeof(int32_t),
                          &back, &err),
         &err);
    if (comes)
        rc = rc && back.len == json_string_length(text) &&
             memcmp(buf_str(&back), s, back.len) == 0;
    if (!rc)
        tap_diag("%s", s);
    buf_clear(&ids);
    buf_clear(&back);
    return rc;
}

/* in   comes  each text comes back, too: sentencepiece changes some */
static void lines_are(const struct tokenizer *t, const char *path, bool comes,
                      const char *what)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int n = 0, wrong = 0;
    FILE *f = fopen(path, "r");
    while (f != NULL && (len = getline(&line, &cap, f)) > 0) {
        json_t *v = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
        wrong += v == NULL || !line_is(t, v, comes);
        json_decref(v);
        n++;
    }
    ok(n > 0 && wrong == 0, "%s: %d strings, %d differ", what, n, wrong);
    free(line);
    if (f != NULL)
        (void)fclose(f);
}

static void add_special(const struct tokenizer *t, const char *name,
                        struct buf *ids)
{
    struct error err = ERROR_INIT;
    const int32_t id = tokenizer_special(t, name);
    must(buf_add(ids, &id, sizeof(id), &err), &err);
}

static void add_header(const struct tokenizer *t, const char *role,
                       struct buf *ids)
{
    add_special(t, "<|start_header_id|>", ids);
    add(t, role, strlen(role), 0, ids);
    add_special(t, "<|end_header_id|>", ids);
    add(t, "\n\n", 2, 0, ids);
}

static void add_message(const struct tokenizer *t, const char *role,
                        const char *content, struct buf *ids)
{
    add_header(t, role, ids);
    add(t, content, strlen(content), 0, ids);
    add_special(t, "<|eot_id|>", ids);
}

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void add_case(const struct tokenizer *t, const json_t *c,
                     struct buf *ids)
{
    const char *kind = text_of(c, "kind");
    const json_t *m;
    size_t i;
    if (strcmp(kind, "encode") == 0) {
        add(t, text_of(c, "text"), strlen(text_of(c, "text")),
            TOKENIZER_BOS | TOKENIZER_EOS, ids);
    } else if (strcmp(kind, "message") == 0) {
        add_message(t, text_of(c, "role"), text_of(c, "content"), ids);
    } else {
        add_special(t, "<|begin_of_text|>", ids);
        json_array_foreach(json_object_get(c, "messages"), i, m)
        {
            add_message(t, json_string_value(json_array_get(m, 0)),
                        json_string_value(json_array_get(m, 1)), ids);
        }
        add_header(t, "assistant", ids);
    }
}

static void chat_is(const struct tokenizer *t, const char *path,
                    const char *what)
{
    json_t *root = json_load_file(path, 0, NULL), *c;
    const json_t *cases = json_object_get(root, "cases");
    size_t i;
    ok(json_array_size(cases) == 3, "%s: Meta's own three cases", what);
    json_array_foreach(cases, i, c)
    {
        struct buf ids = BUF_INIT;
        add_case(t, c, &ids);
        ok(same(&ids, json_object_get(c, "ids")), "%s: %s", what,
           text_of(c, "kind"));
        buf_clear(&ids);
    }
    json_decref(root);
}

static const char *in(const char *dir, const char *name, char path[4096])
{
    (void)snprintf(path, 4096, "%s/%s", dir, name);
    return path;
}

static void test_llama3(const char *dir, const char *file, const char *what)
{
    char path[4096];
    struct tokenizer *t = opened(file);
    is_int(tokenizer_ids(t)->size, 128256, what);
    lines_are(t, in(dir, "llama3-tokenizer/golden_llama3_dev.jsonl", path),
              true, what);
    chat_is(t, in(dir, "llama3-tokenizer/golden_chat.json", path), what);
    tokenizer_close(t);
}

static void test_names(const char *dir, const char *json)
{
    char path[4096];
    struct tokenizer *a =
        opened(in(dir, "llama3-tokenizer/tokenizer.model", path));
    struct tokenizer *b = opened(json);
    is_int(tokenizer_special(a, "<|finetune_right_pad_id|>"), 128004,
           "ranks: 3.1's names");
    is_int(tokenizer_special(a, "<|step_id|>"), 128005, "128005");
    is_int(tokenizer_special(a, "<|image|>"), 128011, "128011");
    is_int(tokenizer_special(b, "<|reserved_special_token_2|>"), 128004,
           "tokenizer.json: 3.0's names");
    is_int(tokenizer_special(b, "<|reserved_special_token_3|>"), 128005,
           "128005");
    is_int(tokenizer_special(b, "<|reserved_special_token_6|>"), 128011,
           "128011");
    tokenizer_close(a);
    tokenizer_close(b);
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 3) {
        (void)fprintf(stderr, "usage: meta DIR JSON\n");
        return 64;
    }
    test_llama3(argv[1], in(argv[1], "llama3-tokenizer/tokenizer.model", path),
                "Llama 3, ranks");
    test_llama3(argv[1], argv[2], "Llama 3, tokenizer.json");
    test_names(argv[1], argv[2]);
    struct tokenizer *t =
        opened(in(argv[1], "llama2-tokenizer/tokenizer.model", path));
    lines_are(t, in(argv[1], "llama2-tokenizer/golden_llama2_dev.jsonl", path),
              false, "Llama 2");
    tokenizer_close(t);
    return tap_done();
}
