/* cancel_own.c - which scancel is run, and what becomes of one that fails. */
#include "slurm/batch/cancel_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static const char *program(const char *srun)
{
    static char at[100];
    cancel_own_program(srun, at, sizeof(at));
    return at;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0 || chmod(path, 0700) < 0)
        exit(1);
}

int main(void)
{
    char dir[] = "/tmp/mgpu-cancel.XXXXXX", srun[64], scancel[64], said[64];
    struct error err = ERROR_INIT;
    struct stat st;
    is_str(program(NULL), "scancel", "of an unknown srun: on PATH");
    is_str(program("srun"), "scancel", "of one on PATH: on PATH");
    is_str(program("/opt/slurm/bin/srun"), "/opt/slurm/bin/scancel",
           "of one with a path: beside it");
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(srun, sizeof(srun), "%s/srun", dir);
    (void)snprintf(scancel, sizeof(scancel), "%s/scancel", dir);
    (void)snprintf(said, sizeof(said), "%s/7", dir);
    is_int(cancel_own(srun, "7", &err), -1, "there is none");
    put(scancel, "#!/bin/sh\n[ \"$1\" = --quiet ] && : >\"${0%/*}/$2\"\n");
    is_int(cancel_own(srun, "7", &err), 0, "it is run");
    is_int(stat(said, &st), 0, "with the job's number");
    put(scancel, "#!/bin/sh\nexit 3\n");
    is_int(cancel_own(srun, "7", &err), -1, "it fails");
    (void)unlink(said);
    (void)unlink(scancel);
    (void)rmdir(dir);
    return tap_done();
}
