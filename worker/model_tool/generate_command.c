/* generate_command.c - mgpu-model generate DIR [--adapter OUT] --prompt TEXT.
 */
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "scheduler/tools/common/client.h"
#include "worker/data/text/chat_format.h"
#include "worker/llm/files/adapter_file.h"
#include "worker/llm/llama.h"
#include "worker/llm/llama_check.h"
#include "worker/llm/llama_ends.h"
#include "worker/model_call.h"
#include "worker/model_tool/commands.h"
#include "worker/model_tool/prompt.h"
#include "worker/model_tool/token_text.h"

struct answer {
    const struct model_args *args;
    struct llama_conf conf;
    struct prompt prompt;
    struct llama_ends ends;
    struct device *dev;
    struct model *model;
    struct token_text text;
    bool is_ended; /* by a token, not by its length */
};

/* ---- the model ----------------------------------------------------------- */

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

static int read_model(struct answer *a, const char *dir, struct error *err)
{
    struct llama_conf *c = &a->conf;
    *c = (struct llama_conf){.is_full = a->args->adapter == NULL,
                             .batch = 1,
                             .batch_eval = 1,
                             .generates = true,
                             .dir = dir,
                             .adapter = a->args->adapter};
    if (llama_read_dir(dir, NULL, &c->shape, err) < 0)
        return -1;
    if (c->shape.is_untied && !a->args->common.quiet)
        (void)fprintf(stderr, "warning: %s\n", llama_untied_words);
    if (a->args->adapter != NULL && llama_conf_adapter(c, err) < 0)
        return -1;
    return llama_ends_read(c->adapter, dir, c->shape.vocab, &a->ends, err);
}

static int open_model(struct answer *a, struct error *err)
{
    struct llama_conf *c = &a->conf;
    const int32_t most = c->shape.max_positions;
    const int64_t tokens = a->prompt.n + (int64_t)a->args->max_new_tokens;
    if (a->prompt.n >= most)
        return error_set(err, ERR_INVAL,
                         "the prompt has %d tokens, the model %d positions",
                         a->prompt.n, most);
    c->row_tokens = tokens < most ? (int32_t)tokens : most;
    int device;
    if (device_word(a->args->device, &device, err) < 0 ||
        open_device(device, &a->dev, err) < 0)
        return -1;
    c->dt = a->args->precision >= 0 ? (enum dtype)a->args->precision
            : a->dev->host_memory   ? DT_F32
                                    : DT_BF16;
    if (llama_create(a->dev, c, &a->model, err) < 0)
        return -1;
    return model_init(a->model, 1, err);
}

/* ---- the answer ---------------------------------------------------------- */

static int each(void *arg, int32_t id, struct error *err)
{
    struct answer *a = arg;
    const char *text;
    size_t n;
    if (token_text_add(&a->text, id, &text, &n, err) < 0)
        return -1;
    if (a->args->common.json || n == 0)
        return 0;
    (void)fwrite(text, 1, n, stdout);
    (void)fflush(stdout);
    return 0;
}

static int generate(struct answer *a, struct error *err)
{
    const struct model_args *args = a->args;
    if (a->ends.n == 0)
        llama_ends_add(&a->ends, tokenizer_ids(a->prompt.tokenizer)->eos);
    llama_ends_add(&a->ends,
                   chat_format_answer_end(a->prompt.format, a->conf.dir,
                                          a->prompt.tokenizer));
    a->text = token_text_of(a->prompt.tokenizer);
    const struct llama_choice c = {.temperature = args->temperature,
                                   .top_k = args->top_k,
                                   .top_p = args->top_p,
                                   .seed = args->seed,
                                   .ends = a->ends.id,
                                   .n_ends = a->ends.n,
                                   .no_cache = args->no_cache,
                                   .each = each,
                                   .arg = a};
    const int32_t most = a->conf.row_tokens;
    int32_t *ids = calloc((size_t)most, sizeof(*ids)), n = 0;
    if (ids == NULL)
        return error_set(err, ERR_NOMEM, "tokens");
    memcpy(ids, a->prompt.ids.data, (size_t)a->prompt.n * sizeof(*ids));
    int rc = llama_generate(a->model, &c, ids, a->prompt.n, most, &n, err);
    a->is_ended = n < most;
    free(ids);
    return rc;
}

static int print_json(const struct answer *a, struct error *err)
{
    const int32_t *ids = (const void *)a->text.ids.data;
    json_t *list = json_array();
    for (size_t i = 0; i < a->text.ids.len / sizeof(*ids); i++)
        (void)json_array_append_new(list, json_integer(ids[i]));
    /* JSON has no string for bytes that are not UTF-8. */
    json_t *text = json_string(buf_str(&a->text.text));
    json_t *o =
        json_pack("{s:i, s:o, s:o, s:s}", "prompt_tokens", (int)a->prompt.n,
                  "ids", list, "text", text != NULL ? text : json_null(), "end",
                  a->is_ended ? "token" : "length");
    if (o != NULL && a->prompt.expected.len > 0)
        (void)json_object_set_new(o, "expected",
                                  json_string(buf_str(&a->prompt.expected)));
    int rc = client_print(o, err);
    json_decref(o);
    return rc;
}

static int print_rest(const struct answer *a, struct error *err)
{
    if (a->args->common.json)
        return print_json(a, err);
    (void)printf("%s\n", token_text_rest(&a->text));
    if (a->prompt.expected.len > 0 && !a->args->common.quiet)
        (void)fprintf(stderr, "expected: %s\n", buf_str(&a->prompt.expected));
    return 0;
}

int generate_command(const struct model_args *args, const char *operand,
                     struct error *err)
{
    struct answer a = {.args = args};

    if ((args->prompt == NULL) == (args->row == 0) ||
        (args->row > 0) != (args->data != NULL))
        return error_set(err, ERR_USAGE,
                         "generate needs either --prompt TEXT, "
                         "or --row N and --data FILE");
    int rc = read_model(&a, operand, err);
    if (rc == 0)
        rc = args->prompt != NULL
                 ? prompt_of_text(operand, args->prompt, &a.prompt, err)
                 : prompt_of_row(operand, args->data, args->row,
                                 a.conf.shape.eos_id, &a.prompt, err);
    rc = rc < 0 ? rc : open_model(&a, err);
    rc = rc < 0 ? rc : generate(&a, err);
    rc = rc < 0 ? rc : print_rest(&a, err);
    model_destroy(a.model);
    llama_conf_clear(&a.conf);
    if (a.dev != NULL)
        a.dev->ops->destroy(a.dev);
    prompt_clear(&a.prompt);
    token_text_clear(&a.text);
    return rc;
}
