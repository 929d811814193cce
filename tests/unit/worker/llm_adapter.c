/* llm_adapter.c - LoRA adapters in PEFT's files: written and read back, files
 * of PEFT itself, and those that are refused. */
#include "worker/llm/files/adapter_file.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/tap.h"
#include "tests/unit/worker/llm_files.h"

static const char config_name[] = "adapter_config.json";
static const char tensors_name[] = "adapter_model.safetensors";
static const char key_a[] =
    "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
static const char key_b[] =
    "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";

/* As PEFT 0.17 writes it. */
static const char base[] =
    "{\"alpha_pattern\": {}, \"auto_mapping\": null, "
    "\"base_model_name_or_path\": \"/models/llama\", \"bias\": \"none\", "
    "\"corda_config\": null, \"eva_config\": null, \"exclude_modules\": null, "
    "\"fan_in_fan_out\": false, \"inference_mode\": true, "
    "\"init_lora_weights\": true, \"layer_replication\": null, "
    "\"layers_pattern\": null, \"layers_to_transform\": null, "
    "\"loftq_config\": {}, \"lora_alpha\": 16, \"lora_bias\": false, "
    "\"lora_dropout\": 0.05, \"megatron_config\": null, "
    "\"megatron_core\": \"megatron.core\", \"modules_to_save\": null, "
    "\"peft_type\": \"LORA\", \"qalora_group_size\": 16, \"r\": 8, "
    "\"rank_pattern\": {}, \"revision\": null, \"target_modules\": "
    "[\"v_proj\", \"q_proj\", \"lm_head\"], \"target_parameters\": null, "
    "\"task_type\": \"CAUSAL_LM\", \"trainable_token_indices\": null, "
    "\"use_dora\": false, \"use_qalora\": false, \"use_rslora\": false}";

static void put_config(const struct model_dir *d, const char *from,
                       const char *to)
{
    struct buf b = BUF_INIT;
    const char *at = strstr(base, from);
    if (at == NULL || buf_add(&b, base, (size_t)(at - base), NULL) < 0 ||
        buf_addstr(&b, to, NULL) < 0 ||
        buf_addstr(&b, at + strlen(from), NULL) < 0)
        abort();
    model_dir_text(d, config_name, buf_str(&b));
    buf_clear(&b);
}

static bool read_config(const struct model_dir *d, const char *from,
                        const char *to, struct adapter_config *ret)
{
    struct error err = ERROR_INIT;
    put_config(d, from, to);
    return ok(adapter_config_read(d->path, ret, &err) == 0, "'%s' is read: %s",
              to, err.msg);
}

static void refused(const struct model_dir *d, const char *from, const char *to,
                    const char *w1, const char *w2)
{
    struct error err = ERROR_INIT;
    struct adapter_config c = {.rank = 77};
    put_config(d, from, to);
    int rc = adapter_config_read(d->path, &c, &err);
    ok(rc < 0 && err.code == ERR_INVAL && strstr(err.msg, w1) != NULL &&
           strstr(err.msg, w2) != NULL && c.rank == 77,
       "'%s' is refused: %s", to, err.msg);
}

static void test_read(const struct model_dir *d)
{
    struct adapter_config c;
    if (read_config(d, "{", "{", &c))
        ok(c.rank == 8 && c.alpha == 16 && c.dropout == 0.05 &&
               c.targets == (LORA_Q | LORA_V | LORA_OUTPUT),
           "PEFT's own file");
    if (read_config(d, "\"lora_alpha\": 16", "\"lora_alpha\": 2.5", &c))
        ok(c.alpha == 2.5, "half a number");
    if (read_config(d, "\"lora_dropout\": 0.05, ", "", &c))
        ok(c.dropout == 0, "no dropout by default");
    if (read_config(d, "[\"v_proj\", \"q_proj\", \"lm_head\"]",
                    "[\"down_proj\",\"up_proj\",\"gate_proj\",\"o_proj\","
                    "\"k_proj\"]",
                    &c))
        is_int(c.targets, LORA_K | LORA_O | LORA_GATE | LORA_UP | LORA_DOWN,
               "the other targets");
    (void)read_config(d, "\"init_lora_weights\": true",
                      "\"init_lora_weights\": \"gaussian\"", &c);
    (void)read_config(d, "\"task_type\": \"CAUSAL_LM\"", "\"task_type\": null",
                      &c);
    (void)read_config(d, "\"modules_to_save\": null", "\"modules_to_save\": []",
                      &c);
}

/* alpha / sqrt(rank) is (alpha sqrt(rank)) / rank. */
static void test_rslora(const struct model_dir *d)
{
    struct adapter_config c;
    if (read_config(d, "\"r\": 8, ", "\"r\": 16, ", &c))
        ok(c.alpha == 16, "alpha of rank 16");
    if (read_config(d, "\"use_rslora\": false", "\"use_rslora\": true", &c))
        ok(c.rank == 8 && c.alpha == 16 * sqrt(8), "rslora: %g", c.alpha);
}

static int two_tensors(void *arg,
                       int (*take)(void *to, const struct adapter_tensor *t,
                                   struct error *err),
                       void *to, struct error *err)
{
    static const float zero[4];
    const char *const *names = arg;
    for (int i = 0; i < 2; i++) {
        const struct adapter_tensor t = {names[i], ST_F32, {1, 4}, zero};
        if (take(to, &t, err) < 0)
            return -1;
    }
    return 0;
}

/* An expression's targets are those of the tensors. */
static void test_expression(const struct model_dir *d)
{
    static const char targets[] = "[\"v_proj\", \"q_proj\", \"lm_head\"]";
    static const char *const named[] = {
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.1.mlp.up_proj.lora_A.weight"};
    static const char *const other[] = {"x.c_attn.lora_A.weight",
                                        "x.q_projection.lora_A.weight"};
    struct adapter_config c = {
        .rank = 8, .alpha = 16, .targets = LORA_Q, .quantizer = ""};
    struct error err = ERROR_INIT;
    model_dir_empty(d);
    put_config(d, targets, "\"all-linear\"");
    ok(adapter_config_read(d->path, &c, &err) < 0 && err.code == ERR_NOTFOUND,
       "an expression needs the tensors: %s", err.msg);
    ok(adapter_write(d->path, &c, "b", two_tensors, (void *)named, &err) == 0,
       "tensors are written %s", err.msg);
    if (read_config(d, targets, "\".*\\\\.(q|up)_proj\"", &c))
        is_int(c.targets, LORA_Q | LORA_UP, "an expression's targets");
    ok(adapter_write(d->path, &c, "b", two_tensors, (void *)other, &err) == 0,
       "others are written");
    refused(d, targets, "\".*\"", "no tensor of q_proj", tensors_name);
    model_dir_empty(d);
}

static void test_refused(const struct model_dir *d)
{
    static const char targets[] = "[\"v_proj\", \"q_proj\", \"lm_head\"]";
    static const char *const off[][2] = {
        {"\"use_dora\": false", "\"use_dora\": true"},
        {"\"use_qalora\": false", "\"use_qalora\": true"},
        {"\"lora_bias\": false", "\"lora_bias\": true"},
        {"\"fan_in_fan_out\": false", "\"fan_in_fan_out\": true"},
        {"\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]"},
        {"\"exclude_modules\": null", "\"exclude_modules\": \"q\""},
        {"\"layer_replication\": null", "\"layer_replication\": [[0, 1]]"},
        {"\"target_parameters\": null", "\"target_parameters\": [\"x\"]"},
        {"\"trainable_token_indices\": null",
         "\"trainable_token_indices\": [1]"},
    };
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        char key[40] = "";
        (void)sscanf(off[i][0], "\"%39[a-z_]", key);
        refused(d, off[i][0], off[i][1], key, "without it");
    }
    refused(d, "\"LORA\"", "\"IA3\"", "peft_type must be LORA", "'IA3'");
    refused(d, "\"peft_type\": \"LORA\", ", "", "peft_type", "LORA");
    refused(d, "\"CAUSAL_LM\"", "\"SEQ_CLS\"", "task_type", "'SEQ_CLS'");
    refused(d, "\"bias\": \"none\"", "\"bias\": \"all\"", "bias must be none",
            "'all'");
    refused(d, "\"init_lora_weights\": true",
            "\"init_lora_weights\": \"pissa\"", "init_lora_weights", "'pissa'");
    refused(d, targets, "[\"q_proj\", \"c_attn\"]", "target_modules",
            "'c_attn'");
    refused(d, targets, "[]", "target_modules", "list");
    refused(d, targets, "\"\"", "target_modules", "expression");
    refused(d, "\"use_rslora\": false", "\"use_rslora\": 1", "use_rslora",
            "true or false");
    refused(d, "\"lora_alpha\": 16", "\"lora_alpha\": 1e400", config_name,
            "line");
    refused(d, targets, "[7]", "target_modules", "''");
    refused(d, "\"r\": 8", "\"r\": 0", "r must be", "from 1");
    refused(d, "\"r\": 8", "\"r\": 8.5", "r must be", "from 1");
    refused(d, "\"r\": 8, ", "", "r must be", "from 1");
    refused(d, "\"r\": 8", "\"r\": 4294967304", "r must be", "65536");
    refused(d, "\"lora_alpha\": 16, ", "", "lora_alpha", "number");
    refused(d, "\"lora_alpha\": 16", "\"lora_alpha\": \"16\"", "lora_alpha",
            "number");
    refused(d, "\"lora_dropout\": 0.05", "\"lora_dropout\": 1", "lora_dropout",
            "below 1");
    refused(d, base, "", config_name, "line");
    refused(d, base, "[]", config_name, "object");
    refused(d, "{", "{\"r\": 8,", config_name, "line");

    struct error err = ERROR_INIT;
    struct adapter_config c;
    struct safetensors s = {.n = 77};
    model_dir_empty(d);
    is_int(adapter_config_read(d->path, &c, &err), -1, "no adapter");
    ok(err.code == ERR_NOTFOUND && strstr(err.msg, config_name), "%s", err.msg);
    is_int(adapter_open(d->path, &s, &err), -1, "no tensors");
    ok(err.code == ERR_NOTFOUND && strstr(err.msg, tensors_name), "%s",
       err.msg);
    model_dir_text(d, "adapter_model.bin", "");
    is_int(adapter_open(d->path, &s, &err), -1, "tensors in a pickle");
    ok(err.code == ERR_NOTFOUND && strstr(err.msg, "pickle"), "%s", err.msg);
    model_dir_text(d, tensors_name, "12345678");
    is_int(adapter_open(d->path, &s, &err), -1, "damaged tensors");
    ok(err.code == ERR_INVAL && s.n == 77, "%s", err.msg);
}

/* ---- writing --------------------------------------------------------------
 */

struct source {
    float a[2 * 3], b[5 * 2];
    int pass, fail_pass;
};

static int each(void *arg,
                int (*take)(void *to, const struct adapter_tensor *t,
                            struct error *err),
                void *to, struct error *err)
{
    struct source *s = arg;
    const struct adapter_tensor a = {key_a, ST_F32, {2, 3}, s->a};
    const struct adapter_tensor b = {key_b, ST_F32, {5, 2}, s->b};
    s->pass++;
    if (take(to, &a, err) < 0)
        return -1;
    if (s->pass == s->fail_pass)
        return error_set(err, ERR_EXTERN, "the device has gone");
    return take(to, &b, err);
}

static void fill(struct source *s, int seed)
{
    *s = (struct source){.pass = 0};
    for (int i = 0; i < 6; i++)
        s->a[i] = (float)(seed + i);
    for (int i = 0; i < 10; i++)
        s->b[i] = (float)(-seed - i);
}

static bool holds(const struct model_dir *d, const struct source *want)
{
    struct error err = ERROR_INIT;
    struct safetensors s;
    if (adapter_open(d->path, &s, &err) < 0) {
        tap_diag("%s", err.msg);
        return false;
    }
    const struct st_tensor *a = safetensors_find(&s, key_a),
                           *b = safetensors_find(&s, key_b);
    bool same = s.n == 2 && a != NULL && b != NULL && a->shape[0] == 2 &&
                a->shape[1] == 3 && b->shape[0] == 5 && b->shape[1] == 2 &&
                memcmp(a->data, want->a, sizeof(want->a)) == 0 &&
                memcmp(b->data, want->b, sizeof(want->b)) == 0 &&
                memmem(s.map, s.bytes, "{\"format\":\"pt\"}", 15) != NULL;
    safetensors_close(&s);
    return same;
}

static void test_write(const struct model_dir *d)
{
    const struct adapter_config c = {
        .rank = 2, .alpha = 16, .dropout = 0.1, .targets = LORA_Q | LORA_DOWN};
    struct adapter_config got = {.rank = 0};
    struct error err = ERROR_INIT;
    struct source s;
    char path[512];
    struct buf text = BUF_INIT;
    model_dir_empty(d);
    fill(&s, 1);
    ok(adapter_write(d->path, &c, "/models/\"llama\"", each, &s, &err) == 0,
       "write: %s", err.msg);
    ok(holds(d, &s), "the tensors");
    is_int(model_dir_count(d), 2, "two files");
    ok(adapter_config_read(d->path, &got, &err) == 0 && got.rank == 2 &&
           got.alpha == 16 && got.dropout == 0.1 && got.targets == c.targets,
       "the configuration: %s", err.msg);
    if (buf_read_file(&text, model_dir_file(d, config_name, path), 1 << 20,
                      NULL) < 0)
        abort();
    ok(strstr(buf_str(&text), "\"lora_alpha\": 16,") != NULL &&
           strstr(buf_str(&text), "\"lora_dropout\": 0.1,") != NULL &&
           strstr(buf_str(&text), "\"/models/\\\"llama\\\"\"") != NULL,
       "numbers are short, and quotes are escaped");
    buf_clear(&text);
    fill(&s, 2);
    struct adapter_config odd = c;
    odd.alpha = 1.0 / 3;
    odd.targets = (1U << LORA_TARGETS) - 1;
    ok(adapter_write(d->path, &odd, "x", each, &s, &err) == 0 && holds(d, &s),
       "again, in place of the first: %s", err.msg);
    ok(adapter_config_read(d->path, &got, &err) == 0 &&
           got.alpha == odd.alpha && got.targets == odd.targets,
       "a third is read as a third, and all targets: %s", err.msg);
}

static void test_failures(const struct model_dir *d)
{
    const struct adapter_config c = {.rank = 2, .alpha = 1, .targets = LORA_Q};
    const struct adapter_config old = {
        .rank = 3, .alpha = 1, .targets = LORA_Q};
    struct adapter_config got = {.rank = 0};
    struct error err = ERROR_INIT;
    struct source s, first;
    struct rlimit all, few;
    model_dir_empty(d);
    fill(&first, 1);
    ok(adapter_write(d->path, &old, "x", each, &first, &err) == 0,
       "the first one: %s", err.msg);
    for (int pass = 1; pass <= 2; pass++) {
        fill(&s, 2);
        s.fail_pass = pass;
        is_int(adapter_write(d->path, &c, "x", each, &s, &err), -1, "it fails");
        is_int(err.code, ERR_EXTERN, "with the source's error");
    }
    fill(&s, 2);
    is_int(adapter_write(d->path, &c, "\xff", each, &s, &err), -1,
           "a base that is not UTF-8");
    is_int(err.code, ERR_INVAL, "is refused");
    if (getrlimit(RLIMIT_FSIZE, &all) < 0 ||
        signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
        abort();
    few = all;
    few.rlim_cur = 100;
    if (setrlimit(RLIMIT_FSIZE, &few) < 0)
        abort();
    fill(&s, 2);
    is_int(adapter_write(d->path, &c, "x", each, &s, &err), -1, "a full disk");
    if (setrlimit(RLIMIT_FSIZE, &all) < 0)
        abort();
    is_int(err.code, ERR_IO, "is an error");
    ok(holds(d, &first) && model_dir_count(d) == 2 &&
           adapter_config_read(d->path, &got, &err) == 0 && got.rank == 3,
       "after each, the first one is there, whole and alone");
}

int main(void)
{
    struct model_dir d;
    model_dir_init(&d);
    for (int i = 0; i < LORA_TARGETS; i++)
        ok(adapter_target_word((enum lora_target)(1 << i))[0] != '\0', "%s",
           adapter_target_word((enum lora_target)(1 << i)));
    is_str(adapter_target_word(LORA_GATE), "gate_proj", "a word");
    test_read(&d);
    test_rslora(&d);
    test_expression(&d);
    test_refused(&d);
    test_write(&d);
    test_failures(&d);
    model_dir_clear(&d);
    return tap_done();
}
