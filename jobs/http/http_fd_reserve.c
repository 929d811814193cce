/* http_fd_reserve.c - descriptors, or memory of the kernel's, are short.
 *
 * Descriptors. HTTP_KEPT of them are held back. When accept(2) has none left,
 * one is given up for the next who calls at the unix socket, for only then is
 * it known who that is: whoever may mend it gets an answer, all others are told
 * to come later. A connection that came about so is for one request and no
 * stream, so that the descriptor comes back; TCP waits meanwhile. When none is
 * held back any more nobody is accepted for a moment, and the loop rests.
 *
 * Memory. epoll_ctl(2) may fail with ENOMEM. libevent says so to its log and
 * forgets it; the connection would be deaf until its client leaves. All are
 * asked again what they wait for, until that works.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <unistd.h>

#include "jobs/http/http_internal.h"

enum { LOOK_US = 20000, AGAIN_US = 200000 };

/* ---- descriptors ----------------------------------------------------------
 */

static void keep_all(struct http_server *s)
{
    int fd = 0;
    while (s->n_kept < s->n_to_keep &&
           (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        s->kept[s->n_kept++] = fd;
}

static void look_soon(struct http_server *s)
{
    struct timeval tv = {.tv_usec = LOOK_US};
    (void)evtimer_add(s->refill, &tv);
}

bool http_lack_is(const struct http_server *s)
{
    return s->n_kept < s->n_to_keep;
}

static void on_refill(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;
    (void)fd;
    (void)what;
    keep_all(s);
    if (http_lack_is(s))
        look_soon(s);
    else
        http_listen_resume(-1, 0, s);
}

bool http_lack_lend(struct http_server *s, const struct evconnlistener *l,
                    int why)
{
    if ((why != EMFILE && why != ENFILE) || s->n_kept == 0 || !s->local ||
        evhttp_bound_socket_get_listener(s->local) != l)
        return false;
    /* What is given up is not for them. */
    for (size_t i = 0; i < s->n_listeners; i++)
        if (s->listeners[i] != s->local)
            (void)evconnlistener_disable(
                evhttp_bound_socket_get_listener(s->listeners[i]));
    (void)close(s->kept[--s->n_kept]);
    look_soon(s);
    return true;
}

/* ---- memory ---------------------------------------------------------------
 */

static void look_again(struct http_conn *c)
{
    if (c->hup && !event_pending(c->hup, EV_CLOSED, NULL))
        (void)event_add(c->hup, NULL);
    short wants = bufferevent_get_enabled(c->bev);
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
        wants &= ~EV_WRITE;
    (void)bufferevent_enable(c->bev, wants);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;
    (void)fd;
    (void)what;
    for (struct http_conn *c = s->conns.next; c != &s->conns; c = c->next)
        if (http_conn_is_open(c))
            look_again(c);
}

void http_lack_again(struct http_server *s)
{
    struct timeval tv = {.tv_usec = AGAIN_US};
    if (!evtimer_pending(s->again, NULL))
        (void)evtimer_add(s->again, &tv);
}

/* ---- a server -------------------------------------------------------------
 */

int http_lack_init(struct http_server *s)
{
    s->refill = evtimer_new(s->base, on_refill, s);
    s->again = evtimer_new(s->base, on_again, s);
    s->n_to_keep = s->conf.is_let_in ? HTTP_KEPT : 0;
    if (!s->refill || !s->again)
        return -1;
    keep_all(s);
    if (http_lack_is(s))
        look_soon(s);
    return 0;
}

void http_lack_clear(struct http_server *s)
{
    if (s->refill)
        event_free(s->refill);
    if (s->again)
        event_free(s->again);
    while (s->n_kept > 0)
        (void)close(s->kept[--s->n_kept]);
}
