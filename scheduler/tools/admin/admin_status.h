/* admin_status.h - the status of the daemon, as mgpu-admin prints it. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_STATUS_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_STATUS_H

#include <jansson.h>
#include <stdbool.h>

/* Prints the reply of GET /v1/status on standard output. */
void admin_print_status(const json_t *s);
/* Prints the result of the last reload of mgpu.yaml. is_new: the reload was
 * just requested, so print also that nothing changed. Prints nothing if r is
 * not an object. */
void admin_print_reload(const json_t *r, bool is_new);

#endif
