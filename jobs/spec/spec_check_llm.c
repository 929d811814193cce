/* spec_check_llm.c - check keys of kind llm that go together, and read the
 * linears with an adapter. */
#include "jobs/spec/spec_check.h"

#include "jobs/spec/gpu_sizes.h"
#include "jobs/text/row_split.h"
#include "jobs/text/text.h"

static const struct {
    const char *word;
    uint32_t bit;
} attention[] = {{"q_proj", 1},
                 {"k_proj", 2},
                 {"v_proj", 4},
                 {"output_proj", 8},
                 {"o_proj", 8}};
enum { N_ATTENTION = sizeof(attention) / sizeof(attention[0]) };
enum { OF_ATTENTION = 15, OF_MLP = 16 | 32 | 64, OF_OUTPUT = 128 };

static const char of_tokens[] =
    "input_ids, labels, chosen_input_ids, chosen_labels, rejected_input_ids, "
    "rejected_labels";

static const char *const columns[] = {
    [TEMPLATE_ALPACA] = "instruction, input, output",
    [TEMPLATE_GRAMMAR] = "input, output",
    [TEMPLATE_SAMSUM] = "input, output",
    [TEMPLATE_SLIMORCA] = "conversations",
    [TEMPLATE_CHAT] = "messages, conversations",
    [TEMPLATE_COMPLETION] = "text",
    [TEMPLATE_PREFERENCE] = "chosen, rejected, prompt, conversations, messages",
    [TEMPLATE_TOKENS] = of_tokens,
    [TEMPLATE_PROMPT_COMPLETION] = "prompt, completion",
};

static bool has_column(enum spec_template t, const char *column)
{
    const size_t n = strlen(column);
    for (const char *p = columns[t]; *p; p += strspn(p, ", ")) {
        const size_t len = strcspn(p, ",");
        if (len == n && memcmp(p, column, n) == 0)
            return true;
        p += len;
    }
    return false;
}

static uint32_t bit_of(const char *word)
{
    for (size_t i = 0; i < N_ATTENTION; i++)
        if (strcmp(attention[i].word, word) == 0)
            return attention[i].bit;
    return 0;
}

bool spec_has_adapter(const struct job_spec *s)
{
    return s->kind == SPEC_LLM && s->method != METHOD_FULL;
}

bool spec_trains_all(const struct job_spec *s)
{
    return !spec_has_adapter(s) || s->train.model.lora_rank == 0;
}

enum spec_quantizer spec_quantizer_of(const struct job_spec *s)
{
    return s->kind == SPEC_LLM &&
                   (s->method == METHOD_QLORA || s->method == METHOD_QAT)
               ? s->train.quantizer.name
               : QUANTIZER_NONE;
}

uint32_t spec_lora_targets(const struct job_spec *s)
{
    const struct spec_list *l = &s->train.model.lora_attn_modules;
    uint32_t bits = 0;
    if (spec_trains_all(s))
        return 0;
    for (size_t i = 0; i < l->n; i++)
        bits |= bit_of(l->items[i]);
    if (s->train.model.apply_lora_to_mlp == TRI_TRUE)
        bits |= OF_MLP;
    if (s->train.model.apply_lora_to_output == TRI_TRUE)
        bits |= OF_OUTPUT;
    return bits;
}

uint32_t spec_lora_named(const struct job_spec *s)
{
    if (spec_trains_all(s))
        return 0;
    return (s->train.model.lora_attn_modules.n > 0 ? OF_ATTENTION : 0) |
           (s->train.model.apply_lora_to_mlp != TRI_AUTO ? OF_MLP : 0) |
           (s->train.model.apply_lora_to_output != TRI_AUTO ? OF_OUTPUT : 0);
}

static void check_targets(const struct check *c)
{
    static const char path[] = "train.model.lora_attn_modules";
    char q[TEXT_QUOTE_CAP];
    if (spec_trains_all(c->s) || !is_set(c, path))
        return;
    for (const struct node *n = from_of(c, path)->node->first; n; n = n->next) {
        bool is_mlp = strcmp(n->text, "gate_proj") == 0 ||
                      strcmp(n->text, "up_proj") == 0 ||
                      strcmp(n->text, "down_proj") == 0;
        if (bit_of(n->text) == 0)
            diagnostics_add(c->report, "E012", n->at, path,
                            is_mlp
                                ? "write apply_lora_to_mlp: true"
                                : "one of: q_proj, k_proj, v_proj, output_proj",
                            "'%s' is not a matrix of attention",
                            text_quote(q, sizeof(q), n->text));
    }
    if (c->s->train.model.lora_attn_modules.n == 0 &&
        spec_lora_targets(c->s) == 0 &&
        c->s->train.checkpointer.adapter == NULL &&
        !is_bad(c, "train.model.apply_lora_to_mlp") &&
        !is_bad(c, "train.model.apply_lora_to_output"))
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "as in lora_attn_modules: [q_proj, v_proj]",
                        "method: %s, and no matrix has an adapter",
                        c->s->method == METHOD_QLORA ? "qlora"
                        : c->s->method == METHOD_QAT ? "qat"
                                                     : "lora");
}

/* Method dpo then has a second copy of the weights, and qat has none. */
static void check_rank(const struct check *c)
{
    static const char rank[] = "train.model.lora_rank",
                      adapter[] = "train.checkpointer.adapter_checkpoint";
    const struct job_spec *s = c->s;
    if (!spec_has_adapter(s) || s->train.model.lora_rank != 0 ||
        is_bad(c, rank))
        return;
    if (s->method != METHOD_DPO && s->method != METHOD_QAT)
        diagnostics_add(c->report, "E013", place_of(c, rank), rank,
                        "1 or more; method: full trains without adapters",
                        "'%s' is 0: this method trains adapters alone", rank);
    else if (is_set(c, adapter) && s->train.checkpointer.adapter != NULL)
        diagnostics_add(c->report, "E017", place_of(c, adapter), adapter,
                        "set lora_rank to that of the adapter",
                        "'%s' needs %s of 1 or more", adapter, rank);
}

/* What is left to the files of an adapter needs one. */
static void check_left(const struct check *c)
{
    const struct job_spec *s = c->s;
    const struct {
        const char *path, *as;
        bool is_left;
    } keys[] = {
        {"train.model.lora_rank", "null", s->train.model.lora_rank < 0},
        {"train.model.lora_alpha", "null", !(s->train.model.lora_alpha > 0)},
        {"train.model.apply_lora_to_mlp", "auto",
         s->train.model.apply_lora_to_mlp == TRI_AUTO},
        {"train.model.apply_lora_to_output", "auto",
         s->train.model.apply_lora_to_output == TRI_AUTO},
    };
    if (!spec_has_adapter(s) || s->train.checkpointer.adapter != NULL)
        return;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (is_set(c, keys[i].path) && keys[i].is_left &&
            !is_bad(c, keys[i].path))
            diagnostics_add(c->report, "E017", place_of(c, keys[i].path),
                            keys[i].path,
                            "set a value, or train.checkpointer."
                            "adapter_checkpoint",
                            "'%s' is %s, as in the adapter that the job begins "
                            "with: there is none",
                            keys[i].path, keys[i].as);
}

/* An iteration's, on as few GPUs as it may have. */
static int64_t rows_of_iteration(const struct job_spec *s)
{
    const int32_t whole = gpu_sizes_parts(s), gpus = s->resources.gpus.min;
    const int64_t parts = whole > 0
                              ? whole
                              : (int64_t)s->train.gradient_accumulation_steps *
                                    (gpus > 1 ? gpus : 1);
    return parts * s->train.batch_size;
}

/* Of the job, where its specification says how many; 0: it does not. Packed
 * rows may be more than those that are read. */
static int64_t most_iterations(const struct job_spec *s)
{
    const struct spec_text *d = &s->train.dataset;
    const int64_t rows = rows_of_iteration(s);
    int64_t most = s->train.max_steps_per_epoch;
    if (d->samples > 0 && !d->packed && rows > 0) {
        const int64_t all = (d->samples + rows - 1) / rows;
        most = most == 0 || all < most ? all : most;
    }
    const int64_t all = most * s->train.epochs, limit = s->train.max_iterations;
    return limit > 0 && (all == 0 || limit < all) ? limit : all;
}

/* NormalFloat is for a frozen base, 8da4w for what is trained; and a job whose
 * last iteration comes first would round nothing. */
static void check_quantizer(const struct check *c)
{
    static const char name[] = "train.quantizer.name",
                      after[] = "train.quantizer.fake_quant_after_n_steps";
    const struct job_spec *s = c->s;
    const bool is_qat = s->method == METHOD_QAT;
    const int64_t most = most_iterations(s);
    if (is_set(c, name) && !is_bad(c, name) &&
        (is_qat || s->method == METHOD_QLORA) &&
        is_qat != (s->train.quantizer.name == QUANTIZER_8DA4W))
        diagnostics_add(c->report, "E017", place_of(c, name), name,
                        is_qat ? "set name: 8da4w"
                               : "set name: nf4, or nf4_single",
                        "'%s: %s' is only for method: %s", name,
                        from_of(c, name)->node->text, is_qat ? "qlora" : "qat");
    if (is_qat && is_set(c, after) && most > 0 &&
        s->train.quantizer.fake_quant_after >= most)
        diagnostics_add(c->report, "E017", place_of(c, after), after,
                        "set it below the iterations of all epochs",
                        "'%s' is %d, and the job has at most %lld iterations: "
                        "nothing would be rounded",
                        after, s->train.quantizer.fake_quant_after,
                        (long long)most);
}

/* Method dpo reads pairs, in words or in tokens. */
static void check_pairs(const struct check *c, const char *path,
                        const char *packed, const struct spec_text *t)
{
    if (c->s->method != METHOD_DPO || is_bad(c, path))
        return;
    if (t->template != TEMPLATE_PREFERENCE && t->template != TEMPLATE_TOKENS)
        diagnostics_add(
            c->report, "E017", place_of(c, path), path, "preference or tokens",
            "method: dpo needs pairs of answers, which '%s' does not "
            "read",
            path);
    else if (t->packed && t->template == TEMPLATE_TOKENS && is_set(c, packed))
        diagnostics_add(c->report, "E017", place_of(c, packed), packed,
                        "set packed: false; a batch of pairs has no padding",
                        "'%s' is not for method: dpo", packed);
}

/* Other values of keys that kind cv has, too. */
static void check_shared(const struct check *c)
{
    static const char dist[] = "train.distribution",
                      optim[] = "train.optimizer.name",
                      metric[] = "checkpoint.metric";
    const struct job_spec *s = c->s;
    if (is_set(c, dist) && s->train.distribution != DIST_DDP_DS &&
        s->train.distribution != DIST_FSDP)
        diagnostics_add(c->report, "E018", place_of(c, dist), dist,
                        "one of: ddp-ds, fsdp", "'%s: %s' is only for kind: cv",
                        dist, from_of(c, dist)->node->text);
    if (is_set(c, optim) && s->train.optimizer.name == OPTIM_RMSPROP)
        diagnostics_add(c->report, "E018", place_of(c, optim), optim,
                        "one of: adamw, sgd, adamw8bit",
                        "'%s: rmsprop' is only for kind: cv", optim);
    if (is_set(c, optim) && s->train.optimizer.name == OPTIM_ADAMW8 &&
        s->train.distribution == DIST_FSDP)
        diagnostics_add(c->report, "E017", place_of(c, optim), optim,
                        "set name: adamw, whose state the ranks shard",
                        "'%s: adamw8bit' does not go with distribution: fsdp",
                        optim);
    if (is_set(c, metric) && s->checkpoint.metric == METRIC_EVAL_ACCURACY)
        diagnostics_add(c->report, "E018", place_of(c, metric), metric,
                        "set metric: eval_loss",
                        "'%s: eval_accuracy' is only for kind: cv", metric);
}

static void check_packed(const struct check *c, const char *path, bool packed)
{
    static const char length[] = "train.tokenizer.max_seq_len";
    if (is_set(c, path) && packed && c->s->train.tokenizer.max_seq_len == 0 &&
        !is_bad(c, length))
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "as in tokenizer: {max_seq_len: 2048}", "'%s' needs %s",
                        path, length);
}

/* Columns that the template has, each with a name in the file. */
static void check_columns(const struct check *c)
{
    static const char path[] = "train.dataset.column_map";
    const enum spec_template t = c->s->train.dataset.template;
    char q[TEXT_QUOTE_CAP];
    if (!is_set(c, path) || !is_set(c, "train.dataset.template"))
        return;
    for (const struct node *n = from_of(c, path)->node->first; n; n = n->next) {
        if (!has_column(t, n->key))
            diagnostics_add(c->report, "E012", n->key_at, path, columns[t],
                            "'%s' is not a column of the template",
                            text_quote(q, sizeof(q), n->key));
    }
}

/* As torchtune: both names of a pair, or neither. */
static void check_pair(const struct check *c)
{
    static const char path[] = "train.dataset.column_map";
    const enum spec_template t = c->s->train.dataset.template;
    const struct spec_map *map = &c->s->train.dataset.column_map;
    if (is_set(c, path) && is_set(c, "train.dataset.template") && map->n == 1 &&
        t == TEMPLATE_SAMSUM)
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "as in column_map: {input: dialogue, output: summary}",
                        "'%s' names one column of two", path);
}

static void check_split(const struct check *c, const char *path,
                        const char *split)
{
    struct error why = ERROR_INIT;
    struct row_split s;
    if (is_set(c, path) && row_split_parse(split, &s, &why) < 0)
        diagnostics_add(c->report, "E012", place_of(c, path), path,
                        "as in train[:95%] or train[1000:2000]", "'%s': %s",
                        path, why.msg);
}

/* Packs of pairs would need a mask for each. */
static void check_preference(const struct check *c, const char *path,
                             const struct spec_text *t)
{
    if (is_set(c, path) && t->packed && t->template == TEMPLATE_PREFERENCE)
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "set packed: false",
                        "'%s' is not for template: preference", path);
}

/* The best evaluation of a job that has none. */
static void check_best(const struct check *c)
{
    static const char path[] = "checkpoint.keep_best";
    if (is_set(c, path) && c->s->checkpoint.keep_best &&
        !c->s->train.dataset_val.path && !is_bad(c, "train.dataset_val.path"))
        diagnostics_add(c->report, "E017", place_of(c, path), path, NULL,
                        "'%s' needs train.dataset_val", path);
}

static void refuse_in_bwd(const struct check *c, const char *hint,
                          const char *why)
{
    static const char path[] = "train.optimizer_in_bwd";
    diagnostics_add(c->report, "E017", place_of(c, path), path, hint, "'%s' %s",
                    path, why);
}

/* When a layer is changed, nobody knows yet what the gradient of the layers
 * below it is. */
static void check_in_bwd(const struct check *c)
{
    const struct job_spec *s = c->s;
    if (!is_set(c, "train.optimizer_in_bwd") || !s->train.optimizer_in_bwd ||
        s->method != METHOD_FULL)
        return;
    if (s->train.clip_grad_norm > 0 && !is_bad(c, "train.clip_grad_norm"))
        refuse_in_bwd(c, "set clip_grad_norm: null",
                      "cannot clip: the gradient is never there as a whole");
    if ((s->train.global_batch_size > 0 ||
         s->train.gradient_accumulation_steps > 1) &&
        !is_bad(c, "train.gradient_accumulation_steps"))
        refuse_in_bwd(c,
                      "set gradient_accumulation_steps: 1, without a "
                      "global_batch_size",
                      "cannot add the gradients of several batches up");
    if (s->train.on_nan == ON_NAN_SKIP && !is_bad(c, "train.on_nan"))
        refuse_in_bwd(c, "set on_nan: fail",
                      "cannot skip an iteration: its layers have changed");
    if (s->train.precision == PRECISION_FP16 && s->train.mixed)
        refuse_in_bwd(c, "set precision: bf16",
                      "cannot leave out an iteration whose loss scale is too "
                      "large");
}

void spec_check_llm(const struct check *c)
{
    check_in_bwd(c);
    check_targets(c);
    check_rank(c);
    check_left(c);
    check_quantizer(c);
    check_shared(c);
    check_packed(c, "train.dataset.packed", c->s->train.dataset.packed);
    check_packed(c, "train.dataset_val.packed", c->s->train.dataset_val.packed);
    check_columns(c);
    check_pair(c);
    check_split(c, "train.dataset.split", c->s->train.dataset.split);
    check_split(c, "train.dataset_val.split", c->s->train.dataset_val.split);
    check_preference(c, "train.dataset.packed", &c->s->train.dataset);
    check_preference(c, "train.dataset_val.packed", &c->s->train.dataset_val);
    check_pairs(c, "train.dataset.template", "train.dataset.packed",
                &c->s->train.dataset);
    if (c->s->train.dataset_val.path != NULL)
        check_pairs(c, "train.dataset_val.template", "train.dataset_val.packed",
                    &c->s->train.dataset_val);
    check_best(c);
}
