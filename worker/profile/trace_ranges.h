/* trace_ranges.h - mark the phases of an iteration for tools like Nsight
 * Systems.
 *
 * NVTX: its header looks for a tool when the first range begins
 * ($NVTX_INJECTION64_PATH, which such a tool sets) and does nothing without
 * one; a range then costs a few nanoseconds. Of one thread, nested.
 */
#ifndef MGPU_WORKER_PROFILE_TRACE_RANGES_H
#define MGPU_WORKER_PROFILE_TRACE_RANGES_H

void range_begin(const char *name);
void range_end(void);

#endif
