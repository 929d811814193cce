/* token_cache.c - see token_cache.h. */
#include "worker/data/cache/token_cache.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "worker/data/cache/cache_trust.h"
#include "worker/data/cache/token_file.h"
#include "worker/data/cache/token_lock.h"

enum {
    POLL_NS = 50 * 1000000, /* a build takes seconds at least */
    SAY_S = 10,
    /* A process that makes rows writes into the lock each second, and then into
     * the file; what a kernel writes back at the end is at most a fifth of its
     * memory, 200 GiB of 1 TiB, which takes 400 s at 500 MiB/s. */
    STILL_S = 600,
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
    struct cache_trust trust;
    bool has_said; /* why a file is not taken */
    double start_s, said_s, told_s;
    double told; /* by the one that is waited for; NAN: nothing yet */
};

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
        token_lock_tell(c->fd, 0); /* an earlier holder wrote another */
    return token_data_open(&conf, ret, err);
}

/* Others do the same at this time. */
static int tokenise_alone(struct cache *c, struct token_data *ret,
                          struct error *err)
{
    return tokenise(c, c->conf->threads_alone, NULL, ret, err);
}

/* A row keeps its length only if packs are filled with parts of rows. */
static int32_t longest_row(const struct token_conf *t)
{
    return t->text->packed && t->text->split_across_pack ? 0 : t->max_seq_len;
}

/* A file that is there, trusted and whole, with the names of its data. */
static bool found(struct cache *c, struct token_data *ret)
{
    struct error why = ERROR_INIT;
    const struct token_conf *tokens = c->conf->tokens;
    const struct token_file_want want = {.trust = &c->trust,
                                         .files = c->files->n,
                                         .longest = longest_row(tokens),
                                         .pairs = tokens->pairs};
    if (token_file_read(c->path, &want, ret, &why) < 0) {
        if (why.code != ERR_NOTFOUND && !c->has_said)
            say(c->conf, "cached rows are not used, tokenising again: %s",
                why.msg);
        c->has_said = c->has_said || why.code != ERR_NOTFOUND;
        return false;
    }
    if (data_files_find(tokens->text->path, &tokens->text->data_files,
                        &ret->files, &why) == 0 &&
        ret->files.n == want.files)
        return true;
    token_data_clear(ret);
    return false;
}

/* Processes that wait for the lock now tokenise for themselves, all at once:
 * the lock file that they get has no name any more. */
static void give_up(struct cache *c, const struct error *why)
{
    say(c->conf, "tokenised rows are not cached: %s", why->msg);
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

/* The rows are those of the hashed files, because the file's name has their
 * hash. */
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
        say(c->conf, "%s: tokenised rows are cached in '%s'",
            c->conf->tokens->text->path, c->path);
        if (is_long && use_file(c, &d, err) < 0)
            return -1;
    }
    *ret = d;
    return 0;
}

/* Reports the share of the process that has the lock as if it were our own. A
 * share that does not change is reported once, so that this process does not
 * look as if it worked. */
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

/* Changes while the process that has the lock does anything. */
struct signs {
    struct timespec told, written;
    int64_t bytes;
};

static struct signs signs_of(const struct cache *c)
{
    struct stat lock, temp;
    struct signs s = {.bytes = 0};
    if (fstat(c->fd, &lock) == 0)
        s.told = lock.st_mtim;
    if (stat(c->temp, &temp) == 0) {
        s.written = temp.st_mtim;
        s.bytes = temp.st_size;
    }
    return s;
}

static bool is_still(const struct signs *a, const struct signs *b)
{
    return a->told.tv_sec == b->told.tv_sec &&
           a->told.tv_nsec == b->told.tv_nsec &&
           a->written.tv_sec == b->written.tv_sec &&
           a->written.tv_nsec == b->written.tv_nsec && a->bytes == b->bytes;
}

/* Waits as long as the other one works. Returns as token_lock_try(). */
static int wait_for_other(struct cache *c)
{
    const struct timespec poll = {.tv_nsec = POLL_NS};
    const struct clock *clock = c->conf->clock;
    double moved_s = clock->now_s(clock);
    struct signs seen = signs_of(c);
    int rc = 1;
    while (rc > 0) {
        follow(c);
        (void)nanosleep(&poll, NULL);
        rc = token_lock_try(c->fd);
        const struct signs now = signs_of(c);
        if (!is_still(&seen, &now)) {
            seen = now;
            moved_s = clock->now_s(clock);
        } else if (clock->now_s(clock) - moved_s > STILL_S) {
            break;
        }
    }
    return rc;
}

/* Returns 0: the lock is held; else it is not, and we do not wait. */
static int wait_turn(struct cache *c)
{
    const struct timespec poll = {.tv_nsec = POLL_NS};
    if (c->conf->yields)
        (void)nanosleep(&poll, NULL);
    int rc = token_lock_try(c->fd);
    if (rc <= 0)
        return rc;
    say(c->conf, "%s: waiting for rows that another process tokenises",
        c->conf->tokens->text->path);
    c->told_s = -INFINITY;
    c->told = (double)NAN;
    rc = wait_for_other(c);
    if (rc > 0)
        say(c->conf,
            "%s: not waiting for tokenised rows any longer: the process that "
            "locked '%s' has done nothing for %d minutes",
            c->conf->tokens->text->path, c->lock, STILL_S / 60);
    return rc;
}

static int make_or_wait(struct cache *c, struct token_data *ret,
                        struct error *err)
{
    struct error why = ERROR_INIT;
    c->fd = token_lock_open(c->lock, &why);
    if (c->fd < 0) {
        say(c->conf, "tokenised rows are not cached: %s", why.msg);
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

/* A directory that is there and trusted.
 * out  ret_is_own  it may be written to */
static bool may_use(const struct cache *c, const char *dir, bool *ret_is_own)
{
    struct error why = ERROR_INIT;
    *ret_is_own = false;
    if (dir == NULL || cache_trust_dir(&c->trust, dir, ret_is_own, &why) == 0)
        return dir != NULL;
    if (dir == c->conf->dir)
        say(c->conf, "tokenised rows are not cached: %s", why.msg);
    else if (why.code != ERR_NOTFOUND)
        say(c->conf, "cached rows beside the data are not used: %s", why.msg);
    return false;
}

/* Looks in the directory beside the data, where there is one, and then in the
 * user's, unless the first may be written to. Rows are made in the last. */
static int find_or_make(struct cache *c, const char *const dirs[2],
                        bool is_last_own, struct token_data *ret,
                        struct error *err)
{
    char key[TOKEN_CACHE_KEY_CAP];
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
    return is_last_own ? make_or_wait(c, ret, err)
                       : tokenise_alone(c, ret, err);
}

static int look_up(struct cache *c, struct token_data *ret, struct error *err)
{
    char *beside = token_cache_beside(c->files);
    bool is_own = false, is_user_own = false;
    c->trust = cache_trust_of(c->files);
    const bool is_there = may_use(c, beside, &is_own);
    const bool has_user = !is_own && may_use(c, c->conf->dir, &is_user_own);
    const char *const dirs[] = {is_there ? beside : NULL,
                                has_user ? c->conf->dir : NULL};
    c->is_beside = is_own;
    int rc = is_there || has_user
                 ? find_or_make(c, dirs, is_own || is_user_own, ret, err)
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
