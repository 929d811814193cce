/* batch.json: both ways, and everything that must be refused. */
#include <stdio.h>
#include <string.h>

#include "slurm/protocol/batch_conf.h"
#include "tests/recorded.h"
#include "tests/tap.h"

static const struct batch_conf four_cpus = {.launcher = BATCH_SRUN,
                                            .program = "/usr/bin/srun",
                                            .mpi = "pmix",
                                            .worker = "/opt/mgpu-worker",
                                            .cpus_per_gpu = 4};

static const char four_cpus_text[] =
    "{\"launcher\":\"srun\",\"program\":\"/usr/bin/srun\",\"mpi\":\"pmix\","
    "\"worker\":\"/opt/mgpu-worker\",\"cpus_per_gpu\":4}\n";

static void both_ways(void)
{
    struct buf b = BUF_INIT;
    struct batch_conf c = {.cpus_per_gpu = 0};
    struct error err = ERROR_INIT;
    ok(batch_conf_encode(&four_cpus, &b, &err) == 0, "encoded %s", err.msg);
    is_str(buf_str(&b), four_cpus_text, "the documented line");
    ok(batch_conf_parse(buf_str(&b), b.len, &c, &err) == 0, "parsed %s",
       err.msg);
    ok(memcmp(&c, &four_cpus, sizeof(c)) == 0, "and all the same");
    buf_reset(&b);

    struct batch_conf other = four_cpus;
    other.launcher = BATCH_MPIRUN;
    memset(other.program, 0, sizeof(other.program));
    memcpy(other.program, "mpirun", 7);
    memset(other.worker, 0, sizeof(other.worker));
    memset(other.worker, 'w', sizeof(other.worker) - 1);
    other.worker[0] = '/';
    ok(batch_conf_encode(&other, &b, &err) == 0, "the longest path %s",
       err.msg);
    ok(batch_conf_parse(buf_str(&b), b.len, &c, &err) == 0 &&
           memcmp(&c, &other, sizeof(c)) == 0,
       "comes back %s", err.msg);
    buf_reset(&b);

    other = four_cpus;
    memcpy(other.gpu_type, "a100", 5);
    ok(batch_conf_encode(&other, &b, &err) == 0 &&
           strstr(buf_str(&b), ",\"gpu_type\":\"a100\"}\n"),
       "a type of GPU %s", err.msg);
    ok(batch_conf_parse(buf_str(&b), b.len, &c, &err) == 0 &&
           memcmp(&c, &other, sizeof(c)) == 0,
       "comes back, too %s", err.msg);
    buf_reset(&b);

    buf_clear(&b);
}

/* The documented line with `from` replaced by `to`. */
static void refused(const char *from, const char *to, const char *why)
{
    struct buf b = BUF_INIT;
    struct batch_conf c = four_cpus;
    struct error err = ERROR_INIT;
    const char *at = strstr(four_cpus_text, from);
    if (!ok(at != NULL, "the text has '%s'", from))
        return;
    ok(buf_add(&b, four_cpus_text, (size_t)(at - four_cpus_text), &err) == 0 &&
           buf_addstr(&b, to, &err) == 0 &&
           buf_addstr(&b, at + strlen(from), &err) == 0,
       "text");
    ok(batch_conf_parse(buf_str(&b), b.len, &c, &err) < 0 &&
           err.code == ERR_INVAL,
       "refused: %.40s instead of %s", to, from);
    ok(strstr(err.msg, why) != NULL, "because of '%s': %s", why, err.msg);
    ok(memcmp(&c, &four_cpus, sizeof(c)) == 0, "nothing is set");
    buf_clear(&b);
}

static void bad_texts(void)
{
    refused("\"srun\"", "\"prun\"", "launcher");
    refused("\"srun\"", "1", "launcher");
    refused("\"/usr/bin/srun\"", "\"bin/srun\"", "program");
    refused("\"/usr/bin/srun\"", "\"-x\"", "program");
    refused("\"/usr/bin/srun\"", "\"\"", "program");
    refused("\"/usr/bin/srun\"", "\"a\\u0000b\"", "line 1");
    refused("\"pmix\"", "\"\"", "mpi");
    refused("\"pmix\"", "\"pmix --bcast\"", "mpi");
    refused("\"/opt/mgpu-worker\"", "\"mgpu-worker\"", "worker");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":0", "cpus_per_gpu");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":4097", "cpus_per_gpu");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":4294967297",
            "cpus_per_gpu");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":2.0", "cpus_per_gpu");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":null", "cpus_per_gpu");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":9223372036854775808",
            "line 1");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":4,\"extra\":1", "unknown");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":4,\"cpus_per_gpu\":4",
            "line 1");
    refused(",\"cpus_per_gpu\":4", "", "cpus_per_gpu");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":4,\"gpu_type\":\"a b\"",
            "gpu_type");
    refused("\"cpus_per_gpu\":4", "\"cpus_per_gpu\":4,\"gpu_type\":1",
            "gpu_type");
    refused("{", "[{", "line ");
}

static void bad_values(void)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    struct batch_conf c = four_cpus;
    c.cpus_per_gpu = 0;
    ok(batch_conf_encode(&c, &b, &err) < 0 && err.code == ERR_INVAL,
       "a value that the reader would refuse: %s", err.msg);
    c = four_cpus;
    memcpy(c.worker, "/\xff\xff", 4);
    ok(batch_conf_encode(&c, &b, &err) < 0 && err.code == ERR_INVAL,
       "a path that is not UTF-8: %s", err.msg);
    is_int((long long)b.len, 0, "nothing half-written");
    buf_clear(&b);

    char text[BATCH_CONF_MAX_BYTES + 2];
    memset(text, ' ', sizeof(text));
    memcpy(text, four_cpus_text, sizeof(four_cpus_text) - 1);
    ok(batch_conf_parse(text, BATCH_CONF_MAX_BYTES, &c, &err) == 0,
       "a text of the greatest length");
    ok(batch_conf_parse(text, BATCH_CONF_MAX_BYTES + 1, &c, &err) < 0,
       "one more is refused: %s", err.msg);
    ok(batch_conf_parse("", 0, &c, &err) < 0, "nothing: %s", err.msg);
}

static void outcome(const char *text, size_t len, struct buf *ret)
{
    struct error err = ERROR_INIT;
    struct batch_conf c;
    if (batch_conf_parse(text, len, &c, &err) < 0 ||
        batch_conf_encode(&c, ret, &err) < 0)
        recorded_error(ret, &err);
    else
        ret->data[--ret->len] = '\0'; /* the newline */
}

int main(void)
{
    recorded("batch_conf", 28, outcome);
    both_ways();
    bad_texts();
    bad_values();
    return tap_done();
}
