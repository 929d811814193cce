/* rendezvous.c - the name and the port that all ranks are told, with other
 * programs that want the same port. */
#include "worker/process/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/tap.h"

/* Another program, which allows the port to be bound twice; -1: it cannot
 * listen. */
static int take(int32_t port)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = {htonl(INADDR_ANY)}};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd >= 0 &&
        bind(fd, (const struct sockaddr *)(const void *)&at, sizeof(at)) == 0 &&
        listen(fd, 1) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static void test_port(void)
{
    struct error err = ERROR_INIT;
    int fd = -1, other = -1, thief;
    int32_t port = 0, second = 0;
    ok(rendezvous_hold(&fd, &port, &err) == 0 && port > 0 && port < 65536,
       "a port %d", port);
    ok(rendezvous_hold(&other, &second, &err) == 0 && second != port,
       "who asks for any gets another one");
    ok(!rendezvous_is_taken(fd), "nobody listens on it");
    ok(take(port) < 0, "and then nobody can");
    (void)close(fd);
    ok(!rendezvous_in_use(port), "given up, it is free");
    thief = take(second);
    ok(thief >= 0, "one that asks for a port that is held may have it");
    ok(rendezvous_is_taken(other), "which is found");
    (void)close(other);
    ok(rendezvous_in_use(second), "also later");
    (void)close(thief);
    ok(!rendezvous_in_use(second), "until it ends");
}

/* ---- with other ranks, which this comm plays ------------------------------
 */

static struct {
    struct rendezvous told; /* by rank 0, the last time */
    int n_told;
    bool steals; /* another program takes the port when all know it */
    int thief;
} world;

static int broadcast(struct comm *c, void *x, size_t bytes, int32_t root,
                     int *ret_ticket, struct error *err)
{
    (void)root, (void)err;
    if (c->rank == 0)
        memcpy(&world.told, x, bytes);
    else
        memcpy(x, &world.told, bytes);
    world.n_told++;
    *ret_ticket = 0;
    return 0;
}

static int all_reduce(struct comm *c, void *x, size_t n, enum comm_type type,
                      enum comm_op op, int *ret_ticket, struct error *err)
{
    (void)c, (void)x, (void)n, (void)type, (void)op, (void)err;
    if (world.steals)
        world.thief = take(world.told.port);
    *ret_ticket = 0;
    return 0;
}

static int wait_for(struct comm *c, int ticket, double deadline_s,
                    struct error *err)
{
    (void)c, (void)ticket, (void)deadline_s, (void)err;
    return 0;
}

static const struct comm_ops ops = {.name = "played",
                                    .all_reduce = all_reduce,
                                    .broadcast = broadcast,
                                    .wait = wait_for};

static void test_rank_0(void)
{
    struct comm c = {.ops = &ops, .size = 2, .local_size = 2};
    struct rendezvous r = {.port = 0};
    struct error err = ERROR_INIT;
    world.n_told = 0;
    ok(rendezvous_agree(&c, &r, &err) == 0, "rank 0 chooses: %s", err.msg);
    is_int(world.n_told, 2, "and says so twice");
    ok(r.port == world.told.port && !rendezvous_in_use(r.port),
       "port %d, which is free", r.port);
    is_str(r.host, world.told.host, "the name");
}

static void test_stolen(void)
{
    struct comm c = {.ops = &ops, .size = 2, .local_size = 2};
    struct rendezvous r = {.port = 0};
    struct error err = ERROR_INIT;
    world.steals = true;
    world.thief = -1;
    ok(rendezvous_agree(&c, &r, &err) == 0, "one port is taken: %s", err.msg);
    world.steals = false;
    ok(world.thief >= 0, "by another program");
    ok(rendezvous_is_taken(world.thief) == false, "which still has it");
    ok(r.port == world.told.port && !rendezvous_in_use(r.port),
       "all are told of another port, %d, which is free", r.port);
    (void)close(world.thief);
}

static void test_names(void)
{
    struct comm c = {.ops = &ops, .rank = 3, .size = 4, .local_size = 2};
    struct rendezvous r = {.port = 0};
    struct error err = ERROR_INIT;
    (void)setenv("SLURMD_NODENAME", "node2", 1);
    world.told = (struct rendezvous){.host = "localhost", .port = 4711};
    ok(rendezvous_agree(&c, &r, &err) == 0 && r.port == 4711,
       "a rank elsewhere takes what it is told: %s", err.msg);
    memcpy(world.told.host, "gone.invalid", sizeof("gone.invalid"));
    is_int(rendezvous_agree(&c, &r, &err), -1, "a name without an address");
    is_int(err.code, ERR_UNAVAIL, "is not available");
    ok(strstr(err.msg, "rank 3 on node2") && strstr(err.msg, "'gone.invalid'"),
       "and says who could not resolve what: %s", err.msg);

    /* One node needs no name; several do. */
    c = (struct comm){.ops = &ops, .size = 2, .local_size = 2};
    (void)setenv("SLURMD_NODENAME", "gone.invalid", 1);
    ok(rendezvous_agree(&c, &r, &err) == 0, "on one node: %s", err.msg);
    is_str(r.host, "127.0.0.1", "loopback replaces it");
    c.local_size = 1;
    is_int(rendezvous_agree(&c, &r, &err), -1, "on two nodes it fails");
    (void)setenv("SLURMD_NODENAME", "localhost", 1);
    ok(rendezvous_agree(&c, &r, &err) == 0, "a name that has one");
    is_str(r.host, "localhost", "is told");
    (void)unsetenv("SLURMD_NODENAME");
}

int main(void)
{
    test_port();
    test_rank_0();
    test_stolen();
    test_names();
    return tap_done();
}
