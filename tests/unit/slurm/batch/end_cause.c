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
    is_str(told_word(LINE("12", " ***"), "12"), "CANCELLED", "scancel");
    is_str(told_word(LINE("12", " DUE TO TIME LIMIT ***"), "12"), "TIMEOUT",
           "the time limit");
    is_str(told_word(LINE("12", " DUE TO PREEMPTION ***"), "12"), "PREEMPTED",
           "preemption");
    is_str(told_word(LINE("12", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR "
                                "DETAILS ***"),
                     "12"),
           "NODE_FAIL", "a node that failed");
    is_str(told_word(LINE("12", " DUE TO JOB REQUEUE ***"), "12"), "REQUEUED",
           "a requeue");
    is_str(told_word(LINE("12", " DUE TO THE MOON ***"), "12"), "ENDED",
           "a reason that we do not know");
    is_str(told_word("", "12"), "ENDED", "nothing was said");
    is_str(told_word(LINE("112", " ***"), "12"), "ENDED", "of another job");
    is_str(told_word("*** JOB 12 ON node1 IS FINE\n" LINE("13", " ***"), "12"),
           "ENDED", "nor is another line its own");
    is_str(told_word("srun: hello\n" LINE("12", " ***")
                         LINE("12", " DUE TO TIME LIMIT ***"),
                     "12"),
           "TIMEOUT", "the last one counts");
    is_str(told_word(LINE("12", " ***") LINE("13", " DUE TO TIME LIMIT ***"),
                     "12"),
           "CANCELLED", "the next line is of another one");
    is_str(told_word("*** JOB 12 ON node1 CANCELLED AT", "12"), "ENDED",
           "one that is cut short");
}

static void test_file(void)
{
    char dir[] = "/tmp/mgpu-told.XXXXXX";
    char path[64];
    FILE *f = NULL;
    if (mkdtemp(dir)) {
        (void)snprintf(path, sizeof(path), "%s/slurm-12.out", dir);
        is_str(told_read(dir, "12"), "ENDED", "no file");
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
    is_str(told_read(dir, "12"), "PREEMPTED",
           "at the end of a long file with bytes of no text");
    (void)unlink(path);
    (void)rmdir(dir);
}

/* What the daemon finds, whatever of the two files was written. */
static void test_left_behind(void)
{
    char dir[] = "/tmp/mgpu-told.XXXXXX";
    char path[64];
    struct error err = ERROR_INIT;
    struct attempt_exit x = {.code = 3, .slurm_id = 12};
    struct attempt_exit got = {.code = 0};
    if (!mkdtemp(dir))
        exit(1);
    ok(attempt_exit_read(dir, &got, &err) < 0 && err.code == ERR_NOTFOUND,
       "neither exit nor told");
    ok(attempt_told_write(dir, "CANCELLED", 12, &err) == 0 &&
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
    const char *names[] = {"told", "exit"};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

int main(void)
{
    test_words();
    test_file();
    test_left_behind();
    return tap_done();
}
