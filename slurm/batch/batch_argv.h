/* batch_argv.h - arguments and environment of srun or mpirun inside a Slurm
 * job.
 *
 * Measured with Slurm 22.05.8 and Open MPI 4.1.4; mpirun of Open MPI 5.0.7,
 * too:
 *
 * srun. Its exit status is the highest of its ranks', where a rank that died of
 *   signal N counts as 128 + N; after MPI_Abort(c) it is c.
 *   --kill-on-bad-exit=0 under PMIx: when a rank dies, the PMIx server kills
 *     the others at once (1.3 s). With 1 srun acts first and asks Slurm to end
 *     the step: Slurm sends SIGTERM, and SIGKILL only after KillWait (30 s by
 *     default), while the ranks wait for the dead one. Without PMIx nothing
 *     else ends them, so the value is 1.
 *   --gpus-per-node and no --gpu-bind: each rank sees the job's GPUs of its
 *     node, in the same order, and uses the one of its local rank. If Slurm
 *     bound one GPU to each rank, ConstrainDevices=yes would hide the others in
 *     the kernel, and CUDA IPC, and so NCCL over NVLink, would fail.
 *     (--gpu-bind=none hides all in this version.)
 *   --distribution=block:block: neighbouring ranks get neighbouring cores, in
 *     the order of the GPUs.
 *   --mem=0: all memory of the job on a node, not --mem-per-cpu times these
 *     CPUs.
 *   --immediate=15: srun gives up if it gets no step within 15 s. A slurmctld
 *     that has just restarted reports its nodes as busy, and srun then waits
 *     SlurmctldTimeout, 120 s by default, before it retries.
 *   --wait: time that the other ranks have to exit after the first one.
 *   --label: only with several nodes, for ranks on other nodes than the first.
 *
 * mpirun. Its own Slurm support starts one daemon on each other node. It
 *   cannot forward SIGTERM, and a daemon that receives one kills its ranks; but
 *   it forwards BATCH_STOP_SIGNAL, which mgpu-worker treats as SIGTERM. */
#ifndef MGPU_SLURM_BATCH_BATCH_ARGV_H
#define MGPU_SLURM_BATCH_BATCH_ARGV_H

#include <signal.h>
#include <stdbool.h>

#include "jobs/wire/wire.h"
#include "slurm/launch/mpirun_version.h"
#include "slurm/protocol/batch_conf.h"

#define BATCH_STOP_SIGNAL SIGXCPU

/* Whether the launcher labels the lines of ranks that have no pipe here. */
bool batch_has_labels(const struct batch_conf *c, const struct wire_launch *l);

/* Arguments that run `worker --launch <dir>/launch.json` on every rank.
 * in   kind  of mpirun; unused with srun
 * own  one free() ends the array and the strings */
char **batch_argv(const struct batch_conf *c, const struct wire_launch *l,
                  enum mpirun_kind kind, const char *dir,
                  struct error *err) MUST_CHECK;

/* Sets the variables of launcher and ranks in our own environment.
 * in   ran  the path for MGPU_RAN (mgpu-worker(8)) */
int batch_env(const struct batch_conf *c, const struct wire_launch *l,
              const char *ran, struct error *err) MUST_CHECK;

#endif
