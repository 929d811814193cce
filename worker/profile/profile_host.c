/* profile_host.c - the host's source: host calls in place of a GPU's. Its times
 * are of the thread that trains. */
#include "worker/profile/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/comm/comm_count.h"

struct host {
    struct profile_source base;
    struct device *dev;
    struct comm *comms[2];
    struct device_count device[DEVICE_WORK_N];
    struct comm_count comm[COMM_WORK_N];
};

static void count(struct host *h, bool on)
{
    h->dev->ops->count(h->dev, on ? h->device : NULL);
    for (int i = 0; i < 2; i++)
        comm_count_to(h->comms[i], on ? h->comm : NULL);
}

static int host_start(struct profile_source *s, struct error *err)
{
    (void)err;
    count((struct host *)s, true);
    return 0;
}

static int host_stop(struct profile_source *s, struct error *err)
{
    (void)err;
    count((struct host *)s, false);
    return 0;
}

static int host_take(struct profile_source *s, struct profile_rows *io,
                     struct error *err)
{
    static const struct {
        const char *name;
        bool moves;
    } works[DEVICE_WORK_N] = {
        [DEVICE_KERNEL] = {"host kernel launch", false},
        [DEVICE_GEMM] = {"host GEMM", false},
        [DEVICE_TO_DEVICE] = {"host memcpy Host-to-Device", true},
        [DEVICE_TO_HOST] = {"host memcpy Device-to-Host", true},
        [DEVICE_COPY] = {"host memcpy Device-to-Device", true},
    };
    struct host *h = (struct host *)s;
    (void)err;
    for (int i = 0; i < DEVICE_WORK_N; i++) {
        const struct device_count *c = &h->device[i];
        if (c->calls > 0)
            profile_add(io, works[i].name, c->calls, c->total_s,
                        works[i].moves ? c->bytes : -1);
    }
    for (int i = 0; i < COMM_WORK_N; i++) {
        const struct comm_count *c = &h->comm[i];
        char name[METRIC_NAME_CAP];
        (void)snprintf(name, sizeof(name), "MPI %s",
                       comm_work_name((enum comm_work)i));
        if (c->calls > 0)
            profile_add(io, name, c->calls, c->total_s,
                        i != COMM_BARRIER ? c->bytes : -1);
    }
    memset(h->device, 0, sizeof(h->device));
    memset(h->comm, 0, sizeof(h->comm));
    return 0;
}

static void host_destroy(struct profile_source *s)
{
    if (s != NULL)
        count((struct host *)s, false);
    free(s);
}

static const struct profile_source_ops host_ops = {
    .name = "host",
    .start = host_start,
    .stop = host_stop,
    .take = host_take,
    .destroy = host_destroy,
};

int profile_host_create(struct device *dev, struct comm *a, struct comm *b,
                        struct profile_source **ret, struct error *err)
{
    struct host *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return error_set(err, ERR_NOMEM, "profile");
    h->base.ops = &host_ops;
    h->dev = dev;
    h->comms[0] = a;
    h->comms[1] = b;
    *ret = &h->base;
    return 0;
}
