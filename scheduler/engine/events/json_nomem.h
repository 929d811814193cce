/* json_nomem.h - whether memory was lacking while JSON was read.
 *
 * The JSON library tells a failed allocation as a mistake in the text, or
 * passes over a byte that it had no room for. Where an event is read, that
 * would make a damaged one of it, or another. So its allocations are watched,
 * each thread's by itself.
 */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_JSON_NOMEM_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_JSON_NOMEM_H

#include <stdbool.h>

#include "jobs/base/error.h"

/* Once, before any other thread uses JSON; again is fine while none does. */
void lack_watch(void);

/* Nothing was lacking so far. */
void lack_forget(void);
/* An allocation of our own, and whether there was room. */
void lack_note(bool is_there);
bool lack_was_there(void);
/* -1: of a text that could not be read.
 * err  ERR_NOMEM memory was lacking; ERR_INVAL, with why, it is damaged */
int lack_refuse(const char *why, struct error *err);

#endif
