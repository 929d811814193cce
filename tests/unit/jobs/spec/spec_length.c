/* spec_length.c - how many iterations a job of kind llm can have, as far as its
 * specification says: qat that would round none of them is refused. */
#include <stdio.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec/spec.h"
#include "tests/tap.h"

static struct spec_report report;

/* A job of qat that rounds after so many iterations. */
static bool rounds_after(int64_t after, const char *lines, int gpus)
{
    struct buf text = BUF_INIT;
    const struct spec_options here = {.file = "/data/jobs/a.yaml",
                                      .home = "/home/ann"};
    struct error err = ERROR_INIT;
    struct job_spec s;
    if (buf_addf(&text, &err,
                 "version: 1\nkind: llm\nmethod: qat\n"
                 "resources: {gpus: %d}\n"
                 "train:\n"
                 "  checkpointer: {checkpoint_dir: /m}\n"
                 "  quantizer: {fake_quant_after_n_steps: %lld}\n"
                 "  epochs: 2\n"
                 "%s",
                 gpus, (long long)after, lines) < 0)
        return false;
    diagnostics_clear(&report);
    const bool is_good =
        spec_parse(buf_str(&text), text.len, &here, &s, &report, &err) == 0;
    if (is_good)
        spec_clear(&s);
    buf_clear(&text);
    return is_good;
}

#define ROWS "  dataset: {template: alpaca, path: /d, samples: 21}\n"

static void test_length(void)
{
    static const struct {
        const char *name, *lines;
        int gpus, most; /* iterations; 0: the specification does not say */
    } jobs[] = {
        {"rows", ROWS "  batch_size: 2\n", 1, 22},
        {"rows of several batches",
         ROWS "  batch_size: 2\n  gradient_accumulation_steps: 5\n", 1, 6},
        {"rows on four GPUs", ROWS "  batch_size: 2\n", 4, 6},
        {"rows of a global batch",
         ROWS "  batch_size: 2\n  global_batch_size: 8\n", 1, 6},
        {"less than all rows",
         ROWS "  batch_size: 2\n  max_steps_per_epoch: 3\n", 1, 6},
        {"no more than all rows",
         ROWS "  batch_size: 2\n  max_steps_per_epoch: 99\n", 1, 22},
        {"packed rows",
         "  dataset: {template: alpaca, path: /d, samples: 21,\n"
         "            packed: true}\n"
         "  tokenizer: {max_seq_len: 64}\n",
         1, 0},
        {"any number of rows",
         "  dataset: {template: alpaca, path: /d}\n  batch_size: 2\n", 1, 0},
    };
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        const int64_t last =
            jobs[i].most > 0 ? (int64_t)jobs[i].most - 1 : INT32_MAX;
        char want[60];
        if (!ok(rounds_after(last, jobs[i].lines, jobs[i].gpus),
                "%s: rounding after %lld iterations", jobs[i].name,
                (long long)last) &&
            report.n > 0)
            tap_diag("%s", report.findings[0].message);
        if (jobs[i].most == 0)
            continue;
        (void)snprintf(want, sizeof(want), "at most %d iterations",
                       jobs[i].most);
        ok(!rounds_after(last + 1, jobs[i].lines, jobs[i].gpus) &&
               report.n == 1 &&
               strstr(report.findings[0].message, want) != NULL,
           "%s: %s", jobs[i].name, want);
    }
}

int main(void)
{
    test_length();
    diagnostics_clear(&report);
    return tap_done();
}
