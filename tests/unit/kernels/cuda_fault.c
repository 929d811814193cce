/* cuda_fault.c - which of CUDA's errors are a GPU's. */
#include "kernels/cuda_fault.h"

#include <stddef.h>

#include "tests/tap.h"

int main(void)
{
    static const int faults[] = {46, 214, 220, 226, 802, 999};
    /* Success, an invalid value, no memory, no GPU, an illegal address, a
     * launch that fails, too few resources, a misaligned address. */
    static const int others[] = {0, 1, 2, 100, 700, 719, 701, 716};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        ok(cuda_is_fault(faults[i]), "%d is a GPU's", faults[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        ok(!cuda_is_fault(others[i]), "%d is not", others[i]);
    return tap_done();
}
