/* sd_notify.c - what the daemon tells whoever keeps it, over a real socket:
 * that it is ready, that its loop turns, that it reads its file again, that it
 * stops. The daemon is the program itself. */
#include "scheduler/ctld/startup/sd_notify.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

static char dir[] = "/tmp/mgpu-notify-XXXXXX";

static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        exit(1);
    return fd;
}

/* The next word, within a minute; "" when there is none. */
static const char *hear(int fd)
{
    static char text[200];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n =
        poll(&p, 1, 60000) == 1 ? recv(fd, text, sizeof(text) - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* Past the watchdog's words. */
static bool hears(int fd, const char *want)
{
    const char *word;
    do
        word = hear(fd);
    while (strcmp(word, "WATCHDOG=1") == 0);
    bool is = strncmp(word, want, strlen(want)) == 0;
    if (!is)
        tap_diag("heard '%s'", word);
    return is;
}

static void test_words(void)
{
    char path[64], pid[24];
    (void)snprintf(path, sizeof(path), "%s/a", dir);
    int fd = listen_at(path);
    notify_init();
    notify_say("READY=1"); /* nobody is named */
    ok(notify_watchdog_s() <= 0, "nothing is asked for");
    (void)setenv("NOTIFY_SOCKET", path, 1);
    (void)setenv("WATCHDOG_USEC", "3000000", 1);
    (void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    (void)setenv("WATCHDOG_PID", pid, 1);
    notify_init();
    ok(!getenv("NOTIFY_SOCKET") && !getenv("WATCHDOG_USEC") &&
           !getenv("WATCHDOG_PID"),
       "no job will speak in its name");
    ok(notify_watchdog_s() > 1.49 && notify_watchdog_s() < 1.51,
       "twice as often as is asked for");
    notify_say("READY=1");
    is_str(hear(fd), "READY=1", "it is heard, and what was said before is not");
    notify_reloading();
    ok(hears(fd, "RELOADING=1\nMONOTONIC_USEC="), "with the time");
    (void)setenv("NOTIFY_SOCKET", path, 1);
    (void)setenv("WATCHDOG_USEC", "3000000", 1);
    (void)setenv("WATCHDOG_PID", "1", 1);
    notify_init();
    ok(notify_watchdog_s() <= 0, "another process's watchdog");
    static const char *const bad[] = {"", "x", "/", "relative/path"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)setenv("NOTIFY_SOCKET", bad[i], 1);
        notify_init();
        notify_say("READY=1");
    }
    struct pollfd p = {.fd = fd, .events = POLLIN};
    is_int(poll(&p, 1, 0), 0, "no address, no word");
    (void)close(fd);
    (void)unlink(path);
}

static pid_t start(const char *path)
{
    char state[64], sock[64], program[512];
    const char *bin = getenv("MGPU_BIN");
    (void)snprintf(state, sizeof(state), "%s/state", dir);
    (void)snprintf(sock, sizeof(sock), "%s/sock", dir);
    (void)snprintf(program, sizeof(program), "%s/mgpu-ctld",
                   bin ? bin : "build/release/bin");
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)setenv("NOTIFY_SOCKET", path, 1);
    /* What is not heard within ten words, five seconds, is lost. */
    (void)setenv("WATCHDOG_USEC", "1000000", 1);
    (void)unsetenv("WATCHDOG_PID");
    (void)execl(program, program, "--local", "--slots", "1", "--state-dir",
                state, "--socket", sock, (char *)NULL);
    _exit(127);
}

static void test_daemon(void)
{
    char path[64], command[128];
    int status = -1;
    (void)snprintf(path, sizeof(path), "%s/b", dir);
    int fd = listen_at(path);
    pid_t pid = start(path);
    ok(pid > 1 && hears(fd, "READY=1"), "a daemon is ready");
    is_str(hear(fd), "WATCHDOG=1", "its loop turns");
    is_str(hear(fd), "WATCHDOG=1", "and turns");
    (void)kill(pid, SIGHUP);
    ok(hears(fd, "RELOADING=1\n"), "it reads its file");
    ok(hears(fd, "READY=1\nSTATUS=reload failed"), "which there is none of");
    (void)kill(pid, SIGTERM);
    ok(hears(fd, "STOPPING=1"), "it stops");
    ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0,
       "and has stopped");
    (void)close(fd);
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    is_int(system(command), 0, "clean up"); // NOLINT
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_words();
    test_daemon();
    return tap_done();
}
