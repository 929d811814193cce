/* proc.c - processes with a mark, until all of them is gone. */
#include "slurm/launch/proc.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

static char mark[64];

static uint64_t own_ticks(void)
{
    uint64_t ticks = 0;
    struct error err = ERROR_INIT;
    if (proc_start_ticks(getpid(), &ticks, &err) < 0)
        tap_diag("%s", err.msg);
    return ticks;
}

/* Without those whose marks cannot be read any more: they may be others'. */
static int n_marked(int signo)
{
    struct error err = ERROR_INIT;
    return proc_signal_marked(mark, UINT64_MAX, signo, &err);
}

static int n_marked_or_dying(int signo)
{
    struct error err = ERROR_INIT;
    return proc_signal_marked(mark, own_ticks(), signo, &err);
}

/* Whether nothing of it is there any more. */
static bool is_gone(int pidfd, int wait_ms)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    return poll(&fd, 1, wait_ms) == 1;
}

/* Us again as `role`, with the mark, once it says that it is there. */
static pid_t start(const char *self, const char *role)
{
    int says[2];
    char c;
    if (pipe(says) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(says[1], STDOUT_FILENO);
        (void)close(says[0]);
        (void)close(says[1]);
        char *env[] = {mark, NULL};
        (void)execle(self, self, role, NULL, env);
        _exit(127);
    }
    (void)close(says[1]);
    bool is_there = read(says[0], &c, 1) == 1;
    (void)close(says[0]);
    return is_there ? pid : -1;
}

static void say_so(void)
{
    (void)!write(STDOUT_FILENO, "!", 1);
}

/* Its memory takes a while to be taken down, page by page. */
static int be_large(void)
{
    const size_t bytes = (size_t)512 << 20, page = 4096;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return 1;
    (void)madvise(p, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at += page)
        p[at] = 1;
    say_so();
    (void)pause();
    return 0;
}

static void *stays(void *arg)
{
    (void)arg;
    say_so();
    for (;;)
        (void)pause();
    return NULL;
}

static int leave_a_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, stays, NULL) != 0)
        return 1;
    (void)syscall(SYS_exit, 0); /* this thread alone */
    return 0;
}

/* Counted until it is a zombie: its memory goes first, its files after. */
static void a_large_one_counts_to_its_end(const char *self)
{
    pid_t pid = start(self, "large");
    int pidfd = pidfd_open(pid, 0);
    ok(pid > 0 && pidfd >= 0, "a process with much memory");
    is_int(n_marked(0), 1, "it is known by its mark");
    is_int(n_marked(SIGKILL), 1, "and killed");
    while (n_marked_or_dying(SIGKILL) > 0)
        ;
    ok(is_gone(pidfd, 0), "when none is counted any more, it is gone");
    is_int(waitpid(pid, NULL, 0), pid, "to be waited for");
    (void)close(pidfd);
}

static bool has_environ(pid_t pid)
{
    char path[64], c;
    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    FILE *f = fopen(path, "re");
    bool has = f && fread(&c, 1, 1, f) == 1;
    if (f)
        (void)fclose(f);
    return has;
}

/* Whose first thread has ended is no zombie as long as another computes. */
static void a_first_thread_may_have_ended(const char *self)
{
    uint64_t ticks;
    pid_t pid = start(self, "thread");
    int pidfd = pidfd_open(pid, 0);
    while (pid > 0 && has_environ(pid))
        (void)poll(NULL, 0, 1);
    ok(pid > 0 && pidfd >= 0, "a process without its first thread");
    ok(!is_gone(pidfd, 0) && proc_start_ticks(pid, &ticks, NULL) == 0,
       "is there");
    is_int(n_marked(SIGKILL), 1, "and is killed by its mark");
    ok(is_gone(pidfd, 60000), "and gone");
    ok(proc_start_ticks(pid, &ticks, NULL) < 0, "a zombie");
    is_int(n_marked(SIGKILL), 0, "which does not count");
    is_int(waitpid(pid, NULL, 0), pid, "to be waited for");
    (void)close(pidfd);
}

int main(int argc, char **argv)
{
    (void)alarm(120);
    if (argc == 2 && strcmp(argv[1], "large") == 0)
        return be_large();
    if (argc == 2 && strcmp(argv[1], "thread") == 0)
        return leave_a_thread();
    (void)snprintf(mark, sizeof(mark), "MGPU_TEST_PROC=%d", (int)getpid());
    a_large_one_counts_to_its_end("/proc/self/exe");
    a_first_thread_may_have_ended("/proc/self/exe");
    return tap_done();
}
