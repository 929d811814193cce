/* unicode_text.h - what a tokenizer asks of Unicode beside its classes, which
 * are PCRE2's: form C and words. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_UNICODE_TEXT_H
#define MGPU_WORKER_DATA_TOKENIZER_UNICODE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"

/* Appends the text in form C (NFC). Bytes that are no UTF-8 stay.
 * err  ERR_NOMEM
 * cost n for n bytes */
int unicode_compose(const char *text, size_t len, struct buf *ret,
                    struct error *err) MUST_CHECK;

/* \w of Unicode (UTS 18, annex C): alphabetic, a mark, a decimal digit, a
 * connector, a joiner. */
bool unicode_is_word(int32_t c);

#endif
