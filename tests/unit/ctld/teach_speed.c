/* teach_speed.c - what the daemon tells the engine of speeds and lengths: which
 * rows count, which classes are weak, how long a spec's job is.
 */
#include "scheduler/ctld/ingest/teach_speed.h"

#include <math.h>

#include "tests/tap.h"

static void test_rows(void)
{
    static struct iteration_times t;
    struct metric_row m = {.kind = METRIC_ITERATION};

    m.iteration = (struct metric_iteration){.iteration = 7, .t_iter = 0.5};
    teach_times_add(&t, &m);
    m.iteration.rank = 1;
    teach_times_add(&t, &m);
    m.iteration.rank = 0;
    m.iteration.t_iter = NAN;
    teach_times_add(&t, &m);
    m.iteration.t_iter = 0;
    teach_times_add(&t, &m);
    m.kind = METRIC_EPOCH;
    teach_times_add(&t, &m);
    is_int((long long)t.n, 1, "only iterations of rank 0 that have a time");
    ok(t.at[0].iteration == 7 && t.at[0].t_iter_s == 0.5,
       "  with their number");
    m = (struct metric_row){.kind = METRIC_ITERATION};
    m.iteration = (struct metric_iteration){.iteration = 8, .t_iter = 1};
    for (int i = 0; i < TIMES_MAX + 5; i++)
        teach_times_add(&t, &m);
    is_int((long long)t.n, TIMES_MAX, "no more than there is room for");
}

static void test_classes(void)
{
    ok(!teach_class_is_weak("command/python3-2f0c9e51a4b7d803"),
       "a command's iterations are its own");
    ok(teach_class_is_weak(
           "cv/mobilenet_v2-1/c10/mnist-32/fp32/b64/ddp-ds/sgd/pin-auto/cuda"),
       "64 on each GPU grow with the GPUs");
    ok(!teach_class_is_weak("cv/mobilenet_v2-1/c10/mnist-32/fp32/b64-g256/"
                            "ddp-ds/sgd/pin-auto/cuda"),
       "256 in all do not");
    ok(teach_class_is_weak(
           "llm/big/lora-r8-q/bf16/s2048-packed/b2x8/ddp/ac-on/cuda"),
       "nor does accumulation make them constant");
    ok(!teach_class_is_weak(
           "llm/big/lora-r8-q/bf16/s2048-packed/b2-g96/ddp/ac-on/cuda"),
       "but a global batch of rows");
}

static void test_lengths(void)
{
    is_int(teach_iterations_of(
               "{\"kind\":\"cv\",\"dataset\":{\"source\":\"mnist\"},"
               "\"train\":{\"epochs\":2,\"batch_size\":64}}"),
           2 * 938, "MNIST has 60000 images");
    is_int(teach_iterations_of(
               "{\"kind\":\"cv\",\"dataset\":{\"source\":\"synthetic\","
               "\"train_samples\":1000},\"train\":{\"epochs\":3,"
               "\"batch_size\":8,\"global_batch_size\":100}}"),
           30, "the global batch counts");
    is_int(teach_iterations_of(
               "{\"dataset\":{\"source\":\"image_folder\"},\"train\":{"
               "\"epochs\":5,\"batch_size\":8,\"max_steps_per_epoch\":7}}"),
           35, "a bound is all that is known of a folder");
    is_int(teach_iterations_of(
               "{\"dataset\":{\"source\":\"image_folder\"},\"train\":{"
               "\"epochs\":5,\"batch_size\":8,\"max_steps_per_epoch\":7,"
               "\"max_iterations\":12,\"eval_only\":false}}"),
           12, "and one of the job");
    is_int(teach_iterations_of(
               "{\"dataset\":{\"source\":\"image_folder\"},\"train\":{"
               "\"epochs\":5,\"batch_size\":8,\"max_steps_per_epoch\":7,"
               "\"eval_only\":true}}"),
           0, "an evaluation has no iterations");
    is_int(teach_iterations_of("{\"kind\":\"llm\",\"train\":{\"epochs\":1,"
                               "\"batch_size\":2,"
                               "\"gradient_accumulation_steps\":4,"
                               "\"dataset\":{\"samples\":81}}}"),
           11, "rows of text, accumulated");
    is_int(teach_iterations_of("{\"dataset\":{\"source\":\"image_folder\"},"
                               "\"train\":{\"epochs\":5,\"batch_size\":8}}"),
           0, "a folder's length is not known");
    is_int(teach_iterations_of("not JSON"), 0, "nor what is no spec");
    is_int(teach_iterations_of(NULL), 0, "nor nothing");
}

int main(void)
{
    test_rows();
    test_classes();
    test_lengths();
    return tap_done();
}
