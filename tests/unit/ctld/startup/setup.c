/* setup.c - what a configuration means for each kind of daemon. */
#include "scheduler/ctld/startup/setup.h"

#include <stdlib.h>

#include "tests/tap.h"

/* What a daemon of this kind grants each user: requests, connections. */
static struct ctld_conf of(enum daemon_kind kind, int32_t clients,
                           int32_t of_one)
{
    static struct conf conf; /* what is returned borrows from it */
    struct error err = ERROR_INIT;
    struct setup s = {.kind = kind};
    struct ctld_conf ret;
    conf_clear(&conf);
    if (conf_default(&conf, &err) < 0)
        exit(1);
    conf.controller.max_clients = clients;
    conf.limits.max_clients_per_user = of_one;
    setup_ctld(&conf, &s, &ret);
    return ret;
}

int main(void)
{
    struct ctld_conf c = of(DAEMON_SYSTEM, 2048, 0);
    is_int(c.max_clients_per_uid, 64, "S03: 64 connections of one user");
    is_int(c.rpc_rate, 20, "S06: 20 requests a second");
    is_int(c.rpc_burst, 60, "S06: 60 at once");
    is_int(c.max_clients_per_net, 1024, "a login node is many");
    c = of(DAEMON_LOCAL, 2048, 0);
    is_int(c.max_clients_per_uid, 1024, "of one's own daemon, more");
    is_int(c.rpc_rate, 0, "and as often as one likes");
    c = of(DAEMON_LOCAL, 2048, 8);
    is_int(c.max_clients_per_uid, 8, "as the file says");
    c = of(DAEMON_SYSTEM, 2048, 100);
    is_int(c.max_clients_per_uid, 100, "here, too");
    c = of(DAEMON_SYSTEM, 16, 100);
    is_int(c.max_clients_per_uid, 16, "but no more than there are");
    is_int(c.max_clients_per_net, 16, "of anybody");
    return tap_done();
}
