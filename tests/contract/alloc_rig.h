/* alloc_rig.h - what the tests of allocators share: a rig, and a rank.
 *
 * A rig is an allocator with its world: the local one on two CPU slots with
 * directories below a temporary one, or the fake on a virtual clock. An
 * attempt's behaviour is said twice, for the rank of the one and for the
 * script of the other. The test program itself is the local rank: when its
 * first argument is --launch it does what launch.json says.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "slurm/alloc.h"
#include "slurm/alloc_fake.h"
#include "slurm/proc.h"
#include "tests/tap.h"

/* ---- the rank -------------------------------------------------------------
 */
static inline void note_in(const char *dir, const char *file, const char *text)
{
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        _exit(99);
    (void)close(fd);
}

static inline void note_pid(const char *dir, const char *file)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%d\n", (int)getpid());
    note_in(dir, file, text);
}

static inline void on_usr1(int signo)
{
    (void)signo;
    _exit(0);
}

/* "ready" says that signals find their handlers. */
static inline void sleep_for_ever(const char *dir)
{
    note_pid(dir, "ready");
    for (;;)
        (void)pause();
}

static inline void print_bytes(long n)
{
    char line[64];
    for (long at = 0; at < n; at += 50) {
        int len = snprintf(line, sizeof(line), "%048ld\n", at);
        if (len != 49 || write(1, line, 49) != 49)
            _exit(98);
    }
}

static inline int rank_main(const char *launch)
{
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof(dir), "%s", launch);
    *strrchr(dir, '/') = '\0';
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    json_t *j = json_load_file(launch, 0, NULL);
    if (!j || !rank)
        _exit(97);
    char what[32];
    (void)snprintf(what, sizeof(what), "%s",
                   json_string_value(json_object_get(j, "do")));
    long n = (long)json_integer_value(json_object_get(j, "n"));
    json_decref(j);
    if (rank[0] == '0')
        note_in(dir, "starts", "x");
    note_pid(dir, "pids");
    if (strcmp(what, "exit") == 0)
        _exit((int)n);
    if (strcmp(what, "signal") == 0) {
        (void)signal((int)n, SIG_DFL); /* not a sanitizer's */
        (void)raise((int)n);
    }
    if (strcmp(what, "ignore") == 0)
        (void)signal(SIGTERM, SIG_IGN);
    if (strcmp(what, "usr1") == 0)
        (void)signal(SIGUSR1, on_usr1);
    if (strcmp(what, "print") == 0) {
        print_bytes(n);
        _exit(0);
    }
    if (strcmp(what, "env") == 0) {
        for (char **e = environ; *e && rank[0] == '0'; e++) {
            note_in(dir, "env", *e);
            note_in(dir, "env", "\n");
        }
        _exit(0);
    }
    if (strcmp(what, "orphan") == 0 && fork() == 0) {
        (void)setsid();
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        note_pid(dir, "pids");
        sleep_for_ever(dir);
    } else if (strcmp(what, "orphan") == 0) {
        char path[PATH_MAX + 8];
        (void)snprintf(path, sizeof(path), "%s/ready", dir);
        while (access(path, F_OK) < 0)
            (void)poll(NULL, 0, 10);
        _exit(0);
    }
    sleep_for_ever(dir);
    return 0;
}

/* ---- the rig --------------------------------------------------------------
 */
struct behaviour {
    const char *launch;
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

struct rig {
    const char *name;
    struct alloc *a;
    bool is_local;
    int32_t gpus;
    const char *nvml; /* local: ask this library for GPUs instead */
    char dir[64];     /* the attempts', local */
    char bin[PATH_MAX], self[PATH_MAX];
    struct clock_virtual clk;
    struct alloc_fake_world *world;
    struct alloc_fake_outcome outcome; /* of the next attempt */
    struct alloc_note last;
};

static inline void rig_outcome(void *arg, uint64_t job, int32_t attempt,
                               int32_t gpus, struct alloc_fake_outcome *ret)
{
    (void)job;
    (void)attempt;
    (void)gpus;
    *ret = ((struct rig *)arg)->outcome;
}

/* A life of the daemon begins, and ends by kill -9. */
static inline void rig_attach(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct alloc_local_conf conf = {.slots = r->nvml ? 0 : r->gpus,
                                    .mpirun = "mpirun",
                                    .shepherd = r->bin,
                                    .nvml = r->nvml};
    int rc = r->is_local ? alloc_local_create(&conf, &r->a, &err)
                         : alloc_fake_create(r->world, &r->a, &err);
    if (rc < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
}

static inline void rig_detach(struct rig *r)
{
    r->a->ops->destroy(r->a);
    r->a = NULL;
}

static inline void rig_open(struct rig *r, bool is_local)
{
    struct error err = ERROR_INIT;
    *r = (struct rig){.is_local = is_local, .gpus = 2};
    r->name = is_local ? "local" : "fake";
    (void)snprintf(r->dir, sizeof(r->dir), "/tmp/alloc.XXXXXX");
    ssize_t n = readlink("/proc/self/exe", r->self, sizeof(r->self) - 1);
    const char *bin = getenv("MGPU_BIN");
    if (n < 0 || !mkdtemp(r->dir))
        exit(1);
    if (bin)
        (void)snprintf(r->bin, sizeof(r->bin), "%s/mgpu-shepherd", bin);
    else /* build/release/tests/contract/alloc */
        (void)snprintf(r->bin, sizeof(r->bin), "%.*s/../../bin/mgpu-shepherd",
                       (int)(strrchr(r->self, '/') - r->self), r->self);
    clock_virtual_init(&r->clk, 0, 0);
    struct alloc_fake_conf conf = {.nodes = 1,
                                   .gpus_per_node = r->gpus,
                                   .grant_delay_s = 1,
                                   .clock = &r->clk.base,
                                   .outcome = rig_outcome,
                                   .arg = r};
    if (!is_local && alloc_fake_world_create(&conf, &r->world, &err) < 0)
        exit(1);
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
    (void)snprintf(dir, sizeof(dir), "%s", rig_path(r, job, NULL));
    struct alloc_req req = {.job = job,
                            .attempt = 1,
                            .ask = ask,
                            .tag = "mgpu:test:1:1",
                            .nodes = 1,
                            .gpus_per_node = gpus,
                            .uid = geteuid(),
                            .dir = dir,
                            .worker = r->self,
                            .launch = b->launch,
                            .log_max_bytes = 1000000};
    struct error err = ERROR_INIT;
    r->outcome = b->outcome;
    if (r->a->ops->request(r->a, &req, &err) == 0)
        return 0;
    tap_diag("request: %s", err.msg);
    return (int)err.code;
}

static inline int rig_ask(struct rig *r, uint64_t job, int32_t gpus,
                          const struct behaviour *b)
{
    return rig_ask_as(r, ALLOC_AGAIN, job, gpus, b);
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
    for (;;) {
        size_t n = 0;
        if (r->a->ops->poll(r->a, &r->last, 1, &n, &err) < 0)
            return false;
        if (n > 0)
            return true;
        if (!r->is_local) {
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

/* Whether the next note is this one. */
/* What a local attempt printed, for whoever reads of the failure. */
static inline void rig_tell(const struct rig *r, uint64_t job)
{
    static const char *const files[] = {"log", "shepherd.log", "exit"};
    for (size_t i = 0; r->is_local && i < 3; i++) {
        struct buf text = BUF_INIT;
        if (buf_read_file(&text, rig_path(r, job, files[i]), 1 << 20, NULL) ==
            0)
            tap_diag("%s: %.1000s", files[i], buf_str(&text));
        buf_clear(&text);
    }
}

static inline bool rig_gets(struct rig *r, uint64_t job,
                            enum alloc_note_kind kind)
{
    if (!rig_next(r, 15)) {
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
    return !rig_next(r, r->is_local ? 0.3 : 0);
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

/* ---- looking at what a local attempt did ----------------------------------
 */
static inline long rig_size(const struct rig *r, uint64_t job, const char *file)
{
    struct stat st;
    return stat(rig_path(r, job, file), &st) == 0 ? (long)st.st_size : -1;
}

static inline int32_t rig_starts(const struct rig *r, uint64_t job)
{
    if (!r->is_local)
        return alloc_fake_starts(r->world, job, 1);
    long n = rig_size(r, job, "starts");
    return n > 0 ? (int32_t)n : 0;
}

/* Until n ranks sleep and heed signals. */
static inline bool rig_ready(struct rig *r, uint64_t job, int n)
{
    for (int i = 0; r->is_local && i < 1500; i++) {
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
    return !r->is_local;
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
