/* mutants.c - the contract on the emulator finds bugs in the real kernels: a
 * removed barrier, a wrong shuffle width, a lane that is off by one.
 *
 * Each row of mutants.def is a kernel built from sources with one such bug.
 * It takes its family's place in a device; a process of its own runs the
 * contract on it, and is stopped at the first test that fails. One that
 * passes everything is a hole in the contract.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/simt/simt_device.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

/* Another list than mutants.def: night/mutants.c. */
#ifndef MUTANTS
#define MUTANTS "tests/simt/mutants.def"
#endif

#define MUTANT(n, kernel, file, how) \
    void simt_##kernel##_mutant##n(struct device_ops *ops);
#include MUTANTS
#undef MUTANT

static const struct {
    const char *what;
    void (*install)(struct device_ops *ops);
} mutants[] = {
    {"none", NULL},
#define MUTANT(n, kernel, file, how) \
    {#kernel ", " #file ": " how, simt_##kernel##_mutant##n},
#include MUTANTS
#undef MUTANT
};

/* Of a bug in kernels for tensor cores: whose. */
enum half { NO_HALF, CONVOLUTION, ATTENTION };

/* What such a bug can be in: tensor cores have no fp32. */
static void try_half(struct device *d, bool is_attention)
{
    struct bed half = bed_make(d, "mutant", DT_BF16, true);
    if (is_attention)
        contract_llm_attention_even(&half);
    else
        contract_fused(&half);
    bed_drop(&half);
}

static void try_device(int32_t lanes, bool reverse,
                       void (*install)(struct device_ops *ops), enum half half)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;
    if (!ok(device_simt_create(lanes, reverse, &d, &err) == 0, "a device"))
        return;
    struct device_ops ops = *d->ops;
    const struct device_ops *was = d->ops;
    if (install)
        install(&ops);
    d->ops = &ops;
    if (half != NO_HALF) /* the sooner it is found */
        try_half(d, half == ATTENTION);
    struct bed b = bed_make(d, "mutant", DT_F32, true);
    contract_loss(&b);
    contract_flat(&b);
    contract_optim(&b);
    contract_exact(&b);
    contract_norm(&b);
    contract_llm_norm(&b);
    contract_llm_head_norm(&b);
    contract_llm_rope(&b);
    contract_llm_rows(&b);
    contract_llm_nf4(&b);
    contract_llm_fake_quant(&b);
    contract_llm_attention(&b);
    contract_llm_attention_step(&b);
    contract_image(&b);
    bed_drop(&b);
    if (half == NO_HALF)
        try_half(d, false);
    d->ops = was;
    d->ops->destroy(d);
}

/* The status of a mutant that was called for a type that it has not. */
enum { NO_TYPE = 98 };

static void child(int out, void (*install)(struct device_ops *ops),
                  enum half half)
{
    (void)alarm(300); /* a bug may be one that never ends */
    if (dup2(out, STDOUT_FILENO) < 0 || !freopen("/dev/null", "w", stderr))
        _exit(99);
    try_device(96, false, install, half);
    try_device(96, true, install, half);
    _exit(tap_done());
}

/* Whether a test fails, or the process ends in any other way than well, unless
 * it was asked for what it has not (tests/simt/mutate). */
static bool is_found(void (*install)(struct device_ops *ops), enum half half,
                     char line[400])
{
    int fd[2], status = 0;
    bool found = false;
    (void)fflush(NULL);
    pid_t pid = pipe(fd) == 0 ? fork() : -1;
    if (pid < 0)
        exit(1);
    if (pid == 0)
        child(fd[1], install, half);
    (void)close(fd[1]);
    FILE *f = fdopen(fd[0], "r");
    if (!f)
        exit(1);
    while (!found && fgets(line, 400, f))
        found = strncmp(line, "not ok", 6) == 0;
    if (found)
        (void)kill(pid, SIGKILL);
    (void)fclose(f);
    if (waitpid(pid, &status, 0) != pid)
        exit(1);
    return found || !WIFEXITED(status) ||
           (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != NO_TYPE);
}

static enum half half_of(const char *what)
{
    return strncmp(what, "pointwise", 9) == 0 ? CONVOLUTION
           : strstr(what, "_mma.h:")          ? ATTENTION
                                              : NO_HALF;
}

int main(void)
{
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        char last[400] = "";
        bool found =
            is_found(mutants[i].install, half_of(mutants[i].what), last);
        if (!ok(found == (i > 0), "%zu: %s", i, mutants[i].what))
            tap_diag("the last test: %s", last);
    }
    return tap_done();
}
