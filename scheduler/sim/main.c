/* main.c - mgpu-sim(1): the scheduler of the daemon in virtual time. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "jobs/conf/conf.h"
#include "scheduler/sim/args.h"
#include "scheduler/sim/repeat_policy.h"
#include "scheduler/sim/self_checks.h"
#include "scheduler/sim/simulation.h"
#include "scheduler/tools/common/client.h"

/* The keys of the policy, as they are in force. */
static void add_parameter(void *arg, const struct conf_value *v)
{
    static const char prefix[] = "scheduler.";
    struct sim_named *run = arg;

    if (v->key == CONF_POLICY &&
        strncmp(v->path, prefix, strlen(prefix)) == 0 &&
        strcmp(v->path, "scheduler.policy") != 0)
        (void)json_object_set_new(run->parameters, v->path + strlen(prefix),
                                  json_string(v->value));
}

/* The actions of people in the past, and the settings of the first moment. */
static int replay_past(struct simulation *s, const char *word,
                       struct past_settings *ret, struct error *err)
{
    const char *config = s->args->config;
    struct replay *r = &s->replays[s->n_runs];
    bool is_past;

    if (replay_is_past(&s->past, config, word, s->ran, &is_past, err) < 0 ||
        replay_make(&s->past, &s->trace, config, word, is_past, r, err) < 0)
        return -1;
    s->args->conf.actions = r->actions;
    s->args->conf.n_actions = r->n;
    *ret = replay_begin(&s->past, is_past);
    return 0;
}

/* A policy with its keys, and the actions of the past. */
static int begin_policy(struct simulation *s, const char *word,
                        struct sim_named *run, struct sim_policy *ret,
                        struct error *err)
{
    struct past_settings past = {.n = 0};
    struct conf *conf = &s->confs[s->n_runs];

    if ((s->args->from_db && replay_past(s, word, &past, err) < 0) ||
        sim_policy_args(s->args->config, word, &past, conf, err) < 0)
        return -1;
    *ret = sim_policy_args_of(conf);
    s->args->conf.repeats = false;
    s->args->conf.is_fixed = ret->policy != &policy_goodput;
    (void)snprintf(run->name, sizeof(run->name), "%s", conf->scheduler.policy);
    return conf_each_value(conf, add_parameter, run, err);
}

/* The attempts of the past. */
static int begin_repeat(struct simulation *s, struct sim_named *run,
                        struct sim_policy *ret, struct error *err)
{
    struct replay *r = &s->replays[s->n_runs];

    *ret = (struct sim_policy){.policy = &policy_repeat};
    (void)snprintf(run->name, sizeof(run->name), "%s", policy_repeat.name);
    s->args->conf.repeats = true;
    if (repeat_policy_replay(&s->past, &s->trace, r, err) < 0)
        return -1;
    s->args->conf.actions = r->actions;
    s->args->conf.n_actions = r->n;
    return 0;
}

static int run_policy(struct simulation *s, const char *word, struct error *err)
{
    struct sim_named *run = &s->runs[s->n_runs];
    struct sim_policy *policy = &s->policies[s->n_runs];
    bool repeats;

    if (repeat_policy_named(word, s->args->from_db, &repeats, err) < 0)
        return -1;
    run->parameters = json_object();
    int rc = !run->parameters ? error_set(err, ERR_NOMEM, "parameters")
             : repeats        ? begin_repeat(s, run, policy, err)
                              : begin_policy(s, word, run, policy, err);
    if (s->args->sweep)
        (void)snprintf(run->label, sizeof(run->label), "%s",
                       s->args->sweep_values[s->n_runs]);
    else
        memcpy(run->label, run->name, sizeof(run->label));
    s->n_runs++;
    if (rc == 0)
        rc = sim_run(&s->args->conf, policy, &run->out, err);
    if (rc == 0)
        rc = run_figures(&s->args->conf, &run->out, &run->figures, err);
    return rc;
}

static int run_all(struct simulation *s, struct error *err)
{
    const struct sim_args *a = s->args;

    s->args->conf.cluster = &s->cluster;
    s->args->conf.trace = &s->trace;
    s->args->conf.speed = s->speed;
    if (a->n_policies == 0)
        return run_policy(s, NULL, err);
    for (size_t i = 0; i < a->n_policies; i++)
        if (run_policy(s, a->policies[i], err) < 0)
            return error_wrap(err, "%s", a->policies[i]);
    return 0;
}

/* Names the jobs that did not complete. Returns whether one did not end. */
static bool warn_unfinished(const struct simulation *s)
{
    bool any = false;

    for (size_t i = 0; i < s->n_runs; i++) {
        const struct sim_output *o = &s->runs[i].out;
        if (o->n_unfinished == 0)
            continue;
        any = any || o->n_unended > 0;
        (void)fprintf(stderr, "mgpu-sim: %s: %zu jobs did not complete\n%s",
                      s->runs[i].name, o->n_unfinished,
                      buf_str(&o->unfinished));
    }
    return any;
}

static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    struct simulation s = {.args = arg};

    (void)words;
    if (sim_args_check(s.args, n, err) < 0 ||
        policy_sweep_expand(s.args, err) < 0)
        return -1;
    if (s.args->check)
        return self_check(s.args, err);
    int rc = simulation_read(&s, err);
    if (rc == 0)
        rc = run_all(&s, err);
    if (rc == 0 && s.args->replicates > 0)
        rc = replicates_run(&s, (size_t)s.args->replicates, err);
    if (rc == 0)
        rc = simulation_write(&s, err);
    if (rc == 0)
        *ret_exit = warn_unfinished(&s) ? 1 : 0;
    for (size_t i = 0; i < s.n_runs; i++) {
        sim_output_clear(&s.runs[i].out);
        run_figures_clear(&s.runs[i].figures);
        json_decref(s.runs[i].parameters);
    }
    if (s.speed)
        s.speed->ops->destroy(s.speed);
    run_figures_clear(&s.recorded);
    run_replicates_clear(&s.replicates);
    sim_trace_clear(&s.trace);
    from_db_clear(&s.past);
    for (size_t i = 0; i < SIM_POLICIES_MAX; i++) {
        replay_clear(&s.replays[i]);
        conf_clear(&s.confs[i]);
    }
    return rc;
}

int main(int argc, char **argv)
{
    enum { EXIT_USAGE = 2 };
    struct sim_args a;
    bool json = false;
    const struct tool_main m = {.tool = &sim_tool,
                                .on_option = sim_args_option,
                                .run = run,
                                .arg = &a,
                                .json = &json};

    sim_args_init(&a);
    a.argc = argc;
    a.argv = argv; /* there are no operands that would be moved */
    int status = tool_run(&m, argc, argv);
    return status == error_exit_status(ERR_USAGE) ? EXIT_USAGE : status;
}
