/* alloc_alone.c - an attempt of one rank, which the shepherd starts itself: it
 * ends, and is ended, as under mpirun. */
#include "tests/contract/alloc_shepherd.h"

static const struct behaviour ignores = {.launch = "{\"do\":\"ignore\"}"};
static const struct behaviour orphans = {.launch = "{\"do\":\"orphan\"}"};
static const struct behaviour saves = {.launch = "{\"do\":\"save\"}"};
static const struct behaviour tty = {.launch = "{\"do\":\"tty\"}"};

/* The allocator's, in place of the C library's; a shepherd has its own. */
static int n_synced;

int fsync(int fd)
{
    n_synced++;
    return fdatasync(fd);
}

/* ALLOC_EXITED of one that runs to its end. */
static bool runs(struct rig *r, uint64_t job, int32_t gpus,
                 const struct behaviour *b)
{
    return rig_ask(r, job, gpus, b) == 0 && rig_gets(r, job, ALLOC_GRANTED) &&
           rig_gets(r, job, ALLOC_EXITED);
}

/* The shepherd and its ranks carry the mark, and mpirun does. */
static void test_tree(struct rig *r)
{
    ok(starts(r, 1, 1, &ignores, 1), "one rank");
    is_int(n_marked(r, 1), 2, "is alone with its shepherd");
    pid_t shepherd = shepherd_of(r, 1);
    is_int(proc_signal_children(shepherd, 0, SIGKILL), 1, "kill -9 the rank");
    ok(rig_ends(r, 1, 0, SIGKILL), "the attempt ends of it");

    ok(starts(r, 2, 2, &ignores, 2), "two ranks");
    is_int(n_marked(r, 2), 4, "have a shepherd and mpirun");
    is_int(rig_release(r, 2, 0), 0, "end them");
    ok(rig_ends(r, 2, 0, SIGKILL), "they do");

    r->mpirun = "/nonexistent/mpirun";
    rig_detach(r);
    rig_attach(r);
    ok(runs(r, 3, 1, &exit_0) && r->last.exit_code == 0,
       "one rank needs no mpirun");
    ok(runs(r, 4, 2, &exit_0) && r->last.exit_code == 127, "two do");
    ok(rig_has(r, 4, "log", "cannot run '/nonexistent/mpirun': No such file"),
       "and their log says so");
    r->mpirun = NULL;
    rig_detach(r);
    rig_attach(r);
}

static void test_ends(struct rig *r)
{
    static const char *const does[] = {
        "{\"do\":\"exit\",\"n\":0}",    "{\"do\":\"exit\",\"n\":1}",
        "{\"do\":\"exit\",\"n\":75}",   "{\"do\":\"exit\",\"n\":127}",
        "{\"do\":\"exit\",\"n\":128}",  "{\"do\":\"exit\",\"n\":143}",
        "{\"do\":\"exit\",\"n\":160}",  "{\"do\":\"exit\",\"n\":255}",
        "{\"do\":\"signal\",\"n\":6}",  "{\"do\":\"signal\",\"n\":9}",
        "{\"do\":\"signal\",\"n\":11}", "{\"do\":\"signal\",\"n\":15}",
    };
    for (size_t i = 0; i < sizeof(does) / sizeof(does[0]); i++) {
        const struct behaviour b = {.launch = does[i]};
        bool good = runs(r, 10 + 2 * i, 1, &b);
        int code = r->last.exit_code, signo = r->last.signal;
        good = good && runs(r, 11 + 2 * i, 2, &b);
        ok(good && r->last.exit_code == code && r->last.signal == signo,
           "%s: code %d, signal %d, as under mpirun: %d, %d", does[i], code,
           signo, r->last.exit_code, r->last.signal);
    }
}

static void test_grace(struct rig *r)
{
    ok(starts(r, 50, 1, &saves, 1), "one that saves when it is told");
    is_int(rig_release(r, 50, 3600), 0, "SIGTERM, and an hour of grace");
    ok(rig_ends(r, 50, 3, 0), "it takes as long as it needs");
    ok(rig_size(r, 50, "saved") == 1, "and has saved");

    ok(starts(r, 51, 1, &ignores, 1), "one that hears of nothing");
    rig_detach(r);
    ok(kill_shepherd(r, 51), "kill -9 the shepherd; no daemon is there");
    double end_s = clock_real.now_s(&clock_real) + rig_limit_s(r);
    while (n_marked(r, 51) > 0 && clock_real.now_s(&clock_real) < end_s)
        (void)poll(NULL, 0, 10);
    is_int(n_marked(r, 51), 0, "the rank dies with it");
    rig_attach(r);
    is_int(rig_ask(r, 51, 1, &ignores), 0, "a daemon comes and asks");
    ok(rig_gets(r, 51, ALLOC_LOST), "it is lost: %s", r->last.why.msg);
}

static void test_output(struct rig *r)
{
    ok(runs(r, 60, 1, &tty) && runs(r, 61, 2, &tty), "who has a terminal");
    ok(rig_has(r, 60, "log", "terminals: 010;\n"), "one rank, as its output");
    ok(rig_has(r, 61, "log", "terminals: 010;\n"), "as under mpirun");
    ok(rig_has(r, 60, "log", "terminals: no word of it\n"),
       "errors are there, too");
    ok(runs(r, 62, 1, &orphans), "one that leaves a process");
    is_int(rig_alive(r, 62) + n_marked(r, 62), 0, "nothing is left of it");
    ok(rig_has(r, 62, "log", "left behind\n"), "but what it printed");
    is_int(rig_size(r, 62, "shepherd.log"), 0, "the shepherd has no complaint");
}

/* It is called by the daemon's loop, which serves others meanwhile. */
static void test_disk(struct rig *r)
{
    struct error err = ERROR_INIT;
    n_synced = 0;
    ok(runs(r, 70, 1, &exit_0), "one that runs to its end");
    is_int(n_synced, 0, "to start it, the disk is not waited for");
    ok(attempt_write(r->dir, "file", "x", &err) == 0, "a file");
    is_int(n_synced, 1, "that has to be there is waited for");
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--launch") == 0)
        return rank_main(argc, argv);
    struct rig r;
    rig_open(&r, RIG_LOCAL);
    test_tree(&r);
    test_ends(&r);
    test_grace(&r);
    test_output(&r);
    test_disk(&r);
    rig_close(&r);
    return tap_done();
}
