/* slot_cores.h - which cores the ranks of an attempt may use.
 *
 * With local.bind each CPU slot has as many cores as the others, and no other
 * slot has them, as a GPU belongs to one attempt. Cores that cannot be divided
 * equally are nobody's.
 */
#ifndef MGPU_SLURM_LOCAL_SLOT_CORES_H
#define MGPU_SLURM_LOCAL_SLOT_CORES_H

#include <sched.h>
#include <stdint.h>

#include "slurm/local/local.h"

/* Returns how many cores this process may use.
 * out  ret  these; NULL to skip */
int32_t slot_cores_all(cpu_set_t *ret);

/* Returns how many cores the attempt's ranks may use together, at least 1.
 * in   a->used
 * out  ret  these, if l->binds */
int32_t slot_cores(const struct alloc_local *l, const struct local_attempt *a,
                   cpu_set_t *ret);

#endif
