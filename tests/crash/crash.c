/* crash.c - kills a daemon at random moments, again and again.
 *
 *   crash ROUNDS SEED BIN
 *
 * A round is one life of a daemon: it starts on the state that the last one
 * left, clients submit, cancel, hold, requeue and look, jobs run and report
 * rows, an administrator writes good and bad files and has them read, a
 * stranger tries what is not his (others.h), and somewhere in between it is
 * killed: by SIGKILL at any moment, while it starts, or before or after any
 * call of its store (MGPU_FAIL_STORE). After each round history.h looks at what
 * is left. Its shepherds are on a slow disk (programs.h). After WORLD rounds a
 * last daemon lives in peace until all has ended, SIGTERM stops it, and a new
 * state begins.
 *
 * What is drawn is drawn from SEED; the moment of a SIGKILL is the machine's.
 * The first finding ends the run, names the seed and leaves the state.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "tests/crash/others.h"
#include "tests/crash/programs.h"

enum { WORLD = 40, CLIENTS = 3, SUBMITS = 12 };

static struct world w = {.daemon_lock = PTHREAD_MUTEX_INITIALIZER,
                         .h = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static struct life lives[LIVES_MAX];
static size_t n_lives, n_backups;

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
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

static void begin(struct client *c, uint32_t seed)
{
    if (client_begin(c, &w, seed) < 0)
        die("client", w.url);
}

static void begin_thread(struct client *c, uint32_t seed, void *(*play)(void *))
{
    begin(c, seed);
    if (pthread_create(&c->thread, NULL, play, c))
        die("pthread", "create");
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
    path(prog, "bin/mgpu-ctld");
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
                "--socket", w.sock, "--config", w.conf, (char *)NULL);
    _exit(127);
}

static bool has_ended(int *ret_status)
{
    pthread_mutex_lock(&w.daemon_lock);
    if (w.daemon > 1 && waitpid(w.daemon, ret_status, WNOHANG) == w.daemon)
        w.daemon = 0;
    pthread_mutex_unlock(&w.daemon_lock);
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
        if (call(c, "GET", NULL, "/readyz") == 200) {
            note_conf(&w.h, CONF_START, 0);
            w.h.was_ready = true;
            strangers_let_in(&w);
            return true;
        }
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
    pthread_mutex_lock(&w.daemon_lock);
    (void)kill(w.daemon, SIGKILL);
    if (waitpid(w.daemon, NULL, 0) < 0)
        die("waitpid", strerror(errno));
    w.daemon = 0;
    pthread_mutex_unlock(&w.daemon_lock);
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

/* What was written down of it is for the next, and the summary. */
static void end_life(void)
{
    if (w.h.life.own_s > 0 && n_lives < LIVES_MAX)
        lives[n_lives++] = w.h.life;
    w.h.life = (struct life){.own_s = 0};
}

/* Until it is killed; *ms from now at the latest. */
static void play_round(uint32_t n, int ms)
{
    struct client clients[CLIENTS + 2];
    void *(*const plays[])(void *) = {play, play, play, administer, intrude};
    int status = 0;
    atomic_store(&w.is_over, false);
    atomic_store(&w.submits_left, SUBMITS);
    for (uint32_t i = 0; i < CLIENTS + 2; i++)
        begin_thread(&clients[i], w.seed + n * (CLIENTS + 2) + i + 7777,
                     plays[i]);
    for (double until_s = now_s() + ms / 1e3;
         now_s() < until_s && !has_ended(&status);)
        nap(1);
    kill_daemon();
    atomic_store(&w.is_over, true);
    for (int i = 0; i < CLIENTS + 2; i++) {
        (void)pthread_join(clients[i].thread, NULL);
        client_end(&clients[i]);
    }
}

static void round_of(uint32_t n)
{
    struct client probe;
    char fault[24];
    bool is_early;
    int ms;
    draw_death(fault, sizeof(fault), &ms, &is_early);
    conf_before_start(&w, draw(&w.rng, 8) == 0);
    start(fault);
    begin(&probe, 1);
    if (!is_early && wait_ready(&probe)) {
        play_round(n, ms);
    } else {
        nap(is_early ? ms : 0);
        kill_daemon();
    }
    client_end(&probe);
    end_life();
    history_check(&w.h, w.state, false);
    if (w.h.kept.is_there) {
        check_backup(&w.h, w.copy);
        n_backups++;
    }
    w.h.kept.is_there = false;
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

static void wait_conf(struct client *c, bool (*is_so)(struct client *c),
                      const char *what)
{
    for (double until_s = now_s() + 60; !is_so(c); nap(5))
        if (now_s() > until_s)
            die("SIGHUP", what);
}

/* A signal is heeded, whatever the file is; and nothing of a bad one. */
static void settle_conf(struct client *c)
{
    admin_file(c, true);
    admin_hup(c);
    wait_conf(c, shows_file, "a good file is not taken up");
    admin_file(c, false);
    admin_hup(c);
    wait_conf(c, says_refused, "a bad file is not complained of");
    (void)shows_file(c);
    admin_file(c, true);
    admin_reload(c);
    (void)shows_file(c);
}

static void settle(void)
{
    struct client c;
    int status = 0;
    conf_before_start(&w, false);
    start("");
    begin(&c, 1);
    if (!wait_ready(&c))
        die("the daemon", "does not start");
    admin_resume(&c);
    settle_conf(&c);
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
    admin_look(&c);
    client_end(&c);
    (void)kill(w.daemon, SIGTERM);
    for (double until_s = now_s() + 60; !has_ended(&status); nap(2))
        if (now_s() > until_s)
            die("the daemon", "does not end for SIGTERM");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bad(&w.h, "F35", "SIGTERM: its status", (uint64_t)status);
    end_life();
    history_check(&w.h, w.state, true);
    check_ran(&w.h, w.ran);
}

static void begin_world(void)
{
    char bin[PATH_CAP];
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(w.dir, sizeof(w.dir), "%s/mgpu-crash-XXXXXX", shm);
    if (!mkdtemp(w.dir))
        die(w.dir, strerror(errno));
    path(w.state, "state");
    path(w.sock, "sock");
    path(w.ran, "ran");
    path(w.log, "log");
    path(w.conf, "mgpu.yaml");
    path(w.copy, "copy");
    path(bin, "bin");
    if (!programs_make(w.bin, bin))
        die(bin, strerror(errno));
    (void)snprintf(w.url, sizeof(w.url), "unix:%.100s", w.sock);
    history_begin(&w.h);
    w.h.uid = (int64_t)geteuid();
    if (geteuid() == 0 && chmod(w.dir, 0711) < 0) /* strangers may knock */
        die(w.dir, strerror(errno));
}

/* I10, and how much of I7 and I9 there was. */
static bool tell(uint32_t n, size_t n_jobs, double took_s)
{
    struct turns t;
    const char *why = rule_turns(lives, n_lives, &t);
    heed(&w.h, "I10", why, 0);
    (void)printf("%u rounds, %zu jobs, %d answers, %.0f ms a round; here %zu "
                 "strangers refused, %zu notes of files; %zu backups; longest "
                 "own turn %.1f ms, above 50 ms in %zu of %zu lives\n",
                 n, n_jobs, atomic_load(&w.n_answers), took_s * 1e3 / n,
                 w.h.n_strange, w.h.n_conf, n_backups, t.longest_s * 1e3,
                 t.n_long, t.n);
    (void)fflush(stdout);
    return why == NULL;
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
        if (!tell(n, n_jobs, now_s() - began_s))
            return fail(n);
        remove_dir(w.dir);
    }
    return 0;
}
