/* known_jobs.c - two lists, scanned and recent jobs, behind one lock; see
 * known_jobs.h. */
#include "slurm/helper/known_jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct recent {
    char tag[HELPER_TAG_CAP];
    uid_t uid;
    uint32_t slurm_id; /* 0: being submitted */
    uint64_t since;    /* number of the last scan that had begun */
};

struct seen {
    pthread_mutex_t lock;
    struct helper_job *jobs; /* of the last scan, sorted by slurm_id */
    size_t n;
    struct buf recent; /* struct recent[] */
    uint64_t n_begun;
};

int known_jobs_create(struct seen **ret, struct error *err)
{
    struct seen *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(err, ERR_NOMEM, "the list of jobs");
    (void)pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

void known_jobs_destroy(struct seen *s)
{
    if (s == NULL)
        return;
    (void)pthread_mutex_destroy(&s->lock);
    free(s->jobs);
    buf_clear(&s->recent);
    free(s);
}

static struct recent *recents(const struct seen *s, size_t *ret_n)
{
    *ret_n = s->recent.len / sizeof(struct recent);
    return (struct recent *)(void *)s->recent.data;
}

static struct recent *find_recent(const struct seen *s, const char *tag,
                                  uid_t uid)
{
    size_t n;
    struct recent *r = recents(s, &n);
    for (size_t i = 0; i < n; i++)
        if (r[i].uid == uid && strcmp(r[i].tag, tag) == 0)
            return &r[i];
    return NULL;
}

static int add_recent(struct seen *s, const char *tag, uid_t uid)
{
    struct recent r = {.uid = uid};
    memcpy(r.tag, tag, strlen(tag) + 1); /* its length was checked */
    return buf_add(&s->recent, &r, sizeof(r), NULL);
}

static int ask(struct seen *s, const char *tag, uid_t uid,
               enum seen_answer *ret, uint32_t *ret_id)
{
    const struct recent *r = find_recent(s, tag, uid);
    if (r != NULL) {
        *ret = r->slurm_id ? SEEN_BEFORE : SEEN_NOW;
        *ret_id = r->slurm_id;
        return 0;
    }
    /* If there are several, the latest: the daemon requested that one last. */
    for (size_t i = s->n; i-- > 0;)
        if (s->jobs[i].uid == uid && strcmp(s->jobs[i].tag, tag) == 0) {
            *ret = SEEN_BEFORE;
            *ret_id = s->jobs[i].slurm_id;
            return 0;
        }
    *ret = SEEN_NEVER;
    return add_recent(s, tag, uid);
}

int known_jobs_ask(struct seen *s, const char *tag, uid_t uid,
                   enum seen_answer *ret, uint32_t *ret_id, struct error *err)
{
    if (strlen(tag) >= HELPER_TAG_CAP)
        return error_set(err, ERR_INVAL, "the tag is too long");
    (void)pthread_mutex_lock(&s->lock);
    int rc = ask(s, tag, uid, ret, ret_id);
    (void)pthread_mutex_unlock(&s->lock);
    return rc < 0 ? error_set(err, ERR_NOMEM, "out of memory") : 0;
}

void known_jobs_done(struct seen *s, const char *tag, uid_t uid,
                     uint32_t slurm_id)
{
    (void)pthread_mutex_lock(&s->lock);
    struct recent *r = find_recent(s, tag, uid);
    if (r != NULL && slurm_id == 0) {
        size_t n;
        const struct recent *all = recents(s, &n);
        *r = all[n - 1];
        s->recent.len -= sizeof(*r);
    } else if (r != NULL) {
        r->slurm_id = slurm_id;
        r->since = s->n_begun;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

uint64_t known_jobs_scan_begin(struct seen *s)
{
    (void)pthread_mutex_lock(&s->lock);
    uint64_t when = ++s->n_begun;
    (void)pthread_mutex_unlock(&s->lock);
    return when;
}

static int by_id(const void *a, const void *b)
{
    const struct helper_job *x = a;
    const struct helper_job *y = b;
    return (x->slurm_id > y->slurm_id) - (x->slurm_id < y->slurm_id);
}

static bool is_same(const struct helper_job *a, const struct helper_job *b)
{
    return strcmp(a->tag, b->tag) == 0 && a->uid == b->uid &&
           strcmp(a->state, b->state) == 0 &&
           strcmp(a->reason, b->reason) == 0 &&
           strcmp(a->place, b->place) == 0 && a->exit_code == b->exit_code &&
           a->signal == b->signal && a->restarts == b->restarts &&
           a->submitted == b->submitted && a->ended == b->ended &&
           a->limit_min == b->limit_min && a->expected == b->expected &&
           a->nice == b->nice;
}

static int tell(enum helper_ev ev, const struct helper_job *j, uint64_t seq,
                struct buf *news)
{
    struct helper_news n = {.ev = ev, .seq = seq};
    if (j != NULL)
        n.job = *j;
    return helper_news_encode(&n, news, NULL);
}

/* Both lists are sorted. If an id was given to another job, the old job is gone
 * and the new one is new. */
static int tell_changes(const struct helper_job *old, size_t n_old,
                        const struct helper_job *now, size_t n_now,
                        struct buf *news)
{
    size_t i = 0;
    size_t k = 0;
    int rc = 0;
    while (rc == 0 && (i < n_old || k < n_now)) {
        int order = i == n_old ? 1 : k == n_now ? -1 : by_id(&old[i], &now[k]);
        bool is_other = order == 0 && (strcmp(old[i].tag, now[k].tag) != 0 ||
                                       old[i].uid != now[k].uid);
        if (order < 0 || is_other)
            rc = tell(HELPER_GONE, &old[i], 0, news);
        if (rc == 0 && order >= 0 && (order > 0 || !is_same(&old[i], &now[k])))
            rc = tell(HELPER_JOB, &now[k], 0, news);
        i += order <= 0;
        k += order >= 0;
    }
    return rc;
}

/* From here on the scan decides. */
static void forget_recent(struct seen *s, uint64_t when)
{
    size_t n;
    size_t kept = 0;
    struct recent *r = recents(s, &n);
    for (size_t i = 0; i < n; i++)
        if (r[i].slurm_id == 0 || r[i].since >= when)
            r[kept++] = r[i];
    s->recent.len = kept * sizeof(*r);
}

int known_jobs_scan_end(struct seen *s, uint64_t when,
                        const struct helper_job *jobs, size_t n,
                        struct buf *news, struct error *err)
{
    size_t before = news->len;
    struct helper_job *copy = malloc((n ? n : 1) * sizeof(*copy));
    if (copy == NULL)
        return error_set(err, ERR_NOMEM, "%zu jobs", n);
    if (n > 0) {
        memcpy(copy, jobs, n * sizeof(*copy));
        qsort(copy, n, sizeof(*copy), by_id);
    }
    /* Only the poller writes the list, so it may read it without the lock. */
    if (tell_changes(s->jobs, s->n, copy, n, news) < 0 ||
        tell(HELPER_SCAN, NULL, when, news) < 0) {
        news->len = before;
        free(copy);
        return error_set(err, ERR_NOMEM, "the news of %zu jobs", n);
    }
    (void)pthread_mutex_lock(&s->lock);
    struct helper_job *old = s->jobs;
    s->jobs = copy;
    s->n = n;
    forget_recent(s, when);
    (void)pthread_mutex_unlock(&s->lock);
    free(old);
    return 0;
}
