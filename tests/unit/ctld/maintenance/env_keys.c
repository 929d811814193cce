/* env_keys.c - the files: durable before, gone after, and nobody else's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/ctld/maintenance/env_keys.h"
#include "tests/tap.h"

static char dir[] = "/tmp/mgpu-keys.XXXXXX";
static const char one[SEAL_ID_CAP] = "00000000000000aa",
                  two[SEAL_ID_CAP] = "00000000000000bb";

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/keys/%s", dir, name);
    return path;
}

static bool is_there(const char *name)
{
    struct stat st;
    return lstat(path_of(name), &st) == 0;
}

static void put(const char *name, size_t len, mode_t mode)
{
    static const char text[64] = "half";
    (void)unlink(path_of(name));
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len ||
        fchmod(fd, mode) != 0 || close(fd) != 0)
        exit(1);
}

static bool is_second(void *arg, const char *id)
{
    (void)arg;
    return strcmp(id, two) == 0;
}
static bool is_none(void *arg, const char *id)
{
    (void)arg;
    (void)id;
    return false;
}

static void test_life(void)
{
    struct keys k, again;
    struct error err = ERROR_INIT;
    struct stat st;
    unsigned char a[SEAL_KEY_BYTES], b[SEAL_KEY_BYTES], got[SEAL_KEY_BYTES];
    is_int(keys_open(dir, &k, &err), 0, "made");
    ok(stat(k.dir, &st) == 0 && (st.st_mode & 07777) == 0700, "0700");
    is_int(keys_open(dir, &again, &err), 0, "opened again");
    ok(memcmp(k.digest, again.digest, sizeof(k.digest)) == 0, "the same");
    ok(keys_read(&k, one, got, &err) < 0 && err.code == ERR_NOTFOUND,
       "no key yet: %s", err.msg);
    ok(keys_create(&k, one, a, &err) == 0 && keys_create(&k, two, b, &err) == 0,
       "two keys");
    ok(stat(path_of(one), &st) == 0 && (st.st_mode & 07777) == 0600 &&
           st.st_size == SEAL_KEY_BYTES && memcmp(a, b, sizeof(a)) != 0,
       "0600, 32 bytes, random");
    ok(keys_read(&k, two, got, &err) == 0 && memcmp(got, b, sizeof(b)) == 0,
       "read again");
    is_int(keys_keep(&k, is_second, NULL, &err), 0, "one is needed");
    ok(!is_there(one) && is_there(two) && is_there("digest"), "it is left");
    keys_clear(&k);
    keys_clear(&again);
}

/* A daemon died: before the file had its name, before its job was there, after
 * its job had ended. */
static void test_edges(void)
{
    struct keys k;
    struct error err = ERROR_INIT;
    unsigned char key[SEAL_KEY_BYTES];
    put("00000000000000cc.new", 4, 0600);
    put("00000000000000bb.new", 4, 0600);
    put("README", 4, 0600);
    put("00000000000000dd.old", 4, 0600);
    if (keys_open(dir, &k, &err) < 0)
        exit(1);
    is_int(keys_keep(&k, is_second, NULL, &err), 0, "another start");
    ok(!is_there("00000000000000cc.new"), "a draft goes");
    ok(is_there(two) && is_there("00000000000000bb.new"),
       "one that is being read stays");
    ok(is_there("README") && is_there("00000000000000dd.old"),
       "what is not ours stays");
    ok(keys_create(&k, "00000000000000cc", key, &err) == 0, "drawn again");
    is_int(keys_keep(&k, is_none, NULL, &err), 0, "nothing is needed");
    ok(!is_there(two) && !is_there("00000000000000cc") && is_there("digest"),
       "none is left");
    (void)unlink(path_of("README"));
    (void)unlink(path_of("00000000000000dd.old"));
    keys_clear(&k);
}

static void refused(const struct keys *k, const char *what)
{
    unsigned char key[SEAL_KEY_BYTES] = "untouched";
    struct error err = ERROR_INIT;
    ok(keys_read(k, one, key, &err) < 0 &&
           strcmp((char *)key, "untouched") == 0,
       "%s: %s", what, err.msg);
    (void)unlink(path_of(one));
}

static void test_refused(void)
{
    struct keys k;
    struct error err = ERROR_INIT;
    if (keys_open(dir, &k, &err) < 0)
        exit(1);
    put(one, SEAL_KEY_BYTES, 0640);
    refused(&k, "one that the group may read");
    put(one, SEAL_KEY_BYTES - 1, 0600);
    refused(&k, "one that is too short");
    if (symlink("digest", path_of(one)) < 0)
        exit(1);
    refused(&k, "a link");
    if (chmod(k.dir, 0770) < 0)
        exit(1);
    ok(keys_open(dir, &k, &err) < 0 && err.code == ERR_CONFIG,
       "a directory that others may write to: %s", err.msg);
    (void)chmod(k.dir, 0700);
    put("digest", 31, 0600);
    ok(keys_open(dir, &k, &err) < 0 && err.code == ERR_CONFIG,
       "half a key for digests: %s", err.msg);
    keys_clear(&k);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_life();
    test_edges();
    test_refused();
    (void)unlink(path_of("digest"));
    (void)rmdir(path_of(""));
    ok(rmdir(dir) == 0, "nothing is left behind");
    return tap_done();
}
