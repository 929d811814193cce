/* clock.c - a clock that is told, and the real one. */
#include "jobs/base/clock.h"

#include "tests/tap.h"

int main(void)
{
    struct clock_virtual v;
    clock_virtual_init(&v, 10, 1e9);
    const struct clock *c = &v.base;
    ok(c->now_s(c) == 10 && c->wall_s(c) == 1e9 + 10, "stands where told");
    ok(c->now_s(c) == 10, "and stays");
    v.t_s += 2.5;
    ok(c->now_s(c) == 12.5 && c->wall_s(c) == 1e9 + 12.5, "moves when told");

    double a = clock_real.now_s(&clock_real);
    int back = 0;
    for (int i = 0; i < 1000; i++) {
        double b = clock_real.now_s(&clock_real);
        back += b < a;
        a = b;
    }
    is_int(back, 0, "the real clock never goes back");
    /* 2020-01-01 to 2100-01-01 */
    double wall = clock_real.wall_s(&clock_real);
    ok(wall > 1577836800.0 && wall < 4102444800.0, "wall time is since 1970");
    return tap_done();
}
