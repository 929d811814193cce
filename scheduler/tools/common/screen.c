/* screen.c - full-screen mode of a terminal; see screen.h.
 *
 * One thread receives all signals and waits for keys. on_end() takes the lock
 * that the drawing code holds, so nothing is drawn on the screen that the user
 * returns to.
 */
#include "scheduler/tools/common/screen.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "scheduler/tools/common/render.h"

static struct {
    FILE *out;
    _Atomic bool is_on;
    bool has_keys;
    struct termios before; /* of standard input, with has_keys */
    int signals, stop;     /* file descriptors */
    pthread_t thread;
    void (*on_end)(void *arg, int signo);
    void *arg;
} screen;

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static bool is_end_key(char key)
{
    return key == 'q' || key == 'Q' || key == '\003' || key == '\004';
}

/* -1: continue. */
static int look(struct pollfd *fds)
{
    struct signalfd_siginfo si;
    char keys[64];
    if ((fds[1].revents & POLLIN) &&
        read(screen.signals, &si, sizeof(si)) == sizeof(si))
        return (int)si.ssi_signo;
    if (fds[2].revents == 0)
        return -1;
    ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
    for (ssize_t i = 0; i < n; i++)
        if (is_end_key(keys[i]))
            return 0;
    if (n > 0 || (n < 0 && errno == EINTR))
        return -1;
    return SIGHUP; /* the terminal is gone */
}

static void *listen_all(void *arg)
{
    struct pollfd fds[] = {
        {.fd = screen.stop, .events = POLLIN},
        {.fd = screen.signals, .events = POLLIN},
        {.fd = screen.has_keys ? STDIN_FILENO : -1, .events = POLLIN},
    };
    (void)arg;
    for (;;) {
        int n = poll(fds, 3, -1);
        if (n < 0 && errno != EINTR)
            return NULL;
        if (n > 0 && fds[0].revents)
            return NULL;
        int signo = n > 0 ? look(fds) : -1;
        if (signo >= 0)
            screen.on_end(screen.arg, signo);
    }
}

static void put(const char *text)
{
    (void)fputs(text, screen.out);
    (void)fflush(screen.out);
}

/* Switches echo off and delivers keys at once; Ctrl-C is a key. */
static void take_keys(void)
{
    struct termios now;
    screen.has_keys = tcgetattr(STDIN_FILENO, &screen.before) == 0;
    if (!screen.has_keys)
        return;
    now = screen.before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

int screen_enter(FILE *out, void (*on_end)(void *arg, int signo), void *arg,
                 struct error *err)
{
    const char *term = getenv("TERM");
    sigset_t set;
    if (!isatty(fileno(out)) || (term && strcmp(term, "dumb") == 0))
        return error_set(err, ERR_USAGE,
                         "--top needs a terminal; use --watch to print, or "
                         "--top --json for one document");
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        (void)sigaddset(&set, ends[i]);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    screen.out = out;
    screen.on_end = on_end;
    screen.arg = arg;
    screen.signals = signalfd(-1, &set, SFD_CLOEXEC);
    screen.stop = eventfd(0, EFD_CLOEXEC);
    if (screen.signals < 0 || screen.stop < 0)
        return error_sys(err, errno, "listen for signals");
    take_keys();
    screen.is_on = true;
    int code = pthread_create(&screen.thread, NULL, listen_all, NULL);
    if (code != 0) {
        screen.is_on = false;
        if (screen.has_keys)
            (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
        return error_sys(err, code, "start a thread");
    }
    put("\033[?1049h\033[?25l\033[H\033[2J");
    return 0;
}

void screen_leave(void)
{
    const uint64_t one = 1;
    if (!screen.is_on)
        return;
    screen.is_on = false;
    put("\033[?25h\033[?1049l");
    if (screen.has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
    if (pthread_equal(pthread_self(), screen.thread))
        return;
    if (write(screen.stop, &one, sizeof(one)) == sizeof(one))
        (void)pthread_join(screen.thread, NULL);
    (void)close(screen.stop);
    (void)close(screen.signals);
}

_Noreturn void screen_exit(int signo)
{
    sigset_t set;
    if (signo == 0)
        _exit(0);
    (void)signal(signo, SIG_DFL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signo);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    (void)raise(signo);
    _exit(128 + signo);
}

void screen_put(const char *long_text, int columns, int rows, FILE *out)
{
    char *whole = NULL;
    size_t size = 0;
    FILE *mem = open_memstream(&whole, &size);
    if (mem)
        render_wrapped(long_text, columns, mem);
    bool has = mem && fclose(mem) == 0;
    const char *text = has ? whole : long_text;
    (void)fputs("\033[H", out);
    for (int n = 1; *text; n++) {
        size_t len = strcspn(text, "\n"), more = 0;
        for (const char *p = text; n >= rows - 1 && *p; p++)
            more += *p == '\n';
        if (more > 1) {
            (void)fprintf(out, "and %zu lines more\033[K\n", more);
            break;
        }
        (void)fwrite(text, 1, len, out);
        (void)fputs("\033[K\n", out);
        text += len + (text[len] == '\n');
    }
    (void)fputs("\033[J", out);
    free(whole);
}
