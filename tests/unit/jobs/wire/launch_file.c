/* launch_file.c - launch.json there and back, and each way to spoil it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/wire/wire.h"
#include "tests/recorded.h"
#include "tests/tap.h"

static const char spec_text[] = "version: 1\n"
                                "name: t1\n"
                                "kind: command\n"
                                "command: [/bin/echo, \"a b\"]\n"
                                "resources: {gpus: 0}\n";

static int make(struct buf *out, struct error *err)
{
    struct wire_launch l = {.attempt = 3,
                            .nodes = 1,
                            .gpus_per_node = 0,
                            .job = 12,
                            .sweep = 10,
                            .task = 7,
                            .n_tasks = 3,
                            .cluster = "local",
                            .user = "ann",
                            .token = "0123456789abcdef",
                            .url = "unix:/run/x \"y\"",
                            .dir = "/d/12/3",
                            .job_dir = "/d/12",
                            .owner = "0123456789abcdef0123456789abcdef",
                            .parent = "7_2",
                            .from = "/d/9/out/ckpt",
                            .heartbeat_s = 2.5};
    struct spec_options opt = {.file = NULL, .draw_seed = true};
    struct spec_report report;
    struct buf spec = BUF_INIT;
    int rc =
        spec_parse(spec_text, strlen(spec_text), &opt, &l.spec, &report, err);
    if (rc < 0 && report.n > 0)
        tap_diag("%s", report.findings[0].message);
    diagnostics_clear(&report);
    rc = rc < 0 ? rc : spec_dump(&l.spec, &spec, err);
    rc = rc < 0 ? rc : wire_launch_encode(&l, buf_str(&spec), out, err);
    buf_clear(&spec);
    spec_clear(&l.spec);
    return rc;
}

static void test_there_and_back(void)
{
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    struct wire_launch l;
    is_int(make(&b, &err), 0, "encode");
    ok(b.len > 0 && strchr(buf_str(&b), '\n') == buf_str(&b) + b.len - 1,
       "one line");
    if (!ok(wire_launch_parse(buf_str(&b), b.len, &l, &err) == 0, "parse: %s",
            err.msg))
        return;
    is_int((long long)l.job, 12, "job");
    ok(l.sweep == 10 && l.task == 7 && l.n_tasks == 3, "task of a sweep");
    is_int(l.attempt, 3, "attempt");
    is_int(l.nodes, 1, "nodes");
    is_int(l.gpus_per_node, 0, "gpus per node");
    is_str(l.cluster, "local", "cluster");
    is_str(l.user, "ann", "user");
    is_str(l.token, "0123456789abcdef", "token");
    is_str(l.owner, "0123456789abcdef0123456789abcdef", "owner");
    is_str(l.parent, "7_2", "parent");
    is_str(l.from, "/d/9/out/ckpt", "from");
    is_str(l.url, "unix:/run/x \"y\"", "url");
    is_str(l.dir, "/d/12/3", "dir");
    is_str(l.job_dir, "/d/12", "job_dir");
    ok(l.heartbeat_s == 2.5, "heartbeat_s");
    is_str(l.spec.name, "t1", "spec.name");
    is_int(l.spec.kind, SPEC_COMMAND, "spec.kind");
    is_str(l.spec.command.items[1], "a b", "spec.command");
    wire_launch_clear(&l);
    wire_launch_clear(&l);
    wire_launch_clear(NULL);
    buf_clear(&b);
}

/* What stands after `key` is replaced by `value`; the rest stays. */
static void test_spoilt(const char *key, const char *value, const char *word)
{
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT, bad = BUF_INIT;
    struct wire_launch l = {.attempt = 77};
    char find[40];
    if (make(&b, &err) < 0)
        return;
    (void)snprintf(find, sizeof(find), "\"%s\":", key);
    const char *text = buf_str(&b);
    const char *at = strstr(text, find);
    if (!ok(at != NULL, "'%s' is there", key))
        return;
    at += strlen(find);
    const char *end = at + strcspn(at, *at == '{' ? "\n" : ",");
    if (*at == '{')
        end--; /* the launch's own brace */
    if (buf_add(&bad, text, (size_t)(at - text), &err) < 0 ||
        buf_addstr(&bad, value, &err) < 0 || buf_addstr(&bad, end, &err) < 0)
        return;
    int rc = wire_launch_parse(buf_str(&bad), bad.len, &l, &err);
    ok(rc < 0 && err.code == ERR_INVAL && strstr(err.msg, word) != NULL,
       "%s %s: %s", key, value, err.msg);
    is_int(l.attempt, 77, "ret is untouched");
    buf_clear(&b);
    buf_clear(&bad);
}

static void test_bad_text(const char *text, const char *what)
{
    struct error err = ERROR_INIT;
    struct wire_launch l;
    ok(wire_launch_parse(text, strlen(text), &l, &err) < 0 &&
           err.code == ERR_INVAL,
       "%s: %s", what, err.msg);
}

static int left = -1; /* of jansson's allocations; -1: all succeed */

static void *get(size_t n)
{
    return left >= 0 && left-- == 0 ? NULL : malloc(n);
}

/* A job whose launch cannot be written for want of memory is tried again; one
 * whose field is no text never. */
static void test_no_memory(void)
{
    struct wire_launch l = {.attempt = 3,
                            .nodes = 1,
                            .job = 12,
                            .sweep = 10,
                            .n_tasks = 3,
                            .cluster = "local",
                            .token = "0123456789abcdef",
                            .url = "unix:/run/x",
                            .dir = "/d/12/3",
                            .job_dir = "/d/12",
                            .heartbeat_s = 2.5};
    struct error err = ERROR_INIT;
    int n = 0, n_other = 0;
    struct buf whole = BUF_INIT;
    json_set_alloc_funcs(get, free);
    is_int(wire_launch_encode(&l, "{}", &whole, &err), 0, "with all of it");
    for (bool was_all = false; !was_all; n++) {
        struct buf b = BUF_INIT;
        left = n;
        int rc = wire_launch_encode(&l, "{}", &b, &err);
        was_all = left >= 0;
        left = -1;
        n_other += rc < 0 ? err.code != ERR_NOMEM
                          : strcmp(buf_str(&b), buf_str(&whole)) != 0;
        buf_clear(&b);
    }
    ok(n > 10, "%d allocations of jansson were failed", n - 1);
    is_int(n_other, 0, "each is want of memory");
    buf_clear(&whole);
    struct buf b = BUF_INIT;
    memcpy(l.url, "\xe9", 2);
    is_int(wire_launch_encode(&l, "{}", &b, &err), -1, "Latin-1");
    is_int(err.code, ERR_INVAL, "is something else");
    buf_clear(&b);
}

static void outcome(const char *text, size_t len, struct buf *ret)
{
    struct error err = ERROR_INIT;
    struct wire_launch l = {.attempt = 0};
    if (wire_launch_parse(text, len, &l, &err) < 0 ||
        wire_launch_encode(&l, "{}", ret, &err) < 0)
        recorded_error(ret, &err);
    else
        ret->data[--ret->len] = '\0'; /* the newline */
    wire_launch_clear(&l);
}

int main(void)
{
    recorded("launch_file", 51, outcome);
    test_no_memory();
    test_there_and_back();
    test_spoilt("version", "2", "version");
    test_spoilt("job", "0", "job");
    test_spoilt("job", "-1", "job");
    test_spoilt("job", "\"12\"", "job");
    test_spoilt("job", "99999999999999999999", "line 1");
    test_spoilt("attempt", "0", "attempt");
    test_spoilt("attempt", "2147483648", "attempt");
    test_spoilt("attempt", "1.5", "attempt");
    test_spoilt("token", "\"\"", "token");
    test_spoilt("token", "\"ab\\r\\ncd\"", "hexadecimal");
    test_spoilt("token",
                "\"00000000000000000000000000000000000000000000000000000000"
                "000000000\"",
                "1..64");
    test_spoilt("dir", "\"d/12\"", "absolute");
    test_spoilt("job_dir", "null", "job_dir");
    test_spoilt("url", "\"a\\u0000b\"", "line 1");
    test_spoilt("heartbeat_s", "0", "heartbeat_s");
    test_spoilt("heartbeat_s", "\"1\"", "heartbeat_s");
    test_spoilt("spec", "[]", "spec");
    test_spoilt("spec", "{\"version\":1,\"kind\":\"nothing\"}", "spec");
    test_spoilt("owner", "7", "'owner'");
    test_spoilt("from", "\"d/9/out\"", "absolute");
    test_spoilt("owner", "\"0123\"", "'owner'");
    test_spoilt("owner", "\"0123456789abcdef0123456789abcdeg\"", "'owner'");
    test_bad_text("", "empty");
    test_bad_text("{", "cut off");
    test_bad_text("[]", "not an object");
    test_bad_text("{\"job\":1,\"job\":1}", "a key twice");
    return tap_done();
}
