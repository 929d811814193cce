/* batch_conf.h - batch.json, the input of mgpu-batch (batch.c).
 *
 *   {"launcher":"srun","program":"srun","mpi":"pmix","worker":"/../mgpu-worker",
 *    "cpus_per_gpu":4,"gpu_type":"h100"}
 *
 * It has what the helper knows: its own options, and what it has put in place
 * of values that the job leaves open. All else is in launch.json, next to which
 * it is in the attempt's directory, so that the batch script can be one
 * constant text: a shell never evaluates a value of a job. mgpu-slurm-helper
 * writes it as the job's user, mgpu-batch reads it on the first node. */
#ifndef MGPU_SLURM_PROTOCOL_BATCH_CONF_H
#define MGPU_SLURM_PROTOCOL_BATCH_CONF_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"

enum {
    BATCH_PATH_CAP = 1024,
    BATCH_MPI_CAP = 64,
    BATCH_CPUS_MAX = 4096,
    BATCH_CONF_MAX_BYTES = 8192
};

/* To the batch step alone: a user has cancelled the job. It is no signal that a
 * user can send to a job, and the step of an older mgpu ignores it. */
#define BATCH_CANCEL_SIGNAL SIGURG

enum batch_launcher { BATCH_SRUN, BATCH_MPIRUN };

struct batch_conf {
    enum batch_launcher launcher;
    char program[BATCH_PATH_CAP]; /* absolute, or a name to be searched on
                                   * PATH */
    char mpi[BATCH_MPI_CAP];      /* for srun --mpi=; letters, digits, "_.-" */
    char worker[BATCH_PATH_CAP];  /* mgpu-worker, absolute */
    int32_t cpus_per_gpu;         /* >= 1; without GPUs, of each rank */
    char gpu_type[BATCH_MPI_CAP]; /* same characters as mpi; "": any, and the
                                   * key is omitted */
};

/* err  ERR_INVAL not exactly this format: a key is missing, unknown or
 *      duplicate, or a value is out of range; nothing is set */
int batch_conf_parse(const char *text, size_t len, struct batch_conf *ret,
                     struct error *err) MUST_CHECK;
/* Appends one line with its newline.
 * err  ERR_INVAL a value that batch_conf_parse() would refuse; ERR_NOMEM */
int batch_conf_encode(const struct batch_conf *c, struct buf *out,
                      struct error *err) MUST_CHECK;

#endif
