/* secrets_file.h - read the values of `secrets` from the user's files.
 *
 * A specification only has names; the value of NAME is the content of the file
 * $HOME/.config/mgpu/secrets/NAME of its user, which the job's own processes
 * read on the nodes where they run. Daemon, databases, launch files and
 * arguments never contain the value. */
#ifndef MGPU_JOBS_SPEC_SECRETS_FILE_H
#define MGPU_JOBS_SPEC_SECRETS_FILE_H

#include <stdbool.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

#define SECRET_DIR ".config/mgpu/secrets"

/* All of them fit, with the other variables, into the 2 MiB that Linux allows
 * for the arguments and the environment of a program. */
enum {
    SECRETS_MAX = 32,
    SECRET_NAME_MAX = 64,     /* bytes of a name */
    SECRET_MAX_BYTES = 32768, /* of a value */
};

/* Whether secrets_read() would accept the file; does not read its contents.
 *
 * in   home  absolute; NULL: that of our user, from $HOME or the system
 * err  ERR_NOTFOUND no such file; ERR_DENIED not a regular file of our user, or
 *      others may read or write it, or it cannot be opened */
int secret_look(const char *name, const char *home,
                struct error *err) MUST_CHECK;

/* Reads the values of all names, or none. A newline at the end of a file is not
 * a part of its value.
 *
 * err  as secret_look(); ERR_INVAL empty, or with a NUL; ERR_LIMIT too long;
 *      the message names the file, but does not quote it
 * own  *ret: secrets_clear() */
int secrets_read(const struct spec_list *names, const char *home,
                 struct spec_map *ret, struct error *err) MUST_CHECK;
void secrets_clear(struct spec_map *m); /* overwrites the values; no effect
                                         * on a zeroed map */

#endif
