/* model_load.c - see model_load.h. */
#include "worker/model_tool/model_load.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/text/chat_format.h"
#include "worker/llm/llama_check.h"
#include "worker/model_call.h"

/* The cores that we may use; 0: as OMP_NUM_THREADS says. */
static int32_t host_threads(void)
{
    cpu_set_t set;
    if (getenv("OMP_NUM_THREADS") != NULL)
        return 0;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    return CPU_COUNT(&set) > 1 ? CPU_COUNT(&set) : 1;
}

/* *ret: an enum spec_device */
static int device_word(const char *word, int *ret, struct error *err)
{
    static const char *const words[] = {
        [DEVICE_AUTO] = "auto", [DEVICE_CUDA] = "cuda", [DEVICE_HOST] = "host"};
    for (int i = 0; i < (int)(sizeof(words) / sizeof(words[0])); i++)
        if (word == NULL || strcmp(word, words[i]) == 0) {
            *ret = word == NULL ? DEVICE_AUTO : i;
            return 0;
        }
    return error_set(err, ERR_USAGE,
                     "--device: '%.40s' is not auto, cuda or host", word);
}

/* The first GPU, or with auto the host where there is none. */
static int open_device(int want, struct device **ret, struct error *err)
{
    struct error why = ERROR_INIT;
    int32_t visible = 0;
    if (want != DEVICE_HOST) {
        if (device_cuda_count(&visible, &why) == 0 &&
            device_cuda_create(0, ret, &why) == 0)
            return 0;
        if (want == DEVICE_CUDA || why.code == ERR_DEVICE)
            return error_set(err, why.code, "device cuda: %s", why.msg);
    }
    return device_host_create(host_threads(), ret, err);
}

int model_load_read(struct model_load *ret, const struct model_args *args,
                    const char *dir, struct error *err)
{
    struct llama_conf *c = &ret->conf;
    *ret = (struct model_load){.conf = {.is_full = args->adapter == NULL,
                                        .batch = 1,
                                        .batch_eval = 1,
                                        .generates = true,
                                        .dir = dir,
                                        .adapter = args->adapter}};
    if (llama_read_dir(dir, NULL, &c->shape, err) < 0)
        return -1;
    if (c->shape.is_untied && !args->common.quiet)
        (void)fprintf(stderr, "warning: %s\n", llama_untied_words);
    if (args->adapter != NULL && llama_conf_adapter(c, err) < 0)
        return -1;
    return llama_ends_read(c->adapter, dir, c->shape.vocab, &ret->ends, err);
}

void model_load_ends(struct model_load *l, enum spec_prompt format,
                     const struct tokenizer *t)
{
    if (l->ends.n == 0)
        llama_ends_add(&l->ends, tokenizer_ids(t)->eos);
    llama_ends_add(&l->ends, chat_format_answer_end(format, l->conf.dir, t));
}

int model_load_open(struct model_load *l, const struct model_args *args,
                    int64_t tokens, struct error *err)
{
    struct llama_conf *c = &l->conf;
    const int32_t most = c->shape.max_positions;
    int device;
    c->row_tokens = tokens < most ? (int32_t)tokens : most;
    if (device_word(args->device, &device, err) < 0 ||
        open_device(device, &l->dev, err) < 0)
        return -1;
    c->dt = args->precision >= 0  ? (enum dtype)args->precision
            : l->dev->host_memory ? DT_F32
                                  : DT_BF16;
    if (llama_create(l->dev, c, &l->model, err) < 0)
        return -1;
    return model_init(l->model, 1, err);
}

struct llama_choice model_load_choice(const struct model_load *l,
                                      const struct model_args *args)
{
    return (struct llama_choice){.temperature = args->temperature,
                                 .top_k = args->top_k,
                                 .top_p = args->top_p,
                                 .seed = args->seed,
                                 .ends = l->ends.id,
                                 .n_ends = l->ends.n,
                                 .no_cache = args->no_cache};
}

void model_load_clear(struct model_load *l)
{
    model_destroy(l->model);
    llama_conf_clear(&l->conf);
    if (l->dev != NULL)
        l->dev->ops->destroy(l->dev);
    *l = (struct model_load){.dev = NULL};
}
