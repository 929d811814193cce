/* spec_launch.c - how the processes of a command are started: words, the
 * default, and the variables that are then not the job's to set. */
#include <stdio.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "tests/tap.h"

#define CMD "version: 1\nkind: command\ncommand: [ls]\n"

static const struct spec_options here = {.file = "/data/a.yaml",
                                         .home = "/home/ann"};

static void test_words(void)
{
    static const struct {
        const char *line;
        enum spec_launch want;
    } rows[] = {{"", LAUNCH_RANKS},
                {"launch: ranks\n", LAUNCH_RANKS},
                {"launch: torch\n", LAUNCH_TORCH},
                {"launch: mpi\n", LAUNCH_MPI},
                {"launch: node\n", LAUNCH_NODE}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200];
        struct job_spec s;
        struct spec_report r;
        struct error err = ERROR_INIT;
        (void)snprintf(text, sizeof(text), "%s%s", CMD, rows[i].line);
        if (!ok(spec_parse(text, strlen(text), &here, &s, &r, &err) == 0,
                "row %zu is read %s", i, err.msg))
            continue;
        is_int((int)s.launch, (int)rows[i].want, "means");
        diagnostics_clear(&r);
        spec_clear(&s);
    }
}

static const struct {
    const char *name, *text, *codes;
} bad[] = {
    {"another word", CMD "launch: torchrun\n", "E012 4:9 "},
    {"of training",
     "version: 1\nkind: cv\ndataset: {source: synthetic}\n"
     "launch: torch\n",
     "E018 4:1 "},
    {"the rank", CMD "launch: torch\nenv: {RANK: '0'}\n", "E019 5:7 "},
    {"the port", CMD "launch: node\nenv: {MASTER_PORT: '1'}\n", "E019 5:7 "},
    {"of torchrun", CMD "launch: node\nenv: {RANK: '0', PET_NNODES: '2'}\n",
     ""},
    {"home-made", CMD "env: {RANK: '0', MASTER_ADDR: n1}\n", ""},
    {"passed through", CMD "launch: torch\nenv_passthrough: [WORLD_SIZE]\n",
     "E019 5:19 "},
    {"a secret", CMD "launch: torch\nsecrets: [GROUP_RANK]\n", "E019 5:11 "},
};

static void test_bad(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char got[200] = "";
        struct job_spec s;
        struct spec_report r;
        struct error err = ERROR_INIT;
        if (spec_parse(bad[i].text, strlen(bad[i].text), &here, &s, &r, &err) ==
            0)
            spec_clear(&s);
        for (size_t k = 0; k < r.n; k++) {
            size_t len = strlen(got);
            (void)snprintf(got + len, sizeof(got) - len, "%s %d:%d ",
                           r.findings[k].code, r.findings[k].line,
                           r.findings[k].column);
        }
        is_str(got, bad[i].codes, bad[i].name);
        diagnostics_clear(&r);
    }
}

int main(void)
{
    test_words();
    test_bad();
    return tap_done();
}
