/* data_chat.c - conversations in the chat formats of published models: the ids
 * of transformers' apply_chat_template(), and which of them count; which
 * templates are recognised, and by which words others are refused. */
#include <unistd.h>

#include "tests/unit/worker/text_golden.h"
#include "worker/data/chat/chat_template.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/data/text/chat_format.h"

enum { PAIRS = 40, CONVERSATIONS = 60 };

static struct tokenizer *opened(const char *layout)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    char name[128], path[4096];
    (void)snprintf(name, sizeof(name),
                   "tests/golden/hf_tokenizers/%s/tokenizer.json", layout);
    text_must(tokenizer_open(golden_path(name, path), &t, &err), &err);
    return t;
}

static const struct chat_table *named(const char *name)
{
    const struct chat_table *t = NULL;
    for (int i = 0; (t = chat_table_at(i)) != NULL; i++)
        if (strcmp(t->name, name) == 0)
            return t;
    tap_diag("no format %s", name);
    exit(1);
}

/* ---- golden ids ---------------------------------------------------------- */

struct pair {
    char format[32], layout[32];
    struct tokenizer *tokenizer;
    struct chat_format f;
    int right, wrong_ids, wrong_labels, refused;
};

struct goldens {
    struct pair pairs[PAIRS];
    int n;
    struct messages messages;
    struct buf ids, labels;
};

static void take_names(const json_t *line, void *arg)
{
    struct goldens *g = arg;
    struct error err = ERROR_INIT;
    const json_t *v;
    size_t i;
    json_array_foreach(json_object_get(line, "of"), i, v)
    {
        struct pair *p = &g->pairs[g->n++];
        (void)snprintf(p->format, sizeof(p->format), "%s",
                       json_string_value(json_array_get(v, 0)));
        (void)snprintf(p->layout, sizeof(p->layout), "%s",
                       json_string_value(json_array_get(v, 1)));
        p->tokenizer = opened(p->layout);
        text_must(chat_format_init(&p->f, p->tokenizer,
                                   named(p->format)->prompt, -1, 0, &err),
                  &err);
    }
}

static uint32_t hash_of(const struct buf *b)
{
    const uint32_t *v = (const void *)b->data;
    uint64_t h = 0xcbf29ce484222325U;
    for (size_t i = 0; i < b->len / 4; i++)
        h = (h ^ v[i]) * 0x100000001b3U;
    return (uint32_t)(h >> 32);
}

static void compare(struct goldens *g, struct pair *p, const char *want)
{
    struct error err = ERROR_INIT;
    char ids[9], labels[9];
    int32_t lost = 0;
    buf_reset(&g->ids);
    buf_reset(&g->labels);
    if (chat_format_encode(&p->f, &g->messages, &g->ids, &g->labels, &lost,
                           &err) < 0) {
        if (want == NULL && err.code == ERR_INVAL)
            p->refused++;
        else
            p->wrong_ids++;
        return;
    }
    (void)snprintf(ids, sizeof(ids), "%08x", (unsigned)hash_of(&g->ids));
    (void)snprintf(labels, sizeof(labels), "%08x",
                   (unsigned)hash_of(&g->labels));
    const bool same = want != NULL && memcmp(want, ids, 8) == 0 && lost < 0;
    p->wrong_ids += !same;
    p->wrong_labels += same && strcmp(want + 8, labels) != 0;
    p->right += same;
}

static void take_conversation(const json_t *line, void *arg)
{
    struct goldens *g = arg;
    struct error err = ERROR_INIT;
    const struct messages_conf conf = {.template = TEMPLATE_CHAT};
    const json_t *of = json_object_get(line, "of");
    text_must(messages_of_row(&conf, line, SIDE_CHOSEN, &g->messages, &err),
              &err);
    for (int i = 0; i < g->n; i++)
        compare(g, &g->pairs[i],
                json_string_value(json_array_get(of, (size_t)i)));
}

static void test_goldens(void)
{
    struct goldens *g = calloc(1, sizeof(*g));
    static const char file[] = "tests/golden/chat.jsonl";
    if (g == NULL)
        exit(1);
    is_int(text_each_of(file, "names", take_names, g), 1, "a line of names");
    const int n = text_each_of(file, "chat", take_conversation, g);
    ok(n >= CONVERSATIONS && g->n >= 20, "%d conversations of %d", n, g->n);
    for (int i = 0; i < g->n; i++) {
        struct pair *p = &g->pairs[i];
        ok(p->wrong_ids == 0 && p->right >= CONVERSATIONS &&
               p->right + p->refused == n,
           "%s, tokenizer %s: %d are as transformers has them, %d refused, %d "
           "others",
           p->format, p->layout, p->right, p->refused, p->wrong_ids);
        is_int(p->wrong_labels, 0, "and what counts");
        tokenizer_close(p->tokenizer);
    }
    messages_clear(&g->messages);
    buf_clear(&g->ids);
    buf_clear(&g->labels);
    free(g);
}

/* ---- what counts, and what is cut ---------------------------------------- */

/* A conversation by hand: the tokens that count are in brackets, special ones
 * have their names.
 * in  on_input  the message of the user counts, too */
static void has_labels(const char *layout, const char *format, bool on_input,
                       int32_t max_seq_len, const char *want)
{
    struct tokenizer *t = opened(layout);
    struct messages *m = calloc(1, sizeof(*m));
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, labels = BUF_INIT, got = BUF_INIT;
    struct chat_format f;
    int32_t lost = -1;
    bool is_on = false;
    if (m == NULL)
        exit(1);
    m->list[0] = (struct message){
        .role = ROLE_USER, .labelled = on_input, .text = "a b"};
    m->list[1] = (struct message){
        .role = ROLE_ASSISTANT, .labelled = true, .text = "ok"};
    m->n = 2;
    text_must(
        chat_format_init(&f, t, named(format)->prompt, -1, max_seq_len, &err),
        &err);
    text_must(chat_format_encode(&f, m, &ids, &labels, &lost, &err), &err);
    const int32_t *id = (const void *)ids.data,
                  *label = (const void *)labels.data;
    for (size_t i = 0; i < ids.len / 4; i++) {
        if ((label[i] >= 0) != is_on)
            text_must(buf_addstr(&got, is_on ? "]" : "[", &err), &err);
        is_on = label[i] >= 0;
        const size_t before = got.len;
        text_must(tokenizer_decode(t, &id[i], 1, &got, &err), &err);
        if (got.len == before)
            text_must(buf_addf(&got, &err, "<%d>", id[i]), &err);
    }
    text_must(buf_addstr(&got, is_on ? "]" : "", &err), &err);
    is_str(buf_str(&got), want, format);
    is_int(lost >= 0, max_seq_len > 0, "whether it is cut");
    buf_clear(&ids);
    buf_clear(&labels);
    buf_clear(&got);
    free(m);
    tokenizer_close(t);
}

static void test_labels(void)
{
    struct tokenizer *t = opened("smollm2");
    char want[256];
    const int start = tokenizer_special(t, "<|im_start|>");
    const int end = tokenizer_special(t, "<|im_end|>");
    tokenizer_close(t);
    (void)snprintf(want, sizeof(want),
                   "<%d>user\na b<%d>\n<%d>assistant\n[ok<%d>]\n", start, end,
                   start, end);
    has_labels("smollm2", "hermes", false, 0, want);
    (void)snprintf(want, sizeof(want),
                   "[<%d>user\na b<%d>]\n<%d>assistant\n[ok<%d>]\n", start, end,
                   start, end);
    has_labels("smollm2", "hermes", true, 0, want);
    (void)snprintf(want, sizeof(want), "<%d>", start);
    has_labels("smollm2", "hermes", false, 1, want);
}

/* ---- which template it is ------------------------------------------------ */

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[4200];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        exit(1);
}

/* Our own template as a directory has it. */
static char *ours(void)
{
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    char path[4096];
    text_must(buf_read_file(&text,
                            golden_path("tests/golden/chat_ours.jinja", path),
                            65536, &err),
              &err);
    char *copy = strdup(buf_str(&text));
    buf_clear(&text);
    if (copy == NULL)
        exit(1);
    return copy;
}

static void finds(const char *dir, const char *config, const char *format)
{
    struct error err = ERROR_INIT;
    enum spec_prompt is = PROMPT_AUTO;
    write_file(dir, "tokenizer_config.json", config);
    const int rc = chat_template_find(dir, &is, &err);
    ok(rc == 0 && is == (format != NULL ? named(format)->prompt : PROMPT_NONE),
       "%.60s: %s %s", config, format != NULL ? format : "none", err.msg);
}

static void refuses(const char *dir, const char *config, const char *words)
{
    struct error err = ERROR_INIT;
    enum spec_prompt is = PROMPT_AUTO;
    write_file(dir, "tokenizer_config.json", config);
    ok(chat_template_find(dir, &is, &err) < 0 && err.code == ERR_INVAL &&
           is == PROMPT_AUTO && strstr(err.msg, words) != NULL &&
           strstr(err.msg, "train.tokenizer.prompt_template") != NULL &&
           chat_template_is_in(dir),
       "'%s' of: %s", words, err.msg);
}

/* {"chat_template": ...} of our template, with more white space. */
static char *config_of(const char *text, bool in_list)
{
    char spread[8192];
    size_t n = 0;
    for (const char *p = text; *p != '\0' && n + 4 < sizeof(spread); p++) {
        spread[n++] = *p;
        if (*p == '\n')
            n += (size_t)snprintf(spread + n, 4, "\t \r");
    }
    spread[n] = '\0';
    json_t *v = in_list
                    ? json_pack("{s:[{s:s,s:s},{s:s,s:s}]}", "chat_template",
                                "name", "tools", "template", "x", "name",
                                "default", "template", spread)
                    : json_pack("{s:s}", "chat_template", spread);
    char *dump = json_dumps(v, 0);
    json_decref(v);
    if (dump == NULL)
        exit(1);
    return dump;
}

static void test_found(const char *dir)
{
    char *text = ours();
    char *alone = config_of(text, false), *listed = config_of(text, true);
    char path[4200];
    finds(dir, "{}", NULL);
    finds(dir, "{\"chat_template\":null}", NULL);
    finds(dir, "{", NULL);
    finds(dir, alone, "hermes");
    finds(dir, listed, "hermes");
    write_file(dir, "chat_template.jinja", text);
    finds(dir, "{\"chat_template\":\"x\"}", "hermes");
    (void)snprintf(path, sizeof(path), "%s/chat_template.jinja", dir);
    (void)unlink(path);
    free(text);
    free(alone);
    free(listed);
}

static void test_unknown(const char *dir)
{
    refuses(dir, "{\"chat_template\":\"x\"}", "resembles none");
    refuses(dir, "{\"chat_template\":[{\"name\":\"y\",\"template\":\"x\"}]}",
            "resembles none");
    refuses(dir, "{\"chat_template\":\"<|im_start|>\"}", "nearest is hermes:");
    refuses(dir,
            "{\"chat_template\":\"<|im_start|> You are Qwen, of Alibaba\"}",
            "prompt_template: qwen2_5, or null");
    refuses(dir, "{\"chat_template\":\"<|im_start|><think>\"}",
            "nearest is qwen3:");
    refuses(dir, "{\"chat_template\":\"<|start_header_id|>\"}",
            "nearest is llama3:");
    refuses(dir,
            "{\"chat_template\":\"<|start_header_id|>Cutting Knowledge Date\"}",
            "nearest is llama3_1:");
    refuses(dir, "{\"chat_template\":\"[INST] <<SYS>>\"}",
            "nearest is llama2:");
    refuses(dir, "{\"chat_template\":\"'[INST] '\"}", "nearest is mistral:");
    refuses(dir, "{\"chat_template\":\"<|user|><|assistant|>eos_token\"}",
            "nearest is zephyr:");
}

/* The key, the rows and the two directories decide. */
static void test_chosen(const char *dir)
{
    struct job_spec s = {.kind = SPEC_LLM};
    struct error err = ERROR_INIT;
    char *text = ours(), none[] = "/tmp/mgpu-none-XXXXXX";
    enum spec_prompt is;
    if (mkdtemp(none) == NULL)
        exit(1);
    write_file(dir, "tokenizer_config.json", "{}");
    write_file(dir, "chat_template.jinja", text);
    s.train.checkpointer.dir = (char *)dir;
    s.train.tokenizer.prompt_template = PROMPT_AUTO;
    ok(chat_template_choose(&s, TEMPLATE_CHAT, &is, &err) == 0 &&
           is == PROMPT_HERMES,
       "auto takes the model's");
    ok(chat_template_choose(&s, TEMPLATE_TOKENS, &is, &err) == 0 &&
           is == PROMPT_NONE &&
           chat_template_choose(&s, TEMPLATE_COMPLETION, &is, &err) == 0 &&
           is == PROMPT_NONE,
       "rows that are no messages have none");
    s.train.tokenizer.path = none;
    ok(chat_template_choose(&s, TEMPLATE_CHAT, &is, &err) == 0 &&
           is == PROMPT_NONE,
       "the tokenizer's directory comes first");
    s.train.tokenizer.path = (char *)"/tmp/none.json";
    s.train.tokenizer.prompt_template = PROMPT_NONE;
    ok(chat_template_choose(&s, TEMPLATE_CHAT, &is, &err) == 0 &&
           is == PROMPT_NONE,
       "null has none");
    s.train.tokenizer.prompt_template = PROMPT_ZEPHYR;
    ok(chat_template_choose(&s, TEMPLATE_CHAT, &is, &err) == 0 &&
           is == PROMPT_ZEPHYR,
       "a name is that format");
    ok(chat_template_learned(&s) == PROMPT_ZEPHYR, "which is learned");
    s.train.tokenizer.prompt_template = PROMPT_AUTO;
    s.train.dataset.template = TEMPLATE_TOKENS;
    ok(chat_template_learned(&s) == PROMPT_HERMES,
       "with auto the model's, whatever the rows are");
    s.train.tokenizer.path = none;
    ok(chat_template_learned(&s) == PROMPT_NONE,
       "or that of the tokenizer's directory");
    s.train.tokenizer.path = NULL;
    s.train.tokenizer.prompt_template = PROMPT_NONE;
    ok(chat_template_learned(&s) == PROMPT_NONE, "null has none");
    (void)rmdir(none);
    free(text);
}

/* What ends an answer, with the template of `dir`, and by name. */
static void test_ends(const char *dir)
{
    struct tokenizer *chat = opened("smollm2"), *plain = opened("llama2"),
                     *llama3 = opened("llama3");
    const int end = tokenizer_special(chat, "<|im_end|>");
    is_int(chat_format_answer_end(PROMPT_AUTO, dir, chat), end,
           "the template's");
    is_int(chat_format_answer_end(PROMPT_AUTO, "/none", chat), -1, "none");
    is_int(chat_format_answer_end(PROMPT_SMOLLM2, "/none", chat), end,
           "by name");
    is_int(chat_format_answer_end(PROMPT_ZEPHYR, "/none", plain),
           tokenizer_ids(plain)->eos, "eos");
    is_int(chat_format_answer_end(PROMPT_AUTO, "/none", llama3),
           tokenizer_special(llama3, "<|eot_id|>"), "Llama 3's headers");
    tokenizer_close(chat);
    tokenizer_close(plain);
    tokenizer_close(llama3);
}

/* ---- which tokenizer it is ----------------------------------------------- */

static void copy_file(const char *from, const char *dir, const char *name)
{
    struct buf file = BUF_INIT;
    struct error err = ERROR_INIT;
    char path[4200];
    text_must(buf_read_file(&file, golden_path(from, path), 1 << 20, &err),
              &err);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL || fwrite(file.data, 1, file.len, f) != file.len ||
        fclose(f) != 0)
        exit(1);
    buf_clear(&file);
}

/* "a" behind a special token, by the tokenizer of `dir` for that format and by
 * another. */
static bool same_behind(enum spec_prompt prompt, const char *dir,
                        const struct tokenizer *other)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    struct buf a = BUF_INIT, b = BUF_INIT;
    text_must(chat_tokenizer_open(prompt, dir, &t, &err), &err);
    text_must(tokenizer_encode(t, "a", 1, TOKENIZER_BEHIND, &a, &err), &err);
    text_must(tokenizer_encode(other, "a", 1, TOKENIZER_BEHIND, &b, &err),
              &err);
    const bool same = a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    buf_clear(&a);
    buf_clear(&b);
    tokenizer_close(t);
    return same;
}

/* A sentencepiece model, and tokenizer.json beside it. */
static void test_tokenizer(const char *dir)
{
    struct tokenizer *json = opened("mistral"), *spm = NULL;
    struct job_spec s = {.kind = SPEC_LLM};
    struct error err = ERROR_INIT;
    struct chat_render r;
    const struct chat_table control = {
        .name = "own", .tokens = {"</s>"}, .needs = 1};
    copy_file("tests/data/stories260K/tokenizer.model", dir, "tokenizer.model");
    text_must(tokenizer_open(dir, &spm, &err), &err);
    ok(same_behind(PROMPT_MISTRAL_V3, dir, spm), "the only one is taken");
    ok(chat_render_init(&r, &control, spm, 0, &err) < 0 &&
           err.code == ERR_INVAL &&
           strstr(err.msg, "put the model's tokenizer.json beside it") != NULL,
       "a special token of the format: %s", err.msg);
    ok(chat_render_init(&r, named("mistral"), spm, 0, &err) == 0,
       "without one it is read");
    copy_file("tests/golden/hf_tokenizers/mistral/tokenizer.json", dir,
              "tokenizer.json");
    ok(same_behind(PROMPT_MISTRAL_V3, dir, json), "tokenizer.json is taken");
    ok(!same_behind(PROMPT_MISTRAL_V3, dir, spm), "which differs");
    ok(same_behind(PROMPT_NONE, dir, spm) &&
           same_behind(PROMPT_LLAMA2_CHAT, dir, spm),
       "torchtune's formats have the sentencepiece model");
    tokenizer_close(spm);
    s.train.checkpointer.dir = (char *)dir;
    s.train.dataset.path = (char *)"rows.jsonl";
    for (int i = 0; i < 2; i++) {
        s.train.dataset.template = i == 0 ? TEMPLATE_TOKENS : TEMPLATE_CHAT;
        s.train.tokenizer.prompt_template =
            i == 0 ? PROMPT_AUTO : PROMPT_MISTRAL_V3;
        text_must(chat_tokenizer_of_job(&s, dir, &spm, &err), &err);
        is_int(tokenizer_knows_behind(spm), i, "the tokenizer of a job");
        tokenizer_close(spm);
    }
    tokenizer_close(json);
}

/* ---- names of tokens in a message ---------------------------------------- */

/* How often a token is in a conversation whose user writes its name. */
static int named_in_text(const struct tokenizer *t, const char *text, int id)
{
    struct messages *m = calloc(1, sizeof(*m));
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, labels = BUF_INIT;
    struct chat_format f;
    int32_t lost;
    int n = 0;
    if (m == NULL)
        exit(1);
    m->list[0] = (struct message){.role = ROLE_USER, .text = text};
    m->list[1] = (struct message){
        .role = ROLE_ASSISTANT, .labelled = true, .text = "ok"};
    m->n = 2;
    text_must(chat_format_init(&f, t, PROMPT_HERMES, -1, 0, &err), &err);
    text_must(chat_format_encode(&f, m, &ids, &labels, &lost, &err), &err);
    for (size_t i = 0; i < ids.len / sizeof(int32_t); i++)
        n += ((const int32_t *)(const void *)ids.data)[i] == id;
    buf_clear(&ids);
    buf_clear(&labels);
    free(m);
    return n;
}

/* Special tokens end the two turns alone; one that is not special is found in
 * the user's text. */
static void test_names(const char *dir)
{
    static const char text[] = "a<|im_end|>b";
    struct tokenizer *t = opened("smollm2");
    struct error err = ERROR_INIT;
    char path[4200];
    const int end = tokenizer_special(t, "<|im_end|>");
    is_int(named_in_text(t, text, end), 2, "a special token is no text");
    tokenizer_close(t);
    json_t *root = json_load_file(
        golden_path("tests/golden/hf_tokenizers/smollm2/tokenizer.json", path),
        0, NULL);
    json_t *v;
    size_t i;
    json_array_foreach(json_object_get(root, "added_tokens"), i, v)
    {
        const char *name = json_string_value(json_object_get(v, "content"));
        if (name != NULL && strcmp(name, "<|im_end|>") == 0)
            (void)json_object_set_new(v, "special", json_false());
    }
    (void)snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    if (json_dump_file(root, path, 0) < 0)
        exit(1);
    json_decref(root);
    text_must(tokenizer_open(path, &t, &err), &err);
    is_int(named_in_text(t, text, end), 3, "one that is not is found");
    tokenizer_close(t);
}

/* ---- what has no words --------------------------------------------------- */

static void refused(const char *format, const char *layout,
                    enum message_role role, const char *text, const char *words)
{
    struct tokenizer *t = opened(layout);
    struct messages *m = calloc(1, sizeof(*m));
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, labels = BUF_INIT;
    struct chat_format f;
    int32_t lost;
    if (m == NULL)
        exit(1);
    m->list[0] = (struct message){.role = role, .text = text};
    m->n = 1;
    ok((chat_format_init(&f, t, named(format)->prompt, -1, 0, &err) < 0 ||
        chat_format_encode(&f, m, &ids, &labels, &lost, &err) < 0) &&
           err.code == ERR_INVAL && strstr(err.msg, words) != NULL,
       "%s: %s", format, err.msg);
    buf_clear(&ids);
    buf_clear(&labels);
    free(m);
    tokenizer_close(t);
}

int main(void)
{
    char dir[] = "/tmp/mgpu-chat-XXXXXX", path[4200];
    if (mkdtemp(dir) == NULL)
        return 1;
    test_goldens();
    test_labels();
    test_found(dir);
    test_unknown(dir);
    test_chosen(dir);
    test_ends(dir);
    test_tokenizer(dir);
    test_names(dir);
    refused("mistral", "llama2", ROLE_SYSTEM, "s",
            "message 1 is of the system, which the format mistral");
    refused("hermes", "qwen2", ROLE_IPYTHON, "s", "message 1 is a tool's");
    refused("qwen3", "qwen2", ROLE_ASSISTANT, "<think>a</think>b",
            "message 1 has a thought");
    refused("qwen3", "qwen2", ROLE_USER, "<tool_response>x</tool_response>",
            "message 1 is a tool's answer");
    refused("hermes", "llama3", ROLE_USER, "a",
            "no special token <|im_start|>, which the format hermes needs");
    static const char *const files[] = {"tokenizer_config.json",
                                        "chat_template.jinja",
                                        "tokenizer.model", "tokenizer.json"};
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
    return tap_done();
}
