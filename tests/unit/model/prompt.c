/* prompt.c - where the answer to a row begins, for the tokenizers of Llama 2
 * and 3. */
#include "worker/model_tool/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"

static char dir[] = "/tmp/promptXXXXXX";

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        exit(1);
}

/* The text of the prompt of a row ends in `end`, and its answer in "it.". */
static void test_row(const char *tokenizer, const char *end)
{
    char rows[64], job[64], path[4096], text[8192];
    struct prompt p = {.tokenizer = NULL};
    struct error err = ERROR_INIT;
    struct buf got = BUF_INIT;
    (void)snprintf(rows, sizeof(rows), "%s/rows.jsonl", dir);
    (void)snprintf(job, sizeof(job), "%s/job.yaml", dir);
    (void)snprintf(text, sizeof(text),
                   "version: 1\nkind: llm\nname: t\nmethod: lora\ntrain:\n"
                   "  checkpointer: {checkpoint_dir: /m}\n"
                   "  tokenizer: {path: %s}\n"
                   "  dataset: {template: chat, path: %s}\n",
                   golden_path(tokenizer, path), rows);
    write_file(job, text);
    write_file(rows,
               "{\"messages\": [{\"role\": \"user\", \"content\": \"Say\"},"
               "{\"role\": \"assistant\", \"content\": \"it.\"}]}\n");
    ok(prompt_of_row("/m", job, 1, -1, &p, &err) == 0, "%s: %s", tokenizer,
       err.msg);
    ok(p.n > 1 && tokenizer_decode(p.tokenizer,
                                   (const int32_t *)(const void *)p.ids.data,
                                   (size_t)p.n, &got, &err) == 0,
       "its prompt");
    const size_t n = strlen(end);
    ok(got.len >= n && strcmp(buf_str(&got) + got.len - n, end) == 0,
       "ends before the answer: '%s'", buf_str(&got));
    is_str(buf_str(&p.expected), "it.", "which is the rest");
    buf_clear(&got);
    prompt_clear(&p);
}

int main(void)
{
    char command[64];
    if (mkdtemp(dir) == NULL)
        return 1;
    test_row("tests/data/stories260K/tokenizer.model", "Say");
    test_row("tests/data/torchtune/small/tokenizer.model", "assistant\n\n");
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        return 1;
    return tap_done();
}
