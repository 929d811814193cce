/* spec_check_elastic.c - check train.global_batch_size against the keys that it
 * goes with: the micro-batch, the range of GPUs, the distribution. */
#include "jobs/spec/spec_check.h"

#include <stdio.h>

#include "jobs/spec/gpu_sizes.h"

static const char batch[] = "train.global_batch_size";

/* Without train.batch_size its default is the micro-batch. */
static bool check_multiple(const struct check *c)
{
    int32_t all = c->s->train.global_batch_size, one = c->s->train.batch_size;
    if (is_bad(c, "train.batch_size"))
        return false;
    if (all % one == 0)
        return true;
    int32_t up = all <= INT32_MAX - one ? (all / one + 1) * one : 0;
    char hint[80];
    if (all > one && up > 0)
        (void)snprintf(hint, sizeof(hint), "as in global_batch_size: %d, or %d",
                       all / one * one, up);
    else
        (void)snprintf(hint, sizeof(hint), "as in global_batch_size: %d", one);
    diagnostics_add(c->report, "E017", place_of(c, batch), batch, hint,
                    "%s: %d is no multiple of train.batch_size: %d", batch, all,
                    one);
    return false;
}

/* With dp and ddp every rank has all samples. */
static void check_distribution(const struct check *c)
{
    static const char path[] = "train.distribution";
    enum spec_distribution d = c->s->train.distribution;
    if (is_set(c, path) && (d == DIST_DP || d == DIST_DDP))
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "one of: ddp-ds, ddp-rr",
                        "'%s: %s' does not go with %s", path,
                        from_of(c, path)->node->text, batch);
}

static void check_range(const struct check *c)
{
    static const char *const keys[] = {"resources.gpus", "resources.nodes",
                                       "resources.gpus_per_node"};
    struct gpu_sizes sizes = spec_gpu_sizes(c->s);
    const char *at = batch;
    char hint[80] = "";
    for (int i = 2; i >= 0; i--) {
        if (is_bad(c, keys[i]))
            return;
        at = is_set(c, keys[i]) ? keys[i] : at;
    }
    if (gpu_sizes_any(&sizes))
        return;
    int32_t near = gpu_sizes_nearest(&sizes);
    if (near > 0 && sizes.gpus.min == sizes.gpus.max)
        (void)snprintf(hint, sizeof(hint), "as in gpus: %d", near);
    else if (near > 0)
        (void)snprintf(hint, sizeof(hint), "as in gpus: %d..%d",
                       near < sizes.gpus.min ? near : sizes.gpus.min,
                       near > sizes.gpus.max ? near : sizes.gpus.max);
    diagnostics_add(
        c->report, "E021", place_of(c, at), at, hint[0] ? hint : NULL,
        "no number of GPUs in %d..%d divides the %d batches of %d that "
        "make up %s: %d",
        sizes.gpus.min, sizes.gpus.max, sizes.parts, c->s->train.batch_size,
        batch, c->s->train.global_batch_size);
}

void spec_check_elastic(const struct check *c)
{
    if (!is_set(c, batch) || c->s->train.global_batch_size == 0 ||
        c->s->kind == SPEC_COMMAND)
        return;
    check_distribution(c);
    if (check_multiple(c))
        check_range(c);
}
