/* text_steps.h - how a text is changed before it is cut into pieces: what HF
 * calls normalizers, and the part of Metaspace that changes text. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_TEXT_STEPS_H
#define MGPU_WORKER_DATA_TOKENIZER_TEXT_STEPS_H

#include <stdbool.h>

#include "jobs/base/buf.h"

/* Bytes of a step's texts, and steps. All steps together make at most
 * TEXT_STEP_BYTES * (n + TEXT_STEPS) bytes of n, what one step that replaces
 * can make, or all that put text before it; so no file makes a long text of a
 * short one. */
enum { TEXT_STEP_BYTES = 16, TEXT_STEPS = 8 };

enum text_step_kind {
    TEXT_NFC, /* Unicode's normalization form C */
    TEXT_PREPEND /* `to` before a text that is not empty */,
    TEXT_REPLACE /* each `from` becomes `to` */
};

struct text_step {
    enum text_step_kind kind;
    char from[TEXT_STEP_BYTES + 1], to[TEXT_STEP_BYTES + 1];
    /* Of TEXT_PREPEND: only before a whole text, not behind a special token;
     * and not before a text that begins so. */
    bool first, unless_there;
};

/* Zeroed: none, and the text stays as it is. */
struct text_steps {
    struct text_step step[TEXT_STEPS];
    int n;
};

/* Where a text stands. */
enum text_place {
    TEXT_BEGINS,  /* it is a whole text, or its beginning */
    TEXT_BEHIND,  /* behind a special token */
    TEXT_GOES_ON, /* behind other text: nothing is put before it */
};

/* Puts the text that the steps make into one of two buffers, or returns the
 * text itself where none changes it. Bytes that are no UTF-8 stay.
 * out  ret, ret_len  valid as long as text and both buffers
 * err  ERR_INVAL the text becomes longer than that; ERR_NOMEM */
int text_steps_apply(const struct text_steps *s, const char *text, size_t len,
                     enum text_place place, struct buf work[2],
                     const char **ret, size_t *ret_len,
                     struct error *err) MUST_CHECK;

#endif
