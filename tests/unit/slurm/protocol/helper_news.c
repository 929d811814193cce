/* helper_news.c - news of the helper: there and back, and what is refused. */
#include "slurm/protocol/helper_wire.h"

#include <string.h>

#include "tests/tap.h"

static struct helper_news again(const struct helper_news *n)
{
    struct helper_news m = {.nodes = NULL};
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    ok(helper_news_encode(n, &b, &err) == 0, "is written: %s", err.msg);
    ok(b.len > 0 && helper_news_parse(b.data, b.len - 1, &m, &err) == 0,
       "is read: %s", err.msg);
    is_int(m.ev, n->ev, "the same event");
    buf_clear(&b);
    return m;
}

static void test_news(void)
{
    struct helper_news n = {
        .ev = HELPER_HELLO, .generation = 3, .slurm = "22.05.8"};
    struct helper_news m = again(&n);
    ok(m.generation == 3 && strcmp(m.slurm, "22.05.8") == 0, "hello");

    n = (struct helper_news){.ev = HELPER_REPLY,
                             .id = 7,
                             .is_ok = true,
                             .slurm_id = 20,
                             .exit_code = 3,
                             .signal = 9,
                             .is_other = true,
                             .ended_ms = 1795000000500};
    m = again(&n);
    ok(m.is_ok && m.id == 7 && m.slurm_id == 20 && m.exit_code == 3 &&
           m.signal == 9 && m.is_other && m.ended_ms == 1795000000500,
       "a good reply");
    for (int sure = 0; sure < 2; sure++) {
        n = (struct helper_news){
            .ev = HELPER_REPLY,
            .id = 8,
            .is_sure = sure != 0,
            .why = {.code = ERR_UNAVAIL, .msg = "no answer"}};
        m = again(&n);
        ok(!m.is_ok && m.id == 8 && m.is_sure == (sure != 0) &&
               m.why.code == ERR_UNAVAIL && strcmp(m.why.msg, "no answer") == 0,
           "a bad reply");
    }
    n = (struct helper_news){.ev = HELPER_GONE,
                             .job = {.tag = "mgpu:c:1:1", .slurm_id = 4}};
    m = again(&n);
    ok(m.job.slurm_id == 4 && strcmp(m.job.tag, "mgpu:c:1:1") == 0, "gone");
    n = (struct helper_news){.ev = HELPER_SCAN, .seq = 31};
    m = again(&n);
    ok(m.seq == 31, "scan");
    n = (struct helper_news){
        .ev = HELPER_DOWN, .since = 1795000000, .why = {.msg = "refused"}};
    m = again(&n);
    ok(m.since == 1795000000 && m.why.code == ERR_UNAVAIL &&
           strcmp(m.why.msg, "refused") == 0,
       "down");
    n = (struct helper_news){.ev = HELPER_UP};
    m = again(&n);
}

static void test_job(void)
{
    struct helper_news n = {.ev = HELPER_JOB,
                            .job = {.tag = "mgpu:c:12:1:9f",
                                    .uid = 1000,
                                    .slurm_id = 20,
                                    .state = "PENDING",
                                    .reason = "Priority",
                                    .place = "n1:0,1 n2:0,1",
                                    .exit_code = 1,
                                    .signal = 2,
                                    .restarts = 3,
                                    .submitted = 1795000000,
                                    .ended = 1795000009,
                                    .expected = 1795000600}};
    struct helper_news m = again(&n);
    ok(m.job.slurm_id == 20 && m.job.uid == 1000 && m.job.exit_code == 1 &&
           m.job.signal == 2 && m.job.restarts == 3 &&
           m.job.submitted == 1795000000 && m.job.ended == 1795000009 &&
           m.job.expected == 1795000600,
       "the job's numbers");
    is_str(m.job.state, "PENDING", "state");
    is_str(m.job.reason, "Priority", "reason");
    is_str(m.job.place, "n1:0,1 n2:0,1", "place");
}

static void test_quota(void)
{
    struct helper_news m, n = {.ev = HELPER_QUOTA,
                               .index = 1,
                               .count = 3,
                               .quota = {.kind = ALLOC_QUOTA_ACCOUNT,
                                         .uid = 1000,
                                         .name = "lab",
                                         .partition = "gpu",
                                         .qos = "normal",
                                         .is_default = true,
                                         .group = "physics",
                                         .group_is_user = true,
                                         .group_gpus = 3,
                                         .group_used = 2,
                                         .job_gpus = -1,
                                         .user_gpus = -1,
                                         .account_gpus = -1,
                                         .minutes_left = 1LL << 40,
                                         .job_minutes = -1,
                                         .starts = 1795000000}};
    struct helper_news none = {.ev = HELPER_QUOTA};
    struct buf b = BUF_INIT;
    struct error err;
    is_int(helper_news_encode(&n, &b, &err), 0, "a quota is written");
    is_int(helper_news_parse(buf_str(&b), b.len - 1, &m, &err), 0,
           "  and read");
    ok(m.ev == HELPER_QUOTA && m.index == 1 && m.count == 3 &&
           memcmp(&m.quota, &n.quota, sizeof(n.quota)) == 0,
       "  all of it");
    helper_news_clear(&m);
    buf_reset(&b);
    is_int(helper_news_encode(&none, &b, &err), 0, "that there is none");
    is_int(helper_news_parse(buf_str(&b), b.len - 1, &m, &err), 0,
           "  and read");
    is_int(m.count, 0, "  none");
    helper_news_clear(&m);
    buf_clear(&b);
}

static void test_partition(void)
{
    struct helper_news n = {.ev = HELPER_PARTITION,
                            .index = 1,
                            .count = 2,
                            .partition = {.name = "gpu",
                                          .is_default = true,
                                          .max_minutes = 30,
                                          .max_nodes = 4,
                                          .default_minutes = 10,
                                          .allow_accounts = "a,b",
                                          .deny_qos = "slow"}};
    struct helper_news m = again(&n);
    ok(m.index == 1 && m.count == 2 &&
           memcmp(&m.partition, &n.partition, sizeof(n.partition)) == 0,
       "a partition");
    helper_news_clear(&m);
}

static void test_nodes(void)
{
    struct alloc_node two[2] = {{.name = "n1",
                                 .gpu_type = "h100",
                                 .gpus_total = 4,
                                 .gpus_free = 1,
                                 .shared_total = 64,
                                 .shared_free = 7,
                                 .is_up = 1,
                                 .is_busy = 1,
                                 .is_wanted = 1,
                                 .used = "0,1 mgpu 12.1; 2 anna 4711",
                                 .partitions = "batch,urgent",
                                 .features = "ib",
                                 .reservation = "r1",
                                 .address = "10.0.0.1"},
                                {.name = "n2",
                                 .is_drained = 1,
                                 .why = "d\xe9"
                                        "fectueux\n"}};
    memset(two[1].used, '\x01', sizeof(two[1].used) - 1);
    struct helper_news n = {.ev = HELPER_NODES, .nodes = two, .n_nodes = 2};
    struct helper_news m = again(&n);
    if (ok(m.n_nodes == 2, "two nodes")) {
        ok(memcmp(&m.nodes[0], &two[0], sizeof(two[0])) == 0, "the first");
        ok(!m.nodes[1].is_up && m.nodes[1].is_drained && !m.nodes[1].is_busy,
           "the second");
        is_str(m.nodes[1].why, "d\\xe9fectueux\\n", "foreign bytes escaped");
        is_int((long long)strlen(m.nodes[1].used), sizeof(two[1].used) - 1,
               "and cut to their room");
    }
    helper_news_clear(&m);
    n.n_nodes = 0;
    m = again(&n);
    ok(m.nodes == NULL && m.n_nodes == 0, "no node at all");
}

static void test_refused_news(void)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"ev\":\"boo\"}",
        "{\"ev\":7}",
        "{\"ev\":\"up\",\"x\":1}",
        "{\"ev\":\"hello\",\"generation\":0,\"slurm\":\"22\"}",
        "{\"ev\":\"hello\",\"generation\":1}",
        "{\"ev\":\"hello\",\"generation\":1,\"slurm\":"
        "\"0123456789012345678901234567890123456789\"}",
        "{\"ev\":\"reply\"}",
        "{\"ev\":\"reply\",\"id\":-1}",
        "{\"ev\":\"reply\",\"id\":1,\"exit_code\":256}",
        "{\"ev\":\"reply\",\"id\":1,\"is_sure\":true}",
        "{\"ev\":\"reply\",\"id\":1,\"code\":\"NONE\",\"why\":\"\"}",
        "{\"ev\":\"reply\",\"id\":1,\"code\":\"ODD\",\"why\":\"\"}",
        "{\"ev\":\"reply\",\"id\":1,\"code\":\"BUSY\"}",
        "{\"ev\":\"reply\",\"id\":1,\"code\":\"BUSY\",\"why\":\"\","
        "\"slurm_id\":1}",
        "{\"ev\":\"scan\",\"seq\":\"1\"}",
        "{\"ev\":\"gone\",\"tag\":\"x\",\"slurm_id\":1}",
        "{\"ev\":\"gone\",\"tag\":\"mgpu:c:1:1\",\"slurm_id\":0}",
        "{\"ev\":\"down\",\"why\":\"a\\u001bb\",\"since\":1}",
        "{\"ev\":\"partition\",\"index\":0,\"count\":0}",
        "{\"ev\":\"quota\",\"index\":0,\"count\":1,\"kind\":9}",
        "{\"ev\":\"nodes\"}",
        "{\"ev\":\"nodes\",\"nodes\":{}}",
        "{\"ev\":\"nodes\",\"nodes\":[1]}",
        "{\"ev\":\"nodes\",\"nodes\":[{\"name\":\"n1\"}]}",
        "{\"ev\":\"nodes\",\"nodes\":[],\"more\":1}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct helper_news n = {.seq = 99};
        struct error err = ERROR_INIT;
        ok(helper_news_parse(bad[i], strlen(bad[i]), &n, &err) == -1 &&
               err.code == ERR_INVAL && n.seq == 99,
           "%s: %s", bad[i], err.msg);
    }
    struct helper_news n = {.ev = HELPER_GONE, .job = {.tag = "mgpu:c:1:1"}};
    struct buf b = BUF_INIT;
    ok(helper_news_encode(&n, &b, NULL) == -1 && b.len == 0,
       "a job without an id is not sent");
    buf_clear(&b);
}

int main(void)
{
    test_news();
    test_job();
    test_nodes();
    test_partition();
    test_quota();
    test_refused_news();
    return tap_done();
}
