/* data_templates.c - rows of all templates as torchtune's tokens and masks;
 * which rows are refused, by which words. */
#include "tests/unit/worker/template_golden.h"

/* ---- torchtune's tokens -------------------------------------------------- */

enum { MODELS = 3 };
static const char *const models[MODELS] = {"stories260K", "torchtune", "small"};
static const char *const model_files[MODELS] = {
    "tests/data/stories260K/tokenizer.model", "tests/data/torchtune/m.model",
    "tests/data/torchtune/small/tokenizer.model"};

static void test_goldens(void)
{
    struct tokenizer *t[MODELS];
    struct error err = ERROR_INIT;
    char path[4096], dir[4096], *text = NULL;
    size_t cap = 0;
    ssize_t len;
    int cases = 0;
    for (int i = 0; i < MODELS; i++)
        text_must(
            tokenizer_open(golden_path(model_files[i], path), &t[i], &err),
            &err);
    (void)golden_path("tests/data/rows", dir);
    FILE *f = fopen(golden_path("tests/golden/datasets.jsonl", path), "r");
    while (f != NULL && (len = getline(&text, &cap, f)) > 0) {
        json_t *line = json_loadb(text, (size_t)len, 0, NULL);
        const char *model = json_string_value(json_object_get(line, "model"));
        size_t wrong = 1, rows = 0;
        for (int i = 0; i < MODELS && model != NULL; i++)
            if (strcmp(models[i], model) == 0)
                rows = template_run(line, dir, t[i], &wrong);
        ok(wrong == 0 && rows >= 100, "%.160s: %zu of %zu rows differ", text,
           wrong, rows);
        cases++;
        json_decref(line);
    }
    ok(cases >= 80, "%d cases", cases);
    if (f != NULL)
        (void)fclose(f);
    free(text);
    for (int i = 0; i < MODELS; i++)
        tokenizer_close(t[i]);
}

/* ---- messages ------------------------------------------------------------ */

static const struct {
    enum spec_template template;
    const char *system, *row, *want; /* "role:text|..."; *: labelled */
} given[] = {
    {TEMPLATE_ALPACA, NULL,
     "{'instruction': '100 %s', 'input': '{output}', 'output': 'o'}",
     "user:Below is an instruction that describes a task, paired with an input "
     "that provides further context. Write a response that appropriately "
     "completes the request.\n\n### Instruction:\n100 %s\n\n### Input:\n"
     "{output}\n\n### Response:\n|assistant*:o|"},
    {TEMPLATE_ALPACA, "unread",
     "{'instruction': 'i', 'input': null, 'output': 'o'}",
     "user:Below is an instruction that describes a task. Write a response "
     "that appropriately completes the request.\n\n### Instruction:\ni\n\n"
     "### Response:\n|assistant*:o|"},
    {TEMPLATE_GRAMMAR, "s", "{'input': 'a', 'output': 'b'}",
     "system:s|user:a|assistant*:b|"},
    {TEMPLATE_SAMSUM, NULL, "{'dialogue': '', 'summary': 'b'}",
     "user:|assistant*:b|"},
    {TEMPLATE_CHAT, NULL,
     "{'conversations': [{'from': 'human', 'value': 'a'},"
     " {'from': 'gpt', 'value': 'b'}]}",
     "user:a|assistant*:b|"},
    {TEMPLATE_CHAT, "new",
     "{'messages': [{'role': 'system', 'content': 'old'},"
     " {'role': 'user', 'content': 'a'},"
     " {'role': 'assistant', 'content': 'b'},"
     " {'role': 'tool', 'content': 'c'}]}",
     "system:new|user:a|assistant*:b|ipython:c|"},
    {TEMPLATE_PREFERENCE, NULL,
     "{'prompt': 'a', 'chosen': 'b', 'rejected': 'c'}", "user:a|assistant*:b|"},
    {TEMPLATE_CHAT, NULL,
     "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'a'},"
     " {'type': 'text', 'text': ' b'}]},"
     " {'role': 'assistant', 'content': 'c', 'weight': 0},"
     " {'role': 'user', 'content': 'd'},"
     " {'role': 'assistant', 'content': 'e', 'weight': 1.0}]}",
     "user:a b|assistant:c|user:d|assistant*:e|"},
    {TEMPLATE_CHAT, NULL,
     "{'messages': [{'role': 'user', 'content': []},"
     " {'role': 'assistant', 'content': 'c', 'weight': null}]}",
     "user:|assistant*:c|"},
};

static const struct {
    enum spec_template template;
    const char *row, *want;
} refused[] = {
    {TEMPLATE_ALPACA, "{'output': 'b'}", "column 'instruction' is missing"},
    {TEMPLATE_ALPACA, "{'instruction': 'a', 'output': null}",
     "column 'output' is missing"},
    {TEMPLATE_ALPACA, "{'instruction': 'a', 'output': 7}",
     "column 'output' is no text"},
    {TEMPLATE_ALPACA, "{'instruction': 'a', 'output': ' \\n'}",
     "the answer is empty"},
    {TEMPLATE_GRAMMAR, "{'output': 'a'}", "column 'input' is missing"},
    {TEMPLATE_SAMSUM, "{'input': 'a', 'output': 'b'}",
     "column 'dialogue' is missing"},
    {TEMPLATE_SLIMORCA, "{'messages': []}",
     "column 'conversations' is missing"},
    {TEMPLATE_CHAT, "{'messages': 'x'}",
     "column 'messages' is no list of messages"},
    {TEMPLATE_CHAT, "{'messages': [{'role': 'user', 'content': 7}]}",
     "column 'messages': message 1: no texts role and content, or from and "
     "value"},
    {TEMPLATE_CHAT,
     "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'a'},"
     " {'type': 'image_url', 'image_url': {}}]}]}",
     "column 'messages': message 1: part 2 of its content is of type "
     "'image_url', only text is trained on"},
    {TEMPLATE_CHAT,
     "{'messages': [{'role': 'user', 'content': [{'type': 'text'}]}]}",
     "column 'messages': message 1: part 1 of its content has no text"},
    {TEMPLATE_CHAT,
     "{'messages': [{'role': 'user', 'content': 'a', 'weight': 0.5}]}",
     "column 'messages': message 1: weight is neither 0 nor 1"},
    {TEMPLATE_CHAT,
     "{'messages': [{'role': 'user', 'content': 'a', 'weight': '0'}]}",
     "column 'messages': message 1: weight is neither 0 nor 1"},
    {TEMPLATE_CHAT, "{'messages': [{'role': 'bot', 'content': 'a'}]}",
     "column 'messages': message 1: role 'bot', expected system, user or "
     "human, assistant or gpt, tool"},
    {TEMPLATE_CHAT, "{'messages': [{'role': 'user', 'content': 'a'}]}",
     "1 messages, it needs 2"},
    {TEMPLATE_CHAT,
     "{'messages': [{'role': 'assistant', 'content': 'a'},"
     " {'role': 'user', 'content': 'a'}]}",
     "message 1 is an answer, expected a question before it"},
    {TEMPLATE_CHAT,
     "{'messages': [{'role': 'user', 'content': 'a'},"
     " {'role': 'user', 'content': 'a'}]}",
     "messages 1 and 2 are both of the user"},
    {TEMPLATE_CHAT,
     "{'messages': [{'role': 'user', 'content': 'a'},"
     " {'role': 'system', 'content': 'a'}]}",
     "message 2 is of the system, which comes first"},
    {TEMPLATE_PREFERENCE, "{'chosen': 'a', 'rejected': 'b'}",
     "column 'prompt' is missing"},
};

/* The row with ' for ". */
static json_t *row_of(const char *text)
{
    char *copy = strdup(text);
    for (char *p = copy; p != NULL && *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *row = copy != NULL ? json_loads(copy, 0, NULL) : NULL;
    free(copy);
    if (row == NULL)
        exit(1);
    return row;
}

static void test_messages(struct messages *m)
{
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        const struct messages_conf conf = {.template = given[i].template,
                                           .system_prompt = given[i].system};
        struct error err = ERROR_INIT;
        struct buf got = BUF_INIT;
        json_t *row = row_of(given[i].row);
        text_must(messages_of_row(&conf, row, SIDE_CHOSEN, m, &err), &err);
        for (int32_t k = 0; k < m->n; k++)
            text_must(buf_addf(&got, &err, "%s%s:%s|",
                               message_role_name(m->list[k].role),
                               m->list[k].labelled ? "*" : "", m->list[k].text),
                      &err);
        is_str(buf_str(&got), given[i].want, "messages");
        buf_clear(&got);
        json_decref(row);
    }
}

/* The answers of a pair, in the forms of several data sets. */
static void test_sides(struct messages *m)
{
    static const char *const rows[] = {
        "{'prompt': 'q', 'chosen': 'good', 'rejected': 'bad'}",
        "{'question': 'q', 'response_j': 'good', 'response_k': 'bad'}",
        "{'chosen': [{'role': 'user', 'content': 'q'},"
        " {'role': 'assistant', 'content': 'good'}],"
        " 'rejected': [{'role': 'user', 'content': 'q'},"
        " {'role': 'assistant', 'content': 'bad'}]}",
        "{'prompt': [{'role': 'user', 'content': 'q'}],"
        " 'chosen': [{'role': 'assistant', 'content': 'good'}],"
        " 'rejected': [{'role': 'assistant', 'content': 'bad'}]}",
        "{'prompt': [{'role': 'user', 'content': 'q'}],"
        " 'chosen': 'good', 'rejected': 'bad'}",
        "{'prompt': [{'role': 'user', 'content': 'q'}],"
        " 'chosen': {'role': 'assistant', 'content': 'good'},"
        " 'rejected': {'role': 'assistant', 'content': 'bad'}}",
        "{'conversations': [{'from': 'human', 'value': 'q'}],"
        " 'chosen': {'from': 'gpt', 'value': 'good'},"
        " 'rejected': {'from': 'gpt', 'value': 'bad'}}"};
    const struct messages_conf conf = {.template = TEMPLATE_PREFERENCE};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = ERROR_INIT;
        json_t *row = row_of(rows[i]);
        text_must(messages_of_row(&conf, row, SIDE_CHOSEN, m, &err), &err);
        ok(m->n == 2 && strcmp(m->list[0].text, "q") == 0 &&
               !m->list[0].labelled && strcmp(m->list[1].text, "good") == 0 &&
               m->list[1].labelled,
           "pair %zu: chosen", i);
        text_must(messages_of_row(&conf, row, SIDE_REJECTED, m, &err), &err);
        ok(m->n == 2 && strcmp(m->list[0].text, "q") == 0 &&
               strcmp(m->list[1].text, "bad") == 0 && m->list[1].labelled,
           "pair %zu: rejected", i);
        json_decref(row);
    }
}

static void test_labelled(struct messages *m)
{
    const struct messages_conf conf = {.template = TEMPLATE_CHAT,
                                       .train_on_input = true};
    struct error err = ERROR_INIT;
    json_t *row = row_of("{'messages': [{'role': 'system', 'content': 's'},"
                         " {'role': 'user', 'content': 'a'},"
                         " {'role': 'assistant', 'content': 'b'}]}");
    text_must(messages_of_row(&conf, row, SIDE_CHOSEN, m, &err), &err);
    ok(!m->list[0].labelled && m->list[1].labelled && m->list[2].labelled,
       "train_on_input labels the user, and never the system");
    json_decref(row);
}

/* A message of the user that is `text`, and an answer, as ids. */
static void encode(const struct tokenizer *t, enum spec_prompt prompt,
                   bool is_whole, const char *text, struct buf *ret)
{
    struct messages *m = calloc(1, sizeof(*m));
    struct chat_format f;
    struct error err = ERROR_INIT;
    struct buf labels = BUF_INIT;
    int32_t lost;
    if (m == NULL)
        exit(1);
    m->list[0] = (struct message){.role = ROLE_USER, .text = text};
    m->list[1] =
        (struct message){.role = ROLE_ASSISTANT, .labelled = true, .text = "b"};
    m->n = 2;
    buf_reset(ret);
    text_must(chat_format_init(&f, t, prompt, -1, 0, &err), &err);
    f.is_whole = is_whole;
    text_must(chat_format_encode(&f, m, ret, &labels, &lost, &err), &err);
    is_int((long long)labels.len, (long long)ret->len, "as many labels");
    buf_clear(&labels);
    free(m);
}

/* torchtune 0.1.1 put the words around a text first, and stripped the whole. */
static void test_whole(void)
{
    for (int i = 0; i < MODELS; i++) {
        struct tokenizer *t = NULL;
        struct error err = ERROR_INIT;
        struct buf want = BUF_INIT, got = BUF_INIT;
        char path[4096];
        text_must(tokenizer_open(golden_path(model_files[i], path), &t, &err),
                  &err);
        encode(
            t, PROMPT_NONE, false,
            "Correct this to standard English:  a\n \n---\nCorrected: ", &want);
        encode(t, PROMPT_GRAMMAR, true, " a\n ", &got);
        ok(want.len == got.len && memcmp(want.data, got.data, got.len) == 0,
           "%s: a prompt that is stripped as a whole", models[i]);
        encode(t, PROMPT_GRAMMAR, false, " a\n ", &got);
        /* Llama 2's tokenizers make one space of several. */
        ok(i + 1 < MODELS || want.len != got.len ||
               memcmp(want.data, got.data, got.len) != 0,
           "and not part by part");
        buf_clear(&want);
        buf_clear(&got);
        tokenizer_close(t);
    }
}

static void test_refused(struct messages *m)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const struct messages_conf conf = {.template = refused[i].template};
        struct error err = ERROR_INIT;
        json_t *row = row_of(refused[i].row);
        ok(messages_of_row(&conf, row, SIDE_CHOSEN, m, &err) < 0 &&
               err.code == ERR_INVAL,
           "refused");
        is_str(err.msg, refused[i].want, "by its words");
        json_decref(row);
    }
}

int main(void)
{
    struct messages *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return 1;
    test_goldens();
    test_messages(m);
    test_sides(m);
    test_labelled(m);
    test_whole();
    test_refused(m);
    messages_clear(m);
    free(m);
    return tap_done();
}
