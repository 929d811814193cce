/* token_secret.c - the file, and what is made of it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/ctld/startup/token_secret.h"
#include "tests/tap.h"

static char dir[] = "/tmp/mgpu-secret.XXXXXX";

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text, size_t len, mode_t mode)
{
    (void)unlink(path_of(name));
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len ||
        fchmod(fd, mode) != 0 || close(fd) != 0)
        exit(1);
}

static void refused(const char *why, const char *what)
{
    struct secret s = {.bytes = "untouched"};
    struct error err = ERROR_INIT;
    int rc = secret_load(dir, "c", &s, &err);
    ok(rc < 0 && strstr(err.msg, why), "%s: %s", what, err.msg);
    ok(strcmp((char *)s.bytes, "untouched") == 0, "  and gives nothing");
}

static void test_file(void)
{
    struct secret a, b;
    struct stat st;
    struct error err = ERROR_INIT;
    put("secret.tmp", "half", 4, 0644); /* of a daemon that died */
    is_int(secret_load(dir, "c", &a, &err), 0, "created");
    ok(stat(path_of("secret"), &st) == 0 && (st.st_mode & 07777) == 0600 &&
           st.st_size == SECRET_BYTES,
       "0600 and 32 bytes");
    ok(stat(path_of("secret.tmp"), &st) < 0 && errno == ENOENT,
       "no temporary is left");
    is_int(secret_load(dir, "c", &b, &err), 0, "read again");
    ok(memcmp(a.bytes, b.bytes, SECRET_BYTES) == 0, "the same");
    if (unlink(path_of("secret")) < 0)
        exit(1);
    is_int(secret_load(dir, "c", &b, &err), 0, "created anew");
    ok(memcmp(a.bytes, b.bytes, SECRET_BYTES) != 0, "is another");
}

static void test_refused(void)
{
    static const char text[] = "0123456789abcdef0123456789abcdef";
    put("secret", text, 32, 0640);
    refused("mode 640", "the group may read it");
    put("secret", text, 32, 0602);
    refused("mode 602", "others may write it");
    put("secret", text, 31, 0600);
    refused("31 bytes", "too short");
    put("secret", text, 0, 0600);
    refused("0 bytes", "empty");
    put("secret", "0123456789abcdef0123456789abcdefg", 33, 0600);
    refused("33 bytes", "too long");
    put("other", text, 32, 0600);
    (void)unlink(path_of("secret"));
    if (symlink("other", path_of("secret")) < 0)
        exit(1);
    refused("secret", "a link");
    (void)unlink(path_of("secret"));
    if (mkfifo(path_of("secret"), 0600) < 0)
        exit(1);
    refused("not a file", "a pipe");
    (void)unlink(path_of("secret"));
    if (geteuid() == 0) {
        put("secret", text, 32, 0600);
        if (chown(path_of("secret"), 12345, 12345) < 0)
            exit(1);
        refused("not a file of uid 0", "another user's");
    }
    (void)unlink(path_of("secret"));
    (void)unlink(path_of("other"));
}

/* The wanted ones are from `openssl dgst -sha256 -mac HMAC`. */
static void test_derived(void)
{
    struct secret s = {.bytes = {0}, .cluster = "c1"};
    char token[65], again[65], other[65];
    struct error err = ERROR_INIT;
    memcpy(s.bytes, "0123456789abcdef0123456789abcdef", SECRET_BYTES);
    is_int(secret_of(&s, SECRET_TOKEN, 12, 1, token, &err), 0, "a token");
    is_str(token,
           "9d3f5bf9a6da4801c05868ef75cf0b89ce384ee4d71ebe5cb4fd18a59b793b64",
           "of token:c1:12:1");
    is_int(secret_of(&s, SECRET_TOKEN, 12, 1, again, &err), 0, "again");
    is_str(again, token, "the same");
    is_int(secret_of(&s, SECRET_MARK, 12, 1, other, &err), 0, "its mark");
    is_str(other,
           "c3e3610eb6da05b53d654355a9e2990b55238a60bfd6fdea4e16fe712cf87c1e",
           "of mark:c1:12:1");
    is_int(secret_of(&s, SECRET_TOKEN, 12, 2, other, &err), 0, "attempt 2");
    ok(strcmp(other, token) != 0, "has another");
    is_int(secret_of(&s, SECRET_TOKEN, 1, 1, other, &err), 0, "job 1");
    ok(strcmp(other, token) != 0, "has another");
    s.cluster = "c2";
    is_int(secret_of(&s, SECRET_TOKEN, 12, 1, other, &err), 0, "cluster 2");
    ok(strcmp(other, token) != 0, "has another");
    s.bytes[31] ^= 1;
    s.cluster = "c1";
    is_int(secret_of(&s, SECRET_TOKEN, 12, 1, other, &err), 0, "a bit off");
    ok(strcmp(other, token) != 0, "makes another");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_file();
    test_refused();
    test_derived();
    (void)rmdir(dir);
    return tap_done();
}
