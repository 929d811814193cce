/* backup_dir.c - F07: which directories are backups, which of them go, and that
 * nothing else does. */
#include "db/backup_dir.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/tap.h"
#include "tests/unit/db/tmp.h"

static const double NOW_S = 1795338000; /* 2026-11-22T09:00:00Z */

static char dir[96], path[400];

static const char *in_dir(const char *name)
{
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void make_file(const char *backup, const char *name, const char *id)
{
    char at[300], bytes[200] = "SQLite format 3";
    (void)snprintf(at, sizeof(at), "%.100s/%.100s", backup, name);
    memcpy(bytes + 68, id, 4);
    FILE *f = fopen(in_dir(at), "w");
    if (!f || fwrite(bytes, 1, sizeof(bytes), f) != sizeof(bytes) || fclose(f))
        exit(1);
}

static void make(const char *name)
{
    if (mkdir(in_dir(name), 0700) < 0)
        exit(1);
    make_file(name, "state.db", "mgps");
    make_file(name, "metrics.db", "mgpm");
    make_file(name, "secret", "....");
    make_file(name, "backup", "....");
}

static bool is_there(const char *name)
{
    struct stat st;
    return lstat(in_dir(name), &st) == 0;
}

static void drop(const char *name, const char *file)
{
    char at[300];
    (void)snprintf(at, sizeof(at), "%.100s/%.100s", name, file);
    if (unlink(in_dir(at)) < 0)
        exit(1);
}

static struct backups look(void)
{
    struct backups b = {.n = -1};
    struct error err = ERROR_INIT;
    ok(backups_look(dir, "lab", NOW_S, &b, &err) == 0, "looks: %s", err.msg);
    return b;
}

static int prune(int32_t keep, struct error *err)
{
    int32_t n = -1;
    *err = (struct error)ERROR_INIT;
    int rc = backups_prune(dir, "lab", NOW_S, keep, &n, err);
    return rc < 0 ? -1 - n : n;
}

static void test_none(void)
{
    struct backups b = look();
    is_int(b.n, 0, "where there is no directory there is none");
    ok(isnan(b.last_s), "nor a last one");
}

static void test_begin(void)
{
    char at[BACKUPS_PATH_CAP], want[200];
    struct error err = ERROR_INIT;
    struct stat st;
    ok(backups_begin(dir, "lab", NOW_S, at, &err) == 0, "begins: %s", err.msg);
    (void)snprintf(want, sizeof(want), "%s/lab-20261122T090000Z", dir);
    is_str(at, want, "by the name of its time");
    ok(stat(dir, &st) == 0 && (st.st_mode & 0777) == 0700,
       "the directory is made, for us alone");
    make("lab-20261122T080000Z.part");
    make("other-20261122T080000Z.part");
    ok(backups_begin(dir, "lab", NOW_S, at, &err) == 0, "once more");
    ok(!is_there("lab-20261122T080000Z.part"), "what was cut short is gone");
    ok(is_there("other-20261122T080000Z.part"), "another's is not");
}

/* What looks like one and is none, of which nothing may go. */
static const char *const foreign[] = {
    "lab-20261101T000000Z", /* without its mark */
    "lab-20261102T000000Z", /* a database of another kind */
    "lab-20261103T000000Z", /* a link */
    "lab-20261104T000000Z", /* a file */
    "lab-20261131T000000Z", /* no day */
    "lab-20261105T000000Z.old",
    "lab-2026110500000Z",
    "labs-20261106T000000Z",
    "lab2-20261106T000000Z",
    "lab-20261106T000000z",
    "lab-20261107T000000Z ",
    "2026-11-01",
};

static void make_foreign(void)
{
    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
        if (i != 2 && i != 3)
            make(foreign[i]);
    drop(foreign[0], "backup");
    make_file(foreign[1], "state.db", "mgpm");
    char link[400];
    (void)snprintf(link, sizeof(link), "%s", in_dir(foreign[2]));
    if (symlink(in_dir(foreign[11]), link) < 0)
        exit(1);
    FILE *f = fopen(in_dir(foreign[3]), "w");
    if (!f || fclose(f))
        exit(1);
}

static void test_prune(void)
{
    struct error err;
    char name[64];
    make_foreign();
    for (int h = 0; h < 9; h++) {
        (void)snprintf(name, sizeof(name), "lab-20261122T0%d0000Z", h);
        make(name);
    }
    struct backups b = look();
    is_int(b.n, 9, "nine are whole");
    ok(b.last_s == NOW_S - 3600, "the last is an hour old");
    is_int(prune(9, &err), 0, "nine are kept");
    is_int(prune(3, &err), 6, "of nine three are");
    ok(is_there("lab-20261122T060000Z") && is_there("lab-20261122T070000Z") &&
           is_there("lab-20261122T080000Z"),
       "the newest");
    ok(!is_there("lab-20261122T050000Z") &&
           !is_there("lab-20261122T050000Z.part"),
       "of another nothing is left");
    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
        ok(is_there(foreign[i]), "'%s' is nobody's business", foreign[i]);
    char at[200];
    (void)snprintf(at, sizeof(at), "%s/state.db", foreign[11]);
    ok(is_there(at), "nor where a link leads");
}

/* A clock that was ahead left a name of the future: what is taken now must not
 * be thrown away for it. */
static void test_clock(void)
{
    struct error err;
    make("lab-20361122T000000Z");
    struct backups b = look();
    is_int(b.n, 4, "it is one more");
    ok(b.last_s == NOW_S - 3600, "but not the last");
    is_int(prune(3, &err), 1, "one goes");
    ok(!is_there("lab-20361122T000000Z"), "and it is that one");
}

static void test_left(void)
{
    struct error err;
    char at[BACKUPS_PATH_CAP];
    make_file("lab-20261122T060000Z", "mine.txt", "....");
    is_int(prune(1, &err), -2, "one of two goes, and that is told");
    ok(strstr(err.msg, "lab-20261122T060000Z.part") &&
           strstr(err.msg, "do not belong to a backup"),
       "which, and why: %s", err.msg);
    ok(is_there("lab-20261122T060000Z.part/mine.txt"),
       "what is not ours stays");
    is_int(look().n, 1, "one is left");
    ok(backups_begin(dir, "lab", NOW_S, at, &err) == 0, "and it goes on");
    ok(is_there("lab-20261122T060000Z.part/mine.txt"), "that file still stays");
}

static void test_refused(void)
{
    struct backups b;
    struct error err = ERROR_INIT;
    char at[BACKUPS_PATH_CAP], link[120];
    if (chmod(dir, 0770) < 0)
        exit(1);
    ok(backups_look(dir, "lab", NOW_S, &b, &err) < 0 &&
           err.code == ERR_CONFIG && strstr(err.msg, "writable by others"),
       "others may write: %s", err.msg);
    ok(backups_begin(dir, "lab", NOW_S, at, &err) < 0, "nothing is begun");
    if (chmod(dir, 0700) < 0)
        exit(1);
    (void)snprintf(link, sizeof(link), "%s.link", dir);
    if (symlink(dir, link) < 0)
        exit(1);
    ok(backups_look(link, "lab", NOW_S, &b, &err) < 0 &&
           strstr(err.msg, "symbolic link"),
       "a link: %s", err.msg);
    ok(backups_begin(link, "lab", NOW_S, at, &err) < 0, "nothing is begun");
    (void)unlink(link);
    ok(backups_begin("/proc/none", "lab", NOW_S, at, &err) < 0,
       "where nothing can be made: %s", err.msg);
}

int main(void)
{
    struct tmp t;
    char rm[160];
    tmp_begin(&t);
    (void)snprintf(dir, sizeof(dir), "%s/backups", t.dir);
    test_none();
    test_begin();
    test_prune();
    test_clock();
    test_left();
    test_refused();
    (void)snprintf(rm, sizeof(rm), "rm -rf '%s'", t.dir);
    if (system(rm) != 0)
        return 1;
    return tap_done();
}
