/* alloc_slots.c - the slots of attempts that an earlier daemon started.
 *
 * No slot goes to another job while processes of such an attempt may use it:
 * neither before its shepherd has written `started`, nor after its shepherd
 * died.
 */
#include <spawn.h>

#include "tests/contract/alloc_shepherd.h"

extern char **environ;

static const struct behaviour ignores = {.launch = "{\"do\":\"ignore\"}"};

static bool exists(const struct rig *r, uint64_t job, const char *file)
{
    return access(rig_path(r, job, file), F_OK) == 0;
}

/* Of r->last, "host:0": "0". */
static const char *last_slot(const struct rig *r)
{
    const char *colon = strrchr(r->last.place, ':');
    return colon ? colon + 1 : "";
}

/* Makes fsync() of each shepherd that starts from now on wait while the file
 * `gate` exists, see preload/slow_sync.c. A sanitizer's library wants to be
 * the first one, and need not be. */
static void gate_shepherds(struct rig *r, const char *gate)
{
    char real[PATH_MAX];
    memcpy(real, r->bin, sizeof(real));
    (void)snprintf(r->bin, sizeof(r->bin), "%s/slow", r->dir);
    FILE *f = fopen(r->bin, "w");
    if (!f ||
        fprintf(f,
                "#!/bin/sh\n"
                "export ASAN_OPTIONS=verify_asan_link_order=0\n"
                "MGPU_SYNC_GATE=%s LD_PRELOAD=%s/../tests/contract/preload/"
                "slow_sync.so exec %s \"$@\"\n",
                gate, r->programs, real) < 0 ||
        fclose(f) != 0 || chmod(r->bin, 0700) < 0)
        exit(1);
}

/* A daemon dies by SIGKILL when it has let the shepherd of `job` go. */
static void daemon_dies_early(struct rig *r, uint64_t job,
                              const struct behaviour *b, const char *gate)
{
    int fd = open(gate, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        exit(1);
    (void)close(fd);
    pid_t daemon = fork();
    if (daemon == 0) {
        rig_attach(r);
        if (rig_ask(r, job, 1, b) == 0 && rig_gets(r, job, ALLOC_GRANTED))
            (void)raise(SIGKILL);
        _exit(1);
    }
    int status = 0;
    ok(waitpid(daemon, &status, 0) == daemon && WIFSIGNALED(status) &&
           exists(r, job, "place") && !exists(r, job, "started"),
       "a daemon dies before the shepherd of job %d has written `started`",
       (int)job);
    r->is_asked[job] = true;
}

static void test_not_started_yet(struct rig *r, const char *gate)
{
    daemon_dies_early(r, 1, &ignores, gate);
    rig_attach(r);
    is_int(rig_ask(r, 1, 1, &ignores), 0, "the next daemon asks for job 1");
    is_int(rig_ask(r, 2, 1, &ignores), 0, "and for job 2");
    ok(rig_gets(r, 2, ALLOC_GRANTED), "job 2 starts");
    is_str(last_slot(r), "1", "on the slot that job 1 does not have");
    is_int(rig_free(r), 0, "both slots are busy");
    is_int(rig_ask(r, 3, 1, &exit_0), 0, "job 3 asks for a slot");
    ok(rig_is_quiet(r), "and waits");
    ok(unlink(gate) == 0 && rig_gets(r, 1, ALLOC_GRANTED) &&
           rig_ready(r, 1, 1) && rig_starts(r, 1) == 1,
       "job 1 runs, once");
    is_str(last_slot(r), "0", "on its slot");
    ok(rig_ready(r, 2, 1), "and job 2 ignores SIGTERM by now");
    ok(rig_release(r, 2, 0) == 0 && rig_ends(r, 2, 0, SIGKILL), "job 2 ends");
    ok(rig_gets(r, 3, ALLOC_GRANTED), "job 3 starts");
    is_str(last_slot(r), "1", "on the slot of job 2");
    ok(rig_ends(r, 3, 0, 0), "and ends");
    ok(rig_release(r, 1, 0) == 0 && rig_ends(r, 1, 0, SIGKILL), "job 1 ends");
    is_int(rig_free(r), 2, "both slots are free");
    rig_detach(r);
}

static void test_no_place(struct rig *r, const char *gate)
{
    daemon_dies_early(r, 4, &exit_0, gate);
    ok(unlink(rig_path(r, 4, "place")) == 0, "its `place` is lost");
    rig_attach(r);
    is_int(rig_ask(r, 4, 1, &exit_0), 0, "the next daemon asks for job 4");
    is_int(rig_ask(r, 5, 1, &exit_0), 0, "and for job 5");
    ok(rig_is_quiet(r), "which waits: job 4 may have any slot");
    ok(unlink(gate) == 0 && rig_ends(r, 4, 0, 0) && rig_starts(r, 4) == 1,
       "job 4 runs, once, and ends");
    ok(rig_gets(r, 5, ALLOC_GRANTED) && rig_ends(r, 5, 0, 0),
       "then job 5 runs");
    rig_detach(r);
}

/* A process of an attempt whose shepherd is dead. */
static pid_t spawn_rank(const struct rig *r, uint64_t job)
{
    char mark[PATH_MAX + sizeof(ATTEMPT_MARK)];
    char *const argv[] = {(char[]){"sleep"}, (char[]){"600"}, NULL};
    char *const env[] = {mark, NULL};
    pid_t pid = -1;
    (void)snprintf(mark, sizeof(mark), "%s=%s", ATTEMPT_MARK,
                   rig_path(r, job, NULL));
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, env) != 0)
        exit(1);
    return pid;
}

static void test_shepherd_died(struct rig *r)
{
    struct error err = ERROR_INIT;
    struct alloc_node node;
    char place[ALLOC_NODE_NAME_CAP + 8];
    size_t n;
    rig_attach(r);
    if (r->a->ops->inventory(r->a, &node, 1, &n, &err) < 0)
        exit(1);
    (void)snprintf(place, sizeof(place), "%s:0", node.name);
    ok(mkdir(rig_path(r, 6, NULL), 0700) == 0 &&
           attempt_write(rig_path(r, 6, NULL), "place", place, &err) == 0 &&
           attempt_write(rig_path(r, 6, NULL), "started", "", &err) == 0,
       "job 6 has started on slot 0");
    pid_t rank = spawn_rank(r, 6);
    while (n_marked(r, 6) != 1)
        (void)poll(NULL, 0, 5);
    is_int(rig_ask_as(r, ALLOC_AGAIN, 6, 1, &exit_0), 0,
           "a daemon asks for job 6, whose shepherd died");
    is_int(rig_ask(r, 7, 1, &exit_0), 0, "and for job 7");
    ok(rig_gets(r, 7, ALLOC_GRANTED), "job 7 starts");
    is_str(last_slot(r), "1", "not on the slot whose process is being killed");
    int status = 0;
    ok(waitpid(rank, &status, 0) == rank && WIFSIGNALED(status),
       "the process of job 6 is killed");
    bool is_lost = rig_next(r, 60) && r->last.job == 6;
    is_lost = is_lost ? r->last.kind == ALLOC_LOST : rig_gets(r, 6, ALLOC_LOST);
    ok(is_lost, "job 6 is lost");
    rig_detach(r);
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--launch") == 0)
        return rank_main(argc, argv);
    struct rig r;
    char gate[PATH_MAX];
    rig_open(&r, RIG_LOCAL);
    rig_detach(&r);
    test_shepherd_died(&r);
    (void)snprintf(gate, sizeof(gate), "%s/gate", r.dir);
    gate_shepherds(&r, gate);
    test_not_started_yet(&r, gate);
    test_no_place(&r, gate);
    rig_attach(&r);
    rig_close(&r);
    return tap_done();
}
