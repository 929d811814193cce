/* report_methods.c - the comparison of methods: figures, ratios, and what is
 * said of the order that the paper states. */
#include "scheduler/tools/export/report_methods.h"

#include <math.h>
#include <string.h>

#include "tests/tap.h"

static struct methods_report r;

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
    methods_add_run(&r, job, epochs, profile);
    json_decref(job);
    json_decref(epochs);
    json_decref(profile);
}

static char *shown(void)
{
    char *text = NULL;
    size_t n = 0;
    struct error err = ERROR_INIT;
    const struct render_style style = {.ascii = true};
    FILE *f = open_memstream(&text, &n);
    ok(methods_show(&r, &style, true, f, &err) == 0, "is shown");
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
    has(text, "missing: no run yet");
    free(text);
    add("9", "qat", 2, 4, 900, false);
    add("8", "dpo", 2, 3, 700, false);
    add("7", "lora", 2, 2, 800, false);
    add("6", "lora", 2, 50, 1, false); /* older: not counted */
    add("5", "lora", 1, 1, 500, true);
    is_int((int64_t)r.n, 4, "a row for each method and number of GPUs");
    text = shown();
    ok(strcmp(r.rows[0].display_id, "5") == 0 && r.rows[1].gpus == 2 &&
           strcmp(r.rows[1].method, "lora") == 0 &&
           strcmp(r.rows[3].method, "qat") == 0,
       "by GPUs, and then in the paper's order");
    ok(r.rows[1].v[0] == 2 && r.rows[1].v[1] == 400 && r.rows[1].v[2] == 800 &&
           r.rows[1].v[3] == 500 && r.rows[1].v[4] == 2048 &&
           r.rows[1].is_planned && !r.rows[0].is_planned,
       "figures of an iteration and of a rank; a repeated epoch counts once");
    has(text, "1.50 x"); /* dpo's time beside lora's */
    has(text, "LoRA is faster than DPO: holds (2 s and 3 s of dpo)");
    has(text, "LoRA is smaller than DPO: does not hold (800 B and 700 B");
    has(text, "QAT is the slowest: holds (3 s and 4 s of qat)");
    has(text, "QAT is the largest: holds (800 B and 900 B of qat)");
    has(text, "LoRA is faster than DPO: not known, a run is missing");
    has(text, "memory: where no GPU measured it");
    free(text);
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    methods_csv(&r, f);
    (void)fclose(f);
    has(text, "\nmethods,2,dpo,3,400,700,true,500,2048,8\n");
    free(text);
    return tap_done();
}
