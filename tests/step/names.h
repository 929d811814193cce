/* names.h - the name of a kernel from its address, as the program's own table
 * of symbols has it: kernels are static functions, which dladdr() does not
 * know. */
#ifndef MGPU_TESTS_STEP_NAMES_H
#define MGPU_TESTS_STEP_NAMES_H

#include "jobs/base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the table. The program is linked at fixed addresses (-no-pie).
 * err  ERR_IO there is none, or it cannot be read */
int names_open(struct error *err) MUST_CHECK;

/* "norm_rows<bf16,8>"; "?" for what is no function. Valid for the process. */
const char *names_find(const void *function);

#ifdef __cplusplus
}
#endif
#endif
