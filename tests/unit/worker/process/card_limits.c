/* card_limits.c - the limits of a card by its name, and the floor of work. */
#include "worker/process/card_limits.h"

#include "tests/tap.h"

static void is_limit(const char *card, enum dtype dt, bool tf32, double flop_s,
                     double byte_s)
{
    struct card_limits c = {0, 0};
    const bool is_known = card_limits_find(card, dt, tf32, &c);
    ok(is_known && c.flop_s == flop_s && c.byte_s == byte_s,
       "%s in %s%s: %g FLOP/s, %g bytes/s", card, dtype_name(dt),
       tf32 ? ", TF32" : "", c.flop_s, c.byte_s);
}

static void is_unknown(const char *card, enum dtype dt)
{
    struct card_limits c = {1, 2};
    ok(!card_limits_find(card, dt, false, &c) && c.flop_s == 1 && c.byte_s == 2,
       "'%s' has no limits in %s", card, dtype_name(dt));
}

int main(void)
{
    /* Of every card a figure; of one every type. */
    is_limit("NVIDIA H100 80GB HBM3", DT_BF16, false, 989.4 * 1e12,
             3.35 * 1e12);
    is_limit("NVIDIA H100 80GB HBM3", DT_F16, false, 989.4 * 1e12, 3.35 * 1e12);
    is_limit("NVIDIA H100 80GB HBM3", DT_F32, true, 494.7 * 1e12, 3.35 * 1e12);
    is_limit("NVIDIA H100 80GB HBM3", DT_F32, false, 66.9 * 1e12, 3.35 * 1e12);
    is_limit("NVIDIA H100 80GB HBM3", DT_F64, false, 66.9 * 1e12, 3.35 * 1e12);
    is_limit("NVIDIA H100 PCIe", DT_BF16, false, 756e12, 2e12);
    is_limit("NVIDIA H200", DT_BF16, false, 989.4 * 1e12, 4.8 * 1e12);
    is_limit("NVIDIA A100-SXM4-40GB", DT_BF16, false, 312e12, 1.555 * 1e12);
    is_limit("NVIDIA A100-PCIE-40GB", DT_BF16, false, 312e12, 1.555 * 1e12);
    is_limit("NVIDIA A100-SXM4-80GB", DT_BF16, false, 312e12, 2.039 * 1e12);
    is_limit("NVIDIA A100 80GB PCIe", DT_BF16, false, 312e12, 1.935 * 1e12);
    is_limit("NVIDIA L40S", DT_BF16, false, 362e12, 0.864 * 1e12);
    is_limit("NVIDIA B200", DT_BF16, false, 2250e12, 8e12);
    /* TF32 is for fp32 alone. */
    is_limit("NVIDIA H200", DT_BF16, true, 989.4 * 1e12, 4.8 * 1e12);
    is_unknown("NVIDIA H100", DT_BF16);
    is_unknown("NVIDIA H100 80GB HBM3 MIG 3g.40gb", DT_BF16);
    is_unknown("nvidia h200", DT_BF16);
    is_unknown("", DT_BF16);
    is_unknown("NVIDIA L40S", DT_F64);

    struct card_floor f = {.card = {.flop_s = 4, .byte_s = 2}};
    card_floor_add(&f, 12, 4); /* 3 s, 2 s */
    ok(f.s == 3, "products take longer");
    card_floor_add(&f, 4, 10); /* 1 s, 5 s */
    ok(f.s == 8, "memory takes longer");
    return tap_done();
}
