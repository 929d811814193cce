/* blas_probe_host.c - see blas_probe_host.h. */
#include "kernels/blas_probe_host.h"

#include <cblas.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* How the child ends. */
enum { RIGHT, WRONG, NO_LIBRARY };

enum {
    /* A constructor that finds no memory tries for ever. In CPU time, which a
     * busy machine does not lengthen. */
    LIMIT_S = 10,
    WAIT_MS = 120000, /* for a child that sleeps */
    MAX_EDGE = 96,
    MAX_VALUES = MAX_EDGE * MAX_EDGE,
};

/* ---- the child ------------------------------------------------------------
 */

static bool find(void *lib, const char *name, void *ret)
{
    void *symbol = dlsym(lib, name);
    memcpy(ret, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* Small integers: every sum is exact in fp32, in whichever order. */
static int value(int i)
{
    return i * 7 % 11 - 5;
}

static int product(int m, int n, int k, bool ta, bool tb, int row, int col)
{
    int sum = 0;
    for (int i = 0; i < k; i++)
        sum += value(ta ? i * m + row : row * k + i) *
               value(tb ? col * k + i : i * n + col);
    return sum;
}

struct products {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(cblas_dgemm) *dgemm;
};

static bool is_right(const struct products *p, int m, int n, int k, bool ta,
                     bool tb)
{
    static float a[MAX_VALUES], b[MAX_VALUES], c[MAX_VALUES];
    static double da[MAX_VALUES], db[MAX_VALUES], dc[MAX_VALUES];
    for (int i = 0; i < MAX_VALUES; i++) {
        da[i] = a[i] = (float)value(i);
        db[i] = b[i] = (float)value(i);
        dc[i] = c[i] = (float)(i % 3);
    }
    /* c = product + 2 c */
    p->sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
             tb ? CblasTrans : CblasNoTrans, m, n, k, 1, a, ta ? m : k, b,
             tb ? k : n, 2, c, n);
    p->dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
             tb ? CblasTrans : CblasNoTrans, m, n, k, 1, da, ta ? m : k, db,
             tb ? k : n, 2, dc, n);
    for (int i = 0; i < m * n; i++) {
        int want = product(m, n, k, ta, tb, i / n, i % n) + 2 * (i % 3);
        if (c[i] != (float)want || dc[i] != want)
            return false;
    }
    return true;
}

/* Edges that no kernel's block divides, and one that all do. */
static bool multiplies(const struct products *p)
{
    static const int shapes[][3] = {
        {1, 1, 3}, {5, 33, 17}, {31, 7, 65}, {67, 41, 35}, {96, 64, 80}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (int t = 0; t < 4; t++)
            if (!is_right(p, shapes[i][0], shapes[i][1], shapes[i][2], t & 1,
                          t & 2))
                return false;
    return true;
}

static int try_core(const char *library, const char *core, int to)
{
    static const int signals[] = {SIGILL,  SIGSEGV, SIGBUS, SIGFPE,
                                  SIGABRT, SIGTRAP, SIGXCPU};
    const struct rlimit cpu = {LIMIT_S, LIMIT_S}, no_core = {0, 0};
    struct products p;
    char *(*core_name)(void);
    void (*set_threads)(int);

    /* Handlers of MPI or of a sanitizer would report what is no fault. */
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)signal(signals[i], SIG_DFL);
    (void)setrlimit(RLIMIT_CPU, &cpu);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (core != NULL && setenv("OPENBLAS_CORETYPE", core, 1) < 0)
        return NO_LIBRARY;
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL || !find(lib, "openblas_get_corename", &core_name) ||
        !find(lib, "openblas_set_num_threads", &set_threads) ||
        !find(lib, "cblas_sgemm", &p.sgemm) ||
        !find(lib, "cblas_dgemm", &p.dgemm))
        return NO_LIBRARY;
    /* The team of OpenMP's threads did not come along. */
    set_threads(1);
    if (core != NULL && !multiplies(&p))
        return WRONG;
    const char *name = core_name();
    size_t n = strnlen(name, BLAS_CORE_CAP - 1);
    return write(to, name, n) == (ssize_t)n ? RIGHT : NO_LIBRARY;
}

/* ---- the parent -----------------------------------------------------------
 */

/* Until the child has ended. */
static int result(pid_t pid, int from, const char *core,
                  char ret[BLAS_CORE_CAP], struct error *err)
{
    size_t have = 0;
    ssize_t n;
    int status;

    do {
        struct pollfd p = {.fd = from, .events = POLLIN};
        int ready = poll(&p, 1, WAIT_MS);
        if (ready == 0)
            (void)kill(pid, SIGKILL); /* it sleeps, which no CPU limit ends */
        n = ready < 0 ? -1 : read(from, ret + have, BLAS_CORE_CAP - 1 - have);
        have += n > 0 ? (size_t)n : 0;
    } while (n > 0 || (n < 0 && errno == EINTR));
    ret[have] = '\0';
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set(err, ERR_EXTERN, "waitpid: %s", strerror(errno));
    const char *name = core != NULL ? core : "its own choice";
    if (WIFSIGNALED(status))
        return error_set(
            err, ERR_EXTERN, "OpenBLAS with core type %s: %s", name,
            WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL
                ? "does not return"
                : strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) == WRONG)
        return error_set(err, ERR_EXTERN,
                         "OpenBLAS with core type %s: wrong products", name);
    if (WEXITSTATUS(status) != RIGHT || have == 0)
        return error_set(err, ERR_UNAVAIL, "OpenBLAS cannot be opened");
    return 0;
}

int blas_probe(const char *library, const char *core, char ret[BLAS_CORE_CAP],
               struct error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_set(err, ERR_NOMEM, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        _exit(try_core(library, core, fds[1]));
    (void)close(fds[1]);
    int rc = pid < 0 ? error_set(err, ERR_NOMEM, "fork: %s", strerror(errno))
                     : result(pid, fds[0], core, ret, err);
    (void)close(fds[0]);
    return rc;
}
