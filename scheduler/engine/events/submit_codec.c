/* submit_codec.c - encode and decode the detail of a SUBMIT event.
 *
 * It holds the spec, and what the engine derived from the spec; see
 * event_codec.h.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec/spec.h"
#include "jobs/wire/json_scan.h"
#include "scheduler/engine/events/event_codec.h"
#include "scheduler/engine/events/json_nomem.h"

/* The spec comes first and is kept byte for byte: parsing and printing it again
 * would change how its numbers are written. */
static const char spec_first[] = "{\"spec\":";
enum { SPEC_AT = sizeof(spec_first) - 1 };

static const struct {
    const char *name;
    size_t offset;
} where_texts[] = {
    {"partition", offsetof(struct alloc_where, partition)},
    {"account", offsetof(struct alloc_where, account)},
    {"qos", offsetof(struct alloc_where, qos)},
    {"constraint", offsetof(struct alloc_where, constraint)},
    {"reservation", offsetof(struct alloc_where, reservation)},
    {"gpu_type", offsetof(struct alloc_where, gpu_type)},
};
enum { N_WHERE = sizeof(where_texts) / sizeof(where_texts[0]) };

static const char **where_text(const struct alloc_where *w, size_t i)
{
    return (const char **)((const char *)w + where_texts[i].offset);
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

/* Only members that are set; NULL if none is, or out of memory. */
static json_t *where_encode(const struct alloc_where *w)
{
    json_t *o = json_object();
    for (size_t i = 0; o && i < N_WHERE; i++) {
        if (*where_text(w, i))
            (void)json_object_set_new(o, where_texts[i].name,
                                      json_string(*where_text(w, i)));
    }
    if (w->cpus_per_gpu > 0)
        (void)json_object_set_new(o, "cpus_per_gpu",
                                  json_integer(w->cpus_per_gpu));
    if (w->memory_bytes > 0)
        (void)json_object_set_new(o, "memory_bytes",
                                  json_integer(w->memory_bytes));
    if (w->gpu_min_bytes > 0)
        (void)json_object_set_new(o, "gpu_min_bytes",
                                  json_integer(w->gpu_min_bytes));
    if (w->gpu_max_bytes > 0)
        (void)json_object_set_new(o, "gpu_max_bytes",
                                  json_integer(w->gpu_max_bytes));
    if (w->exclusive)
        (void)json_object_set_new(o, "exclusive", json_true());
    return o;
}

/* Strings are borrowed from o. */
static struct alloc_where where_decode(const json_t *o)
{
    struct alloc_where w = {0};
    for (size_t i = 0; i < N_WHERE; i++)
        *where_text(&w, i) =
            json_string_value(json_object_get(o, where_texts[i].name));
    w.cpus_per_gpu =
        (int32_t)json_integer_value(json_object_get(o, "cpus_per_gpu"));
    w.memory_bytes = json_integer_value(json_object_get(o, "memory_bytes"));
    w.gpu_min_bytes = json_integer_value(json_object_get(o, "gpu_min_bytes"));
    w.gpu_max_bytes = json_integer_value(json_object_get(o, "gpu_max_bytes"));
    w.exclusive = json_is_true(json_object_get(o, "exclusive"));
    return w;
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
        lack_note(*ret_own != NULL);
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

static int add_text(json_t *o, const char *name, const char *text)
{
    return text ? json_object_set_new(o, name, json_string(text)) : 0;
}

static char *describe(const struct job *job, const char *class)
{
    json_t *limit =
        isfinite(job->limit_s) ? json_real(job->limit_s) : json_null();
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:f, s:i, s:I}",
        "user", job->user, "key", job->key, "name", job->name, "kind",
        job->kind, "priority", job->priority, "gpus_min", job->gpus_min,
        "gpus_max", job->gpus_max, "nodes_min", job->nodes_min, "nodes_max",
        job->nodes_max, "limit_s", limit, "grace_s", job->grace_s, "retry_max",
        job->retry_max, "log_max_bytes", (json_int_t)job->log_max_bytes);
    json_t *where = where_encode(&job->where);
    json_t *depends = depends_encode(job);
    json_t *sweep = job->sweep > 0 ? sweep_encode(job) : json_null();
    json_t *retry = json_pack("{s:i, s:f, s:f}", "retry_on", (int)job->retry_on,
                              "backoff_s", job->backoff_s, "backoff_max_s",
                              job->backoff_max_s);
    json_t *warn =
        job->warn_signal > 0
            ? json_pack("{s:i, s:f}", "warn_signal", (int)job->warn_signal,
                        "warn_before_s", job->warn_before_s)
            : json_object();
    json_t *stall =
        json_pack("{s:f, s:f, s:b}", "stall_factor", job->stall_factor,
                  "stall_min_s", job->stall_min_s, "ends", job->stall_ends);
    if (job->exclude_node && o)
        (void)json_object_set_new(o, "exclude_node", json_true());
    if (!job->is_preemptible && o)
        (void)json_object_set_new(o, "preemptible", json_false());
    if (job->saves && o)
        (void)json_object_set_new(o, "saves", json_true());
    if (job->per_node > 0 && o)
        (void)json_object_set_new(o, "per_node", json_integer(job->per_node));
    if (job->parts > 0 && o)
        (void)json_object_set_new(o, "parts", json_integer(job->parts));
    if (job->begin_s > 0 && o)
        (void)json_object_set_new(o, "begin_s", json_real(job->begin_s));
    if (job->log_fails && o)
        (void)json_object_set_new(o, "log_fails", json_true());
    if (job->log_is_plain && o)
        (void)json_object_set_new(o, "log_is_plain", json_true());
    if (job->rank_per_node && o)
        (void)json_object_set_new(o, "rank_per_node", json_true());
    if (job->program_mpi && o)
        (void)json_object_set_new(o, "program_mpi", json_true());
    if (job->goal > 0 && o)
        (void)json_object_set_new(o, "goal", json_integer(job->goal));
    if (job->min_efficiency > 0 && o)
        (void)json_object_set_new(o, "min_efficiency",
                                  json_real(job->min_efficiency));
    if (job->force_queue && o)
        (void)json_object_set_new(o, "force_queue", json_true());
    char *text = NULL;
    if (o && warn && json_object_update(o, warn) == 0 && where && depends &&
        sweep && retry && json_object_update(o, retry) == 0 && stall &&
        json_object_set(o, "stall", stall) == 0 &&
        (job->n_depends == 0 || json_object_set(o, "depends", depends) == 0) &&
        (json_is_null(sweep) || json_object_set(o, "sweep", sweep) == 0) &&
        (json_object_size(where) == 0 ||
         json_object_set(o, "where", where) == 0) &&
        add_text(o, "class", class) == 0 && add_text(o, "dir", job->dir) == 0 &&
        add_text(o, "digest", job->digest[0] ? job->digest : NULL) == 0 &&
        add_text(o, "owner", job->owner[0] ? job->owner : NULL) == 0 &&
        add_text(o, "account", job->account[0] ? job->account : NULL) == 0 &&
        add_text(o, "rules", job->rules) == 0 &&
        (job->notify_on == 0 ||
         json_object_set_new(o, "notify_on", json_integer(job->notify_on)) ==
             0))
        text = json_dumps(o, JSON_COMPACT);
    json_decref(stall);
    json_decref(retry);
    json_decref(warn);
    json_decref(depends);
    json_decref(sweep);
    json_decref(where);
    json_decref(o);
    return text;
}

int submit_encode(const struct job *job, const char *class, char **ret_text,
                  struct error *err)
{
    struct buf b = BUF_INIT;
    lack_forget(); /* out of memory counts as a value that is not there */
    char *rest = describe(job, class);

    if (!rest || lack_was_there()) {
        free(rest);
        return lack_refuse("the user, the key, the name or the directory is "
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
    const char *end = members_end(text);
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
    return members_read_rest(text + SPEC_AT + *ret_len, ret);
}

/* Without retry rules (jobs of older versions), these ends are retried at
 * once. */
static void take_retry(const struct members *m, struct job *ret)
{
    const struct member on = members_get(m, "retry_on");
    ret->retry_on = on.kind != MEMBER_NONE
                        ? (uint32_t)on.n
                        : RETRY_NODE_FAIL | RETRY_STALLED | RETRY_SIGNAL;
    ret->backoff_s = members_get(m, "backoff_s").x;
    ret->backoff_max_s = members_get(m, "backoff_max_s").x;
}

/* Absent in jobs that are older than this end. */
static void take_stall(const struct members *m, struct job *ret)
{
    const struct member stall = members_get(m, "stall");
    struct members in;

    if (members_of(&stall, &in) < 0)
        in = (struct members){.n = 0};
    ret->stall_factor = members_get(&in, "stall_factor").x;
    ret->stall_min_s = members_get(&in, "stall_min_s").x;
    ret->stall_ends = members_has(&in, "ends", MEMBER_TRUE);
    members_clear(&in);
}

/* Members that each submit has; -1: one is missing, or of another type. */
enum { USER, KEY, NAME, KIND, N_TEXTS };
enum { PRIORITY, GPUS_MIN, GPUS_MAX, NODES_MIN, NODES_MAX, RETRY_MAX, N_INTS };

static int take_all(const struct members *m, enum member_kind kind,
                    const char *const *names, size_t n, struct member *ret)
{
    for (size_t i = 0; i < n; i++) {
        ret[i] = members_get(m, names[i]);
        if (ret[i].kind != kind)
            return -1;
    }
    return 0;
}

static char *dup_text(const struct member *text)
{
    char *own = member_dup(text);

    lack_note(own || text->kind != MEMBER_TEXT);
    return own;
}

static int take_texts(const struct members *m, struct job *ret,
                      struct texts *own)
{
    static const char *const names[N_TEXTS] = {
        [USER] = "user", [KEY] = "key", [NAME] = "name", [KIND] = "kind"};
    enum spec_kind kind = SPEC_CV; /* which events of old versions mean */
    struct member text[N_TEXTS];
    const struct member owner = members_get(m, "owner");
    const struct member account = members_get(m, "account");

    text_take(ret->owner, sizeof(ret->owner), &owner);
    text_take(ret->account, sizeof(ret->account), &account);
    if (take_all(m, MEMBER_TEXT, names, N_TEXTS, text) < 0)
        return -1;
    text_take(ret->user, sizeof(ret->user), &text[USER]);
    text_take(ret->name, sizeof(ret->name), &text[NAME]);
    (void)spec_kind_of(text[KIND].text, text[KIND].len, &kind);
    ret->kind = spec_kind_word(kind);
    own->key = dup_text(&text[KEY]);
    return 0;
}

static bool is_number(const struct member *m)
{
    return m->kind == MEMBER_INT || m->kind == MEMBER_REAL;
}

static int take_numbers(const struct members *m, struct job *ret)
{
    static const char *const names[N_INTS] = {
        [PRIORITY] = "priority",   [GPUS_MIN] = "gpus_min",
        [GPUS_MAX] = "gpus_max",   [NODES_MIN] = "nodes_min",
        [NODES_MAX] = "nodes_max", [RETRY_MAX] = "retry_max"};
    struct member number[N_INTS];
    const struct member limit = members_get(m, "limit_s");
    const struct member grace = members_get(m, "grace_s");
    const struct member log_max = members_get(m, "log_max_bytes");

    if (take_all(m, MEMBER_INT, names, N_INTS, number) < 0 ||
        limit.kind == MEMBER_NONE || log_max.kind != MEMBER_INT ||
        !is_number(&grace))
        return -1;
    ret->priority = (int32_t)number[PRIORITY].n;
    ret->gpus_min = (int32_t)number[GPUS_MIN].n;
    ret->gpus_max = (int32_t)number[GPUS_MAX].n;
    ret->nodes_min = (int32_t)number[NODES_MIN].n;
    ret->nodes_max = (int32_t)number[NODES_MAX].n;
    ret->retry_max = (int32_t)number[RETRY_MAX].n;
    ret->limit_s = is_number(&limit) ? limit.x : (double)INFINITY;
    ret->attempt_limit_s = ret->limit_s;
    ret->grace_s = grace.x;
    ret->log_max_bytes = log_max.n;
    return 0;
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
    const struct member digest = members_get(m, "digest");
    const struct member rules = members_get(m, "rules");

    if (take_texts(m, ret, own) < 0 || take_numbers(m, ret) < 0 ||
        take_text(m, "class", &own->class) < 0 ||
        take_text(m, "dir", &own->dir) < 0)
        return -1;
    own->rules = dup_text(&rules);
    take_retry(m, ret);
    ret->warn_signal = (int32_t)members_get(m, "warn_signal").n;
    ret->warn_before_s = members_get(m, "warn_before_s").x;
    take_stall(m, ret);
    ret->notify_on = (uint32_t)members_get(m, "notify_on").n;
    ret->exclude_node = members_has(m, "exclude_node", MEMBER_TRUE);
    ret->is_preemptible = !members_has(m, "preemptible", MEMBER_FALSE);
    ret->saves = members_has(m, "saves", MEMBER_TRUE);
    ret->goal = (uint8_t)members_get(m, "goal").n;
    ret->min_efficiency = members_get(m, "min_efficiency").x;
    ret->force_queue = members_has(m, "force_queue", MEMBER_TRUE);
    ret->log_fails = members_has(m, "log_fails", MEMBER_TRUE);
    ret->log_is_plain = members_has(m, "log_is_plain", MEMBER_TRUE);
    ret->rank_per_node = members_has(m, "rank_per_node", MEMBER_TRUE);
    ret->program_mpi = members_has(m, "program_mpi", MEMBER_TRUE);
    ret->per_node = (int32_t)members_get(m, "per_node").n;
    ret->parts = (int32_t)members_get(m, "parts").n;
    ret->begin_s = members_get(m, "begin_s").x;
    text_take(ret->digest, sizeof(ret->digest), &digest);
    return 0;
}

/* NULL: there is none of that name, or out of memory. */
static json_t *tree_of(const struct members *m, const char *name)
{
    const struct member v = members_get(m, name);
    json_t *tree = member_tree(&v);

    lack_note(tree || v.kind != MEMBER_TREE);
    return tree;
}

/* Optional members: a sweep, dependencies, words for Slurm. */
static int take_trees(const struct members *m, struct job *ret,
                      struct texts *own)
{
    json_t *sweep = tree_of(m, "sweep"), *where = tree_of(m, "where");
    json_t *depends = tree_of(m, "depends");
    const struct alloc_where words = where_decode(where);
    bool is_bad = !sweep && !members_has(m, "sweep", MEMBER_NONE);

    if (is_bad || sweep_decode(sweep, ret, &own->vary) < 0 ||
        depends_decode(depends, ret, &own->depends) < 0)
        is_bad = true;
    else
        lack_note(where_copy(&words, &ret->where, &own->words, NULL) == 0);
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
    free(t->dir);
    free(t->vary);
    free(t->rules);
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

    lack_forget();
    if (rest_of(text, known, &len, &m) < 0)
        return lack_refuse(damaged, err);
    int rc = take(&m, &job, &own);
    if (rc == 0)
        rc = take_trees(&m, &job, &own);
    members_clear(&m);
    own.spec = strndup(text + SPEC_AT, len);
    lack_note(own.spec != NULL);
    if (rc < 0 || lack_was_there()) {
        texts_clear(&own);
        return lack_refuse(damaged, err);
    }
    *ret = job;
    *ret_own = own;
    return 0;
}
