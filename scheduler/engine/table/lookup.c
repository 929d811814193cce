/* lookup.c - find a job or sweep, and check whose it is.
 *
 * Reads the tables that job_table.c keeps: the pages of ids and the buckets of
 * idempotency keys. A job that left memory is looked up in the archive of the
 * store.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/store/archive.h"
#include "scheduler/engine/store/archive_list.h"

static struct page *page_of(const struct engine *e, uint64_t id)
{
    size_t at = (size_t)((id - 1) / PAGE_IDS);
    return id >= 1 && at < e->n_pages ? e->pages[at] : NULL;
}

struct job_record *eng_find(const struct engine *e, uint64_t id)
{
    const struct page *p = page_of(e, id);
    return p ? p->jobs[(id - 1) % PAGE_IDS] : NULL;
}

struct job_record *eng_next(const struct engine *e, uint64_t after,
                            double since_s)
{
    uint64_t i = after; /* the id, less one */

    while (i / PAGE_IDS < e->n_pages) {
        const struct page *p = e->pages[i / PAGE_IDS];
        if (!p) {
            i = (i / PAGE_IDS + 1) * PAGE_IDS;
            continue;
        }
        for (size_t at = (size_t)(i % PAGE_IDS); at < PAGE_IDS; at++)
            if (p->ended_s[at] >= since_s && p->jobs[at])
                return p->jobs[at];
        i = (i / PAGE_IDS + 1) * PAGE_IDS;
    }
    return NULL;
}

/* FNV-1a, 64 bits, over the uid's and the key's bytes. */
static uint64_t hash(int64_t uid, const char *key)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 64; i += 8)
        h = (h ^ (((uint64_t)uid >> i) & 0xff)) * 0x100000001b3u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    return h;
}

struct job_record **eng_bucket(const struct engine *e, int64_t uid,
                               const char *key)
{
    return &e->by_key[hash(uid, key) & (e->n_buckets - 1)];
}

struct job_record *eng_find_key(const struct engine *e, int64_t uid,
                                const char *key)
{
    if (e->n_buckets == 0)
        return NULL;
    for (struct job_record *rec = *eng_bucket(e, uid, key); rec;
         rec = rec->next_by_key) {
        if (rec->job.uid == uid && strcmp(rec->own.key, key) == 0)
            return rec;
    }
    return NULL;
}

static int note_it(void *arg, const struct store_archived *job,
                   struct error *err)
{
    uint64_t *id = arg;

    (void)err;
    *id = job->job;
    return 0;
}

int eng_find_past_key(const struct engine *e, int64_t uid, const char *key,
                      uint64_t *ret, struct error *err)
{
    struct store *s = e->parts.store;
    struct store_archive_query q = {.key = key, .uid = uid, .limit = 1};

    return s->ops->archived(s, &q, note_it, ret, err);
}

uint64_t eng_past_key(const struct engine *e, int64_t uid, const char *key)
{
    uint64_t found = 0;
    return eng_find_past_key(e, uid, key, &found, NULL) == 0 ? found : 0;
}

static bool is_barred(const struct engine *e, uint64_t id)
{
    for (size_t i = 0; i < e->n_barred; i++)
        if (e->barred[i] == id)
            return true;
    return false;
}

int engine_is_past(struct engine *e, uint64_t id, bool *ret, struct error *err)
{
    struct store *s = e->parts.store;
    struct store_archive_query q = {
        .after = id - 1, .since_s = -INFINITY, .limit = 1};
    uint64_t found = 0;

    *ret = false;
    if (!e->has_archive || id < 1 || id > e->last_id || eng_find(e, id))
        return 0;
    if (s->ops->archived(s, &q, note_it, &found, err) < 0)
        return -1;
    if (found == id && is_barred(e, id))
        return error_set(err, ERR_BUSY, "job %" PRIu64 " is being removed", id);
    *ret = found == id;
    return 0;
}

bool engine_has_past(const struct engine *e)
{
    return e->has_archive;
}

const struct job *engine_job(const struct engine *e, uint64_t id)
{
    const struct job_record *rec = eng_find(e, id);
    return rec ? &rec->job : NULL;
}

const struct job *engine_sweep(const struct engine *e, uint64_t sweep)
{
    const struct job_record *first = eng_find(e, sweep);
    return first && first->job.sweep == sweep ? &first->job : NULL;
}

/* Display numbers ascend, and a task never comes after the index of its
 * number. */
const struct job *engine_task(const struct engine *e, uint64_t sweep,
                              uint64_t number)
{
    const struct job *first = engine_sweep(e, sweep);
    uint64_t n = first ? (uint64_t)first->n_tasks : 0;
    for (uint64_t i = number < n ? number + 1 : n; i-- > 0;) {
        const struct job *job = engine_job(e, sweep + i);
        if (job && (uint64_t)job->number == number)
            return job;
    }
    return NULL;
}

/* A daemon of one user has no others than administrators; a negative uid is
 * nobody's. */
bool engine_is_admin(const struct engine *e, int64_t uid)
{
    const struct engine_conf *conf = e->parts.conf;
    bool is_admin = uid == 0 || (uid > 0 && conf->serves_one);
    for (size_t i = 0; !is_admin && i < conf->n_admins; i++)
        is_admin = uid == conf->admins[i];
    return is_admin;
}

bool engine_may(const struct engine *e, const struct job *job, int64_t uid)
{
    return uid == job->uid || engine_is_admin(e, uid);
}

/* The queue shows every job, so its existence is no secret. Its name and the
 * rest are not revealed here. */
struct job_record *eng_mine(const struct engine *e, uint64_t id, int64_t uid,
                            struct error *err)
{
    struct job_record *rec = eng_find(e, id);
    char display[JOB_DISPLAY_CAP];

    if (rec && engine_may(e, &rec->job, uid))
        return rec;
    if (rec)
        (void)error_set(err, ERR_DENIED, "job %s belongs to another user",
                        job_display_id(&rec->job, display));
    else
        (void)error_set(err, ERR_NOTFOUND, "no job %" PRIu64, id);
    return NULL;
}
