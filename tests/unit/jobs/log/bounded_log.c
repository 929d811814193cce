/* bounded_log.c - a bounded log keeps its head and its tail, and says the gap.
 */
#include "jobs/log/bounded_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static char dir[] = "/tmp/joblog.XXXXXX";

/* What byte `at` of every stream of this test is. */
static char byte_at(uint64_t at)
{
    return (char)('a' + (at * 7 + at / 251) % 26);
}

static void write_stream(struct bounded_log *l, uint64_t from, uint64_t to,
                         size_t step)
{
    char buf[1500];
    struct error err = ERROR_INIT;
    while (from < to) {
        size_t n = to - from < step ? (size_t)(to - from) : step;
        for (size_t i = 0; i < n; i++)
            buf[i] = byte_at(from + i);
        if (bounded_log_write(l, buf, n, &err) < 0)
            ok(false, "write: %s", err.msg);
        from += n;
    }
}

struct seen {
    uint64_t got, dropped, end;
    bool is_right;
};

static struct seen read_all(uint64_t from, size_t cap)
{
    char buf[1500];
    struct seen s = {.is_right = true};
    struct error err = ERROR_INIT;
    uint64_t at = from;
    for (;;) {
        size_t n;
        uint64_t dropped;
        if (bounded_log_read(dir, &at, buf, cap, &n, &dropped, &err) < 0) {
            s.is_right = false;
            break;
        }
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++)
            s.is_right = s.is_right && buf[i] == byte_at(at - n + i);
        s.got += n;
        s.dropped += dropped;
    }
    s.end = at;
    return s;
}

static long long bytes_on_disk(void)
{
    long long sum = 0;
    DIR *d = opendir(dir);
    const struct dirent *e;
    struct stat st;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && fstatat(dirfd(d), e->d_name, &st, 0) == 0)
            sum += st.st_size;
    if (d)
        (void)closedir(d);
    return sum;
}

/* At, one under and one over each boundary: half (the head), then quarters. */
static void test_bounds(void)
{
    enum { MAX = 8192 };
    static const uint64_t edges[] = {MAX / 2, 3 * MAX / 4, MAX, 5 * MAX / 4,
                                     6 * MAX / 4};
    for (size_t e = 0; e < sizeof(edges) / sizeof(edges[0]); e++) {
        for (uint64_t end = edges[e] - 1; end <= edges[e] + 1; end++) {
            struct error err = ERROR_INIT;
            struct bounded_log *l = NULL;
            if (bounded_log_create(dir, MAX, &l, &err) < 0)
                break;
            write_stream(l, 0, end, 1000);
            struct seen s = read_all(0, 1500);
            bool is_whole = end <= MAX;
            ok(s.is_right && s.end == end && s.got + s.dropped == end &&
                   (s.dropped == 0) == is_whole && s.got <= MAX &&
                   s.got >= (is_whole ? end : (uint64_t)3 * MAX / 4),
               "%llu bytes: %llu kept, %llu dropped", (unsigned long long)end,
               (unsigned long long)s.got, (unsigned long long)s.dropped);
            bounded_log_destroy(l);
        }
    }
}

static void test_follow(void)
{
    struct error err = ERROR_INIT;
    struct bounded_log *l = NULL;
    ok(bounded_log_create(dir, 65536, &l, &err) == 0, "a new log");
    struct seen s = read_all(0, 100);
    ok(s.is_right && s.got == 0, "is empty, also after an older one");
    uint64_t at = 0;
    bool all = true;
    for (uint64_t to = 777; to < 500000; to += 777) {
        write_stream(l, at, to, 1111);
        s = read_all(at, 512);
        all = all && s.is_right && s.got == to - at && s.dropped == 0;
        at = to;
    }
    ok(all, "a reader that keeps up misses nothing");
    ok(bytes_on_disk() <= 65536, "and the disk holds no more than the limit");
    s = read_all(300000, 1500);
    ok(s.is_right && s.dropped > 0 && s.end == at,
       "one that comes late is told what it missed");
    s = read_all(at - 10, 1500);
    ok(s.is_right && s.got == 10 && s.dropped == 0, "the last bytes are there");
    bounded_log_destroy(l);
}

static void test_errors(void)
{
    struct error err = ERROR_INIT;
    uint64_t at = 0;
    uint64_t dropped;
    size_t n;
    char c;
    is_int(bounded_log_read("/nonexistent", &at, &c, 1, &n, &dropped, &err), -1,
           "no directory");
    is_int(err.code, ERR_NOTFOUND, "is ERR_NOTFOUND");
    char marker[JOBLOG_MARKER_CAP];
    (void)bounded_log_marker(UINT64_MAX, marker);
    is_str(marker, "\n[mgpu: 18446744073709551615 bytes of output dropped]\n",
           "the longest marker fits");
    struct bounded_log *l = NULL;
    ok(bounded_log_create(dir, 0, &l, &err) == 0, "a limit of 0 is raised");
    write_stream(l, 0, 100000, 1000);
    ok(bytes_on_disk() <= JOBLOG_MIN_BYTES, "to the smallest one");
    bounded_log_destroy(l);
    bounded_log_destroy(NULL);
}

/* Whoever waits for a pipe's other end is killed by the alarm. */
static void test_pipes(void)
{
    struct error err = ERROR_INIT;
    char path[64], c;
    uint64_t at = 0, dropped;
    size_t n;
    (void)alarm(60);
    struct bounded_log *l = NULL;
    ok(bounded_log_create(dir, 0, &l, &err) == 0, "a log");
    (void)snprintf(path, sizeof(path), "%s/log.%012d", dir,
                   JOBLOG_MIN_BYTES / 2);
    ok(mkfifo(path, 0600) == 0, "a pipe where its next part goes");
    static char text[JOBLOG_MIN_BYTES / 2 + 1];
    memset(text, 'x', sizeof(text));
    is_int(bounded_log_write(l, text, sizeof(text), &err), -1,
           "is an error, and not waited for");
    is_int(bounded_log_write(l, text, 10, &err), 0,
           "what comes after it is kept");
    bounded_log_destroy(l);
    (void)snprintf(path, sizeof(path), "%s/log", dir);
    ok(unlink(path) == 0 && mkfifo(path, 0600) == 0, "a pipe instead of it");
    is_int(bounded_log_read(dir, &at, &c, 1, &n, &dropped, &err), -1,
           "is not read from");
    (void)alarm(0);
}

static void clean(void)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
    (void)rmdir(dir);
}

int main(void)
{
    if (!mkdtemp(dir))
        tap_skip_all("no temporary directory");
    test_bounds();
    test_follow();
    test_errors();
    test_pipes();
    clean();
    return tap_done();
}
