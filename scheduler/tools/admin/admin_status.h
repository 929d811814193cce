/* admin_status.h - what a daemon says of itself, as mgpu-admin shows it. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_STATUS_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_STATUS_H

#include <jansson.h>
#include <stdbool.h>

/* The reply of GET /v1/status, on standard output. */
void admin_print_status(const json_t *s);
/* What became of reading mgpu.yaml again; is_new: just now, and that nothing
 * changed is said, too. Nothing for what is no object. */
void admin_print_reload(const json_t *r, bool is_new);

#endif
