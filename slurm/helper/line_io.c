/* line_io.c - read and write lines between the helper's child and the daemon.
 *
 * Commands, news and replies are complete lines, whichever thread sends them.
 * When the daemon has closed the socket the process exits: no reader is
 * left. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "slurm/helper/helper.h"

void helper_line_send(struct helper *h, const struct buf *lines)
{
    (void)pthread_mutex_lock(&h->out_lock);
    for (size_t at = 0; at < lines->len;) {
        ssize_t n =
            send(h->fd, lines->data + at, lines->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            _exit(0); /* no reader is left */
        at += (size_t)n;
    }
    (void)pthread_mutex_unlock(&h->out_lock);
}

void helper_line_send_news(struct helper *h, const struct helper_news *n)
{
    struct buf line = BUF_INIT;
    struct error err = ERROR_INIT;
    if (helper_news_encode(n, &line, &err) < 0)
        log_err("helper", "cannot write a line why=\"%s\"", err.msg);
    else
        helper_line_send(h, &line);
    buf_clear(&line);
}

void helper_line_read(struct helper *h, struct helper_in *in, int timeout_ms)
{
    char part[16384];
    struct pollfd p = {.fd = h->fd, .events = POLLIN};
    if (poll(&p, 1, timeout_ms) <= 0)
        return;
    ssize_t n = recv(h->fd, part, sizeof(part), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        _exit(0);
    if (n > 0 && (buf_add(&in->bytes, part, (size_t)n, NULL) < 0 ||
                  in->bytes.len > (size_t)HELPER_LINE_MAX + sizeof(part))) {
        log_err("helper", "a line without end, or no memory for it");
        _exit(1);
    }
}

bool helper_line_next(struct helper *h, struct helper_in *in,
                      struct helper_cmd *ret)
{
    struct error err = ERROR_INIT;
    for (;;) {
        const char *line = buf_str(&in->bytes);
        const char *end = memchr(line, '\n', in->bytes.len);
        if (end == NULL)
            return false;
        size_t n = (size_t)(end - line);
        int rc = helper_cmd_parse(line, n, ret, &err);
        buf_drop(&in->bytes, n + 1);
        bool is_tail = in->is_first;
        in->is_first = false;
        if (rc == 0)
            return true;
        if (is_tail || n == 0)
            continue;
        /* Its id is unknown; the daemon never sends such a line. */
        struct helper_news no = {
            .ev = HELPER_REPLY, .is_sure = true, .why = err};
        helper_line_send_news(h, &no);
    }
}
