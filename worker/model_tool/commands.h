/* commands.h - the commands of mgpu-model, a file each. */
#ifndef MGPU_WORKER_MODEL_TOOL_COMMANDS_H
#define MGPU_WORKER_MODEL_TOOL_COMMANDS_H

#include "worker/model_tool/args.h"

/* The options are allowed for the command; what it needs it checks.
 * in   operand  the one word behind the command
 * returns 0, or an exit status, or -1
 * err  ERR_USAGE an option is missing; that of the work otherwise */
int export_command(const struct model_args *a, const char *operand,
                   struct error *err) MUST_CHECK;
int generate_command(const struct model_args *a, const char *operand,
                     struct error *err) MUST_CHECK;
/* generate --chat. */
int chat_command(const struct model_args *a, const char *operand,
                 struct error *err) MUST_CHECK;
int merge_command(const struct model_args *a, const char *operand,
                  struct error *err) MUST_CHECK;
int plan_command(const struct model_args *a, const char *operand,
                 struct error *err) MUST_CHECK;
int tokenize_command(const struct model_args *a, const char *operand,
                     struct error *err) MUST_CHECK;

#endif
