/* worker_address.h - the addresses from which workers of an attempt may call.
 */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_WORKER_ADDRESS_H
#define MGPU_SCHEDULER_CTLD_REQUEST_WORKER_ADDRESS_H

#include <stdbool.h>

struct ctld;
struct job;

/* Whether a process at this address may be a worker of the job's attempt. */
bool worker_address_fits(const struct ctld *c, const struct job *job,
                         const char *peer);

#endif
