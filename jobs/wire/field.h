/* field.h - the fields of an object of the daemon's; absent and null have the
 * given default. */
#ifndef MGPU_JOBS_WIRE_FIELD_H
#define MGPU_JOBS_WIRE_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

double field_real(const json_t *o, const char *key); /* NAN if absent */
int64_t field_int(const json_t *o, const char *key, int64_t absent);
const char *field_str(const json_t *o, const char *key); /* "" if absent */
/* For a node: how many GPUs of a type, and in ret_from the index of the first.
 * Absurdly large numbers are cut. */
int64_t field_gpus(const json_t *node, int64_t *ret_from);
/* RFC 3339 in UTC, as the daemon writes it, in seconds since 1970; NAN if
 * absent. */
double field_time(const json_t *o, const char *key);
bool field_yes(const json_t *o, const char *key);
/* "key=value, ..." of an object, without the key `without` (NULL: all); values
 * as JSON, except strings. NULL: out of memory.
 * own  the caller frees it */
char *field_pairs(const json_t *o, const char *without);

#endif
