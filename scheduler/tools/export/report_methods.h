/* report_methods.h - mgpu-stat --report methods: what methods of fine-tuning
 * cost, each beside lora on as many GPUs, and whether the order that arXiv
 * 2505.22905 states holds. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_METHODS_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_METHODS_H

#include <jansson.h>

#include "scheduler/tools/export/report.h"

enum { METHODS_ROWS = 64, METHODS_FIGURES = 5 };

/* A method on so many GPUs: its newest completed run. */
struct methods_row {
    char method[32], display_id[REPORT_VALUE_CAP];
    int64_t gpus;
    /* s per iteration, tokens/s, bytes of memory of the fullest rank, bytes
     * that a rank moves in an iteration from host to device, and by
     * collectives. NAN: not known. */
    double v[METHODS_FIGURES];
    bool is_planned; /* the memory is that of the plan: nobody measured */
};

struct methods_report {
    struct methods_row rows[METHODS_ROWS];
    size_t n, n_open, n_denied; /* jobs: not completed; of other users */
};

/* ---- the parts of it, for tests ------------------------------------------ */

/* Adds one run: mgpu.job/1, mgpu.epochs/1, mgpu.profile/1. A later call for the
 * same row is an older run, and changes nothing. */
void methods_add_run(struct methods_report *r, const json_t *job,
                     const json_t *epochs, const json_t *profile);
int methods_show(struct methods_report *r, const struct render_style *s,
                 bool header, FILE *out, struct error *err) MUST_CHECK;
void methods_csv(const struct methods_report *r, FILE *out);

/* As report_view(), of this report. It has neither JSON nor a picture.
 * err  ERR_USAGE these were asked for */
int methods_view(struct client *c, const struct report_conf *conf, char **words,
                 size_t n, FILE *out, struct error *err) MUST_CHECK;

#endif
