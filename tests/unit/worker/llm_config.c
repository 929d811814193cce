/* llm_config.c - config.json of a Llama: what is read, what is refused and with
 * which words, and the frequencies that follow from it. */
#include "worker/llm/config/llama_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "worker/llm/config/llama_rope.h"

/* A complete file; tests replace a part of it. */
static const char base[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
    "\"hidden_size\":64,\"intermediate_size\":172,\"num_hidden_layers\":5,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,"
    "\"vocab_size\":512,\"max_position_embeddings\":300,"
    "\"rms_norm_eps\":1e-05,\"rope_theta\":5000.0,\"rope_scaling\":null,"
    "\"hidden_act\":\"silu\",\"tie_word_embeddings\":true,"
    "\"attention_bias\":false,\"mlp_bias\":false,\"bos_token_id\":1,"
    "\"eos_token_id\":2,\"pad_token_id\":null,\"torch_dtype\":\"float32\"}";

/* base with the text `from` replaced by `to`. */
static void edit(struct buf *b, const char *from, const char *to)
{
    const char *at = strstr(base, from);
    buf_reset(b);
    if (at == NULL || buf_add(b, base, (size_t)(at - base), NULL) < 0 ||
        buf_addstr(b, to, NULL) < 0 ||
        buf_addstr(b, at + strlen(from), NULL) < 0)
        abort();
}

/* base with `to` for `from` is read. */
static bool parse(const char *from, const char *to, struct llama_config *ret)
{
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    edit(&b, from, to);
    int rc = llama_config_parse(buf_str(&b), b.len, ret, &err);
    buf_clear(&b);
    return ok(rc == 0, "'%s' for '%s' is read: %s", to, from, err.msg);
}

/* It is refused, with both words, and *ret is not touched. */
static void refused(const char *from, const char *to, const char *w1,
                    const char *w2)
{
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    struct llama_config c = {.hidden = 77};
    edit(&b, from, to);
    int rc = llama_config_parse(buf_str(&b), b.len, &c, &err);
    ok(rc < 0 && err.code == ERR_INVAL && strstr(err.msg, w1) != NULL &&
           strstr(err.msg, w2) != NULL && c.hidden == 77,
       "'%s' is refused: %s", to, err.msg);
    buf_clear(&b);
}

static void test_read(void)
{
    struct llama_config c;
    if (!parse("{", "{", &c))
        return;
    ok(c.hidden == 64 && c.ffn == 172 && c.layers == 5 && c.vocab == 512 &&
           c.heads == 8 && c.kv_heads == 4 && c.head_dim == 8 &&
           c.max_positions == 300 && c.norm_eps == 1e-5 &&
           c.rope_theta == 5000 && c.tied && c.scaling.type == ROPE_PLAIN &&
           c.bos_id == 1 && c.eos_id == 2,
       "all values");
    if (parse("\"num_key_value_heads\":4,\"head_dim\":8,", "", &c))
        ok(c.kv_heads == 8 && c.head_dim == 8, "heads that are absent");
    if (parse("\"head_dim\":8", "\"head_dim\":32", &c))
        is_int(c.head_dim, 32, "heads wider than hidden_size");
    if (parse("\"rope_theta\":5000.0,\"rope_scaling\":null,", "", &c))
        ok(c.rope_theta == 10000 && c.scaling.type == ROPE_PLAIN,
           "the default of rope_theta");
    if (parse("\"rope_theta\":5000.0", "\"rope_theta\":500000", &c))
        ok(c.rope_theta == 500000, "an integer for a number");
    if (parse("\"tie_word_embeddings\":true,", "", &c))
        ok(!c.tied, "not tied by default");
    if (parse("\"rms_norm_eps\":1e-05,", "", &c))
        ok(c.norm_eps == 1e-6, "the default of rms_norm_eps");
    if (parse("\"max_position_embeddings\":300,", "", &c))
        is_int(c.max_positions, 2048, "the default of max_position_embeddings");
    if (parse("\"eos_token_id\":2", "\"eos_token_id\":[3,4]", &c))
        is_int(c.eos_id, 3, "the first of a list");
    if (parse("\"eos_token_id\":2", "\"eos_token_id\":[]", &c))
        is_int(c.eos_id, -1, "of an empty list, none");
    if (parse("\"bos_token_id\":1", "\"bos_token_id\":null", &c))
        is_int(c.bos_id, -1, "none");
    (void)parse("\"architectures\":[\"LlamaForCausalLM\"],", "", &c);
    (void)parse("\"mlp_bias\":false,", "\"quantization_config\":null,", &c);
    (void)parse("\"hidden_act\":\"silu\",", "", &c);
    (void)parse("{", "{\"pretraining_tp\":1,\"use_cache\":{\"x\":[1]},", &c);
}

#define LLAMA3                                                       \
    "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4," \
    "\"original_max_position_embeddings\":8192"

static bool is_llama3(const struct llama_config *c)
{
    return c->scaling.type == ROPE_LLAMA3 && c->scaling.factor == 8 &&
           c->scaling.low_freq_factor == 1 &&
           c->scaling.high_freq_factor == 4 &&
           c->scaling.original_max_positions == 8192;
}

static void test_rope(void)
{
    static const char old[] = "\"rope_scaling\":null";
    static const char both[] = "\"rope_theta\":5000.0,\"rope_scaling\":null";
    struct llama_config c;
    if (parse(old, "\"rope_scaling\":{\"rope_type\":\"llama3\"," LLAMA3 "}",
              &c))
        ok(is_llama3(&c) && c.rope_theta == 5000, "rope_type llama3");
    if (parse(old, "\"rope_scaling\":{\"type\":\"llama3\"," LLAMA3 "}", &c))
        ok(is_llama3(&c), "type llama3, of older files");
    if (parse(old, "\"rope_scaling\":{\"rope_type\":\"default\"}", &c))
        ok(c.scaling.type == ROPE_PLAIN, "rope_type default");
    if (parse(both,
              "\"rope_parameters\":{\"rope_theta\":70000.0,"
              "\"rope_type\":\"default\"}",
              &c))
        ok(c.scaling.type == ROPE_PLAIN && c.rope_theta == 70000,
           "rope_parameters");
    if (parse(both,
              "\"rope_parameters\":{\"rope_theta\":70000.0,"
              "\"rope_type\":\"llama3\"," LLAMA3 "}",
              &c))
        ok(is_llama3(&c) && c.rope_theta == 70000, "with llama3");
    if (parse(old, "\"rope_parameters\":{\"rope_type\":\"default\"}", &c))
        ok(c.rope_theta == 5000, "rope_theta beside rope_parameters");

    if (parse(old, "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", &c))
        ok(c.scaling.type == ROPE_LINEAR && c.scaling.factor == 2, "linear");
    if (parse(old, "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}", &c))
        ok(c.scaling.type == ROPE_YARN && c.scaling.beta_fast == 32 &&
               c.scaling.beta_slow == 1 && c.scaling.truncates &&
               c.scaling.original_max_positions == 300 &&
               fabs(c.scaling.attention - 1.0693147180559945) < 1e-15,
           "yarn, and what is not said of it");
    if (parse(old,
              "\"original_max_position_embeddings\":70,\"rope_scaling\":{"
              "\"rope_type\":\"yarn\",\"factor\":2,\"beta_fast\":0,"
              "\"original_max_position_embeddings\":80,\"truncate\":false}",
              &c))
        ok(c.scaling.original_max_positions == 70 &&
               c.scaling.beta_fast == 32 && !c.scaling.truncates,
           "the positions beside it go before its own");
    if (parse(old, "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}", &c))
        is_int(c.max_positions, 600, "yarn reaches as far as its factor says");
    if (parse(old,
              "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2.499,"
              "\"original_max_position_embeddings\":200}",
              &c))
        is_int(c.max_positions, 499, "and from the original positions");
    if (parse(old,
              "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
              "\"original_max_position_embeddings\":70}",
              &c))
        is_int(c.max_positions, 300, "max_position_embeddings may be more");
    if (parse(old,
              "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":1e6,"
              "\"original_max_position_embeddings\":70000}",
              &c))
        is_int(c.max_positions, INT32_MAX, "no more than can be counted");
    if (parse(old, "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", &c))
        is_int(c.max_positions, 300, "of linear, max_position_embeddings");
}

static void test_rope_refused(void)
{
    static const char old[] = "\"rope_scaling\":null";
    static const char both[] = "\"rope_theta\":5000.0,\"rope_scaling\":null";
    refused(old, "\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2}",
            "rope_scaling: rope_type", "\"longrope\"");
    refused(old, "\"rope_scaling\":{\"type\":\"linear\"}", "factor", "missing");
    refused(old, "\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":0.5}",
            "factor", "not 0.5");
    refused(old,
            "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,"
            "\"truncate\":1}",
            "truncate", "not 1");
    refused(both,
            "\"rope_theta\":1,\"rope_scaling\":{\"type\":\"yarn\","
            "\"factor\":2}",
            "rope_theta", "yarn");
    refused(old, "\"rope_scaling\":{\"type\":7}", "rope_type", "not 7");
    refused(old, "\"rope_scaling\":{\"factor\":2}", "rope_type", "missing");
    refused(old, "\"rope_scaling\":\"llama3\"", "rope_scaling", "object");
    refused(old, "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}",
            "low_freq_factor", "missing");
    refused(old,
            "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":0.5,"
            "\"low_freq_factor\":1,\"high_freq_factor\":4,"
            "\"original_max_position_embeddings\":8192}",
            "factor must be", "not 0.5");
    refused(old,
            "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,"
            "\"low_freq_factor\":4,\"high_freq_factor\":4,"
            "\"original_max_position_embeddings\":8192}",
            "high_freq_factor 4", "above low_freq_factor 4");
    refused(old,
            "\"rope_scaling\":{\"type\":\"linear\"},\"rope_parameters\":{}",
            "both", "remove one");
    refused(old,
            "\"rope_parameters\":{\"rope_type\":\"default\","
            "\"partial_rotary_factor\":0.5}",
            "partial_rotary_factor", "0.5");
    refused(both,
            "\"rope_parameters\":{\"full_attention\":{\"rope_type\":"
            "\"yarn\",\"factor\":4,\"rope_theta\":1e6}}",
            "rope_parameters.full_attention", "an object");
    refused(old, "\"rope_scaling\":{\"type\":\"default\",\"x\":{}}",
            "rope_scaling.x", "an object");
    refused(both, "\"rope_parameters\":{\"rope_theta\":\"1e4\"}", "rope_theta",
            "\"1e4\"");
    refused("\"rope_theta\":5000.0", "\"rope_theta\":0", "rope_theta", "not 0");
}

/* tests/golden/archs.py: other scalings, of a longer head. */
static void test_scalings(void)
{
    static const char old[] =
        "\"head_dim\":8,\"vocab_size\":512,\"max_position_embeddings\":300,"
        "\"rms_norm_eps\":1e-05,\"rope_theta\":5000.0,"
        "\"rope_scaling\":null";
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"yarn", "\"rope_theta\":1000000.0,\"rope_scaling\":{\"type\":"
                 "\"yarn\",\"factor\":4,"
                 "\"original_max_position_embeddings\":32768}"},
        {"whole", "\"rope_parameters\":{\"rope_type\":\"yarn\","
                  "\"factor\":8,\"rope_theta\":10000,"
                  "\"original_max_position_embeddings\":4096,"
                  "\"beta_fast\":16,\"beta_slow\":2,\"truncate\":false,"
                  "\"attention_factor\":1.25}"},
        {"scales", "\"rope_theta\":5000,\"rope_scaling\":{\"rope_type\":"
                   "\"yarn\",\"factor\":40,\"mscale\":0.707,"
                   "\"mscale_all_dim\":1}"},
        {"linear", "\"rope_parameters\":{\"rope_type\":\"linear\","
                   "\"factor\":4,\"rope_theta\":10000}"},
        {"dynamic", "\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"},
        {"llama3", "\"rope_parameters\":{\"rope_theta\":500000,"
                   "\"rope_type\":\"llama3\"," LLAMA3 "}"},
    };
    struct golden g;
    golden_open(&g, "tests/golden/archs.txt");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct llama_config c;
        char to[600], line[40];
        double got[33];
        size_t n = 0;
        (void)snprintf(to, sizeof(to),
                       "\"head_dim\":64,\"vocab_size\":512,"
                       "\"max_position_embeddings\":32768,%s",
                       cases[i].text);
        (void)snprintf(line, sizeof(line), "rope %s", cases[i].name);
        double *want = golden_get(&g, line, &n);
        if (parse(old, to, &c)) {
            got[0] = llama_rope_factor(&c);
            llama_frequencies(&c, got + 1);
            ok(n == 33 && golden_error(got, want, n) < 1e-14,
               "%s: factor and frequencies", cases[i].name);
        }
        free(want);
    }
    golden_close(&g);
}

static void test_refused(void)
{
    static const char arch[] = "\"architectures\":[\"LlamaForCausalLM\"]";
    refused(arch, "\"architectures\":[\"Gemma2ForCausalLM\"]",
            "Gemma2ForCausalLM: this version trains LlamaForCausalLM, "
            "Qwen2ForCausalLM, Qwen3ForCausalLM, MistralForCausalLM",
            "config.json");
    refused(arch, "\"architectures\":[]", "architectures", "LlamaForCausalLM");
    refused(arch, "\"architectures\":\"LlamaForCausalLM\"", "list",
            "LlamaForCausalLM");
    refused(arch, "\"architectures\":[\"LlamaForCausalLM\",\"Other\"]",
            "several", "LlamaForCausalLM");
    refused("\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\"",
            "\"model_type\":\"gemma2\"", "gemma2", "LlamaForCausalLM");
    refused("\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\"",
            "\"x\":1", "architectures", "LlamaForCausalLM");
    refused("\"mlp_bias\":false", "\"mlp_bias\":\"no\"", "mlp_bias", "\"no\"");
    refused("\"hidden_act\":\"silu\"", "\"hidden_act\":\"gelu\"", "hidden_act",
            "\"gelu\"");
    refused("\"hidden_act\":\"silu\"", "\"hidden_act\":7", "hidden_act",
            "not 7");
    refused("{", "{\"quantization_config\":{\"bits\":4},",
            "quantization_config", "float");
    refused("{", "{\"partial_rotary_factor\":0.25,", "partial_rotary_factor",
            "0.25");
}

/* base as a Qwen2, with more keys. */
#define QWEN2(more) "\"architectures\":[\"Qwen2ForCausalLM\"]," more
#define MISTRAL(more) "\"architectures\":[\"MistralForCausalLM\"]," more
#define FULL "\"full_attention\","
#define SLIDING "\"sliding_attention\","
static bool parse_qwen2(const char *to, struct llama_config *ret)
{
    return parse("\"architectures\":[\"LlamaForCausalLM\"],", to, ret);
}

static void test_architectures(void)
{
    const uint32_t qkv = 1u << PRODUCT_QKV, o = 1u << PRODUCT_O,
                   mlp = 1u << PRODUCT_GATE_UP | 1u << PRODUCT_DOWN;
    struct llama_config c;
    if (parse("{", "{\"sliding_window\":16,", &c))
        ok(c.arch == ARCH_LLAMA && c.biases == 0 && c.window == 0,
           "a Llama has neither biases nor a window");
    if (parse("\"attention_bias\":false", "\"attention_bias\":true", &c))
        ok(c.biases == (qkv | o), "attention_bias");
    if (parse("\"mlp_bias\":false", "\"mlp_bias\":true", &c))
        ok(c.biases == mlp, "mlp_bias");
    if (parse_qwen2(QWEN2(""), &c))
        ok(c.arch == ARCH_QWEN2 && c.biases == qkv && c.window == 0,
           "Qwen2 has biases of q, k and v, and no window by default");
    if (parse("\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":"
              "\"llama\"",
              "\"model_type\":\"qwen2\",\"qkv_bias\":7", &c))
        ok(c.arch == ARCH_QWEN2 && c.biases == qkv,
           "by its model_type; no key controls its biases");
    if (parse_qwen2(QWEN2("\"use_sliding_window\":true,"
                          "\"sliding_window\":16,\"max_window_layers\":4,"),
                    &c))
        ok(llama_config_window(&c, 3) == 0 && llama_config_window(&c, 4) == 16,
           "the last of five layers has a window");
    if (parse_qwen2(QWEN2("\"use_sliding_window\":true,"
                          "\"sliding_window\":16,\"max_window_layers\":5,"),
                    &c))
        is_int(c.window, 0, "no layer has one");
    if (parse_qwen2(QWEN2("\"use_sliding_window\":true,"
                          "\"max_window_layers\":0,\"layer_types\":[" FULL FULL
                              FULL FULL "\"full_attention\"],"),
                    &c))
        is_int(c.window, 0, "layer_types have the last word");
    if (parse_qwen2(QWEN2("\"use_sliding_window\":true,"
                          "\"layer_types\":[" FULL SLIDING FULL SLIDING
                          "\"full_attention\"],"),
                    &c))
        ok(llama_config_window(&c, 3) == 4096 && c.windowed[0] == 10,
           "and a window of the default length");
    if (parse_qwen2(QWEN2("\"use_sliding_window\":false,"
                          "\"sliding_window\":16,\"max_window_layers\":0,"),
                    &c))
        is_int(c.window, 0, "a window that is not used");
    static const char arch[] = "\"architectures\":[\"LlamaForCausalLM\"],";
    if (parse(arch, MISTRAL(""), &c))
        ok(c.arch == ARCH_MISTRAL && c.biases == 0 && !c.head_norms &&
               c.window == 4096,
           "Mistral has a window by default");
    if (parse(arch, MISTRAL("\"sliding_window\":null,"), &c))
        is_int(c.window, 0, "or none");
    if (parse(arch,
              MISTRAL("\"sliding_window\":16,\"use_sliding_window\":false,"
                      "\"max_window_layers\":9,"
                      "\"layer_types\":[\"full_attention\"],"),
              &c))
        ok(llama_config_window(&c, 0) == 16 && llama_config_window(&c, 4) == 16,
           "in every layer");
    refused(arch,
            QWEN2("\"use_sliding_window\":true,\"max_window_layers\":0,"
                  "\"sliding_window\":0,"),
            "sliding_window", "not 0");
    refused(arch,
            QWEN2("\"use_sliding_window\":true,\"layer_types\":[" FULL
                  "\"sliding_attention\"],"),
            "layer_types", "num_hidden_layers 5");
    refused(arch,
            QWEN2("\"use_sliding_window\":true,\"layer_types\":[" FULL FULL FULL
                      FULL "\"linear_attention\"],"),
            "layer 4", "not \"linear_attention\"");
    refused("\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":"
            "\"llama\",\"hidden_size\":64,\"intermediate_size\":172,"
            "\"num_hidden_layers\":5,\"num_attention_heads\":8,"
            "\"num_key_value_heads\":4",
            "\"model_type\":\"qwen2\",\"hidden_size\":64,"
            "\"intermediate_size\":172,\"num_hidden_layers\":5,"
            "\"num_attention_heads\":8",
            "num_attention_heads 8", "num_key_value_heads 32");
}

static void test_qwen3(void)
{
#define QWEN3(more)                                                         \
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_size\":64,"         \
    "\"intermediate_size\":172,\"num_hidden_layers\":5,"                    \
    "\"num_attention_heads\":32,\"vocab_size\":512,\"mlp_bias\":true," more \
    "\"rope_theta\":5000.0}"
    static const char plain[] = QWEN3(""),
                      other[] = QWEN3("\"attention_bias\":true,"
                                      "\"num_key_value_heads\":4,"
                                      "\"head_dim\":16,");
    struct llama_config c;
    struct error err = ERROR_INIT;
    if (ok(llama_config_parse(plain, strlen(plain), &c, &err) == 0, "a Qwen3"))
        ok(c.arch == ARCH_QWEN3 && c.head_norms && c.biases == 0 &&
               c.kv_heads == 32 && c.head_dim == 128 && c.window == 0 &&
               c.max_positions == 32768,
           "it has norms of heads of 128, and neither biases nor a window");
    if (ok(llama_config_parse(other, strlen(other), &c, &err) == 0, "another"))
        ok(c.biases == (1u << PRODUCT_QKV | 1u << PRODUCT_O) &&
               c.kv_heads == 4 && c.head_dim == 16,
           "but biases of attention, where a key says so");
#undef QWEN3
}

static void test_values(void)
{
    static const struct {
        const char *from, *key;
    } needed[] = {
        {"\"hidden_size\":64,", "hidden_size"},
        {"\"intermediate_size\":172,", "intermediate_size"},
        {"\"num_hidden_layers\":5,", "num_hidden_layers"},
        {"\"num_attention_heads\":8,", "num_attention_heads"},
        {"\"vocab_size\":512,", "vocab_size"},
    };
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        char to[64];
        refused(needed[i].from, "", needed[i].key, "missing");
        (void)snprintf(to, sizeof(to), "\"%s\":0,", needed[i].key);
        refused(needed[i].from, to, needed[i].key, "not 0");
        (void)snprintf(to, sizeof(to), "\"%s\":9999999999,", needed[i].key);
        refused(needed[i].from, to, needed[i].key, "not 9999999999");
        (void)snprintf(to, sizeof(to), "\"%s\":\"8\",", needed[i].key);
        refused(needed[i].from, to, needed[i].key, "not \"8\"");
        (void)snprintf(to, sizeof(to), "\"%s\":8.5,", needed[i].key);
        refused(needed[i].from, to, needed[i].key, "not 8.5");
    }
    refused("\"num_key_value_heads\":4", "\"num_key_value_heads\":3",
            "num_attention_heads 8", "num_key_value_heads 3");
    refused("\"hidden_size\":64,\"intermediate_size\":172,\"num_hidden_layers\""
            ":5,\"num_attention_heads\":8,\"num_key_value_heads\":4,"
            "\"head_dim\":8",
            "\"hidden_size\":65,\"intermediate_size\":172,\"num_hidden_layers\""
            ":5,\"num_attention_heads\":8",
            "hidden_size 65", "head_dim");
    refused("\"head_dim\":8", "\"head_dim\":7", "head_dim", "even");
    refused("\"num_attention_heads\":8,\"num_key_value_heads\":4,"
            "\"head_dim\":8",
            "\"num_attention_heads\":65536,\"num_key_value_heads\":4,"
            "\"head_dim\":65536",
            "num_attention_heads 65536 times head_dim 65536", "1048576");
    refused("\"rms_norm_eps\":1e-05", "\"rms_norm_eps\":0", "rms_norm_eps",
            "not 0");
    refused("\"rms_norm_eps\":1e-05", "\"rms_norm_eps\":\"1e-05\"",
            "rms_norm_eps", "\"1e-05\"");
    refused("\"eos_token_id\":2", "\"eos_token_id\":512", "eos_token_id",
            "511");
    refused("\"bos_token_id\":1", "\"bos_token_id\":[\"<s>\"]", "bos_token_id",
            "<s>");
    refused("{", "{\"vocab_size\":1,", "config.json: line 1", "");
    refused("{", "[", "config.json: line 1", "");
    refused(base, "[]", "config.json", "not an object");
    refused(base, "", "config.json", "line");
    refused(base, "{\"architectures\":[\"LlamaFor", "config.json", "line");
}

static void test_file(void)
{
    char dir[] = "/tmp/mgpu-config.XXXXXX", path[64];
    struct llama_config c = {.hidden = 77};
    struct error err = ERROR_INIT;
    if (mkdtemp(dir) == NULL)
        abort();
    (void)snprintf(path, sizeof(path), "%s/config.json", dir);
    is_int(llama_config_read(dir, &c, &err), -1, "no file");
    ok(err.code == ERR_NOTFOUND && strstr(err.msg, path) != NULL, "%s",
       err.msg);
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs("{}", f) < 0 || fclose(f) != 0)
        abort();
    is_int(llama_config_read(dir, &c, &err), -1, "an empty object");
    ok(err.code == ERR_INVAL && strstr(err.msg, dir) != NULL, "%s", err.msg);
    f = fopen(path, "w");
    if (f == NULL || fputs(base, f) < 0 || fclose(f) != 0)
        abort();
    ok(llama_config_read(dir, &c, &err) == 0 && c.hidden == 64, "read: %s",
       err.msg);
    (void)unlink(path);
    (void)rmdir(dir);
}

/* ---- frequencies --------------------------------------------------------- */

/* From the wave lengths, as the formula is published, in long double. */
static long double frequency(const struct llama_config *c, int32_t i)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    long double f = powl((long double)c->rope_theta,
                         -2.0L * (long double)i / (long double)c->head_dim);
    if (c->scaling.type == ROPE_PLAIN)
        return f;
    long double old = (long double)c->scaling.original_max_positions;
    long double length = 2 * pi / f;
    long double low = (long double)c->scaling.low_freq_factor;
    long double high = (long double)c->scaling.high_freq_factor;
    if (length < old / high)
        return f;
    if (length > old / low)
        return f / (long double)c->scaling.factor;
    long double s = (old / length - low) / (high - low);
    return (1 - s) * f / (long double)c->scaling.factor + s * f;
}

static void agrees(const struct llama_config *c, const char *what)
{
    double got[128];
    long double worst = 0;
    int kept = 0, slowed = 0;
    llama_frequencies(c, got);
    for (int32_t i = 0; i < c->head_dim / 2; i++) {
        long double want = frequency(c, i);
        long double off = fabsl((long double)got[i] - want) / want;
        worst = off > worst ? off : worst;
        double plain = pow(c->rope_theta, -2.0 * i / c->head_dim);
        kept += got[i] == plain;
        slowed += got[i] == plain / c->scaling.factor;
    }
    ok(worst < 1e-14L, "%s: off by %Lg", what, worst);
    if (c->scaling.type != ROPE_PLAIN)
        ok(kept > 0 && slowed > 0 && kept + slowed < c->head_dim / 2,
           "%s: %d kept, %d slowed, some between", what, kept, slowed);
}

/* Against tests/golden/llama_rope.py. */
static void matches(const struct llama_config *c, const struct golden *g,
                    const char *name)
{
    double got[128], off = 0;
    size_t n = 0;
    double *want = golden_get(g, name, &n);
    llama_frequencies(c, got);
    is_int((long long)n, c->head_dim / 2, "a value for each pair");
    for (size_t i = 0; i < n; i++)
        off = fmax(off, fabs(got[i] / want[i] - 1));
    ok(off < 1e-14, "%s: off by %g of the golden values", name, off);
    free(want);
}

static void test_frequencies(void)
{
    struct llama_config c = {.head_dim = 128,
                             .rope_theta = 500000,
                             .scaling = {.type = ROPE_LLAMA3,
                                         .factor = 8,
                                         .low_freq_factor = 1,
                                         .high_freq_factor = 4,
                                         .original_max_positions = 8192}};
    struct golden g;
    double got[64];
    golden_open(&g, "tests/golden/llama_rope.txt");
    agrees(&c, "Llama 3.1 8B");
    matches(&c, &g, "llama31_8b");
    c.head_dim = 64;
    c.scaling.factor = 32;
    agrees(&c, "Llama 3.2 1B");
    matches(&c, &g, "llama32_1b");
    c.head_dim = 128;
    c.scaling.type = ROPE_PLAIN;
    agrees(&c, "Llama 3");
    matches(&c, &g, "llama3_8b");
    c.rope_theta = 10000;
    matches(&c, &g, "llama2_7b");
    c.head_dim = 8;
    agrees(&c, "stories260K");
    llama_frequencies(&c, got);
    ok(got[0] == 1 && fabs(got[1] - 0.1) < 1e-16 &&
           fabs(got[2] - 0.01) < 1e-17 && fabs(got[3] - 0.001) < 1e-18,
       "10^0 to 10^-3");
    golden_close(&g);
}

int main(void)
{
    test_read();
    test_rope();
    test_rope_refused();
    test_scalings();
    test_refused();
    test_architectures();
    test_qwen3();
    test_values();
    test_file();
    test_frequencies();
    return tap_done();
}
