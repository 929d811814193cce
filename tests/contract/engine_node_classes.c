/* engine_node_classes.c - nodes that are not for everybody: of another
 * partition, reserved, or taken by one job alone. */
#include "scheduler/engine/update.h"
#include "tests/contract/engine_cluster.h"

/* n1 is of partition a, n2 of b; n2 is reserved until 1030 s. */
static void kind(void *arg, int32_t i, struct alloc_node *io)
{
    struct world *world = arg;
    (void)snprintf(io->partitions, sizeof(io->partitions), i ? "b" : "a*");
    if (i == 1 && world->clock.t_s < 1030)
        (void)snprintf(io->reservation, sizeof(io->reservation), "maint");
}

static bool its_kind(void *arg, int32_t i, const struct alloc_where *where)
{
    (void)arg;
    return !where->partition || where->partition[0] == (i ? 'b' : 'a');
}

static const char in_b[] = ",\"partition\":\"b\"},\"retry\":{\"max\":0}}";
static const char alone[] = ",\"exclusive\":true},\"retry\":{\"max\":0}}";

static struct world_script kinds(int n)
{
    struct world_script s = several(n);
    s.nodes = 2;
    s.node = kind;
    s.may_use = its_kind;
    return s;
}

static void test_kinds(void)
{
    struct world_script s = kinds(4);

    s.jobs[1].spec_more = in_b;
    s.acts[3].at_s = 31; /* the fake does not say when nodes change */
    world_init(&w, &s);
    w.conf.where.partition = NULL;
    ok(world_start(&w), "---- two partitions");
    play(4);
    is_str(engine_job(w.engine, 1)->place, "n1:0-3", "in the default one");
    is_str(engine_job(w.engine, 2)->reason,
           "WaitingForGpus: needs 4, 0 free (1 node is down, drained or "
           "reserved)",
           "in one that is reserved");
    is_str(engine_job(w.engine, 3)->reason, "WaitingForGpus: needs 4, 0 free",
           "who waits for the first sees no GPUs of the other");
    play(12);
    is_str(engine_job(w.engine, 3)->place, "n1:0-3", "nor waits behind that");
    play(35);
    is_str(engine_job(w.engine, 2)->place, "n2:0-3", "until it opens");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1] "
           "k3:COMPLETED/0/1[1]",
           "");
}

static void of_partition(void *arg, int32_t i, struct alloc_node *io)
{
    (void)arg;
    (void)snprintf(io->partitions, sizeof(io->partitions), i ? "b" : "a*");
}

/* Two jobs with the same request wait; only one of them is moved. */
static void test_moved(void)
{
    struct engine_update to = {.partition = "b"};
    struct world_script s = kinds(3);
    struct error err = ERROR_INIT;

    s.node = of_partition;
    s.jobs[0].attempts[0].run_s = 100;
    begin(&s, "one that waits gets another partition");
    w.conf.where.partition = NULL;
    play(5);
    is_str(engine_job(w.engine, 3)->reason, "WaitingForGpus: needs 4, 0 free",
           "it waits as the one before it");
    is_int(engine_update(w.engine, 3, 0, &to, &err), 0, "it is moved");
    play(8);
    is_str(engine_job(w.engine, 3)->place, "n2:0-3", "  and starts there");
    is_int(engine_job(w.engine, 2)->state, JOB_QUEUED, "the other waits");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");
}

static void test_alone(void)
{
    struct world_script s = several(3);

    for (int i = 0; i < 3; i++)
        s.jobs[i].gpus = 1;
    s.jobs[1].spec_more = alone;
    s.jobs[0].attempts[0].run_s = s.jobs[2].attempts[0].run_s = 20;
    begin(&s, "one that shares with nobody");
    play(5);
    is_int(engine_job(w.engine, 1)->state, JOB_RUNNING, "one runs");
    is_int(engine_job(w.engine, 2)->state, JOB_QUEUED, "it waits for that");
    play(25);
    is_int(engine_job(w.engine, 2)->state, JOB_RUNNING, "now it is alone");
    is_int(engine_job(w.engine, 3)->state, JOB_QUEUED, "and stays it");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");
}

/* n1 says what its GPUs have; of those of n2 mgpu.yaml does. */
static void two_types(void *arg, int32_t i, struct alloc_node *io)
{
    (void)arg;
    (void)snprintf(io->gpu_type, sizeof(io->gpu_type), i ? "a100" : "t4");
    io->gpu_bytes = i ? 0 : (int64_t)15 << 30;
}

/* As Slurm: it knows types, and no memory. */
static bool its_type(void *arg, int32_t i, const struct alloc_where *where)
{
    (void)arg;
    return !where->gpu_type || strcmp(where->gpu_type, i ? "a100" : "t4") == 0;
}

static void test_memory(void)
{
    static const char much[] =
        ",\"gpu_memory\":\"40G..\"},\"retry\":{\"max\":0}}";
    static char type[] = "A100", size[] = "40G";
    struct spec_pair pair = {type, size};
    const struct spec_map map = {&pair, 1};
    struct world_script s = several(3);

    s.nodes = 2;
    s.node = two_types;
    s.may_use = its_type;
    s.jobs[0].spec_more = s.jobs[1].spec_more = much;
    world_init(&w, &s);
    w.conf.gpu_memory = &map;
    ok(world_start(&w), "---- GPUs of 15 GiB and of 40");
    play(4);
    is_str(engine_job(w.engine, 1)->place, "n2:0-3", "where there is enough");
    is_str(engine_job(w.engine, 1)->gpu_type, "a100", "the allocator is told");
    is_str(engine_job(w.engine, 2)->reason, "WaitingForGpus: needs 4, 0 free",
           "for the other one is not enough");
    is_str(engine_job(w.engine, 3)->place, "n1:0-3", "who asks for none");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");
}

/* Two nodes of one type, though the first of the other would do as well. */
static void test_memory_of_one_type(void)
{
    static const char some[] =
        ",\"nodes\":2,\"gpu_memory\":\"10G..\"},\"retry\":{\"max\":0}}";
    struct world_script s = several(1);

    s.nodes = 3;
    s.node = two_types;
    s.may_use = its_type;
    s.jobs[0].spec_more = some;
    s.jobs[0].gpus = 8;
    begin(&s, "GPUs of one type on two nodes");
    play(4);
    is_str(engine_job(w.engine, 1)->place, "n2:0-3 n3:0-3", "are of one type");
    finish("k0:COMPLETED/0/1[1]", "");
}

int main(void)
{
    test_memory_of_one_type();
    test_memory();
    test_kinds();
    test_moved();
    test_alone();
    return tap_done();
}
