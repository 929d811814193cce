/* replay.c - see replay.h. */
#include "scheduler/sim/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/conf/conf.h"
#include "scheduler/sim/args.h"

int replay_is_past(const struct past *p, const char *config, const char *word,
                   char ret_ran[REPLAY_POLICY_CAP], bool *ret,
                   struct error *err)
{
    struct past_settings first = replay_begin(p, true);
    struct conf conf;

    if (sim_policy_args(config, NULL, &first, &conf, err) < 0)
        return -1;
    const char *name = conf.scheduler.policy;
    size_t n = strlen(name);
    *ret = !word ||
           (strncmp(word, name, n) == 0 && (word[n] == '\0' || word[n] == ':'));
    if (ret_ran)
        (void)snprintf(ret_ran, REPLAY_POLICY_CAP, "%s", name);
    conf_clear(&conf);
    return 0;
}

static struct past_settings settings_for(const struct past_settings *s,
                                         bool is_past)
{
    struct past_settings own = *s;

    if (!is_past)
        own.policy[0] = '\0';
    return own;
}

struct past_settings replay_begin(const struct past *p, bool is_past)
{
    static const struct past_settings none = {.n = 0};
    return settings_for(p->n_settings > 0 ? &p->settings[0] : &none, is_past);
}

static int add_change(const struct past_settings *s, const char *config,
                      const char *word, bool is_past, struct replay *r,
                      size_t i, struct error *err)
{
    struct past_settings own = settings_for(s, is_past);
    struct conf *conf = &r->confs[r->n_confs];

    if (sim_policy_args(config, word, &own, conf, err) < 0)
        return error_wrap(err, "the settings of %.0f s", s->t_s);
    r->n_confs++;
    r->changes[i] = sim_policy_args_of(conf);
    r->actions[r->n++] = (struct sim_action){
        .t_s = s->t_s, .act = ACT_POLICY, .policy = &r->changes[i]};
    return 0;
}

struct engine_update replay_update(const struct past_action *a)
{
    return (struct engine_update){.has_limit = a->limit_ms >= 0,
                                  .limit_s = a->limit_ms > 0
                                                 ? (double)a->limit_ms / 1000
                                                 : (double)INFINITY,
                                  .has_priority = a->has_priority,
                                  .priority = a->priority,
                                  .has_parallel = a->max_parallel >= 0,
                                  .max_parallel = a->max_parallel};
}

/* Actions on jobs that the trace does not have are left out. */
static void add_job_action(const struct past_action *a,
                           const struct sim_trace *t, bool is_past,
                           struct replay *r)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->jobs[i].id == a->job && a->act == ACT_RESIZE && !is_past)
            r->n_resizes++;
        else if (t->jobs[i].id == a->job)
            r->actions[r->n++] =
                (struct sim_action){.t_s = a->t_s,
                                    .act = a->act,
                                    .job = i,
                                    .priority = a->priority,
                                    .gpus = a->gpus,
                                    .nodes = a->nodes,
                                    .update = replay_update(a)};
}

int replay_make(const struct past *p, const struct sim_trace *t,
                const char *config, const char *word, bool is_past,
                struct replay *ret, struct error *err)
{
    size_t n = p->n_actions + p->n_settings;
    size_t k = 1; /* the first settings are those of the beginning */

    *ret = (struct replay){
        .actions = calloc(n + 1, sizeof(*ret->actions)),
        .changes = calloc(p->n_settings + 1, sizeof(*ret->changes)),
        .confs = calloc(p->n_settings + 1, sizeof(*ret->confs))};
    if (!ret->actions || !ret->changes || !ret->confs)
        return error_set(err, ERR_NOMEM, "actions");
    for (size_t i = 0; i <= p->n_actions; i++) {
        for (; k < p->n_settings &&
               (i == p->n_actions || p->settings[k].t_s <= p->actions[i].t_s);
             k++)
            if (add_change(&p->settings[k], config, word, is_past, ret, k,
                           err) < 0)
                return -1;
        if (i < p->n_actions)
            add_job_action(&p->actions[i], t, is_past, ret);
    }
    return 0;
}

int replay_left_out(const struct replay *r, const char *name, const char *ran,
                    size_t n_not_applied, struct buf *out, struct error *err)
{
    if (r->n_resizes > 0 &&
        buf_addf(out, err,
                 ", under %s %zu resize%s (admin.log or --config says that %s "
                 "ran)",
                 name, r->n_resizes, r->n_resizes == 1 ? "" : "s", ran) < 0)
        return -1;
    return n_not_applied == 0
               ? 0
               : buf_addf(out, err,
                          ", under %s %zu action%s that did not apply then",
                          name, n_not_applied, n_not_applied == 1 ? "" : "s");
}

void replay_clear(struct replay *r)
{
    free(r->actions);
    free(r->changes);
    for (size_t i = 0; i < r->n_confs; i++)
        conf_clear(&r->confs[i]);
    free(r->confs);
    *r = (struct replay){.n = 0};
}
