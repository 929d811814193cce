/* main.c - mgpu-model(1): language models and their data, without a daemon. */
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "worker/model_tool/commands.h"

static const struct model_command commands[] = {
    {"generate", "DIR",
     MODEL_BIT(MODEL_ADAPTER) | MODEL_BIT(MODEL_PROMPT) | MODEL_BIT(MODEL_ROW) |
         MODEL_BIT(MODEL_DATA) | MODEL_BIT(MODEL_MAX_NEW) |
         MODEL_BIT(MODEL_TEMPERATURE) | MODEL_BIT(MODEL_TOP_K) |
         MODEL_BIT(MODEL_TOP_P) | MODEL_BIT(MODEL_SEED) |
         MODEL_BIT(MODEL_DEVICE) | MODEL_BIT(MODEL_PRECISION) |
         MODEL_BIT(MODEL_NO_CACHE) | MODEL_BIT(MODEL_CHAT) |
         MODEL_BIT(MODEL_SYSTEM) | MODEL_BIT(MODEL_CONTEXT),
     generate_command},
    {"merge", "DIR", MODEL_BIT(MODEL_ADAPTER) | MODEL_BIT(MODEL_OUTPUT),
     merge_command},
    {"export", "DIR", MODEL_BIT(MODEL_GGUF) | MODEL_BIT(MODEL_OUTPUT),
     export_command},
    {"plan", "JOB.YAML", MODEL_BIT(MODEL_DEVICE) | MODEL_BIT(MODEL_FOR),
     plan_command},
    {"tokenize", "JOB.YAML",
     MODEL_BIT(MODEL_ROWS) | MODEL_BIT(MODEL_CACHE) | MODEL_BIT(MODEL_BESIDE),
     tokenize_command},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static int run_command(const struct model_args *a,
                       const struct model_command *c, int operands,
                       const char *operand, int *ret_exit, struct error *err)
{
    if (model_args_check(a, c, operands, err) < 0)
        return -1;
    int rc = c->run(a, operand, err);
    if (rc > 0)
        *ret_exit = rc;
    return rc < 0 ? -1 : 0;
}

/* in  words  [n]: the command, then its operand */
static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    const struct model_args *a = arg;

    if (n == 0)
        return error_set(err, ERR_USAGE, "expected a command; try --help");
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(words[0], commands[i].name) == 0)
            return run_command(a, &commands[i], n - 1, words[1], ret_exit, err);
    return error_set(err, ERR_USAGE, "no command '%.40s'; try --help",
                     words[0]);
}

int main(int argc, char **argv)
{
    struct model_args a;
    const struct tool_main m = {.tool = &model_tool,
                                .on_option = model_args_option,
                                .run = run,
                                .arg = &a,
                                .json = &a.common.json};

    model_args_init(&a);
    return tool_run(&m, argc, argv);
}
