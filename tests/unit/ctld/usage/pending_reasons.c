/* pending_reasons.c - jobs that wait, by the token of their reason. */
#include "scheduler/ctld/usage/pending_reasons.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/engine/job.h"
#include "tests/tap.h"

static struct pending_reasons r;

static void add(enum job_state state, const char *reason)
{
    struct job job = {.state = state};

    (void)snprintf(job.reason, sizeof(job.reason), "%s", reason);
    pending_reasons_add(&r, &job);
}

static long long n_of(const char *token)
{
    for (size_t i = 0; i < r.n; i++)
        if (strcmp(r.at[i].token, token) == 0)
            return (long long)r.at[i].n;
    return 0;
}

static void test_who(void)
{
    add(JOB_QUEUED, "WaitingForGpus: needs 2, 1 free");
    add(JOB_QUEUED, "WaitingForGpus: needs 4, 1 free");
    add(JOB_QUEUED, "");
    add(JOB_RUNNING, "WaitingForGpus: an old one");
    add(JOB_HELD, "Held: by its user");
    is_int(n_of("WaitingForGpus"), 2, "queued jobs count by their token");
    is_int(n_of("PendingEvaluation"), 1, "  also without a reason yet");
    is_int((long long)r.n, 2, "  others do not wait");
    add(JOB_DISPATCHING, "Slurm(Priority)");
    add(JOB_DISPATCHING, "Slurm(Priority): 3 jobs before it");
    add(JOB_DISPATCHING, "unknown whether it started: a time-out");
    add(JOB_DISPATCHING, "Slurm(cut");
    is_int(n_of("Slurm(Priority)"), 2, "Slurm's own reason, of pending ones");
    is_int((long long)r.n, 3, "  and no others");
    struct job granted = {.state = JOB_DISPATCHING, .native_id = "7"};
    (void)snprintf(granted.reason, sizeof(granted.reason), "Slurm(Priority)");
    pending_reasons_add(&r, &granted);
    is_int(n_of("Slurm(Priority)"), 2, "one that has its GPUs waits no more");
}

static void is_token(const char *reason, const char *token, const char *what)
{
    r = (struct pending_reasons){.n = 0};
    add(JOB_DISPATCHING, reason);
    is_int((long long)r.n, 1, what);
    is_str(r.at[0].token, token, "  under its first word");
}

/* Slurm's own text may have any character; 63 of them come through. */
static void test_texts(void)
{
    is_token("Slurm(bad\"constraint\\ of\nthe job)", "Slurm(bad)",
             "a reason with a quote counts");
    is_token("Slurm(held by an admin (see mail))", "Slurm(held)",
             "a reason of several words counts");
    is_token("Slurm(Nodes_2, and more)", "Slurm(Nodes_2)",
             "a reason with an underscore and a digit counts");
    is_token("Slurm(\"x\" is wrong)", "Slurm(Other)",
             "a reason that begins with no word counts");
    is_token(
        "Slurm(AssocGrpGRESRunMinutesOfTheWholeAccountAndAllOfItsUsersLimit)",
        "Slurm(AssocGrpGRESRunMinutesOfTheWhole)", "a long reason counts");
}

static void test_many(void)
{
    char reason[40];

    r = (struct pending_reasons){.n = 0};
    for (int i = 0; i < PENDING_REASONS_MAX + 3; i++) {
        (void)snprintf(reason, sizeof(reason), "Slurm(R%d)", i);
        add(JOB_DISPATCHING, reason);
        if (i == PENDING_REASONS_MAX - 2)
            is_int((long long)r.n, PENDING_REASONS_MAX - 1,
                   "all but one place is taken");
    }
    is_int((long long)r.n, PENDING_REASONS_MAX, "there is a bound");
    is_int(n_of("other"), 4, "  what is beyond it counts together");
    is_int(n_of("Slurm(R30)"), 1, "  the ones before keep their own");
    add(JOB_DISPATCHING, "Slurm(R30)");
    is_int(n_of("Slurm(R30)"), 2, "  and are found again");
}

int main(void)
{
    test_who();
    test_texts();
    test_many();
    return tap_done();
}
