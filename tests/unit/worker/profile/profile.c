/* profile.c - which iterations are looked at, what that costs, and what it is
 * scaled up to; with a source whose every iteration has ten calls. */
#include "worker/profile/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

struct source {
    struct profile_source base;
    bool is_on, is_gone;
    int64_t calls;
    int n_starts, fails_at; /* the n-th call of the ops fails; 0: none */
    int n_ops;
};
static struct source src;

static int step(struct error *err)
{
    return ++src.n_ops == src.fails_at
               ? error_set(err, ERR_EXTERN, "the source broke")
               : 0;
}

static int src_start(struct profile_source *s, struct error *err)
{
    (void)s;
    src.is_on = true;
    src.n_starts++;
    return step(err);
}

static int src_stop(struct profile_source *s, struct error *err)
{
    (void)s;
    src.is_on = false;
    return step(err);
}

static int src_take(struct profile_source *s, struct profile_rows *io,
                    struct error *err)
{
    (void)s;
    profile_add(io, "call", src.calls, 0.5 * (double)src.calls, src.calls);
    profile_add(io, "memory", 0, 0, -1);
    src.calls = 0;
    return step(err);
}

static void src_destroy(struct profile_source *s)
{
    (void)s;
    src.is_gone = true;
}

static const struct profile_source_ops src_ops = {.name = "test",
                                                  .start = src_start,
                                                  .stop = src_stop,
                                                  .take = src_take,
                                                  .destroy = src_destroy};

static struct profile *begin(enum spec_profile mode, int fails_at)
{
    struct error err = ERROR_INIT;
    struct profile *p = NULL;
    src = (struct source){.base.ops = &src_ops, .fails_at = fails_at};
    ok(profile_create(&src.base, mode, &p, &err) == 0, "a profile");
    return p;
}

/* An epoch whose iterations take longer while somebody looks; *ret_seen is a
 * picture of it, one character for each. */
static void epoch(struct profile *p, int32_t batches, double more, char *seen)
{
    for (int32_t i = 0; i < batches; i++) {
        profile_begin(p, i, batches);
        src.calls += src.is_on ? 10 : 0;
        seen[i] = src.is_on ? '#' : '.';
        /* Some noise, and now and then a late one. */
        double t = 0.1 + 1e-5 * (i * 7 % 5) + (i % 13 == 4 ? 0.05 : 0);
        profile_end(p, t * (src.is_on ? 1 + more : 1));
    }
    seen[batches] = '\0';
}

static void test_cheap(void)
{
    struct profile *p = begin(PROFILE_EPOCH, 0);
    struct profile_epoch e;
    char seen[200];
    double error = 0;
    ok(isnan(profile_cost(p, &error)), "the cost is not known yet");
    epoch(p, 80, 0.001, seen);
    is_str(seen,
           "###....####....####....####....####....####....####....####"
           "....#################",
           "on and off in turns, then always");
    ok(profile_take(p, &e), "an epoch");
    is_int(e.seen, 48, "of which 48 iterations were seen");
    ok(fabs(e.sampled - 0.6) < 1e-9, "which is 60 %%: %g", e.sampled);
    is_int(e.rows.n, 2, "its rows");
    is_int(e.rows.at[0].calls, 800, "are scaled up to 80 iterations");
    ok(fabs(e.rows.at[0].total_s - 400) < 1e-9, "seconds too");
    is_int(e.rows.at[0].bytes, 800, "and bytes");
    is_int(e.rows.at[1].bytes, -1, "but not what is none");
    double cost = profile_cost(p, &error);
    ok(fabs(cost - 0.001) < 3e-4 && error < 1e-3,
       "the cost is found in spite of late ones: %g +- %g", cost, error);
    ok(e.cost_s > 0 && e.cost_s < 0.1, "in seconds: %g", e.cost_s);
    ok(profile_wish(p) == 1, "and no reason to look less");
    epoch(p, 20, 0.001, seen);
    is_str(seen, "####################", "the next epoch is seen as a whole");
    ok(profile_take(p, &e) && e.sampled == 1 && e.rows.at[0].calls == 200,
       "and not scaled");
    ok(!profile_take(p, &e), "an epoch of nothing");
    profile_destroy(p);
    ok(src.is_gone, "the source ends with it");
}

/* Nobody looks any more after seven iterations of the second epoch. */
static void test_first(void)
{
    struct profile *p = begin(PROFILE_EPOCH, 0);
    struct profile_epoch e;
    char seen[400];
    epoch(p, 12, 0, seen);
    is_str(seen, "###....####.", "the first epoch is looked at");
    ok(profile_take(p, &e) && e.iterations == 12 && e.sampled < 1 &&
           fabs(e.iterations_s - 1.25) < 1e-2,
       "as a whole: %g s", e.iterations_s);
    epoch(p, 7, 0, seen);
    is_str(seen, "...####", "the second until its end");
    profile_finish(p);
    epoch(p, 5, 0, seen);
    is_str(seen, ".....", "which comes in the middle");
    ok(profile_take(p, &e) && e.iterations == 7 && e.seen == 4 &&
           e.rows.at[0].calls == 70,
       "and scaled to this part: %d of %d", e.seen, e.iterations);
    epoch(p, 12, 0, seen);
    is_str(seen, "............", "the third is not");
    ok(!profile_take(p, &e), "and has no rows");
    profile_destroy(p);
}

static void test_dear(void)
{
    struct profile *p = begin(PROFILE_EPOCH, 0);
    struct profile_epoch e;
    char seen[400];
    epoch(p, 80, 0.05, seen);
    ok(profile_take(p, &e), "an epoch in which looking costs 5 %%");
    double wish = profile_wish(p);
    ok(fabs(wish - 0.2) < 0.02, "asks for a fifth: %g", wish);
    profile_agree(p, 0.1); /* another rank pays more */
    epoch(p, 100, 0.05, seen);
    is_str(seen,
           "..................####....................................##"
           "##....................................##",
           "windows of four, a tenth of the epoch");
    ok(profile_take(p, &e), "an epoch of windows");
    is_int(e.rows.at[0].calls, 1000, "is scaled up");
    ok(e.cost_s < 0.1 * 0.1 * 100 * 0.05 * 2, "and cheap: %g s", e.cost_s);
    profile_destroy(p);
}

static void test_sampled(void)
{
    struct profile *p = begin(PROFILE_SAMPLED, 0);
    struct profile_epoch e;
    char seen[200];
    epoch(p, 80, 0, seen);
    is_str(seen,
           "..................####....................................##"
           "##..................",
           "four of forty");
    ok(profile_take(p, &e) && e.rows.at[0].calls == 800, "scaled up");
    epoch(p, 10, 0, seen);
    is_str(seen, "...####...", "four of an epoch that has fewer");
    ok(profile_take(p, &e) && e.rows.at[0].calls == 100, "scaled up");
    epoch(p, 3, 0, seen);
    is_str(seen, "###", "or all there are");
    ok(profile_take(p, &e) && e.rows.at[0].calls == 30, "as they are");
    profile_destroy(p);
}

/* Whichever call fails, training does not notice. */
static void test_faults(void)
{
    char seen[200];
    int n = 1;
    for (;; n++) {
        struct profile *p = begin(PROFILE_EPOCH, n);
        struct profile_epoch e;
        bool has[2];
        for (int i = 0; i < 2; i++) {
            epoch(p, 20, 0, seen);
            has[i] = profile_take(p, &e);
        }
        bool is_hit = src.n_ops >= n;
        ok(!is_hit || (src.is_gone && !has[1] && src.n_ops == n),
           "call %d fails, and is the last", n);
        profile_destroy(p);
        if (!is_hit)
            break;
    }
    ok(n > 5, "several calls");
}

static void test_nobody(void)
{
    struct profile_epoch e;
    double error;
    profile_begin(NULL, 0, 1);
    profile_end(NULL, 1);
    profile_agree(NULL, 0.5);
    profile_finish(NULL);
    ok(!profile_take(NULL, &e) && profile_wish(NULL) == 1 &&
           isnan(profile_cost(NULL, &error)),
       "no profile at all");
    profile_destroy(NULL);
}

static void test_rows(void)
{
    struct profile_rows rows = {.n = 0};
    char name[100];
    for (int i = 0; i < PROFILE_ROWS + 9; i++) {
        (void)snprintf(name, sizeof(name), "row %d", i);
        profile_add(&rows, name, 1, 0.5, 2);
    }
    is_int(rows.n, PROFILE_ROWS, "as many rows as there is room");
    is_str(rows.at[PROFILE_ROWS - 1].metric, "other", "the last is for others");
    is_int(rows.at[PROFILE_ROWS - 1].calls, 10, "all of them");
    is_int(rows.at[PROFILE_ROWS - 1].bytes, 20, "with their bytes");
    memset(name, 'x', sizeof(name) - 1);
    name[99] = '\0';
    rows.n = 0;
    profile_add(&rows, name, 1, 0, -1);
    is_int((long long)strlen(rows.at[0].metric), 64, "a long name is cut");
}

int main(void)
{
    test_cheap();
    test_first();
    test_dear();
    test_sampled();
    test_faults();
    test_nobody();
    test_rows();
    return tap_done();
}
