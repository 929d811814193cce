/* argv.c - turn a buf of words into one block of pointers and strings; see
 * argv.h. */
#include "slurm/launch/argv.h"

#include <stdlib.h>
#include <string.h>

int argv_add(struct buf *b, const char *word, struct error *err)
{
    return buf_add(b, word, strlen(word) + 1, err);
}

char **argv_take(struct buf *b, struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\0';
    size_t head = (n + 1) * sizeof(char *);
    char *block = malloc(head + b->len);
    if (!block) {
        buf_clear(b);
        (void)error_set(err, ERR_NOMEM, "%zu strings", n);
        return NULL;
    }
    char **array = (char **)(void *)block;
    char *text = block + head;
    if (b->len > 0)
        memcpy(text, b->data, b->len);
    for (size_t i = 0; i < n; i++) {
        array[i] = text;
        text += strlen(text) + 1;
    }
    array[n] = NULL;
    buf_clear(b);
    return array;
}
