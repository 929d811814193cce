/* plan_command.c - mgpu-model plan JOB.YAML: the memory of a rank by part, and
 * changes with which a job fits that does not. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "kernels/device.h"
#include "scheduler/tools/common/client.h"
#include "worker/llm/llama.h"
#include "worker/llm/llama_check.h"
#include "worker/model_tool/commands.h"
#include "worker/model_tool/known_cards.h"
#include "worker/model_tool/known_models.h"
#include "worker/model_tool/plan_rows.h"
#include "worker/train/memory_plan.h"

enum { CHANGES = 6 };

/* The weights are whole on each rank, or sharded. */
enum { BOTH = 2 };
static const char *const both_words[BOTH] = {"ddp-ds", "fsdp"};

/* What the job would take with another value of a key. */
struct change {
    char text[120];
    int64_t total;
    bool fits;
};

struct plan {
    const struct model_args *args;
    struct job_spec spec;
    struct llama_config shape;
    struct plan_rows rows;
    enum dtype dt;
    int32_t gpus;         /* ranks of the job */
    int32_t ranks, parts; /* ranks: on this machine */
    struct memory_room room;
    char device[80];
    struct memory_plan memory;
    double base_bits; /* of a quantised value of the base; 0: none is */
    int64_t rounded;  /* bytes of the work, of rounded weights and inputs */
    char rounds[240]; /* which linears are; "": none */
    struct memory_plan both[BOTH];
    bool has_both;    /* on two GPUs and more */
    struct error why; /* why it does not fit */
    struct change changes[CHANGES];
    int n_changes;
};

static double mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* ---- the device ---------------------------------------------------------- */

/* --device 80G */
static int size_of_card(struct plan *p, struct error *err)
{
    if (known_card_find(p->args->device, &p->room.gpu, err) < 0)
        return -1;
    (void)snprintf(p->device, sizeof(p->device), "a GPU with %.1f GiB free",
                   mib(p->room.gpu) / 1024);
    return 0;
}

/* Chooses a device as a rank does. */
static int find_device(struct plan *p, bool *ret_is_gpu, struct error *err)
{
    struct device *dev = NULL;
    struct error why = ERROR_INIT;
    const enum spec_device want = p->spec.train.device;
    size_t left = 0, all = 0;
    *ret_is_gpu = true;
    if (p->args->device != NULL)
        return size_of_card(p, err);
    if (want == DEVICE_CUDA ||
        (want == DEVICE_AUTO && p->spec.resources.gpus.max > 0)) {
        if (device_cuda_create(0, &dev, &why) == 0) {
            int rc = dev->ops->memory != NULL
                         ? dev->ops->memory(dev, &left, &all, err)
                         : 0;
            if (dev->ops->memory != NULL)
                p->room.gpu = (int64_t)left;
            (void)snprintf(p->device, sizeof(p->device), "GPU 0");
            dev->ops->destroy(dev);
            return rc;
        }
        if (want == DEVICE_CUDA)
            return error_set(err, why.code,
                             "device cuda: %.150s; --device 80G plans for one "
                             "that is not here",
                             why.msg);
    }
    *ret_is_gpu = false;
    (void)snprintf(p->device, sizeof(p->device), "the host");
    return 0;
}

/* ---- the job ------------------------------------------------------------- */

/* Ranks on a node, and the batches of an iteration that each computes. */
static void count_ranks(struct plan *p)
{
    const struct job_spec *s = &p->spec;
    const int32_t all = s->resources.gpus.max > 0 ? s->resources.gpus.max : 1;
    const int32_t nodes =
        s->resources.nodes.max > 0 ? s->resources.nodes.max : 1;
    const int32_t whole = gpu_sizes_parts(s);
    p->gpus = all;
    p->ranks = s->resources.gpus_per_node > 0 ? s->resources.gpus_per_node
                                              : (all + nodes - 1) / nodes;
    p->parts = s->train.gradient_accumulation_steps;
    if (whole > 0)
        p->parts = whole > all ? whole / all : 1;
    p->room.ranks = p->ranks;
}

static int read_shape(struct plan *p, struct error *err)
{
    if (p->args->model != NULL)
        return known_model_find(p->args->model, &p->shape, err);
    if (llama_read_dir(p->spec.train.checkpointer.dir,
                       &p->spec.train.checkpointer.files, &p->shape, err) < 0)
        return error_wrap(err, "train.checkpointer.checkpoint_dir");
    return 0;
}

/* in  s  the job, or the job with another value */
static int make(const struct plan *p, const struct job_spec *s,
                const struct plan_rows *rows, struct memory_plan *ret,
                double *ret_bits, struct error *err)
{
    struct llama_conf c;
    struct memory_ask ask = {.spec = s,
                             .dt = memory_plan_dtype(s),
                             .parts = p->parts,
                             .ranks = p->gpus,
                             .is_gpu = p->memory.is_gpu,
                             .batches = rows->batches,
                             .host = rows->host};
    if (llama_conf_of_job(s, ask.dt, &rows->info, &p->shape, &c, err) < 0)
        return -1;
    c.shared_by = s->train.distribution == DIST_FSDP ? p->gpus : 0;
    int rc = llama_plan(&c, &ask.model, err);
    llama_conf_clear(&c);
    if (rc < 0)
        return -1;
    memory_plan_make(&ask, ret);
    *ret_bits = ask.model.quantised > 0
                    ? 8 * (double)ask.model.bytes_quantised /
                          (double)ask.model.quantised
                    : 0;
    return 0;
}

/* ---- what would make it fit ---------------------------------------------- */

static bool try(struct plan *p, const struct job_spec *s, struct change *ret)
{
    struct plan_rows rows = p->rows;
    struct memory_plan m;
    rows.batches =
        rows.batches * s->train.batch_size / p->spec.train.batch_size;
    double bits;
    if (make(p, s, &rows, &m, &bits, NULL) < 0 || m.total >= p->memory.total)
        return false;
    ret->total = m.total;
    ret->fits = memory_plan_check(&m, &p->room, NULL, NULL) == 0;
    return true;
}

static void add_change(struct plan *p, const struct job_spec *s,
                       const char *text)
{
    struct change c = {.fits = false};
    (void)snprintf(c.text, sizeof(c.text), "%s", text);
    if (p->n_changes < CHANGES && try(p, s, &c))
        p->changes[p->n_changes++] = c;
}

/* The largest batch that fits, or 1. */
static void add_batch(struct plan *p, struct job_spec s, const char *with)
{
    char text[120];
    const int32_t val = s.train.batch_size_val; /* 0: batch_size */
    int32_t low = 1, high = p->spec.train.batch_size;
    struct change c;
    while (low < high) {
        const int32_t at = low + (high - low) / 2;
        s.train.batch_size = at;
        s.train.batch_size_val = val < at ? val : at;
        if (!try(p, &s, &c) || !c.fits)
            high = at;
        else
            low = at + 1;
    }
    s.train.batch_size = low > 1 ? low - 1 : 1;
    s.train.batch_size_val =
        val < s.train.batch_size ? val : s.train.batch_size;
    int n = snprintf(text, sizeof(text), "%strain.batch_size: %d", with,
                     s.train.batch_size);
    if (s.train.batch_size_val < val)
        (void)snprintf(text + n, sizeof(text) - (size_t)n,
                       ", train.batch_size_val: %d", s.train.batch_size_val);
    add_change(p, &s, text);
}

static void add_changes(struct plan *p)
{
    struct job_spec s = p->spec;
    if (!s.train.activation_checkpointing) {
        s.train.activation_checkpointing = true;
        add_change(p, &s, "train.enable_activation_checkpointing: true");
    }
    add_batch(p, p->spec, "");
    if (!p->spec.train.activation_checkpointing && !p->changes[0].fits)
        add_batch(p, s, "both: activation checkpointing and ");
    if (p->dt == DT_F32 || p->dt == DT_F64) {
        s = p->spec;
        s.train.precision = PRECISION_BF16;
        add_change(p, &s, "train.precision: bf16");
    }
    if (p->gpus > 1 && p->spec.train.distribution != DIST_FSDP) {
        s = p->spec;
        s.train.distribution = DIST_FSDP;
        add_change(p, &s, "train.distribution: fsdp");
    }
    if (spec_trains_all(&p->spec)) {
        s = p->spec;
        const bool keeps = s.method == METHOD_DPO || s.method == METHOD_QAT;
        s.method = keeps ? s.method : METHOD_LORA;
        s.train.model.lora_rank = 8;
        s.train.model.lora_alpha = 16;
        add_change(p, &s,
                   keeps ? "train.model.lora_rank: 8"
                         : "method: lora, of rank 8");
    }
    if (p->spec.method == METHOD_LORA) {
        s = p->spec;
        s.method = METHOD_QLORA;
        s.train.quantizer.name = QUANTIZER_NF4;
        add_change(p, &s, "method: qlora");
    }
}

/* ---- ddp-ds and fsdp side by side -----------------------------------------
 */

static int compare(struct plan *p, struct error *err)
{
    static const enum spec_distribution both[BOTH] = {DIST_DDP_DS, DIST_FSDP};
    p->has_both = p->gpus > 1;
    if (!p->has_both)
        return 0;
    for (int i = 0; i < BOTH; i++) {
        struct job_spec s = p->spec;
        s.train.distribution = both[i];
        double unused;
        if (make(p, &s, &p->rows, &p->both[i], &unused, err) < 0)
            return -1;
    }
    return 0;
}

static void print_both(const struct plan *p)
{
    if (!p->has_both)
        return;
    (void)printf("%-12s %12s %12s %12s %12s %12s\n", "MiB PER RANK", "WEIGHTS",
                 "GRADIENTS", "OPTIMIZER", "GATHERED", "TOTAL");
    for (int i = 0; i < BOTH; i++) {
        const struct memory_plan *m = &p->both[i];
        (void)printf("%-12s %12.1f %12.1f %12.1f %12.1f %12.1f\n",
                     both_words[i], mib(m->base + m->params), mib(m->grads),
                     mib(m->optimizer), mib(m->gathered), mib(m->total));
    }
}

static json_t *json_both(const struct plan *p)
{
    json_t *list = json_array();
    for (int i = 0; i < BOTH && p->has_both; i++) {
        const struct memory_plan *m = &p->both[i];
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "distribution",
                      both_words[i], "base", (json_int_t)m->base, "parameters",
                      (json_int_t)m->params, "gradients", (json_int_t)m->grads,
                      "optimizer", (json_int_t)m->optimizer, "gathered",
                      (json_int_t)m->gathered, "total", (json_int_t)m->total));
    }
    return list;
}

/* ---- printing ------------------------------------------------------------ */

static void print_text(const struct plan *p)
{
    char line[MEMORY_LINE_CAP];
    memory_plan_line(&p->memory, line, sizeof(line));
    (void)printf("%s\n", line);
    (void)printf("%d rank%s on %s, rows of %s%d tokens\n", p->ranks,
                 p->ranks == 1 ? "" : "s", p->device,
                 p->rows.is_read ? "up to " : "", p->rows.info.row_tokens);
    if (p->base_bits > 0)
        (void)printf("base: %.3f bits a value of the quantised linears\n",
                     p->base_bits);
    if (p->rounds[0] != '\0')
        (void)printf("work: %.1f MiB of it rounded weights and inputs: %s\n",
                     mib(p->rounded), p->rounds);
    if (p->room.gpu >= 0 && p->memory.is_gpu)
        (void)printf("left on the GPU: %.1f MiB\n", mib(p->room.gpu));
    else if (p->room.host.bytes >= 0)
        (void)printf("left on this machine: %.1f MiB\n",
                     mib(p->room.host.bytes));
    print_both(p);
    if (p->why.code == ERR_NONE) {
        (void)printf("fits\n");
        return;
    }
    (void)printf("does not fit: %s\n", p->why.msg);
    for (int i = 0; i < p->n_changes; i++)
        (void)printf("  %-60s %10.1f MiB%s\n", p->changes[i].text,
                     mib(p->changes[i].total),
                     p->changes[i].fits ? ", fits" : "");
}

static int print_json(const struct plan *p, struct error *err)
{
    const struct memory_plan *m = &p->memory;
    json_t *changes = json_array();
    for (int i = 0; i < p->n_changes; i++)
        (void)json_array_append_new(
            changes, json_pack("{s:s, s:I, s:b}", "change", p->changes[i].text,
                               "total", (json_int_t)p->changes[i].total, "fits",
                               (int)p->changes[i].fits));
    json_t *o = json_pack(
        "{s:s, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:b, s:s, s:o, s:o, s:f, s:I}",
        "device", p->device, "ranks", (int)p->ranks, "row_tokens",
        (int)p->rows.info.row_tokens, "rows_read", (int)p->rows.is_read, "base",
        (json_int_t)m->base, "parameters", (json_int_t)m->params, "gradients",
        (json_int_t)m->grads, "optimizer", (json_int_t)m->optimizer, "gathered",
        (json_int_t)m->gathered, "activations", (json_int_t)m->activations,
        "work", (json_int_t)m->work, "batches", (json_int_t)m->batches,
        "runtime", (json_int_t)m->runtime, "total", (json_int_t)m->total,
        "host", (json_int_t)m->host, "fits", p->why.code == ERR_NONE, "why",
        p->why.msg, "changes", changes, "distributions", json_both(p),
        "base_bits", p->base_bits, "rounded", (json_int_t)p->rounded);
    int rc = client_print(o, err);
    json_decref(o);
    return rc;
}

/* ---- the command --------------------------------------------------------- */

static int find_rounded(struct plan *p, struct error *err)
{
    struct llama_conf c;
    struct model_plan m;
    if (llama_conf_of_job(&p->spec, p->dt, &p->rows.info, &p->shape, &c, err) <
        0)
        return -1;
    int rc = llama_plan(&c, &m, err);
    if (rc == 0)
        llama_rounded_words(&c, p->rounds, sizeof(p->rounds));
    llama_conf_clear(&c);
    if (rc < 0)
        return -1;
    p->rounded = m.bytes_rounded;
    return 0;
}

static int make_plan(struct plan *p, struct error *err)
{
    bool is_gpu;
    p->room = (struct memory_room){.gpu = -1, .host = memory_left("")};
    p->dt = memory_plan_dtype(&p->spec);
    count_ranks(p);
    if (read_shape(p, err) < 0 || find_device(p, &is_gpu, err) < 0)
        return -1;
    if (p->args->device != NULL)
        p->room.host.bytes = -1; /* another machine's */
    p->memory.is_gpu = is_gpu;
    const struct plan_rows_ask ask = {.spec = &p->spec,
                                      .dt = p->dt,
                                      .is_gpu = is_gpu,
                                      .ranks = p->ranks,
                                      .parts = p->parts,
                                      .vocab = p->shape.vocab,
                                      .skips_data = p->args->model != NULL};
    if (plan_rows_read(&ask, &p->rows, err) < 0 ||
        make(p, &p->spec, &p->rows, &p->memory, &p->base_bits, err) < 0 ||
        find_rounded(p, err) < 0 || compare(p, err) < 0)
        return -1;
    p->why = (struct error)ERROR_INIT;
    if (memory_plan_check(&p->memory, &p->room, NULL, &p->why) < 0)
        add_changes(p);
    return 0;
}

int plan_command(const struct model_args *a, const char *operand,
                 struct error *err)
{
    struct plan p = {.args = a};

    if (model_args_job(operand, &p.spec, err) < 0)
        return -1;
    int rc = make_plan(&p, err);
    if (rc == 0 && a->common.json)
        rc = print_json(&p, err);
    else if (rc == 0)
        print_text(&p);
    if (rc == 0 && p.why.code != ERR_NONE)
        rc = error_exit_status(p.why.code);
    spec_clear(&p.spec);
    return rc;
}
