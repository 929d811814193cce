/* json_nomem.c - note failed allocations of the JSON library per thread; see
 * json_nomem.h.
 */
#include "scheduler/engine/events/json_nomem.h"

#include <jansson.h>
#include <stdlib.h>

static _Thread_local bool was_there;

static void *allocate(size_t n)
{
    void *p = malloc(n);
    lack_note(p != NULL);
    return p;
}

void lack_watch(void)
{
    json_set_alloc_funcs(allocate, free);
}

void lack_forget(void)
{
    was_there = false;
}

void lack_note(bool is_there)
{
    was_there = was_there || !is_there;
}

bool lack_was_there(void)
{
    return was_there;
}

int lack_refuse(const char *why, struct error *err)
{
    return lack_was_there() ? error_set(err, ERR_NOMEM, "out of memory")
                            : error_set(err, ERR_INVAL, "%s", why);
}
