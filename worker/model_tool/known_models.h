/* known_models.h - shapes of well-known models, for use without their files. */
#ifndef MGPU_WORKER_MODEL_TOOL_KNOWN_MODELS_H
#define MGPU_WORKER_MODEL_TOOL_KNOWN_MODELS_H

#include "worker/llm/config/llama_config.h"

/* err  ERR_USAGE no such name; all are listed */
int known_model_find(const char *name, struct llama_config *ret,
                     struct error *err) MUST_CHECK;

#endif
