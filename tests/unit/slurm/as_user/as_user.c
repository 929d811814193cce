/* as_user.c - the process that acts as a user, and what becomes of one that
 * does not answer.
 *
 * The process is "/proc/self/exe --as-user UID", so here it is this program;
 * MGPU_TEST_AS_USER says how it behaves. */
#include "slurm/as_user/as_user.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/clock.h"
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

static void no_room(void)
{
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
        setrlimit(RLIMIT_FSIZE, &none) < 0)
        abort();
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
    return as_user_write(getuid(), dir, "{\"a\":1}", "{\"b\":2}\n", "aa", u,
                         err);
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
    ok(attempt_read(under("a/b/1"), "submission", text, sizeof(text), &err) ==
               0 &&
           strcmp(text, "aa\n") == 0,
       "submission");
    ok(chmod(under("a/b/1"), 0755) == 0 &&
           write_to(under("a/b/1"), &u, &err) == 0 &&
           stat(under("a/b/1"), &st) == 0 && (st.st_mode & 0777) == 0700,
       "again, and closed again");
    ok(symlink("b", under("a/c")) == 0 &&
           write_to(under("a/c/1"), &u, &err) == -1,
       "S12: a job's directory is no link: %s", err.msg);
    ok(write_to(under("a/c/2/1"), &u, &err) == 0, "but links above are fine");
    ok(symlink("nowhere", under("a/b/3")) == 0 &&
           write_to(under("a/b/3"), &u, &err) == -1 &&
           access(under("a/b/nowhere"), F_OK) < 0,
       "nor is an attempt's: %s", err.msg);
    int fd = creat(under("a/b/4"), 0600);
    ok(close(fd) == 0 && write_to(under("a/b/4"), &u, &err) == -1 &&
           err.code == ERR_INVAL,
       "a file in its place: %s", err.msg);
    ok(write_to(under("a/b/4/5"), &u, &err) == -1 && err.code == ERR_INVAL,
       "or above it: %s", err.msg);
}

/* Where others may put something else in the place of a job's directory. */
static void test_open_above(void)
{
    struct as_user u;
    struct error err;
    ok(mkdir(under("open"), 0700) == 0 && chmod(under("open"), 0777) == 0 &&
           write_to(under("open/1/1"), &u, &err) == -1 &&
           err.code == ERR_DENIED,
       "everybody may: %s", err.msg);
    ok(chmod(under("open"), 01777) == 0 &&
           write_to(under("open/1/1"), &u, &err) == 0,
       "unless it is sticky");
    if (getuid() != 0)
        return;
    ok(chmod(under("open"), 0775) == 0 && chown(under("open"), 0, 1) == 0 &&
           write_to(under("open/2/1"), &u, &err) == -1 &&
           err.code == ERR_DENIED,
       "a group may: %s", err.msg);
    ok(chown(under("open"), 0, 0) == 0 &&
           write_to(under("open/2/1"), &u, &err) == 0,
       "unless it is the user's own");
    ok(chmod(under("open"), 01777) == 0 && chown(under("open"), 1, 1) == 0 &&
           write_to(under("open/3/1"), &u, &err) == -1 &&
           err.code == ERR_DENIED,
       "one to which the sticky one belongs: %s", err.msg);
}

/* As a full disk is, it is no matter of the path: it may pass. */
static void test_no_room(void)
{
    struct as_user u;
    struct error err;
    (void)setenv("MGPU_TEST_AS_USER", "no room", 1);
    ok(write_to(under("a/b/5"), &u, &err) == -1 && err.code == ERR_IO,
       "no file may grow, so none is written: %s", err.msg);
    (void)unsetenv("MGPU_TEST_AS_USER");
    is_int(write_to(under("a/b/5"), &u, &err), 0, "afterwards it is");
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
           got.code == 4 && got.slurm_id == 99 && !got.is_other,
       "what it says");
    memcpy(x.submission, "bb", sizeof("bb"));
    ok(attempt_exit_write(under("a/b/1"), &x, &err) == 0 &&
           as_user_read_exit(getuid(), under("a/b/1"), &got, &err) == 0 &&
           got.is_other,
       "and that it is not of the last submission");
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
}

static void *write_once(void *arg)
{
    struct as_user u;
    (void)write_to("/nowhere/1/1", &u, arg); /* under() is for one thread */
    return NULL;
}

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

/* After one that hung. */
static void test_rest(void)
{
    struct attempt_exit x;
    struct as_user u;
    struct error err;
    int rc = -1;
    is_int(write_to(under("a/b/9"), &u, &err), -1, "who was late waits");
    is_int(err.code, ERR_BUSY, err.msg);
    if (getuid() == 0)
        ok(as_user_read_exit(65534, "/nowhere", &x, &err) == -1 &&
               err.code == ERR_NOTFOUND,
           "others do not: %s", err.msg);
    for (double until_s = now_s() + 60; rc < 0 && now_s() < until_s;) {
        (void)poll(NULL, 0, 100);
        rc = write_to(under("a/b/9"), &u, &err);
    }
    ok(rc == 0, "but not for ever: %s", err.msg);
    ok(write_to(under("a/b/9"), &u, &err) == 0, "and all is well");
}

/* Four of one user at once: so many hang, and so many are sent away. */
static void crowd(int *ret_late, int *ret_busy)
{
    pthread_t threads[4];
    struct error err[4];
    *ret_late = *ret_busy = 0;
    for (int i = 0; i < 4; i++)
        ok(pthread_create(&threads[i], NULL, write_once, &err[i]) == 0,
           "a thread");
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        *ret_late += err[i].code == ERR_TIMEOUT;
        *ret_busy += err[i].code == ERR_BUSY;
    }
}

/* Of the helper's four threads one user does not hold up all. A thread that
 * begins a second after the others is sent away, too: then once more. */
static void test_crowd(void)
{
    int n_late = 0, n_busy = 0;
    (void)setenv("MGPU_TEST_AS_USER", "hang", 1);
    for (int i = 0; i < 5 && n_late != 3; i++)
        crowd(&n_late, &n_busy);
    (void)unsetenv("MGPU_TEST_AS_USER");
    ok(n_late == 3 && n_busy == 1, "%d hang, %d are sent away", n_late, n_busy);
}

int main(int argc, char **argv)
{
    int rc;
    const char *how = getenv("MGPU_TEST_AS_USER");
    if (how != NULL && argc == 3 && strcmp(how, "no room") == 0)
        no_room();
    else if (how != NULL && argc == 3)
        return misbehave(how);
    if (as_user_main(argc, argv, &rc))
        return rc;
    if (mkdtemp(base) == NULL)
        return 1;
    test_write();
    test_open_above();
    test_no_room();
    test_exit();
    test_misbehaviour();
    test_rest();
    test_crowd();
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", base);
    return system(command) == 0 ? tap_done() : 1;
}
