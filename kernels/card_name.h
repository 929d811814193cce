/* card_name.h - the name of a GPU, by which its limits are known. */
#ifndef MGPU_KERNELS_CARD_NAME_H
#define MGPU_KERNELS_CARD_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CARD_NAME_CAP = 256 };

/* ret: that of device `index` of device_cuda_create(), "NVIDIA H200".
 * err  as device_cuda_create() */
int device_cuda_card(int32_t index, char ret[CARD_NAME_CAP],
                     struct error *err) MUST_CHECK;

/* A symbol that the plug-in exports: "mgpu_cuda_card". */
typedef int (*device_cuda_card_f)(int32_t index, char ret[CARD_NAME_CAP],
                                  struct error *err);
int mgpu_cuda_card(int32_t index, char ret[CARD_NAME_CAP], struct error *err);

#ifdef __cplusplus
}
#endif
#endif
