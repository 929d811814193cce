/* tokenizer_spm.cpp - see tokenizer.h; libsentencepiece behind a C header.
 *
 * The library throws only where memory is short. No exception leaves this
 * file. */
#include "worker/data/text/tokenizer.h"

#include <errno.h>
#include <sentencepiece_processor.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <new>
#include <string>
#include <vector>

struct tokenizer {
    sentencepiece::SentencePieceProcessor spm;
    struct tokenizer_ids ids;
    size_t prefix; /* ids of prefix_text */
};

/* Stands before a text that goes on, and is cut off again. A model that has no
 * ids for white space has none for it, and reads the text as without it. */
static const char prefix_text[] = "\n";
enum { FILE_MAX = 64 << 20 }; /* Gemma's has 4 MB, the largest known */

static bool exists(const std::string &path)
{
    struct stat st;
    return stat(path.c_str(), &st) == 0;
}

/* The file that path means. */
static int find(const char *path, std::string *ret, struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return error_sys(err, errno, "tokenizer %s", path);
    *ret = path;
    if (!S_ISDIR(st.st_mode))
        return 0;
    *ret += "/tokenizer.model";
    if (exists(*ret))
        return 0;
    return error_set(err, ERR_NOTFOUND,
                     "tokenizer: %s has no tokenizer.model%s", path,
                     exists(std::string(path) + "/tokenizer.json")
                         ? "; its tokenizer.json is not read"
                         : "");
}

/* Llama 3's tokenizer.model: lines of a token in base64 and its rank. */
static bool is_ranks(const struct buf *b)
{
    const char *end = (const char *)memchr(b->data, '\n', b->len);
    const char *gap = (const char *)memchr(b->data, ' ', b->len);
    if (end == NULL || gap == NULL || gap >= end || gap == b->data)
        return false;
    for (const char *p = gap + 1; p < end; p++)
        if (*p < '0' || *p > '9')
            return false;
    return true;
}

static int load(struct tokenizer *t, const char *path, struct error *err)
{
    struct buf b;
    buf_init(&b);
    if (buf_read_file(&b, path, FILE_MAX, err) < 0) {
        buf_clear(&b);
        return error_wrap(err, "tokenizer");
    }
    const bool ranks = b.len > 0 && is_ranks(&b);
    const absl::string_view text(buf_str(&b), b.len);
    const bool good = !ranks && t->spm.LoadFromSerializedProto(text).ok();
    buf_clear(&b);
    if (good)
        return 0;
    return error_set(err, ERR_INVAL,
                     "tokenizer %s: not a sentencepiece model%s", path,
                     ranks ? " but a list of ranks, as of Llama 3" : "");
}

static void look(struct tokenizer *t)
{
    t->prefix = t->spm.EncodeAsIds(prefix_text).size();
    t->ids.size = t->spm.GetPieceSize();
    t->ids.bos = t->spm.bos_id();
    t->ids.eos = t->spm.eos_id();
    t->ids.unk = t->spm.unk_id();
}

int tokenizer_open(const char *path, struct tokenizer **ret, struct error *err)
{
    struct tokenizer *t = NULL;
    try {
        std::string file;
        if (find(path, &file, err) < 0)
            return -1;
        t = new tokenizer();
        if (load(t, file.c_str(), err) < 0) {
            delete t;
            return -1;
        }
        look(t);
    } catch (const std::exception &) {
        delete t;
        return error_set(err, ERR_NOMEM, "tokenizer %s", path);
    }
    *ret = t;
    return 0;
}

void tokenizer_close(struct tokenizer *t)
{
    delete t;
}

const struct tokenizer_ids *tokenizer_ids(const struct tokenizer *t)
{
    return &t->ids;
}

static int add_id(struct buf *ret, int32_t id, struct error *err)
{
    return id < 0 ? 0 : buf_add(ret, &id, sizeof(id), err);
}

static int add_text(const struct tokenizer *t, const char *text, size_t len,
                    bool goes_on, struct buf *ret, struct error *err)
{
    std::string s = goes_on ? prefix_text : "";
    std::vector<int> ids;
    s.append(text, len);
    if (!t->spm.Encode(s, &ids).ok())
        return error_set(err, ERR_INVAL, "tokenizer: text that it refuses");
    const size_t from = goes_on ? t->prefix : 0;
    if (ids.size() <= from)
        return 0;
    static_assert(sizeof(int) == sizeof(int32_t), "ids are int32_t");
    return buf_add(ret, ids.data() + from, (ids.size() - from) * sizeof(int),
                   err);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                     uint32_t flags, struct buf *ret, struct error *err)
{
    const bool goes_on = flags & TOKENIZER_GOES_ON;
    const size_t before = ret->len;
    try {
        if ((!(flags & TOKENIZER_BOS) || add_id(ret, t->ids.bos, err) == 0) &&
            add_text(t, text, len, goes_on, ret, err) == 0 &&
            (!(flags & TOKENIZER_EOS) || add_id(ret, t->ids.eos, err) == 0))
            return 0;
    } catch (const std::exception &) {
        (void)error_set(err, ERR_NOMEM, "tokenizer: %zu bytes of text", len);
    }
    if (ret->data != NULL)
        ret->data[ret->len = before] = '\0';
    return -1;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                     struct buf *ret, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->ids.size)
            return error_set(err, ERR_INVAL, "tokenizer: id %d, it has 0 to %d",
                             ids[i], t->ids.size - 1);
    try {
        std::string s;
        if (!t->spm.Decode(std::vector<int>(ids, ids + n), &s).ok())
            return error_set(err, ERR_INVAL, "tokenizer: ids that it refuses");
        return buf_add(ret, s.data(), s.size(), err);
    } catch (const std::exception &) {
        return error_set(err, ERR_NOMEM, "tokenizer: %zu ids", n);
    }
}
