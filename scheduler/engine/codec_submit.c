/* codec_submit.c - the detail of a SUBMIT, see codec.h. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec.h"
#include "scheduler/engine/codec.h"
#include "scheduler/engine/lack.h"

/* The spec comes first and is kept as it is: parsing and printing it again
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

/* Only what was said; NULL when nothing was, or without memory. */
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
    if (w->exclusive)
        (void)json_object_set_new(o, "exclusive", json_true());
    return o;
}

/* Texts are borrowed from o. */
static struct alloc_where where_decode(const json_t *o)
{
    struct alloc_where w = {0};
    for (size_t i = 0; i < N_WHERE; i++)
        *where_text(&w, i) =
            json_string_value(json_object_get(o, where_texts[i].name));
    w.cpus_per_gpu =
        (int32_t)json_integer_value(json_object_get(o, "cpus_per_gpu"));
    w.memory_bytes = json_integer_value(json_object_get(o, "memory_bytes"));
    w.exclusive = json_is_true(json_object_get(o, "exclusive"));
    return w;
}

/* NULL without memory. */
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

static int depends_decode(const json_t *list, struct job *ret,
                          struct depend **ret_own, struct error *err)
{
    struct depend found[DEPEND_MAX];
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || depend_parse(text, found, &n, NULL) < 0)
            return error_set(err, ERR_INVAL, "a submit's detail is damaged");
    }
    if (n > 0 && !(*ret_own = malloc(n * sizeof(**ret_own))))
        return error_set(err, ERR_NOMEM, "out of memory");
    if (n > 0)
        memcpy(*ret_own, found, n * sizeof(*found));
    ret->depends = *ret_own;
    ret->n_depends = n;
    return 0;
}

/* Of a task of a sweep; NULL without memory, or when vary is no object. */
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

/* -1 when it is damaged. o is NULL for a job of its own. */
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
    if (job->begin_s > 0 && o)
        (void)json_object_set_new(o, "begin_s", json_real(job->begin_s));
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
    char *rest = describe(job, class);

    if (!rest)
        return error_set(err, ERR_INVAL,
                         "the user, the key, the name or the "
                         "directory is not valid UTF-8");
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

/* How long the spec at `text` is; 0: it is damaged. Where it is the known one
 * that is seen without parsing it, which is most of the work of a decoding. */
static size_t spec_len(const char *text, const char *known)
{
    json_error_t bad;
    size_t len = known ? strlen(known) : 0;
    if (len > 0 && strncmp(text, known, len) == 0 && text[len] == ',')
        return len;
    json_t *spec = json_loadb(text, strlen(text), JSON_DISABLE_EOF_CHECK, &bad);
    len = json_is_object(spec) ? (size_t)bad.position : 0;
    json_decref(spec);
    return len;
}

/* The members after the spec, as an object; *ret_len is the spec's. */
static json_t *rest_of(const char *text, const char *known, size_t *ret_len)
{
    json_error_t bad;
    if (strncmp(text, spec_first, SPEC_AT) != 0)
        return NULL;
    *ret_len = spec_len(text + SPEC_AT, known);
    if (*ret_len == 0)
        return NULL;
    char *copy = strdup(text + SPEC_AT + *ret_len);
    lack_note(copy != NULL);
    if (!copy || copy[0] != ',') {
        free(copy);
        return NULL;
    }
    copy[0] = '{';
    json_t *o = json_loads(copy, 0, &bad);
    free(copy);
    return o;
}

/* Before there were rules, these ends were tried again, and at once. */
static void take_retry(const json_t *o, struct job *ret)
{
    const json_t *on = json_object_get(o, "retry_on");
    ret->retry_on = on ? (uint32_t)json_integer_value(on)
                       : RETRY_NODE_FAIL | RETRY_STALLED | RETRY_SIGNAL;
    ret->backoff_s = json_number_value(json_object_get(o, "backoff_s"));
    ret->backoff_max_s = json_number_value(json_object_get(o, "backoff_max_s"));
}

/* NULL: of a job that came before there was such an end. */
static void take_stall(const json_t *o, struct job *ret)
{
    ret->stall_factor = json_number_value(json_object_get(o, "stall_factor"));
    ret->stall_min_s = json_number_value(json_object_get(o, "stall_min_s"));
    ret->stall_ends = json_is_true(json_object_get(o, "ends"));
}

/* The texts are borrowed from o. */
static int take(json_t *o, struct job *ret, const char **ret_key,
                const char **ret_class, const char **ret_dir)
{
    const char *user, *name, *kind;
    int priority, g0, g1, n0, n1, retry_max;
    json_t *limit;
    double grace_s;
    json_int_t log_max;

    *ret_class = *ret_dir = NULL;
    if (json_unpack(o,
                    "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:F, "
                    "s:i, s:I, s?s, s?s}",
                    "user", &user, "key", ret_key, "name", &name, "kind", &kind,
                    "priority", &priority, "gpus_min", &g0, "gpus_max", &g1,
                    "nodes_min", &n0, "nodes_max", &n1, "limit_s", &limit,
                    "grace_s", &grace_s, "retry_max", &retry_max,
                    "log_max_bytes", &log_max, "class", ret_class, "dir",
                    ret_dir) < 0)
        return -1;
    text_copy(ret->user, sizeof(ret->user), user);
    text_copy(ret->name, sizeof(ret->name), name);
    ret->kind = strcmp(kind, "command") == 0 ? "command" : "cv";
    ret->priority = priority;
    ret->gpus_min = g0;
    ret->gpus_max = g1;
    ret->nodes_min = n0;
    ret->nodes_max = n1;
    ret->limit_s =
        json_is_number(limit) ? json_number_value(limit) : (double)INFINITY;
    ret->grace_s = grace_s;
    ret->retry_max = retry_max;
    take_retry(o, ret);
    ret->warn_signal =
        (int32_t)json_integer_value(json_object_get(o, "warn_signal"));
    ret->warn_before_s = json_number_value(json_object_get(o, "warn_before_s"));
    take_stall(json_object_get(o, "stall"), ret);
    ret->notify_on =
        (uint32_t)json_integer_value(json_object_get(o, "notify_on"));
    ret->exclude_node = json_is_true(json_object_get(o, "exclude_node"));
    ret->is_preemptible = !json_is_false(json_object_get(o, "preemptible"));
    ret->saves = json_is_true(json_object_get(o, "saves"));
    ret->force_queue = json_is_true(json_object_get(o, "force_queue"));
    ret->per_node = (int32_t)json_integer_value(json_object_get(o, "per_node"));
    ret->begin_s = json_number_value(json_object_get(o, "begin_s"));
    ret->log_max_bytes = log_max;
    const char *digest = json_string_value(json_object_get(o, "digest"));
    text_copy(ret->digest, sizeof(ret->digest), digest ? digest : "");
    return 0;
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
    struct job job = *ret;
    struct texts own = {.spec = NULL};
    const char *key, *class, *dir;
    size_t len = 0;
    lack_forget();
    json_t *o = rest_of(text, known, &len);

    if (!o || take(o, &job, &key, &class, &dir) < 0 ||
        sweep_decode(json_object_get(o, "sweep"), &job, &own.vary) < 0 ||
        lack_was_there()) {
        json_decref(o);
        free(own.vary);
        return lack_refuse("a submit's detail is damaged", err);
    }
    const struct alloc_where where = where_decode(json_object_get(o, "where"));
    int rc = where_copy(&where, &job.where, &own.words, err);
    if (rc == 0)
        rc = depends_decode(json_object_get(o, "depends"), &job, &own.depends,
                            err);
    own.spec = strndup(text + SPEC_AT, len);
    own.key = strdup(key);
    own.class = class ? strdup(class) : NULL;
    own.dir = dir ? strdup(dir) : NULL;
    const char *rules = json_string_value(json_object_get(o, "rules"));
    own.rules = rules ? strdup(rules) : NULL;
    bool is_whole = own.spec && own.key && (!class || own.class) &&
                    (!dir || own.dir) && (!rules || own.rules);
    json_decref(o);
    if (rc < 0 || !is_whole) {
        texts_clear(&own);
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    }
    *ret = job;
    *ret_own = own;
    return 0;
}
