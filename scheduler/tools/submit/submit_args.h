/* submit_args.h - the command line of mgpu-submit: the table of its options,
 * and their values.
 */
#ifndef MGPU_SCHEDULER_TOOLS_SUBMIT_SUBMIT_ARGS_H
#define MGPU_SCHEDULER_TOOLS_SUBMIT_SUBMIT_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/rng.h"
#include "jobs/spec/spec.h"
#include "scheduler/tools/common/options.h"

enum { SUBMIT_SETS_MAX = 64, SUBMIT_KEY_CAP = 128 };

struct submit_args {
    struct option_common common;
    bool validate, show, dry_run, hold, wait, parsable;
    uint32_t wait_states;
    double timeout_s;
    bool list_templates, explain, schema, werror, follow;
    const char *key, *file, *template_name;
    char **command;   /* the words behind --; NULL: there is none */
    const char *code; /* of --explain=CODE; NULL: the operands */
    /* Idempotency key of the request if the daemon may have accepted the job
     * without a reply; else "". */
    char doubt_key[RNG_TOKEN_CAP];
    struct buf template_path;
    struct spec_base *base; /* the parsed template under a file */
    struct buf depends;     /* a YAML list, without its end */
    struct spec_set sets[SUBMIT_SETS_MAX];
    /* the keys of the sets, up to the '=' */
    char keys[SUBMIT_SETS_MAX][SUBMIT_KEY_CAP];
    size_t n_sets;
    char *variables[SUBMIT_SETS_MAX]; /* MGPU_SET_*, without values; owned */
    size_t n_variables;
};

extern const struct tool submit_tool;

/* For struct tool_main; arg is a struct submit_args. */
int submit_on_option(void *arg, const struct opt *o, const char *value,
                     struct error *err) MUST_CHECK;

/* Turns the values of combined options into a --set, and puts the MGPU_SET_*
 * variables of env before all of them. Call it once, after the last option; env
 * outlives a. */
int submit_args_end(struct submit_args *a, char *const *env,
                    struct error *err) MUST_CHECK;
void submit_args_clear(struct submit_args *a);

#endif
