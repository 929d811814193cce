/* launch_file.c - launch.json: the input of an attempt's ranks, and of the
 * shepherd or batch step that starts them.
 *
 * A newer daemon may add fields, so unknown keys are ignored; a missing key, a
 * wrong type or a value that does not fit is an error that names the key.
 * spec_parse() validates the spec inside, the code that accepted it at the
 * submit. */
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/schema/interpolate.h"
#include "jobs/wire/json_struct.h"
#include "jobs/wire/wire.h"

enum { LAUNCH_VERSION = 1, OWNER_LEN = 32 };

static const char *bad_dir(const char *text)
{
    return text[0] == '/' ? NULL : "must be an absolute path";
}

/* It is used in a header; the message does not quote it, because it is
 * secret. */
static const char *bad_token(const char *text)
{
    return text[strspn(text, "0123456789abcdef")] ? "is not hexadecimal" : NULL;
}

static const char *bad_owner(const char *text)
{
    return strspn(text, "0123456789abcdef") == OWNER_LEN
               ? NULL
               : "must be 32 hexadecimal digits";
}

#define AT(member) offsetof(struct wire_launch, member)
#define TEXT(member, flags, fault)                           \
    {                                                        \
#member, KIND_RAW, flags, AT(member), 1,             \
            sizeof(((struct wire_launch *)0)->member), fault \
    }
static const struct json_field who[] = {
    {"version", KIND_CONST, 0, 0, LAUNCH_VERSION, LAUNCH_VERSION, NULL},
    TEXT(cluster, 0, NULL),
    {"job", KIND_U64, IS_TRUSTED, AT(job), 1, INT64_MAX, NULL},
    {"attempt", KIND_I32, IS_TRUSTED, AT(attempt), 1, INT32_MAX, NULL},
    TEXT(token, 0, bad_token),
    TEXT(url, 0, NULL),
    TEXT(dir, 0, bad_dir),
    TEXT(job_dir, 0, bad_dir),
};
static const struct json_field beat[] = {
    {"heartbeat_s", KIND_POSITIVE, 0, AT(heartbeat_s), 0, 0, NULL},
};
static const struct json_field size[] = {
    {"nodes", KIND_I32, IS_TRUSTED, AT(nodes), 1, INT32_MAX, NULL},
    {"gpus_per_node", KIND_I32, IS_TRUSTED, AT(gpus_per_node), 0, INT32_MAX,
     NULL},
};
/* An older daemon writes none of these. */
static const struct json_field rest[] = {
    TEXT(user, IS_SPARSE, NULL),
    TEXT(owner, IS_SPARSE, bad_owner),
    TEXT(parent, IS_SPARSE, NULL),
    TEXT(from, IS_SPARSE, bad_dir),
};
enum { N_REST = sizeof(rest) / sizeof(rest[0]) };
static const struct json_field task[] = {
    {"sweep", KIND_U64, IS_TRUSTED, AT(sweep), 1, INT64_MAX, NULL},
    {"task", KIND_I32, IS_TRUSTED, AT(task), 0, INT32_MAX, NULL},
    {"tasks", KIND_I32, IS_TRUSTED, AT(n_tasks), 1, INT32_MAX, NULL},
};

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
    diagnostics_clear(&report);
    free(text);
    return rc;
}

/* Of the rows; a newer daemon's other keys are ignored. */
static int take(const struct json_field *rows, size_t n,
                const struct members *m, struct wire_launch *ret,
                struct error *err)
{
    const struct json_struct t = {NULL, rows, n};
    return json_struct_read(&t, m, JSON_ANY_EXTRA, ret, err);
}

static int put(const struct json_field *rows, size_t n,
               const struct wire_launch *l, json_t *o, struct error *err)
{
    const struct json_struct t = {NULL, rows, n};
    return json_struct_write(&t, l, o, err);
}

static int get_all(json_t *o, struct wire_launch *l, struct error *err)
{
    struct members m;
    if (!json_is_object(o))
        return error_set(err, ERR_INVAL, "not a JSON object");
    json_members_of_json(o, &m);
    if (take(JSON_FIELDS(who), &m, l, err) < 0 ||
        take(JSON_FIELDS(size), &m, l, err) < 0 ||
        (members_get(&m, "sweep").kind != MEMBER_NONE &&
         take(JSON_FIELDS(task), &m, l, err) < 0) ||
        take(JSON_FIELDS(rest), &m, l, err) < 0 ||
        take(JSON_FIELDS(beat), &m, l, err) < 0)
        return -1;
    return get_spec(o, &l->spec, err);
}

int wire_launch_parse(const char *text, size_t len, struct wire_launch *ret,
                      struct error *err)
{
    if (len > WIRE_LAUNCH_MAX_BYTES)
        return error_set(err, ERR_INVAL, "launch: over %d bytes",
                         WIRE_LAUNCH_MAX_BYTES);
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

int32_t wire_launch_ranks(const struct wire_launch *l)
{
    bool is_one = l->gpus_per_node < 1 || l->spec.launch == LAUNCH_NODE;
    return is_one ? 1 : l->gpus_per_node;
}

/* err  ERR_INVAL a field is not UTF-8; ERR_NOMEM */
static int describe(const struct wire_launch *l, struct buf *out,
                    struct error *err)
{
    json_t *o = json_object();
    size_t skip = !interpolate_is_user(l->user);
    struct error why = {.code = ERR_NOMEM, .msg = "out of memory"};
    int rc = -1;
    if (o != NULL && put(JSON_FIELDS(who), l, o, &why) == 0 &&
        put(JSON_FIELDS(beat), l, o, &why) == 0 &&
        put(JSON_FIELDS(size), l, o, &why) == 0 &&
        put(rest + skip, N_REST - skip, l, o, &why) == 0 &&
        (l->sweep == 0 || put(JSON_FIELDS(task), l, o, &why) == 0))
        rc = json_struct_dump(o, out, &why);
    json_decref(o);
    return rc < 0 ? error_set(err, why.code, "launch: %s", why.msg) : 0;
}

static int add_all(const struct wire_launch *l, const char *spec_json,
                   struct buf *out, struct error *err)
{
    /* jansson escapes; the spec, already JSON, is inserted before the closing
     * brace. */
    if (describe(l, out, err) < 0)
        return -1;
    out->len--;
    if (buf_addstr(out, ",\"spec\":", err) < 0 ||
        buf_addstr(out, spec_json, err) < 0 || buf_addstr(out, "}\n", err) < 0)
        return -1;
    return 0;
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
