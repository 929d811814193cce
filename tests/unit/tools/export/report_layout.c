/* report_layout.c - the comparison of layouts: figures of the last epoch, and
 * ratios. */
#include "scheduler/tools/export/report_layout.h"

#include <string.h>

#include "tests/tap.h"

static struct layout_report r;

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
    layout_add_run(&r, job, epochs, its);
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
    struct error err = ERROR_INIT;
    const struct render_style style = {.ascii = true};
    FILE *f = open_memstream(&text, &n);
    ok(layout_show(&r, &style, true, f, &err) == 0, "is shown");
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
    layout_add_run(&r, open, NULL, NULL);
    json_decref(open);
    is_int((int64_t)r.n, 5, "a row for each size, batch, number and layout");
    text = shown();
    is_str(r.rows[0].display_id, "6", "by size");
    ok(r.rows[0].channels_last, "a run that does not say so is NHWC");
    is_str(r.rows[1].display_id, "4", "then by batch");
    is_str(r.rows[2].display_id, "5", "then by GPUs");
    is_str(r.rows[3].display_id, "8", "then NHWC before NCHW");
    ok(r.rows[3].v[0] == 0.5 && r.rows[3].v[1] == 0.5 && r.rows[3].v[2] == 800,
       "means of the last epoch, of what was measured");
    has(text, "750.000 ms  1.50 x  500.000 ms  1.00 x       800  1.00 x    9");
    has(text, "250.000 ms       -  500.000 ms       -       800       -    5");
    has(text, "not completed: 1 job\n");
    has(text, "of other users, left out: 2 jobs\n");
    free(text);
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    layout_csv(&r, f);
    (void)fclose(f);
    has(text, "\nlayout,224,fast,fp32,64,2,true,0.5,0.5,800,8\n");
    has(text, "\nlayout,224,fast,fp32,64,2,false,0.75,0.5,800,9\n");
    free(text);
    return tap_done();
}
