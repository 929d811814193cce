/* submit_codec.c - encode and decode the detail of a SUBMIT event.
 *
 * It holds the spec, and what the engine derived from the spec; see
 * event_codec.h.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec/spec.h"
#include "jobs/wire/json_struct.h"
#include "scheduler/engine/events/event_codec.h"
#include "scheduler/engine/events/json_nomem.h"
#include "scheduler/engine/run.h"

const char job_kind_run[] = "run";

/* The spec comes first and is kept byte for byte: parsing and printing it again
 * would change how its numbers are written. */
static const char spec_first[] = "{\"spec\":";
enum { SPEC_AT = sizeof(spec_first) - 1 };

#define ROW(kind, type, member, key, flags, min, max)                        \
    {                                                                        \
        key, kind, (flags) | IS_TRUSTED, offsetof(struct type, member), min, \
            max, NULL                                                        \
    }
#define CAP(member) sizeof(((struct job *)NULL)->member)
#define JOB(kind, name, flags) ROW(kind, job, name, #name, flags, 0, CAP(name))
#define TEXT(name) JOB(KIND_RAW, name, 0)
#define INT(name) JOB(KIND_I32, name, 0)
/* Written when it is above 0. */
#define COUNT(kind, name) ROW(kind, job, name, #name, IS_SPARSE, 1, 0)
#define FLAG(name) JOB(KIND_FLAG, name, 0)
#define WORD(name) ROW(KIND_STRING, alloc_where, name, #name, IS_SPARSE, 0, 0)
#define SIZE(kind, name) ROW(kind, alloc_where, name, #name, IS_SPARSE, 1, 0)

enum { N_WHERE = 6 }; /* texts, which come first */
static const struct json_field where_rows[] = {
    WORD(partition),
    WORD(account),
    WORD(qos),
    WORD(constraint),
    WORD(reservation),
    WORD(gpu_type),
    SIZE(KIND_I32, cpus_per_gpu),
    SIZE(KIND_I64, memory_bytes),
    SIZE(KIND_I64, gpu_min_bytes),
    SIZE(KIND_I64, gpu_max_bytes),
    ROW(KIND_FLAG, alloc_where, exclusive, "exclusive", 0, 0, 0),
};
static const struct json_struct where_table = {NULL, JSON_FIELDS(where_rows)};

/* Each submit has the rows up to retry_max. */
static const struct json_field job_rows[] = {
    TEXT(user),
    JOB(KIND_STRING, key, IS_KEPT),
    TEXT(name),
    JOB(KIND_STRING, kind, IS_KEPT),
    INT(priority),
    INT(gpus_min),
    INT(gpus_max),
    INT(nodes_min),
    INT(nodes_max),
    JOB(KIND_REAL, limit_s, IS_NULLABLE),
    JOB(KIND_REAL, grace_s, 0),
    INT(retry_max),
    FLAG(exclude_node),
    ROW(KIND_UNLESS, job, is_preemptible, "preemptible", 0, 0, 0),
    FLAG(saves),
    COUNT(KIND_I32, per_node),
    COUNT(KIND_I32, parts),
    COUNT(KIND_POSITIVE, begin_s),
    COUNT(KIND_U8, goal),
    COUNT(KIND_POSITIVE, min_efficiency),
    FLAG(force_queue),
};
static const struct json_struct job_table = {NULL, JSON_FIELDS(job_rows)};

static const struct json_field warn_rows[] = {
    JOB(KIND_I32, warn_signal, IS_OPTIONAL),
    JOB(KIND_REAL, warn_before_s, IS_OPTIONAL),
};
static const struct json_struct warn_table = {NULL, JSON_FIELDS(warn_rows)};

static const struct json_field retry_rows[] = {
    JOB(KIND_I32, retry_on, IS_OPTIONAL),
    JOB(KIND_REAL, backoff_s, IS_OPTIONAL),
    JOB(KIND_REAL, backoff_max_s, IS_OPTIONAL),
};
static const struct json_struct retry_table = {NULL, JSON_FIELDS(retry_rows)};

static const struct json_field stall_rows[] = {
    JOB(KIND_REAL, stall_factor, IS_OPTIONAL),
    JOB(KIND_REAL, stall_min_s, IS_OPTIONAL),
    ROW(KIND_BOOL, job, stall_ends, "ends", IS_OPTIONAL, 0, 0),
};
static const struct json_struct stall_table = {NULL, JSON_FIELDS(stall_rows)};

static const struct json_field last_rows[] = {
    JOB(KIND_STRING, dir, IS_SPARSE | IS_KEPT),
    JOB(KIND_RAW, digest, IS_SPARSE),
    JOB(KIND_RAW, owner, IS_SPARSE),
    JOB(KIND_RAW, account, IS_SPARSE),
    JOB(KIND_STRING, rules, IS_SPARSE | IS_KEPT),
    COUNT(KIND_U32, notify_on),
    JOB(KIND_STRING, from, IS_SPARSE | IS_KEPT),
    COUNT(KIND_U64, parent),
    JOB(KIND_RAW, parent_name, IS_SPARSE),
};
static const struct json_struct last_table = {NULL, JSON_FIELDS(last_rows)};

static const char **where_text(const struct alloc_where *w, size_t i)
{
    return (const char **)((const char *)w + where_rows[i].at);
}

int where_copy(const struct alloc_where *from, struct alloc_where *ret,
               char **ret_words, struct error *err)
{
    struct alloc_where to = *from;
    size_t len = 0, at = 0;
    char *words = NULL;

    for (size_t i = 0; i < N_WHERE; i++)
        len += *where_text(from, i) ? strlen(*where_text(from, i)) + 1 : 0;
    if (len > 0 && !(words = malloc(len)))
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; words && i < N_WHERE; i++) {
        const char *s = *where_text(from, i);
        if (!s)
            continue;
        *where_text(&to, i) = memcpy(words + at, s, strlen(s) + 1);
        at += strlen(s) + 1;
    }
    *ret = to;
    *ret_words = words;
    return 0;
}

/* NULL: out of memory. */
static json_t *depends_encode(const struct job *job)
{
    char text[DEPEND_TEXT_CAP];
    json_t *list = json_array();
    for (size_t i = 0; list && i < job->n_depends; i++) {
        if (json_array_append_new(
                list, json_string(depend_show(&job->depends[i], text))) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* -1: the list is damaged. */
static int depends_decode(const json_t *list, struct job *ret,
                          struct depend **ret_own)
{
    struct depend found[DEPEND_MAX];
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || depend_parse(text, found, &n, NULL) < 0)
            return -1;
    }
    if (n > 0) {
        *ret_own = malloc(n * sizeof(**ret_own));
        nomem_note(*ret_own != NULL);
    }
    if (*ret_own)
        memcpy(*ret_own, found, n * sizeof(*found));
    ret->depends = *ret_own;
    ret->n_depends = n;
    return 0;
}

/* For a task of a sweep; NULL: out of memory, or vary is not an object. */
static json_t *sweep_encode(const struct job *job)
{
    json_t *vary = json_loads(job->vary, 0, NULL);
    if (!json_is_object(vary)) {
        json_decref(vary);
        return NULL;
    }
    return json_pack("{s:I, s:i, s:i, s:i, s:b, s:o}", "id",
                     (json_int_t)job->sweep, "task", job->task, "tasks",
                     job->n_tasks, "max_parallel", job->max_parallel,
                     "stop_on_fail", job->stop_on_fail, "vary", vary);
}

/* -1: it is damaged. o is NULL for a job outside a sweep. */
static int sweep_decode(const json_t *o, struct job *ret, char **ret_vary)
{
    json_int_t id;
    json_t *vary;
    int task, n_tasks, max_parallel, stop;
    if (!o)
        return 0;
    if (json_unpack((json_t *)o, "{s:I, s:i, s:i, s:i, s:b, s:o}", "id", &id,
                    "task", &task, "tasks", &n_tasks, "max_parallel",
                    &max_parallel, "stop_on_fail", &stop, "vary", &vary) < 0 ||
        id < 1 || task < 0 || task >= n_tasks ||
        (uint64_t)id + (uint64_t)task != ret->id)
        return -1;
    *ret_vary = json_dumps(vary, JSON_COMPACT);
    ret->sweep = (uint64_t)id;
    ret->task = task;
    ret->number = *ret_vary ? eng_task_number(*ret_vary, task) : task;
    ret->n_tasks = n_tasks;
    ret->max_parallel = max_parallel;
    ret->stop_on_fail = stop;
    ret->vary = *ret_vary;
    return *ret_vary ? 0 : -1;
}

/* An object of its own; it is left out if it is empty. */
static int add_object(json_t *o, const char *key, const struct json_struct *t,
                      const void *base)
{
    json_t *own = json_object();
    int rc = own ? json_struct_write(t, base, own, NULL) : -1;
    if (rc == 0 && json_object_size(own) > 0)
        rc = json_object_set(o, key, own);
    json_decref(own);
    return rc;
}

static int add_name(json_t *o, const char *key, const char *name)
{
    return name ? json_object_set_new(o, key, json_string(name)) : 0;
}

static char *describe(const struct job *job, const char *class,
                      const char *program)
{
    json_t *o = json_object();
    char *text = NULL;
    if (o && json_struct_write(&job_table, job, o, NULL) == 0 &&
        (job->warn_signal <= 0 ||
         json_struct_write(&warn_table, job, o, NULL) == 0) &&
        json_struct_write(&retry_table, job, o, NULL) == 0 &&
        add_object(o, "stall", &stall_table, job) == 0 &&
        (job->n_depends == 0 ||
         json_object_set_new(o, "depends", depends_encode(job)) == 0) &&
        (job->sweep == 0 ||
         json_object_set_new(o, "sweep", sweep_encode(job)) == 0) &&
        add_object(o, "where", &where_table, &job->where) == 0 &&
        add_name(o, "class", class) == 0 &&
        add_name(o, "program", program) == 0 &&
        json_struct_write(&last_table, job, o, NULL) == 0)
        text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    return text;
}

int submit_encode(const struct job *job, const char *class, const char *program,
                  char **ret_text, struct error *err)
{
    struct buf b = BUF_INIT;
    nomem_forget(); /* out of memory counts as a value that is not there */
    char *rest = describe(job, class, program);

    if (!rest || nomem_was_there()) {
        free(rest);
        return nomem_refuse("the user, the key, the name or the directory is "
                            "not valid UTF-8",
                            err);
    }
    int rc = buf_addstr(&b, spec_first, err);
    if (rc == 0)
        rc = buf_addstr(&b, job->spec, err);
    if (rc == 0)
        rc = buf_addf(&b, err, ",%s", rest + 1);
    free(rest);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (!text)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    *ret_text = text;
    return 0;
}

/* Length of the spec at `text`; 0: it is damaged. If it equals `known`, it need
 * not be parsed, which saves most of the work of a decoding. */
static size_t spec_len(const char *text, const char *known)
{
    json_error_t bad;
    size_t len = known ? strlen(known) : 0;
    if (len > 0 && strncmp(text, known, len) == 0 && text[len] == ',')
        return len;
    const char *end = json_members_end(text);
    if (end)
        return (size_t)(end - text);
    json_t *spec = json_loadb(text, strlen(text), JSON_DISABLE_EOF_CHECK, &bad);
    len = json_is_object(spec) ? (size_t)bad.position : 0;
    json_decref(spec);
    return len;
}

/* The members after the spec; *ret_len is the length of the spec. */
static int rest_of(const char *text, const char *known, size_t *ret_len,
                   struct members *ret)
{
    if (strncmp(text, spec_first, SPEC_AT) != 0)
        return -1;
    *ret_len = spec_len(text + SPEC_AT, known);
    if (*ret_len == 0)
        return -1;
    return json_members_read_rest(text + SPEC_AT + *ret_len, ret);
}

/* Absent in jobs that are older than this end. */
static int take_stall(const struct members *m, struct job *ret)
{
    const struct member stall = members_get(m, "stall");
    struct members in;

    if (json_members_of(&stall, &in) < 0)
        in = (struct members){.n = 0};
    int rc = json_struct_take(&stall_table, &in, false, ret);
    json_members_clear(&in);
    return rc;
}

static char *dup_text(const struct member *text)
{
    char *own = json_member_dup(text);

    nomem_note(own || text->kind != MEMBER_TEXT);
    return own;
}

/* -1: the member is there, and is not a string. */
static int take_text(const struct members *m, const char *name, char **ret)
{
    const struct member text = members_get(m, name);

    if (text.kind != MEMBER_NONE && text.kind != MEMBER_TEXT)
        return -1;
    *ret = dup_text(&text);
    return 0;
}

/* own  texts_clear(), also after -1 */
static int take(const struct members *m, struct job *ret, struct texts *own)
{
    const struct member key = members_get(m, "key");
    const struct member kind_text = members_get(m, "kind");
    const struct member rules = members_get(m, "rules");
    enum spec_kind kind = SPEC_CV; /* which events of old versions mean */

    if (json_struct_take(&job_table, m, false, ret) < 0 ||
        json_struct_take(&warn_table, m, false, ret) < 0 ||
        json_struct_take(&retry_table, m, false, ret) < 0 ||
        json_struct_take(&last_table, m, false, ret) < 0 ||
        take_stall(m, ret) < 0 || take_text(m, "class", &own->class) < 0 ||
        take_text(m, "program", &own->program) < 0 ||
        take_text(m, "dir", &own->dir) < 0 ||
        take_text(m, "from", &own->from) < 0)
        return -1;
    (void)spec_kind_of(kind_text.text, kind_text.len, &kind);
    ret->is_run = kind_text.len == strlen(job_kind_run) &&
                  memcmp(kind_text.text, job_kind_run, kind_text.len) == 0;
    ret->kind = ret->is_run ? job_kind_run : spec_kind_word(kind);
    ret->attempt_limit_s = ret->limit_s;
    /* Without retry rules (jobs of older versions), these ends are retried at
     * once. */
    if (json_members_has(m, "retry_on", MEMBER_NONE))
        ret->retry_on = RETRY_NODE_FAIL | RETRY_STALLED | RETRY_SIGNAL;
    own->key = dup_text(&key);
    own->rules = dup_text(&rules);
    return 0;
}

/* NULL: there is none of that name, or out of memory. */
static json_t *tree_of(const struct members *m, const char *name)
{
    const struct member v = members_get(m, name);
    json_t *tree = json_member_tree(&v);

    nomem_note(tree || v.kind != MEMBER_TREE);
    return tree;
}

/* Optional members: a sweep, dependencies, words for Slurm. */
static int take_trees(const struct members *m, struct job *ret,
                      struct texts *own)
{
    json_t *sweep = tree_of(m, "sweep"), *where = tree_of(m, "where");
    json_t *depends = tree_of(m, "depends");
    struct alloc_where words = {0};
    struct members in;
    bool is_bad = !sweep && !json_members_has(m, "sweep", MEMBER_NONE);

    json_members_of_json(where, &in);
    if (json_struct_take(&where_table, &in, false, &words) < 0 || is_bad ||
        sweep_decode(sweep, ret, &own->vary) < 0 ||
        depends_decode(depends, ret, &own->depends) < 0)
        is_bad = true;
    else
        nomem_note(where_copy(&words, &ret->where, &own->words, NULL) == 0);
    json_decref(sweep);
    json_decref(where);
    json_decref(depends);
    return is_bad ? -1 : 0;
}

void texts_clear(struct texts *t)
{
    free(t->spec);
    free(t->key);
    free(t->class);
    free(t->program);
    free(t->dir);
    free(t->vary);
    free(t->rules);
    free(t->from);
    free(t->words);
    free(t->depends);
    *t = (struct texts){.spec = NULL};
}

int submit_decode(const char *text, const char *known, struct job *ret,
                  struct texts *ret_own, struct error *err)
{
    static const char damaged[] = "a submit's detail is damaged";
    struct job job = *ret;
    struct texts own = {.spec = NULL};
    struct members m;
    size_t len = 0;

    nomem_forget();
    if (rest_of(text, known, &len, &m) < 0)
        return nomem_refuse(damaged, err);
    int rc = take(&m, &job, &own);
    if (rc == 0)
        rc = take_trees(&m, &job, &own);
    json_members_clear(&m);
    own.spec = strndup(text + SPEC_AT, len);
    nomem_note(own.spec != NULL);
    if (rc < 0 || nomem_was_there()) {
        texts_clear(&own);
        return nomem_refuse(damaged, err);
    }
    job.from = own.from;
    *ret = job;
    *ret_own = own;
    return 0;
}
