/* launches.c - how many launches a training step takes.
 *
 * Each costs some 2 us on a GPU, and a kernel that reads what another one has
 * just written moves it twice. The goal is 260 for MobileNetV2 in bf16; today's
 * number is below, and is lowered with each kernel that goes. A kernel that is
 * added turns this test red, and so does one that `make gpu-model` does not
 * know.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/step/traffic.h"
#include "tests/tap.h"

enum {
    MOST_BF16 = 254, /* goal 260 */
    MOST_FP32 = 453,
    SIZE = 224,
    BATCH = 256
};

/* Kernels by name, the most frequent first. */
static void tell_kernels(const struct step *s)
{
    struct count {
        const char *name;
        int32_t n;
    } *c = calloc((size_t)s->n + 1, sizeof(*c));
    int32_t kinds = 0;

    for (int32_t i = 0; c != NULL && i < s->n; i++) {
        int32_t k = 0;
        while (k < kinds && strcmp(c[k].name, s->at[i].kernel) != 0)
            k++;
        if (k == kinds)
            c[kinds++].name = s->at[i].kernel;
        c[k].n++;
    }
    for (int32_t k = 0; k < kinds; k++)
        tap_diag("%4d %s", c[k].n, c[k].name);
    free(c);
}

static void count(struct device *d, struct step *s, enum dtype dt,
                  const char *type, int32_t most)
{
    struct error err = ERROR_INIT;
    int32_t unknown = 0;

    if (!ok(step_record(d, SIZE, BATCH, dt, s, &err) == 0,
            "%s: a step is recorded", type)) {
        tap_diag("%s", err.msg);
        return;
    }
    for (int32_t i = 0; i < s->n; i++) {
        struct traffic t;
        if (traffic_of(&s->at[i], &t, &err) < 0 && unknown++ == 0)
            tap_diag("%s", err.msg);
    }
    is_int(unknown, 0, "launches that the model does not know");
    if (!ok(s->n <= most && s->n > 0, "%s: %d launches a step, at most %d",
            type, s->n, most))
        tell_kernels(s);
    else if (s->n < most)
        tap_diag("%s: %d launches are fewer than %d: lower the limit", type,
                 s->n, most);
}

int main(void)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;
    static struct step s;

    if (!ok(device_record_create(&d, &err) == 0, "a device")) {
        tap_diag("%s", err.msg);
        return tap_done();
    }
    count(d, &s, DT_BF16, "bf16", MOST_BF16);
    count(d, &s, DT_F32, "fp32", MOST_FP32);
    d->ops->destroy(d);
    return tap_done();
}
