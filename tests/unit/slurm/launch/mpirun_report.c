/* mpirun_report.c - mpirun's reports on failed ranks are found among its lines,
 * and nothing else is. */
#include "slurm/launch/mpirun_report.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

#define RULE MPIRUN_REPORT_RULE

static char kept[4096];

/* What is printed of `text`. */
static const char *filter(const char *text)
{
    struct mpirun_report r = {0};
    bool has_rule;
    kept[0] = '\0';
    while (*text) {
        size_t n = strcspn(text, "\n");
        n += text[n] == '\n';
        bool is_dropped = mpirun_report_drop(&r, text, n, &has_rule);
        if (has_rule)
            (void)strcat(kept, RULE);
        if (!is_dropped)
            (void)strncat(kept, text, n);
        text += n;
    }
    if (r.state == MPIRUN_REPORT_RULED)
        (void)strcat(kept, "(rule)");
    return kept;
}

/* All of it as prterun 3.0.8 prints it. */
static void test_reports(void)
{
    is_int((int)strlen(RULE), 75, "a rule is 74 dashes and a newline");
    is_str(filter("before\n" RULE
                  "prterun detected that one or more processes exited with "
                  "non-zero status,\n"
                  "thus causing the job to be terminated. The first process to "
                  "do so was:\n\n"
                  "   Process name: [prterun-vm-2123@1,0]\n"
                  "   Exit code:    3\n" RULE "after\n"),
           "before\nafter\n", "an exit code");
    is_str(filter(RULE
                  "prterun noticed that process rank 0 with PID 2133 on "
                  "node vm exited on\nsignal 11 (Segmentation fault).\n" RULE),
           "", "a signal");
    is_str(filter(RULE
                  "prterun has exited due to process rank 1 with PID 23393 "
                  "on node vm calling\n\"abort\". This may have caused other "
                  "processes in the application to be\nterminated by "
                  "signals sent by prterun (as reported here).\n" RULE),
           "", "MPI_Abort");
    is_str(filter("a\n[warn] Epoll MOD(1) on fd 20 failed. Old events were 6\n"
                  "[warn] b\n"),
           "a\n[warn] b\n", "a warning of libevent's");
    is_str(filter(RULE "mpirun noticed that process rank 0 with PID 2133 on "
                       "node vm exited on\nsignal 9 (Killed).\n" RULE RULE
                       "mpirun noticed that process rank 1\n" RULE "x"),
           "x", "two of them, by another name");
}

static void test_others(void)
{
    static const char slots[] =
        RULE "There are not enough slots available in the system to satisfy "
             "the 99\nslots that were requested by the application:\n" RULE;
    static const char plain[] =
        "prterun noticed that process rank 0 is mentioned\n";
    static const char program[] = RULE "a table\n" RULE "1\n" RULE RULE "2\n";
    static const char short_rule[] = "------\nprterun noticed that process "
                                     "rank 0\n------\n";
    char want[sizeof(slots) + 8];
    /* The last rule is held back: a report may follow. */
    (void)snprintf(want, sizeof(want), "%.*s(rule)",
                   (int)(strlen(slots) - strlen(RULE)), slots);
    is_str(filter(slots), want, "another message of mpirun's stays");
    is_str(filter(plain), plain, "a line without a rule before it stays");
    is_str(filter(program), program, "a program's own rules stay");
    is_str(filter(short_rule), short_rule, "as does a shorter one");
}

static void test_no_end(void)
{
    char text[1024] = RULE "prterun noticed that process rank 0 with PID 1\n";
    for (int i = 2; i <= 20; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d\n",
                       i);
    is_str(filter(text), "13\n14\n15\n16\n17\n18\n19\n20\n",
           "a report without an end takes twelve lines");
}

int main(void)
{
    test_reports();
    test_others();
    test_no_end();
    return tap_done();
}
