/* cache_rig.h - for tests of tokenised rows that are kept in a file: data, a
 * directory and a tokenizer. */
#ifndef MGPU_TESTS_UNIT_WORKER_CACHE_RIG_H
#define MGPU_TESTS_UNIT_WORKER_CACHE_RIG_H

#include <dirent.h>

#include "tests/unit/worker/token_files.h"
#include "worker/data/cache/token_cache.h"

static char dir[] = "/tmp/data_cacheXXXXXX";
static char data[64], model[64];
static struct tokenizer *t;

struct run {
    struct spec_text text;
    struct token_conf tokens;
    struct token_cache_conf conf;
    char said[1000];
    int rows; /* that were tokenised */
};

static inline void say(void *arg, const char *line)
{
    struct run *r = arg;
    const size_t n = strlen(r->said);
    (void)snprintf(r->said + n, sizeof(r->said) - n, "%s|", line);
}

static inline void begin(struct run *r)
{
    *r = (struct run){.text = {.template = TEMPLATE_ALPACA, .path = data}};
    r->tokens =
        (struct token_conf){.text = &r->text, .tokenizer = t, .eos = -1};
    r->conf = (struct token_cache_conf){.tokens = &r->tokens,
                                        .tokenizer_path = model,
                                        .dir = dir,
                                        .clock = &clock_real,
                                        .say = say,
                                        .arg = r};
}

static inline void copy_file(const char *from, const char *to)
{
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    text_must(buf_read_file(&b, from, 1 << 24, &err), &err);
    FILE *f = fopen(to, "w");
    if (f == NULL || fwrite(b.data, 1, b.len, f) != b.len || fclose(f) != 0)
        exit(1);
    buf_clear(&b);
}

static inline void open_cache(struct run *r, struct token_data *d)
{
    struct error err = ERROR_INIT;
    text_must(token_cache_open(&r->conf, d, &err), &err);
}

/* Files in the directory whose names end so; *ret: the last of them. */
static inline int files_of(const char *end, char *ret, size_t cap)
{
    DIR *list = opendir(dir);
    int n = 0;
    for (struct dirent *e; list != NULL && (e = readdir(list)) != NULL;) {
        const size_t len = strlen(e->d_name);
        if (len < strlen(end) ||
            strcmp(e->d_name + len - strlen(end), end) != 0)
            continue;
        n++;
        (void)snprintf(ret, cap, "%s/%s", dir, e->d_name);
    }
    if (list != NULL)
        (void)closedir(list);
    return n;
}

static inline void empty_dir(void)
{
    char path[400];
    while (files_of(".tokens", path, sizeof(path)) > 0 ||
           files_of(".lock", path, sizeof(path)) > 0 ||
           files_of(".tmp", path, sizeof(path)) > 0)
        (void)unlink(path);
}

/* A clock by which each look takes a second. */
static inline double tick(const struct clock *c)
{
    static double now_s;
    (void)c;
    return now_s += 1;
}

/* The data and the model are there, and the tokenizer is open. */
static inline void rig_open(void)
{
    char from[4096];
    struct error err = ERROR_INIT;
    if (mkdtemp(dir) == NULL)
        exit(1);
    (void)snprintf(data, sizeof(data), "%s/rows.json", dir);
    (void)snprintf(model, sizeof(model), "%s/t.model", dir);
    copy_file(golden_path(text_model_files[0], from), model);
    token_file(data, "[{\"instruction\": \"a\", \"output\": \"b\"},"
                     " {\"instruction\": \"c\", \"output\": \"d e f\"}]");
    text_must(tokenizer_open(model, &t, &err), &err);
}

static inline void rig_close(void)
{
    char command[64];
    tokenizer_close(t);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        exit(1);
}

#endif
