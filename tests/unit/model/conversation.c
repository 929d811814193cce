/* conversation.c - a conversation and its prompt: what is forgotten where the
 * context is full, and which formats there are; and how fast tokens are, by a
 * clock that a test moves. */
#include "worker/model_tool/conversation.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "worker/model_tool/token_rates.h"
#include "worker/model_tool/token_text.h"

static char dir[] = "/tmp/conversationXXXXXX";

static void must(int rc, const struct error *err)
{
    if (rc == 0)
        return;
    tap_diag("%s", err->msg);
    exit(1);
}

static void put_file(const char *name, const char *text, size_t len)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL || fwrite(text, 1, len, f) != len || fclose(f) != 0)
        exit(1);
}

static void copy_file(const char *from, const char *name)
{
    struct buf file = BUF_INIT;
    struct error err = ERROR_INIT;
    char path[4096];
    must(buf_read_file(&file, golden_path(from, path), 1 << 20, &err), &err);
    put_file(name, file.data, file.len);
    buf_clear(&file);
}

static void say(struct conversation *c, enum message_role role,
                const char *text)
{
    struct error err = ERROR_INIT;
    must(conversation_add(c, role, text, strlen(text), &err), &err);
}

static int32_t ask(struct conversation *c, int32_t most, struct buf *ids)
{
    struct error err = ERROR_INIT;
    int32_t dropped = -1;
    must(conversation_ask(c, most, ids, &dropped, &err), &err);
    return dropped;
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* A prompt of three questions has room for two, then for one, then for none:
 * what is left is a conversation without the older ones. */
static void test_full(const char *system)
{
    struct conversation c, later;
    struct error err = ERROR_INIT;
    struct buf all = BUF_INIT, some = BUF_INIT, want = BUF_INIT;
    int32_t dropped;
    must(conversation_open(&c, dir, NULL, -1, system, &err), &err);
    must(conversation_open(&later, dir, NULL, -1, system, &err), &err);
    say(&c, ROLE_USER, "first");
    say(&c, ROLE_ASSISTANT, "one");
    for (int i = 0; i < 2; i++) {
        struct conversation *to = i == 0 ? &c : &later;
        say(to, ROLE_USER, "second");
        say(to, ROLE_ASSISTANT, "two");
        say(to, ROLE_USER, "third");
    }
    is_int(ask(&c, INT32_MAX, &all), 0, "there is room for all");
    const int32_t n = (int32_t)(all.len / sizeof(int32_t));
    is_int(ask(&c, n, &some), 0, "and for as many as they are");
    is_int(ask(&c, n - 1, &some), 2, "one less: the oldest two go");
    (void)ask(&later, INT32_MAX, &want);
    ok(same(&some, &want), "the rest is a conversation without them");
    const int32_t left = (int32_t)(some.len / sizeof(int32_t));
    is_int(ask(&c, left - 1, &some), 2, "and the next two");
    const int32_t alone = (int32_t)(some.len / sizeof(int32_t));
    ok(conversation_ask(&later, alone - 1, &some, &dropped, &err) < 0 &&
           err.code == ERR_INVAL && dropped == 0,
       "the last one is not forgotten: %s", err.msg);
    is_int(ask(&later, INT32_MAX, &some), 0, "nor, then, the older ones");
    ok(same(&some, &want), "they are in the next prompt");
    conversation_restart(&later);
    say(&later, ROLE_USER, "third");
    (void)ask(&c, INT32_MAX, &some);
    (void)ask(&later, INT32_MAX, &want);
    ok(same(&some, &want), "a new beginning has the system's message");
    conversation_clear(&c);
    conversation_clear(&later);
    buf_clear(&all);
    buf_clear(&some);
    buf_clear(&want);
}

/* More messages than a list has. */
static void test_many(void)
{
    struct conversation c;
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT;
    int32_t dropped = 0;
    must(conversation_open(&c, dir, NULL, -1, NULL, &err), &err);
    for (int i = 0; i < MESSAGES_MAX; i++) {
        say(&c, ROLE_USER, "q");
        dropped += ask(&c, INT32_MAX, &ids);
        say(&c, ROLE_ASSISTANT, "a");
    }
    ok(dropped >= MESSAGES_MAX, "%d of %d messages are forgotten", dropped,
       2 * MESSAGES_MAX);
    conversation_clear(&c);
    buf_clear(&ids);
}

/* Bytes that are no text, as an answer that is cut within a character has. */
static void test_bytes(void)
{
    struct conversation c;
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, want = BUF_INIT;
    must(conversation_open(&c, dir, NULL, -1, NULL, &err), &err);
    say(&c, ROLE_USER, "a\xe4\xb8");
    (void)ask(&c, INT32_MAX, &ids);
    conversation_drop_last(&c);
    say(&c, ROLE_USER, "a\xef\xbf\xbd\xef\xbf\xbd");
    (void)ask(&c, INT32_MAX, &want);
    ok(same(&ids, &want), "bytes that are not UTF-8 become U+FFFD");
    conversation_drop_last(&c);
    must(conversation_add(&c, ROLE_USER, "a\0\0", 3, &err), &err);
    (void)ask(&c, INT32_MAX, &ids);
    ok(same(&ids, &want), "and so does a NUL");
    conversation_clear(&c);
    buf_clear(&ids);
    buf_clear(&want);
}

static void refused(const char *file, const char *system, const char *words)
{
    struct conversation c;
    struct error err = ERROR_INIT;
    ok(conversation_open(&c, dir, file, -1, system, &err) < 0 &&
           err.code == ERR_INVAL && strstr(err.msg, words) != NULL,
       "%s", err.msg);
    conversation_clear(&c);
}

static void put_job(const char *prompt)
{
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "version: 1\nkind: llm\nname: t\nmethod: lora\ntrain:\n"
                   "  checkpointer: {checkpoint_dir: %s}\n"
                   "  tokenizer: {prompt_template: %s}\n"
                   "  dataset: {template: chat, path: rows.jsonl,\n"
                   "    new_system_prompt: be kind}\n",
                   dir, prompt);
    put_file("job.yaml", text, strlen(text));
}

/* A job names the format, and what the system says. */
static void test_job(void)
{
    struct conversation job, plain;
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, want = BUF_INIT;
    char file[128];
    (void)snprintf(file, sizeof(file), "%s/job.yaml", dir);
    put_job("auto");
    must(conversation_open(&job, dir, file, -1, NULL, &err), &err);
    must(conversation_open(&plain, dir, NULL, -1, "be kind", &err), &err);
    say(&job, ROLE_USER, "q");
    say(&plain, ROLE_USER, "q");
    (void)ask(&job, INT32_MAX, &ids);
    (void)ask(&plain, INT32_MAX, &want);
    ok(same(&ids, &want), "a job's template, and its message of the system");
    conversation_clear(&job);
    put_job("qwen2");
    must(conversation_open(&job, dir, file, -1, NULL, &err), &err);
    is_int(job.prompt, PROMPT_QWEN2, "a job names the format");
    conversation_clear(&job);
    conversation_clear(&plain);
    put_job("mistral");
    refused(file, NULL, "--system: message 1 is of the system");
    buf_clear(&ids);
    buf_clear(&want);
}

/* What a model makes can be an order to a terminal. */
static void test_terminal(void)
{
    static const char text[] = "a\n\tb\x1b]52;c;eA==\x07\r\x7f\xc2\x9b"
                               "2J\x9b\xc3\xa4";
    char *shown = NULL;
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        FILE *f = open_memstream(&shown, &n);
        if (f == NULL)
            exit(1);
        token_text_print(f, i == 1, text, sizeof(text) - 1);
        if (fclose(f) != 0)
            exit(1);
        is_str(shown,
               i == 0 ? text
                      : "a\n\tb\xef\xbf\xbd]52;c;eA==\xef\xbf\xbd"
                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                        "2J\xef\xbf\xbd\xc3\xa4",
               i == 0 ? "a file has the bytes as they are"
                      : "a terminal gets no control characters");
        free(shown);
    }
}

static void test_rates(void)
{
    struct clock_virtual v;
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    clock_virtual_init(&v, 100, 0);
    struct token_rates r = token_rates_of(&v.base);
    token_rates_begin(&r, 50, 10);
    v.t_s += 0.02; /* 40 tokens are computed */
    token_rates_add(&r);
    for (int i = 0; i < 4; i++) {
        v.t_s += 0.5;
        token_rates_add(&r);
    }
    v.t_s += 0.5; /* the token that ends it */
    token_rates_end(&r, true);
    must(token_rates_text(&r, &text, &err), &err);
    is_str(buf_str(&text),
           "prompt: 40 tokens (10 kept), 2000 tokens/s; generation: 5 tokens, "
           "2.00 tokens/s",
           "one answer");
    buf_reset(&text);
    token_rates_begin(&r, 41, 1);
    v.t_s += 0.06;
    token_rates_end(&r, true); /* the first token ends it */
    must(token_rates_text(&r, &text, &err), &err);
    is_str(buf_str(&text),
           "prompt: 80 tokens (11 kept), 1000 tokens/s; generation: 5 tokens, "
           "2.00 tokens/s",
           "and one without a token");
    buf_reset(&text);
    r = token_rates_of(&v.base);
    token_rates_begin(&r, 1, 0);
    token_rates_add(&r);
    token_rates_end(&r, false);
    must(token_rates_text(&r, &text, &err), &err);
    is_str(buf_str(&text), "prompt: 1 token; generation: 1 token",
           "no time, no rate");
    buf_clear(&text);
}

int main(void)
{
    static const char other[] = "{\"chat_template\": \"{{ messages }}\"}";
    char command[64];
    if (mkdtemp(dir) == NULL)
        return 1;
    copy_file("tests/golden/hf_tokenizers/smollm2/tokenizer.json",
              "tokenizer.json");
    refused(NULL, NULL, "has no chat template: name the job");
    copy_file("tests/golden/chat_ours.jinja", "chat_template.jinja");
    test_full(NULL);
    test_full("be kind");
    test_many();
    test_bytes();
    test_job();
    test_terminal();
    test_rates();
    (void)snprintf(command, sizeof(command), "%s/chat_template.jinja", dir);
    (void)unlink(command);
    put_file("tokenizer_config.json", other, strlen(other));
    refused(NULL, NULL, "a job of --data may name the format");
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        return 1;
    return tap_done();
}
