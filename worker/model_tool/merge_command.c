/* merge_command.c - mgpu-model merge DIR --adapter OUT -o MERGED. */
#include <jansson.h>
#include <stdio.h>

#include "scheduler/tools/common/client.h"
#include "worker/llm/llama_check.h"
#include "worker/llm/llama_merge.h"
#include "worker/model_tool/commands.h"

static int print_json(const struct llama_merged *m, const char *out,
                      struct error *err)
{
    json_t *o = json_pack("{s:s, s:i, s:i, s:b, s:s}", "output", out, "linears",
                          (int)m->linears, "files", (int)m->files, "untied",
                          (int)m->is_untied, "base_quantizer", m->quantizer);
    int rc = client_print(o, err);
    json_decref(o);
    return rc;
}

int merge_command(const struct model_args *a, const char *operand,
                  struct error *err)
{
    const struct llama_merge conf = {
        .dir = operand, .adapter = a->adapter, .out = a->output};
    struct llama_merged m;

    if (a->adapter == NULL || a->output == NULL)
        return error_set(err, ERR_USAGE,
                         "merge needs --adapter OUT and --output MERGED");
    if (llama_merge(&conf, &m, err) < 0)
        return -1;
    if (m.has_own_head && !a->common.quiet)
        (void)fprintf(stderr, "warning: %s\n", llama_untied_words);
    if (a->common.json)
        return print_json(&m, a->output, err);
    if (a->common.quiet)
        return 0;
    if (m.is_untied)
        (void)printf("The adapter has the output layer, which the base ties to "
                     "its embedding:\n%s has a lm_head.weight of its own.\n",
                     a->output);
    if (m.quantizer[0] != '\0')
        (void)printf(
            "The adapter was trained on %s in %s; it is merged into the "
            "weights as they are there.\n",
            operand, m.quantizer);
    (void)printf("%d linears merged, %zu file%s of weights in %s\n", m.linears,
                 m.files, m.files == 1 ? "" : "s", a->output);
    return 0;
}
