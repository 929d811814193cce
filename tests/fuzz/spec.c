/* spec.c - any bytes as a job specification, and any findings as a report.
 *
 * What is accepted must survive its dump: the same again, without a file.
 */
#include "jobs/spec/spec.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/schema/interpolate.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void report(const struct spec_report *r, const char *text, size_t len)
{
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;
    if (r->n > 50 || r->n > r->n_errors + r->n_warnings)
        abort();
    if (diagnostics_print(r, "fuzz.yaml", text, len, &out, &err) < 0)
        abort();
    for (size_t i = 0; i < out.len; i++) /* nothing that a terminal obeys */
        if ((unsigned char)out.data[i] < 0x20 && out.data[i] != '\n')
            abort();
    buf_reset(&out);
    if (diagnostics_json(r, "fuzz.yaml", &out, &err) < 0)
        abort();
    buf_clear(&out);
}

/* What has been accepted of somebody can be put in for him. */
static void fill(struct job_spec *s)
{
    const struct fill_vars v = {.name = s->name,
                                .user = "ann",
                                .output_dir = "/o",
                                .job = 1,
                                .task = 2,
                                .attempt = 3};
    struct error err = ERROR_INIT;
    if (spec_fill(s, &v, &err) < 0)
        abort();
}

static void round_trip(const struct job_spec *s)
{
    struct buf one = BUF_INIT, two = BUF_INIT;
    struct spec_report r;
    struct job_spec again;
    struct error err = ERROR_INIT;
    if (spec_dump(s, &one, &err) < 0)
        abort();
    if (spec_parse(one.data, one.len, NULL, &again, &r, &err) < 0) {
        diagnostics_clear(&r);
        /* Quoting may take a dump over the limit of a file. */
        if (one.len <= 1 << 20)
            abort();
        buf_clear(&one);
        return;
    }
    if (spec_dump(&again, &two, &err) < 0 || one.len != two.len ||
        memcmp(one.data, two.data, one.len) != 0)
        abort();
    spec_clear(&again);
    diagnostics_clear(&r);
    buf_clear(&one);
    buf_clear(&two);
}

/* The jobs of the text; those of what would travel are as many. */
static int expand(const char *text, size_t len, const struct spec_options *opt,
                  bool *ret_is_sweep)
{
    struct spec_report r = {.n = 0}, r2 = {.n = 0};
    struct spec_jobs jobs = {.n = 0}, again = {.n = 0};
    struct error err = ERROR_INIT;
    int rc = spec_expand(text, len, opt, &jobs, &r, &err);
    if ((rc == 0) != (r.n_errors == 0) || (rc == 0 && jobs.n < 1))
        abort();
    report(&r, text, len);
    *ret_is_sweep = jobs.is_sweep;
    if (rc == 0 && jobs.is_sweep) {
        size_t size = strlen(jobs.text);
        const struct spec_options there = {.user = "ann"};
        if (spec_expand(jobs.text, size, &there, &again, &r2, &err) < 0) {
            if (size <= 1 << 20) /* quoting may take it over the limit */
                abort();
        } else if (again.n != jobs.n) {
            abort();
        }
    }
    spec_jobs_clear(&jobs);
    spec_jobs_clear(&again);
    diagnostics_clear(&r);
    diagnostics_clear(&r2);
    return rc;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    const struct spec_options opt = {
        .file = "/a/fuzz.yaml", .home = "/h", .user = "ann"};
    struct job_spec s;
    struct spec_report r;
    struct buf shown = BUF_INIT;
    struct error err = ERROR_INIT;
    char *text = malloc(size + 1); /* what lies behind is not ours */
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);

    /* The first line, after "--set ", is a --set; the rest is the file. */
    const char *body = text;
    size_t len = size;
    char key[64] = "", value[200] = "";
    struct spec_set set = {key, value, NULL};
    struct spec_options with = opt;
    const char *end = size > 6 && memcmp(text, "--set ", 6) == 0
                          ? memchr(text, '\n', size)
                          : NULL;
    const char *equals = end ? memchr(text, '=', (size_t)(end - text)) : NULL;
    if (equals && equals - text - 6 < 64 && end - equals - 1 < 200) {
        memcpy(key, text + 6, (size_t)(equals - text - 6));
        memcpy(value, equals + 1, (size_t)(end - equals - 1));
        with.sets = &set;
        with.n_sets = 1;
        body = end + 1;
        len = size - (size_t)(body - text);
    }

    bool is_sweep = false;
    int expanded = expand(body, len, &with, &is_sweep);
    int rc = spec_parse(body, len, &with, &s, &r, &err);
    if ((rc == 0) != (r.n_errors == 0))
        abort();
    report(&r, body, len);
    if (!is_sweep && expanded != rc) /* a text of one job is the same to both */
        abort();
    if ((spec_show(body, len, &with, &shown, &err) == 0) != (expanded == 0))
        abort();
    if (rc == 0) {
        round_trip(&s);
        fill(&s);
        spec_clear(&s);
    }
    diagnostics_clear(&r);
    buf_clear(&shown);
    free(text);
    return 0;
}
