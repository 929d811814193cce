/* goodput_groups.c - jobs of one user that came together count as one; and a
 * cluster of one user is planned as without fair share. */
#include <math.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "tests/unit/policy/goodput_view.h"

enum { VIEWS = 300 };

static struct view t;
static struct curves c;

static struct policy_job *by(int32_t user, double submit_s, double left_s)
{
    struct policy_job *job = elastic(&t, &c, 0, left_s);

    job->user = user;
    job->submit_s = submit_s;
    return job;
}

static void begin(int nodes)
{
    setup(&t, &c, nodes);
    t.v.is_fair = true;
}

static bool are(const double *want)
{
    double got[64];
    bool is = gp_groups_count(&t.v, got, NULL) == 0;

    for (size_t i = 0; is && i < t.v.n_jobs; i++)
        if (fabs(got[i] - want[i]) > 1e-9) {
            tap_diag("job %zu counts %g, want %g", i, got[i], want[i]);
            is = false;
        }
    return is;
}

static void test_counts(void)
{
    begin(4);
    by(1, 0, 800);
    for (int i = 0; i < 4; i++)
        by(2, 100, 200);
    ok(are((const double[]){1, 4, 4, 4, 4}), "four parts count four times");

    begin(4);
    by(1, 0, 800);
    by(2, 0, 6400);
    by(2, 10, 100);
    by(2, 20, 300);
    ok(are((const double[]){1, 1 + 400.0 / 6400, 3, 2 + 1.0 / 3}),
       "a long job among short ones counts about once");

    begin(4);
    by(1, 0, 800);
    by(2, 0, 100);
    by(2, 600, 100);
    by(2, 601, 100);
    by(2, 5000, 100);
    ok(are((const double[]){1, 2, 2, 1, 1}),
       "what comes ten minutes later is of another group");

    begin(4);
    by(1, 0, 800);
    by(2, 0, NAN);
    by(2, 0, 100);
    ok(are((const double[]){1, 2, 2}), "a job of unknown length counts as one");

    begin(4);
    for (int i = 0; i < 3; i++)
        by(2, 100, 200);
    ok(are((const double[]){1, 1, 1}), "one user alone has no groups");
    by(1, 0, 800);
    t.v.is_fair = false;
    ok(are((const double[]){1, 1, 1, 1}), "nor has anybody without fair share");
}

/* Two jobs for one place: the same work in two parts gains nothing. */
static void test_parts(void)
{
    begin(1);
    t.v.goodput.aging = 2;
    t.v.n_nodes = 1;
    t.nodes[0].gpus_total = t.nodes[0].gpus_free = 1;
    by(1, 0, 900);
    by(2, 0, 500);
    by(2, 0, 500);
    is_text(&t, "+1:1 2- 3-", "parts do not pass by a shorter whole");
    t.v.is_fair = false;
    is_text(&t, "+2:1 1- 3-", "  without fair share they do");
}

/* A job of one size that has waited for twice its time, on one GPU, is late; of
 * several users only after its isolated share. */
static void test_late(void)
{
    for (int fair = 0; fair < 2; fair++) {
        begin(1);
        t.v.is_fair = fair;
        t.nodes[0].gpus_total = t.nodes[0].gpus_free = 1;
        t.v.now_s = 5000;
        struct policy_job *job = view_job(&t, 1, 1, INFINITY);
        job->user = 1;
        job->submit_s = 0;
        job->goodput.left_one_s = job->goodput.one_s = 2000;
        job->goodput.speed = 1;
        for (int i = 0; i < 4; i++)
            by(2 + i, 4990, 100);
        is_text(&t, fair ? "+2:1 1- 3- 4- 5-" : "+1:1 2- 3- 4- 5-",
                fair ? "with five jobs a GPU it is not late after 2.5 times"
                     : "without fair share it is");
    }
}

/* Of one user all plans are the same, to the last bit of a reason. */
static void test_one_user(void)
{
    struct rng r;
    int n_same = 0;

    rng_seed(&r, 11);
    for (int k = 0; k < VIEWS; k++) {
        struct policy_decision with[64];
        struct error err = ERROR_INIT;
        size_t n;
        begin(2);
        t.v.goodput.aging = 2;
        for (int i = 0; i < 12; i++) {
            double left_s = 100 + rng_u32(&r) % 50000;
            struct policy_job *job =
                rng_u32(&r) % 4
                    ? by(3, i * 7, left_s)
                    : view_job(&t, 1 + rng_u32(&r) % 4, 4, INFINITY);
            job->user = 3;
            job->submit_s = i * 7;
            job->goodput.share = 1;
            job->goodput.left_one_s = job->goodput.one_s = left_s;
            if (!job->goodput.curve)
                job->gpus_max = job->gpus_min;
        }
        bool is = view_plan(&t, goodput, &err) == 0;
        n = t.n;
        memcpy(with, t.decisions, n * sizeof(*with));
        t.v.is_fair = false;
        is = is && view_plan(&t, goodput, &err) == 0 && n == t.n;
        for (size_t i = 0; is && i < n; i++)
            is = with[i].id == t.decisions[i].id &&
                 with[i].act == t.decisions[i].act &&
                 with[i].nodes == t.decisions[i].nodes &&
                 with[i].gpus_per_node == t.decisions[i].gpus_per_node &&
                 strcmp(with[i].reason, t.decisions[i].reason) == 0;
        n_same += is;
    }
    is_int(n_same, VIEWS, "plans of one user, with fair share and without");
}

int main(void)
{
    test_counts();
    test_parts();
    test_late();
    test_one_user();
    return tap_done();
}
