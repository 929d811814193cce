/* as_user.c - the process that acts as a user, and what becomes of one that
 * does not answer.
 *
 * The process is "/proc/self/exe --as-user UID", so here it is this program;
 * MGPU_TEST_AS_USER says how it behaves. */
#include "slurm/as_user.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static char base[] = "/tmp/as_user.XXXXXX";

static int misbehave(const char *how)
{
    if (strcmp(how, "hang") == 0)
        (void)pause();
    if (strcmp(how, "die") == 0)
        (void)raise(SIGKILL);
    if (strcmp(how, "babble") == 0)
        for (;;)
            if (puts("more and more and more and more") < 0)
                return 1;
    if (strcmp(how, "nonsense") == 0)
        (void)puts("{\"exit\":");
    return 0;
}

static const char *under(const char *name)
{
    static char path[4][256];
    static unsigned next;
    char *p = path[next++ % 4];
    (void)snprintf(p, sizeof(path[0]), "%s/%s", base, name);
    return p;
}

static int write_to(const char *dir, struct as_user *u, struct error *err)
{
    *err = (struct error)ERROR_INIT;
    return as_user_write(getuid(), dir, "{\"a\":1}", "{\"b\":2}\n", u, err);
}

static void test_write(void)
{
    struct as_user u = {.gid = (gid_t)-1};
    struct error err;
    struct stat st;
    char text[64];
    ok(write_to(under("a/b/1"), &u, &err) == 0, "writes: %s", err.msg);
    ok(u.gid == getgid() && u.name[0] && u.home[0] && u.shell[0] == '/',
       "and says who the user is");
    ok(stat(under("a"), &st) == 0 && (st.st_mode & 0777) == 0700,
       "parents are made");
    ok(attempt_read(under("a/b/1"), "launch.json", text, sizeof(text), &err) ==
               0 &&
           strcmp(text, "{\"a\":1}") == 0,
       "launch.json");
    ok(attempt_read(under("a/b/1"), "batch.json", text, sizeof(text), &err) ==
               0 &&
           strcmp(text, "{\"b\":2}\n") == 0,
       "batch.json");
    ok(chmod(under("a/b/1"), 0755) == 0 &&
           write_to(under("a/b/1"), &u, &err) == 0 &&
           stat(under("a/b/1"), &st) == 0 && (st.st_mode & 0777) == 0700,
       "again, and closed again");
    ok(symlink("b", under("a/c")) == 0 &&
           write_to(under("a/c/1"), &u, &err) == -1,
       "a job's directory is no link: %s", err.msg);
    ok(write_to(under("a/c/2/1"), &u, &err) == 0, "but links above are fine");
    ok(symlink("nowhere", under("a/b/3")) == 0 &&
           write_to(under("a/b/3"), &u, &err) == -1 &&
           access(under("a/b/nowhere"), F_OK) < 0,
       "nor is an attempt's: %s", err.msg);
    int fd = creat(under("a/b/4"), 0600);
    ok(close(fd) == 0 && write_to(under("a/b/4"), &u, &err) == -1,
       "a file in its place: %s", err.msg);
}

static void test_exit(void)
{
    struct attempt_exit x = {.code = 4, .signal = 0, .slurm_id = 99};
    struct attempt_exit got;
    struct error err = ERROR_INIT;
    ok(as_user_read_exit(getuid(), under("a/b/1"), &got, &err) == -1 &&
           err.code == ERR_NOTFOUND,
       "no exit: %s", err.msg);
    ok(attempt_exit_write(under("a/b/1"), &x, &err) == 0 &&
           as_user_read_exit(getuid(), under("a/b/1"), &got, &err) == 0 &&
           got.code == 4 && got.slurm_id == 99,
       "what it says");
    ok(as_user_read_exit(getuid(), "/nowhere/at/all", &got, &err) == -1 &&
           err.code == ERR_NOTFOUND,
       "no directory: %s", err.msg);
    ok(as_user_read_exit(3999999, under("a/b/1"), &got, &err) == -1 &&
           err.code == ERR_INVAL,
       "no such user: %s", err.msg);
    if (getuid() != 0)
        ok(as_user_read_exit(0, under("a/b/1"), &got, &err) == -1 &&
               err.code == ERR_DENIED,
           "nobody becomes root: %s", err.msg);
}

static void test_misbehaviour(void)
{
    static const struct {
        const char *how;
        enum err_code code;
    } all[] = {{"die", ERR_INTERNAL},
               {"nonsense", ERR_INTERNAL},
               {"babble", ERR_INTERNAL},
               {"hang", ERR_TIMEOUT}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct as_user u;
        struct error err;
        (void)setenv("MGPU_TEST_AS_USER", all[i].how, 1);
        is_int(write_to(under("a/b/9"), &u, &err), -1, all[i].how);
        is_int(err.code, all[i].code, err.msg);
    }
    (void)unsetenv("MGPU_TEST_AS_USER");
    struct as_user u;
    struct error err;
    ok(write_to(under("a/b/9"), &u, &err) == 0,
       "what could be killed is no reason to wait: %s", err.msg);
}

int main(int argc, char **argv)
{
    int rc;
    const char *how = getenv("MGPU_TEST_AS_USER");
    if (how != NULL && argc == 3)
        return misbehave(how);
    if (as_user_main(argc, argv, &rc))
        return rc;
    if (mkdtemp(base) == NULL)
        return 1;
    test_write();
    test_exit();
    test_misbehaviour();
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", base);
    return system(command) == 0 ? tap_done() : 1;
}
