/* attention_long.c - attention of 2,048 tokens of one document, four query
 * heads for a key head of 128 values, on the emulated tensor cores.
 *
 * The documents of the contract have at most some 300 tokens, so a kernel that
 * loses tiles of longer ones keeps it.
 *
 * It takes almost two minutes, so .ci/nightly alone runs it ($MGPU_TEST_ALL).
 */
#include <stdlib.h>

#include "tests/simt/simt_device.h"
#include "tests/slow.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/llm_attention_case.h"

int main(void)
{
    static const struct layout one = {{2048}, 4, 1, 128, true};
    struct device *d = NULL;
    struct error err = ERROR_INIT;

    if (getenv("MGPU_TEST_ALL") == NULL || is_slow)
        tap_skip_all("takes two minutes: MGPU_TEST_ALL=1, without a sanitizer");
    if (!ok(device_simt_create(256, false, &d, &err) == 0, "a device")) {
        tap_diag("%s", err.msg);
        return tap_done();
    }
    struct bed b = bed_make(d, "simt/256", DT_BF16, true);
    attend_all(&b, &one);
    bed_drop(&b);
    d->ops->destroy(d);
    return tap_done();
}
