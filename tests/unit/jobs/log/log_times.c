/* log_times.c - what tells when a log was written, and whose a line is. */
#include "jobs/log/log_times.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/log/rank_lines.h"
#include "tests/tap.h"

static char dir[] = "/tmp/logtimes.XXXXXX";
static const double T = 1763712000; /* some moment */

static const char *path_of(const char *name)
{
    static char path[80];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* Where to begin to see what was written at T + s or later; -1: an error. */
static long long found(double s)
{
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    int32_t ranks = 0;
    uint64_t at = 0;
    int rc = buf_read_file(&b, path_of(LOGTIMES_NAME), LOGTIMES_FILE_MAX, &err);
    if (rc == 0)
        rc = log_times_find(buf_str(&b), b.len, T + s, &ranks, &at, &err);
    if (rc < 0 || ranks != 3)
        tap_diag("%d ranks: %s", (int)ranks, err.msg);
    buf_clear(&b);
    return rc < 0 || ranks != 3 ? -1 : (long long)at;
}

static struct log_times *begin(void)
{
    struct error err = ERROR_INIT;
    struct log_times *t = NULL;
    if (log_times_create(dir, 3, &t, &err) < 0) {
        ok(false, "create: %s", err.msg);
        exit(tap_done());
    }
    return t;
}

static void test_stretches(void)
{
    struct log_times *t = begin();
    is_int(found(0), 0, "an empty log begins at its beginning");
    log_times_note(t, 10, T);
    log_times_note(t, 20, T + 0.9);
    ok(log_times_rest(t, T + 1) > 0.8, "a stretch lasts a second");
    log_times_note(t, 30, T + 1.1);
    is_int(found(0.9), 0, "what was written then is shown");
    is_int(found(0.901), 20, "and what was before is not");
    ok(!isfinite(log_times_rest(t, T + 2.2)), "it ends when nothing follows");
    is_int(found(1.1), 20, "up to its last write");
    is_int(found(1.2), 30, "nothing since");
    log_times_note(t, 40, T + 100);
    is_int(found(50), 30, "what was written just now is behind it");
    log_times_note(t, 50, T + 7); /* the clock was set back */
    is_int(found(101), 40, "a clock that jumps ends a stretch, too");
    log_times_destroy(t);
    is_int(found(101), 50, "the end writes down the last one");
    log_times_destroy(NULL);
}

/* A write each second, for longer than there is room for. */
static void test_bound(void)
{
    enum { N = 3 * LOGTIMES_MAX };
    struct log_times *t = begin();
    struct stat st;
    bool is_right = true;
    for (int i = 0; i < N; i++)
        log_times_note(t, (uint64_t)(i + 1) * 7, T + i);
    log_times_destroy(t);
    ok(stat(path_of(LOGTIMES_NAME), &st) == 0 &&
           st.st_size <= LOGTIMES_FILE_MAX,
       "the file is bounded: %lld bytes", (long long)st.st_size);
    for (int i = 0; i < N; i += 97) {
        long long at = found(i);
        is_right = is_right && at <= 7LL * i && at >= 7LL * (i - 4);
    }
    ok(is_right, "and tells to 4 s of %d", (int)N);
}

static void test_input(void)
{
    static const struct {
        const char *text;
        int rc;
        long long at;
    } cases[] = {
        {"", -1, 0},
        {"mgpu-times 1 ", -1, 0},
        {"mgpu-times 1 3", -1, 0},
        {"mgpu-times 1 -3\n", -1, 0},
        {"mgpu-times 1 99999999999\n", -1, 0},
        {"mgpu-times 2 3\n", -1, 0},
        {"mgpu-times 1 3\n", 0, 0},
        {"mgpu-times 1 3\n10 5 5\n", 0, 10},
        {"mgpu-times 1 3\n10 5 5\n20 6", 0, 10},
        {"mgpu-times 1 3\n10 5 5\n9 6 6\n", 0, 10},
        {"mgpu-times 1 3\n10 5 5\nx\n20 6 6\n", 0, 10},
        {"mgpu-times 1 3\n10 -5 -5\n", 0, 10},
        {"mgpu-times 1 3\n99999999999999999999 5 5\n", 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error err = ERROR_INIT;
        size_t n = strlen(cases[i].text);
        char *text = malloc(n + 1); /* of its length, for the sanitizer */
        int32_t ranks = 0;
        uint64_t at = 0;
        if (!text)
            break;
        memcpy(text, cases[i].text, n);
        int rc = log_times_find(text, n, T, &ranks, &at, &err);
        ok(rc == cases[i].rc && (long long)at == cases[i].at,
           "input %zu: %d, %llu", i, rc, (unsigned long long)at);
        free(text);
    }
}

/* ---- lines ---------------------------------------------------------------
 */

static const char *lines_of(int32_t rank, const char *text, size_t step)
{
    static char shown[200];
    struct rank_lines l = {.rank = rank};
    size_t len = strlen(text), n = 0;
    for (size_t i = 0; i < len; i += step) {
        char piece[200];
        size_t k = len - i < step ? len - i : step;
        memcpy(piece, text + i, k);
        k = rank_lines_take(&l, piece, k);
        memcpy(shown + n, piece, k);
        n += k;
    }
    shown[n] = '\0';
    return shown;
}

static void test_lines(void)
{
    static const char text[] = "[0] a\n[1] b\nlauncher\n\n[1] [0] c\n[11] d\n"
                               "[1]x\n[1] \n[0";
    bool all = true;
    for (size_t step = 1; step < sizeof(text); step++)
        all = all && strcmp(lines_of(1, text, step), "b\n[0] c\n\n") == 0 &&
              strcmp(lines_of(0, text, step), "a\n") == 0 &&
              strcmp(lines_of(11, text, step), "d\n") == 0;
    ok(all, "a rank's lines, in pieces of any size");
    struct rank_lines l = {.rank = 1};
    char piece[] = "[1] half";
    is_int((long long)rank_lines_take(&l, piece, 8), 4, "half a line");
    rank_lines_gap(&l);
    char rest[] = "[1] x\n[1] y\n";
    is_int((long long)rank_lines_take(&l, rest, strlen(rest)), 2,
           "after a gap, from the next line on");
    char label[LOGLINES_LABEL_CAP];
    is_int((long long)rank_lines_label(INT32_MAX, label), 13,
           "the longest label fits");
}

int main(void)
{
    if (!mkdtemp(dir))
        tap_skip_all("no temporary directory");
    test_stretches();
    test_bound();
    test_input();
    test_lines();
    (void)unlink(path_of(LOGTIMES_NAME));
    ok(rmdir(dir) == 0, "no other file is left");
    return tap_done();
}
