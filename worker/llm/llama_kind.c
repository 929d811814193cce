/* llama_kind.c - a Llama from a job's specification. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "worker/data/chat/chat_template.h"
#include "worker/llm/llama.h"
#include "worker/llm/llama_check.h"
#include "worker/llm/pair_reference.h"

/* torchtune's words begin with the model_type of config.json. */
static int check_type(const struct job_spec *spec, const struct llama_config *c,
                      struct error *err)
{
    const struct llama_arch *arch = llama_arch(c->arch);
    const char *type = spec->train.checkpointer.model_type;
    if (type == NULL || strncasecmp(type, arch->type, strlen(arch->type)) == 0)
        return 0;
    return error_set(err, ERR_INVAL,
                     "train.checkpointer.model_type: %s: the model is a %s: "
                     "name one of %s, or none",
                     type, arch->architecture, arch->recipes);
}

void llama_conf_clear(struct llama_conf *c)
{
    adapter_ranks_clear(&c->ranks);
}

int llama_conf_adapter(struct llama_conf *c, struct error *err)
{
    struct adapter_config a;
    if (adapter_read(c->adapter, c->shape.layers, &a, &c->ranks, err) < 0)
        return -1;
    c->rank = a.rank;
    c->alpha = a.alpha;
    c->targets = a.targets;
    return 0;
}

/* "q_proj, v_proj" */
static void words_of(uint32_t targets, char *ret, size_t cap)
{
    size_t at = 0;
    ret[0] = '\0';
    for (int i = 0; i < LORA_TARGETS && at < cap; i++)
        if (targets & 1u << i)
            at += (size_t)snprintf(
                ret + at, cap - at, "%s%s", at > 0 ? ", " : "",
                adapter_target_word((enum lora_target)(1u << i)));
}

/* The linears that the job names are those of the adapter, as far as it names
 * any. */
static int check_targets(const struct job_spec *spec, uint32_t has,
                         struct error *err)
{
    const uint32_t named = spec_lora_named(spec);
    const uint32_t wants = spec_lora_targets(spec);
    char words[120], others[120];
    if (((has ^ wants) & named) == 0)
        return 0;
    words_of(has, words, sizeof(words));
    words_of((wants & named) | (has & ~named), others, sizeof(others));
    return error_set(err, ERR_INVAL,
                     "it is for %s, the job's are for %s: remove "
                     "lora_attn_modules, apply_lora_to_mlp and "
                     "apply_lora_to_output, or name those of the adapter",
                     words, others[0] != '\0' ? others : "no linear");
}

/* What a job names, and what the adapter that it begins with has. */
static int take_adapter(const struct job_spec *spec, struct llama_conf *c,
                        struct error *err)
{
    const int32_t rank = spec->train.model.lora_rank;
    const double alpha = spec->train.model.lora_alpha;
    if (c->adapter == NULL)
        return 0;
    int rc = llama_conf_adapter(c, err);
    if (rc == 0 && rank >= 0 && rank != c->rank)
        rc = error_set(err, ERR_INVAL,
                       "its rank is %d, the job's is %d: remove lora_rank, or "
                       "set it to %d",
                       c->rank, rank, c->rank);
    else if (rc == 0 && alpha > 0 && alpha != c->alpha)
        rc = error_set(err, ERR_INVAL,
                       "its alpha is %g, the job's is %g: remove lora_alpha, "
                       "or set it to %.17g",
                       c->alpha, alpha, c->alpha);
    rc = rc < 0 ? rc : check_targets(spec, c->targets, err);
    if (rc < 0)
        llama_conf_clear(c);
    return rc < 0 ? error_wrap(err, "train.checkpointer.adapter_checkpoint")
                  : 0;
}

int llama_conf_of_job(const struct job_spec *spec, enum dtype dt,
                      const struct batch_info *data,
                      const struct llama_config *shape, struct llama_conf *ret,
                      struct error *err)
{
    const bool is_full = spec_trains_all(spec);
    const bool pairs = spec->method == METHOD_DPO;
    struct llama_conf c = {
        .dt = dt,
        .is_full = is_full,
        .rank = spec->train.model.lora_rank,
        .alpha = spec->train.model.lora_alpha,
        .dropout = is_full ? 0 : spec->train.model.lora_dropout,
        .targets = is_full ? 0 : spec_lora_targets(spec),
        .quantizer = spec_quantizer_of(spec),
        .groupsize = spec->train.quantizer.groupsize,
        .fake_quant_after = spec->train.quantizer.fake_quant_after,
        .batch = spec->train.batch_size,
        .batch_eval = spec->train.batch_size_val > 0
                          ? spec->train.batch_size_val
                          : spec->train.batch_size,
        .row_tokens = data->row_tokens,
        .recomputes = spec->train.activation_checkpointing,
        .in_bwd = is_full && spec->train.optimizer_in_bwd,
        .pairs = pairs,
        .beta = spec->train.loss.beta,
        .label_smoothing = spec->train.loss.label_smoothing,
        .is_precomputed = pairs && spec->train.loss.precompute_reference,
        .dir = spec->train.checkpointer.dir,
        .files = &spec->train.checkpointer.files,
        .adapter = is_full ? NULL : spec->train.checkpointer.adapter,
        .tokenizer = spec->train.tokenizer.path,
        .prompt = chat_template_learned(spec),
    };
    if (shape != NULL)
        c.shape = *shape;
    else if (llama_read_dir(c.dir, c.files, &c.shape, err) < 0)
        return error_wrap(err, "train.checkpointer.checkpoint_dir");
    if (check_type(spec, &c.shape, err) < 0)
        return -1;
    if (data->positions > c.shape.max_positions)
        return error_set(err, ERR_INVAL,
                         "train.tokenizer.max_seq_len: rows have up to %d "
                         "tokens, the model in %s has %d positions: set %d or "
                         "less",
                         data->positions, c.dir, c.shape.max_positions,
                         c.shape.max_positions);
    if (take_adapter(spec, &c, err) < 0)
        return -1;
    *ret = c;
    return 0;
}

static int conf_of(const struct job_spec *spec, enum dtype dt,
                   const struct batch_info *data, int32_t ranks,
                   struct llama_conf *ret, struct error *err)
{
    if (llama_conf_of_job(spec, dt, data, NULL, ret, err) < 0)
        return -1;
    ret->shared_by = spec->train.distribution == DIST_FSDP ? ranks : 0;
    return 0;
}

/* The trained model would take the place of that which it is made from, and
 * the next run would begin with it. */
static int check_output(const struct job_spec *spec, struct error *err)
{
    const char *to = spec->train.output_dir;
    struct stat a, b;
    if (!spec_trains_all(spec) || to == NULL || stat(to, &a) < 0 ||
        stat(spec->train.checkpointer.dir, &b) < 0 || a.st_dev != b.st_dev ||
        a.st_ino != b.st_ino)
        return 0;
    return error_set(err, ERR_INVAL,
                     "train.output_dir: '%s' is train.checkpointer."
                     "checkpoint_dir, whose model this job would "
                     "overwrite: name another directory",
                     to);
}

/* The model's end of text ends an answer, and it has all ids of the data. */
static int open_data(const struct batch_env *env, struct batch_source **ret,
                     struct error *err)
{
    const char *dir = env->spec->train.checkpointer.dir;
    struct llama_config c;
    struct batch_source *s = NULL;
    if (check_output(env->spec, err) < 0)
        return -1;
    if (llama_read_dir(dir, &env->spec->train.checkpointer.files, &c, err) < 0)
        return error_wrap(err, "train.checkpointer.checkpoint_dir");
    if (c.is_untied)
        batch_say(env, "warning: %s", llama_untied_words);
    if (token_batches_open(env, c.eos_id, c.window, &s, err) < 0)
        return -1;
    if (token_batches_check(s, c.vocab, err) < 0) {
        s->ops->destroy(s);
        return -1;
    }
    *ret = s;
    return 0;
}

static int plan_of_job(const struct job_spec *spec, enum dtype dt,
                       const struct batch_info *data, int32_t ranks,
                       struct model_plan *ret, struct error *err)
{
    struct llama_conf c;
    if (conf_of(spec, dt, data, ranks, &c, err) < 0)
        return -1;
    int rc = llama_plan(&c, ret, err);
    llama_conf_clear(&c);
    return rc;
}

static int create_of_job(struct device *d, struct comm *comm,
                         const struct job_spec *spec, enum dtype dt,
                         const struct batch_info *data, struct model **ret,
                         struct error *err)
{
    struct llama_conf c;
    if (conf_of(spec, dt, data, comm->size, &c, err) < 0)
        return -1;
    c.comm = comm;
    int rc = llama_create(d, &c, ret, err);
    llama_conf_clear(&c);
    return rc;
}

/* The unit in which the numbers of a plan are short. */
struct unit {
    const char *word;
    double bytes;
};

static struct unit unit_of(int64_t bytes)
{
    return bytes < 1 << 30 ? (struct unit){"MiB", 1 << 20}
                           : (struct unit){"GiB", 1 << 30};
}

/* A message that grows, as far as it fits. */
struct text {
    char *at;
    size_t cap, len;
    struct unit unit;
    const char *before; /* the next part */
};

/* ", activations 6.9", where that is not 0.0 */
static void add_part(struct text *t, const char *name, int64_t bytes)
{
    const double n = (double)bytes / t->unit.bytes;
    if (t->len >= t->cap || n < 0.05)
        return;
    t->len += (size_t)snprintf(t->at + t->len, t->cap - t->len, "%s%s %.1f",
                               t->before, name, n);
    t->before = ", ";
}

static void add_saving(struct text *t, const struct llama_conf *c, int64_t now,
                       const char *name)
{
    struct model_plan p;
    if (llama_plan(c, &p, NULL) == 0)
        add_part(t, name, now - p.bytes_total);
}

/* "the model needs 23.1 GiB: base 15.0, activations 6.9, work 1.2; batch_size
 * 1 saves 3.4"; where neither saves anything, "; lower ..." */
static void advise(const struct job_spec *spec, enum dtype dt,
                   const struct batch_info *data, int32_t ranks, char *ret,
                   size_t cap)
{
    struct llama_conf c;
    struct model_plan p;
    ret[0] = '\0';
    if (conf_of(spec, dt, data, ranks, &c, NULL) < 0)
        return;
    if (llama_plan(&c, &p, NULL) < 0) {
        llama_conf_clear(&c);
        return;
    }
    struct text t = {
        .at = ret, .cap = cap, .unit = unit_of(p.bytes_total), .before = ": "};
    t.len = (size_t)snprintf(ret, cap, "the model needs %.1f %s",
                             (double)p.bytes_total / t.unit.bytes, t.unit.word);
    add_part(&t, "base", p.bytes_base);
    add_part(&t, "trained", p.bytes_params + p.bytes_grads);
    add_part(&t, "gathered", p.bytes_gathered);
    add_part(&t, "activations", p.bytes_activations);
    add_part(&t, "work", p.bytes_work);
    t.before = "; ";
    struct llama_conf less = c;
    less.recomputes = true;
    add_saving(&t, &less, p.bytes_total,
               "enable_activation_checkpointing saves");
    less = c;
    less.batch = 1;
    if (spec->train.batch_size_val == 0)
        less.batch_eval = 1;
    add_saving(&t, &less, p.bytes_total, "batch_size 1 saves");
    if (strcmp(t.before, "; ") == 0 && t.len < cap) /* neither saves any */
        (void)snprintf(ret + t.len, cap - t.len,
                       "; lower train.tokenizer.max_seq_len");
    llama_conf_clear(&c);
}

const struct model_kind llama_kind = {
    .name = "llm",
    .too_large = "lower train.batch_size or train.tokenizer.max_seq_len",
    .advise = advise,
    .open_data = open_data,
    .plan = plan_of_job,
    .prepare = pair_reference_prepare,
    .create = create_of_job,
};
