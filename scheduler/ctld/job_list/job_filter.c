/* job_filter.c - see job_filter.h. */
#include "scheduler/ctld/job_list/job_filter.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/engine/account.h"

enum {
    LIST_MAX = 100000,
    TEXT_MAX = 128,   /* a glob is compared with all jobs' names, on the loop */
    LABELS_MAX = 2100 /* 16 of them */
};

/* ---- the query ------------------------------------------------------------
 */
static int parse_states(const char *text, uint32_t *ret, struct error *err)
{
    uint32_t bits = 0;
    while (*text) {
        char word[24];
        size_t n = strcspn(text, ",");
        enum job_state s;
        if (n >= sizeof(word))
            return error_set(err, ERR_INVAL, "state: '%.40s'", text);
        memcpy(word, text, n);
        word[n] = '\0';
        if (job_state_from_name(word, &s) < 0)
            return error_set(err, ERR_INVAL,
                             "state: no '%s'; there are QUEUED, HELD, RUNNING, "
                             "COMPLETED, FAILED and more",
                             word);
        bits |= 1u << s;
        text += n + (text[n] == ',');
    }
    *ret = bits;
    return 0;
}

static int check_texts(struct http_exchange *x, enum job_filter_of of,
                       struct error *err)
{
    static const struct {
        const char *name;
        size_t max;
        bool changes; /* while the job lives */
    } keys[] = {
        {"name", TEXT_MAX, false},      {"account", TEXT_MAX, false},
        {"partition", TEXT_MAX, false}, {"label", LABELS_MAX, false},
        {"node", TEXT_MAX, true},       {"state", (size_t)TEXT_MAX * 2, true},
        {"since", TEXT_MAX, true},      {"limit", TEXT_MAX, true}};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *text = http_query(x, keys[i].name);
        if (text && of == FILTER_OF_STREAM && keys[i].changes)
            return error_set(err, ERR_INVAL, "%s: a stream has no such filter",
                             keys[i].name);
        if (text && strlen(text) > keys[i].max)
            return error_set(err, ERR_INVAL, "%s: has more than %zu characters",
                             keys[i].name, keys[i].max);
    }
    return 0;
}

/* Of a number its uid, which may have a name; -1: it is none. */
static int64_t uid_of(const char *user)
{
    size_t n = strspn(user, "0123456789");
    return n > 0 && n <= 10 && !user[n] ? strtoll(user, NULL, 10) : -1;
}

bool job_filter_parse(struct http_exchange *x, enum job_filter_of of,
                      struct job_filter *ret)
{
    struct error err = ERROR_INIT;
    struct job_filter f = {.caller = http_uid(x), .since_s = -INFINITY};
    const char *state = http_query(x, "state");
    const char *user = http_query(x, "user");
    bool is_me = user && strcmp(user, "me") == 0;
    bool is_any = !user || strcmp(user, "all") == 0;
    f.uid = is_me ? http_uid(x) : -1;
    f.user = is_me || is_any ? NULL : user;
    f.user_uid = f.user ? uid_of(f.user) : -1;
    f.name = http_query(x, "name");
    f.account = http_query(x, "account");
    f.partition = http_query(x, "partition");
    f.labels = http_query(x, "label");
    f.node = http_query(x, "node");
    if (check_texts(x, of, &err) < 0 ||
        (state && parse_states(state, &f.states, &err) < 0)) {
        http_reply_err(x, &err);
        return false;
    }
    if (!ctld_query_since(x, &f.since_s) ||
        !ctld_query_int(x, "sweep", 1, INT64_MAX, 0, &f.sweep) ||
        !ctld_query_int(x, "id_min", 1, INT64_MAX, 1, &f.id_min) ||
        !ctld_query_int(x, "id_max", 1, INT64_MAX, INT64_MAX, &f.id_max) ||
        !ctld_query_int(x, "limit", 1, LIST_MAX, LIST_MAX, &f.limit))
        return false;
    *ret = f;
    return true;
}

/* ---- a job ----------------------------------------------------------------
 */

/* The specification is JSON as spec_dump() prints it, without blanks, and in
 * such a text a quote within a string has a backslash before it: these
 * characters are a key. */
json_t *job_filter_labels(const struct job *j)
{
    static const char key[] = "\"labels\":";
    const char *at = j->spec ? strstr(j->spec, key) : NULL;
    json_t *o = NULL;
    if (at) {
        at += strlen(key);
        o = json_loadb(at, strlen(at), JSON_DISABLE_EOF_CHECK, NULL);
    }
    if (json_is_object(o))
        return o;
    json_decref(o);
    return json_object();
}

/* Each line "key=value", or "key" with any value. */
static bool has_labels(const struct job *j, const char *lines)
{
    json_t *labels = job_filter_labels(j);
    bool has = true;
    for (const char *p = lines; has && *p;) {
        size_t n = strcspn(p, "\n"), len = strcspn(p, "=\n");
        const char *v = json_string_value(json_object_getn(labels, p, len));
        has =
            v && (p[len] != '=' || (strlen(v) == n - len - 1 &&
                                    strncmp(v, p + len + 1, n - len - 1) == 0));
        p += n + (p[n] == '\n');
    }
    json_decref(labels);
    return has;
}

static bool is_word(const char *text, const char *wanted)
{
    return !wanted || (text && strcmp(text, wanted) == 0);
}

double job_filter_since(const struct job_filter *f)
{
    uint32_t ended = 0;
    for (int s = 0; s < JOB_STATE_N; s++)
        if (job_state_is_final((enum job_state)s))
            ended |= 1u << s;
    return f->states && !(f->states & ended) ? (double)INFINITY : f->since_s;
}

bool job_filter_is_any(const struct job_filter *f)
{
    return !f->user && !f->name && !f->account && !f->partition && !f->node &&
           !f->labels && f->uid < 0 && f->sweep == 0 && f->id_min <= 1 &&
           f->id_max == INT64_MAX && f->states == 0 &&
           f->since_s == -(double)INFINITY;
}

bool job_filter_is_of(const struct job_filter *f, int64_t uid, const char *user)
{
    return (f->uid < 0 || f->uid == uid) &&
           (!f->user || !user || strcmp(f->user, user) == 0 ||
            (f->user_uid >= 0 && f->user_uid == uid));
}

bool job_filter_fits(const struct ctld *c, const struct job_filter *f,
                     const struct job *j)
{
    double seen_s = isfinite(j->end_s) ? j->end_s : INFINITY;
    if ((int64_t)j->id < f->id_min || (int64_t)j->id > f->id_max ||
        !job_filter_is_of(f, j->uid, j->user) ||
        (f->sweep != 0 && (uint64_t)f->sweep != j->sweep) ||
        (f->states && !(f->states >> j->state & 1u)) || seen_s < f->since_s ||
        (f->name && fnmatch(f->name, j->name, 0) != 0) ||
        (f->node && !text_place_has(j->place, f->node)))
        return false;
    if ((f->account && !is_word(engine_account(c->engine, j), f->account)) ||
        (f->partition &&
         !is_word(engine_where(c->engine, j).partition, f->partition)))
        return false;
    return !f->labels ||
           (engine_may(c->engine, j, f->caller) && has_labels(j, f->labels));
}
