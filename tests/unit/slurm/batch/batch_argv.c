/* batch_argv.c - the words that srun and mpirun get, and the environment. */
#include "slurm/batch/batch_argv.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

static struct batch_conf conf(enum batch_launcher launcher)
{
    return (struct batch_conf){.launcher = launcher,
                               .program = "/opt/launcher",
                               .mpi = "pmix_v4",
                               .worker = "/opt/a worker",
                               .cpus_per_gpu = 4};
}

static struct wire_launch three_nodes(void)
{
    return (struct wire_launch){.nodes = 3, .gpus_per_node = 2};
}

static bool has(char *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static void all_there(const struct batch_conf *c, const struct wire_launch *l,
                      enum mpirun_kind kind, const char *const *words, size_t n)
{
    struct error err = ERROR_INIT;
    char **argv = batch_argv(c, l, kind, "/jobs/1 2/3", &err);
    if (!ok(argv != NULL, "arguments %s", err.msg))
        return;
    is_str(argv[0], "/opt/launcher", "the program is first");
    for (size_t i = 0; i < n; i++)
        ok(has(argv, words[i]), "%s", words[i]);
    size_t last = 0;
    while (argv[last])
        last++;
    if (ok(last > 3, "there are some")) {
        is_str(argv[last - 3], "/opt/a worker", "a blank splits nothing");
        is_str(argv[last - 2], "--launch", "the worker's option");
        is_str(argv[last - 1], "/jobs/1 2/3/launch.json", "and its file");
    }
    free(argv);
}

static void test_srun(void)
{
    static const char *const words[] = {
        "--nodes=3",         "--ntasks=6",           "--ntasks-per-node=2",
        "--cpus-per-task=4", "--gpus-per-node=2",    "--mpi=pmix_v4",
        "--mem=0",           "--kill-on-bad-exit=0", "--immediate=15",
    };
    struct batch_conf c = conf(BATCH_SRUN);
    struct wire_launch l = three_nodes();
    struct error err = ERROR_INIT;
    all_there(&c, &l, MPIRUN_OMPI_4, words, sizeof(words) / sizeof(words[0]));

    static const char *const typed[] = {"--gpus-per-node=a100:2"};
    memcpy(c.gpu_type, "a100", 5);
    all_there(&c, &l, MPIRUN_OMPI_4, typed, 1);

    ok(!batch_has_labels(&c, &l), "a plain log has no labels");
    l.spec.logs.per_rank = true;
    ok(batch_has_labels(&c, &l), "srun labels the ranks of other nodes");
    char **argv = batch_argv(&c, &l, MPIRUN_OMPI_4, "/j", &err);
    ok(argv && has(argv, "--label"), "  and is told to");
    free(argv);

    l.spec.launch = LAUNCH_MPI;
    char **mpi = batch_argv(&c, &l, MPIRUN_OMPI_4, "/j", &err);
    ok(mpi && has(mpi, "--program-mpi") && has(mpi, "--kill-on-bad-exit=1"),
       "the program is the MPI process, and srun ends its step");
    free(mpi);

    static const char *const one[] = {"--ntasks=3", "--ntasks-per-node=1",
                                      "--cpus-per-task=8",
                                      "--gpus-per-node=a100:2"};
    l.spec.launch = LAUNCH_NODE;
    all_there(&c, &l, MPIRUN_OMPI_4, one, 4);

    l.gpus_per_node = 0;
    memcpy(c.mpi, "none", 5);
    l.nodes = INT32_MAX;
    argv = batch_argv(&c, &l, MPIRUN_OMPI_4, "/j", &err);
    if (ok(argv != NULL, "without GPUs %s", err.msg)) {
        ok(has(argv, "--ntasks=2147483647"), "as many ranks as can be");
        ok(has(argv, "--cpus-per-task=4"), "each has its CPUs");
        ok(has(argv, "--kill-on-bad-exit=1"), "srun ends the step itself");
        for (char **p = argv; *p; p++)
            ok(strstr(*p, "gpu") == NULL, "nothing of GPUs: %s", *p);
    }
    free(argv);
}

static void test_mpirun(void)
{
    static const char *const words[] = {"ppr:2:node", "6", "none", "SIGXCPU",
                                        "--quiet"};
    static const char *const of_5[] = {"ppr:2:node", "6",         "none",
                                       "SIGXCPU",    "--prtemca", "^stdfd"};
    struct batch_conf c = conf(BATCH_MPIRUN);
    struct wire_launch l = three_nodes();
    struct error err = ERROR_INIT;
    all_there(&c, &l, MPIRUN_OMPI_4, words, sizeof(words) / sizeof(words[0]));
    all_there(&c, &l, MPIRUN_OMPI_5, of_5, sizeof(of_5) / sizeof(of_5[0]));
    char **argv = batch_argv(&c, &l, MPIRUN_OMPI_5, "/j", &err);
    ok(argv && !has(argv, "--quiet"), "Open MPI 5 does not know --quiet");
    ok(argv && !has(argv, "--personality"), "and is itself anyhow");
    free(argv);
    argv = batch_argv(&c, &l, MPIRUN_PRRTE, "/j", &err);
    ok(argv && has(argv, "ompi"), "prterun is told to be Open MPI's");
    free(argv);
}

static void is_env(const char *name, const char *want)
{
    const char *value = getenv(name);
    is_str(value ? value : "(not set)", want, name);
}

static void test_env(void)
{
    struct batch_conf c = conf(BATCH_SRUN);
    struct wire_launch l = three_nodes();
    struct error err = ERROR_INIT;
    (void)clearenv();
    (void)setenv("CUDA_VISIBLE_DEVICES", "2,3", 1);
    (void)setenv("OMP_NUM_THREADS", "1", 1);
    is_int(batch_env(&c, &l, "/j/ran", &err), 0, "srun, with GPUs");
    is_env("MGPU_RAN", "/j/ran");
    is_env("OMP_NUM_THREADS", "4");
    is_env("OPENBLAS_NUM_THREADS", "4");
    is_env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    is_env("CUDA_VISIBLE_DEVICES", "2,3");
    is_env("SLURM_PMIX_FENCE", "ring");
    is_env("SLURM_MPI_TYPE", "(not set)");
    ok(getenv("HOME") != NULL, "HOME is set");
    is_env("HWLOC_COMPONENTS", "-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero");

    (void)setenv("SLURM_PMIX_FENCE", "tree", 1);
    (void)setenv("HOME", "/home/who", 1);
    (void)setenv("HWLOC_COMPONENTS", "all", 1);
    c = conf(BATCH_MPIRUN);
    l.gpus_per_node = 0;
    is_int(batch_env(&c, &l, "/j/ran", &err), 0, "mpirun, without");
    is_env("CUDA_VISIBLE_DEVICES", "");
    is_env("SLURM_MPI_TYPE", "none");
    is_env("SLURM_PMIX_FENCE", "tree");
    is_env("HOME", "/home/who");
    is_env("HWLOC_COMPONENTS", "all");
    c = conf(BATCH_SRUN);
    l.gpus_per_node = 2;
    l.spec.launch = LAUNCH_NODE;
    c.cpus_per_gpu = 8;
    is_int(batch_env(&c, &l, "/j/ran", &err), 0, "one rank with two GPUs");
    is_env("OMP_NUM_THREADS", "8");
    is_env("OMPI_ALLOW_RUN_AS_ROOT", geteuid() == 0 ? "1" : "(not set)");
}

int main(void)
{
    test_srun();
    test_mpirun();
    test_env();
    return tap_done();
}
