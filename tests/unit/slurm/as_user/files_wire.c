/* files_wire.c - what a daemon may ask the helper for, and nothing else. */
#include "slurm/as_user/files_wire.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

static const struct {
    const char *dir, *name;
    bool is_good;
} texts[] = {
    {"/var/lib/mgpu/jobs/12/1", "report.json", true},
    {"/home/anna/.mgpu/12/1", "spool.0", true},
    {"/1/2", "spool.123456789", true},
    {"/a/18446744073709551615/1", "spool.7", true},
    {"/a/1/2", "spool.", false},
    {"/a/1/2", "spool.1234567890", false},
    {"/a/1/2", "spool.-1", false},
    {"/a/1/2", "spool.1/../../x", false},
    {"/a/1/2", "spool.1 ", false},
    {"/a/1/2", "report.json2", false},
    {"/a/1/2", "../1/report.json", false},
    {"/a/1/2", "", false},
    {"/a/1/2", ".", false},
    {"/a/1/2", "..", false},
    {"/a/1/2", "launch.json", false},
    {"/a/1/2", "id_rsa", false},
    {"a/1/2", "spool.0", false},
    {"", "spool.0", false},
    {"/", "spool.0", false},
    {"/a/1", "spool.0", false},
    {"/1", "spool.0", false},
    {"/a/1/2/", "spool.0", false},
    {"/a//1/2", "spool.0", false},
    {"//1/2", "spool.0", false},
    {"/a/./1/2", "spool.0", false},
    {"/a/../1/2", "spool.0", false},
    {"/a/1/2/..", "spool.0", false},
    {"/a/1/x2", "spool.0", false},
    {"/home/anna/.ssh", "spool.0", false},
    {"/a/1/222222222222222222222", "spool.0", false},
};

static struct files_req good(void)
{
    struct files_req r = {.op = FILES_READ,
                          .seq = 7,
                          .uid = 1000,
                          .offset = 5,
                          .cap = 100,
                          .dir = "/a/1/2",
                          .name = "spool.3"};
    return r;
}

/* What encode refuses, a hostile daemon writes by hand: a good packet of the
 * same lengths, with the texts exchanged. */
static bool parses(const char *dir, const char *name)
{
    struct files_req r = good(), got;
    struct buf b = BUF_INIT;
    uint32_t lens[2] = {(uint32_t)strlen(dir), (uint32_t)strlen(name)};
    if (files_req_encode(&r, &b, NULL) < 0)
        return false;
    b.len = 40;
    memcpy(b.data + 32, lens, sizeof(lens));
    if (buf_addstr(&b, dir, NULL) < 0 || buf_addstr(&b, name, NULL) < 0)
        return false;
    int rc = files_req_parse(b.data, b.len, &got, NULL);
    bool same = rc == 0 && strcmp(got.dir, dir) == 0 &&
                strcmp(got.name, name) == 0 && got.seq == 7 &&
                got.uid == 1000 && got.offset == 5 && got.cap == 100;
    buf_clear(&b);
    return same;
}

static void test_texts(void)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct files_req r = good();
        struct buf b = BUF_INIT;
        struct error err = ERROR_INIT;
        (void)snprintf(r.dir, sizeof(r.dir), "%s", texts[i].dir);
        (void)snprintf(r.name, sizeof(r.name), "%s", texts[i].name);
        int rc = files_req_encode(&r, &b, &err);
        ok((rc == 0) == texts[i].is_good &&
               (rc == 0 || err.code == ERR_INVAL) &&
               parses(texts[i].dir, texts[i].name) == texts[i].is_good,
           "'%s' '%s' is %s", texts[i].dir, texts[i].name,
           texts[i].is_good ? "taken" : "refused");
        buf_clear(&b);
    }
}

static void test_numbers(void)
{
    struct files_req r[7];
    for (size_t i = 0; i < 7; i++)
        r[i] = good();
    r[1].uid = (uid_t)-1;
    r[2].offset = (uint64_t)INT64_MAX + 1;
    r[3].cap = 0;
    r[4].cap = FILES_DATA_MAX + 1;
    r[5].op = 3;
    r[6].op = FILES_LOG; /* with a name */
    for (size_t i = 0; i < 7; i++) {
        struct buf b = BUF_INIT;
        ok((files_req_encode(&r[i], &b, NULL) == 0) == (i == 0),
           "numbers, case %zu", i);
        buf_clear(&b);
    }
}

static void test_lengths(void)
{
    struct files_req r = good(), got = {.seq = 9};
    struct buf b = BUF_INIT;
    int n_taken = 0;
    if (files_req_encode(&r, &b, NULL) < 0)
        return;
    for (size_t n = 0; n < b.len; n++)
        n_taken += files_req_parse(b.data, n, &got, NULL) == 0;
    is_int(n_taken, 0, "no part of a request is one");
    ok(files_req_parse(b.data, 39, &got, NULL) < 0 && got.seq == 0,
       "half a head has no number");
    ok(files_req_parse(b.data, b.len - 1, &got, NULL) < 0 && got.seq == 7,
       "half a request has one");
    ok(buf_add(&b, "1", 1, NULL) == 0 &&
           files_req_parse(b.data, b.len, &got, NULL) < 0,
       "nor is one with more");
    b.len--;
    for (size_t at = 0; at < b.len; at++) {
        char was = b.data[at];
        b.data[at] = '\0';
        if (at >= 40 && files_req_parse(b.data, b.len, &got, NULL) == 0)
            n_taken++;
        b.data[at] = was;
    }
    is_int(n_taken, 0, "a text has no NUL");
    buf_clear(&b);
}

static void test_answers(void)
{
    char data[3] = {'a', '\0', 'b'};
    struct files_ans a = {.seq = 8,
                          .code = ERR_DENIED,
                          .offset = 1,
                          .dropped = 2,
                          .data = data,
                          .n = 3},
                     got;
    struct buf b = BUF_INIT;
    int n_taken = 0;
    ok(files_ans_encode(&a, &b, NULL) == 0 &&
           files_ans_parse(b.data, b.len, &got, NULL) == 0,
       "an answer is read as written");
    ok(got.seq == 8 && got.code == ERR_DENIED && got.offset == 1 &&
           got.dropped == 2 && got.n == 3 && memcmp(got.data, data, 3) == 0,
       "with all it says");
    for (size_t n = 0; n < b.len; n++)
        n_taken += files_ans_parse(b.data, n, &got, NULL) == 0;
    is_int(n_taken, 0, "no part of an answer is one");
    b.data[4] = 99;
    ok(files_ans_parse(b.data, b.len, &got, NULL) < 0, "nor is one of a code "
                                                       "that is none");
    a.n = FILES_DATA_MAX + 1;
    ok(files_ans_encode(&a, &b, NULL) < 0, "nor one that is too long");
    buf_clear(&b);
}

int main(void)
{
    test_texts();
    test_numbers();
    test_lengths();
    test_answers();
    return tap_done();
}
