/* crash.c - kills a daemon at random moments, again and again.
 *
 *   crash ROUNDS SEED BIN
 *
 * A round is one life of a daemon: it starts on the state that the last one
 * left, clients submit, cancel, hold, requeue and look, jobs run and report
 * rows, and somewhere in between it is killed: by SIGKILL at any moment, while
 * it starts, or before or after any call of its store (MGPU_FAIL_STORE). After
 * each round history.h looks at what is left. After WORLD rounds a last daemon
 * lives in peace until all has ended, SIGTERM stops it, and a new state begins.
 *
 * What is drawn is drawn from SEED; the moment of a SIGKILL is the machine's.
 * The first finding ends the run, names the seed and leaves the state.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/http_client.h"
#include "jobs/base/rng.h"
#include "tests/crash/history.h"

enum { WORLD = 40, CLIENTS = 3, PATH_CAP = 128, SUBMITS = 12, TASKS = 3 };

static struct {
    char dir[64], state[PATH_CAP], sock[PATH_CAP], url[PATH_CAP], ran[PATH_CAP],
        log[PATH_CAP];
    const char *bin;
    uint32_t seed;
    pid_t daemon;
    atomic_bool is_over; /* of the round: clients go home */
    atomic_int submits_left, n_answers;
    struct history h;
    struct rng rng; /* the main thread's */
} w = {.h = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static uint32_t draw(struct rng *r, uint32_t n)
{
    return rng_u32(r) % n;
}

static void nap(int ms)
{
    (void)poll(NULL, 0, ms);
}

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "crash: %s: %s\n", what, why);
    if (w.daemon > 1)
        (void)kill(w.daemon, SIGKILL);
    exit(1);
}

static void path(char *ret, const char *name)
{
    (void)snprintf(ret, PATH_CAP, "%s/%s", w.dir, name);
}

/* ---- clients ---------------------------------------------------------------
 */
struct client {
    pthread_t thread;
    struct rng rng;
    struct http_client *http; /* owned */
    struct buf body, reply;
};

/* The status, or 0: no answer. */
static int call(struct client *c, const char *method, const char *key,
                const char *where, ...) __attribute__((format(printf, 4, 5)));
static int call(struct client *c, const char *method, const char *key,
                const char *where, ...)
{
    char at[96];
    int status = 0;
    struct error err = ERROR_INIT;
    struct http_request req = {.method = method,
                               .path = at,
                               .idempotency_key = key,
                               .body = c->body.len > 0 ? c->body.data : NULL,
                               .body_len = c->body.len};
    va_list ap;
    va_start(ap, where);
    (void)vsnprintf(at, sizeof(at), where, ap);
    va_end(ap);
    buf_reset(&c->reply);
    if (http_client_call(c->http, &req, &status, &c->reply, &err) < 0)
        status = 0;
    buf_reset(&c->body);
    atomic_fetch_add(&w.n_answers, status > 0);
    return status;
}

static uint64_t id_of(const struct buf *reply)
{
    const char *at = strstr(buf_str(reply), "\"id\"");
    at = at ? at + 4 + strspn(at + 4, ": ") : "0";
    return strtoull(at, NULL, 10);
}

/* JOB_NEW: it is not said. */
static enum job_state state_of(const struct buf *reply)
{
    enum job_state s = JOB_NEW;
    char name[24] = "";
    const char *at = strstr(buf_str(reply), "\"state\"");
    if (at) {
        at += 7 + strspn(at + 7, ": \"");
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "\""), at);
    }
    return job_state_from_name(name, &s) < 0 ? JOB_NEW : s;
}

/* One that is held costs nothing; one that runs leaves a line and its rows. */
static void write_spec(struct buf *b, const struct asked *a)
{
    const char *sweep =
        a->is_sweep ? ",\"sweep\":{\"grid\":{\"env.I\":[\"1\",\"2\",\"3\"]}}"
                    : "";
    if (buf_addf(b, NULL,
                 "{\"hold\":%s,\"spec\":{\"version\":1,\"kind\":\"command\","
                 "\"name\":\"c\",\"resources\":{\"gpus\":1},"
                 "\"retry\":{\"max\":3,\"backoff\":\"1s\"},"
                 "\"checkpoint\":{\"grace\":\"1s\"},\"command\":[\"sh\",\"-c\","
                 "\"echo $MGPU_JOB_ID $MGPU_ATTEMPT >>%s; for i in 1 2 3; do "
                 "echo \\\"{\\\\\\\"iteration\\\\\\\":$i,\\\\\\\"loss\\\\\\\":"
                 "0.5}\\\" >>$MGPU_METRICS; done\"]%s}}",
                 a->is_held || a->is_sweep ? "true" : "false", w.ran,
                 sweep) < 0)
        die("memory", "spec");
}

/* By its key, for the first time or again. */
static void submit(struct client *c, size_t i)
{
    struct asked a;
    pthread_mutex_lock(&w.h.lock);
    a = w.h.jobs[i];
    pthread_mutex_unlock(&w.h.lock);
    write_spec(&c->body, &a);
    int status = call(c, "POST", a.key, "/v1/jobs");
    uint64_t id = status == 200 || status == 201 ? id_of(&c->reply) : 0;
    if (id == 0)
        return;
    pthread_mutex_lock(&w.h.lock);
    struct asked *now = &w.h.jobs[i];
    if (now->id != 0 && now->id != id)
        bad(&w.h, "I2", "one key brought another job", id);
    now->id = id;
    pthread_mutex_unlock(&w.h.lock);
}

static void submit_new(struct client *c)
{
    size_t i = JOBS_MAX;
    if (atomic_fetch_sub(&w.submits_left, 1) <= 0)
        return;
    uint32_t kind = draw(&c->rng, 12);
    pthread_mutex_lock(&w.h.lock);
    if (w.h.n < JOBS_MAX) {
        i = w.h.n++;
        struct asked *a = &w.h.jobs[i];
        *a = (struct asked){.is_sweep = kind == 0, .is_held = kind > 1};
        (void)snprintf(a->key, sizeof(a->key), "key-%zu", i);
    }
    pthread_mutex_unlock(&w.h.lock);
    if (i < JOBS_MAX)
        submit(c, i);
}

static void look(struct client *c, size_t i, uint64_t id)
{
    if (call(c, "GET", NULL, "/v1/jobs/%" PRIu64, id) != 200)
        return;
    enum job_state s = state_of(&c->reply);
    if (!job_state_is_final(s))
        return;
    pthread_mutex_lock(&w.h.lock);
    w.h.jobs[i].end = s;
    pthread_mutex_unlock(&w.h.lock);
}

static void cancel(struct client *c, size_t i, uint64_t id)
{
    if (call(c, "POST", NULL, "/v1/jobs/%" PRIu64 "/cancel", id) != 200)
        return;
    pthread_mutex_lock(&w.h.lock);
    w.h.jobs[i].cancel_told = true;
    pthread_mutex_unlock(&w.h.lock);
}

/* Something about a job that was submitted before. */
static void do_to_one(struct client *c)
{
    struct asked a = {.id = 0};
    size_t i = 0;
    pthread_mutex_lock(&w.h.lock);
    if (w.h.n > 0) {
        i = w.h.n - 1 - draw(&c->rng, w.h.n < 40 ? (uint32_t)w.h.n : 40);
        a = w.h.jobs[i];
    }
    pthread_mutex_unlock(&w.h.lock);
    if (a.key[0] && a.id == 0) {
        submit(c, i);
        return;
    }
    if (a.id == 0)
        return;
    switch (draw(&c->rng, 12)) {
    case 0:
    case 1:
        if (a.is_held)
            cancel(c, i, a.id);
        break;
    case 2:
        submit(c, i); /* as if the answer had not come */
        break;
    case 3:
        if (!a.is_held)
            (void)call(c, "POST", NULL, "/v1/jobs/%" PRIu64 "/requeue", a.id);
        break;
    case 4:
        if (!a.is_held)
            (void)call(c, "POST", NULL, "/v1/jobs/%" PRIu64 "/hold", a.id);
        break;
    case 5:
        if (!a.is_held)
            (void)call(c, "POST", NULL, "/v1/jobs/%" PRIu64 "/release", a.id);
        break;
    case 6:
        if (buf_addf(&c->body, NULL, "{\"priority\":%u}", draw(&c->rng, 50)) ==
            0)
            (void)call(c, "POST", NULL, "/v1/jobs/%" PRIu64 "/priority", a.id);
        break;
    case 7:
        (void)call(c, "GET", NULL, "/v1/jobs?limit=50");
        break;
    default:
        look(c, i, a.id);
    }
}

static void client_begin(struct client *c, uint32_t seed)
{
    struct error err = ERROR_INIT;
    struct http_client_conf conf = {.url = w.url, .timeout_s = 30};
    *c = (struct client){.body = BUF_INIT, .reply = BUF_INIT};
    rng_seed(&c->rng, seed);
    if (http_client_create(&conf, &c->http, &err) < 0)
        die("client", err.msg);
}

static void client_end(struct client *c)
{
    http_client_destroy(c->http);
    buf_clear(&c->body);
    buf_clear(&c->reply);
}

static void *play(void *arg)
{
    struct client *c = arg;
    while (!atomic_load(&w.is_over)) {
        if (draw(&c->rng, 3) == 0)
            submit_new(c);
        else
            do_to_one(c);
        nap((int)draw(&c->rng, 3));
    }
    return NULL;
}

/* ---- the daemon ------------------------------------------------------------
 */
static void exec_daemon(const char *fault)
{
    char prog[PATH_CAP];
    (void)snprintf(prog, sizeof(prog), "%s/mgpu-ctld", w.bin);
    int fd = open(w.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int null = open("/dev/null", O_RDONLY);
    if (fd < 0 || null < 0 || dup2(null, 0) < 0 || dup2(fd, 1) < 0 ||
        dup2(fd, 2) < 0)
        _exit(126);
    if (fault[0])
        (void)setenv("MGPU_FAIL_STORE", fault, 1);
    else
        (void)unsetenv("MGPU_FAIL_STORE");
    (void)execl(prog, prog, "--local", "--slots", "8", "--state-dir", w.state,
                "--socket", w.sock, (char *)NULL);
    _exit(127);
}

static bool has_ended(int *ret_status)
{
    if (w.daemon > 1 && waitpid(w.daemon, ret_status, WNOHANG) == w.daemon)
        w.daemon = 0;
    return w.daemon == 0;
}

static void start(const char *fault)
{
    w.daemon = fork();
    if (w.daemon < 0)
        die("fork", strerror(errno));
    if (w.daemon == 0)
        exec_daemon(fault);
}

/* False: it died instead. */
static bool wait_ready(struct client *c)
{
    double until_s = now_s() + 60;
    int status = 0;
    while (!has_ended(&status)) {
        if (call(c, "GET", NULL, "/readyz") == 200)
            return true;
        if (now_s() > until_s)
            die("the daemon", "is not ready in time");
        nap(2);
    }
    return false;
}

static void kill_daemon(void)
{
    if (w.daemon <= 1)
        return;
    (void)kill(w.daemon, SIGKILL);
    if (waitpid(w.daemon, NULL, 0) < 0)
        die("waitpid", strerror(errno));
    w.daemon = 0;
}

/* ---- rounds ----------------------------------------------------------------
 */
/* How it is to die: by SIGKILL after *ret_ms, unless the store did it. */
static void draw_death(char *ret_fault, size_t cap, int *ret_ms,
                       bool *ret_early)
{
    uint32_t kind = draw(&w.rng, 20);
    ret_fault[0] = '\0';
    *ret_early = kind < 2;
    *ret_ms = (int)draw(&w.rng, *ret_early ? 60 : 120);
    if (kind >= 10) {
        (void)snprintf(ret_fault, cap, "%u%s", 1 + draw(&w.rng, 50),
                       kind == 19      ? ":slow"
                       : kind % 2 == 0 ? ":after"
                                       : "");
        *ret_ms = kind == 19 ? 3000 : 400;
    }
}

static void round_of(uint32_t n)
{
    struct client clients[CLIENTS], probe;
    char fault[24];
    bool is_early;
    int ms, status = 0;
    draw_death(fault, sizeof(fault), &ms, &is_early);
    start(fault);
    client_begin(&probe, 1);
    if (!is_early && wait_ready(&probe)) {
        atomic_store(&w.is_over, false);
        atomic_store(&w.submits_left, SUBMITS);
        for (int i = 0; i < CLIENTS; i++) {
            client_begin(&clients[i],
                         w.seed + n * CLIENTS + (uint32_t)i + 7777);
            if (pthread_create(&clients[i].thread, NULL, play, &clients[i]))
                die("pthread", "create");
        }
        for (double until_s = now_s() + ms / 1e3;
             now_s() < until_s && !has_ended(&status);)
            nap(1);
        kill_daemon();
        atomic_store(&w.is_over, true);
        for (int i = 0; i < CLIENTS; i++) {
            (void)pthread_join(clients[i].thread, NULL);
            client_end(&clients[i]);
        }
    } else {
        nap(is_early ? ms : 0);
        kill_daemon();
    }
    client_end(&probe);
    history_check(&w.h, w.state, false);
}

/* ---- the end of a world ----------------------------------------------------
 */
/* Of a sweep all tasks. */
static bool has_gone(struct client *c, const struct asked *a)
{
    for (uint64_t k = 0; k < (a->is_sweep ? TASKS : 1); k++)
        if (call(c, "GET", NULL, "/v1/jobs/%" PRIu64, a->id + k) != 200 ||
            !job_state_is_final(state_of(&c->reply)))
            return false;
    return true;
}

static void wait_for_all(struct client *c)
{
    double until_s = now_s() + 300;
    for (size_t i = 0; i < w.h.n; i++)
        while (!has_gone(c, &w.h.jobs[i])) {
            if (now_s() > until_s)
                die("a job does not end", w.h.jobs[i].key);
            nap(10);
        }
}

static void settle(void)
{
    struct client c;
    int status = 0;
    start("");
    client_begin(&c, 1);
    if (!wait_ready(&c))
        die("the daemon", "does not start");
    for (size_t i = 0; i < w.h.n; i++) {
        struct asked *a = &w.h.jobs[i];
        if (a->id == 0)
            submit(&c, i);
        if (a->id == 0)
            die("a submit", buf_str(&c.reply));
        if (a->is_held || a->is_sweep)
            cancel(&c, i, a->id);
        else
            (void)call(&c, "POST", NULL, "/v1/jobs/%" PRIu64 "/release", a->id);
    }
    wait_for_all(&c);
    client_end(&c);
    (void)kill(w.daemon, SIGTERM);
    for (double until_s = now_s() + 60; !has_ended(&status); nap(2))
        if (now_s() > until_s)
            die("the daemon", "does not end for SIGTERM");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bad(&w.h, "F35", "SIGTERM: its status", (uint64_t)status);
    history_check(&w.h, w.state, true);
    check_ran(&w.h, w.ran);
}

/* Of our own making alone, and not through links. */
static void remove_dir(const char *dir)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
        _exit(127);
    }
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
}

static void begin_world(void)
{
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(w.dir, sizeof(w.dir), "%s/mgpu-crash-XXXXXX", shm);
    if (!mkdtemp(w.dir))
        die(w.dir, strerror(errno));
    path(w.state, "state");
    path(w.sock, "sock");
    path(w.ran, "ran");
    path(w.log, "log");
    (void)snprintf(w.url, sizeof(w.url), "unix:%.100s", w.sock);
    w.h.n = 0;
}

static int fail(uint32_t done)
{
    (void)printf("FAILED in round %u; make crash ROUNDS=%u SEED=%u; state in "
                 "%s\n",
                 done, done, w.seed, w.dir);
    return 1;
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    double began_s = now_s();
    size_t n_jobs = 0;
    if (rounds < 1) {
        (void)fprintf(stderr, "usage: crash ROUNDS SEED BIN\n");
        return 64;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    w.seed = (uint32_t)strtoul(argv[2], NULL, 10);
    w.bin = argv[3];
    rng_seed(&w.rng, w.seed);
    for (uint32_t n = 0; n < rounds;) {
        begin_world();
        for (uint32_t k = 0; k < WORLD && n < rounds && w.h.n_bad == 0; k++)
            round_of(n++);
        if (w.h.n_bad == 0)
            settle();
        if (w.h.n_bad > 0)
            return fail(n);
        n_jobs += w.h.n;
        remove_dir(w.dir);
        (void)printf("%u rounds, %zu jobs, %d answers, %.0f ms a round\n", n,
                     n_jobs, atomic_load(&w.n_answers),
                     (now_s() - began_s) * 1e3 / n);
        (void)fflush(stdout);
    }
    return 0;
}
