/* data_cache_trust.c - tokenised rows that somebody else has written, or writes
 * to while they are used: none of them is taken, and none ends the job. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/worker/cache_rig.h"
#include "worker/checkpoint/crc64.h"
#include "worker/data/cache/token_file.h"

/* The head of a file, as a forger sees it. */
struct head {
    char magic[8];
    uint64_t sum[4];
    uint64_t values;
    int64_t tokens, labelled;
    int32_t n, longest, most, cut;
};

struct forged {
    struct buf b;
    struct head *h;
    int32_t *ids, *labels;
    struct token_row *rows;
};

static void must(bool holds)
{
    if (!holds) {
        tap_diag("errno: %s", strerror(errno));
        exit(1);
    }
}

static void load(const char *path, struct forged *f)
{
    struct error err = ERROR_INIT;
    f->b = (struct buf)BUF_INIT;
    text_must(buf_read_file(&f->b, path, 1 << 20, &err), &err);
    f->h = (struct head *)(void *)f->b.data;
    f->ids = (int32_t *)(void *)(f->b.data + token_file_base());
    f->labels = f->ids + f->h->values;
    f->rows = (struct token_row *)(void *)(f->labels + f->h->values);
}

/* With right sums, which anybody can compute. */
static void store(const char *path, struct forged *f)
{
    const size_t bytes = (size_t)f->h->values * sizeof(int32_t);
    f->h->sum[0] = crc64(0, f->ids, bytes);
    f->h->sum[1] = crc64(0, f->labels, bytes);
    f->h->sum[2] =
        crc64(0, f->rows, (size_t)f->h->n * sizeof(struct token_row));
    f->h->sum[3] =
        crc64(0, &f->h->values,
              (size_t)token_file_base() - offsetof(struct head, values));
    FILE *file = fopen(path, "w");
    must(file != NULL && fwrite(f->b.data, 1, f->b.len, file) == f->b.len &&
         fclose(file) == 0);
    buf_clear(&f->b);
}

enum { FORGERIES = 14 };

static const char *forge(struct forged *f, int i)
{
    switch (i) {
    case 0:
        f->h->longest = 1;
        return "a shorter longest row";
    case 1:
        f->h->most = 3;
        return "a lower highest id";
    case 2:
        f->ids[1] = 1 << 30;
        return "an id of 2^30";
    case 3:
        f->ids[1] = -5000000;
        return "an id of -5000000";
    case 4:
        f->labels[f->rows[0].n - 1] = 1 << 30;
        return "a label of 2^30";
    case 5:
        f->rows[0].place.file = 1000000;
        return "a file of which there is none";
    case 6:
        f->rows[0].place.file = -1;
        return "a file before the first";
    case 7:
        f->rows[1].first = 0;
        return "two rows in one place";
    case 8:
        f->rows[1].n += 1;
        return "a row beyond the end";
    case 9:
        f->rows[1].n = -1;
        return "a row of less than nothing";
    case 10:
        f->rows[0].first = SIZE_MAX / 2;
        return "a row far away";
    case 11:
        f->labels[f->rows[0].n - 1] = -1;
        return "fewer labels";
    case 12:
        f->h->labelled = 1;
        return "another sum of labels";
    default:
        f->h->tokens = INT64_MAX;
        return "another sum of tokens";
    }
}

/* A whole file that says something else. */
static void test_forged(void)
{
    struct run r;
    struct token_data plain, d;
    struct error err = ERROR_INIT;
    char path[400];
    begin(&r);
    text_must(token_data_open(&r.tokens, &plain, &err), &err);
    for (int i = 0; i < FORGERIES; i++) {
        struct forged f;
        empty_dir();
        begin(&r);
        open_cache(&r, &d);
        token_data_clear(&d);
        must(files_of(".tokens", path, sizeof(path)) == 1);
        load(path, &f);
        const char *what = forge(&f, i);
        store(path, &f);
        open_cache(&r, &d);
        ok(!d.is_kept && digest_of(&d) == digest_of(&plain) &&
               strstr(r.said, "tokenising again") != NULL,
           "%s: %s", what, r.said);
        token_data_clear(&d);
    }
    token_data_clear(&plain);
}

/* Pairs are two rows each, and rows are cut at max_seq_len. */
static void test_wanted(void)
{
    struct run r;
    struct token_data d;
    struct error err = ERROR_INIT;
    char path[400];
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    const int32_t longest = d.longest;
    token_data_clear(&d);
    must(files_of(".tokens", path, sizeof(path)) == 1);
    struct token_file_want want = {.files = 1, .longest = longest};
    text_must(token_file_read(path, &want, &d, &err), &err);
    is_int(d.n, 2, "two rows");
    token_data_clear(&d);
    want.longest--;
    ok(token_file_read(path, &want, &d, &err) < 0 && err.code == ERR_INVAL,
       "a row that is too long: %s", err.msg);
    struct forged f;
    load(path, &f);
    f.h->n = 1;
    f.b.len -= sizeof(struct token_row);
    f.h->tokens = f.h->longest = f.rows[0].n;
    f.h->labelled = f.rows[0].labelled;
    store(path, &f);
    want = (struct token_file_want){.files = 1};
    if (token_file_read(path, &want, &d, &err) == 0)
        token_data_clear(&d);
    want.pairs = true;
    ok(token_file_read(path, &want, &d, &err) < 0 && err.code == ERR_INVAL,
       "half a pair: %s", err.msg);
}

/* What is in the place of a file. */
static void test_no_file(void)
{
    struct run r;
    struct token_data d;
    char path[400], moved[100];
    (void)snprintf(moved, sizeof(moved), "%s/moved", dir);
    for (int i = 0; i < 4; i++) {
        empty_dir();
        begin(&r);
        open_cache(&r, &d);
        token_data_clear(&d);
        must(files_of(".tokens", path, sizeof(path)) == 1);
        must(rename(path, moved) == 0);
        must((i == 0   ? mkfifo(path, 0600)
              : i == 1 ? symlink(moved, path)
              : i == 2 ? symlink("/dev/zero", path)
                       : symlink("/etc/passwd", path)) == 0);
        (void)alarm(60);
        open_cache(&r, &d);
        (void)alarm(0);
        ok(!d.is_kept && d.n == 2 && strstr(r.said, "tokenising again") != NULL,
           "%s: %s", i == 0 ? "a FIFO" : "a link", r.said);
        token_data_clear(&d);
        (void)unlink(moved);
    }
}

/* ---- whose it is --------------------------------------------------------- */

enum { OTHER = 4242 };

static int lines_with(const char *said, const char *what)
{
    int n = 0;
    for (const char *p = said; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

/* A directory beside the data, with a good file in it. */
static void put_beside(char *beside, size_t cap, char *path, size_t path_cap)
{
    char from[400];
    struct run r;
    struct token_data d;
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    token_data_clear(&d);
    (void)snprintf(beside, cap, "%s/.mgpu", dir);
    must(files_of(".tokens", from, sizeof(from)) == 1);
    must(mkdir(beside, 0755) == 0);
    (void)snprintf(path, path_cap, "%s%s", beside, strrchr(from, '/'));
    must(rename(from, path) == 0 && chmod(path, 0644) == 0);
    empty_dir();
}

static void remove_beside(const char *beside)
{
    char command[500];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", beside);
    must(system(command) == 0); /* NOLINT(cert-env33-c) */
}

static bool give(const char *path, uid_t uid)
{
    return lchown(path, uid, (gid_t)-1) == 0;
}

/* in   i  what is changed; false: not by this user */
static bool set_owners(int i, const char *beside, const char *path)
{
    const bool root = geteuid() == 0;
    switch (i) {
    case 0:
        return true;
    case 1:
        return chmod(beside, 0775) == 0;
    case 2:
        return chmod(beside, 01777) == 0;
    case 3:
        return chmod(path, 0664) == 0;
    case 4:
        return root && give(beside, OTHER);
    case 5:
        return root && give(path, OTHER);
    case 6: /* all of it is the data's owner's */
        return root && give(data, OTHER) && give(beside, OTHER) &&
               give(path, OTHER);
    default: /* another's link to a directory of this user */
        return root && rename(beside, model) == 0 &&
               symlink(model, beside) == 0 && give(beside, OTHER);
    }
}

static void test_owners(void)
{
    static const struct {
        const char *what, *said; /* NULL: it is used */
    } cases[] = {{"one's own", NULL},
                 {"a directory of a group", "may write to"},
                 {"a directory of everybody", "may write to"},
                 {"a file of a group", "may write to"},
                 {"another's directory", "belongs to uid 4242"},
                 {"another's file", "belongs to uid 4242"},
                 {"the data's owner's", NULL},
                 {"another's link", "belongs to uid 4242"}};
    char beside[80], path[500], kept_model[80];
    memcpy(kept_model, model, sizeof(model));
    for (int i = 0; i < 8; i++) {
        struct run r;
        struct token_data d;
        put_beside(beside, sizeof(beside), path, sizeof(path));
        if (i == 7)
            (void)snprintf(model, sizeof(model), "%s/aside", dir);
        const bool is_set = set_owners(i, beside, path);
        memcpy(model, kept_model, sizeof(model));
        if (is_set) {
            begin(&r);
            open_cache(&r, &d);
            ok(d.n == 2 && d.is_kept == (cases[i].said == NULL), "%s: %s",
               cases[i].what, r.said);
            is_int(cases[i].said != NULL ? lines_with(r.said, cases[i].said)
                                         : 1,
                   1, "said once");
            token_data_clear(&d);
        } else {
            tap_diag("%s: needs root", cases[i].what);
        }
        must(geteuid() != 0 || give(data, geteuid()));
        remove_beside(beside);
        if (i == 7) {
            (void)snprintf(path, sizeof(path), "%s/aside", dir);
            remove_beside(path);
        }
    }
}

/* The next job uses what the first made elsewhere. */
static void test_elsewhere(void)
{
    char beside[80], path[500];
    struct run r;
    struct token_data d;
    put_beside(beside, sizeof(beside), path, sizeof(path));
    must(chmod(beside, 0777) == 0);
    begin(&r);
    open_cache(&r, &d);
    token_data_clear(&d);
    is_int(files_of(".tokens", path, sizeof(path)), 1,
           "rows are made in the user's cache");
    open_cache(&r, &d);
    ok(d.is_kept, "and used from there");
    token_data_clear(&d);
    must(chmod(dir, 0777) == 0);
    begin(&r);
    open_cache(&r, &d);
    ok(!d.is_kept && d.n == 2, "neither is trusted: rows are in memory: %s",
       r.said);
    token_data_clear(&d);
    must(chmod(dir, 0700) == 0);
    remove_beside(beside);
}

/* ---- while it is used ---------------------------------------------------- */

static void test_used(void)
{
    struct run r;
    struct token_data d;
    struct error err = ERROR_INIT;
    int32_t ids[1024], labels[1024];
    uint64_t sum;
    char path[400];
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    token_data_clear(&d);
    open_cache(&r, &d);
    must(d.is_kept && files_of(".tokens", path, sizeof(path)) == 1);
    const struct token_row row = token_data_rows(&d)[0];
    const int32_t far = d.most + 1;
    must(row.n <= 1024);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && pwrite(fd, &far, sizeof(far), token_file_base() + 4) == 4);
    ok(token_data_read(&d, row.first, (size_t)row.n, ids, labels, &err) < 0 &&
           err.code == ERR_IO,
       "an id that comes in later: %s", err.msg);
    must(ftruncate(fd, token_file_base() + 8) == 0 && close(fd) == 0);
    ok(token_data_read(&d, row.first, (size_t)row.n, ids, labels, &err) < 0 &&
           err.code == ERR_IO && strstr(err.msg, path) != NULL,
       "a file that is cut: %s", err.msg);
    ok(token_data_digest(&d, &sum, &err) < 0, "no digest of it: %s", err.msg);
    token_data_clear(&d);
}

/* ---- the lock ------------------------------------------------------------ */

/* A process that holds the lock and does nothing, until it is killed. */
static pid_t hold(const char *path)
{
    char held;
    int ready[2];
    must(pipe(ready) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    must(pid > 0 && close(ready[1]) == 0 && read(ready[0], &held, 1) == 1);
    (void)close(ready[0]);
    return pid;
}

/* Each look takes a minute. */
static double slow_tick(const struct clock *c)
{
    return 60 * tick(c);
}

static void test_lock(void)
{
    static const struct clock clock = {.now_s = slow_tick};
    static const char *const names[] = {"another's", "a group's",
                                        "of one that stands still"};
    for (int i = 0; i < 3; i++) {
        struct run r;
        struct token_data d;
        char path[400];
        if (i == 0 && geteuid() != 0)
            continue;
        empty_dir();
        begin(&r);
        open_cache(&r, &d);
        token_data_clear(&d);
        must(files_of(".tokens", path, sizeof(path)) == 1 &&
             unlink(path) == 0 && files_of(".lock", path, sizeof(path)) == 1);
        must(i > 0 || give(path, OTHER));
        must(i != 1 || chmod(path, 0660) == 0);
        const pid_t pid = hold(path);
        r.conf.clock = i == 2 ? &clock : &clock_real;
        (void)alarm(60);
        open_cache(&r, &d);
        (void)alarm(0);
        ok(!d.is_kept && d.n == 2, "a lock %s: %s", names[i], r.said);
        token_data_clear(&d);
        (void)kill(pid, SIGKILL);
        must(waitpid(pid, NULL, 0) == pid);
    }
}

static void test_lock_fifo(void)
{
    struct run r;
    struct token_data d;
    char path[400];
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    token_data_clear(&d);
    must(files_of(".tokens", path, sizeof(path)) == 1 && unlink(path) == 0);
    must(files_of(".lock", path, sizeof(path)) == 1 && unlink(path) == 0);
    must(mkfifo(path, 0600) == 0);
    (void)alarm(60);
    open_cache(&r, &d);
    (void)alarm(0);
    ok(!d.is_kept && d.n == 2 && strstr(r.said, "not cached") != NULL,
       "a FIFO for a lock: %s", r.said);
    token_data_clear(&d);
}

int main(void)
{
    rig_open();
    test_forged();
    test_wanted();
    test_no_file();
    test_owners();
    test_elsewhere();
    test_used();
    test_lock();
    test_lock_fifo();
    rig_close();
    return tap_done();
}
