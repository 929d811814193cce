/* alloc_notes.c - a queue of notes in one array; see alloc_notes.h. */
#include "slurm/alloc_notes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int notes_reserve(struct notes *q, size_t more, struct error *err)
{
    size_t need = q->n - q->at + more;
    if (need <= q->cap - q->at)
        return 0;
    struct alloc_note *p = calloc(2 * need, sizeof(*p));
    if (!p)
        return error_set(err, ERR_NOMEM, "queue of %zu notes", 2 * need);
    if (q->n > q->at)
        memcpy(p, q->all + q->at, (q->n - q->at) * sizeof(*p));
    free(q->all);
    *q = (struct notes){.all = p, .n = q->n - q->at, .cap = 2 * need};
    return 0;
}

void notes_push(struct notes *q, const struct alloc_note *note)
{
    assert(q->n < q->cap);
    q->all[q->n++] = *note;
}

size_t notes_take(struct notes *q, struct alloc_note *notes, size_t cap)
{
    size_t n = q->n - q->at < cap ? q->n - q->at : cap;
    if (n > 0)
        memcpy(notes, q->all + q->at, n * sizeof(*notes));
    q->at += n;
    if (q->at == q->n)
        q->at = q->n = 0;
    return n;
}

void notes_clear(struct notes *q)
{
    free(q->all);
    *q = (struct notes){.all = NULL};
}
