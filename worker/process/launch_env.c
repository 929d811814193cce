/* launch_env.c - see launch_env.h. */
#include "worker/process/launch_env.h"

#include <string.h>

bool launch_meets(enum spec_launch launch)
{
    return launch == LAUNCH_TORCH || launch == LAUNCH_NODE;
}

int launch_check(enum spec_launch launch, const struct comm *c,
                 struct error *err)
{
    if (launch == LAUNCH_NODE && c->local_size > 1)
        return error_set(err, ERR_CONFIG,
                         "launch: node has one process per node, and %d were "
                         "started here",
                         c->local_size);
    if (launch == LAUNCH_MPI && strcmp(c->ops->name, "mpi") == 0)
        return error_set(err, ERR_CONFIG,
                         "launch: mpi: start mgpu-worker with --program-mpi");
    return 0;
}

/* A program indexes its GPUs with LOCAL_RANK, and so it sees those of the
 * other ranks of its node, too. */
static int add_torch(const struct comm *c, struct env_list *e,
                     struct error *err)
{
    return env_number(e, "RANK", c->rank, err) < 0 ||
                   env_number(e, "WORLD_SIZE", c->size, err) < 0 ||
                   env_number(e, "LOCAL_RANK", c->local_rank, err) < 0 ||
                   env_number(e, "LOCAL_WORLD_SIZE", c->local_size, err) < 0 ||
                   env_number(e, "GROUP_RANK", c->rank / c->local_size, err) < 0
               ? -1
               : 0;
}

static int add_node(const struct comm *c, int32_t gpus_per_node,
                    struct env_list *e, struct error *err)
{
    return env_number(e, "MGPU_NODES", c->size, err) < 0 ||
                   env_number(e, "MGPU_NODE_RANK", c->rank, err) < 0 ||
                   env_number(e, "MGPU_GPUS_PER_NODE", gpus_per_node, err) < 0
               ? -1
               : 0;
}

int launch_env(enum spec_launch launch, const struct comm *c,
               int32_t gpus_per_node, const struct rendezvous *r,
               struct env_list *e, struct error *err)
{
    if (!launch_meets(launch))
        return 0;
    int rc = launch == LAUNCH_TORCH ? add_torch(c, e, err)
                                    : add_node(c, gpus_per_node, e, err);
    if (rc < 0 || env_add(e, "MASTER_ADDR", r->host, err) < 0)
        return -1;
    return env_number(e, "MASTER_PORT", r->port, err);
}

static int add_torchrun(const struct comm *c, int32_t gpus_per_node,
                        const struct rendezvous *r, struct env_list *e,
                        struct error *err)
{
    int32_t processes = gpus_per_node > 0 ? gpus_per_node : 1;
    return env_number(e, "PET_NNODES", c->size, err) < 0 ||
                   env_number(e, "PET_NODE_RANK", c->rank, err) < 0 ||
                   env_number(e, "PET_NPROC_PER_NODE", processes, err) < 0 ||
                   env_add(e, "PET_MASTER_ADDR", r->host, err) < 0 ||
                   env_number(e, "PET_MASTER_PORT", r->port, err) < 0
               ? -1
               : 0;
}

int launch_env_below(enum spec_launch launch, const struct comm *c,
                     int32_t gpus_per_node, const struct rendezvous *r,
                     struct env_list *e, struct error *err)
{
    if (launch == LAUNCH_NODE)
        return add_torchrun(c, gpus_per_node, r, e, err);
    static const char *const passed[] = {"PMIX_", "PMI_",  "PMI2_",  "OMPI_",
                                         "ORTE_", "PRTE_", "SLURM_", NULL};
    for (int i = 0; launch == LAUNCH_MPI && passed[i]; i++)
        if (env_pass_all(e, passed[i], err) < 0)
            return -1;
    return 0;
}
