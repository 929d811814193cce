/* data_completion.c - rows of a prompt and its completion: TRL's ids and
 * labels, texts and conversations; what is cut, what is not read, and which
 * rows are refused. */
#include <unistd.h>

#include "tests/unit/worker/token_files.h"
#include "worker/data/text/prompt_completion.h"

enum { PAIRS = 40, ROWS = 120, TALKS = 40 };

static char path[] = "/tmp/data_completionXXXXXX";

static struct tokenizer *opened(const char *layout)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    char name[128], file[4096];
    (void)snprintf(name, sizeof(name),
                   "tests/golden/hf_tokenizers/%s/tokenizer.json", layout);
    text_must(tokenizer_open(golden_path(name, file), &t, &err), &err);
    return t;
}

/* ---- TRL's tokens -------------------------------------------------------- */

struct side {
    char name[64];
    struct tokenizer *tokenizer;
    struct chat_format f;
    int right, wrong, refused;
};

struct goldens {
    struct side talks[PAIRS], texts[PAIRS];
    int n_talks, n_texts, seams;
    struct messages work;
    struct buf ids, labels;
};

static enum spec_prompt prompt_of(const char *name)
{
    const struct chat_table *t = NULL;
    for (int i = 0; (t = chat_table_at(i)) != NULL; i++)
        if (strcmp(t->name, name) == 0)
            return t->prompt;
    tap_diag("no format %s", name);
    exit(1);
}

static void open_side(struct side *s, const char *format, const char *layout)
{
    struct error err = ERROR_INIT;
    (void)snprintf(s->name, sizeof(s->name), "%s, %s",
                   format != NULL ? format : "texts", layout);
    s->tokenizer = opened(layout);
    text_must(chat_format_init(&s->f, s->tokenizer,
                               format != NULL ? prompt_of(format) : PROMPT_NONE,
                               -1, 0, &err),
              &err);
}

static void take_names(const json_t *line, void *arg)
{
    struct goldens *g = arg;
    const json_t *v;
    size_t i;
    json_array_foreach(json_object_get(line, "of"), i, v)
    {
        open_side(&g->talks[g->n_talks++],
                  json_string_value(json_array_get(v, 0)),
                  json_string_value(json_array_get(v, 1)));
    }
    json_array_foreach(json_object_get(line, "texts"), i, v)
    {
        open_side(&g->texts[g->n_texts++], NULL, json_string_value(v));
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

/* The ids and labels of the row, as the line has them; "refused". */
static void encode(struct goldens *g, const struct side *s, const json_t *row,
                   bool on_input, char ret[32])
{
    const struct messages_conf conf = {.template = TEMPLATE_PROMPT_COMPLETION,
                                       .train_on_input = on_input};
    struct error err = ERROR_INIT;
    int32_t lost = 0;
    buf_reset(&g->ids);
    buf_reset(&g->labels);
    if (prompt_completion_encode(&s->f, &conf, row, &g->work, &g->ids,
                                 &g->labels, &lost, &err) < 0)
        (void)snprintf(ret, 32, "refused");
    else
        (void)snprintf(ret, 32, "%08x%08x%s", (unsigned)hash_of(&g->ids),
                       (unsigned)hash_of(&g->labels), lost >= 0 ? "cut" : "");
}

static void take_talk(const json_t *line, void *arg)
{
    struct goldens *g = arg;
    for (int i = 0; i < g->n_talks; i++) {
        struct side *s = &g->talks[i];
        const char *want = json_string_value(
            json_array_get(json_object_get(line, "of"), (size_t)i));
        char got[32];
        encode(g, s, line, false, got);
        const bool same = strcmp(got, want != NULL ? want : "refused") == 0;
        s->wrong += !same;
        s->refused += same && want == NULL;
        s->right += same && want != NULL;
    }
}

static void take_texts(const json_t *line, void *arg)
{
    struct goldens *g = arg;
    for (int i = 0; i < g->n_texts; i++) {
        struct side *s = &g->texts[i];
        const json_t *want =
            json_array_get(json_object_get(line, "of"), (size_t)i);
        char got[32], all[32];
        encode(g, s, line, false, got);
        encode(g, s, line, true, all);
        const bool same =
            strcmp(got, json_string_value(json_array_get(want, 0))) == 0 &&
            strcmp(all, json_string_value(json_array_get(want, 1))) == 0;
        if (!same && s->wrong++ == 0)
            tap_diag("%s: '%s' '%s': %s", s->name,
                     json_string_value(json_object_get(line, "prompt")),
                     json_string_value(json_object_get(line, "completion")),
                     got);
        s->right += same;
        g->seams += json_integer_value(json_array_get(want, 2)) >= 100;
    }
}

static void say(const struct side *s, int n, int least)
{
    ok(s->wrong == 0 && s->right >= least && s->right + s->refused == n,
       "%s: %d are as TRL has them, %d refused, %d others", s->name, s->right,
       s->refused, s->wrong);
    tokenizer_close(s->tokenizer);
}

static void test_goldens(void)
{
    static const char file[] = "tests/golden/completions.jsonl";
    struct goldens *g = calloc(1, sizeof(*g));
    if (g == NULL)
        exit(1);
    is_int(text_each_of(file, "names", take_names, g), 1, "a line of names");
    const int talks = text_each_of(file, "messages", take_talk, g);
    const int texts = text_each_of(file, "texts", take_texts, g);
    ok(talks >= TALKS && texts >= ROWS, "%d conversations, %d texts", talks,
       texts);
    ok(g->n_talks >= 20 && g->n_texts == 6, "of %d and %d", g->n_talks,
       g->n_texts);
    ok(g->seams >= 20, "in %d the prompt's tokens are not the row's first",
       g->seams);
    for (int i = 0; i < g->n_talks; i++)
        say(&g->talks[i], talks, 10);
    for (int i = 0; i < g->n_texts; i++)
        say(&g->texts[i], texts, ROWS);
    messages_clear(&g->work);
    buf_clear(&g->ids);
    buf_clear(&g->labels);
    free(g);
}

/* ---- data sets ----------------------------------------------------------- */

static const struct spec_text pairs_of_texts = {
    .template = TEMPLATE_PROMPT_COMPLETION, .path = path};

/* in  prompt  PROMPT_NONE: torchtune's format */
static int open_rows(const struct spec_text *text, const char *layout,
                     enum spec_prompt prompt, int32_t max_seq_len,
                     struct token_data *ret, struct error *err)
{
    struct tokenizer *t = opened(layout);
    const struct token_conf conf = {.text = text,
                                    .tokenizer = t,
                                    .prompt = prompt,
                                    .eos = -1,
                                    .max_seq_len = max_seq_len};
    memset(ret, 0, sizeof(*ret));
    int rc = token_data_open(&conf, ret, err);
    tokenizer_close(t);
    return rc;
}

static void test_cut(void)
{
    struct error err = ERROR_INIT;
    struct token_data d;
    token_file(path, "{\"prompt\": \"a\", \"completion\": \"b\"}\n"
                     "{\"prompt\": \"a\", \"completion\": \"bcbcbcbcbcbc\"}\n");
    text_must(open_rows(&pairs_of_texts, "qwen2", PROMPT_NONE, 0, &d, &err),
              &err);
    const int32_t longest = d.longest, all = (int32_t)d.labelled;
    ok(longest > 6 && d.cut == 0 && d.lost == 0, "no row is cut");
    token_data_clear(&d);
    text_must(open_rows(&pairs_of_texts, "qwen2", PROMPT_NONE, 4, &d, &err),
              &err);
    is_int(d.cut, 1, "one is");
    is_int(d.lost, longest - 4, "it loses what is behind");
    is_int(d.labelled + d.lost, all, "of all that counts");
    token_data_clear(&d);
}

/* Torchtune's formats set the last token to eos; what counts of the whole row
 * is known nevertheless. */
static void test_cut_answer(void)
{
    static const char row[] =
        "[{\"prompt\": [{\"role\": \"user\", \"content\": \"a b\"}],"
        " \"completion\": [{\"role\": \"assistant\", \"content\": "
        "\"b c d b c d b c d\"}]}]";
    struct error err = ERROR_INIT;
    struct token_data d;
    token_file(path, row);
    text_must(open_rows(&pairs_of_texts, "qwen2", PROMPT_NONE, 0, &d, &err),
              &err);
    const int32_t longest = d.longest, all = (int32_t)d.labelled;
    ok(all > 4 && all < longest - 1, "%d of %d tokens count", all, longest);
    token_data_clear(&d);
    text_must(
        open_rows(&pairs_of_texts, "qwen2", PROMPT_NONE, longest - 3, &d, &err),
        &err);
    ok(d.cut == 1 && d.lost == 3 && d.labelled == all - 3,
       "%d cut, %lld lost, %lld left", d.cut, (long long)d.lost,
       (long long)d.labelled);
    token_data_clear(&d);
}

static void test_all_cut(void)
{
    struct error err = ERROR_INIT;
    struct token_data d;
    struct spec_text skip = pairs_of_texts;
    token_file(path, "{\"prompt\": \"abcdabcdabcd\", \"completion\": \"b\"}\n"
                     "{\"prompt\": \"x\", \"completion\": \"y\"}\n");
    is_int(open_rows(&pairs_of_texts, "qwen2", PROMPT_NONE, 4, &d, &err), -1,
           "a row without a labelled token left is refused");
    ok(strstr(err.msg, "row 1: line 1: its 2 labelled tokens are all behind "
                       "train.tokenizer.max_seq_len 4, where it is cut: change "
                       "it, or set on_bad_row: skip") != NULL,
       "%s", err.msg);
    skip.on_bad_row = BAD_ROW_SKIP;
    err = (struct error)ERROR_INIT;
    text_must(open_rows(&skip, "qwen2", PROMPT_NONE, 4, &d, &err), &err);
    ok(d.n == 1 && d.skipped.n == 1, "or left out");
    token_data_clear(&d);
    token_file(path, "{\"prompt\": \"abcdabcdabcd\", \"completion\": \"b\"}");
    ok(open_rows(&skip, "qwen2", PROMPT_NONE, 4, &d, &err) < 0 &&
           strstr(err.msg, "1 of 1 rows are bad, more than half") != NULL,
       "not all of them: %s", err.msg);
}

/* ---- keys that are not read ---------------------------------------------- */

static void test_unread(void)
{
    static const char rows[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"},"
        " {\"role\": \"assistant\", \"content\": \"b\", \"weight\": 1,"
        " \"refusal\": null}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": "
        "\"x\"}, {\"role\": \"assistant\", \"content\": \"b\", \"name\": "
        "\"y\", \"tool_calls\": []}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": "
        "\"x\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n";
    struct error err = ERROR_INIT;
    struct token_data d;
    struct spec_text text = {.template = TEMPLATE_CHAT, .path = path};
    token_file(path, rows);
    text_must(open_rows(&text, "words", PROMPT_NONE, 0, &d, &err), &err);
    is_int(d.unread.n, 2, "keys, each once");
    is_str(d.unread.key[0].name, "name", "the first");
    ok(d.unread.key[0].line == 2 && d.unread.key[0].rows == 2,
       "on line %lld, in %lld rows", (long long)d.unread.key[0].line,
       (long long)d.unread.key[0].rows);
    is_str(d.unread.key[1].name, "tool_calls", "the second");
    token_data_clear(&d);
}

/* Rows of two batches and of many threads: the first place is the first. */
static void test_unread_order(void)
{
    struct error err = ERROR_INIT;
    struct token_data d;
    struct spec_text text = {.template = TEMPLATE_CHAT, .path = path};
    FILE *f = fopen(path, "w");
    for (int i = 1; i <= 2000 && f != NULL; i++)
        (void)fprintf(
            f,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"%s},"
            " {\"role\": \"assistant\", \"content\": \"b\"}]}\n",
            i >= 600 ? ", \"name\": \"x\"" : "");
    if (f == NULL || fclose(f) != 0)
        exit(1);
    text_must(open_rows(&text, "words", PROMPT_NONE, 0, &d, &err), &err);
    ok(d.unread.n == 1 && d.unread.key[0].line == 600 &&
           d.unread.key[0].rows == 1401,
       "line %lld, %lld rows", (long long)d.unread.key[0].line,
       (long long)d.unread.key[0].rows);
    token_data_clear(&d);
}

/* ---- refused ------------------------------------------------------------- */

static const struct {
    const char *row, *want;
} refused[] = {
    {"{'completion': 'b'}", "column 'prompt' is missing"},
    {"{'prompt': 'b'}", "column 'completion' is missing"},
    {"{'prompt': 7, 'completion': 'b'}", "column 'prompt' is no text"},
    {"{'prompt': 'a', 'completion': ' \\n'}", "the completion is empty"},
    {"{'prompt': 'a', 'completion': [{'role': 'assistant', 'content': 'b'}]}",
     "one of its columns 'prompt' and 'completion' is a list of messages: both "
     "are lists, or both are texts"},
    {"{'prompt': [{'role': 'user', 'content': 'a'}], 'completion': []}",
     "column 'completion' begins with no answer"},
    {"{'prompt': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', "
     "'content': 'b'}], 'completion': [{'role': 'user', 'content': 'c'}]}",
     "column 'completion' begins with no answer"},
    {"{'prompt': [{'role': 'user', 'content': 'a'}], 'completion': [{'role': "
     "'assistant', 'content': 'b', 'weight': 0}]}",
     "column 'completion': message 1 has weight 0, and all of a completion "
     "counts: move it to the prompt, or use template: chat"},
    {"{'prompt': [], 'completion': [{'role': 'assistant', 'content': 'b'}]}",
     "1 messages, it needs 2"},
};

static void test_refused(void)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct error err = ERROR_INIT;
        struct token_data d;
        char row[400];
        (void)snprintf(row, sizeof(row), "%s", refused[i].row);
        for (char *p = row; *p != '\0'; p++)
            *p = *p == '\'' ? '"' : *p;
        token_file(path, row);
        const int rc =
            open_rows(&pairs_of_texts, "smollm2", PROMPT_HERMES, 0, &d, &err);
        ok(rc < 0 && strstr(err.msg, refused[i].want) != NULL, "%s", err.msg);
        if (rc == 0)
            token_data_clear(&d);
    }
}

/* Texts need no format of messages. */
static void test_unknown(void)
{
    struct tokenizer *t = opened("qwen2");
    const struct token_conf conf = {
        .text = &pairs_of_texts, .tokenizer = t, .is_unknown = true, .eos = -1};
    struct error err = ERROR_INIT;
    struct token_data d;
    token_file(path, "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    text_must(token_data_open(&conf, &d, &err), &err);
    token_data_clear(&d);
    token_file(path, "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], "
                     "\"completion\": [{\"role\": \"assistant\", \"content\": "
                     "\"b\"}]}\n");
    ok(token_data_open(&conf, &d, &err) < 0 &&
           strstr(err.msg, "set train.tokenizer.prompt_template") != NULL,
       "%s", err.msg);
    tokenizer_close(t);
}

/* ---- the end ------------------------------------------------------------- */

static const struct {
    const char *config, *completion, *want; /* want NULL: that of config.json */
} ends[] = {
    {"{\"eos_token\": \"<|im_end|>\"}", "b", "<|im_end|>"},
    {"{\"eos_token\": {\"content\": \"<|im_end|>\"}}", "b", "<|im_end|>"},
    {"{\"eos_token\": \"<|im_start|>\"}", "b<|im_start|>", "<|im_start|>"},
    {"{\"eos_token\": \"<|nowhere|>\"}", "b", NULL},
    {"{\"eos_token\": null}", "b", NULL},
    {"[", "b", NULL},
};

/* TRL appends the tokenizer's eos_token, not the first id of config.json's
 * eos_token_id. */
static void test_end(void)
{
    char dir[] = "/tmp/data_completionXXXXXX", config[64], row[100];
    struct tokenizer *t = opened("qwen2");
    const int32_t eos = tokenizer_special(t, "<|endoftext|>");
    const struct job_spec spec = {.train.tokenizer.path = dir};
    if (mkdtemp(dir) == NULL)
        exit(1);
    (void)snprintf(config, sizeof(config), "%s/tokenizer_config.json", dir);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct error err = ERROR_INIT;
        struct token_data d;
        struct token_conf conf;
        (void)snprintf(row, sizeof(row),
                       "{\"prompt\": \"a\", \"completion\": \"%s\"}\n",
                       ends[i].completion);
        token_file(path, row);
        token_file(config, ends[i].config);
        text_must(token_conf_of(&spec, &pairs_of_texts, t, eos, &conf, &err),
                  &err);
        text_must(token_data_open(&conf, &d, &err), &err);
        const int32_t *ids = token_data_ids(&d);
        const char *want =
            ends[i].want != NULL ? ends[i].want : "<|endoftext|>";
        ok(d.longest == 2 && ids[1] == tokenizer_special(t, want),
           "%s: %s follows '%s'", ends[i].config, want, ends[i].completion);
        token_data_clear(&d);
    }
    (void)unlink(config);
    (void)rmdir(dir);
    tokenizer_close(t);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    (void)close(fd);
    test_goldens();
    test_cut();
    test_cut_answer();
    test_all_cut();
    test_unread();
    test_unread_order();
    test_refused();
    test_unknown();
    test_end();
    (void)unlink(path);
    return tap_done();
}
