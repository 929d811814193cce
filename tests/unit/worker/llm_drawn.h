/* llm_drawn.h - a model directory that a test draws. */
#ifndef MGPU_TESTS_LLM_DRAWN_H
#define MGPU_TESTS_LLM_DRAWN_H

#include <stdio.h>
#include <unistd.h>

#include "tests/unit/worker/llm_rig.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/llm/llama_shape.h"

/* Value i of tensor k; asked for in the order of the file. */
typedef double llm_value(const struct llama_tensor *t, int32_t k, int64_t i);

static inline FILE *llm_create_file(const char *dir, const char *name)
{
    char path[4200];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL)
        exit(1);
    return f;
}

static inline void llm_write_config(const char *dir,
                                    const struct llama_config *c)
{
    FILE *f = llm_create_file(dir, "config.json");
    (void)fprintf(f,
                  "{\"architectures\": [\"%s\"], \"model_type\": \"%s\", "
                  "\"vocab_size\": %d, \"hidden_size\": %d, "
                  "\"intermediate_size\": %d, \"num_hidden_layers\": %d, "
                  "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
                  "\"head_dim\": %d, \"max_position_embeddings\": %d, "
                  "\"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, "
                  "\"tie_word_embeddings\": %s, \"attention_bias\": %s, "
                  "\"mlp_bias\": %s}\n",
                  llama_arch(c->arch)->architecture, llama_arch(c->arch)->type,
                  c->vocab, c->hidden, c->ffn, c->layers, c->heads, c->kv_heads,
                  c->head_dim, c->max_positions, c->tied ? "true" : "false",
                  c->biases & 1u << PRODUCT_O ? "true" : "false",
                  c->biases & 1u << PRODUCT_DOWN ? "true" : "false");
    (void)fclose(f);
}

static inline void llm_write_model(const char *dir,
                                   const struct llama_config *c,
                                   llm_value *value)
{
    struct error err = ERROR_INIT;
    struct llama_shape s;
    struct llama_tensor t;
    struct st_writer w;
    must(llama_shape_init(&s, c, true, 0, 0, 0, &err), &err);
    FILE *f = llm_create_file(dir, "model.safetensors");
    safetensors_writer_init(&w, fileno(f));
    must(safetensors_declare_format(&w, "pt", &err), &err);
    for (int32_t k = 0; k < llama_weight_count(&s); k++) {
        llama_weight(&s, k, &t);
        const int64_t shape[2] = {t.shape[0], t.shape[1]};
        must(safetensors_declare(&w, t.name, ST_F64, shape, t.dims, &err),
             &err);
    }
    must(safetensors_begin(&w, &err), &err);
    for (int32_t k = 0; k < llama_weight_count(&s); k++) {
        llama_weight(&s, k, &t);
        for (int64_t i = 0; i < t.n; i++) {
            const double v = value(&t, k, i);
            must(st_write(&w, &v, sizeof(v), &err), &err);
        }
    }
    must(safetensors_end(&w, &err), &err);
    safetensors_writer_clear(&w);
    (void)fclose(f);
    llm_write_config(dir, c);
}

static inline void llm_remove_model(const char *dir)
{
    static const char *const files[] = {"model.safetensors", "config.json"};
    char path[4200];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

#endif
