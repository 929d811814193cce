/* cuda.c - finding the plug-in, the words when there is none; and, where
 * there is a GPU, the contract on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/card_name.h"
#include "kernels/exec/exec_device.h"
#include "kernels/module_load.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static void test_search(void)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;

    ok(device_cuda_create(-1, &d, &err) == -1 && err.code == ERR_INVAL,
       "a negative index: %s", err.msg);
    (void)setenv("MGPU_CUDA_PLUGIN", "/nonexistent/plug-in.so", 1);
    ok(device_cuda_create(0, &d, &err) == -1 && err.code == ERR_UNAVAIL &&
           strstr(err.msg, "no plug-in at '/nonexistent/plug-in.so'") != NULL,
       "a plug-in that is not there: %s", err.msg);
    (void)setenv("MGPU_CUDA_PLUGIN", "/proc/self/status", 1);
    ok(device_cuda_create(0, &d, &err) == -1 && err.code == ERR_UNAVAIL &&
           strncmp(err.msg, "plug-in: ", 9) == 0,
       "a file that is no plug-in: %s", err.msg);
    (void)unsetenv("MGPU_CUDA_PLUGIN");
    ok(device_cuda_create(0, &d, &err) == -1 && err.code == ERR_UNAVAIL &&
           strstr(err.msg, "no plug-in at '") != NULL &&
           strstr(err.msg, "/libmgpu-cuda.so'") != NULL,
       "no plug-in beside the program: %s", err.msg);
    struct module_load l;
    ok(device_cuda_load(NULL, &l, &err) == -1 && err.code == ERR_UNAVAIL,
       "nor does one load kernels: %s", err.msg);
    ok(d == NULL, "a failure leaves the caller's pointer");
}

/* More than there is: refused, and the device goes on. */
static void test_too_much(struct device *d)
{
    struct error err = ERROR_INIT;
    size_t left = 0, all = 0;
    void *p = NULL;

    ok(d->ops->memory(d, &left, &all, &err) == 0 && left <= all && all > 0,
       "%zu of %zu bytes are left", left, all);
    ok(d->ops->alloc(d, all + all / 2, &p, &err) == -1 &&
           err.code == ERR_NOMEM && p == NULL,
       "more than there is: %s", err.msg);
    ok(d->ops->alloc(d, 1 << 20, &p, NULL) == 0, "less is still given");
    d->ops->release(d, p);
}

/* Before anything else runs: then the first launch finds its code loaded. What
 * it takes all the same is only printed, because other programs may run. */
static void test_load(struct device *d)
{
    struct module_load l = {.kernels = 0}, again = {.kernels = 0};
    struct error err = ERROR_INIT;
    size_t before = 0, after = 0, all = 0;
    void *p = NULL;

    ok(device_cuda_load(d, &l, &err) == 0 && l.refused == 0,
       "the kernels load ahead: CUDA error %d %s", l.refused, err.msg);
    ok(device_cuda_load(d, &again, &err) == 0 && again.kernels == l.kernels,
       "%d of them, or none by an old driver", l.kernels);
    must(d->ops->alloc(d, 1 << 20, &p, ERR));
    must(d->ops->memory(d, &before, &all, ERR));
    must(d->ops->add(d, DT_F32, p, p, 1000, ERR));
    must(d->ops->sync(d, ERR));
    must(d->ops->memory(d, &after, &all, ERR));
    d->ops->release(d, p);
    tap_diag("loading %d kernels took %.1f MiB, the first launch %.1f MiB",
             l.kernels, (double)l.bytes / (1 << 20),
             ((double)before - (double)after) / (1 << 20));
}

/* A launch that no GPU can take is told by the op, not later. The last test:
 * the device is unusable after it. */
static void test_bad_launch(struct device *d)
{
    struct exec_device *exec = (struct exec_device *)d;
    struct error err = ERROR_INIT;
    void *p = NULL;

    must(d->ops->alloc(d, 1 << 20, &p, ERR));
    exec->lanes = 1 << 20;
    ok(d->ops->add(d, DT_F32, p, p, 1000, &err) == -1 &&
           err.code == ERR_EXTERN &&
           strncmp(err.msg, "sum of two: CUDA: ", 18) == 0,
       "a bad launch: %s", err.msg);
    d->ops->release(d, p);
}

/* The plug-in of this build, if it has one, on the first GPU. */
static void test_device(void)
{
    char path[4096];
    const char *bin = getenv("MGPU_BIN");
    struct device *d = NULL;
    struct error err = ERROR_INIT;
    char card[CARD_NAME_CAP] = "";

    (void)snprintf(path, sizeof(path), "%s/../lib/libmgpu-cuda.so",
                   bin ? bin : ".");
    if (access(path, R_OK) < 0) {
        ok(true, "the contract on a GPU # SKIP this build has no plug-in");
        return;
    }
    (void)setenv("MGPU_CUDA_PLUGIN", path, 1);
    ok(device_cuda_card(0, card, &err) == 0 ? card[0] != '\0'
                                            : err.code == ERR_UNAVAIL,
       "the card's name, or there is no driver: '%s' %s", card, err.msg);
    int rc = device_cuda_create(0, &d, &err);
    (void)unsetenv("MGPU_CUDA_PLUGIN");
    if (rc < 0) {
        ok(err.code == ERR_UNAVAIL, "the contract on a GPU # SKIP %s", err.msg);
        return;
    }
    is_str(d->ops->name, "cuda", "the name of a GPU");
    ok(!d->host_memory && d->threads == 0, "its memory is its own");
    ok(d->ops->stream && d->ops->stream(d), "it has a stream for NCCL");
    test_load(d);
    /* Under compute-sanitizer everything takes a hundred times longer. */
    contract_device(d, "cuda", getenv("MGPU_TEST_SMALL") != NULL);
    test_too_much(d);
    test_bad_launch(d);
    d->ops->destroy(d);
}

int main(void)
{
    test_search();
    test_device();
    return tap_done();
}
