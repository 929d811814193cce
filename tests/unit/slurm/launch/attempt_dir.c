/* attempt_dir.c - what an attempt's directory says, whoever wrote into it. */
#include "slurm/launch/attempt_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

int main(void)
{
    char dir[] = "/tmp/mgpu-attempt.XXXXXX", path[64];
    struct error err = ERROR_INIT;
    struct attempt_exit x = {.code = 3, .signal = 0, .when_s = 1.5}, got;
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(path, sizeof(path), "%s/exit", dir);

    ok(attempt_exit_read(dir, &got, &err) < 0 && err.code == ERR_NOTFOUND,
       "no exit yet");
    ok(attempt_exit_write(dir, &x, &err) == 0 &&
           attempt_exit_read(dir, &got, &err) == 0 && got.code == 3 &&
           got.signal == 0 && got.slurm_id == 0,
       "what was written is read");
    x.slurm_id = 4294967294;
    ok(attempt_exit_write(dir, &x, &err) == 0 &&
           attempt_exit_read(dir, &got, &err) == 0 && got.code == 3 &&
           got.slurm_id == 4294967294,
       "with the Slurm job that wrote it");
    ok(got.cores_ms == 0, "nobody knows what it used");
    x.cpu_ms = 123456789012345;
    x.cores_ms = 987654321098765;
    x.code = 255;
    x.signal = 64;
    x.when_s = 4102444800.125;
    memcpy(x.submission, "fedcba9876543210", sizeof(x.submission));
    ok(attempt_exit_write(dir, &x, &err) == 0 &&
           attempt_exit_read(dir, &got, &err) == 0 && got.code == 255 &&
           got.signal == 64 && got.cpu_ms == x.cpu_ms &&
           got.cores_ms == x.cores_ms && got.slurm_id == 4294967294 &&
           strcmp(got.submission, x.submission) == 0,
       "or with what it used, its submission, and all of it long");

    is_int(attempt_ended_ms(&got), 4102444800125, "it says when that was");
    for (int i = 0; i < 4; i++) {
        static const double none[] = {0, -1e300, 1e300, -0.001};
        got.when_s = none[i];
        is_int(attempt_ended_ms(&got), 0, "  but for what is no time");
    }

    ok(attempt_write(dir, "exit", "{\"code\":nan,\"signal\":nan,\"when\":inf}",
                     &err) == 0 &&
           attempt_exit_read(dir, &got, &err) < 0 && err.code == ERR_STATE,
       "what is no number is none: %s", err.msg);

    struct stat kept, st;
    char kept_path[64];
    (void)snprintf(kept_path, sizeof(kept_path), "%s/.exit.new", dir);
    ok(attempt_exit_reserve(dir, &err) == 0 && stat(kept_path, &kept) == 0 &&
           kept.st_blocks > 0,
       "room for an exit is reserved");
    ok(attempt_exit_write(dir, &x, &err) == 0 && stat(path, &st) == 0 &&
           st.st_ino == kept.st_ino && st.st_size < kept.st_size &&
           attempt_exit_read(dir, &got, &err) == 0 && got.code == x.code,
       "and used for it");

    (void)alarm(60); /* whoever waits for the pipe's other end fails */
    ok(unlink(path) == 0 && mkfifo(path, 0600) == 0, "a pipe in its place");
    ok(attempt_exit_read(dir, &got, &err) < 0 && err.code == ERR_STATE,
       "is not waited for: %s", err.msg);
    ok(unlink(path) == 0 && mkdir(path, 0700) == 0, "a directory");
    ok(attempt_exit_read(dir, &got, &err) < 0, "is refused");
    ok(rmdir(path) == 0 && symlink("/etc/hostname", path) == 0, "a link");
    ok(attempt_exit_read(dir, &got, &err) < 0, "is not followed");
    ok(attempt_exit_write(dir, &x, &err) == 0 &&
           attempt_exit_read(dir, &got, &err) == 0,
       "but replaced");
    ok(chmod(path, 0620) == 0 && attempt_exit_read(dir, &got, &err) < 0 &&
           err.code == ERR_DENIED,
       "one that others may write to: %s", err.msg);
    if (getuid() == 0)
        ok(chmod(path, 0600) == 0 && chown(path, 1, 1) == 0 &&
               attempt_exit_read(dir, &got, &err) < 0 && err.code == ERR_DENIED,
           "another user's: %s", err.msg);
    (void)unlink(path);
    (void)rmdir(dir);
    return tap_done();
}
