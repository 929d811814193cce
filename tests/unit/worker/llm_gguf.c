/* llm_gguf.c - values of a GGUF file, and the memory that an export takes.
 *
 * tests/golden/gguf_check.py compares whole files with the package gguf, by
 * hand; tests/cli/model.bats has the bytes of small ones. */
#include "worker/llm/gguf/gguf_export.h"

#include <math.h>
#include <sys/resource.h>

#include "jobs/base/buf.h"
#include "kernels/exec/half.h"
#include "tests/slow.h"
#include "tests/tap.h"
#include "tests/unit/worker/llm_files.h"

/* ---- values -------------------------------------------------------------- */

enum { BLOCK = GGUF_Q8_BLOCK, BLOCK_BYTES = 34 };

/* A block whose largest magnitude is 127 has the scale 1. */
static void test_ties(void)
{
    float x[BLOCK] = {127, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, 0.49f, -127};
    const int8_t want[BLOCK] = {127, 1, -1, 2, -2, 3, 0, -127};
    unsigned char out[BLOCK_BYTES];
    ok(gguf_values_encode(GGUF_Q8_0, x, BLOCK, out) && out[0] == 0x00 &&
           out[1] == 0x3c,
       "the scale is 1 in fp16, little endian");
    ok(memcmp(out + 2, want, BLOCK) == 0, "ties are rounded away from zero");
}

/* 0.3 / 127 in float, rounded to fp16 for the file, but not for the quotient.
 */
static void test_scale(void)
{
    float x[BLOCK] = {0.3f, 0.1f, -0.2f};
    unsigned char out[BLOCK_BYTES];
    const uint16_t scale = f16_of_float(0.3f / 127);
    (void)gguf_values_encode(GGUF_Q8_0, x, BLOCK, out);
    ok(out[0] == (scale & 0xff) && out[1] == scale >> 8 &&
           (int8_t)out[2] == 127 && (int8_t)out[3] == 42 &&
           (int8_t)out[4] == -85,
       "a scale is the largest magnitude / 127");
}

static void test_small(void)
{
    float x[BLOCK] = {0}, tiny[BLOCK] = {1e-40f, -1e-40f};
    const unsigned char zeros[BLOCK_BYTES] = {0};
    unsigned char out[BLOCK_BYTES];
    ok(gguf_values_encode(GGUF_Q8_0, x, BLOCK, out) &&
           memcmp(out, zeros, BLOCK_BYTES) == 0,
       "zeros are zeros");
    ok(gguf_values_encode(GGUF_Q8_0, tiny, BLOCK, out) &&
           memcmp(out, zeros, BLOCK_BYTES) == 0,
       "values whose scale has no inverse are zeros");
}

static void test_large(void)
{
    float x[BLOCK] = {65504}, over[BLOCK] = {65520};
    float most[BLOCK] = {65504 * 127.f}, past[BLOCK] = {65520 * 127.f};
    float wide[BLOCK] = {3.4e38f};
    unsigned char out[4 * BLOCK];
    ok(gguf_values_encode(GGUF_F16, x, BLOCK, out) &&
           !gguf_values_encode(GGUF_F16, over, BLOCK, out),
       "f16 has 65504, and not 65520");
    ok(gguf_values_encode(GGUF_Q8_0, most, BLOCK, out) &&
           !gguf_values_encode(GGUF_Q8_0, past, BLOCK, out),
       "q8_0 has as many times 127");
    ok(gguf_values_encode(GGUF_BF16, over, BLOCK, out) &&
           !gguf_values_encode(GGUF_BF16, wide, BLOCK, out),
       "bf16 has more, and not 3.4e38, which is nearer to infinity");
    ok(gguf_values_bytes(GGUF_Q8_0, 64) == 68 &&
           gguf_values_bytes(GGUF_BF16, 64) == 128 &&
           gguf_values_bytes(GGUF_F32, 64) == 256,
       "bytes of 64 values");
}

/* ---- memory -------------------------------------------------------------- */

enum { HIDDEN = 32, FFN = 1 << 19, HEADS = 2, VOCAB = 64 };

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 32,"
    "\"intermediate_size\": 524288, \"num_hidden_layers\": 1,"
    "\"num_attention_heads\": 2, \"vocab_size\": 64,"
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true}";
static const char tokenizer[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": "
    "2},"
    "\"merges\": [[\"a\", \"b\"]]}, \"added_tokens\": [],"
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
    "false}}";

/* A file of zeros that takes no room: 96 MiB in the MLP's three. */
static void put_weights(const struct model_dir *d)
{
    static const struct {
        const char *name;
        int64_t rows, cols; /* cols 0: a vector */
    } t[] = {{"embed_tokens", VOCAB, HIDDEN},
             {"layers.0.input_layernorm", HIDDEN, 0},
             {"layers.0.self_attn.q_proj", HIDDEN, HIDDEN},
             {"layers.0.self_attn.k_proj", HIDDEN, HIDDEN},
             {"layers.0.self_attn.v_proj", HIDDEN, HIDDEN},
             {"layers.0.self_attn.o_proj", HIDDEN, HIDDEN},
             {"layers.0.post_attention_layernorm", HIDDEN, 0},
             {"layers.0.mlp.gate_proj", FFN, HIDDEN},
             {"layers.0.mlp.up_proj", FFN, HIDDEN},
             {"layers.0.mlp.down_proj", HIDDEN, FFN},
             {"norm", HIDDEN, 0}};
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    char path[512];
    int64_t at = 0;
    int rc = buf_addstr(&b, "12345678{", &err);
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]) && rc == 0; i++) {
        const int64_t bytes = 2 * t[i].rows * (t[i].cols > 0 ? t[i].cols : 1);
        char cols[32] = "";
        if (t[i].cols > 0)
            (void)snprintf(cols, sizeof(cols), ",%lld", (long long)t[i].cols);
        rc = buf_addf(&b, &err,
                      "%s\"model.%s.weight\":{\"dtype\":\"BF16\",\"shape\":"
                      "[%lld%s],\"data_offsets\":[%lld,%lld]}",
                      i > 0 ? "," : "", t[i].name, (long long)t[i].rows, cols,
                      (long long)at, (long long)(at + bytes));
        at += bytes;
    }
    if (rc < 0 || buf_addstr(&b, "}", &err) < 0)
        abort();
    const uint64_t n = b.len - 8;
    memcpy(b.data, &n, sizeof(n));
    model_dir_put(d, "model.safetensors", b.data, b.len);
    if (truncate(model_dir_file(d, "model.safetensors", path),
                 (off_t)(b.len + (size_t)at)) < 0)
        abort();
    buf_clear(&b);
}

static long most_kib(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static void test_memory(void)
{
    struct error err = ERROR_INIT;
    struct gguf_exported g = {.bytes = 0};
    struct model_dir d = {.path = ""};
    char out[512];
    model_dir_init(&d);
    model_dir_text(&d, "config.json", config);
    model_dir_text(&d, "tokenizer.json", tokenizer);
    put_weights(&d);
    const struct gguf_export conf = {.dir = d.path,
                                     .out = model_dir_file(&d, "out.gguf", out),
                                     .type = GGUF_Q8_0};
    const long before = most_kib();
    ok(gguf_export(&conf, &g, &err) == 0 && g.tensors == 11,
       "a model of 96 MiB is exported: %s", err.msg);
    const long more = most_kib() - before;
    if (!is_slow) /* a sanitizer has memory of its own */
        ok(more < 48 * 1024, "in less than half of that: %ld KiB", more);
    model_dir_empty(&d);
    (void)rmdir(d.path);
}

int main(void)
{
    test_ties();
    test_scale();
    test_small();
    test_large();
    test_memory();
    return tap_done();
}
