/* secrets_file.h - the values of `secrets`, which no specification holds.
 *
 * A job names variables; the value of NAME is the content of the file
 * $HOME/.config/mgpu/secrets/NAME of its user, read by the job's own processes
 * on the nodes where they run. Daemon, databases, launch files and arguments
 * know the name alone.
 */
#ifndef MGPU_JOBS_SPEC_SECRETS_FILE_H
#define MGPU_JOBS_SPEC_SECRETS_FILE_H

#include <stdbool.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

#define SECRET_DIR ".config/mgpu/secrets"

/* All of them fit, with the rest, into the 2 MiB that Linux gives to the
 * arguments and the environment of a program. */
enum {
    SECRETS_MAX = 32,
    SECRET_NAME_MAX = 64,     /* bytes of a name */
    SECRET_MAX_BYTES = 32768, /* of a value */
};

/* Whether secrets_read() would take the file; reads nothing of it.
 *
 * in   home  absolute; NULL: that of our user, by $HOME or the system
 * err  ERR_NOTFOUND no such file; ERR_DENIED it is no plain file of our user
 *      that nobody else may read or write, or cannot be opened */
int secret_look(const char *name, const char *home,
                struct error *err) MUST_CHECK;

/* The values of all names, or none. A newline at the end of a file is not of
 * its value.
 *
 * err  as secret_look(); ERR_INVAL empty, or with a NUL; ERR_LIMIT too long;
 *      it names the file, and never says what is in it
 * own  *ret: secrets_clear() */
int secrets_read(const struct spec_list *names, const char *home,
                 struct spec_map *ret, struct error *err) MUST_CHECK;
void secrets_clear(struct spec_map *m); /* overwrites; zeroed is fine */

/* Whether it is a variable of env whose value an older daemon sealed: a name
 * that sounds secret, and this before the value. Nobody can read it any more.
 */
#define SECRET_SEALED "sealed:1:"
bool secret_is_sealed(const char *name, const char *value);

#endif
