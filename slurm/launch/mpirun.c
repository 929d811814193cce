/* mpirun.c - build the arguments and the environment of local ranks; see
 * mpirun.h. */
#include "slurm/launch/mpirun.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slurm/launch/argv.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/launch/hwloc.h"

static int add_rank(struct buf *b, const char *worker, const char *dir,
                    struct error *err)
{
    return argv_add(b, worker, err) < 0 || argv_add(b, "--launch", err) < 0 ||
                   buf_addf(b, err, "%s/launch.json%c", dir, '\0') < 0
               ? -1
               : 0;
}

static int add_all(struct buf *b, const char *const *words, struct error *err)
{
    for (; *words; words++)
        if (argv_add(b, *words, err) < 0)
            return -1;
    return 0;
}

int mpirun_add_common(struct buf *b, enum mpirun_kind kind, struct error *err)
{
    /* --quiet: no long explanation of a rank's exit code in its log.
     *   Open MPI 5 exits with 213 if it is given.
     * plog: Open MPI 5 prints a long text about MPI_Abort through PMIx's log,
     *   with a NUL byte in it. */
    static const char *const of_4[] = {"--quiet", NULL};
    static const char *const of_5[] = {"--pmixmca", "plog", "^stdfd", NULL};
    /* mpirun of Open MPI has this personality by default; prterun has not. */
    static const char *const of_prrte[] = {"--personality", "ompi", NULL};
    if (kind == MPIRUN_PRRTE && add_all(b, of_prrte, err) < 0)
        return -1;
    if (add_all(b, kind == MPIRUN_OMPI_4 ? of_4 : of_5, err) < 0)
        return -1;
    return argv_add(b, "--bind-to", err) < 0 ? -1 : argv_add(b, "none", err);
}

char **mpirun_argv(const char *mpirun, enum mpirun_kind kind, int32_t ranks,
                   const char *worker, const char *dir, bool program_mpi,
                   struct error *err)
{
    /* --bind-to none: two attempts would bind to the same first cores. Ranks
     *   whose attempt has its cores alone bind themselves, see mpirun_env().
     * --oversubscribe: slots may be more than cores; without effect when
     *   they are not.
     * oob, ptl: one machine needs no network, and a port of the launcher
     * listens on 127.0.0.1. Open MPI 5 finds no interface and exits with 213 if
     * oob is limited to lo. btl: ranks listen on no port. vader is sm since
     * Open MPI 5. */
    static const char *const of_4[] = {
        "--oversubscribe", "--mca", "oob_tcp_if_include", "lo",
        "--mca",           "btl",   "self,vader",         NULL};
    static const char *const of_5[] = {"--oversubscribe",
                                       "--pmixmca",
                                       "ptl_tcp_if_include",
                                       "lo",
                                       "--mca",
                                       "btl",
                                       "self,sm",
                                       NULL};
    struct buf b = BUF_INIT;
    int rc = argv_add(&b, mpirun, err);
    if (rc == 0)
        rc = mpirun_add_common(&b, kind, err);
    if (rc == 0)
        rc = add_all(&b, kind == MPIRUN_OMPI_4 ? of_4 : of_5, err);
    if (rc < 0 || argv_add(&b, "-np", err) < 0 ||
        buf_addf(&b, err, "%d%c", ranks, '\0') < 0 ||
        add_rank(&b, worker, dir, err) < 0 ||
        (program_mpi && argv_add(&b, "--program-mpi", err) < 0)) {
        buf_clear(&b);
        return NULL;
    }
    return argv_take(&b, err);
}

char **mpirun_argv_alone(const char *worker, const char *dir, struct error *err)
{
    struct buf b = BUF_INIT;
    if (add_rank(&b, worker, dir, err) < 0 ||
        argv_add(&b, "--alone", err) < 0) {
        buf_clear(&b);
        return NULL;
    }
    return argv_take(&b, err);
}

/* Passes a variable of our own environment, or `otherwise`; NULL: omits it. */
static int pass_or(struct buf *b, const char *name, const char *otherwise,
                   struct error *err)
{
    const char *value = getenv(name);
    value = value ? value : otherwise;
    return value ? buf_addf(b, err, "%s=%s%c", name, value, '\0') : 0;
}

const char *mpirun_home(char *buf, size_t cap)
{
    char text[4096];
    struct passwd pw, *found = NULL;
    const char *home = getenv("HOME");
    if (home)
        return home;
    if (getpwuid_r(geteuid(), &pw, text, sizeof(text), &found) != 0 || !found)
        return "/";
    int n = snprintf(buf, cap, "%s", found->pw_dir);
    return n > 0 && (size_t)n < cap ? buf : "/";
}

char **mpirun_env(const char *dir, int32_t threads, bool bind, const char *cuda,
                  struct error *err)
{
    static const char *const passed[] = {
        "USER",
        "LOGNAME",
        "LANG",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "MGPU_HOST_SIMD",
        "OPENBLAS_CORETYPE",
        "MGPU_DNNL",
        "DNNL_MAX_CPU_ISA",
        "ONEDNN_MAX_CPU_ISA",
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        "ASAN_OPTIONS",
        "LSAN_OPTIONS",
        "UBSAN_OPTIONS",
        "TSAN_OPTIONS",
#endif
    };
    struct buf b = BUF_INIT;
    char home[PATH_MAX];
    const char *path = getenv("PATH");
    int rc = buf_addf(&b, err, "PATH=%s%c",
                      path ? path : "/usr/local/bin:/usr/bin:/bin", '\0');
    if (rc == 0)
        rc = buf_addf(&b, err, "HOME=%s%c", mpirun_home(home, sizeof(home)),
                      '\0');
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]) && rc == 0; i++)
        rc = pass_or(&b, passed[i], NULL, err);
    if (rc == 0)
        rc = pass_or(&b, "HWLOC_COMPONENTS", HWLOC_LEFT_OUT, err);
    if (rc == 0)
        rc = pass_or(&b, "HWLOC_PLUGINS_BLACKLIST", HWLOC_NOT_LOADED, err);
    if (rc == 0)
        rc = buf_addf(&b, err, "%s=%s%c", ATTEMPT_MARK, dir, '\0');
    if (rc == 0 && geteuid() == 0)
        rc = buf_addf(&b, err,
                      "OMPI_ALLOW_RUN_AS_ROOT=1%c"
                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1%c",
                      '\0', '\0');
    char share[16];
    (void)snprintf(share, sizeof(share), "%d", threads);
    const char *each = getenv("OMP_NUM_THREADS");
    each = each && each[0] ? each : share;
    /* A thread that waits at a barrier yields its core soon: there may be more
     * ranks than cores. */
    if (rc == 0)
        rc = buf_addf(&b, err,
                      "OMP_NUM_THREADS=%s%cOPENBLAS_NUM_THREADS=%s%c"
                      "GOMP_SPINCOUNT=2000%c",
                      each, '\0', each, '\0', '\0');
    if (rc == 0 && bind) /* worker/process/rank_cores.h */
        rc = buf_addf(&b, err, "MGPU_BIND_RANKS=1%c", '\0');
    if (rc == 0)
        rc = buf_addf(&b, err,
                      "CUDA_DEVICE_ORDER=PCI_BUS_ID%c"
                      "CUDA_VISIBLE_DEVICES=%s%c",
                      '\0', cuda, '\0');
    if (rc < 0) {
        buf_clear(&b);
        return NULL;
    }
    return argv_take(&b, err);
}
