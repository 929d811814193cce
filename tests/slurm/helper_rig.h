/* helper_rig.h - a private cluster, and a helper on the end of a socket.
 *
 * The test is the daemon: it sends lines and keeps the last that it heard
 * about each thing in a struct world. Waiting is always for a condition.
 */
#ifndef MGPU_TESTS_SLURM_HELPER_RIG_H
#define MGPU_TESTS_SLURM_HELPER_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "slurm/protocol/helper_wire.h"
#include "tests/tap.h"

/* Generous: the machine may be ten times slower than it should be. */
static const double PATIENCE_S = 120;
enum { ARGS_MAX = 32, JOBS_MAX = 64, REPLIES_MAX = 64, RIG_PATH = 256 };

/* ---- the cluster --------------------------------------------------------- */
struct cluster {
    char dir[64];      /* of ours, everybody may pass */
    char tb[80];       /* the testbed's */
    char conf[128];    /* its slurm.conf */
    char batch[80];    /* what stands for mgpu-batch */
    char program[256]; /* mgpu-slurm-helper */
};

static inline int run_argv(char *const *argv)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

/* Words that are separated by one space. */
static inline int run_words(const char *words)
{
    char text[1024];
    char *argv[ARGS_MAX];
    char *save = NULL;
    int n = 0;
    (void)snprintf(text, sizeof(text), "%s", words);
    for (char *p = strtok_r(text, " ", &save); p && n < ARGS_MAX - 1;
         p = strtok_r(NULL, " ", &save))
        argv[n++] = p;
    argv[n] = NULL;
    return run_argv(argv);
}

/* tests/slurm/testbed VERB DIR MORE */
static inline int testbed(const struct cluster *c, const char *verb,
                          const char *more)
{
    char words[1024];
    (void)snprintf(words, sizeof(words), "%s/tests/slurm/testbed %s %s %s",
                   getenv("MGPU_SRC"), verb, c->tb, more);
    return run_words(words);
}

static inline void put_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0) {
        perror(path);
        exit(1);
    }
    (void)close(fd);
}

/* The batch program does what launch.json says in "sh". */
static const char batch_script[] =
    "#!/bin/sh\n"
    "cd \"$1\" 2>/dev/null || cd \"$MGPU_ATTEMPT_DIR\" || exit 90\n"
    "sed -n 's/.*\"sh\":\"\\([^\"]*\\)\".*/\\1/p' launch.json >do.sh\n"
    ". ./do.sh\n";

static inline void cluster_down(struct cluster *c)
{
    char words[128];
    (void)testbed(c, "down", "--purge");
    (void)snprintf(words, sizeof(words), "rm -rf %s", c->dir);
    (void)run_words(words);
}

static inline void cluster_up(struct cluster *c)
{
    char size[64];
    const char *bin = getenv("MGPU_BIN");
    *c = (struct cluster){.dir = ""};
    if (bin == NULL || getenv("MGPU_SRC") == NULL)
        tap_skip_all("MGPU_BIN and MGPU_SRC are not set");
    (void)snprintf(c->program, sizeof(c->program), "%s/mgpu-slurm-helper", bin);
    (void)snprintf(c->dir, sizeof(c->dir), "/tmp/mgpu-helper.XXXXXX");
    if (mkdtemp(c->dir) == NULL || chmod(c->dir, 0755) < 0) {
        perror(c->dir);
        exit(1);
    }
    (void)snprintf(c->tb, sizeof(c->tb), "%s/tb", c->dir);
    (void)snprintf(c->conf, sizeof(c->conf), "%s/etc/slurm.conf", c->tb);
    (void)snprintf(c->batch, sizeof(c->batch), "%s/batch.sh", c->dir);
    (void)snprintf(size, sizeof(size), "--nodes 2 --gpus 4 --owner %d",
                   (int)getpid());
    put_file(c->batch, batch_script, 0755);
    if (testbed(c, "up", size) != 0) {
        cluster_down(c);
        (void)fprintf(stderr, "no cluster\n");
        exit(1);
    }
}

/* ---- the helper ---------------------------------------------------------- */
struct world {
    const struct cluster *c;
    int fd, files_fd;
    pid_t pid;
    struct buf in;
    uint64_t last_id;
    uint64_t generation, n_scans;
    int n_hello, n_down, n_up, n_gone, n_empty, n_bad;
    bool is_down;
    struct error down_why;
    struct helper_job jobs[JOBS_MAX]; /* by slurm_id; state "" unknown */
    bool is_gone[JOBS_MAX];
    struct helper_news replies[REPLIES_MAX]; /* by id; ev REPLY: has come */
    int n_replies;
    struct alloc_node *nodes;
    size_t n_nodes;
    struct alloc_partition batch; /* the partition of that name, once told */
    bool has_quotas;
    int32_t n_quotas;
    struct alloc_quota resv; /* the last reservation */
};

struct helper_start {
    const char *cluster, *conf, *poll, *call_timeout;
    const char *more[8]; /* options, up to a NULL */
    uid_t uid;           /* 0: as we are */
};

static inline void become_helper(const struct world *w,
                                 const struct helper_start *s, int fd,
                                 int files_fd) __attribute__((noreturn));

static inline void become_helper(const struct world *w,
                                 const struct helper_start *s, int fd,
                                 int files_fd)
{
    const char *argv[ARGS_MAX] = {"mgpu-slurm-helper",
                                  "--cluster",
                                  s->cluster ? s->cluster : "c",
                                  "--conf",
                                  s->conf ? s->conf : w->c->conf,
                                  "--batch",
                                  w->c->batch,
                                  "--worker",
                                  "/bin/true",
                                  "--poll",
                                  s->poll ? s->poll : "0.2",
                                  "--call-timeout",
                                  s->call_timeout ? s->call_timeout : "30"};
    int n = 13;
    for (int i = 0; s->more[i] && n < ARGS_MAX - 1; i++)
        argv[n++] = s->more[i];
    if (dup2(fd, 20) < 0 || dup2(files_fd, 21) < 0 ||
        dup2(20, HELPER_RPC_FD) < 0 || dup2(21, HELPER_FILES_FD) < 0)
        _exit(126);
    for (int i = HELPER_FILES_FD + 1; i < 64; i++)
        (void)close(i);
    if (s->uid && (setresgid(s->uid, s->uid, s->uid) < 0 ||
                   setresuid(s->uid, s->uid, s->uid) < 0))
        _exit(126);
    (void)setenv("MGPU_TEST_SECRET", "of the daemon", 1);
    (void)setenv("SLURM_CONF", "/nowhere", 1); /* is not looked at */
    (void)execv(w->c->program, (char *const *)argv);
    _exit(127);
}

static inline void start(struct world *w, const struct cluster *c,
                         const struct helper_start *s)
{
    int fds[2];
    int files[2];
    *w = (struct world){.c = c};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files) < 0)
        exit(1);
    w->pid = fork();
    if (w->pid == 0)
        become_helper(w, s, fds[1], files[1]);
    (void)close(fds[1]);
    (void)close(files[1]);
    w->fd = fds[0];
    w->files_fd = files[0];
}

/* ---- hearing ------------------------------------------------------------- */
static inline void hear_job(struct world *w, const struct helper_news *n)
{
    if (n->job.slurm_id < JOBS_MAX) {
        w->jobs[n->job.slurm_id] = n->job;
        w->is_gone[n->job.slurm_id] = n->ev == HELPER_GONE;
    }
}

static inline void hear(struct world *w, struct helper_news *n)
{
    switch (n->ev) {
    case HELPER_HELLO:
        w->n_hello++;
        w->generation = n->generation;
        w->is_down = false;
        break;
    case HELPER_REPLY:
        if (n->id < REPLIES_MAX)
            w->replies[n->id] = *n;
        w->n_replies++;
        break;
    case HELPER_JOB:
        hear_job(w, n);
        break;
    case HELPER_GONE:
        w->n_gone++;
        hear_job(w, n);
        break;
    case HELPER_SCAN:
        w->n_scans++;
        break;
    case HELPER_NODES:
        free(w->nodes);
        w->nodes = n->nodes;
        w->n_nodes = n->n_nodes;
        n->nodes = NULL;
        break;
    case HELPER_PARTITION:
        if (strcmp(n->partition.name, "batch") == 0)
            w->batch = n->partition;
        break;
    case HELPER_QUOTA:
        w->n_quotas = n->count;
        w->has_quotas = true;
        if (n->quota.kind == ALLOC_QUOTA_RESERVATION)
            w->resv = n->quota;
        break;
    case HELPER_DOWN:
        w->n_down += !w->is_down;
        w->is_down = true;
        w->down_why = n->why;
        break;
    case HELPER_UP:
        w->n_up++;
        w->is_down = false;
        break;
    }
    helper_news_clear(n);
}

static inline void hear_line(struct world *w, const char *line, size_t len)
{
    struct helper_news n;
    struct error err = ERROR_INIT;
    if (len == 0) {
        w->n_empty++;
    } else if (helper_news_parse(line, len, &n, &err) < 0) {
        w->n_bad++;
        tap_diag("%.*s: %s", (int)(len < 200 ? len : 200), line, err.msg);
    } else {
        hear(w, &n);
    }
}

/* Until the next bytes, or the time. -1: the helper is gone. */
static inline int listen_once(struct world *w, double until_s)
{
    char part[65536];
    double left = until_s - clock_real.now_s(&clock_real);
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    if (poll(&p, 1, left > 0 ? (int)(left * 1e3) + 1 : 0) <= 0)
        return 0;
    ssize_t n = recv(w->fd, part, sizeof(part), 0);
    if (n <= 0 || buf_add(&w->in, part, (size_t)n, NULL) < 0)
        return -1;
    const char *end;
    while ((end = memchr(buf_str(&w->in), '\n', w->in.len))) {
        size_t len = (size_t)(end - w->in.data);
        hear_line(w, w->in.data, len);
        buf_drop(&w->in, len + 1);
    }
    return 0;
}

/* WAIT(w, what has to become true): whether it did, in time. */
#define WAIT(w, cond)                                                 \
    do {                                                              \
        double until_s_ = clock_real.now_s(&clock_real) + PATIENCE_S; \
        while (!(cond) && clock_real.now_s(&clock_real) < until_s_ && \
               listen_once((w), until_s_) == 0)                       \
            ;                                                         \
        ok(cond, "%s", #cond);                                        \
    } while (0)

/* ---- speaking ------------------------------------------------------------ */
static inline void say(const struct world *w, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = send(w->fd, text, len, MSG_NOSIGNAL);
        if (n < 0)
            return;
        text += n;
        len -= (size_t)n;
    }
}

/* Returns the command's id. */
static inline uint64_t tell(struct world *w, struct helper_cmd c)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    c.id = ++w->last_id;
    w->replies[c.id] = (struct helper_news){.ev = HELPER_UP}; /* none yet */
    if (helper_cmd_encode(&c, &b, &err) < 0)
        ok(false, "%s", err.msg);
    say(w, buf_str(&b), b.len);
    buf_clear(&b);
    return c.id;
}

static inline bool has_reply(const struct world *w, uint64_t id)
{
    return w->replies[id].ev == HELPER_REPLY;
}

static inline const struct helper_news *ask(struct world *w,
                                            struct helper_cmd c)
{
    uint64_t id = tell(w, c);
    double until_s = clock_real.now_s(&clock_real) + PATIENCE_S;
    while (!has_reply(w, id) && clock_real.now_s(&clock_real) < until_s &&
           listen_once(w, until_s) == 0)
        ;
    if (!has_reply(w, id))
        ok(false, "a reply in time");
    return &w->replies[id];
}

/* A submission of job `job`, which does `sh`. The strings live until the
 * next call but three. */
static inline struct helper_cmd submission(const struct world *w, uint64_t job,
                                           const char *sh)
{
    static struct {
        char tag[64], dir[RIG_PATH], launch[1024];
    } all[4];
    static unsigned next;
    unsigned i = next++ % 4;
    (void)snprintf(all[i].tag, sizeof(all[i].tag), "mgpu:c:%llu:1:0123",
                   (unsigned long long)job);
    (void)snprintf(all[i].dir, sizeof(all[i].dir), "%s/jobs/%llu/1", w->c->dir,
                   (unsigned long long)job);
    (void)snprintf(all[i].launch, sizeof(all[i].launch), "{\"sh\":\"%s\"}", sh);
    return (struct helper_cmd){.op = HELPER_SUBMIT,
                               .req = {.job = job,
                                       .attempt = 1,
                                       .tag = all[i].tag,
                                       .name = "test",
                                       .uid = geteuid(),
                                       .dir = all[i].dir,
                                       .launch = all[i].launch,
                                       .nodes = 1,
                                       .gpus_per_node = 1,
                                       .limit_s = 600,
                                       .grace_s = 10}};
}

static inline bool is_state(const struct world *w, uint32_t id,
                            const char *state)
{
    return id < JOBS_MAX && strcmp(w->jobs[id].state, state) == 0;
}

static inline bool is_sure(const struct helper_news *r, enum err_code code)
{
    if (r->is_ok || r->why.code != code || !r->is_sure)
        tap_diag("ok %d sure %d %s: %s", r->is_ok, r->is_sure,
                 error_word(r->why.code), r->why.msg);
    return !r->is_ok && r->why.code == code && r->is_sure;
}

/* ---- the end ------------------------------------------------------------- */
static inline bool is_called(pid_t pid, const char *name)
{
    char path[64];
    struct buf b = BUF_INIT;
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    bool is = buf_read_file(&b, path, 64, NULL) == 0 &&
              strncmp(buf_str(&b), name, strlen(name)) == 0;
    buf_clear(&b);
    return is;
}

/* The helper's child of this name, "mgpu-rpc" or "mgpu-files". */
static inline pid_t child_of(const struct world *w, const char *name)
{
    char path[64];
    char text[256] = "";
    char *p = text;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)w->pid,
                   (int)w->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
        ok(false, "%s", path);
    (void)close(fd);
    for (;;) {
        pid_t pid = (pid_t)strtol(p, &p, 10);
        if (pid <= 1) {
            ok(false, "the helper has a child '%s'", name);
            return (pid_t)INT_MAX; /* nobody's */
        }
        if (is_called(pid, name))
            return pid;
    }
}

/* Waits until the supervisor has ended by itself; its exit status. */
static inline int join(struct world *w)
{
    int status = -1;
    double until_s = clock_real.now_s(&clock_real) + PATIENCE_S;
    pid_t got = 0;
    while (got == 0 && clock_real.now_s(&clock_real) < until_s) {
        got = waitpid(w->pid, &status, WNOHANG);
        if (got == 0)
            (void)poll(NULL, 0, 10);
    }
    if (got == 0) {
        ok(false, "the helper ends");
        (void)kill(w->pid, SIGKILL);
        (void)waitpid(w->pid, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void stop(struct world *w)
{
    (void)close(w->fd);
    if (w->files_fd >= 0)
        (void)close(w->files_fd);
    is_int(join(w), 0, "the helper ends with its socket");
    free(w->nodes);
    buf_clear(&w->in);
    is_int(w->n_bad, 0, "every line could be read");
}

#endif
