/* faulty.h - kernels with one race each, or with none. */
#ifndef MGPU_TESTS_RACE_FAULTY_H
#define MGPU_TESTS_RACE_FAULTY_H

#ifdef __cplusplus
extern "C" {
#endif

enum race_fault {
    RACE_NONE,
    RACE_BARRIER,
    RACE_READS,
    RACE_BYTES,
    RACE_SHARED,
    RACE_LAUNCHES,
    RACE_READ_AFTER_WRITE,
    RACE_WRITE_AFTER_READ,
    RACE_WRITE_AFTER_READS,
    RACE_SAME_VALUE,
    RACE_SHUFFLE,
    RACE_BLOCKS_WRITE,
    RACE_BLOCK_READS,
    RACE_BLOCK_WRITES,
};

/* Launches the kernel of this fault, on two blocks of 64 lanes. */
void race_try(enum race_fault fault);

#ifdef __cplusplus
}
#endif
#endif
