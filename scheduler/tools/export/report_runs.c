/* report_runs.c - mgpu-stat --report NAME: collect the runs from the daemon,
 * print the table, and write the requested files.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/export/report.h"
#include "scheduler/tools/views/show.h"

enum { NEWEST = 500 }; /* runs to look at if none is named */

/* ---- from the daemon ------------------------------------------------------
 */
/* Of the iterations the last 100,000, as many as the daemon gives. */
static int add_job(struct report *r, struct client *c, const char *id,
                   const json_t *job, struct error *err)
{
    const enum paper_view view = r->paper.view;
    json_t *epochs = NULL, *profile = NULL, *iterations = NULL;
    int rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", id);
    if (rc == 0 && (view & (PAPER_SHARES | PAPER_METHODS)))
        rc = client_get(c, &profile, err, "/v1/jobs/%s/profile", id);
    if (rc == 0 && view == PAPER_LAYOUT)
        rc = client_get(c, &iterations, err, "/v1/jobs/%s/iterations?last=1",
                        id);
    const struct report_run run = {job, epochs, profile, iterations};
    if (rc == 0)
        rc = report_add_run(r, &run, err);
    json_decref(epochs);
    json_decref(profile);
    json_decref(iterations);
    return rc;
}

/* The jobs of other users in a list are counted, and left out. */
static int add_one(struct report *r, struct client *c, const char *id,
                   struct error *err)
{
    json_t *job = NULL;
    struct error why = ERROR_INIT;
    int rc = client_get(c, &job, &why, "/v1/jobs/%s", id);
    if (rc < 0 && why.code == ERR_DENIED) {
        r->n_denied++;
        return 0;
    }
    if (rc < 0)
        return error_set(err, why.code, "%s", why.msg);
    rc = add_job(r, c, id, job, err);
    json_decref(job);
    return rc;
}

/* From the newest to the oldest. */
static int add_list(struct report *r, struct client *c, const char *query,
                    const char *value, struct error *err)
{
    json_t *reply = NULL;
    if (client_get(c, &reply, err, "/v1/jobs?%s=%s&limit=%d", query, value,
                   NEWEST) < 0)
        return -1;
    const json_t *jobs = json_object_get(reply, "jobs");
    int rc = 0;
    for (size_t i = json_array_size(jobs); rc == 0 && i-- > 0;)
        rc = add_one(r, c, field_str(json_array_get(jobs, i), "display_id"),
                     err);
    json_decref(reply);
    return rc;
}

static int add_word(struct report *r, struct client *c, const char *word,
                    struct error *err)
{
    json_t *job = NULL;
    if (options_job_word(word, err) < 0 ||
        client_get(c, &job, err, "/v1/jobs/%s", word) < 0)
        return -1;
    const bool is_sweep =
        !strchr(word, '_') && json_is_object(json_object_get(job, "sweep"));
    const int rc = is_sweep ? add_list(r, c, "sweep", word, err)
                            : add_job(r, c, word, job, err);
    json_decref(job);
    return rc;
}

static int collect(struct report *r, struct client *c, char **words, size_t n,
                   struct error *err)
{
    json_t *nodes = NULL;
    int rc = client_get(c, &nodes, err, "/v1/nodes");
    if (rc == 0 && n == 0)
        rc = add_list(r, c, "name", r->paper.job, err);
    for (size_t i = n; rc == 0 && i-- > 0;) /* the last word first */
        rc = add_word(r, c, words[i], err);
    if (rc == 0)
        rc = report_finish(r, nodes, err);
    json_decref(nodes);
    return rc;
}

/* ---- what is made of it ---------------------------------------------------
 */
/* If a file is incomplete, the exit status says so. */
static int export(const struct report *r, const struct report_conf *conf,
                  struct error *err)
{
    const char *path = conf->output;
    FILE *f = path ? fopen(path, "we") : stdout;
    if (!f)
        return plot_file_error(err, errno, "create", path);
    int rc = conf->format == EXPORT_SVG ? report_svg(r, f, err)
                                        : report_csv(r, f, err);
    const bool is_bad = fflush(f) != 0 || ferror(f) != 0;
    if ((path && fclose(f) != 0) || is_bad)
        return rc < 0 ? -1
                      : plot_file_error(err, errno, "write",
                                        path ? path : "standard output");
    return rc;
}

static int print_json(const struct report *r, FILE *out, struct error *err)
{
    json_t *o = report_json(r);
    char *text =
        o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (text)
        (void)fprintf(out, "%s\n", text);
    json_decref(o);
    if (!text)
        return error_set(err, ERR_NOMEM, "report");
    free(text);
    return 0;
}

int report_view(struct client *c, const struct report_conf *conf, char **words,
                size_t n, FILE *out, struct error *err)
{
    struct report *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "report");
    int rc = paper_load(conf->name, &r->paper, err);
    if (rc == 0 && !(r->paper.view & PAPER_PRINTED) &&
        (conf->json || (conf->exports && conf->format == EXPORT_SVG)))
        rc = error_set(err, ERR_USAGE,
                       "--report %s is a table: --export csv writes it, it is "
                       "neither JSON nor a picture",
                       conf->name);
    if (rc == 0) {
        report_begin(r);
        rc = collect(r, c, words, n, err);
    }
    if (rc == 0)
        rc = conf->json ? print_json(r, out, err)
             : conf->exports
                 ? export(r, conf, err)
                 : report_show(r, &conf->style, conf->header, out, err);
    report_clear(r);
    free(r);
    return rc;
}
