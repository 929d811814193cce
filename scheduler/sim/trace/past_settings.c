/* past_settings.c - the keys that administrators set during a past, from
 * admin.log.
 *
 * A line "policy" has the keys that were set or reset, each with the value
 * before. The policy at the beginning follows from the first line that changes
 * it. Other lines are counted: a simulation has no pause and no drain. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/conf/conf.h"
#include "jobs/text/timestamp.h"
#include "scheduler/sim/trace/from_db.h"

static const char policy_key[] = "scheduler.policy";

static size_t find(const struct past_settings *p, const char *key)
{
    size_t i = 0;

    while (i < p->n && strcmp(p->at[i].key, key) != 0)
        i++;
    return i;
}

static void unset(struct past_settings *p, const char *key)
{
    size_t i = find(p, key);

    if (i < p->n)
        p->at[i] = p->at[--p->n];
}

static int put(struct past_settings *p, const struct lines *l, const char *key,
               const char *value, struct error *err)
{
    size_t i = find(p, key);

    if (!value || strlen(key) >= sizeof(p->at[0].key) ||
        strlen(value) >= sizeof(p->at[0].value) || i == PAST_KEYS_MAX)
        return lines_error(l, 0, err,
                           "a key has no value of less than %zu bytes, or over "
                           "%d keys are set",
                           sizeof(p->at[0].value), (int)PAST_KEYS_MAX);
    (void)snprintf(p->at[i].key, sizeof(p->at[i].key), "%s", key);
    (void)snprintf(p->at[i].value, sizeof(p->at[i].value), "%s", value);
    p->n += i == p->n;
    return 0;
}

struct reading {
    struct past *past;
    struct past_settings now;
    char first_policy[64]; /* before the first change of it */
};

static const char *string_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* The policy is kept apart: a run of another one has its own. */
static void take_policy(struct reading *r, const json_t *change)
{
    if (!r->first_policy[0])
        (void)snprintf(r->first_policy, sizeof(r->first_policy), "%s",
                       string_of(change, "old"));
    (void)snprintf(r->now.policy, sizeof(r->now.policy), "%s",
                   string_of(change, "value"));
}

static int change(struct reading *r, const struct lines *l,
                  const json_t *detail, struct error *err)
{
    const char *key;
    json_t *v;

    json_object_foreach(json_object_get(detail, "unset"), key, v)
    {
        if (strcmp(key, policy_key) == 0)
            take_policy(r, v);
        else
            unset(&r->now, key);
    }
    json_object_foreach(json_object_get(detail, "set"), key, v)
    {
        if (strcmp(key, policy_key) == 0)
            take_policy(r, v);
        else if (conf_key_of(key) != CONF_POLICY)
            r->past->n_unknown_keys++;
        else if (put(&r->now, l, key,
                     json_string_value(json_object_get(v, "value")), err) < 0)
            return -1;
    }
    return 0;
}

/* All changes up to the first submit are one. */
static int keep(struct reading *r, struct error *err)
{
    struct past *p = r->past;
    size_t n = p->n_settings;

    if (n == 0 || r->now.t_s > 0) {
        struct past_settings *more =
            realloc(p->settings, (n + 1) * sizeof(*more));
        if (!more)
            return error_set(err, ERR_NOMEM, "settings");
        p->settings = more;
        p->n_settings++;
    }
    p->settings[p->n_settings - 1] = r->now;
    return 0;
}

static int one_line(struct reading *r, const struct lines *l, double first_s,
                    double last_s, struct error *err)
{
    json_t *o = json_loads(l->field[0], 0, NULL);
    const char *what = string_of(o, "do");
    struct when at;
    int rc = 0;

    if (!json_is_object(o) ||
        when_parse(string_of(o, "at"), &at, NULL, NULL) < 0 || at.is_after) {
        json_decref(o);
        return lines_error(l, 0, err,
                           "no line of admin.log: expected "
                           "{\"at\":TIME,\"do\":..}");
    }
    if (strcmp(what, "policy") == 0) {
        r->now.t_s = fmax(0, at.s - first_s);
        rc = change(r, l, json_object_get(o, "detail"), err);
        if (rc == 0)
            rc = keep(r, err);
    } else if (at.s <= last_s) {
        r->past->n_admin++;
    }
    json_decref(o);
    return rc;
}

int past_settings_read(struct lines *l, double first_s, double last_s,
                       struct past *p, struct error *err)
{
    struct reading r = {.past = p};
    int rc = keep(&r, err); /* what was so before the first line */

    while (rc == 0 && lines_next(l, '\0'))
        rc = one_line(&r, l, first_s, last_s, err);
    for (size_t i = 0; i < p->n_settings && !p->settings[i].policy[0]; i++)
        memcpy(p->settings[i].policy, r.first_policy, sizeof(r.first_policy));
    return rc;
}

int past_not_replayed(const struct past *p, struct buf *out, struct error *err)
{
    if (buf_addstr(out,
                   "changes of mgpu.yaml and lost nodes (not recorded here)",
                   err) < 0 ||
        (p->n_admin > 0 &&
         buf_addf(out, err, ", %zu actions such as pause and drain",
                  p->n_admin) < 0) ||
        (p->n_unknown_keys > 0 &&
         buf_addf(out, err, ", %zu settings of keys that are no more",
                  p->n_unknown_keys) < 0) ||
        (p->n_cut > 0 &&
         buf_addf(out, err,
                  ", max_parallel for %zu tasks of sweeps that are not whole",
                  p->n_cut) < 0))
        return -1;
    return 0;
}
