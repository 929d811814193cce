/* tokenizer.c - see tokenizer.h: finds the file, sees what it is, and passes
 * calls on to its kind. */
#include "worker/data/tokenizer/tokenizer.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/data/tokenizer/tokenizer_bpe.h"
#include "worker/data/tokenizer/tokenizer_internal.h"

enum { FILE_MAX = 64 << 20 }; /* Gemma's tokenizer.json has 34 MB */

/* ---- files -------------------------------------------------------------- */

/* The file that path means.
 * out  ret_is_dir  path is a directory, and the file is in it */
static int find(const char *path, struct buf *ret, bool *ret_is_dir,
                struct error *err)
{
    static const char *const names[] = {"tokenizer.model", "tokenizer.json",
                                        "original/tokenizer.model"};
    struct stat st;
    if (stat(path, &st) < 0)
        return error_sys(err, errno, "tokenizer %s", path);
    *ret_is_dir = S_ISDIR(st.st_mode);
    if (!*ret_is_dir)
        return buf_addstr(ret, path, err);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        buf_reset(ret);
        if (buf_addf(ret, err, "%s/%s", path, names[i]) < 0)
            return -1;
        if (access(buf_str(ret), F_OK) == 0)
            return 0;
    }
    return error_set(err, ERR_NOTFOUND, "tokenizer: %s has no %s, %s or %s",
                     path, names[0], names[1], names[2]);
}

/* Releases of Llama 3 name their special tokens in different ways. A
 * tokenizer.json in the directory of the ranks has the names.
 * in   dir  NULL: there is no directory */
static int add_special(const char *dir, struct bpe_parts *p, struct error *err)
{
    struct buf path = BUF_INIT, file = BUF_INIT;
    int rc = 0;
    bool named = false;
    if (dir != NULL) {
        rc = buf_addf(&path, err, "%s/tokenizer.json", dir);
        named = rc == 0 && access(buf_str(&path), F_OK) == 0;
    }
    if (named && (buf_read_file(&file, buf_str(&path), FILE_MAX, err) < 0 ||
                  tokenizer_json_special(&file, p, err) < 0))
        rc = error_wrap(err, "the names of tokens in %s", buf_str(&path));
    if (rc == 0 && p->special.len == 0)
        rc = tokenizer_ranks_special(p, err);
    buf_clear(&path);
    buf_clear(&file);
    return rc;
}

static int open_bpe(const struct buf *file, const char *dir, bool ranks,
                    struct tokenizer **ret, struct error *err)
{
    struct bpe_parts p = {.whole = false};
    int rc = ranks ? tokenizer_ranks_read(file, &p, err)
                   : tokenizer_json_read(file, &p, err);
    if (rc == 0 && ranks)
        rc = add_special(dir, &p, err);
    if (rc == 0)
        rc = tokenizer_bpe_open(&p, ret, err);
    bpe_parts_clear(&p);
    return rc;
}

static int open_file(const char *path, const char *dir, struct tokenizer **ret,
                     struct error *err)
{
    struct buf file = BUF_INIT;
    if (buf_read_file(&file, path, FILE_MAX, err) < 0) {
        buf_clear(&file);
        return error_wrap(err, "tokenizer");
    }
    const bool ranks = tokenizer_is_ranks(&file);
    int rc = ranks || tokenizer_is_json(&file)
                 ? open_bpe(&file, dir, ranks, ret, err)
                 : tokenizer_spm_open(&file, ret, err);
    buf_clear(&file);
    return rc < 0 ? error_wrap(err, "tokenizer %s", path) : 0;
}

int tokenizer_open(const char *path, struct tokenizer **ret, struct error *err)
{
    struct buf file = BUF_INIT;
    bool is_dir = false;
    int rc = find(path, &file, &is_dir, err);
    if (rc == 0)
        rc = open_file(buf_str(&file), is_dir ? path : NULL, ret, err);
    buf_clear(&file);
    return rc;
}

int tokenizer_open_chat(const char *path, struct tokenizer **ret,
                        struct error *err)
{
    struct tokenizer *t = NULL;
    struct buf json = BUF_INIT;
    int rc = tokenizer_open(path, &t, err);
    rc = rc < 0 ? rc : buf_addf(&json, err, "%s/tokenizer.json", path);
    if (rc == 0 && t != NULL && !tokenizer_knows_behind(t) &&
        access(buf_str(&json), F_OK) == 0) {
        tokenizer_close(t);
        t = NULL;
        rc = open_file(buf_str(&json), NULL, &t, err);
    }
    buf_clear(&json);
    if (rc == 0)
        *ret = t;
    else
        tokenizer_close(t);
    return rc;
}

/* ---- calls -------------------------------------------------------------- */

void tokenizer_close(struct tokenizer *t)
{
    if (t != NULL)
        t->ops->close(t);
}

const struct tokenizer_ids *tokenizer_ids(const struct tokenizer *t)
{
    return &t->ids;
}

bool tokenizer_knows_behind(const struct tokenizer *t)
{
    return t->ops->knows_behind;
}

int32_t tokenizer_special(const struct tokenizer *t, const char *name)
{
    return t->ops->special(t, name);
}

static void cut(struct buf *b, size_t len)
{
    if (b->data != NULL)
        b->data[b->len = len] = '\0';
}

static int add_id(struct buf *ret, int32_t id, struct error *err)
{
    return id < 0 ? 0 : buf_add(ret, &id, sizeof(id), err);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                     uint32_t flags, struct buf *ret, struct error *err)
{
    return tokenizer_encode_some(t, text, len, flags, 0, ret, err);
}

int tokenizer_encode_some(const struct tokenizer *t, const char *text,
                          size_t len, uint32_t flags, size_t most,
                          struct buf *ret, struct error *err)
{
    const enum text_place place = flags & TOKENIZER_GOES_ON  ? TEXT_GOES_ON
                                  : flags & TOKENIZER_BEHIND ? TEXT_BEHIND
                                                             : TEXT_BEGINS;
    const size_t before = ret->len;
    if ((!(flags & TOKENIZER_BOS) || add_id(ret, t->ids.bos, err) == 0) &&
        t->ops->encode(t, text, len, place, most, ret, err) == 0 &&
        (!(flags & TOKENIZER_EOS) || add_id(ret, t->ids.eos, err) == 0))
        return 0;
    cut(ret, before);
    return -1;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                     struct buf *ret, struct error *err)
{
    const size_t before = ret->len;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->ids.size)
            return error_set(err, ERR_INVAL, "tokenizer: id %d, it has 0 to %d",
                             ids[i], t->ids.size - 1);
    if (t->ops->decode(t, ids, n, ret, err) == 0)
        return 0;
    cut(ret, before);
    return -1;
}
