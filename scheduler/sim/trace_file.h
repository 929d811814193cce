/* trace_file.h - load a trace from a file of any format. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_FILE_H
#define MGPU_SCHEDULER_SIM_TRACE_FILE_H

#include "scheduler/sim/trace/sim_trace.h"

enum trace_format {
    TRACE_CSV,
    TRACE_MGPU,
    TRACE_POLLUX,
    TRACE_GAVEL,
    TRACE_SACCT,
    TRACE_SWF
};
/* NULL past the last one. */
const char *trace_file_format_name(enum trace_format f);

/* Opens the file, reads it, sorts the jobs.
 * in   procs_per_gpu  of swf
 * err  ERR_INVAL a finding, or no job */
int trace_file_load(enum trace_format f, const char *file,
                    int32_t procs_per_gpu, struct sim_trace *ret,
                    struct error *err) MUST_CHECK;

#endif
