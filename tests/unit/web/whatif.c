/* whatif.c - what mgpu-web starts mgpu-sim with, what it makes of its end, and
 * how a run ends that is too long, too loud, or that nobody waits for. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "scheduler/web/http_whatif.h"
#include "tests/unit/base/http_host.h"

static char dir[] = "/tmp/mgpu-whatif.XXXXXX";
static char web_sock[64], program[64], pid_file[64], state_db[64];
static struct web_whatif *whatif; /* of the loop's thread */
static double limit_s = 600;
enum { MAX_BYTES = 4096 };

static void on_run(void *arg, struct http_exchange *x)
{
    struct host *h = arg;
    const struct web_whatif_conf conf = {
        .program = program, .limit_s = limit_s, .max_bytes = MAX_BYTES};
    struct error err;
    if (!whatif && web_whatif_create(h->base, &conf, &whatif, &err) < 0)
        http_reply_err(x, &err);
    else
        web_whatif_run(whatif, dir, x);
}

static void on_end(void *arg, struct http_exchange *x)
{
    (void)arg;
    web_whatif_destroy(whatif);
    whatif = NULL;
    http_reply_text(x, 200, "text/plain", "", 0);
}

static const struct http_route routes[] = {
    {"POST", "/run", on_run}, {"GET", "/end", on_end}, {NULL, NULL, NULL}};

/* ---- the program ----------------------------------------------------------
 */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

/* What the next runs are: a script, which says its process in pid_file. */
static void becomes(const char *script)
{
    char text[1024];
    (void)snprintf(text, sizeof(text),
                   "#!/bin/sh\necho $$ >'%s.new'\n"
                   "mv '%s.new' '%s'\n%s\n",
                   pid_file, pid_file, pid_file, script);
    write_file(program, text);
    if (chmod(program, 0700) < 0)
        abort();
}

static void nap(void)
{
    (void)poll(NULL, 0, 10);
}

/* The process of a run that has begun. */
static pid_t wait_pid(void)
{
    char text[32] = "";
    while (!text[0]) {
        FILE *f = fopen(pid_file, "r");
        if (f && !fgets(text, sizeof(text), f))
            text[0] = '\0';
        if (f)
            (void)fclose(f);
        nap();
    }
    (void)unlink(pid_file);
    return (pid_t)strtol(text, NULL, 10);
}

static void wait_gone(pid_t pid)
{
    while (kill(pid, 0) == 0)
        nap();
    ok(errno == ESRCH, "the process has ended");
}

/* ---- tests ----------------------------------------------------------------
 */

static int begin(const char *json)
{
    char text[4096];
    int fd = dial_unix(web_sock);
    (void)snprintf(text, sizeof(text),
                   "POST /run HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n"
                   "Connection: close\r\n\r\n%s",
                   strlen(json), json);
    say(fd, text);
    return fd;
}

static const char *end(int fd)
{
    const char *got = hear(fd, NULL);
    (void)close(fd);
    return got;
}

static void has(const char *got, const char *want)
{
    if (!ok(strstr(got, want) != NULL, "%.60s", want))
        tap_diag("got: %s", got);
}

static void ask_end(void)
{
    int fd = dial_unix(web_sock);
    say(fd, "GET /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    has(end(fd), "HTTP/1.1 200 ");
}

static const char fine[] = "{\"policies\":[\"fifo\",\"backfill\"]}";

/* Each value is one word, whatever is in it. */
static void test_arguments(void)
{
    becomes("printf '[\"%d\"' $#\nfor a; do printf ',\"%s\"' \"$a\"; done\n"
            "printf ']'");
    const char *got = end(begin(fine));
    has(got, "HTTP/1.1 200 ");
    has(got, "\"figures\":[\"4\",\"--json=-\",\"--from-db=/tmp/mgpu-whatif.");
    has(got, "\"--policy=fifo\",\"--policy=backfill\"]");
    got = end(begin("{\"policies\":[\"fifo:a=$(id) b;c|d\",\"--help\"],"
                    "\"since\":\"--trace x\"}"));
    has(got, "\"--policy=fifo:a=$(id) b;c|d\",\"--policy=--help\","
             "\"--since=--trace x\"]");
    has(got, "\"figures\":[\"5\",");
    (void)unlink(pid_file);
}

static void test_errors(void)
{
    becomes("printf 'mgpu-sim: no key\\n\\377\\n' >&2; exit 64");
    const char *got = end(begin(fine));
    has(got, "HTTP/1.1 200 ");
    has(got, "\"status\":64,\"said\":\"mgpu-sim: no key\\n?\\n\","
             "\"figures\":null");
    becomes("kill -KILL $$");
    has(end(begin(fine)), "mgpu-sim died of signal 9");
    becomes("echo no figures");
    has(end(begin(fine)), "mgpu-sim printed no figures");
    becomes("i=0; while [ $i -lt 5000 ]; do printf x; printf y >&2; "
            "i=$((i + 1)); done; exec sleep 600");
    has(end(begin(fine)), "mgpu-sim printed more than 4096 bytes");
    (void)unlink(pid_file);
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"policies\":[\"fifo\"]}",
        "{\"policies\":[\"fifo\",\"\"]}",
        "{\"policies\":[\"fifo\",1]}",
        "{\"policies\":[\"fifo\",\"a\\u0000b\"]}",
        "{\"policies\":[\"a\",\"b\",\"c\"]}",
        "{\"policies\":[\"a\",\"b\"],\"program\":\"/bin/sh\"}"};
    becomes("echo '[]'");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        has(end(begin(bad[i])), "HTTP/1.1 400 ");
    char text[700];
    (void)snprintf(text, sizeof(text), "{\"policies\":[\"fifo\",\"%0500d\"]}",
                   0);
    has(end(begin(text)), "HTTP/1.1 400 ");
    ok(access(pid_file, F_OK) < 0, "nothing was started");
}

static void test_one_at_a_time(void)
{
    becomes("exec sleep 600");
    int first = begin(fine);
    pid_t pid = wait_pid();
    const char *got = end(begin(fine));
    has(got, "HTTP/1.1 409 ");
    has(got, "a simulation runs already");
    ok(kill(pid, 0) == 0, "the first goes on");
    /* Its page is left. */
    (void)close(first);
    wait_gone(pid);
    becomes("echo '[]'");
    has(end(begin(fine)), "\"figures\":[]");
    /* The program ends. */
    becomes("exec sleep 600");
    (void)unlink(pid_file);
    first = begin(fine);
    pid = wait_pid();
    ask_end();
    has(end(first), "the simulation was stopped");
    wait_gone(pid);
}

static void test_time_limit(void)
{
    limit_s = 0.01;
    becomes("exec sleep 600");
    const char *got = end(begin(fine));
    has(got, "HTTP/1.1 504 ");
    has(got, "mgpu-sim took longer than");
    /* It may have ended before its first line. */
    ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no process is left");
}

static void test_what_is_missing(void)
{
    struct event_base *base = event_base_new();
    struct web_whatif *w = NULL;
    struct web_whatif_conf conf = {
        .program = program, .limit_s = 1, .max_bytes = 1};
    struct error err = ERROR_INIT;
    ok(web_whatif_create(base, &conf, &w, &err) == 0, "%s", err.msg);
    ok(web_whatif_check(w, dir, &err) == 0, "all is there");
    ok(web_whatif_check(w, "", &err) < 0 &&
           strstr(err.msg, "does not know where"),
       "%s", err.msg);
    ok(web_whatif_check(w, "tmp", &err) < 0, "no path of the daemon's");
    ok(web_whatif_check(w, "/nonexistent", &err) < 0 &&
           strstr(err.msg, "cannot read the history"),
       "%s", err.msg);
    (void)unlink(program);
    ok(web_whatif_check(w, dir, &err) < 0 &&
           strstr(err.msg, "mgpu-sim is not beside"),
       "%s", err.msg);
    web_whatif_destroy(w);
    event_base_free(base);
}

int main(void)
{
    struct host web;
    const struct http_server_conf conf = {.routes = routes,
                                          .max_body_bytes = 10000,
                                          .request_timeout_s = 60,
                                          .max_clients = 20,
                                          .max_clients_per_uid = 20};
    (void)signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(web_sock, sizeof(web_sock), "%s/web", dir);
    (void)snprintf(program, sizeof(program), "%s/sim", dir);
    (void)snprintf(pid_file, sizeof(pid_file), "%s/pid", dir);
    (void)snprintf(state_db, sizeof(state_db), "%s/state.db", dir);
    write_file(state_db, "");
    host_start(&web, &conf, web_sock, NULL);
    test_arguments();
    test_errors();
    test_one_at_a_time();
    test_time_limit();
    ask_end();
    host_stop(&web);
    test_what_is_missing();
    (void)unlink(state_db);
    (void)unlink(pid_file);
    (void)snprintf(program, sizeof(program), "%s/pid.new", dir);
    (void)unlink(program);
    (void)rmdir(dir);
    return tap_done();
}
