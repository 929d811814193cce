/* chat_ask.c - the prompt of a conversation that a model is to go on: the ids
 * of transformers' apply_chat_template() with add_generation_prompt, thoughts
 * in earlier answers among them; and torchtune's formats, whose prompt is what
 * a row with an answer has before it.
 */
#include "tests/unit/worker/text_golden.h"
#include "worker/data/chat/chat_table.h"
#include "worker/data/text/chat_format.h"

enum { PAIRS = 40, CONVERSATIONS = 36 };

struct pair {
    char format[32], layout[32];
    struct tokenizer *tokenizer;
    struct chat_format f;
    int right, refused, wrong;
};

struct goldens {
    struct pair pairs[PAIRS];
    int n;
    struct messages messages;
};

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

static void take_names(const json_t *line, void *arg)
{
    struct goldens *g = arg;
    struct error err = ERROR_INIT;
    const json_t *v;
    size_t i;
    json_array_foreach(json_object_get(line, "of"), i, v)
    {
        struct pair *p = &g->pairs[g->n++];
        const struct chat_table *t = NULL;
        (void)snprintf(p->format, sizeof(p->format), "%s",
                       json_string_value(json_array_get(v, 0)));
        (void)snprintf(p->layout, sizeof(p->layout), "%s",
                       json_string_value(json_array_get(v, 1)));
        p->tokenizer = opened(p->layout);
        for (int k = 0; (t = chat_table_at(k)) != NULL; k++)
            if (strcmp(t->name, p->format) == 0)
                break;
        if (t == NULL)
            exit(1);
        text_must(chat_format_init(&p->f, p->tokenizer, t->prompt, -1, 0, &err),
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

static void take_conversation(const json_t *line, void *arg)
{
    struct goldens *g = arg;
    struct error err = ERROR_INIT;
    const struct messages_conf conf = {.template = TEMPLATE_CHAT};
    const json_t *of = json_object_get(line, "of");
    text_must(messages_of_row(&conf, line, SIDE_CHOSEN, &g->messages, &err),
              &err);
    for (int i = 0; i < g->n; i++) {
        struct pair *p = &g->pairs[i];
        const char *want = json_string_value(json_array_get(of, (size_t)i));
        struct buf ids = BUF_INIT;
        char is[9] = "";
        if (chat_format_ask(&p->f, &g->messages, &ids, &err) == 0)
            (void)snprintf(is, sizeof(is), "%08x", (unsigned)hash_of(&ids));
        p->refused += want == NULL && err.code == ERR_INVAL && !is[0];
        p->right += want != NULL && strcmp(is, want) == 0;
        p->wrong += want == NULL ? is[0] != '\0' : strcmp(is, want) != 0;
        buf_clear(&ids);
    }
}

static void test_goldens(void)
{
    struct goldens *g = calloc(1, sizeof(*g));
    static const char file[] = "tests/golden/chat_asks.jsonl";
    if (g == NULL)
        exit(1);
    is_int(text_each_of(file, "names", take_names, g), 1, "a line of names");
    const int n = text_each_of(file, "chat", take_conversation, g);
    ok(n >= CONVERSATIONS && g->n >= 20, "%d conversations of %d", n, g->n);
    for (int i = 0; i < g->n; i++) {
        struct pair *p = &g->pairs[i];
        ok(p->wrong == 0 && p->right + p->refused == n &&
               p->right >= CONVERSATIONS / 2,
           "%s, tokenizer %s: %d prompts are as transformers has them, %d "
           "refused, %d others",
           p->format, p->layout, p->right, p->refused, p->wrong);
        tokenizer_close(p->tokenizer);
    }
    messages_clear(&g->messages);
    free(g);
}

/* ---- torchtune's formats --------------------------------------------------
 */

/* The prompt is what the row has before its answer "Tim", the words before an
 * answer among it. */
static void test_before(const char *layout, enum spec_prompt prompt,
                        const char *words)
{
    struct tokenizer *t = opened(layout);
    struct messages *m = calloc(1, sizeof(*m));
    struct error err = ERROR_INIT;
    struct buf asks = BUF_INIT, row = BUF_INIT, labels = BUF_INIT,
               text = BUF_INIT;
    struct chat_format f;
    int32_t lost;
    if (m == NULL)
        exit(1);
    m->list[0] = (struct message){.role = ROLE_USER, .text = "Who?"};
    m->list[1] = (struct message){.role = ROLE_ASSISTANT, .text = "Ann"};
    m->list[2] = (struct message){.role = ROLE_USER, .text = "Really?"};
    m->n = 3;
    text_must(chat_format_init(&f, t, prompt, -1, 0, &err), &err);
    text_must(chat_format_ask(&f, m, &asks, &err), &err);
    is_int(m->n, 3, "the messages are as before");
    m->list[3] = (struct message){.role = ROLE_ASSISTANT, .text = "Tim"};
    m->n = 4;
    text_must(chat_format_encode(&f, m, &row, &labels, &lost, &err), &err);
    ok(asks.len < row.len && memcmp(asks.data, row.data, asks.len) == 0,
       "%s: a row begins with the prompt", layout);
    text_must(tokenizer_decode(
                  t, (const int32_t *)(const void *)(row.data + asks.len),
                  (row.len - asks.len) / sizeof(int32_t), &text, &err),
              &err);
    ok(strncmp(buf_str(&text) + strspn(buf_str(&text), " "), words,
               strlen(words)) == 0,
       "behind it is '%s'", buf_str(&text));
    m->n = 2;
    ok(chat_format_ask(&f, m, &asks, &err) < 0 && err.code == ERR_INVAL,
       "the last message is an answer: %s", err.msg);
    buf_clear(&asks);
    buf_clear(&row);
    buf_clear(&labels);
    buf_clear(&text);
    free(m);
    tokenizer_close(t);
}

int main(void)
{
    test_goldens();
    test_before("llama3", PROMPT_NONE, "Tim");
    test_before("llama2", PROMPT_NONE, "Tim");
    test_before("llama2", PROMPT_LLAMA2_CHAT, "Tim");
    test_before("qwen2", PROMPT_CHATML, "Tim");
    test_before("smollm2", PROMPT_CHATML, "Tim");
    return tap_done();
}
