/* sample_times.c - samples during training take at most their share of the
 * time, however long they take. */
#include "worker/train/sample_times.h"

#include "tests/tap.h"

/* Runs of steps of step_s, with samples of cost_s asked for after each. */
static void test_run(double step_s, double cost_s, int steps, int least,
                     int most)
{
    struct sample_times s = {.is_on = true};
    double now_s = 1000, worst = 0;
    int taken = 0;
    sample_times_begin(&s, now_s);
    for (int i = 0; i < steps; i++) {
        now_s += step_s;
        if (!sample_times_allow(&s, now_s))
            continue;
        sample_times_add(&s, now_s, now_s + cost_s);
        now_s += cost_s;
        taken++;
        const double share = s.spent_s / (now_s - s.begin_s);
        if (taken > 1 && share > worst)
            worst = share;
    }
    ok(worst <= SAMPLE_SHARE * (1 + 1e-9),
       "steps of %g s, samples of %g s: at most %.2f %% of the time", step_s,
       cost_s, 100 * worst);
    ok(taken >= least && taken <= most, "%d of %d are taken, %d..%d expected",
       taken, steps, least, most);
}

int main(void)
{
    test_run(1, 0.01, 100, 100, 100); /* all have room */
    test_run(1, 1, 100, 5, 5);        /* one in 20 */
    test_run(1, 10, 1000, 5, 6);
    test_run(0.001, 5, 1000, 1, 1); /* the first one is not known before */
    return tap_done();
}
