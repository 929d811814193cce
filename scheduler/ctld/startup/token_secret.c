/* token_secret.c - see token_secret.h. */
#include "scheduler/ctld/startup/token_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/file_atomic.h"
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

static int secret_create(const char *dir, unsigned char ret[SECRET_BYTES],
                         struct error *err)
{
    if (rng_secret(ret, SECRET_BYTES, err) < 0)
        return -1;
    return file_atomic_put(dir, "secret", ret, SECRET_BYTES, 0, err);
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
    return why.code == ERR_NOTFOUND ? secret_create(dir, ret, err)
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
