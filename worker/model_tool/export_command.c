/* export_command.c - mgpu-model export --gguf TYPE DIR -o FILE. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "jobs/text/text.h"
#include "scheduler/tools/common/client.h"
#include "worker/llm/gguf/gguf_export.h"
#include "worker/llm/llama_check.h"
#include "worker/model_tool/commands.h"

static int print_json(const struct gguf_exported *g, const struct model_args *a,
                      struct error *err)
{
    json_t *o = json_pack("{s:s, s:s, s:i, s:I, s:i, s:b}", "output", a->output,
                          "type", a->gguf, "tensors", (int)g->tensors, "bytes",
                          (json_int_t)g->bytes, "f16", (int)g->floats,
                          "chat_template", (int)g->has_template);
    const int rc = client_print(o, err);
    json_decref(o);
    return rc;
}

/* What the file has not, or what a reader will not do as we do. */
static void warn(const struct gguf_exported *g)
{
    if (g->has_own_head)
        (void)fprintf(stderr, "warning: %s\n", llama_untied_words);
    if (g->window > 0)
        (void)fprintf(stderr,
                      "warning: the model has a sliding window of %d tokens: "
                      "the file says so, but llama.cpp reads it for other "
                      "architectures alone; rows of more tokens get other "
                      "answers there\n",
                      g->window);
    if (g->floats > 0)
        (void)fprintf(stderr,
                      "warning: %d matri%s f16: q8_0 needs rows of a "
                      "multiple of %d values\n",
                      g->floats, g->floats == 1 ? "x is" : "ces are",
                      GGUF_Q8_BLOCK);
}

int export_command(const struct model_args *a, const char *operand,
                   struct error *err)
{
    struct gguf_export conf = {.dir = operand, .out = a->output};
    struct gguf_exported g;
    char quoted[TEXT_QUOTE_CAP];

    if (a->gguf == NULL || a->output == NULL)
        return error_set(err, ERR_USAGE,
                         "export needs --gguf TYPE and --output FILE");
    if (!gguf_export_type(a->gguf, &conf.type))
        return error_set(err, ERR_USAGE,
                         "--gguf: '%s' is not f16, bf16 or q8_0",
                         text_quote(quoted, sizeof(quoted), a->gguf));
    if (gguf_export(&conf, &g, err) < 0)
        return -1;
    if (!a->common.quiet)
        warn(&g);
    if (a->common.json)
        return print_json(&g, a, err);
    if (!a->common.quiet)
        (void)printf("%d tensors, %" PRId64 " bytes in %s\n", g.tensors,
                     g.bytes, a->output);
    return 0;
}
