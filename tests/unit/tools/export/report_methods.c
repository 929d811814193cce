/* report_methods.c - the comparison of methods: figures, ratios, and what is
 * said of the order that the paper states. */
#include "scheduler/tools/export/report.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static struct report r;
static struct error err = ERROR_INIT;

static const char table[] =
    "GPUS  METHOD  s/IT   /LORA  TOKENS/S   /LORA  MEMORY   /LORA  H2D/IT   "
    "/LORA  COLLECTIVES/IT   /LORA  JOB\n"
    "   1  lora       1  1.00 x       400  1.00 x   500 B  1.00 x   500 B  "
    "1.00 x         2.0 KiB  1.00 x    5\n"
    "   2  lora       2  1.00 x       400  1.00 x   800 B  1.00 x   500 B  "
    "1.00 x         2.0 KiB  1.00 x    7\n"
    "   2  dpo        3  1.50 x       400  1.00 x   700 B  0.88 x   500 B  "
    "1.00 x         2.0 KiB  1.00 x    8\n"
    "   2  qat        4  2.00 x       400  1.00 x   900 B  1.12 x   500 B  "
    "1.00 x         2.0 KiB  1.00 x    9\n"
    "the order that arXiv 2505.22905 states, on 1 GPU:\n"
    "  LoRA is faster than DPO: not known, a run is missing\n"
    "  LoRA is smaller than DPO: not known, a run is missing\n"
    "  QAT is the slowest: not known, a run is missing\n"
    "  QAT is the largest: not known, a run is missing\n"
    "the order that arXiv 2505.22905 states, on 2 GPUs:\n"
    "  LoRA is faster than DPO: holds (2 s and 3 s of dpo)\n"
    "  LoRA is smaller than DPO: does not hold (800 B and 700 B of dpo)\n"
    "  QAT is the slowest: holds (3 s and 4 s of qat)\n"
    "  QAT is the largest: holds (800 B and 900 B of qat)\n"
    "memory: where no GPU measured it, the bytes that the plan takes\n"
    "H2D and COLLECTIVES: bytes of a rank in an iteration\n";

static const char csv[] =
    "report,resources.gpus,method,s_per_it,tokens_per_s,memory_bytes,memory_is_"
    "planned,h2d_bytes_per_it,collective_bytes_per_it,job\n"
    "methods,1,lora,1,400,500,false,500,2048,5\n"
    "methods,2,lora,2,400,800,true,500,2048,7\n"
    "methods,2,dpo,3,400,700,true,500,2048,8\n"
    "methods,2,qat,4,400,900,true,500,2048,9\n";

/* A run of 10 iterations, of two epochs of 5, of which the first was begun
 * twice. Each rank moves the bytes in all. */
static void add(const char *id, const char *method, int gpus, double s,
                double memory, bool is_gpu)
{
    json_t *job = json_pack("{s:{s:s,s:s,s:i,s:i,s:{s:s}}}", "job", "state",
                            "COMPLETED", "display_id", id, "gpus", gpus,
                            "iteration", 10, "spec", "method", method);
    json_t *epochs =
        json_pack("{s:[s,s,s],s:[[i,f,f],[i,f,f],[i,f,f]]}", "columns", "epoch",
                  "seconds", "tokens_per_s", "rows", 1, 99.0, 1.0, 1, 5 * s,
                  1.0, 2, 5 * s, 400.0);
    json_t *rows = json_array();
    for (int rank = 0; rank < gpus; rank++) {
        (void)json_array_append_new(
            rows, json_pack("[i,s,f]", rank, "memory planned", memory));
        (void)json_array_append_new(
            rows,
            json_pack("[i,s,f]", rank, "host memcpy Host-to-Device", 5000.0));
        (void)json_array_append_new(
            rows, json_pack("[i,s,f]", rank, "MPI all_reduce", 20480.0));
        (void)json_array_append_new(rows,
                                    json_pack("[i,s,n]", rank, "MPI barrier"));
        if (is_gpu)
            (void)json_array_append_new(
                rows, json_pack("[i,s,f]", rank, "memory of the GPU, in use",
                                memory + rank));
    }
    json_t *profile = json_pack("{s:[s,s,s],s:o}", "columns", "rank", "metric",
                                "bytes", "rows", rows);
    const struct report_run run = {
        .job = job, .epochs = epochs, .profile = profile};
    ok(report_add_run(&r, &run, &err) == 0, "%s is added", id);
    json_decref(job);
    json_decref(epochs);
    json_decref(profile);
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
    if (!ok(paper_load("methods", &r.paper, &err) == 0, "the report exists"))
        return tap_done();
    report_begin(&r);
    char *text = shown();
    has(text, "missing: no run yet");
    free(text);
    add("9", "qat", 2, 4, 900, false);
    add("8", "dpo", 2, 3, 700, false);
    add("7", "lora", 2, 2, 800, false);
    add("6", "lora", 2, 50, 1, false); /* older: not counted */
    add("5", "lora", 1, 1, 500, true);
    is_int((int64_t)r.n_rows, 4, "a row for each method and number of GPUs");
    ok(report_finish(&r, NULL, &err) == 0, "is finished");
    text = shown();
    is_str(text, table, "the table, by GPUs and then in the paper's order");
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
