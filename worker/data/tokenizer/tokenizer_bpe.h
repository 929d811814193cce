/* tokenizer_bpe.h - a tokenizer that merges bytes or characters: its parts,
 * which the readers of files fill, and how it is made of them. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_BPE_H
#define MGPU_WORKER_DATA_TOKENIZER_BPE_H

#include <stdbool.h>

#include "worker/data/tokenizer/added_tokens.h"
#include "worker/data/tokenizer/bpe_vocab.h"
#include "worker/data/tokenizer/text_steps.h"
#include "worker/data/tokenizer/tokenizer.h"

struct bpe_special {
    char *name; /* owned */
    int32_t id;
    bool shown; /* it has its name as text */
};

enum { BPE_PATTERNS = 8 };

/* What is done to a text, in this order. Zeroed: empty. */
struct bpe_parts {
    struct added_tokens raw;    /* found in the text as it is */
    struct text_steps normal;   /* change what is between them */
    struct added_tokens formed; /* found in what has been changed */
    struct text_steps marks;    /* change what is between these */
    /* Each cuts the pieces of the one before it; owned. */
    char *pattern[BPE_PATTERNS];
    int patterns;
    bool whole; /* a piece that is a token is not merged */
    struct bpe_vocab vocab;
    /* Merges begin with characters, not with bytes. A character without a
     * token is as many of these as it has bytes. */
    bool chars;
    int32_t byte_id[256];
    char
        gap[TEXT_STEP_BYTES + 1]; /* a space, in the texts of tokens; "": ' ' */
    bool strips;        /* a space before the text of ids is none of it */
    struct buf special; /* struct bpe_special; by rising ids once sorted */
    struct buf names;   /* uint32_t: which of them, by rising names */
};

void bpe_parts_clear(struct bpe_parts *p);

/* err  ERR_INVAL more than BPE_PATTERNS; ERR_NOMEM */
int bpe_parts_add_pattern(struct bpe_parts *p, const char *pattern,
                          struct error *err) MUST_CHECK;
/* bpe_parts_sort_special() has to follow the last.
 * in   id  at most BPE_IDS_MAX - 1
 * err  ERR_NOMEM */
int bpe_parts_add_special(struct bpe_parts *p, const char *name, int32_t id,
                          bool shown, struct error *err) MUST_CHECK;
/* Sorted and not hashed: names come from a file, whose author could make all of
 * them collide.
 * err  ERR_INVAL two have an id or a name in common; ERR_NOMEM
 * cost n log n */
int bpe_parts_sort_special(struct bpe_parts *p, struct error *err) MUST_CHECK;
/* NULL: none. Of sorted parts. */
const struct bpe_special *bpe_parts_special(const struct bpe_parts *p,
                                            int32_t id);

/* Takes the parts, which are empty afterwards, unless it fails.
 * err  ERR_INVAL the pattern is not read; ERR_NOMEM */
int tokenizer_bpe_open(struct bpe_parts *parts, struct tokenizer **ret,
                       struct error *err) MUST_CHECK;

/* ---- readers of files --------------------------------------------------- */

/* Whether the file is a list of ranks: by its first line. */
bool tokenizer_is_ranks(const struct buf *file);

/* Lines of a token in base64 and its rank, which is its id: tokenizer.model of
 * Llama 3. The parts have no special tokens after it.
 * err  ERR_INVAL with the line */
int tokenizer_ranks_read(const struct buf *file, struct bpe_parts *ret,
                         struct error *err) MUST_CHECK;
/* The special tokens of Llama 3, whose ids follow the ranks. */
int tokenizer_ranks_special(struct bpe_parts *p, struct error *err) MUST_CHECK;

/* Whether the file is JSON: by its first character. */
bool tokenizer_is_json(const struct buf *file);

/* tokenizer.json of HF tokenizers.
 * err  ERR_INVAL what is not read, and what is */
int tokenizer_json_read(const struct buf *file, struct bpe_parts *ret,
                        struct error *err) MUST_CHECK;
/* Reads the special tokens alone. */
int tokenizer_json_special(const struct buf *file, struct bpe_parts *ret,
                           struct error *err) MUST_CHECK;

#endif
