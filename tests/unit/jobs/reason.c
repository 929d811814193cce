/* reason.c - of which kind a reason is. */
#include "jobs/reason.h"

#include "tests/tap.h"

static void is_kind(const char *reason, const char *want)
{
    char got[REASON_TOKEN_CAP];
    reason_token(reason, got);
    is_str(got, want, reason);
}

int main(void)
{
    is_kind("WaitingForGpus: needs 2, 1 free", "WaitingForGpus");
    is_kind("Slurm(Priority)", "Slurm");
    is_kind("", "PendingEvaluation");
    is_kind("retry 1 of 4 after 8 s: exited with 3", "Retry");
    is_kind("requeued by root", "Requeued");
    is_kind("Weird words of a program: 3", "Requeued");
    is_kind("AWordThatIsLongerThanAnyTokenMayBeIsNotOne: no", "Requeued");
    return tap_done();
}
