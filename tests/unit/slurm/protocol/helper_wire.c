/* helper_wire.c - commands to the helper: there and back, what is refused; and
 * the recorded answers of all its lines. */
#include "slurm/protocol/helper_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/recorded.h"
#include "tests/tap.h"

#define SUBMIT                                                              \
    "{\"op\":\"submit\",\"id\":7,\"job\":12,\"attempt\":1,"                 \
    "\"tag\":\"mgpu:c:12:1:9f3a\",\"name\":\"mnist\",\"uid\":1000,"         \
    "\"dir\":\"/srv/12/1\",\"launch\":\"{\\\"version\\\":1}\",\"nodes\":2," \
    "\"gpus_per_node\":2,\"limit_s\":3600.5,\"grace_s\":120,"               \
    "\"partition\":\"a,b\",\"account\":null,"                               \
    "\"qos\":\"high\",\"constraint\":\"ib&(h100|h200)\","                   \
    "\"reservation\":null,\"gpu_type\":\"h100\",\"exclude\":\"n1,n-2\","    \
    "\"cpus_per_gpu\":4,"                                                   \
    "\"memory_bytes\":1073741824,\"exclusive\":true}"
#define SIGNAL                                                               \
    "{\"op\":\"signal\",\"id\":8,\"tag\":\"mgpu:c:12:1:9f3a\",\"uid\":1000," \
    "\"slurm_id\":20,\"signo\":15}"
#define KILL                                                               \
    "{\"op\":\"kill\",\"id\":8,\"tag\":\"mgpu:c:12:1:9f3a\",\"uid\":1000," \
    "\"slurm_id\":20}"
#define LIMIT                                                               \
    "{\"op\":\"limit\",\"id\":8,\"tag\":\"mgpu:c:12:1:9f3a\",\"uid\":1000," \
    "\"slurm_id\":20,\"limit_s\":90.5}"
#define RECALL                                                               \
    "{\"op\":\"recall\",\"id\":9,\"tag\":\"mgpu:c:12:1:9f3a\",\"uid\":1000," \
    "\"name\":\"mnist\",\"dir\":\"/srv/12/1\",\"slurm_id\":0,"               \
    "\"since\":1795000000}"
#define READ_EXIT \
    "{\"op\":\"read_exit\",\"id\":9,\"uid\":0,\"dir\":\"/srv/12/1\"}"

static int parse_cmd(const char *line, struct helper_cmd *ret,
                     struct error *err)
{
    return helper_cmd_parse(line, strlen(line), ret, err);
}

/* The line written again, and that one read: the caller clears *ret. */
static void cmd_again(const struct helper_cmd *c, struct helper_cmd *ret)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    is_int(helper_cmd_encode(c, &b, &err), 0, "is written");
    ok(b.len > 0 && b.data[b.len - 1] == '\n' &&
           strchr(b.data, '\n') == b.data + b.len - 1,
       "as one line");
    is_int(helper_cmd_parse(b.data, b.len - 1, ret, &err), 0, "is read");
    buf_clear(&b);
}

static void test_submit(void)
{
    struct helper_cmd c, d;
    struct error err = ERROR_INIT;
    if (!ok(parse_cmd(SUBMIT, &c, &err) == 0, "submit: %s", err.msg))
        return;
    cmd_again(&c, &d);
    helper_cmd_clear(&c);
    is_int(d.op, HELPER_SUBMIT, "op");
    is_int((long long)d.id, 7, "id");
    is_int((long long)d.req.job, 12, "job");
    is_int(d.req.attempt, 1, "attempt");
    is_str(d.req.tag, "mgpu:c:12:1:9f3a", "tag");
    is_str(d.req.name, "mnist", "name");
    is_int(d.req.uid, 1000, "uid");
    is_str(d.req.dir, "/srv/12/1", "dir");
    is_str(d.req.launch, "{\"version\":1}", "launch");
    is_int(d.req.nodes, 2, "nodes");
    is_int(d.req.gpus_per_node, 2, "GPUs");
    ok(d.req.limit_s == 3600.5 && d.req.grace_s == 120, "limits");
    is_str(d.req.where.partition, "a,b", "partition");
    ok(d.req.where.account == NULL && d.req.where.reservation == NULL, "null");
    is_str(d.req.where.qos, "high", "QOS");
    is_str(d.req.where.constraint, "ib&(h100|h200)", "constraint");
    is_str(d.req.where.gpu_type, "h100", "type");
    is_int(d.req.where.cpus_per_gpu, 4, "CPUs");
    is_int(d.req.where.memory_bytes, 1073741824, "memory");
    ok(d.req.where.exclusive, "exclusive");
    is_str(d.req.where.exclude, "n1,n-2", "exclude");
    helper_cmd_clear(&d);
    helper_cmd_clear(&d); /* twice is fine */
}

static void test_others(void)
{
    struct helper_cmd c, d;
    struct error err = ERROR_INIT;
    ok(parse_cmd(SIGNAL, &c, &err) == 0, "signal");
    cmd_again(&c, &d);
    ok(d.op == HELPER_SIGNAL && d.id == 8 && d.slurm_id == 20 &&
           d.req.uid == 1000 && d.signo == 15 &&
           strcmp(d.req.tag, "mgpu:c:12:1:9f3a") == 0 && !d.is_cancel,
       "signal's values");
    d.is_cancel = true;
    helper_cmd_clear(&c);
    cmd_again(&d, &c);
    ok(c.is_cancel, "that the job is cancelled");
    helper_cmd_clear(&c);
    helper_cmd_clear(&d);
    ok(parse_cmd(KILL, &c, &err) == 0, "kill");
    cmd_again(&c, &d);
    ok(d.op == HELPER_KILL && d.id == 8 && d.slurm_id == 20 &&
           d.req.uid == 1000 && strcmp(d.req.tag, "mgpu:c:12:1:9f3a") == 0,
       "kill's values");
    helper_cmd_clear(&c);
    helper_cmd_clear(&d);
    ok(parse_cmd(LIMIT, &c, &err) == 0, "limit");
    cmd_again(&c, &d);
    ok(d.op == HELPER_LIMIT && d.id == 8 && d.slurm_id == 20 &&
           d.req.uid == 1000 && d.req.limit_s == 90.5 &&
           strcmp(d.req.tag, "mgpu:c:12:1:9f3a") == 0,
       "limit's values");
    helper_cmd_clear(&c);
    helper_cmd_clear(&d);
    ok(parse_cmd(READ_EXIT, &c, &err) == 0, "read_exit");
    cmd_again(&c, &d);
    ok(d.op == HELPER_READ_EXIT && d.id == 9 && d.req.uid == 0 &&
           strcmp(d.req.dir, "/srv/12/1") == 0,
       "read_exit's values");
    helper_cmd_clear(&c);
    helper_cmd_clear(&d);
    ok(parse_cmd(RECALL, &c, &err) == 0, "recall");
    cmd_again(&c, &d);
    ok(d.op == HELPER_RECALL && d.id == 9 && d.req.uid == 1000 &&
           d.slurm_id == 0 && d.req.since == 1795000000 &&
           strcmp(d.req.dir, "/srv/12/1") == 0 &&
           strcmp(d.req.name, "mnist") == 0,
       "recall's values");
    helper_cmd_clear(&c);
    helper_cmd_clear(&d);
    ok(parse_cmd("{\"op\":\"again\",\"id\":10}", &c, &err) == 0, "again");
    cmd_again(&c, &d);
    ok(d.op == HELPER_AGAIN && d.id == 10, "again's value");
    helper_cmd_clear(&c);
    helper_cmd_clear(&d);
}

/* SUBMIT with one piece replaced; from must be in it. */
struct change {
    const char *from, *to;
};

static char *changed(const char *line, const struct change *ch)
{
    const char *at = strstr(line, ch->from);
    if (at == NULL)
        abort();
    size_t n = strlen(line) + strlen(ch->to) + 1;
    char *s = malloc(n);
    if (s == NULL)
        abort();
    (void)snprintf(s, n, "%.*s%s%s", (int)(at - line), line, ch->to,
                   at + strlen(ch->from));
    return s;
}

static void refused(const char *line, const struct change *ch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *s = changed(line, &ch[i]);
        struct helper_cmd c = {.id = 99};
        struct error err = ERROR_INIT;
        ok(parse_cmd(s, &c, &err) == -1 && err.code == ERR_INVAL &&
               c.id == 99 && err.msg[0],
           "%s -> %.40s: %s", ch[i].from, ch[i].to, err.msg);
        free(s);
    }
}
#define REFUSED(line, t) refused(line, t, sizeof(t) / sizeof((t)[0]))

static void test_refused_submit(void)
{
    static const struct change types[] = {
        {"\"job\":12,", ""},
        {"\"account\":null,", ""},
        {"\"exclusive\":true", "\"exclusive\":true,\"script\":\"rm\""},
        {"\"exclusive\":true", "\"exclusive\":1"},
        {"\"n1,n-2\"", "\"n1 n2\""},
        {"\"n1,n-2\"", "\"n[1-2]\""},
        {"\"n1,n-2\"", "\"\""},
        {"\"uid\":1000", "\"uid\":1000,\"uid\":0"},
        {"\"uid\":1000", "\"uid\":\"1000\""},
        {"\"uid\":1000", "\"uid\":1000.0"},
        {"\"uid\":1000", "\"uid\":-1"},
        {"\"uid\":1000", "\"uid\":4294967295"},
        {"\"nodes\":2", "\"nodes\":0"},
        {"\"nodes\":2", "\"nodes\":4294967298"},
        {"\"gpus_per_node\":2", "\"gpus_per_node\":-1"},
        {"\"gpus_per_node\":2", "\"gpus_per_node\":1025"},
        {"\"attempt\":1", "\"attempt\":0"},
        {"\"job\":12", "\"job\":99999999999999999999"},
        {"\"limit_s\":3600.5", "\"limit_s\":-1"},
        {"\"limit_s\":3600.5", "\"limit_s\":1e10"},
        {"\"limit_s\":3600.5", "\"limit_s\":1e999"},
        {"\"limit_s\":3600.5", "\"limit_s\":null"},
        {"\"memory_bytes\":1073741824", "\"memory_bytes\":-5"},
        {"\"op\":\"submit\"", "\"op\":\"reboot\""},
        {"\"op\":\"submit\",", ""},
        {"\"op\":\"submit\"", "\"op\":5"},
        {"}", ""}};
    static const struct change texts[] = {
        {"/srv/12/1", "srv/12/1"},
        {"/srv/12/1", "/srv/../etc"},
        {"/srv/12/1", "/srv/.."},
        {"/srv/12/1", "/srv/./1"},
        {"/srv/12/1", "/srv//1"},
        {"/srv/12/1", "/srv/"},
        {"/srv/12/1", "/"},
        {"/srv/12/1", ""},
        {"/srv/12/1", "/srv\\u0000/1"},
        {"/srv/12/1", "/srv\\n/1"},
        {"mgpu:c:12", "gpu:c:12"},
        {"mgpu:c:12", "mgpu:c 12"},
        {"mgpu:c:12", "mgpu:c\\u0000:12"},
        {"mgpu:c:12", "mgpu:%j:12"},
        {"\"name\":\"mnist\"", "\"name\":\"\""},
        {"\"name\":\"mnist\"", "\"name\":\"a\\u001bb\""},
        {"\"name\":\"mnist\"", "\"name\":null"},
        {"{\\\"version\\\":1}", "not JSON"},
        {"{\\\"version\\\":1}", "[1,2]"},
        {"{\\\"version\\\":1}", "{\\\"a\\\":1,\\\"a\\\":2}"},
        {"{\\\"version\\\":1}", "{\\\"version\\\":1}x"},
        {"\"h100\"", "\"h100:8,gres:nic\""},
        {"\"h100\"", "\"\""},
        {"\"a,b\"", "\"a b\""},
        {"\"a,b\"", "[\"a\"]"},
        {"\"high\"", "\"a'b\""},
        {"ib&(h100|h200)", "ib;rm"},
        {"ib&(h100|h200)", "\\u00e9"}};
    REFUSED(SUBMIT, types);
    REFUSED(SUBMIT, texts);
}

static void test_refused_others(void)
{
    static const struct change signals[] = {
        {"\"signo\":15", "\"signo\":0"},
        {"\"signo\":15", "\"signo\":65"},
        {"\"slurm_id\":20", "\"slurm_id\":-1"},
        {"\"slurm_id\":20", "\"slurm_id\":0"},
        {"\"slurm_id\":20", "\"slurm_id\":4294967295"},
        {"\"slurm_id\":20,", ""},
        {"\"uid\":1000,", ""},
        {"\"signo\":15", "\"signo\":15,\"dir\":\"/\""}};
    static const struct change reads[] = {
        {"/srv/12/1", "/srv/../1"},
        {"\"uid\":0", "\"uid\":false"},
        {"\"uid\":0", "\"uid\":0,\"name\":\"exit\""},
        {"{", "[{"}};
    REFUSED(SIGNAL, signals);
    REFUSED(READ_EXIT, reads);
    static const struct change recalls[] = {{"\"since\":17", "\"since\":-17"},
                                            {"\"name\":\"mnist\",", ""},
                                            {"/srv/12/1", "srv"},
                                            {"mgpu:c", "c"}};
    REFUSED(RECALL, recalls);
    static const struct change kills[] = {
        {"\"slurm_id\":20", "\"slurm_id\":20,\"signo\":9"},
        {"\"uid\":1000,", ""},
        {"mgpu:c", "c"}};
    REFUSED(KILL, kills);
    static const struct change limits[] = {
        {"\"limit_s\":90.5", "\"limit_s\":-1"}, {",\"limit_s\":90.5", ""}};
    REFUSED(LIMIT, limits);
    static const char *const lines[] = {
        "", "{}", "null", "[]", "7", "\"x\"", "{\"op\":\"submit\"}", "{} {}"};
    struct helper_cmd c;
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        ok(parse_cmd(lines[i], &c, &err) == -1 && err.code == ERR_INVAL,
           "'%s' is refused", lines[i]);
    static const char nul[] = SIGNAL "\0";
    ok(helper_cmd_parse(nul, sizeof(nul) - 1, &c, &err) == -1, "a NUL behind");
}

/* A text of n bytes: 'a', or `first` and then 'a's. */
static char *text_of(const char *first, size_t n)
{
    char *s = malloc(n + 1);
    if (s == NULL || strlen(first) > n)
        abort();
    memset(s, 'a', n);
    memcpy(s, first, strlen(first));
    s[n] = '\0';
    return s;
}

static void test_lengths(void)
{
    static const struct {
        const char *from, *first;
        size_t most;
    } all[] = {{"/srv/12/1", "/", HELPER_DIR_CAP - 1},
               {"mgpu:c:12:1:9f3a", "mgpu:", HELPER_TAG_CAP - 1},
               {"mnist", "", 255},
               {"a,b", "", 255},
               {"high", "", 255},
               {"h100\",", "h100\",", 0}};
    for (size_t i = 0; all[i].most; i++)
        for (size_t more = 0; more < 2; more++) {
            char *to = text_of(all[i].first, all[i].most + more);
            char *line = changed(
                SUBMIT, &(struct change){.from = all[i].from, .to = to});
            struct helper_cmd c;
            bool is = parse_cmd(line, &c, NULL) == 0;
            ok(is == (more == 0), "%s of %zu bytes", all[i].from,
               all[i].most + more);
            if (is)
                helper_cmd_clear(&c);
            free(line);
            free(to);
        }
    char *line = text_of("", HELPER_LINE_MAX + 1);
    struct helper_cmd c;
    struct error err = ERROR_INIT;
    ok(helper_cmd_parse(line, HELPER_LINE_MAX + 1, &c, &err) == -1 &&
           strstr(err.msg, "at most"),
       "a line that is too long is not even looked at");
    free(line);
}

static void test_encode_refuses(void)
{
    struct helper_cmd c;
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    ok(buf_addstr(&b, "before", &err) == 0 &&
           parse_cmd(READ_EXIT, &c, &err) == 0,
       "a good one");
    c.req.dir = "/a/../b";
    ok(helper_cmd_encode(&c, &b, &err) == -1 && err.code == ERR_INVAL,
       "what would be refused is not sent: %s", err.msg);
    c.req.dir = NULL;
    ok(helper_cmd_encode(&c, &b, &err) == -1, "no directory");
    c.req.dir = "/a\xff";
    ok(helper_cmd_encode(&c, &b, &err) == -1, "not UTF-8");
    c.req.dir = "/a";
    c.id = UINT64_MAX;
    ok(helper_cmd_encode(&c, &b, &err) == -1, "an id out of range");
    is_str(buf_str(&b), "before", "and nothing was appended");
    helper_cmd_clear(&c);
    buf_clear(&b);
}

/* A line that names an event is news, any other a command. */
static void outcome(const char *text, size_t len, struct buf *ret)
{
    struct error err = ERROR_INIT;
    struct helper_cmd c = {.hold = NULL};
    struct helper_news n = {.nodes = NULL};
    int rc = strstr(text, "\"ev\":") ? helper_news_parse(text, len, &n, &err)
                                     : helper_cmd_parse(text, len, &c, &err);
    if (rc == 0)
        rc = c.hold ? helper_cmd_encode(&c, ret, &err)
                    : helper_news_encode(&n, ret, &err);
    if (rc < 0)
        recorded_error(ret, &err);
    else if (ret->len > 0)
        ret->data[--ret->len] = '\0'; /* the newline */
    helper_cmd_clear(&c);
    helper_news_clear(&n);
}

int main(void)
{
    recorded("helper_wire", 100, outcome);
    test_submit();
    test_others();
    test_refused_submit();
    test_refused_others();
    test_lengths();
    test_encode_refuses();
    return tap_done();
}
