/* privileges.c - what a daemon does while it is root: directories along a way
 * that nobody else can change, and the end of being root. Needs root. */
#include "scheduler/ctld/startup/privileges.h"

#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

enum { NOBODY = 65534, OTHER = 1 };
static char top[64]; /* root's, 0755, in /tmp, which is sticky */
static struct account who;

static const char *in_top(const char *name)
{
    static char path[4][256];
    static int turn;
    char *ret = path[turn = (turn + 1) % 4];
    (void)snprintf(ret, sizeof(path[0]), "%s/%s", top, name);
    return ret;
}

static void make(const char *name, mode_t mode, uid_t uid)
{
    const char *path = in_top(name);
    if (mkdir(path, 0700) < 0 || chmod(path, mode) < 0 ||
        chown(path, uid, (gid_t)-1) < 0) {
        perror(path);
        exit(1);
    }
}

static void make_link(const char *name, const char *to, uid_t uid)
{
    const char *path = in_top(name);
    if (symlink(to, path) < 0 || lchown(path, uid, (gid_t)-1) < 0) {
        perror(path);
        exit(1);
    }
}

static bool is(const char *name, mode_t mode, uid_t uid)
{
    struct stat st;
    return lstat(in_top(name), &st) == 0 && S_ISDIR(st.st_mode) &&
           (st.st_mode & 07777) == mode && st.st_uid == uid;
}

static void takes(const char *path, mode_t mode, const char *want,
                  const char *what)
{
    struct error err = ERROR_INIT;
    char real[256] = "";
    int rc = privileges_dir(path, &who, mode, real, sizeof(real), &err);
    ok(rc == 0 && strcmp(real, in_top(want)) == 0, "%s", what);
    if (rc < 0)
        tap_diag("%s", err.msg);
}

static void refuses(const char *path, mode_t mode, const char *msg,
                    const char *what)
{
    struct error err = ERROR_INIT;
    char real[256] = "";
    int rc = privileges_dir(path, &who, mode, real, sizeof(real), &err);
    ok(rc < 0 && err.code == ERR_CONFIG && strstr(err.msg, msg), "%s: %s", what,
       rc < 0 ? err.msg : real);
}

static void test_made(void)
{
    takes(in_top("a/b/state"), 0700, "a/b/state", "what is missing is made");
    ok(is("a", 0755, 0) && is("a/b", 0755, 0), "  parents are root's");
    ok(is("a/b/state", 0700, NOBODY), "  the last is the daemon's");
    takes(in_top("a/b/state"), 0700, "a/b/state", "once more");
    takes(in_top("a/b/state//"), 0700, "a/b/state", "with slashes");
    takes(in_top("a/./b/../b/state/."), 0700, "a/b/state", "with dots");
    takes(in_top("run"), 0755, "run", "one that all may pass to");
    ok(is("run", 0755, NOBODY), "  with its mode");
}

static void test_owners(void)
{
    make("theirs", 0755, OTHER);
    make("roots", 0700, 0);
    make("open", 0775, NOBODY);
    make("world", 0777, 0);
    make("sticky", 01777, 0);
    make("mine", 0755, NOBODY);
    make("mine/closed", 0700, NOBODY);
    refuses(in_top("theirs"), 0700, "belongs to uid 1", "another's");
    refuses(in_top("theirs/x"), 0700, "belongs to uid 1", "in another's");
    ok(access(in_top("theirs/x"), F_OK) < 0, "  where nothing is made");
    refuses(in_top("roots"), 0700, "belongs to uid 0",
            "root's, which it "
            "could not write to");
    refuses(in_top("open"), 0700, "writable by others", "others may write");
    refuses(in_top("world/x"), 0700, "writable by others", "on the way, too");
    takes(in_top("sticky/x"), 0700, "sticky/x", "in a sticky one");
    refuses(in_top("sticky"), 0700, "belongs to uid 0", "not the sticky one");
    takes(in_top("mine/x"), 0700, "mine/x", "in one of its own");
    refuses(in_top("mine/closed/run"), 0755, "keeps users from the socket",
            "a socket that nobody could reach");
    refuses(in_top("mine/closed"), 0755, "keeps users from the socket",
            "nor there");
    takes(in_top("mine/closed/state"), 0700, "mine/closed/state",
          "the state may be there");
}

/* "": it is fine. */
static void way(const char *name, const char *msg, const char *what)
{
    struct error err = ERROR_INIT;
    int rc = privileges_way(in_top(name), &who, &err);
    if (!*msg)
        ok(rc == 0, "%s: %s", what, err.msg);
    else
        ok(rc < 0 && err.code == ERR_CONFIG && strstr(err.msg, msg), "%s: %s",
           what, rc < 0 ? err.msg : "is fine");
}

static void test_way(void)
{
    make("way", 0755, 0);
    way("way/%u", "", "root's");
    way("way/not/yet/%u/jobs", "", "what is not there yet");
    make("way/daemons", 0755, NOBODY);
    way("way/daemons/%u", "", "the daemon's");
    make("way/other", 0755, OTHER);
    way("way/other/%u", "uid 1", "a user's");
    way("way/other/more/%u", "uid 1", "further up");
    make("way/tmp", 01777, 0);
    way("way/tmp/%u", "", "sticky, root's");
    way("way/tmp/x%u.d/jobs", "", "the name being a part of one");
    make("way/group", 0775, 0);
    way("way/group/%u", "", "root's group may write");
    if (chown(in_top("way/group"), 0, 1) < 0)
        exit(1);
    way("way/group/%u", "writable by others (mode 0775)", "another group may");
    make("way/all", 0777, 0);
    way("way/all/%u", "writable by others (mode 0777)", "everybody may");
    make_link("way/link", "group", 0);
    way("way/link/%u", "way/group' is writable", "where a link leads");
    make("way/lab", 01777, OTHER);
    way("way/lab/%u", "uid 1", "sticky, but a user's");
}

static void test_links(void)
{
    make("real", 0755, 0);
    make_link("good", in_top("real"), 0);
    make_link("relative", "./real/../real", 0);
    make_link("evil", in_top("real"), NOBODY);
    make_link("loop", in_top("loop"), 0);
    make_link("last", in_top("real/last"), 0);
    takes(in_top("good/x"), 0700, "real/x", "root's link");
    takes(in_top("relative/x"), 0700, "real/x", "a relative one");
    takes(in_top("last"), 0700, "real/last", "one at the end");
    refuses(in_top("evil/y"), 0700, "belongs to uid 65534",
            "S12: another's link");
    ok(access(in_top("real/y"), F_OK) < 0, "  is not followed");
    refuses(in_top("loop/y"), 0700, "too many links", "a loop");
    FILE *f = fopen(in_top("file"), "w");
    if (!f || fclose(f) != 0)
        exit(1);
    refuses(in_top("file"), 0700, "not a directory", "a file");
    refuses(in_top("file/x"), 0700, "not a directory", "in a file");
    refuses("relative/path", 0700, "not absolute", "a relative path");
    refuses("/", 0700, "no directory of ours", "the root");
    refuses("//..//", 0755, "belongs to uid 0", "the root, in other words");
}

static void test_file(void)
{
    struct error err = ERROR_INIT;
    ok(privileges_file(in_top("file"), &err) == 0, "root's file is believed");
    (void)chmod(in_top("file"), 0620);
    ok(privileges_file(in_top("file"), &err) < 0 && err.code == ERR_CONFIG,
       "one that others may write is not: %s", err.msg);
    (void)chmod(in_top("file"), 0600);
    if (chown(in_top("file"), NOBODY, 0) < 0)
        exit(1);
    ok(privileges_file(in_top("file"), &err) < 0 && err.code == ERR_CONFIG,
       "nor another's: %s", err.msg);
    ok(privileges_file(in_top("none"), &err) < 0 && err.code == ERR_NOTFOUND,
       "nor none: %s", err.msg);
}

static void test_lengths(void)
{
    static char path[5000];
    struct error err = ERROR_INIT;
    char real[8];
    size_t len = (size_t)snprintf(path, sizeof(path), "%s/", top);
    memset(path + len, 'x', sizeof(path) - 1 - len);
    refuses(path, 0700, "too long", "5000 bytes");
    path[len + NAME_MAX + 1] = '\0';
    refuses(path, 0700, "name is too long", "a name of 256");
    path[len + NAME_MAX] = '\0';
    ok(access(path, F_OK) < 0, "  of which nothing is made");
    ok(privileges_dir(in_top("real/x"), &who, 0700, real, sizeof(real), &err) <
               0 &&
           err.code == ERR_CONFIG,
       "no room for the answer: %s", err.msg);
}

static void test_accounts(void)
{
    struct account a;
    struct error err = ERROR_INIT;
    struct conf conf;
    int64_t *uids = NULL;
    size_t n = 9;
    char root[] = "root", nobody[] = "nobody", none[] = "no-such-user";
    char *names[] = {root, nobody, none};
    ok(privileges_account("nobody", &a, &err) == 0 && a.uid == NOBODY,
       "an account");
    ok(privileges_account("root", &a, &err) < 0 && err.code == ERR_CONFIG,
       "not root: %s", err.msg);
    ok(privileges_account(none, &a, &err) < 0 && err.code == ERR_CONFIG,
       "not one that is not there: %s", err.msg);
    memset(&conf, 0, sizeof(conf));
    conf.auth.admins = (struct spec_list){.items = names, .n = 2};
    ok(privileges_admins(&conf, &uids, &n, &err) == 0 && n == 1 &&
           uids[0] == NOBODY,
       "administrators, but root");
    free(uids);
    conf.auth.admins.n = 3;
    ok(privileges_admins(&conf, &uids, &n, &err) < 0 &&
           err.code == ERR_CONFIG && n == 1,
       "one who is not there: %s", err.msg);
}

/* As bits of the exit status: what is wrong. */
static int become_and_look(void)
{
    struct error err = ERROR_INIT;
    gid_t groups[64];
    const gid_t extra = 4242;
    int bad = 0;
    if (setgroups(1, &extra) < 0)
        return 128;
    if (privileges_become(&who, &err) < 0)
        return 64;
    bad |= (getuid() != NOBODY || geteuid() != NOBODY) << 0;
    bad |= (setuid(0) == 0 || setgid(0) == 0 || seteuid(0) == 0) << 1;
    int n = getgroups(64, groups);
    for (int i = 0; i < n; i++)
        bad |= (groups[i] == extra || groups[i] == 0) << 2;
    bad |= (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) << 3;
    bad |= (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) << 4;
    return bad;
}

static void test_become(void)
{
    int status = -1, fd = -1;
    struct stat st;
    struct error err = ERROR_INIT;
    pid_t pid = fork();
    if (pid == 0)
        _exit(become_and_look());
    (void)waitpid(pid, &status, 0);
    is_int(status, 0, "root is given up for good");
    ok(privileges_open_log(in_top("mine/log"), &who, &fd, &err) == 0 &&
           fstat(fd, &st) == 0 && st.st_uid == NOBODY &&
           (st.st_mode & 0777) == 0600 && geteuid() == 0,
       "a log is the daemon's, and we are who we were");
    (void)close(fd);
    make_link("mine/trap", in_top("file"), NOBODY);
    ok(privileges_open_log(in_top("mine/trap"), &who, &fd, &err) < 0,
       "not through a link: %s", err.msg);
    ok(privileges_open_log(in_top("roots/log"), &who, &fd, &err) < 0 &&
           err.code == ERR_DENIED,
       "nor where it may not: %s", err.msg);
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
    struct error err = ERROR_INIT;
    if (geteuid() != 0)
        tap_skip_all("needs root");
    (void)umask(077);
    (void)snprintf(top, sizeof(top), "/tmp/mgpu-system.XXXXXX");
    if (!mkdtemp(top) || chmod(top, 0755) < 0 ||
        privileges_account("nobody", &who, &err) < 0)
        exit(1);
    test_made();
    test_owners();
    test_links();
    test_way();
    test_file();
    test_lengths();
    test_accounts();
    test_become();
    (void)nftw(top, unlink_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
