/* store_dir.c - which directories hold a store, and who holds the lock. */
#include "db/store_dir.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/tap.h"
#include "tests/unit/db/tmp.h"

static int take(const char *dir, struct error *err)
{
    char *path = NULL;
    int fd = -1, rc = dir_take(dir, &path, &fd, err);

    if (rc == 0) {
        free(path);
        close(fd);
    } else {
        ok(!path && fd == -1, "outputs are untouched");
    }
    return rc;
}

static void refused(const char *dir, enum err_code code, const char *why)
{
    struct error err = ERROR_INIT;

    is_int(take(dir, &err), -1, why);
    is_int(err.code, code, "with its code");
    ok(strstr(err.msg, why), "says: %s", err.msg);
}

static void test_create(void)
{
    struct tmp t;
    struct error err = ERROR_INIT;
    struct stat st;

    tmp_begin(&t);
    ok(rmdir(t.dir) == 0 && take(t.dir, &err) == 0, "creates the directory");
    ok(stat(t.dir, &st) == 0 && (st.st_mode & 07777) == 0700, "as 0700");
    ok(take(t.dir, &err) == 0, "takes it when it is there");
    tmp_end(&t);
    refused("/nonexistent/store", ERR_NOTFOUND, "create");
}

static void test_refused(void)
{
    struct tmp t;

    tmp_begin(&t);
    ok(chmod(t.dir, 0770) == 0, "a group can write");
    refused(t.dir, ERR_CONFIG, "writable by others");
    ok(chmod(t.dir, 0702) == 0, "all can write");
    refused(t.dir, ERR_CONFIG, "writable by others");
    ok(chmod(t.dir, 0750) == 0, "a group can read");
    struct error err = ERROR_INIT;
    ok(take(t.dir, &err) == 0, "is fine");
    char link[96];
    (void)snprintf(link, sizeof(link), "%s.link", t.dir);
    ok(symlink(t.dir, link) == 0, "a symbolic link");
    refused(link, ERR_CONFIG, "symbolic link");
    (void)unlink(link);
    if (geteuid() == 0) {
        ok(chown(t.dir, 1, 1) == 0, "another owner");
        refused(t.dir, ERR_CONFIG, "belongs to uid 1");
    }
    tmp_end(&t);
    refused("/dev/null", ERR_CONFIG, "no directory");
}

static void test_lock(void)
{
    struct tmp t;
    struct error err = ERROR_INIT;
    char *path = NULL, want[64];
    int fd = -1, status = -1;

    tmp_begin(&t);
    ok(dir_take(t.dir, &path, &fd, &err) == 0, "takes the lock");
    is_str(path, t.dir, "says the path");
    (void)snprintf(want, sizeof(want), "in use by process %ld", (long)getpid());
    refused(t.dir, ERR_STATE, want);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char *p = NULL;
        int f = -1;
        _exit(dir_take(t.dir, &p, &f, NULL) == 0);
    }
    ok(waitpid(pid, &status, 0) == pid && status == 0,
       "another process is refused, too");
    close(fd);
    free(path);
    ok(take(t.dir, &err) == 0, "free again once closed");
    tmp_end(&t);
}

/* A daemon is killed while a child of its has not begun its own program. */
static void test_orphan(void)
{
    struct tmp t;
    struct error err = ERROR_INIT;
    char *path = NULL;
    int fd = -1, status = -1;

    tmp_begin(&t);
    pid_t daemon = fork();
    if (daemon == 0) {
        if (dir_take(t.dir, &path, &fd, &err) < 0)
            _exit(1);
        pid_t child = fork();
        if (child == 0)
            (void)poll(NULL, 0, 300); /* and has the lock meanwhile */
        _exit(child < 0);
    }
    ok(waitpid(daemon, &status, 0) == daemon && status == 0,
       "a daemon leaves a child behind");
    is_int(take(t.dir, &err), 0, "its lock is waited for");
    (void)unlink(tmp_path(&t, "lock"));
    tmp_end(&t);
}

static void test_network(void)
{
    is_str(dir_network_name(0x6969), "NFS", "NFS");
    is_str(dir_network_name(0x0bd00bd0), "Lustre", "Lustre");
    is_str(dir_network_name((unsigned long)(int)0xff534d42), "CIFS",
           "a magic that is negative as an int");
    ok(!dir_network_name(0xef53), "ext4 is local");
    ok(!dir_network_name(0x01021994), "tmpfs is local");
    ok(!dir_network_name(0x58465342), "XFS is local");
}

int main(void)
{
    test_create();
    test_refused();
    test_lock();
    test_orphan();
    test_network();
    return tap_done();
}
