/* http_local.h - who is at the other end of a TCP connection of this machine.
 *
 * A port of loopback is open to every user of the machine. The kernel knows
 * whose socket a connection comes from, as it does for a unix socket.
 */
#ifndef MGPU_JOBS_HTTP_HTTP_LOCAL_H
#define MGPU_JOBS_HTTP_HTTP_LOCAL_H

#include <stdint.h>

struct http_exchange;

enum { HTTP_LOCAL_UNKNOWN = -1, HTTP_LOCAL_LEFT = -2 };

/* The uid of the client's socket. UNKNOWN: it is on another machine, or the
 * kernel does not say (it was built without INET_DIAG). LEFT: the client has
 * ended its half of the connection, or all of it; whose it was is no longer to
 * be known. */
int64_t http_local_uid(const struct http_exchange *x);
/* The same. in  fd  a connected socket */
int64_t http_local_uid_of(int fd);

#endif
