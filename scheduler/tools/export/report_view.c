/* report_view.c - mgpu-stat --report: print the table, and write the requested
 * files.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/export/report.h"
#include "scheduler/tools/export/report_layout.h"
#include "scheduler/tools/export/report_methods.h"

typedef int write_f(const struct report *r, FILE *out, struct error *err);

/* If a file is incomplete, the exit status says so. */
static int to_file(const struct report *r, const char *path, write_f *write,
                   struct error *err)
{
    FILE *f = plot_open(path);
    if (!f)
        return plot_file_error(err, errno, "open", path);
    int rc = write(r, f, err);
    if (plot_close(f) < 0)
        return rc < 0 ? -1 : plot_file_error(err, errno, "write", path);
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

int report_stdouts(const struct report_conf *conf)
{
    return conf->json + plot_is_stdout(conf->csv) + plot_is_stdout(conf->svg);
}

int report_view(struct client *c, const struct report_conf *conf, char **words,
                size_t n, FILE *out, struct error *err)
{
    if (strcmp(conf->name, "methods") == 0)
        return methods_view(c, conf, words, n, out, err);
    if (strcmp(conf->name, "layout") == 0)
        return layout_view(c, conf, words, n, out, err);
    struct report *r = malloc(sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "report");
    int rc = report_collect(c, conf->name, words, n, r, err);
    if (rc == 0) {
        if (conf->json)
            rc = print_json(r, out, err);
        else if (report_stdouts(conf) == 0)
            rc = report_show(r, &conf->style, conf->header, out, err);
        if (rc == 0 && conf->csv)
            rc = to_file(r, conf->csv, report_csv, err);
        if (rc == 0 && conf->svg)
            rc = to_file(r, conf->svg, report_svg, err);
        report_clear(r);
    }
    free(r);
    return rc;
}
