/* llm_parts.h - where the time of a step of a Llama goes. */
#ifndef MGPU_TESTS_BENCH_LLM_PARTS_H
#define MGPU_TESTS_BENCH_LLM_PARTS_H

#include "kernels/device.h"

/* From now on the operations of d, one device of the host, are timed one by
 * one: CPU time of the calling thread.
 * in   vocab  tells the output layer's products from others, as does
 *      lows   the most columns that adapters between their A and B have; 0:
 *             there are none */
void llm_parts_begin(struct device *d, int32_t vocab, int32_t lows);
/* Around a step. Of each call the fastest over the steps counts. */
void llm_parts_step_begin(void);
void llm_parts_step_end(void);
/* Prints a line for each part and for each shape of product, beside what the
 * machine allows that many threads, and an empty line; d is as it was. */
void llm_parts_end(struct device *d, int32_t threads);

#endif
