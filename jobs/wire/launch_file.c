/* launch_file.c - launch.json: the input of each rank of an attempt.
 *
 * A newer daemon may add fields, so unknown keys are ignored; a missing key, a
 * wrong type or a value that does not fit is an error that names the key.
 * spec_parse() validates the spec inside, the code that accepted it at the
 * submit. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/schema/interpolate.h"
#include "jobs/wire/wire.h"

/* A spec is at most 64 KiB of text; its dump and the other fields are far below
 * the limit. */
enum { LAUNCH_MAX_BYTES = 1 << 20, LAUNCH_VERSION = 1 };

static int get_text(const json_t *o, const char *key, char *ret, size_t cap,
                    struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_string(v))
        return error_set(err, ERR_INVAL, "'%s' is not a string", key);
    size_t n = json_string_length(v);
    if (n == 0 || n >= cap || strlen(json_string_value(v)) != n)
        return error_set(err, ERR_INVAL, "'%s' must have 1..%zu bytes", key,
                         cap - 1);
    memcpy(ret, json_string_value(v), n + 1);
    return 0;
}

static int get_int(const json_t *o, const char *key, json_int_t min,
                   json_int_t max, json_int_t *ret, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v))
        return error_set(err, ERR_INVAL, "'%s' is not an integer", key);
    json_int_t n = json_integer_value(v);
    if (n < min || n > max)
        return error_set(err, ERR_INVAL,
                         "'%s' is %" JSON_INTEGER_FORMAT
                         ", must be %" JSON_INTEGER_FORMAT
                         "..%" JSON_INTEGER_FORMAT,
                         key, n, min, max);
    *ret = n;
    return 0;
}

static int get_i32(const json_t *o, const char *key, int32_t min, int32_t max,
                   int32_t *ret, struct error *err)
{
    json_int_t n = 0;
    if (get_int(o, key, min, max, &n, err) < 0)
        return -1;
    *ret = (int32_t)n;
    return 0;
}

static int get_dir(const json_t *o, const char *key, char *ret, size_t cap,
                   struct error *err)
{
    if (get_text(o, key, ret, cap, err) < 0)
        return -1;
    if (ret[0] != '/')
        return error_set(err, ERR_INVAL, "'%s' must be an absolute path", key);
    return 0;
}

static int get_token(const json_t *o, char ret[static 65], struct error *err)
{
    if (get_text(o, "token", ret, 65, err) < 0)
        return -1;
    /* It is used in a header; the message does not quote it, because it is
     * secret. */
    if (strspn(ret, "0123456789abcdef") != strlen(ret))
        return error_set(err, ERR_INVAL, "'token' is not hexadecimal");
    return 0;
}

static int get_spec(const json_t *o, struct job_spec *ret, struct error *err)
{
    const json_t *v = json_object_get(o, "spec");
    if (!json_is_object(v))
        return error_set(err, ERR_INVAL, "'spec' is not an object");
    char *text = json_dumps(v, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (text == NULL)
        return error_set(err, ERR_NOMEM, "out of memory");
    struct spec_options opt = {.is_stored = true};
    struct spec_report report = {.findings = NULL};
    int rc = spec_parse(text, strlen(text), &opt, ret, &report, err);
    if (rc < 0 && report.n > 0 && report.findings != NULL)
        (void)error_set(err, ERR_INVAL, "spec: %s: %s", report.findings[0].path,
                        report.findings[0].message);
    spec_report_clear(&report);
    free(text);
    return rc;
}

/* An older daemon does not write it. */
static int get_task(const json_t *o, struct wire_launch *l, struct error *err)
{
    json_int_t sweep = 0;
    if (!json_object_get(o, "sweep"))
        return 0;
    if (get_int(o, "sweep", 1, INT64_MAX, &sweep, err) < 0 ||
        get_i32(o, "task", 0, INT32_MAX, &l->task, err) < 0 ||
        get_i32(o, "tasks", 1, INT32_MAX, &l->n_tasks, err) < 0)
        return -1;
    l->sweep = (uint64_t)sweep;
    return 0;
}

static int get_user(const json_t *o, struct wire_launch *l, struct error *err)
{
    return json_object_get(o, "user")
               ? get_text(o, "user", l->user, sizeof(l->user), err)
               : 0;
}

/* An older daemon has none. */
static int get_owner(const json_t *o, struct wire_launch *l, struct error *err)
{
    if (!json_object_get(o, "owner"))
        return 0;
    if (get_text(o, "owner", l->owner, sizeof(l->owner), err) < 0)
        return -1;
    if (strspn(l->owner, "0123456789abcdef") != sizeof(l->owner) - 1)
        return error_set(err, ERR_INVAL,
                         "'owner' must be %zu hexadecimal "
                         "digits",
                         sizeof(l->owner) - 1);
    return 0;
}

static int get_all(const json_t *o, struct wire_launch *l, struct error *err)
{
    json_int_t job = 0;
    int32_t version = 0;
    if (!json_is_object(o))
        return error_set(err, ERR_INVAL, "not a JSON object");
    if (get_i32(o, "version", LAUNCH_VERSION, LAUNCH_VERSION, &version, err) <
            0 ||
        get_text(o, "cluster", l->cluster, sizeof(l->cluster), err) < 0 ||
        get_int(o, "job", 1, INT64_MAX, &job, err) < 0 ||
        get_i32(o, "attempt", 1, INT32_MAX, &l->attempt, err) < 0 ||
        get_token(o, l->token, err) < 0 ||
        get_text(o, "url", l->url, sizeof(l->url), err) < 0 ||
        get_dir(o, "dir", l->dir, sizeof(l->dir), err) < 0 ||
        get_dir(o, "job_dir", l->job_dir, sizeof(l->job_dir), err) < 0 ||
        get_i32(o, "nodes", 1, INT32_MAX, &l->nodes, err) < 0 ||
        get_i32(o, "gpus_per_node", 0, INT32_MAX, &l->gpus_per_node, err) < 0 ||
        get_task(o, l, err) < 0 || get_user(o, l, err) < 0 ||
        get_owner(o, l, err) < 0)
        return -1;
    l->job = (uint64_t)job;
    const json_t *beat = json_object_get(o, "heartbeat_s");
    l->heartbeat_s = json_number_value(beat);
    if (!json_is_number(beat) || !(l->heartbeat_s > 0))
        return error_set(err, ERR_INVAL, "'heartbeat_s' must be above 0");
    return get_spec(o, &l->spec, err);
}

int wire_launch_parse(const char *text, size_t len, struct wire_launch *ret,
                      struct error *err)
{
    if (len > LAUNCH_MAX_BYTES)
        return error_set(err, ERR_INVAL, "launch: over %d bytes",
                         LAUNCH_MAX_BYTES);
    json_error_t why;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (o == NULL)
        return error_set(err, ERR_INVAL, "launch: line %d: %s", why.line,
                         why.text);
    struct wire_launch l = {.attempt = 0};
    int rc = get_all(o, &l, err);
    json_decref(o);
    if (rc < 0)
        return error_wrap(err, "launch");
    *ret = l;
    return 0;
}

void wire_launch_clear(struct wire_launch *l)
{
    if (l == NULL)
        return;
    spec_clear(&l->spec);
    *l = (struct wire_launch){.attempt = 0};
}

static int add_rest(const struct wire_launch *l, json_t *o)
{
    if (fill_is_user(l->user) &&
        json_object_set_new(o, "user", json_string(l->user)) < 0)
        return -1;
    if (l->owner[0] != '\0' &&
        json_object_set_new(o, "owner", json_string(l->owner)) < 0)
        return -1;
    if (l->sweep == 0)
        return 0;
    return json_object_set_new(o, "sweep", json_integer((json_int_t)l->sweep)) <
                       0 ||
                   json_object_set_new(o, "task", json_integer(l->task)) < 0 ||
                   json_object_set_new(o, "tasks", json_integer(l->n_tasks)) < 0
               ? -1
               : 0;
}

/* jansson 2.14 silently omits members for which it finds no memory: parse the
 * output again to verify it. NULL: no memory. */
static char *dump(const json_t *o)
{
    char *text = json_dumps(o, JSON_COMPACT);
    json_t *read = text != NULL ? json_loads(text, 0, NULL) : NULL;
    bool is_whole = read != NULL && json_equal(read, o);
    json_decref(read);
    if (is_whole)
        return text;
    free(text);
    return NULL;
}

static int add_all(const struct wire_launch *l, const char *spec_json,
                   struct buf *out, struct error *err)
{
    /* jansson escapes; the spec, already JSON, is inserted before the closing
     * brace. */
    json_error_t bad = {.line = 0};
    json_t *o = json_pack_ex(
        &bad, 0, "{s:i,s:s,s:I,s:i,s:s,s:s,s:s,s:s,s:f,s:i,s:i}", "version",
        LAUNCH_VERSION, "cluster", l->cluster, "job", (json_int_t)l->job,
        "attempt", (int)l->attempt, "token", l->token, "url", l->url, "dir",
        l->dir, "job_dir", l->job_dir, "heartbeat_s", l->heartbeat_s, "nodes",
        (int)l->nodes, "gpus_per_node", (int)l->gpus_per_node);
    bool is_bad = o == NULL && json_error_code(&bad) == json_error_invalid_utf8;
    char *text = o != NULL && add_rest(l, o) == 0 ? dump(o) : NULL;
    json_decref(o);
    if (is_bad)
        return error_set(err, ERR_INVAL, "launch: a field is not UTF-8");
    if (text == NULL)
        return error_set(err, ERR_NOMEM, "launch: out of memory");
    size_t n = strlen(text);
    int rc = 0;
    if (buf_add(out, text, n - 1, err) < 0 ||
        buf_addstr(out, ",\"spec\":", err) < 0 ||
        buf_addstr(out, spec_json, err) < 0 || buf_addstr(out, "}\n", err) < 0)
        rc = -1;
    free(text);
    return rc;
}

int wire_launch_encode(const struct wire_launch *l, const char *spec_json,
                       struct buf *out, struct error *err)
{
    size_t was = out->len;
    if (add_all(l, spec_json, out, err) == 0)
        return 0;
    if (out->data != NULL) {
        out->len = was; /* remove partial output */
        out->data[was] = '\0';
    }
    return -1;
}
