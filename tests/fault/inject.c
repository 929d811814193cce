/* inject.c - inject.so: a call of the C library fails as fault.h says.
 *
 * To be preloaded. The program and its libraries find these functions before
 * those of libc; libc's own use of itself goes past them, but for memory. The
 * constructor takes both variables out of the environment, so that no child
 * is meant.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fault/fault.h"

static struct fault_control *control; /* NULL: not asked for */

/* libc's own: dlsym() itself allocates. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static void *next(void **at, const char *name)
{
    if (!*at)
        *at = dlsym(RTLD_NEXT, name);
    if (!*at)
        abort(); /* a libc without it: this file is wrong there */
    return *at;
}

/* What comes after us under the same name. */
#define NEXT(name, fn)                          \
    static void *at_##name;                     \
    __typeof__(&(name)) fn;                     \
    do {                                        \
        void *found_ = next(&at_##name, #name); \
        memcpy(&fn, &found_, sizeof(fn));       \
    } while (0)

static void note(const char *name, const void *caller)
{
    Dl_info info = {.dli_fname = "?"};
    int saved = errno;
    (void)dladdr(caller, &info);
    const char *slash = strrchr(info.dli_fname, '/');
    (void)snprintf(control->where, sizeof(control->where), "%s in %.40s+0x%zx",
                   name, slash ? slash + 1 : info.dli_fname,
                   (size_t)((const char *)caller - (char *)info.dli_fbase));
    errno = saved;
}

static bool is_within(const void *at, const char *name)
{
    Dl_info info = {.dli_sname = NULL};
    return dladdr(at, &info) && info.dli_sname && strstr(info.dli_sname, name);
}

/* Functions of libraries that crash when they are given no memory: libevent
 * 2.1.12 frees, at its error, headers that a request has not got yet, and takes
 * a connection without an address out of the loop that it is not in yet. */
static bool is_excused(enum fault_class c, const void *caller)
{
    void *at[FAULT_DEPTH];
    if (c != FAULT_MEMORY)
        return false;
    if (is_within(caller, "evhttp_request_new"))
        return true;
    int depth = backtrace(at, FAULT_DEPTH), i = 0;
    while (i < depth && !is_within(at[i], "strdup"))
        i++;
    return i + 1 < depth &&
           is_within(at[i + 1], "evhttp_connection_base_bufferevent_new");
}

/* Notes the place of this call; whether none has failed there yet. */
static bool is_new_place(struct fault_control *f)
{
    void *at[FAULT_DEPTH];
    int depth = backtrace(at, FAULT_DEPTH);
    uint64_t sum = 14695981039346656037u; /* FNV-1a */
    for (int i = 0; i < depth; i++)
        sum = (sum ^ (uintptr_t)at[i]) * 1099511628211u;
    for (size_t i = 0; i < FAULT_PLACES; i++) {
        _Atomic uint64_t *place = &f->places[(sum + i) % FAULT_PLACES];
        if (atomic_load(place) == sum)
            return false;
        if (atomic_load(place) == 0) {
            atomic_store(place, sum);
            return true;
        }
    }
    abort(); /* what comes now would not be failed, and nobody would know */
}

/* The call that fails first, from 1; 0: it is still to come. Threads take
 * turns: a place that is noted is one that fails. */
static int64_t find_first(struct fault_control *f, int64_t n)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    int64_t first = atomic_load(&f->first);
    if (first != 0)
        return first;
    while (atomic_flag_test_and_set(&taken))
        ;
    if (atomic_load(&f->first) == 0 && is_new_place(f))
        atomic_store(&f->first, n);
    first = atomic_load(&f->first);
    atomic_flag_clear(&taken);
    return first;
}

static bool is_due(enum fault_class c, const char *name, const void *caller)
{
    struct fault_control *f = control;
    if (!f || atomic_load(&f->cls) != (int32_t)c)
        return false;
    int64_t n = atomic_fetch_add(&f->seen, 1) + 1, first = find_first(f, n);
    if (first == 0 || n < first || n - first >= atomic_load(&f->times))
        return false;
    if (is_excused(c, caller)) {
        atomic_fetch_add(&f->excused, 1);
        return false;
    }
    if (atomic_fetch_add(&f->struck, 1) == 0)
        note(name, caller);
    errno = atomic_load(&f->code);
    return true;
}

/* A file, and no eventfd, pipe or socket: what a disk may say, and a part of
 * what is read or written, is of files alone. */
static bool may_fail(enum fault_class c, int fd)
{
    struct stat st;
    int code = control ? atomic_load(&control->code) : 0;
    return code == EINTR || c == FAULT_TALK ||
           (syscall(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode));
}

#define DUE(c, name) is_due(c, #name, __builtin_return_address(0))

/* The first look-up allocates the state of all look-ups, and glibc 2.36 then
 * takes it without a look (nss_database.c): done while nothing fails yet. */
static void look_up_once(void)
{
    struct passwd pw, *found = NULL;
    char space[4096];
    (void)getpwuid_r(0, &pw, space, sizeof(space), &found);
}

__attribute__((constructor)) static void attach(void)
{
    void *here[1];
    look_up_once();
    (void)backtrace(here, 1); /* loads its library */
    const char *path = getenv(FAULT_FILE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p = MAP_FAILED;
    if (fd >= 0) {
        p = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                 0);
        (void)close(fd);
    }
    if (p == MAP_FAILED)
        abort(); /* a test that injects nothing must not pass */
    (void)unsetenv(FAULT_FILE);
    (void)unsetenv("LD_PRELOAD");
    control = p;
}

/* ---- one kind of function after the other ---------------------------------
 * A: its parameters; B: the same, as they are passed on.
 */
#define PLAIN(cls, type, failed, name, A, B) \
    type name A                              \
    {                                        \
        NEXT(name, fn);                      \
        if (DUE(cls, name))                  \
            return failed;                   \
        return fn B;                         \
    }

PLAIN(FAULT_OPEN, FILE *, NULL, fopen, (const char *p, const char *m), (p, m))
PLAIN(FAULT_OPEN, FILE *, NULL, fopen64, (const char *p, const char *m), (p, m))
PLAIN(FAULT_OPEN, DIR *, NULL, opendir, (const char *p), (p))
PLAIN(FAULT_FD, int, -1, pipe, (int p[2]), (p))
PLAIN(FAULT_FD, int, -1, pipe2, (int p[2], int f), (p, f))
PLAIN(FAULT_FD, int, -1, socket, (int d, int t, int p), (d, t, p))
PLAIN(FAULT_FD, int, -1, socketpair, (int d, int t, int p, int s[2]),
      (d, t, p, s))
PLAIN(FAULT_FD, int, -1, eventfd, (unsigned n, int f), (n, f))
PLAIN(FAULT_FD, int, -1, epoll_create, (int n), (n))
PLAIN(FAULT_FD, int, -1, epoll_create1, (int f), (f))
PLAIN(FAULT_FD, int, -1, dup2, (int a, int b), (a, b))
PLAIN(FAULT_FD, int, -1, pidfd_open, (pid_t p, unsigned f), (p, f))
PLAIN(FAULT_SYNC, int, -1, fsync, (int fd), (fd))
PLAIN(FAULT_SYNC, int, -1, fdatasync, (int fd), (fd))
PLAIN(FAULT_NAME, int, -1, rename, (const char *a, const char *b), (a, b))
PLAIN(FAULT_NAME, int, -1, unlink, (const char *p), (p))
PLAIN(FAULT_NAME, int, -1, mkdir, (const char *p, mode_t m), (p, m))
PLAIN(FAULT_NAME, int, -1, mkdirat, (int fd, const char *p, mode_t m),
      (fd, p, m))
PLAIN(FAULT_NAME, int, -1, rmdir, (const char *p), (p))
PLAIN(FAULT_SIZE, int, -1, ftruncate, (int fd, off_t n), (fd, n))
PLAIN(FAULT_SIZE, int, -1, ftruncate64, (int fd, off64_t n), (fd, n))
PLAIN(FAULT_STAT, int, -1, stat, (const char *p, struct stat *s), (p, s))
PLAIN(FAULT_STAT, int, -1, stat64, (const char *p, struct stat64 *s), (p, s))
PLAIN(FAULT_STAT, int, -1, lstat, (const char *p, struct stat *s), (p, s))
PLAIN(FAULT_STAT, int, -1, lstat64, (const char *p, struct stat64 *s), (p, s))
PLAIN(FAULT_STAT, int, -1, fstat, (int fd, struct stat *s), (fd, s))
PLAIN(FAULT_STAT, int, -1, fstat64, (int fd, struct stat64 *s), (fd, s))
PLAIN(FAULT_STAT, int, -1, fstatfs, (int fd, struct statfs *s), (fd, s))
PLAIN(FAULT_STAT, int, -1, access, (const char *p, int m), (p, m))
PLAIN(FAULT_STAT, int, -1, chmod, (const char *p, mode_t m), (p, m))
PLAIN(FAULT_STAT, int, -1, fchmod, (int fd, mode_t m), (fd, m))
PLAIN(FAULT_STAT, ssize_t, -1, readlink, (const char *p, char *b, size_t n),
      (p, b, n))
PLAIN(FAULT_FCNTL, int, -1, flock, (int fd, int op), (fd, op))
PLAIN(FAULT_SOCKET, int, -1, listen, (int fd, int n), (fd, n))
PLAIN(FAULT_SOCKET, int, -1, getsockopt,
      (int fd, int l, int o, void *v, socklen_t *n), (fd, l, o, v, n))
PLAIN(FAULT_SOCKET, int, -1, setsockopt,
      (int fd, int l, int o, const void *v, socklen_t n), (fd, l, o, v, n))
PLAIN(FAULT_POLL, int, -1, poll, (struct pollfd * p, nfds_t n, int ms),
      (p, n, ms))
PLAIN(FAULT_POLL, int, -1, epoll_wait,
      (int fd, struct epoll_event *e, int n, int ms), (fd, e, n, ms))
PLAIN(FAULT_POLL, int, -1, select,
      (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t),
      (n, r, w, e, t))
PLAIN(FAULT_EPOLL, int, -1, epoll_ctl,
      (int fd, int op, int at, struct epoll_event *e), (fd, op, at, e))
PLAIN(FAULT_SPAWN, pid_t, -1, fork, (void), ())
PLAIN(FAULT_SPAWN, int, errno, pthread_create,
      (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *arg),
      (t, a, f, arg))
PLAIN(FAULT_SPAWN, int, errno, posix_spawn,
      (pid_t * pid, const char *p, const posix_spawn_file_actions_t *f,
       const posix_spawnattr_t *a, char *const argv[], char *const env[]),
      (pid, p, f, a, argv, env))
PLAIN(FAULT_SPAWN, int, errno, posix_spawnp,
      (pid_t * pid, const char *p, const posix_spawn_file_actions_t *f,
       const posix_spawnattr_t *a, char *const argv[], char *const env[]),
      (pid, p, f, a, argv, env))
PLAIN(FAULT_WAIT, pid_t, -1, waitpid, (pid_t p, int *s, int o), (p, s, o))
PLAIN(FAULT_WAIT, int, -1, waitid, (idtype_t t, id_t id, siginfo_t *i, int o),
      (t, id, i, o))
PLAIN(FAULT_SIGNAL, int, -1, kill, (pid_t p, int s), (p, s))
PLAIN(FAULT_SIGNAL, int, -1, pidfd_send_signal,
      (int fd, int s, siginfo_t *i, unsigned f), (fd, s, i, f))
PLAIN(FAULT_MAP, void *, MAP_FAILED, mmap,
      (void *a, size_t n, int p, int f, int fd, off_t o), (a, n, p, f, fd, o))
PLAIN(FAULT_MAP, void *, MAP_FAILED, mmap64,
      (void *a, size_t n, int p, int f, int fd, off64_t o), (a, n, p, f, fd, o))
PLAIN(FAULT_RANDOM, ssize_t, -1, getrandom, (void *b, size_t n, unsigned f),
      (b, n, f))

/* Their addresses are transparent unions, which no list of ours can say. */
#define ADDRESSED(cls, name, address, length)      \
    int name(int fd, address a, length n)          \
    {                                              \
        NEXT(name, fn);                            \
        return DUE(cls, name) ? -1 : fn(fd, a, n); \
    }
ADDRESSED(FAULT_SOCKET, bind, __CONST_SOCKADDR_ARG, socklen_t)
ADDRESSED(FAULT_SOCKET, connect, __CONST_SOCKADDR_ARG, socklen_t)
ADDRESSED(FAULT_SOCKET, getpeername, __SOCKADDR_ARG, socklen_t *)
ADDRESSED(FAULT_SOCKET, getsockname, __SOCKADDR_ARG, socklen_t *)
ADDRESSED(FAULT_ACCEPT, accept, __SOCKADDR_ARG, socklen_t *)

int accept4(int fd, __SOCKADDR_ARG a, socklen_t *n, int flags)
{
    NEXT(accept4, fn);
    return DUE(FAULT_ACCEPT, accept4) ? -1 : fn(fd, a, n, flags);
}

/* Who looks at what close(2) says must not close a second time. */
int close(int fd)
{
    NEXT(close, fn);
    int rc = fn(fd);
    return DUE(FAULT_CLOSE, close) ? -1 : rc;
}

/* ---- those with more arguments at times ----------------------------------
 */
#define OPENS(name, A, B)                         \
    int name A                                    \
    {                                             \
        mode_t mode = 0;                          \
        NEXT(name, fn);                           \
        if (flags & (O_CREAT | __O_TMPFILE)) {    \
            va_list ap;                           \
            va_start(ap, flags);                  \
            mode = va_arg(ap, mode_t);            \
            va_end(ap);                           \
        }                                         \
        return DUE(FAULT_OPEN, name) ? -1 : fn B; \
    }
OPENS(open, (const char *p, int flags, ...), (p, flags, mode))
OPENS(open64, (const char *p, int flags, ...), (p, flags, mode))
OPENS(openat, (int fd, const char *p, int flags, ...), (fd, p, flags, mode))
OPENS(openat64, (int fd, const char *p, int flags, ...), (fd, p, flags, mode))

/* To give a lock back does not fail on a file of this machine, and SQLite
 * 3.40 has no way back: to itself the lock is held from then on. */
static bool unlocks(int op, const void *arg)
{
    const struct flock *l = arg;
    return (op == F_SETLK || op == F_SETLKW || op == F_OFD_SETLK) &&
           l->l_type == F_UNLCK;
}

/* One word each, whatever it stands for. */
#define CONTROLS(name)                                   \
    int name(int fd, int op, ...)                        \
    {                                                    \
        va_list ap;                                      \
        NEXT(name, fn);                                  \
        va_start(ap, op);                                \
        void *arg = va_arg(ap, void *);                  \
        va_end(ap);                                      \
        if (!unlocks(op, arg) && DUE(FAULT_FCNTL, name)) \
            return -1;                                   \
        return fn(fd, op, arg);                          \
    }
CONTROLS(fcntl)
CONTROLS(fcntl64)

void *mremap(void *p, size_t old, size_t n, int flags, ...)
{
    va_list ap;
    NEXT(mremap, fn);
    va_start(ap, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
    va_end(ap);
    return DUE(FAULT_MAP, mremap) ? MAP_FAILED : fn(p, old, n, flags, to);
}

/* ---- those that may do a part --------------------------------------------
 * The half, and at least a byte: none would be the end of the file.
 */
static size_t part(size_t n)
{
    return n > 1 ? n / 2 : n;
}

#define MOVES(cls, name, A, B)                     \
    ssize_t name A                                 \
    {                                              \
        NEXT(name, fn);                            \
        if (may_fail(cls, fd) && DUE(cls, name)) { \
            if (errno != FAULT_SHORT)              \
                return -1;                         \
            n = part(n);                           \
        }                                          \
        return fn B;                               \
    }
MOVES(FAULT_READ, read, (int fd, void *b, size_t n), (fd, b, n))
MOVES(FAULT_READ, pread, (int fd, void *b, size_t n, off_t o), (fd, b, n, o))
MOVES(FAULT_READ, pread64, (int fd, void *b, size_t n, off64_t o),
      (fd, b, n, o))
MOVES(FAULT_WRITE, write, (int fd, const void *b, size_t n), (fd, b, n))
MOVES(FAULT_WRITE, pwrite, (int fd, const void *b, size_t n, off_t o),
      (fd, b, n, o))
MOVES(FAULT_WRITE, pwrite64, (int fd, const void *b, size_t n, off64_t o),
      (fd, b, n, o))
MOVES(FAULT_TALK, send, (int fd, const void *b, size_t n, int f), (fd, b, n, f))
MOVES(FAULT_TALK, recv, (int fd, void *b, size_t n, int f), (fd, b, n, f))
MOVES(FAULT_TALK, sendto,
      (int fd, const void *b, size_t n, int f, __CONST_SOCKADDR_ARG a,
       socklen_t l),
      (fd, b, n, f, a, l))
MOVES(FAULT_TALK, recvfrom,
      (int fd, void *b, size_t n, int f, __SOCKADDR_ARG a, socklen_t *l),
      (fd, b, n, f, a, l))

#define MOVES_VECTOR(cls, name)                                  \
    ssize_t name(int fd, const struct iovec *v, int n)           \
    {                                                            \
        NEXT(name, fn);                                          \
        if (!DUE(cls, name))                                     \
            return fn(fd, v, n);                                 \
        if (errno != FAULT_SHORT)                                \
            return -1;                                           \
        struct iovec half = {v[0].iov_base, part(v[0].iov_len)}; \
        return fn(fd, &half, 1);                                 \
    }
MOVES_VECTOR(FAULT_TALK, readv)
MOVES_VECTOR(FAULT_TALK, writev)

/* Whole or not at all. */
ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    NEXT(sendmsg, fn);
    return DUE(FAULT_TALK, sendmsg) && errno != FAULT_SHORT ? -1
                                                            : fn(fd, m, flags);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    NEXT(recvmsg, fn);
    return DUE(FAULT_TALK, recvmsg) && errno != FAULT_SHORT ? -1
                                                            : fn(fd, m, flags);
}

/* ---- memory ---------------------------------------------------------------
 */
void *malloc(size_t n)
{
    return DUE(FAULT_MEMORY, malloc) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return DUE(FAULT_MEMORY, calloc) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return DUE(FAULT_MEMORY, realloc) ? NULL : __libc_realloc(p, n);
}
