/* fetch.c - request what a view needs from the daemon, and print it; see
 * fetch.h.
 */
#include "scheduler/tools/views/fetch.h"
#include "jobs/advice/advice.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/checkpoint_list.h"
#include "scheduler/tools/common/job_lines.h"
#include "scheduler/tools/common/job_query.h"
#include "scheduler/tools/common/options.h"

enum { DETAIL_EVENTS = 64 };

int fetch_print(const struct fetch *f, const json_t *reply, struct error *err)
{
    return f->lines ? lines_print(reply, err) : client_print(reply, err);
}

/* Requests the tasks of a sweep; *ret stays NULL for a single job. */
int fetch_tasks(struct client *c, const char *word, const json_t *reply,
                bool values, json_t **ret, struct error *err)
{
    const json_t *sweep = json_object_get(reply, "sweep");
    if (!json_is_object(sweep) || strchr(word, '_'))
        return 0;
    return client_get(c, ret, err, "/v1/jobs?sweep=%" PRId64 "%s",
                      field_int(sweep, "id", 0), values ? "&values=*" : "");
}

/* Sets job.values, the newest value of each metric that the job named itself:
 * {"val_acc":0.93}. A job that has not run has none. */
static int add_values(struct client *c, json_t *job, struct error *err)
{
    json_t *reply = NULL, *values, *row;
    size_t i;
    if (field_int(job, "attempt", 0) < 1)
        return 0;
    int rc = client_get(c, &reply, err, "/v1/jobs/%" PRId64 "/values?latest=1",
                        field_int(job, "id", 0));
    /* Another user's, or one that has left the list meanwhile, shows none. */
    if (rc < 0 && (err->code == ERR_DENIED || err->code == ERR_NOTFOUND)) {
        *err = (struct error)ERROR_INIT;
        return 0;
    }
    const int name = cells_column(reply, "name");
    const int value = cells_column(reply, "value");
    values = rc == 0 ? json_object() : NULL;
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        const char *key = json_string_value(json_array_get(row, (size_t)name));
        if (key)
            (void)json_object_set(values, key,
                                  json_array_get(row, (size_t)value));
    }
    json_decref(reply);
    if (rc == 0 && json_object_set_new(job, "values", values) < 0)
        rc = error_set(err, ERR_NOMEM, "values");
    return rc;
}

int fetch_own_columns(struct client *c, json_t *jobs,
                      const struct columns *columns, const char *sort,
                      struct error *err)
{
    size_t i;
    json_t *job;
    int rc = 0;
    if (!columns_have_own(columns, sort))
        return 0;
    json_array_foreach(jobs, i, job)
    {
        if (rc == 0)
            rc = add_values(c, job, err);
    }
    return rc;
}

/* A sweep of commands is compared by them; training has losses. */
int fetch_take_values(json_t *reply, bool all, struct error *err)
{
    json_t *values = json_object_get(reply, "values"), *job;
    const json_t *jobs = json_object_get(reply, "jobs");
    int rc = 0;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        char id[24];
        (void)snprintf(id, sizeof(id), "%" PRId64, field_int(job, "id", 0));
        json_t *own = json_object_get(values, id);
        if (own && (all || strcmp(field_str(job, "kind"), "command") == 0) &&
            json_object_set(job, "values", own) < 0)
            rc = error_set(err, ERR_NOMEM, "values");
    }
    if (values)
        (void)json_object_del(reply, "values");
    return rc;
}

/* The path of the checkpoints follows from the job; which exist is visible only
 * where its file system is mounted. */
static int add_checkpoint(json_t *reply, struct error *err)
{
    char newest[CHECKPOINT_PATH_CAP], best[CHECKPOINT_PATH_CAP];
    checkpoint_find(json_object_get(reply, "job"), newest, best);
    if ((newest[0] &&
         json_object_set_new(reply, "checkpoint", json_string(newest)) < 0) ||
        (best[0] && json_object_set_new(reply, "best", json_string(best)) < 0))
        return error_set(err, ERR_NOMEM, "reply");
    return 0;
}

/* The reason for the number of GPUs, for a job with a range, is in its last
 * INTENT event; a training tells in events of checkpoints that failed. */
static int add_events(struct client *c, const char *word, json_t *reply,
                      struct error *err)
{
    json_t *events = NULL;
    const json_t *job = json_object_get(reply, "job");
    const bool has_range =
        field_int(job, "gpus_min", 0) != field_int(job, "gpus_max", 0);
    const bool trains = strcmp(field_str(job, "kind"), "command") != 0;
    if (field_int(job, "attempt", 0) < 1 || (!has_range && !trains))
        return 0;
    int rc = client_get(c, &events, err, "/v1/jobs/%s/events?last=1&limit=%d",
                        word, (int)DETAIL_EVENTS);
    if (rc == 0 &&
        json_object_set(reply, "events", json_object_get(events, "events")) < 0)
        rc = error_set(err, ERR_NOMEM, "reply");
    json_decref(events);
    return rc;
}

static int show_one(struct client *c, const struct fetch *f, const char *word,
                    json_t *job, struct error *err)
{
    json_t *epochs = NULL, *status = NULL;
    int rc = add_events(c, word, job, err);
    if (rc == 0)
        rc = add_checkpoint(job, err);
    if (rc == 0)
        rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", word);
    if (rc == 0)
        rc = client_get(c, &status, err, "/v1/status");
    if (rc == 0)
        rc = show_job(&f->show, job, epochs, status, err);
    json_decref(epochs);
    json_decref(status);
    return rc;
}

int fetch_detail(struct client *c, const struct fetch *f, const char *word,
                 struct error *err)
{
    json_t *job = NULL, *tasks = NULL;
    int rc = client_get(c, &job, err, "/v1/jobs/%s", word);
    if (rc == 0)
        rc = fetch_tasks(c, word, job, true, &tasks, err);
    if (rc == 0 && tasks)
        rc = fetch_take_values(tasks, f->json, err);
    else if (rc == 0 && f->json)
        rc = add_values(c, json_object_get(job, "job"), err);
    if (rc == 0 && f->json && tasks &&
        json_object_set(job, "tasks", json_object_get(tasks, "jobs")) < 0)
        rc = error_set(err, ERR_NOMEM, "reply");
    if (rc == 0 && f->json)
        rc = fetch_print(f, job, err);
    else if (rc == 0 && tasks)
        rc = show_sweep(&f->show, json_object_get(job, "sweep"), tasks, err);
    else if (rc == 0)
        rc = show_one(c, f, word, job, err);
    json_decref(job);
    json_decref(tasks);
    return rc;
}

/* All values, or with -n the last ones. */
static int fetch_own(struct client *c, const char *word, const char *limit,
                     struct metric_set *ret, struct error *err)
{
    json_t *values = NULL;
    if (!*limit)
        return metric_set_read(c, word, ret, err);
    int rc = client_get(c, &values, err, "/v1/jobs/%s/values%s", word, limit);
    if (rc == 0)
        rc = metric_set_take(
            ret, values, json_array_size(json_object_get(values, "rows")), err);
    json_decref(values);
    return rc;
}

static int metrics_json(struct client *c, const struct fetch *f,
                        const char *word, const char *limit, json_t *rows,
                        struct error *err)
{
    json_t *values = NULL;
    int rc = client_get(c, &values, err, "/v1/jobs/%s/values%s", word, limit);
    if (rc == 0)
        rc = json_object_set(rows, "values", values) == 0
                 ? fetch_print(f, rows, err)
                 : error_set(err, ERR_NOMEM, "reply");
    json_decref(values);
    return rc;
}

int fetch_metrics(struct client *c, const struct fetch *f, const char *word,
                  struct error *err)
{
    json_t *rows = NULL;
    struct metric_set own = {.n = 0};
    char limit[48] = "";
    if (f->count)
        (void)snprintf(limit, sizeof(limit), "?last=1&limit=%llu", f->count);
    int rc = client_get(c, &rows, err, "/v1/jobs/%s/iterations%s", word, limit);
    if (rc == 0 && f->json)
        rc = metrics_json(c, f, word, limit, rows, err);
    else if (rc == 0) {
        rc = fetch_own(c, word, limit, &own, err);
        if (rc == 0)
            rc = show_metrics(&f->show, rows, &own, err);
    }
    metric_set_clear(&own);
    json_decref(rows);
    return rc;
}

int fetch_profile(struct client *c, const struct fetch *f, const char *word,
                  struct error *err)
{
    json_t *rows = NULL, *epochs = NULL;
    int rc = client_get(c, &rows, err, "/v1/jobs/%s/profile", word);
    if (rc == 0 && f->json)
        rc = fetch_print(f, rows, err);
    else if (rc == 0) {
        rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", word);
        if (rc == 0)
            rc = show_profile(&f->show, rows, epochs, err);
    }
    json_decref(rows);
    json_decref(epochs);
    return rc;
}

/* For --eff over several jobs, only the last rows and events of each. The
 * worker's final report is among the last events of a job. */
enum { EFF_JOBS = 50, EFF_ROWS = 2000, EFF_EVENTS = 16, EFF_FIRST = 16 };
enum { EFF_PART = 1000 }; /* jobs per request */

/* The values without an iteration, which are its attempt's first: however many
 * come behind them. */
static int add_first_values(struct client *c, const char *word, json_t *reply,
                            struct error *err)
{
    json_t *values = NULL;
    const int64_t attempt =
        field_int(json_object_get(reply, "job"), "attempt", 0);
    if (attempt < 1)
        return 0;
    int rc =
        client_get(c, &values, err,
                   "/v1/jobs/%s/values?attempt=%" PRId64 "&rank=0&limit=%d",
                   word, attempt, (int)EFF_FIRST);
    if (rc == 0 && json_object_set(reply, "first_values", values) < 0)
        rc = error_set(err, ERR_NOMEM, "reply");
    json_decref(values);
    return rc;
}

/* GPU and CPU usage are in the profile, if the job has one, in the events, and
 * in the values of a training; adds them to the job.
 * in  query  which rows of its iterations are looked at */
static int add_used(struct client *c, const char *word, const char *query,
                    json_t *reply, struct error *err)
{
    json_t *events = NULL, *profile = NULL, *values = NULL;
    const json_t *job = json_object_get(reply, "job");
    const json_t *spec = json_object_get(job, "spec");
    const bool trains = strcmp(field_str(job, "kind"), "command") != 0;
    const char *mode = field_str(json_object_get(spec, "train"), "profile");
    int rc = client_get(c, &events, err, "/v1/jobs/%s/events?last=1&limit=%d",
                        word, (int)EFF_EVENTS);
    if (rc == 0 && *mode && strcmp(mode, "off") != 0)
        rc = client_get(c, &profile, err, "/v1/jobs/%s/profile?last=1&limit=%d",
                        word, (int)EFF_ROWS);
    if (rc == 0 && trains)
        rc = client_get(c, &values, err, "/v1/jobs/%s/values%s", word, query);
    if (rc == 0 && trains)
        rc = add_first_values(c, word, reply, err);
    if (rc == 0 &&
        ((events && json_object_set(reply, "events",
                                    json_object_get(events, "events")) < 0) ||
         (profile && json_object_set(reply, "profile", profile) < 0) ||
         (values && json_object_set(reply, "values", values) < 0)))
        rc = error_set(err, ERR_NOMEM, "reply");
    json_decref(events);
    json_decref(profile);
    json_decref(values);
    return rc;
}

/* rows: appends a row of mgpu.eff/1; NULL: prints. */
static int eff_of(struct client *c, const struct fetch *f, const char *word,
                  const char *query, json_t *rows, struct error *err)
{
    json_t *job = NULL, *its = NULL, *scaling = NULL, *row = NULL;
    int rc = client_get(c, &job, err, "/v1/jobs/%s", word);
    if (rc == 0)
        rc = add_used(c, word, query, job, err);
    if (rc == 0)
        rc = client_get(c, &its, err, "/v1/jobs/%s/iterations%s", word, query);
    if (rc == 0)
        rc = client_get(c, &scaling, err, "/v1/jobs/%s/scaling", word);
    if (rc == 0 && !rows)
        rc = show_eff(&f->show, job, its, scaling, err);
    else if (rc == 0)
        rc = advice_row(job, its, scaling, &row, err);
    if (row && json_array_append_new(rows, row) < 0)
        rc = error_set(err, ERR_NOMEM, "efficiency");
    json_decref(job);
    json_decref(its);
    json_decref(scaling);
    return rc;
}

/* own  takes `rows` */
static int print_eff(const struct fetch *f, json_t *rows, struct error *err)
{
    json_t *o = json_pack("{s:s, s:o}", "schema", "mgpu.eff/1", "jobs", rows);
    int rc = !o        ? error_set(err, ERR_NOMEM, "efficiency")
             : f->json ? fetch_print(f, o, err)
                       : show_eff_rows(&f->show, o, err);
    json_decref(o);
    return rc;
}

int fetch_eff(struct client *c, const struct fetch *f, const char *word,
              struct error *err)
{
    if (!f->json)
        return eff_of(c, f, word, "", NULL, err);
    json_t *rows = json_array();
    int rc = rows ? eff_of(c, f, word, "", rows, err)
                  : error_set(err, ERR_NOMEM, "efficiency");
    if (rc == 0)
        return print_eff(f, rows, err);
    json_decref(rows);
    return rc;
}

/* Ids of the newest jobs that have started, newest first: the others have used
 * nothing. */
static int newest_begun(struct client *c, const char *query,
                        unsigned long long most, json_t *ret, struct error *err)
{
    int64_t last = INT64_MAX;
    for (size_t n = EFF_PART; n == EFF_PART && json_array_size(ret) < most;) {
        json_t *reply = NULL;
        if (client_get(c, &reply, err,
                       "/v1/jobs?limit=%d&fields=id,attempt&id_max=%" PRId64
                       "%s",
                       (int)EFF_PART, last, query) < 0)
            return -1;
        const json_t *jobs = json_object_get(reply, "jobs");
        n = json_array_size(jobs);
        for (size_t i = n; i-- > 0 && json_array_size(ret) < most;) {
            const json_t *job = json_array_get(jobs, i);
            last = field_int(job, "id", 1) - 1;
            if (field_int(job, "attempt", 0) > 0)
                (void)json_array_append(ret, json_object_get(job, "id"));
        }
        json_decref(reply);
        n = last > 0 ? n : 0;
    }
    return 0;
}

int fetch_eff_all(struct client *c, const struct fetch *f,
                  const struct filter *filter, struct error *err)
{
    struct filter chosen = *filter;
    struct buf query = BUF_INIT;
    char word[32], last[48];
    json_t *ids = json_array(), *rows = json_array();
    chosen.states = chosen.states ? chosen.states : FILTER_ALL;
    (void)snprintf(last, sizeof(last), "?last=1&limit=%d", (int)EFF_ROWS);
    int rc = ids && rows ? filter_query(&chosen, &query, err)
                         : error_set(err, ERR_NOMEM, "efficiency");
    if (rc == 0)
        rc = newest_begun(c, buf_str(&query), f->count ? f->count : EFF_JOBS,
                          ids, err);
    for (size_t i = json_array_size(ids); rc == 0 && i-- > 0;) {
        (void)snprintf(word, sizeof(word), "%" PRId64,
                       (int64_t)json_integer_value(json_array_get(ids, i)));
        rc = eff_of(c, f, word, last, rows, err);
    }
    json_decref(ids);
    buf_clear(&query);
    if (rc == 0)
        return print_eff(f, rows, err);
    json_decref(rows);
    return rc;
}

/* ---- what further GPUs brought ---------------------------------------------
 */

/* A name stands for the newest job with that name. */
static int newest_of(struct client *c, const char *name, char *ret, size_t cap,
                     struct error *err)
{
    const struct filter filter = {.name = name, .states = FILTER_ALL};
    struct buf query = BUF_INIT;
    json_t *reply = NULL;
    int rc = filter_query(&filter, &query, err);
    if (rc == 0)
        rc = client_get(c, &reply, err, "/v1/jobs?limit=1%s", buf_str(&query));
    buf_clear(&query);
    const json_t *job = json_array_get(json_object_get(reply, "jobs"), 0);
    if (rc == 0 && !job)
        rc = error_set(err, ERR_NOTFOUND, "no job is called '%.64s'", name);
    else if (rc == 0)
        (void)snprintf(ret, cap, "%" PRId64, field_int(job, "id", 0));
    json_decref(reply);
    return rc;
}

int fetch_scaling(struct client *c, const struct fetch *f, const char *word,
                  struct error *err)
{
    char id[32], path[96];
    bool is_id = options_job_word(word, NULL) == 0;
    if (!is_id && newest_of(c, word, id, sizeof(id), err) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/scaling?guess=1",
                   is_id ? word : id);
    return fetch_simple(c, f, path, show_scaling, err);
}

int fetch_why(struct client *c, const struct fetch *f, const char *word,
              struct error *err)
{
    json_t *reply = NULL, *job = NULL;
    int rc = client_get(c, &reply, err, "/v1/jobs/%s/why", word);
    if (rc == 0 && f->json) {
        rc = fetch_print(f, reply, err);
    } else if (rc == 0) {
        rc = client_get(c, &job, err, "/v1/jobs/%s", word);
        if (rc == 0)
            rc = show_why(&f->show, reply, job, err);
    }
    json_decref(reply);
    json_decref(job);
    return rc;
}

int fetch_simple(struct client *c, const struct fetch *f, const char *path,
                 fetch_show_f show, struct error *err)
{
    json_t *reply = NULL;
    int rc = client_get(c, &reply, err, "%s", path);
    if (rc == 0 && f->ids)
        lines_ids(reply, f->show.out);
    else if (rc == 0)
        rc = f->json || !show ? fetch_print(f, reply, err)
                              : show(&f->show, reply, err);
    json_decref(reply);
    return rc;
}
