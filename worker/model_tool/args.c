/* args.c - see args.h. */
#include "worker/model_tool/args.h"

static const struct opt opts[] = {
    {MODEL_ADAPTER, 0, "adapter", "DIR", "the output of a LoRA job"},
    {MODEL_OUTPUT, 'o', "output", "DIR",
     "merge: the new directory, which is absent or empty"},
    OPTION_ROW_JSON,
    OPTION_ROW_QUIET,
    {0, 0, NULL, NULL, NULL},
};

const struct tool model_tool = {
    .name = "mgpu-model",
    .synopsis = "[options] COMMAND OPERAND",
    .summary = "Looks at a language model and its data. The commands:\n\n"
               "  merge DIR        write the model in DIR with its adapter "
               "merged\n\n"
               "Needs no daemon and no MPI.",
    .opts = opts,
};

int model_args_option(void *arg, const struct opt *o, const char *value,
                      struct error *err)
{
    struct model_args *a = arg;

    (void)err;
    if (options_common(&a->common, o->id, value))
        return 0;
    a->given |= MODEL_BIT(o->id);
    switch (o->id) {
    case MODEL_ADAPTER:
        a->adapter = value;
        return 0;
    case MODEL_OUTPUT:
        a->output = value;
        return 0;
    default:
        return 0;
    }
}

int model_args_check(const struct model_args *a, const struct model_command *c,
                     int operands, struct error *err)
{
    if (operands != 1)
        return error_set(err, ERR_USAGE, "expected %s %s", c->name, c->operand);
    for (const struct opt *o = opts; o->id > 0; o++)
        if (o->id < MODEL_OPTIONS && (a->given & MODEL_BIT(o->id)) &&
            !(c->options & MODEL_BIT(o->id)))
            return error_set(err, ERR_USAGE, "%s takes no --%s", c->name,
                             o->name);
    return 0;
}
