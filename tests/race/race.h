/* race.h - a race checker for the emulated lanes.
 *
 * The build compiles kernels with -fsanitize=thread, so that the compiler
 * calls a function for each access to memory. race.cpp is that function, in
 * place of TSan's runtime, which knows no lanes. A race are two accesses to a
 * byte, one of them a write, by two lanes of a block between the same two
 * barriers, or by two blocks of a launch. The emulator runs lanes one after
 * the other, so a result may be right in both orders all the same.
 *
 * Not seen: accesses by code that was compiled without the flag (memcpy and
 * memset of unknown size, whatever the library does). A shuffle orders no
 * memory.
 */
#ifndef MGPU_TESTS_RACE_H
#define MGPU_TESTS_RACE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct race_count {
    uint64_t accesses;
    uint64_t races;  /* each pair of places in the code counts once */
    char first[600]; /* the first race: what, who and where; or "" */
};

/* What has been seen since the last call. */
void race_take(struct race_count *ret);

#ifdef __cplusplus
}
#endif
#endif
