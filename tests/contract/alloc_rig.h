/* alloc_rig.h - what the tests of allocators share: a rig, and a rank.
 *
 * A rig is an allocator with its world: the local one on two CPU slots with
 * directories below a temporary one, that of Slurm with a private cluster of
 * one node with two GPUs (tests/slurm/testbed), or the fake on a virtual
 * clock. An attempt's behaviour is said twice, for the rank of the first two
 * and for the script of the other. The test program itself is the rank
 * (alloc_rank.h).
 */
#ifndef MGPU_TESTS_CONTRACT_ALLOC_RIG_H
#define MGPU_TESTS_CONTRACT_ALLOC_RIG_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "slurm/alloc.h"
#include "slurm/fake/alloc_fake.h"
#include "slurm/launch/proc.h"
#include "slurm/protocol/helper_wire.h"
#include "tests/contract/alloc_rank.h"
#include "tests/launch_text.h"
#include "tests/tap.h"

/* ---- the rig --------------------------------------------------------------
 */
struct behaviour {
    const char *launch; /* for the rank: the last keys of launch.json */
    struct alloc_fake_outcome outcome;
};

static const struct behaviour exit_0 = {"{\"do\":\"exit\",\"n\":0}",
                                        {.run_s = 1}};
static const struct behaviour exit_7 = {"{\"do\":\"exit\",\"n\":7}",
                                        {.run_s = 1, .exit_code = 7}};
static const struct behaviour exit_255 = {"{\"do\":\"exit\",\"n\":255}",
                                          {.run_s = 1, .exit_code = 255}};
static const struct behaviour die_11 = {"{\"do\":\"signal\",\"n\":11}",
                                        {.run_s = 1, .signal = 11}};
static const struct behaviour endless = {"{\"do\":\"sleep\"}",
                                         {.run_s = INFINITY}};

enum rig_kind { RIG_FAKE, RIG_LOCAL, RIG_SLURM };

struct rig {
    const char *name;
    struct alloc *a;
    enum rig_kind kind;
    int32_t gpus;
    const char *nvml;   /* local: ask this library for GPUs instead */
    const char *mpirun; /* local; NULL: the one that is there */
    const char *spec; /* more keys of the specification; NULL: a limited log */
    char dir[64];     /* the attempts' */
    char programs[PATH_MAX - 64];
    char bin[PATH_MAX]; /* mgpu-shepherd */
    char self[PATH_MAX];
    char testbed[64]; /* Slurm's */
    pid_t helper;     /* and mgpu-slurm-helper */
    struct clock_virtual clk;
    struct alloc_fake_world *world;
    struct alloc_fake_outcome outcome; /* of the next attempt */
    bool is_asked[100];                /* jobs */
    struct alloc_note last, kept;
    bool has_kept; /* to be had next */
};

static inline void rig_outcome(void *arg, uint64_t job, int32_t attempt,
                               int32_t gpus, struct alloc_fake_outcome *ret)
{
    (void)job;
    (void)attempt;
    (void)gpus;
    *ret = ((struct rig *)arg)->outcome;
}

static inline const char *rig_program(const struct rig *r, const char *name)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", r->programs, name);
    return path;
}

/* ---- Slurm ----------------------------------------------------------------
 */
/* tests/slurm/testbed; its output is nobody's results. */
static inline void rig_testbed(const struct rig *r, const char *what,
                               const char *more)
{
    char cmd[4 * PATH_MAX];
    const char *src = getenv("MGPU_SRC");
    char up[PATH_MAX + 16];
    (void)snprintf(up, sizeof(up), "%s/../../..", r->programs);
    (void)snprintf(cmd, sizeof(cmd), "%s/tests/slurm/testbed %s %s %s >&2",
                   src ? src : up, what, r->testbed, more);
    if (system(cmd) != 0) {
        tap_diag("failed: %s", cmd);
        exit(1);
    }
}

/* FIFO, as the contract has it: no backfill. */
static inline void rig_slurm_up(struct rig *r)
{
    char more[128];
    (void)snprintf(r->testbed, sizeof(r->testbed), "/tmp/mgpu-tb.XXXXXX");
    if (!mkdtemp(r->testbed))
        exit(1);
    (void)snprintf(more, sizeof(more),
                   "--nodes 1 --gpus %d --owner %d --for 900 "
                   "--extra SchedulerType=sched/builtin",
                   (int)r->gpus, (int)getpid());
    rig_testbed(r, "up", more);
}

static inline void rig_helper_exec(const struct rig *r, int fd)
{
    char conf[128];
    char batch[PATH_MAX + 32];
    (void)snprintf(conf, sizeof(conf), "%s/etc/slurm.conf", r->testbed);
    (void)snprintf(batch, sizeof(batch), "%s", rig_program(r, "mgpu-batch"));
    const char *program = rig_program(r, "mgpu-slurm-helper");
    if (fd == HELPER_RPC_FD)
        (void)fcntl(fd, F_SETFD, 0);
    else
        (void)dup2(fd, HELPER_RPC_FD);
    (void)execl(program, program, "--cluster", "test", "--conf", conf, "--poll",
                "0.2", "--batch", batch, "--worker", r->self, (char *)NULL);
    _exit(127);
}

static inline int rig_slurm_create(struct rig *r, struct error *err)
{
#if HAVE_SLURM
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return -1;
    r->helper = fork();
    if (r->helper == 0)
        rig_helper_exec(r, fds[1]);
    (void)close(fds[1]);
    struct alloc_slurm_conf conf = {.cluster = "test",
                                    .fd = fds[0],
                                    .reconcile_after_s = 2,
                                    .stale_s = 60,
                                    .clock = &clock_real};
    return alloc_slurm_create(&conf, &r->a, err);
#else
    (void)r;
    return error_set(err, ERR_UNAVAIL, "built without Slurm");
#endif
}

/* ---- lives ----------------------------------------------------------------
 */
/* A life of the daemon begins, and ends by kill -9. */
static inline void rig_attach(struct rig *r)
{
    struct error err = ERROR_INIT;
    char gpuwatch[PATH_MAX];
    (void)snprintf(gpuwatch, sizeof(gpuwatch), "%s",
                   rig_program(r, "mgpu-gpuwatch"));
    struct alloc_local_conf conf = {.slots = r->nvml ? 0 : r->gpus,
                                    .mpirun = r->mpirun ? r->mpirun : "mpirun",
                                    .shepherd = r->bin,
                                    .nvml = r->nvml,
                                    .gpuwatch = r->nvml ? gpuwatch : NULL};
    int rc = -1;
    if (r->kind == RIG_FAKE)
        rc = alloc_fake_create(r->world, &r->a, &err);
    else if (r->kind == RIG_LOCAL)
        rc = alloc_local_create(&conf, &r->a, &err);
    else
        rc = rig_slurm_create(r, &err);
    if (rc < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
}

static inline void rig_detach(struct rig *r)
{
    r->a->ops->destroy(r->a);
    r->a = NULL;
    if (r->helper > 1)
        (void)waitpid(r->helper, NULL, 0); /* it ends with the socket */
    r->helper = 0;
}

static inline void rig_open(struct rig *r, enum rig_kind kind)
{
    static const char *const names[] = {"fake", "local", "slurm"};
    struct error err = ERROR_INIT;
    *r = (struct rig){.kind = kind, .gpus = 2, .name = names[kind]};
    (void)snprintf(r->dir, sizeof(r->dir), "/tmp/alloc.XXXXXX");
    ssize_t n = readlink("/proc/self/exe", r->self, sizeof(r->self) - 1);
    const char *bin = getenv("MGPU_BIN");
    if (n < 0 || !mkdtemp(r->dir))
        exit(1);
    if (bin)
        (void)snprintf(r->programs, sizeof(r->programs), "%s", bin);
    else /* build/release/tests/contract/alloc */
        (void)snprintf(r->programs, sizeof(r->programs), "%.*s/../../bin",
                       (int)(strrchr(r->self, '/') - r->self), r->self);
    (void)snprintf(r->bin, sizeof(r->bin), "%s",
                   rig_program(r, "mgpu-shepherd"));
    clock_virtual_init(&r->clk, 0, 0);
    struct alloc_fake_conf conf = {.nodes = 1,
                                   .gpus_per_node = r->gpus,
                                   .grant_delay_s = 1,
                                   .clock = &r->clk.base,
                                   .outcome = rig_outcome,
                                   .arg = r};
    if (kind == RIG_FAKE && alloc_fake_world_create(&conf, &r->world, &err) < 0)
        exit(1);
    if (kind == RIG_SLURM)
        rig_slurm_up(r);
    rig_attach(r);
}

static inline int remove_one(const char *path, const struct stat *st, int flag,
                             struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void rig_close(struct rig *r)
{
    rig_detach(r);
    alloc_fake_world_destroy(r->world);
    if (r->kind == RIG_SLURM)
        rig_testbed(r, "down", "--purge");
    (void)nftw(r->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline const char *rig_path(const struct rig *r, uint64_t job,
                                   const char *file)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%d%s%s", r->dir, (int)job,
                   file ? "/" : "", file ? file : "");
    return path;
}

/* Attempt 1 of a job; 0, or the error's code. */
static inline int rig_ask_as(struct rig *r, enum alloc_ask ask, uint64_t job,
                             int32_t gpus, const struct behaviour *b)
{
    char dir[PATH_MAX];
    static char launch[(1 << 20) + 4096];
    char tag[64], more[256];
    (void)snprintf(dir, sizeof(dir), "%s", rig_path(r, job, NULL));
    (void)snprintf(more, sizeof(more), ",%.*s", (int)strlen(b->launch) - 2,
                   b->launch + 1);
    launch_text(launch, sizeof(launch), 1, gpus,
                r->spec ? r->spec : ",\"logs\":{\"max_bytes\":\"976K\"}", more);
    (void)snprintf(tag, sizeof(tag), "mgpu:test:%d:1:0123456789abcdef",
                   (int)job);
    struct alloc_req req = {.job = job,
                            .attempt = 1,
                            .ask = ask,
                            .tag = tag,
                            .name = "contract",
                            .nodes = 1,
                            .gpus_per_node = gpus,
                            .uid = geteuid(),
                            .dir = dir,
                            .worker = r->self,
                            .launch = launch};
    struct error err = ERROR_INIT;
    r->outcome = b->outcome;
    if (r->a->ops->request(r->a, &req, &err) == 0)
        return 0;
    tap_diag("request: %s", err.msg);
    return (int)err.code;
}

/* What says nothing of an attempt's life. */
static inline bool is_aside(const struct alloc_note *note)
{
    return note->kind == ALLOC_WAITING || note->kind == ALLOC_INVENTORY;
}

/* Until Slurm has it: what is handed on together may arrive in any order. */
static inline void rig_await_id(struct rig *r, uint64_t job)
{
    double end_s = clock_real.now_s(&clock_real) + 600;
    struct error err = ERROR_INIT;
    size_t n;
    while (!r->has_kept && clock_real.now_s(&clock_real) < end_s) {
        if (r->a->ops->poll(r->a, &r->kept, 1, &n, &err) < 0)
            return;
        if (n == 0)
            (void)poll(NULL, 0, 5);
        else if (!is_aside(&r->kept))
            r->has_kept = true;
        else if (r->kept.job == job && r->kept.native_id[0])
            return;
    }
}

/* For the first time, or again. */
static inline int rig_ask(struct rig *r, uint64_t job, int32_t gpus,
                          const struct behaviour *b)
{
    bool is_new = !r->is_asked[job];
    r->is_asked[job] = true;
    int rc = rig_ask_as(r, is_new ? ALLOC_NEW : ALLOC_AGAIN, job, gpus, b);
    if (rc == 0 && is_new && r->kind == RIG_SLURM)
        rig_await_id(r, job);
    return rc;
}

static inline int rig_release(struct rig *r, uint64_t job, double grace_s)
{
    struct error err = ERROR_INIT;
    return r->a->ops->release(r->a, job, 1, grace_s, &err) == 0 ? 0
                                                                : (int)err.code;
}

static inline int rig_signal(struct rig *r, uint64_t job, int signo)
{
    struct error err = ERROR_INIT;
    return r->a->ops->signal(r->a, job, 1, signo, &err) == 0 ? 0
                                                             : (int)err.code;
}

/* One note into r->last, if there is one within limit_s. */
static inline bool rig_next(struct rig *r, double limit_s)
{
    struct error err = ERROR_INIT;
    double end_s = clock_real.now_s(&clock_real) + limit_s;
    if (r->has_kept) {
        r->has_kept = false;
        r->last = r->kept;
        return true;
    }
    for (;;) {
        size_t n = 0;
        if (r->a->ops->poll(r->a, &r->last, 1, &n, &err) < 0)
            return false;
        if (n > 0 && is_aside(&r->last))
            continue;
        if (n > 0)
            return true;
        if (r->kind == RIG_FAKE) {
            double next_s = alloc_fake_next_s(r->world);
            if (isinf(next_s))
                return false;
            r->clk.t_s = fmax(r->clk.t_s, next_s);
            continue;
        }
        double left_s = end_s - clock_real.now_s(&clock_real);
        if (left_s <= 0)
            return false;
        struct pollfd fd = {.fd = r->a->ops->wake_fd(r->a), .events = POLLIN};
        (void)poll(&fd, 1, (int)ceil(left_s * 1e3));
    }
}

/* For what ought to come. Slurm has its own pace, and other tests run. */
static inline double rig_limit_s(const struct rig *r)
{
    return r->kind == RIG_SLURM ? 120 : 60;
}

/* What an attempt printed, for whoever reads of the failure. */
static inline void rig_tell(const struct rig *r, uint64_t job)
{
    static const char *const files[] = {"log", "shepherd.log", "exit"};
    for (size_t i = 0; r->kind != RIG_FAKE && i < 3; i++) {
        struct buf text = BUF_INIT;
        if (buf_read_file(&text, rig_path(r, job, files[i]), 1 << 20, NULL) ==
            0)
            tap_diag("%s: %.1000s", files[i], buf_str(&text));
        buf_clear(&text);
    }
}

/* Whether the next note is this one. */
static inline bool rig_gets(struct rig *r, uint64_t job,
                            enum alloc_note_kind kind)
{
    if (!rig_next(r, rig_limit_s(r))) {
        tap_diag("no note of job %d", (int)job);
        rig_tell(r, job);
        return false;
    }
    if (r->last.job == job && r->last.attempt == 1 && r->last.kind == kind)
        return true;
    tap_diag("a note of kind %d of job %d, code %d, signal %d, why %s",
             (int)r->last.kind, (int)r->last.job, r->last.exit_code,
             r->last.signal, r->last.why.msg);
    return false;
}

static inline bool rig_ends(struct rig *r, uint64_t job, int code, int signo)
{
    if (!rig_gets(r, job, ALLOC_EXITED))
        return false;
    if (r->last.exit_code == code && r->last.signal == signo)
        return true;
    tap_diag("job %d ended with code %d, signal %d", (int)job,
             r->last.exit_code, r->last.signal);
    rig_tell(r, job);
    return false;
}

static inline bool rig_is_quiet(struct rig *r)
{
    static const double limits_s[] = {0, 0.3, 1};
    return !rig_next(r, limits_s[r->kind]);
}

static inline int32_t rig_free(struct rig *r)
{
    struct alloc_node node;
    struct error err = ERROR_INIT;
    size_t n;
    if (r->a->ops->inventory(r->a, &node, 1, &n, &err) < 0 || n != 1)
        return -1;
    return node.gpus_free;
}

/* So many GPUs are free; Slurm's inventory is what it was a moment ago. */
static inline bool rig_has_free(struct rig *r, int32_t want)
{
    double end_s = clock_real.now_s(&clock_real) + rig_limit_s(r);
    struct error err = ERROR_INIT;
    size_t n;
    while (r->kind == RIG_SLURM && rig_free(r) != want &&
           clock_real.now_s(&clock_real) < end_s) {
        (void)poll(NULL, 0, 20);
        if (r->a->ops->poll(r->a, &r->last, 0, &n, &err) < 0)
            return false;
    }
    if (rig_free(r) == want)
        return true;
    tap_diag("%d GPUs are free", (int)rig_free(r));
    return false;
}

/* ---- looking at what an attempt did ----------------------------------------
 */
static inline long rig_size(const struct rig *r, uint64_t job, const char *file)
{
    struct stat st;
    return stat(rig_path(r, job, file), &st) == 0 ? (long)st.st_size : -1;
}

static inline int32_t rig_starts(const struct rig *r, uint64_t job)
{
    if (r->kind == RIG_FAKE)
        return alloc_fake_starts(r->world, job, 1);
    long n = rig_size(r, job, "starts");
    return n > 0 ? (int32_t)n : 0;
}

/* Until n ranks sleep and heed signals. */
static inline bool rig_ready(struct rig *r, uint64_t job, int n)
{
    for (int i = 0; r->kind != RIG_FAKE && i < 6000; i++) {
        FILE *f = fopen(rig_path(r, job, "ready"), "re");
        int lines = 0;
        for (int c; f && (c = getc(f)) != EOF;)
            lines += c == '\n';
        if (f)
            (void)fclose(f);
        if (lines >= n)
            return true;
        (void)poll(NULL, 0, 10);
    }
    return r->kind == RIG_FAKE;
}

/* How many of the processes that noted themselves are still there. A zombie
 * is not: whoever inherited it will wait for it in its own time. */
static inline int rig_alive(const struct rig *r, uint64_t job)
{
    FILE *f = fopen(rig_path(r, job, "pids"), "re");
    char line[32];
    uint64_t ticks;
    int n = 0;
    while (f && fgets(line, sizeof(line), f))
        n += proc_start_ticks((pid_t)strtol(line, NULL, 10), &ticks, NULL) == 0;
    if (f)
        (void)fclose(f);
    return n;
}

#endif
