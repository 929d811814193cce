/* end_cause.c - what Slurm's step daemon says when it ends a job. */
#include "slurm/batch/end_cause.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slurm/launch/attempt_dir.h"
#include "tests/tap.h"

#define LINE(id, rest)                                               \
    "slurmstepd-node1: error: *** JOB " id " ON node1 CANCELLED AT " \
    "2026-11-21T20:19:05" rest "\n"

static void test_words(void)
{
    is_str(end_cause_word(LINE("12", " ***"), "12"), "CANCELLED", "scancel");
    is_str(end_cause_word(LINE("12", " DUE TO TIME LIMIT ***"), "12"),
           "TIMEOUT", "the time limit");
    is_str(end_cause_word(LINE("12", " DUE TO PREEMPTION ***"), "12"),
           "PREEMPTED", "preemption");
    is_str(
        end_cause_word(LINE("12", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR "
                                  "DETAILS ***"),
                       "12"),
        "NODE_FAIL", "a node that failed");
    is_str(end_cause_word(LINE("12", " DUE TO JOB REQUEUE ***"), "12"),
           "REQUEUED", "a requeue");
    is_str(end_cause_word(LINE("12", " DUE TO THE MOON ***"), "12"), "ENDED",
           "a reason that we do not know");
    is_str(end_cause_word("", "12"), "ENDED", "nothing was said");
    is_str(end_cause_word(LINE("112", " ***"), "12"), "ENDED",
           "of another job");
    is_str(end_cause_word("*** JOB 12 ON node1 IS FINE\n" LINE("13", " ***"),
                          "12"),
           "ENDED", "nor is another line its own");
    is_str(end_cause_word("srun: hello\n" LINE("12", " ***")
                              LINE("12", " DUE TO TIME LIMIT ***"),
                          "12"),
           "TIMEOUT", "the last one counts");
    is_str(end_cause_word(
               LINE("12", " ***") LINE("13", " DUE TO TIME LIMIT ***"), "12"),
           "CANCELLED", "the next line is of another one");
    is_str(end_cause_word("*** JOB 12 ON node1 CANCELLED AT", "12"), "ENDED",
           "one that is cut short");
}

static void test_file(void)
{
    char dir[] = "/tmp/mgpu-told.XXXXXX";
    char path[64];
    FILE *f = NULL;
    if (mkdtemp(dir)) {
        (void)snprintf(path, sizeof(path), "%s/slurm-12.out", dir);
        is_str(end_cause_read(dir, "12"), "ENDED", "no file");
        f = fopen(path, "w");
    }
    if (!f)
        exit(1);
    for (int i = 0; i < 20000; i++)
        (void)fputs("noise\n", f);
    (void)fputc('\0', f);
    (void)fputs(LINE("12", " DUE TO PREEMPTION ***"), f);
    (void)fputc('\0', f);
    (void)fclose(f);
    is_str(end_cause_read(dir, "12"), "PREEMPTED",
           "at the end of a long file with bytes of no text");
    (void)unlink(path);
    (void)rmdir(dir);
}

static void clean(const char *dir)
{
    static const char *const names[] = {"told", "exit", "started",
                                        "submission"};
    char path[64];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

/* What the daemon finds, whatever of the two files was written. */
static void test_left_behind(void)
{
    char dir[] = "/tmp/mgpu-told.XXXXXX";
    struct error err = ERROR_INIT;
    struct attempt_exit x = {.code = 3, .slurm_id = 12};
    struct attempt_exit got = {.code = 0};
    if (!mkdtemp(dir))
        exit(1);
    ok(attempt_exit_read(dir, &got, &err) < 0 && err.code == ERR_NOTFOUND,
       "neither exit nor told");
    ok(attempt_told_write(dir, "CANCELLED", 12, "", &err) == 0 &&
           attempt_exit_read(dir, &got, &err) == 0 && got.is_ending &&
           got.slurm_id == 12 && got.signal == SIGKILL && got.code == 0,
       "told, and killed before it could write how it ended");
    is_str(got.told, "CANCELLED", "why");
    ok(attempt_exit_write(dir, &x, &err) == 0 &&
           attempt_exit_read(dir, &got, &err) == 0 && !got.is_ending &&
           got.code == 3 && strcmp(got.told, "CANCELLED") == 0,
       "told, and ended");
    x.slurm_id = 13;
    ok(attempt_exit_write(dir, &x, &err) == 0 &&
           attempt_exit_read(dir, &got, &err) == 0 && !got.told[0],
       "it was another job of the attempt that was told");
    ok(attempt_write(dir, "told", "OH DEAR\n", &err) == 0 &&
           attempt_exit_read(dir, &got, &err) == 0 && !got.told[0],
       "one that is damaged says nothing");
    clean(dir);
}

static bool reads(const char *dir, struct attempt_exit *ret)
{
    struct error err = ERROR_INIT;
    int rc = attempt_exit_read(dir, ret, &err);
    if (rc < 0)
        tap_diag("%s", err.msg);
    return rc == 0;
}

/* F23: two submissions of one attempt, both as job 12. */
static void test_submissions(void)
{
    static const char first[] = "00000000000000aa", second[] = "bb";
    char dir[] = "/tmp/mgpu-told.XXXXXX";
    struct error err = ERROR_INIT;
    struct attempt_exit x = {.code = 3, .slurm_id = 12, .submission = "bb"};
    struct attempt_exit got = {.code = 0};
    if (!mkdtemp(dir))
        exit(1);
    ok(attempt_submission_write(dir, first, &err) == 0 &&
           attempt_started_write(dir, 12, first, &err) == 0 &&
           attempt_exit_read(dir, &got, &err) < 0 && err.code == ERR_NOTFOUND,
       "the last submission has begun: that is no end");
    ok(attempt_submission_write(dir, second, &err) == 0 && reads(dir, &got) &&
           got.is_other && got.is_ending && !got.told[0] && got.slurm_id == 12,
       "another one has begun");
    ok(attempt_told_write(dir, "CANCELLED", 12, first, &err) == 0 &&
           reads(dir, &got) && got.is_other && got.is_ending &&
           strcmp(got.told, "CANCELLED") == 0 &&
           strcmp(got.submission, first) == 0,
       "was told to end");
    ok(attempt_exit_write(dir, &x, &err) == 0 && reads(dir, &got) &&
           !got.is_other && !got.is_ending && got.code == 3 && !got.told[0],
       "and says nothing of how the last one ended");
    (void)snprintf(x.submission, sizeof(x.submission), "%s", first);
    ok(attempt_exit_write(dir, &x, &err) == 0 && reads(dir, &got) &&
           got.is_other && got.code == 3 && strcmp(got.told, "CANCELLED") == 0,
       "nor does its exit");
    ok(attempt_write(dir, "told", "CANCELLED 12\n", &err) == 0 &&
           attempt_write(dir, "exit",
                         "{\"code\":4,\"signal\":0,\"when\":1.5,"
                         "\"slurm_id\":12}\n",
                         &err) == 0 &&
           reads(dir, &got) && !got.is_other && got.code == 4 &&
           strcmp(got.told, "CANCELLED") == 0,
       "files of an earlier release count for any");
    ok(attempt_write(dir, "told", "CANCELLED 12 x\n", &err) == 0 &&
           attempt_write(dir, "submission", "nonsense\n", &err) == 0 &&
           attempt_exit_write(dir, &x, &err) == 0 && reads(dir, &got) &&
           !got.is_other && !got.told[0],
       "what is no mark is none");
    ok(attempt_is_submission("0123456789abcdef") &&
           !attempt_is_submission("0123456789abcdef0") &&
           !attempt_is_submission("") && !attempt_is_submission("a b"),
       "which has 1 to 16 hexadecimal digits");
    clean(dir);
}

int main(void)
{
    test_words();
    test_file();
    test_left_behind();
    test_submissions();
    return tap_done();
}
