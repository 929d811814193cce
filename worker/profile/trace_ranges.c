/* trace_ranges.c - a build without NVTX's header: marks nothing. */
#include "worker/profile/trace_ranges.h"

#if !HAVE_NVTX
void range_begin(const char *name)
{
    (void)name;
}

void range_end(void)
{
}
#endif
