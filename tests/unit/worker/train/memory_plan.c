/* memory_plan.c - the parts of a plan, by hand, and what it keeps of a GPU. */
#include "worker/train/memory_plan.h"

#include <string.h>

#include "tests/tap.h"
#include "worker/train/trainer.h"

#define MIB ((int64_t)1 << 20)

/* A model of 100 MiB, 10 of them work, in fp32 with SGD. */
static const struct model_plan model = {.params = 10 * MIB,
                                        .bytes_params = 40 * MIB,
                                        .bytes_grads = 40 * MIB,
                                        .bytes_activations = 10 * MIB,
                                        .bytes_work = 10 * MIB,
                                        .bytes_scratch = 6 * MIB,
                                        .bytes_total = 100 * MIB};

static struct memory_plan plan(bool is_gpu, int32_t ranks)
{
    static const struct job_spec spec = {.train.optimizer.name = OPTIM_SGD};
    const struct memory_ask ask = {.spec = &spec,
                                   .dt = DT_F32,
                                   .model = model,
                                   .parts = 1,
                                   .ranks = ranks,
                                   .is_gpu = is_gpu,
                                   .batches = 3 * MIB,
                                   .host = 5 * MIB};
    struct memory_plan p;
    memory_plan_make(&ask, &p);
    return p;
}

static void test_parts(void)
{
    const struct memory_plan one = plan(false, 1), two = plan(false, 2);
    const struct memory_plan gpu = plan(true, 1), gpus = plan(true, 2);
    const int64_t host = 103 * MIB + one.optimizer;
    is_int(one.runtime, 0, "the host keeps nothing for CUDA");
    is_int(two.runtime, 0, "nor with two ranks");
    is_int(one.total, host, "the total on the host");
    is_int(two.total, host, "with two ranks");
    is_int(gpu.runtime, 400 * MIB, "one rank on a GPU: CUDA's own");
    is_int(gpus.runtime, 1536 * MIB, "two: NCCL's buffers, too");
    /* 6 of scratch, 64 of partial sums. */
    is_int(gpu.total, host + (70 + 400) * MIB, "it is in the total");
    is_int(gpus.total, host + (70 + 1536) * MIB, "of two ranks, too");
}

static void test_line(void)
{
    const struct memory_plan one = plan(false, 2), gpu = plan(true, 1);
    char line[MEMORY_LINE_CAP];
    memory_plan_line(&gpu, line, sizeof(line));
    ok(strstr(line, "batches 3.0, CUDA and NCCL 400.0), and 5.0 MiB") != NULL,
       "%s", line);
    memory_plan_line(&one, line, sizeof(line));
    ok(strstr(line, "batches 3.0), and 5.0 MiB") != NULL, "%s", line);
}

/* A job that fits but for what loads later is refused, and for good only where
 * the whole GPU is too small. */
static void test_check(void)
{
    const struct memory_plan p = plan(true, 2);
    struct memory_room room = {
        .gpu = p.total, .gpu_all = p.total, .host = {.bytes = -1}, .ranks = 2};
    struct train_refusal why = {.needed_bytes = 0};
    struct error err = ERROR_INIT;
    ok(memory_plan_check(&p, &room, &why, &err) == 0, "it fits to the byte");
    room.gpu--;
    ok(memory_plan_check(&p, &room, &why, &err) < 0 && err.code == ERR_NOMEM,
       "a byte less: %s", err.msg);
    is_int(why.needed_bytes, 0, "another program may free it");
    room.gpu_all--;
    ok(memory_plan_check(&p, &room, &why, &err) < 0, "never");
    is_int(why.needed_bytes, p.total, "the bytes it needs");
}

/* A worker asks what is left when it has its context, which is in the plan. */
static void test_context(void)
{
    const struct memory_plan p = plan(true, 1);
    const int64_t context = 100 * MIB;
    struct memory_room room = {.gpu = p.total - context,
                               .gpu_all = p.total,
                               .host = {.bytes = -1},
                               .ranks = 1};
    struct train_refusal why = {.needed_bytes = 0};
    struct error err = ERROR_INIT;
    room.gpu_held = memory_plan_held(&room);
    is_int(room.gpu_held, context, "the context is there");
    ok(memory_plan_check(&p, &room, &why, &err) == 0, "it counts once");
    room.gpu--;
    room.gpu_held = memory_plan_held(&room);
    is_int(room.gpu_held, context, "what others use is not the plan's");
    ok(memory_plan_check(&p, &room, &why, &err) < 0 &&
           strstr(err.msg, " left beside CUDA's context") != NULL,
       "a byte less: %s", err.msg);
    is_int(why.needed_bytes, 0, "it fits an empty GPU");
    /* A context of 180 MiB, and 120 MiB of another program. */
    room.gpu = p.total - 300 * MIB;
    ok((room.gpu_held = memory_plan_held(&room)) <= 180 * MIB &&
           memory_plan_check(&p, &room, &why, &err) < 0,
       "another program's memory does not pass for the context");
    room.gpu = p.total - 60 * MIB;
    is_int(room.gpu_held = memory_plan_held(&room), 60 * MIB,
           "a smaller one, too");
    ok(memory_plan_check(&p, &room, &why, &err) == 0, "it counts once");
    room.gpu = -1;
    is_int(memory_plan_held(&room), 0, "a GPU that does not say");
}

/* And so does a worker have its kernels, of which another program's memory may
 * be a part. */
static void test_kernels(void)
{
    struct memory_room room = {.gpu = 800 * MIB, .gpu_all = 1000 * MIB};
    room.gpu_loaded = 20 * MIB;
    is_int(memory_plan_held(&room), 120 * MIB, "the context and 20 MiB");
    room.gpu_loaded = 49 * MIB;
    is_int(memory_plan_held(&room), 148 * MIB, "kernels take 48 at most");
    room.gpu = 890 * MIB;
    is_int(memory_plan_held(&room), 110 * MIB, "no more than is used");
}

int main(void)
{
    test_parts();
    test_line();
    test_check();
    test_context();
    test_kernels();
    return tap_done();
}
