/* interpolate.h - ${name} in a text of a job specification.
 *
 * Six names and no more. Values are put into the text as they are and never
 * read again: not as YAML, not for another ${, and by no shell of ours. Of
 * several dollars before a brace one is taken away instead: "$${HOME}" is
 * "${HOME}". The one value that may have names in it itself is output_dir,
 * so none leads further than to a second.
 */
#ifndef MGPU_JOBS_SCHEMA_INTERPOLATE_H
#define MGPU_JOBS_SCHEMA_INTERPOLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* When a text is filled, which is what can be known by then. */
enum fill_when {
    FILL_NONE,   /* never: ${ is refused in it */
    FILL_SUBMIT, /* when the job is taken: name and user */
    FILL_START,  /* when an attempt starts: all of them */
    FILL_OUTPUT, /* then, too; it is output_dir itself */
};

struct fill_vars {
    const char *name, *user; /* NULL: not known */
    const char *output_dir;  /* absolute; of FILL_START */
    uint64_t job;
    int32_t task, attempt;
};

enum { FILL_MAX_BYTES = 65536, FILL_HINT_CAP = 200 };

/* Whether all names in the text may be there.
 *
 * out  hint  what to write instead
 * err  ERR_INVAL one that is none, or is not known by then; no '}'; a text
 *      that could be over FILL_MAX_BYTES long */
int fill_check(const char *text, enum fill_when when, char hint[FILL_HINT_CAP],
               struct error *err) MUST_CHECK;

/* Appends what the text becomes; of FILL_NONE the text itself.
 * err  ERR_INVAL as above, or a value is not known or none that may be put in;
 *      ERR_NOMEM; out may have a part of it */
int fill_text(const char *text, enum fill_when when, const struct fill_vars *v,
              struct buf *out, struct error *err) MUST_CHECK;

/* Whether the text has that name in it. */
bool fill_has(const char *text, const char *name);

/* Whether it begins with output_dir, and so is a whole path. */
bool fill_is_below_output(const char *path);

/* Whether a user of that name may be put in: it stays one step of a path. */
bool fill_is_user(const char *user);

/* The name of the user that we run as, or the number. */
enum { FILL_USER_CAP = 64 };
const char *fill_own_user(char out[FILL_USER_CAP]);

#endif
