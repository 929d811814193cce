/* past_settings.c - the keys that held during a past, from admin.log.
 *
 * A line "policy" has the keys that were set or reset, a line "reload" those
 * that mgpu.yaml changed, each with the value before. So the value at the
 * beginning of each such key follows from the first line that changes it. Other
 * lines are counted: a simulation has no pause and no drain. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/conf/conf.h"
#include "jobs/text/timestamp.h"
#include "scheduler/sim/past/from_db.h"

static const char policy_key[] = "scheduler.policy";

static size_t find(const struct past_settings *p, const char *key)
{
    size_t i = 0;

    while (i < p->n && strcmp(p->at[i].key, key) != 0)
        i++;
    return i;
}

/* in  is_base  the value is that of mgpu.yaml */
static int put(struct past_settings *p, const struct lines *l, const char *key,
               const char *value, bool is_base, struct error *err)
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
    p->at[i].is_base = is_base;
    p->n += i == p->n;
    return 0;
}

struct reading {
    struct past *past;
    struct past_settings now;
    struct past_settings first; /* the values before the first changes */
    char first_policy[64];
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

/* Keys with their values: {KEY: {"old": .., "value": ..}}. */
static int take_keys(struct reading *r, const struct lines *l,
                     const json_t *keys, bool is_base, struct error *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)keys, key, v)
    {
        const char *old = json_string_value(json_object_get(v, "old"));
        const char *value = json_string_value(json_object_get(v, "value"));
        if (strcmp(key, policy_key) == 0) {
            take_policy(r, v);
            continue;
        }
        if (conf_key_of(key) != CONF_POLICY) {
            r->past->n_unknown_keys += !is_base;
            continue;
        }
        bool is_first = old && find(&r->first, key) == r->first.n;
        if ((is_first && put(&r->first, l, key, old, true, err) < 0) ||
            ((value || !is_base) &&
             put(&r->now, l, key, value, is_base, err) < 0))
            return -1;
    }
    return 0;
}

/* A reload has the keys that take effect at once. */
static int change(struct reading *r, const struct lines *l,
                  const json_t *detail, bool is_reload, struct error *err)
{
    return take_keys(r, l, json_object_get(detail, "unset"), true, err) < 0
               ? -1
               : take_keys(r, l, json_object_get(detail, "set"), is_reload,
                           err);
}

/* What each key was before its first change. */
static int add_first(const struct reading *r, const struct lines *l,
                     struct past_settings *io, struct error *err)
{
    if (!io->policy[0])
        memcpy(io->policy, r->first_policy, sizeof(io->policy));
    for (size_t i = 0; i < r->first.n; i++)
        if (find(io, r->first.at[i].key) == io->n &&
            put(io, l, r->first.at[i].key, r->first.at[i].value, true, err) < 0)
            return -1;
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
        timestamp_parse(string_of(o, "at"), &at, NULL, NULL) < 0 ||
        at.is_after) {
        json_decref(o);
        return lines_error(l, 0, err,
                           "no line of admin.log: expected "
                           "{\"at\":TIME,\"do\":..}");
    }
    bool is_reload = strcmp(what, "reload") == 0;
    if (is_reload || strcmp(what, "policy") == 0) {
        r->now.t_s = fmax(0, at.s - first_s);
        rc = change(r, l, json_object_get(o, "detail"), is_reload, err);
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
    for (size_t i = 0; rc == 0 && i < p->n_settings; i++)
        rc = add_first(&r, l, &p->settings[i], err);
    return rc;
}

int past_not_replayed(const struct past *p, struct buf *out, struct error *err)
{
    if (buf_addstr(out,
                   "changes of mgpu.yaml while no daemon ran and lost nodes "
                   "(not recorded here)",
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
