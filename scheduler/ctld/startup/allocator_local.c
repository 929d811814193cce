/* allocator_local.c - see allocator.h. */
#include <sched.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/startup/allocator.h"
#include "scheduler/ctld/startup/paths.h"

enum { NODES_CAP = 64 };

void compose_clear(struct compose *c)
{
    if (c->files)
        c->files->ops->destroy(c->files);
    if (c->alloc)
        c->alloc->ops->destroy(c->alloc);
    *c = (struct compose){.alloc = NULL};
}

void slurm_helper_clear(struct slurm_helper *h)
{
    if (h->pid == 0)
        return;
    (void)close(h->rpc_fd);
    (void)close(h->files_fd);
    *h = (struct slurm_helper){.pid = 0};
}

static int32_t n_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

static int count_gpus(struct alloc *a, int32_t *ret, struct error *err)
{
    struct alloc_node nodes[NODES_CAP];
    size_t n = 0;
    *ret = 0;
    if (a->ops->inventory(a, nodes, NODES_CAP, &n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        *ret += nodes[i].gpus_total;
    return 0;
}

static int make_alloc(const struct conf *conf, int32_t given_slots,
                      struct alloc_local_conf *local, struct alloc **ret,
                      struct error *err)
{
    int32_t gpus = 0, want = conf->local.gpus;
    int32_t slots =
        conf->local.cpu_slots > 0 ? conf->local.cpu_slots : n_cores();
    if (given_slots > 0 || want == 0) {
        local->slots = given_slots > 0 ? given_slots : slots;
        return alloc_local_create(local, ret, err);
    }
    if (alloc_local_create(local, ret, err) < 0)
        return -1;
    int rc = count_gpus(*ret, &gpus, err);
    if (rc == 0 && want > 0 && want != gpus)
        rc = error_set(err, ERR_CONFIG,
                       "local.gpus is %d, but this machine has %d", want, gpus);
    if (rc == 0 && gpus > 0)
        return 0;
    (*ret)->ops->destroy(*ret);
    *ret = NULL;
    if (rc < 0)
        return -1;
    local->slots = slots;
    return alloc_local_create(local, ret, err);
}

static void tell(const char *what)
{
    log_warn("alloc", "%s", what);
}

int compose_local(const struct conf *conf, int32_t slots, int64_t max_fds,
                  struct compose *ret, struct error *err)
{
    struct compose c = {.alloc = NULL};
    char shepherd[COMPOSE_PATH_CAP], gpuwatch[COMPOSE_PATH_CAP];
    struct alloc_local_conf local = {.mpirun = conf->local.mpirun,
                                     .shepherd = shepherd,
                                     .gpuwatch = gpuwatch,
                                     .bind = conf->local.bind,
                                     .tell = tell,
                                     .max_fds = max_fds};
    if (paths_program("mgpu-shepherd", shepherd, sizeof(shepherd), err) < 0 ||
        paths_program("mgpu-gpuwatch", gpuwatch, sizeof(gpuwatch), err) < 0 ||
        make_alloc(conf, slots, &local, &c.alloc, err) < 0 ||
        files_direct_create(&c.files, err) < 0) {
        compose_clear(&c);
        return -1;
    }
    *ret = c;
    return 0;
}
