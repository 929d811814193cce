/* dir_owners.c - a directory is one job's: taken once, by whoever is first, and
 * never half. */
#include "worker/checkpoint/dir_owner.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/spec/spec_run.h"
#include "tests/tap.h"

static char dir[] = "/tmp/mgpu-owner.XXXXXX";
static const char one[] = "0123456789abcdef0123456789abcdef";
static const char two[] = "fedcba9876543210fedcba9876543210";

static struct dir_owner owner(const char *id)
{
    return (struct dir_owner){
        .id = id, .cluster = "local", .job = 12, .spec = "{\"kind\":\"cv\"}"};
}

static const char *in_dir(const char *name, char ret[200])
{
    (void)snprintf(ret, 200, "%s/%s", dir, name);
    return ret;
}

static void put(const char *name, const char *text)
{
    char path[200];
    FILE *f = fopen(in_dir(name, path), "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static void forget(void)
{
    char path[200];
    (void)unlink(in_dir(SPEC_OWNER_FILE, path));
}

static void takes(const char *id, const char *what)
{
    struct error err = ERROR_INIT;
    const struct dir_owner o = owner(id);
    ok(dir_owner_take(dir, &o, &err) == 0, "%s: %s", what, err.msg);
}

static void refused(const char *id, enum err_code code, const char *text,
                    const char *what)
{
    struct error err = ERROR_INIT;
    const struct dir_owner o = owner(id);
    const int rc = dir_owner_take(dir, &o, &err);
    ok(rc < 0 && err.code == code && strstr(err.msg, text) != NULL, "%s: %s",
       what, err.msg);
}

static void test_taken(void)
{
    char path[200];
    struct error err = ERROR_INIT;
    struct buf spec = BUF_INIT;
    takes("", "a job without an id leaves it as it is");
    ok(access(in_dir(SPEC_OWNER_FILE, path), F_OK) < 0, "  without an owner");
    ok(dir_owner_spec(dir, &spec, &err) < 0 && err.code == ERR_NOTFOUND,
       "  nor a specification");
    takes(one, "an empty directory");
    takes(one, "again, by a later attempt without a checkpoint yet");
    ok(dir_owner_spec(dir, &spec, &err) == 0 &&
           strcmp(buf_str(&spec), "{\"kind\":\"cv\"}") == 0,
       "its specification");
    refused(two, ERR_STATE, "is job 12's (", "by another");
    refused(two, ERR_STATE, "train.resume_from", "who is told what to do");
    refused("", ERR_STATE, "job 12", "and by one without an id");
    ok(mkdir(in_dir("step-3", path), 0700) == 0, "with a checkpoint");
    takes(one, "it is still its own");
    forget();
    refused(one, ERR_STATE, "has another job's checkpoints",
            "and nobody's without the file");
    takes("", "but of jobs of before");
    (void)rmdir(path);
    ok(mkdir(in_dir("best", path), 0700) == 0, "the best is one, too");
    refused(one, ERR_STATE, "has another job's checkpoints", "alone");
    (void)rmdir(path);
    buf_clear(&spec);
}

static void test_damage(void)
{
    char path[200];
    static const char *const bad[] = {"", "{", "[]", "{\"owner\":7}",
                                      "{\"owner\":\"short\"}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put(SPEC_OWNER_FILE, bad[i]);
        refused(one, ERR_INVAL, "is damaged", "a file that says nothing");
    }
    forget();
    if (mkfifo(in_dir(SPEC_OWNER_FILE, path), 0600) == 0)
        refused(one, ERR_INVAL, "regular file", "a pipe");
    forget();
    if (symlink("/dev/zero", in_dir(SPEC_OWNER_FILE, path)) == 0)
        refused(one, ERR_IO, SPEC_OWNER_FILE, "or a link");
    forget();
}

/* Eight jobs at once, many times: one has it, the others know whose it is. */
static void test_race(void)
{
    enum { JOBS = 8, ROUNDS = 50 };
    int bad = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int taken = 0;
        pid_t pid[JOBS];
        for (int i = 0; i < JOBS; i++) {
            pid[i] = fork();
            if (pid[i] == 0) {
                char id[33];
                struct error err = ERROR_INIT;
                (void)snprintf(id, sizeof(id), "%032d", i);
                const struct dir_owner o = owner(id);
                const int rc = dir_owner_take(dir, &o, &err);
                _exit(rc == 0 ? 0 : err.code == ERR_STATE ? 1 : 2);
            }
        }
        for (int i = 0; i < JOBS; i++) {
            int status = -1;
            (void)waitpid(pid[i], &status, 0);
            taken += status == 0;
            bad += !WIFEXITED(status) || WEXITSTATUS(status) > 1;
        }
        bad += taken != 1;
        forget();
    }
    is_int(bad, 0, "of eight jobs at once one has it, the others hear of it");
    ok(rmdir(dir) == 0, "and nothing else is left");
    ok(mkdir(dir, 0700) == 0, "the directory");
}

static void test_run(void)
{
    char a[DIR_OWNER_ID_CAP] = "", b[DIR_OWNER_ID_CAP] = "";
    struct error err = ERROR_INIT;
    ok(dir_owner_of_run(dir, a, &err) == 0 &&
           strlen(a) == DIR_OWNER_ID_CAP - 1 &&
           strspn(a, "0123456789abcdef") == DIR_OWNER_ID_CAP - 1,
       "a run without a daemon draws an id: %s", err.msg);
    ok(dir_owner_of_run(dir, b, &err) == 0 && strcmp(a, b) == 0,
       "the same one the next time");
    forget();
    ok(dir_owner_of_run(dir, b, &err) == 0 && strcmp(a, b) != 0,
       "and another in another directory");
    forget();
}

int main(void)
{
    if (mkdtemp(dir) == NULL)
        abort();
    test_taken();
    test_damage();
    test_race();
    test_run();
    (void)rmdir(dir);
    return tap_done();
}
