/* spawn_program.c - what a program inherits, and what it does not. */
#include "jobs/base/spawn_program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

static char dir[] = "/tmp/spawn_programXXXXXX";

/* Runs a shell's commands as p says, with descriptor 1 a pipe; its output. */
static const char *said(struct spawn_program p, const char *commands)
{
    static char text[4096];
    const char *const argv[] = {"sh", "-c", commands, NULL};
    int ends[2];
    pid_t pid = -1;
    size_t n = 0;
    ssize_t got = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        exit(1);
    p.program = "sh";
    p.argv = argv;
    p.fds[1] = ends[1];
    is_int(spawn_program(&p, &pid), 0, "started");
    (void)close(ends[1]);
    while (n < sizeof(text) - 1 &&
           (got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    (void)close(ends[0]);
    int status = -1;
    is_int(waitpid(pid, &status, 0) == pid && status == 0, 1, "ends well");
    return text;
}

static const struct spawn_program plain = {.fds = {SPAWN_NULL, 0, SPAWN_SAME},
                                           .n_fds = 3};

/* One by one: to list them takes another one. */
static const char each_fd[] =
    "i=0; while [ $i -lt 40 ]; do [ ! -e /proc/$$/fd/$i ] || echo $i; "
    "i=$((i + 1)); done";

static void test_files(void)
{
    struct spawn_program p = plain;
    char log[80], text[40] = "";
    struct stat st = {.st_mode = 0};
    int open_fd = dup2(0, 20); /* stays open on exec */
    is_int(open_fd, 20, "a descriptor that others would inherit");
    is_str(said(p, each_fd), "0\n1\n2\n", "none but those that are named");
    is_str(said(p, "cat; echo end"), "end\n", "0 is at its end");
    p.fds[2] = SPAWN_NULL;
    is_str(said(p, "echo lost >&2; echo kept"), "kept\n", "2 goes nowhere");
    (void)snprintf(log, sizeof(log), "%s/log", dir);
    p.fds[2] = SPAWN_LOG;
    p.log = log;
    (void)said(p, "echo one >&2");
    (void)said(p, "echo two >&2");
    FILE *f = fopen(log, "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    is_str(n > 0 ? text : "", "one\ntwo\n", "a log is appended to");
    is_int(f && fstat(fileno(f), &st) == 0 ? st.st_mode & 0777 : 0, 0600,
           "and is its owner's");
    if (f)
        (void)fclose(f);
    (void)unlink(log);
    p.fds[3] = 20;
    p.fds[4] = SPAWN_NULL;
    p.n_fds = 5;
    is_str(said(p, each_fd), "0\n1\n2\n3\n4\n", "as many as are named");
    (void)close(20);
}

static void test_place(void)
{
    static char only[] = "ONLY=this";
    char *env[] = {only, NULL}, want[80];
    struct spawn_program p = plain;
    p.env = env;
    p.dir = dir;
    (void)snprintf(want, sizeof(want), "%s this none\n", dir);
    is_str(said(p, "echo $(pwd) $ONLY ${HOME-none}"), want,
           "its directory and its environment");
}

/* Of the mask `name` in /proc/self/status, the bits of SIGTERM and SIGPIPE. */
static const char *masks(struct spawn_program p)
{
    return said(p, "while read -r key mask; do case $key in SigBlk: | SigIgn:) "
                   "echo $(((0x$mask >> 14) & 1)) $(((0x$mask >> 12) & 1));; "
                   "esac; done </proc/$$/status");
}

static void test_signals(void)
{
    struct spawn_program p = plain;
    sigset_t term, before;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, &before);
    (void)signal(SIGPIPE, SIG_IGN);
    is_str(masks(p), "0 0\n0 0\n", "none is blocked, none is ignored");
    p.is_blocked = true;
    is_str(masks(p), "1 1\n0 0\n", "all are blocked where that is asked for");
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

static void test_where(void)
{
    static const char look[] =
        "read -r pid name state parent group session rest </proc/$$/stat; "
        "echo $((group == $$)) $((session == $$))";
    struct spawn_program p = plain;
    is_str(said(p, look), "0 0\n", "in the caller's group");
    p.where = SPAWN_GROUP;
    is_str(said(p, look), "1 0\n", "in a group of its own");
    p.where = SPAWN_SESSION;
    is_str(said(p, look), "1 1\n", "in a session of its own");
}

static void test_missing(void)
{
    static const char *const argv[] = {"x", NULL};
    struct spawn_program p = plain;
    pid_t pid = -7;
    p.fds[1] = SPAWN_SAME;
    p.program = "/nowhere/x";
    p.argv = argv;
    is_int(spawn_program(&p, &pid), ENOENT, "a program that is not there");
    p.program = "/bin/sh";
    p.dir = "/nowhere";
    is_int(spawn_program(&p, &pid), ENOENT, "nor its directory");
    is_int(waitpid(-1, NULL, WNOHANG), -1, "nothing was started");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_files();
    test_place();
    test_signals();
    test_where();
    test_missing();
    (void)rmdir(dir);
    return tap_done();
}
