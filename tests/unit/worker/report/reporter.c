/* reporter.c - the spool, its sender, the claim and the last word, against a
 * daemon that comes, goes, forgets and refuses. */
#include "worker/report/reporter.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "jobs/wire/wire.h"
#include "tests/tap.h"
#include "tests/unit/worker/daemon.h"
#include "worker/report/spool.h"

static struct metric_row row_of(int64_t i)
{
    return (struct metric_row){.kind = METRIC_ITERATION,
                               .iteration = {.rank = 0,
                                             .epoch = 1,
                                             .iteration = i,
                                             .started_at = 1795255331.25,
                                             .t_iter = 0.031,
                                             .t_data = 0.001,
                                             .t_h2d = 0.002,
                                             .t_forward = 0.01,
                                             .t_backward = 0.015,
                                             .t_comm = 0.001,
                                             .t_optimizer = 0.002,
                                             .loss = 2.302585,
                                             .lr = 0.05,
                                             .samples = 64,
                                             .tokens = -1,
                                             .gpu_mem_bytes = -1}};
}

static void test_spool(const char *dir)
{
    struct error err = ERROR_INIT;
    struct spool s = {.fd = -1};
    struct buf out = BUF_INIT;
    int64_t at = -1;
    is_int(spool_open(&s, "/nonexistent", 0, 1000, &err), -1, "no directory");
    is_int(spool_open(&s, dir, 1, 1000, &err), 0, "open");
    is_int(spool_read(&s, 100, &out, &at, &err), 0, "read an empty one");
    is_int((long long)out.len, 0, "finds nothing");
    for (int64_t i = 1; i <= 100; i++) {
        struct metric_row row = row_of(i);
        spool_add(&s, &row);
    }
    int64_t end = atomic_load(&s.end), size = end / s.rows;
    ok(end <= 1000 && end + size + 3 > 1000, "the bound holds: %lld bytes",
       (long long)end);
    is_int(s.rows + s.dropped, 100, "each row is kept or counted");
    ok(s.rows >= 2 && s.dropped > 0, "some of each");

    is_int(spool_read(&s, (size_t)size + 20, &out, &at, &err), 0, "read some");
    ok(out.len > 0 && (int64_t)out.len <= size + 20 &&
           buf_str(&out)[out.len - 1] == '\n',
       "whole lines only");
    is_int(spool_read(&s, 10, &out, &at, &err), -1, "a line over the limit");
    is_int(err.code, ERR_LIMIT, "is an error");
    is_int(spool_ack(&s, end + 1, &err), -1, "no byte was written there");
    is_int(spool_ack(&s, -1, &err), -1, "nor before the start");
    is_int(spool_ack(&s, end, &err), 0, "all acknowledged");
    struct metric_row row = row_of(101);
    spool_add(&s, &row);
    ok(atomic_load(&s.end) > end, "makes room again");
    is_int(spool_read(&s, 1000, &out, &at, &err), 0, "read the new one");
    is_int(at, end, "after the acknowledged byte");
    ok(strstr(buf_str(&out), "\"iteration\":101") != NULL, "it is row 101");
    is_int(spool_ack(&s, 0, &err), 0, "the daemon may forget");
    is_int(spool_read(&s, 1000, &out, &at, &err), 0, "read again");
    is_int(at, 0, "from the start");
    buf_clear(&out);
    spool_close(&s);
}

/* A long job's file gives its old bytes back and keeps its numbering. */
static void test_hole(const char *dir)
{
    struct error err = ERROR_INIT;
    struct spool s = {.fd = -1};
    struct buf out = BUF_INIT;
    int64_t at = 0;
    is_int(spool_open(&s, dir, 1, SPOOL_MAX_BYTES, &err), 0, "open");
    struct metric_row row = row_of(1);
    while (atomic_load(&s.end) < (int64_t)20 << 20)
        spool_add(&s, &row);
    int64_t end = atomic_load(&s.end);
    is_int(spool_ack(&s, end, &err), 0, "acknowledged");
    is_int(s.hole, (int64_t)4 << 20, "20 MiB less 16 are given back");
    is_int(spool_ack(&s, ((int64_t)4 << 20) - 1, &err), -1, "gone for good");
    spool_add(&s, &row);
    is_int(spool_read(&s, 1000, &out, &at, &err), 0, "read on");
    is_int(at, end, "the numbering stays");
    buf_clear(&out);
    spool_close(&s);
}

static struct report_conf conf_of(const struct daemon *d)
{
    return (struct report_conf){.url = d->url,
                                .token = "0123456789abcdef",
                                .dir = d->dir,
                                .job = 12,
                                .attempt = 3,
                                .heartbeat_s = 0.2,
                                .period_s = 0.02};
}

static bool same_as_spool(struct daemon *d)
{
    char path[128];
    struct buf file = BUF_INIT;
    (void)snprintf(path, sizeof(path), "%s/spool.0", d->dir);
    bool same = buf_read_file(&file, path, 1 << 26, NULL) == 0;
    pthread_mutex_lock(&d->lock);
    same = same && file.len == d->rows.len &&
           memcmp(buf_str(&file), buf_str(&d->rows), file.len) == 0;
    pthread_mutex_unlock(&d->lock);
    buf_clear(&file);
    return same;
}

static bool has_acked(struct reporter *r)
{
    struct report_stats s;
    reporter_stats(r, &s);
    return s.bytes > 0 && s.acked == s.bytes;
}

static void add_rows(struct reporter *r, int64_t first, int64_t n)
{
    for (int64_t i = first; i < first + n; i++) {
        struct metric_row row = row_of(i);
        reporter_row(r, &row);
    }
}

/* Away, there, away, there with amnesia: each row arrives, once. */
static void test_sender(struct daemon *d)
{
    struct error err = ERROR_INIT;
    struct reporter *r = NULL;
    struct report_conf conf = conf_of(d);
    is_int(reporter_create(&conf, &r, &err), 0, "create without a daemon");
    add_rows(r, 1, 5000); /* over one batch of 1 MiB */
    daemon_up(d);
    wait_until(has_acked(r));
    ok(has_acked(r) && same_as_spool(d), "it comes, and gets every byte");
    wait_until(daemon_count(d, &d->n_beats) > 0); /* which shows the token */
    pthread_mutex_lock(&d->lock);
    ok(d->n_rows > 1, "in more than one batch");
    is_str(d->bearer, "0123456789abcdef", "with the token");
    pthread_mutex_unlock(&d->lock);

    daemon_down(d);
    add_rows(r, 5001, 10);
    pthread_mutex_lock(&d->lock);
    const char *text = buf_str(&d->rows);
    d->rows.len = (size_t)(strchr(text, '\n') - text) + 1; /* knows one row */
    pthread_mutex_unlock(&d->lock);
    daemon_up(d);
    wait_until(has_acked(r) && same_as_spool(d));
    ok(same_as_spool(d), "restarted with less, it is given the rest");

    daemon_set(d, DAEMON_FAILS);
    add_rows(r, 5011, 10);
    int n = daemon_count(d, &d->n_beats);
    wait_until(daemon_count(d, &d->n_beats) > n);
    ok(!reporter_is_fenced(r, NULL), "busy is not refused");
    daemon_set(d, DAEMON_TAKES);
    ok(reporter_flush(r, 5), "flush");
    ok(same_as_spool(d), "sends the rest");
    reporter_destroy(r);
}

/* Cuts "lease_s", the last and always another, off the beat. */
static double lease_of(struct buf *beat)
{
    static const char key[] = ",\"lease_s\":";
    char *at = strstr(beat->data, key);
    if (at == NULL)
        return -1;
    double lease_s = strtod(at + strlen(key), NULL);
    memcpy(at, "}", 2);
    return lease_s;
}

/* Whether the last beat ends so. */
static bool beat_has(struct daemon *d, const char *end)
{
    pthread_mutex_lock(&d->lock);
    (void)lease_of(&d->beat);
    const char *beat = buf_str(&d->beat);
    size_t n = strlen(beat), len = strlen(end);
    bool yes = n >= len && strcmp(beat + n - len, end) == 0;
    pthread_mutex_unlock(&d->lock);
    return yes;
}

static void test_beats(struct daemon *d)
{
    struct error err = ERROR_INIT;
    struct reporter *r = NULL;
    struct report_conf conf = conf_of(d);
    pthread_mutex_lock(&d->lock);
    d->n_beats = 0;
    buf_reset(&d->rows);
    pthread_mutex_unlock(&d->lock);
    is_int(reporter_create(&conf, &r, &err), 0, "create");
    wait_until(daemon_count(d, &d->n_beats) >= 2);
    pthread_mutex_lock(&d->lock);
    ok(lease_of(&d->beat) > 0, "for how long it has been there");
    is_str(
        buf_str(&d->beat),
        "{\"rank\":0,\"iteration\":null,\"iterations_total\":null,"
        "\"epoch\":null,\"epochs_total\":null,\"loss\":null,"
        "\"t_iter\":null,\"eval_loss\":null,\"eval_accuracy\":null,\"work\":0}",
        "before the first iteration");
    pthread_mutex_unlock(&d->lock);
    reporter_tokenised(r, 0.41);
    wait_until(beat_has(d, "\"work\":1,\"tokenised\":0.41}"));
    ok(beat_has(d, "\"work\":1,\"tokenised\":0.41}"),
       "while rows are tokenised");
    reporter_tokenised(r, NAN);
    struct report_progress p = {.iteration = 7,
                                .iterations_total = 100,
                                .epoch = 1,
                                .epochs_total = 3,
                                .loss = 0.5,
                                .t_iter = 0.25,
                                .eval_loss = 0.5,
                                .eval_accuracy = NAN};
    reporter_progress(r, &p);
    int n = daemon_count(d, &d->n_beats);
    wait_until(daemon_count(d, &d->n_beats) >= n + 2);
    pthread_mutex_lock(&d->lock);
    (void)lease_of(&d->beat);
    is_str(
        buf_str(&d->beat),
        "{\"rank\":0,\"iteration\":7,\"iterations_total\":100,"
        "\"epoch\":1,\"epochs_total\":3,\"loss\":0.5,"
        "\"t_iter\":0.25,\"eval_loss\":0.5,\"eval_accuracy\":null,\"work\":3}",
        "and in mid-epoch");
    pthread_mutex_unlock(&d->lock);
    reporter_saving(r, true);
    wait_until(beat_has(d, "\"work\":4,\"saving\":true}"));
    ok(beat_has(d, "\"work\":4,\"saving\":true}"), "and in a checkpoint");
    n = daemon_count(d, &d->n_beats);
    wait_until(daemon_count(d, &d->n_beats) >= n + 2);
    ok(beat_has(d, "\"work\":4,\"saving\":true}"), "  however long it takes");
    reporter_saving(r, false);
    wait_until(beat_has(d, "\"work\":5}"));
    ok(beat_has(d, "\"work\":5}"), "  and no longer");
    reporter_save_failed(r, "no room in \"/\xff\n\"");
    const char *failed_once =
        "\"work\":6,\"saves_failed\":[\"no room in \\\"/??\\\"\"]}";
    wait_until(beat_has(d, failed_once));
    ok(beat_has(d, failed_once), "and why a checkpoint failed, as JSON");
    for (int i = 0; i < 2 * SAVES_FAILED_MAX; i++)
        reporter_save_failed(r, "again");
    struct report_failures failed;
    reporter_saves_failed(r, &failed);
    is_int(failed.n, SAVES_FAILED_MAX, "  but not without end");
    reporter_destroy(r);

    /* Progress is worth a beat each second, whatever the interval. */
    conf.heartbeat_s = 1000;
    n = daemon_count(d, &d->n_beats);
    is_int(reporter_create(&conf, &r, &err), 0, "create");
    wait_until(daemon_count(d, &d->n_beats) >= n + 1);
    reporter_progress(r, &p);
    wait_until(daemon_count(d, &d->n_beats) >= n + 2);
    is_int(daemon_count(d, &d->n_beats), n + 2, "a live beat");
    p.iteration = 8;
    reporter_progress(r, &p);
    (void)reporter_flush(r, 5);
    pthread_mutex_lock(&d->lock);
    ok(strstr(buf_str(&d->beat), "\"iteration\":8,") != NULL,
       "the last progress is told at the end");
    pthread_mutex_unlock(&d->lock);
    reporter_destroy(r);

    conf.rank = 1;
    conf.heartbeat_s = 0.01;
    is_int(reporter_create(&conf, &r, &err), 0, "create rank 1");
    n = daemon_count(d, &d->n_rows);
    struct metric_row row = row_of(1);
    pthread_mutex_lock(&d->lock);
    buf_reset(&d->rows);
    pthread_mutex_unlock(&d->lock);
    int beats = daemon_count(d, &d->n_beats);
    reporter_row(r, &row);
    wait_until(daemon_count(d, &d->n_rows) > n);
    is_int(daemon_count(d, &d->n_beats), beats, "only rank 0 beats");
    reporter_destroy(r);
}

static void test_fence(struct daemon *d)
{
    struct error err = ERROR_INIT, why = ERROR_INIT;
    struct reporter *r = NULL;
    struct report_conf conf = conf_of(d);
    daemon_set(d, DAEMON_FENCES);
    is_int(reporter_create(&conf, &r, &err), 0, "create");
    add_rows(r, 1, 1);
    wait_until(reporter_is_fenced(r, NULL));
    ok(reporter_is_fenced(r, &why), "fenced");
    is_int(why.code, ERR_FENCED, "code");
    is_str(why.msg, "attempt 2 holds the lease", "the daemon's words");
    double start_s = clock_real.now_s(&clock_real);
    ok(!reporter_flush(r, 600), "nothing is flushed");
    ok(clock_real.now_s(&clock_real) - start_s < 300, "and nobody waits");
    reporter_destroy(r);

    conf.rank = 1;
    is_int(reporter_create(&conf, &r, &err), 0, "create a rank without news");
    wait_until(reporter_is_fenced(r, NULL));
    ok(reporter_is_fenced(r, NULL), "it is fenced, too");
    reporter_destroy(r);
    daemon_set(d, DAEMON_TAKES);
}

static void test_no_daemon(struct daemon *d)
{
    struct error err = ERROR_INIT;
    struct reporter *r = NULL;
    struct report_conf conf = conf_of(d);
    daemon_down(d);
    is_int(reporter_create(&conf, &r, &err), 0, "create");
    add_rows(r, 1, 3);
    double start_s = clock_real.now_s(&clock_real);
    ok(!reporter_flush(r, 0.2), "the daemon stays away");
    double took_s = clock_real.now_s(&clock_real) - start_s;
    ok(took_s >= 0.2 && took_s < 60, "after the deadline: %.2f s", took_s);
    reporter_destroy(r);

    conf.url = "";
    is_int(reporter_create(&conf, &r, &err), 0, "create without an url");
    add_rows(r, 1, 3);
    ok(!reporter_flush(r, 30), "all stays in the spool");
    struct report_stats s;
    reporter_stats(r, &s);
    is_int(s.rows, 3, "where it is");
    reporter_destroy(r);
}

static void *up_later(void *arg)
{
    struct daemon *d = arg;
    (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    daemon_up(d);
    return NULL;
}

static void *well_later(void *arg)
{
    struct daemon *d = arg;
    (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    daemon_set(d, DAEMON_TAKES);
    return NULL;
}

static void test_claim(struct daemon *d)
{
    struct error err = ERROR_INIT;
    struct report_conf conf = conf_of(d);
    char host[256] = "", want[400];
    (void)unsetenv("SLURM_JOB_ID"); /* of who runs the test */
    is_int(report_claim(&conf, 1, NULL, &err), -1, "nobody to claim from");
    is_int(err.code, ERR_UNAVAIL, "is told");

    volatile sig_atomic_t stop = SIGTERM;
    double start_s = clock_real.now_s(&clock_real);
    is_int(report_claim(&conf, 600, &stop, &err), -1, "told to stop");
    ok(clock_real.now_s(&clock_real) - start_s < 300, "it does not wait");

    pthread_t thread;
    if (pthread_create(&thread, NULL, up_later, d) != 0)
        abort();
    is_int(report_claim(&conf, 60, NULL, &err), 0,
           "a daemon that comes up late");
    (void)pthread_join(thread, NULL);
    is_int(report_claim(&conf, 60, NULL, &err), 0, "twice, by the same holder");
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(want, sizeof(want), "{\"holder\":\"%s %ld ", host,
                   (long)getpid());
    pthread_mutex_lock(&d->lock);
    ok(strncmp(buf_str(&d->claim), want, strlen(want)) == 0, "holder %s",
       buf_str(&d->claim));
    ok(strstr(buf_str(&d->claim), "native_id") == NULL, "and not of Slurm");
    pthread_mutex_unlock(&d->lock);

    (void)setenv("SLURM_JOB_ID", "4711", 1);
    is_int(report_claim(&conf, 60, NULL, &err), 0, "in a job of Slurm");
    (void)unsetenv("SLURM_JOB_ID");
    pthread_mutex_lock(&d->lock);
    ok(strstr(buf_str(&d->claim), ",\"native_id\":\"4711\"}") != NULL,
       "which it names: %s", buf_str(&d->claim));
    pthread_mutex_unlock(&d->lock);

    static const enum daemon_mode ill[] = {DAEMON_NO_DISK, DAEMON_LACKS};
    for (int i = 0; i < 2; i++) {
        daemon_set(d, ill[i]);
        if (pthread_create(&thread, NULL, well_later, d) != 0)
            abort();
        is_int(report_claim(&conf, 60, NULL, &err), 0,
               "a daemon whose disk fails, or memory, for a moment");
        (void)pthread_join(thread, NULL);
    }

    daemon_set(d, DAEMON_FENCES);
    int n = daemon_count(d, &d->n_claims);
    is_int(report_claim(&conf, 60, NULL, &err), -1, "refused");
    is_int(err.code, ERR_FENCED, "code");
    is_int(daemon_count(d, &d->n_claims), n + 1, "and not asked again");
    daemon_set(d, DAEMON_TAKES);
}

static void test_final(struct daemon *d)
{
    struct error err = ERROR_INIT;
    struct report_conf conf = conf_of(d);
    const char *want =
        "{\"exit_code\":143,\"why\":\"stopped by signal: \\\"x\\\"\","
        "\"cpu_ms\":90,\"cores_ms\":400,\"gpu_busy_ms\":5,\"gpus_ms\":70,"
        "\"stopped\":true,"
        "\"cause\":\"memory\",\"needed_bytes\":3145728,"
        "\"available_bytes\":2097152,"
        "\"fault_node\":\"n2\"}";
    char path[128];
    struct buf file = BUF_INIT;
    struct stat kept, st;
    is_int(report_claim(&conf, 60, NULL, &err), 0, "a claim");
    (void)snprintf(path, sizeof(path), "%s/.report.json.new", d->dir);
    ok(stat(path, &kept) == 0 && kept.st_blocks > 0,
       "takes the room for a report");
    const struct report_extra used = {.cpu_ms = 90,
                                      .cores_ms = 400,
                                      .gpu_busy_ms = 5,
                                      .gpus_ms = 70,
                                      .stopped = 1,
                                      .needed_bytes = 3 << 20,
                                      .available_bytes = 2 << 20};
    is_int(report_final(&conf, 143, "stopped by signal: \"x\"", "n2", &used, 60,
                        &err),
           0, "final report");
    pthread_mutex_lock(&d->lock);
    is_str(buf_str(&d->report), want, "posted");
    pthread_mutex_unlock(&d->lock);
    (void)snprintf(path, sizeof(path), "%s/report.json", d->dir);
    is_int(buf_read_file(&file, path, 1000, &err), 0, "and written");
    ok(stat(path, &st) == 0 && st.st_ino == kept.st_ino, "in that room");
    is_str(buf_str(&file), want, "the same");
    buf_clear(&file);

    daemon_down(d);
    (void)unlink(path);
    is_int(report_final(&conf, 0, "", NULL, NULL, 0.1, &err), 0,
           "without a daemon");
    is_int(buf_read_file(&file, path, 1000, &err), 0, "it is written");
    buf_clear(&file);
    conf.dir = "/nonexistent";
    is_int(report_final(&conf, 0, "", NULL, NULL, 0.1, &err), -1,
           "no directory");
}

static const char *const last_words[2] = {
    "{\"exit_code\":1,\"why\":\"short\"}",
    "{\"exit_code\":2,\"why\":\"a reason that is longer than the other\"}",
};

struct last {
    struct report_conf conf;
    int failed;
    pthread_barrier_t *together;
};

static void *say_last(void *arg)
{
    struct last *l = arg;
    for (int i = 0; i < 100; i++) {
        (void)pthread_barrier_wait(l->together);
        l->failed +=
            report_final(&l->conf, l->conf.rank + 1,
                         l->conf.rank == 0
                             ? "short"
                             : "a reason that is longer than the other",
                         NULL, NULL, 1, NULL) < 0;
        (void)pthread_barrier_wait(l->together);
    }
    return NULL;
}

/* Two ranks fail at the same moment: the word of either, never a mixture. */
static void test_two_words(const struct daemon *d)
{
    struct last l[2];
    pthread_barrier_t together;
    pthread_t thread[2];
    struct buf b = BUF_INIT;
    char path[128], reserved[128];
    int torn = 0;
    (void)snprintf(path, sizeof(path), "%s/report.json", d->dir);
    (void)snprintf(reserved, sizeof(reserved), "%s/.report.json.new", d->dir);
    (void)pthread_barrier_init(&together, NULL, 3);
    for (int i = 0; i < 2; i++) {
        l[i] = (struct last){.conf = conf_of(d), .together = &together};
        l[i].conf.url = "";
        l[i].conf.rank = i;
        if (pthread_create(&thread[i], NULL, say_last, &l[i]) != 0)
            abort();
    }
    for (int i = 0; i < 100; i++) {
        (void)close(open(reserved, O_WRONLY | O_CREAT, 0600));
        (void)pthread_barrier_wait(&together);
        (void)pthread_barrier_wait(&together);
        buf_reset(&b);
        if (buf_read_file(&b, path, 4096, NULL) < 0 ||
            (strcmp(buf_str(&b), last_words[0]) != 0 &&
             strcmp(buf_str(&b), last_words[1]) != 0))
            torn++;
    }
    for (int i = 0; i < 2; i++)
        (void)pthread_join(thread[i], NULL);
    is_int(torn, 0, "two last words: the file is one of them");
    is_int(l[0].failed + l[1].failed, 0, "both were written");
    (void)pthread_barrier_destroy(&together);
    buf_clear(&b);
}

/* A machine that takes connections and says nothing more, as one whose
 * daemon hangs, or that has gone without a word. */
static void test_silent(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    char url[64], dir[] = "/tmp/mgpu-worker.XXXXXX", path[64];
    struct error err = ERROR_INIT;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (mkdtemp(dir) == NULL || fd < 0 ||
        bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        abort();
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(a.sin_port));
    struct report_conf conf = {.url = url,
                               .token = "0123456789abcdef",
                               .dir = dir,
                               .job = 12,
                               .attempt = 1,
                               .heartbeat_s = 0.1,
                               .period_s = 0.01};
    double start_s = clock_real.now_s(&clock_real);
    is_int(report_claim(&conf, 0.5, NULL, &err), -1, "no answer to a claim");
    is_int(err.code, ERR_TIMEOUT, "which takes its time, not for ever");
    struct reporter *r = NULL;
    is_int(reporter_create(&conf, &r, &err), 0, "create");
    add_rows(r, 1, 100);
    ok(!reporter_flush(r, 0.2), "no answer to the rows");
    ok(clock_real.now_s(&clock_real) - start_s < 60, "nobody waits for ever");
    reporter_destroy(r);
    (void)close(fd);
    (void)snprintf(path, sizeof(path), "%s/spool.0", dir);
    (void)unlink(path);
    (void)rmdir(dir);
}

static void test_all(bool is_tcp)
{
    struct daemon d;
    daemon_init(&d, is_tcp);
    tap_diag("at %s", d.url);
    test_sender(&d);
    test_beats(&d);
    test_fence(&d);
    test_no_daemon(&d);
    test_claim(&d);
    test_final(&d);
    test_two_words(&d);
    daemon_clear(&d);
}

int main(void)
{
    struct daemon d;
    daemon_init(&d, false);
    test_spool(d.dir);
    test_hole(d.dir);
    daemon_clear(&d);
    test_all(false);
    test_all(true);
    test_silent();
    return tap_done();
}
