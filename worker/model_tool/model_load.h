/* model_load.h - a model that answers: its device, its weights and the tokens
 * that end an answer. */
#ifndef MGPU_WORKER_MODEL_TOOL_MODEL_LOAD_H
#define MGPU_WORKER_MODEL_TOOL_MODEL_LOAD_H

#include "worker/data/tokenizer/tokenizer.h"
#include "worker/llm/llama.h"
#include "worker/llm/llama_ends.h"
#include "worker/model_tool/args.h"

struct model_load {
    struct llama_conf conf;
    struct llama_ends ends; /* of its files alone */
    struct device *dev;     /* NULL: not open */
    struct model *model;
};

/* Reads what the model in `dir` is, with the adapter of the options; its
 * weights are not read.
 * out  ret  end it with model_load_clear(), also when it fails
 * err  those of llama_read_dir(), llama_conf_adapter(), llama_ends_read() */
int model_load_read(struct model_load *ret, const struct model_args *args,
                    const char *dir, struct error *err) MUST_CHECK;

/* What ends an answer in the format that it has (chat_format_answer_end()). */
void model_load_ends(struct model_load *l, enum spec_prompt format,
                     const struct tokenizer *t);

/* Opens the device of the options and loads the weights.
 * in   tokens  room for so many, of a prompt and its answer; those that are
 *              more than the model's positions do not count
 * err  ERR_USAGE no such device; ERR_UNAVAIL, ERR_DEVICE; those of
 *      llama_create() */
int model_load_open(struct model_load *l, const struct model_args *args,
                    int64_t tokens, struct error *err) MUST_CHECK;

/* How an answer is made, as the options say, greedy without any. */
struct llama_choice model_load_choice(const struct model_load *l,
                                      const struct model_args *args);

void model_load_clear(struct model_load *l); /* zeroed is fine */

#endif
