/* llm_spec.h - jobs of kind llm, for the tests of their specification. A part
 * of the file that includes it. */
#ifndef MGPU_TESTS_UNIT_JOBS_SPEC_LLM_SPEC_H
#define MGPU_TESTS_UNIT_JOBS_SPEC_LLM_SPEC_H

#include <string.h>

#include "jobs/spec/spec.h"
#include "tests/tap.h"
#include "tests/unit/jobs/findings.h"

#define HEAD "version: 1\nkind: llm\n"
#define DATA                                 \
    "  checkpointer: {checkpoint_dir: /m}\n" \
    "  dataset: {template: alpaca, path: d}\n"
#define LORA HEAD "method: lora\ntrain:\n" DATA
#define FULL HEAD "method: full\ntrain:\n" DATA
#define DPO                                                            \
    HEAD "method: dpo\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n" \
         "  dataset: {template: preference, path: /d}\n"
#define LORA_WITH(key)                                                  \
    HEAD "method: lora\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n" \
         "  dataset: {template: alpaca, path: d, " key "}\n"
/* The lines of DATA are 5 and 6: what is added is line 7. */

static const struct spec_options here = {.file = "/data/jobs/a.yaml",
                                         .home = "/home/ann"};
static struct spec_report report;
static struct error err;

static int parse(const char *text, struct job_spec *s)
{
    diagnostics_clear(&report);
    return spec_parse(text, strlen(text), &here, s, &report, &err);
}

static bool is_good(const char *text, struct job_spec *s)
{
    bool good = parse(text, s) == 0;
    if (!ok(good, "is accepted") && report.n > 0)
        tap_diag("%s", report.findings[0].message);
    return good;
}

#endif
