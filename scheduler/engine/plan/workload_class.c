/* workload_class.c - name the class of jobs that have the same speed on the
 * same devices.
 *
 * v_scaling(5) compares iteration times within a class, and a size on which a
 * job of the class lacked memory is refused to all of it. So the name contains
 * everything that changes either and nothing else: not the seed, the learning
 * rate or the number of epochs, not the number of GPUs. It is readable, because
 * people group by it:
 *
 *   cv/mobilenet_v2-1/c10/mnist-32/fp32/b64/ddp-ds/sgd/pin-auto/cuda
 *   command/python3-2f0c9e51a4b7d803
 *   llm/Llama-3-8B/lora-r8-qvo-mlp/bf16/s2048-packed/b2x8/ddp/ac-on/cuda
 *
 * For a command the digits are a hash of its argv. The shape of a language
 * model is in files that only the job's user can read: the name of their
 * directory stands for it. Rows that are not packed are as long as their file
 * has them, so the name of that file is part of the class.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "scheduler/engine/engine_internal.h"

static const char *pick(const char *const *names, size_t n, unsigned i)
{
    return i < n ? names[i] : "?";
}
#define PICK(names, i) \
    pick(names, sizeof(names) / sizeof((names)[0]), (unsigned)(i))

static const char *const precisions[] = {"fp64", "fp32", "tf32", "fp16",
                                         "bf16"};
static const char *const devices[] = {"auto", "cuda", "host"};

/* "-g96": with a constant global batch an iteration has the same samples on
 * any number of GPUs, so its speed is not that of a job without. */
enum { WHOLE_CAP = 16 };
static const char *global_batch(const struct job_spec *s, char out[WHOLE_CAP])
{
    out[0] = '\0';
    if (s->train.global_batch_size > 0)
        (void)snprintf(out, WHOLE_CAP, "-g%" PRId32,
                       s->train.global_batch_size);
    return out;
}

/* "-ema-skip": a copy of the weights each, and steps that no graph replays. ""
 * by default. */
enum { EXTRAS_CAP = 16 };
static const char *extras(const struct job_spec *s, char out[EXTRAS_CAP])
{
    static const char *const on_nan[] = {"", "-skip", "-warn"};

    (void)snprintf(out, EXTRAS_CAP, "%s%s",
                   s->train.ema.decay > 0 ? "-ema" : "",
                   PICK(on_nan, s->train.on_nan));
    return out;
}

static int class_cv(const struct job_spec *s, struct buf *b, struct error *err)
{
    static const char *const archs[] = {"mobilenet_v2"};
    static const char *const sources[] = {"mnist", "synthetic", "image_folder"};
    static const char *const distributions[] = {"ddp-ds", "ddp-rr", "ddp",
                                                "dp"};
    static const char *const optimizers[] = {"sgd", "adamw", "rmsprop",
                                             "adamw8bit"};
    static const char *const pins[] = {"auto", "no", "yes"};
    char whole[WHOLE_CAP], more[EXTRAS_CAP];

    return buf_addf(
        b, err,
        "cv/%s-%g/c%" PRId32 "/%s-%" PRId32 "/%s%s/b%" PRId32
        "%s/%s/%s%s/pin-%s/%s%s%s",
        PICK(archs, s->model.arch), s->model.width_mult, s->model.num_classes,
        PICK(sources, s->dataset.source), s->dataset.image_size,
        PICK(precisions, s->train.precision), s->train.mixed ? "-mixed" : "",
        s->train.batch_size, global_batch(s, whole),
        PICK(distributions, s->train.distribution),
        PICK(optimizers, s->train.optimizer.name), extras(s, more),
        PICK(pins, s->train.pin_memory), PICK(devices, s->train.device),
        s->dataset.data_path == DATA_PATH_PAPER ? "/paper" : "",
        s->train.channels_last ? "" : "/nchw");
}

/* The last name of a path, which may end in slashes. */
static void last_name(const char *path, char out[SPEC_NAME_CAP])
{
    size_t end = path ? strlen(path) : 0;
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    size_t len = end - start < SPEC_NAME_CAP ? end - start : SPEC_NAME_CAP - 1;
    memcpy(out, path ? path + start : "", len);
    out[len] = '\0';
}

/* "lora-r8-qvo-mlp", "qlora-r8-q", "full", "qat-full" */
static int add_method(const struct job_spec *s, struct buf *b,
                      struct error *err)
{
    static const struct {
        uint32_t bits;
        const char *word;
    } parts[] = {{1, "q"}, {2, "k"}, {4, "v"}, {8, "o"}};
    uint32_t targets = spec_lora_targets(s);
    const char *word = s->method == METHOD_QLORA ? "qlora" : "lora";
    int rc = s->method == METHOD_DPO   ? buf_addstr(b, "dpo-", err)
             : s->method == METHOD_QAT ? buf_addstr(b, "qat-", err)
                                       : 0;
    if (rc < 0)
        return -1;
    if (spec_trains_all(s))
        return buf_addstr(b, "full", err);
    if (s->train.model.lora_rank < 0) /* its files say */
        return buf_addf(b, err, "%s-adapter%s", word,
                        s->train.model.lora_dropout > 0 ? "-drop" : "");
    rc = buf_addf(b, err, "%s-r%" PRId32 "%s", word, s->train.model.lora_rank,
                  targets & 15 ? "-" : "");
    for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
        if (targets & parts[i].bits)
            rc = buf_addstr(b, parts[i].word, err);
    return rc < 0 ? -1
                  : buf_addf(b, err, "%s%s%s", targets & 16 ? "-mlp" : "",
                             targets & 128 ? "-out" : "",
                             s->train.model.lora_dropout > 0 ? "-drop" : "");
}

/* "s2048-packed", "s2048-alpaca.json"; "s0": rows as long as they are */
static int add_rows(const struct job_spec *s, struct buf *b, struct error *err)
{
    char file[SPEC_NAME_CAP];
    last_name(s->train.dataset.path, file);
    return buf_addf(b, err, "/s%" PRId32 "-%s", s->train.tokenizer.max_seq_len,
                    s->train.dataset.packed ? "packed" : file);
}

static int class_llm(const struct job_spec *s, struct buf *b, struct error *err)
{
    bool is_16bit = s->train.precision == PRECISION_FP16 ||
                    s->train.precision == PRECISION_BF16;
    char model[SPEC_NAME_CAP], more[EXTRAS_CAP];
    last_name(s->train.checkpointer.dir, model);
    if (buf_addf(b, err, "llm/%s/", model) < 0 || add_method(s, b, err) < 0 ||
        buf_addf(b, err, "%s%s/%s%s",
                 s->train.optimizer.name == OPTIM_SGD      ? "-sgd"
                 : s->train.optimizer.name == OPTIM_ADAMW8 ? "-8bit"
                                                           : "",
                 extras(s, more), PICK(precisions, s->train.precision),
                 is_16bit && !s->train.mixed ? "-pure" : "") < 0 ||
        add_rows(s, b, err) < 0)
        return -1;
    char whole[WHOLE_CAP], steps[WHOLE_CAP];
    (void)snprintf(steps, sizeof(steps), "x%" PRId32,
                   s->train.gradient_accumulation_steps);
    return buf_addf(
        b, err, "/b%" PRId32 "%s/%s/ac-%s%s/%s", s->train.batch_size,
        s->train.global_batch_size > 0 ? global_batch(s, whole) : steps,
        s->train.distribution == DIST_FSDP ? "fsdp" : "ddp",
        s->train.activation_checkpointing ? "on" : "off",
        s->train.optimizer_in_bwd ? "-in-bwd" : "",
        PICK(devices, s->train.device));
}

static int class_command(const struct job_spec *s, struct buf *b,
                         struct error *err)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a; the NULs count, too */
    for (size_t i = 0; i < s->command.n; i++) {
        const char *p = s->command.items[i];
        do
            h = (h ^ (unsigned char)*p) * 0x100000001b3u;
        while (*p++);
    }
    const char *program = s->command.n > 0 ? s->command.items[0] : "";
    const char *slash = strrchr(program, '/');
    char name[SPEC_NAME_CAP];
    text_copy(name, sizeof(name), slash ? slash + 1 : program);
    return buf_addf(b, err, "command/%s-%016" PRIx64, name, h);
}

int eng_class(const struct job_spec *spec, char **ret, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = spec->kind == SPEC_CV    ? class_cv(spec, &b, err)
             : spec->kind == SPEC_LLM ? class_llm(spec, &b, err)
                                      : class_command(spec, &b, err);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (!text)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    *ret = text;
    return 0;
}
