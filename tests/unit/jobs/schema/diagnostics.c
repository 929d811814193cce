/* diagnostics.c - findings as a person reads them and as JSON. */
#include "jobs/schema/diagnostics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

/* One character wide. */
#define AT(l, c) ((struct mark){.line = (l), .column = (c), .width = 1})

static void parse(const char *text, size_t len, const struct spec_set *sets,
                  size_t n_sets, struct spec_report *r)
{
    struct spec_options opt = {
        .file = "/d/bad.yaml", .sets = sets, .n_sets = n_sets};
    struct job_spec s;
    if (spec_parse(text, len, &opt, &s, r, NULL) == 0)
        spec_clear(&s);
}

static void check_print(const char *text, const struct spec_set *sets,
                        size_t n_sets, const char *want, const char *name)
{
    struct spec_report r;
    struct buf out = BUF_INIT;
    parse(text, strlen(text), sets, n_sets, &r);
    is_int(diagnostics_print(&r, "bad.yaml", text, strlen(text), &out, NULL), 0,
           name);
    is_str(buf_str(&out), want, name);
    buf_clear(&out);
    diagnostics_clear(&r);
}

/* What an option said has its name in place of a line. */
static void test_options(void)
{
    struct spec_set gpus = {"resources.gpus", "4..2", "--gpus"};
    check_print("version: 1\nkind: cv\ndataset: {source: synthetic}\n", &gpus,
                1,
                "--gpus: error[E021]: 'resources.gpus': 4..2 has its larger "
                "end first\n1 error; nothing was submitted.\n",
                "an option has its name");
    gpus = (struct spec_set){"labels.a", "\x1b", "--label"};
    check_print("version: 1\nkind: cv\ndataset: {source: synthetic}\n", &gpus,
                1,
                "--label:1: error[E007]: control character U+001B is not "
                "accepted\n1 error; nothing was submitted.\n",
                "also where its value is read");
}

static void test_golden(void)
{
    check_print("kind: cv\n"
                "dataset: {source: synthetic}\n"
                "train:\n"
                "  batchsize: 64\n"
                "resources:\n"
                "  time_limit: 4:00\n"
                "name: \"a\xe2\x80\xae"
                "b\"\n",
                NULL, 0,
                "bad.yaml:1:1: warning[W001]: 'version' is missing; 1 is "
                "assumed\n"
                "    1 | kind: cv\n"
                "      | ^\n"
                "      hint: begin with version: 1\n"
                "bad.yaml:4:3: error[E010]: unknown key 'train.batchsize'\n"
                "    4 |   batchsize: 64\n"
                "      |   ^~~~~~~~~ did you mean 'batch_size'?\n"
                "bad.yaml:6:15: error[E024]: 'resources.time_limit': '4:00' "
                "is ambiguous (4 hours or 4 minutes)\n"
                "    6 |   time_limit: 4:00\n"
                "      |               ^~~~\n"
                "      hint: write 4h, or 4m, or 4:00:00\n"
                "bad.yaml:7:7: error[E014]: 'name' must be a name, not "
                "'a\\u202eb'\n"
                "    7 | name: \"a\\u202eb\"\n"
                "      |       ^~~~~~~~~~\n"
                "      hint: letters, digits, '.', '_' and '-'; a letter or "
                "digit first; at most 63\n"
                "3 errors, 1 warning; nothing was submitted.\n",
                "as a compiler prints");
    struct spec_set set = {"train.epoch", "3", NULL};
    check_print("version: 1\nkind: cv\ndataset: {source: synthetic}\n", &set, 1,
                "--set: error[E010]: unknown key 'train.epoch'\n"
                "      hint: did you mean 'epochs'?\n"
                "1 error; nothing was submitted.\n",
                "--set has no line");
    check_print("kind: cv\ndataset: {source: synthetic}\n", NULL, 0,
                "bad.yaml:1:1: warning[W001]: 'version' is missing; 1 is "
                "assumed\n"
                "    1 | kind: cv\n"
                "      | ^\n"
                "      hint: begin with version: 1\n"
                "1 warning\n",
                "a warning alone");
    check_print("version: 1\nkind: cv\ndataset: {source: synthetic}\n", NULL, 0,
                "", "nothing to say");
    check_print("", NULL, 0,
                "bad.yaml:1:1: error[E001]: expected a mapping (key: value)\n"
                "    1 | \n"
                "      | ^\n"
                "1 error; nothing was submitted.\n",
                "an empty file has a first line");
    check_print("version: 1\r\nkind: cv\rdataset: {source: x}\r\n", NULL, 0,
                "bad.yaml:3:19: error[E012]: 'dataset.source' must be one "
                "of: mnist, image_folder, synthetic, not 'x'\n"
                "    3 | dataset: {source: x}\n"
                "      |                   ^\n"
                "1 error; nothing was submitted.\n",
                "each way to end a line");
    check_print("version: 1\nkind: cv\ndataset: {source: \xc3\xa9\xc3\xa9, "
                "path: x\tx}\n",
                NULL, 0,
                "bad.yaml:3:19: error[E012]: 'dataset.source' must be one "
                "of: mnist, image_folder, synthetic, not '\xc3\xa9\xc3\xa9'\n"
                "    3 | dataset: {source: \xc3\xa9\xc3\xa9, path: x x}\n"
                "      |                   ^~\n"
                "bad.yaml:3:29: error[E015]: 'dataset.path' must be a path in "
                "one line, not 'x x'\n"
                "    3 | dataset: {source: \xc3\xa9\xc3\xa9, path: x x}\n"
                "      |                             ^~~\n"
                "2 errors; nothing was submitted.\n",
                "columns are letters");
}

/* A long line shows a window around the caret. */
static void test_window(void)
{
    char text[600] = "version: 1\nkind: cv\ndataset: {source: synthetic}\n"
                     "labels: {";
    for (int i = 0; i < 30; i++)
        (void)snprintf(text + strlen(text), 20, "l%02d: abc, ", i);
    (void)snprintf(text + strlen(text), 40, "'-x': 1, z: 2}\n");
    struct spec_report r;
    struct buf out = BUF_INIT;
    parse(text, strlen(text), NULL, 0, &r);
    is_int(diagnostics_print(&r, "a", text, strlen(text), &out, NULL), 0,
           "a long line");
    const char *source = strstr(buf_str(&out), "    4 | ...");
    const char *caret = source ? strstr(source, "^~~~") : NULL;
    const char *what = source ? strstr(source, "'-x'") : NULL;
    const char *next = source ? strchr(source, '\n') + 1 : NULL;
    ok(caret && what && caret - next == what - source,
       "the caret stands under the key");
    buf_clear(&out);
    diagnostics_clear(&r);
}

static void test_json(void)
{
    static const char text[] = "version: 1\nkind: cv\n\"a\\\"b\": 1\n"
                               "dataset: {source: synthetic}\n";
    struct spec_report r;
    struct buf out = BUF_INIT;
    struct spec_set set = {"train.epoch", "3", NULL};
    parse(text, strlen(text), &set, 1, &r);
    is_int(diagnostics_json(&r, "a\"b.yaml", &out, NULL), 0, "JSON");
    /* The keys of the top follow, and there will be more. */
    char *keys = strstr(out.data, "version, ");
    if (ok(keys != NULL, "an unknown key's hint names those there are"))
        *keys = '\0';
    is_str(buf_str(&out),
           "[{\"code\":\"E010\",\"severity\":\"error\",\"file\":\"--set\","
           "\"line\":0,\"column\":0,\"path\":\"train.epoch\",\"message\":"
           "\"unknown key 'train.epoch'\",\"hint\":\"did you mean "
           "'epochs'?\"},"
           "{\"code\":\"E010\",\"severity\":\"error\",\"file\":\"a\\\"b.yaml\","
           "\"line\":3,\"column\":1,\"path\":\"a\\\"b\",\"message\":\"unknown "
           "key 'a\\\"b'\",\"hint\":\"one of: ",
           "with quotes in their place");
    diagnostics_clear(&r);
    diagnostics_clear(NULL);
    buf_reset(&out);
    parse("version: 1\nkind: command\ncommand: [ls]\n", 38, NULL, 0, &r);
    is_int(diagnostics_json(&r, NULL, &out, NULL), 0, "no findings");
    is_str(buf_str(&out), "[]", "are an empty array");
    diagnostics_clear(&r);
    buf_clear(&out);
}

/* Fifty are kept: the first in the file, and errors before warnings. */
static void test_full(void)
{
    struct spec_report r;
    if (diagnostics_init(&r, NULL) < 0)
        return;
    for (int i = 60; i > 0; i--)
        diagnostics_add(&r, "W102", AT(i, 1), NULL, "", "w%d", i);
    is_str(r.findings[0].message, "w1", "the first place is first");
    is_str(r.findings[49].message, "w50", "the last ones go");
    diagnostics_add(&r, "W102", AT(99, 1), NULL, "", "late");
    is_str(r.findings[49].message, "w50", "a late warning does not come in");
    diagnostics_add(&r, "E010", AT(99, 1), NULL, "", "error");
    is_str(r.findings[49].message, "error", "an error does");
    diagnostics_add(&r, "E010", AT(5, 2), NULL, "", "middle");
    is_str(r.findings[5].message, "middle", "in its place");
    is_int((long long)r.n, 50, "fifty in all");
    is_int((long long)r.n_errors, 2, "errors are counted");
    is_int((long long)r.n_warnings, 61, "warnings too");
    diagnostics_add(&r, "E010", AT(1, 1), NULL, "", "%0500d", 1);
    is_int((long long)strlen(r.findings[1].message), 399, "a long message");
    ok(strcmp(r.findings[1].message + 396, "...") == 0, "is marked as cut");
    diagnostics_clear(&r);
}

/* An error is never pushed out by a warning. */
static void test_errors_stay(void)
{
    struct spec_report r;
    if (diagnostics_init(&r, NULL) < 0)
        return;
    for (int i = 2; i < 52; i++)
        diagnostics_add(&r, "E010", AT(i, 1), NULL, "", "e%d", i);
    diagnostics_add(&r, "W102", AT(1, 1), NULL, "", "early");
    is_str(r.findings[0].message, "e2", "fifty errors leave no room");
    is_int((long long)r.n_warnings, 1, "for a warning; it is counted");
    diagnostics_clear(&r);
}

static const struct {
    const char *line, *hint;
} hints[] = {
    {"train: {lr: 3}", "did you mean 'train.optimizer.lr'?"},
    {"epochs: 3", "did you mean 'train.epochs'?"},
    {"trian: {}", "did you mean 'train'?"},
    {"train: {optimiser: {}}", "did you mean 'optimizer'?"},
    {"train: {optimizer: {lrr: 1}}", "did you mean 'lr'?"},
    {"resources: {gpu: 1}", "did you mean 'gpus'?"},
    {"resources: {num_gpus: 1}", "did you mean 'gpus'?"},
    {"train: {optimizer: {learning_rate: 1}}", "did you mean 'lr'?"},
    {"cmd: [ls]", "did you mean 'command'?"},
    {"train: {optimizer: {bet: 1}}", "did you mean 'betas'?"},
    /* Two are meant as well, or none: the keys of the section, as they begin;
     * there will be more of them. */
    {"train: {steps: 1}", "one of: output_dir, resume_from, "},
    {"resources: {xyzzy: 1}", "one of: gpus, nodes, "},
    {"train: {optimizer: {qq: 1}}", "one of: name, lr, "},
    {"train: {precision: fp3}", "did you mean 'fp32'?"},
    {"train: {precision: double}", ""},
    {"train: {distribution: fsdpp}", "did you mean 'fsdp'?"},
    {"train: {epochs: ten}", "1..10000"},
};

static void test_hints(void)
{
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        char text[200];
        struct spec_report r;
        (void)snprintf(text, sizeof(text),
                       "version: 1\nkind: cv\ndataset: {source: synthetic}\n"
                       "%s\n",
                       hints[i].line);
        parse(text, strlen(text), NULL, 0, &r);
        size_t n = strlen(hints[i].hint);
        bool is_begin = n > 2 && strcmp(hints[i].hint + n - 2, ", ") == 0;
        if (is_begin && r.n == 1 && strlen(r.findings[0].hint) > n)
            r.findings[0].hint[n] = '\0';
        is_str(r.n == 1 ? r.findings[0].hint : "no finding", hints[i].hint,
               hints[i].line);
        diagnostics_clear(&r);
    }
}

/* The first finding's place is kept, its line quoted without what is secret. */
static void test_secrets(void)
{
    static const struct {
        const char *text, *want, *name;
    } rows[] = {
        {"env: {HF_TOKEN: hunter2, 'b c': 1}",
         "    1 | env: {HF_TOKEN: ********\n      |                 ^~~~~~~~",
         "what follows on its line goes, too"},
        {"env: {'b c': 1, \"HF_TOKEN\" : hunter2}",
         "    1 | env: {'b c': 1, \"HF_TOKEN\" : ********\n      |       ^~~~~",
         "a mistake before it has its place"},
        {"env:\n  db_password: &a hunter2", "    2 |   db_password: ********\n",
         "a mistake in the value"},
        {"env:\n  API_KEY:\n    {a: hunter2}", "    3 |     ********\n      |",
         "a value on the next line"},
        {"env:\n  API_KEYS: |\n    one\n\n     hunter2\001\n",
         "    5 |      ********\n      |      ^", "far below its key"},
        {"sweep:\n  grid:\n    env.A_SECRET:\n    - !x hunter2",
         "    4 |     ********\n", "one of a list that begins where it does"},
        {"env:\r\n  A_TOKEN:\r\n    - hunter2\r\n", "    3 |     ********\n",
         "with the ends of lines that others have"},
        {"secrets: [A_TOKEN, A_TOKEN]", "secrets: [A_TOKEN, A_TOKEN]",
         "names of secrets are none"},
        {"env: {TOKENIZERS: a, 'b c': 1}", "env: {TOKENIZERS: a, 'b c': 1}",
         "nor is another word"},
        {"train: {sample: {max_new_tokens: x}}",
         "    1 | train: {sample: {max_new_tokens: x}}\n",
         "nor is a number of tokens"},
    };
    static const char head[] = "\nversion: 1\nkind: command\ncommand: [a]\n";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct spec_report r;
        struct buf out = BUF_INIT;
        char text[400];
        (void)snprintf(text, sizeof(text), "%s%s", rows[i].text, head);
        parse(text, strlen(text), NULL, 0, &r);
        int rc =
            diagnostics_print(&r, "s.yaml", text, strlen(text), &out, NULL);
        bool good = rc == 0 && strstr(buf_str(&out), rows[i].want) &&
                    !strstr(buf_str(&out), "hunter");
        ok(good, "S11: %s", rows[i].name);
        if (!good)
            tap_diag("%s", buf_str(&out));
        buf_clear(&out);
        diagnostics_clear(&r);
    }
}

int main(void)
{
    test_secrets();
    test_errors_stay();
    test_hints();
    test_golden();
    test_options();
    test_window();
    test_json();
    test_full();
    return tap_done();
}
