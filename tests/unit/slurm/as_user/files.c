/* files.c - a user's files through the helper: whose, which, and what
 * happens when nobody answers. As root each user has an own reader; as
 * somebody else there is only one, and a few tests fewer. */
#include "slurm/as_user/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/log/bounded_log.h"
#include "tests/tap.h"

enum { N_JOBS = 10 }; /* of which only 1 and 2 are there */
static char top[64], dirs[N_JOBS][96];
static uid_t me, other; /* whose jobs 1 and 2 are */

struct served {
    struct files *files;
    pid_t pid;
};

static const char *slurm_conf;

static void start(struct served *s, enum files_whom whom)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        exit(1);
    s->pid = fork();
    if (s->pid == 0) {
        (void)close(pair[0]);
        _exit(files_serve(pair[1], whom, slurm_conf));
    }
    (void)close(pair[1]);
    if (s->pid < 0 || files_helper_create(pair[0], &s->files, NULL) < 0)
        exit(1);
}

static int stop(struct served *s)
{
    int status = -1;
    s->files->ops->destroy(s->files);
    (void)waitpid(s->pid, &status, 0);
    return status;
}

static const char *dir_of(int job)
{
    return dirs[job];
}

static void give(const char *path, uid_t uid)
{
    if (chown(path, uid, uid == 0 ? 0 : (gid_t)-1) < 0)
        exit(1);
}

static void put(int job, const char *name, const char *text)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", dir_of(job), name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        exit(1);
    if (chmod(path, 0600) < 0)
        exit(1);
    give(path, job == 1 ? me : other);
}

static void make_job(int job, uid_t uid)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/%d", top, job);
    if (mkdir(path, 0700) < 0 || mkdir(dir_of(job), 0700) < 0)
        exit(1);
    give(path, uid);
    give(dir_of(job), uid);
}

/* What does not answer within its two seconds, on a machine that has much to
 * do, is asked again. */
static bool once_more(int rc, const struct error *err, int *n_tries)
{
    bool is_late = rc < 0 && err->code == ERR_TIMEOUT && ++*n_tries < 1200;
    if (is_late)
        (void)poll(NULL, 0, 50);
    return is_late;
}

static int read_of(struct files *f, int job, const char *name, uint64_t at,
                   char *p, size_t cap, size_t *ret_n)
{
    struct error err = ERROR_INIT;
    int rc, n_tries = 0;
    do
        rc = f->ops->read(f, me, dir_of(job), name, at, p, cap, ret_n, &err);
    while (once_more(rc, &err, &n_tries));
    return rc;
}

static int log_of(struct files *f, int job, uint64_t *at, char *p, size_t cap,
                  size_t *ret_n, uint64_t *ret_dropped, struct error *err)
{
    int rc, n_tries = 0;
    do
        rc = f->ops->log(f, me, dir_of(job), at, p, cap, ret_n, ret_dropped,
                         err);
    while (once_more(rc, err, &n_tries));
    return rc;
}

/* The file's text, or the error's code: "-DENIED". */
static const char *asked_once(struct files *f, uid_t uid, int job,
                              const char *name)
{
    static char text[256];
    struct error err = ERROR_INIT;
    size_t n = 0;
    if (f->ops->read(f, uid, dir_of(job), name, 0, text, sizeof(text) - 1, &n,
                     &err) < 0)
        (void)snprintf(text, sizeof(text), "-%s", error_word(err.code));
    else
        text[n] = '\0';
    return text;
}

static const char *text_of(struct files *f, uid_t uid, int job,
                           const char *name)
{
    const char *text;
    int n_tries = 0;
    const struct error late = {.code = ERR_TIMEOUT};
    do
        text = asked_once(f, uid, job, name);
    while (once_more(strcmp(text, "-TIMEOUT") == 0 ? -1 : 0, &late, &n_tries));
    return text;
}

/* What is denied to a stranger is so for the readers of the helper only: a
 * daemon's own reading is bound by nothing but its own rights. */
static void test_files(struct files *f, const char *who)
{
    char path[160], text[64];
    size_t n = 9;
    tap_diag("%s", who);
    put(1, "spool.0", "hello");
    is_str(text_of(f, me, 1, "spool.0"), "hello", "a file is read");
    ok(read_of(f, 1, "spool.0", 2, text, 2, &n) == 0 && n == 2 &&
           memcmp(text, "ll", 2) == 0,
       "a part of it");
    ok(read_of(f, 1, "spool.0", 5, text, 2, &n) == 0 && n == 0, "its end");
    is_str(text_of(f, me, 1, "spool.1"), "-NOTFOUND", "what is not there");
    is_str(text_of(f, me, 9, "spool.1"), "-NOTFOUND", "where nothing is");
    (void)snprintf(path, sizeof(path), "%s/spool.2", dir_of(1));
    (void)!symlink("spool.0", path);
    is_str(text_of(f, me, 1, "spool.2"), "-INVAL", "a link is refused");
    (void)unlink(path);
    (void)mkfifo(path, 0600);
    give(path, me);
    is_str(text_of(f, me, 1, "spool.2"), "-INVAL", "a pipe is refused");
    (void)unlink(path);
    (void)mkdir(path, 0755);
    is_str(text_of(f, me, 1, "spool.2"), "-INVAL", "a directory is refused");
    (void)rmdir(path);
}

static void test_log(struct files *f)
{
    struct error err = ERROR_INIT;
    uint64_t at = 0, dropped = 9;
    char text[64];
    size_t n = 0;
    put(1, "log", "0123");
    put(1, "log.000000000008", "89");
    ok(log_of(f, 1, &at, text, sizeof(text), &n, &dropped, &err) == 0 &&
           n == 4 && at == 4 && dropped == 0 && memcmp(text, "0123", 4) == 0,
       "the head of a log");
    ok(log_of(f, 1, &at, text, sizeof(text), &n, &dropped, &err) == 0 &&
           n == 2 && at == 10 && dropped == 4 && memcmp(text, "89", 2) == 0,
       "its tail, and what is missing between");
    ok(log_of(f, 1, &at, text, sizeof(text), &n, &dropped, &err) == 0 &&
           n == 0 && at == 10,
       "its end");
    at = 3;
    ok(log_of(f, 7, &at, text, sizeof(text), &n, &dropped, &err) < 0 &&
           err.code == ERR_NOTFOUND && at == 3,
       "no log");
}

/* ---- through the helper ---------------------------------------------------
 */
static void test_names(struct files *f)
{
    put(1, "secret", "key");
    put(1, "launch.json", "{}");
    is_str(text_of(f, me, 1, "secret"), "-INVAL", "no other file is read");
    is_str(text_of(f, me, 1, "launch.json"), "-INVAL", "not even of the job's");
    is_str(text_of(f, me, 1, "../1/spool.0"), "-INVAL", "nor elsewhere");
    is_str(text_of(f, me, 1, "."), "-INVAL", "nor the directory");
}

static void test_long(struct files *f)
{
    enum { N = 200000 };
    char path[160], *all = malloc(N), *got = malloc(N);
    size_t len = 0, n = 0;
    int n_reads = 0;
    for (size_t i = 0; i < N; i++)
        all[i] = (char)('a' + i % 23);
    put(1, "spool.5", "");
    (void)snprintf(path, sizeof(path), "%s/spool.5", dir_of(1));
    FILE *out = fopen(path, "w");
    if (!out || fwrite(all, 1, N, out) != N || fclose(out) != 0)
        exit(1);
    while (read_of(f, 1, "spool.5", len, got + len, N - len, &n) == 0 &&
           n > 0 && len + n <= N) {
        len += n;
        n_reads++;
        if (len == N)
            break;
    }
    ok(len == N && memcmp(all, got, N) == 0 && n_reads == 4,
       "a long file comes in pieces");
    free(all);
    free(got);
}

static void test_users(struct files *f)
{
    char path[160];
    put(1, "spool.0", "mine");
    put(2, "spool.0", "theirs");
    is_str(text_of(f, me, 1, "spool.0"), "mine", "one user's file");
    is_str(text_of(f, other, 2, "spool.0"), "theirs", "another's");
    is_str(text_of(f, other, 1, "spool.0"), "-DENIED", "not crosswise");
    is_str(text_of(f, me, 2, "spool.0"), "-DENIED", "nor the other way");
    is_str(text_of(f, 0, 1, "spool.0"), "-DENIED", "not as root");
    is_str(text_of(f, 3999999999, 1, "spool.0"), "-DENIED",
           "not as a uid without an account");
    /* A file that only root may read, reached through the user's own. */
    put(1, "spool.3", "");
    (void)snprintf(path, sizeof(path), "%s/spool.3", dir_of(1));
    give(path, 0);
    is_str(text_of(f, me, 1, "spool.3"), "-DENIED", "no rights but the user's");
}

/* The group lets nobody in whom the system does not name. */
static void test_groups(struct files *f)
{
    char path[160];
    put(1, "spool.0", "x");
    (void)snprintf(path, sizeof(path), "%s/spool.0", dir_of(1));
    give(path, 0);
    (void)chmod(path, 0640);
    is_str(text_of(f, me, 1, "spool.0"), "-DENIED", "root's group is gone");
    (void)unlink(path);
}

/* ---- when nobody answers --------------------------------------------------
 */
/* The children of a process that are not stopped, killed with `signo`. */
static int signal_readers(pid_t pid, int signo)
{
    char path[64], text[256] = "";
    int n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid,
                   (int)pid);
    FILE *f = fopen(path, "r");
    if (f) {
        (void)!fgets(text, sizeof(text), f);
        (void)fclose(f);
    }
    for (char *p = text, *end; *p; p = end) {
        long child = strtol(p, &end, 10);
        if (end == p)
            break;
        if (child > 1 && kill((pid_t)child, signo) == 0)
            n++;
    }
    return n;
}

/* Descriptors of the one reader that there is; -1 without it. */
static int count_fds(pid_t pid)
{
    char path[64], text[64] = "";
    struct dirent *e;
    int n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid,
                   (int)pid);
    FILE *f = fopen(path, "r");
    if (f) {
        (void)!fgets(text, sizeof(text), f);
        (void)fclose(f);
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/fd", strtol(text, NULL, 10));
    DIR *d = opendir(path);
    while (d && (e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    if (d)
        (void)closedir(d);
    return d ? n : -1;
}

static bool reads_again(struct files *f, uid_t uid, int job, const char *text)
{
    for (int i = 0; i < 1200; i++) {
        if (strcmp(asked_once(f, uid, job, "spool.0"), text) == 0)
            return true;
        (void)poll(NULL, 0, 50);
    }
    return false;
}

static void test_hang(struct served *s, bool has_other)
{
    put(1, "spool.0", "mine");
    put(1, "report.json", "report");
    if (has_other)
        put(2, "spool.0", "theirs");
    ok(reads_again(s->files, me, 1, "mine"), "a reader is there");
    if (geteuid() == 0) /* others may not look */
        ok(count_fds(s->pid) == 4, "it has nothing but its socket");
    is_int(signal_readers(s->pid, SIGSTOP), 1, "it hangs");
    is_str(asked_once(s->files, me, 1, "spool.0"), "-TIMEOUT", "a deadline");
    double at_s = clock_real.now_s(&clock_real);
    for (int i = 0; i < 20; i++)
        if (strcmp(asked_once(s->files, me, 1, "spool.0"), "-TIMEOUT") != 0)
            at_s = -1e9;
    ok(clock_real.now_s(&clock_real) - at_s < 20, "then no more waiting");
    if (has_other)
        ok(reads_again(s->files, other, 2, "theirs"), "nobody else waits");
    put(1, "spool.0", "changed");
    (void)signal_readers(s->pid, SIGCONT);
    ok(reads_again(s->files, me, 1, "changed"), "it answers again");
    is_str(text_of(s->files, me, 1, "report.json"), "report",
           "to what it is asked");
    (void)signal_readers(s->pid, SIGKILL);
    ok(reads_again(s->files, me, 1, "changed"), "a dead reader is replaced");
}

static void test_gone(struct served *s)
{
    int status = 0;
    put(1, "spool.0", "mine");
    is_str(text_of(s->files, me, 1, "spool.0"), "mine", "the helper is there");
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, &status, 0);
    is_str(text_of(s->files, me, 1, "spool.0"), "-UNAVAIL", "and gone");
    is_str(text_of(s->files, me, 1, "spool.0"), "-UNAVAIL", "for good");
    s->files->ops->destroy(s->files);
}

/* ---- from several threads -------------------------------------------------
 */
static void *read_much(void *arg)
{
    struct files *f = arg;
    char text[16];
    size_t n = 0;
    intptr_t n_wrong = 0;
    for (int i = 0; i < 300; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "spool.%d", 10 + i % 2);
        if (read_of(f, 1, name, 0, text, sizeof(text), &n) < 0 || n != 1 ||
            text[0] != (i % 2 ? 'b' : 'a'))
            n_wrong++;
    }
    return (void *)n_wrong;
}

static void test_threads(struct files *f)
{
    pthread_t id[4];
    intptr_t n_wrong = 0;
    void *ret;
    put(1, "spool.10", "a");
    put(1, "spool.11", "b");
    for (int i = 0; i < 4; i++)
        if (pthread_create(&id[i], NULL, read_much, f) != 0)
            exit(1);
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(id[i], &ret);
        n_wrong += (intptr_t)ret;
    }
    is_int(n_wrong, 0, "threads get their own answers");
}

static void test_direct(void)
{
    struct files *f = NULL;
    if (files_direct_create(&f, NULL) < 0)
        exit(1);
    test_files(f, "directly");
    test_log(f);
    f->ops->destroy(f);
}

static void test_root(void)
{
    struct served s;
    start(&s, FILES_USERS);
    test_files(s.files, "through the helper, as root");
    test_log(s.files);
    test_names(s.files);
    test_users(s.files);
    test_groups(s.files);
    test_long(s.files);
    test_threads(s.files);
    (void)stop(&s);
    start(&s, FILES_USERS); /* without readers */
    test_hang(&s, true);
    is_int(stop(&s), 0, "the helper ends with the daemon");
    start(&s, FILES_USERS);
    test_gone(&s);
    put(1, "spool.0", "mine");
    start(&s, FILES_ALL);
    is_str(text_of(s.files, 0, 1, "spool.0"), "mine", "root, where allowed");
    (void)stop(&s);
}

/* SlurmUser's files are nobody's here; those of others are. */
static void test_guarded(void)
{
    struct served s;
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/slurm.conf", top);
    FILE *f = fopen(path, "w");
    if (!f || fprintf(f, "SlurmUser=%d\n", (int)other) < 0 || fclose(f) != 0)
        exit(1);
    put(1, "spool.0", "mine");
    put(2, "spool.0", "its");
    start(&s, FILES_USERS);
    is_str(text_of(s.files, other, 2, "spool.0"), "its", "an ordinary user's");
    (void)stop(&s);
    slurm_conf = path;
    start(&s, FILES_USERS);
    is_str(text_of(s.files, other, 2, "spool.0"), "-DENIED", "SlurmUser's");
    is_str(text_of(s.files, me, 1, "spool.0"), "mine", "another's still");
    (void)stop(&s);
    slurm_conf = NULL;
}

static void test_own(void)
{
    struct served s;
    start(&s, FILES_OWN);
    test_files(s.files, "through the helper, as oneself");
    test_log(s.files);
    test_names(s.files);
    is_str(text_of(s.files, me + 1, 1, "spool.0"), "-DENIED", "nobody else's");
    test_threads(s.files);
    test_hang(&s, false);
    is_int(stop(&s), 0, "the helper ends with the daemon");
    start(&s, FILES_OWN);
    test_gone(&s);
}

static int unlink_one(const char *path, const struct stat *st, int kind,
                      struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(top, sizeof(top), "/tmp/mgpu-files.XXXXXX");
    if (!mkdtemp(top) || chmod(top, 0755) < 0)
        exit(1);
    me = geteuid() == 0 ? 65534 : geteuid();
    other = geteuid() == 0 ? 1 : geteuid();
    for (int i = 0; i < N_JOBS; i++)
        (void)snprintf(dirs[i], sizeof(dirs[i]), "%s/%d/1", top, i);
    make_job(1, me);
    make_job(2, other);
    test_direct();
    bool is_root = geteuid() == 0;
    if (is_root)
        test_root();
    if (is_root)
        test_guarded();
    if (is_root && seteuid(me) < 0)
        exit(1);
    test_own();
    if (is_root && seteuid(0) < 0)
        exit(1);
    (void)nftw(top, unlink_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
