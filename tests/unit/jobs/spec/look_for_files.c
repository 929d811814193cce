/* look_for_files.c - W104: a working directory, a program, a model or data that
 * is not on the machine of the submission is a warning there, and nowhere
 * else. */
#include <stdio.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "tests/tap.h"

/* The findings of a job, as "W104 4:10 "; `keys` begin at line 3. */
static const char *findings_of(const char *kind, const char *keys,
                               bool is_submission)
{
    static char said[200];
    char text[400];
    struct spec_options opt = {.file = "/tmp/job.yaml",
                               .take_env = is_submission};
    struct spec_report r = {.n = 0};
    struct job_spec s;
    struct error err = ERROR_INIT;
    size_t len = 0;
    (void)snprintf(text, sizeof(text), "version: 1\nkind: %s\n%s", kind, keys);
    if (spec_parse(text, strlen(text), &opt, &s, &r, &err) == 0)
        spec_clear(&s);
    said[0] = '\0';
    for (size_t i = 0; i < r.n && len < sizeof(said); i++)
        len += (size_t)snprintf(said + len, sizeof(said) - len, "%s %d:%d ",
                                r.findings[i].code, (int)r.findings[i].line,
                                (int)r.findings[i].column);
    diagnostics_clear(&r);
    return said;
}

static const char *findings(const char *keys, bool is_submission)
{
    return findings_of("command", keys, is_submission);
}

static void test_training(void)
{
    static const char llm[] = "method: lora\n"
                              "train:\n"
                              "  checkpointer: {checkpoint_dir: /no/model}\n"
                              "  tokenizer: {path: /no/tokenizer}\n"
                              "  dataset: {path: /no/data, template: chat}\n"
                              "  dataset_val: {path: /bin, template: chat}\n"
                              "  resume_from: /no/job\n";
    char waits[400];
    (void)snprintf(waits, sizeof(waits), "%sdepends_on: [3]\n", llm);
    is_str(findings_of("llm", llm, true),
           "W104 5:34 W104 6:21 W104 7:19 W104 9:16 ",
           "what a fine-tuning reads, but for what is here");
    is_str(findings_of("llm", llm, false), "", "the daemon does not look");
    is_str(findings_of("llm", waits, true), "",
           "what it waits for may make them");
    is_str(findings_of("cv",
                       "dataset: {source: mnist, path: /no/images}\n"
                       "train: {output_dir: /no/out}\n",
                       true),
           "W104 3:32 ", "images; the job makes its directory");
    is_str(findings_of("cv",
                       "dataset: {source: mnist, path: \"/no/${job_id}\"}\n",
                       true),
           "", "a path with a value that only the job knows");
}

int main(void)
{
    test_training();
    is_str(findings("command: [/no/such, -x]\n", true), "W104 3:11 ",
           "a program that is not here");
    is_str(findings("command: [/no/such, -x]\n", false), "",
           "the daemon does not look");
    is_str(findings("command: [no-such-program]\n", true), "",
           "a name is looked for where the job runs");
    is_str(findings("command: [/bin/sh, /no/such]\n", true), "",
           "one that is here, whatever its arguments");
    is_str(findings("workdir: /no/such\ncommand: [bin/x]\n", true),
           "W104 3:10 ", "a directory that is not here, said once");
    is_str(findings("workdir: /bin\ncommand: [./sh]\n", true), "",
           "a program below a directory");
    is_str(findings("workdir: /bin\ncommand: [./no-such]\n", true),
           "W104 4:11 ", "which may be missing");
    return tap_done();
}
