/* watch_line.c - see watch_line.h. */
#include "scheduler/ctld/job_list/watch_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/ctld/job_list/job_json.h"
#include "scheduler/ctld/request/job_lookup.h"

char *watch_line_job(const struct ctld *c, const struct watch_past *past,
                     const struct job *job, bool all)
{
    struct buf line = BUF_INIT;
    char *ret = NULL;
    if (buf_addf(&line, NULL,
                 "{\"schema\":\"mgpu.job/1\",\"seq\":%" PRIu64 ",\"job\":",
                 watch_past_seq_of(past, job->id)) == 0 &&
        job_json_add(c, job, all, JOB_JSON_ALL_MEMBERS, &line, NULL) == 0 &&
        buf_addstr(&line, "}\n", NULL) == 0)
        ret = buf_detach(&line);
    buf_clear(&line);
    return ret;
}

bool watch_line_add_jobs(const struct ctld *c, const struct watch_past *past,
                         uint64_t after, int n, int64_t uid, struct buf *text,
                         uint64_t *ret_last)
{
    const struct job *job = ctld_job_next(c, after);
    for (int i = 0; job && i < n; job = ctld_job_next(c, job->id), i++) {
        char *line =
            watch_line_job(c, past, job, engine_may(c->engine, job, uid));
        int rc = line ? buf_addstr(text, line, NULL) : -1;
        free(line);
        if (rc < 0)
            return false;
        *ret_last = job->id;
    }
    return true;
}

size_t watch_line_mark(const struct watch_past *past, int64_t change,
                       bool is_whole, char ret[WATCH_MARK_CAP])
{
    char cursor[WATCH_CURSOR_CAP];
    watch_past_cursor(past, change, cursor);
    int n = snprintf(ret, WATCH_MARK_CAP,
                     "{\"schema\":\"mgpu.synced/1\",\"cursor\":\"%s\","
                     "\"whole\":%s}\n",
                     cursor, is_whole ? "true" : "false");
    return (size_t)n;
}
