/* spec.c - what the engine takes from a spec, and the class of a job. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/requests/requests.h"
#include "tests/tap.h"

static const struct engine_conf conf = {.kill_grace_s = 7};

static void is_class(const char *spec, const char *want, const char *what)
{
    struct job job = {0};
    struct error err = ERROR_INIT;
    struct texts own;

    if (eng_from_spec(spec, &conf, &job, &own, &err) < 0) {
        ok(false, "%s: %s", what, err.msg);
        return;
    }
    is_str(own.class, want, what);
    texts_clear(&own);
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
    is_class(CV "train: {batch_size: 8, precision: bf16}\n",
             "cv/mobilenet_v2-1/c0/synthetic-64/bf16/b8/ddp-ds/adamw/"
             "pin-auto/auto",
             "all of it in 16 bits");
    is_class(CV "train: {batch_size: 8, precision: bf16, mixed: true}\n",
             "cv/mobilenet_v2-1/c0/synthetic-64/bf16-mixed/b8/ddp-ds/adamw/"
             "pin-auto/auto",
             "another one with master weights in fp32");
    is_class(CV "train: {ema: {decay: 0.999}, on_nan: skip}\n",
             "cv/mobilenet_v2-1/c0/synthetic-64/fp32/b64/ddp-ds/adamw-ema-skip/"
             "pin-auto/auto",
             "copies of the weights take memory and time");
    is_class(CV "train: {on_nan: warn}\n",
             "cv/mobilenet_v2-1/c0/synthetic-64/fp32/b64/ddp-ds/adamw-warn/"
             "pin-auto/auto",
             "no graph replays steps that look for NaN");
    is_class("name: a\nkind: command\ncommand: [/bin/echo, a]\n",
             "command/echo-916b1cbaf27457c6", "a command");
    is_class("name: b\nkind: command\ncommand: [/bin/echo, a]\n",
             "command/echo-916b1cbaf27457c6", "its name does not count");
    is_class("name: a\nkind: command\ncommand: [/bin/ech, oa]\n",
             "command/ech-f3085c353e755b0c", "where a word ends does");
}

/* A language model. */
static void test_class_llm(void)
{
#define MODEL "  checkpointer: {checkpoint_dir: /models/Llama-3-8B/}\n"
#define PACKED                                                         \
    "  dataset: {template: alpaca, path: /d/rows.json, packed: yes}\n" \
    "  tokenizer: {max_seq_len: 2048}\n"
#define OPEN "  dataset: {template: alpaca, path: /d/rows.json}\n"
#define LORA "name: a\nkind: llm\nmethod: lora\ntrain:\n" MODEL
#define FULL "name: a\nkind: llm\nmethod: full\ntrain:\n" MODEL
    is_class(LORA PACKED "  enable_activation_checkpointing: true\n"
                         "  device: cuda\n",
             "llm/Llama-3-8B/lora-r8-qvo-mlp/bf16/s2048-packed/b2x8/ddp/"
             "ac-on/cuda",
             "a language model");
    is_class(LORA "  dataset: {template: alpaca, path: /d/rows.json, packed: "
                  "yes, samples: 7}\n  tokenizer: {max_seq_len: 2048}\n"
                  "  optimizer: {lr: 1}\n  seed: 3\n  epochs: 9\n",
             "llm/Llama-3-8B/lora-r8-qvo-mlp/bf16/s2048-packed/b2x8/ddp/"
             "ac-off/auto",
             "rows, rate, seed and epochs do not count");
    is_class(LORA OPEN "  precision: fp32\n"
                       "  model: {lora_attn_modules: [k_proj, o_proj, q_proj],"
                       " apply_lora_to_mlp: no, apply_lora_to_output: yes,"
                       " lora_rank: 64, lora_dropout: 0.1}\n",
             "llm/Llama-3-8B/lora-r64-qko-out-drop/fp32/s0-rows.json/b2x8/"
             "ddp/ac-off/auto",
             "other adapters, and rows of their own length");
    is_class(LORA PACKED "  model: {lora_attn_modules: []}\n",
             "llm/Llama-3-8B/lora-r8-mlp/bf16/s2048-packed/b2x8/ddp/ac-off/"
             "auto",
             "none in attention");
    is_class(FULL PACKED "  optimizer: {name: sgd}\n  mixed: false\n"
                         "  batch_size: 4\n",
             "llm/Llama-3-8B/full-sgd/bf16-pure/s2048-packed/b4x1/ddp/ac-on/"
             "auto",
             "all weights, in 16 bits alone");
}

static void test_fields(void)
{
    struct job job = {0}, again = {0};
    struct error err = ERROR_INIT;
    struct texts own, own2;

    int rc = eng_from_spec(
        "name: a\nkind: command\ncommand: [x]\n"
        "resources: {gpus: 2..4, nodes: 1..2, time_limit: 90s}\n"
        "policy: {priority: high}\nretry: {max: 3, on: [exit, signal], "
        "backoff: 3s, backoff_max: 4s}\n"
        "checkpoint: {grace: 5s}\n",
        &conf, &job, &own, &err);
    ok(rc == 0, "a spec in YAML");
    ok(job.gpus_min == 2 && job.gpus_max == 4 && job.nodes_min == 1 &&
           job.nodes_max == 2 && job.priority == 50 && job.retry_max == 3,
       "its numbers");
    ok(fabs(job.limit_s - 90) < 1e-9 && fabs(job.grace_s - 5) < 1e-9,
       "its times");
    ok(job.retry_on == (RETRY_EXIT | RETRY_SIGNAL) &&
           fabs(job.backoff_s - 3) < 1e-9 && fabs(job.backoff_max_s - 4) < 1e-9,
       "its retries");
    is_str(job.kind, "command", "its kind");
    ok(own.spec[0] == '{' && !strchr(own.spec, '\n'),
       "is stored as one line of JSON");
    ok(eng_from_spec(own.spec, &conf, &again, &own2, &err) == 0,
       "which reads back");
    is_str(own2.spec, own.spec, "as the same");
    is_str(own2.class, own.class, "of the same class");
    texts_clear(&own);
    texts_clear(&own2);

    is_int(eng_from_spec("kind: comand\n", &conf, &job, &own, &err), -1,
           "a spec with errors");
    is_int(err.code, ERR_INVAL, "  is refused");
    ok(strstr(err.msg, "kind") != NULL, "  with the key of the first");
}

/* What a spec leaves open is the configuration's. */
static void test_where(void)
{
    static const struct engine_conf slurm = {
        .where = {.partition = "gpu", .gpu_type = "h100", .cpus_per_gpu = 4},
        .memory_per_gpu_bytes = 1000,
    };
    struct job job = {0};
    struct error err = ERROR_INIT;
    struct texts own;

    ok(eng_from_spec("name: a\nkind: command\ncommand: [x]\n", &slurm, &job,
                     &own, &err) == 0,
       "a spec that says nothing");
    struct alloc_where w = eng_where(&slurm, &job, 2);
    is_str(w.partition, "gpu", "the default partition");
    is_str(w.gpu_type, "h100", "the default type");
    ok(!w.account && !w.qos && !w.constraint && !w.reservation && !w.exclusive,
       "nothing else");
    is_int(w.cpus_per_gpu, 4, "the default cores");
    is_int(w.memory_bytes, 2000, "memory per GPU");
    is_int(eng_where(&slurm, &job, 0).memory_bytes, 1000, "of one without");
    is_int(eng_where(&conf, &job, 2).memory_bytes, 0, "none configured");
    texts_clear(&own);

    ok(eng_from_spec("name: a\nkind: command\ncommand: [x]\n"
                     "resources: {partition: long, constraint: ib,\n"
                     " reservation: r, gpu_type: a100, exclusive: yes,\n"
                     " cpus_per_gpu: 16, memory: 1G}\n"
                     "policy: {account: acc, qos: q}\n",
                     &slurm, &job, &own, &err) == 0,
       "one that says all");
    w = eng_where(&slurm, &job, 2);
    is_str(w.partition, "long", "its partition");
    is_str(w.account, "acc", "account");
    is_str(w.qos, "q", "qos");
    is_str(w.constraint, "ib", "constraint");
    is_str(w.reservation, "r", "reservation");
    is_str(w.gpu_type, "a100", "type");
    ok(w.exclusive && w.cpus_per_gpu == 16 && w.memory_bytes == 1 << 30,
       "and numbers");
    texts_clear(&own);
}

int main(void)
{
    test_class();
    test_class_llm();
    test_where();
    test_fields();
    return tap_done();
}
