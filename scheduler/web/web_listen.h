/* web_listen.h - where the page is: a port, or a unix socket. */
#ifndef MGPU_SCHEDULER_WEB_WEB_LISTEN_H
#define MGPU_SCHEDULER_WEB_WEB_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "scheduler/web/web_guard.h"

struct http_server;

/* Whose page it is: this user's with all his rights, or without those to
 * change something, or that of a cluster. */
enum web_listen_of { WEB_LISTEN_OWN, WEB_LISTEN_READ_ONLY, WEB_LISTEN_CLUSTER };

bool web_listen_is_unix(const char *where);
/* A unix socket, or loopback: no other machine reaches it. */
bool web_listen_is_local(const char *where);

/* Has s listen at "unix:PATH" or "HOST:PORT".
 *
 * in   gid  of the socket, which its group may use then; 0: its user alone
 * out  ret_host  "" for a socket; ret_port  untouched for a socket
 * err  ERR_USAGE another form, an address other than loopback for
 *      WEB_LISTEN_OWN, a socket in a directory that others may write to; those
 *      of http_server_listen_tcp() and _unix() */
int web_listen_at(struct http_server *s, const char *where,
                  enum web_listen_of of, int64_t gid,
                  char ret_host[WEB_NAME_CAP], int *ret_port,
                  struct error *err) MUST_CHECK;

#endif
