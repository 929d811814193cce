/* cuda_modules.c - loading all kernels ahead, by a driver that is not there. */
#include "kernels/cuda_modules.h"

#include <stdbool.h>

#include "tests/tap.h"

enum { MODULES = 3, MOST = 4 };

/* Modules of 3, 1 and 4 functions; the first function of each is its mark. */
struct fake {
    uint32_t has[MODULES];
    bool is_loaded[MODULES][MOST];
    int32_t loads, until; /* the load that is refused; 0: none */
    int refuses[3];       /* a step's error, at the last module */
};
enum { MODULE_OF, COUNT, FUNCTIONS };

static const char marks_of[MODULES] = "";
static const void *const marks[MODULES] = {&marks_of[0], &marks_of[1],
                                           &marks_of[2]};

static bool is_last(const struct fake *f, const void *module)
{
    return module == &f->has[MODULES - 1];
}

static int module_of(void *arg, const void *kernel, void **ret)
{
    struct fake *f = arg;
    *ret = &f->has[(const char *)kernel - marks_of];
    return is_last(f, *ret) ? f->refuses[MODULE_OF] : 0;
}

static int count(void *arg, void *module, uint32_t *ret)
{
    const struct fake *f = arg;
    *ret = *(const uint32_t *)module;
    return is_last(f, module) ? f->refuses[COUNT] : 0;
}

static int functions(void *arg, void *module, uint32_t n, void **ret)
{
    struct fake *f = arg;
    const int64_t i = (uint32_t *)module - f->has;
    for (uint32_t k = 0; k < n; k++)
        ret[k] = &f->is_loaded[i][k];
    return is_last(f, module) ? f->refuses[FUNCTIONS] : 0;
}

static int load(void *arg, void *function)
{
    struct fake *f = arg;
    if (++f->loads == f->until)
        return CUDA_MODULES_NO_MEMORY;
    *(bool *)function = true;
    return 0;
}

static const struct cuda_modules_ops ops = {module_of, count, functions, load};

static int32_t n_loaded(const struct fake *f)
{
    int32_t n = 0;
    for (int i = 0; i < MODULES; i++)
        for (int k = 0; k < MOST; k++)
            n += f->is_loaded[i][k];
    return n;
}

static void check(struct fake f, int want, int32_t kernels, int32_t all,
                  const char *what)
{
    int32_t loaded = -1;
    int rc = cuda_modules_load(&ops, &f, marks, MODULES, &loaded);
    ok(rc == want && loaded == kernels && n_loaded(&f) == all,
       "%s: %d kernels, %d functions, error %d", what, loaded, n_loaded(&f),
       rc);
}

int main(void)
{
    const struct fake f = {.has = {3, 1, 4}};
    struct fake g = f;
    check(f, 0, 2 + 0 + 3, 8, "all");
    g.until = 3;
    check(g, CUDA_MODULES_NO_MEMORY, 1, 2, "no memory for the third");
    g.until = 4;
    check(g, CUDA_MODULES_NO_MEMORY, 2, 3, "none for the second module");
    for (int i = 0; i < 3; i++) {
        g = f;
        g.refuses[i] = 500 + i;
        check(g, 500 + i, 2, 4, "a last module that is refused");
    }
    g = f;
    g.has[MODULES - 1] = 0;
    check(g, 0, 2, 4, "an empty module");
    check((struct fake){.has = {0}}, 0, 0, 0, "nothing at all");
    return tap_done();
}
