/* cluster_table_slurm.c - the table of attempts, and the notes that are due for
 * each.
 *
 * An attempt is found by job and number, or by its tag, "mgpu:CLUSTER:41:1".
 * The attempts with notes are in a list, the oldest note first. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/cluster/cluster.h"

static const char *number(const char *p, uint64_t max, uint64_t *ret)
{
    uint64_t n = 0;
    if (*p < '1' || *p > '9')
        return NULL;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (n > (max - digit) / 10)
            return NULL;
        n = n * 10 + digit;
    }
    *ret = n;
    return *p == ':' ? p + 1 : NULL;
}

bool cluster_tag_parse(const char *cluster, const char *tag, uint64_t *ret_job,
                       int32_t *ret_attempt)
{
    size_t len = strlen(cluster);
    uint64_t job;
    uint64_t attempt;
    if (strlen(tag) >= HELPER_TAG_CAP || strncmp(tag, "mgpu:", 5) != 0 ||
        strncmp(tag + 5, cluster, len) != 0 || tag[5 + len] != ':')
        return false;
    const char *p = number(tag + 5 + len + 1, UINT64_MAX, &job);
    p = p ? number(p, INT32_MAX, &attempt) : NULL;
    if (!p || !*p || strchr(p, ':'))
        return false;
    *ret_job = job;
    *ret_attempt = (int32_t)attempt;
    return true;
}

struct cluster_attempt *cluster_find(const struct cluster *c, uint64_t job,
                                     int32_t attempt)
{
    struct cluster_attempt *a = c->by_key[cluster_bucket(job, attempt)];
    while (a && (a->req.job != job || a->req.attempt != attempt))
        a = a->by_key;
    return a;
}

struct cluster_attempt *cluster_find_tag(const struct cluster *c,
                                         const char *tag)
{
    uint64_t job;
    int32_t attempt;
    if (!cluster_tag_parse(c->name, tag, &job, &attempt))
        return NULL;
    struct cluster_attempt *a = cluster_find(c, job, attempt);
    return a && strcmp(a->tag, tag) == 0 ? a : NULL;
}

static const char *copy(char **at, const char *s)
{
    if (!s)
        return NULL;
    size_t size = strlen(s) + 1;
    char *p = memcpy(*at, s, size);
    *at += size;
    return p;
}

/* Copies all strings of the request into one block. */
static int copy_strings(struct cluster_attempt *a, struct error *err)
{
    struct alloc_req *q = &a->req;
    const char **all[] = {&q->tag,
                          &q->name,
                          &q->dir,
                          &q->launch,
                          &q->where.partition,
                          &q->where.account,
                          &q->where.qos,
                          &q->where.constraint,
                          &q->where.reservation,
                          &q->where.gpu_type,
                          &q->where.exclude};
    size_t size = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        size += *all[i] ? strlen(*all[i]) + 1 : 0;
    char *at = a->strings = malloc(size + 1);
    if (!at)
        return error_set(err, ERR_NOMEM, "attempt");
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        *all[i] = copy(&at, *all[i]);
    q->worker = q->native_id = NULL;
    return 0;
}

int cluster_new(struct cluster *c, const struct alloc_req *req,
                struct cluster_attempt **ret, struct error *err)
{
    struct cluster_attempt *a = calloc(1, sizeof(*a));
    if (!a)
        return error_set(err, ERR_NOMEM, "attempt");
    a->req = *req;
    (void)snprintf(a->tag, sizeof(a->tag), "%s", req->tag);
    a->is_claimed = req->is_claimed;
    a->must_not_start = req->ask == ALLOC_FIND;
    a->phase = req->ask == ALLOC_NEW ? CLUSTER_TO_SUBMIT : CLUSTER_UNSURE;
    a->may_have_run = req->ask != ALLOC_NEW;
    a->slurm_id = req->native_id ? cluster_id(req->native_id) : 0;
    a->has_run = a->slurm_id > 0; /* an id is known only after a grant */
    a->absent_s = a->completing_s = NAN;
    a->retry_s = a->act_s = a->stray_s = -INFINITY;
    if (copy_strings(a, err) < 0) {
        free(a);
        return -1;
    }
    struct cluster_attempt **key =
        &c->by_key[cluster_bucket(req->job, req->attempt)];
    a->by_key = *key;
    *key = a;
    a->prev = c->last;
    if (c->last)
        c->last->next = a;
    else
        c->first = a;
    c->last = a;
    *ret = a;
    return 0;
}

void cluster_drop(struct cluster *c, struct cluster_attempt *a)
{
    assert(a->unsaid == 0);
    cluster_done(c, a);
    struct cluster_attempt **p =
        &c->by_key[cluster_bucket(a->req.job, a->req.attempt)];
    while (*p != a)
        p = &(*p)->by_key;
    *p = a->by_key;
    if (a->prev)
        a->prev->next = a->next;
    else
        c->first = a->next;
    if (a->next)
        a->next->prev = a->prev;
    else
        c->last = a->prev;
    c->n_ended -= a->phase == CLUSTER_ENDED;
    free(a->strings);
    free(a);
}

uint32_t cluster_id(const char *native_id)
{
    uint64_t id = 0;
    for (const char *p = native_id; *p; p++) {
        if (*p < '0' || *p > '9')
            return 0;
        id = id * 10 + (uint64_t)(*p - '0');
        if (id > UINT32_MAX)
            return 0;
    }
    return (uint32_t)id;
}

void cluster_say(struct cluster *c, struct cluster_attempt *a, unsigned what)
{
    if (a->unsaid == 0) {
        a->next_unsaid = NULL;
        if (c->last_unsaid)
            c->last_unsaid->next_unsaid = a;
        else
            c->unsaid = a;
        c->last_unsaid = a;
    }
    a->unsaid |= what;
}

void cluster_wait(struct cluster *c, struct cluster_attempt *a,
                  enum err_code code, const char *fmt, ...)
{
    char text[sizeof(a->why.msg)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (a->why.code == code && strcmp(a->why.msg, text) == 0)
        return;
    (void)error_set(&a->why, code, "%s", text);
    cluster_say(c, a, CLUSTER_SAY_WAITING);
}
