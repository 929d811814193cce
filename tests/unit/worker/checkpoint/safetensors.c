/* safetensors.c - files that are right, and files that are not: whatever the
 * header claims, nothing outside the file is read (run it under ASan), and
 * the error names the tensor and the offset. */
#include "worker/checkpoint/safetensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/rng.h"
#include "tests/tap.h"
#include "worker/checkpoint/crc64.h"

static char path[] = "/tmp/mgpu-st.XXXXXX";

static void put(const void *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n)
        abort();
    (void)close(fd);
}

/* A file from a header and n bytes of data; the length may lie. */
static void put_file(const char *header, int64_t claimed, size_t n)
{
    struct buf b = BUF_INIT;
    uint64_t len = claimed < 0 ? strlen(header) : (uint64_t)claimed;
    char zeros[64] = {0};
    if (buf_add(&b, &len, 8, NULL) < 0 || buf_addstr(&b, header, NULL) < 0 ||
        buf_add(&b, zeros, n, NULL) < 0)
        abort();
    put(buf_str(&b), b.len);
    buf_clear(&b);
}

static void refused(const char *what, const char *w1, const char *w2)
{
    struct error err = ERROR_INIT;
    struct safetensors s = {.n = 77};
    bool bad = safetensors_open(path, 1 << 20, &s, &err) < 0;
    ok(bad && err.code == ERR_INVAL && strstr(err.msg, w1) != NULL &&
           strstr(err.msg, w2) != NULL && s.n == 77,
       "%s: %s", what, err.msg);
    if (!bad)
        safetensors_close(&s);
}

static void test_round_trip(void)
{
    struct error err = ERROR_INIT;
    struct safetensors s;
    struct st_writer w;
    const double a[6] = {1, 2, 3, 4, 5, -0.0};
    const int64_t b = 42, shape_a[] = {2, 3}, none[] = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    safetensors_writer_init(&w, fd);
    ok(safetensors_declare(&w, "layer.0.weight", ST_F64, shape_a, 2, &err) ==
               0 &&
           safetensors_declare(&w, "count", ST_I64, NULL, 0, &err) == 0 &&
           safetensors_declare(&w, "nothing", ST_F32, none, 1, &err) == 0 &&
           safetensors_begin(&w, &err) == 0 &&
           st_write(&w, a, sizeof(a), &err) == 0,
       "write: %s", err.msg);
    is_int(safetensors_end(&w, &err), -1, "a tensor is missing");
    ok(st_write(&w, &b, sizeof(b), &err) == 0 && safetensors_end(&w, &err) == 0,
       "now it is whole");
    (void)close(fd);
    if (!ok(safetensors_open(path, 1 << 20, &s, &err) == 0, "read: %s",
            err.msg))
        return;
    ok(crc64(0, s.map, s.bytes) == w.crc, "the writer's checksum");
    const struct st_tensor *t = safetensors_find(&s, "layer.0.weight");
    ok(t != NULL && t->type == ST_F64 && t->dims == 2 && t->shape[0] == 2 &&
           t->shape[1] == 3 && t->bytes == sizeof(a) &&
           memcmp(t->data, a, sizeof(a)) == 0,
       "the values");
    t = safetensors_find(&s, "count");
    ok(t != NULL && t->dims == 0 && t->bytes == 8 &&
           memcmp(t->data, &b, 8) == 0,
       "a scalar");
    t = safetensors_find(&s, "nothing");
    ok(t != NULL && t->bytes == 0, "an empty tensor");
    ok(safetensors_find(&s, "other") == NULL, "no other");
    ok((uint64_t)(s.bytes - 8 - sizeof(a) - 8) % 8 == 0, "the data is aligned");
    safetensors_close(&s);
    safetensors_writer_clear(&w);
}

#define T(type, shape, from, to)                                          \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" from \
    "," to "]}"

static void test_header(void)
{
    put("1234567", 7);
    refused("seven bytes", "too short", "7");
    put_file("{}", 1LL << 62, 0);
    refused("a header of 2^62 bytes", "header of", "10");
    put_file("{}", -1, 8);
    refused("data of nobody", "8 bytes", "offset 0");
    put_file("{}", 3, 0);
    refused("one byte too long", "header", "10");
    put_file("{\"a\":", -1, 0);
    refused("half a header", "header", "byte");
    put_file("[]", -1, 0);
    refused("no object", "header", "not an object");
    put_file("{\"a\":" T("F32", "[1]", "0", "4") ",\"a\":" T("F32", "[1]", "0",
                                                             "4") "}",
             -1, 4);
    refused("one name twice", "header", "");
    put_file("{\"a\":7}", -1, 4);
    refused("a number for a tensor", "'a'", "object");
    put_file("{\"a\":" T("F31", "[1]", "0", "4") "}", -1, 4);
    refused("no such dtype", "'a'", "F31");
    put_file(
        "{\"__metadata__\":{\"x\":\"y\"},\"a\":" T("F32", "[1]", "0", "4") "}",
        -1, 4);
    struct safetensors s;
    struct error err = ERROR_INIT;
    ok(safetensors_open(path, 1 << 20, &s, &err) == 0 && s.n == 1,
       "metadata: %s", err.msg);
    safetensors_close(&s);
    is_int(safetensors_open(path, 20, &s, &err), -1, "longer than allowed");
    is_int(err.code, ERR_LIMIT, "is a limit");
    is_int(safetensors_open("/nonexistent/x", 20, &s, &err), -1,
           "no such file");
    is_int(err.code, ERR_NOTFOUND, "is not found");
}

static void test_shape(void)
{
    put_file("{\"a\":" T("F32", "7", "0", "4") "}", -1, 4);
    refused("no list", "'a'", "dimensions");
    put_file("{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", -1, 4);
    refused("nine dimensions", "'a'", "0..8");
    put_file("{\"a\":" T("F32", "[-1]", "0", "4") "}", -1, 4);
    refused("a negative one", "'a'", "dimension 0");
    put_file("{\"a\":" T("F32", "[1,1.5]", "0", "4") "}", -1, 4);
    refused("half a one", "'a'", "dimension 1");
    put_file("{\"a\":" T("F32", "[4294967296,4294967296]", "0", "4") "}", -1,
             4);
    refused("2^64 elements", "'a'", "dimension 1");
    put_file("{\"a\":" T("F64", "[2305843009213693952]", "0", "0") "}", -1, 0);
    refused("2^61 doubles, which wrap to 0 bytes", "'a'", "dimension 0");
    put_file("{\"a\":" T("F32", "[2]", "0", "4") "}", -1, 4);
    refused("too few bytes", "'a'", "need 8");
}

static void test_place(void)
{
    put_file("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
             -1, 4);
    refused("one offset", "'a'", "two integers");
    put_file("{\"a\":" T("F32", "[1]", "0", "\"4\"") "}", -1, 4);
    refused("an offset in quotes", "'a'", "two integers");
    put_file("{\"a\":" T("F32", "[1]", "4", "0") "}", -1, 4);
    refused("backwards", "'a'", "4..0");
    put_file("{\"a\":" T("F32", "[1]", "-4", "0") "}", -1, 4);
    refused("before the data", "'a'", "-4..0");
    put_file("{\"a\":" T("F32", "[2]", "0", "8") "}", -1, 4);
    refused("a file cut short", "'a'", "0..8");
    put_file("{\"a\":" T("F32", "[1]", "9223372036854775800",
                         "9223372036854775804") "}",
             -1, 4);
    refused("an offset near 2^63", "'a'", "outside");
    put_file("{\"a\":" T("F32", "[2]", "0", "8") ",\"b\":" T("F32", "[1]", "4",
                                                             "8") "}",
             -1, 8);
    refused("an overlap", "'b'", "offset 4 overlaps");
    put_file("{\"a\":" T("F32", "[1]", "0", "4") ",\"b\":" T("F32", "[1]", "0",
                                                             "4") "}",
             -1, 4);
    refused("the same place twice", "'b'", "offset 0 overlaps");
    put_file("{\"a\":" T("F32", "[1]", "0", "4") ",\"b\":" T("F32", "[1]", "8",
                                                             "12") "}",
             -1, 12);
    refused("a hole", "'b'", "offset 8 leaves a hole");
}

/* The metadata are the writer's, and a reader passes over them. */
static void test_format(void)
{
    static const char want[] = "{\"__metadata__\":{\"format\":\"pt\"}";
    struct error err = ERROR_INIT;
    struct safetensors s = {.n = 0};
    struct st_writer w;
    const int64_t one[] = {1};
    const float value = 7;
    for (int tensors = 0; tensors < 2; tensors++) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        safetensors_writer_init(&w, fd);
        ok(safetensors_declare_format(&w, "pt", &err) == 0 &&
               (tensors == 0 ||
                safetensors_declare(&w, "a", ST_F32, one, 1, &err) == 0) &&
               safetensors_begin(&w, &err) == 0 &&
               st_write(&w, &value, (size_t)tensors * sizeof(value), &err) ==
                   0 &&
               safetensors_end(&w, &err) == 0,
           "write with metadata: %s", err.msg);
        (void)close(fd);
        safetensors_writer_clear(&w);
        if (ok(safetensors_open(path, 1 << 20, &s, &err) == 0, "read: %s",
               err.msg)) {
            ok(s.n == (size_t)tensors &&
                   memcmp((const char *)s.map + 8, want, strlen(want)) == 0,
               "metadata and %zu tensors", s.n);
            safetensors_close(&s);
        }
    }
}

/* The names are found in any order of the file. */
static void test_many(void)
{
    enum { N = 1000 };
    struct error err = ERROR_INIT;
    struct safetensors s = {.n = 0};
    struct st_writer w;
    char name[32];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), found = 0;
    int rc = 0;
    safetensors_writer_init(&w, fd);
    for (int64_t i = 0; i < N && rc == 0; i++) {
        int64_t shape[] = {i % 3};
        (void)snprintf(name, sizeof(name), "t.%d", (int)(i * 617 % N));
        rc = safetensors_declare(&w, name, ST_U8, shape, 1, &err);
    }
    rc = rc < 0 ? rc : safetensors_begin(&w, &err);
    for (int64_t i = 0; i < N && rc == 0; i++)
        rc = st_write(&w, "xy", (size_t)(i % 3), &err);
    is_int(rc < 0 ? rc : safetensors_end(&w, &err), 0, "write 1000 tensors");
    (void)close(fd);
    safetensors_writer_clear(&w);
    if (!ok(safetensors_open(path, 1 << 20, &s, &err) == 0, "read: %s",
            err.msg))
        return;
    for (int64_t i = 0; i < N; i++) {
        (void)snprintf(name, sizeof(name), "t.%d", (int)(i * 617 % N));
        const struct st_tensor *t = safetensors_find(&s, name);
        found +=
            t != NULL && strcmp(t->name, name) == 0 && t->shape[0] == i % 3;
    }
    is_int(found, N, "each is found by its name");
    ok(safetensors_find(&s, "") == NULL &&
           safetensors_find(&s, "t.1000") == NULL &&
           safetensors_find(&s, "zzz") == NULL &&
           safetensors_find(&s, "t.") == NULL,
       "names before, between and after them are not");
    safetensors_close(&s);
}

static void test_no_file(void)
{
    struct error err = ERROR_INIT;
    struct safetensors s = {.n = 77};
    char fifo[64];
    put("", 0);
    refused("an empty file", "0 bytes", "too short");
    is_int(safetensors_open("/tmp", 1 << 20, &s, &err), -1, "a directory");
    ok(err.code == ERR_INVAL && strstr(err.msg, "a directory") != NULL, "%s",
       err.msg);
    (void)snprintf(fifo, sizeof(fifo), "%s.fifo", path);
    if (mkfifo(fifo, 0600) < 0)
        abort();
    is_int(safetensors_open(fifo, 1 << 20, &s, &err), -1,
           "a FIFO does not block");
    ok(err.code == ERR_INVAL && s.n == 77, "%s", err.msg);
    (void)unlink(fifo);
}

static long resident_kb(void)
{
    struct buf b = BUF_INIT;
    long kb = -1;
    if (buf_read_file(&b, "/proc/self/status", 65536, NULL) == 0) {
        const char *at = strstr(buf_str(&b), "VmRSS:");
        kb = at != NULL ? strtol(at + 6, NULL, 10) : -1;
    }
    buf_clear(&b);
    return kb;
}

/* A file of 6 GB, all of it a hole but the header: opening it takes no memory,
 * and its last byte is there. */
static void test_large(void)
{
    static const char header[] =
        "{\"a\":" T("F32", "[1073741824]", "0", "4294967296") ",\"b\":" T(
            "U8", "[2147483648]", "4294967296", "6442450944") "}";
    const off_t size = (off_t)(8 + sizeof(header) - 1) + 6442450944;
    struct error err = ERROR_INIT;
    struct safetensors s = {.n = 0};
    put_file(header, -1, 0);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        abort();
    if (ftruncate(fd, size) < 0 || pwrite(fd, "\x2a", 1, size - 1) != 1) {
        tap_ok(true, __FILE__, __LINE__,
               "a file of 6 GB # SKIP the file system has no such files");
        (void)close(fd);
        return;
    }
    (void)close(fd);
    long before = resident_kb();
    if (ok(safetensors_open(path, (size_t)1 << 40, &s, &err) == 0,
           "open 6 GB: %s", err.msg)) {
        const struct st_tensor *a = safetensors_find(&s, "a"),
                               *b = safetensors_find(&s, "b");
        ok(a != NULL && b != NULL && a->bytes == (size_t)1 << 32 &&
               b->bytes == (size_t)1 << 31 &&
               ((const unsigned char *)b->data)[b->bytes - 1] == 0x2a &&
               ((const unsigned char *)a->data)[a->bytes - 1] == 0,
           "the last bytes of both tensors");
        long more = resident_kb() - before;
        ok(before > 0 && more < 16 * 1024, "it takes %ld kB of memory", more);
        safetensors_close(&s);
    }
    put("", 0);
}

/* So many tensors of no bytes. */
static void put_many(int n)
{
    struct buf b = BUF_INIT;
    uint64_t len = 0;
    int rc = buf_add(&b, &len, 8, NULL);
    for (int i = 0; i < n && rc == 0; i++)
        rc = buf_addf(&b, NULL, "%c\"{%d,\\\"\":" T("U8", "[0]", "0", "0"),
                      i == 0 ? '{' : ',', i);
    if (rc < 0 || buf_addstr(&b, "}", NULL) < 0)
        abort();
    len = b.len - 8;
    memcpy(b.data, &len, 8);
    put(b.data, b.len);
    buf_clear(&b);
}

/* Braces and commas of names do not count. */
static void test_too_many(void)
{
    struct error err = ERROR_INIT;
    struct safetensors s;
    put_many(ST_TENSORS_MAX + 2);
    is_int(safetensors_open(path, 1 << 30, &s, &err), -1, "too many tensors");
    ok(err.code == ERR_INVAL && strstr(err.msg, "at most 100000") != NULL, "%s",
       err.msg);
    put_many(ST_TENSORS_MAX);
    if (ok(safetensors_open(path, 1 << 30, &s, &err) == 0, "but not many: %s",
           err.msg)) {
        is_int((long long)s.n, ST_TENSORS_MAX, "all of them");
        safetensors_close(&s);
    }
    put("", 0);
}

/* Every prefix of a good file, and random bytes changed in it. */
static void test_damage(void)
{
    static const char header[] = "{\"a\":" T(
        "F32", "[2,2]", "0", "16") ",\"b\":" T("I64", "[]", "16", "24") "}";
    struct error err = ERROR_INIT;
    struct buf good = BUF_INIT;
    struct safetensors s;
    struct rng rng;
    put_file(header, -1, 24);
    if (buf_read_file(&good, path, 1000, &err) < 0)
        abort();
    int opened = 0, silent = 0;
    for (size_t n = 0; n < good.len; n++) {
        put(good.data, n);
        err.msg[0] = '\0';
        if (safetensors_open(path, 1000, &s, &err) == 0) {
            safetensors_close(&s);
            opened++;
        }
        silent += err.msg[0] == '\0';
    }
    is_int(opened, 0, "no prefix is taken for the whole");
    is_int(silent, 0, "and each has its message");
    rng_seed(&rng, 1);
    for (int i = 0; i < 2000; i++) {
        struct buf bad = BUF_INIT;
        if (buf_add(&bad, good.data, good.len, NULL) < 0)
            abort();
        for (int k = 0; k < 3; k++)
            bad.data[rng_u32(&rng) % (8 + sizeof(header))] =
                (char)rng_u32(&rng);
        put(bad.data, bad.len);
        if (safetensors_open(path, 1000, &s, &err) == 0) {
            for (size_t k = 0; k < s.n; k++)
                silent += crc64(0, s.tensors[k].data, s.tensors[k].bytes) == 1;
            safetensors_close(&s);
        }
        buf_clear(&bad);
    }
    is_int(silent, 0, "2000 damaged files are read within their bounds");
    buf_clear(&good);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    (void)close(fd);
    ok(crc64(0, "123456789", 9) == 0x995dc9bbdf1939fa, "crc64 of 123456789");
    ok(crc64(crc64(0, "12345", 5), "6789", 4) == 0x995dc9bbdf1939fa,
       "in two parts");
    test_round_trip();
    test_format();
    test_many();
    test_no_file();
    test_header();
    test_shape();
    test_place();
    test_too_many();
    test_damage();
    test_large();
    (void)unlink(path);
    return tap_done();
}
