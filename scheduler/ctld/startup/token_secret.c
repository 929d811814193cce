/* token_secret.c - see token_secret.h.
 *
 * The file appears under its name only when all of it is on the disk: a
 * daemon that dies while it writes leaves nothing, or secret.new, which the
 * next one throws away.
 */
#include "scheduler/ctld/startup/token_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/rng.h"
#include "jobs/http/digest_ssl.h"

static int check(int fd, const char *path, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_sys(err, errno, "'%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return error_set(err, ERR_CONFIG, "'%s' is not a file of uid %ld", path,
                         (long)geteuid());
    if (st.st_mode & 077)
        return error_set(err, ERR_CONFIG,
                         "'%s' has mode %03o: others may know it; remove it, "
                         "and what runs now is not heard any more",
                         path, (unsigned)st.st_mode & 0777);
    if (st.st_size != SECRET_BYTES)
        return error_set(err, ERR_CONFIG, "'%s' has %lld bytes, not %d", path,
                         (long long)st.st_size, SECRET_BYTES);
    return 0;
}

static int read_it(int fd, const char *path, unsigned char *ret,
                   struct error *err)
{
    if (check(fd, path, err) < 0)
        return -1;
    ssize_t n = pread(fd, ret, SECRET_BYTES, 0);
    if (n < 0)
        return error_sys(err, errno, "read '%s'", path);
    if (n != SECRET_BYTES)
        return error_set(err, ERR_IO, "read '%s': cut short", path);
    return 0;
}

static int write_it(const char *path, const unsigned char *bytes,
                    struct error *err)
{
    (void)unlink(path);
    int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_sys(err, errno, "create '%s'", path);
    ssize_t n = write(fd, bytes, SECRET_BYTES);
    int rc = n == SECRET_BYTES && fchmod(fd, 0600) == 0 && fsync(fd) == 0
                 ? 0
                 : error_sys(err, n < 0 || n == SECRET_BYTES ? errno : ENOSPC,
                             "write '%s'", path);
    (void)close(fd);
    return rc;
}

static int sync_dir(const char *dir, struct error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", dir);
    int rc = fsync(fd) < 0 ? error_sys(err, errno, "sync '%s'", dir) : 0;
    (void)close(fd);
    return rc;
}

static int secret_create(const char *dir, const char *path,
                         unsigned char ret[SECRET_BYTES], struct error *err)
{
    char draft[1024];
    if ((size_t)snprintf(draft, sizeof(draft), "%s.new", path) >= sizeof(draft))
        return error_set(err, ERR_CONFIG, "'%s' is too long", path);
    if (rng_secret(ret, SECRET_BYTES, err) < 0)
        return -1;
    if (write_it(draft, ret, err) < 0) {
        (void)unlink(draft);
        return -1;
    }
    if (rename(draft, path) < 0)
        return error_sys(err, errno, "rename '%s'", draft);
    return sync_dir(dir, err);
}

/* err  ERR_NOTFOUND there is none */
static int secret_read(const char *path, unsigned char ret[SECRET_BYTES],
                       struct error *err)
{
    unsigned char bytes[SECRET_BYTES];
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    int rc = read_it(fd, path, bytes, err);
    (void)close(fd);
    if (rc == 0)
        memcpy(ret, bytes, sizeof(bytes));
    explicit_bzero(bytes, sizeof(bytes));
    return rc;
}

static int secret_ensure(const char *dir, const char *path,
                         unsigned char ret[SECRET_BYTES], struct error *err)
{
    struct error why = ERROR_INIT;
    if (secret_read(path, ret, &why) == 0)
        return 0;
    return why.code == ERR_NOTFOUND ? secret_create(dir, path, ret, err)
                                    : error_set(err, why.code, "%s", why.msg);
}

int secret_load(const char *dir, const char *cluster, struct secret *ret,
                struct error *err)
{
    struct secret s = {.cluster = cluster};
    char path[1024];
    if ((size_t)snprintf(path, sizeof(path), "%s/secret", dir) >= sizeof(path))
        return error_set(err, ERR_CONFIG, "'%s' is too long", dir);
    int rc = secret_ensure(dir, path, s.bytes, err);
    if (rc == 0)
        *ret = s;
    secret_clear(&s);
    return rc;
}

void secret_clear(struct secret *s)
{
    explicit_bzero(s->bytes, sizeof(s->bytes));
}

/* The words in front keep the two kinds apart; a cluster's name has no
 * colon. */
int secret_of(void *arg, enum engine_secret what, uint64_t job, int32_t attempt,
              char ret[ENGINE_SECRET_CAP], struct error *err)
{
    const struct secret *s = arg;
    char text[256];
    int n = snprintf(text, sizeof(text), "%s:%s:%" PRIu64 ":%" PRId32,
                     what == SECRET_TOKEN ? "token" : "mark", s->cluster, job,
                     attempt);
    if (n < 0 || (size_t)n >= sizeof(text))
        return error_set(err, ERR_CONFIG, "the cluster's name is too long");
    return digest_hmac(s->bytes, SECRET_BYTES, text, (size_t)n, ret, err);
}
