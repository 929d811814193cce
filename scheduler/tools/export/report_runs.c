/* report_runs.c - see report_runs.h. */
#include "scheduler/tools/export/report_runs.h"

#include <errno.h>
#include <string.h>

#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/views/show.h"

enum { NEWEST = 500 }; /* runs to look at if none is named */

/* Where the runs go. */
struct taker {
    struct client *c;
    runs_take_f *take;
    void *arg;
    size_t *n_denied;
};

static int take_one(const struct taker *t, const char *id, struct error *err)
{
    json_t *job = NULL;
    struct error why = ERROR_INIT;
    int rc = client_get(t->c, &job, &why, "/v1/jobs/%s", id);
    if (rc < 0 && why.code == ERR_DENIED) {
        (*t->n_denied)++;
        return 0;
    }
    if (rc < 0)
        return error_set(err, why.code, "%s", why.msg);
    rc = t->take(t->c, id, job, t->arg, err);
    json_decref(job);
    return rc;
}

/* From the newest to the oldest. */
static int take_list(const struct taker *t, const char *query,
                     const char *value, struct error *err)
{
    json_t *reply = NULL;
    if (client_get(t->c, &reply, err, "/v1/jobs?%s=%s&limit=%d", query, value,
                   NEWEST) < 0)
        return -1;
    const json_t *jobs = json_object_get(reply, "jobs");
    int rc = 0;
    for (size_t i = json_array_size(jobs); rc == 0 && i-- > 0;)
        rc = take_one(t, field_str(json_array_get(jobs, i), "display_id"), err);
    json_decref(reply);
    return rc;
}

static int take_word(const struct taker *t, const char *word, struct error *err)
{
    json_t *job = NULL;
    if (options_job_word(word, err) < 0 ||
        client_get(t->c, &job, err, "/v1/jobs/%s", word) < 0)
        return -1;
    const bool is_sweep =
        !strchr(word, '_') && json_is_object(json_object_get(job, "sweep"));
    const int rc = is_sweep ? take_list(t, "sweep", word, err)
                            : t->take(t->c, word, job, t->arg, err);
    json_decref(job);
    return rc;
}

int runs_each(struct client *c, const char *name, char **words, size_t n,
              runs_take_f *take, void *arg, size_t *ret_denied,
              struct error *err)
{
    const struct taker t = {c, take, arg, ret_denied};
    *ret_denied = 0;
    int rc = n == 0 ? take_list(&t, "name", name, err) : 0;
    for (size_t i = n; rc == 0 && i-- > 0;)
        rc = take_word(&t, words[i], err);
    return rc;
}

void runs_say_rest(size_t n_open, size_t n_denied, FILE *out)
{
    if (n_open > 0)
        (void)fprintf(out, "not completed: %zu job%s\n", n_open,
                      n_open == 1 ? "" : "s");
    if (n_denied > 0)
        (void)fprintf(out, "of other users, left out: %zu job%s\n", n_denied,
                      n_denied == 1 ? "" : "s");
}

int runs_refuse(const struct report_conf *conf, struct error *err)
{
    if (!conf->json && conf->svg == NULL)
        return 0;
    return error_set(err, ERR_USAGE,
                     "--report %s is a table: use --csv, it has neither "
                     "--json nor --svg",
                     conf->name);
}

int runs_write(const char *path, runs_write_f *write, const void *report,
               struct error *err)
{
    FILE *f = plot_open(path);
    if (f == NULL)
        return error_sys(err, errno, "open '%s'", path);
    write(report, f);
    return plot_close(f) == 0 ? 0 : error_sys(err, errno, "write '%s'", path);
}
