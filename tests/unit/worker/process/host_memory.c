/* host_memory.c - what control groups leave of a machine's memory. */
#include "worker/process/host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static char dir[] = "/tmp/mgpu-memory-XXXXXX";
static char made[64][200];
static int n_made;

/* A file below dir, and the directories that it needs. */
static void put(const char *path, const char *text)
{
    char full[200];
    int n = snprintf(full, sizeof(full), "%s%s", dir, path);
    if (n < 0 || (size_t)n >= sizeof(full))
        exit(1);
    for (char *p = full + strlen(dir) + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            if (mkdir(full, 0700) == 0 && n_made < 63)
                (void)strcpy(made[n_made++], full);
            *p = '/';
        }
    if (access(full, F_OK) < 0 && n_made < 63)
        (void)strcpy(made[n_made++], full);
    FILE *f = fopen(full, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        exit(1);
}

static void leaves(int64_t bytes, bool is_share, const char *what)
{
    struct memory_left m = memory_left(dir);
    if (!ok(m.bytes == bytes && m.is_share == is_share, "%s", what))
        tap_diag("%lld of %d", (long long)m.bytes, m.is_share);
}

#define JOB "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7"

static void test_two(void)
{
    leaves(-1, false, "nobody says");
    put("/proc/meminfo", "MemTotal:   900 kB\nMemAvailable:   800 kB\n");
    leaves(800 * 1024, false, "the machine says");
    put("/proc/self/cgroup",
        "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n");
    leaves(800 * 1024, false, "groups without files have no limit");
    put(JOB "/step_0/user/task_0/memory.max", "max\n");
    put(JOB "/step_0/user/task_0/memory.current", "5000\n");
    leaves(800 * 1024, false, "nor has one that is not limited");
    put(JOB "/memory.max", "100000\n");
    put(JOB "/memory.current", "30000\n");
    leaves(70000, true, "a job's limit is above its tasks");
    put(JOB "/memory.stat",
        "anon 4000\ninactive_file 6000\nactive_file 3000\nfile 9000\n");
    leaves(79000, true, "pages of files are not in the way");
    put("/sys/fs/cgroup/system.slice/memory.max", "60000\n");
    put("/sys/fs/cgroup/system.slice/memory.current", "59000\n");
    leaves(1000, true, "the smallest on the way up");
    put("/sys/fs/cgroup/system.slice/memory.current", "61000\n");
    leaves(0, true, "nothing is left");
    put("/sys/fs/cgroup/system.slice/memory.max", "max\n");
    put("/proc/meminfo", "MemTotal:   90 kB\nMemAvailable:   60 kB\n");
    leaves(60 * 1024, false, "a machine that has less");
}

static void test_used(void)
{
    struct memory_used m = memory_used(dir);
    ok(m.bytes == -1 && m.highest == -1, "nobody says what is used");
    put("/proc/self/status", "Name:\tw\nVmPeak:\t  900 kB\nVmHWM:\t  70 kB\n"
                             "VmRSS:\t   50 kB\nRssAnon:\t 20 kB\n");
    m = memory_used(dir);
    is_int(m.bytes, 50 * 1024, "what is resident");
    is_int(m.highest, 70 * 1024, "and was at its highest");
}

static void test_one(void)
{
    put("/proc/meminfo", "MemAvailable:   800 kB\n");
    put("/proc/self/cgroup", "5:cpu,cpuacct:/slurm/job_8\n"
                             "4:hugetlb,memory:/slurm/job_8\n0::/other\n");
    put("/sys/fs/cgroup/memory/slurm/job_8/memory.limit_in_bytes",
        "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/slurm/job_8/memory.usage_in_bytes", "9000\n");
    leaves(800 * 1024, false, "version 1: no limit is a large one");
    put("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "50000\n");
    put("/sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "20000\n");
    put("/sys/fs/cgroup/memory/slurm/memory.stat",
        "cache 1\ntotal_inactive_file 1000\ntotal_active_file 500\n");
    leaves(31500, true, "version 1: a limit");
    put("/proc/self/cgroup", "4:memory:/\n\nx\n:\n::\n4:memory");
    leaves(800 * 1024, false, "lines of another kind are passed over");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_two();
    test_one();
    test_used();
    struct memory_used mine = memory_used("");
    ok(mine.bytes > 100 << 10 && mine.highest >= mine.bytes,
       "of this process: %lld KiB, %lld at its highest",
       (long long)(mine.bytes >> 10), (long long)(mine.highest >> 10));
    struct memory_left here = memory_left("");
    ok(here.bytes > 1 << 20, "of this machine: %lld MiB%s",
       (long long)(here.bytes >> 20), here.is_share ? ", a share" : "");
    while (n_made > 0)
        (void)remove(made[--n_made]);
    is_int(rmdir(dir), 0, "nothing is left behind");
    return tap_done();
}
