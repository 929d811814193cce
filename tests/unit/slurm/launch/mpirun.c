/* mpirun.c - the launcher's arguments, environment and exit status. */
#include "slurm/launch/mpirun.h"

#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/launch/launcher.h"
#include "tests/tap.h"

/* wait(2) statuses as Linux encodes them. */
static int exited(int code)
{
    return code << 8;
}

static void test_exit(void)
{
    static const struct {
        int status, code, signo;
        const char *what;
    } rows[] = {
        {0, 0, 0, "all ranks exited 0"},
        {7 << 8, 7, 0, "one exited 7"},
        {128 << 8, 128, 0, "128 is no signal"},
        {139 << 8, 0, SIGSEGV, "one died of signal 11"},
        {159 << 8, 0, 31, "the last signal"},
        {160 << 8, 160, 0, "one beyond"},
        {255 << 8, 255, 0, "the largest code"},
        {SIGKILL, 0, SIGKILL, "mpirun itself was killed"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct attempt_exit x = {.when_s = 5};
        launcher_exit(rows[i].status, &x);
        ok(x.code == rows[i].code && x.signal == rows[i].signo && x.when_s == 5,
           "%s", rows[i].what);
    }
    struct attempt_exit x;
    launcher_exit(exited(75), &x);
    is_int(x.code, 75, "75 comes through");
}

static bool has(char *const *list, const char *entry)
{
    for (; *list; list++)
        if (strcmp(*list, entry) == 0)
            return true;
    return false;
}

static void test_words(void)
{
    struct error err = ERROR_INIT;
    char **argv = mpirun_argv("mpirun", MPIRUN_OMPI_4, 3, "/opt/a worker",
                              "/jobs/1/2", false, &err);
    if (!ok(argv && strcmp(argv[0], "mpirun") == 0, "arguments"))
        return;
    size_t n = 0;
    while (argv[n])
        n++;
    ok(n > 5, "there are some");
    is_str(argv[n - 1], "/jobs/1/2/launch.json", "the launch file comes last");
    is_str(argv[n - 3], "/opt/a worker", "a blank splits nothing");
    is_str(argv[n - 4], "3", "three ranks");
    free(argv);
    argv = mpirun_argv("mpirun", MPIRUN_OMPI_4, 3, "/w", "/j", true, &err);
    ok(argv && has(argv, "--program-mpi"), "MPI is left to the program");
    free(argv);

    (void)setenv("MGPU_SECRET", "x", 1);
    (void)setenv("HOME", "/home/who", 1);
    (void)unsetenv("OMP_NUM_THREADS");
    char **env = mpirun_env("/jobs/1/2", 4, false, "GPU-a,GPU-b", &err);
    ok(env && has(env, "HOME=/home/who"), "the home directory is passed on");
    ok(!has(env, "MGPU_SECRET=x"), "what is not on the list is not");
    ok(!has(env, "MGPU_BIND_RANKS=1"), "the ranks share the cores");
    ok(has(env, "OMP_NUM_THREADS=4") && has(env, "OPENBLAS_NUM_THREADS=4"),
       "the threads");
    ok(has(env, "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b"), "the GPUs");
    ok(has(env, ATTEMPT_MARK "=/jobs/1/2"), "the mark");
    ok(has(env, "HWLOC_COMPONENTS="
                "-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero"),
       "hwloc looks for no displays");
    free(env);

    /* On what the bits of the host's results depend. */
    (void)setenv("OMP_NUM_THREADS", "3", 1);
    (void)setenv("MGPU_HOST_SIMD", "256", 1);
    (void)setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    (void)setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    (void)setenv("MGPU_DNNL", "0", 1);
    env = mpirun_env("/jobs/1/2", 4, false, "", &err);
    ok(env && has(env, "OMP_NUM_THREADS=3") &&
           has(env, "OPENBLAS_NUM_THREADS=3"),
       "a number of threads that was asked for");
    ok(env && has(env, "MGPU_HOST_SIMD=256") &&
           has(env, "OPENBLAS_CORETYPE=Haswell") &&
           has(env, "DNNL_MAX_CPU_ISA=AVX2") && has(env, "MGPU_DNNL=0"),
       "the instructions that may be used");
    free(env);
    (void)unsetenv("OMP_NUM_THREADS");

    char home[PATH_MAX + 8];
    const struct passwd *pw = getpwuid(geteuid());
    (void)unsetenv("HOME");
    (void)snprintf(home, sizeof(home), "HOME=%s", pw ? pw->pw_dir : "/");
    env = mpirun_env("/jobs/1/2", 4, true, "", &err);
    ok(env && has(env, home), "without HOME it is that of the user database");
    ok(env && has(env, "MGPU_BIND_RANKS=1"), "ranks that divide their cores");
    free(env);
    is_str(mpirun_home(home, 2), "/", "or / if that is too long");

    (void)setenv("HWLOC_COMPONENTS", "all", 1);
    (void)setenv("HWLOC_PLUGINS_BLACKLIST", "", 1);
    env = mpirun_env("/jobs/1/2", 4, true, "", &err);
    ok(env && has(env, "HWLOC_COMPONENTS=all") &&
           has(env, "HWLOC_PLUGINS_BLACKLIST="),
       "unless it was told what to look for");
    free(env);
}

/* All words of a start of two ranks, in one line. */
static const char *line_of(enum mpirun_kind kind, char ret[512])
{
    char **argv = mpirun_argv("mpirun", kind, 2, "/w", "/j", false, NULL);
    ret[0] = '\0';
    for (char **p = argv; p && *p; p++) {
        size_t n = strlen(ret);
        (void)snprintf(ret + n, 512 - n, "%s%s", n > 0 ? " " : "", *p);
    }
    free(argv);
    return ret;
}

static void test_kinds(void)
{
    char line[512];
    is_str(line_of(MPIRUN_OMPI_4, line),
           "mpirun --quiet --bind-to none --oversubscribe --mca "
           "oob_tcp_if_include lo --mca btl self,vader -np 2 /w --launch "
           "/j/launch.json",
           "Open MPI 4");
    is_str(line_of(MPIRUN_OMPI_5, line),
           "mpirun --pmixmca plog ^stdfd --bind-to none --oversubscribe "
           "--pmixmca ptl_tcp_if_include lo --mca btl self,sm -np 2 /w "
           "--launch /j/launch.json",
           "Open MPI 5");
    is_str(line_of(MPIRUN_PRRTE, line),
           "mpirun --personality ompi --pmixmca plog ^stdfd --bind-to none "
           "--oversubscribe --pmixmca ptl_tcp_if_include lo --mca btl self,sm "
           "-np 2 /w --launch /j/launch.json",
           "prterun");
}

int main(void)
{
    test_exit();
    test_words();
    test_kinds();
    return tap_done();
}
