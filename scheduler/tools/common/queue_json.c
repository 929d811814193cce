/* queue_json.c - print a long queue as one JSON document with bounded memory;
 * see queue_json.h.
 */
#include "scheduler/tools/common/queue_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"

/* As client_print(). */
enum { FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(17) };
static const char end_of_all[] = "]}";

struct queue_json {
    char *head;        /* owned; text before the first job; NULL: no page yet */
    struct buf jobs;   /* jobs of the last page, in output form */
    FILE *file;        /* owned; jobs of the earlier pages; NULL: none */
    struct buf starts; /* long: offset of each page in the file */
    bool is_strange;
};

int queue_json_create(struct queue_json **ret, struct error *err)
{
    struct queue_json *q = calloc(1, sizeof(*q));
    if (!q)
        return error_set(err, ERR_NOMEM, "queue");
    *ret = q;
    return 0;
}

void queue_json_free(struct queue_json *q)
{
    if (!q)
        return;
    if (q->file)
        (void)fclose(q->file);
    free(q->head);
    buf_clear(&q->jobs);
    buf_clear(&q->starts);
    free(q);
}

/* If "jobs" is not the last member, the head is in an unknown format. */
static int take_head(struct queue_json *q, const char *head, size_t len,
                     struct error *err)
{
    struct buf text = BUF_INIT;
    if (buf_add(&text, head, len, err) < 0 ||
        buf_addstr(&text, end_of_all, err) < 0) {
        buf_clear(&text);
        return -1;
    }
    json_t *o = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    q->head = o ? json_dumps(o, FLAGS) : NULL;
    json_decref(o);
    buf_clear(&text);
    size_t n = q->head ? strlen(q->head) : 0;
    q->is_strange = n < 3 || strcmp(q->head + n - 3, "[]}") != 0;
    if (!q->is_strange)
        q->head[n - 2] = '\0';
    return 0;
}

static int put_away(struct queue_json *q, struct error *err)
{
    if (!q->file && !(q->file = tmpfile()))
        return error_sys(err, errno, "create a temporary file");
    long at = ftell(q->file);
    if (at < 0 || fwrite(q->jobs.data, 1, q->jobs.len, q->file) != q->jobs.len)
        return error_sys(err, errno, "write a temporary file");
    buf_reset(&q->jobs);
    return buf_add(&q->starts, &at, sizeof(at), err);
}

static int add_job(struct queue_json *q, json_t *job, struct error *err)
{
    char *text = json_dumps(job, FLAGS);
    int rc = text ? 0 : error_set(err, ERR_NOMEM, "queue");
    if (rc == 0 && q->jobs.len > 0)
        rc = buf_addstr(&q->jobs, ",", err);
    if (rc == 0)
        rc = buf_addstr(&q->jobs, text, err);
    free(text);
    return rc;
}

static int take_jobs(struct queue_json *q, const char *p, const char *end,
                     struct error *err)
{
    static const size_t flags = JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK;
    json_error_t bad;
    while (*p == '{') {
        json_t *job = json_loadb(p, (size_t)(end - p), flags, &bad);
        if (!job)
            break;
        int rc = add_job(q, job, err);
        json_decref(job);
        if (rc < 0)
            return -1;
        p += bad.position;
        if (p[0] != ',' || p[1] != '{')
            break;
        p++;
    }
    q->is_strange = end - p != 2 || memcmp(p, end_of_all, 2) != 0;
    return 0;
}

int queue_json_part(void *queue, const char *head, size_t head_len,
                    const char *jobs, size_t jobs_len, struct error *err)
{
    struct queue_json *q = queue;
    if (!q->head && !q->is_strange && take_head(q, head, head_len, err) < 0)
        return -1;
    if (q->is_strange || (q->jobs.len > 0 && put_away(q, err) < 0))
        return q->is_strange ? 0 : -1;
    return take_jobs(q, jobs, jobs + jobs_len, err);
}

/* Copies one range of the file. */
static int copy(FILE *from, long at, long end, FILE *out, struct error *err)
{
    char some[16384];
    if (fseek(from, at, SEEK_SET) < 0)
        return error_sys(err, errno, "read a temporary file");
    while (at < end) {
        size_t n =
            end - at < (long)sizeof(some) ? (size_t)(end - at) : sizeof(some);
        if (fread(some, 1, n, from) != n)
            return error_sys(err, errno, "read a temporary file");
        (void)fwrite(some, 1, n, out);
        at += (long)n;
    }
    return 0;
}

static int print_parts(const struct queue_json *q, FILE *out, struct error *err)
{
    long at, end = q->file ? ftell(q->file) : 0;
    bool is_first = q->jobs.len == 0;
    int rc = 0;
    for (size_t i = q->starts.len; rc == 0 && i > 0; end = at) {
        i -= sizeof(at);
        memcpy(&at, q->starts.data + i, sizeof(at));
        if (!is_first)
            (void)fputc(',', out);
        is_first = false;
        rc = copy(q->file, at, end, out, err);
    }
    return rc;
}

int queue_json_print(struct queue_json *q, FILE *out, bool *ret_is_shown,
                     struct error *err)
{
    *ret_is_shown = q->head && !q->is_strange;
    if (!*ret_is_shown)
        return 0;
    if (q->file && fflush(q->file) != 0)
        return error_sys(err, errno, "write a temporary file");
    (void)fputs(q->head, out);
    if (q->jobs.len > 0)
        (void)fwrite(q->jobs.data, 1, q->jobs.len, out);
    if (print_parts(q, out, err) < 0)
        return -1;
    (void)fprintf(out, "%s\n", end_of_all);
    return 0;
}
