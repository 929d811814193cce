/* scalar.h - parse and format scalars: numbers, durations, sizes.
 *
 * The key decides a scalar's type, never its look, so "3e-4" and 3e-4 are the
 * same number and `no` is a valid name. The grammars are closed: ASCII digits,
 * no thousands separators, no hexadecimal, no nan and no infinity. */
#ifndef MGPU_JOBS_TEXT_SCALAR_H
#define MGPU_JOBS_TEXT_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

/* -1 if s is not one; *ret is then untouched. No message: the caller knows the
 * key. */
int scalar_int(const char *s, int64_t *ret);
int scalar_float(const char *s, double *ret); /* too large: infinity */
int scalar_bool(const char *s, bool *ret);

/* Like parse_duration() and parse_size() of spec.h, with the hint separate from
 * the message; hint is "" if there is none. */
enum { SCALAR_HINT_CAP = 120 };
int scalar_duration(const char *s, double *ret_s, char hint[SCALAR_HINT_CAP],
                    struct error *err) MUST_CHECK;
int scalar_size(const char *s, int64_t *ret_bytes, char hint[SCALAR_HINT_CAP],
                struct error *err) MUST_CHECK;

/* Formats that the functions above parse back to the same value. */
enum { SCALAR_CAP = 32 };
const char *scalar_show_float(char out[SCALAR_CAP], double v);
const char *scalar_show_duration(char out[SCALAR_CAP], double s);
const char *scalar_show_size(char out[SCALAR_CAP], int64_t bytes);
/* "40G..", "40G..80G", "40G"; "" when both are 0. */
enum { SCALAR_SIZES_CAP = 48 };
const char *scalar_show_sizes(char out[SCALAR_SIZES_CAP], int64_t min,
                              int64_t max);

#endif
