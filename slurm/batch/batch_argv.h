/* batch_argv.h - how a launcher is called inside of an allocation of Slurm.
 *
 * Measured with Slurm 22.05.8 and Open MPI 4.1.4:
 *
 * srun. Its exit status is the highest of its ranks', 128 + N for one that
 *   died of signal N; after MPI_Abort(c) it is c.
 *   --kill-on-bad-exit=0 under PMIx: when a rank dies, the PMIx server kills
 *     the others at once (1.3 s). With 1 srun is faster and asks Slurm to end
 *     the step, which is SIGTERM first and SIGKILL only after KillWait, 30 s
 *     by default, for ranks that wait for the dead one. Without PMIx there
 *     is nobody else, so it is 1 then.
 *   --gpus-per-node and no --gpu-bind: each rank sees the GPUs of its node
 *     that are the job's, in one order, and takes the one of its local rank.
 *     Were each rank given its own by Slurm, ConstrainDevices=yes would hide
 *     those of the others from it in the kernel, and CUDA IPC, so NCCL over
 *     NVLink, would not work. (--gpu-bind=none hides all in this version.)
 *   --distribution=block:block: neighbouring ranks get neighbouring cores,
 *     as GPUs are numbered.
 *   --mem=0: all that the job has on a node, not what --mem-per-cpu says for
 *     these CPUs.
 *   --immediate=15: gives up when it gets no step for so long. A slurmctld
 *     that has just come back calls its nodes busy, and srun then waits
 *     SlurmctldTimeout, 120 s by default, before it asks again.
 *   --wait: after the first rank has left, the others may take that long.
 *   --label: only of several nodes, for ranks on others than the first.
 *
 * mpirun. Its own Slurm support starts one daemon on each other node. It
 *   cannot forward SIGTERM, and a daemon that gets one kills its ranks; but
 *   it forwards BATCH_STOP_SIGNAL, which mgpu-worker takes for SIGTERM.
 */
#ifndef MGPU_SLURM_BATCH_BATCH_ARGV_H
#define MGPU_SLURM_BATCH_BATCH_ARGV_H

#include <signal.h>
#include <stdbool.h>

#include "slurm/protocol/batch_conf.h"

#define BATCH_STOP_SIGNAL SIGXCPU

/* Whether the launcher labels lines, of ranks that have no pipe here. */
bool batch_has_labels(const struct batch_conf *c);

/* `worker --launch <dir>/launch.json` on every rank.
 * own  one free() ends the array and the strings */
char **batch_argv(const struct batch_conf *c, const char *dir,
                  struct error *err) MUST_CHECK;

/* Sets what launcher and ranks shall find in their environment, in our own.
 * in   ran  the path for MGPU_RAN (mgpu-worker(8)) */
int batch_env(const struct batch_conf *c, const char *ran,
              struct error *err) MUST_CHECK;

#endif
