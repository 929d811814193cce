/* job_pages.c - request a long list of jobs in pages, one page ahead; see
 * job_pages.h.
 */
#include "scheduler/tools/common/job_pages.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/wire/json_scan.h"

/* A page that was requested, or has arrived. */
struct part {
    pthread_t thread;
    bool is_out; /* the thread must be joined */
    struct client *client;
    char *path; /* owned */
    unsigned long long limit;
    struct buf text;
    int rc;
    struct error err;
};

static void *fetch(void *arg)
{
    struct part *p = arg;
    p->rc = client_get_text(p->client, p->path, &p->text, &p->err);
    return NULL;
}

static void part_clear(struct part *p)
{
    if (p->is_out)
        (void)pthread_join(p->thread, NULL);
    p->is_out = false;
    free(p->path);
    p->path = NULL;
    buf_clear(&p->text);
}

/* If no thread can be started, requests the page at once.
 * in  last  0: of all jobs */
static int part_ask(const struct pages_conf *conf, unsigned long long limit,
                    int64_t last, struct part *p, struct error *err)
{
    struct buf path = BUF_INIT;
    int rc = buf_addf(&path, err, "/v1/jobs?limit=%llu%s", limit, conf->query);
    if (rc == 0 && last > 0)
        rc = buf_addf(&path, err, "&id_max=%" PRId64, last);
    if (rc < 0) {
        buf_clear(&path);
        return -1;
    }
    *p = (struct part){.client = conf->client,
                       .path = buf_detach(&path), /* wait for the reply here */
                       .limit = limit,
                       .text = BUF_INIT,
                       .err = ERROR_INIT};
    p->is_out = last > 0 && pthread_create(&p->thread, NULL, fetch, p) == 0;
    if (!p->is_out)
        (void)fetch(p);
    return 0;
}

static int part_wait(struct part *p, struct error *err)
{
    if (p->is_out)
        (void)pthread_join(p->thread, NULL);
    p->is_out = false;
    return p->rc < 0 ? error_set(err, p->err.code, "%s", p->err.msg) : 0;
}

/* ---- what a part has ------------------------------------------------------
 */
struct bounds {
    const char *head, *jobs, *end;
    const char *from;     /* the first job of this page */
    int64_t last;         /* the job before it; 0: there are no more */
    unsigned long long n; /* number of jobs */
};

/* Counts the jobs by a marker with an unescaped quote, which no string
 * contains. There are few braces besides those of jobs, and a NUL ends the
 * text. */
static unsigned long long count(const char *p, const char *end)
{
    static const char mark[] = "},{\"";
    unsigned long long n = *p == '{';
    while ((p = memchr(p, '}', (size_t)(end - p)))) {
        n += strncmp(p, mark, sizeof(mark) - 1) == 0;
        p++;
    }
    return n;
}

static int64_t int_of(const struct members *m, const char *name)
{
    const struct member v = members_get(m, name);
    return v.kind == MEMBER_INT ? v.n : 0;
}

/* More jobs may follow: the page begins after the tasks of a sweep whose
 * beginning is not in it. -1: unexpected text. */
static int begin_whole(struct bounds *b)
{
    struct members m;
    const char *next = b->jobs;
    int64_t torn = 0;
    bool is_first = true;
    for (;; is_first = false) {
        b->from = next;
        if (*next != '{' || json_members_read_next(next, b->end, &m, &next) < 0)
            return -1;
        int64_t id = int_of(&m, "id"), sweep = int_of(&m, "sweep");
        json_members_clear(&m);
        if (id < 1)
            return -1;
        b->last = id - 1;
        if (is_first && sweep > 0 && sweep < id)
            torn = sweep;
        if (torn == 0 || sweep != torn)
            return 0;
        if (*next++ != ',')
            return -1;
    }
}

static int find_bounds(const struct part *p, struct bounds *ret)
{
    static const char key[] = "\"jobs\":[";
    const char *text = buf_str(&p->text);
    const char *at = memmem(text, p->text.len, key, sizeof(key) - 1);
    *ret = (struct bounds){.head = text, .end = text + p->text.len};
    if (!at)
        return -1;
    ret->jobs = ret->from = at + sizeof(key) - 1;
    ret->n = count(ret->jobs, ret->end);
    return 0;
}

static int go_on(const struct pages_conf *conf, struct part *now,
                 struct part *ahead, bool *ret_is_strange, struct error *err)
{
    unsigned long long left = conf->most;
    for (;;) {
        struct bounds b;
        if (part_wait(now, err) < 0)
            return -1;
        *ret_is_strange = find_bounds(now, &b) < 0;
        bool has_more = b.n >= now->limit && left > now->limit;
        if (!*ret_is_strange && has_more)
            *ret_is_strange = begin_whole(&b) < 0;
        if (*ret_is_strange)
            return 0;
        has_more = has_more && b.last > 0;
        if (has_more) {
            unsigned long long n = b.from > b.jobs ? count(b.from, b.end) : b.n;
            left -= n < left ? n : left - 1;
            if (part_ask(conf, left < conf->part ? left : conf->part, b.last,
                         ahead, err) < 0)
                return -1;
        }
        if (conf->page(conf->arg, b.head, (size_t)(b.jobs - b.head), b.from,
                       (size_t)(b.end - b.from), err) < 0)
            return -1;
        part_clear(now);
        if (!has_more)
            return 0;
        struct part *was = now;
        now = ahead;
        ahead = was;
    }
}

int pages_each(const struct pages_conf *conf, bool *ret_is_strange,
               struct error *err)
{
    struct part parts[2] = {{.text = BUF_INIT}, {.text = BUF_INIT}};
    unsigned long long n = conf->most < conf->part ? conf->most : conf->part;
    *ret_is_strange = false;
    int rc = part_ask(conf, n, 0, &parts[0], err);
    if (rc == 0)
        rc = go_on(conf, &parts[0], &parts[1], ret_is_strange, err);
    part_clear(&parts[0]);
    part_clear(&parts[1]);
    return rc;
}
