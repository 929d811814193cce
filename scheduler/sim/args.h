/* args.h - the command line of mgpu-sim(1). */
#ifndef MGPU_SCHEDULER_SIM_ARGS_H
#define MGPU_SCHEDULER_SIM_ARGS_H

#include "scheduler/sim/run/sim_run.h"
#include "scheduler/sim/trace_file.h"
#include "scheduler/tools/common/options.h"

enum { SIM_POLICIES_MAX = 8, SIM_SWEEP_CAP = 64 };
#define SIM_SCALING_DEFAULT "amdahl:0.95"

struct sim_args {
    const char *policies[SIM_POLICIES_MAX]; /* NAME[:KEY=VALUE,...] */
    size_t n_policies;
    const char *config, *cluster, *trace, *tables, *from_db;
    const char *elastic, *scaling, *sweep, *watts; /* as given, or NULL */
    /* The policies of a sweep, and what tells them apart. */
    char sweep_words[SIM_POLICIES_MAX][512];
    char sweep_values[SIM_POLICIES_MAX][SIM_SWEEP_CAP];
    const char *json, *jobs, *events, *gantt, *cdf, *html, *bench;
    double since_s, until_s; /* since 1970; NAN: not given */
    bool is_adaptive, check;
    int32_t seeds, procs_per_gpu;
    int32_t replicates; /* 0: none */
    int argc;           /* the command line */
    char **argv;
    struct sim_conf conf; /* what options set of it */
};

extern const struct tool sim_tool;

void sim_args_init(struct sim_args *a);
/* For tool_main.on_option. err  ERR_USAGE */
int sim_args_option(void *arg, const struct opt *o, const char *value,
                    struct error *err) MUST_CHECK;
/* What must come together, and what excludes each other. err  ERR_USAGE */
int sim_args_check(const struct sim_args *a, int n_operands,
                   struct error *err) MUST_CHECK;

/* ---- policy_sweep.c ------------------------------------------------------ */
/* --sweep: makes the policies of its values from the only --policy.
 * err  ERR_USAGE */
int policy_sweep_expand(struct sim_args *a, struct error *err) MUST_CHECK;

/* "csv:FILE". out  ret_file  borrowed. err  ERR_USAGE lists the formats */
int sim_args_trace(const char *text, enum trace_format *ret,
                   const char **ret_file, struct error *err) MUST_CHECK;
/* The keys of a policy on top of the configuration file.
 * in   word  NAME[:KEY=VALUE,...]
 *            NULL: the file's own policy
 *      past  its keys apply where `word` does not name them, and its policy, if
 *            it has one, in place of that of `word`; NULL: none
 * err  ERR_USAGE an unknown policy or key; ERR_CONFIG the file */
struct conf;
struct past_settings;
int sim_policy_args(const char *config, const char *word,
                    const struct past_settings *past, struct conf *ret,
                    struct error *err) MUST_CHECK;
/* What a simulation takes of a configuration, which it borrows. */
struct sim_policy sim_policy_args_of(const struct conf *conf);

#endif
