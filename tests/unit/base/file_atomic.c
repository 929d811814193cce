/* file_atomic.c - each call of a write fails in turn: the file is the old one
 * or the new one, and no temporary is left. write(), fsync(), close() and
 * rename() are the test's, in place of the C library's. */
#include "jobs/base/file_atomic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/tap.h"

/* The fail_at-th call from now on fails with why, once; 0: none. A write that
 * does not fail takes most_bytes at most. */
struct calls {
    int n, fail_at, why;
};
static struct calls writes, syncs, closes, renames;
static size_t most_bytes = SIZE_MAX;

static bool fails(struct calls *c)
{
    c->n++;
    if (c->n != c->fail_at)
        return false;
    errno = c->why;
    return true;
}

ssize_t write(int fd, const void *p, size_t n)
{
    if (fails(&writes))
        return -1;
    return syscall(SYS_write, fd, p, n < most_bytes ? n : most_bytes);
}

int fsync(int fd)
{
    (void)fd;
    return fails(&syncs) ? -1 : 0;
}

int close(int fd)
{
    int rc = (int)syscall(SYS_close, fd);
    return fails(&closes) ? -1 : rc;
}

int rename(const char *from, const char *to)
{
    if (fails(&renames))
        return -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void all_well(void)
{
    writes = syncs = closes = renames = (struct calls){.n = 0};
    most_bytes = SIZE_MAX;
}

static char dir[] = "/tmp/mgpu-atomic.XXXXXX";

static const char *path_of(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static int is_file(const struct dirent *e)
{
    return e->d_type == DT_REG;
}

/* The files in the directory, and their content: "a=old b=new". */
static const char *listing(void)
{
    static struct buf all;
    struct dirent **list = NULL;
    int n = scandir(dir, &list, is_file, alphasort);
    buf_reset(&all);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        if (buf_addf(&all, NULL, "%s%s=", i > 0 ? " " : "", name) < 0 ||
            buf_read_file(&all, path_of(name), 100, NULL) < 0)
            exit(1);
        free(list[i]);
    }
    free(list);
    return buf_str(&all);
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "we");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        exit(1);
}

static void fresh(void)
{
    put("a", "old");
    all_well();
}

static int mode_of(const char *name)
{
    struct stat st;
    return stat(path_of(name), &st) == 0 ? (int)(st.st_mode & 07777) : -1;
}

static void test_put(void)
{
    struct error err = ERROR_INIT;
    (void)umask(022);
    fresh();
    is_int(file_atomic_put(dir, "a", "new", 3, 0, &err), 0, "put");
    is_str(listing(), "a=new", "  replaces the old one");
    is_int(mode_of("a"), 0600, "  with a file of its owner");
    is_int(syncs.n, 2, "  syncs it, and the directory");
    put("a.tmp", "rubbish");
    if (chmod(path_of("a.tmp"), 0444) < 0)
        exit(1);
    all_well();
    is_int(file_atomic_put(NULL, path_of("a"), "x", 1, FILE_PUBLIC, &err), 0,
           "by its path, with what a killed process left");
    is_str(listing(), "a=x", "  which is gone");
    is_int(mode_of("a"), 0644, "  for everybody");
    all_well();
    ok(file_atomic_put(dir, "a", "y", 1, FILE_NAME_CACHED, &err) == 0 &&
           syncs.n == 1,
       "without its name");
    all_well();
    ok(file_atomic_put(dir, "a", "", 0, FILE_CACHED, &err) == 0 && syncs.n == 0,
       "nothing is synced");
    is_str(listing(), "a=", "  and it may be empty");
}

/* The n-th call of a kind fails, once. A file is of two writes. */
struct failure {
    struct calls *calls;
    int at, why;
    enum err_code code;
    const char *after, *what;
};

static void arm(const struct failure *f)
{
    fresh();
    put(".room", "    ");
    most_bytes = 2;
    f->calls->fail_at = f->at;
    f->calls->why = f->why;
}

static void is_left(const char *want, const char *what)
{
    (void)unlink(path_of(".room")); /* of a call that has no use for it */
    all_well();
    is_str(listing(), want, what);
}

static void test_fails(void)
{
    static const struct failure rows[] = {
        {&writes, 1, ENOSPC, ERR_IO, "a=old", "the disk is full"},
        {&writes, 2, ENOSPC, ERR_IO, "a=old", "the disk gets full"},
        {&syncs, 1, EIO, ERR_IO, "a=old", "the file cannot be synced"},
        {&closes, 1, EDQUOT, ERR_IO, "a=old", "a quota, told at the end"},
        {&renames, 1, EACCES, ERR_DENIED, "a=old", "it may have no name"},
        {&syncs, 2, EIO, ERR_IO, "a=new", "the directory cannot be synced"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct failure *f = &rows[i];
        struct error err = ERROR_INIT;
        arm(f);
        ok(file_atomic_put(dir, "a", "new", 3, 0, &err) == -1 &&
               err.code == f->code,
           "%s: %s", f->what, err.msg);
        ok(strstr(err.msg, f->after[2] == 'o' ? "/a'" : dir) != NULL,
           "  the message names the file");
        is_left(f->after, "  and no temporary is left");
        if (f->at == 2 && f->calls == &syncs)
            continue; /* the others do not sync the directory */
        arm(f);
        ok(file_atomic_put_over(dir, "a", ".room", "new", 3, &err) == -1 &&
               err.code == f->code && access(path_of(".room"), F_OK) < 0,
           "  over a reserved file, too");
        is_left("a=old", "  and none is left");
        if (f->calls == &renames)
            continue;
        arm(f);
        ok(file_atomic_create(dir, "b", "new", 3, &err) == -1 &&
               err.code == f->code,
           "  and under its own name");
        is_left("a=old", "  and none is left");
    }
}

static void test_interrupted(void)
{
    struct error err = ERROR_INIT;
    fresh();
    most_bytes = 1;
    writes = (struct calls){.fail_at = 2, .why = EINTR};
    syncs = (struct calls){.fail_at = 1, .why = EINTR};
    is_int(file_atomic_put(dir, "a", "new", 3, 0, &err), 0, "interrupted");
    ok(writes.n == 4 && syncs.n == 3, "  goes on");
    all_well();
    is_str(listing(), "a=new", "  to its end");
}

/* What the kernel itself refuses. */
static void test_refused(void)
{
    struct error err = ERROR_INIT;
    struct rlimit old, small = {.rlim_cur = 2};
    fresh();
    (void)signal(SIGXFSZ, SIG_IGN);
    if (getrlimit(RLIMIT_FSIZE, &old) < 0)
        exit(1);
    small.rlim_max = old.rlim_max;
    (void)setrlimit(RLIMIT_FSIZE, &small);
    int rc = file_atomic_put(dir, "a", "new", 3, 0, &err);
    (void)setrlimit(RLIMIT_FSIZE, &old);
    ok(rc == -1 && err.code == ERR_IO, "a file that becomes too large: %s",
       err.msg);
    is_str(listing(), "a=old", "  is not there");

    ok(file_atomic_create(dir, "a", "new", 3, &err) == -1,
       "a new file where one is: %s", err.msg);
    is_str(listing(), "a=old", "  does not replace it");

    if (mkdir(path_of("d"), 0700) < 0)
        exit(1);
    ok(file_atomic_put(dir, "d", "new", 3, 0, &err) == -1 && err.code == ERR_IO,
       "a directory in its place: %s", err.msg);
    is_int(mode_of("d.tmp"), -1, "  no temporary is left");
    is_int(rmdir(path_of("d")), 0, "  and the directory stays");

    ok(file_atomic_put("/nonexistent", "a", "new", 3, 0, &err) == -1 &&
           err.code == ERR_NOTFOUND,
       "no directory: %s", err.msg);
    if (chmod(dir, 0555) < 0 || (geteuid() == 0 && seteuid(65534) < 0))
        exit(1);
    ok(file_atomic_put(dir, "a", "new", 3, 0, &err) == -1 &&
           err.code == ERR_DENIED,
       "a directory that is not writable: %s", err.msg);
    if ((getuid() == 0 && seteuid(0) < 0) || chmod(dir, 0700) < 0)
        exit(1);
    is_str(listing(), "a=old", "  keeps what it has");

    char name[5000];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    ok(file_atomic_put(dir, name, "", 0, 0, &err) == -1 &&
           err.code == ERR_INVAL,
       "a path that is too long: %.40s", err.msg);
}

static void test_over(void)
{
    struct error err = ERROR_INIT;
    struct stat room, st;
    fresh();
    put(".room", "      ");
    if (stat(path_of(".room"), &room) < 0)
        exit(1);
    is_int(file_atomic_put_over(dir, "a", ".room", "new", 3, &err), 0,
           "over a reserved file");
    is_str(listing(), "a=new", "  which has the name then");
    ok(stat(path_of("a"), &st) == 0 && st.st_ino == room.st_ino,
       "  and is the same");
    is_int(syncs.n, 1, "  synced");
    is_int(file_atomic_put_over(dir, "a", ".room", "more", 4, &err), 0,
           "it may be missing");
    is_str(listing(), "a=more", "  then it is a new one");
    is_int(mode_of("a"), 0600, "  of its owner");
}

static void test_steps(void)
{
    struct error err = ERROR_INIT;
    struct file_atomic f = FILE_ATOMIC_INIT;
    fresh();
    ok(file_atomic_open(&f, dir, "a", &err) == 0 &&
           file_atomic_write(&f, "ne", 2, &err) == 0 &&
           file_atomic_write(&f, "w", 1, &err) == 0,
       "in steps");
    is_str(listing(), "a=old a.tmp=new", "  it is beside the old one");
    ok(file_atomic_close(&f, &err) == 0 && file_atomic_rename(&f, &err) == 0,
       "  until it is complete");
    file_atomic_clear(&f);
    is_str(listing(), "a=new", "  and has the name");
    is_int(syncs.n, 1, "  synced");
    is_int(mode_of("a"), 0644, "  for everybody");

    fresh();
    ok(file_atomic_open(&f, dir, "a", &err) == 0 &&
           file_atomic_write(&f, "new", 3, &err) == 0,
       "one that is given up");
    file_atomic_clear(&f);
    is_str(listing(), "a=old", "  is gone");
    ok(file_atomic_open(&f, "/nonexistent", "a", &err) == -1, "no directory");
    file_atomic_clear(&f);
}

static void test_sync(void)
{
    struct error err = ERROR_INIT;
    fresh();
    ok(file_atomic_sync(dir, &err) == 0 &&
           file_atomic_sync_parent("x", &err) == 0 &&
           file_atomic_sync_parent("/x", &err) == 0 &&
           file_atomic_sync_parent(path_of("a"), &err) == 0 && syncs.n == 4,
       "directories are synced");
    ok(file_atomic_sync_parent("/nonexistent/x", &err) == -1 &&
           err.code == ERR_NOTFOUND,
       "one that is not there: %s", err.msg);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_put();
    test_fails();
    test_interrupted();
    test_refused();
    test_over();
    test_steps();
    test_sync();
    (void)unlink(path_of("a"));
    ok(rmdir(dir) == 0, "nothing is left");
    return tap_done();
}
