/* rig.c - see rig.h. */
#include "tests/fault/rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/http/http_client.h"
#include "tests/tap.h"

/* A connection that a fault has made deaf costs as much. */
static const double REPLY_S = 5, STOP_S = 60;
enum {
    SAID_MAX = 1800, /* of its last words, in a diagnosis */
    SOME = 16        /* jobs */
};

static void die(const char *what)
{
    (void)printf("Bail out! %s: %s\n", what, strerror(errno));
    exit(1);
}

static void put(char *ret, const char *dir, const char *name)
{
    (void)snprintf(ret, RIG_PATH_CAP, "%s/%s", dir, name);
}

bool rig_waits(double *io_until_s)
{
    double now_s = clock_real.now_s(&clock_real);
    if (*io_until_s == 0)
        *io_until_s = now_s + (double)RIG_DEADLINE_S;
    (void)poll(NULL, 0, 4);
    return now_s < *io_until_s;
}

/* ---- what fails ----------------------------------------------------------
 */
static void map_control(struct rig *r)
{
    int fd = open(r->control, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*r->f)) < 0)
        die(r->control);
    r->f = mmap(NULL, sizeof(*r->f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (r->f == MAP_FAILED)
        die("mmap");
    (void)close(fd);
}

void rig_arm(struct rig *r, const struct fault *f, int64_t n)
{
    struct fault_control *c = r->f;
    atomic_store(&c->cls, FAULT_NONE);
    atomic_store(&c->code, f->code);
    bool by_place = (f->how & BY_PLACE) && rig_is_whole();
    atomic_store(&c->first, by_place ? 0 : n);
    for (size_t i = 0; i < FAULT_PLACES && n == 1 && by_place; i++)
        atomic_store(&c->places[i], 0);
    atomic_store(&c->times, f->times > 0 ? f->times : 1);
    atomic_store(&c->seen, 0);
    atomic_store(&c->struck, 0);
    atomic_store(&c->excused, 0);
    atomic_store(&c->cls, (int32_t)f->cls);
}

bool rig_disarm(struct rig *r)
{
    atomic_store(&r->f->cls, FAULT_NONE);
    return atomic_load(&r->f->struck) + atomic_load(&r->f->excused) > 0;
}

void rig_spare_daemon(struct rig *r)
{
    (void)munmap(r->f, sizeof(*r->f));
    put(r->control, r->dir, "control.tools");
    map_control(r);
}

bool rig_is_whole(void)
{
    const char *which = getenv("MGPU_FAULT");
    return which && strcmp(which, "all") == 0;
}

/* The first ones are most of the different ones. */
int64_t rig_after(int64_t n)
{
    return rig_is_whole() ? n + 1 : n + 1 + n / 2;
}

static const char *read_reply(struct rig *r, const char *path)
{
    struct error err = ERROR_INIT;
    buf_reset(&r->reply);
    return buf_read_file(&r->reply, path, 1 << 22, &err) < 0
               ? "nothing"
               : buf_str(&r->reply);
}

/* ---- programs ------------------------------------------------------------
 */
static pid_t start(struct rig *r, const char *const *argv, const char *log)
{
    char prog[RIG_PATH_CAP];
    put(prog, r->bin, argv[0]);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test may be killed */
    /* Places are addresses: those of one run are those of the next. */
    (void)personality(ADDR_NO_RANDOMIZE);
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    int null = open("/dev/null", O_RDONLY);
    if (fd < 0 || null < 0 || dup2(null, 0) < 0 || dup2(fd, 1) < 0 ||
        dup2(fd, 2) < 0 || setenv("LD_PRELOAD", r->inject, 1) < 0 ||
        setenv(FAULT_FILE, r->control, 1) < 0 ||
        setenv("MGPU_URL", r->url, 1) < 0)
        _exit(126);
    (void)execv(prog, (char *const *)(uintptr_t)argv);
    _exit(127);
}

void rig_start(struct rig *r)
{
    const char *argv[] = {"mgpu-ctld", "--local",     "--slots",
                          "4",         "--state-dir", r->state,
                          "--socket",  r->sock,       NULL};
    r->daemon = start(r, argv, r->log);
}

bool rig_has_died(struct rig *r)
{
    if (r->daemon > 0 && waitpid(r->daemon, &r->status, WNOHANG) == r->daemon)
        r->daemon = 0;
    return r->daemon == 0;
}

static void kill_daemon(struct rig *r, int signo)
{
    if (r->daemon <= 1)
        return;
    (void)kill(r->daemon, signo);
    (void)waitpid(r->daemon, &r->status, 0);
    r->daemon = 0;
}

bool rig_is_ready(struct rig *r)
{
    double until_s = 0;
    while (!rig_has_died(r)) {
        if (rig_call(r, "GET", NULL, NULL, "/readyz") == 200)
            return true;
        if (!rig_waits(&until_s))
            kill_daemon(r, SIGABRT);
    }
    return false;
}

bool rig_stop(struct rig *r)
{
    double until_s = clock_real.now_s(&clock_real) + STOP_S;
    if (r->daemon <= 1)
        return false;
    (void)kill(r->daemon, SIGTERM);
    while (!rig_has_died(r))
        if (!rig_waits(&until_s))
            kill_daemon(r, SIGABRT);
    return WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0;
}

const char *rig_said(struct rig *r)
{
    return read_reply(r, r->log);
}

int rig_count_fds(const struct rig *r)
{
    char path[64];
    int n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)r->daemon);
    DIR *d = opendir(path);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        n += e->d_name[0] != '.';
    if (d)
        (void)closedir(d);
    return n;
}

int rig_run(struct rig *r, const char *const *argv)
{
    char out[RIG_PATH_CAP];
    int status = 0;
    double until_s = 0;
    put(out, r->dir, "out");
    pid_t pid = start(r, argv, out), ended = 0;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0)
        if (!rig_waits(&until_s) && pid > 1)
            (void)kill(pid, SIGABRT);
    (void)read_reply(r, out);
    return ended == pid ? status : -1;
}

/* ---- requests ------------------------------------------------------------
 */
int rig_call(struct rig *r, const char *method, const char *key,
             const char *body, const char *where, ...)
{
    char at[96];
    int status = 0;
    struct http_request req = {.method = method,
                               .path = at,
                               .idempotency_key = key,
                               .body = body,
                               .body_len = body ? strlen(body) : 0};
    va_list ap;
    va_start(ap, where);
    (void)vsnprintf(at, sizeof(at), where, ap);
    va_end(ap);
    double until_s = 0;
    int rc;
    do {
        buf_reset(&r->reply);
        rc = http_client_call(r->http, &req, &status, &r->reply, NULL);
    } while (rc < 0 && atomic_load(&r->f->cls) == FAULT_NONE &&
             !rig_has_died(r) && rig_waits(&until_s));
    return rc < 0 ? 0 : status;
}

static uint64_t id_in(const struct buf *reply)
{
    const char *at = strstr(buf_str(reply), "\"id\"");
    return at ? strtoull(at + 4 + strspn(at + 4, ": "), NULL, 10) : 0;
}

uint64_t rig_submit(struct rig *r, uint32_t key, bool is_held)
{
    char name[24], body[RIG_PATH_CAP + 384];
    (void)snprintf(name, sizeof(name), "key-%" PRIu32, key);
    (void)snprintf(
        body, sizeof(body),
        "{\"hold\":%s,\"spec\":{\"version\":1,\"kind\":\"command\","
        "\"name\":\"%s\",\"resources\":{\"gpus\":1},"
        "\"retry\":{\"max\":3,\"backoff\":\"1s\"},\"command\":"
        "[\"sh\",\"-c\",\"echo $MGPU_JOB_ID $MGPU_ATTEMPT >>%s; echo "
        "'{\\\"iteration\\\":1,\\\"loss\\\":0.5}' "
        ">>$MGPU_METRICS\"]}}",
        is_held ? "true" : "false", name, r->ran);
    int status = rig_call(r, "POST", name, body, "/v1/jobs");
    uint64_t id = status == 200 || status == 201 ? id_in(&r->reply) : 0;
    if (id == 0)
        return 0;
    for (size_t i = 0; i < r->n_jobs; i++)
        if (r->jobs[i] == id)
            return id;
    if (r->n_jobs < RIG_JOBS_MAX)
        r->jobs[r->n_jobs++] = id;
    return id;
}

static bool has(struct rig *r, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        if (rig_call(r, "GET", NULL, NULL, "/v1/jobs/%" PRIu64, r->jobs[i]) !=
            200)
            return false;
    return true;
}

bool rig_has_all(struct rig *r)
{
    return has(r, 0, r->n_jobs);
}

bool rig_has_some(struct rig *r)
{
    size_t n = r->n_jobs;
    return n <= 2 * SOME ? rig_has_all(r)
                         : has(r, 0, SOME) && has(r, n - SOME, n);
}

bool rig_ran_once(struct rig *r)
{
    struct buf text = BUF_INIT;
    bool is_once = true;
    if (buf_read_file(&text, r->ran, 1 << 20, NULL) < 0)
        return false;
    for (const char *a = buf_str(&text); *a; a += strcspn(a, "\n") + 1) {
        size_t len = strcspn(a, "\n") + 1;
        for (const char *b = a + len; *b; b += strcspn(b, "\n") + 1)
            is_once = is_once && strncmp(a, b, len) != 0;
    }
    buf_clear(&text);
    return is_once;
}

/* ---- a directory for all of it -------------------------------------------
 */
static void find_inject(struct rig *r)
{
    char self[RIG_PATH_CAP];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0)
        die("/proc/self/exe");
    self[n] = '\0';
    (void)snprintf(r->inject, sizeof(r->inject), "%s/inject.so", dirname(self));
    if (access(r->inject, R_OK) < 0)
        die(r->inject);
}

void rig_begin(struct rig *r)
{
    *r = (struct rig){.bin = getenv("MGPU_BIN"), .reply = BUF_INIT};
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(r->dir, sizeof(r->dir), "%s/mgpu-fault-XXXXXX", shm);
    if (!r->bin || !mkdtemp(r->dir))
        die("MGPU_BIN, or a directory");
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    put(r->state, r->dir, "state");
    put(r->sock, r->dir, "sock");
    put(r->ran, r->dir, "ran");
    put(r->log, r->dir, "log");
    put(r->control, r->dir, "control");
    (void)snprintf(r->url, sizeof(r->url), "unix:%.100s", r->sock);
    find_inject(r);
    map_control(r);
    struct http_client_conf conf = {.url = r->url, .timeout_s = REPLY_S};
    if (http_client_create(&conf, &r->http, NULL) < 0)
        die("client");
}

void rig_end(struct rig *r)
{
    const char *argv[] = {"rm", "-rf", "--", r->dir, NULL};
    (void)rig_disarm(r);
    kill_daemon(r, SIGTERM);
    pid_t pid = fork();
    if (pid == 0) {
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    (void)munmap(r->f, sizeof(*r->f));
    http_client_destroy(r->http);
    buf_clear(&r->reply);
}

void rig_bad(struct rig *r, int *io_n_bad, const char *what)
{
    if ((*io_n_bad)++ >= 3)
        return;
    tap_diag("call %lld of %lld, %s: %s", (long long)atomic_load(&r->f->first),
             (long long)atomic_load(&r->f->seen),
             atomic_load(&r->f->struck) ? r->f->where : "none failed", what);
    const char *said = rig_said(r);
    size_t len = strlen(said);
    tap_diag("%s", len > SAID_MAX ? said + len - SAID_MAX : said);
}
