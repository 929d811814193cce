/* adapter_file.h - LoRA adapters as PEFT's files: adapter_config.json and
 * adapter_model.safetensors.
 *
 * Names are PEFT's: "base_model.model.model.layers.0.self_attn.q_proj.lora_A.
 * weight" [rank, in] and "...lora_B.weight" [out, rank]; of the output layer
 * "base_model.model.lm_head.lora_A.weight".
 */
#ifndef MGPU_WORKER_LLM_FILES_ADAPTER_FILE_H
#define MGPU_WORKER_LLM_FILES_ADAPTER_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/checkpoint/safetensors.h"

/* Linears that may have an adapter; a bit each. */
enum lora_target {
    LORA_Q = 1,
    LORA_K = 2,
    LORA_V = 4,
    LORA_O = 8,
    LORA_GATE = 16,
    LORA_UP = 32,
    LORA_DOWN = 64,
    LORA_OUTPUT = 128 /* lm_head */
};
enum { LORA_TARGETS = 8 };
/* The number of its bit, and PEFT's word: "q_proj" ... "down_proj",
 * "lm_head". */
int adapter_target_index(enum lora_target t);
const char *adapter_target_word(enum lora_target t);

extern const char adapter_config_name[]; /* of the file */
enum { ADAPTER_CONFIG_MAX = 1 << 20 };   /* its bytes */

enum { ADAPTER_QUANTIZER_CAP = 16 };
struct adapter_config {
    int32_t rank;
    double alpha; /* B A is multiplied by alpha / rank, also with rslora */
    double dropout;
    uint32_t targets; /* bits of enum lora_target */
    /* How the base was stored when the adapter was trained: "nf4", or ""
     * without a quantizer. A key of ours, "mgpu_base_quantizer"; PEFT warns of
     * it. */
    char quantizer[ADAPTER_QUANTIZER_CAP];
    /* For writing: an object of keys that are written as they are in it, as in
     * struct adapter_ranks; NULL: none. Borrowed. */
    const char *keys;
};

/* The text of an adapter_config.json.
 * out  ret  targets 0: an expression says which. rank and alpha are those
 *           without a pattern, targets those of any layer: adapter_ranks.h
 *           has what differs
 * err  ERR_INVAL not JSON, or not an adapter of ours: another peft_type,
 * use_dora, bias, unknown target_modules: named */
int adapter_config_parse(const char *text, size_t len,
                         struct adapter_config *ret,
                         struct error *err) MUST_CHECK;
/* Reads the one of a directory, and where an expression says which linears
 * have adapters, the names of its tensors.
 * err  as above; those of adapter_open(); ERR_NOTFOUND, ERR_IO */
int adapter_config_read(const char *dir, struct adapter_config *ret,
                        struct error *err) MUST_CHECK;

/* The tensors, mapped. Names as above.
 * err  as safetensors_open() */
int adapter_open(const char *dir, struct safetensors *ret,
                 struct error *err) MUST_CHECK;

/* Writes both files into dir, which exists: each under a temporary name
 * first, so that no reader meets half of one.
 * in   base   for base_model_name_or_path
 *      each   calls take() for every tensor, in the order of the file; it is
 *             called twice: once to declare, once to write */
struct adapter_tensor {
    const char *name;
    enum st_type type;
    int64_t shape[2];
    const void *data; /* host */
};
int adapter_write(const char *dir, const struct adapter_config *c,
                  const char *base,
                  int (*each)(void *arg,
                              int (*take)(void *to,
                                          const struct adapter_tensor *t,
                                          struct error *err),
                              void *to, struct error *err),
                  void *arg, struct error *err) MUST_CHECK;
/* Writes adapter_config.json alone, beside tensors that are there. */
int adapter_write_config(const char *dir, const struct adapter_config *c,
                         const char *base, struct error *err) MUST_CHECK;

#endif
