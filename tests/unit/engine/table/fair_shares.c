/* fair_shares.c - GPU seconds by name, kept by differences, their decay, and
 * the ranks and factors that follow. */
#include "scheduler/engine/table/fair_shares.h"

#include <math.h>
#include <stdio.h>

#include "jobs/base/rng.h"
#include "scheduler/engine/job.h"
#include "tests/tap.h"

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(b), 1);
}

/* A name that has used so many GPU seconds, all of them now. */
static struct fair_user *has_used(struct fair_shares *s, const char *name,
                                  double used_s)
{
    struct fair_user *u = fair_shares_user(s, name);
    u->used_s = used_s;
    u->came_s = u->at_s = 1000;
    return u;
}

static void test_decay(void)
{
    struct fair_shares s = {.n = 0};
    struct fair_user *u = fair_shares_user(&s, "anna");

    fair_shares_add(u, 1, 1000, 1e9);
    fair_shares_add(u, -1, 1050, 1e9);
    ok(fabs(u->used_s - 50) < 1e-4, "a long half-life counts seconds");
    u = fair_shares_user(&s, "bert");
    fair_shares_add(u, 1, 999, 100);
    fair_shares_add(u, -1, 1000, 100);
    double then_s = u->used_s;
    fair_shares_add(u, 0, 1100, 100);
    ok(is_near(u->used_s * 2, then_s), "a half-life ago counts half");
    fair_shares_add(u, 0, 1050, 100);
    ok(is_near(u->used_s * 2, then_s), "a clock that was set back adds none");
    fair_shares_add(u, 2, 1100, 100);
    fair_shares_add(u, 0, 1e6, 100);
    ok(fabs(u->used_s - 2 * 100 / log(2)) < 1e-6,
       "what runs for ever has a bound");
    ok(fair_shares_user(&s, "bert") == u && s.n == 2, "a name is there once");
    fair_shares_clear(&s);
}

static void test_factor(void)
{
    struct spec_pair pair = {.key = (char[]){"bert"}, .value = (char[]){"3"}};
    const struct conf_fair_share off = {.half_life_s = 0};
    const struct conf_fair_share even = {.half_life_s = 1e4};
    const struct conf_fair_share uneven = {.half_life_s = 1e4,
                                           .weights = {&pair, 1}};
    struct fair_shares s = {.n = 0};
    struct fair_user *anna = has_used(&s, "anna", 30);

    ok(!fair_shares_update(&s, &even, 1000) && is_near(anna->factor, 1),
       "who is alone has the factor 1");
    anna->used_s = 0;
    struct fair_user *bert = has_used(&s, "bert", 0);
    ok(!fair_shares_update(&s, &even, 1000) && is_near(anna->factor, 1) &&
           anna->rank == bert->rank,
       "nobody has used anything");
    anna->used_s = 30;
    bert->used_s = 10;
    ok(fair_shares_update(&s, &even, 1000) && anna->rank > bert->rank,
       "less use goes first");
    ok(!fair_shares_update(&s, &even, 1000), "  and then nothing changes");
    ok(is_near(anna->factor, exp2(-1.5)), "three quarters of half");
    ok(is_near(bert->factor, exp2(-0.5)), "one quarter of half");
    ok(fair_shares_update(&s, &off, 1000) && anna->rank == bert->rank &&
           is_near(anna->factor, 1),
       "without a half-life all are alike");
    anna->used_s = 10;
    bert->used_s = 30;
    ok(!fair_shares_update(&s, &uneven, 1000) && anna->rank == bert->rank &&
           is_near(anna->factor, 0.5) && is_near(bert->factor, 0.5),
       "shares of 1 and 3: each used its own");
    anna->used_s = 1e9;
    ok(fair_shares_update(&s, &uneven, 1000) &&
           is_near(anna->factor, 1.0 / 8) && anna->rank > bert->rank,
       "the factor is never below 1/8");
    fair_shares_clear(&s);
}

static void test_name(void)
{
    struct job a = {.user = "anna"};
    char name[FAIR_NAME_CAP];

    fair_shares_name(&a, name);
    is_str(name, "anna", "a job is charged to its user");
    (void)snprintf(a.account, sizeof(a.account), "lab");
    fair_shares_name(&a, name);
    is_str(name, "lab", "  or to a default account");
    a.where.account = "vision";
    fair_shares_name(&a, name);
    is_str(name, "vision", "  unless it names another one");
}

/* The sums by differences are those of a walk over all that was ever used. */
static void test_sums(void)
{
    enum { USERS = 100, USES = 2000 };
    static struct {
        int user, gpus;
        double from_s, to_s;
    } uses[USES];
    struct fair_shares s = {.n = 0};
    const struct conf_fair_share conf = {.half_life_s = 500};
    struct rng r;
    double now_s = 0, unit_s = 500 / log(2);
    int n_equal = 0, n_ordered = 0;
    char name[16];

    rng_seed(&r, 7);
    for (int i = 0; i < USES; i++) {
        uses[i].user = (int)(rng_u32(&r) % USERS);
        uses[i].gpus = 1 + (int)(rng_u32(&r) % 8);
        uses[i].from_s = now_s;
        uses[i].to_s = now_s + rng_u32(&r) % 40;
        (void)snprintf(name, sizeof(name), "u%d", uses[i].user);
        struct fair_user *u = fair_shares_user(&s, name);
        fair_shares_add(u, uses[i].gpus, uses[i].from_s, 500);
        fair_shares_add(u, -uses[i].gpus, uses[i].to_s, 500);
        now_s = uses[i].to_s;
    }
    now_s += 100;
    (void)fair_shares_update(&s, &conf, now_s);
    for (int k = 0; k < USERS; k++) {
        double used = 0;
        for (int i = 0; i < USES; i++)
            if (uses[i].user == k)
                used += uses[i].gpus * unit_s *
                        (exp2((uses[i].to_s - now_s) / 500) -
                         exp2((uses[i].from_s - now_s) / 500));
        (void)snprintf(name, sizeof(name), "u%d", k);
        double got_s = fair_shares_user(&s, name)->used_s;
        n_equal += fabs(got_s - used) < 1e-6 * used || used < 1;
    }
    for (size_t i = 1; i < s.n; i++)
        n_ordered += s.at[i - 1]->rank <= s.at[i]->rank &&
                     s.at[i - 1]->used_s <= s.at[i]->used_s;
    is_int(n_equal, USERS, "sums that decay, as a walk over all uses");
    is_int(n_ordered, USERS - 1, "  in the order of their ranks");
    fair_shares_clear(&s);
}

int main(void)
{
    test_decay();
    test_factor();
    test_name();
    test_sums();
    return tap_done();
}
