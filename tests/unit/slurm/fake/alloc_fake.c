/* alloc_fake.c - the fake's own promises: time, scripts, and its world.
 *
 * What it shares with the other allocators is in tests/contract/alloc.c.
 */
#include "slurm/fake/alloc_fake.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

struct script {
    struct alloc_fake_outcome next;
    int32_t gpus; /* of the last attempt asked about */
};

static void outcome(void *arg, uint64_t job, int32_t attempt, int32_t gpus,
                    struct alloc_fake_outcome *ret)
{
    (void)job;
    (void)attempt;
    struct script *s = arg;
    s->gpus = gpus;
    *ret = s->next;
}

/* Of two nodes one is down until 1100 s; the second is partition b's. */
static struct clock_virtual clk;

static void node(void *arg, int32_t i, struct alloc_node *io)
{
    (void)arg;
    io->is_up = i > 0 || clk.t_s >= 1100;
    (void)snprintf(io->partitions, sizeof(io->partitions), i ? "b" : "a");
}

static bool may_use(void *arg, int32_t i, const struct alloc_where *w)
{
    (void)arg;
    return !w->partition || w->partition[0] == (i ? 'b' : 'a');
}

static bool is_varied; /* nodes differ */
static struct script script;
static struct alloc_fake_world *world;
static struct alloc *a;

static void open_world(int32_t nodes, int32_t gpus_per_node, double delay_s)
{
    struct alloc_fake_conf conf = {.nodes = nodes,
                                   .gpus_per_node = gpus_per_node,
                                   .grant_delay_s = delay_s,
                                   .clock = &clk.base,
                                   .outcome = outcome,
                                   .node = is_varied ? node : NULL,
                                   .may_use = is_varied ? may_use : NULL,
                                   .arg = &script};
    clock_virtual_init(&clk, 1000, 0);
    script = (struct script){.next = {.run_s = 10}};
    struct error err = ERROR_INIT;
    ok(alloc_fake_world_create(&conf, &world, &err) == 0 &&
           alloc_fake_create(world, &a, &err) == 0,
       "a world of %d x %d", nodes, gpus_per_node);
}

static void close_world(void)
{
    a->ops->destroy(a);
    alloc_fake_world_destroy(world);
}

static struct alloc_where where;

static int ask(uint64_t job, int32_t nodes, int32_t gpus_per_node)
{
    struct alloc_req req = {.job = job,
                            .attempt = 1,
                            .where = where,
                            .nodes = nodes,
                            .gpus_per_node = gpus_per_node};
    struct error err = ERROR_INIT;
    return a->ops->request(a, &req, &err) == 0 ? 0 : (int)err.code;
}

/* The next note, or one of job 0. */
static struct alloc_note next(void)
{
    struct alloc_note note = {.job = 0};
    struct error err = ERROR_INIT;
    size_t n = 0;
    if (a->ops->poll(a, &note, 1, &n, &err) < 0 || n == 0)
        note = (struct alloc_note){.job = 0};
    return note;
}

static int32_t free_gpus(void)
{
    struct alloc_node nodes[8];
    struct error err = ERROR_INIT;
    size_t n;
    if (a->ops->inventory(a, nodes, 8, &n, &err) < 0)
        return -1;
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += nodes[i].gpus_free;
    return sum;
}

static void test_time(void)
{
    open_world(2, 2, 5);
    is_int(ask(1, 1, 2), 0, "job 1 is accepted");
    is_int(script.gpus, 2, "the script hears of 2 GPUs");
    is_int(ask(2, 2, 1), 0, "so is job 2, which needs both nodes");
    is_int(ask(3, 1, 1), 0, "and job 3, behind it");
    ok(next().job == 0, "nothing happens before its time");
    ok(alloc_fake_next_s(world) == 1005, "the next event is the first grant");

    clk.t_s = 1005;
    struct alloc_note note = next();
    ok(note.job == 1 && note.kind == ALLOC_GRANTED, "job 1 is granted");
    is_str(note.place, "n1:0,1", "on the first node");
    ok(next().job == 0, "job 3 does not overtake job 2");
    is_int(free_gpus(), 2, "two GPUs are free");
    ok(alloc_fake_next_s(world) == 1015, "next, job 1 ends");

    clk.t_s = 1100; /* everything at once, in the order of its time */
    note = next();
    ok(note.job == 1 && note.kind == ALLOC_EXITED, "job 1 ends");
    note = next();
    ok(note.job == 2 && note.kind == ALLOC_GRANTED, "job 2 starts");
    is_str(note.place, "n1:0 n2:0", "one GPU on each node");
    note = next();
    ok(note.job == 3 && note.kind == ALLOC_GRANTED, "then job 3");
    is_str(note.place, "n1:1", "on what is left");
    ok(next().kind == ALLOC_EXITED && next().kind == ALLOC_EXITED,
       "and both end");
    is_int(free_gpus(), 4, "all is free again");
    ok(isinf(alloc_fake_next_s(world)), "nothing will ever happen");
    close_world();
}

static void test_script(void)
{
    open_world(1, 2, 0);
    script.next = (struct alloc_fake_outcome){.refuse = 1};
    is_int(ask(1, 1, 1), 0, "a refusal comes as a note");
    is_int(next().kind, ALLOC_REFUSED, "refused by the script");
    is_int(alloc_fake_starts(world, 1, 1), 0, "and never started");

    script.next = (struct alloc_fake_outcome){.run_s = 3, .lose = 1};
    is_int(ask(2, 1, 1), 0, "job 2 is accepted");
    is_int(next().kind, ALLOC_GRANTED, "granted");
    clk.t_s += 3;
    struct alloc_note note = next();
    ok(note.kind == ALLOC_LOST && note.why.msg[0], "lost, and why");

    script.next = (struct alloc_fake_outcome){.run_s = 3, .signal = 11};
    is_int(ask(3, 1, 1), 0, "job 3 is accepted");
    is_int(next().kind, ALLOC_GRANTED, "granted");
    clk.t_s += 3;
    note = next();
    ok(note.kind == ALLOC_EXITED && note.signal == 11, "dies of signal 11");

    script.next = (struct alloc_fake_outcome){.run_s = 3, .unknown = 1};
    is_int(ask(4, 1, 1), ERR_BUSY, "job 4: no answer");
    ok(next().job == 0, "and no note");
    is_int(free_gpus(), 1, "yet it holds a GPU");
    is_int(ask(4, 1, 1), 0, "asked again");
    is_int(next().kind, ALLOC_GRANTED, "it is granted");
    is_int(alloc_fake_starts(world, 4, 1), 1, "and was started once");

    script.next = (struct alloc_fake_outcome){.run_s = 3};
    is_int(ask(5, 1, 0), 0, "an attempt without a GPU");
    is_str(next().place, "n1", "has a bare place");
    close_world();
}

static void test_waiting(void)
{
    open_world(1, 2, 0);
    script.next = (struct alloc_fake_outcome){
        .run_s = 50, .wait_s = 20, .wait_why = "held"};
    is_int(ask(1, 1, 2), 0, "one that is held");
    struct alloc_note note = next();
    ok(note.kind == ALLOC_WAITING && note.native_id[0], "waits, under its id");
    is_str(note.why.msg, "held", "and says for what");
    script.next = (struct alloc_fake_outcome){.run_s = 30};
    is_int(ask(2, 1, 1), 0, "another");
    is_int(next().kind, ALLOC_GRANTED, "overtakes it");
    is_int(ask(1, 1, 2), 0, "asked for again");
    is_int(next().kind, ALLOC_WAITING, "it still waits");
    clk.t_s += 25;
    is_int(ask(3, 1, 1), 0, "one more");
    ok(next().job == 0, "no longer held, it is not overtaken");
    clk.t_s += 5;
    ok(next().kind == ALLOC_EXITED && next().job == 1, "and is the next");
    close_world();
}

static void test_ends(void)
{
    struct error err = ERROR_INIT;

    open_world(1, 2, 0);
    script.next = (struct alloc_fake_outcome){
        .run_s = 3, .ended_by = ALLOC_BY_OTHER, .why = "by anna"};
    is_int(ask(1, 1, 1), 0, "one that somebody cancels");
    is_int(next().kind, ALLOC_GRANTED, "starts");
    clk.t_s += 3;
    struct alloc_note note = next();
    ok(note.kind == ALLOC_EXITED && note.ended_by == ALLOC_BY_OTHER, "ends so");
    is_str(note.why.msg, "by anna", "and says it");

    script.next = (struct alloc_fake_outcome){.run_s = 3, .twice = 1};
    is_int(ask(2, 1, 1), 0, "one that is started twice");
    note = next();
    ok(note.kind == ALLOC_GRANTED &&
           strcmp(note.native_id, alloc_fake_native_id(world, 2, 1)) != 0,
       "goes under the wrong id");
    is_int(a->ops->claimed(a, 2, 1, note.native_id, &err), 0, "as is said");
    ok(next().job == 0, "so it stays");
    is_int(a->ops->claimed(a, 2, 1, alloc_fake_native_id(world, 2, 1), &err), 0,
           "until one knows better");
    note = next();
    is_str(note.native_id, alloc_fake_native_id(world, 2, 1), "now it is real");
    is_int(alloc_fake_claims(world, 2, 1), 2, "told twice");
    is_int(a->ops->claimed(a, 9, 1, "", &err), -1, "nobody's claim");
    is_int(err.code, ERR_NOTFOUND, "is not known");
    close_world();
}

static void test_nodes(void)
{
    is_varied = true;
    open_world(2, 2, 0);
    script.next.run_s = INFINITY;
    is_int(ask(1, 1, 1), 0, "a node is down");
    is_str(next().place, "n2:0", "the other one is used");
    where.exclusive = true;
    is_int(ask(2, 1, 1), 0, "one that wants a node to itself");
    ok(next().job == 0, "does not share");
    clk.t_s = 1100;
    is_str(next().place, "n1:0,1", "and gets the node that is back, whole");
    where = (struct alloc_where){.partition = "b"};
    is_int(ask(3, 1, 1), 0, "in a partition");
    is_str(next().place, "n2:1", "of that");
    is_int(ask(4, 1, 1), 0, "which is full now");
    ok(next().job == 0, "it waits");
    where = (struct alloc_where){.partition = NULL};
    is_varied = false;
    close_world();
}

static void test_world(void)
{
    struct error err = ERROR_INIT;
    open_world(1, 1, 0);
    script.next.run_s = INFINITY;
    is_int(ask(1, 1, 1), 0, "an endless attempt");
    is_int(next().kind, ALLOC_GRANTED, "granted");
    struct alloc *second;
    is_int(alloc_fake_create(world, &second, &err), -1,
           "a second allocator at the same time is refused");
    a->ops->destroy(a);
    ok(alloc_fake_create(world, &a, &err) == 0, "but one after the other");
    ok(next().job == 0, "it is not told what it did not ask");
    ok(a->ops->release(a, 1, 1, 5, &err) < 0 && err.code == ERR_NOTFOUND,
       "nor may it end that");
    is_int(ask(1, 1, 1), 0, "asked for again");
    is_int(next().kind, ALLOC_GRANTED, "it still runs");
    is_int(a->ops->release(a, 1, 1, 5, &err), 0, "released");
    ok(alloc_fake_next_s(world) > clk.t_s, "it does not end at once");
    clk.t_s += 1;
    struct alloc_note note = next();
    ok(note.kind == ALLOC_EXITED && note.signal == 15, "it ends of SIGTERM");
    is_int(ask(1, 1, 1), 0, "asked for once more");
    ok(next().kind == ALLOC_EXITED, "it has ended");
    is_int(alloc_fake_starts(world, 1, 1), 1, "one start in two lives");
    close_world();
}

/* A caller that decides itself when an attempt ends, on nodes of two sizes. */
static void test_driven(void)
{
    static const int32_t gpus[] = {2, 4};
    struct error err = ERROR_INIT;
    struct alloc_fake_conf conf = {.nodes = 2,
                                   .gpus_per_node = 4,
                                   .gpus = gpus,
                                   .forgets = true,
                                   .clock = &clk.base,
                                   .outcome = outcome,
                                   .arg = &script};
    struct alloc_fake_outcome how = {.exit_code = 3};
    struct alloc_node nodes[2];
    size_t n;

    clock_virtual_init(&clk, 1000, 0);
    script = (struct script){.next = {.run_s = INFINITY, .stop_s = 7}};
    ok(alloc_fake_world_create(&conf, &world, &err) == 0 &&
           alloc_fake_create(world, &a, &err) == 0,
       "a world of two sizes of nodes");
    ok(a->ops->inventory(a, nodes, 2, &n, &err) == 0 &&
           nodes[0].gpus_total == 2 && nodes[0].gpus_free == 2 &&
           nodes[1].gpus_total == 4 && nodes[1].gpus_free == 4,
       "the inventory has both");
    is_int(ask(1, 1, 3), 0, "three GPUs");
    is_str(next().place, "n2:0-2", "fit on the larger one only");
    ok(alloc_fake_end(world, 2, 1, &how, &err) < 0 && err.code == ERR_NOTFOUND,
       "an unknown attempt cannot end");
    is_int(alloc_fake_end(world, 1, 1, &how, &err), 0, "it ends now");
    struct alloc_note note = next();
    ok(note.kind == ALLOC_EXITED && note.exit_code == 3, "with that code");
    is_int(alloc_fake_starts(world, 1, 1), 1, "known for one more poll");
    is_int(ask(2, 1, 4), 0, "its GPUs");
    is_str(next().place, "n2:0-3", "are free again");
    is_int(a->ops->release(a, 2, 1, 5, &err), 0, "a release");
    is_int((int)(alloc_fake_next_s(world) - clk.t_s), 7, "takes stop_s");
    ok(next().job == 0, "it goes on");
    is_int(alloc_fake_starts(world, 1, 1), 0, "then it is forgotten");
    close_world();
}

int main(void)
{
    test_time();
    test_driven();
    test_script();
    test_waiting();
    test_ends();
    test_nodes();
    test_world();
    return tap_done();
}
