/* slurm_nodes.h - read the nodes of a cluster from what Slurm prints about
 * them. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_SLURM_NODES_H
#define MGPU_SCHEDULER_SIM_TRACE_SLURM_NODES_H

#include "scheduler/sim/trace/lines.h"

/* Reads the output of `scontrol show node`, with or without --oneliner, or of
 * `sinfo --noheader --Node --format="%N %G"`, and appends the nodes with GPUs
 * as a text for sim_cluster_parse(): "4x8:h100,2x4". A node that is listed in
 * several partitions counts once; of GPUs of several types it has the sum,
 * under the first type. err  ERR_INVAL no node has GPUs, or it is another
 * output */
int slurm_nodes_read(struct lines *l, struct buf *out,
                     struct error *err) MUST_CHECK;

#endif
