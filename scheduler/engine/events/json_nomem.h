/* json_nomem.h - detect that memory ran out while JSON was read.
 *
 * The JSON library reports a failed allocation as a syntax error, or skips a
 * byte for which it had no room. For an event that would mean a damaged or a
 * different event. So this file watches the library's allocations, for each
 * thread separately.
 */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_JSON_NOMEM_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_JSON_NOMEM_H

#include <stdbool.h>

#include "jobs/base/error.h"

/* Call it before any other thread uses JSON; a repeated call is harmless while
 * no other thread does. */
void nomem_watch(void);

/* Forgets the failures so far. */
void nomem_forget(void);
/* Notes the outcome of an allocation of our own. */
void nomem_note(bool is_there);
bool nomem_was_there(void);
/* Returns -1: the error for a text that could not be read.
 * err  ERR_NOMEM memory ran out; ERR_INVAL, with why, the text is damaged */
int nomem_refuse(const char *why, struct error *err);

#endif
