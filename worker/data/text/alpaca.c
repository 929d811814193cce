/* alpaca.c - see alpaca.h. */
#include "worker/data/text/alpaca.h"

#include <stdbool.h>
#include <stddef.h>

static const char with_input[] =
    "Below is an instruction that describes a task, paired with an input that "
    "provides further context. Write a response that appropriately completes "
    "the request.\n\n### Instruction:\n";
static const char without_input[] =
    "Below is an instruction that describes a task. Write a response that "
    "appropriately completes the request.\n\n### Instruction:\n";

/* The text is put together piece by piece: a row may hold what looks like a
 * directive of printf(). */
int alpaca_prompt(const char *instruction, const char *input, struct buf *ret,
                  struct error *err)
{
    const bool has = input != NULL && input[0] != '\0';
    const char *const parts[] = {has ? with_input : without_input, instruction,
                                 has ? "\n\n### Input:\n" : "",
                                 has ? input : "", "\n\n### Response:\n"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (buf_addstr(ret, parts[i], err) < 0)
            return -1;
    return 0;
}
