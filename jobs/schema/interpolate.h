/* interpolate.h - substitution of ${name} in texts of a job specification.
 *
 * There are six names. Values are inserted literally and not evaluated again:
 * not as YAML, not for another ${, and by no shell of ours. Before a brace,
 * several dollars lose one instead: "$${HOME}" is "${HOME}". Only the value
 * output_dir may contain names itself, so substitution nests two levels deep at
 * most. */
#ifndef MGPU_JOBS_SCHEMA_INTERPOLATE_H
#define MGPU_JOBS_SCHEMA_INTERPOLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* When a text is substituted, which determines the available names. */
enum fill_when {
    FILL_NONE,   /* never: ${ is refused in it */
    FILL_SUBMIT, /* at the submit: name and user */
    FILL_START,  /* at the start of an attempt: all of them */
    FILL_OUTPUT, /* likewise; output_dir itself */
};

struct fill_vars {
    const char *name, *user; /* NULL: unknown */
    const char *output_dir;  /* absolute; of FILL_START */
    uint64_t job;
    int32_t task, attempt;
};

enum { FILL_MAX_BYTES = 65536, FILL_HINT_CAP = 200 };

/* Whether all names in the text are allowed.
 *
 * out  hint  what to write instead
 * err  ERR_INVAL an unknown name, or one that is not available then; no '}'; a
 *      text that could be longer than FILL_MAX_BYTES */
int interpolate_check(const char *text, enum fill_when when,
                      char hint[FILL_HINT_CAP], struct error *err) MUST_CHECK;

/* Appends the substituted text; with FILL_NONE the text itself.
 * err  ERR_INVAL as above, or a value is unknown or not allowed; ERR_NOMEM; out
 *      may have a part of it */
int interpolate_text(const char *text, enum fill_when when,
                     const struct fill_vars *v, struct buf *out,
                     struct error *err) MUST_CHECK;

/* Whether the text contains that name. */
bool interpolate_has(const char *text, const char *name);

/* Whether it begins with output_dir, and so is an absolute path. */
bool interpolate_is_below_output(const char *path);

/* Whether a user name may be inserted: it must remain one component of a
 * path. */
bool interpolate_is_user(const char *user);

/* The name of our own user, or the number. */
enum { FILL_USER_CAP = 64 };
const char *interpolate_own_user(char out[FILL_USER_CAP]);

#endif
