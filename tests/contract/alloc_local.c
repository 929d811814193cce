/* alloc_local.c - the local allocator: processes, files, deaths, the log. */
#include "jobs/log/bounded_log.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/local/local.h"
#include "tests/contract/alloc_shepherd.h"
#include "tests/fake_nvml.h"

static const struct behaviour ignores = {.launch = "{\"do\":\"ignore\"}"};
static const struct behaviour orphans = {.launch = "{\"do\":\"orphan\"}"};
static const struct behaviour usr1 = {.launch = "{\"do\":\"usr1\"}"};
static const struct behaviour env = {.launch = "{\"do\":\"env\"}"};
static const struct behaviour prints = {
    .launch = "{\"do\":\"print\",\"n\":10000000}"};
static const struct behaviour few = {.launch = "{\"do\":\"print\",\"n\":100}"};

static int n_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return n;
}

static struct alloc_node node_of(struct rig *r)
{
    struct alloc_node node = {.gpus_total = -1};
    struct error err = ERROR_INIT;
    size_t n;
    if (r->a->ops->inventory(r->a, &node, 1, &n, &err) < 0)
        tap_diag("%s", err.msg);
    return node;
}

/* Who has the slots, as people are told it. */
static void is_used_by(struct rig *r, const char *want)
{
    struct alloc_node node = node_of(r);
    is_str(node.used, want, "used by");
    is_int(node.is_busy, want[0] != '\0', "  and whether anybody is there");
}

static void test_release(struct rig *r)
{
    is_used_by(r, "");
    ok(starts(r, 1, 2, &ignores, 2), "two ranks that ignore SIGTERM");
    is_used_by(r, "0,1 mgpu 1.1");
    is_int(rig_alive(r, 1), 2, "they live");
    ok(n_marked(r, 1) >= 4, "with a shepherd and mpirun");
    double from_s = clock_real.now_s(&clock_real);
    is_int(rig_release(r, 1, 0.5), 0, "half a second of grace");
    ok(rig_ends(r, 1, 0, SIGKILL), "they are killed");
    double took_s = clock_real.now_s(&clock_real) - from_s;
    ok(took_s >= 0.5 && took_s < 60, "after the grace: %.1f s", took_s);
    is_int(rig_alive(r, 1) + n_marked(r, 1), 0, "nothing is left");

    ok(starts(r, 2, 1, &ignores, 1), "one more");
    is_int(rig_release(r, 2, 3600), 0, "an hour of grace");
    is_int(rig_release(r, 2, 0), 0, "no, none");
    ok(rig_ends(r, 2, 0, SIGKILL), "the shorter one counts");
    ok(r->last.cores_ms > 0 && r->last.cpu_ms >= 0,
       "and what it used is known, killed or not: %g of %g s",
       (double)r->last.cpu_ms / 1e3, (double)r->last.cores_ms / 1e3);

    ok(starts(r, 3, 1, &ignores, 1), "one that is stopped");
    is_int(rig_signal(r, 3, SIGSTOP), 0, "by a signal");
    is_int(rig_release(r, 3, 0.2), 0, "released");
    ok(rig_ends(r, 3, 0, SIGKILL), "ends all the same");

    ok(starts(r, 5, 0, &usr1, 1), "one without a slot");
    ok(node_of(r).is_busy && node_of(r).used[0] == '\0',
       "has none, and is there");
    ok(rig_signal(r, 5, SIGUSR1) == 0 && rig_ends(r, 5, 0, 0) &&
           !node_of(r).is_busy,
       "until it ends");

    ok(starts(r, 4, 2, &usr1, 2), "two ranks that wait for SIGUSR1");
    is_int(rig_signal(r, 4, SIGUSR1), 0, "send it");
    ok(rig_ends(r, 4, 0, 0), "both have got it");
}

static void test_orphans(struct rig *r)
{
    ok(rig_ask(r, 10, 1, &orphans) == 0 && rig_gets(r, 10, ALLOC_GRANTED),
       "a rank leaves a child in a session of its own");
    ok(rig_ends(r, 10, 0, 0), "and exits 0");
    is_int(rig_alive(r, 10) + n_marked(r, 10), 0, "the child is gone, too");

    ok(starts(r, 11, 2, &ignores, 2), "two ranks");
    pid_t shepherd = shepherd_of(r, 11);
    is_int(proc_signal_children(shepherd, 0, SIGKILL), 1, "kill -9 mpirun");
    ok(rig_ends(r, 11, 0, SIGKILL), "the attempt ends of it");
    is_int(rig_alive(r, 11) + n_marked(r, 11), 0, "nothing is left");
}

static void test_lost(struct rig *r)
{
    ok(starts(r, 20, 2, &ignores, 2), "two ranks");
    ok(kill_shepherd(r, 20), "kill -9 the shepherd");
    ok(rig_gets(r, 20, ALLOC_LOST), "the attempt is lost: %s", r->last.why.msg);
    is_int(rig_alive(r, 20) + n_marked(r, 20), 0, "its ranks are gone");
    is_int(rig_free(r), 2, "its slots are free");

    ok(starts(r, 21, 1, &ignores, 1), "one more");
    rig_detach(r);
    ok(kill_shepherd(r, 21), "kill -9 the shepherd while no daemon is there");
    rig_attach(r);
    is_int(rig_ask(r, 21, 1, &ignores), 0, "ask again");
    ok(rig_gets(r, 21, ALLOC_LOST), "lost");
    is_int(rig_alive(r, 21) + n_marked(r, 21), 0, "its ranks are gone");
    is_int(rig_ask(r, 20, 2, &ignores), 0, "ask for the first one");
    ok(rig_gets(r, 20, ALLOC_LOST), "it stays lost");
    is_int(rig_starts(r, 20) + rig_starts(r, 21), 2, "none ran twice");
}

/* A daemon that is really another process, and really dies. */
static void test_daemon_killed(struct rig *r)
{
    rig_detach(r);
    pid_t daemon = fork();
    if (daemon == 0) {
        rig_attach(r);
        if (rig_ask(r, 30, 1, &ignores) == 0 && rig_gets(r, 30, ALLOC_GRANTED))
            (void)raise(SIGKILL);
        _exit(1);
    }
    int status = 0;
    ok(waitpid(daemon, &status, 0) == daemon && WIFSIGNALED(status),
       "a daemon is killed");
    rig_attach(r);
    is_int(rig_ask(r, 30, 1, &ignores), 0, "the next one asks again");
    ok(rig_gets(r, 30, ALLOC_GRANTED), "it runs");
    ok(rig_ready(r, 30, 1), "really");
    is_int(rig_starts(r, 30), 1, "once");
    is_int(rig_signal(r, 30, SIGINT), 0, "signals reach it");
    ok(rig_ends(r, 30, 0, SIGINT), "and so does its end");
}

/* What runs has its slot, also when the next daemon asks for it last. */
static void test_order(struct rig *r)
{
    ok(starts(r, 35, 1, &ignores, 1), "one that runs");
    is_used_by(r, "0 mgpu 35.1");
    rig_detach(r);
    rig_attach(r);
    is_int(rig_ask(r, 34, 1, &ignores), 0, "the next daemon asks for another");
    is_int(rig_ask(r, 35, 1, &ignores), 0, "  and then for that one");
    ok(rig_gets(r, 35, ALLOC_GRANTED) && rig_gets(r, 34, ALLOC_GRANTED) &&
           rig_ready(r, 34, 1) && rig_ready(r, 35, 1),
       "both run");
    is_used_by(r, "1 mgpu 34.1; 0 mgpu 35.1");
    /* One after the other: two attempts' notes have no order. */
    is_int(rig_release(r, 34, 0), 0, "end one");
    ok(rig_ends(r, 34, 0, SIGKILL), "  it does");
    is_int(rig_release(r, 35, 0), 0, "end the other");
    ok(rig_ends(r, 35, 0, SIGKILL), "  it does, too");
}

/* The daemon dies between fork and go: the shepherd leaves with 75. */
static void test_no_go(struct rig *r)
{
    char dir[PATH_MAX];
    struct error err = ERROR_INIT;
    (void)snprintf(dir, sizeof(dir), "%s", rig_path(r, 40, NULL));
    int lock = -1;
    int ends[2];
    ok(mkdir(dir, 0700) == 0 && attempt_lock(dir, &lock, &err) == 0 &&
           pipe2(ends, O_CLOEXEC) == 0,
       "a lock and a pipe");
    posix_spawn_file_actions_t fa;
    (void)posix_spawn_file_actions_init(&fa);
    int high = fcntl(lock, F_DUPFD_CLOEXEC, 20);
    int go = fcntl(ends[0], F_DUPFD_CLOEXEC, 20);
    (void)posix_spawn_file_actions_adddup2(&fa, high, SHEPHERD_LOCK_FD);
    (void)posix_spawn_file_actions_adddup2(&fa, go, SHEPHERD_GO_FD);
    (void)posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
    char *const argv[] = {r->bin, dir, (char[]){"mpirun"}, r->self, NULL};
    pid_t pid = -1;
    is_int(posix_spawn(&pid, r->bin, &fa, NULL, argv, environ), 0,
           "a shepherd");
    (void)posix_spawn_file_actions_destroy(&fa);
    (void)close(lock);
    (void)close(high);
    (void)close(go);
    (void)close(ends[0]);

    is_int(rig_ask(r, 40, 1, &exit_0), 0, "a new daemon asks");
    ok(rig_is_quiet(r), "and does not start a second one");
    (void)close(ends[1]);
    int status = 0;
    (void)waitpid(pid, &status, 0);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 75, "the shepherd is told "
                                                       "nothing: 75");
    ok(rig_gets(r, 40, ALLOC_GRANTED) && rig_ends(r, 40, 0, 0),
       "now the daemon starts its own");
    is_int(rig_starts(r, 40), 1, "it was started once");
}

static void test_log(struct rig *r)
{
    ok(rig_ask(r, 50, 1, &prints) == 0 && rig_gets(r, 50, ALLOC_GRANTED) &&
           rig_ends(r, 50, 0, 0),
       "a rank prints 10 MB");
    char bytes[4096];
    char first[64] = "";
    char last[64] = "";
    uint64_t at = 0;
    uint64_t got = 0;
    uint64_t lost = 0;
    for (;;) {
        struct error err = ERROR_INIT;
        size_t n;
        uint64_t dropped;
        if (bounded_log_read(rig_path(r, 50, NULL), &at, bytes, sizeof(bytes),
                             &n, &dropped, &err) < 0 ||
            n == 0)
            break;
        if (got == 0)
            (void)snprintf(first, sizeof(first), "%.48s", bytes);
        if (n >= 50)
            (void)snprintf(last, sizeof(last), "%.48s", bytes + n - 49);
        got += n;
        lost += dropped;
    }
    is_str(first, "000000000000000000000000000000000000000000000000",
           "the first line is there");
    is_str(last, "000000000000000000000000000000000000000009999950",
           "the last line is there");
    ok(got > 700000 && got <= 1000000, "%llu bytes are kept",
       (unsigned long long)got);
    ok(got + lost == 200000 * 49, "and the rest is accounted for");
}

static void test_files(struct rig *r)
{
    (void)setenv("MGPU_TEST_SECRET", "x", 1);
    ok(rig_ask(r, 60, 1, &env) == 0 && rig_gets(r, 60, ALLOC_GRANTED) &&
           rig_ends(r, 60, 0, 0),
       "a rank writes its environment down");
    struct stat st;
    ok(stat(rig_path(r, 60, "launch.json"), &st) == 0 &&
           (st.st_mode & 07777) == 0600,
       "launch.json is for its owner only");
    ok(stat(rig_path(r, 60, NULL), &st) == 0 && (st.st_mode & 07777) == 0700,
       "and so is the directory");
    ok(!rig_has(r, 60, "env", "MGPU_TEST_SECRET"),
       "what the daemon had is not passed on");
    ok(rig_has(r, 60, "env", "\nCUDA_VISIBLE_DEVICES=\n"),
       "a CPU slot has no GPU");
    ok(rig_has(r, 60, "env", "\nOMP_NUM_THREADS="), "the threads are counted");
    ok(rig_size(r, 60, "shepherd.log") == 0, "the shepherd had no complaint");

    char self[PATH_MAX];
    (void)snprintf(self, sizeof(self), "%s", r->self);
    (void)snprintf(r->self, sizeof(r->self), "/nonexistent");
    is_int(rig_ask(r, 61, 1, &exit_0), 0, "a worker that is not there");
    ok(rig_gets(r, 61, ALLOC_REFUSED), "is refused: %s", r->last.why.msg);
    (void)snprintf(r->self, sizeof(r->self), "%s", self);

    rig_detach(r);
    char bin[PATH_MAX];
    (void)snprintf(bin, sizeof(bin), "%s", r->bin);
    (void)snprintf(r->bin, sizeof(r->bin), "/nonexistent");
    rig_attach(r);
    is_int(rig_ask(r, 62, 1, &exit_0), 0, "a shepherd that is not there");
    ok(rig_gets(r, 62, ALLOC_REFUSED), "is refused: %s", r->last.why.msg);
    is_int(rig_free(r), 2, "and holds nothing");
    rig_detach(r);
    (void)snprintf(r->bin, sizeof(r->bin), "%s", bin);
    rig_attach(r);
}

/* The shepherd reads the specification, so the daemon need not. */
static void test_spec(struct rig *r)
{
    r->spec = ",\"logs\":{\"max_bytes\":\"4K\",\"on_limit\":\"fail\"}";
    ok(rig_ask(r, 65, 1, &prints) == 0 && rig_gets(r, 65, ALLOC_GRANTED) &&
           rig_ends(r, 65, ALLOC_EXIT_LOG, 0),
       "logs.on_limit: a rank that prints 10 MB is ended");
    r->spec = ",\"logs\":{\"per_rank\":false}";
    ok(rig_ask(r, 66, 2, &few) == 0 && rig_gets(r, 66, ALLOC_GRANTED) &&
           rig_ends(r, 66, 0, 0) && rig_size(r, 66, "log") == 4 * 49,
       "logs.per_rank: two lines from each of two ranks have no labels");
    r->spec = ",\"launch\":\"node\"";
    ok(starts(r, 67, 2, &ignores, 1) && rig_alive(r, 67) == 1 &&
           n_marked(r, 67) == 2,
       "launch: one rank has both slots, and no mpirun");
    ok(rig_release(r, 67, 0) == 0 && rig_ends(r, 67, 0, SIGKILL), "it ends");
    r->spec = ",\"launch\":\"no word\"";
    ok(rig_ask(r, 68, 1, &ignores) == 0 && rig_gets(r, 68, ALLOC_GRANTED) &&
           rig_ends(r, 68, 65, 0) && rig_has(r, 68, "log", "no word"),
       "a specification that is none ends the attempt, and is named");
    static char blanks[(1 << 20) + 1];
    memset(blanks, ' ', sizeof(blanks) - 1);
    r->spec = blanks;
    ok(rig_ask(r, 69, 1, &ignores) == 0 && rig_gets(r, 69, ALLOC_GRANTED) &&
           rig_ends(r, 69, 65, 0) && rig_has(r, 69, "log", "is too long"),
       "one that is too long does, too");
    r->spec = NULL;
}

static void test_gpus(struct rig *r)
{
    char library[128];
    if (!fake_nvml_build(r->dir, library, sizeof(library))) {
        tap_diag("no C compiler: the fake driver is left out");
        return;
    }
    rig_detach(r);
    r->nvml = library;
    rig_attach(r);
    struct alloc_node node;
    struct error err = ERROR_INIT;
    size_t n;
    ok(r->a->ops->inventory(r->a, &node, 1, &n, &err) == 0 &&
           node.gpus_total == 2 && strcmp(node.gpu_type, "h100") == 0 &&
           node.gpu_bytes == (int64_t)80 << 30,
       "a machine with two H100 of 80G");
    ok(starts(r, 70, 1, &usr1, 1), "one is taken");
    ok(rig_ask(r, 71, 1, &env) == 0 && rig_gets(r, 71, ALLOC_GRANTED) &&
           rig_ends(r, 71, 0, 0),
       "a rank on the other one");
    ok(rig_has(r, 71, "env", "\nCUDA_VISIBLE_DEVICES=GPU-bbbb\n"),
       "sees only it");
    ok(rig_has(r, 71, "env", "\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n"),
       "by its address");
    ok(rig_ask(r, 72, 0, &env) == 0 && rig_gets(r, 72, ALLOC_GRANTED) &&
           rig_ends(r, 72, 0, 0) &&
           rig_has(r, 72, "env", "\nCUDA_VISIBLE_DEVICES=\n"),
       "a rank without a GPU sees none");
    ok(rig_signal(r, 70, SIGUSR1) == 0 && rig_ends(r, 70, 0, 0),
       "the first one ends");
    ok(rig_ask(r, 73, 2, &env) == 0 && rig_gets(r, 73, ALLOC_GRANTED) &&
           rig_ends(r, 73, 0, 0) &&
           rig_has(r, 73, "env", "\nCUDA_VISIBLE_DEVICES=GPU-aaaa,GPU-bbbb\n"),
       "two ranks see both");

    ok(starts(r, 74, 1, &usr1, 1), "one runs on the first");
    rig_detach(r);
    (void)setenv("FAKE_NVML", "fallen", 1);
    rig_attach(r);
    ok(r->a->ops->inventory(r->a, &node, 1, &n, &err) == 0 &&
           node.gpus_total == 1 && node.is_up == 1 &&
           strcmp(node.why, "GPU 0 has fallen off the bus") == 0,
       "F38: it falls off the bus, and the node says so: %s", node.why);
    is_int(node.gpus_free, 1, "the other one is as good as before");
    ok(rig_ask(r, 75, 1, &env) == 0 && rig_gets(r, 75, ALLOC_GRANTED) &&
           rig_ends(r, 75, 0, 0) &&
           rig_has(r, 75, "env", "\nCUDA_VISIBLE_DEVICES=GPU-aaaa\n"),
       "a rank gets that");
    ok(rig_ask(r, 76, 2, &env) == 0 && rig_gets(r, 76, ALLOC_REFUSED),
       "two there are not any more");
    ok(rig_ask_as(r, ALLOC_AGAIN, 74, 1, &usr1) == 0 &&
           rig_gets(r, 74, ALLOC_GRANTED) && rig_signal(r, 74, SIGUSR1) == 0 &&
           rig_ends(r, 74, 0, 0),
       "who had the lost one is found, and ends");
    ok(r->a->ops->inventory(r->a, &node, 1, &n, &err) == 0 &&
           node.gpus_free == 1,
       "which leaves it lost");
    (void)unsetenv("FAKE_NVML");
    rig_detach(r);
    r->nvml = NULL;
    rig_attach(r);
}

/* Until so many have failed; what comes of attempts meanwhile is r->last. */
static bool drained(struct rig *r, int32_t want)
{
    double end_s = clock_real.now_s(&clock_real) + rig_limit_s(r);
    struct error err = ERROR_INIT;
    size_t n;
    while (node_of(r).gpus_drained != want &&
           clock_real.now_s(&clock_real) < end_s) {
        struct pollfd fd = {.fd = r->a->ops->wake_fd(r->a), .events = POLLIN};
        (void)poll(&fd, 1, 50);
        if (r->a->ops->poll(r->a, &r->last, 0, &n, &err) < 0)
            return false;
    }
    return node_of(r).gpus_drained == want;
}

/* F38 while the daemon runs and a job has it. */
static void test_fails(struct rig *r)
{
    char library[128];
    char says[PATH_MAX];
    if (!fake_nvml_build(r->dir, library, sizeof(library))) {
        tap_diag("no C compiler: the fake driver is left out");
        return;
    }
    (void)snprintf(says, sizeof(says), "%s/says", r->dir);
    (void)setenv("FAKE_NVML_SAYS", says, 1);
    rig_detach(r);
    r->nvml = library;
    rig_attach(r);
    ok(starts(r, 80, 1, &usr1, 1) && starts(r, 81, 1, &ignores, 1),
       "F38: two jobs on two GPUs");
    ok(fake_nvml_say(says, "xid 1 31") && fake_nvml_say(says, "xid 1 79"),
       "the second falls off the bus");
    ok(drained(r, 1), "and is drained, for the second word and not the first");
    struct alloc_node node = node_of(r);
    is_str(node.why, "GPU 1: xid 79: GPU has fallen off the bus", "  which");
    is_str(node.drained, "1", "  by its number");
    ok(node.gpus_total == 2 && node.gpus_free == 0 && node.is_up == 1,
       "what is there is there");
    ok(rig_signal(r, 81, SIGKILL) == 0 && rig_ends(r, 81, 0, SIGKILL),
       "the job that had it fails");
    is_int(r->last.ended_by, ALLOC_BY_FAULT, "  by no fault of its own");
    char want[ALLOC_NODE_NAME_CAP + 64];
    (void)snprintf(want, sizeof(want),
                   "GPU 1 of %s: xid 79: GPU has fallen off the bus",
                   node.name);
    is_str(r->last.why.msg, want, "  which is told");
    is_int(node_of(r).gpus_free, 0, "nobody gets it");
    ok(rig_ask(r, 82, 1, &env) == 0 && rig_is_quiet(r), "who asks waits");
    ok(rig_signal(r, 80, SIGUSR1) == 0 && rig_ends(r, 80, 0, 0),
       "the job on the other one ends as it should");
    is_int(r->last.ended_by, ALLOC_BY_ITSELF, "  by itself");
    ok(rig_gets(r, 82, ALLOC_GRANTED) && rig_ends(r, 82, 0, 0) &&
           rig_has(r, 82, "env", "\nCUDA_VISIBLE_DEVICES=GPU-aaaa\n"),
       "who waited gets that one");

    ok(starts(r, 83, 1, &ignores, 1), "one more");
    ok(fake_nvml_say(says, "ecc 0 2"), "its GPU counts errors");
    ok(rig_signal(r, 83, SIGKILL) == 0 && rig_ends(r, 83, 0, SIGKILL) &&
           r->last.ended_by == ALLOC_BY_FAULT &&
           strstr(r->last.why.msg, ": 2 uncorrectable ECC errors"),
       "when it fails the GPU is asked, though it has said nothing: %s",
       r->last.why.msg);
    ok(drained(r, 2), "none is left");
    ok(rig_ask(r, 84, 2, &env) == 0 && rig_is_quiet(r), "who asks waits");

    ok(unlink(says) == 0 && fake_nvml_say(says, "ecc 0 2"),
       "one is seated anew, the other counts on");
    ok(!r->a->ops->mend(r->a, "nobody"), "another node is mended");
    ok(r->a->ops->mend(r->a, node.name) && node_of(r).gpus_drained == 0,
       "somebody has looked at them, and uses them again");
    ok(rig_gets(r, 84, ALLOC_GRANTED) && rig_ends(r, 84, 0, 0) &&
           rig_has(r, 84, "env", "\nCUDA_VISIBLE_DEVICES=GPU-aaaa,GPU-bbbb\n"),
       "who waited gets them");
    ok(fake_nvml_say(says, "xid 1 79") && drained(r, 1) &&
           strcmp(node_of(r).drained, "1") == 0,
       "what is wrong again is found; what was known is not");

    rig_detach(r);
    (void)unlink(says);
    ok(fake_nvml_say(says, "failed 0"), "in the next life");
    rig_attach(r);
    ok(drained(r, 1) &&
           strcmp(node_of(r).why, "GPU 0: memory could not be retired") == 0,
       "the one is well again, the other is not: %s", node_of(r).why);
    rig_detach(r);
    (void)unlink(says);
    (void)unsetenv("FAKE_NVML_SAYS");
    r->nvml = NULL;
    rig_attach(r);
}

/* Of many that ended the oldest are forgotten; their directories know. */
static void test_forgets(struct rig *r)
{
    enum { FIRST = 100, LAST = FIRST + ENDED_CAP };
    const struct attempt_exit x = {.code = 3, .when_s = 1763712000};
    bool have_ended = true;
    for (int job = FIRST; have_ended && job <= LAST; job++)
        have_ended =
            mkdir(rig_path(r, (uint64_t)job, NULL), 0700) == 0 &&
            attempt_exit_write(rig_path(r, (uint64_t)job, NULL), &x, NULL) ==
                0 &&
            rig_ask_as(r, ALLOC_AGAIN, (uint64_t)job, 1, &exit_0) == 0 &&
            rig_ends(r, (uint64_t)job, 3, 0);
    ok(have_ended, "%d that ended in another life", LAST - FIRST + 1);
    is_int(rig_release(r, LAST, 0), 0, "the last one is known");
    is_int(rig_release(r, FIRST, 0), ERR_NOTFOUND, "the first one is not");
    ok(rig_ask_as(r, ALLOC_AGAIN, FIRST, 1, &exit_0) == 0 &&
           rig_ends(r, FIRST, 3, 0),
       "but asked for again it has ended as it did");
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--launch") == 0)
        return rank_main(argc, argv);
    int before = n_fds();
    struct rig r;
    rig_open(&r, RIG_LOCAL);
    test_release(&r);
    test_orphans(&r);
    test_lost(&r);
    test_daemon_killed(&r);
    test_order(&r);
    test_no_go(&r);
    test_log(&r);
    test_files(&r);
    test_spec(&r);
    test_forgets(&r);
    test_gpus(&r);
    test_fails(&r);
    rig_close(&r);
    is_int(n_fds(), before, "no descriptor is left open");
    return tap_done();
}
