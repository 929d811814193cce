/* watch_share.c - streams that begin together share the text of the list, and
 * each has every job as it is.
 *
 * The clients do not read. A socket takes 208 KiB, the rest of a list of 600
 * KiB stays with the daemon: in a copy for each, or once for all of them. */
#include <malloc.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/ctld/rig.h"

enum {
    JOBS = 700,
    CANCELLED = 350,
    CLIENTS = 100,
    WAIT_MS = 60000,
    TAKEN = 40000
};

static struct rig r;
static int seen[JOBS + 1];
static int n_lines, n_older, n_bytes; /* lines: of different jobs */

static void allow_much(struct ctld_conf *conf)
{
    conf->max_spec_bytes = 1 << 20;
    conf->max_clients = conf->max_clients_per_uid = CLIENTS + 20;
}

static void submit(void)
{
    struct buf text = BUF_INIT;
    sweep_text(&text, "many", JOBS);
    /* Held: nothing changes by itself. */
    struct buf held = BUF_INIT;
    if (buf_addf(&held, NULL, "{\"hold\":true,%s", buf_str(&text) + 1) < 0)
        exit(1);
    is_int(call(&r, "POST", "/v1/jobs", buf_str(&held), NULL), 201,
           "a sweep of jobs that are held");
    buf_clear(&held);
    buf_clear(&text);
}

static int on_line(void *arg, const char *text, size_t len, struct error *err)
{
    json_t *o = json_loadb(text, len, 0, NULL);
    const json_t *job = json_object_get(o, "job");
    json_int_t id = json_integer_value(json_object_get(job, "id"));
    const char *state = json_string_value(json_object_get(job, "state"));
    (void)arg;
    bool is_new = id >= 1 && id <= JOBS && seen[id]++ == 0;
    n_lines += is_new;
    n_bytes += is_new ? (int)len : 0;
    /* Each line of it: no older one may come first. */
    if (id == CANCELLED && (!state || strcmp(state, "CANCELLED") != 0))
        n_older++;
    json_decref(o);
    return n_lines < JOBS ? 0 : error_set(err, ERR_STATE, "enough");
}

static void watch_all(void)
{
    struct error err = ERROR_INIT;
    struct buf bad = BUF_INIT;
    int status = 0;
    memset(seen, 0, sizeof(seen));
    n_lines = n_older = n_bytes = 0;
    ok(http_client_stream(r.http, "/v1/watch", on_line, NULL, &status, &bad,
                          &err) < 0 &&
           err.code == ERR_STATE,
       "a client reads all jobs: %s", err.msg);
    buf_clear(&bad);
}

static int begin_one(void)
{
    static const char text[] = "GET /v1/watch HTTP/1.1\r\nHost: mgpu\r\n\r\n";
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", r.socket);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
        send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL) !=
            (ssize_t)(sizeof(text) - 1))
        exit(1);
    return fd;
}

/* The daemon has written as much of the list as the socket is sure to take: the
 * kernel asks for no more while over a quarter of its 208 KiB, with what each
 * piece costs, is not read. A daemon without a core for a while may have had
 * one piece by then, of 50 KB. */
static bool is_full(int fd)
{
    int n = 0;
    for (int ms = 0; ms < WAIT_MS && n < TAKEN; ms += 5) {
        char some[1 << 18];
        ssize_t got = recv(fd, some, sizeof(some), MSG_PEEK | MSG_DONTWAIT);
        n = got < 0 ? 0 : (int)got;
        if (n < TAKEN)
            (void)poll(NULL, 0, 5);
    }
    return n >= TAKEN;
}

int main(void)
{
    int fds[CLIENTS], n_full = 0;
    (void)signal(SIGPIPE, SIG_IGN);
    rig_init(&r);
    r.tweak = allow_much;
    rig_up(&r, NULL);
    submit();
    watch_all();
    ok(n_bytes > 500000, "the list has %d bytes", n_bytes);

    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = begin_one();
    for (int i = 0; i < CLIENTS; i++)
        n_full += is_full(fds[i]);
    is_int(n_full, CLIENTS, "clients that do not read");
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    long long more = (long long)after - (long long)before;
    ok(more < (long long)CLIENTS * (n_bytes / 8),
       "%d of them cost %lld bytes, not %d each", CLIENTS, more, n_bytes);

    /* Right after: the text that they share has the job as it was. */
    is_int(call(&r, "POST", "/v1/jobs/350/cancel", "{}", NULL), 200,
           "a job is cancelled");
    watch_all();
    is_int(n_older, 0, "the next one sees it so");
    for (int i = 0; i < CLIENTS; i++)
        (void)close(fds[i]);
    is_int(get(&r, "/v1/jobs/1"), 200, "the daemon is well");
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
