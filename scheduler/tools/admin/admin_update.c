/* admin_update.c - see admin_update.h. */
#include "scheduler/tools/admin/admin_update.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/admin/admin_resize.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/options.h"
#include "scheduler/tools/common/render.h"

static const char keys[] =
    "time_limit, partition, account, priority or sweep.max_parallel";

static int whole(const char *key, const char *text, long min, long max,
                 json_t **ret, struct error *err)
{
    char *end = NULL;
    long n = strtol(text, &end, 10);

    if (end == text || *end || n < min || n > max)
        return error_set(err, ERR_USAGE, "update: %s=%.60s: expected %ld..%ld",
                         key, text, min, max);
    *ret = json_integer(n);
    return 0;
}

static int limit(const char *text, json_t **ret, struct error *err)
{
    double s;

    if (options_duration("time_limit", text, &s, err) < 0)
        return -1;
    *ret = json_real(s);
    return 0;
}

/* The names are those of mgpu-job(5), with or without their section. */
static int add(json_t *o, const char *key, const char *value, struct error *err)
{
    bool is_none = strcmp(value, "null") == 0;
    const char *name = NULL;
    json_t *v = NULL;
    int rc = 0;

    if (strcmp(key, "time_limit") == 0 ||
        strcmp(key, "resources.time_limit") == 0) {
        name = "time_limit_s";
        rc = is_none ? 0 : limit(value, &v, err);
    } else if (strcmp(key, "priority") == 0 ||
               strcmp(key, "policy.priority") == 0) {
        name = "priority";
        rc = whole(key, value, -1000, 1000, &v, err);
    } else if (strcmp(key, "sweep.max_parallel") == 0) {
        name = "max_parallel";
        rc = is_none ? 0 : whole(key, value, 1, 1000000, &v, err);
    } else if (strcmp(key, "partition") == 0 ||
               strcmp(key, "resources.partition") == 0) {
        name = "partition";
        v = json_string(value);
    } else if (strcmp(key, "account") == 0 ||
               strcmp(key, "policy.account") == 0) {
        name = "account";
        v = json_string(value);
    } else {
        return error_set(err, ERR_USAGE, "update: no key '%.60s': expected %s",
                         key, keys);
    }
    if (rc < 0)
        return -1;
    if (json_object_get(o, name)) {
        json_decref(v);
        return error_set(err, ERR_USAGE, "update: %s is given twice", key);
    }
    if (json_object_set_new(o, name, v ? v : json_null()) < 0)
        return error_set(err, ERR_INVAL, "update: %s: not UTF-8", key);
    return 0;
}

static int body_of(char **words, int n, json_t **ret, struct error *err)
{
    json_t *o = json_object();
    int rc = o ? 0 : error_set(err, ERR_NOMEM, "request");

    for (int i = 0; rc == 0 && i < n; i++) {
        char key[64];
        const char *equals = strchr(words[i], '=');
        if (!equals || equals == words[i] || !equals[1] ||
            equals - words[i] >= (int)sizeof(key)) {
            rc = error_set(err, ERR_USAGE,
                           "update: '%.60s': expected KEY=VALUE, with %s",
                           words[i], keys);
            break;
        }
        (void)snprintf(key, sizeof(key), "%.*s", (int)(equals - words[i]),
                       words[i]);
        rc = add(o, key, equals + 1, err);
    }
    if (rc < 0)
        json_decref(o);
    else
        *ret = o;
    return rc;
}

int admin_priority_body(const char *text, json_t **ret, struct error *err)
{
    char *end = NULL;
    long n = strtol(text, &end, 10);

    if (end == text || *end || n < -1000 || n > 1000)
        return error_set(err, ERR_USAGE,
                         "priority '%s': expected -1000..1000; to write a "
                         "negative one, put -- before the command",
                         text);
    *ret = json_pack("{s:i}", "priority", (int)n);
    return *ret ? 0 : error_set(err, ERR_NOMEM, "request");
}

static void tell(const char *word, const json_t *job)
{
    double limit_s = field_real(job, "limit_s");
    char safe[600], limit[32] = "no time limit", time[32];

    if (limit_s > 0)
        (void)snprintf(limit, sizeof(limit), "time limit %s",
                       render_time(limit_s, time, sizeof(time)));
    printf("job %s: %s, priority %" PRId64 ", %s%s%s\n", word,
           field_str(job, "state"), field_int(job, "priority", 0), limit,
           *field_str(job, "reason") ? ", " : "",
           render_escape(field_str(job, "reason"), safe, sizeof(safe)));
}

int admin_update(struct client *c, bool json, bool quiet, char **words, int n,
                 struct error *err)
{
    json_t *body = NULL, *reply = NULL;
    char path[80];

    if (options_job_word(words[0], err) < 0 ||
        body_of(words + 1, n - 1, &body, err) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/update", words[0]);
    int rc = client_post(c, path, body, NULL, &reply, err);
    if (rc == 0 && json)
        rc = admin_print_job(json_object_get(reply, "job"), err);
    else if (rc == 0 && !quiet)
        tell(words[0], json_object_get(reply, "job"));
    json_decref(body);
    json_decref(reply);
    return rc;
}
