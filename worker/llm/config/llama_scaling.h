/* llama_scaling.h - how a model's rotation is changed for more positions than
 * it was trained with first. */
#ifndef MGPU_WORKER_LLM_CONFIG_LLAMA_SCALING_H
#define MGPU_WORKER_LLM_CONFIG_LLAMA_SCALING_H

#include <stdbool.h>
#include <stdint.h>

/* rope_type of config.json. Dynamic is plain within max_position_embeddings:
 * beyond, frequencies depend on the rows that came before. */
enum llama_scaling_type {
    ROPE_PLAIN,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_YARN,
    ROPE_LLAMA3,
    ROPE_TYPES
};

struct llama_scaling {
    enum llama_scaling_type type;
    double factor;                            /* of all but plain */
    double low_freq_factor, high_freq_factor; /* of llama3 */
    double beta_fast, beta_slow, attention;   /* of yarn */
    bool truncates;                           /* of yarn */
    int32_t original_max_positions;           /* of llama3 and yarn */
};

#endif
