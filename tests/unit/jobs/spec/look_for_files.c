/* look_for_files.c - W104: a working directory or a program that is not on the
 * machine of the submission is a warning there, and nowhere else. */
#include <stdio.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "tests/tap.h"

/* The findings of a command, as "W104 4:10 "; `keys` begin at line 3. */
static const char *findings(const char *keys, bool is_submission)
{
    static char said[200];
    char text[400];
    struct spec_options opt = {.file = "/tmp/job.yaml",
                               .take_env = is_submission};
    struct spec_report r = {.n = 0};
    struct job_spec s;
    struct error err = ERROR_INIT;
    size_t len = 0;
    (void)snprintf(text, sizeof(text), "version: 1\nkind: command\n%s", keys);
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

int main(void)
{
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
