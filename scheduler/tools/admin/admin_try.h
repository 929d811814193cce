/* admin_try.h - `mgpu-admin policy try`: the past with other settings. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_TRY_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_TRY_H

#include "scheduler/tools/common/client.h"

/* Simulates the jobs that the daemon has recorded, with its settings of now and
 * with these on top, and prints the figures side by side. The daemon copies its
 * databases for it; the copy goes again.
 * in   words    [n] KEY=VALUE, of scheduler
 *      since_s  jobs submitted in this time before now; 0: all
 *      json     as mgpu-sim --json prints them
 * err  ERR_USAGE; ERR_INVAL a key that is none of scheduler; ERR_UNAVAIL there
 *      is no mgpu-sim; what the daemon refuses; mgpu-sim's exit */
int admin_try(struct client *c, char **words, int n, double since_s, bool json,
              struct error *err) MUST_CHECK;

#endif
