/* report_runs.c - see report_runs.h. */
#include "scheduler/tools/export/report_runs.h"

#include <errno.h>
#include <string.h>

#include "scheduler/tools/views/show.h"

enum { NEWEST = 500 }; /* runs to look at if none is named */

/* Where the runs go. */
struct taker {
    struct client *c;
    runs_take_f *take;
    void *arg;
};

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
        rc = t->take(t->c, field_str(json_array_get(jobs, i), "display_id"),
                     t->arg, err);
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
    json_decref(job);
    return is_sweep ? take_list(t, "sweep", word, err)
                    : t->take(t->c, word, t->arg, err);
}

int runs_each(struct client *c, const char *name, char **words, size_t n,
              runs_take_f *take, void *arg, struct error *err)
{
    const struct taker t = {c, take, arg};
    int rc = n == 0 ? take_list(&t, "name", name, err) : 0;
    for (size_t i = n; rc == 0 && i-- > 0;)
        rc = take_word(&t, words[i], err);
    return rc;
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
    FILE *f = fopen(path, "we");
    if (f == NULL)
        return error_sys(err, errno, "open '%s'", path);
    write(report, f);
    const bool is_bad = ferror(f) != 0;
    if (fclose(f) != 0 || is_bad)
        return error_sys(err, errno, "write '%s'", path);
    return 0;
}
