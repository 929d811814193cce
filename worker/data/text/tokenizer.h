/* tokenizer.h - text to token ids and back, by a sentencepiece model.
 *
 * The file is that of Llama 2: tokenizer.model, with its own normaliser and
 * its own prefix of a space. A tokenizer does not change after it is opened.
 */
#ifndef MGPU_WORKER_DATA_TEXT_TOKENIZER_H
#define MGPU_WORKER_DATA_TEXT_TOKENIZER_H

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

enum tokenizer_flag {
    TOKENIZER_BOS = 1, /* bos before the text, if there is such an id */
    TOKENIZER_EOS = 2, /* eos after it, likewise */
    /* The text goes on after other text, so that its first word begins
     * without the prefix of a space. As torchtune's trim_leading_whitespace:
     * no effect on a model that has no ids for white space. */
    TOKENIZER_GOES_ON = 4
};

/* in   path  a file, or a directory with a tokenizer.model
 * err  ERR_NOTFOUND no such file; ERR_INVAL not a sentencepiece model; ERR_IO,
 *      ERR_NOMEM */
int tokenizer_open(const char *path, struct tokenizer **ret,
                   struct error *err) MUST_CHECK;
void tokenizer_close(struct tokenizer *t); /* NULL is fine */

/* Valid until tokenizer_close(). */
const struct tokenizer_ids *tokenizer_ids(const struct tokenizer *t);

/* Appends the ids of the text, int32_t each, to ret. Ids such as bos are never
 * made of text.
 * in   text   UTF-8
 *      flags  any of enum tokenizer_flag */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                     uint32_t flags, struct buf *ret,
                     struct error *err) MUST_CHECK;

/* Appends the text of the ids to ret. bos and eos have no text; the prefix of
 * a space is removed.
 * err  ERR_INVAL an id that the tokenizer does not have; ERR_NOMEM */
int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                     struct buf *ret, struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
