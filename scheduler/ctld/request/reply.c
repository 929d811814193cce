/* reply.c - what handlers share: replies, request bodies, path and query
 * parameters.
 */
#include "scheduler/ctld/request/reply.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/request/archive_load.h"
#include "scheduler/engine/events/json_nomem.h"

void ctld_reply(struct http_exchange *x, int status, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text) {
        http_reply_json(x, status, text, strlen(text));
        free(text);
        return;
    }
    struct error err;
    (void)error_set(&err, ERR_NOMEM, "reply");
    http_reply_err(x, &err);
}

json_t *ctld_body(struct http_exchange *x)
{
    size_t len = 0;
    const char *text = http_body(x, &len);
    json_error_t why = {.text = ""};
    nomem_forget(); /* else what is taken may be another text */
    json_t *o = len > 0 ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &why)
                        : json_object();
    bool has_lacked = nomem_was_there();
    if (json_is_object(o) && !has_lacked)
        return o;
    struct error err;
    if (has_lacked)
        (void)error_set(&err, ERR_NOMEM, "request");
    else if (o)
        (void)error_set(&err, ERR_INVAL, "the body is not a JSON object");
    else
        (void)error_set(&err, ERR_INVAL, "the body is not JSON: line %d: %s",
                        why.line, why.text);
    json_decref(o);
    http_reply_err(x, &err);
    return NULL;
}

static int parse_int(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    char *end = NULL;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || *text == '+' || *text == ' ' ||
        v < min || v > max)
        return -1;
    *ret = v;
    return 0;
}

/* RFC 3339 in UTC, or seconds since 1970. */
static int parse_since(const char *text, double *ret, struct error *err)
{
    struct tm tm = {0};
    char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    double s = 0;
    if (end) {
        s = (double)timegm(&tm);
        if (*end == '.')
            s += strtod(end, &end);
        if (strcmp(end, "Z") == 0) {
            *ret = s;
            return 0;
        }
    }
    s = strtod(text, &end);
    if (end == text || *end || !isfinite(s))
        return error_set(err, ERR_INVAL,
                         "since: '%.40s': expected 2026-11-21T10:00:00Z or "
                         "seconds since 1970",
                         text);
    *ret = s;
    return 0;
}

bool ctld_query_since(struct http_exchange *x, double *ret)
{
    struct error err = ERROR_INIT;
    const char *text = http_query(x, "since");
    if (!text || parse_since(text, ret, &err) == 0)
        return true;
    http_reply_err(x, &err);
    return false;
}

bool ctld_param_id(struct http_exchange *x, size_t i, uint64_t *ret)
{
    int64_t id = 0;
    if (parse_int(http_param(x, i), 1, i == 0 ? INT64_MAX : INT32_MAX, &id) <
        0) {
        struct error err;
        (void)error_set(&err, ERR_NOTFOUND, "no such job: '%.40s'",
                        http_param(x, i));
        http_reply_err(x, &err);
        return false;
    }
    *ret = (uint64_t)id;
    return true;
}

bool ctld_param_target(struct ctld *c, struct http_exchange *x,
                       struct target *ret)
{
    const char *text = http_param(x, 0), *bar = strchr(text, '_');
    char sweep[24] = "";
    int64_t id = 0, task = 0;
    if (!bar) {
        if (!ctld_param_id(x, 0, &ret->id) || !archive_load_for(c, x, ret->id))
            return false;
        ret->is_sweep = engine_sweep(c->engine, ret->id) != NULL;
        return true;
    }
    if ((size_t)(bar - text) < sizeof(sweep))
        memcpy(sweep, text, (size_t)(bar - text));
    bool is_id = parse_int(sweep, 1, INT64_MAX, &id) == 0 &&
                 parse_int(bar + 1, 0, INT32_MAX, &task) == 0;
    if (is_id && !archive_load_for(c, x, (uint64_t)id))
        return false;
    const struct job *job =
        is_id ? engine_task(c->engine, (uint64_t)id, (uint64_t)task) : NULL;
    if (!job) {
        struct error err;
        (void)error_set(&err, ERR_NOTFOUND, "no such job: '%.40s'", text);
        http_reply_err(x, &err);
        return false;
    }
    *ret = (struct target){.id = job->id};
    return true;
}

bool ctld_param_one(struct ctld *c, struct http_exchange *x, uint64_t *ret)
{
    struct target t;
    struct error err;
    if (!ctld_param_target(c, x, &t))
        return false;
    *ret = t.id;
    const struct job *first = engine_sweep(c->engine, t.id);
    if (!t.is_sweep || !first)
        return true;
    char name[JOB_DISPLAY_CAP];
    (void)job_display_id(first, name);
    (void)error_set(&err, ERR_INVAL,
                    "%llu is a sweep; name one of its jobs, as %s",
                    (unsigned long long)t.id, name);
    http_reply_err(x, &err);
    return false;
}

bool ctld_query_int(struct http_exchange *x, const char *name, int64_t min,
                    int64_t max, int64_t absent, int64_t *ret)
{
    const char *text = http_query(x, name);
    if (!text || !*text) {
        *ret = absent;
        return true;
    }
    if (parse_int(text, min, max, ret) == 0)
        return true;
    struct error err;
    (void)error_set(&err, ERR_INVAL, "%s=%.40s: expected %lld..%lld", name,
                    text, (long long)min, (long long)max);
    http_reply_err(x, &err);
    return false;
}

json_t *ctld_num(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *ctld_text(const char *s)
{
    if (!s || !*s)
        return json_null();
    json_t *o = json_string(s);
    return o ? o : json_string("(not UTF-8)");
}

json_t *ctld_time(double wall_s)
{
    char text[WIRE_TIME_CAP];
    wire_time(wall_s, text);
    return ctld_text(text);
}
