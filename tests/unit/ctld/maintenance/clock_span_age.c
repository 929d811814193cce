/* clock_span_age.c - how old a time is by what was lived through: by examples,
 * and for random histories in which what ended is never older than it is. */
#include "scheduler/ctld/maintenance/clock_span_age.h"

#include <math.h>
#include <string.h>

#include "tests/tap.h"

#define DAY(n) ((n)*86400.0)

static void is_before(const struct store_span *v, size_t n, double age_s,
                      double want_s, const char *what)
{
    double got_s = span_age_before(v, n, age_s);
    ok(fabs(got_s - want_s) < 1e-3, "%s: day %.2f", what, got_s / DAY(1));
}

static void test_examples(void)
{
    struct store_span one[] = {{1, DAY(100), DAY(150), false}};
    is_before(one, 1, DAY(10), DAY(140), "one span: as the clock says");
    is_before(one, 1, DAY(80), DAY(70), "also before it");

    struct store_span away[] = {{1, DAY(100), DAY(150), false},
                                {2, DAY(180), DAY(190), false}};
    is_before(away, 2, DAY(10), DAY(180), "away for thirty days: to its end");
    is_before(away, 2, DAY(10.5), DAY(150), "a day of it counts, whichever");
    is_before(away, 2, DAY(12), DAY(149), "and no more");
    away[0].is_synced = true;
    is_before(away, 2, DAY(12), DAY(149), "by a clock that was right then");
    away[1].is_synced = true;
    is_before(away, 2, DAY(12), DAY(150), "and is now: all of it counts");
    is_before(away, 2, DAY(40), DAY(150),
              "yet what ended in it was seen later");
    is_before(away, 2, DAY(41), DAY(149), "and when that is old it is, too");

    struct store_span ahead[] = {{1, DAY(100), DAY(150), true},
                                 {2, DAY(4000), DAY(4001), false},
                                 {3, DAY(152), DAY(155), true}};
    is_before(ahead, 2, DAY(2), DAY(150), "years ahead: nothing is old");
    is_before(ahead, 3, DAY(10), DAY(145), "and nothing afterwards");
    is_before(ahead, 3, DAY(60), DAY(95), "nor of before all spans");

    struct store_span back[] = {{1, DAY(100), DAY(150), true},
                                {2, DAY(0), DAY(0.1), false},
                                {3, DAY(152), DAY(155), true}};
    is_before(back, 2, DAY(2), DAY(0), "1970: nothing is old");
    is_before(back, 3, DAY(5), DAY(0), "what ended in 1970 stays");
    back[2].end_s = DAY(170);
    is_before(back, 3, DAY(15), DAY(155), "until it is old enough for sure");
}

/* ---- random histories -----------------------------------------------------
 */
enum { LIVES = 40, ENDS = 20 };

static uint64_t state = 7;

static double chance(double to)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return to * (double)(state >> 11) / 9007199254740992.0;
}

struct history {
    struct store_span v[LIVES];
    /* Of what ended, and was heard of. */
    double true_s[LIVES * (ENDS + 1)], wall_s[LIVES * (ENDS + 1)];
    size_t n_ends;
    double now_s; /* true */
    int n_set;    /* how often the clock was set */
};

static void live(struct history *h, int lives)
{
    double off_s = 0;
    *h = (struct history){.now_s = DAY(10000)};
    for (int i = 0; i < lives; i++) {
        if (i > 0 && chance(1) < 0.5) {
            off_s = chance(1) < 0.4 ? 0 : chance(DAY(9000)) - DAY(4500);
            h->n_set++;
        }
        if (i > 0)
            h->now_s += chance(1) < 0.5 ? chance(DAY(60)) : chance(60);
        struct store_span *s = &h->v[i];
        *s = (struct store_span){.id = (uint64_t)i + 1,
                                 .begin_s = h->now_s + off_s,
                                 .is_synced = off_s == 0 && chance(1) < 0.5};
        /* What ended while nobody was there is heard of now. */
        if (i > 0 && s->begin_s > s[-1].end_s) {
            h->true_s[h->n_ends] = h->now_s;
            h->wall_s[h->n_ends++] =
                s[-1].end_s + chance(s->begin_s - s[-1].end_s);
        }
        double lived_s = chance(DAY(30));
        for (int k = 0; k < ENDS; k++) {
            double at_s = chance(lived_s);
            h->true_s[h->n_ends] = h->now_s + at_s;
            h->wall_s[h->n_ends++] = h->now_s + at_s + off_s;
        }
        h->now_s += lived_s;
        s->end_s = h->now_s + off_s;
    }
}

static void test_random(void)
{
    struct history h;
    int n_early = 0, n_old = 0, n_never = 0;
    for (int run = 0; run < 20000; run++) {
        int lives = 1 + (int)chance(LIVES - 1);
        live(&h, lives);
        double age_s = DAY(1) + chance(DAY(300));
        double before_s = span_age_before(h.v, (size_t)lives, age_s);
        /* The day of a gap that counts may not have been one. */
        double sure_s = age_s - h.n_set * span_slack_s;
        for (size_t i = 0; i < h.n_ends; i++) {
            bool is_old = h.wall_s[i] < before_s;
            n_old += is_old;
            n_early += is_old && h.now_s - h.true_s[i] < sure_s;
        }
        if (h.n_set == 0 && lives == 1)
            n_never += fabs(before_s - (h.v[0].end_s - age_s)) > 1e-3;
    }
    ok(n_old > 100000, "random histories: %d ends are old", n_old);
    is_int(n_early, 0, "of those that are not for sure");
    is_int(n_never, 0, "and all that are, where nothing happened");
}

int main(void)
{
    test_examples();
    test_random();
    return tap_done();
}
