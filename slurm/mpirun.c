/* mpirun.c - see mpirun.h. */
#include "slurm/mpirun.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Turns strings, each with its NUL, one after the other, into an array that
 * holds them itself, so that one free() ends it. Clears b. */
static char **to_array(struct buf *b, struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\0';
    size_t head = (n + 1) * sizeof(char *);
    char *block = malloc(head + b->len);
    if (!block) {
        buf_clear(b);
        (void)error_set(err, ERR_NOMEM, "%zu strings", n);
        return NULL;
    }
    char **array = (char **)(void *)block;
    char *text = block + head;
    if (b->len > 0)
        memcpy(text, b->data, b->len);
    for (size_t i = 0; i < n; i++) {
        array[i] = text;
        text += strlen(text) + 1;
    }
    array[n] = NULL;
    buf_clear(b);
    return array;
}

static int add(struct buf *b, const char *s, struct error *err)
{
    return buf_add(b, s, strlen(s) + 1, err);
}

char **mpirun_argv(const char *mpirun, int32_t ranks, const char *worker,
                   const char *dir, struct error *err)
{
    /* --bind-to none: two attempts would bind to the same first cores.
     * --oversubscribe: slots may be more than cores; without effect when
     *   they are not.
     * --quiet: no essay about a rank's exit code in the middle of its log.
     * oob, btl: one machine needs no network, and nobody else may reach
     *   the launcher's port. */
    static const char *const fixed[] = {
        "--quiet", "--bind-to",          "none", "--oversubscribe",
        "--mca",   "oob_tcp_if_include", "lo",   "--mca",
        "btl",     "self,vader",
    };
    struct buf b = BUF_INIT;
    int rc = add(&b, mpirun, err);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && rc == 0; i++)
        rc = add(&b, fixed[i], err);
    if (rc < 0 || add(&b, "-np", err) < 0 ||
        buf_addf(&b, err, "%d%c", ranks, '\0') < 0 ||
        add(&b, worker, err) < 0 || add(&b, "--launch", err) < 0 ||
        buf_addf(&b, err, "%s/launch.json%c", dir, '\0') < 0) {
        buf_clear(&b);
        return NULL;
    }
    return to_array(&b, err);
}

void mpirun_exit(int wait_status, struct attempt_exit *ret)
{
    ret->code = ret->signal = 0;
    if (WIFSIGNALED(wait_status)) {
        ret->signal = WTERMSIG(wait_status);
        return;
    }
    int code = WEXITSTATUS(wait_status);
    if (code > 128 && code - 128 < 32)
        ret->signal = code - 128;
    else
        ret->code = code;
}

/* A variable of our own environment, if it is there. */
static int pass(struct buf *b, const char *name, struct error *err)
{
    const char *value = getenv(name);
    return value ? buf_addf(b, err, "%s=%s%c", name, value, '\0') : 0;
}

char **mpirun_env(const char *dir, int32_t threads, const char *cuda,
                  struct error *err)
{
    static const char *const passed[] = {
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TMPDIR",
        "LD_LIBRARY_PATH",
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        "ASAN_OPTIONS",
        "LSAN_OPTIONS",
        "UBSAN_OPTIONS",
        "TSAN_OPTIONS",
#endif
    };
    struct buf b = BUF_INIT;
    const char *path = getenv("PATH");
    int rc = buf_addf(&b, err, "PATH=%s%c",
                      path ? path : "/usr/local/bin:/usr/bin:/bin", '\0');
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]) && rc == 0; i++)
        rc = pass(&b, passed[i], err);
    if (rc == 0)
        rc = buf_addf(&b, err, "%s=%s%c", ATTEMPT_MARK, dir, '\0');
    if (rc == 0 && geteuid() == 0)
        rc = buf_addf(&b, err,
                      "OMPI_ALLOW_RUN_AS_ROOT=1%c"
                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1%c",
                      '\0', '\0');
    /* A thread that waits at a barrier gives its core away soon: there may
     * be more ranks than cores. */
    if (rc == 0)
        rc = buf_addf(&b, err,
                      "OMP_NUM_THREADS=%d%cOPENBLAS_NUM_THREADS=%d%c"
                      "GOMP_SPINCOUNT=2000%c",
                      threads, '\0', threads, '\0', '\0');
    if (rc == 0)
        rc = buf_addf(&b, err,
                      "CUDA_DEVICE_ORDER=PCI_BUS_ID%c"
                      "CUDA_VISIBLE_DEVICES=%s%c",
                      '\0', cuda, '\0');
    if (rc < 0) {
        buf_clear(&b);
        return NULL;
    }
    return to_array(&b, err);
}
