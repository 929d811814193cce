/* secrets_file.c - files of secrets: which are taken, which are not, and that
 * what is said of them has nothing of their content. */
#include "jobs/spec/secrets_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

#define CMD "version: 1\nkind: command\ncommand: [ls]\n"

static char home[] = "/tmp/mgpu-secrets.XXXXXX";

static const char *path_of(const char *name)
{
    static char path[200];
    (void)snprintf(path, sizeof(path), "%s/" SECRET_DIR "/%s", home, name);
    return path;
}

static void put(const char *name, const char *text, size_t n, mode_t mode)
{
    FILE *f = fopen(path_of(name), "w");
    bool is_there = f && fwrite(text, 1, n, f) == n;
    if (f && fclose(f) != 0)
        is_there = false;
    if (!is_there || chmod(path_of(name), mode) < 0)
        ok(false, "cannot write %s", path_of(name));
}

static int read_names(const char *first, const char *second,
                      struct spec_map *ret, struct error *err)
{
    char *items[] = {(char *)first, (char *)second};
    const struct spec_list names = {items, second ? 2 : 1};
    return secrets_read(&names, home, ret, err);
}

/* Both look and read say so, unless only reading finds it. */
static void refused(const char *name, enum err_code want, const char *said,
                    bool only_when_read)
{
    struct spec_map m = {.n = 77};
    struct error err = ERROR_INIT;
    ok(secret_look(name, home, &err) == (only_when_read ? 0 : -1), "%s: look",
       name);
    err = (struct error)ERROR_INIT;
    ok(read_names(name, NULL, &m, &err) < 0, "%s is refused", name);
    ok(err.code == want, "  %s", err.msg);
    ok(strstr(err.msg, said) && strstr(err.msg, path_of(name)),
       "  it says why, and of which file");
    ok(!strstr(err.msg, "hunter"), "  and not what is in it");
    is_int((long long)m.n, 77, "  the result is untouched");
}

static void test_good(void)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {{"PLAIN", "hunter2", "hunter2"},
                {"LINE", "hunter2\n", "hunter2"},
                {"DOS", "hunter2\r\n", "hunter2"},
                {"LINES", "a\n\nb\n\n", "a\n\nb\n"},
                {"BLANKS", " hunter 2 ", " hunter 2 "},
                {"NO_UTF8", "\xe9\x1b${x}", "\xe9\x1b${x}"}};
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct spec_map m = {.n = 0};
        put(rows[i].name, rows[i].text, strlen(rows[i].text), 0600);
        ok(secret_look(rows[i].name, home, &err) == 0, "%s: look",
           rows[i].name);
        is_int(read_names(rows[i].name, NULL, &m, &err), 0, "  is read");
        is_str(m.n == 1 ? m.pairs[0].value : err.msg, rows[i].want,
               "  its value");
        secrets_clear(&m);
        is_int((long long)m.n, 0, "  and is cleared");
    }
    struct spec_map m = {.n = 0};
    if (chmod(path_of("PLAIN"), 0400) < 0)
        ok(false, "chmod");
    is_int(read_names("PLAIN", "LINES", &m, &err), 0, "two; one is read-only");
    ok(m.n == 2 && strcmp(m.pairs[1].key, "LINES") == 0, "  in their order");
    secrets_clear(&m);
    is_int(read_names("PLAIN", "NOWHERE", &m, &err), -1, "one of two: none");
    is_int((long long)m.n, 0, "  nothing is kept");
    if (setenv("HOME", home, 1) < 0)
        ok(false, "setenv");
    is_int(secret_look("PLAIN", NULL, &err), 0, "$HOME is the home");
}

static void test_bad(void)
{
    static char big[SECRET_MAX_BYTES + 1];
    struct spec_map m = {.n = 0};
    struct error err = ERROR_INIT;

    refused("NOWHERE", ERR_NOTFOUND, "No such file", false);
    put("GROUP", "hunter2", 7, 0640);
    refused("GROUP", ERR_DENIED, "mode 0600", false);
    put("WORLD", "hunter2", 7, 0604);
    refused("WORLD", ERR_DENIED, "mode 0600", false);
    put("WRITTEN", "hunter2", 7, 0620);
    refused("WRITTEN", ERR_DENIED, "mode 0600", false);
    if (mkdir(path_of("DIR"), 0700) < 0 || mkfifo(path_of("PIPE"), 0600) < 0)
        ok(false, "mkdir, mkfifo");
    refused("DIR", ERR_DENIED, "is a directory", false);
    refused("PIPE", ERR_DENIED, "not a regular file", false);
    if (geteuid() == 0) {
        put("OTHERS", "hunter2", 7, 0600);
        if (chown(path_of("OTHERS"), 12345, 12345) < 0)
            ok(false, "chown");
        refused("OTHERS", ERR_DENIED, "not a file of the job's user", false);
    }
    put("EMPTY", "", 0, 0600);
    refused("EMPTY", ERR_INVAL, "is empty", true);
    put("NEWLINE", "\n", 1, 0600);
    refused("NEWLINE", ERR_INVAL, "is empty", true);
    put("NUL", "hunter\0", 8, 0600);
    refused("NUL", ERR_INVAL, "NUL byte", true);
    memset(big, 'x', sizeof(big));
    put("BIG", big, sizeof(big), 0600);
    refused("BIG", ERR_LIMIT, "longer than 32768 bytes", true);
    put("FITS", big, SECRET_MAX_BYTES, 0600);
    is_int(read_names("FITS", NULL, &m, &err), 0, "of 32 KiB");
    ok(m.n == 1 && strlen(m.pairs[0].value) == SECRET_MAX_BYTES, "  all of it");
    secrets_clear(&m);
}

/* Where the submitter looks, and what a report shows of a line. */
static void test_reports(void)
{
    static const char text[] = CMD "secrets: [A,\n B]\n";
    static const char shown[] = CMD "env: {A: hunter1, B_KEY: hunter2}\n";
    struct spec_options opt = {.take_env = true, .home = "/nowhere"};
    struct job_spec s;
    struct spec_report r;
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;

    is_int(spec_parse(text, strlen(text), &opt, &s, &r, &err), 0,
           "S11: secrets that are not here");
    ok(r.n == 2 && strcmp(r.findings[1].code, "W103") == 0 &&
           r.findings[1].line == 5 && r.findings[1].column == 2,
       "  are a warning each");
    ok(strstr(r.findings[1].message, "/nowhere/.config/mgpu/secrets/B"),
       "  with the file: %s", r.findings[1].message);
    spec_clear(&s);
    diagnostics_clear(&r);

    opt.take_env = false;
    is_int(spec_parse(text, strlen(text), &opt, &s, &r, &err), 0,
           "where the daemon reads it");
    is_int((long long)r.n, 0, "  nobody looks");
    spec_clear(&s);
    diagnostics_clear(&r);

    is_int(spec_parse(shown, strlen(shown), &opt, &s, &r, &err), -1, "E025");
    is_int(diagnostics_print(&r, "a.yaml", shown, strlen(shown), &out, &err), 0,
           "  is printed");
    ok(strstr(buf_str(&out), "a.yaml:4:19: error[E025]: 'B_KEY' looks") &&
           strstr(buf_str(&out), "under 'secrets:' instead"),
       "  with its place and what to write: %s", buf_str(&out));
    ok(!strstr(buf_str(&out), "hunter"), "  and without the line");
    buf_clear(&out);
    diagnostics_clear(&r);

    opt.is_stored = true;
    is_int(spec_parse(shown, strlen(shown), &opt, &s, &r, &err), 0,
           "of a job that was taken it is no error");
    is_int((long long)r.n, 0, "  nor a warning");
    spec_clear(&s);
    diagnostics_clear(&r);
}

int main(void)
{
    char path[200];
    if (!mkdtemp(home))
        return 1;
    (void)snprintf(path, sizeof(path), "%s/.config", home);
    if (mkdir(path, 0700) < 0)
        return 1;
    (void)snprintf(path, sizeof(path), "%s/.config/mgpu", home);
    if (mkdir(path, 0700) < 0 || mkdir(path_of(""), 0700) < 0)
        return 1;
    test_good();
    test_bad();
    test_reports();
    (void)snprintf(path, sizeof(path), "rm -rf %s", home);
    return system(path) == 0 ? tap_done() : 1; // NOLINT(cert-env33-c)
}
