/* spec_torchtune.c - read keys of torchtune's configurations that are no keys
 * of ours; see spec_torchtune() in spec_table.h.
 *
 * A configuration names a Python object with each section, as _component_. One
 * whose meaning is ours becomes the key that says so, or is left out where the
 * kind of the job says it already. Keys about how torchtune works and what it
 * prints have no effect, and a warning names each. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec_table.h"
#include "jobs/text/scalar.h"
#include "jobs/text/text.h"

const char *const spec_foreign_keys[] = {
    "train.dtype",
    "train.compile",
    "train.enable_activation_offloading",
    "train.log_every_n_steps",
    "train.log_level",
    "train.log_peak_memory_stats",
    "train.metric_logger",
    "train.profiler",
    "train.optimizer.fused",
    "train.resume_from_checkpoint",
    "train.checkpointer.output_dir",
    "train.checkpointer._component_",
    "train.dataset._component_",
    "train.dataset_val._component_",
    "train.loss._component_",
    "train.lr_scheduler._component_",
    "train.model._component_",
    "train.optimizer._component_",
    "train.quantizer._component_",
    "train.tokenizer._component_",
    NULL,
};

/* What a component means: a value of a key in its section; key NULL: what is
 * so in any case. The models are in is_model(). */
static const struct component {
    const char *section, *name, *key, *value;
} components[] = {
    {"train.checkpointer", "torchtune.training.FullModelHFCheckpointer", NULL,
     NULL},
    {"train.checkpointer", "torchtune.utils.FullModelHFCheckpointer", NULL,
     NULL},
    {"train.dataset", "torchtune.datasets.alpaca_dataset", "template",
     "alpaca"},
    {"train.dataset", "torchtune.datasets.alpaca_cleaned_dataset", "template",
     "alpaca"},
    {"train.dataset", "torchtune.datasets.grammar_dataset", "template",
     "grammar"},
    {"train.dataset", "torchtune.datasets.instruct_dataset", "template",
     "grammar"},
    {"train.dataset", "torchtune.datasets.samsum_dataset", "template",
     "samsum"},
    {"train.dataset", "torchtune.datasets.slimorca_dataset", "template",
     "slimorca"},
    {"train.dataset", "torchtune.datasets.chat_dataset", "template", "chat"},
    {"train.dataset", "torchtune.datasets.text_completion_dataset", "template",
     "completion"},
    {"train.dataset", "torchtune.datasets.preference_dataset", "template",
     "preference"},
    {"train.dataset_val", "torchtune.datasets.alpaca_dataset", "template",
     "alpaca"},
    {"train.dataset_val", "torchtune.datasets.alpaca_cleaned_dataset",
     "template", "alpaca"},
    {"train.dataset_val", "torchtune.datasets.grammar_dataset", "template",
     "grammar"},
    {"train.dataset_val", "torchtune.datasets.instruct_dataset", "template",
     "grammar"},
    {"train.dataset_val", "torchtune.datasets.samsum_dataset", "template",
     "samsum"},
    {"train.dataset_val", "torchtune.datasets.slimorca_dataset", "template",
     "slimorca"},
    {"train.dataset_val", "torchtune.datasets.chat_dataset", "template",
     "chat"},
    {"train.dataset_val", "torchtune.datasets.text_completion_dataset",
     "template", "completion"},
    {"train.dataset_val", "torchtune.datasets.preference_dataset", "template",
     "preference"},
    {"train.loss", "torchtune.modules.loss.LinearCrossEntropyLoss", NULL, NULL},
    {"train.loss", "torchtune.modules.loss.CEWithChunkedOutputLoss", NULL,
     NULL},
    {"train.loss", "torch.nn.CrossEntropyLoss", NULL, NULL},
    {"train.lr_scheduler",
     "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup", "name",
     "cosine"},
    {"train.lr_scheduler", "torchtune.modules.get_cosine_schedule_with_warmup",
     "name", "cosine"},
    {"train.optimizer", "torch.optim.AdamW", "name", "adamw"},
    {"train.optimizer", "torch.optim.SGD", "name", "sgd"},
    {"train.quantizer",
     "torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer", "name",
     "8da4w"},
    {"train.tokenizer", "torchtune.models.llama2.llama2_tokenizer", NULL, NULL},
    {"train.tokenizer", "torchtune.models.llama3.llama3_tokenizer", NULL, NULL},
    {"train.tokenizer", "torchtune.models.qwen2.qwen2_tokenizer", NULL, NULL},
    {"train.tokenizer", "torchtune.models.qwen2_5.qwen2_5_tokenizer", NULL,
     NULL},
    {"train.tokenizer", "torchtune.models.mistral.mistral_tokenizer", NULL,
     NULL},
};
enum { N_COMPONENTS = sizeof(components) / sizeof(components[0]) };

struct translation {
    struct node *root;
    struct spec_report *report;
    struct error *err;
    const char *kind, *method; /* "" where the tree says none */
};

/* ---- the tree ------------------------------------------------------------ */

/* The map that has the last step of the path; NULL: none. */
static struct node *map_of(struct node *root, const char *path,
                           const char **ret_last)
{
    struct node *map = root;
    for (const char *dot; map && (dot = strchr(path, '.')); path = dot + 1) {
        char step[PATH_CAP];
        (void)snprintf(step, sizeof(step), "%.*s", (int)(dot - path), path);
        map = map->kind == NODE_MAP ? tree_child(map, step) : NULL;
    }
    *ret_last = path;
    return map && map->kind == NODE_MAP ? map : NULL;
}

static const char *word_at(struct node *root, const char *key)
{
    const struct node *n = tree_child(root, key);
    return n && n->kind == NODE_SCALAR ? n->text : "";
}

static int change(char **io, const char *text, struct error *err)
{
    char *copy = strdup(text);
    if (!copy)
        return error_set(err, ERR_NOMEM, "key of a YAML tree");
    free(*io);
    *io = copy;
    return 0;
}

/* Gives n, a member of the map, another key and, unless it is NULL, another
 * value. The same key beside it is an error, but with the same value. */
static int become(struct translation *t, struct node *map, struct node *n,
                  const char *path, const char *key, const char *value)
{
    struct node *other = tree_child(map, key);
    if (other) {
        if (!value || other->kind != NODE_SCALAR ||
            strcmp(other->text, value) != 0)
            diagnostics_add(t->report, "E017", n->key_at, path,
                            "leave one of them out",
                            "'%s' and '%.*s%s' are both there", path,
                            (int)(strrchr(path, '.') + 1 - path), path, key);
        tree_remove(map, n->key);
        return 0;
    }
    if (value && change(&n->text, value, t->err) < 0)
        return -1;
    return change(&n->key, key, t->err);
}

/* ---- components ---------------------------------------------------------- */

/* The beginning of a model's name. */
enum adapters { NO_LORA, LORA, QLORA };
static const char *const words[] = {
    [NO_LORA] = "", [LORA] = "lora_", [QLORA] = "qlora_"};

/* "8b", and where a family has them "0_5b" and "8b_base". */
static bool is_size(const char *p, bool has_parts, bool has_ends)
{
    static const char digits[] = "0123456789";
    const size_t n = strspn(p, digits);
    p += n;
    if (has_parts && n > 0 && *p == '_' && isdigit((unsigned char)p[1]))
        p += 1 + strspn(p + 1, digits);
    if (n == 0 || *p++ != 'b')
        return false;
    return *p == '\0' || (has_ends && (strcmp(p, "_base") == 0 ||
                                       strcmp(p, "_instruct") == 0));
}

/* "torchtune.models.llama3.lora_llama3_8b", and the like. */
static bool is_model(const char *name, enum adapters *ret)
{
    static const struct {
        const char *name;
        bool has_parts, has_ends;
    } families[] = {
        {"llama2", false, false},   {"llama3", false, false},
        {"llama3_1", false, false}, {"llama3_2", false, false},
        {"llama3_3", false, false}, {"qwen2", true, false},
        {"qwen2_5", true, true},    {"mistral", false, false},
    };
    static const char head[] = "torchtune.models.";
    char want[40];
    if (strncmp(name, head, sizeof(head) - 1) != 0)
        return false;
    name += sizeof(head) - 1;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        size_t len =
            (size_t)snprintf(want, sizeof(want), "%s.", families[i].name);
        if (strncmp(name, want, len) != 0)
            continue;
        const char *p = name + len;
        *ret = NO_LORA;
        for (int a = LORA; a <= QLORA; a++)
            if (strncmp(p, words[a], strlen(words[a])) == 0)
                *ret = (enum adapters)a;
        p += strlen(words[*ret]);
        len = (size_t)snprintf(want, sizeof(want), "%s_", families[i].name);
        return strncmp(p, want, len) == 0 &&
               is_size(p + len, families[i].has_parts, families[i].has_ends);
    }
    return false;
}

/* "one of: torch.optim.AdamW, torch.optim.SGD" */
static void list_allowed(const char *section, char *out, size_t cap)
{
    size_t len = (size_t)snprintf(out, cap, "one of: ");
    const char *comma = "";
    if (strcmp(section, "train.model") == 0)
        (void)snprintf(out, cap,
                       "such as torchtune.models.llama3.lora_llama3_8b; "
                       "families: llama2, llama3, llama3_1, llama3_2, "
                       "llama3_3, qwen2, qwen2_5, mistral");
    if (strcmp(section, "train.tokenizer") == 0) {
        (void)snprintf(out, cap,
                       "such as torchtune.models.llama3.llama3_tokenizer; "
                       "families: llama2, llama3, qwen2, qwen2_5, mistral");
        return;
    }
    if (strncmp(section, "train.dataset", strlen("train.dataset")) == 0) {
        (void)snprintf(out, cap,
                       "such as torchtune.datasets.alpaca_dataset; others: "
                       "alpaca_cleaned, grammar, instruct, samsum, slimorca, "
                       "chat, text_completion, preference");
        return;
    }
    for (size_t i = 0; i < N_COMPONENTS && len < cap; i++)
        if (strcmp(components[i].section, section) == 0) {
            len += (size_t)snprintf(out + len, cap - len, "%s%s", comma,
                                    components[i].name);
            comma = ", ";
        }
}

static void refuse_component(struct translation *t, const struct node *n,
                             const char *section, const char *path)
{
    char q[TEXT_QUOTE_CAP], hint[sizeof(t->report->findings->hint)];
    list_allowed(section, hint, sizeof(hint));
    diagnostics_add(t->report, "E012", n->at, path, hint,
                    "'%s' is not a component that is known here",
                    text_quote(q, sizeof(q), n->text));
}

static void check_model(struct translation *t, const struct node *n,
                        const char *path)
{
    static const char *const methods[] = {
        [NO_LORA] = "full", [LORA] = "lora", [QLORA] = "qlora"};
    static const char *const kinds[] = {[NO_LORA] = "without LoRA",
                                        [LORA] = "with LoRA",
                                        [QLORA] = "with QLoRA"};
    enum adapters has = NO_LORA;
    char hint[24];
    if (!is_model(n->text, &has)) {
        refuse_component(t, n, "train.model", path);
        return;
    }
    if (!*t->method || strcmp(t->method, methods[has]) == 0)
        return;
    if (has != QLORA &&
        (strcmp(t->method, "dpo") == 0 || strcmp(t->method, "qat") == 0))
        return; /* with adapters or without */
    (void)snprintf(hint, sizeof(hint), "set method: %s", methods[has]);
    diagnostics_add(t->report, "E017", n->at, path, hint,
                    "'%s' is a model %s, and method is %.20s", path, kinds[has],
                    t->method);
}

static int translate_component(struct translation *t, struct node *map,
                               struct node *n, const char *path)
{
    const struct component *same_section = NULL, *c = NULL;
    char section[PATH_CAP];
    (void)snprintf(section, sizeof(section), "%.*s",
                   (int)(strrchr(path, '.') - path), path);
    if (n->kind != NODE_SCALAR) {
        diagnostics_add(t->report, "E011", n->at, path, NULL,
                        "'%s' must be a single value", path);
    } else if (strcmp(section, "train.model") == 0) {
        check_model(t, n, path);
    } else {
        for (size_t i = 0; i < N_COMPONENTS; i++)
            if (strcmp(components[i].section, section) == 0) {
                same_section = &components[i];
                if (strcmp(components[i].name, n->text) == 0)
                    c = same_section;
            }
        if (!c)
            refuse_component(t, n, section, path);
        if (c && c->key)
            return become(t, map, n, path, c->key, c->value);
    }
    /* What it stood for is not missing, too. */
    if (!c && same_section && same_section->key &&
        !tree_child(map, same_section->key)) {
        n->kind = NODE_BAD;
        return change(&n->key, same_section->key, t->err);
    }
    tree_remove(map, n->key);
    return 0;
}

/* ---- directories and checkpoints ------------------------------------------
 */

/* A job resumes its own checkpoints in any case, so false is what it is. */
static int translate_resume(struct translation *t, struct node *map,
                            const struct node *n, const char *path)
{
    bool is = true;
    if (n->kind != NODE_SCALAR || scalar_bool(n->text, &is) < 0 || is)
        diagnostics_add(t->report, "E012", n->at, path,
                        "leave it out; train.resume_from names a checkpoint "
                        "of another job",
                        "'%s' is not false: a job resumes its own checkpoints",
                        path);
    tree_remove(map, n->key);
    return 0;
}

/* torchtune names the directory of results once for all, and then for its
 * checkpointer, mostly as ${output_dir}: it is train.output_dir here. */
static int translate_output(struct translation *t, struct node *map,
                            const struct node *n, const char *path)
{
    const char *last;
    struct node *train = map_of(t->root, "train.output_dir", &last);
    const struct node *own = tree_child(train, last);
    const char *is = own != NULL && own->kind == NODE_SCALAR ? own->text : "";
    const bool same =
        n->kind == NODE_NULL ||
        (n->kind == NODE_SCALAR &&
         (strcmp(n->text, "${output_dir}") == 0 || strcmp(n->text, is) == 0));
    if (!same && own != NULL && own->kind != NODE_NULL) {
        diagnostics_add(t->report, "E017", n->key_at, path,
                        "leave one of them out",
                        "'%s' and 'train.output_dir' are both there", path);
    } else if (!same) {
        struct node *copy = tree_clone(n, t->err);
        if (copy == NULL)
            return -1;
        if (change(&copy->key, last, t->err) < 0) {
            tree_destroy(copy);
            return -1;
        }
        tree_remove(train, last);
        tree_append(train, copy);
    }
    tree_remove(map, n->key);
    return 0;
}

/* ---- all of them --------------------------------------------------------- */

static int translate(struct translation *t, const char *path)
{
    const char *last;
    struct node *map = map_of(t->root, path, &last);
    struct node *n = map ? tree_child(map, last) : NULL;
    bool is_llm = strcmp(t->kind, "llm") == 0;
    bool is_cv = strcmp(t->kind, "cv") == 0;
    if (!n)
        return 0;
    if (strcmp(path, "train.dtype") == 0 && (is_llm || is_cv))
        return become(t, map, n, path, "precision", NULL);
    if (is_llm && strcmp(last, "_component_") == 0)
        return translate_component(t, map, n, path);
    if (is_llm && strcmp(path, "train.resume_from_checkpoint") == 0)
        return translate_resume(t, map, n, path);
    if (is_llm && strcmp(path, "train.checkpointer.output_dir") == 0)
        return translate_output(t, map, n, path);
    if (is_llm)
        diagnostics_add(t->report, "W113", n->key_at, path, NULL,
                        "'%s' has no effect here", path);
    else if (is_cv || strcmp(t->kind, "command") == 0)
        diagnostics_add(t->report, "E018", n->key_at, path, NULL,
                        "'%s' is only for kind: llm", path);
    tree_remove(map, last);
    return 0;
}

/* A section with nothing but a component that was taken out. */
static void drop_loss(struct node *root)
{
    const char *last;
    struct node *train = map_of(root, "train.loss", &last);
    const struct node *loss = train ? tree_child(train, last) : NULL;
    if (loss && loss->kind == NODE_MAP && !loss->first)
        tree_remove(train, last);
}

int spec_torchtune(struct node *root, struct spec_report *report,
                   struct error *err)
{
    struct translation t = {.root = root,
                            .report = report,
                            .err = err,
                            .kind = word_at(root, "kind"),
                            .method = word_at(root, "method")};
    for (const char *const *path = spec_foreign_keys; *path; path++)
        if (translate(&t, *path) < 0)
            return -1;
    drop_loss(root);
    return 0;
}
