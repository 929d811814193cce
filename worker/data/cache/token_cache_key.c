/* token_cache_key.c - the file name of tokenised rows, and its directories; see
 * token_cache.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"
#include "jobs/http/digest_ssl.h"
#include "worker/data/cache/token_cache.h"

enum {
    CACHE_VERSION = 5,
    PIECE = 1 << 22 /* bytes of a file that are hashed at once */
};

/* ---- the name ------------------------------------------------------------ */

/* The file's pieces as one digest after the other: each is over the piece and
 * the digest before it. */
static int add_file(const char *path, char *piece, char sum[DIGEST_HEX_CAP],
                    struct error *err)
{
    int fd = plain_file_open(path, 0, NULL, err);
    ssize_t got = -1;
    if (fd < 0)
        return -1;
    do {
        got = read(fd, piece, PIECE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        const struct digest_part parts[] = {{sum, strlen(sum)},
                                            {piece, (size_t)got}};
        if (digest_parts(parts, 2, sum, err) < 0) {
            (void)close(fd);
            return -1;
        }
    } while (got != 0);
    int rc = got < 0 ? error_sys(err, errno, "read '%s'", path) : 0;
    (void)close(fd);
    return rc;
}

/* How the file is read, which its name says. */
static int add_form(const char *path, char sum[DIGEST_HEX_CAP],
                    struct error *err)
{
    const char separator = data_rows_separator(path);
    const struct digest_part parts[] = {{sum, strlen(sum)}, {&separator, 1}};
    return digest_parts(parts, 2, sum, err);
}

/* The tokenizer's file, if it is a directory that of those that there are. */
static int add_tokenizer(const char *path, char *piece,
                         char sum[DIGEST_HEX_CAP], struct error *err)
{
    static const char *const names[] = {"tokenizer.model", "tokenizer.json",
                                        "original/tokenizer.model"};
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return add_file(path, piece, sum, err);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *file = NULL;
        if (asprintf(&file, "%s/%s", path, names[i]) < 0)
            return error_set(err, ERR_NOMEM, "%s", path);
        int rc = access(file, R_OK) == 0 ? add_file(file, piece, sum, err) : 0;
        free(file);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* All keys that the tokens follow from, each with its length. */
static int add_keys(const struct token_conf *c, char sum[DIGEST_HEX_CAP],
                    struct error *err)
{
    const struct spec_text *t = c->text;
    struct buf b = BUF_INIT;
    int rc = buf_addf(
        &b, err, "%d %d %d %d %d %d %d %d %d %d %d %d %d %d", CACHE_VERSION,
        c->pairs, t->template, t->packed, t->split_across_pack,
        t->train_on_input, t->samples, t->on_bad_row, c->prompt, c->is_whole,
        c->is_unknown, c->eos, c->max_seq_len,
        c->tokenizer != NULL && tokenizer_knows_behind(c->tokenizer));
    if (rc == 0 && c->end.name[0] != '\0')
        rc = buf_addf(&b, err, " end %d %s", c->end.id, c->end.name);
    const char *const texts[] = {c->system_prompt, t->split};
    for (size_t i = 0; i < 2 && rc == 0; i++)
        rc = buf_addf(&b, err, " %zd:%s",
                      texts[i] != NULL ? (ssize_t)strlen(texts[i]) : -1,
                      texts[i] != NULL ? texts[i] : "");
    for (size_t i = 0; c->columns != NULL && i < c->columns->n && rc == 0; i++)
        rc = buf_addf(
            &b, err, " %zu:%s%zu:%s", strlen(c->columns->pairs[i].key),
            c->columns->pairs[i].key, strlen(c->columns->pairs[i].value),
            c->columns->pairs[i].value);
    const struct digest_part parts[] = {{sum, strlen(sum)}, {b.data, b.len}};
    if (rc == 0)
        rc = digest_parts(parts, 2, sum, err);
    buf_clear(&b);
    return rc;
}

int token_cache_key(const struct token_cache_conf *conf,
                    const struct data_files *files,
                    char ret[TOKEN_CACHE_KEY_CAP], struct error *err)
{
    char sum[DIGEST_HEX_CAP] = "";
    char *piece = malloc(PIECE);
    if (piece == NULL)
        return error_set(err, ERR_NOMEM, "%s", conf->tokens->text->path);
    int rc = add_keys(conf->tokens, sum, err);
    for (int32_t i = 0; i < files->n && rc == 0; i++) {
        rc = add_form(files->path[i], sum, err);
        if (rc == 0)
            rc = add_file(files->path[i], piece, sum, err);
    }
    if (rc == 0 && conf->tokenizer_path != NULL)
        rc = add_tokenizer(conf->tokenizer_path, piece, sum, err);
    free(piece);
    if (rc == 0)
        memcpy(ret, sum, sizeof(sum));
    return rc;
}

/* ---- the directories ----------------------------------------------------- */

const char *token_cache_tokenizer(const struct job_spec *s,
                                  const struct spec_text *text)
{
    if (text->template == TEMPLATE_TOKENS)
        return NULL;
    return s->train.tokenizer.path != NULL ? s->train.tokenizer.path
                                           : s->train.checkpointer.dir;
}

char *token_cache_beside(const struct data_files *files)
{
    const char *slash = strrchr(files->path[0], '/');
    const int n = slash != NULL ? (int)(slash - files->path[0]) : 1;
    char *dir = NULL;
    return asprintf(&dir, "%.*s/.mgpu", n,
                    slash != NULL ? files->path[0] : ".") < 0
               ? NULL
               : dir;
}

/* Makes base + end; NULL: that cannot be. */
static char *make_cache_dir(const char *base, const char *end)
{
    char *dir = NULL;
    if (base == NULL || base[0] != '/' || asprintf(&dir, "%s%s", base, end) < 0)
        return NULL;
    for (char *p = dir + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(dir, 0700);
        *p = '/';
    }
    if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
        free(dir);
        return NULL;
    }
    return dir;
}

char *token_cache_dir(const struct spec_map *env)
{
    const char *xdg = getenv("XDG_CACHE_HOME");
    for (size_t i = 0; i < env->n; i++)
        if (strcmp(env->pairs[i].key, "XDG_CACHE_HOME") == 0)
            xdg = env->pairs[i].value;
    char *dir = make_cache_dir(xdg, "/mgpu");
    return dir != NULL ? dir : make_cache_dir(getenv("HOME"), "/.cache/mgpu");
}
