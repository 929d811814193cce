/* files_reader.c - see files_reader.h.
 *
 * The identity is not switched back and forth: the process gives up root, and
 * takes the user's groups from the system's database, before it reads the first
 * request. Whatever a path leads to, links included, the user could read as
 * well. The user cannot trace this process: the kernel denies that for a
 * process that has changed its identity (PR_SET_DUMPABLE). Looking the user up
 * may hang, too, and then delays only this user. */
#include "slurm/as_user/files_reader.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "slurm/as_user/files_wire.h"

enum { FDS_MAX = 32, PASSWD_BYTES = 65536 };

static int take_identity(uid_t uid, struct error *err)
{
    static char space[PASSWD_BYTES];
    struct passwd pw, *found = NULL;
    uid_t r, e, s;
    if (getpwuid_r(uid, &pw, space, sizeof(space), &found) != 0 || !found)
        return error_set(err, ERR_DENIED, "uid %lu has no account here",
                         (unsigned long)uid);
    if (initgroups(pw.pw_name, pw.pw_gid) < 0 ||
        setresgid(pw.pw_gid, pw.pw_gid, pw.pw_gid) < 0 ||
        setresuid(uid, uid, uid) < 0)
        return error_sys(err, errno, "become uid %lu", (unsigned long)uid);
    if (getresuid(&r, &e, &s) < 0 || r != uid || e != uid || s != uid ||
        (uid != 0 && setuid(0) == 0))
        return error_set(err, ERR_DENIED, "changing to uid %lu had no effect",
                         (unsigned long)uid);
    return 0;
}

static void confine(pid_t parent)
{
    const struct rlimit fds = {FDS_MAX, FDS_MAX}, none = {0, 0};
    (void)setrlimit(RLIMIT_NOFILE, &fds);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setrlimit(RLIMIT_FSIZE, &none); /* it writes nothing */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* After the change of identity, which clears it. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(0);
}

static int carry_out(struct files *f, const struct files_req *req,
                     struct files_ans *reply, char *data, struct error *err)
{
    reply->data = data;
    reply->offset = req->offset;
    if (req->op == FILES_READ)
        return f->ops->read(f, req->uid, req->dir, req->name, req->offset, data,
                            req->cap, &reply->n, err);
    return f->ops->log(f, req->uid, req->dir, &reply->offset, data, req->cap,
                       &reply->n, &reply->dropped, err);
}

static int answer(int fd, struct files_ans *reply, const struct error *err)
{
    struct buf b = BUF_INIT;
    if (err) {
        reply->code = err->code;
        reply->data = err->msg;
        reply->n = strlen(err->msg);
    }
    int rc = files_ans_encode(reply, &b, NULL);
    if (rc == 0 && send(fd, b.data, b.len, MSG_NOSIGNAL) < 0)
        rc = -1;
    buf_clear(&b);
    return rc;
}

void files_reader(int fd, uid_t uid, bool become)
{
    static char packet[FILES_REQ_MAX], data[FILES_DATA_MAX];
    struct files *f = NULL;
    struct error bad = ERROR_INIT;
    pid_t parent = getppid();
    int rc = become ? take_identity(uid, &bad) : 0;
    if (rc == 0)
        confine(parent);
    if (rc == 0)
        rc = files_direct_create(&f, &bad);
    for (;;) {
        struct files_req req;
        struct files_ans reply = {.seq = 0};
        struct error err = ERROR_INIT;
        ssize_t n = recv(fd, packet, sizeof(packet), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(0);
        int done = files_req_parse(packet, (size_t)n, &req, &err);
        reply.seq = req.seq;
        if (done == 0 && rc < 0)
            err = bad;
        else if (done == 0)
            done = carry_out(f, &req, &reply, data, &err);
        if (answer(fd, &reply, done < 0 || rc < 0 ? &err : NULL) < 0 || rc < 0)
            _exit(1); /* the next reader may find the user */
    }
}
