/* digits.h - read a number that is written in digits alone. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_DIGITS_H
#define MGPU_SCHEDULER_SIM_TRACE_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the digits at *at, and moves *at behind them. False, with both as they
 * were: there is no digit, or the number is larger than most. */
static inline bool digits_take(const char **at, int32_t most, int32_t *ret)
{
    const char *p = *at;
    int64_t n = 0;
    while (*p >= '0' && *p <= '9' && n <= most)
        n = 10 * n + (*p++ - '0');
    if (p == *at || n > most)
        return false;
    *at = p;
    *ret = (int32_t)n;
    return true;
}

#endif
