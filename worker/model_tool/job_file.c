/* job_file.c - see job_file.h. */
#include "worker/model_tool/job_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "jobs/base/buf.h"

/* As the daemon accepts one. */
enum { FILE_MAX_BYTES = 1 << 20 };

int job_file_read(const char *file, struct job_spec *ret, struct error *err)
{
    struct buf text = BUF_INIT, findings = BUF_INIT;
    struct spec_options opt = {.file = file,
                               .home = getenv("HOME"),
                               .user = getenv("USER"),
                               .draw_seed = true};
    struct spec_report report = {.n = 0};
    struct job_spec s;
    if (buf_read_file(&text, file, FILE_MAX_BYTES, err) < 0) {
        buf_clear(&text);
        return -1;
    }
    int rc = spec_parse(buf_str(&text), text.len, &opt, &s, &report, err);
    if (report.n > 0 && spec_report_print(&report, file, buf_str(&text),
                                          text.len, &findings, NULL) == 0)
        (void)fputs(buf_str(&findings), stderr);
    spec_report_clear(&report);
    buf_clear(&findings);
    buf_clear(&text);
    if (rc < 0)
        return error_wrap(err, "%s", file);
    if (s.kind != SPEC_LLM) {
        spec_clear(&s);
        return error_set(err, ERR_INVAL, "%s: not a job of kind: llm", file);
    }
    *ret = s;
    return 0;
}
