/* helper.c - mgpu-slurm-helper's commands, on a private cluster. */
#include "tests/slurm/helper_rig.h"

static const struct alloc_node *node(const struct world *w, const char *name)
{
    static const struct alloc_node none;
    for (size_t i = 0; i < w->n_nodes; i++)
        if (strcmp(w->nodes[i].name, name) == 0)
            return &w->nodes[i];
    return &none;
}

static bool has_file(const struct world *w, uint64_t job, const char *name,
                     mode_t mode)
{
    char path[RIG_PATH];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/jobs/%llu/1/%s", w->c->dir,
                   (unsigned long long)job, name);
    return lstat(path, &st) == 0 && (st.st_mode & 0777) == mode;
}

/* 1 there, 0 not there, -1 no such file */
static int file_has(const struct world *w, uint64_t job, const char *name,
                    const char *text)
{
    char path[RIG_PATH];
    struct buf b = BUF_INIT;
    (void)snprintf(path, sizeof(path), "%s/jobs/%llu/1/%s", w->c->dir,
                   (unsigned long long)job, name);
    int rc = buf_read_file(&b, path, 1 << 20, NULL);
    bool has = rc == 0 && strstr(buf_str(&b), text);
    buf_clear(&b);
    return rc < 0 ? -1 : has;
}

static void test_inventory(struct world *w)
{
    WAIT(w, w->generation == 1);
    WAIT(w, w->n_nodes == 2 && node(w, "node1")->address[0]);
    const struct alloc_node *n = node(w, "node1");
    is_str(n->gpu_type, "h100", "type");
    is_int(n->gpus_total, 4, "GPUs");
    is_int(n->gpus_free, 4, "all free");
    ok(n->is_up && n->why[0] == '\0', "it is up");
    is_str(n->used, "", "nobody has one");
    is_str(n->partitions, "batch*,urgent", "partitions");
    is_str(n->address, "127.0.0.1", "address");
    WAIT(w, w->batch.name[0]);
    ok(w->batch.is_default, "the default partition");
    is_int(w->batch.max_minutes, 0, "MaxTime=INFINITE is no limit");
    is_int(w->batch.default_minutes, 0, "  and without a DefaultTime the one");
    ok(w->n_empty == 1, "hello ends a line of an earlier life");
}

static void test_run(struct world *w)
{
    struct helper_cmd c = submission(
        w, 1,
        "env >env; squeue -h -j $SLURM_JOB_ID -o '%l %D %C %m %j' >asked; "
        "until [ -e go ]; do sleep 0.1; done; exit 7");
    c.req.nodes = 2;
    c.req.gpus_per_node = 2;
    c.req.where.cpus_per_gpu = 3;
    c.req.where.memory_bytes = (int64_t)3 << 30;
    const struct helper_news *r = ask(w, c);
    if (!ok(r->is_ok, "submit: %s", r->why.msg))
        return;
    uint32_t id = r->slurm_id;
    WAIT(w, is_state(w, id, "RUNNING"));
    is_str(w->jobs[id].tag, c.req.tag, "its tag");
    is_int(w->jobs[id].uid, geteuid(), "its user");
    is_str(w->jobs[id].place, "node1:0,1 node2:0,1", "where it runs");
    ok(w->jobs[id].submitted > 1500000000, "when it was submitted");
    WAIT(w, node(w, "node2")->gpus_free == 2);
    is_str(node(w, "node1")->used, "0,1 mgpu 1.1", "who has them");

    ok(has_file(w, 1, ".", 0700), "its directory is the user's alone");
    ok(has_file(w, 1, "launch.json", 0600), "launch.json");
    ok(has_file(w, 1, "batch.json", 0600), "batch.json");
    ok(file_has(w, 1, "batch.json", "\"cpus_per_gpu\":3") == 1,
       "says how to start ranks");
    ok(has_file(w, 1, "submission", 0600), "and the mark of its submission");
    WAIT(w, file_has(w, 1, "env", "MGPU_ATTEMPT_DIR=") == 1);
    char mark[64] = "MGPU_SUBMISSION=";
    ok(attempt_read(c.req.dir, "submission", mark + strlen(mark), 20, NULL) ==
               0 &&
           file_has(w, 1, "env", mark) == 1,
       "which the batch step has");
    ok(file_has(w, 1, "env", "SLURM_PMIX_FENCE=ring") == 1 &&
           file_has(w, 1, "env", "SLURM_JOB_NUM_NODES=2") == 1 &&
           file_has(w, 1, "env", "MGPU_TEST_SECRET") == 0,
       "nothing of our environment");

    WAIT(w, file_has(w, 1, "asked", "\n") == 1);
    ok(file_has(w, 1, "asked", "12:00 2 12 3G test\n") == 1,
       "limit and margin, nodes, CPUs, memory, name");

    r = ask(w, c);
    ok(r->is_ok && r->slurm_id == id, "asked again it is the same");
    char go[RIG_PATH];
    (void)snprintf(go, sizeof(go), "%s/go", c.req.dir);
    put_file(go, "", 0600);
    WAIT(w, is_state(w, id, "FAILED"));
    is_int(w->jobs[id].exit_code, 7, "exit code");
    is_int(w->jobs[id].signal, 0, "no signal");
    WAIT(w, node(w, "node1")->gpus_free == 4);
    r = ask(w, c);
    ok(r->is_ok && r->slurm_id == id, "and also when it has ended");
}

/* The same in one burst: never two jobs. */
static void test_burst(struct world *w)
{
    struct helper_cmd c = submission(w, 2, "exit 0");
    uint64_t first = tell(w, c);
    for (int i = 1; i < 6; i++)
        (void)tell(w, c);
    uint32_t id = 0;
    for (uint64_t i = first; i < first + 6; i++) {
        WAIT(w, has_reply(w, i));
        const struct helper_news *r = &w->replies[i];
        if (r->is_ok && id == 0)
            id = r->slurm_id;
        ok(r->is_ok ? r->slurm_id == id
                    : r->why.code == ERR_BUSY && !r->is_sure,
           "reply %d: %s", (int)(i - first), r->why.msg);
    }
    WAIT(w, is_state(w, id, "COMPLETED"));
    int n = 0;
    for (int i = 0; i < JOBS_MAX; i++)
        n += strcmp(w->jobs[i].tag, c.req.tag) == 0;
    is_int(n, 1, "one job with this tag");
}

/* Those of one user in one burst: Slurm's ids are in their order. */
static void test_order(struct world *w)
{
    enum { N = 8 };
    struct helper_cmd c[N];
    uint64_t first = w->last_id + 1;
    for (int i = 0; i < N; i++) {
        c[i] = submission(w, (uint64_t)(200 + i), "exit 0");
        (void)tell(w, c[i]);
    }
    int n_turned = 0;
    for (int i = 0; i < N; i++) {
        WAIT(w, has_reply(w, first + (uint64_t)i));
        n_turned += i > 0 && w->replies[first + (uint64_t)i].slurm_id <
                                 w->replies[first + (uint64_t)i - 1].slurm_id;
    }
    is_int(n_turned, 0, "none has overtaken another");
    for (int i = 0; i < N; i++)
        WAIT(w, is_state(w, w->replies[first + (uint64_t)i].slurm_id,
                         "COMPLETED"));
}

static void test_refusals(struct world *w)
{
    struct helper_cmd c = submission(w, 10, "exit 0");
    struct helper_cmd d = c;
    d.req.where.partition = "nosuch";
    ok(is_sure(ask(w, d), ERR_INVAL), "an unknown partition");
    d = c;
    d.req.gpus_per_node = 5;
    ok(is_sure(ask(w, d), ERR_INVAL), "more GPUs than a node has");
    d = c;
    d.req.where.gpu_type = "b200";
    ok(is_sure(ask(w, d), ERR_INVAL), "a type that there is not");
    d = c;
    d.req.where.constraint = "nosuch";
    ok(is_sure(ask(w, d), ERR_INVAL), "an unknown feature");
    d = c;
    d.req.where.reservation = "nosuch";
    ok(is_sure(ask(w, d), ERR_INVAL), "an unknown reservation");
    d = c;
    d.req.where.memory_bytes = (int64_t)1 << 50;
    ok(is_sure(ask(w, d), ERR_INVAL), "more memory than a node has");
    /* Slurm takes these two, and would keep them waiting for ever. */
    d = submission(w, 11, "exit 0");
    d.req.nodes = 3;
    ok(is_sure(ask(w, d), ERR_INVAL), "more nodes than there are");
    d = submission(w, 12, "exit 0");
    d.req.where.cpus_per_gpu = 1000;
    ok(is_sure(ask(w, d), ERR_INVAL), "more CPUs than a node has");
    uint64_t before = w->n_scans;
    WAIT(w, w->n_scans > before + 2);
    for (int i = 0; i < JOBS_MAX; i++)
        if (strcmp(w->jobs[i].tag, c.req.tag) == 0)
            ok(false, "no news of what was refused");
    for (int i = 0; i < JOBS_MAX; i++)
        if (strcmp(w->jobs[i].tag, "mgpu:c:11:1:0123") == 0 ||
            strcmp(w->jobs[i].tag, "mgpu:c:12:1:0123") == 0)
            is_str(w->jobs[i].state, "CANCELLED", "and does not wait there");
}

static void test_denied(struct world *w)
{
    struct helper_cmd c = submission(w, 13, "exit 0");
    struct helper_cmd d = c;
    d.req.uid = geteuid() + 1;
    ok(is_sure(ask(w, d), ERR_DENIED), "another user");
    d = c;
    d.req.tag = "mgpu:cc:13:1:0123";
    ok(is_sure(ask(w, d), ERR_DENIED), "another cluster's tag");
    d.op = HELPER_KILL;
    d.slurm_id = 1;
    ok(is_sure(ask(w, d), ERR_DENIED), "and for ending it");
    d = c;
    d.op = HELPER_READ_EXIT;
    d.req.uid = geteuid() + 1;
    ok(is_sure(ask(w, d), ERR_DENIED), "another user's file");
    int n = w->n_replies;
    const char bad[] = "{\"op\":\"submit\",\"id\":1,\"script\":\"rm\"}\n";
    say(w, bad, sizeof(bad) - 1);
    WAIT(w, w->n_replies > n);
    ok(is_sure(&w->replies[0], ERR_INVAL), "a line that is not one");
}

/* ---- directories --------------------------------------------------------- */
static void test_directories(struct world *w)
{
    char path[RIG_PATH];
    char to[RIG_PATH];
    struct helper_cmd c = submission(w, 20, "exit 0");
    (void)snprintf(path, sizeof(path), "%s/jobs/20", w->c->dir);
    (void)mkdir(path, 0700);
    (void)snprintf(to, sizeof(to), "%s/elsewhere", w->c->dir);
    (void)mkdir(to, 0700);
    if (symlink(to, c.req.dir) < 0)
        ok(false, "symlink");
    const struct helper_news *r = ask(w, c);
    ok(!r->is_ok && r->is_sure, "a link in place of the directory: %s",
       r->why.msg);
    (void)unlink(c.req.dir);

    c = submission(w, 21, "exit 0");
    (void)snprintf(path, sizeof(path), "%s/jobs/21", w->c->dir);
    (void)mkdir(path, 0700);
    if (geteuid() == 0) {
        if (mkdir(c.req.dir, 0700) < 0 || chown(c.req.dir, 65534, 65534) < 0)
            ok(false, "chown");
        ok(is_sure(ask(w, c), ERR_DENIED), "another user's directory");
        (void)rmdir(c.req.dir);
    }
    (void)chmod(path, 0777);
    ok(is_sure(ask(w, c), ERR_DENIED), "one that everybody may change");
    (void)chmod(path, 0500);
    if (geteuid() != 0)
        ok(is_sure(ask(w, c), ERR_DENIED), "one that cannot be written");
    (void)chmod(path, 0700);
    /* What was not submitted may be asked for again. */
    r = ask(w, c);
    ok(r->is_ok, "and then it can: %s", r->why.msg);
}

static void test_read_exit(struct world *w)
{
    struct helper_cmd c = submission(w, 1, "");
    c.op = HELPER_READ_EXIT;
    ok(is_sure(ask(w, c), ERR_NOTFOUND), "no exit file");
    char path[RIG_PATH];
    (void)snprintf(path, sizeof(path), "%s/exit", c.req.dir);
    put_file(path, "{\"code\":3,\"signal\":9,\"when\":1.5,\"slurm_id\":17}\n",
             0600);
    const struct helper_news *r = ask(w, c);
    ok(r->is_ok && r->exit_code == 3 && r->signal == 9 && r->slurm_id == 17,
       "what the file says");
    put_file(path, "{\"code\":999}", 0600);
    r = ask(w, c);
    ok(!r->is_ok && r->why.code == ERR_STATE, "a damaged one: %s", r->why.msg);
}

/* ---- signals ------------------------------------------------------------- */
static uint32_t running(struct world *w, uint64_t job, const char *sh)
{
    const struct helper_news *r = ask(w, submission(w, job, sh));
    uint32_t id = r->slurm_id;
    ok(r->is_ok, "submit: %s", r->why.msg);
    WAIT(w, is_state(w, id, "RUNNING"));
    return id;
}

static struct helper_cmd signal_to(const struct world *w, uint64_t job,
                                   uint32_t id, int signo)
{
    struct helper_cmd c = submission(w, job, "");
    c.op = signo ? HELPER_SIGNAL : HELPER_KILL;
    c.slurm_id = id;
    c.signo = signo;
    return c;
}

static void test_strangers(struct world *w, uint32_t id)
{
    struct helper_cmd c = signal_to(w, 30, id, SIGTERM);
    struct helper_cmd d = c;
    d.req.tag = "mgpu:c:30:2:0123";
    ok(is_sure(ask(w, d), ERR_NOTFOUND), "another attempt's job");
    d.op = HELPER_KILL;
    ok(is_sure(ask(w, d), ERR_NOTFOUND), "is not ended either");
    d = c;
    d.slurm_id = 999;
    ok(is_sure(ask(w, d), ERR_NOTFOUND), "an id that there is not");
    d = signal_to(w, 1, 1, 0);
    ok(is_sure(ask(w, d), ERR_NOTFOUND), "a job that has ended");
    uint64_t before = w->n_scans;
    WAIT(w, w->n_scans > before + 1);
    ok(is_state(w, id, "RUNNING"), "nothing was signalled");
}

static void test_signals(struct world *w)
{
    char sh[2 * RIG_PATH];
    char path[RIG_PATH];
    (void)snprintf(path, sizeof(path), "%s/rank.sh", w->c->dir);
    put_file(path,
             "#!/bin/sh\ntrap 'exit 5' TERM\n: >\"$MGPU_ATTEMPT_DIR\"/ready\n"
             "while :; do sleep 0.1; done\n",
             0755);
    (void)snprintf(sh, sizeof(sh), "srun %s; echo $? >code; exit 4", path);
    uint32_t id = running(w, 30, sh);
    WAIT(w, file_has(w, 30, "ready", "") == 1);
    test_strangers(w, id);
    ok(ask(w, signal_to(w, 30, id, SIGTERM))->is_ok, "SIGTERM");
    WAIT(w, is_state(w, id, "FAILED"));
    is_int(w->jobs[id].exit_code, 4, "the script has lived on");
    ok(file_has(w, 30, "code", "5") == 1, "the rank has not");

    id = running(w, 31, sh);
    WAIT(w, file_has(w, 31, "ready", "") == 1);
    ok(ask(w, signal_to(w, 31, id, SIGKILL))->is_ok, "SIGKILL");
    WAIT(w, is_state(w, id, "FAILED"));
    is_int(w->jobs[id].exit_code, 4, "reaches the ranks only, too");
    ok(file_has(w, 31, "code", "137") == 1, "the rank was killed");

    id = running(w, 32, sh);
    WAIT(w, file_has(w, 32, "ready", "") == 1);
    ok(ask(w, signal_to(w, 32, id, 0))->is_ok, "kill");
    WAIT(w, is_state(w, id, "CANCELLED"));
}

static void test_waiting(struct world *w)
{
    struct helper_cmd c = submission(w, 40, "sleep 600");
    c.req.nodes = 2;
    c.req.where.exclusive = true;
    const struct helper_news *r = ask(w, c);
    uint32_t first = r->slurm_id;
    WAIT(w, is_state(w, first, "RUNNING"));
    WAIT(w, node(w, "node1")->gpus_free == 0 || node(w, "node1")->used[0]);
    r = ask(w, submission(w, 41, "exit 0"));
    uint32_t id = r->slurm_id;
    WAIT(w, is_state(w, id, "PENDING") && w->jobs[id].reason[0]);
    ok(is_sure(ask(w, signal_to(w, 41, id, SIGKILL)), ERR_STATE),
       "a job that waits has no rank");
    uint64_t before = w->n_scans;
    WAIT(w, w->n_scans > before + 1);
    ok(is_state(w, id, "PENDING"), "and it still waits");
    ok(ask(w, signal_to(w, 41, id, 0))->is_ok, "kill");
    WAIT(w, is_state(w, id, "CANCELLED"));
    ok(ask(w, signal_to(w, 40, first, 0))->is_ok, "kill the other");
    WAIT(w, is_state(w, first, "CANCELLED"));
}

static int scontrol(const struct world *w, const char *words)
{
    char all[512];
    (void)snprintf(all, sizeof(all), "env SLURM_CONF=%s scontrol %s",
                   w->c->conf, words);
    return run_words(all);
}

static void test_drained(struct world *w)
{
    is_int(scontrol(w, "update nodename=node2 state=drain reason=bad-fan"), 0,
           "drain");
    WAIT(w, !node(w, "node2")->is_up);
    if (geteuid() == 0) /* then root did it */
        WAIT(w, strcmp(node(w, "node2")->why, "drained by root: bad-fan") == 0);
    is_int(scontrol(w, "update nodename=node2 state=resume"), 0, "resume");
    WAIT(w, node(w, "node2")->is_up);
    is_int(scontrol(w, "update partitionname=urgent state=down"), 0,
           "a partition down");
    is_int(scontrol(w, "update partitionname=batch state=down"), 0,
           "and the other");
    WAIT(w, !node(w, "node1")->is_up);
    is_str(node(w, "node1")->partitions, "batch*,urgent",
           "jobs can wait for both");
    is_str(node(w, "node1")->why, "partition batch*,urgent is not up", "why");
    (void)scontrol(w, "update partitionname=batch state=up");
    (void)scontrol(w, "update partitionname=urgent state=up");
    WAIT(w, node(w, "node1")->is_up &&
                strcmp(node(w, "node1")->partitions, "batch*,urgent") == 0);
    is_int(scontrol(w, "create reservation=r1 starttime=now duration=10 "
                       "users=root nodes=node1"),
           0, "a reservation");
    WAIT(w, strcmp(node(w, "node1")->reservation, "r1") == 0);
    is_str(node(w, "node2")->reservation, "", "of this node only");
    (void)scontrol(w, "delete reservation=r1");
    WAIT(w, node(w, "node1")->reservation[0] == '\0');
    is_int(scontrol(w, "create reservation=r2 starttime=now+90 duration=10 "
                       "users=root nodes=node2"),
           0, "one to come");
    WAIT(w, strcmp(node(w, "node2")->next_reservation, "r2") == 0);
    ok(node(w, "node2")->next_starts > 0 &&
           node(w, "node2")->reservation[0] == '\0',
       "  its begin is known");
    is_int(node(w, "node1")->next_starts, 0, "  of this node only");
    WAIT(w, w->n_quotas == 1);
    ok(strcmp(w->resv.name, "r2") == 0 &&
           w->resv.starts == node(w, "node2")->next_starts &&
           w->resv.ends == w->resv.starts + 600,
       "  and its end");
    (void)scontrol(w, "delete reservation=r2");
    WAIT(w, node(w, "node2")->next_reservation[0] == '\0');
    WAIT(w, w->has_quotas && w->n_quotas == 0);
}

/* A job that is not ours, on both nodes. */
static int stranger(const struct world *w, const char *gpus, const char *begin)
{
    char words[512];

    (void)snprintf(words, sizeof(words),
                   "env SLURM_CONF=%s sbatch -J stranger -D /tmp -o /dev/null "
                   "--nodes=2 %s %s --wrap=true",
                   w->c->conf, gpus, begin);
    return run_words(words);
}

static void test_wanted(struct world *w)
{
    static const char cpus[] = "--ntasks-per-node=1",
                      gpus[] = "--gpus-per-node=4";
    static const char now[] = "--begin=now", later[] = "--begin=now+1hour";
    char words[512];

    (void)scontrol(w, "update nodename=node2 state=drain reason=stranger");
    WAIT(w, !node(w, "node2")->is_up);
    is_int(stranger(w, cpus, now), 0, "a stranger waits for nodes");
    is_int(stranger(w, gpus, later), 0, "and one for GPUs, in an hour");
    uint64_t before = w->n_scans;
    /* Slurm sees the begin time when it first schedules the job. */
    WAIT(w, w->n_scans > before + 1 && !node(w, "node1")->is_wanted);
    is_int(stranger(w, gpus, now), 0, "a stranger does");
    WAIT(w, node(w, "node1")->is_wanted && node(w, "node2")->is_wanted);
    (void)snprintf(words, sizeof(words),
                   "env SLURM_CONF=%s scancel -n stranger", w->c->conf);
    (void)run_words(words);
    WAIT(w, !node(w, "node1")->is_wanted && !node(w, "node2")->is_wanted);
    (void)scontrol(w, "update nodename=node2 state=resume");
}

int main(void)
{
    struct cluster c;
    struct world w;
    cluster_up(&c);
    start(&w, &c, &(struct helper_start){.poll = "0.2"});
    test_inventory(&w);
    test_run(&w);
    test_burst(&w);
    test_order(&w);
    test_refusals(&w);
    test_denied(&w);
    test_directories(&w);
    test_read_exit(&w);
    test_signals(&w);
    test_waiting(&w);
    test_drained(&w);
    test_wanted(&w);
    stop(&w);
    cluster_down(&c);
    return tap_done();
}
