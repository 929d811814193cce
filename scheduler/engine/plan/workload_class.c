/* workload_class.c - name the class of jobs that have the same speed on the
 * same devices.
 *
 * v_scaling(5) compares iteration times within a class, so the name of a class
 * contains everything that changes them and nothing else: not the seed, the
 * learning rate or the number of epochs, not the number of GPUs. It is
 * readable, because people group by it:
 *
 *   cv/mobilenet_v2-1/c10/mnist-32/fp32/b64/ddp-ds/sgd/pin-auto/cuda
 *   command/python3-2f0c9e51a4b7d803
 *
 * For a command the digits are a hash of its argv.
 */
#include <inttypes.h>
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

static int class_cv(const struct job_spec *s, struct buf *b, struct error *err)
{
    static const char *const archs[] = {"mobilenet_v2"};
    static const char *const sources[] = {"mnist", "synthetic", "image_folder"};
    static const char *const precisions[] = {"fp64", "fp32", "tf32", "fp16",
                                             "bf16"};
    static const char *const distributions[] = {"ddp-ds", "ddp-rr", "ddp",
                                                "dp"};
    static const char *const optimizers[] = {"sgd", "adamw", "rmsprop"};
    static const char *const pins[] = {"auto", "no", "yes"};
    static const char *const devices[] = {"auto", "cuda", "host"};

    return buf_addf(
        b, err,
        "cv/%s-%g/c%" PRId32 "/%s-%" PRId32 "/%s%s/b%" PRId32
        "/%s/%s/pin-%s/%s%s",
        PICK(archs, s->model.arch), s->model.width_mult, s->model.num_classes,
        PICK(sources, s->dataset.source), s->dataset.image_size,
        PICK(precisions, s->train.precision), s->train.mixed ? "-mixed" : "",
        s->train.batch_size, PICK(distributions, s->train.distribution),
        PICK(optimizers, s->train.optimizer.name),
        PICK(pins, s->train.pin_memory), PICK(devices, s->train.device),
        s->dataset.data_path == DATA_PATH_PAPER ? "/paper" : "");
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
    int rc = spec->kind == SPEC_CV ? class_cv(spec, &b, err)
                                   : class_command(spec, &b, err);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (!text)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    *ret = text;
    return 0;
}
