/* fetch.h - the views of mgpu-stat: request the data, and print it.
 *
 * `word` names a job, a sweep or a task, as "12" or "12_3".
 */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_FETCH_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_FETCH_H

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/columns.h"
#include "scheduler/tools/views/show.h"
#include "scheduler/tools/views/wait.h"

struct filter;
struct fetch {
    struct show_conf show;
    bool json;                /* print the daemon's document */
    bool lines;               /* with json: one line per element of a list */
    bool ids;                 /* print only the ids of a list */
    bool follow;              /* --logs: until the job ends */
    int64_t rank;             /* --logs: only lines of this rank; -1: all */
    double timeout_s;         /* limit of following; 0: none */
    const char *since;        /* --logs: from then on; NULL: all */
    unsigned long long count; /* the last rows or lines; 0: all */
};

/* For mgpu.job/1 of a sweep, its tasks as mgpu.queue/1; *ret NULL: not a
 * sweep.
 * in   values  with the newest values of their own metrics, as in a reply with
 *              "values" */
int fetch_tasks(struct client *c, const char *word, const json_t *reply,
                bool values, json_t **ret, struct error *err) MUST_CHECK;

/* Moves "values" of a reply to GET /v1/jobs?values= to the jobs that have one.
 * in   all  also to jobs that are no commands
 */
int fetch_take_values(json_t *reply, bool all, struct error *err) MUST_CHECK;

/* Sets "values" of each named job, by a request each, if a column or the order
 * is of a metric that jobs named themselves. in   sort  NULL: none */
int fetch_own_columns(struct client *c, json_t *jobs,
                      const struct columns *columns, const char *sort,
                      struct error *err) MUST_CHECK;

int fetch_detail(struct client *c, const struct fetch *f, const char *word,
                 struct error *err) MUST_CHECK;
int fetch_metrics(struct client *c, const struct fetch *f, const char *word,
                  struct error *err) MUST_CHECK;
int fetch_profile(struct client *c, const struct fetch *f, const char *word,
                  struct error *err) MUST_CHECK;
int fetch_eff(struct client *c, const struct fetch *f, const char *word,
              struct error *err) MUST_CHECK;
/* One row for each of the newest chosen jobs, of any state, that have
 * started. */
int fetch_eff_all(struct client *c, const struct fetch *f,
                  const struct filter *filter, struct error *err) MUST_CHECK;
/* `word` may also be a name; the newest job with that name counts.
 * err  ERR_NOTFOUND no job has it */
int fetch_scaling(struct client *c, const struct fetch *f, const char *word,
                  struct error *err) MUST_CHECK;
int fetch_logs(struct client *c, const struct fetch *f, const char *word,
               struct error *err) MUST_CHECK;
/* Waits for the jobs, sweeps and tasks; with JSON, prints each at the end. */
int fetch_wait(struct client *c, const struct fetch *f, char **words, size_t n,
               const struct wait_conf *conf, int *ret_exit,
               struct error *err) MUST_CHECK;
int fetch_why(struct client *c, const struct fetch *f, const char *word,
              struct error *err) MUST_CHECK;

/* Prints a reply as JSON. */
int fetch_print(const struct fetch *f, const json_t *reply,
                struct error *err) MUST_CHECK;

typedef int (*fetch_show_f)(const struct show_conf *s, const json_t *reply,
                            struct error *err);
/* show NULL: prints JSON. */
int fetch_simple(struct client *c, const struct fetch *f, const char *path,
                 fetch_show_f show, struct error *err) MUST_CHECK;

#endif
