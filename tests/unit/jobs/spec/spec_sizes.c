/* spec_sizes.c - resources.gpu_memory: what is a range of sizes, as it is
 * dumped, and what is none. */
#include <stdio.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "tests/tap.h"

#define HEAD "version: 1\nkind: command\ncommand: [ls]\nresources: {"

static const struct {
    const char *text, *want; /* as dumped, or the first finding */
} rows[] = {
    {"gpu_memory: 40G..", "\"40G..\""},
    {"gpu_memory: 40960MiB..80G", "\"40G..80G\""},
    {"gpu_memory: ..80G", "\"..80G\""},
    {"gpu_memory: 40G", "\"40G\""},
    {"gpu_memory: 85520809983B..", "\"85520809983B..\""},
    {"gpu_memory: {max: 80G, min: 40G}", "\"40G..80G\""},
    {"gpu_memory: {min: 1536M}", "\"1536M..\""},
    {"gpu_memory: ~, gpus: 0", "null"},
    {"gpu_memory: 40", "E021 4:25"},
    {"gpu_memory: 80G..40G", "E021 4:25"},
    {"gpu_memory: ..", "E021 4:25"},
    {"gpu_memory: 40G..x", "E021 4:25"},
    {"gpu_memory: 0B..", "E021 4:25"},
    {"gpu_memory: 2048T", "E021 4:25"},
    {"gpu_memory: 40G..80G..", "E021 4:25"},
    {"gpu_memory: {min: 4x}", "E021 4:31"},
    {"gpu_memory: {min: 8G, max: 4G}", "E021 4:25"},
    {"gpu_memory: {least: 4G}", "E010 4:26"},
    {"gpu_memory: {min: [4G]}", "E011 4:31"},
    {"gpu_memory: {}", "E011 4:25"},
    {"gpu_memory: [4G]", "E011 4:25"},
    {"gpus: 0, gpu_memory: 4G..", "E017 4:34"},
};

/* What stands behind the key in a dump. */
static void dumped(const struct job_spec *s, char *out, size_t cap)
{
    static const char key[] = "\"gpu_memory\":";
    struct buf dump = BUF_INIT;
    struct error err = ERROR_INIT;
    const char *p =
        spec_dump(s, &dump, &err) == 0 ? strstr(buf_str(&dump), key) : NULL;
    if (p)
        p += sizeof(key) - 1;
    (void)snprintf(out, cap, "%.*s", p ? (int)strcspn(p, ",}") : 0, p ? p : "");
    buf_clear(&dump);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200], got[64] = "nothing";
        struct job_spec s;
        struct spec_report r;
        struct error err = ERROR_INIT;
        (void)snprintf(text, sizeof(text), HEAD "%s}\n", rows[i].text);
        if (spec_parse(text, strlen(text), NULL, &s, &r, &err) == 0) {
            dumped(&s, got, sizeof(got));
            spec_clear(&s);
        } else if (r.n > 0) {
            (void)snprintf(got, sizeof(got), "%s %d:%d", r.findings[0].code,
                           r.findings[0].line, r.findings[0].column);
        }
        is_str(got, rows[i].want, rows[i].text);
        diagnostics_clear(&r);
    }
    return tap_done();
}
