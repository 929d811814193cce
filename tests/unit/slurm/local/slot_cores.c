/* slot_cores.c - the cores of an attempt are those of its slots. */
#include "slurm/local/slot_cores.h"

#include "tests/tap.h"

/* The cores of a machine with so many slots, where the attempt has `used`. */
static int32_t cores_of(int32_t n_slots, bool binds, const char *used,
                        cpu_set_t *ret)
{
    struct alloc_local l = {.n_slots = n_slots, .binds = binds};
    struct local_attempt a = {.n_slots = 0};
    for (int32_t i = 0; used[i] != '\0'; i++) {
        a.used[i] = used[i] == '1';
        a.n_slots += a.used[i];
    }
    return slot_cores(&l, &a, ret);
}

static void test_bound(void)
{
    cpu_set_t all, first, second, both, last;
    int32_t n = slot_cores_all(&all);
    ok(n >= 1 && CPU_COUNT(&all) == n, "%d cores are allowed", n);
    is_int(cores_of(1, true, "1", &first), n, "one slot has all cores");
    ok(CPU_EQUAL(&first, &all), "exactly those");
    if (n < 2)
        return;
    is_int(cores_of(2, true, "10", &first), n / 2, "the first of two: half");
    is_int(cores_of(2, true, "01", &second), n / 2, "the second, too");
    CPU_AND(&both, &first, &second);
    is_int(CPU_COUNT(&both), 0, "they share none");
    is_int(cores_of(2, true, "11", &both), 2LL * (n / 2),
           "both slots: both parts");
    CPU_OR(&first, &first, &second);
    ok(CPU_EQUAL(&first, &both), "exactly those");
    CPU_AND(&first, &both, &all);
    ok(CPU_EQUAL(&first, &both), "and only allowed ones");
    /* n - 1 slots leave one core over if there are more than two. */
    char used[SLOTS_CAP + 1] = "";
    for (int32_t i = 0; i < n - 1 && i < SLOTS_CAP; i++)
        used[i] = i == n - 2 ? '1' : '0';
    if (n > 2 && n <= SLOTS_CAP)
        is_int(cores_of(n - 1, true, used, &last), 1,
               "what cannot be divided is nobody's");
}

static void test_unbound(void)
{
    cpu_set_t all, set;
    int32_t n = slot_cores_all(&all);
    is_int(cores_of(2, false, "10", &set), n, "without local.bind: all cores");
    ok(CPU_EQUAL(&set, &all), "exactly those");
    is_int(cores_of(n + 1, true, "1", &set), n, "more slots than cores: all");
    is_int(cores_of(2, true, "00", &set), n, "an attempt without a slot: all");
    is_int(cores_of(0, false, "", &set), n, "a machine without slots: all");
}

int main(void)
{
    test_bound();
    test_unbound();
    return tap_done();
}
