/* args.h - the command line of mgpu-worker. */
#ifndef MGPU_WORKER_ARGS_H
#define MGPU_WORKER_ARGS_H

#include <stdbool.h>

struct args {
    const char *launch, *standalone, *dir; /* borrowed; NULL: not there */
    bool is_alone;    /* no launcher has started other ranks */
    bool program_mpi; /* the program is the MPI process, and not this one */
    int device;       /* an enum spec_device, or -1: as the job says */
};

/* Says what is wrong, or what was asked for.
 * out  *ret   untouched unless it returns -1
 * Returns -1: go on; otherwise the exit status. */
int args_parse(int argc, char **argv, struct args *ret);

#endif
