/* job_query.c - parse the filter options, and build the query for them; see
 * job_query.h.
 */
#include "scheduler/tools/common/job_query.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "jobs/base/clock.h"
#include "jobs/spec/spec.h"
#include "jobs/state.h"
#include "jobs/text/text.h"
#include "scheduler/tools/common/client.h"

/* ---- states ----------------------------------------------------------------
 */

/* The letters of squeue(1), and our own for other states. */
static const char *const letters[JOB_STATE_N] = {
    [JOB_NEW] = "N",      [JOB_QUEUED] = "PD",
    [JOB_HELD] = "H",     [JOB_DISPATCHING] = "PD",
    [JOB_UNKNOWN] = "UN", [JOB_STARTING] = "ST",
    [JOB_RUNNING] = "R",  [JOB_CHECKPOINTING] = "CP",
    [JOB_STALLED] = "SL", [JOB_COMPLETED] = "CD",
    [JOB_FAILED] = "F",   [JOB_CANCELLED] = "CA",
    [JOB_TIMEOUT] = "TO", [JOB_NODE_FAIL] = "NF",
};

const char *job_query_letters(enum job_state s)
{
    return letters[s];
}

static bool is_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && strncasecmp(text, word, n) == 0;
}

static uint32_t bits_of(const char *word, size_t n)
{
    if (is_word(word, n, "all"))
        return FILTER_ALL;
    uint32_t bits = 0;
    if (is_word(word, n, "DS")) /* of earlier versions */
        bits = 1u << JOB_DISPATCHING;
    for (int s = 0; s < JOB_STATE_N; s++)
        if (is_word(word, n, job_state_name((enum job_state)s)) ||
            is_word(word, n, letters[s]))
            bits |= 1u << s;
    return bits;
}

int job_query_states(const char *option, const char *text, uint32_t *ret,
                     struct error *err)
{
    char word[32], q[TEXT_QUOTE_CAP];
    uint32_t bits = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ",");
        uint32_t some = bits_of(p, n);
        (void)snprintf(word, sizeof(word), "%.*s", n < 31 ? (int)n : 31, p);
        (void)text_quote(q, sizeof(q), word);
        if (some == 0)
            return error_set(err, ERR_USAGE,
                             "--%s: no state '%s'; there are QUEUED, HELD, "
                             "RUNNING, COMPLETED, FAILED and more",
                             option, q);
        bits |= some;
        p += n + (p[n] == ',');
    }
    if (bits == 0)
        return error_set(err, ERR_USAGE, "--%s: which state?", option);
    *ret = bits;
    return 0;
}

static uint32_t states_of(const struct filter *f)
{
    uint32_t live = 0;
    for (int s = 0; s < JOB_STATE_N; s++)
        if (!job_state_is_final((enum job_state)s))
            live |= 1u << s;
    /* Ended jobs would crowd out the queue: include them only on request. */
    return f->states ? f->states : f->since ? FILTER_ALL : live;
}

/* ---- options ---------------------------------------------------------------
 */

static int add_label(struct filter *f, const char *text, struct error *err)
{
    if (*text == '\0' || *text == '=' || strpbrk(text, "\n\r"))
        return error_set(err, ERR_USAGE,
                         "--label '%.60s': expected key=value, or key", text);
    if (f->n_labels == FILTER_LABELS_MAX)
        return error_set(err, ERR_USAGE, "--label: more than %d of them",
                         (int)FILTER_LABELS_MAX);
    f->labels[f->n_labels++] = text;
    return 0;
}

int job_query_option(struct filter *f, int id, const char *value,
                     struct error *err)
{
    switch (id) {
    case FILTER_USER:
        f->user = value;
        break;
    case FILTER_STATE:
        return job_query_states("state", value, &f->states, err);
    case FILTER_NAME:
        f->name = value;
        break;
    case FILTER_ACCOUNT:
        f->account = value;
        break;
    case FILTER_PARTITION:
        f->partition = value;
        break;
    case FILTER_LABEL:
        return add_label(f, value, err);
    case FILTER_NODE:
        f->node = value;
        break;
    default:
        f->since = value;
    }
    return 0;
}

bool job_query_is_any(const struct filter *f)
{
    return !f->user && !f->name && !f->account && !f->partition && !f->node &&
           !f->states && !f->since && f->n_labels == 0;
}

int job_query_time(const char *option, const char *text, double *ret,
                   struct error *err)
{
    struct tm tm = {.tm_mday = 0};
    double ago_s = 0;
    const char *ago = *text == '-' ? text + 1 : text;
    char *end = strptime(text, "%Y-%m-%d", &tm);
    if (end && *end == 'T')
        end = strptime(end, "T%H:%M:%S", &tm);
    if (end && strcmp(end, "Z") == 0)
        end++;
    struct tm day = {
        .tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday};
    (void)timegm(&day); /* turns the 30th of February into the 2nd of March */
    if (end && *end == '\0' && day.tm_mday == tm.tm_mday)
        *ret = (double)timegm(&tm);
    else if (parse_duration(ago, &ago_s, NULL) == 0)
        *ret = clock_real.wall_s(&clock_real) - ago_s;
    else
        return error_set(err, ERR_USAGE,
                         "--%s '%.40s': expected 6h, 2d, 2026-11-21 or "
                         "2026-11-21T10:00:00Z",
                         option, text);
    return 0;
}

/* ---- what the daemon is asked ---------------------------------------------
 */

/* Percent-encodes all but letters and digits. */
static int add_quoted(struct buf *out, const char *text, struct error *err)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789-_.,";
    for (const char *p = text; *p; p++)
        if (buf_addf(out, err, strchr(plain, *p) ? "%c" : "%%%02X",
                     (unsigned char)*p) < 0)
            return -1;
    return 0;
}

static int add(struct buf *out, const char *key, const char *text,
               struct error *err)
{
    if (!text)
        return 0;
    return buf_addf(out, err, "&%s=", key) < 0 ? -1
                                               : add_quoted(out, text, err);
}

int job_query_stream_query(const struct filter *f, struct buf *out,
                           struct error *err)
{
    if (add(out, "user", f->user, err) < 0 ||
        add(out, "name", f->name, err) < 0 ||
        add(out, "account", f->account, err) < 0 ||
        add(out, "partition", f->partition, err) < 0)
        return -1;
    for (size_t i = 0; i < f->n_labels; i++)
        if (buf_addstr(out, i == 0 ? "&label=" : "%0A", err) < 0 ||
            add_quoted(out, f->labels[i], err) < 0)
            return -1;
    return 0;
}

int filter_query(const struct filter *f, struct buf *out, struct error *err)
{
    uint32_t states = states_of(f);
    const char *between = "&state=";
    double since_s = 0;
    if (f->since && job_query_time("since", f->since, &since_s, err) < 0)
        return -1;
    if (job_query_stream_query(f, out, err) < 0 ||
        add(out, "node", f->node, err) < 0)
        return -1;
    for (int i = 0; i < JOB_STATE_N && states != FILTER_ALL; i++) {
        if (!(states & 1u << i))
            continue;
        if (buf_addf(out, err, "%s%s", between,
                     job_state_name((enum job_state)i)) < 0)
            return -1;
        between = ",";
    }
    return f->since ? buf_addf(out, err, "&since=%.3f", since_s) : 0;
}

/* ---- somebody --------------------------------------------------------------
 */

static bool is_known_here(const char *user)
{
    return strcmp(user, "me") == 0 || strcmp(user, "all") == 0 ||
           (*user && user[strspn(user, "0123456789")] == '\0') ||
           getpwnam(user) != NULL;
}

int job_query_check_user(const struct filter *f, struct client *c,
                         struct error *err)
{
    struct buf query = BUF_INIT;
    json_t *reply = NULL;
    char q[TEXT_QUOTE_CAP];
    if (!f->user || is_known_here(f->user))
        return 0;
    int rc = add(&query, "user", f->user, err);
    if (rc == 0)
        rc = client_get(c, &reply, err, "/v1/jobs?limit=1&fields=id%s",
                        buf_str(&query));
    if (rc == 0 && json_array_size(json_object_get(reply, "jobs")) == 0)
        rc = error_set(
            err, ERR_USAGE,
            "--user: unknown user '%s': no such account, no such job owner",
            text_quote(q, sizeof(q), f->user));
    json_decref(reply);
    buf_clear(&query);
    return rc;
}

/* ---- names that nothing knows ---------------------------------------------
 */
enum { NAMES_TOLD = 8 };

static bool has_job(struct client *c, const char *key, const char *name,
                    bool *ret_has)
{
    struct buf query = BUF_INIT;
    json_t *reply = NULL;
    int rc = add(&query, key, name, NULL);
    if (rc == 0)
        rc = client_get(c, &reply, NULL, "/v1/jobs?limit=1&fields=id%s",
                        buf_str(&query));
    *ret_has = json_array_size(json_object_get(reply, "jobs")) > 0;
    json_decref(reply);
    buf_clear(&query);
    return rc == 0;
}

/* Adds the names as keys, without duplicates: "a,b" are two. */
static void add_names(json_t *names, const char *text)
{
    char name[128];
    while (*text) {
        size_t n = strcspn(text, ",");
        (void)snprintf(name, sizeof(name), "%.*s", (int)n, text);
        if (n > 0 && n < sizeof(name))
            (void)json_object_set_new(names, name, json_true());
        text += n + (text[n] == ',');
    }
}

/* own  NULL: the daemon does not report it */
static json_t *names_of(struct client *c, const char *key)
{
    bool is_node = strcmp(key, "node") == 0;
    json_t *names = json_object(), *nodes = NULL, *status = NULL, *node;
    size_t i;
    int rc = client_get(c, &nodes, NULL, "/v1/nodes");
    if (rc == 0)
        rc = client_get(c, &status, NULL, "/v1/status");
    json_array_foreach(json_object_get(nodes, "nodes"), i, node)
    {
        if (strcmp(key, "account") != 0)
            add_names(names, field_str(node, is_node ? "name" : "partitions"));
    }
    if (!is_node && *field_str(status, key)) /* the default account or
                                                partition from mgpu.yaml */
        (void)json_object_set_new(names, field_str(status, key), json_true());
    json_decref(nodes);
    json_decref(status);
    if (rc == 0)
        return names;
    json_decref(names);
    return NULL;
}

static void tell_unknown(const char *tool, const char *key, const char *name,
                         json_t *names)
{
    char q[TEXT_QUOTE_CAP];
    size_t n = json_object_size(names), i = 0;
    const char *known;
    json_t *value;
    (void)fprintf(stderr, "%s: unknown %s '%s'", tool, key,
                  text_quote(q, sizeof(q), name));
    json_object_foreach(names, known, value)
    {
        if (i < NAMES_TOLD)
            (void)fprintf(stderr, "%s%s%s%s", i == 0 ? "; " : ", ",
                          i == 0 ? key : "", i == 0 ? "s: " : "",
                          text_quote(q, sizeof(q), known));
        i++;
    }
    if (n > NAMES_TOLD)
        (void)fprintf(stderr, " and %zu more", n - NAMES_TOLD);
    (void)fputc('\n', stderr);
}

void job_query_tell_unknown(const struct filter *f, const char *tool,
                            struct client *c)
{
    const struct {
        const char *key, *name;
    } asked[] = {{"node", f->node},
                 {"partition", f->partition},
                 {"account", f->account}};
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        bool has = true;
        if (!asked[i].name || !has_job(c, asked[i].key, asked[i].name, &has) ||
            has)
            continue;
        json_t *names = names_of(c, asked[i].key);
        if (names && !json_object_get(names, asked[i].name))
            tell_unknown(tool, asked[i].key, asked[i].name, names);
        json_decref(names);
    }
}

/* ---- what a stream brought ------------------------------------------------
 */

bool job_query_wants_ended(const struct filter *f)
{
    for (int s = 0; s < JOB_STATE_N; s++)
        if (job_state_is_final((enum job_state)s) && (states_of(f) & 1u << s))
            return true;
    return false;
}

bool job_query_now(const struct filter *f, const json_t *job)
{
    enum job_state s;
    return job_state_from_name(field_str(job, "state"), &s) == 0 &&
           (states_of(f) & 1u << s) != 0 &&
           (!f->node || text_place_has(field_str(job, "place"), f->node));
}
