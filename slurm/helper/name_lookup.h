/* name_lookup.h - cached lookup of user names and host addresses that never
 * blocks.
 *
 * Both come from services that may hang (LDAP, DNS), so one thread queries
 * them. A caller gets the cached value: the number, or "", until the answer has
 * come. */
#ifndef MGPU_SLURM_HELPER_NAME_LOOKUP_H
#define MGPU_SLURM_HELPER_NAME_LOOKUP_H

#include <stdbool.h>
#include <sys/types.h>

#include "jobs/base/error.h"

enum { NAME_USER_CAP = 64, NAME_ADDRESS_CAP = 48 };

struct names;
/* Never destroyed: its thread may be inside a call that hangs. */
int names_create(struct names **ret, struct error *err) MUST_CHECK;

void names_user(struct names *n, uid_t uid, char ret[NAME_USER_CAP]);
/* out  ret  numeric; "" unknown (so far) */
void names_address(struct names *n, const char *host,
                   char ret[NAME_ADDRESS_CAP]);

#endif
