/* alloc_notes.h - the queue of an allocator's notes for its caller, in order.
 *
 * Space is reserved when a request is accepted, where the allocator can report
 * that memory is short; pushing a note later cannot fail. */
#ifndef MGPU_SLURM_ALLOC_NOTES_H
#define MGPU_SLURM_ALLOC_NOTES_H

#include "slurm/alloc.h"

struct notes {
    struct alloc_note *all; /* [cap]; those in [at, n) are undelivered */
    size_t at, n, cap;
};

/* Reserves space for `more` notes beyond the undelivered ones. */
int notes_reserve(struct notes *q, size_t more, struct error *err) MUST_CHECK;
void notes_push(struct notes *q, const struct alloc_note *note);
/* Takes up to cap notes, oldest first; returns how many. */
size_t notes_take(struct notes *q, struct alloc_note *notes, size_t cap);
void notes_clear(struct notes *q);

#endif
