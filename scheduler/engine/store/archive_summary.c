/* archive_summary.c - encode and decode the summary of an archived job; see
 * archive_summary.h.
 *
 * The summary is a JSON object that leaves out default values. All numbers are
 * read back exactly.
 */
#include "scheduler/engine/store/archive_summary.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "jobs/text/text.h"
#include "scheduler/engine/run.h"

enum kind { TEXT, INT32, INT64, REAL, STATE, KIND, YES };

#define FIELD_OF(kind, name, is_told)                             \
    {                                                             \
#name, sizeof(#name) - 1, offsetof(struct job, name),     \
            sizeof(((struct job *)NULL)->name), (kind), (is_told) \
    }
#define FIELD(kind, name) FIELD_OF(kind, name, false)
#define TOLD(kind, name) FIELD_OF(kind, name, true)
static const struct field {
    const char *name;
    size_t len, offset, cap;
    enum kind kind;
    bool is_told; /* a progress value: written only if the last event has it */
} fields[] = {
    FIELD(STATE, state),
    FIELD(INT64, uid),
    FIELD(TEXT, name),
    FIELD(TEXT, user),
    FIELD(KIND, kind),
    FIELD(TEXT, reason),
    FIELD(YES, reported),
    FIELD(TEXT, place),
    FIELD(INT32, priority),
    FIELD(INT32, gpus_min),
    FIELD(INT32, gpus_max),
    FIELD(INT32, gpus),
    FIELD(INT32, attempt),
    FIELD(INT32, exit_code),
    FIELD(INT64, sweep),
    FIELD(INT32, task),
    FIELD(INT32, number),
    FIELD(REAL, submit_s),
    FIELD(REAL, start_s),
    FIELD(REAL, end_s),
    /* of the last attempt */
    {"limit_s", sizeof("limit_s") - 1, offsetof(struct job, attempt_limit_s),
     sizeof(double), REAL, false},
    TOLD(INT64, iteration),
    TOLD(INT64, iterations_total),
    TOLD(INT32, epoch),
    TOLD(INT32, epochs_total),
    TOLD(REAL, loss),
    TOLD(REAL, t_iter),
    TOLD(REAL, eval_loss),
    TOLD(REAL, eval_accuracy),
    FIELD(INT64, parent),
    FIELD(TEXT, parent_name),
};
enum { N_FIELDS = sizeof(fields) / sizeof(fields[0]) };

/* Sets the values of a job about which nothing is known. */
static void set_blank(struct job *job)
{
    job->kind = spec_kind_word(SPEC_CV);
    job->limit_s = job->attempt_limit_s = INFINITY;
}

/* ---- writing --------------------------------------------------------------
 */
static int64_t int_at(const struct field *f, const void *at)
{
    int32_t n;
    int64_t wide;
    if (f->kind == INT32) {
        memcpy(&n, at, sizeof(n));
        return n;
    }
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

static int add_number(struct buf *b, const struct field *f, const void *at,
                      const void *blank)
{
    char text[40];
    double x;
    int len;
    if (f->kind == REAL) {
        memcpy(&x, at, sizeof(x));
        if (!isfinite(x))
            return 0;
        len = snprintf(text, sizeof(text), ",\"%s\":%.17g", f->name, x);
    } else {
        int64_t n = int_at(f, at);
        if (n == int_at(f, blank))
            return 0;
        len = snprintf(text, sizeof(text), ",\"%s\":%" PRId64, f->name, n);
    }
    return len > 0 && (size_t)len < sizeof(text)
               ? buf_add(b, text, (size_t)len, NULL)
               : -1;
}

static int add_text(struct buf *b, const struct field *f, const char *text)
{
    if (!text[0])
        return 0;
    return buf_addf(b, NULL, ",\"%s\":", f->name) < 0 ||
                   text_add_json(b, text, NULL) < 0
               ? -1
               : 0;
}

static int add_field(struct buf *b, const struct field *f,
                     const struct job *job, const struct job *blank)
{
    const char *at = (const char *)job + f->offset;
    switch (f->kind) {
    case TEXT:
        return add_text(b, f, at);
    case STATE:
        return add_text(b, f, job_state_name(job->state));
    case KIND:
        return add_text(b, f, strcmp(job->kind, blank->kind) ? job->kind : "");
    case YES:
        return job->reported ? buf_addf(b, NULL, ",\"%s\":true", f->name) : 0;
    case INT32:
    case INT64:
    case REAL:
        break;
    }
    return add_number(b, f, at, (const char *)blank + f->offset);
}

char *summary_encode(const struct job_record *rec)
{
    struct buf b = BUF_INIT;
    struct job_record blank;
    int rc = 0;
    job_record_init(&blank, rec->job.id);
    set_blank(&blank.job);
    for (size_t i = 0; rc == 0 && i < N_FIELDS; i++)
        if (rec->has_progress || !fields[i].is_told)
            rc = add_field(&b, &fields[i], &rec->job, &blank.job);
    if (rc == 0)
        rc = buf_addstr(&b, "}", NULL);
    if (rc == 0)
        b.data[0] = '{'; /* replaces the first comma */
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    return text;
}

/* ---- reading --------------------------------------------------------------
 */
static int take_text(const struct field *f, const struct member *m, char *at)
{
    if (m->len >= f->cap)
        return -1;
    memcpy(at, m->text, m->len);
    at[m->len] = '\0';
    return 0;
}

static int take_kind(const struct member *m, struct job *job)
{
    enum spec_kind kind;
    job->is_run = m->len == strlen(job_kind_run) &&
                  memcmp(m->text, job_kind_run, m->len) == 0;
    if (job->is_run)
        job->kind = job_kind_run;
    else if (spec_kind_of(m->text, m->len, &kind))
        job->kind = spec_kind_word(kind);
    else
        return -1;
    return 0;
}

static int take_number(const struct field *f, const struct member *m, char *at)
{
    int32_t n = (int32_t)m->n;
    if (f->kind == REAL && (m->kind == MEMBER_REAL || m->kind == MEMBER_INT))
        memcpy(at, &m->x, sizeof(m->x));
    else if (f->kind == INT64 && m->kind == MEMBER_INT)
        memcpy(at, &m->n, sizeof(m->n));
    else if (f->kind == INT32 && m->kind == MEMBER_INT && n == m->n)
        memcpy(at, &n, sizeof(n));
    else
        return -1;
    return 0;
}

static int take_field(const struct field *f, const struct member *m,
                      struct job *job)
{
    char *at = (char *)job + f->offset;
    bool is_text = m->kind == MEMBER_TEXT;
    switch (f->kind) {
    case TEXT:
        return is_text ? take_text(f, m, at) : -1;
    case STATE:
        return is_text ? job_state_from_text(m->text, m->len, &job->state) : -1;
    case KIND:
        return is_text ? take_kind(m, job) : -1;
    case YES:
        job->reported = true;
        return m->kind == MEMBER_TRUE ? 0 : -1;
    case INT32:
    case INT64:
    case REAL:
        break;
    }
    return take_number(f, m, at);
}

/* The members are in the order in which they were written, so each is found at
 * once. -1: they are not, or one is unknown. */
static int take_in_order(const struct members *m, struct job *job)
{
    size_t at = 0;
    for (size_t i = 0; i < N_FIELDS && at < m->n; i++) {
        const struct field *f = &fields[i];
        if (m->at[at].len != f->len ||
            memcmp(m->at[at].key, f->name, f->len) != 0)
            continue;
        if (take_field(f, &m->at[at++].value, job) < 0)
            return -1;
    }
    return at == m->n ? 0 : -1;
}

static int take_by_name(const struct members *m, struct job *job)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        const struct member v = members_get(m, fields[i].name);
        if (v.kind != MEMBER_NONE && take_field(&fields[i], &v, job) < 0)
            return -1;
    }
    return 0;
}

int summary_decode(uint64_t id, const char *text, struct job_record **io)
{
    struct members m;
    struct job_record *rec = *io;
    int rc = -1;
    if (rec)
        job_record_clear(rec);
    else
        rec = *io = malloc(sizeof(*rec));
    if (!rec)
        return -1;
    job_record_init(rec, id);
    set_blank(&rec->job);
    if (json_members_read(text, &m) == 0) {
        bool is_ours = !m.o && take_in_order(&m, &rec->job) == 0;
        rc = is_ours ? 0 : take_by_name(&m, &rec->job);
        json_members_clear(&m);
        rec->job.limit_s = rec->job.attempt_limit_s;
    }
    if (rc == 0 && job_state_is_final(rec->job.state))
        return 0;
    job_record_free(rec);
    *io = NULL;
    return -1;
}
