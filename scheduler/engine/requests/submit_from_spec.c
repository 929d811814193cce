/* submit_from_spec.c - derive the engine's fields of a job from its spec.
 *
 * The parser is the one that the client used, and the engine stores the spec as
 * that parser prints it. So whatever a client sends, the event log holds
 * canonical JSON.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec/gpu_sizes.h"
#include "jobs/text/timestamp.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/table/program_class.h"

/* The begin time; it was checked by the parser. */
static double begin_of(const struct job_spec *s)
{
    struct when at;
    if (!s->policy.begin ||
        timestamp_parse(s->policy.begin, &at, NULL, NULL) < 0)
        return 0;
    return at.is_after ? -at.s : at.s;
}

static void take(const struct job_spec *s, const struct engine_conf *conf,
                 struct job *ret)
{
    text_copy(ret->name, sizeof(ret->name), s->name);
    ret->kind = spec_kind_word(s->kind);
    ret->priority = s->policy.priority;
    ret->gpus_min = s->resources.gpus.min;
    ret->gpus_max = s->resources.gpus.max;
    ret->per_node = s->resources.gpus_per_node;
    ret->parts = gpu_sizes_parts(s);
    ret->nodes_min = s->resources.nodes.min;
    ret->nodes_max = s->resources.nodes.max;
    ret->limit_s = ret->attempt_limit_s = s->resources.time_limit_s;
    ret->begin_s = begin_of(s);
    ret->grace_s =
        s->checkpoint.grace_s > 0 ? s->checkpoint.grace_s : conf->kill_grace_s;
    ret->warn_signal = spec_warning(s, &ret->warn_before_s);
    ret->retry_max = s->retry.max;
    ret->retry_on = 0;
    for (size_t i = 0; i < s->retry.on.n; i++)
        ret->retry_on |= spec_retry(s->retry.on.items[i]);
    ret->stall_factor = s->watchdog.stall_factor;
    ret->stall_min_s = s->watchdog.stall_min_s;
    ret->stall_ends = spec_stall_ends(s);
    ret->notify_on = 0;
    if (s->notify.to)
        for (size_t i = 0; i < s->notify.on.n; i++)
            ret->notify_on |= spec_notify(s->notify.on.items[i]);
    ret->backoff_s = s->retry.backoff_s;
    ret->backoff_max_s = s->retry.backoff_max_s;
    ret->exclude_node = s->retry.exclude_node;
    ret->is_preemptible = s->policy.preemptible;
    ret->goal = (uint8_t)s->policy.goal;
    ret->min_efficiency = s->policy.min_efficiency;
    ret->saves = spec_saves(s);
    ret->force_queue = s->policy.force_queue;
}

/* The retry rules, one per line; NULL: none. */
static int take_rules(const struct job_spec *s, struct job *ret,
                      struct texts *own, struct error *err)
{
    const struct spec_list *l = &s->retry.rules;
    struct buf b = BUF_INIT;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < l->n; i++)
        rc = buf_addf(&b, err, "%s%s", i > 0 ? "\n" : "", l->items[i]);
    if (rc == 0 && l->n > 0 && !(own->rules = buf_detach(&b)))
        rc = error_set(err, ERR_NOMEM, "out of memory");
    buf_clear(&b);
    ret->rules = own->rules;
    return rc;
}

static struct alloc_where where_of(const struct job_spec *s)
{
    return (struct alloc_where){
        .partition = s->resources.partition,
        .account = s->policy.account,
        .qos = s->policy.qos,
        .constraint = s->resources.constraint,
        .reservation = s->resources.reservation,
        .gpu_type = s->resources.gpu_type,
        .cpus_per_gpu = s->resources.cpus_per_gpu,
        .memory_bytes = s->resources.memory_bytes,
        .gpu_min_bytes = s->resources.gpu_memory.min,
        .gpu_max_bytes = s->resources.gpu_memory.max,
        .exclusive = s->resources.exclusive,
    };
}

static int take_depends(const struct job_spec *s, struct job *ret,
                        struct texts *own, struct error *err)
{
    struct depend found[DEPEND_MAX];
    size_t n = 0;

    for (size_t i = 0; i < s->depends_on.n; i++) {
        if (depend_parse(s->depends_on.items[i], found, &n, err) < 0)
            return -1;
    }
    if (n > 0 && !(own->depends = malloc(n * sizeof(*found))))
        return error_set(err, ERR_NOMEM, "out of memory");
    if (n > 0)
        memcpy(own->depends, found, n * sizeof(*found));
    ret->depends = own->depends;
    ret->n_depends = n;
    return 0;
}

/* NULL: the job goes on from none. */
static int take_from(const struct job_spec *s, struct job *ret,
                     struct texts *own, struct error *err)
{
    const char *from = s->train.resume_from;

    if (from && s->kind != SPEC_COMMAND && !(own->from = strdup(from)))
        return error_set(err, ERR_NOMEM, "out of memory");
    ret->from = own->from;
    return 0;
}

static int dump(const struct job_spec *s, char **ret, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = spec_dump(s, &b, err);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (!text)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n')
        text[--len] = '\0';
    *ret = text;
    return 0;
}

/* Returns the first error, which is what fits a reply; the client prints all of
 * them. */
static int refuse(const struct spec_report *r, struct error *err)
{
    size_t i = 0;
    while (i < r->n && !r->findings[i].is_error)
        i++;
    if (i == r->n)
        return -1; /* err comes from spec_parse() */
    const struct spec_finding *f = &r->findings[i];
    bool names_it = f->path[0] == '\0' || strstr(f->message, f->path);
    return error_set(err, ERR_INVAL, "%s%s%s%s", names_it ? "" : f->path,
                     names_it ? "" : ": ", f->message,
                     r->n_errors > 1 ? " (and more)" : "");
}

int eng_from_spec(const char *spec, const struct engine_conf *conf,
                  struct job *ret, struct texts *ret_own, struct error *err)
{
    struct spec_options opt = {.draw_seed = true, .is_stored = true};
    struct spec_report report = {0};
    struct job_spec s = {0};
    struct texts own = {.spec = NULL};

    int rc = spec_parse(spec, strlen(spec), &opt, &s, &report, err);
    if (rc < 0 && report.n_errors > 0)
        (void)refuse(&report, err);
    diagnostics_clear(&report);
    if (rc < 0)
        return -1;
    const struct alloc_where theirs = where_of(&s);
    struct alloc_where where;
    rc = dump(&s, &own.spec, err);
    if (rc == 0)
        rc = eng_class(&s, &own.class, err);
    if (rc == 0)
        rc = program_class(&s, &own.program, err);
    if (rc == 0)
        rc = where_copy(&theirs, &where, &own.words, err);
    if (rc == 0)
        rc = take_depends(&s, ret, &own, err);
    if (rc == 0)
        rc = take_rules(&s, ret, &own, err);
    if (rc == 0)
        rc = take_from(&s, ret, &own, err);
    if (rc == 0) {
        take(&s, conf, ret);
        ret->where = where;
        *ret_own = own;
    } else {
        texts_clear(&own);
    }
    spec_clear(&s);
    return rc;
}
