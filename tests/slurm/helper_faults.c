/* helper_faults.c - mgpu-slurm-helper when Slurm, its configuration or the
 * helper's own processes fail. */
#include "slurm/as_user/files.h"
#include "tests/slurm/helper_rig.h"

static void ctld(const struct world *w, const char *action)
{
    if (testbed(w->c, "ctld", action) != 0)
        ok(false, "slurmctld: %s", action);
}

static const struct alloc_node *node1(const struct world *w)
{
    static const struct alloc_node none;
    return w->n_nodes > 0 ? &w->nodes[0] : &none;
}

static uint32_t submit_ok(struct world *w, uint64_t job, const char *sh)
{
    const struct helper_news *r = ask(w, submission(w, job, sh));
    ok(r->is_ok && r->slurm_id > 0, "submit %d: %s", (int)job, r->why.msg);
    return r->slurm_id;
}

static struct helper_cmd kill_of(const struct world *w, uint64_t job,
                                 uint32_t id)
{
    struct helper_cmd c = submission(w, job, "");
    c.op = HELPER_KILL;
    c.slurm_id = id;
    return c;
}

/* F19: stopped in order, and back. */
static void test_stopped(struct world *w)
{
    uint32_t id = submit_ok(w, 1, "sleep 600");
    WAIT(w, is_state(w, id, "RUNNING"));
    int n_down = w->n_down;
    ctld(w, "stop");
    WAIT(w, w->is_down);
    ok(strstr(w->down_why.msg, "(1800)"), "why: %s", w->down_why.msg);
    ok(is_sure(ask(w, submission(w, 2, "exit 0")), ERR_UNAVAIL),
       "nothing can be submitted");
    ok(is_sure(ask(w, kill_of(w, 1, id)), ERR_UNAVAIL), "or ended");
    struct helper_cmd c = submission(w, 1, "");
    c.op = HELPER_READ_EXIT;
    ok(is_sure(ask(w, c), ERR_NOTFOUND), "files do not need Slurm");
    is_int(w->n_down, n_down + 1, "said once");
    ctld(w, "start");
    WAIT(w, !w->is_down);
    WAIT(w, is_state(w, id, "RUNNING") && !w->is_gone[id]);
    submit_ok(w, 2, "exit 0");
    ok(ask(w, kill_of(w, 1, id))->is_ok, "kill");
    WAIT(w, is_state(w, id, "CANCELLED"));
}

static pid_t pid_of_ctld(const struct world *w)
{
    char path[RIG_PATH];
    struct buf b = BUF_INIT;
    (void)snprintf(path, sizeof(path), "%s/run/slurmctld.pid", w->c->tb);
    long pid = buf_read_file(&b, path, 100, NULL) == 0
                   ? strtol(buf_str(&b), NULL, 10)
                   : 0;
    buf_clear(&b);
    if (pid <= 1)
        exit(1);
    return (pid_t)pid;
}

static uint32_t id_of(const struct world *w, const char *tag)
{
    uint32_t id = 0;
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        id = strcmp(w->jobs[i].tag, tag) == 0 ? i : id;
    return id;
}

/* Asks for a job when slurmctld hangs, just after a scan: where the next one
 * is in its way all the same, nothing is sent, and another job has its turn.
 * Returns the number of the one that was. */
static uint64_t hang_in_submit(struct world *w, uint64_t job)
{
    const struct helper_news *r = NULL;
    for (uint64_t last = job + 30; job < last; job++) {
        uint64_t before = w->n_scans;
        WAIT(w, w->n_scans > before && !w->is_down);
        (void)kill(pid_of_ctld(w), SIGSTOP);
        r = ask(w, submission(w, job, "exit 0"));
        if (!(!r->is_ok && r->is_sure && r->why.code == ERR_UNAVAIL))
            break;
        ctld(w, "cont");
        WAIT(w, !w->is_down);
    }
    ok(r && !r->is_ok && !r->is_sure && r->why.code == ERR_TIMEOUT,
       "nobody knows: %s", r ? r->why.msg : "");
    return job;
}

/* F20: it hangs with a submission in its hands, and executes it later. */
static void test_paused(struct world *w)
{
    char tag[64];
    uint64_t job = hang_in_submit(w, 60);
    (void)snprintf(tag, sizeof(tag), "mgpu:c:%d:1:0123", (int)job);
    WAIT(w, w->is_down);
    ok(is_sure(ask(w, submission(w, 4, "exit 0")), ERR_UNAVAIL),
       "now it is known to be down");
    ctld(w, "cont");
    WAIT(w, !w->is_down);
    WAIT(w, id_of(w, tag) > 0); /* the news come after "up" */
    uint32_t id = id_of(w, tag);
    const struct helper_news *r = ask(w, submission(w, job, "exit 0"));
    ok(r->is_ok && r->slurm_id == id, "asked again it is this one");
}

/* F21, F23: killed just after the reply, it forgets the job and gives its id
 * to somebody else. */
static void test_lost(struct world *w)
{
    uint32_t id = submit_ok(w, 5, "sleep 600");
    ctld(w, "kill");
    WAIT(w, w->is_down);
    ctld(w, "start");
    WAIT(w, !w->is_down);
    uint64_t before = w->n_scans;
    WAIT(w, w->n_scans > before + 1);
    if (is_state(w, id, "") || w->is_gone[id]) { /* never seen, perhaps */
        uint64_t job = 5;
        uint32_t other = 0;
        while (other < id)
            other = submit_ok(w, ++job, "sleep 600");
        is_int(other, id, "another job has its id");
        ok(is_sure(ask(w, kill_of(w, 5, id)), ERR_NOTFOUND),
           "which is not ended in its place");
        WAIT(w, is_state(w, other, "RUNNING"));
        ok(ask(w, kill_of(w, job, other))->is_ok, "it by itself is");
        uint32_t again = submit_ok(w, 5, "exit 0");
        ok(again != id, "what was lost can be submitted again");
        id = again;
        WAIT(w, is_state(w, id, "COMPLETED"));
    } else {
        tap_diag("slurmctld had saved the job; nothing was lost");
        ok(ask(w, kill_of(w, 5, id))->is_ok, "kill");
    }
}

/* libslurm's process dies: fatal() is exit(1), and this is worse. */
static void test_child_dies(struct world *w)
{
    pid_t child = child_of(w, "mgpu-rpc");
    int hellos = w->n_hello;
    say(w, "{\"op\":\"sub", 10); /* half a line dies with it, */
    uint64_t before = w->n_scans;
    WAIT(w, w->n_scans > before + 1);
    (void)kill(child, SIGKILL);
    WAIT(w, w->n_hello > hellos && w->generation == 2);
    say(w, "mit\"}\n", 6); /* and the other half means nothing. */
    int replies = w->n_replies;
    submit_ok(w, 45, "exit 0");
    is_int(w->n_replies, replies + 1, "one reply to one command");
    WAIT(w, w->n_nodes == 2);
    ok(child_of(w, "mgpu-rpc") != child, "by another process");
    child = child_of(w, "mgpu-rpc");
    hellos = w->n_hello;
    say(w, "{\"op\":\"again\",\"id\":99}\n", 24);
    WAIT(w, w->n_hello > hellos);
    ok(child_of(w, "mgpu-rpc") != child, "and by one more, when asked for");
}

static void gone(pid_t pid)
{
    double until_s = clock_real.now_s(&clock_real) + PATIENCE_S;
    while (kill(pid, 0) == 0 && clock_real.now_s(&clock_real) < until_s)
        (void)poll(NULL, 0, 10);
    ok(kill(pid, 0) < 0 && errno == ESRCH, "process %d is gone", (int)pid);
}

static void test_killed(struct world *w)
{
    pid_t child = child_of(w, "mgpu-rpc");
    (void)kill(w->pid, SIGKILL);
    (void)join(w);
    gone(child);
    (void)close(w->fd);
    (void)close(w->files_fd);
    free(w->nodes);
    buf_clear(&w->in);
}

/* ---- configurations ------------------------------------------------------ */
static void copy_conf(const struct world *w, const char *to, const char *more)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    if (buf_read_file(&b, w->c->conf, 1 << 20, &err) < 0 ||
        buf_addstr(&b, more, &err) < 0)
        ok(false, "%s", err.msg);
    put_file(to, buf_str(&b), 0644);
    buf_clear(&b);
}

/* slurmctld is somewhere else: the port is wrong, and then right again. */
static void test_moved(struct world *w, const char *conf)
{
    pid_t child = child_of(w, "mgpu-rpc");
    copy_conf(w, conf, "SlurmctldPort=1\n");
    uint64_t before = w->n_scans;
    WAIT(w, w->n_scans > before + 2);
    ok(!w->is_down, "as long as Slurm answers nobody looks at it");
    (void)kill(child, SIGKILL);
    WAIT(w, w->n_hello == 2 && w->is_down);
    copy_conf(w, conf, "");
    WAIT(w, w->n_hello == 3 && w->n_scans > before + 4);
    ok(!w->is_down, "the new one is read");
}

static void test_bad_conf(const struct cluster *c)
{
    char conf[RIG_PATH];
    struct world w = {.c = c};
    (void)snprintf(conf, sizeof(conf), "%s/bad.conf", c->dir);
    copy_conf(&w, conf, "NoSuchKey=1\n");
    start(&w, c, &(struct helper_start){.conf = conf});
    WAIT(&w, w.generation == 1 && w.is_down);
    ok(strstr(w.down_why.msg, "bad.conf"), "why: %s", w.down_why.msg);
    pid_t child = child_of(&w, "mgpu-rpc");
    ok(is_sure(ask(&w, submission(&w, 8, "exit 0")), ERR_UNAVAIL),
       "commands are answered");
    is_int(unlink(conf), 0, "without any configuration");
    WAIT(&w, strstr(w.down_why.msg, "No such file"));
    copy_conf(&w, conf, "");
    WAIT(&w, !w.is_down && w.n_nodes == 2);
    submit_ok(&w, 8, "exit 0");
    ok(w.n_hello == 1 && child_of(&w, "mgpu-rpc") == child,
       "nothing had to die");
    test_moved(&w, conf);
    stop(&w);
}

/* A relative Include is found next to the original. */
static void test_include(const struct cluster *c)
{
    char conf[RIG_PATH];
    char part[RIG_PATH];
    struct world w = {.c = c};
    (void)snprintf(conf, sizeof(conf), "%s/top.conf", c->dir);
    (void)snprintf(part, sizeof(part), "%s/part.conf", c->dir);
    copy_conf(&w, part, "");
    put_file(conf, "# all of it:\nInclude part.conf\n", 0644);
    start(&w, c, &(struct helper_start){.conf = conf});
    WAIT(&w, w.n_nodes == 2);
    stop(&w);
}

/* ---- users --------------------------------------------------------------- */
static void set_uid(struct helper_cmd *c, uid_t uid)
{
    c->req.uid = uid;
}

static void check_owner(const char *dir, const char *name, uid_t uid)
{
    char path[RIG_PATH * 2];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    ok(lstat(path, &st) == 0 && st.st_uid == uid, "%s is the user's", path);
}

static void wait_for_file(const char *dir, const char *name)
{
    char path[RIG_PATH * 2];
    double until_s = clock_real.now_s(&clock_real) + PATIENCE_S;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    while (access(path, F_OK) < 0 && clock_real.now_s(&clock_real) < until_s)
        (void)poll(NULL, 0, 10);
}

/* The other socket: the user's files, read as the user; also by the process
 * that comes after one that died. */
static void test_files(struct world *w, uid_t uid, const char *dir)
{
    struct files *f;
    struct error err = ERROR_INIT;
    char path[RIG_PATH * 2];
    char text[64] = "";
    size_t n = 0;
    (void)snprintf(path, sizeof(path), "%s/report.json", dir);
    put_file(path, "{}", 0600);
    if (chown(path, uid, uid) < 0 ||
        files_helper_create(w->files_fd, &f, &err) < 0) {
        ok(false, "files: %s", err.msg);
        return;
    }
    w->files_fd = -1; /* f owns it */
    for (int life = 0; life < 2; life++) {
        int rc = -1;
        double until_s = clock_real.now_s(&clock_real) + PATIENCE_S;
        while (rc < 0 && clock_real.now_s(&clock_real) < until_s) {
            rc = f->ops->read(f, uid, dir, "report.json", 0, text, sizeof(text),
                              &n, &err);
            (void)poll(NULL, 0, rc < 0 ? 50 : 0);
        }
        ok(rc == 0 && n == 2 && memcmp(text, "{}", 2) == 0, "read: %s",
           err.msg);
        ok(f->ops->read(f, 0, dir, "report.json", 0, text, sizeof(text), &n,
                        &err) == -1,
           "not as root: %s", err.msg);
        if (life == 0)
            (void)kill(child_of(w, "mgpu-files"), SIGKILL);
    }
    f->ops->destroy(f);
}

static void test_system(const struct cluster *c, uid_t uid)
{
    struct world w;
    start(&w, c, &(struct helper_start){.more = {"--system"}});
    WAIT(&w, w.n_nodes == 2);
    struct helper_cmd d = submission(&w, 50, "id -u >who; sleep 600");
    ok(is_sure(ask(&w, d), ERR_DENIED), "root may not");
    set_uid(&d, 3999999);
    ok(is_sure(ask(&w, d), ERR_INVAL), "a user that there is not");
    set_uid(&d, uid);
    char base[RIG_PATH];
    (void)snprintf(base, sizeof(base), "%s/jobs", c->dir);
    ok(!ask(&w, d)->is_ok, "root's directory is closed to the user");
    d.req.dir = strcat(base, "-of-user/50/1");
    char top[RIG_PATH];
    (void)snprintf(top, sizeof(top), "%s/jobs-of-user", c->dir);
    if (mkdir(top, 0755) < 0 || chown(top, uid, uid) < 0)
        ok(false, "%s", top);
    const struct helper_news *r = ask(&w, d);
    ok(r->is_ok, "submit: %s", r->why.msg);
    uint32_t id = r->slurm_id;
    WAIT(&w, is_state(&w, id, "RUNNING"));
    is_int(w.jobs[id].uid, uid, "it is the user's job");
    check_owner(d.req.dir, ".", uid);
    check_owner(d.req.dir, "launch.json", uid);
    check_owner(d.req.dir, "batch.json", uid);
    wait_for_file(d.req.dir, "who");
    check_owner(d.req.dir, "who", uid);
    d.op = HELPER_KILL;
    d.slurm_id = id;
    set_uid(&d, uid + 1);
    ok(is_sure(ask(&w, d), ERR_NOTFOUND), "another user's it is not");
    uint64_t before = w.n_scans;
    WAIT(&w, w.n_scans > before + 1);
    ok(is_state(&w, id, "RUNNING"), "so it runs on");
    set_uid(&d, uid);
    ok(ask(&w, d)->is_ok, "kill");
    WAIT(&w, is_state(&w, id, "CANCELLED"));
    test_files(&w, uid, d.req.dir);
    stop(&w);
}

/* Who may do all in Slurm is no user of it, and cannot be made one. */
static void test_slurm_user(const struct cluster *c, uid_t uid)
{
    struct world w = {.c = c};
    char conf[RIG_PATH];
    char more[64];
    char dir[RIG_PATH];
    (void)snprintf(conf, sizeof(conf), "%s/user.conf", c->dir);
    (void)snprintf(more, sizeof(more), "SlurmUser=%d\n", (int)uid);
    (void)snprintf(dir, sizeof(dir), "%s/jobs-of-user/52/1", c->dir);
    copy_conf(&w, conf, more);
    start(&w, c, &(struct helper_start){.conf = conf, .more = {"--system"}});
    WAIT(&w, w.n_nodes == 2);
    struct helper_cmd d = submission(&w, 52, "exit 0");
    d.req.dir = dir;
    set_uid(&d, uid);
    ok(is_sure(ask(&w, d), ERR_DENIED), "SlurmUser may run nothing");
    ok(access(dir, F_OK) < 0, "and nothing was made");
    d.op = HELPER_READ_EXIT;
    ok(is_sure(ask(&w, d), ERR_DENIED), "nor is anything read");
    stop(&w);
}

/* The whole helper as an ordinary user, and its own jobs. */
static void test_user(const struct cluster *c, uid_t uid)
{
    struct world w;
    start(&w, c, &(struct helper_start){.uid = uid});
    WAIT(&w, w.n_nodes == 2);
    struct helper_cmd d = submission(&w, 51, "exit 3");
    ok(is_sure(ask(&w, d), ERR_DENIED), "not for root");
    char dir[RIG_PATH];
    (void)snprintf(dir, sizeof(dir), "%s/jobs-of-user/51/1", c->dir);
    d.req.dir = dir;
    set_uid(&d, uid);
    const struct helper_news *r = ask(&w, d);
    ok(r->is_ok, "submit: %s", r->why.msg);
    uint32_t id = r->slurm_id;
    WAIT(&w, is_state(&w, id, "FAILED"));
    is_int(w.jobs[id].exit_code, 3, "exit code");
    stop(&w);
}

static void test_usage(const struct cluster *c)
{
    static const char *const bad[][3] = {{"--poll", "x"},
                                         {"--poll", "0"},
                                         {"--launcher", "prun"},
                                         {"--batch", "relative"},
                                         {"--partition", "a b"},
                                         {"--cpus-per-gpu", "0"},
                                         {"--gpu-type", "h100:4"},
                                         {"--nosuch"},
                                         {"--worker"},
                                         {"operand"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct world w;
        start(&w, c,
              &(struct helper_start){
                  .more = {bad[i][0], bad[i][1] ? bad[i][1] : NULL}});
        is_int(join(&w), 64, bad[i][0]);
        (void)close(w.fd);
        (void)close(w.files_fd);
    }
    struct world w;
    start(&w, c, &(struct helper_start){.cluster = "a:b"});
    is_int(join(&w), 64, "a cluster's name without ':'");
    (void)close(w.fd);
    (void)close(w.files_fd);
}

int main(void)
{
    struct cluster c;
    struct world w;
    cluster_up(&c);
    test_usage(&c);
    start(&w, &c, &(struct helper_start){.poll = "0.2", .call_timeout = "8"});
    WAIT(&w, w.n_nodes == 2 && node1(&w)->gpus_free == 4);
    test_stopped(&w);
    test_paused(&w);
    test_lost(&w);
    test_child_dies(&w);
    stop(&w);
    start(&w, &c, &(struct helper_start){.poll = "0.2"});
    WAIT(&w, w.generation == 1);
    test_killed(&w);
    test_bad_conf(&c);
    test_include(&c);
    if (geteuid() == 0) {
        enum { NOBODY = 65534 };
        test_system(&c, NOBODY);
        test_slurm_user(&c, NOBODY);
        test_user(&c, NOBODY);
    }
    cluster_down(&c);
    return tap_done();
}
