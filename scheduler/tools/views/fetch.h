/* fetch.h - a view of mgpu-stat: what it asks the daemon for, and shows.
 *
 * `word` is a job, a sweep or a task, as "12" or "12_3". */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_FETCH_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_FETCH_H

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"
#include "scheduler/tools/views/wait.h"

struct filter;
struct fetch {
    struct show_conf show;
    bool json;                /* as the daemon says it */
    bool lines;               /* with json: what a list has a line each */
    bool ids;                 /* of a list what people call them, no more */
    bool follow;              /* a log, until the job ends */
    int64_t rank;             /* of a log, this one's lines; -1: all */
    double timeout_s;         /* of following it; 0: none */
    const char *since;        /* of a log, from then on; NULL: all */
    unsigned long long count; /* the last so many rows or lines; 0: all */
};

/* Of mgpu.job/1 of a sweep its tasks, mgpu.queue/1; *ret NULL: it is none. */
int fetch_tasks(struct client *c, const char *word, const json_t *reply,
                json_t **ret, struct error *err) MUST_CHECK;

int fetch_detail(struct client *c, const struct fetch *f, const char *word,
                 struct error *err) MUST_CHECK;
int fetch_metrics(struct client *c, const struct fetch *f, const char *word,
                  struct error *err) MUST_CHECK;
int fetch_profile(struct client *c, const struct fetch *f, const char *word,
                  struct error *err) MUST_CHECK;
int fetch_eff(struct client *c, const struct fetch *f, const char *word,
              struct error *err) MUST_CHECK;
/* A row for each of the newest jobs that are chosen, of any state, and began.
 */
int fetch_eff_all(struct client *c, const struct fetch *f,
                  const struct filter *filter, struct error *err) MUST_CHECK;
/* `word` may also be a name, of which the newest job counts.
 * err  ERR_NOTFOUND no job has it */
int fetch_scaling(struct client *c, const struct fetch *f, const char *word,
                  struct error *err) MUST_CHECK;
int fetch_logs(struct client *c, const struct fetch *f, const char *word,
               struct error *err) MUST_CHECK;
/* Waits for the jobs, sweeps and tasks; then, as JSON, shows each. */
int fetch_wait(struct client *c, const struct fetch *f, char **words, size_t n,
               const struct wait_conf *conf, int *ret_exit,
               struct error *err) MUST_CHECK;
int fetch_why(struct client *c, const struct fetch *f, const char *word,
              struct error *err) MUST_CHECK;

/* A reply as JSON. */
int fetch_print(const struct fetch *f, const json_t *reply,
                struct error *err) MUST_CHECK;

typedef int (*fetch_show_f)(const struct show_conf *s, const json_t *reply,
                            struct error *err);
/* show NULL: as JSON. */
int fetch_simple(struct client *c, const struct fetch *f, const char *path,
                 fetch_show_f show, struct error *err) MUST_CHECK;

#endif
