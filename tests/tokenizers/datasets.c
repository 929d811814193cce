/* datasets.c - rows of Alpaca and SAMSum with Meta's tokenizers, by hand: their
 * licences do not let us ship them.
 *
 * usage: datasets DIR
 *
 * DIR has alpaca/alpaca_random_9k.json, samsum/train.jsonl.gz, and
 * llama2-tokenizer and llama3-tokenizer, each with tokenizer.model. The sums
 * are those of tests/golden/datasets_foreign.jsonl, which datasets.py wrote. */
#include "tests/unit/worker/template_golden.h"

static struct tokenizer *opened(const char *dir, const char *model)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s-tokenizer/tokenizer.model", dir,
                   model);
    text_must(tokenizer_open(path, &t, &err), &err);
    return t;
}

int main(int argc, char **argv)
{
    char path[4096], *text = NULL;
    size_t cap = 0;
    ssize_t len;
    int cases = 0;
    if (argc != 2) {
        (void)fputs("usage: datasets DIR\n", stderr);
        return 64;
    }
    struct tokenizer *t[] = {opened(argv[1], "llama2"),
                             opened(argv[1], "llama3")};
    FILE *f =
        fopen(golden_path("tests/golden/datasets_foreign.jsonl", path), "r");
    while (f != NULL && (len = getline(&text, &cap, f)) > 0) {
        json_t *line = json_loadb(text, (size_t)len, 0, NULL);
        const char *model = json_string_value(json_object_get(line, "model"));
        const bool is_llama3 = model != NULL && strcmp(model, "llama3") == 0;
        size_t wrong = 1;
        const size_t rows = template_run(line, argv[1], t[is_llama3], &wrong);
        ok(wrong == 0 && rows == 200, "%.160s: %zu of %zu rows differ", text,
           wrong, rows);
        cases++;
        json_decref(line);
    }
    ok(cases >= 20, "%d cases", cases);
    if (f != NULL)
        (void)fclose(f);
    free(text);
    tokenizer_close(t[0]);
    tokenizer_close(t[1]);
    return tap_done();
}
