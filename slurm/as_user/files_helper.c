/* files_helper.c - files.h through the helper: one request at a time, each with
 * a deadline.
 *
 * Requests are numbered. An answer that comes after its deadline is discarded
 * by its number, so the next request gets its own. After the helper has exited
 * every request fails: the daemon exits then, and the error of the other socket
 * says why. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "slurm/as_user/files_wire.h"

/* Longer than a disk takes, shorter than a user waits. */
static const double DEADLINE_S = 2;

struct files_helper {
    struct files base;
    pthread_mutex_t lock; /* of all below, and of the request in flight */
    int fd;
    bool gone;
    uint64_t seq;
    char packet[FILES_ANS_MAX + 1];
};

static int is_gone(struct files_helper *h, struct error *err)
{
    h->gone = true;
    return error_set(err, ERR_UNAVAIL, "the helper that reads files is gone");
}

/* err  ERR_TIMEOUT */
static int wait_for(struct files_helper *h, short events, double until_s,
                    struct error *err)
{
    for (;;) {
        struct pollfd p = {.fd = h->fd, .events = events};
        double left_s = until_s - clock_real.now_s(&clock_real);
        int n = left_s > 0 ? poll(&p, 1, (int)(left_s * 1000) + 1) : 0;
        if (n > 0)
            return 0;
        if (n == 0)
            return error_set(err, ERR_TIMEOUT,
                             "the file system does not answer");
        if (errno != EINTR)
            return error_sys(err, errno, "wait for input");
    }
}

static int send_req(struct files_helper *h, const struct buf *b, double until_s,
                    struct error *err)
{
    for (;;) {
        if (send(h->fd, b->data, b->len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return is_gone(h, err);
        if (wait_for(h, POLLOUT, until_s, err) < 0)
            return -1;
    }
}

/* Receives one packet, if there is one. Returns 1, or 0 when there is none. */
static int take(struct files_helper *h, struct files_ans *ret,
                struct error *err)
{
    ssize_t n;
    do
        n = recv(h->fd, h->packet, sizeof(h->packet), MSG_DONTWAIT | MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0 || files_ans_parse(h->packet, (size_t)n, ret, NULL) < 0)
        return is_gone(h, err);
    return 1;
}

static int exchange(struct files_helper *h, struct files_req *req,
                    struct files_ans *ret, struct error *err)
{
    double until_s = clock_real.now_s(&clock_real) + DEADLINE_S;
    struct buf b = BUF_INIT;
    int rc;
    if (h->gone)
        return is_gone(h, err);
    req->seq = ++h->seq;
    /* Read late answers first: they would fill the socket. */
    do
        rc = take(h, ret, err);
    while (rc > 0);
    if (rc == 0)
        rc = files_req_encode(req, &b, err);
    if (rc == 0)
        rc = send_req(h, &b, until_s, err);
    buf_clear(&b);
    while (rc == 0) {
        rc = wait_for(h, POLLIN, until_s, err);
        if (rc == 0)
            rc = take(h, ret, err);
        if (rc > 0 && ret->seq != req->seq)
            rc = 0;
    }
    return rc < 0 ? -1 : 0;
}

static int ask(struct files *f, struct files_req *req, struct files_ans *ret,
               void *p, struct error *err)
{
    struct files_helper *h = (struct files_helper *)f;
    *ret = (struct files_ans){.seq = 0}; /* belongs to no request */
    (void)pthread_mutex_lock(&h->lock);
    int rc = exchange(h, req, ret, err);
    if (rc == 0 && ret->code != ERR_NONE)
        rc = error_set(err, ret->code, "%.*s", (int)ret->n,
                       (const char *)ret->data);
    else if (rc == 0 && ret->n > req->cap)
        rc = is_gone(h, err);
    else if (rc == 0 && ret->n > 0)
        memcpy(p, ret->data, ret->n);
    (void)pthread_mutex_unlock(&h->lock);
    return rc;
}

static int begin(struct files_req *r, enum files_op op, uid_t uid,
                 const char *dir, const char *name, uint64_t offset, size_t cap,
                 struct error *err)
{
    *r = (struct files_req){.op = op, .uid = uid, .offset = offset};
    r->cap = cap < FILES_DATA_MAX ? (uint32_t)cap : FILES_DATA_MAX;
    int n = snprintf(r->dir, sizeof(r->dir), "%s", dir);
    int m = snprintf(r->name, sizeof(r->name), "%s", name);
    if ((size_t)n >= sizeof(r->dir) || (size_t)m >= sizeof(r->name))
        return error_set(err, ERR_INVAL, "'%.80s/%.40s' is too long", dir,
                         name);
    return 0;
}

static int helper_read(struct files *f, uid_t uid, const char *dir,
                       const char *name, uint64_t offset, void *p, size_t cap,
                       size_t *ret_n, struct error *err)
{
    struct files_req r;
    struct files_ans a;
    if (begin(&r, FILES_READ, uid, dir, name, offset, cap, err) < 0 ||
        ask(f, &r, &a, p, err) < 0)
        return -1;
    *ret_n = a.n;
    return 0;
}

static int helper_log(struct files *f, uid_t uid, const char *dir,
                      uint64_t *io_offset, void *p, size_t cap, size_t *ret_n,
                      uint64_t *ret_dropped, struct error *err)
{
    struct files_req r;
    struct files_ans a;
    if (begin(&r, FILES_LOG, uid, dir, "", *io_offset, cap, err) < 0 ||
        ask(f, &r, &a, p, err) < 0)
        return -1;
    *io_offset = a.offset;
    *ret_n = a.n;
    *ret_dropped = a.dropped;
    return 0;
}

static void helper_destroy(struct files *f)
{
    struct files_helper *h = (struct files_helper *)f;
    if (!h)
        return;
    (void)close(h->fd);
    (void)pthread_mutex_destroy(&h->lock);
    free(h);
}

int files_helper_create(int fd, struct files **ret, struct error *err)
{
    static const struct files_ops ops = {
        .read = helper_read, .log = helper_log, .destroy = helper_destroy};
    struct files_helper *h = calloc(1, sizeof(*h));
    if (!h) {
        (void)close(fd);
        return error_set(err, ERR_NOMEM, "files");
    }
    (void)pthread_mutex_init(&h->lock, NULL);
    h->base.ops = &ops;
    h->fd = fd;
    *ret = &h->base;
    return 0;
}
