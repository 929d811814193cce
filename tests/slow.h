/* slow.h - sanitizers make arithmetic ten times as slow.
 *
 * They look at which memory is touched, not at the values: where a test does
 * the same over and over for its numbers' sake, once is enough for them.
 */
#ifndef MGPU_TESTS_SLOW_H
#define MGPU_TESTS_SLOW_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_slow = true;
#else
static const bool is_slow = false;
#endif

#endif
