/* dependency.c - parse, print and evaluate dependencies; see dependency.h. */
#include "jobs/spec/dependency.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "jobs/text/parent_ref.h"

static const char *const kinds[DEPEND_N] = {
    [DEPEND_OK] = "afterok",
    [DEPEND_NOT_OK] = "afternotok",
    [DEPEND_ANY] = "afterany",
    [DEPEND_BEGUN] = "after",
};

/* The word before the first ':'; only a number means afterok. */
static int parse_kind(const char **io_at, enum depend_kind *ret)
{
    const char *at = *io_at;
    if (*at >= '0' && *at <= '9') {
        *ret = DEPEND_OK;
        return 0;
    }
    for (int k = 0; k < DEPEND_N; k++) {
        size_t len = strlen(kinds[k]);
        if (strncmp(at, kinds[k], len) == 0 && at[len] == ':') {
            *ret = (enum depend_kind)k;
            *io_at = at + len + 1;
            return 0;
        }
    }
    return -1;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "12" or "12_3", up to the next ':' or the end. */
static int parse_id(const char **io_at, struct depend *ret)
{
    char *end = NULL;
    errno = 0;
    unsigned long long id = strtoull(*io_at, &end, 10);
    unsigned long task = 0;
    if (!is_digit(**io_at) || errno || id < 1 || id > INT64_MAX)
        return -1;
    bool is_task = *end == '_' && is_digit(end[1]);
    if (is_task)
        task = strtoul(end + 1, &end, 10);
    if (task >= SPEC_TASKS_MAX || (*end && *end != ':') ||
        (*end == ':' && end[1] == '\0'))
        return -1;
    *io_at = *end ? end + 1 : end;
    ret->job = id;
    ret->task = is_task ? (int32_t)task : -1;
    return 0;
}

int depend_parse(const char *text, struct depend io[DEPEND_MAX], size_t *io_n,
                 struct error *err)
{
    struct depend d = {.job = 0};
    const char *at = text;
    size_t n = *io_n;

    if (parse_kind(&at, &d.kind) < 0)
        return error_set(err, ERR_INVAL,
                         "'%.60s': expected afterok:JOB, afternotok:JOB, "
                         "afterany:JOB or after:JOB",
                         text);
    do {
        if (parse_id(&at, &d) < 0)
            return error_set(err, ERR_INVAL,
                             "'%.60s': expected the numbers of jobs, as in "
                             "%s:12 or %s:12:13_4",
                             text, kinds[d.kind], kinds[d.kind]);
        if (n == DEPEND_MAX)
            return error_set(err, ERR_INVAL,
                             "a job can wait for at most %d others",
                             (int)DEPEND_MAX);
        io[n++] = d;
    } while (*at);
    *io_n = n;
    return 0;
}

const char *depend_show(const struct depend *d, char ret[DEPEND_TEXT_CAP])
{
    char task[16] = "";
    if (d->task >= 0)
        (void)snprintf(task, sizeof(task), "_%" PRId32, d->task);
    (void)snprintf(ret, DEPEND_TEXT_CAP, "%s:%" PRIu64 "%s", kinds[d->kind],
                   d->job, task);
    return ret;
}

/* Whether the job or its whole sweep must have ended first. */
static bool is_awaited(const struct depend_parent *p,
                       const struct depend *depends, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct depend *d = &depends[i];
        const bool is_it = d->task < 0
                               ? d->job == p->id || d->job == p->sweep
                               : d->job == p->sweep && d->task == p->number;
        if (is_it && d->kind != DEPEND_BEGUN)
            return true;
    }
    return false;
}

int depend_check_parent(const char *named, const struct depend_parent *p,
                        const char *kind, const struct depend *depends,
                        size_t n, struct error *err)
{
    struct parent_ref ref;
    char job[40];

    if (parent_ref_parse(named, &ref) != PARENT_JOB)
        return error_set(err, ERR_INVAL, "'%.60s' is no job", named);
    (void)snprintf(job, sizeof(job), "%.*s", (int)strcspn(named, ":"), named);
    if (p == NULL)
        return error_set(err, ERR_INVAL, "you have no job %s", job);
    if (ref.task < 0 && p->sweep == p->id && p->n_tasks > 1)
        return error_set(err, ERR_INVAL,
                         "%s is a sweep of %" PRId32
                         " jobs: name one of them, such as %s_%" PRId32,
                         job, p->n_tasks, job, p->number);
    if (strcmp(p->kind, kind) != 0)
        return error_set(err, ERR_INVAL, "job %s is of kind %s, not %s", job,
                         p->kind, kind);
    if (!job_state_is_final(p->state) && !is_awaited(p, depends, n))
        return error_set(err, ERR_INVAL,
                         "job %s has not ended, it is %s: name it in "
                         "depends_on, too, and this job waits for it",
                         job, job_state_name(p->state));
    return 0;
}

enum depend_fate depend_fate(enum depend_kind kind, enum job_state state,
                             bool has_begun)
{
    bool is_ok = state == JOB_COMPLETED;
    if (!job_state_is_final(state))
        return kind == DEPEND_BEGUN && has_begun ? DEPEND_MET : DEPEND_WAITS;
    if (kind == DEPEND_ANY || kind == DEPEND_BEGUN)
        return DEPEND_MET;
    return is_ok == (kind == DEPEND_OK) ? DEPEND_MET : DEPEND_NEVER;
}
