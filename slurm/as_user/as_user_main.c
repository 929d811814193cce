/* as_user_main.c - the process that acts as a user: see as_user.h.
 *
 * It serves one request and is killed. It does not trust its input: everything
 * happens with the user's rights. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slurm/as_user/as_user.h"

/* Bounds the life of an orphan whose helper died: by then every caller has
 * given up. */
enum { ALARM_S = 60 };

static int look_up(uid_t uid, struct passwd *pw, char *room, size_t cap,
                   struct error *err)
{
    struct passwd *found = NULL;
    int rc = getpwuid_r(uid, pw, room, cap, &found);
    if (rc != 0)
        return error_sys(err, rc, "look up user %lu", (unsigned long)uid);
    if (found == NULL)
        return error_set(err, ERR_INVAL, "there is no user %lu",
                         (unsigned long)uid);
    return 0;
}

static int become(const struct passwd *pw, struct error *err)
{
    (void)umask(077);
    if (pw->pw_uid == geteuid() && pw->pw_uid == getuid() &&
        (pw->pw_uid != 0 || getgid() == pw->pw_gid))
        return 0;
    if (initgroups(pw->pw_name, pw->pw_gid) < 0 ||
        setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
        setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0)
        return error_sys(err, errno, "become user '%s'", pw->pw_name);
    return 0;
}

/* ---- directories --------------------------------------------------------- */
/* An invalid path is a permanent error; a full or failing disk, or an
 * unreachable server, is a temporary one. */
static int dir_error(struct error *err, int errnum, const char *what,
                     const char *name)
{
    bool is_path =
        errnum == ENOTDIR || errnum == ELOOP || errnum == ENAMETOOLONG;
    (void)error_sys(err, errnum, "%s '%s'", what, name);
    if (is_path)
        err->code = ERR_INVAL;
    return -1;
}

/* Many systems give each user a private group with write access. */
static bool is_private_group(gid_t gid)
{
    struct passwd pw;
    struct group gr;
    struct passwd *found_pw = NULL;
    struct group *found_gr = NULL;
    char pw_room[16384];
    char gr_room[16384];
    return getpwuid_r(getuid(), &pw, pw_room, sizeof(pw_room), &found_pw) ==
               0 &&
           found_pw && pw.pw_gid == gid &&
           getgrgid_r(gid, &gr, gr_room, sizeof(gr_room), &found_gr) == 0 &&
           found_gr && strcmp(gr.gr_name, pw.pw_name) == 0;
}

/* Others: all but the user and root. */
static bool may_others_write(const struct stat *st)
{
    return (st->st_mode & S_IWOTH) ||
           ((st->st_mode & S_IWGRP) && st->st_gid != 0 &&
            !is_private_group(st->st_gid));
}

/* A user who may change the directory `up` could replace an entry of it. A
 * directory like /tmp is accepted if root owns it and its entry belongs to the
 * user (or to root). */
static int check_above(const struct stat *up, bool is_common, const char *name,
                       struct error *err)
{
    if (is_common && !(up->st_mode & S_ISVTX))
        return error_set(err, ERR_DENIED,
                         "directory '%s' is in one that others can write to "
                         "(uid %lu, gid %lu, mode %04o)",
                         name, (unsigned long)up->st_uid,
                         (unsigned long)up->st_gid,
                         (unsigned)(up->st_mode & 07777));
    if (is_common && up->st_uid != 0 && up->st_uid != getuid())
        return error_set(err, ERR_DENIED,
                         "directory '%s' is in a shared one that user %lu "
                         "can change",
                         name, (unsigned long)up->st_uid);
    return 0;
}

static int check_owner(const struct stat *st, const char *name, bool is_common,
                       bool is_ours, struct error *err)
{
    if (st->st_uid != getuid() && (is_ours || (is_common && st->st_uid != 0)))
        return error_set(err, ERR_DENIED, "directory '%s' belongs to user %lu",
                         name, (unsigned long)st->st_uid);
    return 0;
}

/* Opens the directory `name` in the directory at; creates it if it is missing.
 * is_ours: the user must own it, and it must not be a symbolic link. O_PATH,
 * because a directory on the way need not be readable. */
static int enter(int at, const char *name, bool is_ours, struct error *err)
{
    struct stat up;
    struct stat st;
    int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    if (fstat(at, &up) < 0)
        return dir_error(err, errno, "examine the parent of", name);
    bool is_common = may_others_write(&up);
    if (check_above(&up, is_common, name, err) < 0)
        return -1;
    if (is_ours || is_common)
        flags |= O_NOFOLLOW;
    int fd = openat(at, name, flags);
    if (fd < 0 && errno == ENOENT &&
        (mkdirat(at, name, 0700) == 0 || errno == EEXIST))
        fd = openat(at, name, flags);
    if (fd < 0)
        return dir_error(err, errno, "directory", name);
    int rc = fstat(fd, &st) < 0
                 ? dir_error(err, errno, "directory", name)
                 : check_owner(&st, name, is_common, is_ours, err);
    if (rc < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Walks from "/" down to dir; the user must own the last two components, the
 * job's and the attempt's directory. */
static int make_dir(char *dir, struct error *err)
{
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, errno, "open '/'");
    size_t left = 0;
    for (const char *p = dir; *p; p++)
        left += *p == '/';
    char *save = NULL;
    for (const char *name = strtok_r(dir, "/", &save); name;
         name = strtok_r(NULL, "/", &save)) {
        int next = enter(fd, name, left-- <= 2, err);
        (void)close(fd);
        fd = next;
        if (fd < 0)
            return -1;
    }
    int rc = fchdir(fd) < 0 || chmod(".", 0700) < 0
                 ? error_sys(err, errno, "set up the attempt's directory")
                 : 0;
    (void)close(fd);
    return rc;
}

/* ---- the requests -------------------------------------------------------- */
static json_t *write_files(const struct passwd *pw, const json_t *o,
                           struct error *err)
{
    const char *launch = json_string_value(json_object_get(o, "launch"));
    const char *batch = json_string_value(json_object_get(o, "batch"));
    const char *mark = json_string_value(json_object_get(o, "submission"));
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof(dir), "%s",
                   json_string_value(json_object_get(o, "dir")));
    if (make_dir(dir, err) < 0) {
        (void)error_wrap(err, "'%s'",
                         json_string_value(json_object_get(o, "dir")));
        return NULL;
    }
    if (attempt_write(".", "launch.json", launch, err) < 0 ||
        attempt_write(".", "batch.json", batch ? batch : "", err) < 0 ||
        attempt_submission_write(".", mark ? mark : "", err) < 0)
        return NULL;
    return json_pack("{s:I,s:s,s:s,s:s}", "gid", (json_int_t)pw->pw_gid, "name",
                     pw->pw_name, "home", pw->pw_dir, "shell",
                     pw->pw_shell[0] ? pw->pw_shell : "/bin/sh");
}

static json_t *read_exit(const char *dir, struct error *err)
{
    struct attempt_exit x;
    if (attempt_exit_read(dir, &x, err) < 0)
        return NULL;
    return json_pack("{s:i,s:i,s:f,s:I,s:s,s:b,s:b}", "exit", (int)x.code,
                     "signal", (int)x.signal, "when", x.when_s, "slurm_id",
                     (json_int_t)x.slurm_id, "told", x.told, "is_ending",
                     (int)x.is_ending, "is_other", (int)x.is_other);
}

static json_t *serve(uid_t uid, const json_t *o, struct error *err)
{
    struct passwd pw;
    char room[16384];
    const char *dir = json_string_value(json_object_get(o, "dir"));
    if (dir == NULL || dir[0] != '/') {
        (void)error_set(err, ERR_INTERNAL, "no request");
        return NULL;
    }
    if (look_up(uid, &pw, room, sizeof(room), err) < 0 || become(&pw, err) < 0)
        return NULL;
    /* The kernel clears it when the user changes, so set it here. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return json_object_get(o, "launch") ? write_files(&pw, o, err)
                                        : read_exit(dir, err);
}

bool as_user_main(int argc, char **argv, int *ret)
{
    if (argc != 3 || strcmp(argv[1], "--as-user") != 0)
        return false;
    struct error err = {.code = ERR_NOMEM, .msg = "out of memory"};
    char *end;
    errno = 0;
    unsigned long uid = strtoul(argv[2], &end, 10);
    json_t *answer = NULL;
    (void)alarm(ALARM_S);
    /* Read to the end first: closing a socket with unread data loses the
     * answer. */
    json_t *o = json_loadf(stdin, 0, NULL);
    if (errno || end == argv[2] || *end || uid >= (uid_t)-1)
        (void)error_set(&err, ERR_USAGE, "--as-user is for internal use only");
    else
        answer = serve((uid_t)uid, o, &err);
    json_decref(o);
    if (answer == NULL)
        answer = json_pack("{s:s,s:s}", "code", error_word(err.code), "why",
                           err.msg);
    int rc = answer ? json_dumpf(answer, stdout, JSON_COMPACT) : -1;
    json_decref(answer);
    *ret = rc == 0 && fflush(stdout) == 0 ? 0 : 1;
    return true;
}
