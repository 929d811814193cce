/* spec.c - what the engine takes from a spec, and the class of a job. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/core.h"
#include "tests/tap.h"

static const struct engine_conf conf = {.kill_grace_s = 7};

static void is_class(const char *spec, const char *want, const char *what)
{
    struct job job = {0};
    struct error err = ERROR_INIT;
    char *text, *class;

    if (eng_from_spec(spec, &conf, &job, &text, &class, &err) < 0) {
        ok(false, "%s: %s", what, err.msg);
        return;
    }
    is_str(class, want, what);
    free(text);
    free(class);
}

static void test_class(void)
{
#define CV "name: a\nkind: cv\ndataset: {source: synthetic, image_size: 64}\n"
    is_class(CV,
             "cv/mobilenet_v2-1/c0/synthetic-64/fp32/b64/ddp-ds/adamw/"
             "pin-auto/auto",
             "an image model");
    is_class(CV "train: {seed: 3, epochs: 2, batch_size: 8, precision: fp64, "
                "optimizer: {name: sgd, lr: 3}}\nresources: {gpus: 2}\n",
             "cv/mobilenet_v2-1/c0/synthetic-64/fp64/b8/ddp-ds/sgd/"
             "pin-auto/auto",
             "seed, rate, epochs and GPUs do not count");
    is_class("name: a\nkind: command\ncommand: [/bin/echo, a]\n",
             "command/echo-916b1cbaf27457c6", "a command");
    is_class("name: b\nkind: command\ncommand: [/bin/echo, a]\n",
             "command/echo-916b1cbaf27457c6", "its name does not count");
    is_class("name: a\nkind: command\ncommand: [/bin/ech, oa]\n",
             "command/ech-f3085c353e755b0c", "where a word ends does");
}

static void test_fields(void)
{
    struct job job = {0}, again = {0};
    struct error err = ERROR_INIT;
    char *text, *class, *text2, *class2;

    int rc =
        eng_from_spec("name: a\nkind: command\ncommand: [x]\n"
                      "resources: {gpus: 2..4, nodes: 1..2, time_limit: 90s}\n"
                      "policy: {priority: high}\nretry: {max: 3}\n"
                      "checkpoint: {grace: 5s}\nlogs: {max_bytes: 8K}\n",
                      &conf, &job, &text, &class, &err);
    ok(rc == 0, "a spec in YAML");
    ok(job.gpus_min == 2 && job.gpus_max == 4 && job.nodes_min == 1 &&
           job.nodes_max == 2 && job.priority == 50 && job.retry_max == 3 &&
           job.log_max_bytes == 8192,
       "its numbers");
    ok(fabs(job.limit_s - 90) < 1e-9 && fabs(job.grace_s - 5) < 1e-9,
       "its times");
    is_str(job.kind, "command", "its kind");
    ok(text[0] == '{' && !strchr(text, '\n'), "is stored as one line of JSON");
    ok(eng_from_spec(text, &conf, &again, &text2, &class2, &err) == 0,
       "which reads back");
    is_str(text2, text, "as the same");
    is_str(class2, class, "of the same class");
    free(text);
    free(class);
    free(text2);
    free(class2);

    is_int(eng_from_spec("kind: comand\n", &conf, &job, &text, &class, &err),
           -1, "a spec with errors");
    is_int(err.code, ERR_INVAL, "  is refused");
    ok(strstr(err.msg, "kind") != NULL, "  with the key of the first");
}

int main(void)
{
    test_class();
    test_fields();
    return tap_done();
}
