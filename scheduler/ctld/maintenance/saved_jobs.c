/* saved_jobs.c - see saved_jobs.h. */
#include "scheduler/ctld/maintenance/saved_jobs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/buf.h"
#include "jobs/base/file_atomic.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/request/reply.h"

static int add_job(const struct job *job, struct buf *out, struct error *err)
{
    json_t *spec = job->spec ? json_loads(job->spec, 0, NULL) : NULL;
    json_t *o =
        json_pack("{s:I, s:o, s:I, s:o, s:s, s:o, s:o, s:o, s:o}", "id",
                  (json_int_t)job->id, "user", ctld_text(job->user), "uid",
                  (json_int_t)job->uid, "name", ctld_text(job->name), "state",
                  job_state_name(job->state), "submitted",
                  ctld_time(job->submit_s), "key", ctld_text(job->key), "dir",
                  ctld_text(job->dir), "spec", spec ? spec : json_null());
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    int rc = text ? buf_addf(out, err, "%s\n", text)
                  : error_set(err, ERR_NOMEM, "saved jobs");
    free(text);
    return rc;
}

static int add_jobs(const struct ctld *c, struct buf *out, size_t *ret_n,
                    struct error *err)
{
    size_t n = 0;
    for (const struct job *job = engine_next_since(c->engine, 0, INFINITY); job;
         job = engine_next_since(c->engine, job->id, INFINITY)) {
        if (job_state_is_final(job->state))
            continue;
        if (add_job(job, out, err) < 0)
            return -1;
        n++;
    }
    *ret_n = n;
    return 0;
}

int saved_jobs_write(const struct ctld *c, char ret_file[STORE_FILE_CAP],
                     size_t *ret_n, struct error *err)
{
    const struct clock *clock = c->parts.clock;
    time_t now = (time_t)clock->wall_s(clock);
    char stamp[24], file[STORE_FILE_CAP];
    struct buf text = BUF_INIT;
    struct tm tm;
    if (!gmtime_r(&now, &tm))
        return error_sys(err, errno, "convert the time");
    (void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
    (void)snprintf(file, sizeof(file), "state.db.rescued-%s.jsonl", stamp);
    int rc = add_jobs(c, &text, ret_n, err);
    if (rc == 0)
        rc = file_atomic_put(c->parts.conf->state_dir, file, buf_str(&text),
                             text.len, 0, err);
    buf_clear(&text);
    if (rc == 0)
        memcpy(ret_file, file, sizeof(file));
    return rc;
}
