/* interpolate.c - see interpolate.h. One pass from left to right, which stops
 * at the first error. */
#include "jobs/schema/interpolate.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jobs/text/text.h"

enum var { VAR_NAME, VAR_JOB, VAR_TASK, VAR_ATTEMPT, VAR_USER, VAR_OUTPUT };

/* most: largest size of a value in bytes. A worker accepts no longer
 * directory. */
static const struct {
    const char *name;
    bool is_early;
    size_t most;
} vars[] = {
    [VAR_NAME] = {"name", true, 63},
    [VAR_JOB] = {"job_id", false, 20},
    [VAR_TASK] = {"task_id", false, 10},
    [VAR_ATTEMPT] = {"attempt", false, 10},
    [VAR_USER] = {"user", true, 255},
    [VAR_OUTPUT] = {"output_dir", false, 1023},
};
enum { N_VARS = sizeof(vars) / sizeof(vars[0]) };

/* The next piece: literal bytes, then an escaped "${" (written with one more
 * dollar), or a name. */
struct step {
    const char *plain, *name, *rest;
    size_t n_plain, n_name;
    bool is_brace;
};

static struct step next(const char *p)
{
    const char *at = strstr(p, "${");
    struct step s = {.plain = p, .n_plain = strlen(p)};
    s.rest = p + s.n_plain;
    if (!at)
        return s;
    s.is_brace = at > p && at[-1] == '$';
    s.n_plain = (size_t)(at - p) - s.is_brace;
    s.rest = at + 2;
    if (s.is_brace)
        return s;
    s.name = s.rest;
    s.n_name = strcspn(s.name, "}");
    s.rest += s.n_name + (s.name[s.n_name] == '}');
    return s;
}

/* N_VARS: unknown. */
static size_t find(const char *name, size_t n)
{
    size_t i = 0;
    while (i < N_VARS &&
           (strlen(vars[i].name) != n || strncmp(vars[i].name, name, n) != 0))
        i++;
    return i;
}

static bool is_allowed(size_t i, enum fill_when when)
{
    return when == FILL_SUBMIT
               ? vars[i].is_early
               : when == FILL_START || (when == FILL_OUTPUT && i != VAR_OUTPUT);
}

/* ---- errors -------------------------------------------------------------- */

static void list_allowed(enum fill_when when, char hint[FILL_HINT_CAP])
{
    size_t len = (size_t)snprintf(hint, FILL_HINT_CAP, "one of:");
    const char *comma = "";
    for (size_t i = 0; i < N_VARS; i++) {
        if (!is_allowed(i, when))
            continue;
        len += (size_t)snprintf(hint + len, FILL_HINT_CAP - len, "%s ${%s}",
                                comma, vars[i].name);
        comma = ",";
    }
    if (when == FILL_START)
        (void)snprintf(hint + len, FILL_HINT_CAP - len,
                       "; a shell's own is $name or $${name}");
}

static int refuse_nested(const struct step *s, char hint[FILL_HINT_CAP],
                         struct error *err)
{
    const char *end = s->name + s->n_name;
    size_t depth = 1;
    for (const char *p = strstr(s->name, "${"); p && p < end;
         p = strstr(p + 2, "${"))
        depth++;
    (void)snprintf(hint, FILL_HINT_CAP,
                   "only a name may be between the braces");
    return error_set(err, ERR_INVAL, "'${' within '${', %zu deep", depth);
}

static int refuse_unknown(const struct step *s, enum fill_when when,
                          char hint[FILL_HINT_CAP], struct error *err)
{
    char name[32], q[TEXT_QUOTE_CAP];
    int best = 3;
    (void)snprintf(name, sizeof(name), "%.*s", (int)s->n_name, s->name);
    list_allowed(when, hint);
    for (size_t i = 0; i < N_VARS; i++) {
        int d = text_distance(name, vars[i].name);
        if (d >= best || !is_allowed(i, when) || (size_t)d >= strlen(name))
            continue;
        best = d;
        (void)snprintf(hint, FILL_HINT_CAP, "did you mean '${%s}'?",
                       vars[i].name);
    }
    return error_set(err, ERR_INVAL, "'${%s%s' is unknown",
                     text_quote(q, sizeof(q), name),
                     s->n_name < sizeof(name) ? "}" : "...");
}

/* -1: it is not allowed. */
static int check_name(const struct step *s, enum fill_when when,
                      char hint[FILL_HINT_CAP], struct error *err)
{
    const char *inner = strstr(s->name, "${");
    size_t i = find(s->name, s->n_name);
    if (inner && inner < s->name + s->n_name)
        return refuse_nested(s, hint, err);
    list_allowed(when, hint);
    if (s->name[s->n_name] != '}')
        return error_set(err, ERR_INVAL, "'${' without its '}'");
    if (i == N_VARS)
        return refuse_unknown(s, when, hint, err);
    if (when == FILL_OUTPUT && i == VAR_OUTPUT)
        return error_set(err, ERR_INVAL,
                         "a cycle: '${output_dir}' leads to "
                         "itself");
    if (!is_allowed(i, when))
        return error_set(err, ERR_INVAL,
                         "'${%s}' is not known yet when this is read, at the "
                         "submit",
                         vars[i].name);
    return 0;
}

int interpolate_check(const char *text, enum fill_when when,
                      char hint[FILL_HINT_CAP], struct error *err)
{
    size_t len = 0;
    for (const char *p = text; *p;) {
        struct step s = next(p);
        len += s.n_plain + 2 * (size_t)s.is_brace;
        p = s.rest;
        if (s.is_brace && when == FILL_SUBMIT) {
            (void)snprintf(hint, FILL_HINT_CAP, "leave it out");
            return error_set(err, ERR_INVAL, "no '${' can be had in this one");
        }
        if (when == FILL_NONE && (s.name || s.is_brace)) {
            (void)snprintf(hint, FILL_HINT_CAP, "write the value out");
            return error_set(err, ERR_INVAL,
                             "no interpolation (${...}) in this value");
        }
        if (!s.name)
            continue;
        if (check_name(&s, when, hint, err) < 0)
            return -1;
        len += vars[find(s.name, s.n_name)].most;
    }
    (void)snprintf(hint, FILL_HINT_CAP, "write a shorter text");
    return len <= FILL_MAX_BYTES
               ? 0
               : error_set(err, ERR_INVAL,
                           "it may become %zu bytes long, of at most %d", len,
                           FILL_MAX_BYTES);
}

/* ---- substitution -------------------------------------------------------- */

bool interpolate_is_user(const char *user)
{
    size_t n = 0;
    while (user[n] > ' ' && user[n] < 0x7f && !strchr("/$\"'`", user[n]))
        n++;
    return n > 0 && n <= vars[VAR_USER].most && user[n] == '\0' &&
           !strchr(".-~", *user);
}

const char *interpolate_own_user(char out[FILL_USER_CAP])
{
    const struct passwd *pw = getpwuid(geteuid());
    if (pw && strlen(pw->pw_name) < FILL_USER_CAP)
        (void)snprintf(out, FILL_USER_CAP, "%s", pw->pw_name);
    else
        (void)snprintf(out, FILL_USER_CAP, "%lld", (long long)geteuid());
    return out;
}

static int add_user(const char *user, struct buf *out, struct error *err)
{
    if (!user)
        return error_set(err, ERR_INVAL,
                         "the name of the user is not known here");
    if (!interpolate_is_user(user))
        return error_set(err, ERR_INVAL,
                         "a user of such a name cannot be put into a text");
    return buf_addstr(out, user, err);
}

static int add_value(size_t i, const struct fill_vars *v, struct buf *out,
                     struct error *err)
{
    switch ((enum var)i) {
    case VAR_NAME:
        return buf_addstr(out, v->name, err);
    case VAR_JOB:
        return buf_addf(out, err, "%" PRIu64, v->job);
    case VAR_TASK:
        return buf_addf(out, err, "%" PRId32, v->task);
    case VAR_ATTEMPT:
        return buf_addf(out, err, "%" PRId32, v->attempt);
    case VAR_USER:
        return add_user(v->user, out, err);
    default:
        return buf_addstr(out, v->output_dir, err);
    }
}

int interpolate_text(const char *text, enum fill_when when,
                     const struct fill_vars *v, struct buf *out,
                     struct error *err)
{
    char hint[FILL_HINT_CAP];
    if (when == FILL_NONE)
        return buf_addstr(out, text, err);
    if (interpolate_check(text, when, hint, err) < 0)
        return -1;
    for (const char *p = text; *p;) {
        struct step s = next(p);
        int rc = buf_add(out, s.plain, s.n_plain, err);
        if (rc == 0 && s.is_brace)
            rc = buf_addstr(out, "${", err);
        if (rc == 0 && s.name)
            rc = add_value(find(s.name, s.n_name), v, out, err);
        if (rc < 0)
            return -1;
        p = s.rest;
    }
    return 0;
}

bool interpolate_has(const char *text, const char *name)
{
    while (text && *text) {
        struct step s = next(text);
        if (s.name && s.n_name == strlen(name) &&
            strncmp(s.name, name, s.n_name) == 0)
            return true;
        text = s.rest;
    }
    return false;
}

bool interpolate_is_below_output(const char *path)
{
    static const char head[] = "${output_dir}";
    size_t n = sizeof(head) - 1;
    return strncmp(path, head, n) == 0 && (path[n] == '/' || path[n] == '\0');
}
