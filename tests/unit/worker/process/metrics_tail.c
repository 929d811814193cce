/* metrics_tail.c - a program's metrics, line by line, however they come. */
#include "worker/process/metrics_tail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "tests/tap.h"

static char dir[] = "/tmp/mgpu-tail.XXXXXX";

struct world {
    struct tail tail;
    struct reporter *reporter;
};

static bool start(struct world *w)
{
    struct error err = ERROR_INIT;
    struct report_conf conf = {.url = "", .token = "", .dir = dir, .rank = 2};
    return ok(tail_open(&w->tail, dir, 2, &err) == 0 &&
                  reporter_create(&conf, &w->reporter, &err) == 0,
              "start: %s", err.msg);
}

static void stop(struct world *w)
{
    tail_close(&w->tail);
    reporter_destroy(w->reporter);
}

static void say(struct world *w, const char *text)
{
    FILE *f = fopen(buf_str(&w->tail.path), "a");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
    (void)tail_read(&w->tail, w->reporter);
}

static long long rows(struct world *w)
{
    struct report_stats s;
    reporter_stats(w->reporter, &s);
    return s.rows;
}

static void test_lines(struct world *w)
{
    struct stat st;
    ok(stat(buf_str(&w->tail.path), &st) == 0 && (st.st_mode & 0777) == 0600,
       "the file is there, for its owner only");
    say(w, "{\"iteration\":1,\"loss\":0.5,\"speed\":7}\n");
    is_int(rows(w), 2, "an iteration and a value");
    say(w, "{\"iteration\":2,");
    is_int(rows(w), 2, "half a line is not taken");
    say(w, "\"loss\":0.25,\"t_iter\":0.1}\n{\"epoch\":1,\"eval_accu");
    is_int(rows(w), 3, "the other half");
    ok(w->tail.progress.iteration == 2 && w->tail.progress.loss == 0.25 &&
           w->tail.progress.t_iter == 0.1,
       "progress");
    say(w, "racy\":0.75,\"eval_loss\":2}\n\n  \n{\"iteration\":3}\n");
    is_int(rows(w), 5, "empty lines are no rows");
    ok(w->tail.progress.epoch == 1 && w->tail.progress.eval_accuracy == 0.75 &&
           w->tail.progress.eval_loss == 2 && w->tail.progress.iteration == 3,
       "progress");
    is_int(w->tail.bad, 0, "nothing was bad");
}

/* What the log has of the lines since the last call. */
static int n_named(const char *log, const char *key)
{
    char want[64];
    int n = 0;
    (void)snprintf(want, sizeof(want), "key=\"%s\"", key);
    for (const char *p = log; (p = strstr(p, want)) != NULL; p++)
        n++;
    return n;
}

/* A value that is no number costs neither its line nor a warning each time. */
static void test_ignored(struct world *w)
{
    char log[4096] = "";
    long long n = rows(w);
    fflush(stderr);
    int was = dup(STDERR_FILENO);
    FILE *f = tmpfile();
    if (f == NULL || dup2(fileno(f), STDERR_FILENO) < 0)
        abort();
    log_set_level(LOG_WARN);
    for (int i = 0; i < 3; i++)
        say(w, "{\"iteration\":2,\"loss\":0.125,\"best\":true}\n"
               "{\"epoch\":1,\"note\":\"x\",\"train_loss\":1}\n");
    log_set_level(LOG_ERR);
    if (dup2(was, STDERR_FILENO) < 0 || close(was) < 0)
        abort();
    rewind(f);
    log[fread(log, 1, sizeof(log) - 1, f)] = '\0';
    (void)fclose(f);
    is_int(rows(w), n + 6, "each line is a row");
    ok(w->tail.progress.loss == 0.125, "with its loss");
    is_int(w->tail.bad, 0, "nothing was bad");
    ok(n_named(log, "best") == 1, "a key is named once: %s", log);
    is_int(n_named(log, "note"), 1, "and so is the other");
}

static long long mark_of(void)
{
    char path[64], text[32] = "";
    (void)snprintf(path, sizeof(path), "%s/metrics.2.read", dir);
    FILE *f = fopen(path, "r");
    if (f == NULL || fgets(text, sizeof(text), f) == NULL || fclose(f) != 0)
        abort();
    return strtoll(text, NULL, 10);
}

/* The mark is behind the last line that is in the spool. */
static void test_mark(struct world *w)
{
    long long at = mark_of();
    is_int(at, tail_size(&w->tail), "all so far is in the spool");
    say(w, "{\"iteration\":2,");
    is_int(mark_of(), at, "half a line is not");
    say(w, "\"acc\":1}\n{\"iter");
    is_int(mark_of(), at + 24, "the other half ends it");
    say(w, "ation\":3}\n");
    is_int(mark_of(), tail_size(&w->tail), "and so on");
}

/* What the whole job has is progress, and no metric. */
static void test_totals(struct world *w)
{
    long long n = rows(w);
    const struct report_progress *p = &w->tail.progress;
    ok(p->iterations_total == -1 && p->epochs_total == -1,
       "the totals are unknown");
    say(w, "{\"iterations_total\":20000,\"epochs_total\":15}\n");
    is_int(rows(w), n, "the totals are no rows");
    ok(p->iterations_total == 20000 && p->epochs_total == 15, "but progress");
    say(w, "{\"iteration\":4,\"iterations_total\":21000,\"acc\":1}\n");
    is_int(rows(w), n + 1, "a value");
    ok(p->iterations_total == 21000 && p->epochs_total == 15,
       "a total may change");
    is_int(p->iteration, 4, "a value of an iteration is progress");
    say(w, "{\"iteration\":5,\"iterations_total\":21000}\n");
    is_int(p->iteration, 5, "and so is a total's");
    say(w, "{\"iterations_total\":-1,\"epochs_total\":1e300}\n");
    ok(p->iterations_total == -1 && p->epochs_total == -1,
       "a total that cannot be is unknown");
    is_int(w->tail.bad, 0, "nothing was bad");
}

/* A program that reports no step time has the one that is measured. */
static void test_pace(struct world *w)
{
    const struct report_progress *p = &w->tail.progress;
    say(w, "{\"iteration\":5}\n");
    ok(isnan(p->t_iter), "too early for a step time");
    w->tail.pace_s -= 1000;
    say(w, "{\"iteration\":103}\n");
    is_int(w->tail.pace_iteration, 1, "since the first one");
    ok(fabs(p->t_iter - 1000.0 / 102) < 1, "the mean: %g s", p->t_iter);
    say(w, "{\"iteration\":104,\"t_iter\":0.25}\n");
    ok(p->t_iter == 0.25, "a reported one goes before");
    say(w, "{\"iteration\":0}\n");
    say(w, "{\"iteration\":1}\n");
    ok(isnan(p->t_iter), "a program that begins anew is measured anew");
}

static void test_bad(struct world *w)
{
    long long n = rows(w);
    say(w, "loss=0.5\n");
    is_int(w->tail.bad, 1, "no JSON");
    say(w, "[1]\n{\"iteration\":\"x\"}\n{\"iteration\":4}\n");
    is_int(w->tail.bad, 3, "two more");
    is_int(rows(w), n + 1, "the good one is taken");
    char *big = malloc(200001);
    memset(big, 'x', 200000);
    big[200000] = '\0';
    say(w, big);
    say(w, big);
    ok(w->tail.rest.len < 100000, "a line without end takes no memory");
    is_int(w->tail.bad, 4, "it is one bad line");
    say(w, "\n{\"iteration\":5}\n");
    is_int(rows(w), n + 2, "the next one is fine");
    is_int(w->tail.bad, 4, "still");
    free(big);
    say(w, "{\"iteration\":6}");
    tail_end(&w->tail, w->reporter);
    is_int(rows(w), n + 3, "the last line needs no newline");
}

/* The signal that ends the program must be seen meanwhile. */
static void test_fast(struct world *w)
{
    enum { LINES = 400000 };
    say(w, "\n");
    long long n = rows(w);
    FILE *f = fopen(buf_str(&w->tail.path), "a");
    if (f == NULL)
        abort();
    for (int i = 0; i < LINES; i++)
        (void)fputs("nothing\n", f);
    (void)fputs("{\"iteration\":7}", f);
    if (fclose(f) != 0)
        abort();
    ok(tail_read(&w->tail, w->reporter) && w->tail.bad > 1000 &&
           w->tail.bad < LINES / 2,
       "a part at a time");
    is_int(rows(w), n, "the last line has not come");
    while (w->tail.at < tail_size(&w->tail))
        (void)tail_read(&w->tail, w->reporter);
    tail_end(&w->tail, w->reporter);
    ok(w->tail.bad >= LINES, "at the end all is read: %lld",
       (long long)w->tail.bad);
    is_int(rows(w), n + 1, "to the last line");
    is_int(mark_of(), tail_size(&w->tail), "and marked");
    ok(!tail_read(&w->tail, w->reporter), "nothing more");
}

int main(void)
{
    struct world w = {.reporter = NULL};
    struct error err = ERROR_INIT;
    char path[64];
    if (mkdtemp(dir) == NULL)
        return 1;
    log_set_level(LOG_ERR); /* the warnings are wanted here */
    if (start(&w)) {
        test_lines(&w);
        test_ignored(&w);
        test_mark(&w);
        test_totals(&w);
        test_pace(&w);
        test_bad(&w);
        test_fast(&w);
        stop(&w);
    }
    is_int(tail_open(&w.tail, "/nonexistent", 0, &err), -1, "no directory");
    (void)snprintf(path, sizeof(path), "%s/metrics.2.jsonl", dir);
    (void)unlink(path);
    (void)snprintf(path, sizeof(path), "%s/metrics.2.read", dir);
    (void)unlink(path);
    (void)snprintf(path, sizeof(path), "%s/spool.2", dir);
    (void)unlink(path);
    (void)rmdir(dir);
    return tap_done();
}
