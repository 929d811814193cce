/* checker.c - the race checker finds the races it is there for, and no others.
 *
 * First in kernels of a few lines, then in kernels of ours that miss a barrier
 * (rows of tests/simt/mutants.def and mutants_night.def). A removed barrier is
 * found by what was accessed: the results are not looked at.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/race/contract.h"
#include "tests/race/faulty.h"

static void test_faults(void)
{
    static const struct {
        const char *what;
        enum race_fault fault;
        bool is_race;
    } cases[] = {
        {"each lane its own value", RACE_NONE, false},
        {"a barrier between a write and a read", RACE_BARRIER, false},
        {"two reads of one value", RACE_READS, false},
        {"two bytes of one word", RACE_BYTES, false},
        {"shared memory of two blocks", RACE_SHARED, false},
        {"two launches that write one value", RACE_LAUNCHES, false},
        {"a read of what another lane wrote", RACE_READ_AFTER_WRITE, true},
        {"a write of what another lane read", RACE_WRITE_AFTER_READ, true},
        {"a write of what many lanes read, the writer last",
         RACE_WRITE_AFTER_READS, true},
        {"the same value, written by two lanes", RACE_SAME_VALUE, true},
        {"a shuffle in place of a barrier", RACE_SHUFFLE, true},
        {"two blocks that write one value", RACE_BLOCKS_WRITE, true},
        {"a block that reads what another wrote", RACE_BLOCK_READS, true},
        {"a block that writes what another read", RACE_BLOCK_WRITES, true},
    };
    struct race_count seen;

    race_take(&seen);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        race_try(cases[i].fault);
        race_take(&seen);
        if (!ok((seen.races > 0) == cases[i].is_race && seen.accesses > 0,
                "%s: %s", cases[i].what, cases[i].is_race ? "a race" : "none"))
            tap_diag("%s", seen.first);
    }
}

#define MUTANT(n, kernel) \
    void simt_##kernel##_mutant##n(struct device_ops *ops);
#include "tests/race/mutants.def"
#undef MUTANT

static const struct {
    const char *what;
    void (*install)(struct device_ops *ops);
} mutants[] = {
    {"none", NULL},
#define MUTANT(n, kernel) {#n ", " #kernel, simt_##kernel##_mutant##n},
#include "tests/race/mutants.def"
#undef MUTANT
};

/* In a process of its own, whose results nobody looks at: a missing barrier
 * may spoil them. Returns whether the checker found a race. */
static bool has_race(void (*install)(struct device_ops *ops))
{
    struct device *d = NULL;
    struct race_count seen;
    int status = 0;

    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout) ||
            device_simt_create(96, false, &d, NULL) < 0)
            _exit(99);
        struct device_ops ops = *d->ops;
        if (install)
            install(&ops);
        d->ops = &ops;
        struct bed b = bed_make(d, "mutant", DT_F32, true);
        contract_norm(&b);
        contract_loss(&b);
        race_take(&seen);
        _exit(seen.accesses == 0 ? 99 : seen.races > 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
        WEXITSTATUS(status) > 1)
        tap_diag("the mutant ended with %#x", (unsigned)status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void test_mutants(void)
{
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++)
        ok(has_race(mutants[i].install) == (i > 0), "mutant %s: %s",
           mutants[i].what, i > 0 ? "a race" : "no race");
}

int main(void)
{
    test_faults();
    test_mutants();
    return tap_done();
}
