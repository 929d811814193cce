/* spec_check.c - checks that involve several keys of a job.
 *
 * Each check reports the position of the value that has to change. A value that
 * was refused before is not checked again: one mistake, one finding. */
#include "jobs/spec/spec_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/schema/schema_doc.h"
#include "jobs/spec/dependency.h"
#include "jobs/spec/retry_rule.h"
#include "jobs/text/text.h"
#include "jobs/text/timestamp.h"

/* The position for a missing key: its section's name, or the top. */
static struct mark place_of_section(const struct check *c, const char *path)
{
    char head[PATH_CAP];
    (void)snprintf(head, sizeof(head), "%.*s", (int)strcspn(path, "."), path);
    const struct node *n = tree_child(c->root, head);
    struct mark top = {.line = 1, .column = 1, .width = 1};
    return n ? n->key_at : top;
}

/* ---- kind ---------------------------------------------------------------- */

/* The key whose value decides whether a key applies; NULL: kind alone. */
static const char *decides(int when)
{
    switch ((enum spec_when)when) {
    case WHEN_FILES:
    case WHEN_FOLDER:
        return "dataset.source";
    case WHEN_SGD:
    case WHEN_ADAMW:
    case WHEN_RMSPROP:
    case WHEN_MOMENTUM:
    case WHEN_EPS:
        return "train.optimizer.name";
    case WHEN_STEP:
    case WHEN_MULTISTEP:
    case WHEN_GAMMA:
        return "train.lr_scheduler.name";
    case WHEN_BEST:
        return "checkpoint.keep_best";
    case WHEN_EARLY:
        return "train.early_stopping.metric";
    case WHEN_NO_GLOBAL:
        return "train.global_batch_size";
    case WHEN_LORA:
    case WHEN_QUANTIZER:
        return "method";
    case WHEN_PROMPTED:
    case WHEN_MESSAGES:
        return "train.dataset.template";
    case WHEN_PACKED:
        return "train.dataset.packed";
    case WHEN_VAL:
    case WHEN_VAL_PROMPTED:
    case WHEN_VAL_PACKED:
        return "train.dataset_val.path";
    case WHEN_SAMPLE:
        return "train.sample.prompts";
    default:
        return NULL;
    }
}

/* Keys of the other kind, source or optimizer; false if that value itself is
 * bad, so that they cannot be checked. */
static bool can_judge(const struct check *c, int when)
{
    const char *key = decides(when);
    if (when == WHEN_ALWAYS || when == WHEN_SWEEP)
        return true;
    if (when == WHEN_NOTIFY)
        return !is_bad(c, "notify.to");
    if (!is_set(c, "kind"))
        return false;
    if (!key || !(spec_kinds(when) & 1u << c->s->kind))
        return true;
    if (when == WHEN_VAL_PROMPTED && is_bad(c, "train.dataset_val.template"))
        return false;
    return schema_find(&spec_schema, key)->required ? is_set(c, key)
                                                    : !is_bad(c, key);
}

/* "cv and llm" */
static const char *kinds_of(int when, char out[40])
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i <= SPEC_LLM; i++)
        if (spec_kinds(when) & 1u << i)
            len += (size_t)snprintf(out + len, 40 - len, "%s%s",
                                    len ? " and " : "",
                                    spec_kind_word((enum spec_kind)i));
    return out;
}

static void refuse_stray(const struct check *c, const struct schema_key *k,
                         struct mark at)
{
    char kinds[40];
    if (k->when == WHEN_SWEEP)
        diagnostics_add(c->report, "E020", at, k->path, NULL,
                        "a sweep is several jobs, this is a single one");
    else if (!(spec_kinds(k->when) & 1u << c->s->kind))
        diagnostics_add(c->report, "E018", at, k->path, NULL,
                        "'%s' is only for kind: %s", k->path,
                        kinds_of(k->when, kinds));
    else if (k->when == WHEN_FILES)
        diagnostics_add(c->report, "E017", at, k->path, NULL,
                        "'%s' is not read when dataset.source is synthetic",
                        k->path);
    else
        diagnostics_add(c->report, "E017", at, k->path,
                        k->when == WHEN_LORA ? "remove it, or set method: lora"
                        : k->when == WHEN_EARLY ? "set metric: eval_loss"
                                                : NULL,
                        "'%s' is only for %s", k->path, spec_needs(k->when));
}

static void check_rows(const struct check *c)
{
    for (size_t i = 0; i < spec_schema.n; i++) {
        const struct schema_key *k = &spec_schema.keys[i];
        const struct schema_from *f = &c->from[i];
        if (!can_judge(c, k->when))
            continue;
        bool applies = spec_applies(k, c->s);
        if (f->node && !applies)
            refuse_stray(c, k, f->node->key_at);
        else if (!f->node && applies && k->required) {
            char range[RANGE_CAP], hint[RANGE_CAP + 16];
            (void)snprintf(hint, sizeof(hint), "one of: %s",
                           schema_range(k, range));
            diagnostics_add(c->report, k->code, place_of_section(c, k->path),
                            k->path, k->words ? hint : k->doc,
                            "'%s' is missing", k->path);
        }
    }
}

/* ---- keys that go together ----------------------------------------------- */

static void check_optimizer(const struct check *c)
{
    const struct job_spec *s = c->s;
    if (is_set(c, "train.optimizer.nesterov") && s->train.optimizer.nesterov &&
        s->train.optimizer.name == OPTIM_SGD &&
        s->train.optimizer.momentum == 0 &&
        !is_bad(c, "train.optimizer.momentum"))
        diagnostics_add(c->report, "E017",
                        place_of(c, "train.optimizer.nesterov"),
                        "train.optimizer.nesterov", "set momentum: 0.9",
                        "nesterov needs a momentum above 0");
}

static void check_profile(const struct check *c)
{
    static const char path[] = "train.profile_first";
    if (c->s->train.profile_first_s > 0 && c->s->train.profile == PROFILE_OFF &&
        !is_bad(c, "train.profile"))
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "set train.profile: epoch",
                        "profile_first needs a profile");
}

static void check_channels(const struct check *c)
{
    static const char path[] = "model.in_channels";
    if (is_set(c, path) && c->s->model.in_channels == 2)
        diagnostics_add(c->report, "E013", place_of(c, path), path,
                        "1 for gray images, 3 for colour",
                        "%s is 1 or 3, not 2", path);
}

/* The last feature map of an image of 32 pixels or less has one pixel:
 * MobileNetV2 halves the size five times. */
static void check_batch(const struct check *c)
{
    static const char path[] = "train.batch_size";
    int32_t side = c->s->dataset.image_size;
    if (is_set(c, path) && c->s->train.batch_size == 1 && side <= 32 &&
        !is_bad(c, "dataset.image_size"))
        diagnostics_add(
            c->report, "E017", place_of(c, path), path,
            "set batch_size: 2 or more, or image_size: 33 or more",
            "batch norm needs more than 1 value per channel: a batch "
            "of 1 image of %d by %d pixels has 1",
            side, side);
}

/* All weights of an image network fit on one GPU. */
static void check_sharded(const struct check *c)
{
    static const char path[] = "train.distribution";
    if (is_set(c, path) && c->s->train.distribution == DIST_FSDP &&
        c->s->kind == SPEC_CV)
        diagnostics_add(c->report, "E018", place_of(c, path), path,
                        "one of: ddp-ds, ddp-rr, ddp, dp",
                        "'%s: fsdp' is only for kind: llm", path);
}

static void check_mixed(const struct check *c)
{
    enum spec_precision p = c->s->train.precision;
    if (is_set(c, "train.mixed") && c->s->train.mixed && p != PRECISION_FP16 &&
        p != PRECISION_BF16 && !is_bad(c, "train.precision"))
        diagnostics_add(c->report, "E017", place_of(c, "train.mixed"),
                        "train.mixed", "set precision: bf16",
                        "mixed precision computes in fp16 or bf16");
}

static void check_betas(const struct check *c)
{
    if (is_set(c, "train.optimizer.betas") &&
        c->s->train.optimizer.betas.n != 2)
        diagnostics_add(c->report, "E017", place_of(c, "train.optimizer.betas"),
                        "train.optimizer.betas", "as in betas: [0.9, 0.999]",
                        "train.optimizer.betas are two numbers, not %d",
                        c->s->train.optimizer.betas.n);
}

static void check_milestones(const struct check *c)
{
    static const char path[] = "train.lr_scheduler.milestones";
    const struct spec_numbers *m = &c->s->train.lr_scheduler.milestones;
    bool rises = m->n > 0;
    if (!is_set(c, path))
        return;
    for (int32_t i = 0; i < m->n; i++)
        rises = rises && m->v[i] == (double)(int32_t)m->v[i] &&
                (i == 0 || m->v[i] > m->v[i - 1]);
    if (!rises)
        diagnostics_add(
            c->report, "E017", place_of(c, path), path,
            "as in milestones: [30, 60, 90]",
            "%s are whole numbers of epochs, each above the one before", path);
}

static void check_every(const struct check *c, const char *path,
                        const char *value)
{
    struct spec_every every;
    struct error why = ERROR_INIT;
    if (is_set(c, path) && spec_every(value, &every, &why) < 0)
        diagnostics_add(c->report, "E024", place_of(c, path), path,
                        "write 500steps, 10m or 1epoch", "%s: %.160s", path,
                        why.msg);
}

static void check_begin(const struct check *c)
{
    static const char path[] = "policy.begin";
    char hint[WHEN_HINT_CAP], q[TEXT_QUOTE_CAP];
    struct error why = ERROR_INIT;
    struct when at;
    if (is_set(c, path) && c->s->policy.begin &&
        timestamp_parse(c->s->policy.begin, &at, hint, &why) < 0)
        diagnostics_add(c->report, "E023", place_of(c, path), path, hint,
                        "%s '%s': %.120s", path,
                        text_quote(q, sizeof(q), c->s->policy.begin), why.msg);
}

/* ---- gpus_per_node ------------------------------------------------------- */

static void check_per_node(const struct check *c)
{
    static const char path[] = "resources.gpus_per_node";
    const struct spec_range *gpus = &c->s->resources.gpus;
    if (!is_set(c, path) || c->s->resources.gpus_per_node < 1 ||
        is_bad(c, "resources.gpus") || is_bad(c, "resources.nodes") ||
        spec_is_settled(c->s))
        return;
    diagnostics_add(c->report, "E021", place_of(c, path), path,
                    "as in gpus: 8, gpus_per_node: 4, which is two nodes",
                    "%d GPUs on each node, and %d..%d GPUs in all, do not go "
                    "together%s",
                    c->s->resources.gpus_per_node, gpus->min, gpus->max,
                    is_set(c, "resources.nodes") ? " with resources.nodes"
                                                 : "");
}

static void check_resources(const struct check *c)
{
    const struct spec_range *gpus = &c->s->resources.gpus;
    const struct spec_range *nodes = &c->s->resources.nodes;
    if (is_set(c, "resources.gpu_memory") && gpus->max == 0 &&
        (c->s->resources.gpu_memory.min > 0 ||
         c->s->resources.gpu_memory.max > 0))
        diagnostics_add(c->report, "E017", place_of(c, "resources.gpu_memory"),
                        "resources.gpu_memory", NULL,
                        "resources.gpu_memory is of GPUs, and there are none");
    if (!is_set(c, "resources.nodes") || is_bad(c, "resources.gpus"))
        return;
    if (gpus->max > 0 && nodes->min > gpus->max)
        diagnostics_add(c->report, "E021", place_of(c, "resources.nodes"),
                        "resources.nodes", "give each node at least one GPU",
                        "%d nodes for %d GPU%s", nodes->min, gpus->max,
                        gpus->max == 1 ? "" : "s");
}

static void check_command(const struct check *c)
{
    const struct spec_list *argv = &c->s->command;
    if (!is_set(c, "command") || c->s->kind != SPEC_COMMAND)
        return;
    if (argv->n == 0)
        diagnostics_add(c->report, "E011", place_of(c, "command"), "command",
                        "write [program, argument]", "'command' is empty");
    else if (argv->items[0][0] == '\0' || argv->items[0][0] == '-')
        diagnostics_add(c->report, "E011",
                        from_of(c, "command")->node->first->at, "command", NULL,
                        "'command' must begin with a program");
}

/* ---- dependencies and retries -------------------------------------------- */

static void check_depends(const struct check *c)
{
    static const char path[] = "depends_on";
    struct depend found[DEPEND_MAX];
    size_t n = 0;
    const struct node *at =
        is_set(c, path) ? from_of(c, path)->node->first : NULL;

    for (; at; at = at->next) {
        struct error why = ERROR_INIT;
        if (depend_parse(at->text, found, &n, &why) < 0)
            diagnostics_add(c->report, "E022", at->at, path, NULL,
                            "depends_on: %.200s", why.msg);
    }
}

static void check_retry(const struct check *c)
{
    static const char path[] = "retry.on";
    char q[TEXT_QUOTE_CAP];
    const struct node *at =
        is_set(c, path) ? from_of(c, path)->node->first : NULL;

    for (; at; at = at->next)
        if (spec_retry(at->text) == 0)
            diagnostics_add(
                c->report, "E012", at->at, path,
                "one of: node_fail, stalled, signal, exit, time_limit",
                "'%s' is not an end that can be retried",
                text_quote(q, sizeof(q), at->text));
}

static void check_rules(const struct check *c)
{
    static const char path[] = "retry.rules";
    const struct node *at =
        is_set(c, path) ? from_of(c, path)->node->first : NULL;

    for (int n = 1; at; at = at->next, n++) {
        struct error why = ERROR_INIT;
        struct rule r;
        if (rule_parse(at->text, &r, &why) < 0)
            diagnostics_add(c->report, "E017", at->at, path, NULL,
                            "retry.rules: %.200s", why.msg);
        else if (n == RULES_MAX + 1)
            diagnostics_add(c->report, "E017", at->at, path, NULL,
                            "retry.rules: more than %d", (int)RULES_MAX);
    }
}

/* notify.program knows what an address is. No text may be two lines there. */
static bool is_address(const char *to)
{
    for (const char *s = to; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            return false;
    return to[0] && strlen(to) < SPEC_NOTIFY_TO_CAP;
}

static void check_notify(const struct check *c)
{
    static const char to[] = "notify.to", on[] = "notify.on";
    char q[TEXT_QUOTE_CAP];
    const struct node *at = is_set(c, on) ? from_of(c, on)->node->first : NULL;

    if (is_set(c, to) && c->s->notify.to && !is_address(c->s->notify.to))
        diagnostics_add(c->report, "E023", place_of(c, to), to, NULL,
                        "notify.to: expected 1 to %d bytes without control "
                        "characters",
                        SPEC_NOTIFY_TO_CAP - 1);
    for (; at; at = at->next) {
        enum spec_notify bit = spec_notify(at->text);
        if (bit == 0)
            diagnostics_add(c->report, "E012", at->at, on,
                            "one of: begin, end, fail, stalled, time_80, held, "
                            "requeue",
                            "'%s' is nothing to be told of",
                            text_quote(q, sizeof(q), at->text));
        else if (bit == NOTIFY_TIME_80 &&
                 !isfinite(c->s->resources.time_limit_s) &&
                 !is_bad(c, "resources.time_limit"))
            diagnostics_add(c->report, "E017", at->at, on, NULL,
                            "time_80 needs resources.time_limit");
    }
}

/* A warning needs a time limit, and must come before it. */
static void check_warning(const struct check *c)
{
    static const char how[] = "resources.warn_signal";
    static const char when[] = "resources.warn_before";
    const struct job_spec *s = c->s;
    bool has_limit = isfinite(s->resources.time_limit_s);
    bool has_time = is_set(c, when) && s->resources.warn_before_s > 0;

    if (is_bad(c, "resources.time_limit"))
        return;
    if (is_set(c, how) && s->resources.warn_signal > 0 && !has_limit)
        diagnostics_add(c->report, "E017", place_of(c, how), how, NULL,
                        "%s needs resources.time_limit", how);
    if (has_time && !has_limit)
        diagnostics_add(c->report, "E017", place_of(c, when), when, NULL,
                        "%s needs resources.time_limit", when);
    else if (has_time &&
             s->resources.warn_before_s >= s->resources.time_limit_s)
        diagnostics_add(c->report, "E017", place_of(c, when), when, NULL,
                        "%s must be less than resources.time_limit", when);
    if (has_time && has_limit && !is_bad(c, how) && is_set(c, "kind") &&
        spec_warning(s, NULL) == 0)
        diagnostics_add(c->report, "E017", place_of(c, when), when,
                        "as in warn_signal: USR1", "%s needs %s", when, how);
}

/* mgpu cannot know what a command does on SIGTERM, so it only warns about a
 * command that is explicitly declared preemptible. */
static void check_preemptible(const struct check *c)
{
    static const char path[] = "policy.preemptible";
    static const char *const keys[] = {path, "checkpoint.on_signal",
                                       "retry.resume", "checkpoint.dir",
                                       "train.output_dir"};
    const struct job_spec *s = c->s;
    bool is_command = s->kind == SPEC_COMMAND;
    size_t i = 0, n = is_command ? 1 : 5;

    while (i < n && !is_set(c, keys[i]))
        i++;
    if (i == n || !is_set(c, "kind") || is_bad(c, path) ||
        !s->policy.preemptible || spec_saves(s))
        return;
    diagnostics_add(c->report, "W111", place_of(c, keys[i]), keys[i],
                    "policy.preemptible: false prevents that",
                    "when preempted it restarts from the beginning%s",
                    is_command ? ", unless it saves its work: saves: true"
                               : "");
}

void spec_check(const struct job_spec *s, const struct node *root,
                const struct schema_from *from, bool is_stored,
                struct spec_report *report)
{
    struct check c = {s, root, from, report, is_stored};
    struct mark top = {.line = 1, .column = 1, .width = 1};
    if (!from_of(&c, "version")->node)
        diagnostics_add(report, "W001", top, "version", "begin with version: 1",
                        "'version' is missing; 1 is assumed");
    check_rows(&c);
    check_optimizer(&c);
    check_profile(&c);
    check_channels(&c);
    check_batch(&c);
    check_sharded(&c);
    check_mixed(&c);
    check_betas(&c);
    check_milestones(&c);
    check_every(&c, "checkpoint.every", s->checkpoint.every);
    if (is_set(&c, "train.sample.every") &&
        strcmp(s->train.sample.every, "never") != 0)
        check_every(&c, "train.sample.every", s->train.sample.every);
    check_begin(&c);
    check_per_node(&c);
    check_resources(&c);
    check_depends(&c);
    check_retry(&c);
    check_rules(&c);
    check_warning(&c);
    check_preemptible(&c);
    check_notify(&c);
    check_command(&c);
    if (s->kind == SPEC_LLM)
        spec_check_llm(&c);
    spec_check_elastic(&c);
    spec_check_stopping(&c);
    spec_check_env(&c);
}
