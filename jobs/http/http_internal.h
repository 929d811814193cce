/* http_internal.h - shared by the http_*.c files of the server only. */
#ifndef MGPU_JOBS_HTTP_HTTP_INTERNAL_H
#define MGPU_JOBS_HTTP_HTTP_INTERNAL_H

#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdbool.h>
#include <sys/types.h>

#include "jobs/http/http_head.h"
#include "jobs/http/http_server.h"

enum { HTTP_PARAMS_MAX = 3, HTTP_BEHIND_MAX = 1 << 20, HTTP_PEER_CAP = 48 };

/* One accepted connection. evhttp tells us of a connection only with its
 * first request, so the record is made from the buffer that evhttp asks us
 * for, and until that first request its end is seen by the descriptor's
 * inode having changed. */
struct http_conn {
    struct http_server *s;
    struct http_conn *next, *prev;
    struct bufferevent *bev; /* evhttp's; valid while the inode is ours */
    struct evhttp_connection *evcon; /* NULL before the first request */
    struct event *deadline;          /* for a request to arrive whole */
    struct event *head_deadline;     /* and for its headers */
    struct event *hup;               /* the peer left; streams only */
    struct event *end;               /* tells evhttp of an end */
    struct http_exchange *x;         /* being answered, or NULL */
    int fd;
    ino_t ino;
    int64_t uid;              /* by the kernel; -1: not known */
    int64_t user;             /* as uid, or as http_set_uid() said last */
    char peer[HTTP_PEER_CAP]; /* "": the unix socket */
    char net[HTTP_PEER_CAP];  /* http_net_of() it: who counts as one */
    struct http_head head;    /* of the request that arrives */
    bool doomed; /* answered and shut down; evhttp has yet to notice */
};

enum { HTTP_LISTENERS_MAX = 2 };
struct http_server {
    struct event_base *base;
    struct http_server_conf conf;
    struct evhttp *http;
    struct http_conn fresh;   /* ring of those whose descriptor is unknown */
    struct http_conn conns;   /* ring of all others */
    struct http_conn **by_fd; /* the same, by descriptor */
    size_t n_by_fd;
    int32_t n_conns, n_tcp;
    struct event *adopt, *resume, *again;
    struct evhttp_bound_socket *listeners[HTTP_LISTENERS_MAX];
    size_t n_listeners;
    struct http_server *next; /* of those that listen; http_listen.c */
    bool is_listed;
    char path[108]; /* of the unix socket; "" none */
    ino_t path_ino;
};

struct http_exchange {
    struct http_conn *conn;     /* NULL once the client is gone */
    struct evhttp_request *req; /* NULL once the client is gone */
    http_handler_f fn;
    void *fn_arg;
    const char *path; /* the route's */
    int64_t uid;
    char peer[HTTP_PEER_CAP];
    char *params[HTTP_PARAMS_MAX];
    size_t n_params;
    struct evkeyvalq query;
    bool has_query;
    bool is_stream, dropped;
    bool was_seen; /* http_is_first() has said so */
    void (*closed)(void *arg);
    void *closed_arg;
    void (*drained)(void *arg);
    void (*left)(void *arg); /* before the reply */
    void *left_arg;
};

/* http_exchange.c */
/* -1: the query string is none. A filter that is not understood must not
 * turn into no filter. */
int http_exchange_parse_query(struct http_exchange *x);
/* The connection goes down under x; calls `closed` of a stream. */
void http_exchange_lost(struct http_exchange *x);

void http_exchange_free(struct http_exchange *x); /* NULL is fine */
/* The headers that each reply has. */
void http_exchange_set_type(struct http_exchange *x, const char *type);

/* http_listen.c: listen again, after a rest; who is at the other end. */
void http_listen_resume(evutil_socket_t fd, short what, void *arg);
/* Asks again for what each connection waits for. */
void http_listen_look_again(evutil_socket_t fd, short what, void *arg);
/* out  *ret_uid  -1 over TCP; peer  "" over the unix socket
 * 0, or -1 when the descriptor has no other end any more */
int http_peer_of(int fd, int64_t *ret_uid, char peer[HTTP_PEER_CAP]);
/* The address itself; of IPv6 its /64, all of which one machine may have. */
void http_net_of(const char *peer, char net[HTTP_PEER_CAP]);

/* http_route.c: to the handler of its path, or an answer that there is none;
 * x may be gone after it. */
void http_dispatch(struct http_server *s, struct http_exchange *x);

/* http_hup.c: asks whether the client leaves; ends the connection, a moment
 * later, from the loop. */
int http_conn_watch_hup(struct http_conn *c);
void http_conn_drop(struct http_conn *c);

/* http_server.c: the reply is on its way, or the stream begins or ends. */
void http_conn_answered(struct http_conn *c);
void http_conn_set_idle(struct http_conn *c, bool is_limited);
bool http_conn_is_open(const struct http_conn *c);
size_t http_conn_behind(const struct http_conn *c); /* bytes not yet taken */
/* The other connections of a uid, wherever they come from. */
int32_t http_conn_count_uid(const struct http_conn *but, int64_t uid);

#endif
