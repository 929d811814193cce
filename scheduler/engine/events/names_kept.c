/* names_kept.c - see names_kept.h.
 *
 * An update may change the partition and the account of a job. The names of the
 * submit are in one block with other texts, to which copies of the job point;
 * so a new name does not replace an old one in memory.
 */
#include "scheduler/engine/events/names_kept.h"

#include <stdlib.h>
#include <string.h>

static struct name_kept *make(const char *name)
{
    size_t len = strlen(name) + 1;
    struct name_kept *k = malloc(sizeof(*k) + len);

    if (k)
        memcpy(k->text, name, len);
    return k;
}

int names_kept_set(struct name_kept **io, const char *name,
                   const char **io_name, struct error *err)
{
    if (name[0] == '\0')
        return 0;
    struct name_kept *k = make(name);
    if (!k)
        return error_set(err, ERR_NOMEM, "out of memory");
    k->older = *io;
    *io = k;
    *io_name = k->text;
    return 0;
}

void names_kept_drop(struct name_kept **io, const struct name_kept *until)
{
    while (*io != until) {
        struct name_kept *k = *io;
        *io = k->older;
        free(k);
    }
}
