/* alpaca.h - rows {"instruction", "input", "output"} as text, the words of
 * Stanford's Alpaca.
 *
 * src  https://github.com/tatsu-lab/stanford_alpaca, train.py; torchtune
 *      0.6.1, AlpacaToMessages
 */
#ifndef MGPU_WORKER_DATA_TEXT_ALPACA_H
#define MGPU_WORKER_DATA_TEXT_ALPACA_H

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* Appends the prompt, up to and with "### Response:\n"; the answer follows.
 * in   input  NULL or "": the instruction has none */
int alpaca_prompt(const char *instruction, const char *input, struct buf *ret,
                  struct error *err) MUST_CHECK;

#endif
