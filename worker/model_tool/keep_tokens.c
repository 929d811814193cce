/* keep_tokens.c - see keep_tokens.h. */
#include "worker/model_tool/keep_tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void say(void *arg, const char *line)
{
    const struct keep_conf *keep = arg;
    if (!keep->quiet)
        (void)fprintf(stderr, "mgpu-model: %s\n", line);
}

static int make_beside(const struct spec_text *text, struct error *err)
{
    struct data_files files;
    if (data_files_find(text->path, &text->data_files, &files, err) < 0)
        return -1;
    char *dir = token_cache_beside(&files);
    int rc = dir == NULL ? error_set(err, ERR_NOMEM, "%s", text->path) : 0;
    if (rc == 0 && mkdir(dir, 0755) < 0 && errno != EEXIST)
        rc = error_sys(err, errno, "make '%s'", dir);
    free(dir);
    data_files_clear(&files);
    return rc;
}

int keep_tokens(const struct keep_conf *keep, const struct token_conf *tokens,
                struct token_data *ret, struct error *err)
{
    struct keep_conf k = *keep;
    struct token_data d = {.n = 0};
    int rc = keep->beside ? make_beside(tokens->text, err) : 0;
    char *dir = token_cache_dir(&keep->spec->env);
    const struct token_cache_conf conf = {
        .tokens = tokens,
        .tokenizer_path = token_cache_tokenizer(keep->spec, tokens->text),
        .dir = dir,
        .clock = &clock_real,
        .say = say,
        .arg = &k};
    /* The process that writes a short file still has its rows in memory. */
    for (int i = 0; i < 2 && rc == 0 && !d.is_kept; i++) {
        token_data_clear(&d);
        rc = token_cache_open(&conf, &d, err);
    }
    if (rc == 0 && !d.is_kept)
        rc = error_set(err, ERR_IO, "%s: its tokens cannot be kept",
                       tokens->text->path);
    free(dir);
    if (rc == 0)
        *ret = d;
    else
        token_data_clear(&d);
    return rc;
}
