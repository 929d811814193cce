/* helper_wire.c - the lines between daemon and helper, from one table each.
 *
 * A table row names a key, its type, its range and where it lives; parser
 * and encoder both read it, so they cannot drift apart. A command has
 * exactly its keys: the helper acts for users on what it is told, and what
 * it does not know it must not pass over. News may leave out what is zero.
 */
#include "slurm/helper_wire.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text.h"

enum kind {
    KIND_TEXT,   /* char[max]; at least min bytes */
    KIND_STRING, /* const char *; min..max bytes */
    KIND_I32,
    KIND_U32,
    KIND_I64,
    KIND_U64, /* at most INT64_MAX: what jansson can hold */
    KIND_REAL,
    KIND_BOOL,
    KIND_CODE, /* enum err_code, by its word */
};

enum { IS_NULLABLE = 1, IS_OPTIONAL = 2 };

struct field {
    const char *key;
    enum kind kind;
    int flags;
    size_t at;
    int64_t min, max;
    bool (*fits)(const char *text); /* NULL: any text that is printable */
};

/* ---- what texts may be --------------------------------------------------- */
static bool is_of(const char *text, const char *more)
{
    static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz0123456789._-";
    for (; *text; text++)
        if (!strchr(word, *text) && !strchr(more, *text))
            return false;
    return true;
}

static bool is_tag(const char *text)
{
    return strncmp(text, "mgpu:", 5) == 0 && is_of(text, ":");
}

/* A GPU type ends up inside "gres:gpu:TYPE:N". */
static bool is_word(const char *text)
{
    return is_of(text, "");
}

static bool is_list(const char *text)
{
    return is_of(text, ",");
}

/* Features: "ib&(h100|h200)", "[rack1*2&rack2]", "~old". */
static bool is_constraint(const char *text)
{
    return is_of(text, ",&|()[]*:~=+@/");
}

static bool is_printable(const char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        int32_t cp = text_next(&text, end);
        if (cp < 0 || cp == '\n' || cp == '\r' || text_is_control(cp))
            return false;
    }
    return true;
}

/* Absolute, and says where it is without a look at the disk. */
static bool is_dir(const char *text)
{
    if (text[0] != '/' || !is_printable(text))
        return false;
    for (const char *p = text; *p;) {
        p++; /* past the '/' */
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') ||
            (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
    }
    return true;
}

static bool is_object(const char *text)
{
    json_t *v = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    bool is = json_is_object(v);
    json_decref(v);
    return is;
}

/* ---- the tables ---------------------------------------------------------- */
enum {
    WORD_MAX = 255,
    NAME_MAX_BYTES = 255,
    LAUNCH_MAX_BYTES = 1 << 20,
    NODES_MAX = 1 << 16,
    GPUS_MAX = 1024,
    CPUS_MAX = 1 << 16,
    SIGNO_MAX = 64,
    CODE_MAX = 255,
};
static const int64_t SECONDS_MAX = 1000000000; /* 31 years */
#define BYTES_MAX ((int64_t)1 << 60)

#define REQ(member) offsetof(struct helper_cmd, req.member)
#define ID                                                                    \
    {                                                                         \
        .key = "id", .kind = KIND_U64, .at = offsetof(struct helper_cmd, id), \
        .max = INT64_MAX                                                      \
    }
#define TAG                                                          \
    {                                                                \
        .key = "tag", .kind = KIND_STRING, .at = REQ(tag), .min = 1, \
        .max = HELPER_TAG_CAP - 1, .fits = is_tag                    \
    }
#define UID                                                                   \
    {                                                                         \
        .key = "uid", .kind = KIND_U32, .at = REQ(uid), .max = UINT32_MAX - 1 \
    }
#define DIR                                                          \
    {                                                                \
        .key = "dir", .kind = KIND_STRING, .at = REQ(dir), .min = 2, \
        .max = HELPER_DIR_CAP - 1, .fits = is_dir                    \
    }
#define WHERE(word, rule)                                                   \
    {                                                                       \
        .key = #word, .kind = KIND_STRING, .at = REQ(where.word), .min = 1, \
        .max = WORD_MAX, .fits = (rule), .flags = IS_NULLABLE               \
    }

static const struct field submit_fields[] = {
    ID,
    {"job", KIND_U64, 0, REQ(job), 1, INT64_MAX, NULL},
    {"attempt", KIND_I32, 0, REQ(attempt), 1, INT32_MAX, NULL},
    TAG,
    {"name", KIND_STRING, 0, REQ(name), 1, NAME_MAX_BYTES, NULL},
    UID,
    DIR,
    {"launch", KIND_STRING, 0, REQ(launch), 2, LAUNCH_MAX_BYTES, is_object},
    {"nodes", KIND_I32, 0, REQ(nodes), 1, NODES_MAX, NULL},
    {"gpus_per_node", KIND_I32, 0, REQ(gpus_per_node), 0, GPUS_MAX, NULL},
    {"limit_s", KIND_REAL, 0, REQ(limit_s), 0, 0, NULL},
    {"grace_s", KIND_REAL, 0, REQ(grace_s), 0, 0, NULL},
    {"log_max_bytes", KIND_I64, 0, REQ(log_max_bytes), 0, BYTES_MAX, NULL},
    WHERE(partition, is_list),
    WHERE(account, is_word),
    WHERE(qos, is_word),
    WHERE(constraint, is_constraint),
    WHERE(reservation, is_list),
    WHERE(gpu_type, is_word),
    {"cpus_per_gpu", KIND_I32, 0, REQ(where.cpus_per_gpu), 0, CPUS_MAX, NULL},
    {"memory_bytes", KIND_I64, 0, REQ(where.memory_bytes), 0, BYTES_MAX, NULL},
    {"exclusive", KIND_BOOL, 0, REQ(where.exclusive), 0, 0, NULL},
};

#define SLURM_ID                                               \
    {                                                          \
        .key = "slurm_id", .kind = KIND_U32,                   \
        .at = offsetof(struct helper_cmd, slurm_id), .min = 1, \
        .max = UINT32_MAX - 2                                  \
    }
static const struct field signal_fields[] = {
    ID,
    TAG,
    UID,
    SLURM_ID,
    {"signo", KIND_I32, 0, offsetof(struct helper_cmd, signo), 1, SIGNO_MAX,
     NULL},
};

static const struct field kill_fields[] = {ID, TAG, UID, SLURM_ID};

static const struct field read_exit_fields[] = {ID, UID, DIR};

#define NEWS(member) offsetof(struct helper_news, member)
static const struct field hello_fields[] = {
    {"generation", KIND_U64, 0, NEWS(generation), 1, INT64_MAX, NULL},
    {"slurm", KIND_TEXT, 0, NEWS(slurm), 1,
     sizeof(((struct helper_news *)0)->slurm), NULL},
};
static const struct field done_fields[] = {
    {"id", KIND_U64, 0, NEWS(id), 0, INT64_MAX, NULL},
    {"slurm_id", KIND_U32, IS_OPTIONAL, NEWS(slurm_id), 0, UINT32_MAX, NULL},
    {"exit_code", KIND_I32, IS_OPTIONAL, NEWS(exit_code), 0, CODE_MAX, NULL},
    {"signal", KIND_I32, IS_OPTIONAL, NEWS(signal), 0, SIGNO_MAX, NULL},
};
#define WHY                                        \
    {                                              \
        "why", KIND_TEXT, 0, NEWS(why.msg), 0,     \
            sizeof(((struct error *)0)->msg), NULL \
    }
static const struct field failed_fields[] = {
    {"id", KIND_U64, 0, NEWS(id), 0, INT64_MAX, NULL},
    {"code", KIND_CODE, 0, NEWS(why.code), 0, 0, NULL},
    WHY,
    {"is_sure", KIND_BOOL, IS_OPTIONAL, NEWS(is_sure), 0, 0, NULL},
};
#define JOB(member) offsetof(struct helper_news, job.member)
#define JOB_TEXT(word, least, rule)                      \
    {                                                    \
#word, KIND_TEXT, 0, JOB(word), least,           \
            sizeof(((struct helper_job *)0)->word), rule \
    }
static const struct field job_fields[] = {
    JOB_TEXT(tag, 1, is_tag),
    {"uid", KIND_U32, 0, JOB(uid), 0, UINT32_MAX, NULL},
    {"slurm_id", KIND_U32, 0, JOB(slurm_id), 1, UINT32_MAX, NULL},
    JOB_TEXT(state, 1, NULL),
    JOB_TEXT(reason, 0, NULL),
    JOB_TEXT(place, 0, NULL),
    {"exit_code", KIND_I32, 0, JOB(exit_code), 0, CODE_MAX, NULL},
    {"signal", KIND_I32, 0, JOB(signal), 0, SIGNO_MAX, NULL},
    {"restarts", KIND_I32, 0, JOB(restarts), 0, INT32_MAX, NULL},
    {"submitted", KIND_I64, 0, JOB(submitted), 0, INT64_MAX, NULL},
};
static const struct field gone_fields[] = {
    JOB_TEXT(tag, 1, is_tag),
    {"slurm_id", KIND_U32, 0, JOB(slurm_id), 1, UINT32_MAX, NULL},
};
static const struct field scan_fields[] = {
    {"seq", KIND_U64, 0, NEWS(seq), 0, INT64_MAX, NULL},
};
static const struct field down_fields[] = {
    WHY,
    {"since", KIND_I64, 0, NEWS(since), 0, INT64_MAX, NULL},
};
#define NODE_TEXT(word, least)                                         \
    {                                                                  \
#word, KIND_TEXT, 0, offsetof(struct alloc_node, word), least, \
            sizeof(((struct alloc_node *)0)->word), NULL               \
    }
#define NODE_INT(word, most)                                                 \
    {                                                                        \
#word, KIND_I32, 0, offsetof(struct alloc_node, word), 0, most, NULL \
    }
static const struct field node_fields[] = {
    NODE_TEXT(name, 1),
    NODE_TEXT(gpu_type, 0),
    NODE_INT(gpus_total, GPUS_MAX),
    NODE_INT(gpus_free, GPUS_MAX),
    NODE_INT(is_up, 1),
    NODE_TEXT(why, 0),
    NODE_TEXT(used, 0),
    NODE_TEXT(partitions, 0),
    NODE_TEXT(features, 0),
    NODE_TEXT(reservation, 0),
    NODE_TEXT(address, 0),
};

struct message {
    const char *word;
    const struct field *fields;
    size_t n;
};
#define TABLE(t) t, sizeof(t) / sizeof((t)[0])
static const struct message commands[] = {
    [HELPER_SUBMIT] = {"submit", TABLE(submit_fields)},
    [HELPER_SIGNAL] = {"signal", TABLE(signal_fields)},
    [HELPER_KILL] = {"kill", TABLE(kill_fields)},
    [HELPER_READ_EXIT] = {"read_exit", TABLE(read_exit_fields)},
};
static const struct message events[] = {
    [HELPER_HELLO] = {"hello", TABLE(hello_fields)},
    [HELPER_REPLY] = {"reply", TABLE(done_fields)},
    [HELPER_JOB] = {"job", TABLE(job_fields)},
    [HELPER_GONE] = {"gone", TABLE(gone_fields)},
    [HELPER_SCAN] = {"scan", TABLE(scan_fields)},
    [HELPER_NODES] = {"nodes", NULL, 0}, /* by hand: an array */
    [HELPER_DOWN] = {"down", TABLE(down_fields)},
    [HELPER_UP] = {"up", NULL, 0},
};
static const struct message failed = {"reply", TABLE(failed_fields)};
static const struct message node = {"node", TABLE(node_fields)};
enum {
    N_COMMANDS = sizeof(commands) / sizeof(commands[0]),
    N_EVENTS = sizeof(events) / sizeof(events[0])
};

/* ---- checks that both directions make ------------------------------------ */
static int check_text(const struct field *f, const char *text, size_t n,
                      struct error *err)
{
    int64_t most = f->kind == KIND_TEXT ? f->max - 1 : f->max;
    if ((int64_t)n < f->min || (int64_t)n > most || strlen(text) != n)
        return error_set(err, ERR_INVAL, "'%s' must have %lld..%lld bytes",
                         f->key, (long long)f->min, (long long)most);
    if (!(f->fits ? f->fits : is_printable)(text))
        return error_set(err, ERR_INVAL, "'%s' is not of its form", f->key);
    return 0;
}

static int check_int(const struct field *f, int64_t v, struct error *err)
{
    if (v < f->min || v > f->max)
        return error_set(err, ERR_INVAL, "'%s' is %lld, must be %lld..%lld",
                         f->key, (long long)v, (long long)f->min,
                         (long long)f->max);
    return 0;
}

static int check_real(const struct field *f, double v, struct error *err)
{
    if (!(v >= 0 && v <= (double)SECONDS_MAX))
        return error_set(err, ERR_INVAL, "'%s' is %g, must be 0..%lld", f->key,
                         v, (long long)SECONDS_MAX);
    return 0;
}

/* ---- reading ------------------------------------------------------------- */
static int type_error(const struct field *f, const char *what,
                      struct error *err)
{
    return error_set(err, ERR_INVAL, "'%s' is not %s", f->key, what);
}

static int get_text(const struct field *f, const json_t *v, void *to,
                    struct error *err)
{
    if (f->kind == KIND_STRING && (f->flags & IS_NULLABLE) && json_is_null(v)) {
        *(const char **)to = NULL;
        return 0;
    }
    if (!json_is_string(v))
        return type_error(f, "a string", err);
    const char *text = json_string_value(v);
    size_t n = json_string_length(v);
    if (f->kind == KIND_CODE) {
        enum err_code code = error_from_word(text);
        if (code == ERR_NONE || strcmp(error_word(code), text) != 0)
            return type_error(f, "the word of an error", err);
        *(enum err_code *)to = code;
        return 0;
    }
    if (check_text(f, text, n, err) < 0)
        return -1;
    if (f->kind == KIND_TEXT)
        memcpy(to, text, n + 1);
    else
        *(const char **)to = text;
    return 0;
}

static int get_int(const struct field *f, const json_t *v, void *to,
                   struct error *err)
{
    if (!json_is_integer(v))
        return type_error(f, "an integer", err);
    int64_t n = json_integer_value(v);
    if (check_int(f, n, err) < 0)
        return -1;
    if (f->kind == KIND_I32)
        *(int32_t *)to = (int32_t)n;
    else if (f->kind == KIND_U32)
        *(uint32_t *)to = (uint32_t)n;
    else if (f->kind == KIND_I64)
        *(int64_t *)to = n;
    else
        *(uint64_t *)to = (uint64_t)n;
    return 0;
}

static int get_field(const struct field *f, const json_t *v, void *to,
                     struct error *err)
{
    switch (f->kind) {
    case KIND_TEXT:
    case KIND_STRING:
    case KIND_CODE:
        return get_text(f, v, to, err);
    case KIND_REAL:
        if (!json_is_number(v))
            return type_error(f, "a number", err);
        if (check_real(f, json_number_value(v), err) < 0)
            return -1;
        *(double *)to = json_number_value(v);
        return 0;
    case KIND_BOOL:
        if (!json_is_boolean(v))
            return type_error(f, "true or false", err);
        *(bool *)to = json_is_true(v);
        return 0;
    case KIND_I32:
    case KIND_U32:
    case KIND_I64:
    case KIND_U64:
        break;
    }
    return get_int(f, v, to, err);
}

/* o has the message's keys, `extra` others that the caller reads, and none
 * besides. */
static int get_fields(const struct message *m, const json_t *o, size_t extra,
                      void *base, struct error *err)
{
    size_t seen = extra;
    for (size_t i = 0; i < m->n; i++) {
        const struct field *f = &m->fields[i];
        const json_t *v = json_object_get(o, f->key);
        if (v == NULL && (f->flags & IS_OPTIONAL))
            continue;
        if (v == NULL)
            return error_set(err, ERR_INVAL, "'%s' is missing", f->key);
        if (get_field(f, v, (char *)base + f->at, err) < 0)
            return -1;
        seen++;
    }
    if (json_object_size(o) != seen)
        return error_set(err, ERR_INVAL, "a key that '%s' does not have",
                         m->word);
    return 0;
}

static json_t *load(const char *line, size_t len, struct error *err)
{
    json_error_t why;
    if (len > HELPER_LINE_MAX) {
        (void)error_set(err, ERR_INVAL, "a line of %zu bytes, at most %d", len,
                        HELPER_LINE_MAX);
        return NULL;
    }
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
    if (o == NULL) {
        (void)error_set(err, ERR_INVAL, "%s at byte %d", why.text,
                        why.position);
        return NULL;
    }
    if (!json_is_object(o)) {
        json_decref(o);
        (void)error_set(err, ERR_INVAL, "not an object");
        return NULL;
    }
    return o;
}

/* The index of the message that o's `key` names; -1 none. */
static int which(const json_t *o, const char *key, const struct message *all,
                 int n, struct error *err)
{
    const char *word = json_string_value(json_object_get(o, key));
    for (int i = 0; word != NULL && i < n; i++)
        if (strcmp(word, all[i].word) == 0)
            return i;
    return error_set(err, ERR_INVAL, "'%s' is none that we know", key);
}

int helper_cmd_parse(const char *line, size_t len, struct helper_cmd *ret,
                     struct error *err)
{
    struct helper_cmd c = {.hold = NULL};
    json_t *o = load(line, len, err);
    if (o == NULL)
        return -1;
    int op = which(o, "op", commands, N_COMMANDS, err);
    if (op < 0 || get_fields(&commands[op], o, 1, &c, err) < 0) {
        json_decref(o);
        return -1;
    }
    c.op = (enum helper_op)op;
    c.hold = o;
    *ret = c;
    return 0;
}

void helper_cmd_clear(struct helper_cmd *c)
{
    json_decref(c->hold);
    *c = (struct helper_cmd){.hold = NULL};
}

static int get_nodes(const json_t *o, struct helper_news *n, struct error *err)
{
    const json_t *all = json_object_get(o, "nodes");
    size_t count = json_array_size(all);
    if (!json_is_array(all) || json_object_size(o) != 2 || count > NODES_MAX)
        return error_set(err, ERR_INVAL, "'nodes' is not a list of nodes");
    if (count == 0)
        return 0;
    n->nodes = calloc(count, sizeof(*n->nodes));
    if (n->nodes == NULL)
        return error_set(err, ERR_NOMEM, "%zu nodes", count);
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(all, i);
        if (!json_is_object(v))
            return error_set(err, ERR_INVAL, "node %zu is not an object", i);
        if (get_fields(&node, v, 0, &n->nodes[i], err) < 0)
            return error_wrap(err, "node %zu", i);
    }
    n->n_nodes = count;
    return 0;
}

static int get_news(const json_t *o, struct helper_news *n, struct error *err)
{
    int ev = which(o, "ev", events, N_EVENTS, err);
    if (ev < 0)
        return -1;
    n->ev = (enum helper_ev)ev;
    if (n->ev == HELPER_NODES)
        return get_nodes(o, n, err);
    n->is_ok = n->ev == HELPER_REPLY && !json_object_get(o, "code");
    bool has_failed = n->ev == HELPER_REPLY && !n->is_ok;
    return get_fields(has_failed ? &failed : &events[ev], o, 1, n, err);
}

int helper_news_parse(const char *line, size_t len, struct helper_news *ret,
                      struct error *err)
{
    struct helper_news n = {.nodes = NULL};
    json_t *o = load(line, len, err);
    if (o == NULL)
        return -1;
    int rc = get_news(o, &n, err);
    json_decref(o);
    if (rc < 0) {
        helper_news_clear(&n);
        return -1;
    }
    if (n.ev == HELPER_DOWN)
        n.why.code = ERR_UNAVAIL;
    *ret = n;
    return 0;
}

void helper_news_clear(struct helper_news *n)
{
    free(n->nodes);
    *n = (struct helper_news){.nodes = NULL};
}

/* ---- writing ------------------------------------------------------------- */
/* Slurm's own words may hold anything, for instance Latin-1 in a node's
 * reason: what is not printable travels escaped, and is cut to its room. */
static json_t *plain(const struct field *f, const char *text, struct error *err)
{
    struct buf b = BUF_INIT;
    if (is_printable(text))
        return json_string(text);
    json_t *v = NULL;
    if (text_add_plain(&b, text, strlen(text), err) == 0) {
        size_t n = b.len < (size_t)f->max ? b.len : (size_t)f->max - 1;
        while (n > 0 && n < b.len && ((unsigned char)b.data[n] & 0xc0) == 0x80)
            n--;
        v = json_stringn(buf_str(&b), n);
    }
    buf_clear(&b);
    return v;
}

/* NULL when a check fails, or without memory: err is then as it was. */
static json_t *value_of(const struct field *f, const void *at,
                        struct error *err)
{
    int64_t n;
    const char *text;
    switch (f->kind) {
    case KIND_CODE:
        return json_string(error_word(*(const enum err_code *)at));
    case KIND_STRING:
        text = *(const char *const *)at;
        if (text == NULL && (f->flags & IS_NULLABLE))
            return json_null();
        text = text ? text : "";
        return check_text(f, text, strlen(text), err) < 0 ? NULL
                                                          : json_string(text);
    case KIND_TEXT:
        text = at;
        n = (int64_t)strlen(text);
        if ((f->fits || n < f->min) && check_text(f, text, (size_t)n, err) < 0)
            return NULL;
        return plain(f, text, err);
    case KIND_BOOL:
        return json_boolean(*(const bool *)at);
    case KIND_REAL:
        return check_real(f, *(const double *)at, err) < 0
                   ? NULL
                   : json_real(*(const double *)at);
    case KIND_I32:
        n = *(const int32_t *)at;
        break;
    case KIND_U32:
        n = *(const uint32_t *)at;
        break;
    case KIND_I64:
    case KIND_U64: /* one above INT64_MAX is negative, and refused */
    default:
        n = *(const int64_t *)at;
        break;
    }
    return check_int(f, n, err) < 0 ? NULL : json_integer(n);
}

static int put_fields(const struct message *m, json_t *o, const void *base,
                      struct error *err)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct field *f = &m->fields[i];
        struct error why = {.code = ERR_NOMEM, .msg = "out of memory"};
        json_t *v = value_of(f, (const char *)base + f->at, &why);
        if (v == NULL || json_object_set_new(o, f->key, v) < 0)
            return error_set(err, why.code, "%s: %s", m->word, why.msg);
    }
    return 0;
}

static int to_buf(const char *p, size_t n, void *arg)
{
    return buf_add(arg, p, n, NULL);
}

/* Takes o. On failure out is as before. */
static int finish(json_t *o, struct buf *out, struct error *err)
{
    size_t before = out->len;
    int rc = json_dump_callback(o, to_buf, out, JSON_COMPACT);
    json_decref(o);
    if (rc == 0 && out->len - before > HELPER_LINE_MAX) {
        rc = error_set(err, ERR_LIMIT, "a line of %zu bytes, at most %d",
                       out->len - before, HELPER_LINE_MAX);
    } else if (rc < 0 || buf_add(out, "\n", 1, NULL) < 0) {
        rc = error_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc < 0 && out->data) {
        out->len = before;
        out->data[before] = '\0';
    }
    return rc;
}

static json_t *begin(const char *key, const char *word, struct error *err)
{
    json_t *o = json_object();
    if (o == NULL || json_object_set_new(o, key, json_string(word)) < 0) {
        json_decref(o);
        (void)error_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    return o;
}

int helper_cmd_encode(const struct helper_cmd *c, struct buf *out,
                      struct error *err)
{
    const struct message *m = &commands[c->op];
    json_t *o = begin("op", m->word, err);
    if (o == NULL)
        return -1;
    if (put_fields(m, o, c, err) < 0) {
        json_decref(o);
        return -1;
    }
    return finish(o, out, err);
}

static int put_nodes(const struct helper_news *n, json_t *o, struct error *err)
{
    json_t *all = json_array();
    if (all == NULL || json_object_set_new(o, "nodes", all) < 0)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n->n_nodes; i++) {
        json_t *v = json_object();
        if (v == NULL || json_array_append_new(all, v) < 0)
            return error_set(err, ERR_NOMEM, "out of memory");
        if (put_fields(&node, v, &n->nodes[i], err) < 0)
            return -1;
    }
    return 0;
}

int helper_news_encode(const struct helper_news *n, struct buf *out,
                       struct error *err)
{
    bool has_failed = n->ev == HELPER_REPLY && !n->is_ok;
    const struct message *m = has_failed ? &failed : &events[n->ev];
    json_t *o = begin("ev", m->word, err);
    if (o == NULL)
        return -1;
    int rc =
        n->ev == HELPER_NODES ? put_nodes(n, o, err) : put_fields(m, o, n, err);
    if (rc < 0) {
        json_decref(o);
        return -1;
    }
    return finish(o, out, err);
}
