/* buf.c - growable bytes: sizes around each growth, files around the limit. */
#include "jobs/base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static void test_text(void)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    is_str(buf_str(&b), "", "a zeroed buf reads as empty");
    is_int(buf_addstr(&b, "job ", &err), 0, "addstr");
    is_int(buf_addf(&b, &err, "%d of %s", 7, "ann"), 0, "addf");
    is_str(buf_str(&b), "job 7 of ann", "text");
    buf_drop(&b, 4);
    is_str(buf_str(&b), "7 of ann", "drop from the front");
    buf_drop(&b, b.len);
    is_str(buf_str(&b), "", "drop all");
    buf_drop(&b, 0);
    is_int(buf_add(&b, NULL, 0, &err), 0, "add nothing");
    is_int(buf_add(&b, "a\0b", 3, &err), 0, "bytes");
    ok(b.len == 3 && memcmp(b.data, "a\0b", 4) == 0, "NULs inside and behind");
    buf_reset(&b);
    ok(b.len == 0 && b.cap > 0 && b.data[0] == '\0', "reset keeps memory");
    buf_clear(&b);
    ok(!b.data && b.len == 0 && b.cap == 0, "clear");
    buf_clear(&b);
    buf_clear(NULL);
}

/* The first block has 64 bytes: one less, exact, one more. */
static void test_growth(void)
{
    char text[300];
    memset(text, 'x', sizeof(text));
    for (size_t n = 62; n <= 66; n++) {
        struct buf b = BUF_INIT;
        is_int(buf_add(&b, text, n, NULL), 0, "adds");
        ok(b.len == n && b.cap >= n + 1 && b.data[n] == '\0',
           "%zu bytes end in NUL", n);
        is_int(buf_addf(&b, NULL, "%s", "yy"), 0, "and two");
        ok(b.len == n + 2 && strcmp(b.data + n, "yy") == 0, "are there");
        buf_clear(&b);
    }
}

static void test_limits(void)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    is_int(buf_addstr(&b, "abc", &err), 0, "some text");
    is_int(buf_reserve(&b, SIZE_MAX, &err), -1, "more than there is");
    is_int(err.code, ERR_NOMEM, "is out of memory");
    is_int(buf_reserve(&b, SIZE_MAX / 2 - 3, &err), -1, "nor half of it");
    is_str(buf_str(&b), "abc", "and changes nothing");
    buf_clear(&b);
}

static void test_detach(void)
{
    struct buf b = BUF_INIT;
    char *p = buf_detach(&b);
    is_str(p, "", "nothing detaches as an empty string");
    free(p);
    is_int(buf_addstr(&b, "abc", NULL), 0, "text");
    p = buf_detach(&b);
    is_str(p, "abc", "detaches");
    ok(!b.data && b.len == 0, "and leaves an empty buf");
    free(p);
}

static void test_file(void)
{
    char path[] = "/tmp/mgpu-buf.XXXXXX";
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    int fd = mkstemp(path);
    if (!ok(fd >= 0 && write(fd, "0123456789", 10) == 10, "a file"))
        return;
    is_int(buf_addstr(&b, ">", &err), 0, "text before");
    is_int(buf_read_file(&b, path, 10, &err), 0, "exactly at the limit");
    is_str(buf_str(&b), ">0123456789", "is appended");
    is_int(buf_read_file(&b, path, 9, &err), -1, "one over the limit");
    is_int(err.code, ERR_LIMIT, "is a limit");
    is_str(buf_str(&b), ">0123456789", "and changes nothing");
    ok(ftruncate(fd, 0) == 0, "an empty file");
    is_int(buf_read_file(&b, path, 0, &err), 0, "can be read");
    is_int((long long)b.len, 11, "as nothing");
    ok(ftruncate(fd, 200000) == 0, "a long file");
    is_int(buf_read_file(&b, path, 1 << 20, &err), 0, "is read in pieces");
    is_int((long long)b.len, 200011, "to its end");
    buf_reset(&b);
    ok(ftruncate(fd, 3) == 0 && buf_read_own_file(&b, path, 3, &err) == 0 &&
           b.len == 3,
       "one's own file");
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\n"
                              "oid sha256:4cac19622fc3ada9\nsize 132735\n";
    struct buf pointer = BUF_INIT;
    ok(ftruncate(fd, 0) == 0 &&
           pwrite(fd, lfs, sizeof(lfs) - 1, 0) == (ssize_t)sizeof(lfs) - 1 &&
           buf_read_file(&pointer, path, 4000, &err) < 0 &&
           err.code == ERR_INVAL && strstr(err.msg, "git lfs pull") != NULL,
       "a pointer of git-lfs: %s", err.msg);
    ok(pwrite(fd, "V", 1, 0) == 1 &&
           buf_read_file(&pointer, path, 4000, &err) == 0 &&
           pointer.len == sizeof(lfs) - 1,
       "what only looks like one");
    buf_clear(&pointer);
    ok(fchmod(fd, 0620) == 0 && buf_read_own_file(&b, path, 3, &err) < 0 &&
           err.code == ERR_DENIED && b.len == 3,
       "to which a group may write: %s", err.msg);
    if (getuid() == 0)
        ok(fchmod(fd, 0600) == 0 && fchown(fd, 1, 1) == 0 &&
               buf_read_own_file(&b, path, 3, &err) < 0 &&
               err.code == ERR_DENIED,
           "another user's: %s", err.msg);
    buf_reset(&b);
    ok(buf_read_file(&b, "/dev/zero", 3, &err) < 0 && err.code == ERR_INVAL &&
           b.len == 0,
       "a device is not read: %s", err.msg);
    ok(buf_read_operand(&b, "/dev/null", 3, &err) == 0 && b.len == 0,
       "but as the operand of a command");
    ok(buf_read_own_file(&b, "/dev/null", 3, &err) < 0 &&
           err.code == ERR_DENIED,
       "no file: %s", err.msg);
    (void)close(fd);
    (void)unlink(path);
    is_int(buf_read_file(&b, path, 10, &err), -1, "no file");
    is_int(err.code, ERR_NOTFOUND, "is not found");
    is_int(buf_read_file(&b, "/tmp", 10, &err), -1, "a directory");
    is_int(err.code, ERR_INVAL, "cannot be read");
    buf_clear(&b);
}

int main(void)
{
    test_text();
    test_growth();
    test_limits();
    test_detach();
    test_file();
    return tap_done();
}
