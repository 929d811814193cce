/* http_local.h - who is at the other end of a TCP connection of this machine.
 *
 * A port of loopback is open to every user of the machine. The kernel knows
 * whose socket a connection comes from, as it does for a unix socket.
 */
#ifndef MGPU_JOBS_HTTP_HTTP_LOCAL_H
#define MGPU_JOBS_HTTP_HTTP_LOCAL_H

#include <stdint.h>

struct http_exchange;

/* The uid of the client's socket; -1: it is on another machine, the client has
 * left, or the kernel does not say (it was built without INET_DIAG). */
int64_t http_local_uid(const struct http_exchange *x);

#endif
