/* alpaca.c - see alpaca.h. */
#include "worker/data/text/alpaca.h"

#include <stdbool.h>
#include <string.h>

#include "worker/data/rows/row.h"

static const char with_input[] =
    "Below is an instruction that describes a task, paired with an input that "
    "provides further context. Write a response that appropriately completes "
    "the request.\n\n### Instruction:\n";
static const char without_input[] =
    "Below is an instruction that describes a task. Write a response that "
    "appropriately completes the request.\n\n### Instruction:\n";

int alpaca_row(const json_t *row, const struct spec_map *map,
               struct alpaca_row *ret, struct error *err)
{
    struct alpaca_row r;
    if (row_column_text(row, map, "instruction", true, &r.instruction, err) <
            0 ||
        row_column_text(row, map, "input", false, &r.input, err) < 0 ||
        row_column_text(row, map, "output", true, &r.output, err) < 0)
        return -1;
    r.output_len = strlen(r.output);
    while (r.output_len > 0 && r.output[r.output_len - 1] == ' ')
        r.output_len--;
    *ret = r;
    return 0;
}

/* The text is put together piece by piece: a row may hold what looks like a
 * directive of printf(). */
int alpaca_prompt(const struct alpaca_row *row, struct buf *ret,
                  struct error *err)
{
    const bool has = row->input != NULL && row->input[0] != '\0';
    const char *const parts[] = {has ? with_input : without_input,
                                 row->instruction,
                                 has ? "\n\n### Input:\n" : "",
                                 has ? row->input : "", "\n\n### Response:\n"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (buf_addstr(ret, parts[i], err) < 0)
            return -1;
    return 0;
}
