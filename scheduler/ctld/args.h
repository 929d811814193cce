/* args.h - the command line of mgpu-ctld, as one table. */
#ifndef MGPU_CTLD_ARGS_H
#define MGPU_CTLD_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct args {
    bool local, background, checks_config; /* the last: check_config is set */
    const char *config, *check_config, *fsck, *state_dir, *socket; /* or NULL */
    int32_t slots; /* -1: not given */
};

enum { ARGS_RUN = 0, ARGS_DONE = 1 };

/* returns ARGS_RUN, or ARGS_DONE after --help or --version (printed), or -1
 * err  ERR_USAGE */
int args_parse(int argc, char **argv, struct args *ret,
               struct error *err) MUST_CHECK;

#endif
