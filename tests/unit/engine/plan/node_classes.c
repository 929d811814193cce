/* node_classes.c - what a spec says for Slurm against what nodes are, and what
 * is told when it can never be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "tests/tap.h"

enum { N_MAX = 80 };
static struct alloc_node nodes[N_MAX];
static struct engine_conf conf;
static struct engine e;
static const struct alloc_ops ops; /* it has no partitions */
static struct alloc alloc = {.ops = &ops};

static void begin(void)
{
    memset(nodes, 0, sizeof(nodes));
    conf = (struct engine_conf){.cluster = "c"};
    free(e.classes.of);
    free(e.classes.by_name);
    e = (struct engine){.parts = {.conf = &conf, .alloc = &alloc},
                        .nodes = nodes};
}

static void node(const char *type, const char *partitions, const char *features,
                 const char *reservation)
{
    struct alloc_node *n = &nodes[e.n_nodes++];
    int32_t gpus = *type ? 4 : 0;
    *n = (struct alloc_node){.gpus_total = gpus, .gpus_free = gpus, .is_up = 1};
    (void)snprintf(n->name, sizeof(n->name), "n%zu", e.n_nodes);
    (void)snprintf(n->gpu_type, sizeof(n->gpu_type), "%s", type);
    (void)snprintf(n->partitions, sizeof(n->partitions), "%s", partitions);
    (void)snprintf(n->features, sizeof(n->features), "%s", features);
    (void)snprintf(n->reservation, sizeof(n->reservation), "%s", reservation);
}

static void end(void)
{
    struct error err = ERROR_INIT;
    ok(eng_classify(&e, &err) == 0, "---- %zu nodes", e.n_nodes);
}

static void lab(void)
{
    begin();
    node("h100", "batch*,urgent", "ib,nvlink", "");
    node("h100", "batch*,urgent", "ib,nvlink", "");
    node("a100", "batch*", "ib", "");
    node("h100", "urgent", "nvlink", "");
    node("h100", "batch*", "ib,nvlink", "maint");
    node("", "cpu", "", "");
    end();
}

/* The nodes that a job may use now and ever: "12345/12345". */
static void uses(struct alloc_where w, int32_t gpus, const char *want,
                 const char *what)
{
    struct job job = {.where = w, .gpus_max = gpus};
    struct mask_memo memo = {.next = 0};
    struct class_masks m = {0};
    char got[40];
    size_t len = 0;

    for (int i = 0; i < 2; i++) /* the memo says the same */
        m = eng_masks(&e, &job, &memo);
    for (int ever = 0; ever < 2; ever++) {
        for (size_t i = 0; i < e.n_nodes; i++) {
            if ((ever ? m.ever : m.now) >> e.classes.of[i] & 1)
                len += (size_t)snprintf(got + len, 3, "%zu", i + 1);
        }
        got[len++] = ever ? '\0' : '/';
    }
    is_str(got, want, what);
}

#define W(...)           \
    (struct alloc_where) \
    {                    \
        __VA_ARGS__      \
    }

static void test_words(void)
{
    lab();
    is_int(e.classes.n, 5, "nodes that are alike are one class");
    uses(W(0), 1, "123/1235", "the default partition, less what is reserved");
    uses(W(.partition = "urgent"), 1, "124/124", "another partition");
    uses(W(.partition = "batch"), 1, "123/1235", "the default one by its name");
    uses(W(.partition = "cpu,urgent"), 1, "1246/1246", "one of two");
    uses(W(.partition = "urg"), 1, "/", "no part of a name");
    uses(W(.partition = "batch*"), 1, "/", "the star is no part of it");
    uses(W(.gpu_type = "A100"), 1, "3/3", "a type, in any case");
    uses(W(.gpu_type = "v100"), 1, "/", "a type that is not there");
    uses(W(.partition = "cpu", .gpu_type = "h100"), 0, "6/6",
         "a job without GPUs needs no type");
    uses(W(.reservation = "maint"), 1, "5/1235", "a reservation");
    uses(W(.reservation = "x,maint"), 1, "5/1235", "one of two");
    uses(W(.reservation = "later"), 1, "/1235", "one that may come");
}

static void test_constraints(void)
{
    lab();
    uses(W(.constraint = "nvlink"), 1, "12/125", "a feature");
    uses(W(.constraint = "ib&nvlink"), 1, "12/125", "two features");
    uses(W(.constraint = "ib|nvlink"), 1, "123/1235", "either");
    uses(W(.constraint = "rack1"), 1, "/", "none has it");
    uses(W(.constraint = "rack1|ib"), 1, "123/1235", "or that");
    uses(W(.constraint = "rack1&ib"), 1, "/", "and that");
    uses(W(.constraint = "[rack1|rack2]"), 1, "123/1235", "brackets: Slurm's");
    uses(W(.constraint = "ib*2&nvlink*2"), 1, "123/1235", "counts: Slurm's");
    uses(W(.constraint = "ib&nvlink|rack1"), 1, "123/1235", "mixed: Slurm's");
}

static void test_unknown(void)
{
    char cut[200];

    begin();
    node("slot", "", "", "");
    end();
    uses(W(.partition = "p", .constraint = "c", .reservation = "r"), 1, "1/1",
         "without Slurm its words mean nothing");
    uses(W(.gpu_type = "h100"), 1, "/", "but GPUs are of a type");

    begin();
    node("h100", "a", "", "");
    node("h100", "b", "", "");
    end();
    uses(W(0), 1, "12/12", "the default is not known");
    conf.where.partition = "b";
    uses(W(0), 1, "2/2", "unless it is configured");
    uses(W(.partition = "a"), 1, "1/1", "a job has its own");

    memset(cut, 'x', sizeof(cut));
    cut[199] = '\0';
    begin();
    node("h100", cut, cut, "");
    end();
    uses(W(.partition = "p", .constraint = "c"), 1, "1/1",
         "what was cut may have it");
}

static void test_many(void)
{
    char type[16];

    begin();
    for (int i = 1; i <= 70; i++) {
        (void)snprintf(type, sizeof(type), "t%d", i);
        node(type, "p*", "", i > 65 ? "r" : "");
    }
    end();
    is_int(e.classes.n, POLICY_CLASSES, "as many classes as there can be");
    struct mask_memo memo = {.next = 0};
    struct job job = {.gpus_max = 1};
    struct class_masks m = eng_masks(&e, &job, &memo);
    ok(m.now == UINT64_MAX >> 1, "all but the one that is shared by reserved");
    ok(m.ever == UINT64_MAX, "and that some day");
    job.where.gpu_type = "t66";
    m = eng_masks(&e, &job, &memo);
    ok(m.now == 0 && m.ever == UINT64_C(1) << 63,
       "a job for one of those that share a class waits");
    job.where.gpu_type = "t7";
    m = eng_masks(&e, &job, &memo);
    ok(m.now == UINT64_C(1) << 6 && m.ever == m.now, "one of its own");
}

static void fits(struct alloc_where w, int32_t gpus, int32_t n_nodes,
                 const char *want, const char *what)
{
    struct job job = {.where = w,
                      .gpus_min = gpus,
                      .gpus_max = gpus,
                      .nodes_min = n_nodes,
                      .nodes_max = n_nodes};
    struct error err = ERROR_INIT;
    int rc = eng_feasibility_check(&e, &job, &err);
    is_str(rc == 0 ? "fits" : err.msg, want, what);
}

static void test_never(void)
{
    lab();
    fits(W(0), 4, 1, "fits", "a node's worth");
    fits(W(0), 16, 4, "fits", "also of nodes that are reserved now");
    fits(W(.reservation = "later"), 4, 1, "fits",
         "and in a reservation that may come");
    nodes[0].is_up = 0;
    fits(W(0), 16, 4, "fits", "or down");
    fits(W(.partition = "nope"), 1, 1,
         "can never fit: no node is in partition nope; --force-queue keeps it "
         "pending [E201]",
         "no such partition");
    fits(W(.gpu_type = "v100"), 1, 1,
         "can never fit: no node has GPUs of type 'v100'; "
         "there is: h100, a100; --force-queue keeps it pending [E201]",
         "no such type");
    fits(W(.partition = "urgent", .gpu_type = "a100"), 1, 1,
         "can never fit: no node of partition urgent has GPUs of type 'a100'; "
         "there is: h100; --force-queue keeps it pending [E201]",
         "no such type there");
    fits(W(.constraint = "ib&rack9"), 1, 1,
         "can never fit: no such node has the features 'ib&rack9'; "
         "--force-queue keeps it pending [E201]",
         "no such features");
    fits(W(.constraint = "[rack9]"), 1, 1, "fits", "Slurm's to know");
    fits(W(.gpu_type = "a100"), 8, 1,
         "can never fit: needs 8 GPUs of type a100 on 1 node; the only node "
         "has 4; lower resources.gpus; --force-queue keeps it pending [E201]",
         "too many of a type");
    fits(W(.partition = "urgent"), 16, 4,
         "can never fit: needs 16 GPUs on 4 nodes; the largest node of "
         "partition urgent has 4, all 3 together have 12; lower "
         "resources.gpus; --force-queue keeps it pending [E201]",
         "too many of a partition");
    fits(W(.partition = "cpu"), 0, 1, "fits", "none needed");
    fits(W(.partition = "cpu"), 1, 1,
         "can never fit: needs 1 GPU on 1 node; the only node of partition "
         "cpu has 0; lower resources.gpus; --force-queue keeps it pending "
         "[E201]",
         "none there");
    e.n_nodes = 0;
    fits(W(.partition = "nope"), 1, 1, "fits", "nothing is known");

    begin();
    node("", "cpu", "", "");
    node("", "a*", "", "");
    e.n_nodes = 1;
    end();
    fits(W(0), 0, 1, "fits", "no default is known");
}

static void same_node(size_t i)
{
    memcpy(nodes[i].name, nodes[i - 1].name, sizeof(nodes[i].name));
}

static void test_parts(void)
{
    struct job job = {.gpus_max = 1};
    begin();
    node("h100", "p*", "", "");
    node("a100", "p*", "", "");
    same_node(1);
    node("a100", "p*", "", "");
    end();
    uses(W(0), 1, "123/123", "GPUs of any type");
    uses(W(.gpu_type = "a100"), 1, "23/23", "of one");
    uses(W(0), 0, "13/13", "without GPUs a node is one node");
    const struct alloc_where away = {.exclude = "n1"};
    ok(!eng_node_fits(&e, 0, &away, true, true) &&
           !eng_node_fits(&e, 1, &away, true, true) &&
           eng_node_fits(&e, 2, &away, true, true),
       "it is excluded with all that it has");
    ok(eng_wants_type(&e, &job), "an attempt has to say which");
    is_str(eng_type_of(&e, eng_type_classes(&e, "A100")), "a100",
           "the type of some classes");
    is_str(eng_type_of(&e, POLICY_ANY_CLASS), "", "not of all");
    ok(eng_type_classes(&e, "") == POLICY_ANY_CLASS &&
           eng_type_classes(&e, "v100") == 0,
       "and the classes of a type");
    is_int((int64_t)eng_part_at(&e, "n1:4", 2, "a100"), 1, "where GPUs are");
    is_int((int64_t)eng_part_at(&e, "n1:0", 2, NULL), 0,
           "as well as an older log says it");
    is_int((int64_t)eng_part_at(&e, "n3:0", 2, "a100"), 2, "on another node");
    is_int((int64_t)eng_part_at(&e, "n9", 2, NULL), 3, "nowhere");
    fits(W(0), 8, 2, "fits", "8 of one type on 2 nodes");
    fits(W(0), 5, 1,
         "can never fit: needs 5 GPUs of one type on 1 node; the largest node "
         "has 4, all 2 together have 8; raise resources.nodes; --force-queue "
         "keeps it pending [E201]",
         "no 5 of one type on a node");
    fits(W(0), 12, 3,
         "can never fit: needs 12 GPUs of one type on 3 nodes; the largest "
         "node has 4, all 2 together have 8; lower resources.gpus; "
         "--force-queue keeps it pending [E201]",
         "two types are not two nodes");
    fits(W(0), 0, 3,
         "can never fit: needs 0 GPUs on 3 nodes; the largest node has 4, all "
         "2 together have 8; raise resources.nodes; --force-queue keeps it "
         "pending [E201]",
         "nor for a job without GPUs");

    begin();
    node("h100", "p*", "", "");
    node("a100", "p*", "", "");
    end();
    ok(!eng_wants_type(&e, &job), "nodes of one type each need no choice");
    fits(W(0), 8, 2, "fits", "and may be had together");
}

#define GIB ((int64_t)1 << 30)

/* resources.gpu_memory: what a node's GPUs have, as far as it is known. */
static void test_memory(void)
{
    struct job job = {.gpus_max = 1, .where = {.gpu_min_bytes = 40 * GIB}};
    begin();
    node("h100", "p*", "", "");
    node("a100", "p*", "", "");
    node("t4", "p*", "", "");
    node("", "p*", "", "");
    nodes[0].gpu_bytes = (int64_t)81559 << 20; /* as an H100 80GB says */
    nodes[1].gpu_bytes = 40 * GIB;
    nodes[2].gpu_bytes = 15 * GIB;
    end();
    is_int(e.classes.n, 4, "memory makes classes");
    uses(W(.gpu_min_bytes = 40 * GIB), 1, "124/124", "40G..");
    uses(W(.gpu_min_bytes = 80 * GIB), 1, "14/14",
         "80G.. is what is sold as that");
    uses(W(.gpu_min_bytes = 88 * GIB), 1, "14/14", "nine tenths of 88G");
    uses(W(.gpu_min_bytes = 90 * GIB), 1, "4/4", "are not of 90G");
    uses(W(.gpu_max_bytes = 40 * GIB), 1, "234/234", "..40G");
    uses(W(.gpu_min_bytes = 16 * GIB, .gpu_max_bytes = 40 * GIB), 1, "234/234",
         "16G..40G");
    uses(W(.gpu_min_bytes = 40 * GIB), 0, "1234/1234", "nothing without GPUs");
    ok(eng_wants_type(&e, &job), "an attempt names a type");
    job.where.gpu_type = "h100";
    ok(!eng_wants_type(&e, &job), "unless its spec does");
    job.where = W(0);
    ok(!eng_wants_type(&e, &job), "or it asks for no memory");
    fits(W(.gpu_min_bytes = 40 * GIB), 4, 1, "fits", "a node's worth");
    fits(W(.gpu_min_bytes = 40 * GIB), 8, 2,
         "can never fit: needs 8 GPUs of one type on 2 nodes; the only node "
         "has 4; lower resources.gpus; --force-queue keeps it pending [E201]",
         "two types are not one");
    e.n_nodes = 3;
    fits(W(.gpu_min_bytes = 200 * GIB), 1, 1,
         "can never fit: no such node has GPUs of 200G.. each; there is: h100 "
         "81559M, a100 40G, t4 15G; --force-queue keeps it pending [E201]",
         "more than any has");
    fits(W(.gpu_type = "t4", .gpu_min_bytes = 40 * GIB), 1, 1,
         "can never fit: no such node has GPUs of 40G.. each; there is: t4 "
         "15G; --force-queue keeps it pending [E201]",
         "more than those of a type have");
}

int main(void)
{
    test_memory();
    test_words();
    test_constraints();
    test_unknown();
    test_many();
    test_never();
    test_parts();
    free(e.classes.of);
    free(e.classes.by_name);
    return tap_done();
}
