/* report_layout.h - mgpu-stat --report layout: what train.channels_last
 * costs, NCHW beside NHWC, as arXiv 2505.22905 compares them. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_LAYOUT_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_REPORT_LAYOUT_H

#include <jansson.h>

#include "scheduler/tools/export/report.h"

enum { LAYOUT_ROWS = 256, LAYOUT_FIGURES = 3 };

/* A layout of images of one size, in such batches, on so many GPUs: its newest
 * completed run. */
struct layout_row {
    char data_path[16], precision[16], display_id[REPORT_VALUE_CAP];
    int64_t gpus, image_size, batch_size;
    bool channels_last;
    /* Of the last epoch: t_data and t_h2d, mean seconds of an iteration of a
     * rank; images/s of all ranks. NAN: not known. */
    double v[LAYOUT_FIGURES];
};

struct layout_report {
    struct layout_row rows[LAYOUT_ROWS];
    size_t n, n_open, n_denied; /* jobs: not completed; of other users */
};

/* ---- the parts of it, for tests ------------------------------------------ */

/* Adds one run: mgpu.job/1, mgpu.epochs/1, mgpu.iterations/1. A later call for
 * the same row is an older run, and changes nothing. */
void layout_add_run(struct layout_report *r, const json_t *job,
                    const json_t *epochs, const json_t *iterations);
int layout_show(struct layout_report *r, const struct render_style *s,
                bool header, FILE *out, struct error *err) MUST_CHECK;
void layout_csv(const struct layout_report *r, FILE *out);

/* As report_view(), of this report. It has neither JSON nor a picture.
 * err  ERR_USAGE these were asked for */
int layout_view(struct client *c, const struct report_conf *conf, char **words,
                size_t n, FILE *out, struct error *err) MUST_CHECK;

#endif
