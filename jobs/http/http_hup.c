/* http_hup.c - the client leaves while its request is being answered.
 *
 * EV_CLOSED tells of its half of the connection having ended. A reset is an
 * error of the socket, which libevent reports as EV_READ and EV_WRITE only: an
 * event for neither is not called, and the loop spins. So EV_READ is asked for
 * as well, which the next request of a client that does not wait for its answer
 * also causes. That one is polled from then on.
 */
#include <event2/bufferevent.h>
#include <poll.h>

#include "jobs/http/http_internal.h"

static const struct timeval poll_every = {.tv_sec = 1};

static bool has_left(const struct http_conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 &&
           (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void on_hup(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *c = arg;
    (void)fd;
    if ((what & EV_CLOSED) || has_left(c)) {
        evhttp_connection_free(c->evcon); /* calls on_close */
        return;
    }
    if (what & EV_READ) {
        event_free(c->hup);
        c->hup = evtimer_new(c->s->base, on_hup, c);
    }
    if (c->hup) /* else a failed write tells */
        (void)evtimer_add(c->hup, &poll_every);
}

int http_conn_watch_hup(struct http_conn *c)
{
    c->hup = event_new(c->s->base, c->fd, EV_CLOSED | EV_READ, on_hup, c);
    return c->hup ? event_add(c->hup, NULL) : -1;
}

void http_conn_drop(struct http_conn *c)
{
    if (c->hup)
        event_active(c->hup, EV_CLOSED, 0);
    else
        event_active(c->end, EV_TIMEOUT, 0);
}
