/* cluster_socket_slurm.c - the socket to mgpu-slurm-helper: buffered, line by
 * line.
 *
 * Nothing here blocks. Unwritten output is buffered; it stays small because the
 * number of commands in flight is bounded. Input is handled line by line, a
 * bounded amount per call, so that a flood of news does not stall the daemon's
 * loop. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "slurm/cluster/cluster.h"

enum {
    READ_AT_ONCE = 64 << 10,
    READ_IN_ONE_GO = 128 << 10, /* 500 jobs: 10 ms to handle */
    OUT_ENOUGH = 1 << 20,       /* no further command while more is unsent */
};

static void die(struct cluster *c, enum err_code code, const char *what)
{
    if (c->is_dead)
        return;
    c->is_dead = true;
    (void)error_set(&c->why_dead, code, "mgpu-slurm-helper %s", what);
}

/* ---- sending --------------------------------------------------------------
 */
bool cluster_send(struct cluster *c, struct cluster_attempt *a,
                  struct helper_cmd *cmd, struct error *err)
{
    bool is_submit = cmd->op == HELPER_SUBMIT;
    if (c->is_dead || !c->has_hello || a->command > 0 ||
        c->n_commands >= CLUSTER_COMMANDS_CAP || c->out.len > OUT_ENOUGH ||
        (is_submit && c->n_submits >= CLUSTER_SUBMITS_CAP))
        return false;
    cmd->id = c->serial + 1;
    cmd->req.uid = a->req.uid;
    cmd->req.tag = a->tag;
    if (helper_cmd_encode(cmd, &c->out, err) < 0)
        return false;
    c->serial++;
    c->n_commands++;
    c->n_submits += is_submit;
    a->command = cmd->id;
    a->op = cmd->op;
    if (is_submit)
        a->submit = cmd->id;
    return true;
}

bool cluster_send_again(struct cluster *c)
{
    struct helper_cmd cmd = {.op = HELPER_AGAIN, .id = c->serial + 1};
    if (c->is_dead || !c->has_hello || c->out.len > OUT_ENOUGH ||
        helper_cmd_encode(&cmd, &c->out, NULL) < 0)
        return false;
    c->serial++;
    return true;
}

void cluster_done(struct cluster *c, struct cluster_attempt *a)
{
    if (a->command == 0)
        return;
    a->command = 0;
    c->n_commands--;
    c->n_submits -= a->op == HELPER_SUBMIT;
}

void cluster_write(struct cluster *c)
{
    while (c->out.len > 0 && !c->is_dead) {
        ssize_t n =
            send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            buf_drop(&c->out, (size_t)n);
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        else
            die(c, ERR_EXTERN, "has exited");
    }
}

/* ---- reading --------------------------------------------------------------
 */
static void split(struct cluster *c, size_t scanned,
                  void (*each)(struct cluster *c, const char *line, size_t len))
{
    size_t at = 0;
    const char *end;
    while ((end = memchr(c->in.data + scanned, '\n', c->in.len - scanned))) {
        size_t next = (size_t)(end - c->in.data) + 1;
        each(c, c->in.data + at, next - 1 - at);
        at = scanned = next;
    }
    buf_drop(&c->in, at);
    if (c->in.len > HELPER_LINE_MAX)
        die(c, ERR_EXTERN, "sent a line that is too long");
}

void cluster_read(struct cluster *c,
                  void (*each)(struct cluster *c, const char *line, size_t len))
{
    size_t total = 0;
    while (!c->is_dead && total < READ_IN_ONE_GO) {
        struct error err = ERROR_INIT;
        if (buf_reserve(&c->in, READ_AT_ONCE, &err) < 0)
            return; /* the kernel keeps it until there is memory */
        ssize_t n =
            recv(c->fd, c->in.data + c->in.len, READ_AT_ONCE, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            die(c, ERR_EXTERN, "has exited");
            return;
        }
        size_t scanned = c->in.len;
        c->in.len += (size_t)n;
        c->in.data[c->in.len] = '\0';
        total += (size_t)n;
        split(c, scanned, each);
    }
}
