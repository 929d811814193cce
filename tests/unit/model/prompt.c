/* prompt.c - where the answer to a row begins, for each format of a row and for
 * the tokenizers of Llama 2 and 3. */
#include "worker/model_tool/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"

static char dir[] = "/tmp/promptXXXXXX";

#define HF "tests/golden/hf_tokenizers/"
#define SPM "tests/data/stories260K/tokenizer.model"
#define RANKS "tests/data/torchtune/small/tokenizer.model"

static const char say[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Say\"},"
    "{\"role\": \"assistant\", \"content\": \"it.\"}]}\n";
static const char twice[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Say\"},"
    "{\"role\": \"assistant\", \"content\": \"it.\"},"
    "{\"role\": \"user\", \"content\": \"Again\"},"
    "{\"role\": \"assistant\", \"content\": \"no.\"}]}\n";
static const char feed[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Say\"},"
    "{\"role\": \"assistant\", \"content\": \"\\nit.\"}]}\n";

struct row {
    const char *tokenizer, *prompt, *template, *text;
    const char *end; /* of the prompt's text */
    const char *answer;
};

static const struct row rows[] = {
    /* torchtune's */
    {SPM, "null", "chat", say, "Say", "it."},
    {SPM, "null", "chat", twice, "Say", "it."},
    {RANKS, "null", "chat", say, "assistant\n\n", "it."},
    {RANKS, "null", "chat", twice, "assistant\n\n", "it."},
    {SPM, "llama2_chat", "chat", say, "[/INST]", "it."},
    {SPM, "chatml", "chat", say, "<|im_start|>assistant\n", "it.<|im_end|>\n"},
    {HF "qwen2/tokenizer.json", "chatml", "chat", say, "assistant\n",
     "it.<|im_end|>\n"},
    {SPM, "question_answer", "chat", say, "\n\nAnswer:", "it."},
    {SPM, "grammar", "grammar", "{\"input\": \"Say\", \"output\": \"it.\"}\n",
     "\n---\nCorrected:", "it."},
    {SPM, "summarize", "samsum",
     "{\"dialogue\": \"Say\", \"summary\": \"it.\"}\n", "---\nSummary:\n",
     "it."},
    {SPM, "null", "alpaca",
     "{\"instruction\": \"Say\", \"input\": \"\", \"output\": \"it.\"}\n",
     "### Response:\n", "it."},
    {RANKS, "null", "alpaca",
     "{\"instruction\": \"Say\", \"input\": \"\", \"output\": \"it.\"}\n",
     "assistant\n\n", "it."},
    {SPM, "null", "preference",
     "{\"prompt\": \"Say\", \"chosen\": \"it.\", \"rejected\": \"no.\"}\n",
     "Say", "it."},
    {SPM, "null", "prompt_completion",
     "{\"prompt\": \"Say\", \"completion\": \" it.\"}\n", "Say", "it."},
    {RANKS, "null", "prompt_completion",
     "{\"prompt\": [{\"role\": \"user\", \"content\": \"Say\"}], "
     "\"completion\": [{\"role\": \"assistant\", \"content\": \"it.\"}]}\n",
     "assistant\n\n", "it."},
    /* A text that ends as the words before an answer begin. */
    {HF "llama2/tokenizer.json", "zephyr", "prompt_completion",
     "{\"prompt\": \"Say <\", \"completion\": \" it.\"}\n", "Say <", "it."},
    /* those of models */
    {HF "qwen2/tokenizer.json", "hermes", "prompt_completion",
     "{\"prompt\": [{\"role\": \"user\", \"content\": \"Say\"}], "
     "\"completion\": [{\"role\": \"assistant\", \"content\": \"it.\"}]}\n",
     "assistant\n", "it.\n"},
    {HF "qwen2/tokenizer.json", "hermes", "chat", say, "assistant\n", "it."},
    {HF "qwen2/tokenizer.json", "hermes", "chat", twice, "assistant\n", "it."},
    {HF "qwen2/tokenizer.json", "hermes", "chat", feed, "assistant\n", "\nit."},
    {HF "smollm2/tokenizer.json", "smollm2", "chat", feed, "assistant\n",
     "\nit."},
    {HF "qwen2/tokenizer.json", "qwen2_5", "alpaca",
     "{\"instruction\": \"Say\", \"input\": \"\", \"output\": \"it.\"}\n",
     "assistant\n", "it."},
    {HF "qwen2/tokenizer.json", "qwen3", "chat", say, "<think>\n\n</think>\n\n",
     "it."},
    {HF "llama3/tokenizer.json", "llama3_1", "chat", say, "assistant\n\n",
     "it."},
    {HF "llama2/tokenizer.json", "llama2", "chat", say, "[/INST] ", "it. "},
    {HF "mistral/tokenizer.json", "mistral", "chat", twice, "Say ", "it."},
    {HF "mistral/tokenizer.json", "mistral_nemo", "chat", say, "Say", "it."},
    {HF "llama2/tokenizer.json", "zephyr", "chat", say, "<|assistant|>\n",
     "it."},
};

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        exit(1);
}

static void test_row(const struct row *r)
{
    char data[64], job[64], path[4096], text[8192];
    struct prompt p = {.tokenizer = NULL};
    struct error err = ERROR_INIT;
    struct buf got = BUF_INIT;
    (void)snprintf(data, sizeof(data), "%s/rows.jsonl", dir);
    (void)snprintf(job, sizeof(job), "%s/job.yaml", dir);
    (void)snprintf(text, sizeof(text),
                   "version: 1\nkind: llm\nname: t\nmethod: lora\ntrain:\n"
                   "  checkpointer: {checkpoint_dir: /m}\n"
                   "  tokenizer: {path: %s, prompt_template: %s}\n"
                   "  dataset: {template: %s, path: %s}\n",
                   golden_path(r->tokenizer, path), r->prompt, r->template,
                   data);
    write_file(job, text);
    write_file(data, r->text);
    ok(prompt_of_row("/m", job, 1, -1, &p, &err) == 0, "%s, %s, %s: %s",
       r->tokenizer, r->prompt, r->template, err.msg);
    ok(p.n > 1 && tokenizer_decode(p.tokenizer,
                                   (const int32_t *)(const void *)p.ids.data,
                                   (size_t)p.n, &got, &err) == 0,
       "its prompt");
    const size_t n = strlen(r->end);
    ok(got.len >= n && strcmp(buf_str(&got) + got.len - n, r->end) == 0,
       "ends before the answer: '%s'", buf_str(&got));
    is_str(buf_str(&p.expected), r->answer, "which is the rest");
    buf_clear(&got);
    prompt_clear(&p);
}

int main(void)
{
    char command[64];
    if (mkdtemp(dir) == NULL)
        return 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        test_row(&rows[i]);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        return 1;
    return tap_done();
}
