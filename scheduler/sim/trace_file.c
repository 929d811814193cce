/* trace_file.c - see trace_file.h. */
#include "scheduler/sim/trace_file.h"

#include <stdio.h>
#include <string.h>

/* NULL: swf, which needs the number of processors. */
static const struct {
    const char *name;
    int (*read)(struct lines *l, struct sim_trace *t, struct error *err);
} formats[] = {
    [TRACE_CSV] = {"csv", csv_trace_read},
    [TRACE_MGPU] = {"mgpu", mgpu_trace_read},
    [TRACE_POLLUX] = {"pollux", pollux_trace_read},
    [TRACE_GAVEL] = {"gavel", gavel_trace_read},
    [TRACE_SACCT] = {"sacct", sacct_trace_read},
    [TRACE_SWF] = {"swf", NULL},
};

const char *trace_file_format_name(enum trace_format f)
{
    size_t n = sizeof(formats) / sizeof(formats[0]);
    return (size_t)f < n ? formats[f].name : NULL;
}

int trace_file_load(enum trace_format f, const char *file,
                    int32_t procs_per_gpu, struct sim_trace *ret,
                    struct error *err)
{
    struct sim_trace t = {.n = 0};
    struct lines l;
    const char *slash = strrchr(file, '/');

    if (lines_open(&l, file, err) < 0)
        return -1;
    (void)snprintf(t.name, sizeof(t.name), "%s", slash ? slash + 1 : file);
    int rc = formats[f].read ? formats[f].read(&l, &t, err)
                             : swf_trace_read(&l, procs_per_gpu, &t, err);
    if (rc == 0 && t.n == 0)
        rc = t.findings.len > 0 ? error_set(err, ERR_INVAL,
                                            "%s: no job; the first bad lines:"
                                            "\n%s",
                                            file, buf_str(&t.findings))
                                : error_set(err, ERR_INVAL, "%s: no job", file);
    if (rc == 0)
        rc = sim_trace_sort(&t, err);
    lines_clear(&l);
    if (rc < 0)
        sim_trace_clear(&t);
    else
        *ret = t;
    return rc;
}
