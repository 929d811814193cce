/* crc64.h - CRC-64/XZ (ECMA-182, reflected): finds a damaged file, not a
 * forged one. crc64(0, "123456789", 9) is 0x995dc9bbdf1939fa. */
#ifndef MGPU_WORKER_CHECKPOINT_CRC64_H
#define MGPU_WORKER_CHECKPOINT_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* The sum of what was summed to `crc` and then n bytes; start with 0. */
uint64_t crc64(uint64_t crc, const void *p, size_t n);

#endif
