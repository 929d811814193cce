/* policy_keys.c - --policy NAME:KEY=VALUE,...: keys of the configuration on top
 * of the file. A key is one of scheduler.NAME, or of scheduler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/conf/conf.h"
#include "scheduler/policy/goodput_conf.h"
#include "scheduler/sim/args.h"
#include "scheduler/sim/past/from_db.h"

enum { KEYS_MAX = 16, KEY_CAP = 96 };
struct keys {
    char key[KEYS_MAX][KEY_CAP], value[KEYS_MAX][KEY_CAP];
    struct spec_set sets[KEYS_MAX + 1 + PAST_KEYS_MAX];
    size_t n;
};

/* scheduler.<policy>.KEY, or scheduler.KEY. */
static int add_key(struct keys *k, const char *name, const char *word,
                   struct error *err)
{
    char path[700];
    const char *equals = strchr(word, '=');
    int n = equals ? (int)(equals - word) : 0;

    if (n == 0 || n >= 64 || strlen(equals + 1) >= KEY_CAP || k->n == KEYS_MAX)
        return error_set(err, ERR_USAGE,
                         "--policy: '%.60s' is not KEY=VALUE, or there are "
                         "over %d",
                         word, KEYS_MAX);
    (void)snprintf(path, sizeof(path), "scheduler.%s.%.*s", name, n, word);
    if (conf_key_of(path) == CONF_UNKNOWN)
        (void)snprintf(path, sizeof(path), "scheduler.%.*s", n, word);
    if (conf_key_of(path) == CONF_UNKNOWN)
        return error_set(err, ERR_USAGE,
                         "--policy: no key '%s' in mgpu.yaml(5)", path);
    (void)snprintf(k->key[k->n], KEY_CAP, "%.95s", path);
    (void)snprintf(k->value[k->n], KEY_CAP, "%s", equals + 1);
    k->sets[k->n + 1] = (struct spec_set){
        .key = k->key[k->n], .value = k->value[k->n], .option = "--policy"};
    k->n++;
    return 0;
}

static int split_keys(struct keys *k, const char *name, char *text,
                      struct error *err)
{
    char *rest = text;

    while (rest && *rest) {
        char *word = rest, *comma = strchr(rest, ',');
        if (comma)
            *comma = '\0';
        rest = comma ? comma + 1 : NULL;
        if (add_key(k, name, word, err) < 0)
            return -1;
    }
    return 0;
}

/* The findings are on standard error, as for the daemon. */
static int load(const char *config, const struct keys *k, size_t n_sets,
                struct conf *ret, struct error *err)
{
    struct buf text = BUF_INIT;
    struct conf base;
    int rc;

    if (config) {
        rc = conf_load_with(config, k->sets, n_sets, ret, &text, err);
    } else {
        rc = conf_default(&base, err);
        if (rc == 0) {
            rc = conf_with(&base, k->sets, n_sets, ret, &text, err);
            conf_clear(&base);
        }
    }
    if (text.len > 0)
        (void)fputs(buf_str(&text), stderr);
    buf_clear(&text);
    return rc;
}

/* Keys that held in the past, after the n sets of --policy. Returns how many
 * there are now. in has_config  the other keys are those of a --config */
static size_t add_past(struct keys *k, size_t n,
                       const struct past_settings *past, bool has_config)
{
    for (size_t i = 0; i < past->n; i++) {
        bool is_given = has_config && past->at[i].is_base;
        for (size_t j = 0; j < k->n; j++)
            is_given = is_given || strcmp(k->key[j], past->at[i].key) == 0;
        if (!is_given)
            k->sets[n++] = (struct spec_set){.key = past->at[i].key,
                                             .value = past->at[i].value,
                                             .option = "admin.log"};
    }
    return n;
}

struct sim_policy sim_policy_args_of(const struct conf *conf)
{
    return (struct sim_policy){
        .policy = policy_find(conf->scheduler.policy),
        .preempt = {.is_on = conf->scheduler.preempt.enabled,
                    .grace_s = conf->scheduler.preempt.grace_s,
                    .min_runtime_s = conf->scheduler.preempt.min_runtime_s},
        .goodput = policy_goodput_of_conf(&conf->scheduler.goodput),
        .fair_share = &conf->scheduler.fair_share,
        .limits = {.gpus_per_user = conf->limits.max_gpus_per_user,
                   .gpus_per_account = conf->limits.max_gpus_per_account,
                   .running_per_user = conf->limits.max_running_per_user,
                   .running_per_account =
                       conf->limits.max_running_per_account}};
}

int sim_policy_args(const char *config, const char *word,
                    const struct past_settings *past, struct conf *ret,
                    struct error *err)
{
    const char *name = past && past->policy[0] ? past->policy : NULL;
    struct keys *k = calloc(1, sizeof(*k));
    char text[512], *colon;
    size_t n = 0;
    int rc = 0;

    if (!k)
        return error_set(err, ERR_NOMEM, "policy");
    (void)snprintf(text, sizeof(text), "%s", word ? word : "");
    colon = strchr(text, ':');
    if (colon)
        *colon = '\0';
    if (word || name)
        k->sets[n++] = (struct spec_set){.key = "scheduler.policy",
                                         .value = name ? name : text,
                                         .option = "--policy"};
    if (word) {
        if (!policy_find(text))
            rc = error_set(err, ERR_USAGE, "--policy: no policy '%.60s'", text);
        if (rc == 0 && colon)
            rc = split_keys(k, text, colon + 1, err);
        n += k->n;
    }
    if (past)
        n = add_past(k, n, past, config != NULL);
    if (rc == 0)
        rc = load(config, k, n, ret, err);
    free(k);
    return rc;
}
