/* rank_output.c - what ranks print reaches the log, line by line. */
#include "slurm/launch/rank_output.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/log/rank_pipe.h"
#include "slurm/launch/mpirun_report.h"
#include "tests/tap.h"

static char dir[] = "/tmp/outputs.XXXXXX";

static const char *path_of(const char *name)
{
    static char path[80];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static struct outputs *begin(int32_t ranks, int32_t here, bool has_labels)
{
    struct error err = ERROR_INIT;
    struct outputs *o = NULL;
    const struct outputs_conf conf = {
        .dir = dir,
        .logs = {1 << 20, ON_LIMIT_TRUNCATE, true},
        .ranks = ranks,
        .here = here,
        .has_labels = has_labels};
    if (outputs_create(&conf, &o, &err) < 0) {
        ok(false, "create: %s", err.msg);
        exit(tap_done());
    }
    return o;
}

static void is_log(const char *want, const char *name)
{
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    if (buf_read_file(&b, path_of("log"), 1 << 20, &err) < 0)
        tap_diag("%s", err.msg);
    is_str(buf_str(&b), want, name);
    buf_clear(&b);
}

static int open_rank(int rank)
{
    char name[RANK_PIPE_CAP];
    rank_pipe_name(rank, name);
    int fd = open(path_of(name), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    ok(fd >= 0, "rank %d has a pipe", rank);
    return fd;
}

static void say(struct outputs *o, int fd, const char *text)
{
    struct pollfd p = {.fd = outputs_fd(o), .events = POLLIN};
    size_t n = strlen(text);
    if (write(fd, text, n) != (ssize_t)n || poll(&p, 1, 30000) != 1)
        ok(false, "'%s' arrives", text);
    outputs_copy(o);
}

static void test_one(void)
{
    struct outputs *o = begin(1, 1, false);
    is_int(outputs_fd(o), -1, "one rank has no pipe");
    outputs_add(o, "[0] a\nno", 8);
    outputs_add(o, " end", 4);
    is_log("[0] a\nno end", "and its bytes are the log, as they come");
    outputs_destroy(o);
}

static void test_plain(void)
{
    const struct outputs_conf conf = {.dir = dir,
                                      .logs = {4096, ON_LIMIT_FAIL, false},
                                      .ranks = 2,
                                      .here = 2};
    char more[2048];
    struct outputs *o = NULL;
    struct error err = ERROR_INIT;
    if (!ok(outputs_create(&conf, &o, &err) == 0, "no labels: %s", err.msg))
        return;
    is_int(outputs_fd(o), -1, "two ranks have no pipes");
    ok(access(path_of("out.0"), F_OK) < 0, "and find none");
    outputs_add(o, "a\nno end", 8);
    is_log("a\nno end", "their bytes are the log, as they come");
    memset(more, 'x', sizeof(more));
    outputs_add(o, more, 2048);
    outputs_add(o, more, 2040);
    ok(!outputs_are_over(o), "as many bytes as are kept");
    outputs_add(o, "x", 1);
    ok(outputs_are_over(o), "and one more");
    outputs_destroy(o);
}

static void test_many(void)
{
    struct outputs *o = begin(2, 2, false);
    int a = open_rank(0), b = open_rank(1);
    say(o, a, "one\ntw");
    say(o, b, "un\ndeux\n");
    outputs_add(o, "mpirun speaks\nand", 17);
    say(o, a, "o\nthree");
    is_log("[0] one\n[1] un\n[1] deux\nmpirun speaks\n[0] two\n",
           "lines are whole");
    int ms = 0;
    for (int n = 0; ms >= 0 && n < 100; n++) {
        ms = outputs_rest(o);
        (void)poll(NULL, 0, ms < 0 ? 0 : ms);
    }
    is_int(ms, -1, "what is held back is let go in time");
    is_log("[0] one\n[1] un\n[1] deux\nmpirun speaks\n[0] two\nand\n[0] three",
           "each on a line of its own");
    say(o, a, " four");
    say(o, b, "trois\n");
    say(o, a, " five\n");
    (void)close(a);
    (void)close(b);
    outputs_drain(o);
    is_log("[0] one\n[1] un\n[1] deux\nmpirun speaks\n[0] two\nand\n"
           "[0] three four\n[1] trois\n[0]  five\n",
           "and goes on where it can");
    outputs_destroy(o);
    ok(access(path_of("out.0"), F_OK) < 0 && access(path_of("out.1"), F_OK) < 0,
       "the pipes are taken away");
}

static void test_long(void)
{
    static char text[20001], want[20100];
    struct outputs *o = begin(2, 2, false);
    int a = open_rank(0);
    memset(text, 'x', sizeof(text) - 1);
    say(o, a, text);
    say(o, a, "\n");
    outputs_drain(o);
    (void)snprintf(want, sizeof(want), "[0] %s\n", text);
    is_log(want, "a long line has one label");
    (void)close(a);
    outputs_destroy(o);
}

/* Of four ranks two are here; srun labels the others. */
/* One line of mpirun's that it may, or may not, print. */
static void test_report(void)
{
    static const char report[] = MPIRUN_REPORT_RULE
        "prterun noticed that process rank 1 with PID 2 on "
        "node vm exited on\nsignal 9 (Killed).\n" MPIRUN_REPORT_RULE;
    struct outputs *o = begin(2, 2, false);
    int a = open_rank(0);
    outputs_add(o, "mpirun speaks\n", 14);
    for (const char *p = report; *p; p++)
        outputs_add(o, p, 1);
    say(o, a, "one\n");
    say(o, a, MPIRUN_REPORT_RULE);
    outputs_add(o, MPIRUN_REPORT_RULE, strlen(MPIRUN_REPORT_RULE));
    is_log("mpirun speaks\n[0] one\n[0] " MPIRUN_REPORT_RULE,
           "mpirun's report on a rank is left out, a rank's rule is not");
    ok(outputs_rest(o) > 0, "a rule of mpirun's is held back");
    for (int n = 0, ms = 1; ms >= 0 && n < 100; n++) {
        ms = outputs_rest(o);
        (void)poll(NULL, 0, ms < 0 ? 0 : ms);
    }
    is_log("mpirun speaks\n[0] one\n[0] " MPIRUN_REPORT_RULE MPIRUN_REPORT_RULE,
           "and let go in time");
    outputs_add(o, MPIRUN_REPORT_RULE, strlen(MPIRUN_REPORT_RULE));
    (void)close(a);
    outputs_destroy(o);
    is_log("mpirun speaks\n[0] one\n[0] " MPIRUN_REPORT_RULE MPIRUN_REPORT_RULE
               MPIRUN_REPORT_RULE,
           "or at the end");
}

static void test_srun(void)
{
    static const char text[] = "2: two\n 3: three: 4: x\nsrun: error: y\n: z\n";
    struct outputs *o = begin(4, 2, true);
    ok(access(path_of("out.2"), F_OK) < 0, "rank 2 has no pipe here");
    for (const char *p = text; *p; p++)
        outputs_add(o, p, 1);
    is_log("[2] two\n[3] three: 4: x\nsrun: error: y\n: z\n",
           "srun's labels become ours");
    outputs_destroy(o);
}

/* As mgpu-worker does it. */
static bool join(const char *rank)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        (void)setenv("OMPI_COMM_WORLD_RANK", rank, 1);
        rank_pipe_join(path_of("launch.json"));
        (void)fputs("out\n", stdout);
        (void)fflush(stdout);
        (void)fputs("err\n", stderr);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void test_join(void)
{
    struct outputs *o = begin(2, 2, false);
    ok(join("1"), "a rank prints and ends");
    outputs_drain(o);
    is_log("[1] out\n[1] err\n", "what it printed outlives it");
    outputs_destroy(o);
    ok(mkfifo(path_of("out.1"), 0600) == 0, "a pipe that nobody reads");
    (void)fflush(stdout);
    int keep = dup(1), keep_err = dup(2), null = open("/dev/null", O_WRONLY);
    (void)alarm(60); /* whoever waits for a reader */
    (void)dup2(null, 1);
    (void)dup2(null, 2);
    bool has_ended = join("1");
    (void)dup2(keep, 1);
    (void)dup2(keep_err, 2);
    (void)alarm(0);
    ok(has_ended, "is not waited for");
    (void)close(keep);
    (void)close(keep_err);
    (void)close(null);
    (void)unlink(path_of("out.1"));
}

int main(void)
{
    if (!mkdtemp(dir))
        tap_skip_all("no temporary directory");
    test_one();
    test_plain();
    test_many();
    test_long();
    test_report();
    test_srun();
    test_join();
    (void)unlink(path_of("log"));
    (void)unlink(path_of("times"));
    ok(rmdir(dir) == 0, "nothing else is left");
    return tap_done();
}
