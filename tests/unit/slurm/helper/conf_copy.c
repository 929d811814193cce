/* conf_copy.c - slurm.conf with another time-out. */
#include "slurm/helper/conf_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

static void is_copy(const char *text, const char *want)
{
    struct buf out = BUF_INIT;
    ok(conf_copy_text(text, "/etc/s", 5, &out, NULL) == 0, "copied");
    char all[512];
    (void)snprintf(all, sizeof(all), "%s\nMessageTimeout=5\n", want);
    is_str(buf_str(&out), all, "as wanted");
    buf_clear(&out);
}

static void test_text(void)
{
    is_copy("", "");
    is_copy("A=1\nB=2", "A=1\nB=2");
    is_copy("A=1\nMessageTimeout=100\nB=2\n", "A=1\nB=2\n");
    is_copy("messagetimeout = 100 # slow\n", "");
    is_copy(" \tMessageTimeout\t100\nB=2\n", "B=2\n");
    is_copy("#MessageTimeout=7\n", "#MessageTimeout=7\n");
    is_copy("MessageTimeoutX=7\n", "MessageTimeoutX=7\n");
    is_copy("Include nodes.conf\n", "Include /etc/s/nodes.conf\n");
    is_copy("  include\tsub/%c.conf # x\n", "Include /etc/s/sub/%c.conf # x\n");
    is_copy("Include /abs/nodes.conf\n", "Include /abs/nodes.conf\n");
    is_copy("IncludeX=nodes.conf\n", "IncludeX=nodes.conf\n");
    is_copy("A=1,\\\nInclude x\nB=2\n", "A=1,\\\nInclude x\nB=2\n");
    is_copy("Include", "Include");
    is_copy("MessageTimeout", "MessageTimeout");
}

static void test_file(void)
{
    char path[] = "/tmp/conf_copy.XXXXXX";
    char copy[64];
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    int fd = mkstemp(path);
    int to = -1;
    if (fd < 0 || write(fd, "A=1\n", 4) != 4)
        ok(false, "a file");
    ok(conf_copy(path, 3, &to, &err) == 0, "copy: %s", err.msg);
    (void)snprintf(copy, sizeof(copy), "/proc/self/fd/%d", to);
    ok(buf_read_file(&b, copy, 4096, &err) == 0, "can be opened by its path");
    is_str(buf_str(&b), "A=1\n\nMessageTimeout=3\n", "and read");
    buf_clear(&b);
    (void)close(to);
    (void)close(fd);
    (void)unlink(path);
    to = -1;
    ok(conf_copy(path, 3, &to, &err) == -1 && err.code == ERR_NOTFOUND &&
           to == -1,
       "no file: %s", err.msg);
    ok(conf_copy("slurm.conf", 3, &to, &err) == -1 && err.code == ERR_CONFIG,
       "a relative path: %s", err.msg);
}

int main(void)
{
    test_text();
    test_file();
    return tap_done();
}
