/* text_cut.h - cut a text where Llama 3's tokenizer does before it looks for
 * pieces, so that none is too long: at 400,000 characters, and within a run of
 * more than 25,000 characters that are all white space or all not.
 *
 * Bytes that are no UTF-8 are slices of their own. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_TEXT_CUT_H
#define MGPU_WORKER_DATA_TOKENIZER_TEXT_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_CUT_CHARS = 400000, TEXT_CUT_RUN = 25000 };

struct text_cut {
    const char *at, *end;
    int32_t chars, run; /* since the last cut at 400,000; of one class */
    bool space;         /* the run is white space */
};

struct text_slice {
    const char *at;
    size_t len;
    bool utf8;
};

static inline struct text_cut text_cut_of(const char *text, size_t len)
{
    return (struct text_cut){.at = text, .end = text + len};
}

/* False at the end of the text. */
bool text_cut_next(struct text_cut *c, struct text_slice *ret);

#endif
