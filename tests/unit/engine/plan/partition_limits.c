/* partition_limits.c - what a partition of Slurm never takes. */
#include <math.h>
#include <stdio.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/inventory.h"
#include "scheduler/engine/plan/plan.h"
#include "tests/tap.h"

static const struct alloc_partition parts[] = {
    {.name = "batch",
     .is_default = true,
     .max_minutes = 1440,
     .max_nodes = 2,
     .default_minutes = 60,
     .allow_accounts = "vision,speech",
     .deny_qos = "scavenger"},
    {.name = "debug",
     .max_minutes = 30,
     .default_minutes = 30,
     .deny_accounts = "speech"},
    {.name = "open"},
};

static size_t partitions(struct alloc *a, const struct alloc_partition **ret)
{
    (void)a;
    *ret = parts;
    return sizeof(parts) / sizeof(parts[0]);
}

/* Of a job of that many minutes and nodes; "": it may run. */
static const char *refusal(struct alloc_where w, double minutes, int32_t n)
{
    static const struct alloc_ops ops = {.partitions = partitions};
    static const struct engine_conf conf = {.cluster = "c"};
    static char said[240];
    struct alloc alloc = {.ops = &ops};
    const struct engine e = {.parts = {.conf = &conf, .alloc = &alloc}};
    const struct job job = {.where = w,
                            .limit_s = 60 * minutes,
                            .gpus_min = 1,
                            .gpus_max = 1,
                            .nodes_min = n,
                            .nodes_max = n};
    struct error err = ERROR_INIT;
    said[0] = '\0';
    if (eng_partition_check(&e, &job, &err) < 0)
        (void)snprintf(said, sizeof(said), "%s", err.msg);
    return said;
}

/* Seconds that a job without a limit gets; 0: none. */
static int default_of(const char *partition)
{
    static const struct alloc_ops ops = {.partitions = partitions};
    static const struct engine_conf conf = {.cluster = "c"};
    struct alloc alloc = {.ops = &ops};
    const struct engine e = {.parts = {.conf = &conf, .alloc = &alloc}};
    const struct job job = {.where = {.partition = partition},
                            .limit_s = (double)INFINITY};
    const char *which;
    double s = eng_partition_limit_s(&e, &job, &which);
    return isinf(s) ? 0 : (int)s;
}

#define TAIL "; --force-queue keeps it pending [E201]"
#define W(...) ((struct alloc_where){__VA_ARGS__})
#define VISION .account = "vision"
int main(void)
{
    is_str(refusal(W(VISION), 1440, 2), "", "all that the default takes");
    is_str(refusal(W(VISION), 1441, 1),
           "can never start: time limit 1441m is above the 1-00:00:00 of "
           "partition batch" TAIL,
           "a minute more");
    is_str(refusal(W(VISION), 60, 3),
           "can never start: 3 nodes are more than the 2 that partition batch "
           "gives to a job" TAIL,
           "a node more");
    is_str(refusal(W(.account = "audio"), 60, 1),
           "can never start: account 'audio' may not use partition batch, "
           "which takes vision,speech" TAIL,
           "an account that is not listed");
    is_str(refusal(W(.account = "Vision"), 60, 1), "",
           "accounts are equal in any case");
    is_str(refusal(W(.account = "visio"), 60, 1),
           "can never start: account 'visio' may not use partition batch, "
           "which takes vision,speech" TAIL,
           "and not by their beginning");
    is_str(refusal(W(VISION, .qos = "Scavenger"), 60, 1),
           "can never start: QOS 'Scavenger' may not use partition batch" TAIL,
           "a QOS that is denied");
    is_str(refusal(W(VISION, .qos = "long"), 9999, 9), "",
           "a QOS may lift the limits of time and nodes");
    is_str(refusal(W(.partition = "debug", .account = "speech"), 10, 1),
           "can never start: account 'speech' may not use partition debug" TAIL,
           "an account that is denied");
    is_str(refusal(W(.partition = "debug,open", VISION), 60, 9), "",
           "one of two partitions is enough");
    is_str(refusal(W(.partition = "Debug", VISION), 60, 1), "",
           "the names of partitions are compared as they are");
    is_int(default_of(NULL), 3600, "the default partition has a default limit");
    is_int(default_of("debug"), 1800, "so has another");
    is_int(default_of("open"), 0, "and one has none");
    is_int(default_of("batch,debug,open"), 1800, "of several: the shortest");
    return tap_done();
}
