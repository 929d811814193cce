/* batch_argv.c - build the launcher's arguments and environment; see
 * batch_argv.h. */
#include "slurm/batch/batch_argv.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slurm/launch/argv.h"
#include "slurm/launch/hwloc.h"
#include "slurm/launch/mpirun.h"

/* Ranks leave MPI_Finalize together; but a process with much device memory
 * takes long to exit. */
enum { WAIT_S = 30 };

bool batch_has_labels(const struct batch_conf *c, const struct wire_launch *l)
{
    return c->launcher == BATCH_SRUN && l->nodes > 1 && l->spec.logs.per_rank;
}

static bool is_mpi(const struct wire_launch *l)
{
    return l->spec.launch == LAUNCH_MPI;
}

/* GPUs of each rank; 1 without GPUs. */
static int32_t shares(const struct wire_launch *l)
{
    return l->gpus_per_node > 0 ? l->gpus_per_node / wire_launch_ranks(l) : 1;
}

static int add_srun(const struct batch_conf *c, const struct wire_launch *l,
                    struct buf *b, struct error *err)
{
    const int32_t ranks = wire_launch_ranks(l);
    /* A rank that fails calls MPI_Abort; where the program is the MPI process,
     * its worker cannot, and exits. */
    bool aborts = strncmp(c->mpi, "pmix", 4) == 0 && !is_mpi(l);
    /* --quiet: no long explanations; errors are still printed. */
    static const char *const fixed[] = {
        "--quiet",      "--input=none",
        "--export=ALL", "--distribution=block:block",
        "--mem=0",      "--immediate=15",
    };
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (argv_add(b, fixed[i], err) < 0)
            return -1;
    if (buf_addf(b, err, "--mpi=%s%c", c->mpi, '\0') < 0 ||
        buf_addf(b, err, "--nodes=%d%c", l->nodes, '\0') < 0 ||
        buf_addf(b, err, "--ntasks=%lld%c", (long long)l->nodes * ranks, '\0') <
            0 ||
        buf_addf(b, err, "--ntasks-per-node=%d%c", ranks, '\0') < 0 ||
        buf_addf(b, err, "--cpus-per-task=%lld%c",
                 (long long)c->cpus_per_gpu * shares(l), '\0') < 0 ||
        buf_addf(b, err, "--kill-on-bad-exit=%d%c", aborts ? 0 : 1, '\0') < 0 ||
        buf_addf(b, err, "--wait=%d%c", WAIT_S, '\0') < 0)
        return -1;
    if (batch_has_labels(c, l) && argv_add(b, "--label", err) < 0)
        return -1;
    if (l->gpus_per_node == 0)
        return 0;
    /* An exclusive job has all GPUs of its nodes, including those of other
     * types. */
    return buf_addf(b, err, "--gpus-per-node=%s%s%d%c", c->gpu_type,
                    c->gpu_type[0] ? ":" : "", l->gpus_per_node, '\0');
}

static int add_mpirun(const struct wire_launch *l, enum mpirun_kind kind,
                      struct buf *b, struct error *err)
{
    const int32_t ranks = wire_launch_ranks(l);
    /* --bind-to none: Slurm decides which cores a job may use. */
    const char *mca = kind == MPIRUN_OMPI_4 ? "--mca" : "--prtemca";
    if (mpirun_add_common(b, kind, err) < 0 || argv_add(b, mca, err) < 0 ||
        argv_add(b, "ess_base_forward_signals", err) < 0 ||
        argv_add(b, "SIGXCPU", err) < 0 || argv_add(b, "--map-by", err) < 0 ||
        buf_addf(b, err, "ppr:%d:node%c", ranks, '\0') < 0 ||
        argv_add(b, "-np", err) < 0)
        return -1;
    return buf_addf(b, err, "%lld%c", (long long)l->nodes * ranks, '\0');
}

char **batch_argv(const struct batch_conf *c, const struct wire_launch *l,
                  enum mpirun_kind kind, const char *dir, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = argv_add(&b, c->program, err);
    if (rc == 0)
        rc = c->launcher == BATCH_SRUN ? add_srun(c, l, &b, err)
                                       : add_mpirun(l, kind, &b, err);
    if (rc < 0 || argv_add(&b, c->worker, err) < 0 ||
        argv_add(&b, "--launch", err) < 0 ||
        buf_addf(&b, err, "%s/launch.json%c", dir, '\0') < 0 ||
        (is_mpi(l) && argv_add(&b, "--program-mpi", err) < 0)) {
        buf_clear(&b);
        return NULL;
    }
    return argv_take(&b, err);
}

/* A rank that has several GPUs starts a process for each: they share its
 * cores. */
int batch_env(const struct batch_conf *c, const struct wire_launch *l,
              const char *ran, struct error *err)
{
    char threads[16], home[PATH_MAX];
    (void)snprintf(threads, sizeof(threads), "%d", c->cpus_per_gpu);
    const struct {
        const char *name, *value;
        bool may_differ; /* keep a value that an administrator's prolog has
                          * set */
    } all[] = {
        {"MGPU_RAN", ran, false},
        {"OMP_NUM_THREADS", threads, false},
        {"OPENBLAS_NUM_THREADS", threads, false},
        {"HOME", mpirun_home(home, sizeof(home)), true},
        /* A thread that waits at a barrier yields its core soon. */
        {"GOMP_SPINCOUNT", "2000", true},
        /* The order in which Slurm numbers them, too. */
        {"CUDA_DEVICE_ORDER", "PCI_BUS_ID", false},
        {"HWLOC_COMPONENTS", HWLOC_LEFT_OUT, true},
        {"HWLOC_PLUGINS_BLACKLIST", HWLOC_NOT_LOADED, true},
        /* With the default of mpi/pmix a rank may leave MPI_Init while another
         * is still in it, and Open MPI crashes in 3 to 15 of 100 starts on a
         * busy node; this takes precedence over PMIxCollFence of mpi.conf. */
        {"SLURM_PMIX_FENCE", "ring", true},
        /* mpirun's daemons are tasks of srun, too, but not PMIx clients. */
        {c->launcher == BATCH_MPIRUN ? "SLURM_MPI_TYPE" : NULL, "none", false},
        {l->gpus_per_node == 0 ? "CUDA_VISIBLE_DEVICES" : NULL, "", false},
        {geteuid() == 0 ? "OMPI_ALLOW_RUN_AS_ROOT" : NULL, "1", false},
        {geteuid() == 0 ? "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" : NULL, "1", false},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].name &&
            setenv(all[i].name, all[i].value, !all[i].may_differ))
            return error_sys(err, errno, "set %s", all[i].name);
    return 0;
}
