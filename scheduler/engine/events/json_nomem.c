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
    nomem_note(p != NULL);
    return p;
}

void nomem_watch(void)
{
    json_set_alloc_funcs(allocate, free);
}

void nomem_forget(void)
{
    was_there = false;
}

void nomem_note(bool is_there)
{
    was_there = was_there || !is_there;
}

bool nomem_was_there(void)
{
    return was_there;
}

int nomem_refuse(const char *why, struct error *err)
{
    return nomem_was_there() ? error_set(err, ERR_NOMEM, "out of memory")
                             : error_set(err, ERR_INVAL, "%s", why);
}
