/* event_counts.c - waits of jobs, from their claims. */
#include "scheduler/ctld/usage/event_counts.h"

#include <math.h>

#include "scheduler/ctld/ctld_internal.h"
#include "tests/tap.h"

static struct ctld_stats s;

static void claim_of(int32_t attempt, int32_t first_claimed, double wait_s)
{
    const struct job job = {.submit_s = 1000,
                            .first_claimed = first_claimed,
                            .run_s = NAN,
                            .resize.checkpoint_s = NAN};
    const struct store_event ev = {
        .ev = EV_CLAIM, .attempt = attempt, .at_s = 1000 + wait_s};
    event_counts_note(&s, &ev, &job);
}

static void claim(int32_t attempt, double wait_s)
{
    claim_of(attempt, 1, wait_s);
}

int main(void)
{
    claim(1, 0.5);
    claim(1, 1);
    claim(1, 1.001);
    claim(1, 1e6);
    is_int((long long)s.waits.n, 4, "four waits");
    is_int((long long)s.waits.buckets[0], 2, "a bound belongs to its bucket");
    is_int((long long)s.waits.buckets[1], 1, "  what is above it does not");
    is_int((long long)s.waits.buckets[WAIT_BUCKETS - 1], 1,
           "the last one has all above a week");
    ok(fabs(s.waits.sum_s - 1000002.501) < 1e-6, "their sum is %.3f s",
       s.waits.sum_s);
    claim(2, 5000);
    is_int((long long)s.waits.n, 4, "a second attempt is no new wait");
    claim_of(3, 3, 2000);
    is_int((long long)s.waits.n, 5,
           "a third attempt is, if nobody claimed those before");
    claim(1, -30);
    is_int((long long)s.waits.buckets[0], 3, "a clock that was set back");
    ok(fabs(s.waits.sum_s - 1002002.501) < 1e-6, "  takes nothing away");
    const struct store_event gone = {.ev = EV_CLAIM, .attempt = 1};
    event_counts_note(&s, &gone, NULL);
    is_int((long long)s.waits.n, 6, "nor does a job that was removed count");
    is_int((long long)s.events, 8, "all are events");
    return tap_done();
}
