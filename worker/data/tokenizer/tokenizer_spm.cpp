/* tokenizer_spm.cpp - a sentencepiece model as a tokenizer; libsentencepiece
 * behind a C header.
 *
 * The library throws only where memory is short. No exception leaves this
 * file. */
#include <sentencepiece_processor.h>

#include <new>
#include <string>
#include <vector>

#include "worker/data/tokenizer/tokenizer_internal.h"
#include "worker/data/tokenizer/tokenizer_pieces.h"

namespace
{

struct spm : tokenizer {
    sentencepiece::SentencePieceProcessor model;
    size_t prefix; /* ids of prefix_text */
};

/* Stands before a text that goes on, and is cut off again. A model that has no
 * ids for white space has none for it, and reads the text as without it. */
const char prefix_text[] = "\n";

const spm *spm_of(const struct tokenizer *t)
{
    return static_cast<const spm *>(t);
}

void spm_close(struct tokenizer *t)
{
    delete static_cast<spm *>(t);
}

int add_text(const spm *t, const char *text, size_t len, bool goes_on,
             struct buf *ret, struct error *err)
{
    std::string s = goes_on ? prefix_text : "";
    std::vector<int> ids;
    s.append(text, len);
    if (!t->model.Encode(s, &ids).ok())
        return error_set(err, ERR_INVAL, "tokenizer: text that it refuses");
    const size_t from = goes_on ? t->prefix : 0;
    if (ids.size() <= from)
        return 0;
    static_assert(sizeof(int) == sizeof(int32_t), "ids are int32_t");
    return buf_add(ret, ids.data() + from, (ids.size() - from) * sizeof(int),
                   err);
}

int spm_encode(const struct tokenizer *t, const char *text, size_t len,
               enum text_place place, size_t most, struct buf *ret,
               struct error *err)
{
    (void)most; /* what is behind them may change them */
    if (len > TOKENIZER_SPM_BYTES)
        return error_set(err, ERR_INVAL,
                         "a text of %zu bytes: with a sentencepiece model at "
                         "most %d are read",
                         len, TOKENIZER_SPM_BYTES);
    try {
        return add_text(spm_of(t), text, len, place == TEXT_GOES_ON, ret, err);
    } catch (const std::exception &) {
        return error_set(err, ERR_NOMEM, "tokenizer: %zu bytes of text", len);
    }
}

int spm_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
               struct buf *ret, struct error *err)
{
    try {
        std::string s;
        if (!spm_of(t)->model.Decode(std::vector<int>(ids, ids + n), &s).ok())
            return error_set(err, ERR_INVAL, "tokenizer: ids that it refuses");
        return buf_add(ret, s.data(), s.size(), err);
    } catch (const std::exception &) {
        return error_set(err, ERR_NOMEM, "tokenizer: %zu ids", n);
    }
}

/* PieceToId() gives unk for what it does not know. */
int32_t spm_special(const struct tokenizer *t, const char *name)
{
    try {
        const int id = spm_of(t)->model.PieceToId(name);
        return spm_of(t)->model.IsControl(id) ? id : -1;
    } catch (const std::exception &) {
        return -1;
    }
}

const struct tokenizer_ops spm_ops = {
    spm_close, spm_encode, spm_decode, spm_special, false,
};

int parse(const struct buf *file, sentencepiece::SentencePieceProcessor *ret,
          struct error *err)
{
    const absl::string_view text(buf_str(file), file->len);
    if (ret->LoadFromSerializedProto(text).ok())
        return 0;
    return error_set(err, ERR_INVAL,
                     "neither a sentencepiece model, nor ranks (lines of a "
                     "token in base64 and its rank), nor a tokenizer.json");
}

int load(spm *t, const struct buf *file, struct error *err)
{
    if (parse(file, &t->model, err) < 0)
        return -1;
    t->prefix = t->model.EncodeAsIds(prefix_text).size();
    t->ops = &spm_ops;
    t->ids.size = t->model.GetPieceSize();
    t->ids.bos = t->model.bos_id();
    t->ids.eos = t->model.eos_id();
    t->ids.unk = t->model.unk_id();
    return 0;
}

} // namespace

int tokenizer_spm_open(const struct buf *file, struct tokenizer **ret,
                       struct error *err)
{
    spm *t = nullptr;
    try {
        t = new spm();
        if (load(t, file, err) < 0) {
            delete t;
            return -1;
        }
    } catch (const std::exception &) {
        delete t;
        return error_set(err, ERR_NOMEM, "a sentencepiece model");
    }
    *ret = t;
    return 0;
}

int tokenizer_pieces_each(const struct buf *file,
                          int (*use)(void *arg, const struct tokenizer_piece *p,
                                     struct error *err),
                          void *arg, struct error *err)
{
    try {
        sentencepiece::SentencePieceProcessor model;
        if (parse(file, &model, err) < 0)
            return -1;
        for (int id = 0; id < model.GetPieceSize(); id++) {
            struct tokenizer_piece p = {};
            p.id = id;
            p.text = model.IdToPiece(id).c_str();
            p.score = model.GetScore(id);
            p.is_unknown = model.IsUnknown(id);
            p.is_control = model.IsControl(id);
            p.is_unused = model.IsUnused(id);
            p.is_byte = model.IsByte(id);
            if (use(arg, &p, err) < 0)
                return -1;
        }
        return 0;
    } catch (const std::exception &) {
        return error_set(err, ERR_NOMEM, "a sentencepiece model");
    }
}
