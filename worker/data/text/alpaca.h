/* alpaca.h - rows {"instruction", "input", "output"} as text, the words of
 * Stanford's Alpaca.
 *
 * src  https://github.com/tatsu-lab/stanford_alpaca, train.py; torchtune
 *      0.6.1, AlpacaToMessages
 */
#ifndef MGPU_WORKER_DATA_TEXT_ALPACA_H
#define MGPU_WORKER_DATA_TEXT_ALPACA_H

#include <jansson.h>
#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

/* Borrowed of the JSON. */
struct alpaca_row {
    const char *instruction;
    const char *input; /* NULL or "": the instruction has none */
    const char *output;
    size_t output_len; /* without the spaces at its end */
};

/* in   map  other names of the columns
 * err  ERR_INVAL a column is missing, or no text */
int alpaca_row(const json_t *row, const struct spec_map *map,
               struct alpaca_row *ret, struct error *err) MUST_CHECK;

/* Appends the prompt, up to and with "### Response:\n"; the answer follows. */
int alpaca_prompt(const struct alpaca_row *row, struct buf *ret,
                  struct error *err) MUST_CHECK;

#endif
