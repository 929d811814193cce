/* spec_examples.c - the specifications that are shipped are valid, from any
 * directory, and say what their comments do. */
#include "jobs/spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static bool parses(const struct buf *text, const struct spec_options *opt,
                   struct job_spec *s)
{
    struct spec_report r;
    struct error err = ERROR_INIT;
    int rc = spec_parse(text->data, text->len, opt, s, &r, &err);
    if (rc < 0)
        tap_diag("%s: %s", r.n ? r.findings[0].message : "", err.msg);
    diagnostics_clear(&r);
    return rc == 0;
}

/* The options of references/classification/train.py, and its defaults. */
static void is_torchvision(const struct job_spec *s)
{
    ok(s->train.optimizer.name == OPTIM_SGD && s->train.optimizer.lr == 0.045 &&
           s->train.optimizer.momentum == 0.9 && !s->train.optimizer.nesterov &&
           s->train.optimizer.weight_decay == 0.00004 &&
           s->train.optimizer.no_decay == NO_DECAY_NONE,
       "torchvision's optimizer");
    ok(s->train.epochs == 300 && s->train.lr_scheduler.name == SCHEDULE_STEP &&
           s->train.lr_scheduler.step_size == 1 &&
           s->train.lr_scheduler.gamma == 0.98 &&
           s->train.lr_scheduler.num_warmup_steps == 0,
       "torchvision's schedule");
    ok(s->train.batch_size == 32 && s->resources.gpus.min == 8 &&
           s->train.global_batch_size == 256,
       "32 images on each of 8 GPUs");
    ok(s->dataset.augment == AUGMENT_CROP && s->dataset.image_size == 224 &&
           s->model.num_classes == 1000 && s->train.label_smoothing == 0,
       "random parts of 224 pixels of 1000 classes");
}

int main(void)
{
    static const char *const names[] = {
        "mnist-mobilenet",    "image-folder",  "cv-synthetic", "command-hello",
        "command-secret",     "llama-lora",    "llama-full",   "llama3-8b-lora",
        "torch-ddp",          "torch-elastic", "torchrun",     "accelerate",
        "mpi-program",        "llama-qlora",   "llama-dpo",    "llama-qat",
        "imagenet-mobilenet", "qwen2.5-lora",  "mistral-lora", "smollm2-chat"};
    const char *src = getenv("MGPU_SRC");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[400];
        struct buf text = BUF_INIT;
        struct error err = ERROR_INIT;
        struct job_spec s;
        (void)snprintf(path, sizeof(path), "%s/jobs/examples/%s.yaml",
                       src ? src : ".", names[i]);
        struct spec_options opt = {.file = path, .home = "/home/ann"};
        if (!ok(buf_read_file(&text, path, 1 << 20, &err) == 0 &&
                    parses(&text, &opt, &s),
                "%s is valid", names[i])) {
            buf_clear(&text);
            continue;
        }
        if (i == 0) {
            ok(s.dataset.path[0] == '/' &&
                   strstr(s.dataset.path, "/tests/data/mnist") != NULL,
               "its data is found from any directory");
            is_int(s.resources.gpus.min, 2, "two ranks");
            is_int(s.train.lr_scheduler.num_warmup_steps, 78, "warm-up");
            ok(s.train.optimizer.nesterov, "Nesterov");
        }
        if (i == 1)
            ok(s.dataset.source == SOURCE_IMAGE_FOLDER &&
                   s.dataset.augment == AUGMENT_CROP &&
                   s.dataset.on_bad_row == BAD_ROW_SKIP,
               "a folder's keys");
        if (i == 5) {
            ok(strstr(s.train.checkpointer.dir, "/jobs/examples/stories260K"),
               "its model is found from any directory");
            is_int(spec_lora_targets(&s), 127, "all matrices of a layer");
            is_int(s.train.epochs, 7, "56 updates");
            is_int(s.train.batch_size * s.train.gradient_accumulation_steps *
                       s.resources.gpus.min,
                   2, "packs per update");
            ok(strstr(s.train.sample.prompts.items[0], "\n\n### Response:\n") !=
                   NULL,
               "its prompt has lines");
        }
        if (i == 6)
            ok(s.method == METHOD_FULL && s.train.mixed &&
                   s.train.activation_checkpointing,
               "the defaults of all weights");
        if (i == 8)
            ok(s.launch == LAUNCH_TORCH && !s.saves, "a process per GPU");
        if (i == 9)
            ok(s.launch == LAUNCH_TORCH && s.saves &&
                   s.resources.gpus.min < s.resources.gpus.max,
               "it can be resized");
        if (i == 10 || i == 11)
            is_int((int)s.launch, LAUNCH_NODE, "a process per node");
        if (i == 12)
            is_int((int)s.launch, LAUNCH_MPI, "MPI is the program's");
        if (i == 14)
            ok(s.method == METHOD_DPO && spec_lora_targets(&s) == 127 &&
                   s.train.dataset.template == TEMPLATE_PREFERENCE &&
                   s.train.loss.precompute_reference &&
                   s.resources.gpus.min == 2,
               "pairs, on two ranks");
        if (i == 15)
            ok(s.method == METHOD_QAT && spec_trains_all(&s) &&
                   s.train.quantizer.groupsize == 32 &&
                   s.resources.gpus.min == 2,
               "all weights, in groups of 32, on two ranks");
        if (i == 16)
            is_torchvision(&s);
        spec_clear(&s);
        buf_clear(&text);
    }
    return tap_done();
}
