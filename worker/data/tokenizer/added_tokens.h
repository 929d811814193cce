/* added_tokens.h - tokens that are found in a text before it is cut into
 * pieces: added_tokens of tokenizer.json that are not special, such as
 * <tool_call>.
 *
 * Special ones are here as well, because a text where one stands has no other
 * token there; but no text becomes them. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_ADDED_TOKENS_H
#define MGPU_WORKER_DATA_TOKENIZER_ADDED_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"

enum { ADDED_TOKEN_BYTES = 256 };

struct added_token {
    char *text; /* owned */
    uint32_t len;
    int32_t id;
    bool special;
    bool single_word;    /* only where no word goes on */
    bool lstrip, rstrip; /* white space before, after it is a part of it */
};

/* Zeroed: none. */
struct added_tokens {
    struct buf list;  /* struct added_token, by rising texts once sorted */
    uint32_t of[257]; /* tokens that begin with byte b: [of[b], of[b + 1]) */
    bool any;         /* one is not special */
};

void added_tokens_clear(struct added_tokens *a);

/* added_tokens_sort() has to follow the last.
 * in   t    but for its text and length
 *      len  1 to ADDED_TOKEN_BYTES
 * err  ERR_INVAL no such length; ERR_NOMEM */
int added_tokens_put(struct added_tokens *a, struct added_token t,
                     const char *text, size_t len,
                     struct error *err) MUST_CHECK;
void added_tokens_sort(struct added_tokens *a);

/* A token in a text: bytes [from, to). */
struct added_find {
    size_t at, look; /* zeroed at first: the end of the last; where to look */
    size_t from, to;
    int32_t id;
};

/* The next token from left to right, of several the longest. False: none
 * follows.
 * cost  each byte of the text up to ADDED_TOKEN_BYTES times the logarithm of
 *       the number of tokens */
bool added_tokens_next(const struct added_tokens *a, const char *text,
                       size_t len, struct added_find *io);

#endif
