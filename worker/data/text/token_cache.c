/* token_cache.c - see token_cache.h. */
#include "worker/data/text/token_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jobs/http/digest_ssl.h"
#include "worker/data/text/token_file.h"
#include "worker/data/text/token_lock.h"

enum {
    CACHE_VERSION = 2,
    PIECE = 1 << 22,        /* bytes of a file that are hashed at once */
    POLL_NS = 50 * 1000000, /* a build takes seconds at least */
    SAY_S = 10,
    TELL_S = 1,
    ROWS_BETWEEN = 256,   /* two looks at the clock; a row takes some 5 us */
    SPILL_BYTES = 4 << 20 /* of ids in memory, and as many of labels */
};

struct cache {
    const struct token_cache_conf *conf;
    const struct data_files *files;
    struct buf stamp;         /* of the files, before they were hashed */
    char *path, *temp, *lock; /* of the tokens; of who makes them */
    int fd;                   /* of the lock; -1: it is not held */
    int64_t bytes;            /* of all files */
    bool is_beside;           /* in the directory beside the data */
    double start_s, said_s, told_s;
    double told; /* by the one that is waited for; NAN: nothing yet */
};

/* ---- the name ------------------------------------------------------------ */

/* The file's pieces as one digest after the other: each is over the piece and
 * the digest before it. */
static int add_file(const char *path, char *piece, char sum[DIGEST_HEX_CAP],
                    struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
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
    int rc =
        buf_addf(&b, err, "%d %d %d %d %d %d %d %d %d %d %d %d", CACHE_VERSION,
                 c->pairs, t->template, t->packed, t->split_across_pack,
                 t->train_on_input, t->samples, t->on_bad_row, c->prompt,
                 c->is_whole, c->eos, c->max_seq_len);
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

char *token_cache_dir(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *dir = NULL;
    int rc = -1;
    if (xdg != NULL && xdg[0] == '/')
        rc = asprintf(&dir, "%s/mgpu", xdg);
    else if (home != NULL && home[0] == '/')
        rc = asprintf(&dir, "%s/.cache/mgpu", home);
    if (rc < 0)
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

/* Changes when one of the files is written to, or replaced by another. */
static int stamp_of(const struct data_files *files, struct buf *ret,
                    struct error *err)
{
    for (int32_t i = 0; i < files->n; i++) {
        struct stat st;
        if (stat(files->path[i], &st) < 0)
            return error_sys(err, errno, "'%s'", files->path[i]);
        const int64_t v[] = {(int64_t)st.st_dev,  (int64_t)st.st_ino,
                             (int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec,
                             st.st_mtim.tv_nsec,  (int64_t)st.st_ctim.tv_sec,
                             st.st_ctim.tv_nsec};
        if (buf_add(ret, v, sizeof(v), err) < 0)
            return -1;
    }
    return 0;
}

/* ---- making it ----------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(
    const struct token_cache_conf *conf, const char *fmt, ...)
{
    char line[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (conf->say != NULL)
        conf->say(conf->arg, line);
}

static void progress(void *arg, int64_t bytes, int64_t rows)
{
    struct cache *c = arg;
    const struct token_cache_conf *conf = c->conf;
    if (rows % ROWS_BETWEEN != 0)
        return;
    const double now_s = conf->clock->now_s(conf->clock);
    const double share = c->bytes > 0 ? (double)bytes / (double)c->bytes : 0;
    if (now_s - c->told_s >= TELL_S) {
        c->told_s = now_s;
        if (c->fd >= 0)
            token_lock_tell(c->fd, share);
        if (conf->tokenised != NULL)
            conf->tokenised(conf->arg, share);
    }
    if (now_s - c->said_s < SAY_S)
        return;
    c->said_s = now_s;
    say(conf, "%s: tokenising %.0f %%, %.0f rows/s", conf->tokens->text->path,
        100 * share, (double)rows / (now_s - c->start_s));
}

/* in   spill  NULL: into memory */
static int tokenise(struct cache *c, int32_t threads,
                    const struct token_spill *spill, struct token_data *ret,
                    struct error *err)
{
    struct token_conf conf = *c->conf->tokens;
    conf.progress = progress;
    conf.arg = c;
    conf.threads = threads;
    conf.spill = spill;
    c->start_s = c->said_s = c->told_s = c->conf->clock->now_s(c->conf->clock);
    if (c->fd >= 0)
        token_lock_tell(c->fd, 0); /* an older process told another */
    return token_data_open(&conf, ret, err);
}

/* Others do the same at this time. */
static int tokenise_alone(struct cache *c, struct token_data *ret,
                          struct error *err)
{
    return tokenise(c, c->conf->threads_alone, NULL, ret, err);
}

/* A file that is there and whole, with the names of its data. */
static bool found(const struct cache *c, struct token_data *ret)
{
    struct error why = ERROR_INIT, err = ERROR_INIT;
    const struct spec_text *text = c->conf->tokens->text;
    if (token_file_read(c->path, ret, &why) < 0) {
        if (why.code != ERR_NOTFOUND)
            say(c->conf, "tokenised rows are made again: %s", why.msg);
        return false;
    }
    if (data_files_find(text->path, &text->data_files, &ret->files, &err) == 0)
        return true;
    token_data_clear(ret);
    return false;
}

/* Those that wait for the rows tokenise for themselves from now on, all at
 * once: the lock that they get has no name any more. */
static void give_up(struct cache *c, const struct error *why)
{
    say(c->conf, "tokenised rows are not kept: %s", why->msg);
    (void)unlink(c->temp);
    (void)unlink(c->lock);
    (void)close(c->fd);
    c->fd = -1;
}

static void no_room(void *arg, const struct error *why)
{
    give_up(arg, why);
}

/* The rows are in the file, and not in memory any more.
 * inout  ret  with lists in files */
static int use_file(struct cache *c, struct token_data *ret, struct error *err)
{
    token_data_clear(ret);
    return found(c, ret) ? 0 : tokenise_alone(c, ret, err);
}

/* The rows are of the files that were hashed, for the name is made of these. */
static int check_stamp(const struct cache *c, struct error *err)
{
    struct buf now = BUF_INIT;
    int rc = stamp_of(c->files, &now, err);
    if (rc == 0 && (now.len != c->stamp.len ||
                    memcmp(now.data, c->stamp.data, now.len) != 0))
        rc = error_set(err, ERR_STATE, "%s: it changed while it was read",
                       c->conf->tokens->text->path);
    buf_clear(&now);
    return rc;
}

/* Beside the data, those that may read the data may read its tokens. */
static void share(const struct cache *c)
{
    struct stat st;
    if (c->is_beside && stat(c->files->path[0], &st) == 0)
        (void)chmod(c->path, (st.st_mode & 0444) | 0600);
}

/* Under the lock: another may have made it meanwhile. */
static int make(struct cache *c, struct token_data *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    struct token_data d;
    const struct token_spill spill = {.path = c->temp,
                                      .base = token_file_base(),
                                      .bytes = SPILL_BYTES,
                                      .no_room = no_room,
                                      .arg = c};
    if (found(c, ret))
        return 0;
    if (tokenise(c, 0, &spill, &d, err) < 0) {
        (void)unlink(c->temp);
        return -1;
    }
    const bool is_long = d.ids.has_file;
    if (!d.no_room &&
        (check_stamp(c, &why) < 0 || token_file_write(c->path, &d, &why) < 0)) {
        give_up(c, &why);
        if (token_data_recall(&d, err) < 0) {
            token_data_clear(&d);
            return -1;
        }
    } else if (!d.no_room) {
        share(c);
        say(c->conf, "%s: tokenised rows are kept in '%s'",
            c->conf->tokens->text->path, c->path);
        if (is_long && use_file(c, &d, err) < 0)
            return -1;
    }
    *ret = d;
    return 0;
}

/* Tells the share of the process that has the lock, as if it were our own. One
 * that stands still is told once, so that nobody takes this process for one
 * that works. */
static void follow(struct cache *c)
{
    const struct token_cache_conf *conf = c->conf;
    const double now_s = conf->clock->now_s(conf->clock);
    const double share = token_lock_told(c->fd);
    if (conf->tokenised == NULL || isnan(share) || share == c->told ||
        now_s - c->told_s < TELL_S)
        return;
    c->told_s = now_s;
    c->told = share;
    conf->tokenised(conf->arg, share);
}

/* Returns 0: the lock is held; -1: it cannot be had. */
static int wait_turn(struct cache *c)
{
    const struct timespec poll = {.tv_nsec = POLL_NS};
    if (c->conf->yields)
        (void)nanosleep(&poll, NULL);
    int rc = token_lock_try(c->fd);
    if (rc > 0)
        say(c->conf, "%s: waiting for rows that another process tokenises",
            c->conf->tokens->text->path);
    c->told_s = -INFINITY;
    c->told = (double)NAN;
    for (; rc > 0; rc = token_lock_try(c->fd)) {
        follow(c);
        (void)nanosleep(&poll, NULL);
    }
    return rc;
}

static int make_or_wait(struct cache *c, struct token_data *ret,
                        struct error *err)
{
    c->fd = token_lock_open(c->lock);
    if (c->fd < 0) {
        say(c->conf, "tokenised rows are not kept: '%s': %s", c->lock,
            strerror(errno));
        return tokenise_alone(c, ret, err);
    }
    if (wait_turn(c) == 0 && !token_lock_is_gone(c->fd))
        return make(c, ret, err);
    (void)close(c->fd); /* writers would mix */
    c->fd = -1;
    return tokenise_alone(c, ret, err);
}

static int64_t bytes_of(const struct data_files *files)
{
    struct stat st;
    int64_t bytes = 0;
    for (int32_t i = 0; i < files->n; i++)
        bytes += stat(files->path[i], &st) == 0 ? st.st_size : 0;
    return bytes;
}

/* The files of the cache in a directory. */
static int name_files(struct cache *c, const char *dir, const char *key,
                      struct error *err)
{
    free(c->path);
    free(c->temp);
    free(c->lock);
    c->path = c->temp = c->lock = NULL;
    if (asprintf(&c->path, "%s/%s.tokens", dir, key) < 0 ||
        asprintf(&c->temp, "%s/%s.tokens.tmp", dir, key) < 0 ||
        asprintf(&c->lock, "%s/%s.lock", dir, key) < 0)
        return error_set(err, ERR_NOMEM, "%s", c->conf->tokens->text->path);
    return 0;
}

/* Looks in the directory beside the data, where there is one, and then in the
 * user's, unless the first may be written to. */
static int find_or_make(struct cache *c, const char *beside,
                        struct token_data *ret, struct error *err)
{
    const bool is_ours = beside != NULL && access(beside, W_OK) == 0;
    const char *const dirs[] = {beside, is_ours ? NULL : c->conf->dir};
    char key[TOKEN_CACHE_KEY_CAP];
    c->is_beside = is_ours;
    if (stamp_of(c->files, &c->stamp, err) < 0 ||
        token_cache_key(c->conf, c->files, key, err) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        if (dirs[i] == NULL)
            continue;
        if (name_files(c, dirs[i], key, err) < 0)
            return -1;
        if (found(c, ret))
            return 0;
    }
    return is_ours || dirs[1] != NULL ? make_or_wait(c, ret, err)
                                      : tokenise_alone(c, ret, err);
}

static int look_up(struct cache *c, struct token_data *ret, struct error *err)
{
    char *beside = token_cache_beside(c->files);
    const bool is_there = beside != NULL && access(beside, R_OK | X_OK) == 0;
    int rc = is_there || c->conf->dir != NULL
                 ? find_or_make(c, is_there ? beside : NULL, ret, err)
                 : tokenise_alone(c, ret, err);
    free(beside);
    return rc;
}

int token_cache_open(const struct token_cache_conf *conf,
                     struct token_data *ret, struct error *err)
{
    const struct spec_text *text = conf->tokens->text;
    struct data_files files = {.n = 0};
    struct cache c = {.conf = conf, .files = &files, .fd = -1};
    if (data_files_find(text->path, &text->data_files, &files, err) < 0)
        return -1;
    c.bytes = bytes_of(&files);
    int rc = c.bytes < conf->min_bytes ? tokenise_alone(&c, ret, err)
                                       : look_up(&c, ret, err);
    if (c.fd >= 0)
        (void)close(c.fd);
    buf_clear(&c.stamp);
    free(c.path);
    free(c.temp);
    free(c.lock);
    data_files_clear(&files);
    return rc;
}
