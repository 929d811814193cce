/* attempt.c - libFuzzer: what lies in an attempt's directory, where the job
 * may write, and Slurm's own texts; the first byte says which.
 *
 * What is accepted is in its bounds; what can be written again is then read
 * as the same.
 */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slurm/as_user/protected_uids.h"
#include "slurm/batch/end_cause.h"
#include "slurm/helper/conf_copy.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/protocol/batch_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void path_to(const char *name, char ret[128])
{
    (void)snprintf(ret, 128, "%s/%s", dir, name);
}

static void leave(void)
{
    static const char *const names[] = {"exit", "told", "lock", "slurm.conf",
                                        "slurm-7.out"};
    char path[128];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        path_to(names[i], path);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

static void put(const char *name, const char *text, size_t len)
{
    char path[128];
    path_to(name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd) < 0)
        abort();
}

static void begin(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/mgpu-fuzz.XXXXXX");
    if (!mkdtemp(dir) || atexit(leave) != 0)
        abort();
}

/* The first line is the file `told`, the rest `exit`. */
static void end(const char *text, size_t len)
{
    struct attempt_exit x, again;
    struct error err = ERROR_INIT;
    const char *line = memchr(text, '\n', len);
    size_t n = line ? (size_t)(line - text) + 1 : 0;
    put("told", text, n);
    put("exit", text + n, len - n);
    if (attempt_exit_read(dir, &x, &err) < 0) {
        if (err.code == ERR_NONE || err.msg[0] == '\0')
            abort();
        return;
    }
    if (x.code < 0 || x.code > 255 || x.signal < 0 || x.signal > 64 ||
        !isfinite(x.when_s) || !memchr(x.told, '\0', sizeof(x.told)))
        abort();
    if (fabs(x.when_s) > 1e10) /* does not fit where it is written */
        return;
    if (attempt_exit_write(dir, &x, &err) < 0 ||
        attempt_exit_read(dir, &again, &err) < 0 || again.code != x.code ||
        again.signal != x.signal || again.slurm_id != x.slurm_id ||
        strcmp(again.told, x.told) != 0 || fabs(again.when_s - x.when_s) > 0.01)
        abort();
}

static void lock(const char *text, size_t len)
{
    struct attempt_pid pid;
    put("lock", text, len);
    if (attempt_pid_read(dir, &pid, NULL) == 0 && pid.pid <= 1)
        abort();
}

static void batch(const char *text, size_t len)
{
    struct batch_conf c, again;
    struct buf one = BUF_INIT, two = BUF_INIT;
    if (batch_conf_parse(text, len, &c, NULL) < 0)
        return;
    if (batch_conf_encode(&c, &one, NULL) < 0 ||
        batch_conf_parse(one.data, one.len, &again, NULL) < 0 ||
        batch_conf_encode(&again, &two, NULL) < 0 ||
        strcmp(one.data, two.data) != 0)
        abort();
    buf_clear(&one);
    buf_clear(&two);
}

/* An Include would read what is not the input's. */
static void conf(const char *text, size_t len)
{
    char value[32], path[128], *copy = strndup(text, len);
    struct buf out = BUF_INIT;
    if (!copy)
        abort();
    if (conf_copy_text(copy, "/etc/slurm", 7, &out, NULL) == 0 &&
        !strstr(buf_str(&out), "MessageTimeout=7"))
        abort();
    buf_clear(&out);
    path_to("slurm.conf", path);
    put("slurm.conf", text, len);
    if (!strcasestr(copy, "include") &&
        protected_uids_conf_value(path, "SlurmUser", value, sizeof(value),
                                  NULL) == 0 &&
        (strlen(value) >= sizeof(value) || strchr(value, '\n')))
        abort();
    free(copy);
}

static void told(const char *text, size_t len)
{
    put("slurm-7.out", text, len);
    const char *word = end_cause_read(dir, "7");
    if (!word || strlen(word) >= ATTEMPT_TOLD_CAP)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const files[])(const char *, size_t) = {end, lock, batch,
                                                          conf, told};
    if (size == 0)
        return 0;
    if (!dir[0])
        begin();
    files[data[0] % (sizeof(files) / sizeof(files[0]))]((const char *)data + 1,
                                                        size - 1);
    return 0;
}
