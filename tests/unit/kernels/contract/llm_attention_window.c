/* llm_attention_window.c - attention with a window, and its gradient: a token
 * sees itself and the window - 1 before it, within its document.
 *
 * A window ends at every place of the kernels' tiles: within one, at its edge,
 * and behind some tiles that no token sees any more. Some documents of a pack
 * are longer than it, some are shorter. $MGPU_TEST_ALL, which .ci/nightly sets,
 * has all of it for the host and the emulator, which take long.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/llm_attention_case.h"

struct windows {
    struct layout l;
    int32_t windows[6]; /* 0: no more */
};

static const struct windows plain[] = {
    {{{1}, 2, 1, 8, false}, {1}},
    {{{40}, 2, 2, 1, false}, {1, 2, 39}},
    {{{5, 1, 1, 9, -3}, 4, 2, 7, false}, {1, 3, 8}},
    {{{70, 3, 1, 130, -2}, 2, 1, 8, false}, {5, 64, 65, 129}},
    {{{20, 45}, 2, 2, 64, false}, {32, 33}},
};
static const struct windows plain_more[] = {
    {{{200, 64, 64, 65, -7, 3}, 8, 2, 16, false}, {1, 16, 63, 64, 65, 199}},
    {{{300}, 4, 4, 64, false}, {7, 100, 128, 299}},
    {{{1, 255, 1}, 3, 3, 13, false}, {31, 128, 254}},
    {{{128, 64, 63}, 2, 1, 200, false}, {50, 63, 127}},
};
static const struct windows even[] = {
    {{{1}, 1, 1, 64, true}, {1}},
    {{{129}, 4, 2, 64, true}, {1, 33, 64, 65}},
    {{{9, 100}, 7, 1, 64, true}, {5, 32}},
    {{{63, 40}, 3, 1, 128, true}, {16, 17, 62}},
};
static const struct windows even_more[] = {
    {{{127, 3}, 8, 1, 64, true}, {2, 15, 31, 63, 126}},
    {{{257}, 1, 1, 128, true}, {7, 48, 64, 128, 200}},
    {{{65, 130}, 14, 2, 64, true}, {1, 40, 66, 129}},
    {{{20, 30, 1, 1, 100}, 5, 1, 128, true}, {10, 29, 65}},
};

static void each_window(struct bed *b, const struct windows *w)
{
    for (int i = 0; i < 6 && w->windows[i] > 0; i++)
        attend_window(b, &w->l, w->windows[i]);
}

/* A window that no document is longer than changes no bit. */
static void window_of_all(struct bed *b, bool is_even)
{
    const struct layout l = {{70, 1, 33, -2}, 2, 1, is_even ? 64 : 8, is_even};
    static const int32_t windows[] = {70, 71, INT32_MAX};
    struct attend_case c = attend_make(b, &l);

    attend_forward(&c);
    attend_backward(&c);
    struct expected was = attend_results(&c);
    for (int i = 0; i < 3; i++) {
        c.s.window = windows[i];
        attend_forward(&c);
        attend_backward(&c);
        same(&c.o, was.o, "window %d of 70 tokens: no bit of o", windows[i]);
        same(&c.lse, was.lse, "nor of lse");
        same(&c.dq, was.dq, "nor of dq");
        same(&c.dk, was.dk, "nor of dk");
        same(&c.dv, was.dv, "nor of dv");
    }
    c.s.window = 69;
    attend_forward(&c);
    tensor_pull(&c.o);
    ok(attend_differ(&c.o, was.o, c.ldo, 69, 70) > 0 &&
           attend_differ(&c.o, was.o, c.ldo, 0, 69) == 0,
       "one token less changes the last one alone");
    expected_drop(&was);
    attend_drop(&c);
}

/* `value` in q, k, v or do (0 to 3) of token BAD reaches the tokens whose
 * windows have it, and of those the keys that they see. */
static void window_not_finite(struct bed *b, bool is_even, int which,
                              double value)
{
    enum { BAD = 41, W = 12, V = 2, DO = 3 };
    static const char *const names[ATTEND_INPUTS] = {"q", "k", "v", "do"};
    const struct layout l = {{7, 93}, 2, 1, is_even ? 64 : 8, is_even};
    struct attend_case c = attend_make(b, &l);
    const int64_t lo = BAD - W + 1, hi = BAD + W;

    c.s.window = W;
    attend_forward(&c);
    attend_backward(&c);
    struct expected was = attend_results(&c);
    struct tensor *t = which == DO ? &c.dout : &c.x;
    t->v[which == DO ? BAD * c.ldo : BAD * c.ld + attend_part(&c, which)] =
        value;
    tensor_push(t);
    attend_forward(&c);
    attend_backward(&c);
    attend_pull(&c);
    int64_t bad = 0;
    for (int side = 0; side < 2; side++) {
        const int64_t from = side ? hi : 0, to = side ? c.s.rows : lo;
        bad += attend_differ(&c.o, was.o, c.ldo, from, to) +
               attend_differ(&c.lse, was.lse, l.heads, from, to) +
               attend_differ(&c.dq, was.dq, c.ldd, from, to) +
               attend_differ(&c.dk, was.dk, c.ldd, from, to) +
               attend_differ(&c.dv, was.dv, c.ldd, from, to);
    }
    ok(bad == 0, "%f in %s changes nothing outside of windows that have it",
       value, names[which]);
    is_int(attend_differ(&c.o, was.o, c.ldo, lo, BAD), 0,
           "nor what is attended before it");
    const bool is_seen = which == 1 || which == V;
    ok((!is_seen || attend_differ(&c.o, NULL, c.ldo, hi - 1, hi) > 0) &&
           attend_differ(&c.dq, NULL, c.ldd, BAD, BAD + 1) > 0 &&
           attend_differ(which == DO ? &c.dv : &c.dk, NULL, c.ldd, lo, lo + 1) >
               0,
       "and comes through to the first and the last of them");
    expected_drop(&was);
    attend_drop(&c);
}

/* On an emulator bf16 has edges of windows, and fp16 the rule of a value that
 * is no number. */
static void windows_briefly(struct bed *b)
{
    enum { V = 2, FIRST = 2, N = 2 };
    if (b->dt == DT_F16) {
        window_not_finite(b, true, V, NAN);
        return;
    }
    for (int i = FIRST; i < FIRST + N; i++)
        attend_window(b, &even[i].l, even[i].windows[0]);
}

void attend_windows(struct bed *b, bool is_even)
{
    const struct windows *few = is_even ? even : plain;
    const struct windows *more = is_even ? even_more : plain_more;
    const size_t n = is_even ? sizeof(even) / sizeof(even[0])
                             : sizeof(plain) / sizeof(plain[0]);
    const bool is_night = getenv("MGPU_TEST_ALL") != NULL;
    const bool is_gpu = !b->d->host_memory;
    const bool all = (is_night || is_gpu) && (!b->small || is_even);

    if (is_even && b->small && !is_night) {
        windows_briefly(b);
        return;
    }
    for (size_t i = 0; i < n; i++)
        each_window(b, &few[i]);
    for (size_t i = 0; all && i < 4; i++)
        each_window(b, &more[i]);
    window_of_all(b, is_even);
    for (int which = 0; which < ATTEND_INPUTS; which++)
        window_not_finite(b, is_even, which, NAN);
    window_not_finite(b, is_even, 2, INFINITY);
}
