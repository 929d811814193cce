/* shm_dir.c - what a killed process leaves in shared memory is removed, and
 * nothing of one that lives. */
#include "jobs/log/shm_dir.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

static char base[] = "/tmp/mgpu-shm.XXXXXX";

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void put(const char *dir, const char *name)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || close(fd) < 0)
        exit(1);
}

/* A process with a directory, that waits to be killed. */
static pid_t begin(char ret_path[96])
{
    int ends[2];
    if (pipe(ends) < 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        struct shm_dir d;
        if (shm_dir_make(base, &d, NULL) < 0)
            _exit(1);
        put(d.path, "vader_segment.0");
        if (write(ends[1], d.path, sizeof(d.path)) != sizeof(d.path))
            _exit(1);
        for (;;)
            (void)pause();
    }
    (void)close(ends[1]);
    ok(read(ends[0], ret_path, 96) == 96, "a process with its directory");
    (void)close(ends[0]);
    return pid;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

int main(void)
{
    struct error err = ERROR_INIT;
    struct shm_dir own = {.fd = -1};
    struct stat st;
    char one[96], two[96], file[160];
    if (!mkdtemp(base))
        exit(1);
    is_int(shm_dir_make(base, &own, &err), 0, "a directory");
    ok(stat(own.path, &st) == 0 && (st.st_mode & 07777) == 0700,
       "for nobody else");
    put(own.path, "vader_segment.1");
    pid_t first = begin(one), second = begin(two);
    (void)snprintf(file, sizeof(file), "%s/mgpu-rank.%lu.file", base,
                   (unsigned long)geteuid());
    put(base, strrchr(file, '/') + 1);
    put(base, "vader_segment.2");
    is_int(shm_dir_sweep(base), 0, "nothing is swept while they live");
    end(first);
    is_int(shm_dir_sweep(base), 1, "what a killed one left is");
    ok(!is_there(one) && is_there(two) && is_there(own.path),
       "and nothing else");
    (void)snprintf(one, sizeof(one), "%s/vader_segment.2", base);
    ok(is_there(one) && is_there(file), "no files of others");
    end(second);
    shm_dir_remove(&own);
    ok(!is_there(own.path), "one removes one's own with what is in it");
    shm_dir_remove(&own);
    is_int(shm_dir_sweep(base), 1, "the other one");
    is_int(shm_dir_sweep("/no/such/place"), 0, "there may be no such place");
    ok(shm_dir_make("/no/such/place", &own, &err) < 0, "%s", err.msg);
    (void)unlink(file);
    (void)unlink(one);
    ok(rmdir(base) == 0, "all is gone");
    return tap_done();
}
