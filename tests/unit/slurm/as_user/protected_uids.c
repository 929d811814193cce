/* protected_uids.c - whom a system's helper never acts for, by slurm.conf. */
#include "slurm/as_user/protected_uids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static char dir[] = "/tmp/guard.XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static unsigned next;
    char *p = path[next++ % 4];
    (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
    return p;
}

static const char *put(const char *name, const char *text)
{
    const char *path = in_dir(name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
    return path;
}

/* What slurm.conf with this text says of its SlurmUser; "!": an error. */
static const char *says(const char *text)
{
    static char value[32];
    struct error err = ERROR_INIT;
    if (protected_uids_conf_value(put("slurm.conf", text), "SlurmUser", value,
                                  sizeof(value), &err) < 0) {
        tap_diag("%s", err.msg);
        return "!";
    }
    return value;
}

static void test_value(void)
{
    char absolute[200];
    is_str(says(""), "", "nothing is said");
    is_str(says("SlurmUser=slurm\n"), "slurm", "a line");
    is_str(says("\tslurmuser = slurm # who\nSlurmdUser=root\n"), "slurm",
           "blanks, case, a comment");
    is_str(says("SlurmUser=\"slurm\"\r\n"), "slurm", "quotes");
    is_str(says("SlurmUser\\\n=slurm"), "slurm", "a line that goes on");
    is_str(says("# SlurmUser=a \\\nSlurmUser=slurm\n"), "slurm",
           "but no comment does");
    is_str(says("Foo=\\#\\\nSlurmUser=a\nSlurmUser=b#c\n"), "b",
           "'#' as a character");
    is_str(says("#SlurmUser=eve\nSlurmUserX=eve\nx SlurmUser=eve\n"), "",
           "what only looks like it");
    is_str(says("SlurmUser=a\nSlurmUser=b\n"), "b", "the last counts");
    (void)put("more.conf", "SlurmUser=c\nInclude deep.conf\n");
    (void)put("deep.conf", "SlurmUser=d\n");
    is_str(says("SlurmUser=a\ninclude more.conf\n"), "d", "Include");
    (void)snprintf(absolute, sizeof(absolute), "Include %s\nSlurmUser=e\n",
                   in_dir("more.conf"));
    is_str(says(absolute), "e", "by an absolute path");
    is_str(says("Include nowhere.conf\n"), "!", "what is not there");
    is_str(says("Include slurm.conf\n"), "!", "itself");
    is_str(says("SlurmUser=0123456789012345678901234567890\n"),
           "0123456789012345678901234567890", "as long as may be");
    is_str(says("SlurmUser=01234567890123456789012345678901\n"), "!",
           "and longer");
}

static enum err_code check(const char *text, uid_t uid)
{
    struct error err = ERROR_INIT;
    int rc = protected_uids_check(put("slurm.conf", text), uid, &err);
    if (rc < 0)
        tap_diag("%s", err.msg);
    return rc < 0 ? err.code : ERR_NONE;
}

static void test_check(void)
{
    char text[300];
    struct stat st;
    const char *socket = put("socket", "");
    struct error err;
    is_int(check("SlurmUser=5000\n", 5000), ERR_DENIED, "SlurmUser");
    is_int(check("SlurmUser=5000\n", 5001), ERR_NONE, "is another");
    is_int(check("SlurmUser=no-such-user(5000)\n", 5001), ERR_UNAVAIL,
           "who cannot be told may be anybody");
    is_int(check("SlurmUser=root(0)\n", 0), ERR_DENIED, "by name");
    is_int(check("", 0), ERR_DENIED, "root, if nobody is named");
    if (stat(socket, &st) < 0)
        abort();
    (void)snprintf(text, sizeof(text),
                   "SlurmUser=5000\nAuthInfo=ttl=9,socket=%s\n", socket);
    is_int(check(text, st.st_uid), ERR_DENIED, "whoever runs munged");
    is_int(check(text, 5001), ERR_NONE, "does not");
    (void)snprintf(text, sizeof(text),
                   "SlurmUser=5000\nAuthInfo=socket=%s.no\n", socket);
    is_int(check(text, st.st_uid), ERR_NONE, "nobody does");
    ok(protected_uids_check(in_dir("nowhere"), 5000, &err) < 0 &&
           err.code == ERR_UNAVAIL,
       "no slurm.conf: %s", err.msg);
}

int main(void)
{
    char command[64];
    if (mkdtemp(dir) == NULL)
        return 1;
    test_value();
    test_check();
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) == 0 ? tap_done() : 1;
}
