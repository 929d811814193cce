/* tokenizer.h - text to token ids and back.
 *
 * What the file is decides: a sentencepiece model (Llama 2), a list of ranks as
 * tiktoken has it (tokenizer.model of Llama 3), or HF's tokenizer.json with a
 * BPE of bytes, or of characters with tokens for bytes. Sentencepiece has its
 * own normaliser and its own prefix of a space, tokenizer.json those that it
 * names. The others change nothing in a text: the text of its ids is the text,
 * byte for byte. A tokenizer does not change after it is opened. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_H
#define MGPU_WORKER_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

#ifdef __cplusplus /* for tokenizer_spm.cpp */
extern "C" {
#endif

struct tokenizer;

struct tokenizer_ids {
    int32_t size;          /* ids are 0..size-1 */
    int32_t bos, eos, unk; /* -1: it has no such id */
};

/* The longest text that is merged as a whole. Sentencepiece takes some 200
 * bytes of memory, and a microsecond, for each byte: 0.8 GiB and some seconds.
 * A BPE of characters takes a third of that. */
enum { TOKENIZER_SPM_BYTES = 4 << 20 };

enum tokenizer_flag {
    TOKENIZER_BOS = 1, /* bos before the text, if there is such an id */
    TOKENIZER_EOS = 2, /* eos after it, likewise */
    /* The text goes on after other text, so that its first word begins
     * without the prefix of a space. As torchtune's trim_leading_whitespace:
     * no effect on a model that has no ids for white space. */
    TOKENIZER_GOES_ON = 4,
    /* The text is behind a special token of its row: the prefix is there if
     * the file says so. A sentencepiece model has it always. */
    TOKENIZER_BEHIND = 8
};

/* in   path  a file, or a directory: of tokenizer.model, tokenizer.json and
 *            original/tokenizer.model the first that is there
 * err  ERR_NOTFOUND no such file; ERR_INVAL a file of another kind; ERR_IO,
 *      ERR_NOMEM */
int tokenizer_open(const char *path, struct tokenizer **ret,
                   struct error *err) MUST_CHECK;
/* The same for messages in the chat format of a model: where a directory's file
 * is a sentencepiece model, its tokenizer.json comes first, if there is one. It
 * says how a text behind a special token begins, and transformers reads it. */
int tokenizer_open_chat(const char *path, struct tokenizer **ret,
                        struct error *err) MUST_CHECK;
void tokenizer_close(struct tokenizer *t); /* NULL is fine */

/* Valid until tokenizer_close(). */
const struct tokenizer_ids *tokenizer_ids(const struct tokenizer *t);

/* Whether it knows how a text behind a special token begins. A sentencepiece
 * model does not: each of its texts has the prefix. */
bool tokenizer_knows_behind(const struct tokenizer *t);

/* The id of a special token, such as <|eot_id|>, by its name; -1: it has none.
 * The names are those of the file. Ranks alone have those of Llama 3.1. */
int32_t tokenizer_special(const struct tokenizer *t, const char *name);

/* Appends the ids of the text, int32_t each, to ret. Special ids such as bos
 * are never made of text.
 * in   text   UTF-8
 *      flags  any of enum tokenizer_flag
 * err  ERR_INVAL a byte without a token, which ranks never have, more than
 *      TOKENIZER_SPM_BYTES where merges cross the whole text, or a text that
 *      the file makes more than 16 times as long; ERR_NOMEM
 * cost n log n for n bytes, whatever they are, but for sentencepiece */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                     uint32_t flags, struct buf *ret,
                     struct error *err) MUST_CHECK;

/* The same, but for what is behind the first `most` ids: there may be more, or
 * all of them. Pieces are encoded from left to right and no token crosses one,
 * so that the rest of the text has no part in these ids. Sentencepiece, and a
 * BPE of characters, merge across the whole text, and read it to its end.
 * in   most  0: all
 * err  as above, for what is read */
int tokenizer_encode_some(const struct tokenizer *t, const char *text,
                          size_t len, uint32_t flags, size_t most,
                          struct buf *ret, struct error *err) MUST_CHECK;

/* Appends the text of the ids to ret. Special ids have no text; the prefix of
 * a space is removed.
 * err  ERR_INVAL an id that the tokenizer does not have; ERR_NOMEM */
int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                     struct buf *ret, struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
