/* report_layout.c - the comparison of layouts: figures of the last epoch, and
 * ratios. */
#include "scheduler/tools/export/report.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static struct report r;
static struct error err = ERROR_INIT;

static const char table[] =
    "SIZE  DATA PATH  PRECISION  BATCH  GPUS  LAYOUT     DATA/IT   /NHWC      "
    "H2D/IT   /NHWC  IMAGES/S   /NHWC  JOB\n"
    " 100  fast       fp32          64     2  NHWC    200.000 ms  1.00 x  "
    "500.000 ms  1.00 x       800  1.00 x    6\n"
    " 224  fast       fp32          32     1  NHWC    250.000 ms  1.00 x  "
    "500.000 ms  1.00 x       800  1.00 x    4\n"
    " 224  fast       fp32          64     1  NCHW    250.000 ms       -  "
    "500.000 ms       -       800       -    5\n"
    " 224  fast       fp32          64     2  NHWC    500.000 ms  1.00 x  "
    "500.000 ms  1.00 x       800  1.00 x    8\n"
    " 224  fast       fp32          64     2  NCHW    750.000 ms  1.50 x  "
    "500.000 ms  1.00 x       800  1.00 x    9\n"
    "DATA and H2D: the host's mean time of an iteration in the last epoch, "
    "t_data and t_h2d\n"
    "not completed: 1 job\n"
    "of other users, left out: 2 jobs\n";

static const char csv[] =
    "report,dataset.image_size,dataset.data_path,train.precision,train.batch_"
    "size,resources.gpus,train.channels_last,t_data,t_h2d,images_per_s,job\n"
    "layout,100,fast,fp32,64,2,true,0.2,0.5,800,6\n"
    "layout,224,fast,fp32,32,1,true,0.25,0.5,800,4\n"
    "layout,224,fast,fp32,64,1,false,0.25,0.5,800,5\n"
    "layout,224,fast,fp32,64,2,true,0.5,0.5,800,8\n"
    "layout,224,fast,fp32,64,2,false,0.75,0.5,800,9\n";

/* A run of two epochs; only the second counts, as the second attempt ended it,
 * with 2 iterations of 2 ranks of which one measured no copy. */
static void add_batch(const char *id, int size, int gpus, int layout,
                      double data, int batch)
{
    json_t *train =
        json_pack("{s:i,s:s}", "batch_size", batch, "precision", "fp32");
    if (layout >= 0)
        (void)json_object_set_new(train, "channels_last", json_boolean(layout));
    json_t *job = json_pack("{s:{s:s,s:s,s:i,s:{s:{s:i,s:s},s:o}}}", "job",
                            "state", "COMPLETED", "display_id", id, "gpus",
                            gpus, "spec", "dataset", "image_size", size,
                            "data_path", "fast", "train", train);
    json_t *epochs =
        json_pack("{s:[s,s,s],s:[[i,i,f],[i,i,f]]}", "columns", "attempt",
                  "epoch", "samples_per_s", "rows", 1, 1, 1.0, 2, 2, 800.0);
    json_t *its = json_pack(
        "{s:[s,s,s,s],s:[[i,i,f,f],[i,i,f,f],[i,i,f,f],[i,i,f,f],[i,i,f,n]]}",
        "columns", "attempt", "epoch", "t_data", "t_h2d", "rows", 1, 1, 9.0,
        9.0, 1, 2, 9.0, 9.0, 2, 2, data, 0.25, 2, 2, 3 * data, 0.75, 2, 2,
        2 * data);
    const struct report_run run = {
        .job = job, .epochs = epochs, .iterations = its};
    ok(report_add_run(&r, &run, &err) == 0, "%s is added", id);
    json_decref(job);
    json_decref(epochs);
    json_decref(its);
}

static void add(const char *id, int size, int gpus, int layout, double data)
{
    add_batch(id, size, gpus, layout, data, 64);
}

static char *shown(void)
{
    char *text = NULL;
    size_t n = 0;
    const struct render_style style = {.ascii = true};
    FILE *f = open_memstream(&text, &n);
    ok(report_show(&r, &style, true, f, &err) == 0, "is shown");
    (void)fclose(f);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!ok(strstr(text, part) != NULL, "says: %s", part))
        tap_diag("%s", text);
}

int main(void)
{
    if (!ok(paper_load("layout", &r.paper, &err) == 0, "the report exists"))
        return tap_done();
    report_begin(&r);
    char *text = shown();
    has(text, "missing: no run yet; mgpu-submit jobs/paper/layout.yaml");
    free(text);
    add("9", 224, 2, 0, 0.375);
    add("8", 224, 2, 1, 0.25);
    add("7", 224, 2, 1, 5); /* older: not counted */
    add("6", 100, 2, -1, 0.1);
    add("5", 224, 1, 0, 0.125);
    add_batch("4", 224, 1, 1, 0.125, 32);
    r.n_denied = 2;
    json_t *open = json_pack("{s:{s:s}}", "job", "state", "RUNNING");
    const struct report_run run = {.job = open};
    ok(report_add_run(&r, &run, &err) == 0, "a job that runs is counted");
    json_decref(open);
    is_int((int64_t)r.n_rows, 5, "a row for each size, batch, number, layout");
    ok(report_finish(&r, NULL, &err) == 0, "is finished");
    text = shown();
    is_str(text, table, "the table: means of the last epoch, by its keys");
    free(text);
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    ok(report_csv(&r, f, &err) == 0, "is written");
    (void)fclose(f);
    is_str(text, csv, "the CSV");
    free(text);
    report_clear(&r);
    return tap_done();
}
