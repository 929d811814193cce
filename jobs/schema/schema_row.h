/* schema_row.h - macros for the rows of a table of keys: see struct schema_key
 * in schema.h. The including file defines AT(), from AT_IN(). */
#ifndef MGPU_JOBS_SCHEMA_SCHEMA_ROW_H
#define MGPU_JOBS_SCHEMA_SCHEMA_ROW_H

#include <stddef.h>

#include "jobs/schema/schema.h"

#define AT_IN(type, m) .at = offsetof(type, m), .size = sizeof(((type *)0)->m)
#define RANGE(lo, hi) .min = (lo), .max = (hi)
#define NONE(v) .null_ok = true, .none_value = (v)
#define WORDS(...)               \
    (const struct schema_word[]) \
    {                            \
        __VA_ARGS__,             \
        {                        \
            .name = NULL         \
        }                        \
    }
#define DEFS(...)               \
    (const struct schema_def[]) \
    {                           \
        __VA_ARGS__,            \
        {                       \
            .def = NULL         \
        }                       \
    }
#define WORD(word, v)                \
    {                                \
        .name = (word), .value = (v) \
    }
#define LATER(word)                   \
    {                                 \
        .name = (word), .later = true \
    }
#define ELSEWHERE(word, where)                              \
    {                                                       \
        .name = (word), .later = true, .elsewhere = (where) \
    }

#endif
