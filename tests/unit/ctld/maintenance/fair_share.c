/* fair_share.c - GPU seconds by name from events, their decay, and the factor
 * that follows. */
#include "scheduler/ctld/maintenance/fair_share.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/conf/conf_goodput.h"
#include "scheduler/engine/job.h"
#include "tests/tap.h"

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(b), 1);
}

static void note(struct uses_log *u, struct job *job, enum job_event ev,
                 enum job_state state, double at_s)
{
    const struct store_event e = {.ev = ev, .job = job->id, .at_s = at_s};
    job->state = state;
    uses_log_note(u, &e, job);
}

static void test_log(void)
{
    struct uses_log u = {.past = NULL};
    struct job a = {.id = 1, .gpus = 4, .user = "anna", .native_id = "x"};
    struct job b = {.id = 2, .gpus = 1, .user = "bert", .native_id = "y"};

    b.where.account = "vision";
    note(&u, &a, EV_GRANT, JOB_STARTING, 100);
    note(&u, &b, EV_GRANT, JOB_STARTING, 110);
    is_int((long long)u.n_live, 2, "two jobs have GPUs");
    is_str(u.live[1].name, "vision", "  one is charged to its account");
    note(&u, &a, EV_REQUEUE, JOB_QUEUED, 150);
    is_int((long long)u.n_past, 1, "an attempt is over");
    ok(u.past[0].gpus == 4 && is_near(u.past[0].to_s - u.past[0].from_s, 50),
       "  four GPUs for 50 s");
    a.gpus = 2;
    note(&u, &a, EV_GRANT, JOB_STARTING, 200);
    note(&u, &a, EV_FINISH, JOB_COMPLETED, 230);
    note(&u, &b, EV_FINISH, JOB_COMPLETED, 120);
    is_int((long long)u.n_live, 0, "nobody has any");
    is_int((long long)u.n_past, 3, "  three attempts are known");
    a.gpus = 0;
    note(&u, &a, EV_GRANT, JOB_STARTING, 300);
    is_int((long long)u.n_live, 0, "a job without GPUs uses none");
    a.gpus = 1;
    (void)snprintf(a.account, sizeof(a.account), "lab");
    note(&u, &a, EV_GRANT, JOB_STARTING, 400);
    is_str(u.live[0].name, "lab", "one is charged to a default account");
    a.where.account = "vision";
    char name[SHARE_NAME_CAP];
    uses_fair_share_name(&a, name);
    is_str(name, "vision", "  unless it names another one");
    uses_log_clear(&u);
}

static void test_decay(void)
{
    const struct use_interval now = {.gpus = 1, .from_s = 999, .to_s = 1000};
    const struct use_interval old = {.gpus = 1, .from_s = 899, .to_s = 900};
    const struct use_interval live = {.gpus = 2, .from_s = 0, .to_s = NAN};

    ok(is_near(use_decayed(&old, 1000, 100) * 2, use_decayed(&now, 1000, 100)),
       "a half-life ago counts half");
    ok(fabs(use_decayed(&now, 1000, 1e9) - 1) < 1e-6,
       "a long half-life counts seconds");
    ok(fabs(use_decayed(&live, 1e6, 100) - 2 * 100 / log(2)) < 1e-6,
       "what runs for ever has a bound");
}

static void test_factor(void)
{
    struct spec_pair pair = {.key = (char[]){"bert"}, .value = (char[]){"3"}};
    const struct conf_fair_share even = {.half_life_s = 1};
    const struct conf_fair_share uneven = {.half_life_s = 1,
                                           .weights = {&pair, 1}};
    struct shares s = {.v = NULL};

    ok(uses_shares_add(&s, &even, "anna", 0, NULL) == 0 &&
           uses_shares_add(&s, &even, "bert", 0, NULL) == 0,
       "two names");
    ok(is_near(uses_shares_factor(&s, "anna"), 1), "nobody has used anything");
    ok(uses_shares_add(&s, &even, "anna", 30, NULL) == 0 &&
           uses_shares_add(&s, &even, "bert", 10, NULL) == 0,
       "30 and 10");
    ok(is_near(uses_shares_factor(&s, "anna"), exp2(-1.5)),
       "three quarters of half");
    ok(is_near(uses_shares_factor(&s, "bert"), exp2(-0.5)),
       "one quarter of half");
    ok(is_near(uses_shares_factor(&s, "eve"), 1), "an unknown name");
    uses_shares_clear(&s);

    ok(uses_shares_add(&s, &uneven, "anna", 10, NULL) == 0 &&
           uses_shares_add(&s, &uneven, "bert", 30, NULL) == 0,
       "shares of 1 and 3");
    ok(is_near(uses_shares_factor(&s, "anna"), 0.5) &&
           is_near(uses_shares_factor(&s, "bert"), 0.5),
       "each used its own share");
    ok(uses_shares_add(&s, &uneven, "anna", 1e9, NULL) == 0 &&
           is_near(uses_shares_factor(&s, "anna"), 1.0 / 8),
       "never below 1/8");
    uses_shares_clear(&s);
}

/* The use of a name by a walk over all that the log has. */
static double walked(const struct uses_log *u, const char *name, double now_s,
                     double half_life_s)
{
    double used = 0;

    for (size_t i = 0; i < u->n_past; i++)
        if (strcmp(u->past[i].name, name) == 0)
            used += use_decayed(&u->past[i], now_s, half_life_s);
    return used;
}

static double summed(const struct past_use *p, const char *name)
{
    for (size_t i = 0; i < p->sums.n; i++)
        if (strcmp(p->sums.v[i].name, name) == 0)
            return p->sums.v[i].used;
    return 0;
}

static void test_past(void)
{
    struct conf_fair_share conf = {.half_life_s = 500};
    struct uses_log u = {.past = NULL};
    struct past_use p = {.n_ended = 0};
    struct job job = {.gpus = 2, .native_id = "x"};
    int n_equal = 0;
    double now_s = 0;

    for (int i = 0; i < 100; i++) {
        for (int k = 0; k <= i % 3; k++) {
            job.id++;
            (void)snprintf(job.user, sizeof(job.user), "u%d", (i + k) % 4);
            note(&u, &job, EV_GRANT, JOB_STARTING, now_s);
            note(&u, &job, EV_FINISH, JOB_COMPLETED, now_s += 7);
        }
        conf.half_life_s = i < 50 ? 500 : 900; /* a change starts anew */
        n_equal += past_use_update(&p, &u, &conf, now_s, NULL) == 0 &&
                   is_near(summed(&p, "u1"),
                           walked(&u, "u1", now_s, conf.half_life_s)) &&
                   is_near(summed(&p, "u3"),
                           walked(&u, "u3", now_s, conf.half_life_s));
    }
    is_int(n_equal, 100, "sums that decay, as a walk over all intervals");
    past_use_clear(&p);
    uses_log_clear(&u);
}

int main(void)
{
    test_log();
    test_decay();
    test_factor();
    test_past();
    return tap_done();
}
