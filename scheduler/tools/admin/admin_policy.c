/* admin_policy.c - mgpu-admin policy: show, set and reset settings, explain the
 * order of the queue; see admin_policy.h.
 */
#include "scheduler/tools/admin/admin_policy.h"
#include "scheduler/tools/admin/admin_try.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/tools/admin/admin_log.h"
#include "scheduler/tools/common/render.h"

enum { TEXT_CAP = 600 };

static const char *safe(const json_t *o, const char *key, char out[TEXT_CAP])
{
    const char *text = field_str(o, key);
    return render_escape(*text ? text : "-", out, TEXT_CAP);
}

static int print_table(struct render_table *t)
{
    struct render_style style;
    render_style_init(&style, stdout);
    render_table_print(t, &style, true, stdout);
    return 0;
}

/* ---- show ------------------------------------------------------------------
 */
/* "default", "mgpu.yaml:12", "set by uid 0 (root), until ..". */
static const char *origin_of(const json_t *reply, const json_t *k,
                             char out[TEXT_CAP])
{
    const char *origin = field_str(k, "origin");
    char file[TEXT_CAP];
    if (strcmp(origin, "set") == 0)
        (void)snprintf(out, TEXT_CAP, "set by %s%s%s",
                       admin_who(field_int(k, "uid", -1), file, sizeof(file)),
                       *field_str(k, "until") ? ", until " : "",
                       field_str(k, "until"));
    else if (strcmp(origin, "file") == 0)
        (void)snprintf(out, TEXT_CAP, "%s:%" PRId64, safe(reply, "file", file),
                       field_int(k, "line", 0));
    else
        (void)snprintf(out, TEXT_CAP, "default");
    return out;
}

/* Whether the key is in {KEY: ..}, in ["KEY"], or `only` is NULL. */
static bool is_asked(const json_t *only, const char *key)
{
    size_t i;
    json_t *v;
    if (json_is_object(only))
        return json_object_get(only, key);
    json_array_foreach(only, i, v)
    {
        if (strcmp(json_string_value(v), key) == 0)
            return true;
    }
    return !json_is_array(only);
}

/* in  only  borrowed; NULL: all */
static int print_keys(const json_t *reply, const json_t *only,
                      struct error *err)
{
    static const struct render_column columns[] = {
        {"KEY", RENDER_KEY},   {"VALUE", RENDER_LEFT},  {"TAKES", RENDER_LEFT},
        {"FROM", RENDER_LEFT}, {"DEFAULT", RENDER_KEY}, {"TYPE", RENDER_KEY},
    };
    struct render_table *t = NULL;
    char value[TEXT_CAP], from[TEXT_CAP];
    size_t i;
    json_t *k;
    int rc = render_table_create(columns, 6, &t, err);
    json_array_foreach(json_object_get(reply, "keys"), i, k)
    {
        if (!is_asked(only, field_str(k, "key")))
            continue;
        if (rc == 0)
            rc = render_table_add(t, err, "%s", field_str(k, "key"));
        if (rc == 0)
            rc = render_table_add(t, err, "%s", safe(k, "value", value));
        if (rc == 0)
            rc = render_table_add(t, err, "%s",
                                  field_yes(k, "is_live") ? "now" : "restart");
        if (rc == 0)
            rc = render_table_add(t, err, "%s", origin_of(reply, k, from));
        if (rc == 0)
            rc = render_table_add(t, err, "%s", field_str(k, "default"));
        if (rc == 0)
            rc = render_table_add(t, err, "%s", field_str(k, "type"));
    }
    if (rc == 0)
        rc = print_table(t);
    render_table_destroy(t);
    return rc;
}

static int print_policy(const struct admin_policy *a, const json_t *reply,
                        const json_t *only, struct error *err)
{
    char summary[TEXT_CAP];
    if (a->json)
        return client_print(reply, err);
    printf("policy %s: %s\n", field_str(reply, "policy"),
           safe(reply, "summary", summary));
    return print_keys(reply, only, err);
}

static int show(struct client *c, const struct admin_policy *a,
                struct error *err)
{
    json_t *reply = NULL;
    int rc = client_get(c, &reply, err, "/v1/policy");
    if (rc == 0)
        rc = print_policy(a, reply, NULL, err);
    json_decref(reply);
    return rc;
}

/* ---- set, reset ------------------------------------------------------------
 */
static int post(struct client *c, const struct admin_policy *a, json_t *body,
                struct error *err)
{
    json_t *reply = NULL;
    const json_t *set = json_object_get(body, "set");
    const json_t *only = set ? set : json_object_get(body, "unset");
    if (!body)
        return error_set(err, ERR_INVAL, "a value is not UTF-8");
    int rc = client_post(c, "/v1/admin/policy", body, NULL, &reply, err);
    if (rc == 0 && (a->json || !a->quiet))
        rc = print_policy(a, reply, only, err);
    json_decref(reply);
    json_decref(body);
    return rc;
}

static int set(struct client *c, const struct admin_policy *a, char **words,
               int n, struct error *err)
{
    json_t *keys = json_object();
    if (n == 0) {
        json_decref(keys);
        return error_set(err, ERR_USAGE, "policy set: expected KEY=VALUE");
    }
    for (int i = 0; i < n; i++) {
        char *eq = strchr(words[i], '=');
        json_t *value = eq ? json_string(eq + 1) : NULL;
        char key[128];
        if (!value || (size_t)(eq - words[i]) >= sizeof(key)) {
            json_decref(value);
            json_decref(keys);
            return error_set(err, ERR_USAGE,
                             "policy set '%s': expected KEY=VALUE", words[i]);
        }
        (void)snprintf(key, sizeof(key), "%.*s", (int)(eq - words[i]),
                       words[i]);
        if (json_object_get(keys, key)) {
            json_decref(value);
            json_decref(keys);
            return error_set(err, ERR_USAGE, "policy set: '%s' twice", key);
        }
        (void)json_object_set_new(keys, key, value);
    }
    json_t *body = json_pack("{s:o}", "set", keys);
    if (body && a->for_s > 0)
        (void)json_object_set_new(body, "for_s", json_real(a->for_s));
    return post(c, a, body, err);
}

/* Without a key, resets all settings. */
static int reset(struct client *c, const struct admin_policy *a, char **words,
                 int n, struct error *err)
{
    json_t *keys = n > 0 ? json_array() : json_true();
    for (int i = 0; i < n; i++)
        (void)json_array_append_new(keys, json_string(words[i]));
    return post(c, a, json_pack("{s:o}", "unset", keys), err);
}

/* ---- explain ---------------------------------------------------------------
 */
/* "2", "1..4". */
static const char *range_of(const json_t *j, char out[32])
{
    int64_t min = field_int(j, "gpus_min", 0),
            max = field_int(j, "gpus_max", 0);
    (void)snprintf(out, 32, min == max ? "%" PRId64 : "%" PRId64 "..%" PRId64,
                   min, max);
    return out;
}

static void why_of(const json_t *j, char out[TEXT_CAP])
{
    const char *act = field_str(j, "act");
    char reason[TEXT_CAP], asked[32];
    const char *at = field_str(j, "start_estimate");

    if (strcmp(act, "start") == 0)
        (void)snprintf(out, TEXT_CAP,
                       "starts now: the smallest number of %s that fits",
                       range_of(j, asked));
    else if (strcmp(act, "runs") == 0)
        (void)snprintf(out, TEXT_CAP, "%s%s%s", safe(j, "place", reason),
                       *field_str(j, "ends") ? ", ends by " : "",
                       field_str(j, "ends"));
    else
        (void)snprintf(out, TEXT_CAP, "%s%s%s", safe(j, "reason", reason),
                       *at ? ", by " : "", at);
}

static int add_row(struct render_table *t, const json_t *j, struct error *err)
{
    char text[TEXT_CAP], wait[32], gets[64] = "-", asked[32];
    int64_t pos = field_int(j, "position", 0), nodes = field_int(j, "nodes", 0);

    if (nodes > 0)
        (void)snprintf(gets, sizeof(gets), "%" PRId64 " on %" PRId64,
                       field_int(j, "gpus", 0), nodes);
    (void)snprintf(text, sizeof(text), pos > 0 ? "%" PRId64 : "-", pos);
    if (render_table_add(t, err, "%s", text) < 0 ||
        render_table_add(t, err, "%s", field_str(j, "display_id")) < 0 ||
        render_table_add(t, err, "%s", safe(j, "user", text)) < 0 ||
        render_table_add(t, err, "%s", field_str(j, "act")) < 0 ||
        render_table_add(t, err, "%" PRId64, field_int(j, "priority", 0)) < 0 ||
        render_table_add(t, err, "%s",
                         render_duration(field_real(j, "waited_s"), wait,
                                         sizeof(wait))) < 0 ||
        render_table_add(t, err, "%s", range_of(j, asked)) < 0 ||
        render_table_add(t, err, "%s", gets) < 0)
        return -1;
    why_of(j, text);
    return render_table_add(t, err, "%s", text);
}

static int print_plan(const json_t *reply, struct error *err)
{
    static const struct render_column columns[] = {
        {"POS", RENDER_RIGHT},  {"JOB", RENDER_RIGHT},
        {"USER", RENDER_LEFT},  {"", RENDER_LEFT},
        {"PRIO", RENDER_RIGHT}, {"WAITED", RENDER_RIGHT},
        {"ASKED", RENDER_LEFT}, {"GPUS", RENDER_LEFT},
        {"WHY", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    char text[TEXT_CAP];
    size_t i;
    json_t *j;
    printf("policy %s: %s\n", field_str(reply, "policy"),
           safe(reply, "summary", text));
    printf("order: the higher priority, then the earlier submit; "
           "%" PRId64 " of %" PRId64 " GPUs are free%s\n",
           field_int(reply, "gpus_free", 0), field_int(reply, "gpus_total", 0),
           json_is_object(json_object_get(reply, "paused"))
               ? "; paused: nothing is started"
               : "");
    int rc = render_table_create(columns, 9, &t, err);
    json_array_foreach(json_object_get(reply, "jobs"), i, j)
    {
        if (rc == 0)
            rc = add_row(t, j, err);
    }
    if (rc == 0)
        rc = print_table(t);
    if (rc == 0 && field_int(reply, "n_more", 0) > 0)
        printf("... and %" PRId64 " more\n", field_int(reply, "n_more", 0));
    render_table_destroy(t);
    return rc;
}

/* A rate, a value or an efficiency; "-" if it is unknown. */
static int add_figure(struct render_table *t, const json_t *row,
                      const char *key, int digits, struct error *err)
{
    double v = field_real(row, key);
    return isfinite(v) ? render_table_add(t, err, "%.*f", digits, v)
                       : render_table_add(t, err, "-");
}

static int add_size(struct render_table *t, const json_t *row,
                    struct error *err)
{
    const char *basis = field_str(row, "basis");
    int64_t n = field_int(row, "iterations", 0);

    if (render_table_add(t, err, "%" PRId64, field_int(row, "id", 0)) < 0 ||
        render_table_add(t, err, "%" PRId64, field_int(row, "gpus", 0)) < 0 ||
        render_table_add(t, err, "%" PRId64, field_int(row, "nodes", 0)) < 0 ||
        add_figure(t, row, "rate", 2, err) < 0 ||
        add_figure(t, row, "efficiency", 2, err) < 0 ||
        (n > 0 ? render_table_add(t, err, "%s (%" PRId64 ")", basis, n)
               : render_table_add(t, err, "%s", *basis ? basis : "-")) < 0 ||
        add_figure(t, row, "value", 3, err) < 0 ||
        add_figure(t, row, "gain", 3, err) < 0)
        return -1;
    return render_table_add(
        t, err, "%s%s%s%s%s", field_yes(row, "is_now") ? "has " : "",
        field_yes(row, "is_chosen") ? "chosen" : "",
        field_yes(row, "is_next") ? "next best" : "",
        *field_str(row, "turn") ? "resized too often" : "",
        field_yes(row, "is_late") ? " over its time limit" : "");
}

/* Of the policy goodput: what each size of each job is worth. */
static int print_sizes(const json_t *reply, struct error *err)
{
    static const struct render_column columns[] = {
        {"JOB", RENDER_RIGHT},   {"GPUS", RENDER_RIGHT},
        {"NODES", RENDER_RIGHT}, {"RATE", RENDER_RIGHT},
        {"EFF", RENDER_RIGHT},   {"BASIS", RENDER_LEFT},
        {"VALUE", RENDER_RIGHT}, {"+1 GPU", RENDER_RIGHT},
        {"", RENDER_LEFT},
    };
    const json_t *sizes = json_object_get(reply, "sizes");
    double price = field_real(reply, "gpu_price");
    struct render_table *t = NULL;
    size_t i;
    json_t *row;

    if (json_array_size(sizes) == 0)
        return 0;
    printf("\nsizes: RATE is work per second, BASIS has the iterations "
           "measured%s",
           isfinite(price) ? "" : "\n");
    if (isfinite(price))
        printf("; one more GPU would be worth %.3f\n", price);
    int rc = render_table_create(columns, 9, &t, err);
    json_array_foreach(sizes, i, row)
    {
        if (rc == 0)
            rc = add_size(t, row, err);
    }
    if (rc == 0)
        rc = print_table(t);
    render_table_destroy(t);
    return rc;
}

/* "GPUs 3 of 8"; a limit of 0 means none. */
static void print_use(const json_t *use, const char *who, const char *what,
                      const char *have, const char *max)
{
    int64_t most = field_int(use, max, 0);
    char limit[32] = "no limit";
    if (most > 0)
        (void)snprintf(limit, sizeof(limit), "%" PRId64 " allowed", most);
    printf(" %-14s %s: %" PRId64 " in use, %s\n", who, what,
           field_int(use, have, 0), limit);
}

static void print_limits(const json_t *job)
{
    const json_t *use = json_object_get(job, "use");
    char account[TEXT_CAP];
    if (!json_is_object(use))
        return;
    print_use(use, "its user", "GPUs", "user_gpus", "user_gpus_max");
    print_use(use, "its user", "jobs", "user_running", "user_running_max");
    if (!*field_str(use, "account"))
        return;
    printf(" account        %s\n", safe(use, "account", account));
    print_use(use, "its account", "GPUs", "account_gpus", "account_gpus_max");
    print_use(use, "its account", "jobs", "account_running",
              "account_running_max");
}

static int explain(struct client *c, const struct admin_policy *a,
                   const char *word, struct error *err)
{
    unsigned long long id = 0;
    json_t *reply = NULL, *job = NULL;
    char text[64] = "";
    /* The daemon resolves the name of a task. */
    if (word && options_job_word(word, err) < 0)
        return -1;
    if (word) {
        if (client_get(c, &job, err, "/v1/jobs/%s", word) < 0)
            return -1;
        id =
            (unsigned long long)field_int(json_object_get(job, "job"), "id", 0);
        (void)snprintf(text, sizeof(text), "?job=%llu", id);
        json_decref(job);
    }
    int rc = client_get(c, &reply, err, "/v1/admin/plan%s", text);
    if (rc == 0 && a->json)
        rc = client_print(reply, err);
    else if (rc == 0)
        rc = print_plan(reply, err);
    if (rc == 0 && !a->json)
        rc = print_sizes(reply, err);
    if (rc == 0 && !a->json && word)
        print_limits(json_array_get(json_object_get(reply, "jobs"), 0));
    json_decref(reply);
    return rc;
}

int admin_policy(struct client *c, const struct admin_policy *a, char **words,
                 int n, struct error *err)
{
    const char *verb = n > 0 ? words[0] : "show";
    if (strcmp(verb, "set") == 0)
        return set(c, a, words + 1, n - 1, err);
    if (a->for_s > 0)
        return error_set(err, ERR_USAGE, "--for goes with policy set alone");
    if (strcmp(verb, "try") == 0)
        return admin_try(c, words + 1, n - 1, a->since_s, a->json, err);
    if (a->since_s > 0)
        return error_set(err, ERR_USAGE, "--since goes with policy try alone");
    if (strcmp(verb, "reset") == 0)
        return reset(c, a, words + 1, n - 1, err);
    if (strcmp(verb, "show") == 0 && n <= 1)
        return show(c, a, err);
    if (strcmp(verb, "explain") == 0 && n <= 2)
        return explain(c, a, n == 2 ? words[1] : NULL, err);
    return error_set(err, ERR_USAGE,
                     "policy: expected show, set KEY=VALUE..., reset [KEY...], "
                     "explain [JOB] or try KEY=VALUE...");
}
