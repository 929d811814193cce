/* text_golden.h - the lines of tests/golden/text.jsonl, and the tokenizers
 * that they are of. For tests only: what is wrong ends the program. */
#ifndef MGPU_TESTS_TEXT_GOLDEN_H
#define MGPU_TESTS_TEXT_GOLDEN_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "worker/data/tokenizer/tokenizer.h"

enum { TEXT_MODELS = 2 };
static const char *const text_models[TEXT_MODELS] = {"stories260K",
                                                     "torchtune"};
static const char *const text_model_files[TEXT_MODELS] = {
    "tests/data/stories260K/tokenizer.model", "tests/data/torchtune/m.model"};

static inline void text_must(int rc, const struct error *err)
{
    if (rc == 0)
        return;
    tap_diag("%s", err->msg);
    exit(1);
}

static inline struct tokenizer *text_tokenizer(const char *model)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    char path[4096];
    const int i = strcmp(model, text_models[0]) == 0 ? 0 : 1;
    text_must(tokenizer_open(golden_path(text_model_files[i], path), &t, &err),
              &err);
    return t;
}

/* Calls use() for the lines of a kind; returns how many there are. */
static inline int text_each_of(const char *file, const char *kind,
                               void (*use)(const json_t *line, void *arg),
                               void *arg)
{
    char path[4096], *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int n = 0;
    FILE *f = fopen(golden_path(file, path), "r");
    while (f != NULL && (len = getline(&line, &cap, f)) > 0) {
        json_t *v = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
        const char *is = json_string_value(json_object_get(v, "kind"));
        if (is == NULL) {
            tap_diag("%s: a line without a kind", file);
            exit(1);
        }
        if (strcmp(is, kind) == 0) {
            use(v, arg);
            n++;
        }
        json_decref(v);
    }
    free(line);
    if (f != NULL)
        (void)fclose(f);
    return n;
}

static inline int text_each(const char *kind,
                            void (*use)(const json_t *line, void *arg),
                            void *arg)
{
    return text_each_of("tests/golden/text.jsonl", kind, use, arg);
}

/* How many of n ids differ from a list; other lengths count as well. */
static inline int text_differ(const int32_t *ids, size_t n, const json_t *want)
{
    int wrong = json_array_size(want) != n;
    for (size_t i = 0; i < n && !wrong; i++)
        wrong += json_integer_value(json_array_get(want, i)) != ids[i];
    return wrong;
}

#endif
