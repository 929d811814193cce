/* job_retention.c - store.jobs_retention through a whole daemon: archived jobs
 * go that ended long ago, with all that is theirs and nothing else; what waits
 * for one, is in memory or has ended of late keeps it; and no number comes
 * again. */
#include <sys/wait.h>

#include "scheduler/ctld/maintenance/remove_tree.h"
#include "tests/unit/ctld/set_clock.h"

static struct rig r;

static void keep_ten_days(struct ctld_conf *conf)
{
    conf->jobs_retention_s = 10 * DAY_S;
    conf->max_ended = 1;
}

/* ---- jobs -----------------------------------------------------------------
 */
static const char *in_dir(const char *name)
{
    static char path[300];
    (void)snprintf(path, sizeof(path), "%s/%s", r.dir, name);
    return path;
}

static bool is_there(const char *name)
{
    struct stat st;
    return lstat(in_dir(name), &st) == 0;
}

static void run_job(long long id, const char *key)
{
    char at[64];
    is_int(call(&r, "POST", "/v1/jobs", SPEC("one"), key), 201, "a job");
    (void)snprintf(at, sizeof(at), "/v1/jobs/%lld", id);
    ok(becomes(&r, at, "\"state\":\"FAILED\""), "  ends");
}

static void touch(const char *name)
{
    FILE *f = fopen(in_dir(name), "w");
    if (!f || fclose(f))
        exit(1);
}

/* Of job 1 the directory has what it may have, and what leads out of it. */
static void fill_dir(void)
{
    char to[300];
    if (mkdir(in_dir("mine"), 0700) < 0 ||
        mkdir(in_dir("jobs/1/out"), 0700) < 0 ||
        mkdir(in_dir("jobs/1/out/deep"), 0700) < 0)
        exit(1);
    touch("mine/model");
    touch("jobs/1/out/deep/model");
    (void)snprintf(to, sizeof(to), "%s", in_dir("mine"));
    if (symlink(to, in_dir("jobs/1/out/link")) < 0 ||
        symlink(to, in_dir("jobs/1/link")) < 0)
        exit(1);
}

static void test_first_life(void)
{
    static const char waits[] =
        "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"waits\","
        "\"command\":[\"true\"],\"depends_on\":[2]}}";
    static const char sweep[] =
        "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"many\","
        "\"command\":[\"true\"],\"sweep\":{\"zip\":{\"env.N\":[1,2,3]}}}}";
    rig_up(&r, NULL);
    run_job(1, "key-1");
    fill_dir();
    run_job(2, NULL);
    is_int(call(&r, "POST", "/v1/jobs", waits, NULL), 201, "one waits for it");
    ok(has(&r, "\"id\":3,"), "as job 3");
    is_int(call(&r, "POST", "/v1/jobs", sweep, NULL), 201, "a sweep");
    for (long long id = 4; id <= 6; id++) {
        char at[64];
        (void)snprintf(at, sizeof(at), "/v1/jobs/%lld_%lld", 4LL, id - 4);
        ok(becomes(&r, at, "\"state\":\"FAILED\""), "  each of its tasks ends");
    }
    run_job(7, NULL);
    run_job(8, NULL); /* the last, which is kept in memory */
    ok(becomes(&r, "/v1/status", "\"looked\":\""), "all was looked at");
    ok(has(&r, "\"jobs_removed\":0"), "none is old enough");
    rig_down(&r);
    pass_days(20);
}

/* In 60 s at most. Who asks for a job itself has it in memory, where it stays:
 * so nobody does before some have gone. All go at a time. */
static bool some_go(void)
{
    for (int i = 0; i < 3000; i++) {
        if (get(&r, "/v1/status") == 200 && !has(&r, "\"jobs_removed\":0"))
            return true;
        (void)poll(NULL, 0, 20);
    }
    return false;
}

static void test_second_life(void)
{
    rig_up(&r, NULL);
    /* 7 and 8 are archived by now or not. */
    ok(some_go(), "twenty days later those go that nobody needs");
    is_int(get(&r, "/v1/jobs/1"), 404, "the first is gone");
    ok(has(&r, "job 1 ended at ") && has(&r, "was removed at ") &&
           has(&r, "store.jobs_retention"),
       "and who asks is told: %s", buf_str(&r.body));
    is_int(get(&r, "/v1/jobs/4_1"), 404, "so is the sweep");
    is_int(get(&r, "/v1/jobs/99"), 404, "and what never was");
    ok(has(&r, "no job 99"), "which is not said to have been");
    is_int(get(&r, "/v1/jobs/2"), 200, "what one waits for is there");
    is_int(get(&r, "/v1/jobs/2/events"), 200, "with its events");
    is_int(get(&r, "/v1/jobs/3"), 200, "as is who waits");
    ok(!is_there("jobs/1") && !is_there("jobs/4"), "directories are gone");
    ok(is_there("jobs/2"), "not that of another");
    ok(is_there("mine/model"), "and nothing that a link leads to");
    is_int(get(&r, "/metrics"), 200, "the metrics");
    ok(has(&r, "mgpu_jobs_removed_total "), "count them");
    is_int(get(&r, "/v1/jobs?limit=100"), 200, "a list");
    ok(has(&r, "\"id\":2,") && !has(&r, "\"id\":1,"), "is of the others");
    run_job(9, "key-1");
    ok(has(&r, "\"id\":9,"), "a key is free again, a number is not");
    rig_down(&r);
}

static void note(void *arg, const char *finding)
{
    (void)arg;
    tap_diag("%s", finding);
}

static void test_after(void)
{
    is_int(store_sqlite_check(r.dir, note, NULL), 0, "fsck: it is sound");
    rig_up(&r, NULL);
    run_job(10, NULL);
    is_int(get(&r, "/v1/jobs/2"), 200, "and it goes on");
    rig_down(&r);
    is_int(store_sqlite_check(r.dir, note, NULL), 0, "still sound");
}

/* ---- what happens between two looks ---------------------------------------
 */
static struct event_store_ops ops;
static const struct event_store_ops *real;
static struct metric_store_ops metrics;
static const struct metric_store_ops *real_metrics;
static atomic_int n_found; /* times that the oldest were looked for */

static int purge_and_lose_clock(struct store *s, struct store_purge *io,
                                struct error *err)
{
    int rc = real_metrics->purge_rows(s, io, err);
    if (rc == 0 && io->is_over)
        atomic_store(&is_synced, false);
    return rc;
}

static const struct metric_store_ops *with_lost_clock(
    const struct metric_store_ops *of)
{
    metrics = *(real_metrics = of);
    metrics.purge_rows = purge_and_lose_clock;
    return &metrics;
}

static void keep_for_long(struct ctld_conf *conf)
{
    conf->jobs_retention_s = 400 * DAY_S;
    conf->max_ended = 1;
}

/* 11 is old, 12 is not, and both are archived. */
static void test_clock(void)
{
    rig_up(&r, NULL);
    run_job(11, NULL);
    rig_down(&r);
    pass_days(11);
    r.tweak = keep_for_long;
    rig_up(&r, NULL);
    run_job(12, NULL);
    run_job(13, NULL);
    rig_down(&r);
    r.tweak = keep_ten_days;
    r.wrap_metrics = with_lost_clock;
    rig_up(&r, NULL);
    ok(becomes(&r, "/v1/status", "\"looked\":\""),
       "not synchronised between rows and jobs");
    ok(has(&r, "\"waits_for_clock\":true"), "  which it says");
    ok(has(&r, "\"jobs_removed\":0"), "  no job goes");
    is_int(get(&r, "/v1/jobs/11"), 200, "  the oldest is there");
    rig_down(&r);
    r.wrap_metrics = NULL;
    atomic_store(&is_synced, true);
    rig_up(&r, NULL);
    ok(some_go(), "synchronised again");
    is_int(get(&r, "/v1/jobs/11"), 404, "the old one is gone");
    is_int(get(&r, "/v1/jobs/12"), 200, "the other is not");
    rig_down(&r);
}

/* Jobs are kept for longer from the moment on at which they were found. */
static int find_and_reload(struct store *s, const struct store_archive_query *q,
                           int (*each)(void *arg,
                                       const struct store_archived *job,
                                       struct error *err),
                           void *arg, struct error *err)
{
    int rc = real->archived(s, q, each, arg, err);
    if (q->order == ARCHIVE_BY_END && q->limit > 1) {
        if (n_found == 0)
            (void)kill(getpid(), SIGHUP);
        /* The loop goes on meanwhile: this is another thread. */
        for (int i = 0; r.n_reloads == 0 && i < 3000; i++)
            (void)poll(NULL, 0, 20);
        n_found++;
    }
    return rc;
}

static const struct event_store_ops *with_reload(
    const struct event_store_ops *of)
{
    ops = *(real = of);
    ops.archived = find_and_reload;
    return &ops;
}

static void test_reload(void)
{
    pass_days(20);
    r.wrap_store = with_reload;
    r.retweak = keep_for_long;
    rig_up(&r, NULL);
    /* Until who was found has gone, or not, and it was looked again. */
    for (int i = 0; atomic_load(&n_found) < 2 && i < 3000; i++)
        (void)poll(NULL, 0, 20);
    is_int(r.n_reloads, 1, "jobs are kept for longer since they were found");
    is_int(get(&r, "/v1/status"), 200, "by a reload");
    ok(has(&r, "\"jobs_removed\":0"), "and they are: %s", buf_str(&r.body));
    is_int(get(&r, "/v1/jobs/12"), 200, "each");
    rig_down(&r);
    r.wrap_store = NULL;
    r.retweak = NULL;
}

/* ---- what cannot be removed -----------------------------------------------
 */
static void make_deep(const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s", in_dir(name));
    (void)mkdir(path, 0700);
    while (strlen(path) < sizeof(path) - 4) {
        (void)strcat(path, "/a");
        if (mkdir(path, 0700) < 0)
            exit(1);
    }
}

/* Of some that are old the first cannot go. */
static void test_left(void)
{
    rig_up(&r, NULL);
    ok(some_go(), "what was kept by it goes");
    for (long long id = 14; id <= 18; id++)
        run_job(id, NULL);
    rig_down(&r);
    make_deep("jobs/14");
    pass_days(20);
    rig_up(&r, NULL);
    ok(some_go(), "the directory of one is deeper than can be removed");
    is_int(get(&r, "/v1/jobs/14"), 200, "it stays");
    is_int(get(&r, "/v1/jobs/14/events"), 200, "with its events");
    ok(is_there("jobs/14/a"), "and what is left of its directory");
    for (long long id = 15; id <= 17; id++) {
        char at[64];
        (void)snprintf(at, sizeof(at), "/v1/jobs/%lld", id);
        is_int(get(&r, at), 404, "the others go");
        (void)snprintf(at, sizeof(at), "jobs/%lld", id);
        ok(!is_there(at), "  whole");
    }
    rig_down(&r);
    is_int(store_sqlite_check(r.dir, note, NULL), 0, "fsck: it is sound");
}
/* As an ordinary user: nothing is closed to root. */
static int remove_closed(const char *dir)
{
    char path[100];
    struct error err = ERROR_INIT;
    static const struct {
        const char *name;
        mode_t mode;
    } dirs[] = {{"a", 0}, {"a/none", 0}, {"a/fixed", 0500}, {"a/seen", 0300}};
    if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
        return 2;
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, dirs[i].name);
        if (mkdir(path, 0700) < 0)
            return 3;
        (void)strcat(path, "/file");
        FILE *f = fopen(path, "w");
        if (!f || fclose(f))
            return 4;
    }
    for (size_t i = 4; i-- > 0;) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, dirs[i].name);
        if (chmod(path, dirs[i].mode) < 0)
            return 5;
    }
    return dir_tree_remove(dir, "a", NULL, &err) < 0;
}

static void test_closed(void)
{
    char dir[] = "/tmp/mgpu-closed-XXXXXX";
    int status = -1;
    if (!mkdtemp(dir) || (geteuid() == 0 && chown(dir, 65534, 65534) < 0))
        exit(1);
    pid_t child = fork();
    if (child == 0)
        _exit(remove_closed(dir));
    (void)waitpid(child, &status, 0);
    is_int(status, 0, "what is closed to its owner goes");
    is_int(rmdir(dir), 0, "all of it");
}

static void test_tree(void)
{
    struct error err = ERROR_INIT;
    _Atomic bool stop = true;
    ok(dir_tree_remove(r.dir, "nothing", NULL, &err) == 0, "what is not there");
    touch("file");
    ok(dir_tree_remove(r.dir, "file", NULL, &err) == 0 && !is_there("file"),
       "a file in the place of a directory");
    if (symlink("mine", in_dir("to")) < 0)
        exit(1);
    ok(dir_tree_remove(r.dir, "to", NULL, &err) == 0 && !is_there("to") &&
           is_there("mine/model"),
       "a link: it goes, and not what it leads to");
    ok(dir_tree_remove(r.dir, "mine", &stop, &err) < 0 &&
           is_there("mine/model"),
       "given up: %s", err.msg);
    make_deep("deep");
    ok(dir_tree_remove(r.dir, "deep", NULL, &err) < 0 &&
           strstr(err.msg, "too deep"),
       "too deep: %s", err.msg);
}

int main(void)
{
    rig_init(&r);
    r.clock = &clock_set;
    r.tweak = keep_ten_days;
    r.alloc.ends_at_once = true;
    test_first_life();
    test_second_life();
    test_after();
    test_clock();
    test_reload();
    test_left();
    test_tree();
    test_closed();
    rig_clear(&r);
    return tap_done();
}
