/* trace_ranges_nvtx.c - see trace_ranges.h. The header is all there is of NVTX.
 */
#include <nvtx3/nvToolsExt.h>

#include "worker/profile/trace_ranges.h"

void range_begin(const char *name)
{
    (void)nvtxRangePushA(name); /* the depth, which is not needed */
}

void range_end(void)
{
    (void)nvtxRangePop();
}
