/* name_lookup.h - cached lookup of user names and host addresses that never
 * blocks.
 *
 * Both come from services that may hang (LDAP, DNS), so one thread queries
 * them. A caller gets the cached value: the number, or "", until the answer has
 * come. */
#ifndef MGPU_BASE_NAME_LOOKUP_H
#define MGPU_BASE_NAME_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "jobs/base/error.h"

enum {
    NAME_USER_CAP = 256, /* login names have at most 255 bytes */
    NAME_ADDRESS_CAP = 48
};

struct names_conf {
    size_t cached;         /* the oldest entry gives way to a new one */
    double keep_s;         /* then an entry is looked up again */
    double keep_unknown_s; /* the same, of one without an answer */
};

struct names;
int names_create(const struct names_conf *conf, struct names **ret,
                 struct error *err) MUST_CHECK;
/* Leaves it to its thread, which may be inside a call that hangs, and frees it
 * then. NULL is fine. */
void names_release(struct names *n);

/* Readable when answers have come since names_read_fd(). */
int names_fd(const struct names *n);
void names_read_fd(struct names *n);

/* out  ret  the name; the number: unknown (so far)
 * ret  the seconds for which it is being looked up, first or anew; INFINITY: it
 *      is not */
double names_user(struct names *n, uid_t uid, char ret[NAME_USER_CAP]);
/* out  ret  numeric; "" unknown (so far) */
void names_address(struct names *n, const char *host,
                   char ret[NAME_ADDRESS_CAP]);

#endif
